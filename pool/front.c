/*
 * front.c - which thread has which front.
 *
 * Fronts are never unmapped. A thread's end flushes its own and leaves them to others; a
 * front whose thread could not do so can still be drained like any other.
 *
 * Owns: the spare fronts.
 * Lock: gs_fronts_lock (GS_RANK_THREADS) for both ends of a binding; levels->lock for the
 * heap's end.   Design: docs/pool.md, "Levels"
 */
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "heap.h"

/* Up to so many fronts each one's coming changes all shares. */
#define SHARES 16u

static struct gs_front *spare_fronts; /* gs_fronts_lock */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end; /* immutable after `once` */
static bool thread_end_set;      /* likewise */

void gs_front_settle(struct gs_front *front, struct gs_heap *heap)
{
    const struct gs_front_counts *counts = &front->counts;
    struct gs_pool_stats *stats = &heap->stats;

    gs_lock_take(&heap->lock);
    stats->allocs += counts->allocs;
    stats->hits += counts->allocs;
    stats->frees += counts->frees;
    stats->asked_bytes += counts->asked_bytes;
    stats->given_bytes += counts->given_bytes;
    stats->stream_hits += counts->from_stream;
    stats->global_hits += counts->from_global;
    stats->front_hits += gs_front_hits(counts);
    stats->live_bytes += counts->asked_bytes - counts->asked_back_bytes;
    stats->used_bytes += counts->given_bytes - counts->given_back_bytes;
    gs_lock_drop(&heap->lock);
    gs_classes_settle(front, heap);
    front->counts = (struct gs_front_counts){0};
}

/* The front serves no heap any more. Registry is held, by the front's own thread. */
static void unbind(struct gs_front *front, struct gs_segment **detached)
{
    struct gs_heap *heap = atomic_load_explicit(&front->heap, memory_order_relaxed);
    struct gs_levels *levels;

    if (!heap)
        return;
    levels = heap->levels;
    gs_lock_take(&levels->lock); /* whoever excludes holds it: nobody else is inside */
    gs_levels_flush(front, heap, detached);
    gs_front_settle(front, heap);
    gs_list_remove(&front->of_heap);
    levels->front_count--;
    atomic_store_explicit(&front->heap, NULL, memory_order_relaxed);
    atomic_store(&front->wanted, 0);
    gs_lock_drop(&levels->lock);
}

/* A destructor of thread-specific data: a later one that frees binds anew, and then this
 * is called once more. Nothing tells a signal handler that the thread is in here, so none
 * may run: one that ends the program would wait for the locks that its thread holds. */
