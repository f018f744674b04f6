/*
 * spilled.c - the books of GPUSHIM_SPILL: what was served from host memory, by address.
 * Owns:   the table of spilled allocations.
 * Lock:   spilled_lock for the table; the sums are atomic.
 */
#include "spilled.h"

#include <stdlib.h>

#include "gs_hash.h"
#include "gs_locks.h"

bool gs_spilled_wanted; /* immutable after start */

struct spilled {
    UT_hash_handle hh; /* in table, by address */
    uint64_t addr;
    size_t bytes;
    CUcontext context; /* which the memory ends with */
    int device;
};

static struct {
    uint64_t bytes, most_bytes, count; /* atomic */
} devices[GS_MAX_DEVICES];

static struct gs_mutex spilled_lock = GS_MUTEX(GS_RANK_LIMITS);
static struct spilled *table; /* under spilled_lock */
static uint64_t budget;       /* immutable after start */
static uint64_t used_bytes;   /* atomic; of all devices, with attempts */

/* What this thread is freeing, or NULL. */
static _Thread_local struct spilled *freeing;

void gs_spilled_start(const struct gs_options *options)
{
    budget = options->spill_bytes;
    gs_spilled_wanted = budget != 0;
}

void gs_spilled_reset(void)
{
    gs_mutex_init(&spilled_lock, GS_RANK_LIMITS);
    table = NULL; /* another thread may have been changing it */
    __builtin_memset(devices, 0, sizeof(devices));
    used_bytes = 0;
    gs_spilled_wanted = false;
}

/* ---- the budget -------------------------------------------------------------------- */

bool gs_spilled_take(size_t bytes)
{
    uint64_t used = __atomic_load_n(&used_bytes, __ATOMIC_RELAXED), sum;
    do {
        if (__builtin_add_overflow(used, (uint64_t)bytes, &sum) || sum > budget) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&used_bytes, &used, sum, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

void gs_spilled_return(size_t bytes)
{
    (void)__atomic_sub_fetch(&used_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

static void count(int device, size_t bytes)
{
    uint64_t now = __atomic_add_fetch(&devices[device].bytes, bytes, __ATOMIC_RELAXED);
    uint64_t most = __atomic_load_n(&devices[device].most_bytes, __ATOMIC_RELAXED);
    (void)__atomic_add_fetch(&devices[device].count, 1, __ATOMIC_RELAXED);
    while (most < now &&
           !__atomic_compare_exchange_n(&devices[device].most_bytes, &most, now, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static void end(struct spilled *spilled)
{
    if (spilled) {
        (void)__atomic_sub_fetch(&devices[spilled->device].bytes, spilled->bytes,
                                 __ATOMIC_RELAXED);
        gs_spilled_return(spilled->bytes);
        free(spilled);
    }
}

struct gs_spilled gs_spilled_of(int device)
{
    return (struct gs_spilled){
        .count = __atomic_load_n(&devices[device].count, __ATOMIC_RELAXED),
        .most_bytes = __atomic_load_n(&devices[device].most_bytes, __ATOMIC_RELAXED)};
}

/* ---- the table --------------------------------------------------------------------- */

/* Removes an allocation; NULL: it is none of these. spilled_lock is held. */
static struct spilled *take(uint64_t addr)
{
    struct spilled *found = GS_HASH_FIND(table, &addr);
    if (found) {
        HASH_DEL(table, found);
    }
    return found;
}

/* One that cannot be kept ends at once. */
static void put(struct spilled *spilled)
{
    gs_mutex_lock(&spilled_lock);
    struct spilled *old = take(spilled->addr); /* freed past the hooks */
    bool kept = GS_HASH_ADD(table, addr, spilled);
    gs_mutex_unlock(&spilled_lock);
    end(old);
    end(kept ? NULL : spilled);
}

void gs_spilled_record(uint64_t addr, size_t bytes, int device, CUcontext context)
{
    struct spilled *spilled = calloc(1, sizeof(*spilled));
    if (!spilled) {
        gs_spilled_return(bytes);
        return;
    }
    *spilled = (struct spilled){
        .addr = addr, .bytes = bytes, .context = context, .device = device};
    count(device, bytes);
    put(spilled);
}

bool gs_spilled_has(uint64_t addr)
{
    if (!gs_spilled_wanted) {
        return false;
    }
    gs_mutex_lock(&spilled_lock);
    bool found = GS_HASH_FIND(table, &addr) != NULL;
    gs_mutex_unlock(&spilled_lock);
    return found;
}

void gs_spilled_leave(uint64_t addr)
{
    gs_mutex_lock(&spilled_lock);
    freeing = take(addr);
    gs_mutex_unlock(&spilled_lock);
}

void gs_spilled_left(bool freed)
{
    struct spilled *spilled = freeing;
    freeing = NULL;
    if (freed) {
        end(spilled);
    } else if (spilled) {
        put(spilled);
    }
}

void gs_spilled_context_lost(CUcontext context)
{
    struct spilled *spilled, *next;
    if (!gs_spilled_wanted || !context) {
        return;
    }
    gs_mutex_lock(&spilled_lock);
    HASH_ITER (hh, table, spilled, next) {
        if (spilled->context == context) {
            HASH_DEL(table, spilled);
            end(spilled);
        }
    }
    gs_mutex_unlock(&spilled_lock);
}
