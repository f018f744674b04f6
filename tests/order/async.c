/*
 * async.c - stream-ordered memory of a layer that hands it out again itself
 * (GPUSHIM_ASYNC=pool): to the stream that freed it at once, to any other not before it
 * is safe; and what a program may ask and do to such memory.
 *
 * Every program is right, with the driver's own memory as well.
 * Source: CUDA Programming Guide, "Stream Ordered Memory Allocator"; docs/async.md.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "order.h"

#define LARGE ((size_t)4 << 20)
/* Of the device that SMALL_DEVICE makes, more than half. */
#define HUGE_BYTES   ((size_t)40 << 20)
#define SMALL_DEVICE "CUDASIM_MEMORY=64M"

/* The library is preloaded, and serves stream-ordered memory from its pool. */
static bool is_pooled(void)
{
    const char *mode = getenv("GPUSHIM_ASYNC"); /* NOLINT(concurrency-mt-unsafe) */
    const char *preload = getenv("LD_PRELOAD"); /* NOLINT(concurrency-mt-unsafe) */

    return mode && strcmp(mode, "pool") == 0 && preload && strstr(preload, "gpushim");
}

static CUdeviceptr make_in(CUstream stream, size_t bytes)
{
    CUdeviceptr memory;

    OK(cuMemAllocAsync(&memory, bytes, stream));
    return memory;
}

static void must_reuse(CUdeviceptr got, CUdeviceptr freed)
{
    must(!is_pooled() || got == freed, "the stream gets what it freed");
}

/* Memory freed a moment ago, wanted in `stream`: as often as it takes to get it. */
static void use_in(CUstream stream, size_t bytes)
{
    CUdeviceptr memory[3];

    for (unsigned i = 0; i < 3; i++) {
        memory[i] = make_in(stream, bytes);
        fill(stream, memory[i], 2 + i);
    }
    for (unsigned i = 0; i < 3; i++)
        must_hold(memory[i], 2 + i);
    for (unsigned i = 0; i < 3; i++)
        OK(cuMemFreeAsync(memory[i], stream));
}

/* ---- the same stream ----------------------------------------------------------------
 */

static void reuse_in(CUstream stream, size_t bytes)
{
    CUdeviceptr first = make_in(stream, bytes);

    fill(stream, first, 1);
    OK(cuMemFreeAsync(first, stream));
    CUdeviceptr second = make_in(stream, bytes);
    must_reuse(second, first);
    fill(stream, second, 2);
    must_hold(second, 2);
    OK(cuMemFreeAsync(second, stream));
}

PROGRAM(async, reused_at_once, RIGHT, "small and large, in two kinds of stream")
{
    CUstream a = new_stream(), b = blocking_stream();

    reuse_in(a, BYTES);
    reuse_in(a, LARGE);
    reuse_in(b, BYTES);
    reuse_in(b, LARGE);
}

PROGRAM(async, legacy_stream, RIGHT, "by both of its names")
{
    reuse_in(NULL, BYTES);
    reuse_in(CU_STREAM_LEGACY, LARGE);
    CUdeviceptr memory = make_in(NULL, BYTES);
    fill(NULL, memory, 1);
    OK(cuMemFreeAsync(memory, CU_STREAM_LEGACY));
    must_reuse(make_in(CU_STREAM_LEGACY, BYTES), memory);
}

static void use_their_own(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 4; i++) {
        CUdeviceptr memory = make_in(CU_STREAM_PER_THREAD, BYTES);
        fill(CU_STREAM_PER_THREAD, memory, i);
        OK(cuMemFreeAsync(memory, CU_STREAM_PER_THREAD));
    }
}

/* A free in the legacy stream is work there: behind the blocking streams' work so far,
 * and ahead of what they get from then on. */
PROGRAM(async, legacy_stream_behind_blocking_ones, RIGHT, "without an event or a wait")
{
    CUstream a = blocking_stream(), b = blocking_stream();
    CUdeviceptr plain = new_memory(), memory = make_in(NULL, BYTES), next;

    fill(a, plain, 1);
    fill(a, memory, 1);
    OK(cuMemFreeAsync(plain, NULL));
    OK(cuMemFreeAsync(memory, NULL));
    next = make_in(NULL, BYTES);
    fill(b, next, 2);
    must_hold(next, 2);
    OK(cuMemFreeAsync(next, NULL));
}

