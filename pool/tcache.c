/*
 * tcache.c - the bindings of thread caches to threads and heaps.
 *
 * Thread caches are never unmapped. A thread's end flushes its own and leaves them to
 * other threads. A thread cache whose thread ended without this can still be drained.
 *
 * Owns: the spare thread caches.
 * Lock: gs_tcaches_lock (GS_RANK_THREADS) for both ends of a binding; tiers->lock for the
 * heap's end.   Design: docs/pool.md, "Cache tiers"
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "gs_membarrier.h"
#include "pool/heap.h"
#include "pool/policy.h"
#include "pool/segment.h"

/* Up to this many thread caches, each new one changes all shares. */
#define SHARES 16u

static struct gs_tcache *spare_tcaches; /* gs_tcaches_lock */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end; /* immutable after `once` */
static bool thread_end_set;      /* likewise */

void gs_tcache_settle(struct gs_tcache *tcache, struct gs_heap *heap)
{
    const struct gs_tcache_counts *counts = &tcache->counts;
    struct gs_pool_stats *stats = &heap->stats;

    gs_lock_take(&heap->lock);
    stats->allocs += counts->allocs;
    stats->hits += counts->allocs;
    stats->frees += counts->frees;
    stats->requested_bytes += counts->requested_bytes;
    stats->given_bytes += counts->given_bytes;
    stats->stream_hits += counts->from_stream;
    stats->global_hits += counts->from_global;
    stats->thread_hits += gs_tcache_hits(counts);
    stats->live_bytes += counts->requested_bytes - counts->requested_freed_bytes;
    stats->used_bytes += counts->given_bytes - counts->given_back_bytes;
    gs_lock_drop(&heap->lock);
    gs_classes_settle(tcache, heap);
    tcache->counts = (struct gs_tcache_counts){0};
}

/* ---- the thread's map of its thread caches ------------------------------------------
 */

/* A thread that uses this many heaps in turn finds its thread caches by a map. */
#define KNOWN_LEAST     8u
#define KNOWN_BITS      6u
#define KNOWN_BYTES(of) (sizeof(struct gs_tcache *) << (of)->known_bits)

/* The thread is changing its map: it may lack thread caches. */
static _Thread_local volatile bool known_changes
    __attribute__((tls_model("initial-exec")));

static struct gs_tcache **chain_of(const struct gs_tcache *first,
                                   const struct gs_heap *heap)
{
    uint64_t hash = (uint64_t)(uintptr_t)heap * 0x9e3779b97f4a7c15u;

    return &first->known[hash >> (64 - first->known_bits)];
}

static void put_known(struct gs_tcache *first, struct gs_tcache *tcache,
                      const struct gs_heap *heap)
{
    tcache->known_in = chain_of(first, heap);
    tcache->known_next = *tcache->known_in;
    *tcache->known_in = tcache;
}

static void drop_known(struct gs_tcache *tcache)
{
    struct gs_tcache **link = tcache->known_in;

    if (!link) {
        return;
    }
    while (*link != tcache) {
        link = &(*link)->known_next;
    }
    *link = tcache->known_next;
    tcache->known_in = NULL;
}

/* Makes the map, or one of twice the chains. */
static void grow_known(struct gs_tcache *first)
{
    struct gs_tcache **old = first->known, **known;
    size_t old_bytes = old ? KNOWN_BYTES(first) : 0;
    uint32_t bits = old ? first->known_bits + 1 : KNOWN_BITS;

    known = gs_meta_map(sizeof(*known) << bits);
    if (!known) {
        return;
    }
    first->known = known;
    first->known_bits = bits;
    for (struct gs_tcache *tcache = first; tcache; tcache = tcache->next) {
        struct gs_heap *heap = atomic_load_explicit(&tcache->heap, memory_order_relaxed);

        tcache->known_in = NULL;
        if (heap) {
            put_known(first, tcache, heap);
        }
    }
    if (old) {
        gs_meta_unmap(old, old_bytes);
    }
}

/* Enters a thread cache that was bound to the heap. */
static void add_known(struct gs_tcache *tcache, const struct gs_heap *heap)
{
    struct gs_tcache *first = gs_tcaches_own;

    known_changes = true;
    atomic_signal_fence(memory_order_seq_cst);
    drop_known(tcache); /* of its last heap */
    if (first->known) {
        put_known(first, tcache, heap);
    }
    if (first->own_count >= KNOWN_LEAST &&
        (!first->known || first->own_count >> first->known_bits)) {
        grow_known(first);
    }
    atomic_signal_fence(memory_order_seq_cst);
    known_changes = false;
}

/* The thread's thread cache for the heap; NULL: none. While a change of the map is in
 * progress, which a signal handler may have interrupted, only the list has all. */
