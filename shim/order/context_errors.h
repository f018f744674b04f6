/*
 * context_errors.h - errors that a context does not survive.
 *
 * Once the program has been told of such an error, a hit of the pool or a free that waits
 * for nothing would claim that the context still works. So each hooked call that returns
 * one reports it here, and from then on every request for memory of that context asks the
 * driver.
 *
 * Locks: none of its own; the functions may be called from any thread.
 * Source: context_errors.def
 */
#ifndef GS_CONTEXT_ERRORS_H
#define GS_CONTEXT_ERRORS_H

#include "state.h"

/* Is it an error after which the context can do no more work? */
bool gs_error_ends_context(CUresult result);

/*
 * The wait of a free has returned `result`: is the memory still the program's, so that it
 * may free it again? Yes after an error that passes, such as out of memory. No after one
 * that ends the context, or while the driver shuts down: nobody can free it any more. A
 * refusal because a stream captures is neither: the free goes on without the wait.
 */
bool gs_error_keeps_memory(CUresult error);

static inline bool gs_wait_keeps_memory(CUresult result)
{
    return GS_UNLIKELY(result != CUDA_SUCCESS) && gs_error_keeps_memory(result);
}

/* A wrapper that has entered the library got `result`, an error or not, in `context`,
 * which may be NULL. Does nothing unless the error ends the context. */
void gs_context_record_error(const struct gs_context *context, CUresult result);

/* The same for a wrapper that has not entered. ctx NULL: the current one. */
void gs_context_record_error_of(CUcontext ctx, CUresult result)
    __attribute__((cold, noinline));

/* The same, for the path of success: a test and a branch. */
static inline void gs_note_result(CUcontext ctx, CUresult result)
{
    if (GS_UNLIKELY(result != CUDA_SUCCESS)) {
        gs_context_record_error_of(ctx, result);
    }
}

#endif
