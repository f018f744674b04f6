/*
 * sim_batch.c - proves that batched copies take one place in their stream, have no order
 * among each other, and read a source that is the call's alone before it returns; that
 * batched prefetches are remembered and discarded memory is nobody's to read.
 */
#include "sim_graph_helpers.h"
#include "sim_hostile_helpers.h"

static CUmemcpyAttributes ordered(CUmemcpySrcAccessOrder order)
{
    return (CUmemcpyAttributes){.srcAccessOrder = order};
}

static CUresult copy_all(CUdeviceptr *to, CUdeviceptr *from, size_t count,
                         CUmemcpySrcAccessOrder order, CUstream stream)
{
    CUmemcpyAttributes attributes = ordered(order);
    size_t bytes[8], start = 0;

    for (size_t i = 0; i < count; i++)
        bytes[i] = 64;
    return cuMemcpyBatchAsync(to, from, bytes, count, &attributes, &start, 1, stream);
}

Test(sim_batch, copies_in_the_order_of_the_stream)
{
    struct sim_latch latch;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    CUstream stream = new_stream();
    CUdeviceptr from[] = {new_words(1), new_words(2)},
                to[] = {new_words(0), new_words(0)};
    sim_latch_block(&latch, stream);
    ok(copy_all(to, from, 2, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, stream));
    sim_test_sleep_ms(20);
    cr_assert_eq(peek(to[0]) + peek(to[1]), 0);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(peek(to[0]), 1);
    cr_assert_eq(peek(to[1]), 2);
}

