/*
 * sim_ipc_range.c - proves what the file of an address range is on the simulated device:
 * one that holds its very bytes, of an allocation and of what is mapped in a reservation.
 * What is documented stands in tests/sim/conformance/case_ipc_range.c.
 */
#include "sim_ipc_helpers.h"

#define WORD 0x12345678u

typedef CUresult get_range_function(void *, CUdeviceptr, size_t, CUmemRangeHandleType,
                                    unsigned long long);

Test(sim_ipc_range, a_range_is_a_file_of_its_bytes)
{
    get_range_function *get;
    CUdeviceptr pointer;
    CUstream stream;
    uint32_t word;
    int fd;

    sim_test_start("1", "16M");
    *(void **)&get = dlsym(RTLD_DEFAULT, "cuMemGetHandleForAddressRange");
    ok(cuMemAlloc(&pointer, 4 * GS_MIB));
    ok(cuMemsetD32(pointer + GS_MIB, WORD, 1));
    ok(cuCtxSynchronize());
    ok(get(&fd, pointer + GS_MIB, GS_MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    cr_assert_eq(read(fd, &word, sizeof(word)), (ssize_t)sizeof(word));
    cr_assert_eq(word, WORD);
    word = 9;
    cr_assert_eq(write(fd, &word, sizeof(word)), (ssize_t)sizeof(word));
    cr_assert_eq(sim_test_word(pointer + GS_MIB + 4), 9);
    close(fd);
    fails(get(&fd, pointer, 4 * GS_MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1),
          CUDA_ERROR_NOT_SUPPORTED);
    fails(get(&fd, pointer, 6 * GS_MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuStreamCreate(&stream, 0));
    ok(cuMemAllocAsync(&pointer, 4 * GS_MIB, stream));
    fails(get(&fd, pointer, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
          CUDA_ERROR_INVALID_VALUE);
}

static CUmemGenericAllocationHandle map_memory(CUdeviceptr at, size_t bytes)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle memory;

    ok(cuMemCreate(&memory, bytes, &prop, 0));
    ok(cuMemMap(at, bytes, 0, memory, 0));
    ok(cuMemSetAccess(at, bytes, &access, 1));
    return memory;
}

Test(sim_ipc_range, a_mapped_range_is_a_file_too)
{
    get_range_function *get;
    CUdeviceptr pointer;
    uint32_t word = 0;
    int fd;

    sim_test_start("1", "16M");
    *(void **)&get = dlsym(RTLD_DEFAULT, "cuMemGetHandleForAddressRange");
    ok(cuMemAddressReserve(&pointer, 6 * GS_MIB, 0, 0, 0));
    fails(get(&fd, pointer, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
          CUDA_ERROR_INVALID_VALUE);
    map_memory(pointer, 4 * GS_MIB);
    fails(get(&fd, pointer, 6 * GS_MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
          CUDA_ERROR_INVALID_VALUE); /* not all is mapped */
    ok(cuMemsetD32(pointer + 3 * GS_MIB, WORD, 1));
    ok(cuCtxSynchronize());
    ok(get(&fd, pointer + 3 * GS_MIB, GS_MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    cr_assert_eq(read(fd, &word, sizeof(word)), (ssize_t)sizeof(word));
    cr_assert_eq(word, WORD);
    close(fd);
    fails(get(&fd, pointer + 3 * GS_MIB, 4 * GS_MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
              0),
          CUDA_ERROR_INVALID_VALUE);
}
