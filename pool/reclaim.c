/*
 * reclaim.c - stays inside the backend: which threads are in it, and has anything changed
 * since.
 *
 * A thread that finds the device full could report a false out-of-memory: another thread
 * may be returning detached memory, or hold a fresh segment with space for both. No lock
 * may be held over the backend. So each stay inside it has a ticket instead, from before
 * the memory leaves its heap until the effect is visible. A thread that is about to fail
 * first waits for the open tickets, and tries again if any thread changed the available
 * memory. If none did, the driver's free memory was the same all along and its answer is
 * final.
 *
 * The wait is bounded: a backend may be waiting for work that waits for this very thread.
 * A waiting thread is woken only by an end that it waits for: on a full device dozens of
 * threads wait, and stays end all the time.
 *
 * Owns: tickets, waiters, generation, device rows.   Lock: reclaim->lock
 * (GS_RANK_RECLAIM)
 */
#include "gs_uncancelled.h"
#include "pool/reclaim.h"

#include <errno.h>
#include <time.h>

#define NS_PER_SECOND   1000000000ull
#define CHANGED_WAIT_NS NS_PER_SECOND
/* How often a refusal of the driver is trusted instead of asking again. */
#define SPARED_MAX 64u

static void enter(struct gs_reclaim *reclaim)
{
    gs_mutex_lock(&reclaim->lock);
}

static void leave(struct gs_reclaim *reclaim)
{
    gs_mutex_unlock(&reclaim->lock);
}

static struct gs_row *row_of(struct gs_pool *pool, int device)
{
    if (device < 0) {
        return &pool->rows[GS_MAX_DEVICES];
    }
    return &pool->rows[device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1];
}

/* A thread that waits in gs_reclaim_changed, on its stack. */
struct waiter {
    struct gs_link link;
    pthread_cond_t woken;
    uint64_t generation, issued; /* when the wait began */
    const struct gs_row *row;
    uint64_t enough; /* row->returned to wait for; 0: any change */
};

/* Returns whether the condition was initialized. */
static bool init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    bool done;

    if (pthread_condattr_init(&attributes)) {
        return false;
    }
    done = !pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) &&
           !pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return done;
}

/* The mutex spins before it sleeps: sections are a few lines long. */
static bool init_lock(struct gs_mutex *lock)
{
    pthread_mutexattr_t attributes;
    bool done;

    if (pthread_mutexattr_init(&attributes)) {
        return false;
    }
    done = !pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP) &&
           !pthread_mutex_init(&lock->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    lock->rank = GS_RANK_RECLAIM;
    return done;
}

enum gs_status gs_reclaim_init(struct gs_reclaim *reclaim)
{
    if (!init_lock(&reclaim->lock)) {
        return GS_ERR_HOST_NOMEM;
    }
    if (!init_condition(&reclaim->left)) {
        gs_mutex_destroy(&reclaim->lock);
        return GS_ERR_HOST_NOMEM;
    }
    gs_list_init(&reclaim->tickets);
    gs_list_init(&reclaim->waiters);
    return GS_OK;
}

void gs_reclaim_fini(struct gs_reclaim *reclaim)
{
    pthread_cond_destroy(&reclaim->left);
    gs_mutex_destroy(&reclaim->lock);
}

bool gs_reclaim_begin(struct gs_heap *heap, struct gs_ticket *ticket, bool awaited)
{
    struct gs_reclaim *reclaim = &heap->pool->reclaim;
    bool alive;

    enter(reclaim);
    alive = !gs_heap_is_dead(heap); /* gs_heap_bury drains under this lock next */
    if (alive) {
        ticket->number = ++reclaim->issued;
        gs_list_init(&ticket->link);
        if (awaited) {
            gs_list_append(&reclaim->tickets, &ticket->link);
        }
        reclaim->inside++;
        heap->inside++;
    }
    leave(reclaim);
    return alive;
}

/* The lock is held. */
static void next_generation(struct gs_reclaim *reclaim)
{
    __atomic_store_n(&reclaim->generation, reclaim->generation + 1, __ATOMIC_RELEASE);
}

