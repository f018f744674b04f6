/*
 * layers.c - allocators between the program and the driver, as a shim is one: each hands
 * out parts of one segment, in a way that is safe, or not in a way that has a name.
 * Source: docs/simulator.md, "The oracle".
 */
#include "layer.h"

CUdeviceptr segment; /* of a program's one thread */

void begin_layer(void)
{
    NOTE(.kind = CUDASIM_ENTER, .call = "cuMemAlloc_v2");
    OK(cuMemAlloc(&segment, 1 << 20));
    NOTE(.kind = CUDASIM_LEAVE);
}

CUdeviceptr hand_out(size_t offset)
{
    NOTE(.kind = CUDASIM_HAND_OUT, .call = "cuMemAlloc_v2", .address = segment + offset,
         .bytes = BYTES);
    return segment + offset;
}

void take_back(CUdeviceptr block)
{
    NOTE(.kind = CUDASIM_TAKE_BACK, .call = "cuMemFree_v2", .address = block);
}

static void retire(CUdeviceptr block, CUevent event)
{
    NOTE(.kind = CUDASIM_RETIRE, .address = block, .event = event);
}

void enter_free(void)
{
    NOTE(.kind = CUDASIM_ENTER, .call = "cuMemFree_v2", .native_waits = true);
}

void enter_alloc(void)
{
    NOTE(.kind = CUDASIM_ENTER, .call = "cuMemAlloc_v2");
}

void leave(void)
{
    NOTE(.kind = CUDASIM_LEAVE);
}

CUevent fence(void)
{
    CUevent event;

    enter_free();
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuCtxRecordEvent(world_context(), event));
    leave();
    return event;
}

static void poll_until_done(CUevent event)
{
    enter_alloc();
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        ;
    leave();
}

PROGRAM(layer, waits_in_its_free, RIGHT, "a free that waits as the native one")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    fill(a, block, 1);
    enter_free();
    OK(cuCtxSynchronize());
    leave();
    take_back(block);
    fill(b, hand_out(0), 2);
    must_hold(segment, 2);
}

PROGRAM(layer, does_not_wait, LOST_ORDER, "nothing orders the two users of a block")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    fill(a, block, 1);
    take_back(block);
    fill(b, hand_out(0), 2);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, waits_for_one_stream, LOST_ORDER,
        "it waits for a stream that did not use it")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    fill(a, block, 1);
    enter_free();
    OK(cuStreamSynchronize(b));
    leave();
    take_back(block);
    fill(b, hand_out(0), 2);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, in_one_stream, RIGHT, "one stream orders both users by itself")
{
    CUstream a = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    fill(a, block, 1);
    take_back(block);
    fill(a, hand_out(0), 2);
    must_hold(segment, 2);
}

PROGRAM(layer, reads_what_was_there, LOST_ORDER, "a late reader of the old contents")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0), out = hand_out(4096);
    copy(a, out, block);
    take_back(block);
    fill(b, hand_out(0), 2);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, half_of_the_old_block, LOST_ORDER,
        "a block that lies across the old one's end")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    fill(a, block, 1);
    take_back(block);
    fill(b, hand_out(BYTES / 2), 2);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, hands_out_twice, HANDED_TWICE, "two owners of one block at a time")
{
    begin_layer();
    hand_out(0);
    hand_out(BYTES / 2);
}

PROGRAM(layer, takes_back_what_it_has_not, RIGHT, "which ends nobody's memory")
{
    CUstream a = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    take_back(block + 4096);
    fill(a, block, 1);
    must_hold(block, 1);
}

PROGRAM(layer, of_many_streams, RIGHT, "its free waits for however many there are")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    fill(a, block, 1);
    for (unsigned i = 0; i < 1500; i++)
        (void)new_stream();
    enter_free();
    OK(cuCtxSynchronize());
    leave();
    take_back(block);
    fill(b, hand_out(0), 2);
    must_hold(segment, 2);
}

PROGRAM(layer, uses_a_fence, RIGHT, "a fence behind the free, seen complete")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    fill(a, block, 1);
    CUevent event = fence();
    take_back(block);
    poll_until_done(event);
    retire(block, event);
    fill(b, hand_out(0), 2);
    must_hold(segment, 2);
}

PROGRAM(layer, does_not_look, EARLY_RETIRE, "a fence that is taken for complete unseen")
{
    CUstream a = new_stream(), b = new_stream();
    uint32_t *flag = new_pinned();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    *flag = 0;
    wait_for(a, flag);
    CUevent event = fence();
    take_back(block);
    retire(block, event);
    hand_out(0);
    spin(b);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, fence_too_early, LOST_ORDER, "a fence recorded before the last use")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    CUevent event = fence();
    fill(a, block, 1);
    take_back(block);
    poll_until_done(event);
    retire(block, event);
    fill(b, hand_out(0), 2);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, fence_in_one_stream, LOST_ORDER, "a fence in a stream that did not use it")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event;

    begin_layer();
    CUdeviceptr block = hand_out(0);
    fill(a, block, 1);
    enter_free();
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(event, b));
    leave();
    take_back(block);
    poll_until_done(event);
    retire(block, event);
    fill(b, hand_out(0), 2);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, lucky_poll, LOST_ORDER, "a fence that was asked for another block's sake")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0), other = hand_out(4096);
    fill(a, block, 1);
    take_back(block);
    take_back(other);
    CUevent event = fence();
    poll_until_done(event);
    retire(other, event);
    fill(b, hand_out(0), 2);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, leaves_out_the_wait, LOST_ORDER,
        "the program leans on the wait of its free, for other memory")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    fill(a, memory, 3);
    take_back(block);
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, hides_a_race, MASKED, "the program's own race, hidden by a wait too many")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    begin_layer();
    fill(a, memory, 3);
    enter_alloc();
    OK(cuCtxSynchronize());
    leave();
    hand_out(0);
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, does_not_make_a_race, RACE, "the program's own race stays its own")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    fill(a, block, 1);
    fill(b, block, 2);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, used_after_free, NO_ALLOCATION, "a block that the program has freed")
{
    CUstream a = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out(0);
    fill(a, block, 1);
    enter_free();
    OK(cuCtxSynchronize());
    leave();
    take_back(block);
    fill(a, block, 2);
    OK(cuCtxSynchronize());
}

