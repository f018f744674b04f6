/*
 * case_copy_box.c - copies of two dimensions: cuMemcpy2D and its kin, between memory and
 * memory. Every copy is done twice, by the device and by a loop; the whole destination is
 * compared.
 */
#include "case_memory_help.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "work.h"

#define BLOCK 30000 /* bytes of either side */

/* A side: where its memory is, and the copied part in it. */
struct side {
    CUmemorytype type;
    bool on_host;
    size_t x, y, pitch;
    unsigned char *model; /* what lies there */
    unsigned char *host;  /* pageable, if it is there */
    CUdeviceptr device;
};

static void side_open(struct side *side, unsigned seed)
{
    side->model = malloc(BLOCK);
    side->host = malloc(BLOCK);
    if (!side->model || !side->host)
        abort();
    bytes_fill(side->model, BLOCK, seed);
    bytes_fill(side->host, BLOCK, seed);
    side->device = side->on_host ? 0 : device_get(BLOCK);
    if (side->device)
        CHECK(device_fill(side->device, BLOCK, seed));
}

static bool side_is_as_modelled(struct side *side)
{
    if (side->device)
        CHECK_OK(cuMemcpyDtoH(side->host, side->device, BLOCK));
    return memcmp(side->host, side->model, BLOCK) == 0;
}

static void side_close(struct side *side)
{
    device_put(side->device);
    free(side->model);
    free(side->host);
}

/* The unified type takes the address as a device's, wherever it is. */
static CUdeviceptr device_field(const struct side *side)
{
    return side->type == CU_MEMORYTYPE_UNIFIED && side->on_host
               ? (CUdeviceptr)(uintptr_t)side->host
               : side->device;
}

static CUDA_MEMCPY2D parameters(const struct side *to, const struct side *from,
                                size_t width, size_t height)
{
    return (CUDA_MEMCPY2D){.srcXInBytes = from->x,
                           .srcY = from->y,
                           .srcMemoryType = from->type,
                           .srcHost = from->host,
                           .srcDevice = device_field(from),
                           .srcPitch = from->pitch,
                           .dstXInBytes = to->x,
                           .dstY = to->y,
                           .dstMemoryType = to->type,
                           .dstHost = to->host,
                           .dstDevice = device_field(to),
                           .dstPitch = to->pitch,
                           .WidthInBytes = width,
                           .Height = height};
}

typedef CUresult copy_call(const CUDA_MEMCPY2D *);

static CUresult copy_async(const CUDA_MEMCPY2D *p)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUresult code = cuMemcpy2DAsync(p, stream);

    CHECK_OK(cuStreamSynchronize(stream));
    end_stream(stream);
    return code;
}

static void check_copy(copy_call *call, struct side to, struct side from, size_t width,
                       size_t height)
{
    side_open(&to, 2);
    side_open(&from, 1);
    for (size_t row = 0; row < height; row++)
        memcpy(to.model + (to.y + row) * to.pitch + to.x,
               from.model + (from.y + row) * from.pitch + from.x, width);
    CUDA_MEMCPY2D p = parameters(&to, &from, width, height);
    CHECK_OK(call(&p));
    CHECK_OK(cuCtxSynchronize());
    CHECK(side_is_as_modelled(&to));
    CHECK(side_is_as_modelled(&from));
    side_close(&to);
    side_close(&from);
}

static struct side on_host(size_t x, size_t y, size_t pitch)
{
    return (struct side){
        .type = CU_MEMORYTYPE_HOST, .on_host = true, .x = x, .y = y, .pitch = pitch};
}

static struct side on_device(size_t x, size_t y, size_t pitch)
{
    return (struct side){.type = CU_MEMORYTYPE_DEVICE, .x = x, .y = y, .pitch = pitch};
}

static struct side unified(struct side side)
{
    side.type = CU_MEMORYTYPE_UNIFIED;
    return side;
}

CASE(copy, box_to_device, DRIVER_API, "cuMemcpy2D",
     "For device pointers, the starting address is "
     "dstDevice+dstY*dstPitch+dstXInBytes; for host pointers "
     "srcHost+srcY*srcPitch+srcXInBytes")
{
    check_copy(cuMemcpy2D, on_device(0, 0, 512), on_host(0, 0, 100), 100, 20);
    check_copy(cuMemcpy2D, on_device(8, 3, 512), on_host(5, 2, 77), 50, 13);
}

CASE(copy, box_to_host, DRIVER_API, "cuMemcpy2D",
     "For host pointers, the base address is dstHost+dstY*dstPitch+dstXInBytes; for "
     "device pointers the starting address is srcDevice+srcY*srcPitch+srcXInBytes")
{
    check_copy(cuMemcpy2D, on_host(0, 0, 100), on_device(0, 0, 512), 100, 20);
    check_copy(cuMemcpy2D, on_host(3, 4, 91), on_device(16, 1, 512), 31, 9);
}

