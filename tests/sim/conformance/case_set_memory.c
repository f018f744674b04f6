/*
 * case_set_memory.c - cuMemset of every width, in one dimension and in two: what is set,
 * and what stays as it was. When a call returns is case_order_copy.c's subject.
 */
#include "case_memory_help.h"

#include <stdlib.h>
#include <string.h>

#include "work.h"

#define BYTES 20000
#define EDGE  64 /* bytes before and behind that must stay */

/* Elements of a width, `rows` of them, and their value. */
struct area {
    unsigned width; /* bytes of an element: 1, 2, 4 */
    size_t pitch;   /* bytes from row to row */
    size_t columns, rows;
    uint32_t value;
};

static CUresult set_line(CUdeviceptr at, const struct area *area)
{
    if (area->width == 1)
        return cuMemsetD8(at, (unsigned char)area->value, area->columns);
    if (area->width == 2)
        return cuMemsetD16(at, (unsigned short)area->value, area->columns);
    return cuMemsetD32(at, area->value, area->columns);
}

static CUresult set_box(CUdeviceptr at, const struct area *area)
{
    if (area->width == 1)
        return cuMemsetD2D8(at, area->pitch, (unsigned char)area->value, area->columns,
                            area->rows);
    if (area->width == 2)
        return cuMemsetD2D16(at, area->pitch, (unsigned short)area->value, area->columns,
                             area->rows);
    return cuMemsetD2D32(at, area->pitch, area->value, area->columns, area->rows);
}

static CUresult queue_line(CUdeviceptr at, const struct area *area, CUstream stream)
{
    if (area->width == 1)
        return cuMemsetD8Async(at, (unsigned char)area->value, area->columns, stream);
    if (area->width == 2)
        return cuMemsetD16Async(at, (unsigned short)area->value, area->columns, stream);
    return cuMemsetD32Async(at, area->value, area->columns, stream);
}

static CUresult queue_box(CUdeviceptr at, const struct area *area, CUstream stream)
{
    if (area->width == 1)
        return cuMemsetD2D8Async(at, area->pitch, (unsigned char)area->value,
                                 area->columns, area->rows, stream);
    if (area->width == 2)
        return cuMemsetD2D16Async(at, area->pitch, (unsigned short)area->value,
                                  area->columns, area->rows, stream);
    return cuMemsetD2D32Async(at, area->pitch, area->value, area->columns, area->rows,
                              stream);
}

static CUresult in_stream(CUresult (*queue)(CUdeviceptr, const struct area *, CUstream),
                          CUdeviceptr at, const struct area *area)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUresult code = queue(at, area, stream);

    CHECK_OK(cuStreamSynchronize(stream));
    end_stream(stream);
    return code;
}

static CUresult set_line_async(CUdeviceptr at, const struct area *area)
{
    return in_stream(queue_line, at, area);
}

static CUresult set_box_async(CUdeviceptr at, const struct area *area)
{
    return in_stream(queue_box, at, area);
}

typedef CUresult set_call(CUdeviceptr, const struct area *);

/* Set a part of a block, by the device and by a loop; compare the whole block. */
static void check_set(set_call *call, size_t at, struct area area)
{
    unsigned char *model = malloc(BYTES), *got = calloc(1, BYTES);
    MEMORY pointer = device_get(BYTES);

    if (!model || !got)
        abort();
    bytes_fill(model, BYTES, 1);
    CHECK(device_fill(pointer, BYTES, 1));
    for (size_t row = 0; row < area.rows; row++) {
        unsigned char *line = model + at + row * area.pitch;
        for (size_t i = 0; i < area.columns; i++)
            memcpy(line + i * area.width, &area.value, area.width); /* little endian */
    }
    CHECK_OK(call(pointer + at, &area));
    CHECK_OK(cuMemcpyDtoH(got, pointer, BYTES));
    CHECK(memcmp(got, model, BYTES) == 0);
    free(model);
    free(got);
}

