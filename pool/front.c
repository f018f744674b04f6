/*
 * front.c - which thread has which front, and how others are kept out of it.
 *
 * A front belongs to one thread, which goes in and out of it with two plain stores. Who
 * wants to look at all fronts of a heap sets `wanted` in each, then makes sure that every
 * thread has passed a full barrier (membarrier), then waits until nobody is inside: an
 * owner whose `busy` could not be seen yet is bound to see `wanted`. Where the kernel has
 * no such call the owner's store is an exchange, a barrier by itself.
 *
 * A front that is wanted sends its owner to the heap's lock: nobody waits for who drains.
 *
 * Fronts are never unmapped. A thread's end flushes its own and leaves them to others; a
 * front whose thread could not do so can still be drained like any other.
 *
 * Owns: the spare fronts, and the thread's list of its own.
 * Lock: registry (GS_RANK_THREADS) for both ends of a binding; levels->lock for the
 * heap's end.   Design: docs/pool.md, "Levels"
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "heap.h"

/* A thread that is inside is so for a few instructions, unless it was interrupted. */
#define SPINS  200
#define NAP_NS 20000
/* Without the kernel's barrier, which can be taken away later: far longer than a store
 * takes to be seen. */
#define SETTLE_NS 10000000
/* Up to so many fronts each one's coming changes all shares. */
#define SHARES 16u

static struct gs_front no_front; /* bound to nothing, and never entered */
_Thread_local struct gs_front *gs_front_mine = &no_front;
static _Thread_local struct gs_front *own_fronts;
_Thread_local uint64_t gs_pool_stream_key;

_Atomic bool gs_front_asymmetric; /* written before the first front, or by the barrier */

static struct gs_lock registry = {.rank = GS_RANK_THREADS};
static struct gs_front *spare_fronts; /* registry */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end; /* immutable after `once` */
static bool thread_end_set;      /* likewise */

#if defined(__SANITIZE_THREAD__)
#define HAVE_MEMBARRIER 0 /* it does not know what the call orders */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAVE_MEMBARRIER 0
#endif
#endif
#ifndef HAVE_MEMBARRIER
#define HAVE_MEMBARRIER 1
#endif

static bool membarrier(int command)
{
    int saved = errno;
    bool done = HAVE_MEMBARRIER && syscall(SYS_membarrier, command, 0, 0) == 0;

    errno = saved;
    return done;
}

/* Not nanosleep, which is a place to be cancelled at: a lock is held. */
static void nap(const struct timespec *time)
{
    (void)syscall(SYS_nanosleep, time, NULL);
}

void gs_front_barrier(void)
{
    const struct timespec settle = {.tv_nsec = SETTLE_NS};
    int saved = errno;

    if (!atomic_load_explicit(&gs_front_asymmetric, memory_order_relaxed) ||
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        return;
    /* Forbidden since: owners exchange from now on, and stores of before settle. */
    atomic_store(&gs_front_asymmetric, false);
    nap(&settle);
    errno = saved;
}

/* Does the heap have no front but the calling thread's? The thread sees its own stores,
 * and is outside. levels->lock is held. */
static bool mine_alone(struct gs_heap *heap)
{
    const struct gs_link *first = heap->levels->fronts.next;

    return heap->levels->front_count == 1 &&
           GS_LINK_OWNER(first, const struct gs_front, of_heap)->owner == &own_fronts;
}

void gs_levels_exclude(struct gs_heap *heap)
{
    const struct timespec short_nap = {.tv_nsec = NAP_NS};
    struct gs_levels *levels = heap->levels;
    struct gs_link *link;
    int saved = errno;

    if (!levels)
        return;
    gs_lock_take(&levels->lock);
    if (gs_list_empty(&levels->fronts))
        return;
    for (link = levels->fronts.next; link != &levels->fronts; link = link->next)
        atomic_store(&GS_LINK_OWNER(link, struct gs_front, of_heap)->wanted, 1);
    if (!mine_alone(heap))
        gs_front_barrier();
    for (link = levels->fronts.next; link != &levels->fronts; link = link->next) {
        struct gs_front *front = GS_LINK_OWNER(link, struct gs_front, of_heap);

        for (unsigned i = 0; atomic_load(&front->busy); i++)
            if (i >= SPINS) /* a sleep: the owner's priority may be lower */
                nap(&short_nap);
    }
    errno = saved;
}

void gs_levels_admit(struct gs_heap *heap)
{
    struct gs_levels *levels = heap->levels;
    struct gs_link *link;

    if (!levels)
        return;
    if (!atomic_load_explicit(&levels->closed, memory_order_relaxed) &&
        !atomic_load_explicit(&levels->suspended, memory_order_relaxed)) {
        levels->drained = false;
        for (link = levels->fronts.next; link != &levels->fronts; link = link->next)
            atomic_store_explicit(&GS_LINK_OWNER(link, struct gs_front, of_heap)->wanted,
                                  0, memory_order_release);
    }
    gs_lock_drop(&levels->lock);
}

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
    gs_front_mine = &no_front;
    gs_lock_take(&registry);
    while ((front = own_fronts)) {
        own_fronts = front->next;
        unbind(front, &detached);
        front->next = spare_fronts;
        spare_fronts = front;
    }
    gs_lock_drop(&registry);
    gs_segments_return(detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void prepare(void)
{
    thread_end_set = pthread_key_create(&thread_end, end_thread) == 0;
    atomic_store(&gs_front_asymmetric,
                 membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}

/* A front of the thread's that is bound to no heap. Registry is held. */
static struct gs_front *unbound(struct gs_segment **detached)
{
    struct gs_front *front;

    for (front = own_fronts; front; front = front->next) {
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
    front->next = own_fronts;
    own_fronts = front;
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
    front->owner = &own_fronts;
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
    for (front = own_fronts; front; front = front->next)
        if (atomic_load_explicit(&front->heap, memory_order_relaxed) == heap) {
            gs_front_mine = front;
            return front;
        }
    pthread_once(&once, prepare);
    if (!thread_end_set || pthread_setspecific(thread_end, &own_fronts))
        return NULL; /* it would never be flushed */
    gs_lock_take(&registry);
    front = unbound(&detached);
    gs_lock_drop(&registry);
    if (front)
        bound = bind(front, heap, &detached);
    gs_segments_return(detached);
    if (!bound)
        return NULL;
    gs_front_mine = front;
    return front;
}

void gs_fronts_forget(struct gs_levels *levels)
{
    gs_lock_take(&registry);
    while (!gs_list_empty(&levels->fronts)) {
        struct gs_front *front =
            GS_LINK_OWNER(levels->fronts.next, struct gs_front, of_heap);

        gs_list_remove(&front->of_heap);
        front->counts = (struct gs_front_counts){0};
        for (unsigned i = 0; i < GS_CLASS_COUNT; i++)
            front->stacks[i].hits = 0;
        for (unsigned i = 0; i < GS_WHOLE_COUNT; i++)
            front->whole_units[i] = 0;
        atomic_store(&front->wanted, 0);
        atomic_store_explicit(&front->heap, NULL, memory_order_release);
    }
    gs_lock_drop(&registry);
}

uint64_t gs_front_stream_key(void)
{
    return gs_pool_stream_key;
}

void gs_pool_after_fork_in_child(void)
{
    gs_front_mine = &no_front;
    own_fronts = NULL;
    spare_fronts = NULL;
    gs_lock_init(&registry, GS_RANK_THREADS);
    if (atomic_load(&gs_front_asymmetric))
        atomic_store(&gs_front_asymmetric,
                     membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}