PROGRAM(async, per_thread_streams, RIGHT, "each thread's default stream is its own")
{
    struct worker *workers[3];

    for (unsigned i = 0; i < 3; i++)
        workers[i] = start_worker(use_their_own, NULL);
    use_their_own(NULL);
    for (unsigned i = 0; i < 3; i++)
        join_worker(workers[i]);
    use_in(new_stream(), BYTES);
}

/* ---- another stream -----------------------------------------------------------------
 */

PROGRAM(async, freed_in_one_wanted_in_another, RIGHT, "nothing orders the two")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr small = make_in(a, BYTES), large = make_in(a, LARGE);

    fill(a, small, 1);
    fill(a, large, 1);
    OK(cuMemFreeAsync(small, a));
    OK(cuMemFreeAsync(large, a));
    use_in(b, BYTES);
    use_in(b, LARGE);
}

PROGRAM(async, freed_in_one_wanted_behind_it, RIGHT, "an event orders them")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = make_in(a, LARGE);

    fill(a, memory, 1);
    OK(cuMemFreeAsync(memory, a));
    join(a, b);
    use_in(b, LARGE);
}

/* Memory of `a`, last used in `b` and freed there. */
static CUdeviceptr freed_there(CUstream a, CUstream b, size_t bytes)
{
    CUdeviceptr memory = make_in(a, bytes);

    fill(a, memory, 1);
    join(a, b);
    fill(b, memory, 7);
    OK(cuMemFreeAsync(memory, b));
    return memory;
}

PROGRAM(async, freed_in_another, RIGHT, "the stream that had it does not have it again")
{
    CUstream a = new_stream(), b = new_stream();

    freed_there(a, b, BYTES);
    use_in(a, BYTES);
    freed_there(a, b, LARGE);
    use_in(a, LARGE);
}

PROGRAM(async, freed_in_another_behind_an_event, RIGHT,
        "nor before it is behind the free")
{
    CUstream a = new_stream(), b = new_stream();

    freed_there(a, b, BYTES);
    join(b, a);
    use_in(a, BYTES);
    freed_there(a, b, LARGE);
    OK(cuStreamSynchronize(b));
    use_in(a, LARGE);
}

PROGRAM(async, freed_in_a_threads_own, RIGHT,
        "the free is in a per-thread stream's order")
{
    CUstream a = new_stream();

    freed_there(a, CU_STREAM_PER_THREAD, BYTES);
    use_in(a, BYTES);
    freed_there(NULL, CU_STREAM_PER_THREAD, BYTES);
    use_in(NULL, BYTES);
}

PROGRAM_WITH(async, short_of_what_another_freed, RIGHT,
             "where memory is short the stream waits, and the host does not",
             SMALL_DEVICE)
{
    CUstream a = new_stream(), b = new_stream();

    freed_there(a, b, HUGE_BYTES);
    CUdeviceptr memory = make_in(a, HUGE_BYTES);
    fill(a, memory, 2);
    must_hold(memory, 2);
}

PROGRAM_WITH(async, short_behind_a_persistent_kernel, RIGHT,
             "also behind a kernel that waits for the host", SMALL_DEVICE)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = make_in(a, HUGE_BYTES);
    uint32_t *flag = new_pinned();

    *flag = 0;
    fill(a, memory, 1);
    wait_for(a, flag);
    OK(cuMemFreeAsync(memory, a));
    memory = make_in(b, HUGE_BYTES);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    fill(b, memory, 2);
    must_hold(memory, 2);
}

/* ---- streams that end ---------------------------------------------------------------
 */

PROGRAM(async, stream_destroyed, RIGHT, "what it freed is in use until its work ends")
{
    for (unsigned i = 0; i < 4; i++) {
        CUstream a = new_stream(), b = new_stream();
        CUdeviceptr memory = make_in(a, LARGE), kept = make_in(a, BYTES);
        fill(a, memory, 1);
        fill(a, kept, 2);
        OK(cuMemFreeAsync(memory, a));
        join(a, b);
        OK(cuStreamDestroy(a));
        use_in(new_stream(), LARGE);
        fill(b, kept, 3);
        OK(cuMemFreeAsync(kept, b));
        use_in(new_stream(), BYTES);
    }
}

