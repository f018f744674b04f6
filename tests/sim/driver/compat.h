/*
 * compat.h - types that CUDA 12 headers older than 13.0 lack. The simulated driver only
 * passes them through or reads their first members, so the layouts below suffice.
 * Owns: nothing.   Lock: none.
 */
#ifndef SIM_COMPAT_H
#define SIM_COMPAT_H

#if CUDA_VERSION < 12030
typedef struct CUgraphEdgeData_st {
    unsigned char from_port;
    unsigned char to_port;
    unsigned char type;
    unsigned char reserved[5];
} CUgraphEdgeData;
#endif

#if CUDA_VERSION < 12050
typedef struct CUctxCreateParams_st {
    CUexecAffinityParam *execAffinityParams;
    int numExecAffinityParams;
    void *cigParams;
} CUctxCreateParams;
#endif

#endif