static void end_thread(void *unused)
{
    struct gs_segment *detached = NULL;
    struct gs_front *front;
    sigset_t all, before;

    (void)unused;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    gs_front_mine = &gs_front_none;
    gs_lock_take(&gs_fronts_lock);
    while ((front = gs_fronts_own)) {
        gs_fronts_own = front->next;
        unbind(front, &detached);
        front->next = spare_fronts;
        spare_fronts = front;
    }
    gs_lock_drop(&gs_fronts_lock);
    gs_segments_return(detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void prepare(void)
{
    thread_end_set = pthread_key_create(&thread_end, end_thread) == 0;
    atomic_store(&gs_front_asymmetric,
                 gs_front_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}

/* A front of the thread's that is bound to no heap. Registry is held. */
static struct gs_front *unbound(struct gs_segment **detached)
{
    struct gs_front *front;

    for (front = gs_fronts_own; front; front = front->next) {
        struct gs_heap *heap = atomic_load_explicit(&front->heap, memory_order_relaxed);

        if (heap && !atomic_load(&heap->levels->closed))
            continue;
        unbind(front, detached);
        return front;
    }
    front = spare_fronts;
    if (front)
        spare_fronts = front->next;
    else
        front = gs_meta_map(sizeof(*front));
    if (!front)
        return NULL;
    gs_list_init(&front->of_heap);
    front->next = gs_fronts_own;
    gs_fronts_own = front;
    return front;
}

/* For so many fronts the shares are reckoned: a few more than there are of many, so that
 * not each thread that comes makes all others wait. */
static unsigned rounded(unsigned count)
{
    unsigned step = 1;

    while (count / step > SHARES)
        step *= 2;
    return (count + step - 1) / step * step;
}

static size_t share_of(const struct gs_levels *levels)
{
    size_t share = levels->fronts_bytes / levels->shares;

    return share < levels->front_bytes ? share : levels->front_bytes;
}

/* The front's thread may go in at once, where the others may. levels->lock is held. */
static void enlist(struct gs_front *front, struct gs_heap *heap)
{
    struct gs_levels *levels = heap->levels;
    uint32_t suspended = atomic_load_explicit(&levels->suspended, memory_order_relaxed);

    for (unsigned i = 0; i < GS_CLASS_COUNT; i++)
        front->stacks[i] = (struct gs_stack){.limit = gs_keep_limit(i)};
    front->wide = (struct gs_wide){0};
    memset(front->batches, 0, sizeof(front->batches));
    front->bytes = 0;
    front->stream = NULL;
    front->owner = &gs_fronts_own;
    atomic_store(&front->wanted, suspended != 0);
    levels->drained = levels->drained && suspended != 0;
    atomic_store_explicit(&front->heap, heap, memory_order_relaxed);
    gs_list_append(&levels->fronts, &front->of_heap);
    levels->front_count++;
}

/* Every front's share anew. Nobody is inside one. */
static void share_out(struct gs_heap *heap, struct gs_segment **detached)
{
    struct gs_levels *levels = heap->levels;
    struct gs_link *link;

    levels->shares = rounded(levels->front_count);
    for (link = levels->fronts.next; link != &levels->fronts; link = link->next) {
        struct gs_front *front = GS_LINK_OWNER(link, struct gs_front, of_heap);

        front->limit_bytes = share_of(levels);
        if (front->bytes > front->limit_bytes)
            gs_levels_flush(front, heap, detached);
    }
}

/* Into the heap's list, with its share of what the fronts may hold together: with many
 * threads each front gets less. Returns false if the levels are closed. */
static bool bind(struct gs_front *front, struct gs_heap *heap,
                 struct gs_segment **detached)
{
    struct gs_levels *levels = heap->levels;
    bool shared;

    gs_lock_take(&levels->lock);
    if (atomic_load(&levels->closed)) {
        gs_lock_drop(&levels->lock);
        return false;
    }
    enlist(front, heap);
    shared = levels->front_count <= levels->shares &&
             rounded(levels->front_count) + levels->shares / SHARES >= levels->shares;
    if (shared)
        front->limit_bytes = share_of(levels);
    gs_lock_drop(&levels->lock);
    if (shared)
        return true;
    gs_levels_exclude(heap);
    share_out(heap, detached);
    gs_levels_admit(heap);
    return true;
}

struct gs_front *gs_front_search(struct gs_heap *heap)
{
    struct gs_segment *detached = NULL;
    struct gs_front *front;
    bool bound = false;

    if (!heap->levels || atomic_load(&heap->levels->closed))
        return NULL;
    for (front = gs_fronts_own; front; front = front->next)
        if (atomic_load_explicit(&front->heap, memory_order_relaxed) == heap) {
            gs_front_mine = front;
            return front;
        }
    pthread_once(&once, prepare);
    if (!thread_end_set || pthread_setspecific(thread_end, &gs_fronts_own))
        return NULL; /* it would never be flushed */
    gs_lock_take(&gs_fronts_lock);
    front = unbound(&detached);
    gs_lock_drop(&gs_fronts_lock);
    if (front)
        bound = bind(front, heap, &detached);
    gs_segments_return(detached);
    if (!bound)
        return NULL;
    gs_front_mine = front;
    return front;
}

void gs_pool_after_fork_in_child(void)
{
    gs_front_mine = &gs_front_none;
    gs_fronts_own = NULL;
    spare_fronts = NULL;
    gs_lock_init(&gs_fronts_lock, GS_RANK_THREADS);
    if (atomic_load(&gs_front_asymmetric))
        atomic_store(&gs_front_asymmetric,
                     gs_front_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}
