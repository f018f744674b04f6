/*
 * pool.c - stream-ordered memory pools.
 *
 * An allocation takes its address when it is called. It may be memory whose free has
 * already run, or memory whose free is still queued: on the same stream, which orders the
 * two, or on one whose free this stream is behind by an event or the legacy stream. A
 * free takes its place in the stream and gives the memory back to its pool when it runs;
 * the pool gives units back to the device at the next synchronization.
 *
 * Three attributes forbid some of that (CU_MEMPOOL_ATTR_REUSE_*). Where a completed free
 * alone is no reason for reuse, its memory is freed when it runs: the same stream and
 * those behind the free may have it, everybody once a host thread has waited for it.
 *
 * Owns:  pools.   Lock: pools_lock for the list of pools; space->lock, inside, for a
 * heap. Source: Driver API, "Stream Ordered Memory Allocator"; CUDA Programming Guide,
 * "Disabling Reuse Policies".
 */
#include "pool.h"

#include <stdlib.h>

#include "config.h"
#include "context.h"
#include "device.h"
#include "graph_memory.h"
#include "location.h"
#include "managed.h"
#include "order.h"
#include "stream.h"

/* Pools that are no device's have a slot behind those of the devices. */
#define NO_DEVICE_SLOT SIM_MAX_DEVICES
#define SLOTS          (SIM_MAX_DEVICES + 1)

static struct sim_pool *pools[SLOTS]; /* pools_lock; each with a reference */
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint trim_wanted[SLOTS]; /* frees run since the last trim */
static atomic_bool ever_parked;        /* atomic: some block was */

static int slot_of(const struct sim_pool *pool)
{
    return pool->device == SIM_NO_DEVICE ? NO_DEVICE_SLOT : pool->device;
}

static void destroy(struct sim_object *object)
{
    struct sim_pool *pool = (struct sim_pool *)object;

    sim_heap_clear(&pool->heap);
    sim_pool_end_sharing(pool);
    if (object->handle)
        sim_handle_let_go(object);
    free(pool);
}

/* Bits of the devices that may use the memory of a new pool. */
static unsigned rights_at(const struct sim_pool *pool)
{
    if (pool->home.managed)
        return ~0u;
    return pool->device == SIM_NO_DEVICE ? 0 : 1u << pool->device;
}

