/* Frames.c - the native side of Frames.java. */
#include <cuda.h>
#include <stdint.h>

int32_t Java_Frames_start(void *environment, void *class)
{
    CUdevice device;
    CUcontext context;

    (void)environment, (void)class;
    return cuInit(0) || cuDeviceGet(&device, 0) ||
           cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context);
}

int64_t Java_Frames_alloc(void *environment, void *class, int64_t bytes)
{
    CUdeviceptr pointer = 0;

    (void)environment, (void)class;
    return cuMemAlloc(&pointer, (size_t)bytes) ? 0 : (int64_t)pointer;
}

int32_t Java_Frames_free(void *environment, void *class, int64_t pointer)
{
    (void)environment, (void)class;
    return (int32_t)cuMemFree((CUdeviceptr)pointer);
}
