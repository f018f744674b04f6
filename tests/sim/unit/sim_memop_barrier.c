/*
 * sim_memop_barrier.c - proves where CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER may be asked
 * for: in the first form of the calls, "not supported in the v2 API"; the value is
 * written all the same. What it orders is judged by tests/order/streams.c.
 */
#include "sim_helpers.h"

#define NO_BARRIER CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER

CUresult CUDAAPI write_32(CUstream stream, CUdeviceptr word, cuuint32_t value,
                          unsigned flags) __asm__("cuStreamWriteValue32");
CUresult CUDAAPI write_64(CUstream stream, CUdeviceptr word, cuuint64_t value,
                          unsigned flags) __asm__("cuStreamWriteValue64");
CUresult CUDAAPI write_batch(CUstream stream, unsigned count,
                             CUstreamBatchMemOpParams *items,
                             unsigned flags) __asm__("cuStreamBatchMemOp");
CUresult CUDAAPI write_32_v2(CUstream stream, CUdeviceptr word, cuuint32_t value,
                             unsigned flags) __asm__("cuStreamWriteValue32_v2");
CUresult CUDAAPI write_64_v2(CUstream stream, CUdeviceptr word, cuuint64_t value,
                             unsigned flags) __asm__("cuStreamWriteValue64_v2");
CUresult CUDAAPI write_batch_v2(CUstream stream, unsigned count,
                                CUstreamBatchMemOpParams *items,
                                unsigned flags) __asm__("cuStreamBatchMemOp_v2");

static CUdeviceptr start(CUstream *stream)
{
    CUdeviceptr words;

    sim_test_start("1", "16M");
    ok(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc(&words, 64));
    ok(cuMemsetD32(words, 0, 16));
    ok(cuCtxSynchronize());
    return words;
}

static CUstreamBatchMemOpParams batch_of_one(CUdeviceptr word, unsigned flags)
{
    return (CUstreamBatchMemOpParams){
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                       .address = word,
                       .value = 7,
                       .flags = flags}};
}

Test(sim_memop_barrier, is_left_out_by_the_first_form)
{
    uint32_t found[16] = {0};
    CUstream stream;
    CUdeviceptr words = start(&stream);
    CUstreamBatchMemOpParams item = batch_of_one(words + 16, NO_BARRIER);

    ok(write_32(stream, words, 5, NO_BARRIER));
    ok(write_64(stream, words + 8, 6, NO_BARRIER));
    ok(write_batch(stream, 1, &item, 0));
    ok(cuStreamSynchronize(stream));
    ok(cuMemcpyDtoH(found, words, sizeof(found)));
    cr_assert_eq(found[0], 5);
    cr_assert_eq(found[2], 6);
    cr_assert_eq(found[4], 7);
}

Test(sim_memop_barrier, cannot_be_left_out_by_the_second_form)
{
    uint32_t found = 1;
    CUstream stream;
    CUdeviceptr words = start(&stream);
    CUstreamBatchMemOpParams item = batch_of_one(words, NO_BARRIER);

    fails(write_32_v2(stream, words, 5, NO_BARRIER), CUDA_ERROR_NOT_SUPPORTED);
    fails(write_64_v2(stream, words, 5, NO_BARRIER), CUDA_ERROR_NOT_SUPPORTED);
    fails(write_batch_v2(stream, 1, &item, 0), CUDA_ERROR_NOT_SUPPORTED);
    ok(cuStreamSynchronize(stream));
    ok(cuMemcpyDtoH(&found, words, 4));
    cr_assert_eq(found, 0);
    item = batch_of_one(words, CU_STREAM_WRITE_VALUE_DEFAULT);
    ok(write_batch_v2(stream, 1, &item, 0));
}

Test(sim_memop_barrier, has_one_flag)
{
    CUstream stream;
    CUdeviceptr words = start(&stream);

    fails(write_32(stream, words, 5, 2), CUDA_ERROR_INVALID_VALUE);
    fails(write_32(stream, words, 5, 3), CUDA_ERROR_INVALID_VALUE);
    fails(write_32_v2(stream, words, 5, 2), CUDA_ERROR_INVALID_VALUE);
}