static struct gs_tcache *find_own(const struct gs_heap *heap)
{
    struct gs_tcache *tcache = gs_tcaches_own;

    if (tcache && tcache->known && GS_LIKELY(!known_changes)) {
        for (tcache = *chain_of(tcache, heap); tcache; tcache = tcache->known_next) {
            if (atomic_load_explicit(&tcache->heap, memory_order_relaxed) == heap) {
                return tcache;
            }
        }
        return NULL;
    }
    for (tcache = gs_tcaches_own; tcache; tcache = tcache->next) {
        if (atomic_load_explicit(&tcache->heap, memory_order_relaxed) == heap) {
            return tcache;
        }
    }
    return NULL;
}

/* ---- bindings ---------------------------------------------------------------------- */

/* Unbinds the thread cache from its heap, at the end of its thread; gs_tcaches_lock is
 * held. */
static void unbind(struct gs_tcache *tcache, struct gs_segment **detached)
{
    struct gs_heap *heap = atomic_load_explicit(&tcache->heap, memory_order_relaxed);
    struct gs_tiers *tiers;

    if (!heap) {
        return;
    }
    tiers = heap->tiers;
    gs_lock_take(&tiers->lock); /* the excluding thread holds it: no thread is inside */
    if (atomic_load_explicit(&tcache->heap, memory_order_relaxed) != heap) {
        gs_lock_drop(&tiers->lock); /* the heap ended before the lock was taken */
        return;
    }
    gs_tiers_flush(tcache, heap, detached);
    gs_tcache_settle(tcache, heap);
    gs_list_remove(&tcache->of_heap);
    tiers->tcache_count--;
    atomic_store_explicit(&tcache->heap, NULL, memory_order_relaxed);
    atomic_store(&tcache->wanted, 0);
    gs_lock_drop(&tiers->lock);
}

/* Unbinds the thread's caches at its end: a destructor of thread-specific data. If a
 * later destructor frees memory, the thread gets a new binding, and this destructor runs
 * again. Signals are blocked: a handler cannot know that the thread holds locks, and a
 * handler that ends the program would wait for them. */
