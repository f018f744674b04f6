/*
 * entry_submit.c - every call that submits work to the device: counted, and forwarded.
 *
 * The wrappers expand from submit.def. They are plain C with the parameters of cuda.h's
 * declarations, which the compiler compares, so the compiler handles arguments on the
 * stack on every machine. They do not enter the library, so they also count while it is
 * switched off and inside other wrappers, which does no harm. The memory and the events
 * that a call names are checked first; with GPUSHIM_CHECK=transfers copies are recorded
 * afterwards (args.h). An error that ends the context is reported
 * (context_errors.h), unless the call names a device: the error then does not concern the
 * current context.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/async/async_heaps.h"
#include "shim/checks/args.h"
#include "shim/heaps/retry.h"
#include "shim/link/real.h"
#include "shim/order/context_errors.h"
#include "shim/state/state.h"
#include "shim/state/submissions.h"

/* ---- the stream and device of a call -------------------------------------------- */

/* The tagged stream of a call: FORM_LEGACY if the function's default stream is the legacy
 * one, FORM_PER_THREAD if it is the thread's own. */
#define FORM_LEGACY(tagged_stream)     (tagged_stream)
#define FORM_PER_THREAD(tagged_stream) gs_submissions_per_thread(tagged_stream)
#define IS_LEGACY                      false
#define IS_PER_THREAD                  true

#define WHERE_IN(given)      (uintptr_t)(given)
#define WHERE_LOOSE(given)   ((uintptr_t)(given) | GS_STREAMS_LOOSE)
#define WHERE_DEFAULT        (uintptr_t)0
#define WHERE_BEYOND         GS_STREAMS_BEYOND
#define WHERE_CONFIG(config) where_of(config)

/*
 * The known attributes, up to this one (CUDA 13.0), may let a launch overlap with earlier
 * work of its stream, or record an event; a synchronize of the stream still waits for the
 * launch. An unknown attribute may do anything.
 */
enum { LAST_ATTRIBUTE = 16, MOST_ATTRIBUTES = 64 };

static GS_NOINLINE uintptr_t where_with_attributes(const CUlaunchConfig *config)
{
    bool known = config->attrs && config->numAttrs <= MOST_ATTRIBUTES;
    for (unsigned i = 0; known && i < config->numAttrs; i++) {
        known = (unsigned)config->attrs[i].id <= LAST_ATTRIBUTE;
    }
    return (uintptr_t)config->hStream | (known ? GS_STREAMS_LOOSE : GS_STREAMS_BEYOND);
}

static inline uintptr_t where_of(const CUlaunchConfig *config)
{
    /* Without a config, or without an initialized driver, the launch is refused and the
     * config not read. */
    if (!config || !__atomic_load_n(&gs_state_roots.ready, __ATOMIC_RELAXED)) {
        return GS_STREAMS_BEYOND;
    }
    return config->numAttrs ? where_with_attributes(config) : (uintptr_t)config->hStream;
}

/* Replaces the launched config by an equal one, changed as async_heaps.h describes. */
#define PREPARE_IN(given)      ((void)0)
#define PREPARE_LOOSE(given)   ((void)0)
#define PREPARE_DEFAULT        ((void)0)
#define PREPARE_BEYOND         ((void)0)
#define PREPARE_CONFIG(config) (config = gs_async_launch(config, per_thread))
#define DONE_IN(given)         ((void)0)
#define DONE_LOOSE(given)      ((void)0)
#define DONE_DEFAULT           ((void)0)
#define DONE_BEYOND            ((void)0)
#define DONE_CONFIG(config)    gs_async_launched(config, result)

/*
 * Returns true if a call that was out of memory is repeated once idle memory of the pool
 * was reclaimed. True only for calls whose failure leaves nothing behind: a call that
 * loads code or creates a context has created no handle (a compiler log may be shorter),
 * a limit is unchanged, and a kernel without memory for its local variables or
 * late-loaded code was not launched. Keeping its arguments costs a launch twenty
 * instructions. False for the launch on several devices: some may have launched their
 * part.
 */
#define STARTS_WITH(symbol, text) (__builtin_strncmp(symbol, text, sizeof(text) - 1) == 0)

static inline __attribute__((always_inline)) bool is_retried(const char *symbol)
{
    return STARTS_WITH(symbol, "cuModuleLoad") || STARTS_WITH(symbol, "cuModuleGet") ||
           STARTS_WITH(symbol, "cuLibraryLoad") || STARTS_WITH(symbol, "cuLibraryGet") ||
           STARTS_WITH(symbol, "cuGraphUpload") || STARTS_WITH(symbol, "cuCtxSetLimit") ||
           STARTS_WITH(symbol, "cuLaunchKernel") || STARTS_WITH(symbol, "cuLaunchGrid") ||
           __builtin_strcmp(symbol, "cuLaunch") == 0 ||
           (STARTS_WITH(symbol, "cuLaunchCooperativeKernel") &&
            !STARTS_WITH(symbol, "cuLaunchCooperativeKernelMulti"));
}

