/*
 * deadlock.c - programs in which the device waits for the host while the host allocates
 * and frees: what native serves at once must not wait, in any mode, whatever is cached.
 *
 * Each says what native does. A program whose free would block natively lets its kernel
 * go first unless frees wait for nothing (GPUSHIM_FREE_SYNC=lazy); that a native free
 * does block is waits.native_free_does. Source: docs/free.md; rule L3.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "order.h"

#define SMALL ((size_t)8192)
#define LARGE ((size_t)4 << 20)
#define MIB   ((size_t)1 << 20)
/* 64 MiB, of which modules and small blocks take a few. */
#define SMALL_DEVICE "CUDASIM_MEMORY=64M"

/* Something that is freed, and so idle in a pool, while the device does nothing. */
static void leave_idle(size_t bytes)
{
    CUdeviceptr block = new_block(bytes);

    OK(cuCtxSynchronize());
    OK(cuMemFree(block));
}

/* Native has the memory at once. A pool that has it idle, in pieces that the driver takes
 * back behind running work only, may refuse for want of GPUSHIM_POOL_WAIT; never hang. */
static void ask_for(size_t bytes)
{
    CUdeviceptr block;
    CUresult got = cuMemAlloc(&block, bytes);

    if (got != CUDA_ERROR_OUT_OF_MEMORY || !getenv("GPUSHIM_POOL_WAIT"))
        OK(got);
}

/* ---- a kernel that waits for the host -------------------------------------------------
 */

