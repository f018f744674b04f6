/*
 * sim_external.c - proves external memory and semaphores over files in memory: what is
 * taken over, what is mapped, who waits for whom.
 */
#include "sim_vmm_help.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int file_of(size_t bytes)
{
    int fd = memfd_create("sim-external-test", MFD_CLOEXEC);

    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory_desc(int fd, size_t bytes)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc;

    memset(&desc, 0, sizeof(desc));
    desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    desc.handle.fd = fd;
    desc.size = bytes;
    return desc;
}

static CUexternalMemory import(int fd, size_t bytes)
{
    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = memory_desc(fd, bytes);
    CUexternalMemory memory;

    ok(cuImportExternalMemory(&memory, &desc));
    return memory;
}

Test(sim_external, a_buffer_shows_the_file)
{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = 8192, .size = 5000};
    CUdeviceptr p, base;
    size_t bytes;

    sim_test_start("1", "16M");
    int fd = file_of(65536), own = dup(fd);
    CUexternalMemory memory = import(fd, 65536);
    ok(cuExternalMemoryGetMappedBuffer(&p, memory, &buffer));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB, "it is not the device's");
    ok(cuMemsetD32(p, 41, 5000 / 4));
    ok(cuCtxSynchronize());
    uint32_t word = 0;
    cr_assert_eq(pread(own, &word, 4, 8192 + 4996), 4);
    cr_assert_eq(word, 41);
    word = 42;
    cr_assert_eq(pwrite(own, &word, 4, 8192), 4);
    cr_assert_eq(sim_test_word(p), 42);
    ok(cuMemGetAddressRange(&base, &bytes, p + 100));
    cr_assert_eq(base, p);
    cr_assert_eq(bytes, 5000);
    fails(cuMemsetD8(p, 1, 5001), CUDA_ERROR_INVALID_VALUE);
    ok(cuDestroyExternalMemory(memory));
    fails(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
    cr_assert_eq(fcntl(fd, F_GETFD), -1, "the file was taken over");
    ok(cuMemFree(p));
    fails(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemGetAddressRange(&base, &bytes, p), CUDA_ERROR_NOT_FOUND);
}

