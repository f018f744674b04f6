/*
 * case_launch_config.c - launches with attributes, cooperative ones, streams of other
 * contexts, and what is left of a context after a bad one.
 */
#include <string.h>

#include "work.h"

/* A configuration of one thread with room for an attribute. */
static CUlaunchConfig config_of(CUstream stream, CUlaunchAttribute *attributes,
                                unsigned count)
{
    return (CUlaunchConfig){.gridDimX = 1,
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = 1,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .hStream = stream,
                            .attrs = attributes,
                            .numAttrs = count};
}

/* gs_copy of a word by cuLaunchKernelEx, with these attributes. */
static void check_config(CUlaunchAttribute *attributes, unsigned count)
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    DEVICE_WORDS words = new_words(2);
    CUdeviceptr to = words + 4;
    uint64_t one = 1;
    void *params[] = {&to, &words, &one};
    CUlaunchConfig config = config_of(stream, attributes, count);

    put_word(words, 7);
    CHECK_OK(later()->launch_kernel_ex(&config, kernel("gs_copy"), params, NULL));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_EQUAL(word_at(words, 1), 7);
}

static bool has_configs(void)
{
    if (later()->launch_kernel_ex)
        return true;
    skip("the driver has no cuLaunchKernelEx");
    return false;
}

CASE_WHERE(has_configs, launch, config_without_attributes, DRIVER_API, "cuLaunchKernelEx",
           "The value of attrs is not considered if numAttrs is zero")
{
    check_config(NULL, 0);
    check_config((CUlaunchAttribute *)(uintptr_t)0x10, 0);
}

CASE_WHERE(has_configs, launch, config_with_an_ignored_attribute, DRIVER_API,
           "CUlaunchAttributeID",
           "CU_LAUNCH_ATTRIBUTE_IGNORE: ignored entry, for convenient composition")
{
    CUlaunchAttribute attribute;

    memset(&attribute, 0, sizeof(attribute));
    attribute.id = CU_LAUNCH_ATTRIBUTE_IGNORE;
    check_config(&attribute, 1);
}

CASE_WHERE(has_configs, launch, config_with_a_priority, DRIVER_API, "CUlaunchAttributeID",
           "CU_LAUNCH_ATTRIBUTE_PRIORITY: execution priority of the kernel")
{
    CUlaunchAttribute attribute;
    int least = 0, greatest = 0;

    CHECK_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    memset(&attribute, 0, sizeof(attribute));
    attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    attribute.value.priority = greatest;
    check_config(&attribute, 1);
}

CASE_WHERE(
    has_configs, launch, config_that_is_cooperative, DRIVER_API, "cuLaunchKernelEx",
    "CU_LAUNCH_ATTRIBUTE_COOPERATIVE with a value of 1 makes the launch a cooperative "
    "one")
{
    CUlaunchAttribute attribute;

    if (!device_has(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
                    "the device has no cooperative launches"))
        return;
    memset(&attribute, 0, sizeof(attribute));
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    check_config(&attribute, 1);
}

CASE_WHERE(has_configs, launch, config_with_an_empty_grid, DRIVER_API, "cuLaunchKernelEx",
           "gridDimX is the width of the grid in blocks; a width of 0 is "
           "CUDA_ERROR_INVALID_VALUE")
{
    uint64_t ns = 0;
    void *params[] = {&ns};
    CUlaunchConfig config = config_of(NULL, NULL, 0);

    config.gridDimX = 0;
    CHECK_INVALID(later()->launch_kernel_ex(&config, kernel("gs_spin"), params, NULL));
}

/* How many blocks of gs_spin with 1024 threads, or the most that fit, can be resident. */
static unsigned resident_blocks(unsigned threads)
{
    int blocks = 0;

    CHECK_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel("gs_spin"),
                                                         (int)threads, 0));
    return (unsigned)blocks *
           (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
}

