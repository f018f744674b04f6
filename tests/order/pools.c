/*
 * pools.c - pinned and managed memory that is freed and asked for again while work that
 * uses it is still under way, in this context or in another.
 *
 * Each program is right natively, where the free waits (CUDASIM_FREE_WAITS), and where
 * memory that nobody may use yet is not handed out. A layer that hands it out too early
 * makes it wrong. Which address comes back is not asked: natively it may be any.
 * Source: Driver API, cuMemHostAlloc, cuMemFreeHost, cuMemAllocManaged;
 * docs/host-memory.md
 */
#include "order.h"

/* Large enough for a segment, or a driver's allocation, of its own. */
#define LARGE ((size_t)3 << 20)

static uint32_t *pinned_of(size_t bytes, unsigned flags)
{
    void *memory;

    OK(cuMemHostAlloc(&memory, bytes, flags));
    return memory;
}

static CUdeviceptr managed_of(size_t bytes)
{
    CUdeviceptr memory;

    OK(cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL));
    return memory;
}

/* The next owner writes it by the device, in a stream of its own, and sees that. */
static void use_pinned(uint32_t *memory, CUstream stream)
{
    CUdeviceptr view;

    OK(cuMemHostGetDevicePointer(&view, memory, 0));
    fill(stream, view, 2);
    OK(cuStreamSynchronize(stream));
}

/* A context that is not the runner's, of the same device, current while it is made. */
static CUcontext other_context(CUstream *stream)
{
    CUcontext other, before;
    CUdevice device;

    OK(cuCtxGetDevice(&device));
#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&other, NULL, 0, device));
#else
    OK(cuCtxCreate(&other, 0, device));
#endif
    *stream = new_stream();
    OK(cuCtxPopCurrent(&before));
    OK(cuCtxSetCurrent(world_context()));
    return other;
}

/* A copy from pinned memory in that context's stream. */
static void copy_in(CUcontext other, CUstream stream, CUdeviceptr to, const void *from)
{
    CUcontext before;

    OK(cuCtxPushCurrent(other));
    OK(cuMemcpyHtoDAsync(to, from, BYTES, stream));
    OK(cuCtxPopCurrent(&before));
}

static CUdeviceptr memory_in(CUcontext other)
{
    CUdeviceptr memory;
    CUcontext before;

    OK(cuCtxPushCurrent(other));
    memory = new_memory();
    OK(cuCtxPopCurrent(&before));
    return memory;
}

/* ---- pinned memory, one context ---------------------------------------------------- */

static void freed_while_copied(size_t bytes, unsigned flags)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr to = new_memory();
    uint32_t *memory = pinned_of(bytes, flags);

    OK(cuMemcpyHtoDAsync(to, memory, BYTES, a));
    OK(cuMemFreeHost(memory));
    use_pinned(pinned_of(bytes, flags), b);
}

PROGRAM(pools, pinned_while_a_copy_runs, RIGHT, "the free waits for the copy")
{
    freed_while_copied(BYTES, 0);
}

PROGRAM(pools, pinned_whole_while_a_copy_runs, RIGHT, "and so with a segment of its own")
{
    freed_while_copied(LARGE, 0);
}

PROGRAM(pools, portable_while_a_copy_runs, RIGHT, "and with other flags")
{
    freed_while_copied(BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED);
}

PROGRAM(pools, pinned_while_a_kernel_writes, RIGHT, "the free waits for the kernel")
{
    CUstream a = new_stream(), b = new_stream();
    uint32_t *memory = pinned_of(BYTES, CU_MEMHOSTALLOC_DEVICEMAP);
    CUdeviceptr view;

    OK(cuMemHostGetDevicePointer(&view, memory, 0));
    fill(a, view, 1);
    OK(cuMemFreeHost(memory));
    use_pinned(pinned_of(BYTES, CU_MEMHOSTALLOC_DEVICEMAP), b);
}

