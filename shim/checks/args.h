/*
 * args.h - GPUSHIM_CHECK_ARGS: checks the memory arguments of copies and sets against the
 * known allocations, before the driver is called.
 *
 * Errors are reported to the tracker; the call goes on unchanged in any case. While the
 * option is off, a copy or a set costs one branch, and other calls nothing.
 *
 * Lock: none of its own; all functions may be called from any thread. While a stream
 * captures the driver is not queried.   Design: docs/checks-args.md
 */
#ifndef GS_ARGS_H
#define GS_ARGS_H

#include "cuda_names.h"
#include "gs_base.h"

struct gs_state;

/* True if copies and sets are checked. Set at start; atomic. */
extern bool gs_args_checked __attribute__((visibility("hidden")));

/* Called at start, after the tracker was created or not. Logs a line if the checks have
 * no tracker to report to. */
void gs_args_start(const struct gs_state *state);
/* In a forked child: switches the checks off. */
void gs_args_reset(void);

/* The side of a copy that is host memory by the call's type: it is compared with pinned
 * and pooled memory, without a query to the driver. */
enum gs_args_host { GS_ARGS_NO_HOST, GS_ARGS_HOST_DST, GS_ARGS_HOST_SRC };

/* Check the call `call` with the named arguments, before it is made. */
void gs_args_copy(const char *call, uint64_t dst, uint64_t src, size_t bytes,
                  enum gs_args_host host);
/* For a copy whose other side is an array. */
void gs_args_write(const char *call, uint64_t dst, size_t bytes);
void gs_args_read(const char *call, uint64_t src, size_t bytes);
void gs_args_write_rows(const char *call, CUdeviceptr dst, size_t pitch, size_t width,
                        size_t rows);
void gs_args_copy_2d(const char *call, const CUDA_MEMCPY2D *copy);
void gs_args_copy_3d(const char *call, const CUDA_MEMCPY3D *copy);
void gs_args_copy_3d_peer(const char *call, const CUDA_MEMCPY3D_PEER *copy);
void gs_args_copy_batch(const char *call, const CUdeviceptr *dsts,
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
    return GS_UNLIKELY(__atomic_load_n(&gs_args_checked, __ATOMIC_RELAXED));
}

/* ---- the column `memory` of submit.def -----------------------------------------------
 *
 * `call` is the name that the wrapper has for itself.
 */

#define GS_ARGS_ADDRESS(pointer) (uint64_t)(uintptr_t)(pointer)

#define GS_ARGS_COPY(dst, src, bytes) gs_args_copy(call, dst, src, bytes, GS_ARGS_NO_HOST)
#define GS_ARGS_FROM_HOST(dst, src, bytes)                                               \
    gs_args_copy(call, dst, GS_ARGS_ADDRESS(src), bytes, GS_ARGS_HOST_SRC)
#define GS_ARGS_TO_HOST(dst, src, bytes)                                                 \
    gs_args_copy(call, GS_ARGS_ADDRESS(dst), src, bytes, GS_ARGS_HOST_DST)
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
