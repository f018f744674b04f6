/*
 * unknown.c - looks up a driver function by name, then makes ten pairs of an allocation
 * and a free with nothing running.   unknown dlsym|next|proc NAME
 *
 * Proves nothing by itself: the simulated driver's log tells how often the device was
 * synchronized. What the look-up finds is not called. The program has a function itself
 * that is named as the driver's are, and that no version of CUDA has.
 */
#include "app.h"

#include <cuda.h>
#include <dlfcn.h>
#include <string.h>

/* As a driver of tomorrow may have it. */
__attribute__((visibility("default"))) CUresult cuMemcpyTomorrowAsync(void);
CUresult cuMemcpyTomorrowAsync(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define OK(call)                                                                         \
    do {                                                                                 \
        if ((call) != CUDA_SUCCESS)                                                      \
            return 1;                                                                    \
    } while (0)

static void look_up(const char *way, const char *name)
{
    CUdriverProcAddressQueryResult status;
    void *found = NULL;

    if (strcmp(way, "dlsym") == 0)
        found = dlsym(RTLD_DEFAULT, name);
    else if (strcmp(way, "next") == 0)
        found = dlsym(RTLD_NEXT, name);
    else
        (void)cuGetProcAddress(name, &found, CUDA_VERSION, 0, &status);
    printf("unknown: %s %s\n", name, found ? "found" : "not found");
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr block;

    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&block, 1024));
    OK(cuCtxSynchronize());
    if (argc > 2)
        look_up(argv[1], argv[2]);
    for (int i = 0; i < 10; i++) {
        OK(cuMemFree(block));
        OK(cuMemAlloc(&block, 1024));
    }
    return 0;
}