Test(sim_batch, reads_what_is_the_calls_alone_before_it_returns)
{
    struct sim_latch latch;
    uint32_t words[16] = {7}, *pinned;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuMemHostAlloc((void **)&pinned, 64, 0));
    pinned[0] = 8;
    CUstream stream = new_stream();
    CUdeviceptr from[] = {(CUdeviceptr)(uintptr_t)words, (CUdeviceptr)(uintptr_t)pinned};
    CUdeviceptr to[] = {new_words(0), new_words(0)};
    sim_latch_block(&latch, stream);
    ok(copy_all(to, from, 2, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, stream));
    words[0] = pinned[0] = 9;
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(peek(to[0]), 7);
    cr_assert_eq(peek(to[1]), 8);
    words[0] = 5;
    ok(copy_all(to, from, 1, CU_MEMCPY_SRC_ACCESS_ORDER_ANY, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(peek(to[0]), 5);
}

/* Two copies of one batch to the same word: either may be the last. */
static void two_to_one(struct trace *trace)
{
    CUcontext context;
    CUstream stream;
    CUdeviceptr words;
    uint32_t seen = 0;

    good(cuInit(0));
    good(cuDevicePrimaryCtxRetain(&context, 0));
    good(cuCtxSetCurrent(context));
    good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    good(cuMemAlloc(&words, 4096));
    good(cuMemsetD32(words, 1, 256));
    good(cuMemsetD32(words + 1024, 2, 256));
    good(cuCtxSynchronize());
    CUdeviceptr to[] = {words + 2048, words + 2048}, from[] = {words, words + 1024};
    good(copy_all(to, from, 2, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, stream));
    good(cuMemcpyDtoHAsync(&seen, words + 2048, 4, stream));
    good(cuStreamSynchronize(stream));
    trace_add(trace, seen);
}

Test(sim_batch, has_no_order_within_itself)
{
    cr_assert_eq(hostile_variety(two_to_one, 20), 2);
}

Test(sim_batch, refuses_what_is_not_complete)
{
    CUmemcpyAttributes attributes[] = {ordered(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM),
                                       ordered(CU_MEMCPY_SRC_ACCESS_ORDER_ANY)};
    size_t bytes[] = {64, 64}, starts[] = {0, 1};

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    CUdeviceptr from[] = {new_words(1), new_words(2)},
                to[] = {new_words(0), new_words(0)};
    ok(cuMemcpyBatchAsync(to, from, bytes, 2, attributes, starts, 2, stream));
    fails(cuMemcpyBatchAsync(to, from, bytes, 2, attributes, starts, 2, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyBatchAsync(to, from, bytes, 2, attributes, starts, 0, stream),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyBatchAsync(to, from, bytes, 1, attributes, starts, 2, stream),
          CUDA_ERROR_INVALID_VALUE);
    starts[1] = 0;
    fails(cuMemcpyBatchAsync(to, from, bytes, 2, attributes, starts, 2, stream),
          CUDA_ERROR_INVALID_VALUE);
    starts[1] = 1;
    attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    fails(cuMemcpyBatchAsync(to, from, bytes, 2, attributes, starts, 2, stream),
          CUDA_ERROR_INVALID_VALUE);
    attributes[1] = attributes[0];
    attributes[1].flags = 2;
    fails(cuMemcpyBatchAsync(to, from, bytes, 2, attributes, starts, 2, stream),
          CUDA_ERROR_INVALID_VALUE);
    attributes[1].flags = 0;
    bytes[1] = 1 << 30;
    fails(cuMemcpyBatchAsync(to, from, bytes, 2, attributes, starts, 2, stream),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuStreamSynchronize(stream));
    cr_assert_eq(peek(to[0]), 1);
}

/* ---- boxes ------------------------------------------------------------------------- */

static CUmemcpy3DOperand operand(CUdeviceptr pointer, size_t row, size_t height)
{
    CUmemcpy3DOperand operand = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER};

    operand.op.ptr.ptr = pointer;
    operand.op.ptr.rowLength = row;
    operand.op.ptr.layerHeight = height;
    return operand;
}

Test(sim_batch, copies_boxes)
{
    uint8_t seen[64] = {0};

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    CUdeviceptr from = new_words(0), to = new_words(0);
    for (unsigned i = 0; i < 64; i++)
        ok(cuMemsetD8(from + i, (unsigned char)i, 1));
    ok(cuCtxSynchronize());
    CUDA_MEMCPY3D_BATCH_OP copies[] = {
        {.src = operand(from, 8, 4),
         .dst = operand(to, 0, 0),
         .extent = {2, 2, 2},
         .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
        {.src = operand(from + 5, 0, 0),
         .dst = operand(to + 32, 0, 0),
         .extent = {1, 1, 1},
         .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}};
    ok(cuMemcpy3DBatchAsync(2, copies, 0, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuMemcpyDtoH(seen, to, 64));
    static const uint8_t wanted[] = {0, 1, 8, 9, 32, 33, 40, 41};
    cr_assert_eq(memcmp(seen, wanted, sizeof(wanted)), 0);
    cr_assert_eq(seen[32], 5);
    fails(cuMemcpy3DBatchAsync(2, copies, 1, stream), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpy3DBatchAsync(2, copies, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    copies[1].extent.depth = 0;
    fails(cuMemcpy3DBatchAsync(2, copies, 0, stream), CUDA_ERROR_INVALID_VALUE);
    copies[1].extent.depth = 1;
    copies[1].extent.width = 4;
    copies[1].src.op.ptr.rowLength = 3;
    fails(cuMemcpy3DBatchAsync(2, copies, 0, stream), CUDA_ERROR_INVALID_VALUE);
}

/* ---- managed memory ---------------------------------------------------------------- */

static int prefetched_to(CUdeviceptr words)
{
    int device = 99;

    ok(cuMemRangeGetAttribute(&device, sizeof(device),
                              CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, words,
                              4096));
    return device;
}

Test(sim_batch, prefetches_and_discards)
{
    CUmemLocation places[] = {{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              {.type = CU_MEM_LOCATION_TYPE_HOST}};
    CUdeviceptr words[2];
    size_t bytes[] = {4096, 4096}, starts[] = {0, 1};

    sim_test_start("1", "16M");
    CUstream stream = new_stream();
    for (unsigned i = 0; i < 2; i++) {
        ok(cuMemAllocManaged(&words[i], 4096, CU_MEM_ATTACH_GLOBAL));
        *(uint32_t *)words[i] = 5;
    }
    ok(cuMemPrefetchBatchAsync(words, bytes, 2, places, starts, 2, 0, stream));
    cr_assert_eq(prefetched_to(words[0]), 0);
    cr_assert_eq(prefetched_to(words[1]), CU_DEVICE_CPU);
    ok(cuMemDiscardBatchAsync(words, bytes, 1, 0, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_neq(*(uint32_t *)words[0], 5);
    cr_assert_eq(*(uint32_t *)words[1], 5);
    places[1].type = CU_MEM_LOCATION_TYPE_DEVICE;
    ok(cuMemDiscardAndPrefetchBatchAsync(words, bytes, 2, places, starts, 2, 0, stream));
    ok(cuStreamSynchronize(stream));
    cr_assert_neq(*(uint32_t *)words[1], 5);
    cr_assert_eq(prefetched_to(words[1]), 0);
    fails(cuMemPrefetchBatchAsync(words, bytes, 2, places, starts, 2, 1, stream),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemPrefetchBatchAsync(words, bytes, 2, places, starts, 2, 0, NULL),
          CUDA_ERROR_INVALID_VALUE);
    places[0].id = 7;
    fails(cuMemPrefetchBatchAsync(words, bytes, 2, places, starts, 2, 0, stream),
          CUDA_ERROR_INVALID_DEVICE);
    words[1] = new_words(0);
    fails(cuMemDiscardBatchAsync(words, bytes, 2, 0, stream), CUDA_ERROR_INVALID_VALUE);
}
