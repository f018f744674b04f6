/*
 * array.c - the shape of arrays, and their memory.
 * Owns:  arrays and mipmapped arrays.   Lock: none.
 * Source: Driver API, cuArray3DCreate, cuMipmappedArrayCreate: the tables of extents.
 */
#include "array.h"

#include <stdlib.h>

#include "context.h"
#include "device.h"
#include "order.h"
#include "vmm_range.h"

#define ROW_ALIGN ((size_t)32)

/* Features that the device's attributes deny. */
#define DENIED_FLAGS                                                                     \
    (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING | 0x100u /* video */)
#define KNOWN_FLAGS                                                                      \
    ((unsigned)(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |                       \
                CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |                     \
                CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT |             \
                DENIED_FLAGS))

/* ---- shape ---- */

/* The normalized formats say their channels themselves: 1, 2 or 4 of 1 or 2 bytes. */
static size_t normalized_bytes(unsigned format, unsigned channels)
{
    unsigned index = (format - 0xc0) % 6; /* 8X1 8X2 8X4 16X1 16X2 16X4 */
    unsigned own_channels = 1u << index % 3;

    return own_channels == channels ? channels * (index / 3 + 1) : 0;
}

size_t sim_array_element_bytes(CUarray_format format, unsigned channels)
{
    if (channels != 1 && channels != 2 && channels != 4)
        return 0;
    switch ((unsigned)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return (size_t)2 * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return (size_t)4 * channels;
    case 0x50: /* CU_AD_FORMAT_UNORM_INT_101010_2 */
        return channels == 4 ? 4 : 0;
    default:
        return (unsigned)format >= 0xc0 && (unsigned)format <= 0xcb
                   ? normalized_bytes((unsigned)format, channels)
                   : 0;
    }
}

/* Video and block-compressed formats: they exist, and are not modelled. */
static bool is_other_format(unsigned format)
{
    return (format >= 0x91 && format <= 0x9f) || (format >= 0xa1 && format <= 0xa9) ||
           (format >= 0xb0 && format <= 0xb5);
}

enum shape { LINE, PLANE, BOX, LINES, PLANES, CUBE, CUBES, NO_SHAPE };

static enum shape shape_of(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    bool layered = desc->Flags & CUDA_ARRAY3D_LAYERED;

    if (desc->Width == 0)
        return NO_SHAPE;
    if (desc->Flags & CUDA_ARRAY3D_CUBEMAP) {
        if (desc->Width != desc->Height || desc->Depth == 0 || desc->Depth % 6)
            return NO_SHAPE;
        return layered ? CUBES : desc->Depth == 6 ? CUBE : NO_SHAPE;
    }
    if (layered)
        return !desc->Depth ? NO_SHAPE : desc->Height ? PLANES : LINES;
    if (desc->Depth)
        return desc->Height ? BOX : NO_SHAPE;
    return desc->Height ? PLANE : LINE;
}

/* Attributes of the largest extents, 0: the extent says nothing or is fixed. */
struct most {
    CUdevice_attribute width, height, depth;
};

#define TEXTURE(what) CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE##what
#define SURFACE(what) CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE##what

static const struct most textures[NO_SHAPE] = {
    [LINE] = {TEXTURE(1D_WIDTH), 0, 0},
    [PLANE] = {TEXTURE(2D_WIDTH), TEXTURE(2D_HEIGHT), 0},
    [BOX] = {TEXTURE(3D_WIDTH), TEXTURE(3D_HEIGHT), TEXTURE(3D_DEPTH)},
    [LINES] = {TEXTURE(1D_LAYERED_WIDTH), 0, TEXTURE(1D_LAYERED_LAYERS)},
    [PLANES] = {TEXTURE(2D_LAYERED_WIDTH), TEXTURE(2D_LAYERED_HEIGHT),
                TEXTURE(2D_LAYERED_LAYERS)},
    [CUBE] = {TEXTURE(CUBEMAP_WIDTH), 0, 0},
    [CUBES] = {TEXTURE(CUBEMAP_LAYERED_WIDTH), 0, TEXTURE(CUBEMAP_LAYERED_LAYERS)},
};
static const struct most surfaces[NO_SHAPE] = {
    [LINE] = {SURFACE(1D_WIDTH), 0, 0},
    [PLANE] = {SURFACE(2D_WIDTH), SURFACE(2D_HEIGHT), 0},
    [BOX] = {SURFACE(3D_WIDTH), SURFACE(3D_HEIGHT), SURFACE(3D_DEPTH)},
    [LINES] = {SURFACE(1D_LAYERED_WIDTH), 0, SURFACE(1D_LAYERED_LAYERS)},
    [PLANES] = {SURFACE(2D_LAYERED_WIDTH), SURFACE(2D_LAYERED_HEIGHT),
                SURFACE(2D_LAYERED_LAYERS)},
    [CUBE] = {SURFACE(CUBEMAP_WIDTH), 0, 0},
    [CUBES] = {SURFACE(CUBEMAP_LAYERED_WIDTH), 0, SURFACE(CUBEMAP_LAYERED_LAYERS)},
};
static const struct most mipmapped_line = {TEXTURE(1D_MIPMAPPED_WIDTH), 0, 0};
static const struct most mipmapped_plane = {TEXTURE(2D_MIPMAPPED_WIDTH),
                                            TEXTURE(2D_MIPMAPPED_HEIGHT), 0};
