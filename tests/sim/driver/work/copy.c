/*
 * copy.c - copies and sets, as operations.
 *
 * A side that is no allocation of the driver's is pageable memory of the process. A copy
 * to it is done when the call returns; the documents promise that of synchronous calls.
 * One from it to device memory takes a copy of its source and returns, a synchronous
 * call after a wait for its stream. A synchronous copy between two device addresses, and
 * a set of device memory, return when they are enqueued.
 *
 * Owns:  nothing.   Lock: none.
 * Source: Driver API, "API synchronization behavior".
 */
#include "copy.h"

#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "config.h"
#include "context.h"

#define CONTEXT_SYNC_MEMOPS 0x80u /* CU_CTX_SYNC_MEMOPS, which is not in all headers */

/* A word at once, as the device does it: somebody may wait for it. */
static void copy_row(void *dst, const void *src, size_t bytes)
{
    bool aligned = bytes > 0 && ((uintptr_t)dst | (uintptr_t)src) % bytes == 0;

    if (bytes == 4 && aligned)
        __atomic_store_n((uint32_t *)dst,
                         __atomic_load_n((const uint32_t *)src, __ATOMIC_ACQUIRE),
                         __ATOMIC_RELEASE);
    else if (bytes == 8 && aligned)
        __atomic_store_n((uint64_t *)dst,
                         __atomic_load_n((const uint64_t *)src, __ATOMIC_ACQUIRE),
                         __ATOMIC_RELEASE);
    else
        memmove(dst, src, bytes);
}

static bool on_device(const struct sim_access *access)
{
    return access->alloc && sim_memory_on_device(access->alloc, access->address);
}

/* The time that a copy between host and device takes by its bytes. */
static void spend_time(const struct sim_op *op)
{
    const struct sim_access *to = &op->access[0];
    size_t rate = sim_config()->copy_rate;
    double bytes = (double)to->row_bytes * (double)to->rows * (double)to->slices;

    if (GS_UNLIKELY(rate) && on_device(to) != on_device(&op->access[1]))
        sim_sched_spin((uint64_t)(bytes * 1e9 / (double)rate));
}

static CUresult run_copy(struct sim_op *op)
{
    struct sim_access *to = &op->access[0];
    struct sim_access *from = &op->access[1];
    void *dst, *src;
    CUresult res = sim_access_open(to, &dst);

    if (res == CUDA_SUCCESS)
        res = sim_access_open(from, &src);
    if (res != CUDA_SUCCESS)
        return res;
    for (size_t slice = 0; slice < to->slices; slice++) {
        for (size_t row = 0; row < to->rows; row++)
            copy_row((char *)dst + slice * to->slice_pitch + row * to->pitch,
                     (char *)src + slice * from->slice_pitch + row * from->pitch,
                     to->row_bytes);
    }
    spend_time(op);
    return CUDA_SUCCESS;
}

