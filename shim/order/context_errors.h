/*
 * context_errors.h - errors that a context does not survive.
 *
 * Once the program has received such an error, a hit of the pool or a free without a wait
 * would suggest that the context still works. So each hooked call that returns such an
 * error reports it here. From then on every memory request of this context goes to the
 * driver.
 *
 * Locks: none of its own; the functions may be called from any thread.
 * Source: context_errors.def
 */
#ifndef GS_CONTEXT_ERRORS_H
#define GS_CONTEXT_ERRORS_H

#include "shim/state/state.h"

/* Returns true if a context can do no more work after this error. */
bool gs_error_ends_context(CUresult result);

/*
 * Returns true if the memory still belongs to the program after the wait of its free has
 * failed with this error, so that the program may free it again. True after a temporary
 * error, such as out of memory. False after an error that ends the context and while the
 * driver shuts down: the memory can no longer be freed. False also for a refusal because
 * a stream captures: the free then goes on without the wait.
 */
bool gs_error_keeps_memory(CUresult error);

static inline bool gs_wait_keeps_memory(CUresult result)
{
    return GS_UNLIKELY(result != CUDA_SUCCESS) && gs_error_keeps_memory(result);
}

/* Called with the result of a call by a wrapper that has entered the library. `context`
 * may be NULL. Acts only on an error that ends the context. */
void gs_context_record_error(const struct gs_context *context, CUresult result);

/* Like gs_context_record_error, for a wrapper that has not entered the library. ctx NULL:
 * the current context. */
void gs_context_record_error_of(CUcontext ctx, CUresult result)
    __attribute__((cold, noinline));

/* Like gs_context_record_error_of, with an inline test for success. */
static inline void gs_context_record_result(CUcontext ctx, CUresult result)
{
    if (GS_UNLIKELY(result != CUDA_SUCCESS)) {
        gs_context_record_error_of(ctx, result);
    }
}

#endif
