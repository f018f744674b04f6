/*
 * args.c - finds the memory that copies and sets access on each side, by the shape of the
 * call.
 * Owns: gs_args_modes.   Lock: none; it is atomic.
 */
#include "shim/checks/args.h"

#include "shim/checks/use_check.h"
#include "shim/settings/log.h"
#include "shim/state/submissions.h"

unsigned gs_args_modes;

void gs_args_start(const struct gs_state *state)
{
    unsigned modes = gs_transfer_table() ? GS_ARGS_RECORDED : 0;
    if (state->options.check_args && state->tracker) {
        modes |= GS_ARGS_CHECKED;
    } else if (state->options.check_args) {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_CHECK=args: with GPUSHIM_TRACK=off no memory "
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

_Thread_local struct gs_block_hint gs_args_hints[2];

static bool is_right_in(struct gs_pool *pool, uint64_t addr, uint64_t bytes,
                        unsigned side)
{
    return GS_LIKELY(gs_hit_covers(pool, addr, bytes, &gs_args_hints[side])) ||
           gs_pool_seek(pool, addr, bytes, &gs_args_hints[side]);
}

/* Returns true if a use that begins in no segment ends in one. A segment begins a page.
 */
static inline bool ends_in_pool(const struct gs_state *state, uint64_t first,
                                uint64_t last)
{
    return GS_UNLIKELY((first ^ last) >> GS_PAGE_SHIFT) != 0 &&
           (gs_pages_find(&state->pool->pages, last) ||
            (state->host_pool && gs_pages_find(&state->host_pool->pages, last)));
}

bool gs_args_right_elsewhere(uint64_t addr, uint64_t bytes, unsigned side)
{
    const struct gs_state *state =
        __atomic_load_n(&gs_state_roots.ready, __ATOMIC_ACQUIRE);
    if (GS_UNLIKELY(!state || !state->pool || bytes == 0)) {
        return true;
    }
    if (gs_pages_find(&state->pool->pages, addr)) {
        return is_right_in(state->pool, addr, bytes, side);
    }
    if (state->host_pool && gs_pages_find(&state->host_pool->pages, addr)) {
        return is_right_in(state->host_pool, addr, bytes, side);
    }
    return GS_LIKELY(!__atomic_load_n(&gs_managed_cached, __ATOMIC_RELAXED)) &&
           GS_LIKELY(!ends_in_pool(state, addr, addr + bytes - 1));
}

static void check_span(struct gs_copy_call *call, const struct gs_use *use)
{
    const unsigned modes = __atomic_load_n(&gs_args_modes, __ATOMIC_RELAXED);
    const bool all = (modes & GS_ARGS_CHECKED) != 0;
    if (GS_UNLIKELY((modes & GS_ARGS_RECORDED) != 0)) {
        gs_pinned_used(use->span.addr);
    }
    if (!all && gs_args_right(use->span.addr, use->span.bytes, use->writes ? 0 : 1)) {
        return;
    }
    struct gs_state *state = gs_enter();
    if (state) {
        if (gs_check_use(state, use, all) && call->refused == CUDA_SUCCESS) {
            call->refused = CUDA_ERROR_INVALID_VALUE;
        }
        gs_leave();
    }
}

static void check_copy(struct gs_copy_call *call, struct gs_copy_end dst,
                       struct gs_copy_end src, size_t bytes)
{
    const struct gs_use from = {.call = call->function,
                                .span = {src.addr, bytes},
                                .host = src.side == GS_SIDE_HOST};
    const struct gs_use to = {.call = call->function,
                              .span = {dst.addr, bytes},
                              .writes = true,
                              .host = dst.side == GS_SIDE_HOST};
    check_span(call, &from);
    check_span(call, &to);
}

CUresult gs_args_refusal(const struct gs_copy_call *call, uintptr_t tagged_stream,
                         bool per_thread)
{
    const struct gs_real *real = gs_real_now();
    CUstream stream =
        tagged_stream & GS_STREAMS_BEYOND
            ? NULL
            : (CUstream)(tagged_stream & ~(GS_STREAMS_LOOSE | GS_STREAMS_ACROSS));
    CUresult result = CUDA_SUCCESS;
    if (call->refused == CUDA_ERROR_INVALID_VALUE) {
        result = per_thread ? real->cuMemsetD8Async_ptsz(0, 0, 1, stream)
                            : real->cuMemsetD8Async(0, 0, 1, stream);
    }
    return result == CUDA_SUCCESS ? call->refused : result;
}

void gs_args_copy(struct gs_copy_call *call, struct gs_copy_end dst,
                  struct gs_copy_end src, size_t bytes)
{
    check_copy(call, dst, src, bytes);
    if (is_on(GS_ARGS_RECORDED)) {
        if (dst.side != GS_SIDE_HOST && src.side != GS_SIDE_DEVICE) {
            gs_pinned_sent(src.addr, bytes);
        }
        gs_transfer_begin(call, dst, src, bytes);
    }
}

void gs_args_write(struct gs_copy_call *call, uint64_t dst, size_t bytes)
{
    check_span(call, &(struct gs_use){
                         .call = call->function, .span = {dst, bytes}, .writes = true});
}

void gs_args_read(struct gs_copy_call *call, uint64_t src, size_t bytes)
{
    if (is_on(GS_ARGS_RECORDED)) {
        gs_pinned_unknown(); /* a wait for the host, or an array, may hide addresses */
    }
    check_span(call, &(struct gs_use){.call = call->function, .span = {src, bytes}});
}

void gs_args_copy_batch(struct gs_copy_call *call, const CUdeviceptr *dsts,
                        const CUdeviceptr *srcs, const size_t *sizes, size_t count)
{
    for (size_t i = 0; dsts && srcs && sizes && i < count; i++) {
        check_copy(call, GS_ARGS_END(UNKNOWN, dsts[i]), GS_ARGS_END(UNKNOWN, srcs[i]),
                   sizes[i]);
        if (is_on(GS_ARGS_RECORDED)) {
            gs_pinned_sent(srcs[i], sizes[i]);
        }
    }
}

/* A longer list is refused by its length alone, and the caller's may be shorter. */
enum { OPERATIONS_MOST = 255 }; /* CUDA driver API, cuStreamBatchMemOp */

void gs_args_operations(struct gs_copy_call *call, const CUstreamBatchMemOpParams *list,
                        unsigned count)
{
    for (unsigned i = 0; list && count <= OPERATIONS_MOST && i < count; i++) {
        switch ((int)list[i].operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            gs_args_read(call, list[i].waitValue.address, 4);
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            gs_args_read(call, list[i].waitValue.address, 8);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            gs_args_write(call, list[i].writeValue.address, 4);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            gs_args_write(call, list[i].writeValue.address, 8);
            break;
        default:
            break;
        }
    }
}

void gs_args_event(struct gs_copy_call *call, CUevent event)
{
    if (call->refused == CUDA_SUCCESS) {
        call->refused = gs_own_event_refuse(event, call->function);
    }
}

/* ---- a box on each side ------------------------------------------------------------ */

/* Checks one side of a copy. A box at address 0 belongs to an array, which is not
 * checked. */
static void check_box(struct gs_copy_call *call, const struct gs_box *box, bool writes,
                      enum gs_copy_side side)
{
    struct gs_use use = {
        .call = call->function, .writes = writes, .host = side == GS_SIDE_HOST};
    if (box->base != 0 && gs_span_of_box(box, &use.span)) {
        check_span(call, &use);
    }
}

void gs_args_write_rows(struct gs_copy_call *call, CUdeviceptr dst, size_t pitch,
                        size_t width, size_t rows)
{
    const struct gs_box box = {
        .base = dst, .width = width, .rows = rows, .layers = 1, .pitch = pitch};
    check_box(call, &box, true, GS_SIDE_DEVICE);
}

/* The side of a copy that the memory type names. An array is on the device. */
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
    check_box(call, from, false, from_end.side);
    check_box(call, to, true, to_end.side);
    if (is_on(GS_ARGS_RECORDED)) {
        struct gs_span span;
        if (to_end.side != GS_SIDE_HOST && from_end.side != GS_SIDE_DEVICE &&
            gs_span_of_box(from, &span)) {
            gs_pinned_sent(span.addr, span.bytes);
        }
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

/* ---- boxes of a batch -------------------------------------------------------------- */

/* CUDA_MEMCPY3D_BATCH_OP with pointers on both sides; older headers lack the type.
 * Source: CUDA Driver API 12.8, CUmemcpy3DOperand */
struct box_end {
    int type;
    CUdeviceptr pointer;
    size_t row_elements, layer_rows;
    CUmemLocation location;
};
struct box_pair {
    struct box_end from, to;
    size_t width, height, depth;
    int order;
    unsigned flags;
};
static_assert(sizeof(struct box_pair) == 112, "as the driver has it");

static void check_end(struct gs_copy_call *call, const struct box_end *end,
                      const struct box_pair *pair, bool writes)
{
    struct gs_span span;
    const struct gs_box box = {
        .base = end->pointer,
        .width = pair->width,
        .rows = pair->height,
        .layers = pair->depth,
        .pitch = end->row_elements ? end->row_elements : pair->width,
        .height = end->layer_rows ? end->layer_rows : pair->height};
    check_box(call, &box, writes, GS_SIDE_UNKNOWN);
    if (!writes && is_on(GS_ARGS_RECORDED) && gs_span_of_box(&box, &span)) {
        gs_pinned_sent(span.addr, span.bytes);
    }
}

void gs_args_boxes(struct gs_copy_call *call, const CUDA_MEMCPY3D_BATCH_OP *list,
                   size_t count)
{
    enum { POINTER = 1 }; /* CU_MEMCPY_OPERAND_TYPE_POINTER */
    const struct box_pair *pairs = (const struct box_pair *)list;
    for (size_t i = 0; list && i < count; i++) {
        if (pairs[i].from.type == POINTER && pairs[i].to.type == POINTER) {
            check_end(call, &pairs[i].from, &pairs[i], false);
            check_end(call, &pairs[i].to, &pairs[i], true);
        }
    }
}

/* ---- nodes of graphs --------------------------------------------------------------- */

/* The members of CUgraphNodeParams that name memory or an event; older headers lack
 * them. Source: CUDA Driver API 12.2, CUgraphNodeParams */
struct node_copy {
    int flags, reserved;
    CUcontext context;
    CUDA_MEMCPY3D copy;
};
struct node_operations {
    CUcontext context;
    unsigned count;
    const CUstreamBatchMemOpParams *list;
};

CUresult gs_args_node(const CUgraphNodeParams *params, const char *name)
{
    enum { OPERATIONS = 12 }; /* CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, since 11.7 */
    GS_ARGS_CALL(name);
    if (!params || !__atomic_load_n(&gs_state_roots.ready, __ATOMIC_RELAXED)) {
        return CUDA_SUCCESS;
    }
    const void *of = params->reserved1;
    switch ((int)params->type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        gs_args_copy_3d(call, &((const struct node_copy *)of)->copy);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        const CUDA_MEMSET_NODE_PARAMS *set = of;
        gs_args_write_rows(call, set->dst, set->pitch,
                           gs_args_times(set->elementSize, set->width), set->height);
        break;
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        gs_args_event(call, *(const CUevent *)of);
        break;
    case OPERATIONS: {
        const struct node_operations *node = of;
        gs_args_operations(call, node->list, node->count);
        break;
    }
    default:
        break;
    }
    return call->refused == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