/* Fill in an access from a side of a copy; close rows and slices become one row. */
static CUresult shape(struct sim_access *access, const struct sim_side *side,
                      const struct sim_extent3 *extent, bool writes)
{
    size_t pitch = side->pitch ? side->pitch : extent->row_bytes;
    size_t slice = side->slice_pitch;

    if (!slice && __builtin_mul_overflow(pitch, extent->rows, &slice))
        return CUDA_ERROR_INVALID_VALUE;
    if ((extent->rows > 1 || extent->slices > 1) && pitch < extent->row_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *access = (struct sim_access){
        .address = side->address,
        .row_bytes = extent->row_bytes,
        .rows = extent->rows,
        .slices = extent->slices,
        .pitch = pitch,
        .slice_pitch = slice,
        .writes = writes,
    };
    return CUDA_SUCCESS;
}

/* Resolve a side: a live allocation, or, where the call allows it, pageable memory. */
static CUresult bind(struct sim_access *access, enum sim_side_kind kind)
{
    bool device_address = sim_memory_is_device_address(access->address);

    if (!access->address || (kind == SIM_SIDE_HOST && device_address))
        return CUDA_ERROR_INVALID_VALUE;
    access->hidden = kind == SIM_SIDE_ARRAY;
    return sim_access_bind(access, kind == SIM_SIDE_DEVICE || device_address ||
                                       sim_memory_is_host_pool_address(access->address));
}

static bool is_pageable(const struct sim_access *access)
{
    return !access->alloc;
}

/* Fully synchronous with respect to the host, whatever the call. */
static bool is_between_hosts(const struct sim_op *op)
{
    return !on_device(&op->access[0]) && !on_device(&op->access[1]);
}

CUresult sim_copy_prepare(enum sim_api api, enum sim_sync sync,
                          const struct sim_side *dst, const struct sim_side *src,
                          const struct sim_extent3 *extent, struct sim_op **out,
                          bool *waits)
{
    *out = NULL;
    *waits = false;
    if (!extent->row_bytes || !extent->rows || !extent->slices)
        return CUDA_SUCCESS;
    struct sim_op *op = sim_op_new(SIM_OP_COPY, api, run_copy);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_access *to = &op->access[0];
    struct sim_access *from = &op->access[1];
    op->access_count = 2;
    CUresult res = shape(to, dst, extent, true);
    if (res == CUDA_SUCCESS)
        res = shape(from, src, extent, false);
    if (res == CUDA_SUCCESS)
        res = bind(to, dst->kind);
    if (res == CUDA_SUCCESS)
        res = bind(from, src->kind);
    if (res == CUDA_SUCCESS && !is_between_hosts(op) &&
        (!sim_access_is_open(to) || !sim_access_is_open(from)))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res != CUDA_SUCCESS) {
        sim_op_unref(op);
        return res;
    }
    bool device_only = on_device(to) && on_device(from);
    bool sync_memops = (on_device(to) && atomic_load(&to->alloc->sync_memops)) ||
                       (on_device(from) && atomic_load(&from->alloc->sync_memops));
    *waits = is_pageable(to) || is_pageable(from) || is_between_hosts(op) ||
             (sync == SIM_SYNC_CALL && (!device_only || sync_memops));
    *out = op;
    return CUDA_SUCCESS;
}

/* From pageable memory to the device: is the source staged? */
static bool is_staged(const struct sim_op *op)
{
    return is_pageable(&op->access[1]) && !op->access[1].device &&
           on_device(&op->access[0]);
}

CUresult sim_copy_stage(struct sim_op *op)
{
    struct sim_access *from = &op->access[1];
    size_t slice_bytes = from->row_bytes * from->rows;
    char *staged = malloc(slice_bytes * from->slices);

    if (!staged)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t slice = 0; slice < from->slices; slice++) {
        for (size_t row = 0; row < from->rows; row++)
            memcpy(staged + slice * slice_bytes + row * from->row_bytes,
                   (char *)from->address + slice * from->slice_pitch + row * from->pitch,
                   from->row_bytes);
    }
    op->staged = staged;
    if (from->alloc)
        sim_memory_unref(from->alloc);
    from->alloc = NULL;
    from->address = (uintptr_t)staged;
    from->pitch = from->row_bytes;
    from->slice_pitch = slice_bytes;
    return CUDA_SUCCESS;
}

static CUresult submit_staged(struct sim_stream *stream, struct sim_op *op,
                              enum sim_sync sync)
{
    CUresult res = CUDA_SUCCESS;

    if (sim_is_strict(SIM_RULE_copy_from_pageable))
        return sim_submit_wait(stream, op);
    if (sync == SIM_SYNC_CALL)
        res = sim_stream_wait(stream);
    if (res == CUDA_SUCCESS && !sim_is_lax(SIM_RULE_copy_from_pageable))
        res = sim_copy_stage(op);
    return res == CUDA_SUCCESS ? sim_submit(stream, op) : res;
}

