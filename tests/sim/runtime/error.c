/*
 * error.c - error numbers, their names and texts, and the last error of each thread.
 * Owns:  the per-thread last error.   Lock: none, but for the reset count (atomic).
 */
#include "rt.h"
#include "unsupported.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Counts cudaDeviceReset: an error of before may be forgotten. Atomic. */
static atomic_uint resets;

/* Of this thread alone. */
static _Thread_local cudaError_t last_error;
static _Thread_local unsigned last_error_resets;

static const char *error_name(cudaError_t error)
{
    switch ((int)error) {
#define RT_ERROR(name, text)                                                             \
    case name:                                                                           \
        return #name;
#include "errors.def"
#undef RT_ERROR
    }
    return NULL;
}

cudaError_t gs_rt_error_of(CUresult result)
{
    /* Since CUDA 10.1 both enumerations number the same condition alike. */
    if (GS_LIKELY(result == CUDA_SUCCESS))
        return cudaSuccess;
    return error_name((cudaError_t)result) ? (cudaError_t)result : cudaErrorUnknown;
}

/* Errors after which the context is lost: "the process must be terminated and relaunched"
 * (driver_types.h) or, for these tests, the device reset. */
static bool is_sticky(cudaError_t error)
{
    switch ((int)error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice:
        return true;
    }
    return false;
}

cudaError_t gs_rt_leave(cudaError_t error)
{
    if (GS_UNLIKELY(error != cudaSuccess)) {
        last_error = error;
        last_error_resets = atomic_load(&resets);
    }
    return error;
}

cudaError_t gs_rt_leave_cu(CUresult result)
{
    return gs_rt_leave(gs_rt_error_of(result));
}

void gs_rt_forget_sticky(void)
{
    atomic_fetch_add(&resets, 1);
}

int gs_rt_unsupported(const char *name)
{
    const char *log = getenv("CUDASIM_LOG");
    char line[160];

    if (log && atoi(log) >= 1) {
        int bytes =
            snprintf(line, sizeof(line), "cudasim: runtime: %s is not modelled\n", name);

        /* One write a line, so that lines of several threads and processes stay whole. */
        if (bytes > 0 && (size_t)bytes < sizeof(line) &&
            write(STDERR_FILENO, line, (size_t)bytes) < 0)
            return gs_rt_leave(cudaErrorNotSupported);
    }
    return gs_rt_leave(cudaErrorNotSupported);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;

    if (!is_sticky(error) || last_error_resets != atomic_load(&resets))
        last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    const char *name = error_name(error);

    return name ? name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch ((int)error) {
#define RT_ERROR(name, text)                                                             \
    case name:                                                                           \
        return text;
#include "errors.def"
#undef RT_ERROR
    }
    return "unrecognized error code";
}
