/*
 * endpoints.h - what CUDA 13.1 and 13.3 added to multicast objects, as in cuda.h of 13.3.
 * Owns: nothing.   Lock: none.
 */
#ifndef ENDPOINTS_H
#define ENDPOINTS_H

#include <stddef.h>

typedef unsigned endpoint_id;
struct endpoint_prop {
    int type; /* 1: unicast, 2: multicast */
    unsigned device_or_devices;
    unsigned long long size;
    unsigned handle_types, flags;
};

typedef int create_fn(endpoint_id id, const struct endpoint_prop *prop);
typedef int destroy_fn(endpoint_id id);
typedef int add_device_fn(endpoint_id id, int device);
typedef int bind_mem_fn(endpoint_id id, int device, unsigned long long offset,
                        unsigned long long memory, unsigned long long memory_offset,
                        unsigned long long bytes, unsigned long long flags);
typedef int bind_addr_fn(endpoint_id id, int device, unsigned long long offset,
                         void *address, unsigned long long bytes,
                         unsigned long long flags);
typedef int unbind_fn(endpoint_id id, int device, unsigned long long offset,
                      unsigned long long bytes);
typedef int multicast_mem_fn(unsigned long long object, int device, size_t offset,
                             unsigned long long memory, size_t memory_offset,
                             size_t bytes, unsigned long long flags);
typedef int multicast_addr_fn(unsigned long long object, int device, size_t offset,
                              unsigned long long address, size_t bytes,
                              unsigned long long flags);

#endif
