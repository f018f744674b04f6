/*
 * rt.h - inside of the simulated CUDA runtime (libcudart.so.13, libcudart_static.a): the
 * table of driver functions, the way into the driver, contexts, errors and registrations.
 *
 * The runtime keeps next to nothing of its own: it turns each call of cuda_runtime_api.h
 * into the driver call that the CUDA documentation names for it, in the context that the
 * runtime's rules make current, and remembers the last error of each thread. Written from
 * the public headers and documentation only; NVIDIA's private export tables are not used.
 *
 * Owns:  nothing here; each variable says its owner and lock.
 */
#ifndef GS_SIM_RT_H
#define GS_SIM_RT_H

/* The API headers then declare every version of a function under its exported name. */
#define __CUDA_API_VERSION_INTERNAL 1

/* In the shared library what the headers declare is exported; in the archive it is
 * hidden, as in NVIDIA's, so that the runtimes of two objects never meet. */
#ifdef GS_RT_SHARED
#pragma GCC visibility push(default)
#endif
#include <cuda_runtime_api.h>
#include <cuda_profiler_api.h>
#include "registration.h"
#ifdef GS_RT_SHARED
#pragma GCC visibility pop
#endif
#include <cuda.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>

#include "gs_base.h"

/* Which libcudart.so this is built into; compat12.h has what differs in 12. */
#ifndef GS_RT_MAJOR
#define GS_RT_MAJOR 13
#endif

/* What cudaRuntimeGetVersion answers, and up to which version functions are asked for: 11
 * is 12 with some of its own functions, and asks for what 12 does. */
#if GS_RT_MAJOR == 11
#define GS_RT_VERSION 11080
#define GS_RT_ASKED   12080
#elif GS_RT_MAJOR == 12
#define GS_RT_VERSION 12080
#else
#define GS_RT_VERSION 13000
#endif
#ifndef GS_RT_ASKED
#define GS_RT_ASKED GS_RT_VERSION
#endif

#include "compat12.h"
#include "compat11.h"

/* ---- driver.c -------------------------------------------------------------------- */

/*
 * One typed pointer for each row of lookups.def. A function that the driver does not have
 * is replaced by one that answers cudaErrorCallRequiresNewerDriver, so no field is NULL
 * once gs_rt_start() has succeeded. Immutable after that.
 */
struct gs_rt_driver {
#define RT_LOOKUP(name, version) PFN_##name##_v##version name##_v##version;
#define RT_LOOKUP_PT(name, version, kind)                                                \
    PFN_##name##_v##version##_##kind name##_v##version##_##kind;
#define RT_LOOKUP_ONLY(name, version, flags)
#define RT_LOOKUP_BEFORE_13(name, version, flags)
#include "lookups.def"
#undef RT_LOOKUP
#undef RT_LOOKUP_PT
#undef RT_LOOKUP_ONLY
#undef RT_LOOKUP_BEFORE_13
};
extern struct gs_rt_driver gs_rt_cu;

/*
 * Load the driver, make all look-ups and call cuInit, once a process.
 * Out:     cudaSuccess, or the error that every runtime call then returns:
 *          cudaErrorInsufficientDriver  no libcuda.so.1, one without cuGetProcAddress_v2,
 *                                       or one of an older major version than the runtime
 *          cudaErrorInitializationError in a child of fork() whose parent had started
 *          what cuInit answered, mapped
 * Locks:   start_lock; the last error is not touched.
 */
cudaError_t gs_rt_start(void);

/* What cuDriverGetVersion says, 0 without a driver. Loads it and does not start it. */
int gs_rt_driver_version(void);

/* ---- context.c ------------------------------------------------------------------- */

/*
 * gs_rt_start(), and a context is current: the one the thread has made current through
 * the driver API, or else the primary context of its device, retained at first need.
 * Out:     cudaSuccess or the error; recorded as the thread's last error.
 * Source:  CUDA Runtime API, "Interactions with the CUDA Driver API"
 */
cudaError_t gs_rt_enter(void);

/* gs_rt_start() only, its error recorded: for calls that need no context. */
cudaError_t gs_rt_enter_without_context(void);

/* The device that the next call of this thread would use. After gs_rt_start(). */
cudaError_t gs_rt_current_device(int *device);

/* Handle of device ordinal; cudaErrorInvalidDevice outside 0 .. count - 1. */
cudaError_t gs_rt_device(int ordinal, CUdevice *handle);

/* Ordinal of a device handle, -1 when the driver has not listed it. */
int gs_rt_ordinal(CUdevice handle);

/* The primary context of device ordinal, retained; it is not made current. */
cudaError_t gs_rt_primary_context(int ordinal, CUcontext *context);

/* ---- error.c --------------------------------------------------------------------- */

