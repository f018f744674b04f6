/*
 * context.c - driver API only: contexts of its own, pitched memory, modules.
 *
 * Proves that blocks belong to the context that made them: two contexts are created, used
 * in turn, and destroyed, the second with memory still allocated (which dies with it, and
 * is what the report must name).
 */
#include "launch.h"

static CUcontext create_context(void)
{
    CUcontext context;
    CUdevice device;

    APP_OK(CU(cuDeviceGet)(&device, 0));
#if CUDA_VERSION >= 13000
    APP_OK(CU(cuCtxCreate)(&context, NULL, 0, device));
#else
    APP_OK(CU(cuCtxCreate)(&context, 0, device));
#endif
    return context;
}

static uint64_t use_pitched(uint64_t sum, const struct app_kernels *kernels)
{
    enum { WIDTH = 1000, ROWS = 37 };
    uint32_t words[WIDTH / 4];
    CUdeviceptr image, base;
    size_t pitch, size;

    APP_OK(CU(cuMemAllocPitch)(&image, &pitch, WIDTH, ROWS, 4));
    app_expect(pitch >= WIDTH && pitch % 4 == 0, "pitch");
    APP_OK(CU(cuMemGetAddressRange)(&base, &size, image));
    app_expect(base <= image && image + pitch * ROWS <= base + size, "address range");
    for (uint32_t row = 0; row < ROWS; row++)
        app_fill(kernels, gpu_from_address(image + row * pitch), WIDTH / 4, row, NULL);
    for (uint32_t row = 0; row < ROWS; row++) {
        APP_OK(CU(cuMemcpyDtoH)(words, image + row * pitch, WIDTH));
        sum = app_checksum(sum, words, WIDTH);
    }
    APP_OK(CU(cuMemFree)(image));
    return sum;
}

static uint64_t use_plain(uint64_t sum, const struct app_kernels *kernels, uint32_t seed)
{
    static uint32_t words[8192];
    CUdeviceptr left, right;
    uint32_t *host;

    APP_OK(CU(cuMemAlloc)(&left, sizeof(words)));
    APP_OK(CU(cuMemAlloc)(&right, sizeof(words)));
    APP_OK(CU(cuMemHostAlloc)((void **)&host, sizeof(words), 0));
    app_fill(kernels, gpu_from_address(left), APP_COUNT(words), seed, NULL);
    APP_OK(CU(cuMemcpyDtoD)(right, left, sizeof(words)));
    APP_OK(CU(cuMemcpyDtoH)(host, right, sizeof(words)));
    sum = app_checksum(sum, host, sizeof(words));
    APP_OK(CU(cuMemFreeHost)(host));
    APP_OK(CU(cuMemFree)(left));
    APP_OK(CU(cuMemFree)(right));
    return sum;
}

APP_FRAME static void leave_behind(void)
{
    CUdeviceptr lost;

    APP_OK(CU(cuMemAlloc)(&lost, 65536)); /* LEAK: leave_behind 65536 1 */
    APP_OK(CU(cuMemsetD8)(lost, 1, 65536));
}

int main(void)
{
    struct app_kernels kernels[2];
    CUcontext contexts[2];
    uint64_t sum = APP_CHECKSUM;

    app_driver_load();
    APP_OK(CU(cuInit)(0));
    for (int i = 0; i < 2; i++) {
        contexts[i] = create_context();
        app_kernels_load(&kernels[i]);
    }
    for (uint32_t round = 0; round < 8; round++) {
        APP_OK(CU(cuCtxSetCurrent)(contexts[round % 2]));
        sum = use_plain(sum, &kernels[round % 2], round);
        sum = use_pitched(sum, &kernels[round % 2]);
    }
    APP_OK(CU(cuCtxSetCurrent)(contexts[0]));
    app_kernels_unload(&kernels[0]);
    APP_OK(CU(cuCtxDestroy)(contexts[0]));
    APP_OK(CU(cuCtxSetCurrent)(contexts[1]));
    leave_behind();
    APP_OK(CU(cuCtxDestroy)(contexts[1]));
    contexts[0] = create_context();
    app_kernels_load(&kernels[0]);
    sum = use_plain(sum, &kernels[0], 99);
    APP_OK(CU(cuCtxDestroy)(contexts[0]));
    printf("context: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