/* The rules of waiting, bent. */
static bool bend_waits(const struct sim_op *op, enum sim_sync sync, bool waits)
{
    const struct sim_access *to = &op->access[0];
    bool sync_call = sync == SIM_SYNC_CALL;

    if (sim_is_lax(SIM_RULE_copy_to_pageable) && is_pageable(to))
        return false;
    if (sim_is_lax(SIM_RULE_copy_of_pinned) && sync_call && !is_pageable(to))
        return false;
    return waits || (sim_is_strict(SIM_RULE_copy_to_pageable) && !on_device(to)) ||
           (sim_is_strict(SIM_RULE_copy_of_pinned) && sync_call) ||
           (sim_is_strict(SIM_RULE_copy_async) && !sync_call && on_device(to));
}

/* Do synchronous calls on that memory, or in that context, always wait? */
static bool always_waits(const struct sim_stream *stream, const struct sim_op *op)
{
    bool waits = (atomic_load(&stream->context->flags) & CONTEXT_SYNC_MEMOPS) != 0;

    for (unsigned i = 0; i < op->access_count; i++)
        waits = waits || (on_device(&op->access[i]) &&
                          atomic_load(&op->access[i].alloc->sync_memops));
    return waits;
}

/* A synchronous copy between two devices is in order with all work of both. */
static bool is_between_devices(const struct sim_op *op)
{
    return on_device(&op->access[0]) && on_device(&op->access[1]) &&
           op->access[0].alloc->device != op->access[1].alloc->device;
}

/* Is it the context of one before it in the list, too? */
static bool is_again(struct sim_context *const *contexts, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (contexts[i] == contexts[index])
            return true;
    }
    return false;
}

CUresult sim_submit_serialized(struct sim_stream *stream, struct sim_op *op,
                               struct sim_context *const *contexts, size_t count)
{
    CUresult res = CUDA_SUCCESS;

    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++) {
        if (contexts[i] && !is_again(contexts, i))
            res = sim_context_depend(contexts[i], op);
    }
    if (res == CUDA_SUCCESS)
        res = sim_submit(stream, op);
    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++) {
        if (!contexts[i] || is_again(contexts, i))
            continue;
        struct sim_op *behind = sim_op_new(SIM_OP_MARK, op->api, NULL);
        if (behind && sim_op_depend(behind, op))
            res = sim_context_bar(contexts[i], behind);
        else
            res = CUDA_ERROR_OUT_OF_MEMORY;
        sim_op_unref(behind);
    }
    return res;
}

static CUresult submit_between_devices(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_context *contexts[3] = {stream->context, NULL, NULL};

    for (unsigned i = 0; i < 2; i++) {
        const struct sim_alloc *alloc = op->access[i].alloc;
        if (alloc->context && sim_context_lives(alloc->context, alloc->context_id))
            contexts[1 + i] = alloc->context;
    }
    return sim_submit_serialized(stream, op, contexts, GS_ARRAY_LEN(contexts));
}

/* Submit as the documents say, drop the reference. */
static CUresult submit_copy(struct sim_stream *stream, struct sim_op *op,
                            enum sim_sync sync, bool waits)
{
    CUresult res;

    waits = bend_waits(op, sync, waits);
    if (sync == SIM_SYNC_CALL && always_waits(stream, op))
        res = sim_submit_wait(stream, op);
    else if (sync == SIM_SYNC_CALL && is_between_devices(op))
        res = submit_between_devices(stream, op);
    else if (is_staged(op) && !sim_capture_has(stream))
        res = submit_staged(stream, op, sync);
    else if (!waits)
        res = sim_submit(stream, op);
    else if (sync == SIM_ASYNC_CALL && is_pageable(&op->access[0]) &&
             on_device(&op->access[1]))
        res = sim_submit_may_wait(stream, op);
    else
        res = sim_submit_wait(stream, op);
    sim_op_unref(op);
    return res;
}

/* Submit, wait if asked to, drop the reference. */
static CUresult finish(struct sim_stream *stream, struct sim_op *op, bool waits)
{
    CUresult res = waits ? sim_submit_wait(stream, op) : sim_submit(stream, op);

    sim_op_unref(op);
    return res;
}

