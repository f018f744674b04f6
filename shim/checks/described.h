/*
 * described.h - reads the structure that describes a call, where the driver may refuse
 * the call before it reads the structure.
 *
 * A program may pass any address for such a structure. The driver may return without
 * reading it, so the library must not fault on it.
 */
#ifndef GS_DESCRIBED_H
#define GS_DESCRIBED_H

#include "gs_base.h"
#include "shim/cuda/cuda_names.h"

/*
 * Copies `bytes` bytes from `from`. Called after the driver has returned `result`; or
 * before the call, with any error as `result`. After a success the driver has read the
 * bytes itself, so they are readable. Returns false, and copies nothing, if `from` is
 * NULL or not readable.
 */
bool gs_described(void *to, const void *from, size_t bytes, CUresult result) GS_MUST_USE;

#endif
