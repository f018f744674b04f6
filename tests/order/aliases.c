/*
 * aliases.c - one memory at two addresses: mapped twice, or bound to a multicast object.
 * Source: Driver API, "Virtual Memory Management", "Multicast Object Management".
 */
#include "order.h"

#define UNIT ((size_t)2 << 20)

static CUmemGenericAllocationHandle new_physical(CUdevice device)
{
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemGenericAllocationHandle handle;

    OK(cuMemCreate(&handle, UNIT, &prop, 0));
    return handle;
}

/* An address of it, open to device 0. */
static CUdeviceptr map_again(CUmemGenericAllocationHandle handle)
{
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address;

    OK(cuMemAddressReserve(&address, UNIT, 0, 0, 0));
    OK(cuMemMap(address, UNIT, 0, handle, 0));
    OK(cuMemSetAccess(address, UNIT, &access, 1));
    return address;
}

PROGRAM(aliases, without_order, RACE, "two addresses of the same bytes")
{
    CUmemGenericAllocationHandle handle = new_physical(0);
    CUdeviceptr memory = map_again(handle), again = map_again(handle);
    CUstream a = new_stream(), b = new_stream();

    fill(a, memory + 4096, 1);
    copy(b, new_memory(), again + 4096);
    OK(cuCtxSynchronize());
}

PROGRAM(aliases, behind_an_event, RIGHT, "an event orders them as it does one address")
{
    CUmemGenericAllocationHandle handle = new_physical(0);
    CUdeviceptr memory = map_again(handle), again = map_again(handle);
    CUdeviceptr out = new_memory();
    CUstream a = new_stream(), b = new_stream();

    fill(a, memory + 4096, 1);
    join(a, b);
    copy(b, out, again + 4096);
    fill(a, memory, 2); /* other bytes */
    must_hold(out, 1);
}

PROGRAM(aliases, of_other_memory, RIGHT, "two mappings that share nothing")
{
    CUdeviceptr memory = map_again(new_physical(0)), other = map_again(new_physical(0));
    CUstream a = new_stream(), b = new_stream();

    fill(a, memory, 1);
    fill(b, other, 2);
    must_hold(memory, 1);
    must_hold(other, 2);
}

PROGRAM(aliases, one_unmapped, RACE, "the other address goes on, and so does the work")
{
    CUmemGenericAllocationHandle handle = new_physical(0);
    CUdeviceptr memory = map_again(handle), again = map_again(handle);
    CUstream a = new_stream(), b = new_stream();

    fill(a, memory, 1);
    copy(b, new_memory(), again);
    OK(cuStreamSynchronize(a));
    OK(cuMemUnmap(memory, UNIT));
    OK(cuCtxSynchronize());
}

PROGRAM(aliases, mapped_elsewhere, RIGHT, "behind a wait it may be given another address")
{
    CUmemGenericAllocationHandle handle = new_physical(0);
    CUdeviceptr memory = map_again(handle), out = new_memory();
    CUstream a = new_stream(), b = new_stream();

    fill(a, memory, 1);
    OK(cuStreamSynchronize(a));
    OK(cuMemUnmap(memory, UNIT));
    copy(b, out, map_again(handle));
    must_hold(out, 1);
}

/* A multicast address of two memories, both mapped by themselves, too. */
struct multicast {
    CUdeviceptr all, each[2];
};

static void begin_multicast(struct multicast *multicast)
{
    const CUmulticastObjectProp prop = {.numDevices = 2, .size = UNIT};
    CUmemGenericAllocationHandle object, memory;

    OK(cuMulticastCreate(&object, &prop));
    for (int i = 0; i < 2; i++)
        OK(cuMulticastAddDevice(object, i));
    for (int i = 0; i < 2; i++) {
        memory = new_physical(i);
        OK(cuMulticastBindMem(object, 0, memory, 0, UNIT, 0));
        multicast->each[i] = map_again(memory);
    }
    multicast->all = map_again(object);
}

PROGRAM_WITH(aliases, multicast, RACE, "a write to all is one to each, the second also",
             "CUDASIM_DEVICES=2")
{
    CUstream a = new_stream(), b = new_stream();
    struct multicast multicast;

    begin_multicast(&multicast);
    fill(a, multicast.all, 1);
    copy(b, new_memory(), multicast.each[1]);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(aliases, multicast_behind_an_event, RIGHT, "each is read behind it",
             "CUDASIM_DEVICES=2")
{
    CUdeviceptr outs[2] = {new_memory(), new_memory()};
    CUstream a = new_stream(), b = new_stream();
    struct multicast multicast;

    begin_multicast(&multicast);
    fill(a, multicast.all, 1);
    join(a, b);
    for (unsigned i = 0; i < 2; i++) {
        copy(b, outs[i], multicast.each[i]);
        must_hold(outs[i], 1);
    }
}
