/*
 * array.h - CUDA arrays and mipmapped arrays.
 *
 * An array is a box of elements in memory of its device whose address no program is told.
 * Here its rows lie one behind the other; a real one may lay them out as it likes, and
 * nobody can tell. The memory belongs to the context, and goes with it.
 *
 * Owns: arrays; the levels of a mipmapped array belong to it.
 * Lock: none, they are immutable between creation and the last reference.
 */
#ifndef SIM_ARRAY_H
#define SIM_ARRAY_H

#include "copy.h"
#include "handle.h"
#include "memory.h"

struct sim_array {
    struct sim_object object;
    struct sim_context *context; /* identity only */
    uint64_t context_id;
    CUDA_ARRAY3D_DESCRIPTOR desc; /* as asked for */
    size_t element_bytes;
    size_t row_bytes, rows, slices; /* layers are slices */
    size_t pitch, slice_pitch;
    struct sim_alloc *memory; /* with a reference */
    uintptr_t base;           /* where in it this array begins */
    bool is_level;            /* of a mipmapped array, which owns the memory */
};

#define SIM_MAX_LEVELS 18 /* of 131072 elements */

struct sim_mipmap {
    struct sim_object object;
    struct sim_context *context; /* identity only */
    uint64_t context_id;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    unsigned level_count;
    struct sim_array *levels[SIM_MAX_LEVELS]; /* each with a reference and a handle */
    struct sim_alloc *memory;                 /* with a reference */
};

/* Bytes of an element, 0 for what is no combination of format and channels here. */
size_t sim_array_element_bytes(CUarray_format format, unsigned channels);

/* Largest extents of an array of that shape; CUDA_ERROR_INVALID_VALUE for no shape. */
CUresult sim_array_check(const CUDA_ARRAY3D_DESCRIPTOR *desc, bool mipmapped) GS_MUST_USE;

/*
 * Make an array in a context, which keeps it.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_array_create(struct sim_context *context,
                          const CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray *out) GS_MUST_USE;

/*
 * Make a mipmapped array.
 *
 * In:      levels  clamped as documented
 *          memory  with a reference that is taken over, where the levels lie, big enough;
 *                  NULL: of the context
 */
CUresult sim_mipmap_create(struct sim_context *context,
                           const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels,
                           struct sim_alloc *memory, size_t offset,
                           CUmipmappedArray *out) GS_MUST_USE;

/* Bytes that so many levels take; *levels is clamped. The description has been checked.
 */
size_t sim_mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned *levels);

/* With a reference; NULL: no such array. */
struct sim_array *sim_array_get(CUarray handle) GS_MUST_USE;
void sim_array_put(struct sim_array *array);

/*
 * The side of a copy that begins at (x bytes, y rows, z slices) of an array.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  no array; the box leaves it; x or the row is not a
 *                                    multiple of the element
 */
CUresult sim_array_side(CUarray handle, size_t x, size_t y, size_t z,
                        const struct sim_extent3 *extent,
                        struct sim_side *out) GS_MUST_USE;

#endif
