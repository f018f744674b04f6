/*
 * args.h - GPUSHIM_CHECK_ARGS: checks the memory arguments of copies and sets against the
 * known allocations, before the driver is called. GPUSHIM_CHECK_TRANSFERS: passes on the
 * copies between host and device (transfer_calls.h).
 *
 * Errors are reported to the tracker; the call goes on unchanged in any case. While both
 * options are off, a copy or a set costs one branch, and other calls nothing.
 *
 * Lock: none of its own; all functions may be called from any thread. While a stream
 * captures the driver is not queried.   Design: docs/checks-args.md
 */
#ifndef GS_ARGS_H
#define GS_ARGS_H

#include "cuda_names.h"
#include "gs_base.h"
#include "transfer_calls.h"

struct gs_state;

/* What is done with copies and sets: bits. Set at start; atomic. */
enum gs_args_mode { GS_ARGS_CHECKED = 1, GS_ARGS_RECORDED = 2 };
extern unsigned gs_args_modes __attribute__((visibility("hidden")));

/* Called at start, after the tracker was created or not, and after gs_transfer_start.
 * Logs a line if the checks have no tracker to report to. */
void gs_args_start(const struct gs_state *state);
/* In a forked child: switches all off. */
void gs_args_reset(void);

/* Check the call with the named arguments, before it is made. An end that is host memory
 * by the call's type is compared with pinned and pooled memory, without a query to the
 * driver. The copies of a batch are not recorded. */
void gs_args_copy(struct gs_copy_call *call, struct gs_copy_end dst,
                  struct gs_copy_end src, size_t bytes);
/* For a copy whose other side is an array. */
void gs_args_write(struct gs_copy_call *call, uint64_t dst, size_t bytes);
void gs_args_read(struct gs_copy_call *call, uint64_t src, size_t bytes);
void gs_args_write_rows(struct gs_copy_call *call, CUdeviceptr dst, size_t pitch,
                        size_t width, size_t rows);
void gs_args_copy_2d(struct gs_copy_call *call, const CUDA_MEMCPY2D *copy);
void gs_args_copy_3d(struct gs_copy_call *call, const CUDA_MEMCPY3D *copy);
void gs_args_copy_3d_peer(struct gs_copy_call *call, const CUDA_MEMCPY3D_PEER *copy);
void gs_args_copy_batch(struct gs_copy_call *call, const CUdeviceptr *dsts,
                        const CUdeviceptr *srcs, const size_t *sizes, size_t count);

/* The bytes of `count` units; 0, which is not checked, if the product overflows: the
 * driver refuses such a call. */
static inline size_t gs_args_times(size_t unit, size_t count)
{
    size_t bytes;
    return __builtin_mul_overflow(unit, count, &bytes) ? 0 : bytes;
}

static inline bool gs_args_on(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_args_modes, __ATOMIC_RELAXED) != 0);
}

/* ---- the column `memory` of submit.def -----------------------------------------------
 *
 * `call` is declared by GS_ARGS_CALL.
 */

/* Members that are valid only with others are not initialized, which would take time. */
#define GS_ARGS_CALL(name)                                                               \
    struct gs_copy_call this_call, *const call = &this_call;                             \
    call->function = (name);                                                             \
    call->bytes = 0

#define GS_ARGS_ADDRESS(pointer) (uint64_t)(uintptr_t)(pointer)

#define GS_ARGS_END(side, address)                                                       \
    (struct gs_copy_end)                                                                 \
    {                                                                                    \
        GS_SIDE_##side, address                                                          \
    }
#define GS_ARGS_COPY(dst, src, bytes)                                                    \
    gs_args_copy(call, GS_ARGS_END(UNKNOWN, dst), GS_ARGS_END(UNKNOWN, src), bytes)
#define GS_ARGS_FROM_HOST(dst, src, bytes)                                               \
    gs_args_copy(call, GS_ARGS_END(DEVICE, dst),                                         \
                 GS_ARGS_END(HOST, GS_ARGS_ADDRESS(src)), bytes)
#define GS_ARGS_TO_HOST(dst, src, bytes)                                                 \
    gs_args_copy(call, GS_ARGS_END(HOST, GS_ARGS_ADDRESS(dst)),                          \
                 GS_ARGS_END(DEVICE, src), bytes)
#define GS_ARGS_WRITE(dst, bytes)     gs_args_write(call, dst, bytes)
#define GS_ARGS_READ(src, bytes)      gs_args_read(call, src, bytes)
#define GS_ARGS_SET(dst, unit, count) gs_args_write(call, dst, gs_args_times(unit, count))
#define GS_ARGS_SET_ROWS(dst, pitch, unit, width, rows)                                  \
    gs_args_write_rows(call, dst, pitch, gs_args_times(unit, width), rows)
#define GS_ARGS_BOX_2D(copy)      gs_args_copy_2d(call, copy)
#define GS_ARGS_BOX_3D(copy)      gs_args_copy_3d(call, copy)
#define GS_ARGS_BOX_3D_PEER(copy) gs_args_copy_3d_peer(call, copy)
#define GS_ARGS_BATCH(dsts, srcs, sizes, count)                                          \
    gs_args_copy_batch(call, dsts, srcs, sizes, count)
#define GS_ARGS_NOTHING() (void)call

/* GS_ARGS_HAS: true if a row has the column. GS_ARGS_CHECK checks the call by it. */
#define GS_ARGS_HAS(...)                 (sizeof(#__VA_ARGS__) > 1)
#define GS_ARGS_CHECK(...)               GS_ARGS_SECOND(, ##__VA_ARGS__, NOTHING(), )
#define GS_ARGS_SECOND(none, shape, ...) GS_ARGS_##shape

#endif
