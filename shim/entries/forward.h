/*
 * forward.h - the wrappers of the rows GS_FORWARD and GS_SHARED of hooks.def.
 *
 * An entry file defines the functions that its rows name, then GS_FILE_ and its name as a
 * comma, and includes this file as its last line: the wrappers of its own rows expand
 * there. They are plain C with the parameters of cuda.h's declarations, which the
 * compiler compares.
 *
 * Owns:  nothing.   Lock: none.
 */
#ifndef GS_FORWARD_H
#define GS_FORWARD_H

#include "shim/heaps/retry.h"
#include "shim/link/real.h"
#include "shim/state/submissions.h"

#define NOTHING ((void)0)

#define GS_IS_LEGACY     false
#define GS_IS_PER_THREAD true

/* The count of a call that submits to this place, or NULL. */
#define GS_BEGIN(tagged_stream)                                                          \
    gs_submission_begin(per_thread ? gs_submissions_per_thread(tagged_stream)            \
                                   : (tagged_stream))
#define GS_BEGIN_NOWHERE   NULL
#define GS_BEGIN_IN(given) GS_BEGIN((uintptr_t)(given))
#define GS_BEGIN_DEFAULT   GS_BEGIN((uintptr_t)0)
#define GS_BEGIN_BEYOND    GS_BEGIN(GS_STREAMS_BEYOND)

/* True if a call that was out of memory is to be repeated. */
#define GS_AGAIN_NEVER         false
#define GS_AGAIN_HERE          gs_retry_here()
#define GS_AGAIN_EVERYWHERE    gs_retry_everywhere()
#define GS_AGAIN_IF(condition) (condition)

#define GS_WRAPPER(symbol, stream, where, params, ...)                                   \
    GS_EXPORT CUresult symbol params                                                     \
    {                                                                                    \
        const bool per_thread __attribute__((unused)) = GS_IS_##stream;                  \
        const enum gs_api api __attribute__((unused)) = GS_API_##symbol;                 \
        const char *const call __attribute__((unused)) = #symbol;                        \
        struct gs_calls *own = GS_BEGIN_##where;                                         \
        CUresult result;                                                                 \
        __VA_ARGS__;                                                                     \
        if (own) {                                                                       \
            gs_submission_end(own);                                                      \
        }                                                                                \
        return result;                                                                   \
    }

#define GS_WRAPPER_FORWARD(symbol, stream, where, params, args, before, retry, after)    \
    GS_WRAPPER(symbol, stream, where, params, before;                                    \
               result = GS_RETRIED(GS_AGAIN_##retry, gs_real_now()->symbol args); after)
#define GS_WRAPPER_SHARED(symbol, stream, where, params, function)                       \
    GS_WRAPPER(symbol, stream, where, params,                                            \
               __typeof__(symbol) *const real __attribute__((unused)) =                  \
                   gs_real_now()->symbol;                                                \
               result = function)
#define GS_WRAPPER_ELSEWHERE(...)

/* GS_FILE_name is a comma in the file of that name. */
#define GS_SECOND(...)                  GS_SECOND_OF(__VA_ARGS__)
#define GS_SECOND_OF(none, second, ...) second

#define GS_FORWARD(symbol, name, since, stream, treatment, doc, file, ...)               \
    GS_SECOND(GS_FILE_##file GS_WRAPPER_FORWARD, GS_WRAPPER_ELSEWHERE, )                 \
    (symbol, stream, __VA_ARGS__)
#define GS_SHARED(symbol, name, since, stream, treatment, doc, file, ...)                \
    GS_SECOND(GS_FILE_##file GS_WRAPPER_SHARED, GS_WRAPPER_ELSEWHERE, )                  \
    (symbol, stream, __VA_ARGS__)
#include "shim/entries/hooks.def"

#endif
