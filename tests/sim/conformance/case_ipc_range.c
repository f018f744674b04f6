/*
 * case_ipc_range.c - a range of device memory as a file (dma-buf) for other devices.
 */
#include "case_ipc_help.h"
#include "case_memory_help.h"

#include <fcntl.h>
#include <unistd.h>

#if CUDA_VERSION >= 11070
#define DMA_BUF_FD        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
#define DMA_BUF_SUPPORTED CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED

typedef CUresult get_handle_function(void *, CUdeviceptr, size_t, CUmemRangeHandleType,
                                     unsigned long long);

/* The function, where the driver and the device have what is asked for. */
static get_handle_function *get_handle(void)
{
    void *symbol = driver_function("cuMemGetHandleForAddressRange");

    if (symbol && device_attribute(DMA_BUF_SUPPORTED))
        return (get_handle_function *)symbol;
    skip("no dma-buf");
    return NULL;
}

CASE(ipc, range_as_a_file, DRIVER_API, "cuMemGetHandleForAddressRange",
     "Get a handle of the specified type to an address range obtained by cuMemAlloc; "
     "handle is a pointer to an integer to store the dma_buf file descriptor")
{
    get_handle_function *get = get_handle();
    int fd = -1;

    if (!get)
        return;
    MEMORY pointer = device_get(4 * GS_MIB);
    if (CHECK_OK(get(&fd, pointer, 4 * GS_MIB, DMA_BUF_FD, 0))) {
        CHECK(fcntl(fd, F_GETFD) >= 0);
        CHECK(lseek(fd, 0, SEEK_END) >= (off_t)(4 * GS_MIB));
        close(fd);
    }
    if (CHECK_OK(get(&fd, pointer + GS_MIB, GS_MIB, DMA_BUF_FD, 0)))
        close(fd);
}

CASE(ipc, range_is_of_pages, DRIVER_API, "cuMemGetHandleForAddressRange",
     "Users must ensure the dptr and size are aligned to the host page size")
{
    get_handle_function *get = get_handle();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = -1;

    if (!get)
        return;
    MEMORY pointer = device_get(4 * GS_MIB);
    CHECK_INVALID(get(&fd, pointer + 512, page, DMA_BUF_FD, 0));
    CHECK_INVALID(get(&fd, pointer, page + 512, DMA_BUF_FD, 0));
    CHECK_INVALID(get(&fd, pointer, 0, DMA_BUF_FD, 0));
}

CASE(ipc, range_leaves_its_memory, DRIVER_API, "cuMemGetHandleForAddressRange",
     "dptr is a pointer to a valid CUDA device allocation: one that has all of the range")
{
    get_handle_function *get = get_handle();
    int fd = -1;

    if (!get)
        return;
    CUdeviceptr pointer = device_get(4 * GS_MIB);
    CHECK(get(&fd, pointer, 4 * GS_GIB, DMA_BUF_FD, 0) != CUDA_SUCCESS);
    device_put(pointer);
    CHECK(get(&fd, pointer, GS_MIB, DMA_BUF_FD, 0) != CUDA_SUCCESS);
}

CASE(ipc, range_leaves_a_small_block, GPUS, "cuMemGetHandleForAddressRange",
     "A range that begins in a small block may leave it within the 2 MiB that the driver "
     "has there" ON_H200)
{
    get_handle_function *get = get_handle();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = -1;

    if (!get)
        return;
    MEMORY block = device_get(65536);
    CUdeviceptr pointer = (block + page - 1) / page * page;
    size_t room = 2 * GS_MIB - pointer % (2 * GS_MIB);
    size_t bytes = room < 131072 ? room : 131072;
    if (CHECK_OK(get(&fd, pointer, bytes, DMA_BUF_FD, 0)))
        close(fd);
}

CASE(ipc, range_arguments, DRIVER_API, "cuMemGetHandleForAddressRange",
     "handleType is the type of handle requested; flags are 0 or "
     "CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE")
{
    get_handle_function *get = get_handle();
    int fd = -1;

    if (!get)
        return;
    MEMORY pointer = device_get(4 * GS_MIB);
    CHECK_INVALID(get(&fd, pointer, GS_MIB, (CUmemRangeHandleType)0x1000, 0));
    CHECK_INVALID(get(&fd, pointer, GS_MIB, DMA_BUF_FD, 0x1000));
    CHECK_INVALID(get(NULL, pointer, GS_MIB, DMA_BUF_FD, 0));
}
#endif
