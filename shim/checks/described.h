/*
 * described.h - what the program describes a call with, where the driver may refuse the
 * call before it reads that.
 *
 * A program may pass any address there. Where the driver answers without a look at it, so
 * does the library.
 */
#ifndef GS_DESCRIBED_H
#define GS_DESCRIBED_H

#include "cuda_names.h"
#include "gs_base.h"

/*
 * Copy `bytes` bytes at `from` after the driver has answered `result`, or before it is
 * called: then `result` is any error. After a success the driver has read them itself.
 * False, and nothing is copied: `from` is NULL, or the processor cannot read there.
 */
bool gs_described(void *to, const void *from, size_t bytes, CUresult result) GS_MUST_USE;

#endif