Test(sim_external, kernels_use_it_and_pointers_tell)
{
    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = 4096};
    CUmemorytype type = 0;
    CUcontext owner = NULL, context = sim_test_start("1", "16M");
    uint64_t count = 1024;
    uint32_t seed = 1;
    CUdeviceptr p;
    void *host;

    CUexternalMemory memory = import(file_of(4096), 4096);
    ok(cuExternalMemoryGetMappedBuffer(&p, memory, &buffer));
    void *params[] = {&p, &count, &seed};
    ok(sim_test_launch(sim_test_kernel("gs_fill"), NULL, params));
    ok(cuCtxSynchronize());
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    cr_assert_eq(type, CU_MEMORYTYPE_DEVICE);
    ok(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    cr_assert_eq(owner, context);
    fails(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFreeAsync(p, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAddressFree(p, 4096), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemUnmap(p, 4096), CUDA_ERROR_INVALID_VALUE);
    count = 1025;
    ok(sim_test_launch(sim_test_kernel("gs_fill"), NULL, params));
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(sim_external, refuses_what_is_no_memory)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc;
    CUexternalMemory memory;
    int pipes[2], fd;

    sim_test_start("1", "16M");
    fd = file_of(4096);
    desc = memory_desc(fd, 8192);
    fails(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_VALUE);
    cr_assert_neq(fcntl(fd, F_GETFD), -1, "it is the caller's still");
    desc = memory_desc(fd, 0);
    fails(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(pipe(pipes), 0);
    desc = memory_desc(pipes[0], 4096);
    fails(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_HANDLE);
    desc = memory_desc(-1, 4096);
    fails(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_HANDLE);
    desc = memory_desc(fd, 4096);
    desc.flags = 2;
    fails(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_VALUE);
    desc = memory_desc(fd, 4096);
    desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP;
    fails(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_NOT_SUPPORTED);
    desc.type = (CUexternalMemoryHandleType)99;
    fails(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_VALUE);
    fails(cuImportExternalMemory(NULL, &desc), CUDA_ERROR_INVALID_VALUE);
    fails(cuImportExternalMemory(&memory, NULL), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_external, refuses_bad_buffers)
{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = 4096, .size = 8192};
    CUdeviceptr p = 77;

    sim_test_start("1", "16M");
    CUexternalMemory memory = import(file_of(8192), 8192);
    fails(cuExternalMemoryGetMappedBuffer(&p, memory, &buffer), CUDA_ERROR_INVALID_VALUE);
    buffer.size = 0;
    fails(cuExternalMemoryGetMappedBuffer(&p, memory, &buffer), CUDA_ERROR_INVALID_VALUE);
    buffer = (CUDA_EXTERNAL_MEMORY_BUFFER_DESC){.size = 4096, .flags = 1};
    fails(cuExternalMemoryGetMappedBuffer(&p, memory, &buffer), CUDA_ERROR_INVALID_VALUE);
    buffer = (CUDA_EXTERNAL_MEMORY_BUFFER_DESC){.size = 4096};
    fails(cuExternalMemoryGetMappedBuffer(NULL, memory, &buffer),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuExternalMemoryGetMappedBuffer(&p, (CUexternalMemory)8, &buffer),
          CUDA_ERROR_INVALID_HANDLE);
    cr_assert_eq(p, 77);
}

Test(sim_external, goes_with_its_context)
{
    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = 4096};
    CUcontext first = sim_test_start("1", "16M"), own;
    CUdeviceptr p;

    ok(cuCtxCreate_v2(&own, 0, 0));
    CUexternalMemory memory = import(file_of(4096), 4096);
    ok(cuExternalMemoryGetMappedBuffer(&p, memory, &buffer));
    ok(cuCtxDestroy(own));
    ok(cuCtxSetCurrent(first));
    fails(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    fails(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
}

Test(sim_external, arrays_lie_in_the_file)
{
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC desc;
    uint32_t out[16], back[16] = {0};
    CUmipmappedArray mipmap, other;
    CUarray level, same;

    sim_test_start("1", "16M");
    memset(&desc, 0, sizeof(desc));
    desc.arrayDesc = (CUDA_ARRAY3D_DESCRIPTOR){.Width = 16,
                                               .Height = 4,
                                               .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                               .NumChannels = 1};
    desc.numLevels = 2;
    CUexternalMemory memory = import(file_of(65536), 65536);
    ok(cuExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &desc));
    ok(cuExternalMemoryGetMappedMipmappedArray(&other, memory, &desc));
    ok(cuMipmappedArrayGetLevel(&level, mipmap, 1));
    ok(cuMipmappedArrayGetLevel(&same, other, 1));
    for (size_t i = 0; i < 16; i++)
        out[i] = (uint32_t)i + 1;
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = out,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = level,
                          .WidthInBytes = 32,
                          .Height = 2};
    ok(cuMemcpy2D(&copy));
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = same;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = back;
    ok(cuMemcpy2D(&copy));
    cr_assert_eq(memcmp(out, back, sizeof(out)), 0);
    ok(cuMipmappedArrayDestroy(mipmap));
    ok(cuMipmappedArrayDestroy(other));
    desc.offset = 65536 - 4096;
    desc.arrayDesc.Width = 4096;
    fails(cuExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &desc),
          CUDA_ERROR_INVALID_VALUE);
    desc.offset = 0;
    desc.arrayDesc.Width = 16;
    desc.numLevels = 9;
    fails(cuExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &desc),
          CUDA_ERROR_INVALID_VALUE);
}

/* ---- semaphores ---- */

#define BINARY   CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD
#define TIMELINE CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD

static CUexternalSemaphore semaphore_of(int fd, CUexternalSemaphoreHandleType type)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc;
    CUexternalSemaphore semaphore;

    memset(&desc, 0, sizeof(desc));
    desc.type = type;
    desc.handle.fd = fd;
    ok(cuImportExternalSemaphore(&semaphore, &desc));
    return semaphore;
}

static CUresult signal_value(CUexternalSemaphore semaphore, uint64_t value,
                             CUstream stream)
{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params;

    memset(&params, 0, sizeof(params));
    params.params.fence.value = value;
    return cuSignalExternalSemaphoresAsync(&semaphore, &params, 1, stream);
}

static CUresult wait_value(CUexternalSemaphore semaphore, uint64_t value, CUstream stream)
{
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params;

    memset(&params, 0, sizeof(params));
    params.params.fence.value = value;
    return cuWaitExternalSemaphoresAsync(&semaphore, &params, 1, stream);
}

