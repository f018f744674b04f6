/*
 * oracle_clock.h - vector clocks: how far each line is known.
 *
 * A clock is an array of counts, one per slot; a line counts in a slot. Clocks that are
 * shared are never changed: a change makes a copy, so that the many operations that know
 * the same share one clock. NULL is the clock that knows nothing.
 *
 * A pair is the two clocks of something: what the program ordered (n) and what was
 * ordered in this run (s). Where they are the same they are one object.
 *
 * Owns:  idle clocks, for the next ones.   Lock: the oracle's, held by every caller.
 */
#ifndef ORACLE_CLOCK_H
#define ORACLE_CLOCK_H

#include "gs_base.h"

#define ORACLE_NO_SLOT UINT32_MAX

struct oracle_clock {
    unsigned refs;
    uint32_t width; /* slots from here on are 0; at[width - 1] is not */
    uint32_t room;
    struct oracle_clock *next; /* among the idle */
    uint32_t at[];
};

struct oracle_pair {
    struct oracle_clock *n, *s; /* each with a reference */
};

/* A place in a line: the index-th of its slot. Slot ORACLE_NO_SLOT: none. */
struct oracle_point {
    uint32_t slot, index;
};

static inline uint32_t oracle_clock_at(const struct oracle_clock *clock, uint32_t slot)
{
    return clock && slot < clock->width ? clock->at[slot] : 0;
}

void oracle_clock_unref(struct oracle_clock *clock); /* NULL is allowed */

/* *into knows from now on what the other one knows, too. Without memory it may not, and
 * oracle_lose() has been called. */
void oracle_clock_join(struct oracle_clock **into, struct oracle_clock *other);

/* *into knows the point. Without memory as above. */
void oracle_clock_raise(struct oracle_clock **into, struct oracle_point point);

/* Does the other one know all this one knows? */
bool oracle_clock_within(const struct oracle_clock *clock,
                         const struct oracle_clock *other);

/* The same for pairs. oracle_pair_set replaces, and takes references of its own. */
void oracle_pair_join(struct oracle_pair *into, const struct oracle_pair *other);
void oracle_pair_raise(struct oracle_pair *into, struct oracle_point point);
void oracle_pair_set(struct oracle_pair *into, const struct oracle_pair *other);
void oracle_pair_clear(struct oracle_pair *pair);

#endif
