/*
 * frees.c - lists of stream-ordered frees.
 * Owns:  the lists.   Lock: none; a list is immutable, its count atomic.
 */
#include "frees.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MOST_STREAMS 64

struct sim_frees {
    atomic_uint refs;
    unsigned count;
    struct sim_free_point points[]; /* by stream, ascending */
};

void sim_frees_ref(struct sim_frees *frees)
{
    if (frees)
        atomic_fetch_add_explicit(&frees->refs, 1, memory_order_relaxed);
}

void sim_frees_unref(struct sim_frees *frees)
{
    if (frees && atomic_fetch_sub_explicit(&frees->refs, 1, memory_order_acq_rel) == 1)
        free(frees);
}

bool sim_frees_know(const struct sim_frees *frees, struct sim_free_point point)
{
    unsigned low = 0, high = frees ? frees->count : 0;

    if (point.number == 0)
        return false;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (frees->points[middle].stream < point.stream)
            low = middle + 1;
        else
            high = middle;
    }
    return frees && low < frees->count && frees->points[low].stream == point.stream &&
           frees->points[low].number >= point.number;
}

/* Does a list know all of another one? */
static bool covers(const struct sim_frees *frees, const struct sim_free_point *points,
                   unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!sim_frees_know(frees, points[i]))
            return false;
    }
    return true;
}

/* Both, merged; streams with the lowest ids, made longest ago, are left out first. */
static struct sim_frees *merge(const struct sim_frees *frees,
                               const struct sim_free_point *points, unsigned count)
{
    unsigned room = frees->count + count, used = 0, left = 0, right = 0;
    struct sim_frees *all = malloc(sizeof(*all) + room * sizeof(struct sim_free_point));

    if (!all)
        return NULL;
    while (left < frees->count || right < count) {
        bool first =
            right == count ||
            (left < frees->count && frees->points[left].stream < points[right].stream);
        struct sim_free_point point = first ? frees->points[left++] : points[right++];
        if (!first && left < frees->count && frees->points[left].stream == point.stream &&
            frees->points[left++].number > point.number)
            point.number = frees->points[left - 1].number;
        all->points[used++] = point;
    }
    if (used > MOST_STREAMS) {
        memmove(all->points, all->points + used - MOST_STREAMS,
                MOST_STREAMS * sizeof(*points));
        used = MOST_STREAMS;
    }
    atomic_init(&all->refs, 1);
    all->count = used;
    return all;
}

static void join(struct sim_frees **into, const struct sim_free_point *points,
                 unsigned count)
{
    static const struct sim_frees none = {.count = 0};

    if (covers(*into, points, count))
        return;
    struct sim_frees *all = merge(*into ? *into : &none, points, count);
    if (!all)
        return;
    sim_frees_unref(*into);
    *into = all;
}

void sim_frees_join(struct sim_frees **into, struct sim_frees *more)
{
    if (!more || *into == more)
        return;
    if (!*into || covers(more, (*into)->points, (*into)->count)) {
        sim_frees_ref(more);
        sim_frees_unref(*into);
        *into = more;
    } else {
        join(into, more->points, more->count);
    }
}

void sim_frees_add(struct sim_frees **into, struct sim_free_point point)
{
    join(into, &point, 1);
}
