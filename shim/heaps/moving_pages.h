/*
 * moving_pages.h - GPUSHIM_POOL_VMM: large segments of pages that move.
 *
 * Such memory differs from cuMemAlloc's in what it may be used for: it has no handle for
 * other processes, and contexts on other devices have no access. So it ends for good
 * once the program shows that it needs more: from then on new memory is cuMemAlloc's.
 */
#ifndef GS_MOVING_PAGES_H
#define GS_MOVING_PAGES_H

#include "shim/state/state.h"

/* Set once at start if the option asks for it, before any call is served. */
extern bool gs_moving_pages_wanted __attribute__((visibility("hidden")));

/* Called at start, once the pool exists and GPUSHIM_IPC is decided. */
void gs_moving_pages_start(const struct gs_options *options);
void gs_moving_pages_reset(void); /* in a forked child */

/* The backend of a context's heap with such segments. Called at start, by one thread. */
const struct gs_backend *gs_moving_pages_backend(void);
/* Returns a segment to the driver. Returns false, and does nothing, if it is
 * cuMemAlloc's. */
bool gs_moving_pages_give(struct gs_context *context, uint64_t addr, size_t bytes);

/*
 * Pages of a segment that stays apart from all others (gs_heap_alloc_apart), whatever the
 * option and gs_moving_pages_end say. `make` is its `make`; `empty` gives the pages to
 * the device, and `fill` gets others at the same addresses. Errors: GS_ERR_NOMEM;
 * GS_ERR_BACKEND, GS_ERR_UNPOOLABLE: without such memory
 */
void gs_moving_pages_prepare(void); /* before the first of them, by one thread */
enum gs_status gs_moving_pages_make_apart(void *self, size_t bytes, uint64_t *addr,
                                          int *native) GS_MUST_USE;
void gs_moving_pages_empty(struct gs_context *context, uint64_t addr, size_t bytes);
enum gs_status gs_moving_pages_fill(struct gs_context *context, uint64_t addr,
                                    size_t bytes) GS_MUST_USE;

/* The slow path of gs_moving_pages_end. */
void gs_moving_pages_stop(const char *cause);

/* Called when the program needs what only cuMemAlloc's memory has; `cause`: the call's
 * name. Blocks that are live stay as they are. No lock may be held. */
static inline void gs_moving_pages_end(const char *cause)
{
    if (GS_UNLIKELY(gs_moving_pages_wanted)) {
        gs_moving_pages_stop(cause);
    }
}

/* Called when a context was found: contexts on two devices end it. */
void gs_moving_pages_context_found(const struct gs_context *context);
/* Called when the context's heap has ended: its memory goes back, which the driver does
 * for cuMemAlloc's by itself. */
void gs_moving_pages_context_ended(struct gs_context *context);

#endif
