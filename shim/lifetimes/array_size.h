/*
 * array_size.h - what an array takes, by its description.
 *
 * The rows of its texels, without the padding that is the device's own: a driver asked
 * for the true size (cuArrayGetMemoryRequirements) would have to be asked at each call,
 * and answers for some arrays only.
 */
#ifndef GS_ARRAY_SIZE_H
#define GS_ARRAY_SIZE_H

#include "cuda_names.h"
#include "gs_base.h"

/*
 * Bytes of an array, or of a mipmapped array of so many levels (0: as 1); more levels
 * than the extents have are as many as they have. Cubemaps and layers are in the depth.
 * 0 for sparse arrays and for those whose memory is mapped later: they own none. SIZE_MAX
 * where it is more than can be counted.
 */
size_t gs_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels);

#endif