CASE(set, bytes, DRIVER_API, "cuMemsetD8",
     "Sets the memory range of N 8-bit values to the specified value uc")
{
    check_set(set_line, 0, (struct area){1, 0, BYTES, 1, 0xa5});
    check_set(set_line, EDGE + 3, (struct area){1, 0, 1, 1, 0});
    check_set(set_line, EDGE + 1, (struct area){1, 0, 5001, 1, 0xff});
}

CASE(set, halves, DRIVER_API, "cuMemsetD16",
     "Sets the memory range of N 16-bit values to the specified value us")
{
    check_set(set_line, 0, (struct area){2, 0, BYTES / 2, 1, 0x1234});
    check_set(set_line, EDGE + 2, (struct area){2, 0, 1, 1, 0xfedc});
    check_set(set_line, EDGE + 6, (struct area){2, 0, 3001, 1, 0x00ff});
}

CASE(set, words, DRIVER_API, "cuMemsetD32",
     "Sets the memory range of N 32-bit values to the specified value ui")
{
    check_set(set_line, 0, (struct area){4, 0, BYTES / 4, 1, 0x12345678});
    check_set(set_line, EDGE + 4, (struct area){4, 0, 1, 1, 0xfedcba98});
    check_set(set_line, EDGE + 12, (struct area){4, 0, 2001, 1, 0x00ff00ff});
}

CASE(set, async, DRIVER_API, "cuMemsetD8Async, cuMemsetD16Async, cuMemsetD32Async",
     "Sets the memory range of N values to the specified value, in hStream")
{
    check_set(set_line_async, EDGE + 1, (struct area){1, 0, 5001, 1, 0x5a});
    check_set(set_line_async, EDGE + 2, (struct area){2, 0, 3001, 1, 0x1234});
    check_set(set_line_async, EDGE + 4, (struct area){4, 0, 2001, 1, 0x12345678});
}

CASE(set, rows_of_bytes, DRIVER_API, "cuMemsetD2D8",
     "Sets the 2D memory range of Width 8-bit values. Height specifies the number of "
     "rows to set, and dstPitch specifies the number of bytes between each row")
{
    check_set(set_box, EDGE, (struct area){1, 512, 100, 20, 0xa5});
    check_set(set_box, EDGE + 3, (struct area){1, 512, 1, 20, 0xa5});
}

CASE(set, rows_of_halves, DRIVER_API, "cuMemsetD2D16",
     "Sets the 2D memory range of Width 16-bit values. Height specifies the number of "
     "rows to set, and dstPitch specifies the number of bytes between each row")
{
    check_set(set_box, EDGE, (struct area){2, 512, 100, 20, 0x1234});
    check_set(set_box, EDGE + 2, (struct area){2, 256, 127, 20, 0x1234});
}

CASE(set, rows_of_words, DRIVER_API, "cuMemsetD2D32",
     "Sets the 2D memory range of Width 32-bit values. Height specifies the number of "
     "rows to set, and dstPitch specifies the number of bytes between each row")
{
    check_set(set_box, EDGE, (struct area){4, 512, 100, 20, 0x12345678});
    check_set(set_box, EDGE + 4, (struct area){4, 256, 63, 20, 0x12345678});
}

CASE(set, rows_async, DRIVER_API,
     "cuMemsetD2D8Async, cuMemsetD2D16Async, cuMemsetD2D32Async",
     "Sets the 2D memory range of Width values, Height rows of them, in hStream")
{
    check_set(set_box_async, EDGE, (struct area){1, 512, 100, 20, 0x5a});
    check_set(set_box_async, EDGE, (struct area){2, 512, 100, 20, 0x1234});
    check_set(set_box_async, EDGE, (struct area){4, 512, 100, 20, 0x12345678});
}

CASE(set, one_row_without_pitch, DRIVER_API, "cuMemsetD2D8",
     "dstPitch - pitch of destination device pointer (unused if Height is 1)")
{
    check_set(set_box, EDGE, (struct area){1, 0, 300, 1, 0x77});
    check_set(set_box, EDGE, (struct area){4, 1, 300, 1, 0x12345678});
}