static const struct most gathered = {TEXTURE(2D_GATHER_WIDTH), TEXTURE(2D_GATHER_HEIGHT),
                                     0};
static const struct most other_box = {TEXTURE(3D_WIDTH_ALTERNATE),
                                      TEXTURE(3D_HEIGHT_ALTERNATE),
                                      TEXTURE(3D_DEPTH_ALTERNATE)};

static bool is_at_most(size_t extent, CUdevice_attribute attribute)
{
    return !attribute || extent <= (size_t)sim_device_attribute(attribute);
}

static bool is_within(const CUDA_ARRAY3D_DESCRIPTOR *desc, const struct most *most)
{
    return is_at_most(desc->Width, most->width) &&
           is_at_most(desc->Height, most->height) && is_at_most(desc->Depth, most->depth);
}

static bool is_small_enough(const CUDA_ARRAY3D_DESCRIPTOR *desc, enum shape shape,
                            bool mipmapped)
{
    const struct most *most = &textures[shape];

    if (mipmapped && shape == LINE)
        most = &mipmapped_line;
    if (mipmapped && shape == PLANE)
        most = &mipmapped_plane;
    if ((desc->Flags & CUDA_ARRAY3D_TEXTURE_GATHER) &&
        (shape != PLANE || !is_within(desc, &gathered)))
        return false;
    if ((desc->Flags & CUDA_ARRAY3D_SURFACE_LDST) && !is_within(desc, &surfaces[shape]))
        return false;
    return is_within(desc, most) || (shape == BOX && is_within(desc, &other_box));
}

