/*
 * lazy.c - programs that do not lean on the wait of a free, and must be right where the
 * free does not wait (GPUSHIM_FREE_SYNC=lazy): memory is not given to others too early,
 * no call blocks, and what native has memory for is served.
 *
 * A program whose free would block natively, as a kernel waits for the host, lets that
 * kernel go on first unless it runs in the lazy mode: without the library, or in another
 * mode, it shows nothing new, and is as right.
 *
 * Blocks are large, so that what is asked for is what was freed.
 * Source: docs/free.md, "Lazy", rules L1 to L7.
 */

#include "order.h"

#define LARGE ((size_t)4 << 20)
/* With the device that SMALL_DEVICE makes, more than half of what it has. */
#define HUGE_BYTES   ((size_t)40 << 20)
#define SMALL_DEVICE "CUDASIM_MEMORY=64M"
#define OLD_DRIVER   "CUDASIM_DRIVER_VERSION=12040"

/* Natively the next free waits for the kernel that waits for this flag. */
static void let_go_unless_lazy(uint32_t *flag)
{
    if (!free_is_lazy())
        set_flag(flag);
}

/* So many frees close the epoch (shim/state/epochs.h): what was freed before them is
 * marked. */
static void close_epoch(void)
{
    CUdeviceptr blocks[128];

    for (unsigned i = 0; i < 128; i++)
        blocks[i] = new_block(8192);
    for (unsigned i = 0; i < 128; i++)
        OK(cuMemFree(blocks[i]));
}

/* Memory freed a moment ago, for another stream: as many as it takes to get it again, if
 * it may be had. */
static void use_elsewhere(CUstream next)
{
    CUdeviceptr reused[3];

    close_epoch();
    for (unsigned i = 0; i < 3; i++) {
        reused[i] = new_block(LARGE);
        fill(next, reused[i], 2 + i);
    }
    for (unsigned i = 0; i < 3; i++)
        must_hold(reused[i], 2 + i);
}

/* ---- L1: a block is not used again before its mark was seen complete ----------------
 */

PROGRAM(lazy, reused_behind_its_mark, RIGHT, "a block is in use until its kernel ends")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr block = new_block(LARGE);

    fill(a, block, 1);
    OK(cuMemFree(block));
    use_elsewhere(b);
}

PROGRAM_WITH(lazy, reused_behind_streams, RIGHT,
             "the same where only streams can be marked", OLD_DRIVER)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr block = new_block(LARGE);

    fill(a, block, 1);
    OK(cuMemFree(block));
    use_elsewhere(b);
}

PROGRAM_WITH(lazy, reused_behind_the_legacy_stream, RIGHT,
             "the same, and the work is the legacy stream's", OLD_DRIVER)
{
    CUstream b = new_stream();
    CUdeviceptr block = new_block(LARGE);

    fill(NULL, block, 1);
    OK(cuMemFree(block));
    use_elsewhere(b);
}

PROGRAM_WITH(lazy, reused_behind_a_destroyed_stream, RIGHT,
             "the same, and the stream is destroyed with work in it", OLD_DRIVER)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr block = new_block(LARGE);

    fill(a, block, 1);
    OK(cuStreamDestroy(a));
    OK(cuMemFree(block));
    use_elsewhere(b);
}

PROGRAM_WITH(lazy, destroyed_behind_the_free, RIGHT,
             "the same, and it is destroyed after the free", OLD_DRIVER)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr block = new_block(LARGE);

    fill(a, block, 1);
    OK(cuMemFree(block));
    OK(cuStreamDestroy(a));
    use_elsewhere(b);
}

static void fill_per_thread(void *memory)
{
    fill(CU_STREAM_PER_THREAD, *(CUdeviceptr *)memory, 1);
}

PROGRAM_WITH(lazy, used_by_a_per_thread_stream, RIGHT,
             "a stream that was never created ends the marks of streams", OLD_DRIVER)
{
    CUdeviceptr block = new_block(LARGE);

    join_worker(start_worker(fill_per_thread, &block));
    OK(cuMemFree(block));
    use_elsewhere(new_stream());
}

PROGRAM(lazy, small_blocks, RIGHT, "many small ones, in epochs that fill up")
{
    CUstream streams[3] = {new_stream(), new_stream(), new_stream()};
    CUdeviceptr block;

    for (unsigned i = 0; i < 600; i++) {
        block = new_block(8192);
        fill(streams[i % 3], block, i);
        OK(cuMemFree(block));
    }
}