/* A call that synchronizes does not go with a capture. */
static CUresult check_capture(struct sim_stream *stream, enum sim_sync sync)
{
    return sync == SIM_SYNC_CALL ? sim_capture_check_sync(stream) : CUDA_SUCCESS;
}

CUresult sim_copy(enum sim_api api, struct sim_stream *stream, enum sim_sync sync,
                  const struct sim_side *dst, const struct sim_side *src,
                  const struct sim_extent3 *extent)
{
    struct sim_op *op;
    bool waits;
    CUresult res = check_capture(stream, sync);

    if (res == CUDA_SUCCESS)
        res = sim_copy_prepare(api, sync, dst, src, extent, &op, &waits);
    if (res != CUDA_SUCCESS || !op)
        return res;
    return submit_copy(stream, op, sync, waits);
}

static void set_row(void *row, size_t bytes, const struct sim_set *set)
{
    if (set->element_bytes == 1) {
        memset(row, (int)set->value, bytes);
    } else if (set->element_bytes == 2) {
        for (size_t i = 0; i < bytes / 2; i++)
            ((uint16_t *)row)[i] = (uint16_t)set->value;
    } else {
        /* Each word at once: a kernel or the host may wait for it. */
        for (size_t i = 0; i < bytes / 4; i++)
            __atomic_store_n((uint32_t *)row + i, set->value, __ATOMIC_RELEASE);
    }
}

static CUresult run_set(struct sim_op *op)
{
    struct sim_access *to = &op->access[0];
    void *dst;
    CUresult res = sim_access_open(to, &dst);

    for (size_t row = 0; res == CUDA_SUCCESS && row < to->rows; row++)
        set_row((char *)dst + row * to->pitch, to->row_bytes, &op->set);
    return res;
}

CUresult sim_set_prepare(enum sim_api api, uintptr_t address, size_t pitch,
                         unsigned element_bytes, uint32_t value, size_t columns,
                         size_t rows, struct sim_op **out)
{
    struct sim_extent3 extent = {.rows = rows, .slices = 1};
    struct sim_side side = {.kind = SIM_SIDE_DEVICE, .address = address, .pitch = pitch};

    *out = NULL;
    if (__builtin_mul_overflow(columns, (size_t)element_bytes, &extent.row_bytes) ||
        address % element_bytes || (rows > 1 && pitch % element_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!extent.row_bytes || !rows)
        return CUDA_SUCCESS;
    struct sim_op *op = sim_op_new(SIM_OP_SET, api, run_set);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->access_count = 1;
    op->set = (struct sim_set){.element_bytes = element_bytes, .value = value};
    CUresult res = shape(&op->access[0], &side, &extent, true);
    if (res == CUDA_SUCCESS)
        res = bind(&op->access[0], SIM_SIDE_DEVICE);
    if (res == CUDA_SUCCESS && !sim_access_is_open(&op->access[0]))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        *out = op;
    else
        sim_op_unref(op);
    return res;
}

CUresult sim_set(enum sim_api api, struct sim_stream *stream, enum sim_sync sync,
                 uintptr_t address, size_t pitch, unsigned element_bytes, uint32_t value,
                 size_t columns, size_t rows)
{
    struct sim_op *op;
    CUresult res = check_capture(stream, sync);

    if (res == CUDA_SUCCESS)
        res = sim_set_prepare(api, address, pitch, element_bytes, value, columns, rows,
                              &op);
    if (res != CUDA_SUCCESS || !op)
        return res;
    const struct sim_alloc *alloc = op->access[0].alloc;
    bool waits = sync == SIM_SYNC_CALL && !sim_is_lax(SIM_RULE_set_waits) &&
                 (!sim_memory_on_device(alloc, address) ||
                  atomic_load(&alloc->sync_memops) || sim_is_strict(SIM_RULE_set_waits));
    return finish(stream, op, waits);
}
