/*
 * endpoints.c - the functions of CUDA 13.1 and 13.3 for multicast, over a driver that has
 * those of 12.1: an endpoint is one of its multicast objects, with the same memory. Built
 * into a driver that forwards (forward.c).
 *
 * Owns: the endpoints.   Lock: none; the program has one thread.
 * Source: CUDA Driver API 13.3, "Logical Endpoint"
 */
#define _GNU_SOURCE
#include "endpoints.h"

#include <dlfcn.h>

#define EXPORT        __attribute__((visibility("default")))
#define INVALID_VALUE 1
#define ENDPOINTS     8

create_fn cuLogicalEndpointCreate EXPORT;
destroy_fn cuLogicalEndpointDestroy EXPORT;
add_device_fn cuLogicalEndpointAddDevice EXPORT;
bind_mem_fn cuLogicalEndpointBindMem EXPORT;
bind_addr_fn cuLogicalEndpointBindAddr EXPORT;
unbind_fn cuLogicalEndpointUnbind EXPORT;
multicast_mem_fn cuMulticastBindMem_v2 EXPORT;
multicast_addr_fn cuMulticastBindAddr_v2 EXPORT;

struct object_prop {
    unsigned devices;
    size_t size;
    unsigned long long handle_types, flags;
};

static unsigned long long objects[ENDPOINTS]; /* 0: no endpoint has this id */

static void *inner(const char *name)
{
    return dlsym(dlopen(INNER, RTLD_NOW | RTLD_LOCAL), name);
}

#define CALL(name, ...) ((int (*)())inner(#name))(__VA_ARGS__)

static unsigned long long object_of(endpoint_id id)
{
    return id < ENDPOINTS ? objects[id] : 0;
}

int cuLogicalEndpointAddDevice(endpoint_id id, int device)
{
    return object_of(id) ? CALL(cuMulticastAddDevice, objects[id], device)
                         : INVALID_VALUE;
}

int cuLogicalEndpointCreate(endpoint_id id, const struct endpoint_prop *prop)
{
    int is_unicast = prop->type == 1;
    struct object_prop object = {is_unicast ? 1 : prop->device_or_devices, prop->size, 0,
                                 0};

    if (id >= ENDPOINTS || objects[id])
        return INVALID_VALUE;
    int code = CALL(cuMulticastCreate, &objects[id], &object);
    return code || !is_unicast
               ? code
               : cuLogicalEndpointAddDevice(id, (int)prop->device_or_devices);
}

int cuLogicalEndpointDestroy(endpoint_id id)
{
    unsigned long long object = object_of(id);

    if (!object)
        return INVALID_VALUE;
    objects[id] = 0;
    return CALL(cuMemRelease, object);
}

int cuLogicalEndpointBindMem(endpoint_id id, int device, unsigned long long offset,
                             unsigned long long memory, unsigned long long memory_offset,
                             unsigned long long bytes, unsigned long long flags)
{
    (void)device;
    return object_of(id) ? CALL(cuMulticastBindMem, objects[id], (size_t)offset, memory,
                                (size_t)memory_offset, (size_t)bytes, flags)
                         : INVALID_VALUE;
}

int cuLogicalEndpointBindAddr(endpoint_id id, int device, unsigned long long offset,
                              void *address, unsigned long long bytes,
                              unsigned long long flags)
{
    (void)device;
    return object_of(id) ? CALL(cuMulticastBindAddr, objects[id], (size_t)offset, address,
                                (size_t)bytes, flags)
                         : INVALID_VALUE;
}

int cuLogicalEndpointUnbind(endpoint_id id, int device, unsigned long long offset,
                            unsigned long long bytes)
{
    return object_of(id) ? CALL(cuMulticastUnbind, objects[id], device, (size_t)offset,
                                (size_t)bytes)
                         : INVALID_VALUE;
}

int cuMulticastBindMem_v2(unsigned long long object, int device, size_t offset,
                          unsigned long long memory, size_t memory_offset, size_t bytes,
                          unsigned long long flags)
{
    (void)device;
    return CALL(cuMulticastBindMem, object, offset, memory, memory_offset, bytes, flags);
}

int cuMulticastBindAddr_v2(unsigned long long object, int device, size_t offset,
                           unsigned long long address, size_t bytes,
                           unsigned long long flags)
{
    (void)device;
    return CALL(cuMulticastBindAddr, object, offset, address, bytes, flags);
}
