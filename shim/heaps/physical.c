/*
 * physical.c - who still reaches memory of cuMemCreate.
 *
 * Two lists: a program that is given a limit holds some thousand of each at most, and the
 * calls themselves take longer than the walk.
 *
 * Owns:  the lists.   Lock: lock; never held over a driver call.
 */
#include "physical.h"

#include <pthread.h>
#include <stdlib.h>

#include "mem_limits.h"

struct physical {
    struct physical *next;
    CUmemGenericAllocationHandle handle;
    size_t bytes;
    int device;
    unsigned references, mappings;
};

struct mapping {
    struct mapping *next;
    struct physical *physical;
    CUdeviceptr addr;
    size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct physical *physicals; /* under lock */
static struct mapping *mappings;   /* under lock */

/* The memory that a handle names; one without references has none any more, and its old
 * value may be another's. The lock is held. */
static struct physical *find(CUmemGenericAllocationHandle handle)
{
    struct physical *found = physicals;
    while (found && (found->handle != handle || found->references == 0)) {
        found = found->next;
    }
    return found;
}

/* The lock is held. */
static void end_if_unreachable(struct physical *physical)
{
    struct physical **link = &physicals;
    if (physical->references > 0 || physical->mappings > 0) {
        return;
    }
    while (*link != physical) {
        link = &(*link)->next;
    }
    *link = physical->next;
    gs_limits_uncharge(physical->device, physical->bytes);
    free(physical);
}

void gs_physical_made(CUmemGenericAllocationHandle handle, size_t bytes, int device)
{
    struct physical *made = calloc(1, sizeof(*made));
    if (!made) {
        gs_limits_uncharge(device, bytes);
        return;
    }
    *made = (struct physical){
        .handle = handle, .bytes = bytes, .device = device, .references = 1};
    pthread_mutex_lock(&lock);
    made->next = physicals;
    physicals = made;
    pthread_mutex_unlock(&lock);
}

void gs_physical_retained(CUmemGenericAllocationHandle handle)
{
    pthread_mutex_lock(&lock);
    struct physical *physical = find(handle);
    if (physical) {
        physical->references++;
    }
    pthread_mutex_unlock(&lock);
}

void gs_physical_release(CUmemGenericAllocationHandle handle)
{
    pthread_mutex_lock(&lock);
    struct physical *physical = find(handle);
    if (physical) {
        physical->references--;
        end_if_unreachable(physical);
    }
    pthread_mutex_unlock(&lock);
}

void gs_physical_mapped(CUmemGenericAllocationHandle handle, CUdeviceptr addr,
                        size_t bytes)
{
    struct mapping *mapping = calloc(1, sizeof(*mapping));
    pthread_mutex_lock(&lock);
    struct physical *physical = mapping ? find(handle) : NULL;
    if (physical) {
        *mapping = (struct mapping){mappings, physical, addr, bytes};
        mappings = mapping;
        physical->mappings++;
        mapping = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(mapping);
}

void gs_physical_unmapped(CUdeviceptr addr, size_t bytes)
{
    pthread_mutex_lock(&lock);
    for (struct mapping **link = &mappings; *link;) {
        struct mapping *mapping = *link;
        if (mapping->addr < addr || mapping->addr - addr >= bytes) {
            link = &mapping->next;
            continue;
        }
        *link = mapping->next;
        mapping->physical->mappings--;
        end_if_unreachable(mapping->physical);
        free(mapping);
    }
    pthread_mutex_unlock(&lock);
}

void gs_physical_reset(void)
{
    pthread_mutex_init(&lock, NULL);
    physicals = NULL; /* another thread may have been changing them */
    mappings = NULL;
}
