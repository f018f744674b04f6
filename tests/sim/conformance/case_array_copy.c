/*
 * case_array_copy.c - copies with an array on a side, in one, two and three dimensions.
 */
#include "case_array_help.h"

#include <string.h>

CASE(array, copy_from_and_to_the_host, DRIVER_API, "cuMemcpyHtoA",
     "Copies from host memory to a 1D CUDA array")
{
    uint32_t out[64], back[64];
    ARRAY array = array_get(64, 0, 0, 0);

    array_words(out, 64, 100);
    memset(back, 0, sizeof(back));
    CHECK_OK(cuMemcpyHtoA(array, 0, out, sizeof(out)));
    CHECK_OK(cuMemcpyAtoH(back, array, 0, sizeof(back)));
    CHECK(memcmp(out, back, sizeof(out)) == 0);
}

CASE(array, copy_offset_is_in_bytes, DRIVER_API, "cuMemcpyAtoH",
     "srcArray and srcOffset specify the CUDA array handle and starting offset in bytes")
{
    uint32_t out[64], back[2] = {0};
    ARRAY array = array_get(64, 0, 0, 0);

    array_words(out, 64, 100);
    CHECK_OK(cuMemcpyHtoA(array, 0, out, sizeof(out)));
    CHECK_OK(cuMemcpyAtoH(back, array, 40, sizeof(back)));
    CHECK_EQUAL(back[0], 110);
    CHECK_EQUAL(back[1], 111);
}

CASE(array, copy_from_and_to_memory, DRIVER_API, "cuMemcpyDtoA",
     "Copies from device memory to a 1D CUDA array")
{
    uint32_t out[64], back[64];
    ARRAY array = array_get(64, 0, 0, 0);
    CUdeviceptr from = 0, to = 0;

    array_words(out, 64, 200);
    memset(back, 0, sizeof(back));
    CHECK_OK(cuMemAlloc(&from, sizeof(out)));
    CHECK_OK(cuMemAlloc(&to, sizeof(out)));
    CHECK_OK(cuMemcpyHtoD(from, out, sizeof(out)));
    CHECK_OK(cuMemcpyDtoA(array, 0, from, sizeof(out)));
    CHECK_OK(cuMemcpyAtoD(to, array, 0, sizeof(out)));
    CHECK_OK(cuMemcpyDtoH(back, to, sizeof(back)));
    CHECK(memcmp(out, back, sizeof(out)) == 0);
    CHECK_OK(cuMemFree(from));
    CHECK_OK(cuMemFree(to));
}

CASE(array, copy_from_array_to_array, DRIVER_API, "cuMemcpyAtoA",
     "dstOffset and srcOffset specify the destination and source offsets in bytes")
{
    uint32_t out[64], back[4] = {0};
    ARRAY from = array_get(64, 0, 0, 0);
    ARRAY to = array_get(64, 0, 0, 0);

    array_words(out, 64, 300);
    CHECK_OK(cuMemcpyHtoA(from, 0, out, sizeof(out)));
    CHECK_OK(cuMemcpyAtoA(to, 16, from, 32, sizeof(back)));
    CHECK_OK(cuMemcpyAtoH(back, to, 16, sizeof(back)));
    CHECK_EQUAL(back[0], 308);
    CHECK_EQUAL(back[3], 311);
}

CASE(array, copy_within_the_array, DRIVER_API, "cuMemcpyHtoA",
     "a copy must lie in the array: CUDA_ERROR_INVALID_VALUE")
{
    uint32_t out[65];
    ARRAY array = array_get(64, 0, 0, 0);

    array_words(out, 65, 0);
    CHECK_INVALID(cuMemcpyHtoA(array, 0, out, sizeof(out)));
    CHECK_INVALID(cuMemcpyHtoA(array, 8, out, 64 * 4));
}

