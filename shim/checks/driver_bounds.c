/*
 * driver_bounds.c - asks the driver for driver_bounds.h.
 *
 * The question is a copy from a fresh allocation of the driver's to the host, in a stream
 * of its own, of more bytes than were requested. It reads at most the rest of a block of
 * 512 bytes, or the next block of the same 2 MiB page, which is mapped. The allocation is
 * not freed: a free waits for the running work.
 *
 * Owns:  the answer.   Lock: none; it is atomic.
 */
#include "shim/checks/driver_bounds.h"

#include "shim/order/own_handles.h"
#include "shim/order/visit.h"

static int known; /* atomic: 0: not asked yet; otherwise the answer plus one */

enum answer { ANSWER_REFUSED, ANSWER_ACCEPTED, ANSWER_NONE };

/* Asks whether `read` bytes of an allocation of `bytes` can be copied. */
static enum answer ask(CUstream stream, size_t bytes, size_t read)
{
    static unsigned char copied[2 * GS_BLOCK_BYTES];
    const struct gs_real *real = gs_real();
    CUdeviceptr memory = 0;
    if (real->cuMemAlloc_v2(&memory, bytes) != CUDA_SUCCESS ||
        memory % GS_LARGE_BYTES + read > GS_LARGE_BYTES) {
        return ANSWER_NONE;
    }
    switch (real->cuMemcpyDtoHAsync_v2(copied, memory, read, stream)) {
    case CUDA_SUCCESS:
        return ANSWER_ACCEPTED;
    case CUDA_ERROR_INVALID_VALUE:
        return ANSWER_REFUSED;
    default:
        return ANSWER_NONE;
    }
}

/* Out: *final  false: the driver gave no answer. */
static enum gs_driver_bounds find(CUstream stream, bool *final)
{
    enum answer bytes = ask(stream, 1, 2);
    enum answer blocks = bytes == ANSWER_ACCEPTED
                             ? ask(stream, GS_BLOCK_BYTES, 2 * GS_BLOCK_BYTES)
                             : bytes;
    *final = bytes != ANSWER_NONE && blocks != ANSWER_NONE;
    return bytes == ANSWER_REFUSED    ? GS_BOUNDS_BYTES
           : blocks == ANSWER_REFUSED ? GS_BOUNDS_BLOCKS
                                      : GS_BOUNDS_PAGES;
}

enum gs_driver_bounds gs_driver_bounds(void)
{
    int before = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (before) {
        return (enum gs_driver_bounds)(before - 1);
    }
    enum gs_driver_bounds found = GS_BOUNDS_PAGES;
    struct gs_visit visit;
    CUstream stream;
    bool final = false;
    (void)gs_visit_begin(&visit, "a check of memory", NULL, true);
    if (gs_own_stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) {
        found = find(stream, &final);
        (void)gs_real()->cuStreamDestroy_v2(stream);
    }
    gs_visit_end(&visit);
    if (final) {
        __atomic_store_n(&known, (int)found + 1, __ATOMIC_RELAXED);
    }
    return found;
}

void gs_driver_bounds_reset(void)
{
    __atomic_store_n(&known, 0, __ATOMIC_RELAXED);
}