/* The runtime's number for a driver result; cudaErrorUnknown where it has none. */
cudaError_t gs_rt_error_of(CUresult result);

/* Record error as the thread's last one unless it is cudaSuccess; returns it. */
cudaError_t gs_rt_leave(cudaError_t error);

/* gs_rt_leave(gs_rt_error_of(result)). */
cudaError_t gs_rt_leave_cu(CUresult result);

/* A reset has made the contexts new: what was recorded as sticky may be cleared again. */
void gs_rt_forget_sticky(void);

/* Ends the calling function with the error of a call that fails. */
#define RT_TRY(call)                                                                     \
    do {                                                                                 \
        cudaError_t rt_try_ = (call);                                                    \
        if (rt_try_ != cudaSuccess)                                                      \
            return rt_try_;                                                              \
    } while (0)

/*
 * The value of a runtime function that only hands its arguments on: the driver's answer,
 * or why the driver could not be asked.
 */
#define RT_FORWARD(function, ...)                                                        \
    ({                                                                                   \
        cudaError_t rt_error_ = gs_rt_enter();                                           \
        if (rt_error_ == cudaSuccess)                                                    \
            rt_error_ = gs_rt_leave_cu(gs_rt_cu.function(__VA_ARGS__));                  \
        rt_error_;                                                                       \
    })

/* The value of a function of the runtime: value, or why the driver could not be asked. */
#define RT_ENTERED(value)                                                                \
    ({                                                                                   \
        cudaError_t rt_entered_ = gs_rt_enter();                                         \
        rt_entered_ == cudaSuccess ? (value) : rt_entered_;                              \
    })

/*
 * Defines a function and its per-thread twin, name_ptsz or name_ptds. Each returns value,
 * an expression that reads the parameters and the constant per_thread.
 */
#define RT_TWINS(name, kind, params, value)                                              \
    cudaError_t name params                                                              \
    {                                                                                    \
        const bool per_thread = false;                                                   \
        return value;                                                                    \
    }                                                                                    \
    cudaError_t name##_##kind params                                                     \
    {                                                                                    \
        const bool per_thread = true;                                                    \
        return value;                                                                    \
    }                                                                                    \
    cudaError_t name params

/* The driver's function for the legacy default stream (false) or the per-thread one. */
#define RT_PICK(per_thread, legacy, thread)                                              \
    ((per_thread) ? gs_rt_cu.thread : gs_rt_cu.legacy)

/* ---- registry.c ------------------------------------------------------------------ */

/* The kernel behind a host stub, a cudaKernel_t or a cudaFunction_t, as a handle that
 * cuLaunchKernel takes. cudaErrorInvalidDeviceFunction when it is none of them. */
cudaError_t gs_rt_kernel(const void *func, CUkernel *kernel);

/* Address and bytes of a __device__ variable. cudaErrorInvalidSymbol when unknown. */
cudaError_t gs_rt_symbol(const void *symbol, CUdeviceptr *address, size_t *bytes);

/* A handle of kernel (a cudaKernel_t, or a cudaFunction_t made from one) has been handed
 * out: gs_rt_kernel() takes it from now on. cudaErrorMemoryAllocation. */
cudaError_t gs_rt_note_kernel(const void *handle, CUkernel kernel);

/* ---- fatbin.c -------------------------------------------------------------------- */

/* The PTX text in a fat binary, to be freed by the caller; NULL when none is readable. */
char *gs_rt_fatbin_ptx(const void *image);

/* ---- copy3d.c -------------------------------------------------------------------- */

/* CUDA_MEMCPY3D for a runtime copy, or the error that its parameters deserve. */
cudaError_t gs_rt_copy3d(const struct cudaMemcpy3DParms *parms, CUDA_MEMCPY3D *copy);

/* ---- array.c --------------------------------------------------------------------- */

/* The driver's format and channels of an element. cudaErrorInvalidChannelDescriptor. */
cudaError_t gs_rt_format(const struct cudaChannelFormatDesc *desc, CUarray_format *format,
                         unsigned *channels);

/* The other way round. */
void gs_rt_channels(CUarray_format format, unsigned channels,
                    struct cudaChannelFormatDesc *desc);

/* What the driver makes an array from. cudaErrorInvalidChannelDescriptor. */
cudaError_t gs_rt_array_desc(const struct cudaChannelFormatDesc *channels,
                             struct cudaExtent extent, unsigned flags,
                             CUDA_ARRAY3D_DESCRIPTOR *out);

/* What an array was made from, and the bytes of its element, unless NULL. */
cudaError_t gs_rt_describe_array(cudaArray_const_t array, CUDA_ARRAY3D_DESCRIPTOR *desc,
                                 size_t *element_bytes);

static inline CUdeviceptr gs_rt_address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

#endif
