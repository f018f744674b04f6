/*
 * entry_small.c - calls that may need a little of the device's memory for something that
 * is no memory of the program's: passed on, and made once more after idle memory was
 * given back.
 *
 * Of the functions whose documentation names CUDA_ERROR_OUT_OF_MEMORY, those that
 * allocate on a device and that no other room has. What allocates in host memory alone
 * (graphs, ranges of addresses) is not among them, nor are kernel launches
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

/* Code that is not loaded yet is loaded to be asked or set. */
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