CUresult sim_pool_create_at(const struct sim_pool_home *home, bool is_default,
                            size_t max_bytes, struct sim_pool **out)
{
    bool of_device = home->type == CU_MEM_LOCATION_TYPE_DEVICE && !home->managed;
    struct sim_pool *pool = calloc(1, sizeof(*pool));

    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_object_init(&pool->object, SIM_TYPE_POOL, destroy);
    pool->home = *home;
    pool->device = of_device ? home->id : SIM_NO_DEVICE;
    pool->is_default = is_default;
    pool->max_bytes = max_bytes;
    for (unsigned i = 0; i < GS_ARRAY_LEN(pool->reuse); i++)
        atomic_init(&pool->reuse[i], 1);
    atomic_init(&pool->readable, rights_at(pool));
    atomic_init(&pool->writable, rights_at(pool));
    sim_heap_init(&pool->heap, of_device ? sim_device_space(home->id) : sim_host_space(),
                  true);
    if (!sim_handle_open(&pool->object)) {
        sim_pool_put(pool);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    /* Memory that comes from it names it, also once it was destroyed: the handle is no
     * other pool's before the last of that has gone. It is open, as nobody knows it. */
    bool held = sim_handle_hold(&pool->object);
    (void)held;
    sim_object_ref(&pool->object); /* the list's */
    pthread_mutex_lock(&pools_lock);
    pool->next_on_device = pools[slot_of(pool)];
    pools[slot_of(pool)] = pool;
    pthread_mutex_unlock(&pools_lock);
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult sim_pool_create(int device, bool is_default, size_t max_bytes,
                         struct sim_pool **out)
{
    const struct sim_pool_home home = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

    return sim_pool_create_at(&home, is_default, max_bytes, out);
}

struct sim_pool *sim_pool_get(CUmemoryPool handle)
{
    return (struct sim_pool *)sim_handle_get(handle, SIM_TYPE_POOL);
}

void sim_pool_put(struct sim_pool *pool)
{
    sim_object_unref(&pool->object);
}

void sim_pool_forget(struct sim_pool *pool)
{
    bool found = false;

    pthread_mutex_lock(&pools_lock);
    for (struct sim_pool **link = &pools[slot_of(pool)]; *link;
         link = &(*link)->next_on_device) {
        if (*link == pool) {
            *link = pool->next_on_device;
            found = true;
            break;
        }
    }
    pthread_mutex_unlock(&pools_lock);
    if (found)
        sim_pool_put(pool);
}

static bool over_limit(struct sim_pool *pool, size_t bytes)
{
    struct sim_heap_info info;

    if (!pool->max_bytes)
        return false;
    sim_heap_read(&pool->heap, &info);
    return bytes > pool->max_bytes || info.used > pool->max_bytes - bytes;
}

/* What was taken over goes back: to those who are behind the free it came by. */
static void give_back(struct sim_alloc *alloc, const struct sim_op *behind)
{
    const struct sim_free_point free = {behind->stream->id, behind->free_number};

    atomic_store_explicit(&ever_parked, true, memory_order_release);
    bool ended = sim_heap_park(alloc, free);
    (void)ended; /* nobody else knows of it yet */
    sim_memory_unref(alloc);
}

/* Take over a block freed on another stream, making this stream wait for that free. */
static CUresult take_over_waiting(enum sim_api api, struct sim_pool *pool, size_t bytes,
                                  const struct sim_allocation *allocation,
                                  struct sim_stream *stream, struct sim_alloc **out)
{
    struct sim_op *behind = NULL;
    struct sim_alloc *alloc;

    const struct sim_reuse reuse = {.any = true};
    sim_heap_take_over(&pool->heap, bytes, allocation, &reuse, &alloc, &behind);
    if (!alloc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_op *wait = sim_op_new(SIM_OP_WAIT, api, NULL);
    CUresult res = CUDA_ERROR_OUT_OF_MEMORY;
    if (wait && (sim_is_lax(SIM_RULE_ordered_reuse) || sim_op_depend(wait, behind)))
        res = sim_submit(stream, wait);
    sim_op_unref(wait);
    if (res == CUDA_SUCCESS)
        *out = alloc;
    else
        give_back(alloc, behind);
    sim_op_unref(behind);
    return res;
}

/* For the oracle: it may be used from this point of the stream on. */
static void hand_out(enum sim_api api, struct sim_alloc *alloc, struct sim_stream *stream)
{
    if (!oracle_on)
        return;
    struct sim_op *mark = sim_op_new(SIM_OP_MARK, api, NULL);
    if (mark && sim_submit(stream, mark) == CUDA_SUCCESS)
        sim_order_handed_out(alloc, mark);
    sim_op_unref(mark);
    if (sim_is_strict(SIM_RULE_ordered_start)) {
        CUresult res = sim_context_wait(stream->context);
        (void)res; /* the rule is bent: only the wait matters */
    }
}

static bool allows(struct sim_pool *pool, enum sim_reuse_policy policy)
{
    return atomic_load_explicit(&pool->reuse[policy], memory_order_relaxed) != 0;
}

/*
 * What an allocation in the stream may have of memory that is not everybody's.
 *
 * Out:     *past  holds what it refers to, with a reference; or NULL
 */
static struct sim_reuse reuse_in(struct sim_pool *pool, struct sim_stream *stream,
                                 struct sim_op **past)
{
    struct sim_reuse reuse = {.stream = stream->id};

    *past = NULL;
    if (allows(pool, SIM_REUSE_FOLLOW) && sim_heap_has_freed(&pool->heap, stream->id))
        *past = sim_stream_past(stream);
    if (*past)
        reuse.behind = (*past)->frees;
    reuse.any = *past && sim_is_lax(SIM_RULE_followed_reuse);
    return reuse;
}

/* Memory the pool has to grow for; what lies idle in smaller pieces goes back first. */
static CUresult grow(struct sim_pool *pool, size_t bytes,
                     const struct sim_allocation *allocation,
                     const struct sim_reuse *reuse, struct sim_alloc **out)
{
    CUresult res = sim_heap_alloc(&pool->heap, bytes, true, allocation, out);

    if (res == CUDA_SUCCESS)
        return res;
    sim_heap_unpark(&pool->heap, reuse);
    sim_heap_trim(&pool->heap, 0);
    return sim_heap_alloc(&pool->heap, bytes, true, allocation, out);
}

static enum sim_memory_kind kind_of(const struct sim_pool *pool)
{
    if (pool->home.managed)
        return SIM_MEMORY_MANAGED_POOL;
    return pool->device == SIM_NO_DEVICE ? SIM_MEMORY_HOST_POOL : SIM_MEMORY_POOL;
}

/* Managed memory prefers its pool's location. */
static void prefer_home(struct sim_alloc *alloc, const struct sim_pool_home *home)
{
    const CUmemLocation location = {.type = (CUmemLocationType)home->type,
                                    .id = home->id};

    if (!home->managed || home->type == SIM_LOCATION_NONE)
        return;
    CUresult res = sim_managed_prefer(alloc, &location);
    (void)res; /* without memory it is not remembered */
}

CUresult sim_pool_alloc(enum sim_api api, struct sim_pool *pool, size_t bytes,
                        struct sim_stream *stream, struct sim_alloc **out)
{
    const struct sim_allocation allocation = {kind_of(pool), stream->context,
                                              stream->context_id};
    struct sim_op *behind = NULL, *past;
    struct sim_alloc *alloc = NULL;

    if (over_limit(pool, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult res = sim_heap_alloc(&pool->heap, bytes, false, &allocation, &alloc);
    if (res != CUDA_SUCCESS) {
        const struct sim_reuse reuse = reuse_in(pool, stream, &past);
        sim_heap_take_over(&pool->heap, bytes, &allocation, &reuse, &alloc, &behind);
        sim_op_unref(alloc ? behind : NULL);
        res = alloc ? CUDA_SUCCESS : grow(pool, bytes, &allocation, &reuse, &alloc);
        sim_op_unref(past);
    }
    if (res != CUDA_SUCCESS && allows(pool, SIM_REUSE_INTERNAL))
        res = take_over_waiting(api, pool, bytes, &allocation, stream, &alloc);
    if (res != CUDA_SUCCESS)
        return res;
    sim_object_ref(&pool->object);
    alloc->pool = pool;
    prefer_home(alloc, &pool->home);
    hand_out(api, alloc, stream);
    *out = alloc;
    return CUDA_SUCCESS;
}

bool sim_pool_free_now(struct sim_alloc *alloc)
{
    if (alloc->graph)
        return sim_graph_memory_free_now(alloc->graph);
    if (!sim_heap_free(alloc))
        return false;
    if (alloc->pool) {
        atomic_fetch_add(&trim_wanted[slot_of(alloc->pool)], 1);
        sim_pool_put(alloc->pool);
    }
    return true;
}

/* Is its memory kept for those who are behind the free, which has run? */
static bool parks(const struct sim_alloc *alloc)
{
    return alloc->pool && !alloc->graph &&
           !allows(alloc->pool, SIM_REUSE_OPPORTUNISTIC) &&
           !sim_is_lax(SIM_RULE_opportunistic_off);
}

static bool park(struct sim_alloc *alloc, struct sim_free_point free)
{
    atomic_store_explicit(&ever_parked, true, memory_order_release);
    if (!sim_heap_park(alloc, free))
        return false;
    sim_pool_put(alloc->pool);
    return true;
}

static CUresult run_free(struct sim_op *op)
{
    const struct sim_free_point free = {op->stream->id, op->free_number};
    bool ended = parks(op->free) ? park(op->free, free) : sim_pool_free_now(op->free);

    (void)ended; /* false if its context ended first: it is gone all the same */
    return CUDA_SUCCESS;
}

CUresult sim_pool_free_async(enum sim_api api, struct sim_alloc *alloc,
                             struct sim_stream *stream)
{
    if (alloc->graph)
        return sim_graph_memory_free_async(api, alloc->graph, stream);
    struct sim_op *op = sim_op_new(SIM_OP_FREE, api, run_free);

    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->run_on_error = true;
    op->free = alloc;
    sim_memory_ref(alloc);
    CUresult res = CUDA_ERROR_INVALID_VALUE;
    if (sim_is_strict(SIM_RULE_ordered_reuse))
        res = sim_context_wait(stream->context);
    if (sim_memory_begin_free(alloc)) {
        res = sim_submit(stream, op); /* where it gets its place: sim_memory_queue_free */
        if (res != CUDA_SUCCESS)
            sim_memory_cancel_free(alloc);
    }
    sim_op_unref(op);
    return res;
}

void sim_pool_set_reuse(struct sim_pool *pool, enum sim_reuse_policy policy, bool on)
{
    atomic_store(&pool->reuse[policy], on);
    if (policy == SIM_REUSE_OPPORTUNISTIC && on &&
        sim_heap_unpark(&pool->heap, &(const struct sim_reuse){.any = true}))
        atomic_fetch_add(&trim_wanted[slot_of(pool)], 1);
}

void sim_pool_synchronized(const struct sim_frees *frees)
{
    const struct sim_reuse which = {.behind = frees};

    if (!frees || !atomic_load_explicit(&ever_parked, memory_order_acquire))
        return;
    pthread_mutex_lock(&pools_lock);
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        for (struct sim_pool *pool = pools[slot]; pool; pool = pool->next_on_device) {
            if (sim_heap_unpark(&pool->heap, &which))
                atomic_fetch_add(&trim_wanted[slot], 1);
        }
    }
    pthread_mutex_unlock(&pools_lock);
}

static void trim(int slot)
{
    if (!atomic_load_explicit(&trim_wanted[slot], memory_order_relaxed))
        return;
    atomic_store(&trim_wanted[slot], 0);
    pthread_mutex_lock(&pools_lock);
    for (struct sim_pool *pool = pools[slot]; pool; pool = pool->next_on_device)
        sim_heap_trim(&pool->heap, atomic_load(&pool->release_threshold));
    pthread_mutex_unlock(&pools_lock);
}

void sim_pool_after_sync(int device)
{
    trim(device);
    trim(NO_DEVICE_SLOT);
}

bool sim_pool_allows(const struct sim_alloc *alloc, int device)
{
    return alloc->pool && (atomic_load(&alloc->pool->readable) >> device & 1u);
}

bool sim_pool_allows_writes(const struct sim_alloc *alloc, int device)
{
    return alloc->pool && (atomic_load(&alloc->pool->writable) >> device & 1u);
}

bool sim_pool_is_open(const struct sim_alloc *alloc, bool to_writes)
{
    const struct sim_pool *pool = alloc->pool;

    return pool && atomic_load(to_writes ? &pool->writable : &pool->readable) != 0;
}
