/*
 * selftest_arrays.c - checks: CUDA arrays, copies with them, textures and surfaces,
 * external memory and semaphores.
 * Owns:  nothing.   Lock: none.
 */
#include "selftest.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct cudaChannelFormatDesc words(void)
{
    return (struct cudaChannelFormatDesc){32, 0, 0, 0, cudaChannelFormatKindUnsigned};
}

static cudaArray_t array_of(size_t width, size_t height)
{
    const struct cudaChannelFormatDesc desc = words();
    cudaArray_t array = NULL;

    CHECK_MODELLED(cudaMallocArray(&array, &desc, width, height, cudaArrayDefault));
    CHECK(array);
    return array;
}

static void count_up(uint32_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (uint32_t)(100 + i);
}

static void arrays_are_described(void)
{
    struct cudaChannelFormatDesc desc = {16, 16, 0, 0, cudaChannelFormatKindFloat}, back;
    struct cudaExtent extent = {8, 6, 4};
    cudaArray_t array = NULL;
    unsigned flags = 77;

    CHECK_MODELLED(cudaMalloc3DArray(&array, &desc, extent, cudaArrayLayered));
    memset(&extent, 0, sizeof(extent));
    CHECK_OK(cudaArrayGetInfo(&back, &extent, &flags, array));
    CHECK(back.x == 16 && back.y == 16 && back.z == 0 && back.w == 0);
    CHECK_IS(back.f, cudaChannelFormatKindFloat);
    CHECK(extent.width == 8 && extent.height == 6 && extent.depth == 4);
    CHECK_IS(flags, cudaArrayLayered);
    CHECK_OK(cudaArrayGetInfo(NULL, NULL, NULL, array));
    CHECK_OK(cudaGetChannelDesc(&back, array));
    CHECK_OK(cudaFreeArray(array));
    CHECK_OK(cudaFreeArray(NULL));
    CHECK(cudaFreeArray(array) != cudaSuccess);
    (void)cudaGetLastError();
    desc.z = 16; /* three channels there are not */
    CHECK_IS(cudaMallocArray(&array, &desc, 8, 8, 0), cudaErrorInvalidChannelDescriptor);
    CHECK_IS(cudaMallocArray(NULL, &back, 8, 8, 0), cudaErrorInvalidValue);
    CHECK_IS(cudaMallocArray(&array, NULL, 8, 8, 0), cudaErrorInvalidValue);
    desc = (struct cudaChannelFormatDesc){8, 8, 8, 8,
                                          cudaChannelFormatKindSignedNormalized8X4};
    CHECK_OK(cudaMallocArray(&array, &desc, 8, 0, 0));
    CHECK_OK(cudaGetChannelDesc(&back, array));
    CHECK(memcmp(&desc, &back, sizeof(desc)) == 0);
}

