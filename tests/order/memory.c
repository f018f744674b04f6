/*
 * memory.c - frees, and what may be done with memory that was freed.
 * Source: Driver API, cuMemFree, cuMemFreeHost, "Stream Ordered Memory Allocator".
 */
#include "order.h"

/* An allocation of the same size: the driver gives the lowest address that is free. */
static CUdeviceptr again(CUdeviceptr before)
{
    CUdeviceptr memory = new_memory();

    must(memory == before || memory == 0, "the driver reuses the address at once");
    return memory;
}

PROGRAM(memory, freed_and_reused, RIGHT, "a free waits for all work of the context")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();

    fill(a, memory, 1);
    OK(cuMemFree(memory));
    fill(b, again(memory), 2);
    must_hold(memory, 2);
}

PROGRAM_WITH(memory, free_that_waits_for_nothing, RACE,
             "on a device whose free does not wait, this program is wrong",
             "CUDASIM_FREE_WAITS=none")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();

    fill(a, memory, 1);
    OK(cuMemFree(memory));
    forgive();
    fill(b, again(memory), 2);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(memory, free_that_waits_for_blocking, RACE,
             "where a free waits for blocking streams, a non-blocking one is not covered",
             "CUDASIM_FREE_WAITS=blocking")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();

    fill(a, memory, 1);
    OK(cuMemFree(memory));
    forgive();
    fill(b, again(memory), 2);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(memory, free_that_waits_for_blocking_streams, RIGHT,
             "where a free waits for blocking streams, those are covered",
             "CUDASIM_FREE_WAITS=blocking")
{
    CUstream a = blocking_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();

    fill(a, memory, 1);
    OK(cuMemFree(memory));
    fill(b, again(memory), 2);
    must_hold(memory, 2);
}

PROGRAM(memory, free_as_a_wait, RIGHT, "programs lean on the wait of a free")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory(), other = new_memory();

    fill(a, memory, 3);
    OK(cuMemFree(other));
    copy(b, out, memory);
    must_hold(out, 3);
}

PROGRAM(memory, free_of_a_destroyed_streams, RIGHT, "a stream that is gone is waited for")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory();

    fill(a, memory, 1);
    OK(cuStreamDestroy(a));
    OK(cuMemFree(memory));
    fill(new_stream(), again(memory), 2);
    must_hold(memory, 2);
}

PROGRAM(memory, pinned_freed, RIGHT, "a free of pinned memory waits, too")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    uint32_t *words = new_pinned();

    fill(a, memory, 4);
    OK(cuMemcpyDtoHAsync(words, memory, BYTES, a));
    OK(cuMemFreeHost(words));
    copy(b, out, memory);
    must_hold(out, 4);
}

/* ---- in the order of a stream ------------------------------------------------------ */

static CUdeviceptr new_in(CUstream stream)
{
    CUdeviceptr memory;

    OK(cuMemAllocAsync(&memory, BYTES, stream));
    return memory;
}

PROGRAM(ordered, reused_in_its_stream, RIGHT, "a stream orders a free and the next user")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_in(a), out = new_memory();

    fill(a, memory, 5);
    OK(cuMemFreeAsync(memory, a));
    CUdeviceptr next = new_in(a);
    fill(a, next, 6);
    copy(a, out, next);
    must_hold(out, 6);
}

PROGRAM(ordered, reused_in_another, RIGHT, "the driver orders what it hands to another")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr out = new_memory();

    for (unsigned i = 0; i < 8; i++) {
        CUdeviceptr memory = new_in(a);
        fill(a, memory, 5);
        OK(cuMemFreeAsync(memory, a));
        CUdeviceptr next = new_in(b);
        fill(b, next, 6);
        copy(b, out, next);
        OK(cuMemFreeAsync(next, b));
    }
    must_hold(out, 6);
}

PROGRAM_WITH(ordered, reused_when_short, RIGHT,
             "where memory is short the driver makes the stream wait",
             "CUDASIM_MEMORY=8M")
{
    CUstream streams[3] = {new_stream(), new_stream(), new_stream()};
    CUdeviceptr outs[3] = {new_memory(), new_memory(), new_memory()};

    for (unsigned i = 0; i < 12; i++) {
        CUstream stream = streams[i % 3];
        CUdeviceptr memory;
        OK(cuMemAllocAsync(&memory, 4 << 20, stream));
        fill(stream, memory, i);
        copy(stream, outs[i % 3], memory);
        OK(cuMemFreeAsync(memory, stream));
    }
    for (unsigned i = 0; i < 3; i++)
        must_hold(outs[i], 9 + i);
}

PROGRAM(ordered, used_behind_an_event, RIGHT,
        "another stream may use it behind its start")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_in(a), out = new_memory();

    fill(a, memory, 5);
    OK(cuMemFreeAsync(memory, a));
    memory = new_in(a);
    join(a, b);
    fill(b, memory, 8);
    copy(b, out, memory);
    join(b, a);
    OK(cuMemFreeAsync(memory, a));
    must_hold(out, 8);
}

