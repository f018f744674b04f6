/*
 * case_array_help.c - see case_array_help.h.
 * Owns:  nothing.   Lock: none.
 */
#include "case_array_help.h"

CUDA_ARRAY3D_DESCRIPTOR array_desc(size_t width, size_t height, size_t depth,
                                   unsigned flags)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){
        .Width = width,
        .Height = height,
        .Depth = depth,
        .Format = CU_AD_FORMAT_UNSIGNED_INT32,
        .NumChannels = 1,
        .Flags = flags,
    };
}

CUarray array_get(size_t width, size_t height, size_t depth, unsigned flags)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = array_desc(width, height, depth, flags);
    CUarray array = NULL;

    if (CHECK_OK(cuArray3DCreate(&array, &desc)))
        CHECK(array != NULL);
    return array;
}

void array_put(CUarray array)
{
    CHECK_OK(cuArrayDestroy(array));
}

CUresult array_try(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    CUarray array = NULL;
    CUresult res = cuArray3DCreate(&array, desc);

    if (res == CUDA_SUCCESS)
        array_put(array);
    return res;
}

void array_words(uint32_t *words, size_t count, uint32_t base)
{
    for (size_t i = 0; i < count; i++)
        words[i] = base + (uint32_t)i;
}
