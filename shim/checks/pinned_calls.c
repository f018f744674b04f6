/*
 * pinned_calls.c - the pinned memory that calls name.
 * Owns:  nothing.   Lock: none; the table locks itself.
 * Source: CUDA Driver API, cuLaunchKernel, cuFuncGetParamInfo
 */
#include "shim/checks/pinned_calls.h"

#include <string.h>

#include "shim/order/captures.h"
#include "shim/record.h"
#include "tracker/pinned_uses.h"

/* The table, if there is memory in it; else NULL. */
static struct gs_pinned_uses *wanted(void)
{
    struct gs_pinned_uses *uses = gs_record_pinned();
    return uses && gs_pinned_uses_wanted(uses) ? uses : NULL;
}

void gs_pinned_used(uint64_t addr)
{
    struct gs_pinned_uses *uses = wanted();
    if (uses) {
        gs_pinned_uses_mark(uses, addr);
    }
}

/* Returns true for the pool's device memory, which the host has not written. */
static bool is_on_device(uint64_t addr)
{
    struct gs_state *state = gs_enter();
    bool owned = false;
    if (state) {
        owned = state->pool && gs_pool_owns(state->pool, addr);
        gs_leave();
    }
    return owned;
}

void gs_pinned_sent(uint64_t addr, size_t bytes)
{
    struct gs_pinned_uses *uses = wanted();
    if (uses && !is_on_device(addr)) {
        gs_pinned_uses_read(uses, addr, bytes);
    }
}

/* Searches a buffer of parameters. Returns false if its size is not known. */
static bool search_buffer(struct gs_pinned_uses *uses, void **extra)
{
    const void *buffer = NULL;
    size_t bytes = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
            buffer = extra[1];
        } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
            memcpy(&bytes, extra[1], sizeof(bytes));
        } else {
            return false;
        }
    }
    if (buffer) {
        gs_pinned_uses_search(uses, buffer, bytes);
    }
    return buffer != NULL;
}

/* Searches each parameter. Returns false if their sizes are not known. */
static bool search_params(struct gs_pinned_uses *uses, CUfunction function, void **params)
{
    const struct gs_real *real = gs_real();
    CUresult result = CUDA_SUCCESS;
    size_t offset, bytes;
    for (size_t i = 0; real->cuFuncGetParamInfo; i++) {
        result = real->cuFuncGetParamInfo(function, i, &offset, &bytes);
        if (result != CUDA_SUCCESS) {
            return i != 0 && result == CUDA_ERROR_INVALID_VALUE; /* there are no more */
        }
        if (!params[i]) {
            return false;
        }
        gs_pinned_uses_search(uses, params[i], bytes);
    }
    return false;
}

/* Returns true if kernels read all memory of the program, with what addresses it has. */
static bool reads_pageable(void)
{
    struct gs_state *state = gs_enter();
    int reads = 0;
    if (state) {
        const struct gs_context *context = gs_context_current_known(state);
        if (context) {
            (void)gs_real()->cuDeviceGetAttribute(
                &reads, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, context->device);
        }
        gs_leave();
    }
    return reads != 0;
}

void gs_pinned_kernel(CUfunction function, void **params, void **extra)
{
    struct gs_pinned_uses *uses = wanted();
    if (!uses || (!params && !extra)) {
        return;
    }
    const bool seen =
        extra ? search_buffer(uses, extra)
              : !gs_captures_active() && search_params(uses, function, params);
    if (!seen || reads_pageable()) {
        gs_pinned_uses_give_up(uses);
    }
}

void gs_pinned_unknown(void)
{
    struct gs_pinned_uses *uses = gs_record_pinned();
    if (uses) {
        gs_pinned_uses_give_up(uses);
    }
}