PROGRAM(async, destroyed_with_memory_in_use, RIGHT, "and so is what others free later")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr first = make_in(a, BYTES), second = make_in(a, LARGE);

    fill(a, first, 1);
    fill(a, second, 1);
    join(a, b);
    OK(cuStreamDestroy(a));
    fill(b, first, 2);
    fill(b, second, 2);
    OK(cuMemFreeAsync(second, b));
    use_in(new_stream(), LARGE);
    OK(cuStreamSynchronize(b));
    OK(cuMemFree(first));
    use_in(new_stream(), BYTES);
}

PROGRAM(async, handle_used_again, RIGHT, "another stream by the same handle is another")
{
    enum { TRIES = 40 };
    CUstream a = new_stream();
    CUdeviceptr memory = make_in(a, LARGE);

    fill(a, memory, 1);
    OK(cuMemFreeAsync(memory, a));
    OK(cuStreamDestroy(a));
    for (unsigned i = 0; i < TRIES; i++) {
        CUstream b = new_stream();
        CUdeviceptr next = make_in(b, LARGE);
        fill(b, next, 2);
        OK(cuMemFreeAsync(next, b));
        OK(cuStreamDestroy(b));
    }
    OK(cuCtxSynchronize());
}

/* ---- frees of the other kind --------------------------------------------------------
 */

PROGRAM(async, freed_at_once, RIGHT, "cuMemFree takes it when its accesses are complete")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = make_in(a, LARGE);

    fill(a, memory, 1);
    OK(cuStreamSynchronize(a));
    OK(cuMemFree(memory));
    use_in(b, LARGE);
    use_in(a, LARGE);
}

PROGRAM(async, plain_memory_in_a_stream, RIGHT, "cuMemFreeAsync takes that of cuMemAlloc")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory;

    for (unsigned i = 0; i < 4; i++) {
        OK(cuMemAlloc(&memory, LARGE));
        fill(a, memory, 1);
        OK(cuMemFreeAsync(memory, a));
        use_in(a, LARGE);
        use_in(b, LARGE);
        CUdeviceptr plain = new_memory();
        fill(b, plain, 3);
        must_hold(plain, 3);
    }
}

PROGRAM(async, freed_twice, RIGHT, "a second free and a free inside a block are refused")
{
    CUstream a = new_stream();
    CUdeviceptr memory = make_in(a, BYTES);

    OK(cuMemFreeAsync(memory, a));
    CODE(cuMemFreeAsync(memory, a), CUDA_ERROR_INVALID_VALUE);
    memory = make_in(a, 8192);
    CODE(cuMemFreeAsync(memory + 512, a), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeAsync(memory, a));
}

PROGRAM(async, bad_arguments, RIGHT, "the driver's codes")
{
    CUstream a = new_stream(), gone = new_stream();
    CUdeviceptr memory = make_in(a, BYTES), none;

    CODE(cuMemAllocAsync(&none, 0, a), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemAllocAsync(NULL, BYTES, a), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamDestroy(gone));
    CODE(cuMemAllocAsync(&none, BYTES, gone), CUDA_ERROR_INVALID_HANDLE);
    CODE(cuMemFreeAsync(memory, gone), CUDA_ERROR_INVALID_HANDLE);
    fill(a, memory, 1);
    must_hold(memory, 1);
    OK(cuMemFreeAsync(memory, a));
}

/* ---- programmatic launches ----------------------------------------------------------
 */

static bool shown;          /* what is launched was told of */
static bool shown_overlaps; /* the last one may overlap */

/* Called by a library that was built to be broken (shim/entries/entry_submit.c). */
GS_EXPORT void gs_order_launches(const CUlaunchConfig *config);

void gs_order_launches(const CUlaunchConfig *config)
{
    shown = true;
    shown_overlaps = false;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            shown_overlaps |=
                config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
    }
}

PROGRAM(async, overlapping_launch, RIGHT,
        "a kernel that may overlap the last user of its memory")
{
    CUstream a = new_stream();
    CUdeviceptr other = new_memory(), memory = make_in(a, BYTES);

    fill(a, memory, 1);
    OK(cuMemFreeAsync(memory, a));
    CUdeviceptr next = make_in(a, BYTES);
    must_reuse(next, memory);
    overlapping_fill(a, next, 2);
    must(!shown || !is_pooled() || !shown_overlaps, "it is launched in full order");
    overlapping_fill(a, other, 3);
    must(!shown || shown_overlaps, "the next one is not");
    must_hold(next, 2);
    must_hold(other, 3);
    OK(cuMemFreeAsync(next, a));
}

/* ---- captures -----------------------------------------------------------------------
 */