/* Like the function above, for a call that names its device, such as a context's
 * creation. An error is not the current context's. */
static inline __attribute__((always_inline)) bool names_device(const char *symbol)
{
    return STARTS_WITH(symbol, "cuGLCtxCreate") ||
           STARTS_WITH(symbol, "cuVDPAUCtxCreate") ||
           STARTS_WITH(symbol, "cuGreenCtxCreate") ||
           STARTS_WITH(symbol, "cuMulticastAddDevice");
}

/* Idle memory of all devices is reclaimed: a graph's memory nodes may be on any. */
static inline __attribute__((always_inline)) bool needs_any_device(const char *symbol)
{
    return names_device(symbol) || STARTS_WITH(symbol, "cuGraphUpload");
}

/*
 * Returns GS_STREAMS_ACROSS if the call may be work of a device other than its stream's:
 * a copy between two places of device memory. A copy from or to the host belongs to its
 * stream.
 */
static inline __attribute__((always_inline)) uintptr_t across(const char *symbol)
{
    bool crosses =
        STARTS_WITH(symbol, "cuMemcpy") && !STARTS_WITH(symbol, "cuMemcpyHto") &&
        !STARTS_WITH(symbol, "cuMemcpyDtoH") && !STARTS_WITH(symbol, "cuMemcpyAtoH");
    return crosses ? gs_submissions_across() : 0;
}

/* ---- the wrappers --------------------------------------------------------------- */

/* Retries after out of memory are in a function of their own (again_), so that a call
 * that succeeds sets up no registers for them. So are the checks of arguments (look_at_):
 * while they are off they cost one branch. */
#define GS_SUBMIT(symbol, name, since, stream, where, params, args, ...)                 \
    static __attribute__((cold, noinline, unused)) CUresult again_##symbol params        \
    {                                                                                    \
        return GS_RETRIED_AFTER(CUDA_ERROR_OUT_OF_MEMORY,                                \
                                needs_any_device(#symbol) ? gs_retry_everywhere()        \
                                                          : gs_retry_here(),             \
                                gs_real_now()->symbol args);                             \
    }                                                                                    \
    static inline __attribute__((always_inline)) CUresult submit_##symbol params         \
    {                                                                                    \
        struct gs_calls *own = GS_SUBMISSION_BEGIN(                                      \
            FORM_##stream(WHERE_##where | across(#symbol)),                              \
            if (GS_ARGS_WATCHED(__VA_ARGS__) && gs_args_on()) {                          \
                GS_ARGS_CALL(name);                                                      \
                GS_ARGS_CHECK(__VA_ARGS__);                                              \
            });                                                                          \
        const bool per_thread = IS_##stream;                                             \
        (void)per_thread;                                                                \
        PREPARE_##where;                                                                 \
        CUresult result = gs_real_now()->symbol args;                                    \
        if (GS_UNLIKELY(result != CUDA_SUCCESS)) {                                       \
            if (result == CUDA_ERROR_OUT_OF_MEMORY &&                                    \
                (names_device(#symbol) || is_retried(#symbol))) {                        \
                result = again_##symbol args;                                            \
            }                                                                            \
            if (!names_device(#symbol)) {                                                \
                gs_context_record_error_of(NULL, result);                                \
            }                                                                            \
        }                                                                                \
        DONE_##where;                                                                    \
        gs_submission_end(own);                                                          \
        return result;                                                                   \
    }                                                                                    \
    static __attribute__((cold, noinline, unused)) CUresult look_at_##symbol params      \
    {                                                                                    \
        GS_ARGS_CALL(name);                                                              \
        GS_ARGS_CHECK(__VA_ARGS__);                                                      \
        if (GS_UNLIKELY(call->refused != CUDA_SUCCESS)) {                                \
            return gs_args_refusal(call, WHERE_##where, IS_##stream);                    \
        }                                                                                \
        CUresult result = submit_##symbol args;                                          \
        gs_transfer_end(call, FORM_##stream(WHERE_##where), result);                     \
        return result;                                                                   \
    }                                                                                    \
    GS_EXPORT CUresult symbol params                                                     \
    {                                                                                    \
        if (GS_ARGS_HAS(__VA_ARGS__) &&                                                  \
            (gs_args_on() || GS_UNLIKELY(!GS_ARGS_RIGHT(__VA_ARGS__)))) {                \
            return look_at_##symbol args;                                                \
        }                                                                                \
        return submit_##symbol args;                                                     \
    }
#include "shim/entries/submit.def"