Test(sim_external, a_timeline_orders_streams)
{
    struct sim_latch latch;
    CUstream a, b;
    uint32_t *page;

    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuMemHostAlloc((void **)&page, 4096, 0));
    page[0] = 0;
    CUexternalSemaphore semaphore = semaphore_of(file_of(8), TIMELINE);
    ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    sim_latch_block(&latch, a);
    ok(signal_value(semaphore, 3, a));
    ok(wait_value(semaphore, 2, b)); /* at least 2 */
    ok(cuMemsetD32Async((CUdeviceptr)(uintptr_t)page, 51, 1, b));
    sim_test_sleep_ms(20);
    cr_assert_eq(page[0], 0);
    sim_latch_open(&latch);
    ok(cuStreamSynchronize(b));
    cr_assert_eq(page[0], 51);
    ok(wait_value(semaphore, 3, b)); /* it stays */
    ok(cuStreamSynchronize(b));
    ok(wait_value(semaphore, 4, b));
    cr_assert_eq(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    ok(signal_value(semaphore, 4, a));
    ok(cuStreamSynchronize(b));
    ok(cuDestroyExternalSemaphore(semaphore));
    fails(cuDestroyExternalSemaphore(semaphore), CUDA_ERROR_INVALID_HANDLE);
    fails(signal_value(semaphore, 5, a), CUDA_ERROR_INVALID_HANDLE);
}

Test(sim_external, a_binary_semaphore_is_taken_by_its_wait)
{
    CUstream a, b;

    sim_test_start("1", "16M");
    int fd = file_of(8), own = dup(fd);
    volatile uint64_t *counter =
        mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
    CUexternalSemaphore semaphore = semaphore_of(fd, BINARY);
    ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    ok(signal_value(semaphore, 0, a));
    ok(cuStreamSynchronize(a));
    cr_assert_eq(*counter, 1);
    ok(wait_value(semaphore, 0, b));
    ok(cuStreamSynchronize(b));
    cr_assert_eq(*counter, 0);
    ok(wait_value(semaphore, 0, b));
    sim_test_sleep_ms(10);
    cr_assert_eq(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    *counter = 1; /* whoever else has the semaphore */
    ok(cuStreamSynchronize(b));
    cr_assert_eq(*counter, 0);
}

Test(sim_external, refuses_what_is_no_semaphore)
{
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc;
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params;
    CUexternalSemaphore semaphore;
    CUexternalSemaphore pair[2];
    CUstream stream;

    sim_test_start("1", "16M");
    memset(&desc, 0, sizeof(desc));
    desc.type = BINARY;
    desc.handle.fd = file_of(4);
    fails(cuImportExternalSemaphore(&semaphore, &desc), CUDA_ERROR_INVALID_HANDLE);
    desc.handle.fd = -1;
    fails(cuImportExternalSemaphore(&semaphore, &desc), CUDA_ERROR_INVALID_HANDLE);
    desc.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC;
    fails(cuImportExternalSemaphore(&semaphore, &desc), CUDA_ERROR_NOT_SUPPORTED);
    desc.type = (CUexternalSemaphoreHandleType)77;
    fails(cuImportExternalSemaphore(&semaphore, &desc), CUDA_ERROR_INVALID_VALUE);
    fails(cuImportExternalSemaphore(&semaphore, NULL), CUDA_ERROR_INVALID_VALUE);
    pair[0] = semaphore_of(file_of(8), TIMELINE);
    pair[1] = (CUexternalSemaphore)8;
    memset(&params, 0, sizeof(params));
    ok(cuStreamCreate(&stream, 0));
    fails(cuSignalExternalSemaphoresAsync(pair, NULL, 1, stream),
          CUDA_ERROR_INVALID_VALUE);
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS both[2] = {params, params};
    both[0].params.fence.value = 9;
    fails(cuSignalExternalSemaphoresAsync(pair, both, 2, stream),
          CUDA_ERROR_INVALID_HANDLE);
    ok(wait_value(pair[0], 1, stream)); /* nothing was signaled by the refused call */
    cr_assert_eq(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    CUstream other;
    ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    ok(signal_value(pair[0], 1, other));
    ok(cuStreamSynchronize(stream));
    params.flags = 1;
    fails(cuSignalExternalSemaphoresAsync(pair, &params, 1, stream),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuSignalExternalSemaphoresAsync(NULL, NULL, 0, stream));
}