PROGRAM(pools, pinned_synchronized, RIGHT, "nothing runs behind a synchronize")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr to = new_memory();
    uint32_t *memory = pinned_of(BYTES, 0);

    OK(cuMemcpyHtoDAsync(to, memory, BYTES, a));
    OK(cuCtxSynchronize());
    OK(cuMemFreeHost(memory));
    use_pinned(pinned_of(BYTES, 0), b);
}

PROGRAM(pools, pinned_results_behind_a_free, RIGHT, "what the free waited for is there")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();
    uint32_t *other = pinned_of(BYTES, 0);

    fill(a, memory, 1);
    OK(cuMemFreeHost(other));
    fill(b, memory, 2);
    must_hold(memory, 2);
}

PROGRAM(pools, pinned_in_a_capture, RIGHT, "freed while a stream captures: held back")
{
    CUstream a = new_stream(), b = new_stream(), captured = new_stream();
    CUdeviceptr to = new_memory();
    uint32_t *memory = pinned_of(BYTES, 0);
    CUgraph graph;

    OK(cuMemcpyHtoDAsync(to, memory, BYTES, a));
    OK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemFreeHost(memory));
    OK(cuStreamEndCapture(captured, &graph));
    use_pinned(pinned_of(BYTES, 0), b);
    OK(cuGraphDestroy(graph));
}

static void free_it(void *memory)
{
    OK(cuMemFreeHost(memory));
}

PROGRAM(pools, pinned_freed_by_another_thread, RIGHT, "whoever frees, waits")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr to = new_memory();
    uint32_t *memory = pinned_of(BYTES, 0);

    OK(cuMemcpyHtoDAsync(to, memory, BYTES, a));
    join_worker(start_worker(free_it, memory));
    use_pinned(pinned_of(BYTES, 0), b);
}

/* ---- pinned memory, two contexts --------------------------------------------------- */

/* Natively the free waits for every context of the device here, so the program is right;
 * a layer that waits for the owner alone must hold the memory back. */
static void freed_while_copied_elsewhere(size_t bytes)
{
    CUstream elsewhere, b = new_stream();
    CUcontext other = other_context(&elsewhere);
    CUdeviceptr to = memory_in(other);
    uint32_t *memory = pinned_of(bytes, CU_MEMHOSTALLOC_PORTABLE);

    copy_in(other, elsewhere, to, memory);
    OK(cuMemFreeHost(memory));
    use_pinned(pinned_of(bytes, CU_MEMHOSTALLOC_PORTABLE), b);
    OK(cuCtxDestroy(other));
}

PROGRAM_WITH(pools, pinned_in_another_context, RIGHT, "another context copies from it",
             "CUDASIM_FREE_WAITS=device")
{
    freed_while_copied_elsewhere(BYTES);
}

PROGRAM_WITH(pools, pinned_whole_in_another_context, RIGHT,
             "and from a segment of its own", "CUDASIM_FREE_WAITS=device")
{
    freed_while_copied_elsewhere(LARGE);
}

PROGRAM_WITH(pools, pinned_in_another_stream, RIGHT,
             "another context's stream copies from it, while a second one is waited for",
             "CUDASIM_FREE_WAITS=device")
{
    CUstream copies, waited, b = new_stream();
    CUcontext other = other_context(&copies), before;
    CUdeviceptr to = memory_in(other), word = memory_in(other);
    uint32_t *memory = pinned_of(LARGE, CU_MEMHOSTALLOC_PORTABLE);

    OK(cuCtxPushCurrent(other));
    waited = new_stream();
    OK(cuMemsetD32Async(word, 1, 1, waited));
    OK(cuStreamSynchronize(waited));
    OK(cuCtxSynchronize());
    OK(cuCtxPopCurrent(&before));
    copy_in(other, copies, to, memory);
    OK(cuMemFreeHost(memory));
    OK(cuCtxPushCurrent(other));
    for (unsigned i = 0; i < 8; i++)
        OK(cuMemsetD32Async(word, 1, 1, waited));
    OK(cuStreamSynchronize(waited));
    OK(cuCtxPopCurrent(&before));
    use_pinned(pinned_of(LARGE, CU_MEMHOSTALLOC_PORTABLE), b);
    OK(cuCtxDestroy(other));
}

