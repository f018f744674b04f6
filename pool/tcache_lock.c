/*
 * tcache_lock.c - excludes other threads from their thread caches.
 *
 * A thread cache belongs to one thread, which enters and leaves it with two plain stores.
 * A thread that needs all thread caches of a heap sets `wanted` in each, forces a full
 * barrier on all running threads (membarrier), and waits until no owner is inside. An
 * owner whose `busy` was not yet visible is bound to see `wanted`. Where the kernel lacks
 * that call the owner's store is an atomic exchange, a barrier by itself.
 *
 * An owner that sees `wanted` takes the heap's lock instead: it never waits for a drain.
 *
 * Owns: the thread's list of its own thread caches, and the lock of both ends of a
 * binding.
 * Lock: tiers->lock for the heap's end.   Design: docs/pool.md, "Cache tiers"
 */
#include <errno.h>

#include "gs_membarrier.h"
#include "gs_wait.h"
#include "pool/heap.h"

/* A thread is inside for a few instructions only, unless it was interrupted. */
#define SPINS  200
#define NAP_NS 20000
/* Used if the kernel's barrier was taken away: far longer than a store takes to become
 * visible. */
#define SETTLE_NS 10000000
struct gs_tcache gs_tcache_none; /* bound to no heap, and never entered */
_Thread_local struct gs_tcache *gs_tcache_mine = &gs_tcache_none;
_Thread_local struct gs_tcache *gs_tcaches_own;
_Thread_local uint64_t gs_pool_stream_key;

_Atomic bool
    gs_tcache_asymmetric; /* written before the first thread cache, or by the barrier */

struct gs_lock gs_tcaches_lock = {.rank = GS_RANK_THREADS};

void gs_tcache_barrier(void)
{
    int saved = errno;

    if (!atomic_load_explicit(&gs_tcache_asymmetric, memory_order_relaxed) ||
        gs_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        return;
    }
    /* The kernel now refuses the call: owners use exchanges from here on, and the nap
     * outlasts older stores. */
    atomic_store(&gs_tcache_asymmetric, false);
    gs_nap(SETTLE_NS);
    errno = saved;
}

/* Returns true if the calling thread's own thread cache is the heap's only one: then no
 * barrier is needed, since the thread sees its own stores and is outside. tiers->lock is
 * held. */
static bool mine_alone(struct gs_heap *heap)
{
    const struct gs_link *first = heap->tiers->tcaches.next;

    return heap->tiers->tcache_count == 1 &&
           GS_LINK_OWNER(first, const struct gs_tcache, of_heap)->owner ==
               &gs_tcaches_own;
}

void gs_tiers_exclude(struct gs_heap *heap)
{
    struct gs_tiers *tiers = heap->tiers;
    struct gs_link *link;

    if (!tiers) {
        return;
    }
    gs_lock_take(&tiers->lock);
    if (gs_list_empty(&tiers->tcaches)) {
        return;
    }
    for (link = tiers->tcaches.next; link != &tiers->tcaches; link = link->next) {
        atomic_store(&GS_LINK_OWNER(link, struct gs_tcache, of_heap)->wanted, 1);
    }
    if (!mine_alone(heap)) {
        gs_tcache_barrier();
    }
    for (link = tiers->tcaches.next; link != &tiers->tcaches; link = link->next) {
        struct gs_tcache *tcache = GS_LINK_OWNER(link, struct gs_tcache, of_heap);

        struct gs_wait wait = {.spins = SPINS, .nap_ns = NAP_NS};

        while (atomic_load(&tcache->busy)) {
            (void)gs_wait_step(&wait);
        }
    }
}

void gs_tiers_admit(struct gs_heap *heap)
{
    struct gs_tiers *tiers = heap->tiers;
    struct gs_link *link;

    if (!tiers) {
        return;
    }
    if (!atomic_load_explicit(&tiers->closed, memory_order_relaxed) &&
        !atomic_load_explicit(&tiers->suspended, memory_order_relaxed)) {
        tiers->drained = false;
        for (link = tiers->tcaches.next; link != &tiers->tcaches; link = link->next) {
            atomic_store_explicit(&GS_LINK_OWNER(link, struct gs_tcache, of_heap)->wanted,
                                  0, memory_order_release);
        }
    }
    gs_lock_drop(&tiers->lock);
}

/* Only the owner removes an entry, so the first one cannot leave the list and return
 * between the two reads. */
void gs_tcache_loosen(struct gs_tcache *tcache)
{
    struct gs_tcache *oldest = tcache->oldest;
    struct gs_tcache *first = atomic_load_explicit(&oldest->loose, memory_order_relaxed);

    do {
        tcache->loose_next = first;
    } while (!atomic_compare_exchange_weak(&oldest->loose, &first, tcache));
}

/* `wanted` stays as it is: an owner that has looked the thread cache up, and not entered
 * it yet, must not. */
void gs_tcaches_unbind(struct gs_tiers *tiers)
{
    while (!gs_list_empty(&tiers->tcaches)) {
        struct gs_tcache *tcache =
            GS_LINK_OWNER(tiers->tcaches.next, struct gs_tcache, of_heap);

        gs_list_remove(&tcache->of_heap);
        atomic_store_explicit(&tcache->heap, NULL, memory_order_release);
        gs_tcache_loosen(tcache);
    }
    tiers->tcache_count = 0;
}

void gs_tcaches_forget(struct gs_tiers *tiers)
{
    struct gs_link *link;

    gs_lock_take(&gs_tcaches_lock);
    for (link = tiers->tcaches.next; link != &tiers->tcaches; link = link->next) {
        struct gs_tcache *tcache = GS_LINK_OWNER(link, struct gs_tcache, of_heap);

        tcache->counts = (struct gs_tcache_counts){0};
        for (unsigned i = 0; i < GS_CLASS_COUNT; i++) {
            tcache->stacks[i].hits = 0;
        }
        for (unsigned i = 0; i < GS_WHOLE_COUNT; i++) {
            tcache->whole_units[i] = 0;
        }
    }
    gs_tcaches_unbind(tiers);
    gs_lock_drop(&gs_tcaches_lock);
}

uint64_t gs_tcache_stream_key(void)
{
    return gs_pool_stream_key;
}
