/*
 * array_size.h - the size of an array, by its description.
 *
 * The size is that of the rows of its texels, without the padding of the device: the
 * driver would have to be queried for the true size at each call
 * (cuArrayGetMemoryRequirements), and it answers for some arrays only.
 */
#ifndef GS_ARRAY_SIZE_H
#define GS_ARRAY_SIZE_H

#include "gs_base.h"
#include "shim/cuda/cuda_names.h"

/*
 * Bytes of an array, or of a mipmapped array of `levels` levels (0: like 1); more levels
 * than the extents allow count as the most they allow. Cubemaps and layers are in the
 * depth. 0 for sparse arrays and for those whose memory is mapped later: they own none.
 * SIZE_MAX on overflow.
 */
size_t gs_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels);

#endif
