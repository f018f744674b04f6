/*
 * devices.c - frees on one GPU while another one works. Each program is right: a free
 * waits for work of its own context alone, so a layer must tell the devices' work apart,
 * and must not take one device's work for another's. Source: Driver API, "API
 * synchronization behavior"; docs/free.md, "By device"
 */
#include "order.h"

struct place {
    CUcontext context;
    CUstream stream; /* non-blocking */
    CUdeviceptr memory;
};

/* Device 1 in use, too; device 0's primary context stays current. */
static struct place other_device(void)
{
    struct place other;
    CUdevice device;

    OK(cuDeviceGet(&device, 1));
    OK(cuDevicePrimaryCtxRetain(&other.context, device));
    OK(cuCtxPushCurrent(other.context));
    other.stream = new_stream();
    other.memory = new_memory();
    OK(cuCtxPopCurrent(&other.context));
    return other;
}

static void set(CUdeviceptr memory, CUstream stream)
{
    OK(cuMemsetD32Async(memory, 9, WORDS, stream));
}

static void set_on(const struct place *other, CUstream stream)
{
    CUcontext popped;

    OK(cuCtxPushCurrent(other->context));
    set(other->memory, stream);
    OK(cuCtxPopCurrent(&popped));
}

static void synchronize_on(const struct place *other)
{
    CUcontext popped;

    OK(cuCtxPushCurrent(other->context));
    OK(cuCtxSynchronize());
    OK(cuCtxPopCurrent(&popped));
}

/* Its next owner works in a stream of its own. */
static void free_and_reuse(CUdeviceptr memory)
{
    CUdeviceptr reused;

    OK(cuMemFree(memory));
    reused = new_memory();
    fill(new_stream(), reused, 2);
    must_hold(reused, 2);
}

PROGRAM_WITH(devices, both_work, RIGHT, "each device's work is its own",
             "CUDASIM_DEVICES=2")
{
    CUdeviceptr memory = new_memory();
    struct place other = other_device();
    CUstream stream = new_stream();

    for (int i = 0; i < 3; i++) {
        set_on(&other, other.stream);
        set(memory, stream);
        OK(cuStreamSynchronize(stream));
        free_and_reuse(memory);
        memory = new_memory();
    }
    synchronize_on(&other);
}

/* The default streams of two devices have the same handle. */
PROGRAM_WITH(devices, default_stream_of_the_next, RIGHT,
             "work in the default stream is the current context's", "CUDASIM_DEVICES=2")
{
    CUdeviceptr memory = new_memory();
    struct place other = other_device();

    /* The first of these may still count for every device. */
    for (int i = 0; i < 2; i++) {
        set_on(&other, NULL);
        OK(cuCtxSynchronize());
    }
    set_on(&other, NULL);
    set(memory, NULL);
    free_and_reuse(memory);
    synchronize_on(&other);
}

PROGRAM_WITH(devices, default_streams, RIGHT,
             "a synchronize of one default stream says nothing of another device's",
             "CUDASIM_DEVICES=2")
{
    CUdeviceptr memory = new_memory();
    struct place other = other_device();
    CUstream stream = new_stream();

    set(memory, NULL);
    OK(cuStreamSynchronize(NULL)); /* seen from now on */
    OK(cuCtxSynchronize());
    set_on(&other, NULL);
    set(memory, stream);
    OK(cuStreamSynchronize(NULL));
    free_and_reuse(memory);
    synchronize_on(&other);
}

/* Not every device gives a handle to the next stream: then there is nothing to see. */
PROGRAM_WITH(devices, stream_handle_of_another, RIGHT,
             "a stream's work is that of its own device, whoever had its handle before",
             "CUDASIM_DEVICES=2")
{
    CUdeviceptr memory = new_memory();
    struct place other = other_device();
    CUstream stream;

    set_on(&other, other.stream);
    OK(cuStreamDestroy(other.stream));
    stream = new_stream();
    OK(cuCtxSynchronize());
    set(memory, stream);
    free_and_reuse(memory);
    synchronize_on(&other);
}
