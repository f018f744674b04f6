/*
 * entry_small.c - calls that may need a little device memory which does not belong to the
 * program: forwarded, and repeated once after idle memory was reclaimed.
 *
 * These are the functions whose documentation names CUDA_ERROR_OUT_OF_MEMORY, that
 * allocate on a device, and that no other file wraps. Not among them are functions that
 * allocate host memory alone (graphs, address ranges) and kernel launches
 * (entry_submit.c).
 *
 * Owns:  nothing.   Lock: none.
 */
#include "retry.h"

GS_EXPORT CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    CUresult result =
        GS_RETRIED(gs_retry_needed, gs_real()->cuEventCreate(phEvent, Flags));
    return result;
}

/* A query or setting loads code that is not loaded yet. */
GS_EXPORT CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib,
                                      int value)
{
    CUresult result =
        GS_RETRIED(gs_retry_needed, gs_real()->cuFuncSetAttribute(hfunc, attrib, value));
    return result;
}

GS_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val,
                                        CUkernel kernel, CUdevice dev)
{
    CUresult result = GS_RETRIED(
        gs_retry_everywhere, gs_real()->cuKernelSetAttribute(attrib, val, kernel, dev));
    return result;
}

GS_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config,
                                          CUdevice dev)
{
    CUresult result = GS_RETRIED(gs_retry_everywhere,
                                 gs_real()->cuKernelSetCacheConfig(kernel, config, dev));
    return result;
}