/* ---- in the order of streams ------------------------------------------------------- */

static CUdeviceptr hand_out_in(CUstream stream, size_t offset)
{
    NOTE(.kind = CUDASIM_HAND_OUT, .call = "cuMemAllocAsync", .address = segment + offset,
         .bytes = BYTES, .stream = stream, .stream_ordered = true);
    return segment + offset;
}

static void take_back_in(CUstream stream, CUdeviceptr block)
{
    NOTE(.kind = CUDASIM_TAKE_BACK, .call = "cuMemFreeAsync", .address = block,
         .stream = stream, .stream_ordered = true);
}

PROGRAM(ordered_layer, in_its_stream, RIGHT, "reuse in the stream that freed")
{
    CUstream a = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out_in(a, 0);
    fill(a, block, 1);
    take_back_in(a, block);
    fill(a, hand_out_in(a, 0), 2);
    must_hold(segment, 2);
}

PROGRAM(ordered_layer, in_another, LOST_ORDER, "reuse in another stream without a wait")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out_in(a, 0);
    fill(a, block, 1);
    take_back_in(a, block);
    fill(b, hand_out_in(b, 0), 2);
    OK(cuCtxSynchronize());
}

PROGRAM(ordered_layer, with_a_wait, RIGHT, "the layer makes the other stream wait")
{
    CUstream a = new_stream(), b = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out_in(a, 0);
    fill(a, block, 1);
    take_back_in(a, block);
    enter_alloc();
    join(a, b);
    leave();
    fill(b, hand_out_in(b, 0), 2);
    must_hold(segment, 2);
}

PROGRAM(ordered_layer, plain_reuse, LOST_ORDER,
        "a wait in one stream does not make it safe for a stream-less allocation")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();

    begin_layer();
    CUdeviceptr block = hand_out_in(a, 0);
    fill(a, block, 1);
    take_back_in(a, block);
    enter_alloc();
    join(a, b);
    leave();
    fill(c, hand_out(0), 2);
    OK(cuCtxSynchronize());
}

/* ---- where no stream's order protects the bytes -------------------------------------
 */

/* A block's last user runs in another context, whose work a free of the segment does not
 * wait for. */
static void give_back(bool waits)
{
    CUstream theirs;
    CUcontext second;

    begin_layer();
    CUdeviceptr block = hand_out(0);
    second = new_context();
    theirs = new_stream();
    OK(cuMemsetD32Async(block, 1, WORDS, theirs));
    NOTE(.kind = CUDASIM_TAKE_BACK, .call = "cuMemFreeAsync", .address = block,
         .stream_ordered = true, .stream = theirs);
    enter_free();
    if (waits)
        OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(world_context()));
    OK(cuMemFree(segment));
    leave();
    OK(cuCtxSetCurrent(second));
    if (!waits)
        forgive(); /* the memory may be gone when the set runs */
    OK(cuCtxSynchronize());
}

PROGRAM(layer, gives_back_what_is_in_use, LOST_ORDER,
        "its memory goes while a block's last user, in another context, may run")
{
    give_back(false);
}

PROGRAM(layer, gives_back_behind_a_wait, RIGHT, "unless it has waited for it")
{
    give_back(true);
}

static uintptr_t hand_out_pinned(const uint32_t *memory)
{
    NOTE(.kind = CUDASIM_HAND_OUT, .call = "cuMemHostAlloc", .address = (uintptr_t)memory,
         .bytes = BYTES);
    return (uintptr_t)memory;
}

/* Pinned memory is freed while a copy may read it, and is somebody's at once, who can
 * write it without a call. */
static void hand_out_again(bool waits)
{
    CUstream a = new_stream();
    CUdeviceptr memory = new_memory();

    NOTE(.kind = CUDASIM_ENTER, .call = "cuMemHostAlloc");
    uint32_t *pinned = new_pinned();
    NOTE(.kind = CUDASIM_LEAVE);
    uintptr_t block = hand_out_pinned(pinned);
    OK(cuMemcpyHtoDAsync(memory, pinned, BYTES, a));
    NOTE(.kind = CUDASIM_ENTER, .call = "cuMemFreeHost", .native_waits = true);
    if (waits)
        OK(cuCtxSynchronize());
    NOTE(.kind = CUDASIM_LEAVE);
    NOTE(.kind = CUDASIM_TAKE_BACK, .call = "cuMemFreeHost", .address = block);
    hand_out_pinned(pinned);
    OK(cuCtxSynchronize());
}

PROGRAM(layer, hands_the_host_what_is_in_use, LOST_ORDER,
        "pinned memory has a new owner while a copy may read it")
{
    hand_out_again(false);
}

PROGRAM(layer, hands_the_host_what_is_over, RIGHT, "unless it has waited for it")
{
    hand_out_again(true);
}