/* A pitch that works between device addresses; 0 and a failed case if there is none. */
static size_t good_pitch(void)
{
    CUdeviceptr pointer = 0;
    size_t pitch = 0;

    if (!CHECK_OK(cuMemAllocPitch(&pointer, &pitch, 200, 20, 4)))
        return 0;
    device_put(pointer);
    return CHECK(pitch >= 200 && pitch <= 1024) ? pitch : 0;
}

CASE(copy, box_within_device, DRIVER_API, "cuMemcpy2D",
     "On intra-device memory copies, cuMemcpy2D() may fail for pitches not computed by "
     "cuMemAllocPitch(); for those, it copies Height rows of WidthInBytes")
{
    size_t pitch = good_pitch();

    if (!pitch)
        return;
    check_copy(cuMemcpy2D, on_device(0, 0, pitch), on_device(0, 0, pitch), 200, 20);
    check_copy(cuMemcpy2D, on_device(4, 2, pitch), on_device(8, 5, pitch), 100, 7);
}

CASE_IS(copy, box_within_host, DRIVER_API, "cuMemcpy2D",
        "CU_MEMORYTYPE_HOST specifies the (host) base address of the data and the bytes "
        "per row to apply, of source and destination alike",
        check_copy(cuMemcpy2D, on_host(3, 1, 100), on_host(0, 6, 333), 60, 11))

CASE(copy, box_unified, DRIVER_API, "cuMemcpy2D",
     "If the memory type is CU_MEMORYTYPE_UNIFIED, srcDevice and srcPitch specify the "
     "(unified virtual address space) base address of the data and the bytes per row")
{
    check_copy(cuMemcpy2D, unified(on_device(0, 1, 512)), unified(on_host(9, 0, 120)), 80,
               12);
    check_copy(cuMemcpy2D, unified(on_host(2, 3, 200)), unified(on_device(4, 2, 512)), 90,
               8);
    check_copy(cuMemcpy2D, on_host(2, 3, 200), unified(on_device(4, 2, 512)), 90, 8);
}

CASE(copy, box_of_any_pitch, DRIVER_API, "cuMemcpy2DUnaligned",
     "cuMemcpy2DUnaligned() does not have this restriction on pitches, but may run "
     "significantly slower")
{
    check_copy(cuMemcpy2DUnaligned, on_device(1, 1, 101), on_device(3, 0, 67), 61, 15);
    check_copy(cuMemcpy2DUnaligned, on_host(1, 1, 101), on_device(3, 0, 67), 61, 15);
    check_copy(cuMemcpy2DUnaligned, on_device(1, 1, 101), on_host(3, 0, 67), 61, 15);
}

CASE(copy, box_async, DRIVER_API, "cuMemcpy2DAsync",
     "Perform a 2D memory copy according to the parameters specified in pCopy, in "
     "hStream")
{
    size_t pitch = good_pitch();

    check_copy(copy_async, on_device(0, 2, 512), on_host(1, 1, 130), 100, 20);
    check_copy(copy_async, on_host(6, 2, 140), on_device(8, 1, 512), 100, 20);
    if (pitch)
        check_copy(copy_async, on_device(0, 0, pitch), on_device(0, 3, pitch), 100, 20);
}

/* Is the copy refused, and the destination as it was? */
static void check_refused(size_t to_pitch, size_t from_pitch)
{
    struct side to = on_device(8, 0, to_pitch), from = on_host(8, 0, from_pitch);

    side_open(&to, 2);
    side_open(&from, 1);
    CUDA_MEMCPY2D p = parameters(&to, &from, 100, 4);
    CHECK(cuMemcpy2D(&p) != CUDA_SUCCESS);
    CHECK(side_is_as_modelled(&to));
    side_close(&to);
    side_close(&from);
}

CASE(copy, box_with_a_short_pitch, DRIVER_API, "cuMemcpy2D",
     "If specified, srcPitch must be greater than or equal to WidthInBytes + "
     "srcXInBytes, and dstPitch must be greater than or equal to WidthInBytes + "
     "dstXInBytes")
{
    check_refused(64, 512);
    check_refused(512, 64);
    check_refused(104, 512);
    check_refused(512, 104);
}

CASE(copy, box_with_a_longer_pitch, GPUS, "cuMemcpy2D",
     "A pitch in the host's memory may be greater than CU_DEVICE_ATTRIBUTE_MAX_PITCH; an "
     "error is documented" ON_H200)
{
    size_t pitch = (size_t)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH) + 1;
    MEMORY pointer = device_get(BLOCK);
    /* Room for two rows, of which nothing is touched but 64 bytes each. */
    void *room = mmap(NULL, pitch + 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (room == MAP_FAILED) {
        skip("no room for two rows of the greatest pitch");
    } else {
        const CUDA_MEMCPY2D p = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                 .srcHost = room,
                                 .srcPitch = pitch,
                                 .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .dstDevice = pointer,
                                 .dstPitch = 512,
                                 .WidthInBytes = 64,
                                 .Height = 2};
        CHECK_OK(cuMemcpy2D(&p));
        munmap(room, pitch + 4096);
    }
}
