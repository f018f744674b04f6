/*
 * sim.h - what every file of the simulated driver shares: cuda.h with every ABI declared,
 * the export macro, and the door every modelled entry point goes through.
 * Owns: nothing.   Lock: none.
 */
#ifndef SIM_H
#define SIM_H

/* Declares cuMemAlloc and cuMemAlloc_v2, cuStreamQuery and cuStreamQuery_ptsz side by
 * side. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>

#include <pthread.h>
#include <stdatomic.h>

#include "gs_base.h"
#include "compat.h"

/*
 * Opens the definition of an exported function. The prototype in front lets a header
 * older than the function still compile; gen_symbols.py finds the modelled functions by
 * it.
 */
#define SIM_API(name, ...)                                                               \
    GS_EXPORT CUresult CUDAAPI name(__VA_ARGS__);                                        \
    GS_EXPORT CUresult CUDAAPI name(__VA_ARGS__)

/*
 * A row of a table of exported functions: each returns value, an expression that reads
 * the parameters and api, the function's number. SIM_API_TWINS also defines the
 * function's per-thread twin, name_ptsz or name_ptds; there value reads variant, too.
 */
#define SIM_API_ONE(name, params, value)                                                 \
    GS_EXPORT CUresult CUDAAPI name params;                                              \
    GS_EXPORT CUresult CUDAAPI name params                                               \
    {                                                                                    \
        const enum sim_api api = SIM_ID_##name;                                          \
        return value;                                                                    \
    }                                                                                    \
    CUresult CUDAAPI name params

#define SIM_API_TWINS(name, kind, params, value)                                         \
    SIM_API_VARIANT(name, SIM_LEGACY, params, value)                                     \
    SIM_API_VARIANT(name##_##kind, SIM_PER_THREAD, params, value)                        \
    CUresult CUDAAPI name params

#define SIM_API_VARIANT(name, which, params, value)                                      \
    GS_EXPORT CUresult CUDAAPI name params;                                              \
    GS_EXPORT CUresult CUDAAPI name params                                               \
    {                                                                                    \
        const enum sim_api api = SIM_ID_##name;                                          \
        const enum sim_variant variant = which;                                          \
        return value;                                                                    \
    }

/*
 * Instead of a definition, where the headers in use lack the types of its arguments: the
 * symbol is there and answers CUDA_ERROR_NOT_SUPPORTED.
 */
#define SIM_API_TOO_NEW(name)                                                            \
    GS_EXPORT CUresult sim_too_new_##name(void) __asm__(#name);                          \
    CUresult sim_too_new_##name(void)                                                    \
    {                                                                                    \
        return CUDA_ERROR_NOT_SUPPORTED;                                                 \
    }

/* One number per exported symbol: counts calls for fault injection, names them in the
 * log. */
enum sim_api {
#define SIM_SYMBOL(symbol, base, since, thread, state) SIM_ID_##symbol,
#include "symbols.def"
#undef SIM_SYMBOL
    SIM_API_COUNT
};

/* Which default stream handle 0 means, and which variant of an entry point is running. */
enum sim_variant { SIM_LEGACY, SIM_PER_THREAD };

struct sim_context;

/* Ends the calling function with the code of a call that fails. */
#define SIM_TRY(call)                                                                    \
    do {                                                                                 \
        CUresult try_ = (call);                                                          \
        if (try_ != CUDA_SUCCESS)                                                        \
            return try_;                                                                 \
    } while (0)

/*
 * The door of an entry point that needs no context.
 *
 * Errors:  CUDA_ERROR_NOT_INITIALIZED  before cuInit, or in a forked child
 *          the code in before_init.def before cuInit
 *          CUDA_ERROR_NOT_PERMITTED    inside a host function or stream callback
 *          whatever CUDASIM_FAIL asks for
 * Locks:   none
 */
CUresult sim_enter(enum sim_api api) GS_MUST_USE;

/*
 * The door of an entry point that needs a current context that works.
 *
 * Out:     *out  the calling thread's current context; stays valid during the call
 * Errors:  as sim_enter, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, and
 * the context's sticky error
 */
CUresult sim_enter_context(enum sim_api api, struct sim_context **out) GS_MUST_USE;

/* The same where a context need not be current; *out NULL: none is. */
CUresult sim_enter_maybe_context(enum sim_api api, struct sim_context **out) GS_MUST_USE;

/* True from cuInit on, but in a forked child. */
bool sim_is_ready(void);

/* cuInit has run, and found no device. */
bool sim_found_no_device(void);

/* In front of sim_enter(): an argument that NVIDIA's driver looks at before it looks
 * whether cuInit has run. From cuInit on the function's own checks count. */
#define SIM_JUDGED_FIRST(bad, code)                                                      \
    do {                                                                                 \
        if ((bad) && !sim_is_ready())                                                    \
            return (code);                                                               \
    } while (0)

/* The value of a row whose function looks at an argument first. */
#define SIM_JUDGED_OR(bad, code, value) ((bad) && !sim_is_ready() ? (code) : (value))

/* For what a function looks at in front of sim_enter() and NVIDIA's driver behind it. */
static inline CUresult sim_unless_before_init(CUresult code)
{
    return sim_is_ready() ? code : CUDA_ERROR_NOT_INITIALIZED;
}

/* Exported name of an API number. Static storage. */
const char *sim_api_name(enum sim_api api);

/* Marks the calling thread as running a host function: driver calls are refused
 * meanwhile. */
void sim_set_in_host_function(bool inside);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t sim_now_ns(void);

#endif
