/*
 * single_order.c - programs that use one stream, or the legacy stream and one blocking
 * stream, and then something else: in the lazy mode freed blocks have new owners at once,
 * until that.
 *
 * Each frees so many small blocks that the frees are marked, and gets as many again. In
 * the lazy mode the first to come back must be among those freed: the rule is in use.
 * Source: docs/free.md, "Lazy", rule L5; shim/order/single_order.c.
 */
#include <dlfcn.h>
#include <string.h>

#include "order.h"

#define BLOCK ((size_t)8192)
/* Frees that make an epoch (shim/state/epochs.h). */
#define MANY         128
#define SMALL_DEVICE "CUDASIM_MEMORY=64M"

struct blocks {
    CUdeviceptr of[MANY];
};

static void get_all(struct blocks *blocks)
{
    for (unsigned i = 0; i < MANY; i++)
        OK(cuMemAlloc(&blocks->of[i], BLOCK));
}

/* Every one: they come back in any order. */
static void fill_all(CUstream stream, const struct blocks *blocks)
{
    for (unsigned i = 0; i < MANY; i++)
        fill(stream, blocks->of[i], 1);
}

static void fill_some(CUstream stream, const struct blocks *blocks, uint32_t seed)
{
    for (unsigned i = 0; i < MANY; i += 8)
        fill(stream, blocks->of[i], seed + i);
}

static void must_hold_some(const struct blocks *blocks, uint32_t seed)
{
    for (unsigned i = 0; i < MANY; i += 8)
        must_hold(blocks->of[i], seed + i);
}

static void free_all(const struct blocks *blocks)
{
    for (unsigned i = 0; i < MANY; i++)
        OK(cuMemFree(blocks->of[i]));
}

static bool is_among(CUdeviceptr block, const struct blocks *blocks)
{
    for (unsigned i = 0; i < MANY; i++) {
        if (blocks->of[i] == block)
            return true;
    }
    return false;
}

/* Blocks that `stream` still writes when they are freed and got again. */
static void reuse(CUstream stream, struct blocks *blocks)
{
    struct blocks before;

    get_all(blocks);
    before = *blocks;
    fill_all(stream, blocks);
    free_all(blocks);
    get_all(blocks);
    if (free_is_lazy())
        must(is_among(blocks->of[0], &before), "a freed block is used again at once");
}

/* ---- while it holds -----------------------------------------------------------------
 */

PROGRAM(order, one_stream, RIGHT, "the legacy stream alone")
{
    struct blocks blocks;

    reuse(NULL, &blocks);
    fill_some(NULL, &blocks, 2);
    must_hold_some(&blocks, 2);
}

PROGRAM(order, two_streams, RIGHT, "the legacy stream and one that waits for it")
{
    CUstream stream = blocking_stream();
    struct blocks blocks;

    reuse(stream, &blocks);
    fill_some(NULL, &blocks, 2);
    must_hold_some(&blocks, 2);
    free_all(&blocks);
    reuse(NULL, &blocks);
    fill_some(stream, &blocks, 3);
    must_hold_some(&blocks, 3);
}

PROGRAM(order, many_rounds, RIGHT, "round after round, with work in all of them")
{
    struct blocks blocks;

    for (unsigned i = 0; i < 6; i++) {
        reuse(NULL, &blocks);
        free_all(&blocks);
    }
}

PROGRAM(order, copied_to, RIGHT, "a synchronous copy from the host is work of the stream")
{
    CUstream stream = blocking_stream();
    uint32_t words[WORDS] = {0};
    struct blocks blocks;

    reuse(stream, &blocks);
    for (unsigned i = 0; i < MANY; i += 8)
        OK(cuMemcpyHtoD(blocks.of[i], words, BYTES));
    for (unsigned i = 0; i < MANY; i += 8)
        OK(cuMemcpyDtoH(words, blocks.of[i], BYTES));
    must(words[1] == 0, "what was copied is there");
}

/* ---- what ends it -------------------------------------------------------------------
 */

PROGRAM(order, second_stream, RIGHT, "a stream of another kind beside the first")
{
    CUstream stream = blocking_stream();
    struct blocks blocks;

    reuse(stream, &blocks);
    fill_some(new_stream(), &blocks, 2);
    must_hold_some(&blocks, 2);
}

PROGRAM(order, second_blocking_stream, RIGHT, "two blocking streams have no order")
{
    CUstream stream = blocking_stream();
    struct blocks blocks;

    reuse(stream, &blocks);
    fill_some(blocking_stream(), &blocks, 2);
    must_hold_some(&blocks, 2);
}

PROGRAM(order, non_blocking_stream, RIGHT,
        "the first stream that is made has none either")
{
    struct blocks blocks;

    reuse(NULL, &blocks);
    fill_some(new_stream(), &blocks, 2);
    must_hold_some(&blocks, 2);
}

