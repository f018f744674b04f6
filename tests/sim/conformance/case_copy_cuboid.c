/*
 * case_copy_cuboid.c - copies of three dimensions: cuMemcpy3D, between memory and memory.
 * Every copy is done twice, by the device and by a loop; the whole destination is
 * compared.
 */
#include "case_memory_help.h"

#include <stdlib.h>
#include <string.h>

#include "work.h"

#define BLOCK 60000 /* bytes of either side */

/* Where the copied part begins, and the pitch and height of its surroundings. */
struct place {
    size_t x, y, z, pitch, height;
};

struct extent {
    size_t width, height, depth;
};

static size_t offset(const struct place *place, size_t row, size_t slice)
{
    return ((place->z + slice) * place->height + place->y + row) * place->pitch +
           place->x;
}

typedef CUresult copy_call(const CUDA_MEMCPY3D *);

static CUresult copy_async(const CUDA_MEMCPY3D *p)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUresult code = cuMemcpy3DAsync(p, stream);

    CHECK_OK(cuStreamSynchronize(stream));
    end_stream(stream);
    return code;
}

static CUDA_MEMCPY3D parameters(const struct place *to, const struct place *from,
                                const struct extent *extent)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = from->x,
                           .srcY = from->y,
                           .srcZ = from->z,
                           .srcPitch = from->pitch,
                           .srcHeight = from->height,
                           .dstXInBytes = to->x,
                           .dstY = to->y,
                           .dstZ = to->z,
                           .dstPitch = to->pitch,
                           .dstHeight = to->height,
                           .WidthInBytes = extent->width,
                           .Height = extent->height,
                           .Depth = extent->depth};
}

/* From pageable memory to the device, within it, and back, by the same call. */
static void check_copies(copy_call *call, struct place to, struct place from,
                         struct extent extent, CUmemorytype of_host,
                         CUmemorytype of_device)
{
    unsigned char *model = malloc(BLOCK), *host = malloc(BLOCK);
    MEMORY pointer = device_get(BLOCK);
    MEMORY next = device_get(BLOCK);
    CUDA_MEMCPY3D p = parameters(&to, &from, &extent);

    if (!model || !host)
        abort();
    bytes_fill(host, BLOCK, 1);
    bytes_fill(model, BLOCK, 2);
    CHECK(device_fill(pointer, BLOCK, 2));
    for (size_t slice = 0; slice < extent.depth; slice++) {
        for (size_t row = 0; row < extent.height; row++)
            memcpy(model + offset(&to, row, slice), host + offset(&from, row, slice),
                   extent.width);
    }
    p.srcMemoryType = of_host;
    p.srcHost = host;
    p.srcDevice = (CUdeviceptr)(uintptr_t)host;
    p.dstMemoryType = of_device;
    p.dstDevice = pointer;
    CHECK_OK(call(&p));
    CHECK_OK(cuMemcpyDtoH(host, pointer, BLOCK));
    CHECK(memcmp(host, model, BLOCK) == 0);

    CHECK(device_fill(pointer, BLOCK, 1));
    CHECK(device_fill(next, BLOCK, 2));
    p.srcMemoryType = of_device;
    p.srcDevice = pointer;
    p.dstDevice = next;
    CHECK_OK(call(&p));
    CHECK_OK(cuMemcpyDtoH(host, next, BLOCK));
    CHECK(memcmp(host, model, BLOCK) == 0);

    bytes_fill(host, BLOCK, 2);
    p.dstMemoryType = of_host;
    p.dstHost = host;
    p.dstDevice = (CUdeviceptr)(uintptr_t)host;
    CHECK_OK(call(&p));
    CHECK(memcmp(host, model, BLOCK) == 0);
    free(model);
    free(host);
}

CASE(copy, cuboid, DRIVER_API, "cuMemcpy3D",
     "The starting address is srcDevice+(srcZ*srcHeight+srcY)*srcPitch+srcXInBytes, of "
     "Depth slices of Height rows of WidthInBytes")
{
    check_copies(cuMemcpy3D, (struct place){0, 0, 0, 512, 10},
                 (struct place){0, 0, 0, 512, 10}, (struct extent){200, 10, 5},
                 CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE);
    check_copies(cuMemcpy3D, (struct place){16, 2, 1, 512, 12},
                 (struct place){32, 3, 2, 512, 9}, (struct extent){64, 5, 4},
                 CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE);
}

CASE_IS(copy, cuboid_unified, DRIVER_API, "cuMemcpy3D",
        "If the memory type is CU_MEMORYTYPE_UNIFIED, srcDevice and srcPitch specify the "
        "(unified virtual address space) base address of the data",
        check_copies(cuMemcpy3D, (struct place){16, 2, 1, 512, 12},
                     (struct place){32, 3, 2, 512, 9}, (struct extent){64, 5, 4},
                     CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED))

CASE_IS(copy, cuboid_async, DRIVER_API, "cuMemcpy3DAsync",
        "Perform a 3D memory copy according to the parameters specified in pCopy, in "
        "hStream",
        check_copies(copy_async, (struct place){16, 2, 1, 512, 12},
                     (struct place){32, 3, 2, 512, 9}, (struct extent){64, 5, 4},
                     CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE))

CASE_IS(copy, cuboid_of_one_slice, DRIVER_API, "CUDA_MEMCPY3D",
        "srcHeight and dstHeight are ignored when it is an array; may be 0 if Depth==1",
        check_copies(cuMemcpy3D, (struct place){0, 1, 0, 512, 0},
                     (struct place){16, 2, 0, 512, 0}, (struct extent){100, 7, 1},
                     CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE))

/* Is a copy to the device refused? The block has room for it either way. */
static void check_refused(struct place to, struct place from, struct extent extent)
{
    void *host = malloc(BLOCK);
    MEMORY pointer = device_get(BLOCK);
    CUDA_MEMCPY3D p = parameters(&to, &from, &extent);

    if (!host)
        abort();
    bytes_fill(host, BLOCK, 1);
    CHECK(device_fill(pointer, BLOCK, 2));
    p.srcMemoryType = CU_MEMORYTYPE_HOST;
    p.srcHost = host;
    p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p.dstDevice = pointer;
    CHECK(cuMemcpy3D(&p) != CUDA_SUCCESS);
    CHECK(device_holds(pointer, BLOCK, 2));
    free(host);
}

CASE(copy, cuboid_with_a_short_pitch, DRIVER_API, "cuMemcpy3D",
     "If specified, srcPitch must be greater than or equal to WidthInBytes + "
     "srcXInBytes, and dstPitch must be greater than or equal to WidthInBytes + "
     "dstXInBytes")
{
    const struct place good = {0, 0, 0, 512, 8};
    const struct place bad = {8, 0, 0, 64, 8}, tight = {8, 0, 0, 104, 8};

    check_refused(bad, good, (struct extent){100, 8, 3});
    check_refused(good, bad, (struct extent){100, 8, 3});
    check_refused(tight, good, (struct extent){100, 8, 3});
    check_refused(good, tight, (struct extent){100, 8, 3});
}

CASE(copy, cuboid_with_a_short_height, DRIVER_API, "cuMemcpy3D",
     "If specified, srcHeight must be greater than or equal to Height + srcY, and "
     "dstHeight must be greater than or equal to Height + dstY")
{
    const struct place good = {0, 0, 0, 512, 8}, bad = {0, 1, 0, 512, 8};

    check_refused(bad, good, (struct extent){100, 8, 3});
    check_refused(good, bad, (struct extent){100, 8, 3});
}
