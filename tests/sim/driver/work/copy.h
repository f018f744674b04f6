/*
 * copy.h - copies and sets: from a call's arguments to an operation.
 * Owns: nothing.   Lock: none.
 */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "stream.h"

/* How a call names one side of a copy. */
enum sim_side_kind {
    SIM_SIDE_HOST,
    SIM_SIDE_DEVICE,
    SIM_SIDE_UNIFIED,
    SIM_SIDE_ARRAY, /* the address of an array's memory, from sim_array_side */
};

struct sim_side {
    enum sim_side_kind kind;
    uintptr_t address;
    size_t pitch;       /* 0: rows lie close */
    size_t slice_pitch; /* 0: slices lie close */
};

struct sim_extent3 {
    size_t row_bytes, rows, slices;
};

/* Does the call return when it is done, or when it is enqueued? */
enum sim_sync {
    SIM_SYNC_CALL,  /* cuMemcpy...: done on return, but for device to device */
    SIM_ASYNC_CALL, /* cuMemcpy...Async: host-synchronous for pageable memory only */
};

/*
 * Copy a box in the order of a stream.
 *
 * In:      extent  all of it may be 0: nothing to do
 * Errors:  CUDA_ERROR_INVALID_VALUE  a device side is in no live allocation or leaves it,
 * a host side is a device address, a pitch is smaller than a row
 *          CUDA_ERROR_OUT_OF_MEMORY, and the context's sticky error after a wait
 */
CUresult sim_copy(enum sim_api api, struct sim_stream *stream, enum sim_sync sync,
                  const struct sim_side *dst, const struct sim_side *src,
                  const struct sim_extent3 *extent) GS_MUST_USE;

/*
 * The operation alone, for callers that add to its order.
 *
 * Out:     *out    NULL if there is nothing to do
 *          *waits  the call must wait for it
 */
CUresult sim_copy_prepare(enum sim_api api, enum sim_sync sync,
                          const struct sim_side *dst, const struct sim_side *src,
                          const struct sim_extent3 *extent, struct sim_op **out,
                          bool *waits) GS_MUST_USE;

/* Take a copy of the source, which the host can read, in its place. Errors:
 * CUDA_ERROR_OUT_OF_MEMORY */
CUresult sim_copy_stage(struct sim_op *op) GS_MUST_USE;

/*
 * The operation of a set alone.
 *
 * Out:     *out    NULL if there is nothing to do
 * Errors:  as sim_set
 */
CUresult sim_set_prepare(enum sim_api api, uintptr_t address, size_t pitch,
                         unsigned element_bytes, uint32_t value, size_t columns,
                         size_t rows, struct sim_op **out) GS_MUST_USE;

/*
 * The two sides of a box as cuMemcpy3D takes it.
 *
 * Out:     *to, *from  not written where the extent is empty: nothing is to be copied
 * Errors:  CUDA_ERROR_INVALID_VALUE  no params, or what they say is not possible
 */
CUresult sim_copy_sides_3d(const CUDA_MEMCPY3D *params, struct sim_side *to,
                           struct sim_side *from, struct sim_extent3 *extent) GS_MUST_USE;

/*
 * Submit, in order behind and before all work of those contexts (NULL: none).
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY; those of sim_submit
 */
CUresult sim_submit_serialized(struct sim_stream *stream, struct sim_op *op,
                               struct sim_context *const *contexts,
                               size_t count) GS_MUST_USE;

/* The operation of a box as cuMemcpy3D takes it. Errors: as sim_copy_prepare. */
CUresult sim_copy_prepare_3d(enum sim_api api, const CUDA_MEMCPY3D *params,
                             struct sim_op **out) GS_MUST_USE;

/*
 * Set elements of 1, 2 or 4 bytes in the order of a stream.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  as sim_copy; the address or pitch is not a multiple
 * of the element
 */
CUresult sim_set(enum sim_api api, struct sim_stream *stream, enum sim_sync sync,
                 uintptr_t address, size_t pitch, unsigned element_bytes, uint32_t value,
                 size_t columns, size_t rows) GS_MUST_USE;

#endif