static void free_and_fill(void *stream)
{
    for (unsigned i = 0; i < 12; i++) {
        CUdeviceptr block = new_block(i % 2 ? LARGE : 8192);
        fill(stream, block, i);
        OK(cuMemFree(block));
    }
}

PROGRAM(lazy, by_three_threads, RIGHT, "threads that free into the same epochs")
{
    struct worker *workers[3];

    for (unsigned i = 0; i < 3; i++)
        workers[i] = start_worker(free_and_fill, new_stream());
    for (unsigned i = 0; i < 3; i++)
        join_worker(workers[i]);
}

/* The simulated native free does not wait for the peer, so the oracle has no say in what
 * the lazy one does about it: the address tells. */
PROGRAM_WITH(lazy, used_by_a_peer, RIGHT, "a context with access is marked, too",
             "CUDASIM_DEVICES=2")
{
    CUdeviceptr block = new_block(LARGE);
    CUcontext peer;
    CUdevice second;
    CUstream theirs;
    uint32_t *flag;

    OK(cuDeviceGet(&second, 1));
    OK(cuDevicePrimaryCtxRetain(&peer, second));
    OK(cuCtxSetCurrent(peer));
    OK(cuCtxEnablePeerAccess(world_context(), 0));
    OK(cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc((void **)&flag, BYTES, CU_MEMHOSTALLOC_PORTABLE));
    *flag = 0;
    OK(cuStreamWaitValue32(theirs, (CUdeviceptr)(uintptr_t)flag, 1,
                           CU_STREAM_WAIT_VALUE_GEQ));
    let_go_unless_lazy(flag);
    OK(cuMemFree(block));
    OK(cuCtxSetCurrent(world_context()));
    close_epoch();
    for (unsigned i = 0; i < 3 && free_is_lazy(); i++)
        must(new_block(LARGE) != block, "the peer may still use it");
    set_flag(flag);
    OK(cuCtxSetCurrent(peer));
    OK(cuStreamSynchronize(theirs));
    OK(cuCtxSetCurrent(world_context()));
    use_elsewhere(new_stream());
}

/* ---- L2: stream order ---------------------------------------------------------------
 */

PROGRAM(lazy, freed_in_a_stream, RIGHT, "freed in a stream's order, used in another")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr block = new_block(LARGE);

    fill(a, block, 1);
    OK(cuMemFreeAsync(block, a));
    use_elsewhere(b);
}

/* ---- L3: nobody waits, and nobody goes without ---------------------------------------
 */

/* Blocks that are used and freed, one after the other, before what waits for the flag is
 * let go. */
static void use_and_free(CUstream stream, unsigned count, uint32_t *flag)
{
    let_go_unless_lazy(flag);
    for (unsigned i = 0; i < count; i++) {
        CUdeviceptr block = new_block(i % 4 ? 8192 : LARGE);
        fill(stream, block, i);
        OK(cuMemFree(block));
    }
    set_flag(flag);
}

PROGRAM(lazy, beside_a_persistent_kernel, RIGHT,
        "frees and allocations while a kernel waits for the host")
{
    CUstream a = new_stream(), b = new_stream();
    uint32_t *flag = new_flag();

    wait_for(a, flag);
    use_and_free(b, 40, flag);
}

/* Natively the first of these frees would wait for a kernel that a later call lets end:
 * what comes after it is not judged as if it were behind that kernel. */
PROGRAM(lazy, ended_beside_a_persistent_kernel, RIGHT,
        "the same, and all of it ends before the program does")
{
    CUstream a = new_stream(), b = new_stream();
    uint32_t *flag = new_flag();

    wait_for(a, flag);
    use_and_free(b, 40, flag);
    OK(cuCtxSynchronize());
    use_elsewhere(new_stream());
}

PROGRAM(lazy, told_beside_a_persistent_kernel, RIGHT,
        "behind the kernel all may be used that was done before it was let go")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr block = new_memory(), result = new_memory();
    uint32_t *flag = new_flag();

    wait_for(a, flag);
    copy(a, result, block);
    let_go_unless_lazy(flag);
    OK(cuMemFree(new_block(LARGE)));
    if (!free_is_lazy())
        OK(cuStreamSynchronize(a));
    fill(b, block, 3);
    OK(cuStreamSynchronize(b));
    set_flag(flag);
    OK(cuStreamSynchronize(a));
    if (free_is_lazy())
        must_hold(result, 3);
}