CASE(array, copy_in_a_stream, DRIVER_API, "cuMemcpyHtoAAsync",
     "the operation is asynchronous and takes its place in the stream")
{
    ARRAY array = array_get(64, 0, 0, 0);
    uint32_t *page = NULL;
    CUstream stream = NULL;

    CHECK_OK(cuMemHostAlloc((void **)&page, 4096, 0));
    CHECK_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    array_words(page, 64, 400);
    CHECK_OK(cuMemcpyHtoAAsync(array, 0, page, 256, stream));
    CHECK_OK(cuMemcpyAtoHAsync(page + 128, array, 0, 256, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(memcmp(page, page + 128, 256) == 0);
    CHECK_OK(cuStreamDestroy(stream));
    CHECK_OK(cuMemFreeHost(page));
}

/* From close words of the host into (8 bytes, row 2) of an array. */
static CUDA_MEMCPY2D into_the_middle(CUarray array, const void *host)
{
    return (CUDA_MEMCPY2D){
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = host,
        .srcPitch = 40,
        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
        .dstArray = array,
        .dstXInBytes = 8,
        .dstY = 2,
        .WidthInBytes = 40,
        .Height = 3,
    };
}

CASE(array, copy_a_rectangle, DRIVER_API, "cuMemcpy2D",
     "dstXInBytes and dstY specify the base address of the destination data for the copy")
{
    uint32_t out[30], back[2] = {0};
    ARRAY array = array_get(16, 8, 0, 0);
    CUDA_MEMCPY2D copy = into_the_middle(array, out);

    array_words(out, 30, 500);
    CHECK_OK(cuMemcpy2D(&copy));
    CUDA_MEMCPY2D second = {
        .srcMemoryType = CU_MEMORYTYPE_ARRAY,
        .srcArray = array,
        .srcXInBytes = 12,
        .srcY = 4,
        .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = back,
        .dstPitch = 8,
        .WidthInBytes = 8,
        .Height = 1,
    };
    CHECK_OK(cuMemcpy2D(&second));
    CHECK_EQUAL(back[0], 521); /* row 2, word 1 of what was copied in */
    CHECK_EQUAL(back[1], 522);
}

CASE(array, copy_between_elements, GPUS, "cuMemcpy2D",
     "dstXInBytes need not be divisible by the array's element size, as is "
     "documented" ON_H200)
{
    uint32_t out[30];
    ARRAY array = array_get(16, 8, 0, 0);
    CUDA_MEMCPY2D copy = into_the_middle(array, out);

    array_words(out, 30, 500);
    copy.dstXInBytes = 6;
    CHECK_OK(cuMemcpy2D(&copy));
}

CASE(array, copy_a_rectangle_within_the_array, DRIVER_API, "cuMemcpy2D",
     "a copy must lie in the array: CUDA_ERROR_INVALID_VALUE")
{
    uint32_t out[30];
    ARRAY array = array_get(16, 8, 0, 0);
    CUDA_MEMCPY2D copy = into_the_middle(array, out);

    array_words(out, 30, 0);
    copy.dstY = 6;
    CHECK_INVALID(cuMemcpy2D(&copy));
    copy = into_the_middle(array, out);
    copy.dstXInBytes = 28;
    CHECK_INVALID(cuMemcpy2D(&copy));
}

/* All of an array of 4 x 3 x 2 words, from or to close words of the host. */
static CUDA_MEMCPY3D whole(CUarray array, void *host, bool to_array)
{
    return (CUDA_MEMCPY3D){
        .srcMemoryType = to_array ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY,
        .srcHost = host,
        .srcArray = array,
        .srcPitch = 16,
        .srcHeight = 3,
        .dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST,
        .dstHost = host,
        .dstArray = array,
        .dstPitch = 16,
        .dstHeight = 3,
        .WidthInBytes = 16,
        .Height = 3,
        .Depth = 2,
    };
}

static void copy_a_box(unsigned flags)
{
    uint32_t out[24], back[24];
    ARRAY array = array_get(4, 3, 2, flags);
    CUDA_MEMCPY3D copy = whole(array, out, true);

    array_words(out, 24, 600);
    memset(back, 0, sizeof(back));
    CHECK_OK(cuMemcpy3D(&copy));
    copy = whole(array, back, false);
    CHECK_OK(cuMemcpy3D(&copy));
    CHECK(memcmp(out, back, sizeof(out)) == 0);
    copy.srcZ = 1;
    copy.srcY = 1;
    copy.Height = 1;
    copy.Depth = 1;
    CHECK_OK(cuMemcpy3D(&copy));
    CHECK_EQUAL(back[0], 616);
}

CASE_IS(array, copy_a_box_of_a_3d_one, DRIVER_API, "cuMemcpy3D",
        "Perform a 3D memory copy according to the parameters specified in pCopy",
        copy_a_box(0))

CASE_IS(
    array, copy_a_box_of_layers, DRIVER_API, "cuArray3DCreate",
    "2D layered: each layer is a 2D array; the layer is the third coordinate of a copy",
    copy_a_box(CUDA_ARRAY3D_LAYERED))

CASE(array, copy_ignores_levels_of_detail, GPUS, "cuMemcpy3D",
     "srcLOD and dstLOD are not looked at; \"must be set to 0\" is documented" ON_H200)
{
    uint32_t words[24];
    ARRAY array = array_get(4, 3, 2, 0);
    CUDA_MEMCPY3D copy = whole(array, words, true);

    array_words(words, 24, 0);
    copy.srcLOD = 1;
    CHECK_OK(cuMemcpy3D(&copy));
    copy = whole(array, words, true);
    copy.dstLOD = 1;
    CHECK_OK(cuMemcpy3D(&copy));
}
