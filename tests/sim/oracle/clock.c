/*
 * clock.c - vector clocks, shared until they change. See oracle_clock.h.
 * Owns:  idle clocks by size.   Lock: the oracle's.
 */
#include "oracle_clock.h"

#include <stdlib.h>
#include <string.h>

#include "oracle_state.h"

#define SMALLEST_ROOM 16
#define CLASSES       8                      /* 16 to 2048 slots are kept when idle */
#define IDLE_BYTES    ((size_t)64 * GS_KIB)  /* kept of each larger class */
#define IDLE_SMALL    ((size_t)256 * GS_KIB) /* and of the smallest */

static struct oracle_clock *idle[CLASSES]; /* the oracle's lock */
static size_t idle_bytes[CLASSES];         /* the oracle's lock */

static size_t bytes_of(uint32_t room)
{
    return sizeof(struct oracle_clock) + (size_t)room * sizeof(uint32_t);
}

static unsigned class_of(uint32_t room)
{
    unsigned class = 0;

    for (uint32_t size = SMALLEST_ROOM; size < room; size *= 2)
        class ++;
    return class;
}

/* A clock of that width with one reference and arbitrary content, or NULL. */
static struct oracle_clock *clock_new(uint32_t width)
{
    unsigned class = class_of(width);
    uint32_t room = (uint32_t)SMALLEST_ROOM << class;
    struct oracle_clock *clock;

    if (class < CLASSES && idle[class]) {
        clock = idle[class];
        idle[class] = clock->next;
        idle_bytes[class] -= bytes_of(room);
    } else {
        clock = oracle_allocate(NULL, bytes_of(room));
        if (!clock) {
            oracle_lose();
            return NULL;
        }
        clock->room = room;
    }
    clock->refs = 1;
    clock->width = width;
    return clock;
}

static struct oracle_clock *clock_ref(struct oracle_clock *clock)
{
    if (clock)
        clock->refs++;
    return clock;
}

void oracle_clock_unref(struct oracle_clock *clock)
{
    if (!clock || --clock->refs > 0)
        return;
    unsigned class = class_of(clock->room);
    size_t limit = class == 0 ? IDLE_SMALL : IDLE_BYTES;

    if (class >= CLASSES || idle_bytes[class] >= limit) {
        free(clock);
        return;
    }
    clock->next = idle[class];
    idle[class] = clock;
    idle_bytes[class] += bytes_of(clock->room);
}

/* Which of the two knows something the other does not. */
static void compare(const struct oracle_clock *a, const struct oracle_clock *b,
                    bool *a_more, bool *b_more)
{
    uint32_t both = a->width < b->width ? a->width : b->width;
    unsigned a_wins = 0, b_wins = 0;

    for (uint32_t slot = 0; slot < both; slot++) {
        a_wins |= a->at[slot] > b->at[slot];
        b_wins |= b->at[slot] > a->at[slot];
    }
    *a_more = a_wins || a->width > both;
    *b_more = b_wins || b->width > both;
}

bool oracle_clock_within(const struct oracle_clock *clock,
                         const struct oracle_clock *other)
{
    bool more = true, less;

    if (!clock || clock == other)
        return true;
    if (!other)
        return false;
    compare(clock, other, &more, &less);
    return !more;
}

/* Make *into one that nobody else holds, at least that wide. False without memory. */
static bool make_own(struct oracle_clock **into, uint32_t width)
{
    struct oracle_clock *old = *into;
    uint32_t old_width = old ? old->width : 0;

    if (width < old_width)
        width = old_width;
    if (!old || old->refs > 1 || old->room < width) {
        struct oracle_clock *copy = clock_new(width);
        if (!copy)
            return false;
        if (old)
            memcpy(copy->at, old->at, old_width * sizeof(uint32_t));
        oracle_clock_unref(old);
        *into = copy;
    }
    memset((*into)->at + old_width, 0, (width - old_width) * sizeof(uint32_t));
    (*into)->width = width;
    return true;
}

void oracle_clock_join(struct oracle_clock **into, struct oracle_clock *other)
{
    bool we_more = false, other_more = true;

    if (!other || *into == other)
        return;
    if (*into)
        compare(*into, other, &we_more, &other_more);
    if (!other_more)
        return;
    if (!we_more) {
        oracle_clock_unref(*into);
        *into = clock_ref(other);
        return;
    }
    if (!make_own(into, other->width))
        return;
    for (uint32_t slot = 0; slot < other->width; slot++) {
        if ((*into)->at[slot] < other->at[slot])
            (*into)->at[slot] = other->at[slot];
    }
}

void oracle_clock_raise(struct oracle_clock **into, struct oracle_point point)
{
    if (point.slot == ORACLE_NO_SLOT || point.index == 0 ||
        oracle_clock_at(*into, point.slot) >= point.index)
        return;
    if (make_own(into, point.slot + 1))
        (*into)->at[point.slot] = point.index;
}

/* ---- pairs ------------------------------------------------------------------------ */

/* Let go of s, so that n, which it was, can be changed in place. */
static void part(struct oracle_pair *pair)
{
    oracle_clock_unref(pair->s);
    pair->s = NULL;
}

void oracle_pair_join(struct oracle_pair *into, const struct oracle_pair *other)
{
    if (into->n != into->s || other->n != other->s) {
        oracle_clock_join(&into->n, other->n);
        oracle_clock_join(&into->s, other->s);
        return;
    }
    if (into->n == other->n)
        return;
    part(into);
    oracle_clock_join(&into->n, other->n);
    into->s = clock_ref(into->n);
}

void oracle_pair_raise(struct oracle_pair *into, struct oracle_point point)
{
    if (into->n != into->s) {
        oracle_clock_raise(&into->n, point);
        oracle_clock_raise(&into->s, point);
        return;
    }
    part(into);
    oracle_clock_raise(&into->n, point);
    into->s = clock_ref(into->n);
}

void oracle_pair_set(struct oracle_pair *into, const struct oracle_pair *other)
{
    const struct oracle_pair set = {clock_ref(other->n), clock_ref(other->s)};

    oracle_pair_clear(into);
    *into = set;
}

void oracle_pair_clear(struct oracle_pair *pair)
{
    oracle_clock_unref(pair->n);
    oracle_clock_unref(pair->s);
    pair->n = pair->s = NULL;
}