/* Is a stay up to ticket `number` still in progress? The lock is held. */
static bool busy_before(const struct gs_reclaim *reclaim, uint64_t number)
{
    const struct gs_ticket *oldest;

    if (gs_list_empty(&reclaim->tickets)) {
        return false;
    }
    oldest = GS_LINK_OWNER(reclaim->tickets.next, const struct gs_ticket, link);
    return oldest->number <= number;
}

/* Has the waiter's condition been met? The lock is held. */
static bool is_served(const struct gs_reclaim *reclaim, const struct waiter *waiter)
{
    return waiter->enough ? waiter->row->returned >= waiter->enough
                          : reclaim->generation != waiter->generation;
}

/* The lock is held. */
static bool has_waited(const struct gs_reclaim *reclaim, const struct waiter *waiter)
{
    return !busy_before(reclaim, waiter->issued) || is_served(reclaim, waiter);
}

/* Wakes the threads that have waited long enough. The lock is held. */
static void wake_waiters(struct gs_reclaim *reclaim)
{
    for (struct gs_link *link = reclaim->waiters.next; link != &reclaim->waiters;
         link = link->next) {
        struct waiter *waiter = GS_LINK_OWNER(link, struct waiter, link);

        if (has_waited(reclaim, waiter)) {
            pthread_cond_signal(&waiter->woken);
        }
    }
}

/* The lock is held. */
static void end(struct gs_heap *heap, struct gs_ticket *ticket, bool changed)
{
    struct gs_reclaim *reclaim = &heap->pool->reclaim;

    gs_list_remove(&ticket->link);
    reclaim->inside--;
    if (--heap->inside == 0) {
        pthread_cond_broadcast(&reclaim->left);
    }
    if (changed) {
        next_generation(reclaim);
    }
    wake_waiters(reclaim);
}

void gs_reclaim_end(struct gs_heap *heap, struct gs_ticket *ticket, bool changed)
{
    enter(&heap->pool->reclaim);
    end(heap, ticket, changed);
    leave(&heap->pool->reclaim);
}

bool gs_reclaim_is_inside(struct gs_heap *heap)
{
    bool inside;

    enter(&heap->pool->reclaim);
    inside = heap->inside > 0;
    leave(&heap->pool->reclaim);
    return inside;
}

static struct timespec deadline_after(uint64_t wait_ns)
{
    struct timespec when;
    uint64_t ns;

    clock_gettime(CLOCK_MONOTONIC, &when);
    ns = (uint64_t)when.tv_nsec + wait_ns;
    when.tv_sec += (time_t)(ns / NS_PER_SECOND);
    when.tv_nsec = (long)(ns % NS_PER_SECOND);
    return when;
}

/* The lock is held. Returns false at the deadline. A condition wait is a cancellation
 * point, and a cancelled thread would keep the lock, so cancellation is disabled
 * during the wait. */
static bool wait_until(struct gs_reclaim *reclaim, pthread_cond_t *condition,
                       const struct timespec *deadline)
{
    int before = gs_uncancelled_begin(), result;

    result = gs_mutex_wait(&reclaim->lock, condition, deadline);
    gs_uncancelled_end(before);
    return result != ETIMEDOUT;
}

static bool await_change(struct gs_pool *pool, int device, uint64_t generation,
                         uint64_t enough)
{
    struct gs_reclaim *reclaim = &pool->reclaim;
    struct timespec deadline = deadline_after(CHANGED_WAIT_NS);
    struct waiter self = {
        .generation = generation, .row = row_of(pool, device), .enough = enough};
    bool changed, waits = init_condition(&self.woken);

    enter(reclaim);
    self.issued = reclaim->issued;
    gs_list_append(&reclaim->waiters, &self.link);
    while (waits && !has_waited(reclaim, &self)) {
        if (!wait_until(reclaim, &self.woken, &deadline)) {
            break;
        }
    }
    gs_list_remove(&self.link);
    changed = reclaim->generation != generation || is_served(reclaim, &self);
    leave(reclaim);
    if (waits) {
        pthread_cond_destroy(&self.woken);
    }
    return changed;
}

bool gs_reclaim_changed(struct gs_heap *heap, uint64_t generation, uint64_t enough)
{
    return await_change(heap->pool, heap->device, generation, enough);
}