PROGRAM(lazy, freed_behind_a_persistent_kernel, RIGHT,
        "a block is freed whose user is behind the kernel, and has not run")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr block = new_block(LARGE), next;
    uint32_t *flag = new_flag();

    wait_for(a, flag);
    fill(a, block, 1);
    let_go_unless_lazy(flag);
    OK(cuMemFree(block));
    next = new_block(LARGE);
    fill(b, next, 2);
    set_flag(flag);
    must_hold(next, 2);
    use_elsewhere(b);
}

PROGRAM(lazy, beside_a_kernel_for_a_later_launch, RIGHT,
        "frees and allocations before the launch that a kernel waits for")
{
    CUstream a = new_stream(), b = new_stream();
    uint32_t *flag = new_flag();

    wait_for(a, flag);
    let_go_unless_lazy(flag);
    OK(cuMemFree(new_block(LARGE)));
    OK(cuMemFree(new_block(LARGE)));
    OK(cuStreamWriteValue32(b, (CUdeviceptr)(uintptr_t)flag, 1, 0));
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(lazy, between_blocking_streams, RIGHT,
             "a mark does not stand between blocking streams", OLD_DRIVER)
{
    CUstream a = blocking_stream(), b = blocking_stream();
    uint32_t *flag = new_flag();

    fill(NULL, new_block(LARGE), 1);
    wait_for(a, flag);
    let_go_unless_lazy(flag);
    OK(cuMemFree(new_block(LARGE)));
    OK(cuMemFree(new_block(LARGE)));
    OK(cuStreamWriteValue32(b, (CUdeviceptr)(uintptr_t)flag, 1, 0));
    OK(cuCtxSynchronize());
}

static void CUDA_CB wait_for_host(void *flag)
{
    while (!__atomic_load_n((uint32_t *)flag, __ATOMIC_ACQUIRE))
        nap_ms(1);
}

PROGRAM(lazy, beside_a_host_function, RIGHT,
        "frees and allocations while a host function waits")
{
    CUstream a = new_stream();
    uint32_t *flag = new_flag();

    OK(cuLaunchHostFunc(a, wait_for_host, flag));
    let_go_unless_lazy(flag);
    OK(cuMemFree(new_block(LARGE)));
    OK(cuMemFree(new_block(LARGE)));
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM(lazy, used_beside_a_host_function, RIGHT, "the same, and what is freed was used")
{
    CUstream a = new_stream(), b = new_stream();
    uint32_t *flag = new_flag();

    OK(cuLaunchHostFunc(a, wait_for_host, flag));
    use_and_free(b, 12, flag);
    OK(cuCtxSynchronize());
}

static void CUDA_CB allocate_there(void *code)
{
    CUdeviceptr block;

    *(CUresult *)code = cuMemAlloc(&block, HUGE_BYTES);
}

PROGRAM_WITH(lazy, within_a_host_function, RIGHT,
             "an allocation that a host function may not make does not wait there",
             SMALL_DEVICE)
{
    CUstream a = new_stream();
    CUresult code = CUDA_SUCCESS;

    OK(cuMemFree(new_block(HUGE_BYTES)));
    OK(cuLaunchHostFunc(a, allocate_there, &code));
    OK(cuCtxSynchronize());
    must(code == CUDA_ERROR_NOT_PERMITTED, "it is refused");
}

PROGRAM_WITH(lazy, closed_before_a_later_launch, RIGHT,
             "memory of a full device is not held for a kernel submitted after its free",
             SMALL_DEVICE)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr block = new_block(HUGE_BYTES);
    uint32_t *flag = new_flag();

    fill(a, block, 1);
    OK(cuMemFree(block));
    wait_for(b, flag);
    block = new_block(HUGE_BYTES);
    fill(a, block, 2);
    set_flag(flag);
    must_hold(block, 2);
}

PROGRAM_WITH(lazy, full_behind_a_persistent_kernel, RIGHT,
             "out of memory is an answer, where a wait would never end", SMALL_DEVICE)
{
    CUstream b = new_stream();
    CUdeviceptr block = new_block(HUGE_BYTES);
    uint32_t *flag = new_flag();

    wait_for(b, flag);
    let_go_unless_lazy(flag);
    OK(cuMemFree(block));
    CODE(cuMemAlloc(&block, HUGE_BYTES),
         free_is_lazy() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
    set_flag(flag);
    OK(cuCtxSynchronize());
    if (!free_is_lazy())
        OK(cuMemFree(block));
    block = new_block(HUGE_BYTES);
    fill(b, block, 1);
    must_hold(block, 1);
}

/* ---- L4: captures -------------------------------------------------------------------
 */

static void free_four(void *blocks)
{
    for (unsigned i = 0; i < 4; i++)
        OK(cuMemFree(((CUdeviceptr *)blocks)[i]));
}

PROGRAM_WITH(lazy, freed_during_a_capture, RIGHT,
             "frees of another thread do not end a capture", SMALL_DEVICE)
{
    CUstream a = new_stream(), b = new_stream(), captured = new_stream();
    CUdeviceptr blocks[4], kept = new_memory();
    CUgraph graph;

    for (unsigned i = 0; i < 4; i++) {
        blocks[i] = new_block(2 * LARGE);
        fill(a, blocks[i], i);
    }
    OK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill(captured, kept, 1);
    join_worker(start_worker(free_four, blocks));
    fill(captured, kept, 2);
    OK(cuStreamEndCapture(captured, &graph));
    OK(cuGraphDestroy(graph));
    use_elsewhere(b);
}

PROGRAM_WITH(lazy, asked_during_a_capture, RIGHT,
             "what is free is asked while a stream captures", SMALL_DEVICE)
{
    CUstream a = new_stream(), captured = new_stream();
    CUdeviceptr block = new_block(2 * LARGE), kept = new_memory();
    CUgraph graph;
    size_t free_bytes, total;

    fill(a, block, 1);
    OK(cuMemFree(block));
    OK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemGetInfo(&free_bytes, &total));
    fill(captured, kept, 1);
    OK(cuMemGetInfo(&free_bytes, &total));
    OK(cuStreamEndCapture(captured, &graph));
    OK(cuGraphDestroy(graph));
}

static void capture_often(void *captured)
{
    CUdeviceptr kept = new_memory();

    for (unsigned i = 0; i < 6; i++) {
        CUgraph graph;

        OK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
        fill(captured, kept, i);
        fill(captured, kept, i + 1);
        OK(cuStreamEndCapture(captured, &graph));
        OK(cuGraphDestroy(graph));
    }
}

PROGRAM_WITH(lazy, freed_beside_captures, RIGHT,
             "captures begin and end while others free", SMALL_DEVICE)
{
    CUstream a = new_stream();
    struct worker *worker = start_worker(capture_often, new_stream());

    for (unsigned i = 0; i < 12; i++) {
        CUdeviceptr block = new_block(LARGE);
        fill(a, block, i);
        OK(cuMemFree(block));
    }
    join_worker(worker);
}

/* ---- L6: a device that fails ---------------------------------------------------------
 */

PROGRAM_WITH(lazy, broken_by_a_kernel, RIGHT,
             "what a failing event covers is never used again",
             "CUDASIM_FAIL=cuEventQuery:*=719")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr block = new_block(LARGE);

    fill(a, block, 1);
    OK(cuMemFree(block));
    use_elsewhere(b);
}

