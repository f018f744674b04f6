/*
 * free_scope.h - the work for which a free of pooled memory waits: by the native free
 * (gs_free_waits.def), or by GPUSHIM_FREE_WAITS.
 *
 * If the native free does not wait for all work that may use the memory, the block is
 * held back until the remaining work has completed (epochs.h, all_contexts.h).
 *
 * Owns: the table.   Lock: none; written at start.   Design: docs/free.md
 */
#ifndef GS_FREE_SCOPE_H
#define GS_FREE_SCOPE_H

#include "gs_free_waits.h"
#include "shim/settings/options.h"

/* Called at start, before any free. Logs an invalid text, which changes nothing. */
void gs_free_scopes_start(const struct gs_options *options);

enum gs_free_scope gs_free_scope(enum gs_free_kind kind, size_t bytes);

/* Returns true if a free of any kind also waits for other contexts of its device. */
bool gs_free_scopes_reach_others(void);

/* Returns true if a free of device memory may hold a block back instead of waiting. */
bool gs_free_scopes_hold(void);
/* Returns true if some class waits only for the blocking streams. */
bool gs_free_scopes_block(void);

#endif
