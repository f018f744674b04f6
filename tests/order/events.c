/*
 * events.c - the order events give.
 * Source: Driver API, cuEventRecord, cuStreamWaitEvent, cuCtxRecordEvent, cuCtxWaitEvent.
 */
#include "order.h"

PROGRAM(events, chain, RIGHT, "each stream goes on behind the one before")
{
    CUdeviceptr memory[6];
    CUstream before = new_stream();

    for (unsigned i = 0; i < 6; i++)
        memory[i] = new_memory();
    fill(before, memory[0], 1);
    for (unsigned i = 1; i < 6; i++) {
        CUstream next = new_stream();
        join(before, next);
        copy(next, memory[i], memory[i - 1]);
        before = next;
    }
    must_hold(memory[5], 1);
}

PROGRAM(events, diamond, RIGHT, "two branches that meet again")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), left = new_memory(), right = new_memory();

    fill(a, memory, 2);
    join(a, b);
    copy(a, left, memory);
    copy(b, right, memory);
    join(b, a);
    fill(a, memory, 3);
    must_hold(left, 2);
    must_hold(right, 2);
    must_hold(memory, 3);
}

PROGRAM(events, half_a_diamond, RACE, "one branch is not joined")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), right = new_memory();

    fill(a, memory, 2);
    join(a, b);
    copy(b, right, memory);
    fill(a, memory, 3);
    OK(cuCtxSynchronize());
}

PROGRAM(events, recorded_too_early, RACE, "an event means what was submitted before it")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    OK(cuEventRecord(event, a));
    fill(a, memory, 4);
    OK(cuStreamWaitEvent(b, event, 0));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(events, waited_too_late, RACE, "a wait concerns what is submitted after it")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 4);
    OK(cuEventRecord(event, a));
    copy(b, out, memory);
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuCtxSynchronize());
}

PROGRAM(events, never_recorded, RACE, "a wait for an event never recorded is none")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 4);
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuEventRecord(event, a));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(events, waited_elsewhere, RACE, "a wait holds back its own stream alone")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 4);
    join(a, b);
    copy(c, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(events, reused, RIGHT, "an event is recorded again behind the work it is for")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    OK(cuEventRecord(event, a));
    fill(a, memory, 5);
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    copy(b, out, memory);
    must_hold(out, 5);
}

PROGRAM(events, of_the_wrong_stream, RACE, "an event orders its own stream's work")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 5);
    spin(c);
    join(c, b);
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(events, recorded_again, RIGHT, "a later record does not move a wait made before")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 6);
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuEventRecord(event, c));
    copy(b, out, memory);
    must_hold(out, 6);
}

PROGRAM(events, recorded_elsewhere, RACE, "an event means its newest record alone")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 6);
    OK(cuEventRecord(event, a));
    OK(cuEventRecord(event, c));
    OK(cuStreamWaitEvent(b, event, 0));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(events, long_done, RIGHT, "a wait for an event that is done orders all the same")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 7);
    OK(cuEventRecord(event, a));
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        ;
    OK(cuStreamWaitEvent(b, event, 0));
    copy(b, out, memory);
    must_hold(out, 7);
}

PROGRAM(events, destroyed, RIGHT, "a wait outlives its event")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 8);
    join(a, b); /* destroys its event */
    OK(cuStreamDestroy(a));
    copy(b, out, memory);
    must_hold(out, 8);
}

PROGRAM(events, in_the_legacy_stream, RIGHT, "an event there covers blocking streams")
{
    CUstream a = blocking_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 9);
    join(NULL, b);
    copy(b, out, memory);
    must_hold(out, 9);
}

/* ---- of a whole context ------------------------------------------------------------ */

PROGRAM(events, of_the_context, RIGHT, "captures all the activities of the context")
{
    CUstream a = new_stream(), b = new_stream(), c = blocking_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), other = new_memory(), out = new_memory();

    fill(a, memory, 10);
    fill(c, other, 11);
    OK(cuCtxRecordEvent(world_context(), event));
    OK(cuStreamWaitEvent(b, event, 0));
    copy(b, out, memory);
    copy(b, memory, other);
    must_hold(out, 10);
    must_hold(memory, 11);
}

PROGRAM(events, of_the_context_before, RACE, "not those submitted later")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    OK(cuCtxRecordEvent(world_context(), event));
    fill(a, memory, 10);
    OK(cuStreamWaitEvent(b, event, 0));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(events, of_the_context_alone, RACE, "recording it delays nothing")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 10);
    OK(cuCtxRecordEvent(world_context(), event));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(events, the_context_waits_for_one, RACE, "for that event, not for other work")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 12);
    spin(c);
    OK(cuEventRecord(event, c));
    OK(cuCtxWaitEvent(world_context(), event));
    copy(b, out, memory);
    OK(cuCtxSynchronize());
}

PROGRAM(events, the_context_waits, RIGHT, "all later work of the context waits")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 12);
    OK(cuEventRecord(event, a));
    OK(cuCtxWaitEvent(world_context(), event));
    copy(b, out, memory);
    must_hold(out, 12);
}

PROGRAM(events, the_context_waited_late, RACE, "earlier work does not")
{
    CUstream a = new_stream(), b = new_stream();
    CUevent event = new_event();
    CUdeviceptr memory = new_memory(), out = new_memory();

    fill(a, memory, 12);
    OK(cuEventRecord(event, a));
    copy(b, out, memory);
    OK(cuCtxWaitEvent(world_context(), event));
    OK(cuCtxSynchronize());
}

/* ---- memory that follows an event -------------------------------------------------- */

PROGRAM(ordered, reused_behind_an_event, RIGHT,
        "what another stream freed may be had by one that is behind the free")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory, out = new_memory();

    for (unsigned i = 0; i < 4; i++) {
        OK(cuMemAllocAsync(&memory, 4 << 20, a));
        fill(a, memory, 1);
        OK(cuMemFreeAsync(memory, a));
        join(a, b);
        OK(cuMemAllocAsync(&memory, 4 << 20, b));
        fill(b, memory, 2 + i);
        copy(b, out, memory);
        OK(cuMemFreeAsync(memory, b));
        join(b, a);
    }
    must_hold(out, 5);
}

PROGRAM(ordered, freed_large_without_an_event, RIGHT,
        "one that is not behind the free gets other memory, or that behind a wait")
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory, out = new_memory();

    for (unsigned i = 0; i < 4; i++) {
        OK(cuMemAllocAsync(&memory, 4 << 20, a));
        fill(a, memory, 1);
        OK(cuMemFreeAsync(memory, a));
        OK(cuMemAllocAsync(&memory, 4 << 20, b));
        fill(b, memory, 2 + i);
        copy(b, out, memory);
        OK(cuMemFreeAsync(memory, b));
    }
    must_hold(out, 5);
}

PROGRAM(ordered, used_beside_its_reuse, RACE,
        "a third stream's use is in order with neither the free nor the next owner")
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr memory;

    OK(cuMemAllocAsync(&memory, 4 << 20, a));
    join(a, c);
    fill(c, memory, 1);
    forgive();
    OK(cuMemFreeAsync(memory, a));
    join(a, b);
    OK(cuMemAllocAsync(&memory, 4 << 20, b));
    fill(b, memory, 2);
    OK(cuCtxSynchronize());
}
