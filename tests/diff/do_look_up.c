/*
 * do_look_up.c - how functions of the driver are found. What is found is told by the name
 * under which its library exports it. (That lists are played by what look-ups answer is a
 * matter of their way, calls.h.)
 */
#include <dlfcn.h>
#include <string.h>

#include "do.h"

/* Served, tracked, counted, and passed on; since several versions; no function. */
static const char *const names[] = {
    "cuMemAlloc",           "cuMemFree",
    "cuMemAllocAsync",      "cuMemFreeAsync",
    "cuMemHostAlloc",       "cuMemFreeHost",
    "cuMemAllocHost",       "cuMemAllocManaged",
    "cuMemGetInfo",         "cuMemGetAddressRange",
    "cuMemAllocPitch",      "cuPointerGetAttribute",
    "cuCtxCreate",          "cuCtxDestroy",
    "cuCtxSynchronize",     "cuStreamCreate",
    "cuStreamBeginCapture", "cuStreamSynchronize",
    "cuLaunchKernel",       "cuMemcpyHtoD",
    "cuMemcpyDtoHAsync",    "cuMemsetD8Async",
    "cuGraphInstantiate",   "cuGraphLaunch",
    "cuIpcOpenMemHandle",   "cuIpcGetMemHandle",
    "cuMemCreate",          "cuMemPrefetchAsync",
    "cuEventRecord",        "cuGetProcAddress",
    "cuDeviceGetName",      "cuGetErrorString",
    "cuMemAlloc_v2",        "cuNoSuchFunction",
    "cudaMalloc",           "",
};
#define NAMES (sizeof(names) / sizeof(*names))

static const char *name_of(const struct diff_call *call)
{
    return names[(uint64_t)call->op->args[0] % NAMES];
}

static void say_found(struct diff_call *call, const void *found)
{
    Dl_info info;

    if (!found)
        diff_say(call, " as=0");
    else
        diff_say(call, " as=%s",
                 dladdr(found, &info) && info.dli_sname ? info.dli_sname : "nameless");
}

void diff_do_look_up(struct diff_call *call)
{
    static const int versions[] = {0,     2000,  3020,  6050,  11020, 11030, 11070,
                                   12000, 12050, 13000, 13010, 99990, -1};
    static const cuuint64_t flags[] = {
        CU_GET_PROC_ADDRESS_DEFAULT, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
        CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, 3, 8};
    int version =
        versions[(uint64_t)call->op->args[1] % (sizeof(versions) / sizeof(*versions))];
    cuuint64_t wanted = flags[call->op->args[2] % 5];
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    void *found = NULL;
    CUresult code;

    if (call->op->args[3] == 0) {
        code = CU(cuGetProcAddress)(name_of(call), &found, version, wanted, &status);
    } else { /* as it was in 11.3 */
        CUresult (*old)(const char *, void **, int, cuuint64_t) =
            (__typeof__(old))dlsym(RTLD_DEFAULT, "cuGetProcAddress");

        code = old ? old(name_of(call), &found, version, wanted) : CUDA_ERROR_NOT_FOUND;
    }
    diff_code(call, "code", code);
    diff_say(call, " status=%d", (int)status);
    if (code == CUDA_SUCCESS)
        say_found(call, found);
}

void diff_do_look_up_nothing(struct diff_call *call)
{
    int64_t which = call->op->args[0];
    CUdriverProcAddressQueryResult status;
    void *found = NULL;

    diff_code(call, "code",
              CU(cuGetProcAddress)(which == 0 ? NULL : "cuMemAlloc",
                                   which == 1 ? NULL : &found, 12000, 0,
                                   which == 2 ? NULL : &status));
    say_found(call, found);
}

void diff_do_look_up_symbol(struct diff_call *call)
{
    static const char *const suffixes[] = {"", "_v2", "_ptsz", "_ptds", "_v2_ptds"};
    void *const handles[] = {RTLD_DEFAULT, dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD),
                             RTLD_NEXT};
    char symbol[64];
    void *found;

    snprintf(symbol, sizeof(symbol), "%s%s", name_of(call),
             suffixes[call->op->args[1] % 5]);
    found = dlsym(handles[call->op->args[2] % 3], symbol);
    say_found(call, found);
    diff_say(call, " error=%d", dlerror() != NULL); /* NOLINT(concurrency-mt-unsafe) */
}
