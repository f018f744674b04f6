/*
 * arrays.c - arrays of several shapes, kept, destroyed, or gone with their context.
 *
 *   arrays          leaves some: a line that does ends in LEAK (leaky.c)
 *   arrays clean    destroys all
 *   arrays errors   destroys what it has destroyed, and prints the answers (driver API)
 *   arrays reset    resets the device while they live
 */
#include "gpu.h"

static bool clean;

#if APP_RUNTIME
typedef cudaArray_t array;
typedef cudaMipmappedArray_t mipmaps;

#define make_plane(out, w, h)                                                            \
    cudaMallocArray((out), &(struct cudaChannelFormatDesc){8, 8, 8, 8, UNSIGNED}, (w),   \
                    (h), 0)
#define UNSIGNED cudaChannelFormatKindUnsigned
#define FLOATS                                                                           \
    &(struct cudaChannelFormatDesc)                                                      \
    {                                                                                    \
        32, 0, 0, 0, cudaChannelFormatKindFloat                                          \
    }
#define make_layers(out, w, h, n)                                                        \
    cudaMalloc3DArray((out), FLOATS, (struct cudaExtent){(w), (h), (n)}, cudaArrayLayered)
#define make_mipmaps(out, w, h, levels)                                                  \
    cudaMallocMipmappedArray((out), FLOATS, (struct cudaExtent){(w), (h), 0}, (levels), 0)
#define drop_array   cudaFreeArray
#define drop_mipmaps cudaFreeMipmappedArray
#else
typedef CUarray array;
typedef CUmipmappedArray mipmaps;

#define make_plane(out, w, h)                                                            \
    CU(cuArrayCreate)                                                                    \
    ((out), &(CUDA_ARRAY_DESCRIPTOR){.Width = (w),                                       \
                                     .Height = (h),                                      \
                                     .Format = CU_AD_FORMAT_UNSIGNED_INT8,               \
                                     .NumChannels = 4})
#define FLOATS(w, h, d, flags)                                                           \
    &(CUDA_ARRAY3D_DESCRIPTOR)                                                           \
    {                                                                                    \
        .Width = (w), .Height = (h), .Depth = (d), .Format = CU_AD_FORMAT_FLOAT,         \
        .NumChannels = 1, .Flags = (flags)                                               \
    }
#define make_layers(out, w, h, n)                                                        \
    CU(cuArray3DCreate)((out), FLOATS(w, h, n, CUDA_ARRAY3D_LAYERED))
#define make_mipmaps(out, w, h, levels)                                                  \
    CU(cuMipmappedArrayCreate)((out), FLOATS(w, h, 0, 0), (levels))
#define drop_array   CU(cuArrayDestroy)
#define drop_mipmaps CU(cuMipmappedArrayDestroy)
#endif

APP_FRAME static void keep_planes(void)
{
    array plane;

    for (int i = 0; i < 2; i++) {
        APP_OK(make_plane(&plane, 640, 480)); /* LEAK: keep_planes 1228800 2 */
        if (clean)
            APP_OK(drop_array(plane));
    }
}

APP_FRAME static void keep_layers(void)
{
    array layers;

    APP_OK(make_layers(&layers, 64, 64, 6)); /* LEAK: keep_layers 98304 1 */
    if (clean)
        APP_OK(drop_array(layers));
}

APP_FRAME static void keep_mipmaps(void)
{
    mipmaps levels;

    APP_OK(make_mipmaps(&levels, 256, 256, 9)); /* LEAK: keep_mipmaps 349524 1 */
    if (clean)
        APP_OK(drop_mipmaps(levels));
}

/* Correct code. */
static void work(void)
{
    mipmaps levels;
    array one;

    for (int i = 0; i < 20; i++) {
        APP_OK(make_plane(&one, 16u << i % 6, 32));
        APP_OK(drop_array(one));
        APP_OK(make_layers(&one, 32, 32, 1u + (unsigned)i));
        APP_OK(drop_array(one));
        APP_OK(make_mipmaps(&levels, 64, 64, 3));
        APP_OK(drop_mipmaps(levels));
    }
}

APP_FRAME static void destroy_twice(void)
{
    mipmaps levels;
    array one;

    APP_OK(make_plane(&one, 64, 64));
    APP_OK(drop_array(one));
    printf("array destroyed twice: %d\n", (int)drop_array(one));
    APP_OK(make_mipmaps(&levels, 64, 64, 3));
    APP_OK(drop_mipmaps(levels));
    printf("mipmapped array destroyed twice: %d\n", (int)drop_mipmaps(levels));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "leaks";

    app_gpu_start();
    clean = strcmp(what, "clean") == 0;
    if (strcmp(what, "errors") == 0) {
        destroy_twice();
    } else {
        work();
        keep_planes();
        keep_layers();
        keep_mipmaps();
        work();
    }
    if (strcmp(what, "reset") == 0)
        app_gpu_reset();
    app_gpu_stop();
    printf("arrays: %s\n", what);
    return 0;
}