CASE(set, rows_of_pitched_memory, DRIVER_API, "cuMemsetD2D32",
     "This function performs fastest when the pitch is one that has been passed back "
     "by cuMemAllocPitch(): it sets Width values of every row")
{
    enum { WIDTH = 75, ROWS = 9 };
    MEMORY pointer = 0;
    size_t pitch = 0;

    if (!CHECK_OK(cuMemAllocPitch(&pointer, &pitch, 4 * WIDTH, ROWS, 4)))
        return;
    CHECK_OK(cuMemsetD2D32(pointer, pitch, 0x03030303, WIDTH, ROWS));
    for (unsigned row = 0; row < ROWS; row++)
        CHECK(device_is(pointer + row * pitch, 4 * WIDTH, 3));
}

/* Is it refused, and the block as it was? */
static void check_refused(set_call *call, size_t at, struct area area)
{
    MEMORY pointer = device_get(BYTES);

    CHECK(device_fill(pointer, BYTES, 1));
    CHECK(call(pointer + at, &area) != CUDA_SUCCESS);
    CHECK(device_holds(pointer, BYTES, 1));
}

CASE(set, halves_misaligned, DRIVER_API, "cuMemsetD16",
     "The dstDevice pointer must be two byte aligned")
{
    check_refused(set_line, 1, (struct area){2, 0, 10, 1, 7});
    check_refused(set_line_async, 3, (struct area){2, 0, 10, 1, 7});
}

CASE(set, words_misaligned, DRIVER_API, "cuMemsetD32",
     "The dstDevice pointer must be four byte aligned")
{
    for (size_t at = 1; at < 4; at++)
        check_refused(set_line, at, (struct area){4, 0, 10, 1, 7});
    check_refused(set_line_async, 2, (struct area){4, 0, 10, 1, 7});
}

CASE(set, rows_misaligned, DRIVER_API, "cuMemsetD2D16, cuMemsetD2D32",
     "The dstDevice pointer and dstPitch offset must be two (four) byte aligned")
{
    check_refused(set_box, 1, (struct area){2, 512, 10, 4, 7});
    check_refused(set_box, 2, (struct area){4, 512, 10, 4, 7});
    check_refused(set_box, 0, (struct area){2, 511, 10, 4, 7});
    check_refused(set_box, 0, (struct area){4, 510, 10, 4, 7});
}

CASE(set, pinned_memory, DRIVER_API, "API synchronization behavior, Memset",
     "The memset functions are asynchronous with respect to the host except when the "
     "target memory is pinned host memory: then it is set on return")
{
    unsigned char *host = NULL;
    size_t i = 0;

    if (!CHECK_OK(cuMemAllocHost((void **)&host, BYTES)))
        return;
    memset(host, 1, BYTES);
    CHECK_OK(cuMemsetD8((CUdeviceptr)(uintptr_t)host, 9, BYTES));
    while (i < BYTES && host[i] == 9)
        i++;
    CHECK_EQUAL(i, BYTES);
    CHECK_OK(cuMemFreeHost(host));
}

CASE(set, in_stream_order, DRIVER_API, "cuMemsetD8Async",
     "hStream - stream identifier: sets and copies of one stream take their turns")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    MEMORY pointer = device_get(BYTES);
    MEMORY copy = device_get(BYTES);

    CHECK_OK(cuMemsetD8Async(pointer, 1, BYTES, stream));
    CHECK_OK(cuMemsetD8Async(pointer, 2, BYTES / 2, stream));
    CHECK_OK(cuMemcpyDtoDAsync(copy, pointer, BYTES, stream));
    CHECK_OK(cuMemsetD8Async(pointer, 3, BYTES, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(device_is(copy, BYTES / 2, 2));
    CHECK(device_is(copy + BYTES / 2, BYTES / 2, 1));
    CHECK(device_is(pointer, BYTES, 3));
}
