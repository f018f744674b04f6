/*
 * endpoint_memory.c - memory that only its binding to a logical endpoint, or to a
 * multicast object by the calls of CUDA 13.1, keeps alive.
 *
 *   endpoint_memory         leaves it: a line that does ends in LEAK (leaky.c)
 *   endpoint_memory clean   ends all of it
 *
 * Prints the driver's answers, the same natively, and after which calls the device has its
 * memory again.
 */
#define _GNU_SOURCE
#include "endpoints.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB   ((size_t)1 << 20)
#define FRAME __attribute__((noinline))

typedef unsigned long long handle;

struct location {
    int type, id;
};
struct prop { /* CUmemAllocationProp */
    int type, handle_types;
    struct location location;
    void *metadata;
    unsigned char flags[8];
};
struct object_prop { /* CUmulticastObjectProp */
    unsigned devices;
    size_t size;
    unsigned long long handle_types, flags;
};

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemGetInfo_v2(size_t *free, size_t *total);
int cuMemCreate(handle *out, size_t bytes, const struct prop *prop,
                unsigned long long flags);
int cuMemRelease(handle memory);
int cuMemAddressReserve(handle *out, size_t bytes, size_t align, handle at,
                        unsigned long long flags);
int cuMemMap(handle address, size_t bytes, size_t offset, handle memory,
             unsigned long long flags);
int cuMemUnmap(handle address, size_t bytes);
int cuMemAddressFree(handle address, size_t bytes);
int cuMulticastCreate(handle *out, const struct object_prop *prop);
int cuMulticastAddDevice(handle object, int device);
int cuMulticastUnbind(handle object, int device, size_t offset, size_t bytes);

static size_t free_at_first;

static void ok(int code, const char *what)
{
    if (code) {
        printf("%s: %d\n", what, code);
        exit(1);
    }
}
#define OK(call) ok(call, #call)

/* The functions that the toolkit's library to link with lacks. */
#define NEW(type, name) ((type *)find(#name))
static void *find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    if (!found) {
        printf("no %s\n", name);
        exit(1);
    }
    return found;
}

static void say(const char *when)
{
    size_t now, total;

    OK(cuMemGetInfo_v2(&now, &total));
    printf("%s: the device lacks %zu MiB\n", when, (free_at_first - now) / MIB);
}

static const struct prop on_device = {.type = 1, .location = {1, 0}};

FRAME static void bind_handle(endpoint_id id)
{
    handle memory;

    OK(cuMemCreate(&memory, 4194304, &on_device, 0)); /* LEAK: bind_handle 4194304 2 */
    OK(NEW(bind_mem_fn, cuLogicalEndpointBindMem)(id, 0, 0, memory, 0, 4194304, 0));
    OK(cuMemRelease(memory));
}

FRAME static void bind_address(endpoint_id id)
{
    handle memory, address;

    OK(cuMemAddressReserve(&address, 2097152, 0, 0, 0));
    OK(cuMemCreate(&memory, 2097152, &on_device, 0)); /* LEAK: bind_address 2097152 1 */
    OK(cuMemMap(address, 2097152, 0, memory, 0));
    OK(cuMemRelease(memory));
    OK(NEW(bind_addr_fn, cuLogicalEndpointBindAddr)(id, 0, 4194304,
                                                    (void *)(size_t)address, 2097152, 0));
    OK(cuMemUnmap(address, 2097152));
    OK(cuMemAddressFree(address, 2097152));
}

/* By the handle and by the address; the object is no memory of its own. */
FRAME static handle bind_to_object(void)
{
    struct object_prop prop = {.devices = 2, .size = 8 * MIB};
    handle memory, address, object;

    OK(cuMulticastCreate(&object, &prop)); /* LEAK: bind_to_object 8388608 1 */
    OK(cuMulticastAddDevice(object, 0));
    OK(cuMulticastAddDevice(object, 1));
    OK(cuMemAddressReserve(&address, 6291456, 0, 0, 0));
    OK(cuMemCreate(&memory, 6291456, &on_device, 0)); /* LEAK: bind_to_object 6291456 1 */
    OK(cuMemMap(address, 6291456, 0, memory, 0));
    OK(NEW(multicast_mem_fn, cuMulticastBindMem_v2)(object, 0, 0, memory, 0, 2 * MIB, 0));
    OK(cuMemRelease(memory));
    OK(NEW(multicast_addr_fn, cuMulticastBindAddr_v2)(object, 0, 2 * MIB,
                                                      address + 2 * MIB, 4 * MIB, 0));
    OK(cuMemUnmap(address, 6291456));
    OK(cuMemAddressFree(address, 6291456));
    return object;
}

/* Wrong calls, which bind and unbind nothing. */
static void misuse(endpoint_id id)
{
    unbind_fn *unbind = NEW(unbind_fn, cuLogicalEndpointUnbind);
    bind_mem_fn *bind = NEW(bind_mem_fn, cuLogicalEndpointBindMem);

    printf("unbind of the other device: %d\n", unbind(id, 1, 0, 4194304));
    printf("unbind of a part: %d\n", unbind(id, 0, 0, 2097152));
    printf("unbind of no endpoint: %d\n", unbind(7, 0, 0, 4194304));
    printf("bind of no memory: %d\n", bind(id, 0, 6 * MIB, 0, 0, 2097152, 0));
    printf("bind to no endpoint: %d\n", bind(7, 0, 0, 0, 0, 2097152, 0));
    printf("destroy of no endpoint: %d\n", NEW(destroy_fn, cuLogicalEndpointDestroy)(7));
}

int main(int argc, char **argv)
{
    const struct endpoint_prop team = {2, 2, 8 * MIB, 0, 0},
                               single = {1, 0, 4 * MIB, 0, 0};
    int clean = argc > 1 && strcmp(argv[1], "clean") == 0;
    void *context;

    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemGetInfo_v2(&free_at_first, &(size_t){0}));
    OK(NEW(create_fn, cuLogicalEndpointCreate)(1, &team));
    OK(NEW(add_device_fn, cuLogicalEndpointAddDevice)(1, 0));
    OK(NEW(add_device_fn, cuLogicalEndpointAddDevice)(1, 1));
    OK(NEW(create_fn, cuLogicalEndpointCreate)(2, &single));
    for (endpoint_id id = 1; id <= 2; id++)
        bind_handle(id);
    bind_address(1);
    handle object = bind_to_object();
    say("bound");
    misuse(1);
    say("after wrong calls");
    if (clean) {
        OK(NEW(unbind_fn, cuLogicalEndpointUnbind)(1, 0, 0, 4194304));
        say("unbound");
        OK(NEW(destroy_fn, cuLogicalEndpointDestroy)(1));
        OK(NEW(destroy_fn, cuLogicalEndpointDestroy)(2));
        say("destroyed");
        OK(cuMulticastUnbind(object, 0, 0, 2 * MIB));
        OK(cuMulticastUnbind(object, 0, 2 * MIB, 4 * MIB));
        say("the object unbound");
        OK(cuMemRelease(object));
    }
    return 0;
}