CASE(launch, cooperative, DRIVER_API, "cuLaunchCooperativeKernel",
     "The total number of blocks launched cannot exceed the maximum number of blocks per "
     "multiprocessor times the number of multiprocessors; as many do run")
{
    unsigned threads =
        (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    uint64_t ns = 0;
    void *params[] = {&ns};

    if (!device_has(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
                    "the device has no cooperative launches"))
        return;
    CHECK_OK(cuLaunchCooperativeKernel(kernel("gs_spin"), resident_blocks(threads), 1, 1,
                                       threads, 1, 1, 0, NULL, params));
    CHECK_OK(cuCtxSynchronize());
}

CASE(launch, cooperative_too_large, DRIVER_API, "cuLaunchCooperativeKernel",
     "The total number of blocks launched cannot exceed the maximum number of blocks per "
     "multiprocessor times the number of multiprocessors: "
     "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE")
{
    unsigned threads =
        (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    uint64_t ns = 0;
    void *params[] = {&ns};

    if (!device_has(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
                    "the device has no cooperative launches"))
        return;
    CHECK_CODE(cuLaunchCooperativeKernel(kernel("gs_spin"), resident_blocks(threads) + 1,
                                         1, 1, threads, 1, 1, 0, NULL, params),
               CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    CHECK_OK(cuCtxSynchronize());
}

CASE(launch, stream_of_another_context, DRIVER_API, "cuLaunchKernelEx",
     "The CUDA context associated with this stream must match that associated with "
     "function f")
{
    CUcontext other = new_context();
    CUstream stream = NULL;
    uint64_t ns = 0;
    void *params[] = {&ns};

    if (!other)
        return;
    CHECK_OK(cuCtxSetCurrent(other));
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK_OK(cuCtxSetCurrent(the_context()));
    CHECK_CODE(launch(kernel("gs_spin"), stream, params), CUDA_ERROR_INVALID_HANDLE);
    end_stream(stream);
    end_context(other);
}

CASE(launch, without_a_context, DRIVER_API, "cuLaunchKernel",
     "A launch in the NULL stream needs a current context: CUDA_ERROR_INVALID_CONTEXT")
{
    uint64_t ns = 0;
    void *params[] = {&ns};
    CUfunction function = kernel("gs_spin");

    CHECK_OK(cuCtxSetCurrent(NULL));
    CHECK_CODE(launch(function, NULL, params), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_OK(cuCtxSetCurrent(the_context()));
}

/* ---- errors of kernels ----------------------------------------------------------- */

/* gs_fill of one word at an address. */
static CUresult fill_at(uint64_t address)
{
    uint64_t count = 1;
    uint32_t seed = 0;
    void *params[] = {&address, &count, &seed};

    return launch(kernel("gs_fill"), NULL, params);
}

OWN_PROCESS_CASE(launch, illegal_address, DRIVER_API, "CUDA_ERROR_ILLEGAL_ADDRESS",
                 "A load or store on an invalid memory address leaves the process in an "
                 "inconsistent state and any further CUDA work will return the same "
                 "error")
{
    CUdeviceptr pointer = 0;
    CUstream stream = NULL;
    uint64_t ns = 0;
    void *params[] = {&ns};

    CHECK_OK(fill_at(0x40));
    CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_CODE(cuMemAlloc(&pointer, 512), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_CODE(cuStreamCreate(&stream, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_CODE(launch(kernel("gs_spin"), NULL, params), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_CODE(cuStreamQuery(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
}

OWN_PROCESS_CASE(launch, misaligned_address, DRIVER_API, "CUDA_ERROR_MISALIGNED_ADDRESS",
                 "A load or store on a memory address which is not aligned leaves the "
                 "process in an inconsistent state and any further CUDA work will return "
                 "the same error")
{
    CUdeviceptr words = new_words(2), pointer = 0;

    CHECK_OK(fill_at(words + 1));
    CHECK_CODE(cuCtxSynchronize(), CUDA_ERROR_MISALIGNED_ADDRESS);
    CHECK_CODE(cuMemAlloc(&pointer, 512), CUDA_ERROR_MISALIGNED_ADDRESS);
}

OWN_PROCESS_CASE(launch, error_is_seen_by_events, DRIVER_API, "cuEventSynchronize",
                 "Note that this function may also return error codes from previous, "
                 "asynchronous launches")
{
    CUevent event = new_event();

    CHECK_OK(fill_at(0x40));
    CUresult res = cuEventRecord(event, NULL);
    CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_CODE(cuEventSynchronize(event), CUDA_ERROR_ILLEGAL_ADDRESS);
}

OWN_PROCESS_CASE(launch, error_drops_what_is_queued, DRIVER_API,
                 "CUDA_ERROR_ILLEGAL_ADDRESS",
                 "Any further CUDA work will return the same error: what was queued "
                 "behind the kernel is not reported as done")
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    uint32_t *pinned = new_pinned(1);
    uint64_t nowhere = 0x40, count = 1;
    uint32_t seed = 0;
    void *params[] = {&nowhere, &count, &seed};
    struct blocker blocker;

    if (pinned && block_stream(&blocker, stream)) {
        CHECK_OK(launch(kernel("gs_fill"), stream, params));
        CHECK_OK(set_word(stream, seen(pinned), 7));
        unblock(&blocker);
        CHECK_CODE(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
        CHECK_EQUAL(__atomic_load_n(pinned, __ATOMIC_ACQUIRE), 0);
    }
}
