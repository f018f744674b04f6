/*
 * warmup.h - GPUSHIM_WARMUP: allocates blocks before the program asks for them.
 */
#ifndef GS_WARMUP_H
#define GS_WARMUP_H

#include "shim/limits/warmup_list.h"
#include "shim/state/contexts.h"

extern bool gs_warmup_wanted; /* written once, at start, before any call is served */

/* Called at start: reads the list, and logs a line for each wrong item. */
void gs_warmup_start(const char *text);
void gs_warmup_reset(void); /* in a forked child */
/* Allocates the blocks of a list, then frees them all. `who`: whose list it is, for the
 * log. Returns false if there is memory for some of them only. */
bool gs_warmup_allocate(const struct gs_context *context,
                        const struct gs_warmup_list *blocks, const char *who);
/* The same for the list of GPUSHIM_WARMUP, once a context. */
void gs_warmup_run(const struct gs_context *context);

/* Called before a pooled allocation of the context is served. */
static inline void gs_warmup(const struct gs_context *context)
{
    if (GS_UNLIKELY(gs_warmup_wanted)) {
        gs_warmup_run(context);
    }
}

#endif
