/*
 * cuda_start.c - records whether CUDA has started in this process.
 *
 * Owns:  the stage and the first failure.   Lock: none; atomic.
 */
#include "shim/state/cuda_start.h"

#include <stdio.h>

#include "shim/link/real.h"

static int reached; /* an enum gs_cuda_stage; atomic; never falls */

/* The first failure. `failed_at` is its stage, stored after the text; FAILURE_WRITTEN
 * while a thread writes the text. Atomic. */
enum { FAILURE_NONE = 0, FAILURE_WRITTEN = -1 };
static int failed_at;
static char failure[128];

void gs_cuda_start_record(enum gs_cuda_stage stage, const char *call, CUresult result)
{
    const struct gs_real *real = gs_real();
    if (result == CUDA_SUCCESS) {
        int before = __atomic_load_n(&reached, __ATOMIC_RELAXED);
        while (before < (int)stage) {
            if (__atomic_compare_exchange_n(&reached, &before, (int)stage, false,
                                            __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
                break;
            }
        }
        return;
    }
    int now = __atomic_load_n(&reached, __ATOMIC_RELAXED);
    int was = __atomic_load_n(&failed_at, __ATOMIC_RELAXED);
    if (now >= (int)stage || was == FAILURE_WRITTEN ||
        (was > now && (int)stage >= was) || /* the earlier stage explains it */
        !__atomic_compare_exchange_n(&failed_at, &was, FAILURE_WRITTEN, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        return;
    }
    const char *name = NULL;
    if (!real->cuGetErrorName || real->cuGetErrorName(result, &name) != CUDA_SUCCESS) {
        name = NULL;
    }
    (void)snprintf(failure, sizeof(failure), "%s returned %d%s%s%s", call, (int)result,
                   name ? " (" : "", name ? name : "", name ? ")" : "");
    __atomic_store_n(&failed_at, (int)stage, __ATOMIC_RELEASE);
}

void gs_cuda_start_goes_on(void)
{
    int was = __atomic_load_n(&failed_at, __ATOMIC_RELAXED);
    if (was > FAILURE_NONE) {
        (void)__atomic_compare_exchange_n(&failed_at, &was, FAILURE_NONE, false,
                                          __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
}

const char *gs_cuda_start_failure(void)
{
    int stage = __atomic_load_n(&failed_at, __ATOMIC_ACQUIRE);
    return stage > __atomic_load_n(&reached, __ATOMIC_ACQUIRE) ? failure : "";
}

void gs_cuda_start_reset(void)
{
    __atomic_store_n(&reached, GS_CUDA_NOT_STARTED, __ATOMIC_RELAXED);
    __atomic_store_n(&failed_at, FAILURE_NONE, __ATOMIC_RELAXED);
}
