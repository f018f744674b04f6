/*
 * array_size.c - formats of texels, extents of levels.
 * Owns:  nothing.   Lock: none.
 * Source: CUDA Driver API, cuArray3DCreate (extents), CUarray_format; the sizes of the
 * video formats are those of the DXGI formats with the same names; block-compressed
 * formats store blocks of 4 by 4 texels.
 */
#include "shim/lifetimes/array_size.h"

#define DEFERRED_MAPPING 0x80u /* CUDA_ARRAY3D_DEFERRED_MAPPING, since 11.6 */

/* A format: `bytes` for each block of `width` by `height` texels, times the channels if
 * `by_channel`. */
struct format {
    unsigned value;
    uint8_t bytes, width, height;
    bool by_channel;
};

static const struct format formats[] = {
#define GS_FORMAT(value, bytes, width, height, by_channel)                               \
    {value, bytes, width, height, by_channel},
#include "shim/lifetimes/array_formats.def"
#undef GS_FORMAT
};

/* An unknown format gets the most common width. */
static const struct format unknown = {0, 4, 1, 1, true};

static const struct format *format_of(unsigned value)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(formats); i++) {
        if (formats[i].value == value) {
            return &formats[i];
        }
    }
    return &unknown;
}

struct extents {
    size_t width, height, depth;
};

static size_t block_count(size_t texels, unsigned block)
{
    return texels / block + (texels % block != 0);
}

/* Returns SIZE_MAX if a product overflows. */
static size_t level_bytes(const struct format *format, unsigned channels,
                          const struct extents *level)
{
    size_t bytes = format->bytes;
    bool over =
        (format->by_channel &&
         __builtin_mul_overflow(bytes, channels ? channels : 1, &bytes)) ||
        __builtin_mul_overflow(bytes, block_count(level->width, format->width), &bytes) ||
        __builtin_mul_overflow(bytes, block_count(level->height, format->height),
                               &bytes) ||
        __builtin_mul_overflow(bytes, level->depth, &bytes);
    return over ? SIZE_MAX : bytes;
}

static size_t half_extent(size_t extent)
{
    return extent > 1 ? extent / 2 : 1;
}

size_t gs_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels)
{
    const struct format *format = format_of((unsigned)shape->Format);
    /* Each level has the same number of layers and faces. */
    bool layers = (shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    struct extents level = {shape->Width, shape->Height ? shape->Height : 1,
                            shape->Depth ? shape->Depth : 1};
    size_t sum = 0;
    if (shape->Flags & (CUDA_ARRAY3D_SPARSE | DEFERRED_MAPPING)) {
        return 0;
    }
    for (unsigned i = 0; i < (levels ? levels : 1); i++) {
        if (__builtin_add_overflow(sum, level_bytes(format, shape->NumChannels, &level),
                                   &sum)) {
            return SIZE_MAX;
        }
        if (level.width <= 1 && level.height <= 1 && (layers || level.depth <= 1)) {
            break; /* the last possible level */
        }
        level.width = half_extent(level.width);
        level.height = half_extent(level.height);
        level.depth = layers ? level.depth : half_extent(level.depth);
    }
    return sum;
}
