/*
 * args.h - checks the memory and the events that calls name, before the driver is called.
 *
 * The driver compares memory of the pool with the pool's segments, not with the program's
 * allocations. So a use that leaves an allocation of the pool, or has none, is found
 * here, reported to the tracker, and refused as the driver would (driver_bounds.h). A
 * right use costs a look-up in the page map. GPUSHIM_CHECK=args also compares memory that
 * the driver serves, and only reports. GPUSHIM_CHECK=transfers: passes on the copies
 * between host and device (transfer_calls.h).
 *
 * Lock: none of its own; all functions may be called from any thread. While a stream
 * captures the driver is not queried about an address.   Design: docs/checks-args.md
 */
#ifndef GS_ARGS_H
#define GS_ARGS_H

#include "gs_base.h"
#include "pool/hit.h"
#include "shim/checks/pinned_calls.h"
#include "shim/checks/transfer_calls.h"
#include "shim/cuda/cuda_names.h"
#include "shim/host/managed.h"
#include "shim/order/own_handles.h"
#include "shim/state/state.h"

/* The checks of copies and sets: bits. Set at start; atomic. */
enum gs_args_mode { GS_ARGS_CHECKED = 1, GS_ARGS_RECORDED = 2 };
extern unsigned gs_args_modes __attribute__((visibility("hidden")));

/* Called at start, after the tracker was created or not, and after gs_transfer_start.
 * Logs a line if the checks have no tracker to report to. */
void gs_args_start(const struct gs_state *state);
/* In a forked child: switches all off. */
void gs_args_reset(void);

/* Check the call with the named arguments, before it is made: call->refused. An end that
 * is host memory by the call's type is compared with pinned and pooled memory, without a
 * query to the driver. The copies of a batch are not recorded. */
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
/* Copies of a batch between two pointers; one of an array counts in elements. */
void gs_args_boxes(struct gs_copy_call *call, const CUDA_MEMCPY3D_BATCH_OP *list,
                   size_t count);
/* Operations of cuStreamBatchMemOp. */
void gs_args_operations(struct gs_copy_call *call, const CUstreamBatchMemOpParams *list,
                        unsigned count);
/* Parameters of a graph's node of any kind. Returns the refusal: CUDA_SUCCESS, or the
 * driver's error. */
CUresult gs_args_node(const CUgraphNodeParams *params, const char *call);
void gs_args_event(struct gs_copy_call *call, CUevent event);
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

/* The answer to a refused call: the driver's to a set of a null address in the same
 * stream, which may have an error that comes first, such as a failed context.
 * where: of submissions.h */
CUresult gs_args_refusal(const struct gs_copy_call *call, uintptr_t tagged_stream,
                         bool per_thread) __attribute__((cold, noinline));

/* ---- right uses, without a lock ------------------------------------------------------
 */

/* The blocks that the thread has used last, as a destination and as a source. */
extern _Thread_local struct gs_block_hint gs_args_hints[2]
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The path of the next function for all but the block that was used last. */
bool gs_args_right_elsewhere(uint64_t addr, uint64_t bytes, unsigned side);

/* Returns true if a use is right, or no business of the library's. side: 0 or 1 */
static inline __attribute__((always_inline)) bool
gs_args_right(uint64_t addr, uint64_t bytes, unsigned side)
{
    return GS_LIKELY(gs_hint_covers(&gs_args_hints[side], addr, bytes)) ||
           gs_args_right_elsewhere(addr, bytes, side);
}

/* Returns true if there is no pool whose memory a call could name. */
static inline bool gs_args_unpooled(void)
{
    const struct gs_state *state =
        __atomic_load_n(&gs_state_roots.ready, __ATOMIC_ACQUIRE);
    return !state || !state->pool;
}

/* The same as the column `memory`. Those with a structure are checked in any case. */
#define GS_RIGHT_COPY(dst, src, bytes)                                                   \
    (gs_args_right(dst, bytes, 0) && gs_args_right(src, bytes, 1))
