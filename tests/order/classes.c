/*
 * classes.c - devices whose free does not wait for everything: which work it waits for,
 * by kind and size of the memory (gs_free_waits.def). The library is told of the same
 * device.
 *
 * Each program is right on that device. Under the library it shows one of three things:
 * a free waits for what the native one waits for, for nothing more, and what it does not
 * wait for still has its memory.
 * Source: docs/free.md, "What a native free waits for"
 */
#include <time.h>

#include "order.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

/* The device, and the library's word for it. */
#define WAITS(text)    "CUDASIM_FREE_WAITS=" text " GPUSHIM_FREE_WAITS=" text
#define TINY_DOES_NOT  WAITS("device.tiny=none")
#define NONE           WAITS("none")
#define BLOCKING       WAITS("blocking")
#define DEVICE         WAITS("device")
#define UP_TO_1M       WAITS("device=none,device.medium=context,device.large=context")
#define PINNED         WAITS("pinned=none")
#define MANAGED        WAITS("managed.small=none")
#define PINNED_BLOCKED WAITS("pinned=blocking,managed=blocking")

static CUdeviceptr new_block(size_t bytes)
{
    CUdeviceptr block = 0;

    OK(cuMemAlloc(&block, bytes));
    return block;
}

static uint32_t *new_flag(void)
{
    uint32_t *flag = new_pinned();

    *flag = 0;
    return flag;
}

