/*
 * args.c - finds the memory that copies and sets access on each side, by the shape of the
 * call.
 * Owns: gs_args_checked.   Lock: none; it is atomic.
 */
#include "args.h"

#include "use_check.h"
#include "log.h"

bool gs_args_checked;

void gs_args_start(const struct gs_state *state)
{
    bool wanted = state->options.check_args;
    if (wanted && !state->tracker) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_CHECK_ARGS=on: with GPUSHIM_TRACK=off no memory "
                    "is known; nothing is checked");
        wanted = false;
    }
    __atomic_store_n(&gs_args_checked, wanted, __ATOMIC_RELAXED);
}

void gs_args_reset(void)
{
    __atomic_store_n(&gs_args_checked, false, __ATOMIC_RELAXED);
}

/* ---- a span on each side ----------------------------------------------------------- */

static void check_span(const struct gs_use *use)
{
    struct gs_state *state = gs_enter();
    if (state) {
        gs_check_use(state, use);
        gs_leave();
    }
}

void gs_args_copy(const char *call, uint64_t dst, uint64_t src, size_t bytes,
                  enum gs_args_host host)
{
    const struct gs_use from = {
        .call = call, .span = {src, bytes}, .host = host == GS_ARGS_HOST_SRC};
    const struct gs_use to = {.call = call,
                              .span = {dst, bytes},
                              .writes = true,
                              .host = host == GS_ARGS_HOST_DST};
    struct gs_state *state = gs_enter();
    if (state) {
        gs_check_use(state, &from);
        gs_check_use(state, &to);
        gs_leave();
    }
}

void gs_args_write(const char *call, uint64_t dst, size_t bytes)
{
    check_span(&(struct gs_use){.call = call, .span = {dst, bytes}, .writes = true});
}

void gs_args_read(const char *call, uint64_t src, size_t bytes)
{
    check_span(&(struct gs_use){.call = call, .span = {src, bytes}});
}

void gs_args_copy_batch(const char *call, const CUdeviceptr *dsts,
                        const CUdeviceptr *srcs, const size_t *sizes, size_t count)
{
    for (size_t i = 0; dsts && srcs && sizes && i < count; i++) {
        gs_args_copy(call, dsts[i], srcs[i], sizes[i], GS_ARGS_NO_HOST);
    }
}

/* ---- a box on each side ------------------------------------------------------------ */

/* A box at address 0 belongs to an array. */
static void check_box(const char *call, const struct gs_box *box, bool writes,
                      CUmemorytype type)
{
    struct gs_use use = {
        .call = call, .writes = writes, .host = type == CU_MEMORYTYPE_HOST};
    if (box->base != 0 && gs_span_of_box(box, &use.span)) {
        check_span(&use);
    }
}

void gs_args_write_rows(const char *call, CUdeviceptr dst, size_t pitch, size_t width,
                        size_t rows)
{
    const struct gs_box box = {
        .base = dst, .width = width, .rows = rows, .layers = 1, .pitch = pitch};
    check_box(call, &box, true, CU_MEMORYTYPE_DEVICE);
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

void gs_args_copy_2d(const char *call, const CUDA_MEMCPY2D *copy)
{
    if (copy) {
        const struct gs_box from = {PLANE_OF(copy, src), .layers = 1};
        const struct gs_box to = {PLANE_OF(copy, dst), .layers = 1};
        check_box(call, &from, false, copy->srcMemoryType);
        check_box(call, &to, true, copy->dstMemoryType);
    }
}

void gs_args_copy_3d(const char *call, const CUDA_MEMCPY3D *copy)
{
    if (copy) {
        const struct gs_box from = {BOX_OF(copy, src)}, to = {BOX_OF(copy, dst)};
        check_box(call, &from, false, copy->srcMemoryType);
        check_box(call, &to, true, copy->dstMemoryType);
    }
}

void gs_args_copy_3d_peer(const char *call, const CUDA_MEMCPY3D_PEER *copy)
{
    if (copy) {
        const struct gs_box from = {BOX_OF(copy, src)}, to = {BOX_OF(copy, dst)};
        check_box(call, &from, false, copy->srcMemoryType);
        check_box(call, &to, true, copy->dstMemoryType);
    }
}
