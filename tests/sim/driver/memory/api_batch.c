/*
 * api_batch.c - batches of copies. A batch has one place in its stream; its copies have
 * no order among each other, so that each but the first may run beside the one before it.
 * On a capturing stream they become nodes one behind the other. Owns:  nothing.   Lock:
 * none of its own. Source: Driver API, cuMemcpyBatchAsync, cuMemcpy3DBatchAsync.
 */
#include <stdlib.h>

#include "array.h"
#include "capture.h"
#include "context.h"
#include "copy.h"

#if CUDA_VERSION >= 12080

#define NO_INDEX SIZE_MAX

/* One copy of a batch. */
struct item {
    struct sim_op *op; /* NULL: nothing to do */
    CUmemcpySrcAccessOrder order;
};

/* A batch being made; each item's operation with a reference. */
struct batch {
    enum sim_api api;
    struct item *items;
    size_t count;
    size_t *fail; /* where the caller learns which copy is wrong; or NULL */
};

/* Once that many copies have been made. */
static void end_batch(struct batch *batch)
{
    while (batch->count > 0)
        sim_op_unref(batch->items[--batch->count].op);
    free(batch->items);
}

static bool order_is_known(CUmemcpySrcAccessOrder order)
{
    return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
           order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

static CUresult add(struct batch *batch, const struct sim_side *dst,
                    const struct sim_side *src, const struct sim_extent3 *extent,
                    CUmemcpySrcAccessOrder order, unsigned flags)
{
    struct item *item = &batch->items[batch->count];
    bool waits;

    if (!order_is_known(order) ||
        (flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res =
        sim_copy_prepare(batch->api, SIM_ASYNC_CALL, dst, src, extent, &item->op, &waits);
    if (res != CUDA_SUCCESS)
        return res;
    item->order = order;
    batch->count++;
    return CUDA_SUCCESS;
}

/* Is the source memory that the host itself can read? */
static bool host_reads(const struct sim_access *source)
{
    return !source->device && !source->hidden &&
           (!source->alloc || !sim_memory_is_device_kind(source->alloc));
}

/* Submit one copy; a source that is the call's alone is read before it returns. */
static CUresult submit_item(struct sim_stream *stream, struct item *item)
{
    bool during_call = item->order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;

    if (!during_call || sim_capture_has(stream))
        return sim_submit(stream, item->op);
    if (!host_reads(&item->op->access[1]))
        return sim_submit_wait(stream, item->op);
    CUresult res = sim_copy_stage(item->op);
    return res == CUDA_SUCCESS ? sim_submit(stream, item->op) : res;
}

static CUresult submit(struct batch *batch, struct sim_stream *stream)
{
    CUresult res = CUDA_SUCCESS;
    bool first = true;

    for (size_t i = 0; i < batch->count && res == CUDA_SUCCESS; i++) {
        struct item *item = &batch->items[i];
        if (!item->op)
            continue;
        if (!first)
            item->op->overlap = ORACLE_OVERLAPS;
        first = false;
        res = submit_item(stream, item);
    }
    return res;
}

/* The stream of a batch, which is never the legacy one. */
static CUresult get_stream(enum sim_api api, enum sim_variant variant, CUstream handle,
                           struct sim_stream **out)
{
    struct sim_context *context;
    CUresult res = sim_enter_context(api, &context);

    if (res == CUDA_SUCCESS)
        res = sim_stream_get(context, handle, variant, out);
    if (res != CUDA_SUCCESS || (*out)->kind != SIM_STREAM_LEGACY)
        return res;
    sim_stream_put(*out);
    return CUDA_ERROR_INVALID_VALUE;
}

/* Where the batch begins: room for so many. */
static CUresult begin(struct batch *batch, size_t count)
{
    if (batch->fail)
        *batch->fail = NO_INDEX;
    if (count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    batch->items = calloc(count, sizeof(*batch->items));
    return batch->items ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* All have been made, or one of them is wrong. */
static CUresult finish(struct batch *batch, struct sim_stream *stream, CUresult res)
{
    if (res != CUDA_SUCCESS && batch->items && batch->fail)
        *batch->fail = batch->count;
    if (res == CUDA_SUCCESS)
        res = submit(batch, stream);
    end_batch(batch);
    sim_stream_put(stream);
    return res;
}

/* ---- lines ------------------------------------------------------------------------- */

/* What the caller names copies by. */
struct lines {
    const CUdeviceptr *dst, *src;
    const size_t *bytes;
    size_t count;
    const CUmemcpyAttributes *attributes;
    const size_t *starts;
    size_t attribute_count;
};

static bool lines_are_complete(const struct lines *lines)
{
    if (!lines->dst || !lines->src || !lines->bytes || !lines->attributes ||
        !lines->starts || lines->attribute_count == 0 ||
        lines->attribute_count > lines->count || lines->starts[0] != 0)
        return false;
    for (size_t i = 1; i < lines->attribute_count; i++) {
        if (lines->starts[i] <= lines->starts[i - 1])
            return false;
    }
    return lines->starts[lines->attribute_count - 1] < lines->count;
}

static CUresult copy_lines(enum sim_api api, enum sim_variant variant, CUstream handle,
                           const struct lines *lines, size_t *fail)
{
    struct batch batch = {.api = api, .fail = fail};
    struct sim_stream *stream;
    size_t used = 0;

    SIM_TRY(get_stream(api, variant, handle, &stream));
    if (!lines_are_complete(lines)) {
        sim_stream_put(stream);
        if (fail)
            *fail = NO_INDEX;
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult res = begin(&batch, lines->count);
    for (size_t i = 0; i < lines->count && res == CUDA_SUCCESS; i++) {
        const struct sim_side dst = {SIM_SIDE_UNIFIED, lines->dst[i], 0, 0};
        const struct sim_side src = {SIM_SIDE_UNIFIED, lines->src[i], 0, 0};
        const struct sim_extent3 extent = {lines->bytes[i], 1, 1};
        if (used + 1 < lines->attribute_count && lines->starts[used + 1] == i)
            used++;
        res = add(&batch, &dst, &src, &extent, lines->attributes[used].srcAccessOrder,
                  lines->attributes[used].flags);
    }
    return finish(&batch, stream, res);
}

SIM_API_TWINS(cuMemcpyBatchAsync, ptsz,
              (CUdeviceptr * dst, CUdeviceptr *src, size_t *bytes, size_t count,
               CUmemcpyAttributes *attributes, size_t *starts, size_t attribute_count,
               size_t *fail, CUstream stream),
              copy_lines(api, variant, stream,
                         &(const struct lines){dst, src, bytes, count, attributes, starts,
                                               attribute_count},
                         fail));

SIM_API_TWINS(cuMemcpyBatchAsync_v2, ptsz,
              (CUdeviceptr * dst, CUdeviceptr *src, size_t *bytes, size_t count,
               CUmemcpyAttributes *attributes, size_t *starts, size_t attribute_count,
               CUstream stream),
              copy_lines(api, variant, stream,
                         &(const struct lines){dst, src, bytes, count, attributes, starts,
                                               attribute_count},
                         NULL));

/* ---- boxes ------------------------------------------------------------------------- */

/* Bytes of an element of an array; 0: no array. */
static size_t element_of(const CUmemcpy3DOperand *operand)
{
    struct sim_array *array = sim_array_get(operand->op.array.array);
    size_t bytes = array ? array->element_bytes : 0;

    if (array)
        sim_array_put(array);
    return bytes;
}

static bool is_array(const CUmemcpy3DOperand *operand)
{
    return operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
}

/* How many bytes an element of the copy has; 0: the operands do not go together. */
static size_t element_bytes(const CUDA_MEMCPY3D_BATCH_OP *copy)
{
    size_t dst = is_array(&copy->dst) ? element_of(&copy->dst) : 1;
    size_t src = is_array(&copy->src) ? element_of(&copy->src) : 1;

    if (is_array(&copy->dst) && is_array(&copy->src))
        return dst == src ? dst : 0;
    return dst * src;
}

/* One operand; extent in bytes, rows, slices. */
static CUresult read_side(const CUmemcpy3DOperand *operand, size_t element,
                          const struct sim_extent3 *extent, struct sim_side *out)
{
    size_t pitch, slice = 0;

    if (is_array(operand)) {
        const CUoffset3D *offset = &operand->op.array.offset;
        if (__builtin_mul_overflow(offset->x, element, &pitch))
            return CUDA_ERROR_INVALID_VALUE;
        return sim_array_side(operand->op.array.array, pitch, offset->y, offset->z,
                              extent, out);
    }
    if (operand->type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
        __builtin_mul_overflow(operand->op.ptr.rowLength, element, &pitch))
        return CUDA_ERROR_INVALID_VALUE;
    if (pitch == 0)
        pitch = extent->row_bytes;
    size_t rows =
        operand->op.ptr.layerHeight ? operand->op.ptr.layerHeight : extent->rows;
    if (pitch < extent->row_bytes || rows < extent->rows ||
        __builtin_mul_overflow(pitch, rows, &slice))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_side){SIM_SIDE_UNIFIED, operand->op.ptr.ptr, pitch, slice};
    return CUDA_SUCCESS;
}

static CUresult add_box(struct batch *batch, const CUDA_MEMCPY3D_BATCH_OP *copy)
{
    struct sim_extent3 extent = {0, copy->extent.height, copy->extent.depth};
    size_t element = element_bytes(copy);
    struct sim_side dst, src;

    if (element == 0 || copy->extent.width == 0 || extent.rows == 0 ||
        extent.slices == 0 ||
        __builtin_mul_overflow(copy->extent.width, element, &extent.row_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = read_side(&copy->dst, element, &extent, &dst);
    if (res == CUDA_SUCCESS)
        res = read_side(&copy->src, element, &extent, &src);
    return res == CUDA_SUCCESS
               ? add(batch, &dst, &src, &extent, copy->srcAccessOrder, copy->flags)
               : res;
}

static CUresult copy_boxes(enum sim_api api, enum sim_variant variant, CUstream handle,
                           const CUDA_MEMCPY3D_BATCH_OP *copies, size_t count,
                           unsigned long long flags, size_t *fail)
{
    struct batch batch = {.api = api, .fail = fail};
    struct sim_stream *stream;

    SIM_TRY(get_stream(api, variant, handle, &stream));
    CUresult res = begin(&batch, copies && flags == 0 ? count : 0);
    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++)
        res = add_box(&batch, &copies[i]);
    return finish(&batch, stream, res);
}

SIM_API_TWINS(cuMemcpy3DBatchAsync, ptsz,
              (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, size_t *fail,
               unsigned long long flags, CUstream stream),
              copy_boxes(api, variant, stream, copies, count, flags, fail));

SIM_API_TWINS(cuMemcpy3DBatchAsync_v2, ptsz,
              (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, unsigned long long flags,
               CUstream stream),
              copy_boxes(api, variant, stream, copies, count, flags, NULL));

#else

SIM_API_TOO_NEW(cuMemcpyBatchAsync)
SIM_API_TOO_NEW(cuMemcpyBatchAsync_ptsz)
SIM_API_TOO_NEW(cuMemcpyBatchAsync_v2)
SIM_API_TOO_NEW(cuMemcpyBatchAsync_v2_ptsz)
SIM_API_TOO_NEW(cuMemcpy3DBatchAsync)
SIM_API_TOO_NEW(cuMemcpy3DBatchAsync_ptsz)
SIM_API_TOO_NEW(cuMemcpy3DBatchAsync_v2)
SIM_API_TOO_NEW(cuMemcpy3DBatchAsync_v2_ptsz)

#endif
