/*
 * api_range_handle.c - a file for a range of device memory, as other drivers' devices
 * take it (dma-buf).
 *
 * The file is the one that has the pages, opened anew and positioned where the range
 * begins: it holds the very bytes and stays valid, as a dma-buf does, when the memory is
 * freed; the kernel offers no way to make a shorter one of it. So what several physical
 * allocations back in a reservation has a file only if they lie in a row in one.
 *
 * Owns:  nothing.   Lock: sim_vmm_lock, inside.
 * Source: Driver API, cuMemGetHandleForAddressRange.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "context.h"
#include "space.h"
#include "vmm.h"

/* Values that older headers lack. */
#define DMA_BUF_FD   1
#define MAPPING_PCIE 1

/* That file anew, at that place. */
static CUresult open_at(int file, size_t offset, int *out)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (lseek(fd, (off_t)offset, SEEK_SET) < 0) {
        close(fd);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *out = fd;
    return CUDA_SUCCESS;
}

/* Of what cuMemAlloc gave. A range that begins in a small block may leave it, but not the
 * unit that holds it (H200, driver 580.159.04). */
static CUresult open_block(const struct sim_alloc *alloc, uintptr_t address, size_t bytes,
                           int *out)
{
    const struct sim_space *space = alloc->heap->space;
    const size_t offset = address - space->va;
    const size_t room = alloc->chunk ? SIM_UNIT_BYTES - offset % SIM_UNIT_BYTES
                                     : alloc->block_bytes - (address - alloc->base);

    return bytes <= room ? open_at(space->fd, offset, out) : CUDA_ERROR_INVALID_VALUE;
}

/* Of a reservation: all of it mapped, on a device. */
static CUresult open_mapped(const struct sim_alloc *range, uintptr_t address,
                            size_t bytes, int *out)
{
    CUresult res = CUDA_ERROR_INVALID_VALUE;
    size_t start = 0;
    int file = -1;

    if (bytes > range->bytes - (address - range->base))
        return res;
    pthread_mutex_lock(&sim_vmm_lock);
    for (size_t done = 0; done < bytes;
         done += SIM_UNIT_BYTES - (address + done) % SIM_UNIT_BYTES) {
        const struct sim_mapping *mapping = sim_vmm_at(range, address + done);
        if (!mapping)
            goto unlock;
        const struct sim_physical *physical = mapping->physical;
        size_t place =
            physical->fd_offset + mapping->offset + (address + done - mapping->base);
        if (done == 0) {
            file = physical->fd;
            start = place;
        }
        if (file < 0 || sim_physical_is_host(physical) || physical->fd != file ||
            place != start + done) {
            res = CUDA_ERROR_NOT_SUPPORTED;
            goto unlock;
        }
    }
    res = open_at(file, start, out);
unlock:
    pthread_mutex_unlock(&sim_vmm_lock);
    return res;
}

static CUresult open_range(const struct sim_alloc *alloc, uintptr_t address, size_t bytes,
                           int *out)
{
    if (sim_memory_state(alloc) != SIM_MEMORY_LIVE)
        return CUDA_ERROR_INVALID_VALUE;
    if (alloc->kind == SIM_MEMORY_DEVICE)
        return open_block(alloc, address, bytes, out);
    if (alloc->kind == SIM_MEMORY_RESERVED)
        return open_mapped(alloc, address, bytes, out);
    return sim_memory_is_device_kind(alloc) ? CUDA_ERROR_INVALID_VALUE
                                            : CUDA_ERROR_NOT_SUPPORTED;
}

SIM_API(cuMemGetHandleForAddressRange, void *out, CUdeviceptr pointer, size_t bytes,
        CUmemRangeHandleType type, unsigned long long flags)
{
    SIM_JUDGED_FIRST(!out || !pointer || !bytes || flags != 0, CUDA_ERROR_INVALID_VALUE);

    struct sim_context *context;
    CUresult res = sim_enter_context(SIM_ID_cuMemGetHandleForAddressRange, &context);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd;

    if (res != CUDA_SUCCESS)
        return res;
    if (!out || bytes == 0 || pointer % page || bytes % page || (int)type != DMA_BUF_FD ||
        (flags & ~(unsigned long long)MAPPING_PCIE))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_alloc *alloc = sim_memory_find(pointer);
    if (!alloc)
        return CUDA_ERROR_INVALID_VALUE;
    res = open_range(alloc, pointer, bytes, &fd);
    sim_memory_unref(alloc);
    if (res == CUDA_SUCCESS)
        memcpy(out, &fd, sizeof(fd));
    return res;
}