PROGRAM(async, captured, RIGHT, "memory of a capture is the graph's, and none gets out")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = make_in(a, BYTES), other = make_in(b, BYTES), node;
    CUgraphExec exec;
    CUgraph graph;

    fill(a, memory, 1);
    OK(cuMemFreeAsync(memory, a));
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&node, BYTES, a));
    must(node != memory, "a block of the pool's in a graph");
    fill(a, node, 2);
    OK(cuMemFreeAsync(node, a));
    CODE(cuMemFreeAsync(other, a), CUDA_ERROR_INVALID_VALUE);
    fill(b, other, 5);
    OK(cuMemFreeAsync(other, b));
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, a));
    use_in(a, BYTES);
    use_in(b, BYTES);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

PROGRAM(async, destroyed_while_capturing, RIGHT, "a stream ends with its capture")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = make_in(a, LARGE);

    fill(a, memory, 1);
    OK(cuMemFreeAsync(memory, a));
    OK(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill(a, memory, 1);
    OK(cuStreamDestroy(a));
    use_in(b, LARGE);
}

/* ---- threads ------------------------------------------------------------------------
 */

static void make_and_free(void *stream)
{
    for (unsigned i = 0; i < 12; i++) {
        CUdeviceptr memory = make_in(stream, i % 4 ? BYTES : LARGE);
        fill(stream, memory, i);
        OK(cuMemFreeAsync(memory, stream));
    }
}

PROGRAM(async, threads_in_a_stream, RIGHT, "three threads, two streams")
{
    CUstream a = new_stream(), b = new_stream();
    struct worker *workers[3];

    for (unsigned i = 0; i < 3; i++)
        workers[i] = start_worker(make_and_free, i ? a : b);
    for (unsigned i = 0; i < 3; i++)
        join_worker(workers[i]);
    use_in(a, BYTES);
    use_in(b, LARGE);
}

static void come_and_go(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 4; i++) {
        CUstream stream = new_stream();
        CUdeviceptr memory = make_in(stream, LARGE);
        fill(stream, memory, i);
        OK(cuMemFreeAsync(memory, stream));
        OK(cuStreamDestroy(stream));
    }
}

PROGRAM_WITH(async, streams_that_come_and_go, RIGHT,
             "threads whose streams live for one block, on a full device",
             "CUDASIM_MEMORY=32M")
{
    struct worker *workers[3];

    for (unsigned i = 0; i < 3; i++)
        workers[i] = start_worker(come_and_go, NULL);
    for (unsigned i = 0; i < 3; i++)
        join_worker(workers[i]);
    use_in(new_stream(), LARGE);
}

/* All of it has been waited for: natively the next one has it, whoever asks how. */
static void leave_idle(CUstream stream)
{
    for (unsigned i = 0; i < 4; i++) {
        CUdeviceptr memory = make_in(stream, 6 << 20);
        fill(stream, memory, i);
        OK(cuMemFreeAsync(memory, stream));
    }
    CUdeviceptr large = make_in(stream, 24 << 20);
    OK(cuMemFreeAsync(large, stream));
    OK(cuStreamSynchronize(stream));
}

PROGRAM_WITH(async, idle_for_others, RIGHT,
             "what is idle in one stream serves any request of another kind",
             "CUDASIM_MEMORY=32M")
{
    CUstream streams[] = {NULL, new_stream()};
    CUmemAllocationProp device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr memory;

    for (unsigned i = 0; i < GS_ARRAY_LEN(streams); i++) {
        leave_idle(streams[i]);
        OK(cuMemAlloc(&memory, 24 << 20));
        OK(cuMemFree(memory));
        leave_idle(streams[i]);
        OK(cuMemCreate(&handle, 24 << 20, &device, 0));
        OK(cuMemRelease(handle));
        leave_idle(streams[i]);
        CUstream other = new_stream();
        memory = make_in(other, 24 << 20);
        OK(cuMemFreeAsync(memory, other));
        OK(cuStreamSynchronize(other));
    }
}

/* ---- streams with other work ---------------------------------------------------------
 */

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A free of such memory that waits for the flag, which is raised later. */
static void free_behind(CUstream stream, size_t bytes, const uint32_t *flag)
{
    CUdeviceptr memory = make_in(stream, bytes);

    wait_for(stream, flag);
    OK(cuMemFreeAsync(memory, stream));
}

