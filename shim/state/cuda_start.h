/*
 * cuda_start.h - whether CUDA has started in this process: a report of a process in which
 * it has not says nothing about leaks, and must not read like a clean one.
 *
 * Locks: none; all functions may be called from any thread.
 */
#ifndef GS_CUDA_START_H
#define GS_CUDA_START_H

#include <cuda.h>

/* How far the start has come. A stage that is reached makes failures of this stage and of
 * those before it irrelevant: the program went on. */
enum gs_cuda_stage { GS_CUDA_NOT_STARTED, GS_CUDA_INITIALIZED, GS_CUDA_HAS_CONTEXT };

/* Records the result of a call that is needed to reach a stage. `call` is a string
 * literal. */
void gs_cuda_start_record(enum gs_cuda_stage stage, const char *call, CUresult result);
/* Records that the CUDA runtime got one of the driver's tables, after which an earlier
 * failure is irrelevant: older drivers lack some tables, and the runtime goes on. */
void gs_cuda_start_goes_on(void);
/* "cuInit returned 100 (CUDA_ERROR_NO_DEVICE)": of the failures since the stage that was
 * reached last, the first one on the way to the next stage; "" if there is none. Static
 * storage. */
const char *gs_cuda_start_failure(void);
/* In a forked child. */
void gs_cuda_start_reset(void);

#endif
