/*
 * sim_pool_threads.c - proves that threads may free into one pool and take from it at
 * once: no thread gets memory by a free that has no place in its stream yet. The same of
 * a graph's memory, which one thread frees while another tries to launch.
 */
#include <stdatomic.h>

#include "sim_helpers.h"

#define THREADS  4
#define BLOCK    (4 * GS_MIB)
#define TAKES    200000
#define LAUNCHES 50000

/* And no longer than that: threads that spin give way late on a busy machine. */
#define SECONDS 3

static bool is_late(const struct timespec *since)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - since->tv_sec > SECONDS;
}

struct team {
    CUcontext context;
    CUmemoryPool pool;
    CUstream streams[THREADS];
    atomic_uint taken;
    struct timespec since;
};

struct member {
    struct team *team;
    CUstream stream;
    pthread_t thread;
};

/* A device of two blocks and a pool that keeps them: there is always a thread for which
 * there is no memory but what another one is freeing. */
static void team_make(struct team *team)
{
    const CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    cuuint64_t all = UINT64_MAX;

    *team = (struct team){.taken = 0};
    team->context = sim_test_start("1", "8M");
    ok(cuMemPoolCreate(&team->pool, &props));
    ok(cuMemPoolSetAttribute(team->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    for (size_t i = 0; i < THREADS; i++)
        ok(cuStreamCreate(&team->streams[i], CU_STREAM_NON_BLOCKING));
    clock_gettime(CLOCK_MONOTONIC, &team->since);
}

/* The threads have so many streams between them. */
static void team_run(struct team *team, size_t streams, void *(*work)(void *member))
{
    struct member members[THREADS];

    for (size_t i = 0; i < THREADS; i++) {
        members[i] = (struct member){team, team->streams[i % streams], 0};
        cr_assert_eq(pthread_create(&members[i].thread, NULL, work, &members[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(members[i].thread, NULL);
    ok(cuCtxSynchronize());
}

static void *take_and_free(void *argument)
{
    const struct member *member = argument;
    struct team *team = member->team;
    CUdeviceptr block;

    ok(cuCtxSetCurrent(team->context));
    while (atomic_fetch_add(&team->taken, 1) < TAKES && !is_late(&team->since)) {
        CUresult res;
        while (
            (res = cuMemAllocFromPoolAsync(&block, BLOCK, team->pool, member->stream)) ==
            CUDA_ERROR_OUT_OF_MEMORY)
            ;
        cr_assert_eq(res, CUDA_SUCCESS);
        ok(cuMemsetD32Async(block, 1, 1, member->stream));
        ok(cuMemFreeAsync(block, member->stream));
    }
    return NULL;
}

static void take_in(size_t streams)
{
    cuuint64_t used = 1;
    struct team team;

    team_make(&team);
    team_run(&team, streams, take_and_free);
    ok(cuMemPoolGetAttribute(team.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    cr_assert_eq(used, 0);
    ok(cuMemPoolDestroy(team.pool));
    cr_assert_eq(sim_test_free_bytes(), 8 * GS_MIB);
}

Test(sim_pool_threads, take_what_others_free_in_one_stream, .timeout = 300)
{
    take_in(1);
}

Test(sim_pool_threads, take_what_others_free_in_their_streams, .timeout = 300)
{
    take_in(THREADS);
}

/* A graph that allocates a block, and the stream it is launched into. */
struct graph_bed {
    CUcontext context;
    CUgraphExec exec;
    CUdeviceptr block;
    CUstream stream;
    atomic_int launched; /* 1: there is something to free; 2: no more will come */
};

static void graph_bed_make(struct graph_bed *bed)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = BLOCK};
    CUgraphNode node;
    CUgraph graph;

    *bed = (struct graph_bed){.context = sim_test_start("1", "8M")};
    ok(cuStreamCreate(&bed->stream, CU_STREAM_NON_BLOCKING));
    ok(cuGraphCreate(&graph, 0));
    ok(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    ok(cuGraphInstantiate(&bed->exec, graph, 0));
    bed->block = params.dptr;
}

static void *free_what_is_launched(void *argument)
{
    struct graph_bed *bed = argument;
    int now;

    ok(cuCtxSetCurrent(bed->context));
    while ((now = atomic_load(&bed->launched)) < 2) {
        if (now != 1)
            continue;
        atomic_store(&bed->launched, 0);
        ok(cuMemFreeAsync(bed->block, bed->stream));
    }
    return NULL;
}

Test(sim_pool_threads, launch_again_what_others_free, .timeout = 300)
{
    struct graph_bed bed;
    struct timespec since;
    pthread_t thread;

    graph_bed_make(&bed);
    clock_gettime(CLOCK_MONOTONIC, &since);
    cr_assert_eq(pthread_create(&thread, NULL, free_what_is_launched, &bed), 0);
    for (int i = 0; i < LAUNCHES && !is_late(&since); i++) {
        CUresult res = cuGraphLaunch(bed.exec, bed.stream);
        while (res == CUDA_ERROR_INVALID_VALUE) /* it is not free yet */
            res = cuGraphLaunch(bed.exec, bed.stream);
        cr_assert_eq(res, CUDA_SUCCESS);
        ok(cuMemsetD32Async(bed.block, 1, 1, bed.stream));
        atomic_store(&bed.launched, 1);
    }
    while (atomic_load(&bed.launched) == 1)
        ;
    atomic_store(&bed.launched, 2);
    pthread_join(thread, NULL);
    ok(cuCtxSynchronize());
}
