/*
 * do_green.c - green contexts: each is made, used and ended within one operation, as what
 * its streams have is ordered with nothing else.
 */
#include <string.h>

#include "do.h"

enum { BYTES = 4096 };

static CUresult make_green(CUdevice device, CUgreenCtx *out)
{
    CUdevResource resource;
    CUdevResourceDesc desc;
    CUresult code =
        CU(cuDeviceGetDevResource)(device, &resource, CU_DEV_RESOURCE_TYPE_SM);

    if (code == CUDA_SUCCESS)
        code = CU(cuDevResourceGenerateDesc)(&desc, &resource, 1);
    return code != CUDA_SUCCESS
               ? code
               : CU(cuGreenCtxCreate)(out, desc, device, CU_GREEN_CTX_DEFAULT_STREAM);
}

/* Work in a stream of its own, and what it left. */
static void use_stream(struct diff_call *call, CUgreenCtx green, CUdeviceptr at,
                       size_t bytes)
{
    struct diff_memory all = {.spans = 1};
    unsigned char back[BYTES];
    CUstream stream = NULL;

    all.to[0] = bytes < BYTES ? bytes : BYTES;
    if (diff_code(call, "stream",
                  CU(cuGreenCtxStreamCreate)(&stream, green, CU_STREAM_NON_BLOCKING, 0)))
        return;
    diff_code(
        call, "set",
        CU(cuMemsetD8Async)(at, (unsigned char)call->op->args[2], all.to[0], stream));
    diff_code(call, "wait", CU(cuStreamSynchronize)(stream));
    if (diff_code(call, "read", CU(cuMemcpyDtoH)(back, at, all.to[0])) == CUDA_SUCCESS)
        diff_say(
            call, " hash=%llx",
            (unsigned long long)diff_hash(&all, (struct diff_part){0, all.to[0]}, back));
    diff_code(call, "over", CU(cuStreamDestroy)(stream));
}

/* args: device, size, value, what is left to the end */
/* Where that fails it may be live, and have the address of a slot's. */
static void end_memory(struct diff_call *call, CUdeviceptr at)
{
    if (diff_code(call, "free", CU(cuMemFree)(at)) != CUDA_SUCCESS)
        call->world->stray = true;
}

void diff_do_green_round(struct diff_call *call)
{
    size_t bytes = diff_size(call->op->args[1]);
    bool late = call->op->args[3] & 1, ended = call->op->args[3] & 2;
    CUcontext view = NULL, was;
    CUgreenCtx green = NULL;
    CUdeviceptr at = 0;
    CUresult made;

    /* A free in it would break captures, one by one as they are found. */
    if (call->world->captures ||
        diff_code(call, "code", make_green((CUdevice)call->op->args[0], &green)))
        return;
    if (diff_code(call, "view", CU(cuCtxFromGreenCtx)(&view, green)) ||
        diff_code(call, "push", CU(cuCtxPushCurrent)(view)))
        return;
    made = diff_code(call, "alloc", CU(cuMemAlloc)(&at, bytes));
    if (made == CUDA_SUCCESS) {
        use_stream(call, green, at, bytes);
        if (!late)
            end_memory(call, at);
    }
    if (ended) /* while it is current */
        diff_code(call, "end", CU(cuGreenCtxDestroy)(green));
    diff_code(call, "pop", CU(cuCtxPopCurrent)(&was));
    if (!ended)
        diff_code(call, "end", CU(cuGreenCtxDestroy)(green));
    if (made == CUDA_SUCCESS && late)
        end_memory(call, at);
}