PROGRAM(ordered, used_before_its_start, RACE, "without an event it may not be there yet")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_in(a);

    fill(b, memory, 8);
    forgive();
    OK(cuCtxSynchronize());
}

PROGRAM(ordered, freed_while_used, RACE,
        "a free in another stream does not wait for its user")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_in(b);

    forgive();
    join(b, a);
    fill(a, memory, 5);
    OK(cuMemFreeAsync(memory, b));
    memory = new_in(b);
    fill(b, memory, 6);
    OK(cuCtxSynchronize());
}

PROGRAM(ordered, used_after_its_free, NO_ALLOCATION, "memory that was freed is nobody's")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_in(a);

    fill(a, memory, 5);
    OK(cuMemFreeAsync(memory, a));
    fill(a, memory, 6);
    forgive();
    OK(cuCtxSynchronize());
}

PROGRAM(ordered, freed_at_once_while_used, RACE,
        "cuMemFree assumes that accesses to stream-ordered memory are complete")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_in(a);

    fill(a, memory, 5);
    OK(cuMemFree(memory));
    forgive();
    memory = new_in(b);
    fill(b, memory, 6);
    OK(cuCtxSynchronize());
}

PROGRAM(ordered, freed_at_once, RIGHT, "complete they are behind a wait")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_in(a), out = new_memory();

    fill(a, memory, 5);
    OK(cuStreamSynchronize(a));
    OK(cuMemFree(memory));
    memory = new_in(a);
    fill(a, memory, 6);
    copy(a, out, memory);
    must_hold(out, 6);
}

PROGRAM(ordered, plain_memory_freed_in_a_stream, RIGHT,
        "memory of cuMemAlloc may be freed in the order of a stream")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory();

    fill(a, memory, 5);
    OK(cuMemFreeAsync(memory, a));
    for (unsigned i = 0; i < 4; i++)
        fill(b, new_memory(), i);
    OK(cuCtxSynchronize());
}

/* ---- peers ------------------------------------------------------------------------- */

struct other_device {
    CUcontext context;
    CUstream stream;
    CUdeviceptr memory;
};

static void begin_other(struct other_device *other)
{
    CUdevice device;

    OK(cuDeviceGet(&device, 1));
    OK(cuDevicePrimaryCtxRetain(&other->context, device));
    OK(cuCtxPushCurrent(other->context));
    other->stream = new_stream();
    other->memory = new_memory();
    OK(cuCtxPopCurrent(&other->context));
}

PROGRAM_WITH(peers, copied_behind_an_event, RIGHT, "an event orders across devices",
             "CUDASIM_DEVICES=2")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    struct other_device other;

    begin_other(&other);
    fill(a, memory, 9);
    OK(cuMemcpyPeerAsync(other.memory, other.context, memory, world_context(), BYTES, a));
    join(a, other.stream);
    OK(cuMemcpyPeerAsync(out, world_context(), other.memory, other.context, BYTES,
                         other.stream));
    OK(cuStreamSynchronize(other.stream));
    must_hold(out, 9);
}

PROGRAM_WITH(peers, copied_without, RACE, "streams of two devices have no order",
             "CUDASIM_DEVICES=2")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    struct other_device other;

    begin_other(&other);
    fill(a, memory, 9);
    OK(cuMemcpyPeerAsync(other.memory, other.context, memory, world_context(), BYTES, a));
    OK(cuMemcpyPeerAsync(out, world_context(), other.memory, other.context, BYTES,
                         other.stream));
    OK(cuStreamSynchronize(other.stream));
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(peers, copied_synchronously, RIGHT,
             "a copy in the legacy stream between two devices is in order with both",
             "CUDASIM_DEVICES=2")
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();
    struct other_device other;

    begin_other(&other);
    fill(a, memory, 9);
    OK(cuMemcpy(other.memory, memory, BYTES));
    OK(cuMemcpyPeerAsync(out, world_context(), other.memory, other.context, BYTES,
                         other.stream));
    OK(cuStreamSynchronize(other.stream));
    must_hold(out, 9);
}

/* Work on another device, waited for on this one by a call that does not wait for it. */
static void work_elsewhere(void (*wait)(void))
{
    CUdeviceptr out = new_memory();
    CUstream a = new_stream();
    struct other_device other;

    begin_other(&other);
    OK(cuCtxPushCurrent(other.context));
    OK(cuMemsetD32Async(other.memory, 9, WORDS, other.stream));
    OK(cuCtxPopCurrent(&other.context));
    wait();
    OK(cuMemcpyPeerAsync(out, world_context(), other.memory, other.context, BYTES, a));
    OK(cuStreamSynchronize(a));
    OK(cuStreamSynchronize(other.stream));
}