PROGRAM_WITH(async, refused_beside_many_busy, RIGHT,
             "what no stream can free is refused at once, however many there are",
             "CUDASIM_MEMORY=512M")
{
    uint32_t *flag = new_pinned();
    CUdeviceptr memory;

    *flag = 0;
    for (unsigned i = 0; i < 100; i++)
        free_behind(new_stream(), LARGE, flag);
    uint64_t began = now_ms();
    CODE(cuMemAlloc(&memory, (size_t)500 << 20), CUDA_ERROR_OUT_OF_MEMORY);
    must(now_ms() - began < 900, "ten milliseconds, not as many for each stream");
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(cuCtxSynchronize());
}

static void raise_late(void *flag)
{
    nanosleep(&(const struct timespec){.tv_nsec = 50000000}, NULL);
    __atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELEASE);
}

PROGRAM_WITH(
    async, waited_for_beside_a_busy_one, RIGHT,
    "memory that a free would have waited for serves what is asked for once more",
    SMALL_DEVICE)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = HUGE_BYTES};
    uint32_t *flag = new_pinned();
    struct worker *worker;
    CUmemoryPool pool;
    CUdeviceptr memory;
    CUgraphNode node;
    CUgraph graph;

    *flag = 0;
    OK(cuGraphCreate(&graph, 0));
    OK(cuMemAlloc(&memory, HUGE_BYTES));
    free_behind(new_stream(), LARGE, flag);
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolTrimTo(pool, 0));
    worker = start_worker(raise_late, flag);
    OK(cuMemFree(memory));
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    join_worker(worker);
    OK(cuCtxSynchronize());
    OK(cuGraphDestroy(graph));
}

/* ---- contexts and pools -------------------------------------------------------------
 */

PROGRAM(async, outlives_its_context, RIGHT, "stream-ordered memory is no context's")
{
    CUcontext other;
    CUstream a;

#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&other, NULL, 0, 0));
#else
    OK(cuCtxCreate(&other, 0, 0));
#endif
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CUdeviceptr kept = make_in(a, BYTES), second = make_in(NULL, BYTES);
    CUdeviceptr idle = make_in(a, LARGE);
    OK(cuMemsetD32Async(kept, 7, WORDS, a));
    OK(cuMemFreeAsync(idle, a));
    OK(cuCtxDestroy(other));
    OK(cuCtxSetCurrent(world_context()));
    uint32_t words[WORDS];
    OK(cuMemcpyDtoH(words, kept, BYTES));
    must(words[0] == 7 && words[WORDS - 1] == 7, "its contents are there");
    OK(cuMemFree(second));
    CUstream b = new_stream();
    OK(cuMemFreeAsync(kept, b));
    use_in(b, BYTES);
    use_in(b, LARGE);
}

PROGRAM(async, asked_for_its_pool, RIGHT, "the default pool, however it is asked")
{
    CUstream a = new_stream();
    CUdeviceptr memory = make_in(a, BYTES);
    CUmemoryPool pool, told = NULL;
    CUpointer_attribute what = CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
    void *where = &told;

    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuPointerGetAttribute(&told, what, memory));
    must(told == pool, "cuPointerGetAttribute");
    told = NULL;
    OK(cuPointerGetAttributes(1, &what, &where, memory));
    must(told == pool, "cuPointerGetAttributes");
    OK(cuMemFreeAsync(memory, a));
}

PROGRAM(async, asked_what_is_in_use, RIGHT, "no less than what the program has")
{
    CUstream a = new_stream();
    CUdeviceptr kept = make_in(a, LARGE), memory = make_in(a, LARGE);
    CUmemoryPool pool;
    cuuint64_t used = 0;

    OK(cuMemFreeAsync(memory, a));
    OK(cuStreamSynchronize(a));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    must(used == LARGE, "one of two is in use");
    use_in(a, BYTES);
    OK(cuMemFreeAsync(kept, a));
}

PROGRAM(async, marks_set_back, RIGHT, "the highest marks begin again where it is asked")
{
    CUmemPool_attribute marks[] = {CU_MEMPOOL_ATTR_USED_MEM_HIGH,
                                   CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH};
    CUstream a = new_stream();
    CUdeviceptr memory = make_in(a, LARGE);
    CUmemoryPool pool;
    cuuint64_t high;

    OK(cuMemFreeAsync(memory, a));
    OK(cuStreamSynchronize(a));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    for (unsigned i = 0; i < GS_ARRAY_LEN(marks); i++) {
        high = 0;
        OK(cuMemPoolSetAttribute(pool, marks[i], &high));
        OK(cuMemPoolGetAttribute(pool, marks[i], &high));
        must(high == 0, "nothing is in use");
    }
}