static void end_thread(void *unused)
{
    struct gs_segment *detached = NULL;
    struct gs_tcache *tcache;
    sigset_t all, before;

    (void)unused;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    gs_tcache_mine = &gs_tcache_none;
    gs_lock_take(&gs_tcaches_lock);
    if (gs_tcaches_own && gs_tcaches_own->known) {
        gs_meta_unmap(gs_tcaches_own->known, KNOWN_BYTES(gs_tcaches_own));
        gs_tcaches_own->known = NULL;
    }
    while ((tcache = gs_tcaches_own)) {
        gs_tcaches_own = tcache->next;
        tcache->known_in = NULL;
        unbind(tcache, &detached);
        tcache->next = spare_tcaches;
        spare_tcaches = tcache;
    }
    gs_lock_drop(&gs_tcaches_lock);
    gs_segments_return(detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void prepare(void)
{
    thread_end_set = pthread_key_create(&thread_end, end_thread) == 0;
    atomic_store(&gs_tcache_asymmetric,
                 gs_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}

/* A thread cache of the calling thread whose heap has ended; NULL: none. */
static struct gs_tcache *take_loose(void)
{
    struct gs_tcache *oldest = gs_tcaches_own ? gs_tcaches_own->oldest : NULL;
    struct gs_tcache *first = oldest ? atomic_load(&oldest->loose) : NULL;

    while (first &&
           !atomic_compare_exchange_weak(&oldest->loose, &first, first->loose_next)) {
    }
    return first;
}

/* A thread cache of the calling thread that is bound to no heap. gs_tcaches_lock is
 * held. */
static struct gs_tcache *unbound(void)
{
    struct gs_tcache *tcache = take_loose(), *first = gs_tcaches_own;

    if (tcache) {
        return tcache;
    }
    tcache = spare_tcaches;
    if (tcache) {
        spare_tcaches = tcache->next;
    } else {
        tcache = gs_meta_map(sizeof(*tcache));
    }
    if (!tcache) {
        return NULL;
    }
    gs_list_init(&tcache->of_heap);
    tcache->known = first ? first->known : NULL;
    tcache->known_bits = first ? first->known_bits : 0;
    tcache->own_count = first ? first->own_count + 1 : 1;
    tcache->known_in = NULL;
    tcache->oldest = first ? first->oldest : tcache;
    atomic_store(&tcache->loose, NULL);
    tcache->next = first;
    gs_tcaches_own = tcache;
    if (first) {
        first->known = NULL;
    }
    return tcache;
}

/* The number of thread caches that the shares are computed for. With many thread caches
 * it is rounded up, so that not each new thread makes all other threads wait. */
static unsigned rounded(unsigned count)
{
    unsigned step = 1;

    while (count / step > SHARES) {
        step *= 2;
    }
    return (count + step - 1) / step * step;
}

static size_t share_of(const struct gs_tiers *tiers)
{
    size_t share = tiers->threads_bytes / tiers->shares;

    return share < tiers->thread_bytes ? share : tiers->thread_bytes;
}

/* Adds the thread cache to its heap's list. The owner may enter at once, unless the tiers
 * are suspended. tiers->lock is held. */
static void add_to_heap(struct gs_tcache *tcache, struct gs_heap *heap)
{
    struct gs_tiers *tiers = heap->tiers;
    uint32_t suspended = atomic_load_explicit(&tiers->suspended, memory_order_relaxed);

    for (unsigned i = 0; i < GS_CLASS_COUNT; i++) {
        tcache->stacks[i] = (struct gs_stack){.limit = gs_retention_limit(i)};
    }
    tcache->wide = (struct gs_wide){0};
    memset(tcache->batches, 0, sizeof(tcache->batches));
    tcache->bytes = 0;
    memset(tcache->whole_hand, 0, sizeof(tcache->whole_hand));
    tcache->hand = 0;
    tcache->stream = NULL;
    tcache->owner = &gs_tcaches_own;
    atomic_store(&tcache->wanted, suspended != 0);
    tiers->drained = tiers->drained && suspended != 0;
    atomic_store_explicit(&tcache->heap, heap, memory_order_relaxed);
    gs_list_append(&tiers->tcaches, &tcache->of_heap);
    tiers->tcache_count++;
}

void gs_tcaches_share(struct gs_heap *heap, struct gs_segment **detached)
{
    struct gs_tiers *tiers = heap->tiers;
    struct gs_link *link;

    tiers->shares = rounded(tiers->tcache_count);
    for (link = tiers->tcaches.next; link != &tiers->tcaches; link = link->next) {
        struct gs_tcache *tcache = GS_LINK_OWNER(link, struct gs_tcache, of_heap);

        tcache->limit_bytes = share_of(tiers);
        if (tcache->bytes > tcache->limit_bytes) {
            gs_tiers_flush(tcache, heap, detached);
        }
    }
}

/* Binds the thread cache to the heap and sets its share of the byte limit, which falls as
 * threads are added. Returns false if the cache tiers are closed. */
static bool bind(struct gs_tcache *tcache, struct gs_heap *heap,
                 struct gs_segment **detached)
{
    struct gs_tiers *tiers = heap->tiers;
    bool shared;

    gs_lock_take(&tiers->lock);
    if (atomic_load(&tiers->closed)) {
        gs_lock_drop(&tiers->lock);
        return false;
    }
    add_to_heap(tcache, heap);
    shared = tiers->tcache_count <= tiers->shares &&
             rounded(tiers->tcache_count) + tiers->shares / SHARES >= tiers->shares;
    if (shared) {
        tcache->limit_bytes = share_of(tiers);
    }
    gs_lock_drop(&tiers->lock);
    if (shared) {
        return true;
    }
    gs_tiers_exclude(heap);
    gs_tcaches_share(heap, detached);
    gs_tiers_admit(heap);
    return true;
}

struct gs_tcache *gs_tcache_search(struct gs_heap *heap)
{
    struct gs_segment *detached = NULL;
    struct gs_tcache *tcache;
    bool bound = false;

    if (!heap->tiers || atomic_load(&heap->tiers->closed)) {
        return NULL;
    }
    tcache = find_own(heap);
    if (tcache) {
        gs_tcache_mine = tcache;
        return tcache;
    }
    pthread_once(&once, prepare);
    if (!thread_end_set || pthread_setspecific(thread_end, &gs_tcaches_own)) {
        return NULL; /* the thread cache would never be flushed */
    }
    gs_lock_take(&gs_tcaches_lock);
    tcache = unbound();
    gs_lock_drop(&gs_tcaches_lock);
    if (!tcache) {
        return NULL;
    }
    bound = bind(tcache, heap, &detached);
    gs_segments_return(detached);
    if (!bound) {
        gs_tcache_loosen(tcache);
        return NULL;
    }
    add_known(tcache, heap);
    gs_tcache_mine = tcache;
    return tcache;
}

void gs_pool_after_fork_in_child(void)
{
    gs_tcache_mine = &gs_tcache_none;
    gs_tcaches_own = NULL;
    spare_tcaches = NULL;
    gs_lock_init(&gs_tcaches_lock, GS_RANK_THREADS);
    if (atomic_load(&gs_tcache_asymmetric)) {
        atomic_store(&gs_tcache_asymmetric,
                     gs_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
    }
}
