/*
 * graph_params.h - parameters of nodes in the runtime's terms and in the driver's.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_SIM_RT_GRAPH_PARAMS_H
#define GS_SIM_RT_GRAPH_PARAMS_H

#include "rt.h"

/* gs_rt_enter(), and the context that is then current. */
cudaError_t gs_rt_enter_in(CUcontext *context);

/* To the driver's. cudaErrorInvalidValue for NULL; those of gs_rt_kernel. */
cudaError_t gs_rt_node_kernel(const struct cudaKernelNodeParams *params,
                              CUcontext context, CUDA_KERNEL_NODE_PARAMS *out);
cudaError_t gs_rt_node_set(const struct cudaMemsetParams *params,
                           CUDA_MEMSET_NODE_PARAMS *out);

/* A plain range as a box of one row. */
struct cudaMemcpy3DParms gs_rt_node_row(void *dst, const void *src, size_t count,
                                        enum cudaMemcpyKind kind);

/* Part of a __device__ variable. cudaErrorInvalidSymbol; cudaErrorInvalidValue: it leaves
 * the variable. */
cudaError_t gs_rt_symbol_part(const void *symbol, size_t count, size_t offset,
                              void **out);

/* From the driver's. A copy of arrays may find them gone: cudaErrorInvalidValue. */
void gs_rt_told_kernel(const CUDA_KERNEL_NODE_PARAMS *params,
                       struct cudaKernelNodeParams *out);
cudaError_t gs_rt_told_copy(const CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *out);
void gs_rt_told_set(const CUDA_MEMSET_NODE_PARAMS *params, struct cudaMemsetParams *out);

#endif
