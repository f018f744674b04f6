/*
 * case_memory_pitch.c - device memory in rows: cuMemAllocPitch.
 */
#include "case_memory_help.h"

#include <string.h>

/* Rows of odd widths, and how many. */
static const size_t widths[] = {1, 31, 100, 512, 1000, 5001};
#define ROWS 7

CASE(pitch, holds_the_width, DRIVER_API, "cuMemAllocPitch",
     "The pitch returned in *pPitch is the width in bytes of the allocation, which may "
     "be padded, never less than WidthInBytes")
{
    for (size_t i = 0; i < GS_ARRAY_LEN(widths); i++) {
        MEMORY pointer = 0;
        size_t pitch = 0;
        if (!CHECK_OK(cuMemAllocPitch(&pointer, &pitch, widths[i], ROWS, 4)))
            continue;
        CHECK(pitch >= widths[i]);
    }
}

CASE(pitch, aligned_for_textures, DRIVER_API, "cuMemAllocPitch",
     "The byte alignment of the pitch is guaranteed to match or exceed the alignment "
     "requirement for texture binding with cuTexRefSetAddress2D()")
{
    int align = device_attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);

    if (!CHECK(align > 0))
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(widths); i++) {
        MEMORY pointer = 0;
        size_t pitch = 0;
        if (!CHECK_OK(cuMemAllocPitch(&pointer, &pitch, widths[i], ROWS, 4)))
            continue;
        CHECK_EQUAL(pitch % (size_t)align, 0);
    }
}

CASE(pitch, base_aligned, GUIDE, "Device Memory Accesses",
     "Any address returned by one of the memory allocation routines from the driver "
     "API is always aligned to at least 256 bytes")
{
    for (size_t i = 0; i < GS_ARRAY_LEN(widths); i++) {
        MEMORY pointer = 0;
        size_t pitch = 0;
        if (!CHECK_OK(cuMemAllocPitch(&pointer, &pitch, widths[i], 1, 4)))
            continue;
        CHECK_EQUAL(pointer % 256, 0);
    }
}

CASE(pitch, element_sizes, DRIVER_API, "cuMemAllocPitch",
     "ElementSizeBytes may be 4, 8 or 16")
{
    for (unsigned element = 4; element <= 16; element *= 2) {
        CUdeviceptr pointer = 0;
        size_t pitch = 0;
        if (CHECK_OK(cuMemAllocPitch(&pointer, &pitch, 100, ROWS, element)))
            device_put(pointer);
    }
}

CASE(pitch, other_element_sizes, DRIVER_API, "cuMemAllocPitch",
     "ElementSizeBytes may be 4, 8 or 16, since coalesced memory transactions are not "
     "possible on other data sizes")
{
    static const unsigned elements[] = {3, 5};

    for (size_t i = 0; i < GS_ARRAY_LEN(elements); i++) {
        CUdeviceptr pointer = 0;
        size_t pitch = 0;
        CUresult code = cuMemAllocPitch(&pointer, &pitch, 100, ROWS, elements[i]);
        if (!CHECK_REFUSED(code))
            device_put(pointer);
    }
}

CASE(pitch, rows_by_address, DRIVER_API, "cuMemAllocPitch",
     "Given row and column of an element of type T, the address is computed as "
     "(T*)((char*)BaseAddress + Row * Pitch) + Column")
{
    enum { WIDTH = 1000 };
    MEMORY pointer = 0;
    size_t pitch = 0;

    if (!CHECK_OK(cuMemAllocPitch(&pointer, &pitch, WIDTH, ROWS, 8)))
        return;
    for (unsigned row = 0; row < ROWS; row++)
        CHECK(device_fill(pointer + row * pitch, WIDTH, row));
    for (unsigned row = 0; row < ROWS; row++)
        CHECK(device_holds(pointer + row * pitch, WIDTH, row));
}

CASE(pitch, covers_all_rows, DRIVER_API, "cuMemAllocPitch",
     "Allocates at least WidthInBytes * Height bytes of linear memory")
{
    MEMORY pointer = 0;
    CUdeviceptr base = 0;
    size_t pitch = 0, bytes = 0;

    if (!CHECK_OK(cuMemAllocPitch(&pointer, &pitch, 100, ROWS, 4)))
        return;
    CHECK_OK(cuMemGetAddressRange(&base, &bytes, pointer));
    CHECK_EQUAL(base, pointer);
    CHECK(bytes >= (size_t)100 * ROWS);
    CHECK(bytes >= pitch * (ROWS - 1) + 100);
}

CASE(pitch, works_with_2d_copies, DRIVER_API, "cuMemAllocPitch",
     "The pitch returned by cuMemAllocPitch() is guaranteed to work with cuMemcpy2D() "
     "under all circumstances")
{
    enum { WIDTH = 333 };
    MEMORY from = 0;
    CUdeviceptr to = 0;
    size_t from_pitch = 0, to_pitch = 0;

    if (!CHECK_OK(cuMemAllocPitch(&from, &from_pitch, WIDTH, ROWS, 4)))
        return;
    if (CHECK_OK(cuMemAllocPitch(&to, &to_pitch, WIDTH, ROWS, 16))) {
        const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                    .srcDevice = from,
                                    .srcPitch = from_pitch,
                                    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                    .dstDevice = to,
                                    .dstPitch = to_pitch,
                                    .WidthInBytes = WIDTH,
                                    .Height = ROWS};
        for (unsigned row = 0; row < ROWS; row++)
            CHECK(device_fill(from + row * from_pitch, WIDTH, row));
        CHECK_OK(cuMemcpy2D(&copy));
        for (unsigned row = 0; row < ROWS; row++)
            CHECK(device_holds(to + row * to_pitch, WIDTH, row));
        device_put(to);
    }
}
