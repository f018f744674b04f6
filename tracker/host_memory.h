/*
 * host_memory.h - memory straight from the kernel, for code that must not call malloc.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_HOST_MEMORY_H
#define GS_HOST_MEMORY_H

#include "gs_base.h"

#include <sys/mman.h>

/* Zeroed pages; NULL if there are none. The kernel provides them at first use. */
static inline void *gs_host_map(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static inline void gs_host_unmap(void *memory, size_t bytes)
{
    if (memory != NULL) {
        munmap(memory, bytes);
    }
}

#endif
