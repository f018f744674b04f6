/*
 * walk_cache.c - the cache of walks, by their start.
 *
 * The slot of a walk follows from the frame it starts in and the return addresses of the
 * two frames around it: the shim's own frames keep frame pointers, so these are cheap to
 * read. They only choose the slot; the recorded words are compared in full.
 *
 * A thread that finds the version of an entry even may write it. Readers take no lock: a
 * reader of a mixture of two entries sees the version change. Before a reader follows an
 * offset it checks that the word lies on its own thread's stack, so a mixture does no
 * harm.
 *
 * Owns:  seen, process-wide.   Lock: none, atomics.   Design: docs/stacks.md
 */
#include "walk_cache.h"

#include <stdatomic.h>

#define SLOT_BITS 7
#define WAYS      2u

struct seen_walk {
    _Atomic uint32_t version; /* odd during a write; 0: never written */
    _Atomic uint32_t id, count;
    _Atomic uintptr_t base, high;
    _Atomic uint64_t generation, stacks;
    _Atomic uintptr_t words[GS_WALK_WORDS];
    _Atomic uint32_t offsets[GS_WALK_WORDS];
} __attribute__((aligned(64)));

/* 260 KiB of zero pages until the first walk. */
static struct seen_walk seen[1 << SLOT_BITS];

#define GET(field)        atomic_load_explicit(&(field), memory_order_acquire)
#define PUT(field, value) atomic_store_explicit(&(field), (value), memory_order_release)

/* Not instrumented: the words are on the thread's own stack, where sanitizers see the red
 * zones of other frames. */
#define NO_SANITIZE __attribute__((no_sanitize("address"), no_sanitize("thread")))

/* Returns true if a frame record may lie there, further out than `inner`. */
static inline bool is_record(uintptr_t record, uintptr_t inner, uintptr_t high)
{
    return (record - inner < high - inner - 2 * sizeof(uintptr_t)) &
           (record % sizeof(uintptr_t) == 0);
}

NO_SANITIZE static inline size_t slot_of(const struct gs_walk_start *start)
{
    uintptr_t key = start->base, record = start->base;

    for (unsigned i = 0; i < 2; i++) {
        uintptr_t outer = *(const volatile uintptr_t *)record;

        if (!is_record(outer, record, start->high))
            break;
        record = outer;
        key = key * 31 + ((const volatile uintptr_t *)record)[1];
    }
    return (size_t)(key * 0x9e3779b97f4a7c15u >> (64 - SLOT_BITS));
}

/* Returns the stack id if the words of the recorded walk are unchanged, else 0. */
NO_SANITIZE static inline uint32_t recognise(struct seen_walk *walk,
                                             const struct gs_walk_start *start)
{
    const volatile uintptr_t *base = (const volatile uintptr_t *)start->base;
    size_t limit = (start->high - start->base) / sizeof(uintptr_t);
    uint32_t version = GET(walk->version), count = GET(walk->count), id = GET(walk->id);

    if (GET(walk->base) != start->base || GET(walk->generation) != start->generation ||
        GET(walk->stacks) != start->stacks || GET(walk->high) != start->high)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t offset = GET(walk->offsets[i]);

        if (GS_UNLIKELY(offset >= limit) || base[offset] != GET(walk->words[i]))
            return 0;
    }
    return version % 2 == 0 && GET(walk->version) == version ? id : 0;
}

NO_SANITIZE uint32_t gs_walk_cache_find(const struct gs_walk_start *start)
{
    size_t place = slot_of(start);
    uint32_t id = recognise(&seen[place], start);

    for (size_t way = 1; way < WAYS && GS_UNLIKELY(id == 0); way++)
        id = recognise(&seen[place ^ way], start);
    return id;
}

/* Returns the way with the fewest writes: two entries of one slot take turns. */
static struct seen_walk *oldest_way(size_t place)
{
    struct seen_walk *oldest = &seen[place];

    for (size_t way = 1; way < WAYS; way++)
        if (GET(seen[place ^ way].version) < GET(oldest->version))
            oldest = &seen[place ^ way];
    return oldest;
}

NO_SANITIZE void gs_walk_cache_add(const struct gs_walk_start *start,
                                   const struct gs_walk_reads *notes, uint32_t id)
{
    struct seen_walk *walk = oldest_way(slot_of(start));
    uint32_t version = GET(walk->version);

    if (id == 0 || notes->count > GS_WALK_WORDS || version % 2 != 0 ||
        !atomic_compare_exchange_strong(&walk->version, &version, version + 1))
        return;
    PUT(walk->id, id);
    PUT(walk->count, notes->count);
    PUT(walk->base, start->base);
    PUT(walk->high, start->high);
    PUT(walk->generation, notes->generation);
    PUT(walk->stacks, start->stacks);
    for (unsigned i = 0; i < notes->count; i++) {
        PUT(walk->offsets[i], notes->offsets[i]);
        PUT(walk->words[i], notes->words[i]);
    }
    PUT(walk->version, version + 2);
}