PROGRAM_WITH(pools, pinned_held_until_a_wait, RIGHT,
             "memory that was held back is used again once all contexts were waited for",
             "CUDASIM_FREE_WAITS=device")
{
    CUstream elsewhere, b = new_stream();
    CUcontext other = other_context(&elsewhere), before;
    CUdeviceptr to = memory_in(other);
    uint32_t *memory = pinned_of(LARGE, 0);

    copy_in(other, elsewhere, to, memory);
    OK(cuMemFreeHost(memory));
    OK(cuCtxPushCurrent(other));
    OK(cuCtxSynchronize());
    OK(cuCtxPopCurrent(&before));
    OK(cuCtxSynchronize());
    use_pinned(pinned_of(LARGE, 0), b);
    OK(cuCtxDestroy(other));
}

PROGRAM(pools, other_context_runs_on, RIGHT,
        "a free does not wait for a context that natively is not waited for")
{
    CUstream elsewhere;
    CUcontext other = other_context(&elsewhere), before;
    uint32_t *flag = new_pinned(), *memory = pinned_of(BYTES, 0);
    CUdeviceptr range = managed_of(BYTES);

    *flag = 0;
    OK(cuCtxPushCurrent(other));
    OK(cuStreamWaitValue32(elsewhere, (CUdeviceptr)(uintptr_t)flag, 1,
                           CU_STREAM_WAIT_VALUE_EQ));
    OK(cuCtxPopCurrent(&before));
    OK(cuMemFreeHost(memory));
    OK(cuMemFree(range));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(cuCtxPushCurrent(other));
    OK(cuCtxSynchronize());
    OK(cuCtxPopCurrent(&before));
    OK(cuCtxDestroy(other));
}

/* ---- managed memory ---------------------------------------------------------------- */

PROGRAM(pools, managed_while_a_kernel_runs, RIGHT, "the free waits for the kernel")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = managed_of(BYTES), next;

    fill(a, memory, 1);
    OK(cuMemFree(memory));
    next = managed_of(BYTES);
    fill(b, next, 2);
    must_hold(next, 2);
}

PROGRAM_WITH(pools, managed_in_another_context, RIGHT, "another context uses it",
             "CUDASIM_FREE_WAITS=device")
{
    CUstream elsewhere, b = new_stream();
    CUcontext other = other_context(&elsewhere), before;
    CUdeviceptr memory = managed_of(BYTES), next;

    OK(cuCtxPushCurrent(other));
    OK(cuMemsetD32Async(memory, 1, WORDS, elsewhere));
    OK(cuCtxPopCurrent(&before));
    OK(cuMemFree(memory));
    next = managed_of(BYTES);
    fill(b, next, 2);
    must_hold(next, 2);
    OK(cuCtxDestroy(other));
}

/* A fresh range has no advice; the last owner's must not be found in it. */
PROGRAM(pools, managed_advised, RIGHT, "advice ends with the range it was given for")
{
    CUdeviceptr memory = managed_of(4096), next;
    int mostly_read = 1;
    CUdevice device;

    OK(cuCtxGetDevice(&device));
#if CUDA_VERSION >= 13000
    CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    OK(cuMemAdvise(memory, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, place));
#else
    OK(cuMemAdvise(memory, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
#endif
    OK(cuMemFree(memory));
    next = managed_of(4096);
    OK(cuMemRangeGetAttribute(&mostly_read, sizeof(mostly_read),
                              CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, next, 4096));
    must(mostly_read == 0, "a new range has no advice");
    OK(cuMemFree(next));
}
