/*
 * rules.c - programs that lean on the rules every layer keeps whatever its free waits
 * for: which pointers are whose, what a context's death, a capture or a mark on memory
 * means, and that nothing held over a call of the driver stops another thread.
 *
 * Each program is right, and says nothing of how memory is kept; a layer that breaks the
 * rule makes it wrong. Source: Driver API, the calls' own pages; docs/free.md.
 */
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "order.h"

#define MIB ((size_t)1 << 20)

/* ---- pointers ------------------------------------------------------------------------
 */

PROGRAM(rules, freed_twice, RIGHT, "a second free is refused and harms no neighbour")
{
    CUstream stream = new_stream();
    CUdeviceptr first = new_memory(), second = new_memory();

    OK(cuMemFree(first));
    CODE(cuMemFree(first), CUDA_ERROR_INVALID_VALUE);
    fill(stream, second, 1);
    must_hold(second, 1);
    OK(cuMemFree(second));
}

PROGRAM(rules, freed_inside, RIGHT, "an address inside a block is none to free")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), other;

    fill(a, memory, 1);
    CODE(cuMemFree(memory + 256), CUDA_ERROR_INVALID_VALUE);
    other = new_memory();
    fill(b, other, 2);
    must_hold(memory, 1);
    must_hold(other, 2);
    OK(cuMemFree(memory));
}

/* ---- locks ---------------------------------------------------------------------------
 */

static void allocate_a_little(void *flag)
{
    const struct timespec pause = {0, 1000000};
    CUdeviceptr memory;

    nanosleep(&pause, NULL);
    memory = new_memory();
    __atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELEASE);
    OK(cuMemFree(memory));
}

PROGRAM_WITH(rules, allocated_beside_a_free, RIGHT,
             "a free that waits lets others allocate, who then end the wait",
             "CUDASIM_HANG=500")
{
    CUdeviceptr memory = new_memory();
    uint32_t *flag = new_pinned();
    struct worker *worker;

    *flag = 0;
    wait_for(new_stream(), flag);
    worker = start_worker(allocate_a_little, flag);
    OK(cuMemFree(memory));
    join_worker(worker);
}

/* ---- contexts ------------------------------------------------------------------------
 */

