/*
 * past_part.c - the part of past.c that calls the driver directly: it is opened with
 * RTLD_DEEPBIND, so that its names are found in the driver and not in what is preloaded.
 */
#include <cuda.h>
#include <stdint.h>

__attribute__((visibility("default"))) CUresult
past_launch(CUfunction function, uint64_t nanoseconds, CUstream stream);
__attribute__((visibility("default"))) CUresult past_stream(CUstream *out);

CUresult past_launch(CUfunction function, uint64_t nanoseconds, CUstream stream)
{
    void *arguments[] = {&nanoseconds};

    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

CUresult past_stream(CUstream *out)
{
    return cuStreamCreate(out, CU_STREAM_NON_BLOCKING);
}
