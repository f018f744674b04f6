/*
 * graph_memory.c - memory of graphs: its pool, its record, its two states.
 * Owns:  a pool per device, made at first use.   Lock: pools_lock; changes_lock for the
 * order of changes.
 */
#include "graph_memory.h"

#include <stdlib.h>

#include "config.h"
#include "context.h"
#include "op.h"
#include "pool.h"
#include "stream.h"

static struct sim_pool *pools[SIM_MAX_DEVICES]; /* pools_lock; never destroyed */
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t changes_lock = PTHREAD_MUTEX_INITIALIZER;

struct sim_pool *sim_graph_memory_pool(int device)
{
    pthread_mutex_lock(&pools_lock);
    if (!pools[device]) {
        struct sim_pool *pool;
        if (sim_pool_create(device, true, 0, &pool) == CUDA_SUCCESS) {
            atomic_store(&pool->release_threshold, UINT64_MAX);
            pools[device] = pool;
        }
    }
    struct sim_pool *found = pools[device];
    pthread_mutex_unlock(&pools_lock);
    return found;
}

CUresult sim_graph_memory_new(int device, size_t bytes, struct sim_context *context,
                              struct sim_graph_memory **out)
{
    const struct sim_allocation allocation = {SIM_MEMORY_POOL, context,
                                              sim_context_id(context)};
    struct sim_pool *pool = sim_graph_memory_pool(device);
    struct sim_graph_memory *memory = calloc(1, sizeof(*memory));
    CUresult res = CUDA_ERROR_OUT_OF_MEMORY;

    if (pool && memory) {
        res = sim_heap_alloc(&pool->heap, bytes, true, &allocation, &memory->alloc);
        if (res != CUDA_SUCCESS) { /* what lies idle in smaller pieces goes back first */
            sim_heap_trim(&pool->heap, 0);
            res = sim_heap_alloc(&pool->heap, bytes, true, &allocation, &memory->alloc);
        }
    }
    if (res != CUDA_SUCCESS) {
        free(memory);
        return res;
    }
    atomic_init(&memory->refs, 1);
    memory->alloc->graph = memory;
    memory->alloc->pool = pool;
    sim_object_ref(&pool->object);
    *out = memory;
    return CUDA_SUCCESS;
}

void sim_graph_memory_ref(struct sim_graph_memory *memory)
{
    atomic_fetch_add_explicit(&memory->refs, 1, memory_order_relaxed);
}

void sim_graph_memory_unref(struct sim_graph_memory *memory)
{
    if (atomic_fetch_sub_explicit(&memory->refs, 1, memory_order_acq_rel) != 1)
        return;
    struct sim_pool *pool = memory->alloc->pool;
    bool ended = sim_heap_free(memory->alloc);
    (void)ended; /* nobody else ends memory of a graph */
    sim_memory_unref(memory->alloc);
    sim_pool_put(pool);
}

struct sim_graph_memory *sim_graph_memory_find(uintptr_t address)
{
    struct sim_graph_memory *found = NULL;
    struct sim_alloc *alloc = sim_memory_find(address);

    if (!alloc)
        return NULL;
    if (alloc->graph && alloc->base == address) {
        unsigned refs = atomic_load(&alloc->graph->refs);
        while (refs > 0 &&
               !atomic_compare_exchange_weak(&alloc->graph->refs, &refs, refs + 1))
            ;
        if (refs > 0) /* otherwise it is going away */
            found = alloc->graph;
    }
    sim_memory_unref(alloc);
    return found;
}

static CUresult run_change(struct sim_op *op)
{
    struct sim_graph_memory *memory = op->graph.memory;

    atomic_store_explicit(&memory->mapped, op->graph.maps, memory_order_release);
    if (!op->graph.maps)
        sim_graph_memory_unref(memory); /* what "expected" held */
    return CUDA_SUCCESS;
}

struct sim_op *sim_graph_memory_op(enum sim_api api, struct sim_graph_memory *memory,
                                   bool maps)
{
    struct sim_op *op = sim_op_new(SIM_OP_GRAPH_MEMORY, api, run_change);

    if (!op)
        return NULL;
    sim_graph_memory_ref(memory);
    op->run_on_error = true;
    op->graph = (struct sim_graph_change){.memory = memory, .maps = maps};
    return op;
}

void sim_graph_memory_lock(void)
{
    pthread_mutex_lock(&changes_lock);
}

void sim_graph_memory_unlock(void)
{
    pthread_mutex_unlock(&changes_lock);
}

bool sim_graph_memory_expect(struct sim_graph_memory *memory, bool allocated)
{
    bool before = !allocated;

    if (!atomic_compare_exchange_strong(&memory->expected, &before, allocated))
        return false;
    if (allocated)
        sim_graph_memory_ref(memory);
    return true;
}

void sim_graph_memory_unexpect(const struct sim_op *op)
{
    if (sim_graph_memory_expect(op->graph.memory, !op->graph.maps))
        sim_graph_memory_unref(op->graph.memory); /* either way one too many */
}

CUresult sim_graph_memory_free_async(enum sim_api api, struct sim_graph_memory *memory,
                                     struct sim_stream *stream)
{
    struct sim_op *op = sim_graph_memory_op(api, memory, false);
    CUresult res = CUDA_ERROR_INVALID_VALUE;

    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_graph_memory_lock();
    if (sim_graph_memory_expect(memory, false)) {
        res = sim_submit(stream, op);
        if (res != CUDA_SUCCESS)
            sim_graph_memory_unexpect(op);
    }
    sim_graph_memory_unlock();
    sim_op_unref(op);
    return res;
}

bool sim_graph_memory_free_now(struct sim_graph_memory *memory)
{
    sim_graph_memory_lock();
    bool freed = sim_graph_memory_expect(memory, false);
    if (freed)
        atomic_store_explicit(&memory->mapped, false, memory_order_release);
    sim_graph_memory_unlock();
    if (freed)
        sim_graph_memory_unref(memory);
    return freed;
}
