/*
 * external.h - memory and semaphores that somebody else made, known by a file descriptor.
 *
 * What another API would hand over is opaque; here it is a file in memory (memfd_create,
 * or what cuMemExportToShareableHandle gave): memory is its bytes, a semaphore the 64-bit
 * counter in its first eight. Whoever else has the file open signals and waits by the
 * same counter: a timeline's value, or 1 for a binary one that is signaled.
 *
 * Owns: imported objects; what is mapped onto memory lives on its own.
 * Lock: none, they are immutable between import and the last reference.
 */
#ifndef SIM_EXTERNAL_H
#define SIM_EXTERNAL_H

#include "handle.h"
#include "memory.h"

#define SIM_COUNTER_BYTES sizeof(uint64_t)

struct sim_external_memory {
    struct sim_object object;
    struct sim_context *context; /* identity only */
    int fd;                      /* taken over */
    size_t bytes;
};

struct sim_external_semaphore {
    struct sim_object object;
    struct sim_context *context; /* identity only */
    struct sim_alloc *counter;   /* hidden, with a reference */
    bool timeline;
};

/*
 * Take over a file of at least that size as memory of a context, which keeps it.
 *
 * Errors:  CUDA_ERROR_INVALID_HANDLE  no such file, or not one of memory
 *          CUDA_ERROR_INVALID_VALUE   it is smaller
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_external_import(struct sim_context *context, int fd, size_t bytes,
                             CUexternalMemory *out) GS_MUST_USE;

/*
 * Addresses that show a piece of the memory, with a reference.
 *
 * In:      hidden  no program will know the address
 * Errors:  CUDA_ERROR_INVALID_VALUE     it leaves the memory, or does not begin on a page
 *          CUDA_ERROR_OUT_OF_MEMORY     no addresses
 *          CUDA_ERROR_OPERATING_SYSTEM  the file cannot be mapped
 */
CUresult sim_external_map(const struct sim_external_memory *memory, size_t offset,
                          size_t bytes, bool hidden, struct sim_alloc **out) GS_MUST_USE;

/*
 * A signal or a wait as an operation, for whoever submits it.
 *
 * Errors:  CUDA_ERROR_INVALID_HANDLE  no semaphore
 *          CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_external_semaphore_op(enum sim_api api, CUexternalSemaphore handle,
                                   uint64_t value, bool waits,
                                   struct sim_op **out) GS_MUST_USE;

/* Take over a counter's file. Errors: as sim_external_import and sim_external_map. */
CUresult sim_external_import_semaphore(struct sim_context *context, int fd, bool timeline,
                                       CUexternalSemaphore *out) GS_MUST_USE;

#endif