/* ---- L7: the program's own waits -----------------------------------------------------
 */

PROGRAM(lazy, freed_before_a_wait, RIGHT, "a synchronize makes freed memory ready")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr block = new_block(LARGE);

    fill(a, block, 1);
    OK(cuMemFree(block));
    OK(cuCtxSynchronize());
    must(new_block(LARGE) == block, "it is used again");
    fill(b, block, 2);
    must_hold(block, 2);
}

struct shared {
    int entered; /* atomic */
};

static void synchronize(void *argument)
{
    struct shared *shared = argument;

    __atomic_store_n(&shared->entered, 1, __ATOMIC_RELEASE);
    OK(cuCtxSynchronize());
}

PROGRAM(lazy, freed_during_a_wait, RIGHT,
        "not what was freed after it was entered, in another thread")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr block = new_block(LARGE);
    uint32_t *flag = new_flag();
    struct shared shared = {0};

    wait_for(b, flag);
    struct worker *worker = start_worker(synchronize, &shared);
    while (!__atomic_load_n(&shared.entered, __ATOMIC_ACQUIRE))
        nap_ms(1);
    nap_ms(1);
    fill(a, block, 1);
    let_go_unless_lazy(flag);
    OK(cuMemFree(block));
    set_flag(flag);
    join_worker(worker);
    use_elsewhere(c);
}

#if CUDA_VERSION >= 12040
PROGRAM(lazy, green_context, RIGHT, "nor by the synchronize of a green context")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr block = new_block(LARGE);
    CUdevResource resource;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUcontext view;

    OK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevResourceGenerateDesc(&desc, &resource, 1));
    OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuCtxFromGreenCtx(&view, green));
    fill(a, block, 1);
    OK(cuMemFree(block));
    OK(cuCtxSetCurrent(view));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(world_context()));
    use_elsewhere(b);
}
#endif
