/*
 * external.c - imported memory and semaphores.
 * Owns:  see external.h.   Lock: none.
 * Source: Driver API, "External Resource Interoperability".
 */
#include "external.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "context.h"
#include "order.h"
#include "vmm_range.h"

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* A file whose pages can be mapped, of that size at least. */
static CUresult check_file(int fd, size_t bytes)
{
    struct stat stat;

    if (fd < 0 || fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))
        return CUDA_ERROR_INVALID_HANDLE;
    return bytes > 0 && bytes <= (size_t)stat.st_size ? CUDA_SUCCESS
                                                      : CUDA_ERROR_INVALID_VALUE;
}

/* Addresses of a context that show a file. */
static CUresult show_file(struct sim_context *context, int fd, size_t offset,
                          size_t bytes, bool hidden, struct sim_alloc **out)
{
    const struct sim_range_wish wish = {
        .kind = SIM_MEMORY_EXTERNAL,
        .bytes = bytes,
        .align = bytes >= SIM_UNIT_BYTES ? SIM_UNIT_BYTES : page_bytes(),
        .hidden = hidden,
        .device = context->device,
        .context = context,
        .context_id = sim_context_id(context),
    };
    struct sim_alloc *alloc;

    SIM_TRY(sim_range_create(&wish, &alloc));
    if (!sim_range_show(alloc, alloc->base, bytes, fd, offset)) {
        bool removed = sim_range_remove(alloc);
        (void)removed; /* nobody else knows of it */
        sim_memory_unref(alloc);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    sim_order_handed_out(alloc, NULL);
    *out = alloc;
    return CUDA_SUCCESS;
}

static void destroy_memory(struct sim_object *object)
{
    struct sim_external_memory *memory = (struct sim_external_memory *)object;

    if (memory->fd >= 0)
        close(memory->fd);
    free(memory);
}

CUresult sim_external_import(struct sim_context *context, int fd, size_t bytes,
                             CUexternalMemory *out)
{
    CUresult res = check_file(fd, bytes);

    if (res != CUDA_SUCCESS)
        return res;
    struct sim_external_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&memory->object, SIM_TYPE_EXTERNAL_MEMORY, destroy_memory);
    memory->context = context;
    memory->bytes = bytes;
    memory->fd = -1; /* the caller's, unless all goes well */
    if (sim_handle_open(&memory->object)) {
        memory->fd = fd;
        sim_context_adopt(context, &memory->object);
        *out = (CUexternalMemory)memory->object.handle;
    } else {
        res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_object_unref(&memory->object);
    return res;
}

CUresult sim_external_map(const struct sim_external_memory *memory, size_t offset,
                          size_t bytes, bool hidden, struct sim_alloc **out)
{
    if (bytes == 0 || offset > memory->bytes || bytes > memory->bytes - offset ||
        offset % page_bytes())
        return CUDA_ERROR_INVALID_VALUE;
    return show_file(memory->context, memory->fd, offset, bytes, hidden, out);
}

static void destroy_semaphore(struct sim_object *object)
{
    struct sim_external_semaphore *semaphore = (struct sim_external_semaphore *)object;

    if (semaphore->counter) {
        bool removed = sim_range_remove(semaphore->counter);
        (void)removed; /* false if the context has ended */
        sim_memory_unref(semaphore->counter);
    }
    free(semaphore);
}

CUresult sim_external_import_semaphore(struct sim_context *context, int fd, bool timeline,
                                       CUexternalSemaphore *out)
{
    CUresult res = check_file(fd, SIM_COUNTER_BYTES);

    if (res != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_HANDLE; /* a file too small is no semaphore either */
    struct sim_external_semaphore *semaphore = calloc(1, sizeof(*semaphore));
    if (!semaphore)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&semaphore->object, SIM_TYPE_EXTERNAL_SEMAPHORE, destroy_semaphore);
    semaphore->context = context;
    semaphore->timeline = timeline;
    res = show_file(context, fd, 0, SIM_COUNTER_BYTES, true, &semaphore->counter);
    if (res == CUDA_SUCCESS && !sim_handle_open(&semaphore->object))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS) {
        sim_context_adopt(context, &semaphore->object);
        *out = (CUexternalSemaphore)semaphore->object.handle;
        close(fd); /* taken over, and the pages suffice */
    }
    sim_object_unref(&semaphore->object);
    return res;
}