uint64_t gs_pool_await_changes(struct gs_pool *pool)
{
    (void)await_change(pool, -1, gs_reclaim_generation(pool), 0);
    return gs_reclaim_generation(pool);
}

void gs_reclaim_drain(struct gs_heap *heap, uint64_t wait_ns)
{
    struct gs_reclaim *reclaim = &heap->pool->reclaim;
    struct timespec deadline = deadline_after(wait_ns);

    enter(reclaim);
    while (heap->inside) {
        if (!wait_until(reclaim, &reclaim->left, &deadline)) {
            break;
        }
    }
    leave(reclaim);
}

static struct gs_headroom *room_of(struct gs_pool *pool, int device)
{
    return &pool->rooms[device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1];
}

static void forget_refusal(struct gs_pool *pool, int device, struct gs_row *row);

/* Adds bytes to a device's row; -1: to the row of all devices. */
static void row_add(struct gs_pool *pool, int device, struct gs_row *row, int64_t bytes)
{
    row->reserved += (uint64_t)bytes;
    if (row->reserved > row->peak) {
        row->peak = row->reserved;
    }
    if (row->reserved > row->known) {
        row->known = row->reserved;
    }
    if (row->refused && row->known >= row->refused) {
        forget_refusal(pool, device, row);
    }
    if (device >= 0) {
        atomic_store(&room_of(pool, device)->reserved, row->reserved);
    }
}

struct gs_row gs_reclaim_row(struct gs_pool *pool, int device)
{
    struct gs_row row;

    enter(&pool->reclaim);
    row = *row_of(pool, device);
    leave(&pool->reclaim);
    return row;
}

/* The lock is held. */
static void account(struct gs_heap *heap, int64_t bytes)
{
    struct gs_pool *pool = heap->pool;

    row_add(pool, heap->device, row_of(pool, heap->device), bytes);
    row_add(pool, -1, row_of(pool, -1), bytes);
}

void gs_reclaim_account(struct gs_heap *heap, size_t bytes)
{
    enter(&heap->pool->reclaim);
    account(heap, (int64_t)bytes);
    leave(&heap->pool->reclaim);
}

void gs_reclaim_bury(struct gs_heap *heap, size_t bytes)
{
    enter(&heap->pool->reclaim);
    account(heap, -(int64_t)bytes);
    next_generation(&heap->pool->reclaim);
    wake_waiters(&heap->pool->reclaim);
    leave(&heap->pool->reclaim);
}

void gs_reclaim_set_limit(struct gs_pool *pool, int device,
                          const struct gs_pool_limits *limits)
{
    size_t bytes = limits->reserved_bytes, room = limits->device_bytes;

    enter(&pool->reclaim);
    row_of(pool, device)->limit = bytes == SIZE_MAX ? 0 : bytes ? bytes : 1;
    atomic_store(&room_of(pool, device)->bytes, room < bytes ? room : bytes);
    leave(&pool->reclaim);
}

/*
 * Drops a refusal. The driver's answers bound the available memory: it had `known` and
 * not `refused`; in between it must be asked. Other programs take and free memory unseen.
 * So a new refusal corrects `known`, and a refusal is dropped after some uses, or once as
 * much was available.
 */
static void forget_refusal(struct gs_pool *pool, int device, struct gs_row *row)
{
    row->refused = 0;
    if (device >= 0) {
        atomic_store(&room_of(pool, device)->refused, 0);
    }
}

void gs_reclaim_refused(struct gs_heap *heap, const struct gs_held *before)
{
    struct gs_pool *pool = heap->pool;
    struct gs_row *row = row_of(pool, heap->device);

    enter(&pool->reclaim);
    row->refused = row->reserved + row->booked;
    if (row->refused < before->most_bytes) { /* returned since: not what was refused */
        row->refused = before->most_bytes;
    }
    row->spared = 0;
    if (row->known >= row->refused) {
        row->known = row->reserved;
    }
    atomic_store(&room_of(pool, heap->device)->refused, row->refused);
    if (atomic_load(&room_of(pool, heap->device)->reach) >= row->refused) {
        atomic_store(&room_of(pool, heap->device)->reach, row->refused - 1);
    }
    leave(&pool->reclaim);
}