PROGRAM(order, per_thread_stream, RIGHT,
        "nor has a per-thread stream, with a blocking one")
{
    CUstream stream = blocking_stream();
    struct blocks blocks;

    reuse(stream, &blocks);
    fill_some(CU_STREAM_PER_THREAD, &blocks, 2);
    must_hold_some(&blocks, 2);
}

PROGRAM(order, overlapping_launch, RIGHT,
        "nor a launch that need not wait for the last one")
{
    struct blocks blocks, before;

    get_all(&before);
    fill(NULL, before.of[0], 1);
    free_all(&before);
    get_all(&blocks);
    for (unsigned i = 0; i < MANY; i++)
        overlapping_fill(NULL, blocks.of[i], 2);
    must_hold(blocks.of[0], 2);
}

PROGRAM(order, second_context, RIGHT, "the streams of two contexts have no order")
{
    struct blocks blocks;

    reuse(NULL, &blocks);
    (void)new_context();
    for (unsigned i = 0; i < MANY; i += 8)
        OK(cuMemsetD32Async(blocks.of[i], 7, WORDS, NULL));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(world_context()));
}

PROGRAM(order, newest_mark, RIGHT, "its end is behind what was freed last")
{
    CUstream stream = blocking_stream();
    struct blocks blocks;

    reuse(stream, &blocks);
    OK(cuStreamSynchronize(stream));
    fill_all(stream, &blocks);
    free_all(&blocks);
    get_all(&blocks);
    fill_some(new_stream(), &blocks, 3);
    must_hold_some(&blocks, 3);
}

/* ---- memory that is used without a stream --------------------------------------------
 */

static void must_be_quiet(void)
{
    CUresult code = cuStreamQuery(NULL);

    must(!free_is_lazy() || code == CUDA_SUCCESS, "nothing is written any more");
}

PROGRAM(order, exported, RIGHT, "exported memory is another process's to use")
{
    CUresult (*get)(CUipcMemHandle *, CUdeviceptr);
    CUipcMemHandle handle;
    struct blocks blocks;
    void *found;

    /* Not by a symbol of this program: its small blocks would not be pooled. */
    found = dlsym(RTLD_DEFAULT, "cuIpcGetMemHandle");
    memcpy(&get, &found, sizeof(get));
    reuse(NULL, &blocks);
    OK(get(&handle, blocks.of[0]));
    must_be_quiet();
}

PROGRAM(order, registered, RIGHT, "memory set up for a peer device is that device's")
{
    struct blocks blocks;
    int on = 1;

    reuse(NULL, &blocks);
    OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, blocks.of[0]));
    must_be_quiet();
}

PROGRAM(order, transport_is_loaded, RIGHT,
        "a library that reaches device memory by itself")
{
    struct blocks blocks;
    void *library;

    reuse(NULL, &blocks);
    library = dlopen(TRANSPORT, RTLD_NOW | RTLD_LOCAL);
    must(library && dlsym(library, "gs_transport"), "the library is there");
    must_be_quiet();
}

/* ---- no wait that native does not make -----------------------------------------------
 */

static void release_by_a_stream(void *flag)
{
    nap_ms(20);
    OK(cuStreamWriteValue32(new_stream(), (CUdeviceptr)(uintptr_t)flag, 1, 0));
}

/* Natively the first free waits, and the other thread ends that. */
PROGRAM(order, ended_by_who_ends_the_kernel, RIGHT,
        "the thread that makes a second stream is waited for by the kernel")
{
    uint32_t *flag = new_pinned();
    struct blocks blocks;

    *flag = 0;
    get_all(&blocks);
    wait_for(NULL, flag);
    struct worker *worker = start_worker(release_by_a_stream, flag);
    free_all(&blocks);
    get_all(&blocks);
    join_worker(worker);
    OK(cuCtxSynchronize());
}

PROGRAM_WITH(order, marked_by_an_allocation, RIGHT,
             "a kernel that came behind the frees is not waited for", SMALL_DEVICE)
{
    uint32_t *flag = new_pinned();
    CUdeviceptr block, other;

    *flag = 0;
    OK(cuMemAlloc(&block, 2 << 20));
    fill(NULL, block, 1);
    OK(cuMemFree(block));
    wait_for(NULL, flag);
    OK(cuMemAlloc(&other, 50 << 20)); /* now the block is much of what is free */
    OK(cuMemAlloc(&block, 2 << 20));
    CUstream stream = new_stream();
    OK(cuStreamWriteValue32(stream, (CUdeviceptr)(uintptr_t)flag, 1, 0));
    OK(cuCtxSynchronize());
}