static void set_flag(uint32_t *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

/* ---- no wait too many -------------------------------------------------------------- */

/* A kernel that waits for this thread runs in `stream` while blocks of that size are
 * freed. */
static void free_beside_a_kernel(CUstream stream, size_t bytes)
{
    uint32_t *flag = new_flag();

    wait_for(stream, flag);
    /* What is held back while the kernel runs has to fit the device. */
    for (unsigned i = 0; i < (bytes < MIB ? 200 : 8); i++)
        OK(cuMemFree(new_block(bytes)));
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(classes, tiny_beside_a_persistent_kernel, RIGHT,
             "where small memory's free does not wait, no wait of the library's hangs",
             TINY_DOES_NOT)
{
    free_beside_a_kernel(new_stream(), 4 * KIB);
}

PROGRAM_WITH(classes, sizes_beside_a_persistent_kernel, RIGHT,
             "the same for all memory below 1 MiB", UP_TO_1M)
{
    free_beside_a_kernel(new_stream(), 4 * KIB);
    free_beside_a_kernel(blocking_stream(), 64 * KIB);
    free_beside_a_kernel(NULL, MIB - 512);
}

PROGRAM_WITH(classes, any_beside_a_persistent_kernel, RIGHT, "the same for all memory",
             NONE)
{
    uint32_t *flag = new_flag();
    CUdeviceptr managed;

    wait_for(new_stream(), flag);
    for (unsigned i = 0; i < 8; i++) {
        OK(cuMemFree(new_block(4 * KIB)));
        OK(cuMemFree(new_block(4 * MIB)));
        OK(cuMemFreeHost(new_pinned()));
        OK(cuMemAllocManaged(&managed, 128 * KIB, CU_MEM_ATTACH_GLOBAL));
        OK(cuMemFree(managed));
    }
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(classes, pinned_beside_a_persistent_kernel, RIGHT,
             "where cuMemFreeHost does not wait", PINNED)
{
    uint32_t *flag = new_flag();

    wait_for(new_stream(), flag);
    for (unsigned i = 0; i < 50; i++)
        OK(cuMemFreeHost(new_pinned()));
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(classes, managed_beside_a_persistent_kernel, RIGHT,
             "where the free of managed memory does not wait", MANAGED)
{
    uint32_t *flag = new_flag();
    CUdeviceptr managed;

    wait_for(new_stream(), flag);
    for (unsigned i = 0; i < 8; i++) {
        OK(cuMemAllocManaged(&managed, 128 * KIB, CU_MEM_ATTACH_GLOBAL));
        OK(cuMemFree(managed));
    }
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(classes, beside_a_kernel_that_does_not_block, RIGHT,
             "where a free waits for blocking streams alone", BLOCKING)
{
    free_beside_a_kernel(new_stream(), 4 * KIB);
    free_beside_a_kernel(new_stream(), 4 * MIB);
}

PROGRAM_WITH(classes, host_memory_beside_one_that_does_not_block, RIGHT,
             "the same for pinned and managed memory", PINNED_BLOCKED)
{
    uint32_t *flag = new_flag();
    CUdeviceptr managed;

    wait_for(new_stream(), flag);
    for (unsigned i = 0; i < 8; i++) {
        OK(cuMemFreeHost(new_pinned()));
        OK(cuMemAllocManaged(&managed, 128 * KIB, CU_MEM_ATTACH_GLOBAL));
        OK(cuMemFree(managed));
    }
    set_flag(flag);
    OK(cuCtxSynchronize());
}

struct release {
    CUstream stream;
    uint32_t *flag;
};

/* Work of another blocking stream, which the waiting one needs. */
static void release_it(void *argument)
{
    const struct release *release = argument;

    nanosleep(&(const struct timespec){.tv_nsec = 20000000}, NULL);
    OK(cuStreamWriteValue32(release->stream, (CUdeviceptr)(uintptr_t)release->flag, 1,
                            0));
}

PROGRAM_WITH(classes, blocking_work_given_during_the_wait, RIGHT,
             "a free that waits for blocking streams holds up none of their later work",
             BLOCKING)
{
    CUdeviceptr block = new_memory();
    struct release release = {blocking_stream(), new_flag()};

    wait_for(blocking_stream(), release.flag);
    struct worker *worker = start_worker(release_it, &release);
    OK(cuMemFree(block));
    join_worker(worker);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(classes, blocking_stream_that_ended_is_waited_for, RIGHT,
             "and waits for what a destroyed one still does", BLOCKING)
{
    CUdeviceptr result = new_memory(), out = new_memory(), other = new_memory();
    CUstream stream = blocking_stream();

    fill(stream, result, 3);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(other));
    copy(new_stream(), out, result);
    must_hold(out, 3);
}

static void fill_there(CUstream stream, CUdeviceptr memory)
{
    OK(cuMemsetD32Async(memory, 7, WORDS, stream));
}

/* A single order's end waits for the newest mark (docs/free.md, L5). */
PROGRAM_WITH(classes, order_ends_beside_a_persistent_kernel, RIGHT,
             "a second stream is made while the kernel runs in front of the free", NONE)
{
    uint32_t *flag = new_flag();

    wait_for(NULL, flag);
    for (unsigned i = 0; i < 200; i++)
        OK(cuMemFree(new_block(4 * KIB)));
    CUstream second = new_stream();
    fill_there(second, new_block(4 * KIB));
    OK(cuStreamSynchronize(second));
    set_flag(flag);
    OK(cuCtxSynchronize());
}

/* ---- no wait too few --------------------------------------------------------------- */

/* A result is read in another stream behind the free of other memory. */
static void lean_on_a_free(CUstream stream, size_t bytes)
{
    CUdeviceptr result = new_memory(), out = new_memory(), other = new_block(bytes);

    fill(stream, result, 3);
    OK(cuMemFree(other));
    copy(new_stream(), out, result);
    must_hold(out, 3);
}

PROGRAM_WITH(classes, large_still_waits, RIGHT,
             "where small memory's free does not wait, large memory's does", UP_TO_1M)
{
    lean_on_a_free(new_stream(), MIB);
    lean_on_a_free(new_stream(), 4 * MIB);
}

PROGRAM_WITH(classes, blocking_streams_are_waited_for, RIGHT,
             "where a free waits for blocking streams, it does so here", BLOCKING)
{
    lean_on_a_free(blocking_stream(), 4 * KIB);
    lean_on_a_free(NULL, 4 * MIB);
}

PROGRAM_WITH(classes, device_waits_for_others, RIGHT,
             "where a free waits for its device, it waits for other contexts' work",
             DEVICE)
{
    CUdeviceptr other = new_memory(), result;
    uint32_t words[WORDS];
    CUcontext second = new_context();
    CUstream theirs = new_stream();

    OK(cuMemAlloc(&result, BYTES));
    fill_there(theirs, result);
    OK(cuCtxSetCurrent(world_context()));
    OK(cuMemFree(other));
    OK(cuCtxSetCurrent(second));
    CUstream reader = new_stream();
    OK(cuMemcpyDtoHAsync(words, result, BYTES, reader));
    OK(cuStreamSynchronize(reader));
    must(words[0] == 7 && words[WORDS - 1] == 7,
         "the other context's work was waited for");
}

/* ---- memory ------------------------------------------------------------------------ */

/* Natively the driver may hand the address out at once, so the oracle has no say in what
 * the library does about it: the address does. */
PROGRAM_WITH(classes, tiny_held_behind_its_kernel, RIGHT,
             "what is freed without a wait is no one else's until its kernel has ended",
             TINY_DOES_NOT)
{
    CUdeviceptr block = new_memory();
    uint32_t *flag = new_flag();

    wait_for(new_stream(), flag);
    OK(cuMemFree(block));
    for (unsigned i = 0; i < 3; i++)
        must(new_memory() != block || !under_library(), "the kernel may still use it");
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(classes, pinned_held_behind_its_kernel, RIGHT, "the same for pinned memory",
             PINNED)
{
    uint32_t *block = new_pinned(), *flag = new_flag();

    wait_for(new_stream(), flag);
    OK(cuMemFreeHost(block));
    for (unsigned i = 0; i < 3; i++)
        must(new_pinned() != block || !under_library(), "the kernel may still use it");
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(classes, managed_held_behind_its_kernel, RIGHT,
             "the same for managed memory", WAITS("managed=none"))
{
    uint32_t *flag = new_flag();
    CUdeviceptr block, other;

    OK(cuMemAllocManaged(&block, 4 * KIB, CU_MEM_ATTACH_GLOBAL));
    wait_for(new_stream(), flag);
    OK(cuMemFree(block));
    for (unsigned i = 0; i < 3; i++) {
        OK(cuMemAllocManaged(&other, 4 * KIB, CU_MEM_ATTACH_GLOBAL));
        must(other != block || !under_library(), "the kernel may still use it");
    }
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(classes, held_behind_a_stream_that_does_not_block, RIGHT,
             "the same behind a wait for blocking streams alone", BLOCKING)
{
    CUdeviceptr block = new_memory();
    uint32_t *flag = new_flag();

    wait_for(new_stream(), flag);
    OK(cuMemFree(block));
    for (unsigned i = 0; i < 3; i++)
        must(new_memory() != block || !under_library(), "the kernel may still use it");
    set_flag(flag);
    OK(cuCtxSynchronize());
}
