/*
 * args.c - finds the memory that copies and sets access on each side, by the shape of the
 * call.
 * Owns: gs_args_modes.   Lock: none; it is atomic.
 */
#include "args.h"

#include "use_check.h"
#include "log.h"

unsigned gs_args_modes;

void gs_args_start(const struct gs_state *state)
{
    unsigned modes = gs_transfer_table() ? GS_ARGS_RECORDED : 0;
    if (state->options.check_args && state->tracker) {
        modes |= GS_ARGS_CHECKED;
    } else if (state->options.check_args) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_CHECK_ARGS=on: with GPUSHIM_TRACK=off no memory "
                    "is known; nothing is checked");
    }
    __atomic_store_n(&gs_args_modes, modes, __ATOMIC_RELAXED);
}

void gs_args_reset(void)
{
    __atomic_store_n(&gs_args_modes, 0, __ATOMIC_RELAXED);
}

static inline bool is_on(enum gs_args_mode mode)
{
    return (__atomic_load_n(&gs_args_modes, __ATOMIC_RELAXED) & mode) != 0;
}

/* ---- a span on each side ----------------------------------------------------------- */

static void check_span(const struct gs_use *use)
{
    struct gs_state *state = is_on(GS_ARGS_CHECKED) ? gs_enter() : NULL;
    if (state) {
        gs_check_use(state, use);
        gs_leave();
    }
}

static void check_copy(const char *call, struct gs_copy_end dst, struct gs_copy_end src,
                       size_t bytes)
{
    const struct gs_use from = {
        .call = call, .span = {src.addr, bytes}, .host = src.side == GS_SIDE_HOST};
    const struct gs_use to = {.call = call,
                              .span = {dst.addr, bytes},
                              .writes = true,
                              .host = dst.side == GS_SIDE_HOST};
    struct gs_state *state = is_on(GS_ARGS_CHECKED) ? gs_enter() : NULL;
    if (state) {
        gs_check_use(state, &from);
        gs_check_use(state, &to);
        gs_leave();
    }
}

void gs_args_copy(struct gs_copy_call *call, struct gs_copy_end dst,
                  struct gs_copy_end src, size_t bytes)
{
    check_copy(call->function, dst, src, bytes);
    if (is_on(GS_ARGS_RECORDED)) {
        gs_transfer_begin(call, dst, src, bytes);
    }
}

void gs_args_write(struct gs_copy_call *call, uint64_t dst, size_t bytes)
{
    check_span(
        &(struct gs_use){.call = call->function, .span = {dst, bytes}, .writes = true});
}

void gs_args_read(struct gs_copy_call *call, uint64_t src, size_t bytes)
{
    check_span(&(struct gs_use){.call = call->function, .span = {src, bytes}});
}

void gs_args_copy_batch(struct gs_copy_call *call, const CUdeviceptr *dsts,
                        const CUdeviceptr *srcs, const size_t *sizes, size_t count)
{
    for (size_t i = 0; dsts && srcs && sizes && i < count; i++) {
        check_copy(call->function, GS_ARGS_END(UNKNOWN, dsts[i]),
                   GS_ARGS_END(UNKNOWN, srcs[i]), sizes[i]);
    }
}

/* ---- a box on each side ------------------------------------------------------------ */

/* A box at address 0 belongs to an array. */
static void check_box(const char *call, const struct gs_box *box, bool writes,
                      enum gs_copy_side side)
{
    struct gs_use use = {.call = call, .writes = writes, .host = side == GS_SIDE_HOST};
    if (box->base != 0 && gs_span_of_box(box, &use.span)) {
        check_span(&use);
    }
}

void gs_args_write_rows(struct gs_copy_call *call, CUdeviceptr dst, size_t pitch,
                        size_t width, size_t rows)
{
    const struct gs_box box = {
        .base = dst, .width = width, .rows = rows, .layers = 1, .pitch = pitch};
    check_box(call->function, &box, true, GS_SIDE_DEVICE);
}

/* An array is on the device. */
static struct gs_copy_end end_of(const struct gs_box *box, CUmemorytype type)
{
    return (struct gs_copy_end){type == CU_MEMORYTYPE_HOST      ? GS_SIDE_HOST
                                : type == CU_MEMORYTYPE_UNIFIED ? GS_SIDE_UNKNOWN
                                                                : GS_SIDE_DEVICE,
                                box->base};
}

static void copy_box(struct gs_copy_call *call, const struct gs_box *to, CUmemorytype dst,
                     const struct gs_box *from, CUmemorytype src)
{
    const struct gs_copy_end to_end = end_of(to, dst), from_end = end_of(from, src);
    check_box(call->function, from, false, from_end.side);
    check_box(call->function, to, true, to_end.side);
    if (is_on(GS_ARGS_RECORDED)) {
        gs_transfer_begin(call, to_end, from_end,
                          gs_args_times(gs_args_times(to->width, to->rows), to->layers));
    }
}

static uint64_t base_of(CUmemorytype type, const void *host, CUdeviceptr device)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        return GS_ARGS_ADDRESS(host);
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        return device;
    default:
        return 0;
    }
}

/* clang-format off */
/* The members that the structures have in common. */
#define PLANE_OF(copy, side)                                                             \
    .base = base_of((copy)->side##MemoryType, (copy)->side##Host, (copy)->side##Device), \
    .x = (copy)->side##XInBytes, .y = (copy)->side##Y, .pitch = (copy)->side##Pitch,     \
    .width = (copy)->WidthInBytes, .rows = (copy)->Height
#define BOX_OF(copy, side)                                                               \
    PLANE_OF(copy, side), .z = (copy)->side##Z, .height = (copy)->side##Height,          \
    .layers = (copy)->Depth
/* clang-format on */

void gs_args_copy_2d(struct gs_copy_call *call, const CUDA_MEMCPY2D *copy)
{
    if (copy) {
        const struct gs_box from = {PLANE_OF(copy, src), .layers = 1};
        const struct gs_box to = {PLANE_OF(copy, dst), .layers = 1};
        copy_box(call, &to, copy->dstMemoryType, &from, copy->srcMemoryType);
    }
}

void gs_args_copy_3d(struct gs_copy_call *call, const CUDA_MEMCPY3D *copy)
{
    if (copy) {
        const struct gs_box from = {BOX_OF(copy, src)}, to = {BOX_OF(copy, dst)};
        copy_box(call, &to, copy->dstMemoryType, &from, copy->srcMemoryType);
    }
}

void gs_args_copy_3d_peer(struct gs_copy_call *call, const CUDA_MEMCPY3D_PEER *copy)
{
    if (copy) {
        const struct gs_box from = {BOX_OF(copy, src)}, to = {BOX_OF(copy, dst)};
        copy_box(call, &to, copy->dstMemoryType, &from, copy->srcMemoryType);
    }
}
