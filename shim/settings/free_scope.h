/*
 * free_scope.h - which work a free of pooled memory waits for: what the native one waits
 * for (gs_free_waits.def), or what GPUSHIM_FREE_WAITS says it waits for.
 *
 * Where the native free waits for less than everything that may use the memory, the block
 * is held back until the rest has completed (epochs.h, all_contexts.h).
 *
 * Owns: the table.   Lock: none; written at start.   Design: docs/free.md
 */
#ifndef GS_FREE_SCOPE_H
#define GS_FREE_SCOPE_H

#include "gs_free_waits.h"
#include "options.h"

/* At start, before any free. A text that is wrong is named, and changes nothing. */
void gs_free_scopes_start(const struct gs_options *options);

enum gs_free_scope gs_free_scope(enum gs_free_kind kind, size_t bytes);

/* Whether a free of any kind waits for other contexts of its device, too. */
bool gs_free_scopes_reach_others(void);

/* Whether a free of device memory may hold a block back instead of waiting. */
bool gs_free_scopes_hold(void);
/* Whether some class waits for the blocking streams alone. */
bool gs_free_scopes_block(void);

#endif
