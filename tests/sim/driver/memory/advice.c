/*
 * advice.c - advice on managed memory, page by page: an allocation has a list of pieces
 * in the order of their addresses, cut where advice has begun and ended, that covers it
 * whole. Without any advice there is no list.
 * Owns:  sim_alloc.advised.   Lock: advice_lock.
 * Source: Driver API, cuMemAdvise, cuMemPrefetchAsync, cuMemRangeGetAttribute.
 */
#include "advice.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct piece {
    size_t end; /* offset of the first byte behind it */
    struct sim_advice advice;
};

struct sim_advised {
    size_t count;
    struct piece pieces[]; /* room for two more: a change cuts twice at most */
};

static pthread_mutex_t advice_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct sim_advice none = {.preferred = {.id = CU_DEVICE_INVALID},
                                       .last_prefetch = {.id = CU_DEVICE_INVALID}};

/* The allocation's list, with room for two more pieces. Needs advice_lock. */
static struct sim_advised *make_room(struct sim_alloc *alloc)
{
    size_t count = alloc->advised ? alloc->advised->count : 1;
    struct sim_advised *advised =
        realloc(alloc->advised, sizeof(*advised) + (count + 2) * sizeof(struct piece));

    if (!advised)
        return NULL;
    if (!alloc->advised) {
        advised->count = 1;
        advised->pieces[0] = (struct piece){.end = alloc->block_bytes, .advice = none};
    }
    alloc->advised = advised;
    return advised;
}

/* Let a piece begin at the offset; returns its index, count where that is the end. There
 * is room. */
static size_t cut(struct sim_advised *advised, size_t offset)
{
    size_t i = 0, start = 0;

    while (i < advised->count && advised->pieces[i].end <= offset)
        start = advised->pieces[i++].end;
    if (i == advised->count || start == offset)
        return i;
    memmove(&advised->pieces[i + 1], &advised->pieces[i],
            (advised->count - i) * sizeof(struct piece));
    advised->count++;
    advised->pieces[i].end = offset;
    return i + 1;
}

static bool same(const CUmemLocation *a, const CUmemLocation *b)
{
    return a->type == b->type && a->id == b->id;
}

static bool equal(const struct sim_advice *a, const struct sim_advice *b)
{
    return a->read_mostly == b->read_mostly && a->accessed_by == b->accessed_by &&
           same(&a->preferred, &b->preferred) &&
           same(&a->last_prefetch, &b->last_prefetch);
}

/* Drop cuts between pieces of the same advice. */
static void join(struct sim_advised *advised)
{
    size_t kept = 0;

    for (size_t i = 1; i < advised->count; i++) {
        struct piece *last = &advised->pieces[kept];
        if (equal(&last->advice, &advised->pieces[i].advice))
            last->end = advised->pieces[i].end;
        else
            advised->pieces[++kept] = advised->pieces[i];
    }
    advised->count = kept + 1;
}

CUresult sim_advice_change(struct sim_alloc *alloc, size_t offset, size_t bytes,
                           void (*change)(struct sim_advice *advice,
                                          const void *argument),
                           const void *argument)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t start = offset / page * page;
    const size_t end = gs_round_up(offset + bytes, page);

    pthread_mutex_lock(&advice_lock);
    struct sim_advised *advised = make_room(alloc);
    if (advised) {
        size_t first = cut(advised, start);
        size_t last = cut(advised, end < alloc->block_bytes ? end : alloc->block_bytes);
        for (size_t i = first; i < last; i++)
            change(&advised->pieces[i].advice, argument);
        join(advised);
    }
    pthread_mutex_unlock(&advice_lock);
    return advised ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* What holds for both. */
static void combine(struct sim_advice *all, const struct sim_advice *more)
{
    all->read_mostly = all->read_mostly && more->read_mostly;
    all->accessed_by &= more->accessed_by;
    if (!same(&all->preferred, &more->preferred))
        all->preferred = none.preferred;
    if (!same(&all->last_prefetch, &more->last_prefetch))
        all->last_prefetch = none.last_prefetch;
}

void sim_advice_read(struct sim_alloc *alloc, size_t offset, size_t bytes,
                     struct sim_advice *out)
{
    bool found = false;
    size_t start = 0;

    *out = none;
    pthread_mutex_lock(&advice_lock);
    const struct sim_advised *advised = alloc->advised;
    for (size_t i = 0; advised && i < advised->count; start = advised->pieces[i++].end) {
        const struct piece *piece = &advised->pieces[i];
        if (piece->end <= offset || start >= offset + bytes)
            continue;
        if (found)
            combine(out, &piece->advice);
        else
            *out = piece->advice;
        found = true;
    }
    pthread_mutex_unlock(&advice_lock);
}

void sim_advice_destroy(struct sim_alloc *alloc)
{
    free(alloc->advised);
    alloc->advised = NULL;
}
