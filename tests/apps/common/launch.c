/*
 * launch.c - loads and launches the named kernels.   See launch.h.
 * Owns: nothing.   Lock: none.
 */
#include "launch.h"

#include "kernels.h"
#include "kernels_ptx.h"

#define BLOCKS  64
#define THREADS 128

static void launch(CUfunction function, gpu_stream stream, void **arguments)
{
    APP_OK(CU(cuLaunchKernel)(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, (CUstream)stream,
                              arguments, NULL));
}

void app_kernels_load(struct app_kernels *out)
{
    APP_OK(CU(cuModuleLoadData)(&out->module, gs_kernels_ptx));
    APP_OK(CU(cuModuleGetFunction)(&out->fill, out->module, "gs_fill"));
    APP_OK(CU(cuModuleGetFunction)(&out->check, out->module, "gs_check"));
    APP_OK(CU(cuModuleGetFunction)(&out->copy, out->module, "gs_copy"));
    APP_OK(CU(cuModuleGetFunction)(&out->add, out->module, "gs_add"));
    APP_OK(CU(cuModuleGetFunction)(&out->spin, out->module, "gs_spin"));
    APP_OK(CU(cuModuleGetFunction)(&out->wait, out->module, "gs_wait"));
}

void app_kernels_unload(struct app_kernels *kernels)
{
    APP_OK(CU(cuModuleUnload)(kernels->module));
}

void app_fill(const struct app_kernels *kernels, gpu_ptr dst, size_t count, uint32_t seed,
              gpu_stream stream)
{
    CUdeviceptr to = gpu_address(dst);
    uint64_t words = count;
    void *arguments[] = {&to, &words, &seed};

    launch(kernels->fill, stream, arguments);
}

static void launch_pair(CUfunction function, gpu_ptr dst, gpu_ptr src, size_t count,
                        gpu_stream stream)
{
    CUdeviceptr to = gpu_address(dst);
    CUdeviceptr from = gpu_address(src);
    uint64_t words = count;
    void *arguments[] = {&to, &from, &words};

    launch(function, stream, arguments);
}

void app_copy(const struct app_kernels *kernels, gpu_ptr dst, gpu_ptr src, size_t count,
              gpu_stream stream)
{
    launch_pair(kernels->copy, dst, src, count, stream);
}

void app_add(const struct app_kernels *kernels, gpu_ptr dst, gpu_ptr src, size_t count,
             gpu_stream stream)
{
    launch_pair(kernels->add, dst, src, count, stream);
}

void app_spin(const struct app_kernels *kernels, uint64_t nanoseconds, gpu_stream stream)
{
    void *arguments[] = {&nanoseconds};

    APP_OK(CU(cuLaunchKernel)(kernels->spin, 1, 1, 1, 1, 1, 1, 0, (CUstream)stream,
                              arguments, NULL));
}

void app_hold(const struct app_kernels *kernels, const uint32_t *flag, gpu_stream stream)
{
    void *arguments[] = {&flag};

    APP_OK(CU(cuLaunchKernel)(kernels->wait, 1, 1, 1, 1, 1, 1, 0, (CUstream)stream,
                              arguments, NULL));
}

void app_count_wrong(const struct app_kernels *kernels, gpu_ptr src, size_t count,
                     uint32_t seed, gpu_ptr counter, gpu_stream stream)
{
    CUdeviceptr from = gpu_address(src);
    CUdeviceptr to = gpu_address(counter);
    uint64_t words = count;
    void *arguments[] = {&from, &words, &seed, &to};

    launch(kernels->check, stream, arguments);
}

uint32_t app_mismatches(const struct app_kernels *kernels, gpu_ptr src, size_t count,
                        uint32_t seed, gpu_stream stream)
{
    uint32_t wrong = 0;
    gpu_ptr counter;

    APP_OK(gpu_malloc(&counter, sizeof(wrong)));
    APP_OK(gpu_put_async(counter, &wrong, sizeof(wrong), stream));
    app_count_wrong(kernels, src, count, seed, counter, stream);
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_get(&wrong, counter, sizeof(wrong)));
    APP_OK(gpu_free(counter));
    return wrong;
}