PROGRAM(deadlock, flag_after_a_hit, RIGHT, "native: the allocation returns at once")
{
    uint32_t *flag = new_flag();

    leave_idle(SMALL);
    leave_idle(LARGE);
    wait_for(new_stream(), flag);
    new_block(SMALL);
    new_block(LARGE);
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM(deadlock, flag_after_a_miss, RIGHT, "native: returns at once")
{
    uint32_t *flag = new_flag();

    wait_for(NULL, flag);
    for (unsigned i = 0; i < 6; i++) {
        new_block(SMALL << i);
        new_block(LARGE << i);
    }
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM(deadlock, flag_after_a_free, RIGHT, "native: the free of other memory waits")
{
    uint32_t *flag = new_flag();
    CUdeviceptr small = new_block(SMALL), large = new_block(LARGE);

    wait_for(new_stream(), flag);
    if (!free_is_lazy())
        set_flag(flag);
    OK(cuMemFree(small));
    OK(cuMemFree(large));
    new_block(SMALL);
    new_block(LARGE);
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM(deadlock, flag_after_many_frees, RIGHT, "the same, epoch after epoch")
{
    uint32_t *flag = new_flag();

    wait_for(NULL, flag);
    if (!free_is_lazy())
        set_flag(flag);
    for (unsigned i = 0; i < 600; i++)
        OK(cuMemFree(new_block(i % 50 ? SMALL : LARGE)));
    set_flag(flag);
    OK(cuCtxSynchronize());
}

/* ---- a full device -------------------------------------------------------------------
 */

PROGRAM_WITH(deadlock, out_of_memory, RIGHT, "native: out of memory, at once",
             SMALL_DEVICE)
{
    CUdeviceptr block = new_block(40 * MIB);
    uint32_t *flag = new_flag();

    wait_for(new_stream(), flag);
    CODE(cuMemAlloc(&block, 40 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(deadlock, full_out_of_memory, RIGHT,
             "native: out of memory at once, though other memory was freed before",
             SMALL_DEVICE)
{
    CUdeviceptr block = new_block(40 * MIB);
    uint32_t *flag = new_flag();

    leave_idle(8 * MIB);
    wait_for(new_stream(), flag);
    CODE(cuMemAlloc(&block, 40 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    set_flag(flag);
    OK(cuCtxSynchronize());
}

/* The free has waited, and the device had no room for as much again beside it. */
PROGRAM_WITH(deadlock, full_of_idle_memory, RIGHT,
             "native: served at once from what was freed before, in another size",
             SMALL_DEVICE)
{
    CUdeviceptr block;
    uint32_t *flag = new_flag();

    leave_idle(40 * MIB);
    wait_for(new_stream(), flag);
    if (free_is_lazy())
        ask_for(48 * MIB);
    else
        OK(cuMemAlloc(&block, 48 * MIB));
    set_flag(flag);
    OK(cuCtxSynchronize());
}

/* As a framework does it: it frees what it has cached, and asks again. `meanwhile`: what
 * happens in between. */
static void ask_again(void (*meanwhile)(void))
{
    CUdeviceptr block, cached[12];
    uint32_t *flag = new_flag();

    for (unsigned i = 0; i < 12; i++)
        cached[i] = new_block(4 * MIB);
    CODE(cuMemAlloc(&block, 40 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    if (meanwhile)
        meanwhile();
    for (unsigned i = 0; i < 12; i++)
        OK(cuMemFree(cached[i]));
    wait_for(new_stream(), flag);
    if (free_is_lazy()) /* a free did not wait, nor did it give anything back */
        set_flag(flag);
    OK(cuMemAlloc(&block, 40 * MIB));
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(deadlock, asked_again_after_a_refusal, RIGHT,
             "native: served at once from what was freed since, whatever runs by then",
             SMALL_DEVICE)
{
    ask_again(NULL);
}

static void collect_garbage(void)
{
    nap_ms(600);
    nap_ms(600);
}

PROGRAM_WITH(deadlock, asked_again_long_after_a_refusal, RIGHT,
             "native: the same, though it takes long to free", SMALL_DEVICE)
{
    ask_again(collect_garbage);
}

/* In segments of their own, and in one that is shared. */
static void ask_for_little(void)
{
    new_block(4096);
    new_block(2 * MIB);
}

PROGRAM_WITH(deadlock, asked_again_after_smaller_ones, RIGHT,
             "native: the same, and smaller requests are served in between", SMALL_DEVICE)
{
    ask_again(ask_for_little);
}

PROGRAM_WITH(deadlock, full_of_small_idle_memory, RIGHT,
             "native: the same, and what was freed are small blocks", SMALL_DEVICE)
{
    CUdeviceptr blocks[40];
    uint32_t *flag = new_flag();

    for (unsigned i = 0; i < 40; i++)
        blocks[i] = new_block(MIB);
    for (unsigned i = 0; i < 40; i++)
        OK(cuMemFree(blocks[i]));
    wait_for(new_stream(), flag);
    ask_for(48 * MIB);
    set_flag(flag);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(deadlock, full_but_for_a_small_piece, RIGHT,
             "native: served at once from among small pieces", SMALL_DEVICE)
{
    CUdeviceptr block;
    size_t pitch;
    uint32_t *flag = new_flag();

    OK(cuMemAllocPitch(&block, &pitch, 512, 1, 4));
    while (cuMemAlloc(&block, 2 * MIB) == CUDA_SUCCESS)
        ;
    wait_for(new_stream(), flag);
    OK(cuMemAlloc(&block, 16384));
    OK(cuMemAlloc(&block, SMALL));
    set_flag(flag);
    OK(cuMemFree(block));
    OK(cuCtxSynchronize());
    OK(cuMemAlloc(&block, SMALL));
}

/* ---- host functions ------------------------------------------------------------------
 */

static void CUDA_CB await(void *flag)
{
    while (!__atomic_load_n((uint32_t *)flag, __ATOMIC_ACQUIRE))
        nap_ms(1);
}

PROGRAM(deadlock, host_function_waits, RIGHT, "native: allocations return at once")
{
    uint32_t *flag = new_flag();

    leave_idle(SMALL);
    OK(cuLaunchHostFunc(new_stream(), await, flag));
    new_block(SMALL);
    new_block(LARGE);
    set_flag(flag);
    OK(cuCtxSynchronize());
}

struct there {
    CUdeviceptr block, other;
    CUresult freed, got;
};

static void CUDA_CB allocate_and_free(void *argument)
{
    struct there *there = argument;

    there->freed = cuMemFree(there->block);
    there->got = cuMemAlloc(&there->other, 512 * MIB);
}

PROGRAM(deadlock, host_function_allocates, RIGHT, "native: both are refused")
{
    struct there there = {.block = new_block(SMALL)};

    OK(cuLaunchHostFunc(new_stream(), allocate_and_free, &there));
    OK(cuCtxSynchronize());
    must(there.got == CUDA_ERROR_NOT_PERMITTED, "the allocation is refused");
    must(free_is_lazy() || there.freed == CUDA_ERROR_NOT_PERMITTED,
         "the free is refused, unless it waits for nothing");
    if (there.freed != CUDA_SUCCESS)
        OK(cuMemFree(there.block));
}

/* ---- kernels that need each other ----------------------------------------------------
 */

/* As a collective does: neither ends before the other has begun. */
static void meet_first(CUstream stream, uint32_t *flags)
{
    OK(cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)&flags[0], 1, 0));
    wait_for(stream, &flags[1]);
}

static void meet_second(CUstream stream, uint32_t *flags)
{
    OK(cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)&flags[1], 1, 0));
    wait_for(stream, &flags[0]);
}

static uint32_t *new_flags(void)
{
    uint32_t *flags;

    OK(cuMemHostAlloc((void **)&flags, BYTES, CU_MEMHOSTALLOC_PORTABLE));
    flags[0] = flags[1] = 0;
    return flags;
}

PROGRAM(deadlock, pair_of_streams, RIGHT, "native: allocations between the two return")
{
    CUstream a = new_stream(), b = new_stream();
    uint32_t *flags = new_flags();

    leave_idle(LARGE);
    meet_first(a, flags);
    CUdeviceptr block = new_block(SMALL);
    new_block(LARGE);
    new_block(LARGE);
    meet_second(b, flags);
    fill(b, block, 1);
    must_hold(block, 1);
}

PROGRAM_WITH(deadlock, pair_of_devices, RIGHT, "native: on either device, too",
             "CUDASIM_DEVICES=2")
{
    uint32_t *flags = new_flags();
    CUstream a = new_stream(), b;
    CUcontext second;
    CUdevice device;

    OK(cuDeviceGet(&device, 1));
    OK(cuDevicePrimaryCtxRetain(&second, device));
    meet_first(a, flags);
    new_block(SMALL);
    OK(cuCtxSetCurrent(second));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CUdeviceptr block = new_block(SMALL);
    new_block(LARGE);
    OK(cuStreamWriteValue32(b, (CUdeviceptr)(uintptr_t)&flags[1], 1, 0));
    OK(cuStreamSynchronize(b));
    OK(cuMemFree(block));
    OK(cuCtxSetCurrent(world_context()));
    OK(cuCtxSynchronize());
}

PROGRAM(deadlock, pair_of_processes, RIGHT, "native: nor for another process's kernel")
{
    uint32_t *flag =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;

    must(flag != MAP_FAILED, "there is memory");
    OK(cuMemHostRegister(flag, 4096, 0));
    pid_t other = fork();
    if (other == 0) { /* what its kernel would write */
        nap_ms(20);
        set_flag(flag);
        _exit(0);
    }
    wait_for(new_stream(), flag);
    new_block(SMALL);
    new_block(LARGE);
    must(waitpid(other, &status, 0) == other, "the other process ends");
    OK(cuCtxSynchronize());
    OK(cuMemHostUnregister(flag));
}

/* ---- threads -------------------------------------------------------------------------
 */

static void allocate_and_release(void *flag)
{
    CUstream stream = new_stream();

    nap_ms(10);
    CUdeviceptr small = new_block(SMALL), large = new_block(LARGE);
    fill(stream, small, 1);
    fill(stream, large, 2);
    OK(cuStreamSynchronize(stream));
    set_flag(flag);
}

PROGRAM(deadlock, free_waits_for_who_allocates, RIGHT,
        "native: one thread's free waits, another's allocations do not")
{
    CUdeviceptr small = new_block(SMALL), large = new_block(LARGE);
    uint32_t *flag = new_flag();

    leave_idle(LARGE);
    wait_for(new_stream(), flag);
    struct worker *worker = start_worker(allocate_and_release, flag);
    OK(cuMemFree(small));
    OK(cuMemFree(large));
    join_worker(worker);
    OK(cuCtxSynchronize());
}

static void capture_and_release(void *flag)
{
    CUstream stream = new_stream();
    CUgraphExec ready;
    CUgraph graph;

    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)flag, 1, 0));
    nap_ms(5);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&ready, graph, 0));
    OK(cuGraphLaunch(ready, stream));
    OK(cuStreamSynchronize(stream));
}

PROGRAM(deadlock, allocated_beside_a_capture, RIGHT,
        "native: allocations go on while another thread captures")
{
    uint32_t *flag = new_flag();

    leave_idle(LARGE);
    wait_for(new_stream(), flag);
    struct worker *worker = start_worker(capture_and_release, flag);
    for (unsigned i = 0; i < 8; i++) {
        new_block(SMALL);
        new_block(LARGE);
    }
    join_worker(worker);
    OK(cuCtxSynchronize());
}

PROGRAM(deadlock, freed_beside_a_capture, RIGHT,
        "native: a free beside a capture waits until the captured graph has run")
{
    CUdeviceptr small = new_block(SMALL), large = new_block(LARGE);
    uint32_t *flag = new_flag();

    wait_for(new_stream(), flag);
    struct worker *worker = start_worker(capture_and_release, flag);
    OK(cuMemFree(small));
    OK(cuMemFree(large));
    join_worker(worker);
    OK(cuCtxSynchronize());
}