PROGRAM(rules, freed_after_its_context, RIGHT, "memory goes with its context")
{
    CUdeviceptr memory;
    CUcontext context;
    CUdevice device;

    OK(cuDeviceGet(&device, 0));
    OK(cuCtxCreate(&context, NULL, 0, device));
    memory = new_memory();
    OK(cuCtxDestroy(context));
    OK(cuCtxSetCurrent(world_context()));
    CODE(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
}

PROGRAM(rules, freed_in_a_child, RIGHT, "what the parent has is nothing to its child")
{
    CUdeviceptr memory = new_memory();
    int status = -1;
    pid_t child;

    OK(cuCtxSynchronize());
    child = fork();
    if (child == 0)
        _exit(cuMemFree(memory) == CUDA_SUCCESS);
    must(child > 0 && waitpid(child, &status, 0) == child, "there is a child");
    must(status == 0, "the child's free is refused");
    OK(cuMemFree(memory));
}

/* ---- captures ------------------------------------------------------------------------
 */

PROGRAM(rules, allocated_in_a_capture, RIGHT, "an unsafe call is refused in a capture")
{
    CUstream stream = new_stream();
    CUdeviceptr memory;
    CUgraph graph;

    OK(cuMemFree(new_memory())); /* something to be tempted with */
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CODE(cuMemAlloc(&memory, BYTES), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CODE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

PROGRAM(rules, freed_beside_a_capture, RIGHT, "a free leaves a relaxed capture alone")
{
    CUstream stream = new_stream();
    CUdeviceptr memory = new_memory(), other = new_memory();
    CUgraph graph;

    fill(new_stream(), other, 1);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill(stream, memory, 2);
    OK(cuMemFree(other));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
}

PROGRAM_WITH(rules, freed_beside_a_capture_is_there, RIGHT,
             "what was freed beside a capture waits for no work of afterwards",
             "CUDASIM_MEMORY=64M")
{
    CUstream stream = new_stream(), other = new_stream();
    CUdeviceptr blocks[40], memory = new_memory();
    uint32_t *flag = new_pinned();
    CUgraph graph;

    if (free_is_lazy())
        return; /* no free waits for what is filled: that may take its time */
    *flag = 0;
    for (unsigned i = 0; i < 40; i++) {
        OK(cuMemAlloc(&blocks[i], MIB));
        fill(other, blocks[i], i);
    }
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill(stream, memory, 2);
    for (unsigned i = 0; i < 40; i++)
        OK(cuMemFree(blocks[i]));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    wait_for(other, flag);
    for (unsigned i = 0; i < 40; i++)
        OK(cuMemAlloc(&blocks[i], MIB));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(cuCtxSynchronize());
}

/* Fill so many of device 0, whose context is current: the whole of it, nearly. */
#define MANY 40

static void fill_device(CUdeviceptr blocks[MANY], CUstream stream)
{
    for (unsigned i = 0; i < MANY; i++) {
        OK(cuMemAlloc(&blocks[i], MIB));
        fill(stream, blocks[i], i);
    }
}

static void free_all(const CUdeviceptr blocks[MANY])
{
    for (unsigned i = 0; i < MANY; i++)
        OK(cuMemFree(blocks[i]));
}

/* Natively they are there, as each free has waited. */
static void must_be_there(CUdeviceptr blocks[MANY], CUstream busy, uint32_t *flag)
{
    wait_for(busy, flag);
    for (unsigned i = 0; i < MANY; i++)
        OK(cuMemAlloc(&blocks[i], MIB));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(rules, freed_beside_a_capture_elsewhere_is_there, RIGHT,
             "nor where the capture was one of another context", "CUDASIM_MEMORY=64M")
{
    CUstream other = new_stream();
    CUdeviceptr blocks[MANY];
    uint32_t *flag = new_pinned();
    CUcontext peer;
    CUgraph graph;

    if (free_is_lazy())
        return;
    *flag = 0;
    fill_device(blocks, other);
    peer = new_context();
    CUstream stream = new_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuCtxSetCurrent(world_context()));
    free_all(blocks);
    OK(cuCtxSetCurrent(peer));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuCtxSetCurrent(world_context()));
    must_be_there(blocks, other, flag);
}

PROGRAM_WITH(rules, freed_beside_a_capture_that_is_left_is_there, RIGHT,
             "nor where the capture ended with its stream", "CUDASIM_MEMORY=64M")
{
    CUstream stream = new_stream(), other = new_stream();
    CUdeviceptr blocks[MANY];
    uint32_t *flag = new_pinned();

    if (free_is_lazy())
        return;
    *flag = 0;
    fill_device(blocks, other);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    free_all(blocks);
    OK(cuStreamDestroy(stream));
    must_be_there(blocks, other, flag);
}

PROGRAM_WITH(rules, freed_beside_a_capture_whose_context_ends_is_there, RIGHT,
             "nor where the capture ended with its context", "CUDASIM_MEMORY=64M")
{
    CUstream other = new_stream();
    CUdeviceptr blocks[MANY];
    uint32_t *flag = new_pinned();
    CUcontext peer;

    if (free_is_lazy())
        return;
    *flag = 0;
    fill_device(blocks, other);
    peer = new_context();
    OK(cuStreamBeginCapture(new_stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuCtxSetCurrent(world_context()));
    free_all(blocks);
    OK(cuCtxDestroy(peer));
    must_be_there(blocks, other, flag);
}

/* ---- marks, and other consumers ------------------------------------------------------
 */

PROGRAM(rules, marked_memory, RIGHT, "a mark on memory goes with it")
{
    CUdeviceptr marked = new_memory(), neighbour = new_memory(), fresh;
    unsigned on = 1, found = 1;

    OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, marked));
    OK(cuMemFree(marked));
    fresh = new_memory();
    OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, fresh));
    must(found == 0, "new memory is not marked");
    OK(cuMemFree(neighbour));
    OK(cuMemFree(fresh));
}

/* ---- L2: stream order -----------------------------------------------------------------
 */

/* Freed in the order of another context's stream, where it is in use; then all work of
 * this one is waited for, and memory of the same size is asked for. */
PROGRAM(rules, freed_in_another_contexts_stream, RIGHT,
        "a wait for a context says nothing of the streams of another")
{
    CUstream a = new_stream(), theirs;
    CUdeviceptr block, other, next;
    CUcontext second;

    OK(cuMemAlloc(&block, 4 * MIB));
    OK(cuMemAlloc(&other, 4 * MIB));
    second = new_context();
    theirs = new_stream();
    OK(cuMemcpyPeerAsync(block, world_context(), new_memory(), second, BYTES, theirs));
    OK(cuMemFreeAsync(block, theirs));
    OK(cuCtxSetCurrent(world_context()));
    fill(a, other, 1);
    OK(cuMemFree(other));
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < 3; i++) {
        OK(cuMemAlloc(&next, 4 * MIB));
        fill(a, next, 2 + i);
    }
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(second));
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(rules, others_get_what_is_free, RIGHT,
             "what was freed is there for other kinds of memory", "CUDASIM_MEMORY=64M")
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr blocks[40]; /* small ones, which a free does not give back by itself */

    for (unsigned i = 0; i < 40; i++)
        OK(cuMemAlloc(&blocks[i], MIB));
    for (unsigned i = 0; i < 40; i++)
        OK(cuMemFree(blocks[i]));
    OK(cuMemCreate(&handle, 48 * MIB, &prop, 0));
    OK(cuMemRelease(handle));
}