#define GS_RIGHT_FROM_HOST(dst, src, bytes)                                              \
    GS_RIGHT_COPY(dst, GS_ARGS_ADDRESS(src), bytes)
#define GS_RIGHT_TO_HOST(dst, src, bytes)                GS_RIGHT_COPY(GS_ARGS_ADDRESS(dst), src, bytes)
#define GS_RIGHT_WRITE(dst, bytes)                       gs_args_right(dst, bytes, 0)
#define GS_RIGHT_READ(src, bytes)                        gs_args_right(src, bytes, 1)
#define GS_RIGHT_SET(dst, unit, count)                   gs_args_right(dst, gs_args_times(unit, count), 0)
#define GS_RIGHT_SET_ROWS(dst, pitch, unit, width, rows) gs_args_unpooled()
#define GS_RIGHT_BOX_2D(copy)                            gs_args_unpooled()
#define GS_RIGHT_BOX_3D(copy)                            gs_args_unpooled()
#define GS_RIGHT_BOX_3D_PEER(copy)                       gs_args_unpooled()
#define GS_RIGHT_BATCH(dsts, srcs, sizes, count)         gs_args_unpooled()
#define GS_RIGHT_BOXES(list, count)                      gs_args_unpooled()
#define GS_RIGHT_OPERATIONS(list, count)                 gs_args_unpooled()
#define GS_RIGHT_EVENT(event)                            (!gs_own_event(event))
#define GS_RIGHT_USE(addr)                               true
#define GS_RIGHT_KERNEL(function, params, extra)         true
#define GS_RIGHT_UNKNOWN()                               true
#define GS_RIGHT_NOTHING()                               true

/* ---- the column `memory` of submit.def -----------------------------------------------
 *
 * `call` is declared by GS_ARGS_CALL.
 */

/* Members that are valid only together with other members are not initialized, which
 * would take time. */
#define GS_ARGS_CALL(name)                                                               \
    struct gs_copy_call this_call, *const call = &this_call;                             \
    call->function = (name);                                                             \
    call->bytes = 0;                                                                     \
    call->refused = CUDA_SUCCESS

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
#define GS_ARGS_BOXES(list, count)              gs_args_boxes(call, list, count)
#define GS_ARGS_OPERATIONS(list, count)         gs_args_operations(call, list, count)
#define GS_ARGS_EVENT(event)                    gs_args_event(call, event)
#define GS_ARGS_NOTHING()                       (void)call
#define GS_ARGS_USE(address)                    gs_pinned_used(GS_ARGS_ADDRESS(address))
#define GS_ARGS_KERNEL(function, params, extra) gs_pinned_kernel(function, params, extra)
#define GS_ARGS_UNKNOWN()                       gs_pinned_unknown()

/* GS_ARGS_HAS: true if a row has the column. GS_ARGS_CHECK checks the call by it;
 * GS_ARGS_RIGHT: true if there is nothing to check. GS_ARGS_WATCHED: true for KERNEL,
 * which is read in the slow path of a submission, so that a launch costs nothing more. */
#define GS_ARGS_HAS(...)                  (sizeof(#__VA_ARGS__) > 1 && !GS_ARGS_WATCHED(__VA_ARGS__))
#define GS_ARGS_WATCHED(...)              ((#__VA_ARGS__)[0] == 'K')
#define GS_ARGS_CHECK(...)                GS_ARGS_SECOND(, ##__VA_ARGS__, NOTHING(), )
#define GS_ARGS_SECOND(none, shape, ...)  GS_ARGS_##shape
#define GS_ARGS_RIGHT(...)                GS_RIGHT_SECOND(, ##__VA_ARGS__, NOTHING(), )
#define GS_RIGHT_SECOND(none, shape, ...) GS_RIGHT_##shape

#endif