static void synchronize_here(void)
{
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(peers, synchronized_here, RACE, "a wait for a context is for that context",
             "CUDASIM_DEVICES=2")
{
    work_elsewhere(synchronize_here);
}

static void free_here(void)
{
    OK(cuMemFree(new_memory()));
}

PROGRAM_WITH(peers, freed_here, RACE, "a free waits for its own device's work",
             "CUDASIM_DEVICES=2")
{
    work_elsewhere(free_here);
}

static void free_pinned_here(void)
{
    OK(cuMemFreeHost(new_pinned()));
}

PROGRAM_WITH(peers, pinned_freed_here, RACE, "and so does one of pinned memory",
             "CUDASIM_DEVICES=2")
{
    work_elsewhere(free_pinned_here);
}

/* Each of the two devices may access the other's memory. */
static void open_to_each_other(const struct other_device *other)
{
    OK(cuCtxEnablePeerAccess(other->context, 0));
    OK(cuCtxPushCurrent(other->context));
    OK(cuCtxEnablePeerAccess(world_context(), 0));
    OK(cuCtxPopCurrent(&(CUcontext){NULL}));
}

/* One rank's part of a collective: it ends when the other rank's part has begun. */
static void take_part(CUstream stream, uint32_t *own, const uint32_t *theirs,
                      uint32_t turn)
{
    OK(cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)own, turn, 0));
    OK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)theirs, turn,
                           CU_STREAM_WAIT_VALUE_GEQ));
}

struct ranks {
    struct other_device other;
    uint32_t *begun; /* one word a rank */
    bool ahead;      /* atomic: rank 1 has given its device both collectives */
};

static void run_rank_1(void *argument)
{
    struct ranks *ranks = argument;

    OK(cuCtxSetCurrent(ranks->other.context));
    take_part(ranks->other.stream, &ranks->begun[1], &ranks->begun[0], 1);
    take_part(ranks->other.stream, &ranks->begun[1], &ranks->begun[0], 2);
    __atomic_store_n(&ranks->ahead, true, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(ranks->other.stream));
}

PROGRAM_WITH(peers, collective, RIGHT,
             "a free between two collectives waits for its own device, not for the other",
             "CUDASIM_DEVICES=2")
{
    CUstream a = new_stream();
    CUdeviceptr scratch = new_memory();
    struct ranks ranks = {.ahead = false};

    begin_other(&ranks.other);
    open_to_each_other(&ranks.other);
    OK(cuMemHostAlloc((void **)&ranks.begun, BYTES, CU_MEMHOSTALLOC_PORTABLE));
    ranks.begun[0] = ranks.begun[1] = 0;
    struct worker *worker = start_worker(run_rank_1, &ranks);
    take_part(a, &ranks.begun[0], &ranks.begun[1], 1);
    while (!__atomic_load_n(&ranks.ahead, __ATOMIC_ACQUIRE))
        OK(cuStreamQuery(NULL));
    OK(cuMemFree(scratch));
    take_part(a, &ranks.begun[0], &ranks.begun[1], 2);
    OK(cuStreamSynchronize(a));
    join_worker(worker);
}

/* The other device works until `flag` is set, and may access the memory of this one. */
static void begin_busy_peer(struct other_device *other, uint32_t **flag)
{
    begin_other(other);
    open_to_each_other(other);
    OK(cuMemHostAlloc((void **)flag, BYTES, CU_MEMHOSTALLOC_PORTABLE));
    **flag = 0;
    OK(cuCtxPushCurrent(other->context));
    OK(cuStreamWaitValue32(other->stream, (CUdeviceptr)(uintptr_t)*flag, 1,
                           CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuCtxPopCurrent(&other->context));
}

/* A lazy free waits for nothing, so the driver may have nothing back before the peer has
 * ended. */
PROGRAM_WITH(peers, freed_memory_is_there_beside_a_peer, RIGHT,
             "what was freed serves the next request, though a peer still works",
             "CUDASIM_DEVICES=2 CUDASIM_MEMORY=64M")
{
    const size_t most = (size_t)40 << 20;
    struct other_device other;
    CUdeviceptr block;
    uint32_t *flag;

    begin_busy_peer(&other, &flag);
    for (unsigned i = 0; i < 5; i++) {
        OK(cuMemAlloc(&block, most - (i << 20)));
        if (free_is_lazy())
            __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
        OK(cuMemFree(block));
    }
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(other.stream));
}

/* Natively nothing holds the address back, so the oracle has no say: the address does. */
PROGRAM_WITH(peers, held_behind_a_peer, RIGHT,
             "what a peer may still use is no one else's, though its owner is idle",
             "CUDASIM_DEVICES=2")
{
    CUdeviceptr block = new_memory();
    struct other_device other;
    uint32_t *flag;

    begin_busy_peer(&other, &flag);
    OK(cuCtxSynchronize());
    OK(cuMemFree(block));
    for (unsigned i = 0; i < 3; i++)
        must(new_memory() != block || !under_library(), "the peer may still use it");
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(other.stream));
}
