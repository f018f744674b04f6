/*
 * spliced.c - pinned memory that a pipe still has when its owner frees it.
 *
 * vmsplice puts pages into a pipe without a copy. Natively a free unmaps the pages, and
 * the pipe keeps their bytes. Memory that is handed out again would show the new owner's
 * bytes to the reader. So a segment of the pool with such pages serves no further
 * allocation, and its last block's free is the driver's.
 *
 * Owns: nothing.   Lock: none.   Design: docs/host-memory.md, "Pages that the kernel
 * reads"
 */
#include <errno.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shim/host/host_pools.h"
#include "shim/link/linker.h"

GS_EXPORT ssize_t vmsplice(int fd, const struct iovec *parts, size_t count,
                           unsigned int flags);

/* Retains each segment of the pool in a range of addresses. */
static void retain_segments(struct gs_state *state, uint64_t addr, uint64_t end)
{
    while (addr < end) {
        gs_host_retain(state, addr);
        addr = addr / GS_LARGE_BYTES * GS_LARGE_BYTES + GS_LARGE_BYTES;
    }
}

/* As vmsplice(2). What the pipe took was readable, and so is its list. */
GS_EXPORT ssize_t vmsplice(int fd, const struct iovec *parts, size_t count,
                           unsigned int flags)
{
    typedef ssize_t vmsplice_fn(int, const struct iovec *, size_t, unsigned int);
    static void *found;
    vmsplice_fn *next = (vmsplice_fn *)gs_linker_behind("vmsplice", &found);
    struct gs_state *state;
    ssize_t taken, left;

    if (!next) {
        errno = ENOSYS;
        return -1;
    }
    left = taken = next(fd, parts, count, flags);
    if (taken <= 0 || !gs_host_has_served()) {
        return taken;
    }
    state = gs_state_peek();
    for (size_t i = 0; state && i < count && left > 0; i++) {
        size_t part = parts[i].iov_len < (size_t)left ? parts[i].iov_len : (size_t)left;
        uint64_t addr = (uintptr_t)parts[i].iov_base;
        retain_segments(state, addr, addr + part);
        left -= (ssize_t)part;
    }
    return taken;
}