size_t gs_reclaim_missing(struct gs_heap *heap)
{
    struct gs_pool *pool = heap->pool;
    struct gs_row *row = row_of(pool, heap->device);
    size_t missing = 0;
    uint64_t sum;

    if (GS_LIKELY(!atomic_load(&room_of(pool, heap->device)->refused))) {
        return 0;
    }
    enter(&pool->reclaim);
    sum = row->reserved + row->booked;
    if (row->refused && sum >= row->refused && sum > row->known) {
        if (++row->spared < SPARED_MAX) {
            missing = (size_t)(sum - row->known);
        } else {
            forget_refusal(pool, heap->device, row);
        }
    }
    leave(&pool->reclaim);
    return missing;
}

bool gs_reclaim_book(struct gs_heap *heap, size_t bytes, size_t *missing)
{
    struct gs_pool *pool = heap->pool;
    struct gs_row *row;
    uint64_t sum;
    bool fits;

    enter(&pool->reclaim);
    row = row_of(pool, heap->device);
    sum = row->reserved + row->booked + bytes;
    fits = !row->limit || sum <= row->limit;
    if (fits) {
        row->booked += bytes;
    } else {
        *missing = (size_t)(sum - row->limit);
    }
    leave(&pool->reclaim);
    return fits;
}

void gs_reclaim_depart(struct gs_heap *heap, size_t bytes)
{
    struct gs_pool *pool = heap->pool;
    struct gs_row *row = row_of(pool, heap->device);

    enter(&pool->reclaim);
    row_add(pool, heap->device, row, -(int64_t)bytes);
    row_add(pool, -1, row_of(pool, -1), -(int64_t)bytes);
    row->booked += bytes;
    leave(&pool->reclaim);
}

void gs_reclaim_unbook(struct gs_heap *heap, size_t bytes)
{
    enter(&heap->pool->reclaim);
    row_of(heap->pool, heap->device)->booked -= bytes;
    leave(&heap->pool->reclaim);
}

void gs_reclaim_return(struct gs_heap *heap, struct gs_ticket *ticket, size_t bytes,
                       size_t departed)
{
    struct gs_row *row = row_of(heap->pool, heap->device);

    enter(&heap->pool->reclaim);
    row->booked -= departed;
    __atomic_store_n(&row->returned, row->returned + bytes, __ATOMIC_RELEASE);
    end(heap, ticket, !gs_list_empty(&ticket->link));
    leave(&heap->pool->reclaim);
}

uint64_t gs_reclaim_returned(struct gs_heap *heap)
{
    return __atomic_load_n(&row_of(heap->pool, heap->device)->returned, __ATOMIC_ACQUIRE);
}

void gs_reclaim_want(struct gs_heap *heap, size_t bytes)
{
    struct gs_row *row = row_of(heap->pool, heap->device);

    enter(&heap->pool->reclaim);
    if (row->wanted < bytes) {
        row->wanted = bytes;
    }
    leave(&heap->pool->reclaim);
}

size_t gs_reclaim_take_wanted(struct gs_pool *pool, int device)
{
    struct gs_row *row = row_of(pool, device);
    size_t wanted;

    enter(&pool->reclaim);
    wanted = (size_t)row->wanted;
    row->wanted = 0;
    leave(&pool->reclaim);
    return wanted;
}

/* The lock is held. */
static uint64_t stays_of(const struct gs_reclaim *reclaim)
{
    return reclaim->inside ? 0 : reclaim->issued + reclaim->generation;
}

uint64_t gs_reclaim_stays(struct gs_pool *pool)
{
    uint64_t stays;

    enter(&pool->reclaim);
    stays = stays_of(&pool->reclaim);
    leave(&pool->reclaim);
    return stays;
}

struct gs_held gs_pool_held(struct gs_pool *pool, int device)
{
    const struct gs_row *row = row_of(pool, device);
    struct gs_held held;

    enter(&pool->reclaim);
    held.stays = stays_of(&pool->reclaim);
    held.most_bytes = row->reserved + row->booked;
    leave(&pool->reclaim);
    return held;
}
