/*
 * redzones.h - GPUSHIM_CHECK_REDZONE and GPUSHIM_CHECK_FILL: device memory that nobody is
 * to write holds a pattern, and is looked at later.
 *
 * Behind an allocation, while it lives; all of it, once it is freed and until it is used
 * again. What was changed is an error in the report. Where a look would have to wait, or
 * would break a capture, it is left out and counted. Off, nothing of this is called but
 * for a look at gs_redzones_on, and that not on the paths of most calls.
 *
 * Lock: all functions may be called from any thread; a mutex inside, never held over a
 * call of the driver or the pool.   Design: docs/checks.md
 */
#ifndef GS_REDZONES_H
#define GS_REDZONES_H

#include "state.h"

extern bool gs_redzones_on; /* written at start, before any call is served */

/* At start. What does not go together is told in one line, and left out of *options. */
void gs_redzones_adjust(struct gs_options *options);
void gs_redzones_start(const struct gs_options *options);
void gs_redzones_reset(void); /* in a forked child */

/* gs_heap_alloc with the checks on. The memory has been looked at, filled, and has a red
 * zone. */
enum gs_status gs_redzones_alloc_checked(struct gs_state *state,
                                         const struct gs_context *context, size_t bytes,
                                         struct gs_block **out, int *native) GS_MUST_USE;

static inline GS_MUST_USE enum gs_status
gs_redzones_alloc(struct gs_state *state, const struct gs_context *context, size_t bytes,
                  struct gs_block **out, int *native)
{
    return GS_UNLIKELY(gs_redzones_on)
               ? gs_redzones_alloc_checked(state, context, bytes, out, native)
               : gs_heap_alloc(context->heap, bytes, out, native);
}

/*
 * A claimed block is about to be freed; its record is still there. `answer`:
 * GS_CHECK_LOOKED, if all that may write to it has been waited for; else why not.
 * Out: *was  what is known of it, addr 0 if nothing
 */
void gs_redzones_look(struct gs_state *state, struct gs_block *block, enum gs_api api,
                      enum gs_check_count answer, struct gs_allocation *was);
/* It was freed, and nothing uses it: filled, held back, or freed. */
void gs_redzones_free(struct gs_state *state, struct gs_block *block, enum gs_api api,
                      const struct gs_allocation *was);

/* The driver itself has served an allocation: nothing of it is looked at. */
void gs_redzones_passed(const struct gs_state *state);

/* Memory of the context is about to be given back to the driver. */
void gs_redzones_unmap(const struct gs_context *context, uint64_t addr, size_t bytes);

/* The context may be about to end: look at all that it has. */
void gs_redzones_context_ends(struct gs_state *state, CUcontext handle);
/* A use of it is about to be taken back, which may be its last. Unless that is `last` as
 * far as is known, all is looked at no more than once a second for each device: a program
 * may take and give back uses all the time. */
void gs_redzones_use_ends(struct gs_state *state, CUcontext handle, int device,
                          bool last);
/* It has ended, its heap is dead. */
void gs_redzones_context_ended(const struct gs_context *context);

/* The process ends: what was not looked at is counted. `again`: it may yet go on
 * (gs_finish_report); that counts until gs_redzones_go_on. */
void gs_redzones_finish(struct gs_state *state, bool again);
/* A report is about to be written: the process has gone on since the last one. */
void gs_redzones_go_on(struct gs_state *state);

#endif
