/*
 * shim_array_size.c - proves what arrays take: every format of cuda.h, shapes, levels.
 */
#include <criterion/criterion.h>

#include "shim/lifetimes/array_size.h"

#define SPARSE   CUDA_ARRAY3D_SPARSE
#define DEFERRED 0x80u /* CUDA_ARRAY3D_DEFERRED_MAPPING, since 11.6 */
#define LAYERED  CUDA_ARRAY3D_LAYERED
#define CUBEMAP  CUDA_ARRAY3D_CUBEMAP
#define FLOAT    CU_AD_FORMAT_FLOAT

static const struct row {
    size_t width, height, depth;
    unsigned format, channels, flags, levels;
    size_t bytes;
} rows[] = {
    /* shapes */
    {100, 0, 0, FLOAT, 1, 0, 1, 400},
    {100, 50, 0, FLOAT, 1, 0, 1, 20000},
    {100, 50, 7, FLOAT, 1, 0, 1, 140000},
    {100, 0, 7, FLOAT, 1, LAYERED, 1, 2800},
    {100, 50, 7, FLOAT, 2, LAYERED, 1, 280000},
    {32, 32, 6, FLOAT, 1, CUBEMAP, 1, 24576},
    {32, 32, 12, FLOAT, 1, CUBEMAP | LAYERED, 1, 49152},
    {100, 50, 0, FLOAT, 1, SPARSE, 1, 0},
    {100, 50, 0, FLOAT, 1, DEFERRED, 4, 0},
    {SIZE_MAX / 2, 50, 0, FLOAT, 1, 0, 1, SIZE_MAX},
    {SIZE_MAX / 8, 2, 0, FLOAT, 1, 0, 4, SIZE_MAX},
    /* levels */
    {8, 8, 0, FLOAT, 1, 0, 0, 256},
    {8, 8, 0, FLOAT, 1, 0, 2, 256 + 64},
    {8, 8, 0, FLOAT, 1, 0, 4, 256 + 64 + 16 + 4},
    {8, 8, 0, FLOAT, 1, 0, 99, 256 + 64 + 16 + 4},
    {8, 2, 0, FLOAT, 1, 0, 4, 64 + 16 + 8 + 4},
    {5, 3, 0, FLOAT, 1, 0, 3, 60 + 8 + 4},
    {8, 0, 0, FLOAT, 1, 0, 4, 32 + 16 + 8 + 4},
    {8, 8, 8, FLOAT, 1, 0, 4, 2048 + 256 + 32 + 4},
    {2, 2, 16, FLOAT, 1, 0, 5, 256 + 32 + 16 + 8 + 4},
    {8, 8, 3, FLOAT, 1, LAYERED, 4, 3 * (256 + 64 + 16 + 4)},
    {8, 0, 3, FLOAT, 1, LAYERED, 99, 3 * (32 + 16 + 8 + 4)},
    {8, 8, 6, FLOAT, 1, CUBEMAP, 2, 6 * (256 + 64)},
    {16, 16, 0, 0x91, 4, 0, 5, 128 + 32 + 8 + 8 + 8},
    /* channels */
    {10, 10, 0, CU_AD_FORMAT_UNSIGNED_INT8, 0, 0, 1, 100},
    {10, 10, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 1, 100},
    {10, 10, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0, 1, 400},
    {10, 10, 0, CU_AD_FORMAT_SIGNED_INT8, 2, 0, 1, 200},
    {10, 10, 0, CU_AD_FORMAT_UNSIGNED_INT16, 2, 0, 1, 400},
    {10, 10, 0, CU_AD_FORMAT_SIGNED_INT16, 4, 0, 1, 800},
    {10, 10, 0, CU_AD_FORMAT_HALF, 1, 0, 1, 200},
    {10, 10, 0, CU_AD_FORMAT_UNSIGNED_INT32, 4, 0, 1, 1600},
    {10, 10, 0, CU_AD_FORMAT_SIGNED_INT32, 1, 0, 1, 400},
    {10, 10, 0, 0x50, 4, 0, 1, 400},
    {10, 10, 0, 0x7e, 4, 0, 1, 1600},
    /* block-compressed: whole blocks of 4 by 4 */
    {16, 16, 0, 0x91, 4, 0, 1, 128},
    {17, 13, 0, 0x92, 4, 0, 1, 5 * 4 * 8},
    {16, 16, 0, 0x93, 4, 0, 1, 256},
    {16, 16, 0, 0x94, 4, 0, 1, 256},
    {16, 16, 0, 0x95, 4, 0, 1, 256},
    {16, 16, 0, 0x96, 4, 0, 1, 256},
    {16, 16, 0, 0x97, 1, 0, 1, 128},
    {16, 16, 0, 0x98, 1, 0, 1, 128},
    {16, 16, 0, 0x99, 2, 0, 1, 256},
    {16, 16, 0, 0x9a, 2, 0, 1, 256},
    {16, 16, 0, 0x9b, 3, 0, 1, 256},
    {16, 16, 0, 0x9c, 3, 0, 1, 256},
    {16, 16, 0, 0x9d, 4, 0, 1, 256},
    {16, 16, 0, 0x9e, 4, 0, 1, 256},
    {16, 16, 2, 0x9e, 4, LAYERED, 1, 512},
    /* video */
    {640, 480, 0, 0xb0, 3, 0, 1, 640 * 480 * 3 / 2},
    {641, 481, 0, 0xb0, 3, 0, 1, 321 * 241 * 6},
    {640, 480, 0, 0x9f, 3, 0, 1, 640 * 480 * 3},
    {640, 480, 0, 0xa1, 3, 0, 1, 640 * 480 * 3},
    {640, 480, 0, 0xa2, 3, 0, 1, 640 * 480 * 2},
    {640, 480, 0, 0xa3, 3, 0, 1, 640 * 480 * 4},
    {640, 480, 0, 0xa4, 3, 0, 1, 640 * 480 * 4},
    {640, 480, 0, 0xa5, 2, 0, 1, 640 * 480 * 2},
    {640, 480, 0, 0xa6, 2, 0, 1, 640 * 480 * 4},
    {640, 480, 0, 0xa7, 2, 0, 1, 640 * 480 * 4},
    {640, 480, 0, 0xa8, 4, 0, 1, 640 * 480 * 4},
    {640, 480, 0, 0xa9, 4, 0, 1, 640 * 480 * 4},
    {640, 480, 0, 0xb1, 4, 0, 1, 640 * 480 * 8},
    {640, 480, 0, 0xb2, 3, 0, 1, 640 * 480 * 3},
    {640, 480, 0, 0xb3, 3, 0, 1, 640 * 480 * 6},
    {640, 480, 0, 0xb4, 3, 0, 1, 640 * 480 * 3},
    {640, 480, 0, 0xb5, 3, 0, 1, 640 * 480 * 6},
    /* normalized: they say their channels themselves */
    {10, 10, 0, 0xc0, 1, 0, 1, 100},
    {10, 10, 0, 0xc1, 2, 0, 1, 200},
    {10, 10, 0, 0xc2, 4, 0, 1, 400},
    {10, 10, 0, 0xc3, 1, 0, 1, 200},
    {10, 10, 0, 0xc4, 2, 0, 1, 400},
    {10, 10, 0, 0xc5, 4, 0, 1, 800},
    {10, 10, 0, 0xc6, 1, 0, 1, 100},
    {10, 10, 0, 0xc7, 2, 0, 1, 200},
    {10, 10, 0, 0xc8, 4, 0, 1, 400},
    {10, 10, 0, 0xc9, 1, 0, 1, 200},
    {10, 10, 0, 0xca, 2, 0, 1, 400},
    {10, 10, 0, 0xcb, 4, 0, 1, 800},
};

Test(array_size, is_what_texels_and_levels_take)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        const struct row *row = &rows[i];
        const CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = row->width,
                                               .Height = row->height,
                                               .Depth = row->depth,
                                               .Format = (CUarray_format)row->format,
                                               .NumChannels = row->channels,
                                               .Flags = row->flags};
        size_t bytes = gs_array_bytes(&shape, row->levels);

        cr_expect_eq(bytes, row->bytes,
                     "row %zu: %zu x %zu x %zu, format 0x%x: %zu, not %zu", i, row->width,
                     row->height, row->depth, row->format, bytes, row->bytes);
    }
}
