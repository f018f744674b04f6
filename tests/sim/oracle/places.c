/*
 * places.c - where the bytes of memory with several addresses are.
 *
 * A mapping of memory that can be mapped again says which place its addresses stand for;
 * two mappings of the same memory name the same one. Accesses are remembered and judged
 * by place, lives go by address. What has no entry here is its own place.
 *
 * Without memory an address is taken for its own place: two mappings of one memory are
 * then two memories, and findings are missed.
 *
 * Owns:  the places.   Lock: the oracle's.
 */
#include <string.h>

#include "oracle_spans.h"
#include "oracle_state.h"

struct place {
    struct oracle_span span;
    uintptr_t shift; /* from the addresses to the place, modulo the width of addresses */
};

bool oracle_has_places; /* the oracle's lock */

static struct oracle_spans places; /* the oracle's lock */
static struct place *idle;         /* the oracle's lock; by span.next */

static struct place *place_from(uintptr_t address)
{
    return (struct place *)oracle_spans_from(&places, address);
}

static void add_place(uintptr_t start, uintptr_t end, uintptr_t shift)
{
    struct place *place = idle;

    if (place)
        idle = (struct place *)place->span.next;
    else
        place = oracle_allocate(NULL, sizeof(*place));
    if (!place)
        return;
    memset(place, 0, sizeof(*place));
    place->span.start = start;
    place->span.end = end;
    place->shift = shift;
    oracle_spans_insert(&places, &place->span);
}

static void remove_place(struct place *place)
{
    oracle_spans_remove(&places, &place->span);
    place->span.next = (struct oracle_span *)idle;
    idle = place;
}

/* Let one begin at the address, if it lies inside one. */
static void split_place(uintptr_t address)
{
    struct place *place = place_from(address);

    if (!place || place->span.start >= address)
        return;
    uintptr_t end = place->span.end;
    place->span.end = address;
    add_place(address, end, place->shift);
}

uintptr_t oracle_find_place(uintptr_t address, uintptr_t *end)
{
    const struct place *place = place_from(address);
    bool lies_in = place && place->span.start <= address;

    if (lies_in && *end > place->span.end)
        *end = place->span.end;
    else if (place && !lies_in && *end > place->span.start)
        *end = place->span.start;
    return lies_in ? place->shift : 0;
}

void oracle_place(const struct oracle_range *range, uintptr_t place)
{
    uintptr_t start = range->address, end = oracle_range_end(range);

    if (start >= end)
        return;
    oracle_lock();
    split_place(start);
    split_place(end);
    struct place *old = place_from(start);
    while (old && old->span.start < end) {
        struct place *next = (struct place *)old->span.next;
        remove_place(old);
        old = next;
    }
    if (place && place != start)
        add_place(start, end, place - start);
    oracle_has_places = places.root != NULL;
    oracle_unlock();
}
