/*
 * bench_device.c - says in one line what device 0 is.
 *
 *   simulated 13000 NAME     or     gpu 13000 NAME        (the driver's version before
 * it)
 *
 * Ends with 1 where there is no device. Owns: nothing.   Lock: none.
 */
#include <stdio.h>
#include <string.h>

#include <cuda.h>

int main(void)
{
    CUdevice device;
    CUuuid uuid;
    char name[128];
    int version;
    CUresult res = cuInit(0);

    if (res == CUDA_SUCCESS)
        res = cuDriverGetVersion(&version);
    if (res == CUDA_SUCCESS)
        res = cuDeviceGet(&device, 0);
    if (res == CUDA_SUCCESS)
        res = cuDeviceGetName(name, sizeof(name), device);
    if (res == CUDA_SUCCESS)
        res = cuDeviceGetUuid(&uuid, device);
    if (res != CUDA_SUCCESS) {
        fprintf(stderr, "bench_device: no device: code %d\n", (int)res);
        return 1;
    }
    /* The simulated driver's UUIDs begin with its name. */
    printf("%s %d %s\n", memcmp(uuid.bytes, "cudasim", 7) ? "gpu" : "simulated", version,
           name);
    return 0;
}
