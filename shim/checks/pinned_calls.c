/*
 * pinned_calls.c - the pinned memory that calls name.
 * Owns:  nothing.   Lock: none; the table locks itself.
 * Source: CUDA Driver API, cuLaunchKernel, cuFuncGetParamInfo
 */
#include "shim/checks/pinned_calls.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/order/captures.h"
#include "shim/record.h"
#include "tracker/pinned_uses.h"

/* Structures with addresses are no larger, if a program copies them by themselves. */
#define SENT_BYTES (64 * GS_KIB)
#define PART_BYTES 512u

/* The table, if a use may clear a call site; else NULL. */
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

void gs_pinned_sent(uint64_t addr, size_t bytes)
{
    struct gs_pinned_uses *uses = wanted();
    uint64_t words[PART_BYTES / sizeof(uint64_t)];
    for (size_t at = 0; uses && bytes <= SENT_BYTES && at < bytes; at += sizeof(words)) {
        size_t length = bytes - at < sizeof(words) ? bytes - at : sizeof(words);
        struct iovec here = {words, length};
        struct iovec there = {(void *)(uintptr_t)(addr + at), length};
        if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)length) {
            gs_pinned_uses_mark_all(uses);
            return;
        }
        gs_pinned_uses_mark_words(uses, words, length);
    }
}

/* Marks the words of a buffer of parameters. Returns false if its size is not known. */
static bool mark_buffer(struct gs_pinned_uses *uses, void **extra)
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
        gs_pinned_uses_mark_words(uses, buffer, bytes);
    }
    return buffer != NULL;
}

/* Marks the words of each parameter. Returns false if their sizes are not known. */
static bool mark_params(struct gs_pinned_uses *uses, CUfunction function, void **params)
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
        gs_pinned_uses_mark_words(uses, params[i], bytes);
    }
    return false;
}

void gs_pinned_kernel(CUfunction function, void **params, void **extra)
{
    struct gs_pinned_uses *uses = wanted();
    if (!uses || (!params && !extra)) {
        return;
    }
    if (extra ? !mark_buffer(uses, extra)
              : gs_captures_active() || !mark_params(uses, function, params)) {
        gs_pinned_uses_mark_all(uses);
    }
}

void gs_pinned_unknown(void)
{
    struct gs_pinned_uses *uses = gs_record_pinned();
    if (uses) {
        gs_pinned_uses_give_up(uses);
    }
}
