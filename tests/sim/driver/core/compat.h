/*
 * compat.h - types that CUDA 12 headers older than 13.0 lack. The simulated driver only
 * passes them through or reads their first members, so the layouts below suffice.
 * Owns: nothing.   Lock: none.
 */
#ifndef SIM_COMPAT_H
#define SIM_COMPAT_H

#include <cuda.h>
#include <stddef.h>

/* A pool's own limit; before 12.2 a pool had none. */
static inline size_t sim_pool_max_bytes(const CUmemPoolProps *props)
{
#if CUDA_VERSION >= 12020
    return props->maxSize;
#else
    (void)props;
    return 0;
#endif
}

#if CUDA_VERSION < 12030
#define CUDA_ERROR_LOSSY_QUERY         ((CUresult)402)
#define CU_GRAPH_NODE_TYPE_CONDITIONAL ((CUgraphNodeType)13)
typedef cuuint64_t CUgraphConditionalHandle;
typedef unsigned CUgraphConditionalNodeType;
typedef struct CUgraphEdgeData_st {
    unsigned char from_port;
    unsigned char to_port;
    unsigned char type;
    unsigned char reserved[5];
} CUgraphEdgeData;
#endif

#if CUDA_VERSION < 12040
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef enum CUfunctionLoadingState_enum {
    CU_FUNCTION_LOADING_STATE_UNLOADED = 0,
    CU_FUNCTION_LOADING_STATE_LOADED = 1,
} CUfunctionLoadingState;
#endif

#if CUDA_VERSION < 12050
typedef struct CUctxCreateParams_st {
    CUexecAffinityParam *execAffinityParams;
    int numExecAffinityParams;
    void *cigParams;
} CUctxCreateParams;
#endif

#endif