CUresult sim_array_check(const CUDA_ARRAY3D_DESCRIPTOR *desc, bool mipmapped)
{
    enum shape shape = shape_of(desc);

    if (shape == NO_SHAPE || (desc->Flags & ~KNOWN_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    if (is_other_format((unsigned)desc->Format) || (desc->Flags & DENIED_FLAGS))
        return CUDA_ERROR_NOT_SUPPORTED;
    return sim_array_element_bytes(desc->Format, desc->NumChannels) > 0 &&
                   is_small_enough(desc, shape, mipmapped)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* Lay out what the description asks for; the memory is found later. */
static void lay_out(struct sim_array *array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    array->desc = *desc;
    array->element_bytes = sim_array_element_bytes(desc->Format, desc->NumChannels);
    array->row_bytes = desc->Width * array->element_bytes;
    array->rows = desc->Height ? desc->Height : 1;
    array->slices = desc->Depth ? desc->Depth : 1;
    array->pitch = gs_round_up(array->row_bytes, ROW_ALIGN);
    array->slice_pitch = array->pitch * array->rows;
}

/* ---- memory ---- */

/* The memory of an array goes, unless that of the context has gone already. */
static void give_back(struct sim_alloc *memory)
{
    bool gave = memory->kind == SIM_MEMORY_EXTERNAL ? sim_range_remove(memory)
                                                    : sim_heap_free(memory);

    (void)gave;
    sim_memory_unref(memory);
}

static void destroy_array(struct sim_object *object)
{
    struct sim_array *array = (struct sim_array *)object;

    if (array->memory && array->is_level)
        sim_memory_unref(array->memory);
    else if (array->memory)
        give_back(array->memory);
    free(array);
}

static CUresult take_memory(struct sim_context *context, size_t bytes,
                            struct sim_alloc **out)
{
    const struct sim_allocation allocation = {SIM_MEMORY_ARRAY, context,
                                              sim_context_id(context)};
    CUresult res = sim_heap_alloc(&context->heap, bytes, true, &allocation, out);

    if (res == CUDA_SUCCESS)
        sim_order_handed_out(*out, NULL);
    return res;
}

static struct sim_array *new_array(struct sim_context *context,
                                   const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    struct sim_array *array = calloc(1, sizeof(*array));

    if (!array)
        return NULL;
    sim_object_init(&array->object, SIM_TYPE_ARRAY, destroy_array);
    array->context = context;
    array->context_id = sim_context_id(context);
    lay_out(array, desc);
    return array;
}

CUresult sim_array_create(struct sim_context *context,
                          const CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray *out)
{
    SIM_TRY(sim_array_check(desc, false));
    struct sim_array *array = new_array(context, desc);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult res =
        take_memory(context, array->slice_pitch * array->slices, &array->memory);
    if (res == CUDA_SUCCESS) {
        array->base = array->memory->base;
        if (sim_handle_open(&array->object)) {
            sim_context_adopt(context, &array->object);
            *out = (CUarray)array->object.handle;
        } else {
            res = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    sim_object_unref(&array->object);
    return res;
}

struct sim_array *sim_array_get(CUarray handle)
{
    return (struct sim_array *)sim_handle_get(handle, SIM_TYPE_ARRAY);
}

void sim_array_put(struct sim_array *array)
{
    sim_object_unref(&array->object);
}

/* ---- mipmapped arrays ---- */

static unsigned half(unsigned extent, unsigned level)
{
    if (extent == 0)
        return 0;
    return extent >> level ? extent >> level : 1;
}

/* Of a level; layers do not get fewer. */
static CUDA_ARRAY3D_DESCRIPTOR level_desc(const CUDA_ARRAY3D_DESCRIPTOR *desc,
                                          unsigned level)
{
    CUDA_ARRAY3D_DESCRIPTOR result = *desc;

    result.Width = half((unsigned)desc->Width, level);
    result.Height = half((unsigned)desc->Height, level);
    if (!(desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
        result.Depth = half((unsigned)desc->Depth, level);
    return result;
}

size_t sim_mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned *levels)
{
    size_t longest = desc->Width > desc->Height ? desc->Width : desc->Height;
    size_t bytes = 0;
    unsigned most = 1;

    if (!(desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) &&
        desc->Depth > longest)
        longest = desc->Depth;
    while (longest >>= 1)
        most++;
    if (*levels < 1)
        *levels = 1;
    if (*levels > most)
        *levels = most;
    for (unsigned level = 0; level < *levels; level++) {
        struct sim_array array;
        const CUDA_ARRAY3D_DESCRIPTOR one = level_desc(desc, level);
        lay_out(&array, &one);
        bytes += gs_round_up(array.slice_pitch * array.slices, SIM_ALIGN_BYTES);
    }
    return bytes;
}

static void destroy_mipmap(struct sim_object *object)
{
    struct sim_mipmap *mipmap = (struct sim_mipmap *)object;

    for (unsigned i = 0; i < mipmap->level_count; i++) {
        struct sim_object *closed =
            sim_handle_close(mipmap->levels[i]->object.handle, SIM_TYPE_ARRAY);
        if (closed)
            sim_object_unref(closed);
        sim_array_put(mipmap->levels[i]);
    }
    if (mipmap->memory)
        give_back(mipmap->memory);
    free(mipmap);
}

/* Put the levels one behind the other into the memory. */
static bool make_levels(struct sim_mipmap *mipmap, struct sim_context *context,
                        unsigned count, size_t offset)
{
    uintptr_t next = mipmap->memory->base + offset;

    for (unsigned level = 0; level < count; level++) {
        const CUDA_ARRAY3D_DESCRIPTOR desc = level_desc(&mipmap->desc, level);
        struct sim_array *array = new_array(context, &desc);
        if (!array)
            return false;
        array->is_level = true;
        array->memory = mipmap->memory;
        array->base = next;
        sim_memory_ref(array->memory);
        if (!sim_handle_open(&array->object)) {
            sim_array_put(array);
            return false;
        }
        mipmap->levels[mipmap->level_count++] = array;
        next += gs_round_up(array->slice_pitch * array->slices, SIM_ALIGN_BYTES);
    }
    return true;
}

CUresult sim_mipmap_create(struct sim_context *context,
                           const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels,
                           struct sim_alloc *memory, size_t offset, CUmipmappedArray *out)
{
    struct sim_mipmap *mipmap = calloc(1, sizeof(*mipmap));
    size_t bytes = sim_mipmap_bytes(desc, &levels);
    CUresult res = CUDA_SUCCESS;

    if (!mipmap) {
        if (memory)
            give_back(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_object_init(&mipmap->object, SIM_TYPE_MIPMAP, destroy_mipmap);
    mipmap->context = context;
    mipmap->context_id = sim_context_id(context);
    mipmap->desc = *desc;
    mipmap->memory = memory;
    if (!memory)
        res = take_memory(context, bytes, &mipmap->memory);
    if (res == CUDA_SUCCESS && (!make_levels(mipmap, context, levels, offset) ||
                                !sim_handle_open(&mipmap->object)))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS) {
        sim_context_adopt(context, &mipmap->object);
        *out = (CUmipmappedArray)mipmap->object.handle;
    }
    sim_object_unref(&mipmap->object);
    return res;
}