static void array_rectangles(void)
{
    uint32_t out[4][6], back[4][6];
    cudaArray_t a = array_of(8, 8), b = array_of(8, 8);
    cudaStream_t stream;

    count_up(&out[0][0], 24);
    memset(back, 0, sizeof(back));
    CHECK_OK(cudaMemcpy2DToArray(a, 4, 2, out, sizeof(out[0]), sizeof(out[0]), 4,
                                 cudaMemcpyHostToDevice));
    CHECK_OK(cudaMemcpy2DArrayToArray(b, 0, 0, a, 8, 3, 16, 3, cudaMemcpyDeviceToDevice));
    CHECK_OK(cudaMemcpy2DFromArray(back, sizeof(back[0]), b, 0, 0, 16, 3,
                                   cudaMemcpyDeviceToHost));
    CHECK_IS(back[0][0], out[1][1]);
    CHECK_IS(back[2][3], out[3][4]);
    CHECK_IS(back[0][4], 0);
    CHECK_OK(cudaStreamCreate(&stream));
    CHECK_OK(cudaMemcpy2DToArrayAsync(b, 0, 7, out, sizeof(out[0]), 4, 1,
                                      cudaMemcpyDefault, stream));
    CHECK_OK(cudaMemcpy2DFromArrayAsync(back, sizeof(back[0]), b, 0, 7, 4, 1,
                                        cudaMemcpyDefault, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK_IS(back[0][0], out[0][0]);
    CHECK_IS(cudaMemcpy2DToArray(a, 0, 5, out, sizeof(out[0]), sizeof(out[0]), 4,
                                 cudaMemcpyHostToDevice),
             cudaErrorInvalidValue);
    CHECK_IS(cudaMemcpy2DToArray(a, 0, 0, out, 8, 16, 1, cudaMemcpyHostToDevice),
             cudaErrorInvalidPitchValue);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void array_bytes_go_on_from_row_to_row(void)
{
    uint32_t out[40], back[40];
    cudaArray_t a = array_of(8, 8), b = array_of(5, 9);

    count_up(out, 40);
    memset(back, 0, sizeof(back));
    CHECK_OK(cudaMemcpyToArray(a, 12, 1, out, 33 * 4, cudaMemcpyHostToDevice));
    CHECK_OK(cudaMemcpyFromArray(back, a, 12, 1, 33 * 4, cudaMemcpyDeviceToHost));
    CHECK(memcmp(out, back, 33 * 4) == 0);
    CHECK_IS(back[33], 0);
    memset(back, 0, sizeof(back));
    CHECK_OK(cudaMemcpy2DFromArray(back, 32, a, 0, 1, 32, 2, cudaMemcpyDeviceToHost));
    CHECK_IS(back[3], 100); /* the first row from its fourth word on */
    CHECK_IS(back[7], 104);
    CHECK_IS(back[8], 105);
    CHECK_OK(cudaMemcpyArrayToArray(b, 4, 0, a, 12, 1, 33 * 4, cudaMemcpyDeviceToDevice));
    CHECK_OK(cudaMemcpyFromArray(back, b, 4, 0, 33 * 4, cudaMemcpyDeviceToHost));
    CHECK(memcmp(out, back, 33 * 4) == 0);
    CHECK_IS(cudaMemcpyToArray(a, 0, 7, out, 36, cudaMemcpyHostToDevice),
             cudaErrorInvalidValue);
}
#pragma GCC diagnostic pop

static void array_boxes_are_in_elements(void)
{
    const struct cudaChannelFormatDesc desc = words();
    const struct cudaExtent extent = {4, 3, 2};
    struct cudaMemcpy3DParms copy;
    uint32_t out[24], back[24];
    cudaArray_t array = NULL;

    count_up(out, 24);
    memset(back, 0, sizeof(back));
    CHECK_MODELLED(cudaMalloc3DArray(&array, &desc, extent, 0));
    memset(&copy, 0, sizeof(copy));
    copy.srcPtr = (struct cudaPitchedPtr){out, 16, 4, 3};
    copy.dstArray = array;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    CHECK_OK(cudaMemcpy3D(&copy));
    memset(&copy, 0, sizeof(copy));
    copy.srcArray = array;
    copy.srcPos = (struct cudaPos){1, 1, 1};
    copy.dstPtr = (struct cudaPitchedPtr){back, 16, 4, 3};
    copy.dstPos = (struct cudaPos){4, 0, 0}; /* bytes */
    copy.extent = (struct cudaExtent){2, 2, 1};
    copy.kind = cudaMemcpyDeviceToHost;
    CHECK_OK(cudaMemcpy3D(&copy));
    CHECK_IS(back[0], 0);
    CHECK_IS(back[1], out[12 + 4 + 1]);
    CHECK_IS(back[2], out[12 + 4 + 2]);
    CHECK_IS(back[5], out[12 + 8 + 1]);
    copy.srcPos.x = 3;
    CHECK_IS(cudaMemcpy3D(&copy), cudaErrorInvalidValue);
    copy.dstArray = array; /* and a pointer as well */
    CHECK_IS(cudaMemcpy3D(&copy), cudaErrorInvalidValue);
}

static void mipmapped_arrays(void)
{
    const struct cudaChannelFormatDesc desc = words();
    const struct cudaExtent extent = {16, 8, 0};
    struct cudaArrayMemoryRequirements needs;
    struct cudaArraySparseProperties sparse;
    struct cudaExtent half;
    cudaMipmappedArray_t mipmap = NULL;
    cudaArray_t level = NULL;

    CHECK_MODELLED(cudaMallocMipmappedArray(&mipmap, &desc, extent, 3, 0));
    CHECK_OK(cudaGetMipmappedArrayLevel(&level, mipmap, 1));
    CHECK_OK(cudaArrayGetInfo(NULL, &half, NULL, level));
    CHECK(half.width == 8 && half.height == 4 && half.depth == 0);
    CHECK_IS(cudaGetMipmappedArrayLevel(&level, mipmap, 3), cudaErrorInvalidValue);
    CHECK_IS(cudaMipmappedArrayGetMemoryRequirements(&needs, mipmap, 0),
             cudaErrorInvalidValue);
    CHECK_IS(cudaMipmappedArrayGetSparseProperties(&sparse, mipmap),
             cudaErrorInvalidValue);
    CHECK_IS(cudaArrayGetMemoryRequirements(&needs, level, 0), cudaErrorInvalidValue);
    CHECK_IS(cudaArrayGetMemoryRequirements(&needs, level, 99), cudaErrorInvalidDevice);
    CHECK_IS(cudaArrayGetSparseProperties(&sparse, level), cudaErrorInvalidValue);
    CHECK_IS(cudaArrayGetPlane(&level, level, 0), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK_OK(cudaFreeMipmappedArray(mipmap));
    CHECK_OK(cudaFreeMipmappedArray(NULL));
}

static void texture_and_surface_objects(void)
{
    const struct cudaChannelFormatDesc desc = words();
    struct cudaTextureDesc sampling, sampled;
    struct cudaResourceViewDesc view, viewed;
    struct cudaResourceDesc resource, back;
    cudaTextureObject_t texture = 0;
    cudaSurfaceObject_t surface = 0;
    cudaArray_t array = NULL;
    size_t width = 0;

    CHECK_MODELLED(cudaMallocArray(&array, &desc, 8, 8, cudaArraySurfaceLoadStore));
    memset(&resource, 0, sizeof(resource));
    memset(&sampling, 0, sizeof(sampling));
    memset(&view, 0, sizeof(view));
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    sampling.readMode = cudaReadModeElementType;
    sampling.normalizedCoords = 1;
    sampling.addressMode[1] = cudaAddressModeMirror;
    view.width = view.height = 8;
    view.format = cudaResViewFormatUnsignedInt1;
    CHECK_OK(cudaCreateTextureObject(&texture, &resource, &sampling, &view));
    CHECK_OK(cudaGetTextureObjectResourceDesc(&back, texture));
    CHECK(back.resType == cudaResourceTypeArray && back.res.array.array == array);
    CHECK_OK(cudaGetTextureObjectTextureDesc(&sampled, texture));
    CHECK(memcmp(&sampled, &sampling, sizeof(sampling)) == 0);
    CHECK_OK(cudaGetTextureObjectResourceViewDesc(&viewed, texture));
    CHECK(memcmp(&viewed, &view, sizeof(view)) == 0);
    CHECK_OK(cudaDestroyTextureObject(texture));
    CHECK_OK(cudaCreateSurfaceObject(&surface, &resource));
    CHECK_OK(cudaGetSurfaceObjectResourceDesc(&back, surface));
    CHECK(back.res.array.array == array);
    CHECK_OK(cudaDestroySurfaceObject(surface));
    memset(&resource, 0, sizeof(resource));
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.desc = desc;
    resource.res.linear.sizeInBytes = 4096;
    CHECK_OK(cudaMalloc(&resource.res.linear.devPtr, 4096));
    CHECK_OK(cudaCreateTextureObject(&texture, &resource, &sampling, NULL));
    CHECK_OK(cudaGetTextureObjectResourceDesc(&back, texture));
    CHECK(memcmp(&back, &resource, sizeof(back)) == 0);
    CHECK_OK(cudaGetTextureObjectResourceViewDesc(&viewed, texture)); /* it has none */
    CHECK_OK(cudaDeviceGetTexture1DLinearMaxWidth(&width, &desc, 0));
    CHECK(width > 0);
}

static int file_of(size_t bytes)
{
    int fd = memfd_create("runtime-selftest", MFD_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_IS(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static void external_memory(void)
{
    struct cudaExternalMemoryHandleDesc desc;
    struct cudaExternalMemoryBufferDesc buffer = {.offset = 4096, .size = 4096};
    struct cudaExternalMemoryMipmappedArrayDesc mapped;
    cudaMipmappedArray_t mipmap = NULL;
    cudaExternalMemory_t memory = NULL;
    void *device = NULL;
    uint32_t word = 0;
    int fd = file_of(65536), own = dup(fd);

    memset(&desc, 0, sizeof(desc));
    desc.type = cudaExternalMemoryHandleTypeOpaqueFd;
    desc.handle.fd = fd;
    desc.size = 65536;
    CHECK_MODELLED(cudaImportExternalMemory(&memory, &desc));
    CHECK_OK(cudaExternalMemoryGetMappedBuffer(&device, memory, &buffer));
    CHECK_OK(cudaMemset(device, 7, 4096));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK_IS(pread(own, &word, 4, 8188), 4);
    CHECK_IS(word, 0x07070707);
    CHECK_OK(cudaFree(device));
    memset(&mapped, 0, sizeof(mapped));
    mapped.formatDesc = words();
    mapped.extent = (struct cudaExtent){16, 16, 0};
    mapped.numLevels = 2;
    CHECK_OK(cudaExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &mapped));
    CHECK_OK(cudaFreeMipmappedArray(mipmap));
    CHECK_OK(cudaDestroyExternalMemory(memory));
    CHECK_IS(cudaImportExternalMemory(NULL, &desc), cudaErrorInvalidValue);
    close(own);
}

static void external_semaphores(void)
{
    struct cudaExternalSemaphoreHandleDesc desc;
    struct cudaExternalSemaphoreSignalParams signal;
    struct cudaExternalSemaphoreWaitParams wait;
    cudaExternalSemaphore_t semaphore = NULL;
    cudaStream_t first, second;

    memset(&desc, 0, sizeof(desc));
    desc.type = cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd;
    desc.handle.fd = file_of(8);
    CHECK_MODELLED(cudaImportExternalSemaphore(&semaphore, &desc));
    CHECK_OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK_OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    memset(&wait, 0, sizeof(wait));
    wait.params.fence.value = 5;
    CHECK_OK(cudaWaitExternalSemaphoresAsync(&semaphore, &wait, 1, second));
    CHECK_IS(cudaStreamQuery(second), cudaErrorNotReady);
    memset(&signal, 0, sizeof(signal));
    signal.params.fence.value = 5;
    CHECK_OK(cudaSignalExternalSemaphoresAsync(&semaphore, &signal, 1, first));
    CHECK_OK(cudaStreamSynchronize(second));
    CHECK_OK(cudaDestroyExternalSemaphore(semaphore));
}

const struct selftest array_tests[] = {
    {"arrays_are_described", arrays_are_described},
    {"array_rectangles", array_rectangles},
    {"array_bytes_go_on_from_row_to_row", array_bytes_go_on_from_row_to_row},
    {"array_boxes_are_in_elements", array_boxes_are_in_elements},
    {"mipmapped_arrays", mipmapped_arrays},
    {"texture_and_surface_objects", texture_and_surface_objects},
    {"external_memory", external_memory},
    {"external_semaphores", external_semaphores},
    {NULL, NULL},
};