PROGRAM(async, another_current_pool, RIGHT, "memory is of the pool that was set")
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUstream a = new_stream();
    CUdeviceptr before = make_in(a, BYTES), after;
    CUmemoryPool pool, told = NULL;

    OK(cuMemPoolCreate(&pool, &props));
    OK(cuDeviceSetMemPool(0, pool));
    after = make_in(a, BYTES);
    OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, after));
    must(told == pool, "of that pool");
    fill(a, before, 1);
    fill(a, after, 2);
    must_hold(before, 1);
    must_hold(after, 2);
    OK(cuMemFreeAsync(before, a));
    OK(cuMemFreeAsync(after, a));
    OK(cuMemAllocFromPoolAsync(&after, BYTES, pool, a));
    fill(a, after, 3);
    OK(cuMemFreeAsync(after, a));
    OK(cuStreamSynchronize(a));
    OK(cuMemPoolDestroy(pool));
}

PROGRAM(async, trimmed, RIGHT, "cuMemPoolTrimTo finds what is idle")
{
    CUstream a = new_stream();
    CUdeviceptr memory = make_in(a, LARGE);
    size_t before, after, total;
    CUmemoryPool pool;

    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemFreeAsync(memory, a));
    OK(cuStreamSynchronize(a));
    OK(cuMemGetInfo(&before, &total));
    OK(cuMemPoolTrimTo(pool, 0));
    OK(cuMemGetInfo(&after, &total));
    must(after >= before && after == total, "nothing is held");
}

PROGRAM_WITH(async, opened_to_a_peer, RIGHT, "access is that of the default pool",
             "CUDASIM_DEVICES=2")
{
    CUstream a = new_stream(), theirs;
    CUdeviceptr memory = make_in(a, BYTES), out;
    CUmemAccessDesc open = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemoryPool pool;
    CUcontext peer;

    open.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    open.location.id = 1;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAccess(pool, &open, 1));
    fill(a, memory, 4);
    OK(cuStreamSynchronize(a));
    OK(cuDevicePrimaryCtxRetain(&peer, 1));
    OK(cuCtxSetCurrent(peer));
    OK(cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&out, BYTES, theirs));
    OK(cuMemcpyAsync(out, memory, BYTES, theirs));
    OK(cuMemFreeAsync(memory, theirs));
    OK(cuStreamSynchronize(theirs));
    OK(cuMemFreeAsync(out, theirs));
    OK(cuCtxSetCurrent(world_context()));
    use_in(a, BYTES);
}

PROGRAM_WITH(async, stream_of_another_device, RIGHT,
             "memory is of the stream's device, whatever is current", "CUDASIM_DEVICES=2")
{
    CUstream a = new_stream(), theirs;
    CUcontext peer;

    OK(cuDevicePrimaryCtxRetain(&peer, 1));
    OK(cuCtxSetCurrent(peer));
    OK(cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
    CUdeviceptr memory = make_in(a, BYTES);
    int device = -1;
    OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
    must(device == 0, "the stream's device");
    OK(cuMemFreeAsync(memory, a));
    OK(cuCtxSetCurrent(world_context()));
    use_in(a, BYTES);
    memory = make_in(a, BYTES);
    fill(a, memory, 1);
    join(a, theirs);
    OK(cuMemFreeAsync(memory, theirs));
    use_in(a, BYTES);
}

#if CUDA_VERSION >= 12050
PROGRAM(async, green_context, RIGHT, "streams of a green context are the driver's")
{
    CUdevResource resource;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUstream theirs, a = new_stream();

    OK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevResourceGenerateDesc(&desc, &resource, 1));
    OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuGreenCtxStreamCreate(&theirs, green, CU_STREAM_NON_BLOCKING, 0));
    for (unsigned i = 0; i < 3; i++) {
        CUdeviceptr memory = make_in(theirs, BYTES);
        fill(theirs, memory, i);
        OK(cuMemFreeAsync(memory, theirs));
        memory = make_in(a, BYTES);
        fill(a, memory, i);
        join(a, theirs);
        fill(theirs, memory, i);
        OK(cuMemFreeAsync(memory, theirs));
        use_in(a, BYTES);
    }
    OK(cuStreamSynchronize(theirs));
    OK(cuStreamDestroy(theirs));
}
#endif
