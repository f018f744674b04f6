/*
 * case_init_zeros.c - what functions judge before they look whether cuInit has run: all
 * arguments are zero. The lists have the functions that the simulated device models and
 * that answer the same on each of the drivers 470, 535, 550 and 555 that has them; a
 * driver without a function passes it over.
 */
#include "conformance.h"

typedef CUresult function(void *, void *, void *, void *, void *, void *, void *, void *,
                          void *, void *, void *, void *);

static const char *const judge_handles[] = {"cuArray3DGetDescriptor_v2",
                                            "cuArrayGetDescriptor_v2",
                                            "cuArrayGetPlane",
                                            "cuEventDestroy",
                                            "cuEventDestroy_v2",
                                            "cuEventElapsedTime",
                                            "cuEventQuery",
                                            "cuEventSynchronize",
                                            "cuFuncLoad",
                                            "cuLibraryUnload",
                                            "cuMipmappedArrayGetLevel",
                                            "cuStreamDestroy",
                                            "cuStreamDestroy_v2"};

static const char *const judge_values[] = {
    "cuArrayGetMemoryRequirements",
    "cuArrayGetSparseProperties",
    "cuCtxFromGreenCtx",
    "cuCtxGetDevResource",
    "cuCtxGetFlags",
    "cuCtxGetId",
    "cuDevResourceGenerateDesc",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxGetState",
    "cuDriverGetVersion",
    "cuFuncGetName",
    "cuFuncIsLoaded",
    "cuGetExportTable",
    "cuGraphAddBatchMemOpNode",
    "cuGraphAddDependencies_v2",
    "cuGraphAddEmptyNode",
    "cuGraphAddEventRecordNode",
    "cuGraphAddEventWaitNode",
    "cuGraphAddExternalSemaphoresSignalNode",
    "cuGraphAddExternalSemaphoresWaitNode",
    "cuGraphAddHostNode",
    "cuGraphAddNode",
    "cuGraphAddNode_v2",
    "cuGraphBatchMemOpNodeGetParams",
    "cuGraphBatchMemOpNodeSetParams",
    "cuGraphConditionalHandleCreate",
    "cuGraphDebugDotPrint",
    "cuGraphEventRecordNodeGetEvent",
    "cuGraphEventRecordNodeSetEvent",
    "cuGraphEventWaitNodeGetEvent",
    "cuGraphEventWaitNodeSetEvent",
    "cuGraphExecBatchMemOpNodeSetParams",
    "cuGraphExecChildGraphNodeSetParams",
    "cuGraphExecEventRecordNodeSetEvent",
    "cuGraphExecEventWaitNodeSetEvent",
    "cuGraphExecExternalSemaphoresSignalNodeSetParams",
    "cuGraphExecExternalSemaphoresWaitNodeSetParams",
    "cuGraphExecHostNodeSetParams",
    "cuGraphExecKernelNodeSetParams",
    "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphExecMemcpyNodeSetParams",
    "cuGraphExecMemsetNodeSetParams",
    "cuGraphExecNodeSetParams",
    "cuGraphExternalSemaphoresSignalNodeGetParams",
    "cuGraphExternalSemaphoresSignalNodeSetParams",
    "cuGraphExternalSemaphoresWaitNodeGetParams",
    "cuGraphExternalSemaphoresWaitNodeSetParams",
    "cuGraphHostNodeGetParams",
    "cuGraphHostNodeSetParams",
    "cuGraphInstantiateWithParams",
    "cuGraphInstantiateWithParams_ptsz",
    "cuGraphKernelNodeGetParams",
    "cuGraphKernelNodeGetParams_v2",
    "cuGraphKernelNodeSetParams",
    "cuGraphKernelNodeSetParams_v2",
    "cuGraphMemAllocNodeGetParams",
    "cuGraphMemFreeNodeGetParams",
    "cuGraphNodeGetEnabled",
    "cuGraphNodeSetEnabled",
    "cuGraphNodeSetParams",
    "cuGraphReleaseUserObject",
    "cuGraphRemoveDependencies_v2",
    "cuGraphRetainUserObject",
    "cuGreenCtxGetDevResource",
    "cuGreenCtxStreamCreate",
    "cuIpcGetEventHandle",
    "cuIpcGetMemHandle",
    "cuIpcOpenEventHandle",
    "cuIpcOpenMemHandle",
    "cuIpcOpenMemHandle_v2",
    "cuKernelGetFunction",
    "cuKernelGetLibrary",
    "cuKernelGetName",
    "cuLaunchKernelEx",
    "cuLaunchKernelEx_ptsz",
    "cuLibraryEnumerateKernels",
    "cuLibraryGetGlobal",
    "cuLibraryGetKernel",
    "cuLibraryGetKernelCount",
    "cuLibraryGetManaged",
    "cuLibraryGetModule",
    "cuLibraryLoadData",
    "cuMemAdvise_v2",
    "cuMemAllocManaged",
    "cuMemGetHandleForAddressRange",
    "cuMemHostGetFlags",
    "cuMemMapArrayAsync",
    "cuMemMapArrayAsync_ptsz",
    "cuMemPrefetchAsync_v2",
    "cuMemPrefetchAsync_v2_ptsz",
    "cuMipmappedArrayGetMemoryRequirements",
    "cuMipmappedArrayGetSparseProperties",
    "cuModuleEnumerateFunctions",
    "cuModuleGetFunctionCount",
    "cuStreamBeginCaptureToGraph",
    "cuStreamBeginCaptureToGraph_ptsz",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
    "cuStreamGetCaptureInfo",
    "cuStreamGetCaptureInfo_ptsz",
    "cuStreamGetCaptureInfo_v2",
    "cuStreamGetCaptureInfo_v2_ptsz",
    "cuStreamGetCaptureInfo_v3",
    "cuStreamGetCaptureInfo_v3_ptsz",
    "cuStreamGetCtx",
    "cuStreamGetCtx_ptsz",
    "cuStreamGetCtx_v2",
    "cuStreamGetCtx_v2_ptsz",
    "cuStreamGetFlags",
    "cuStreamGetFlags_ptsz",
    "cuStreamGetGreenCtx",
    "cuStreamGetId",
    "cuStreamGetId_ptsz",
    "cuStreamGetPriority",
    "cuStreamGetPriority_ptsz",
    "cuStreamIsCapturing",
    "cuStreamIsCapturing_ptsz",
    "cuUserObjectCreate",
    "cuUserObjectRelease",
    "cuUserObjectRetain"};

static void check_all(const char *const *names, size_t count, CUresult expected)
{
    for (size_t i = 0; i < count; i++) {
        function *called = (function *)driver_function(names[i]);
        if (called)
            check_code(called(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), expected, names[i],
                       __FILE__, __LINE__);
    }
}

UNINITIALIZED_CASE(init, zero_handles_before, DRIVERS, "cuInit",
                   "seen on 470 to 555: before cuInit these functions answer a handle of "
                   "zero with CUDA_ERROR_INVALID_HANDLE")
{
    check_all(judge_handles, GS_ARRAY_LEN(judge_handles), CUDA_ERROR_INVALID_HANDLE);
}

UNINITIALIZED_CASE(
    init, zero_values_before, DRIVERS, "cuInit",
    "seen on 470 to 555: before cuInit these functions answer arguments of "
    "zero with CUDA_ERROR_INVALID_VALUE")
{
    check_all(judge_values, GS_ARRAY_LEN(judge_values), CUDA_ERROR_INVALID_VALUE);
}
