/*
 * front_lock.c - how others are kept out of a thread's front.
 *
 * A front belongs to one thread, which goes in and out of it with two plain stores. Who
 * wants to look at all fronts of a heap sets `wanted` in each, then makes sure that every
 * thread has passed a full barrier (membarrier), then waits until nobody is inside: an
 * owner whose `busy` could not be seen yet is bound to see `wanted`. Where the kernel has
 * no such call the owner's store is an exchange, a barrier by itself.
 *
 * A front that is wanted sends its owner to the heap's lock: nobody waits for who drains.
 *
 * Owns: the thread's list of its own fronts, and the lock of both ends of a binding.
 * Lock: levels->lock for the heap's end.   Design: docs/pool.md, "Levels"
 */
#include <errno.h>
#include <linux/membarrier.h>
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
struct gs_front gs_front_none; /* bound to nothing, and never entered */
_Thread_local struct gs_front *gs_front_mine = &gs_front_none;
_Thread_local struct gs_front *gs_fronts_own;
_Thread_local uint64_t gs_pool_stream_key;

_Atomic bool gs_front_asymmetric; /* written before the first front, or by the barrier */

struct gs_lock gs_fronts_lock = {.rank = GS_RANK_THREADS};

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

bool gs_front_membarrier(int command)
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
        gs_front_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
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
           GS_LINK_OWNER(first, const struct gs_front, of_heap)->owner == &gs_fronts_own;
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

void gs_fronts_forget(struct gs_levels *levels)
{
    gs_lock_take(&gs_fronts_lock);
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
    gs_lock_drop(&gs_fronts_lock);
}

uint64_t gs_front_stream_key(void)
{
    return gs_pool_stream_key;
}
