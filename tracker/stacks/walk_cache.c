/*
 * walk_cache.c - finds the recorded walk that a capture may repeat, and compares it.
 *
 * Programs allocate in loops, so each entry notes which walk its thread met next, and the
 * next capture is compared with that first. Otherwise the frame in which the walk starts
 * and the return addresses of the two frames around it lead to the last walks that
 * started likewise: the shim's own frames keep frame pointers, so these are cheap to
 * read. Both only choose the entry; the recorded words are compared in full.
 *
 * A thread that finds the version of an entry even may write it. Readers take no lock: a
 * reader of a mixture of two entries sees the version change. Before a reader follows an
 * offset it checks that the word is on its own thread's stack, so a mixture does no harm.
 *
 * Owns:  seen, recent, process-wide; last, the thread's own.   Lock: none, atomics.
 * Design: docs/stacks.md
 */
#include "tracker/stacks/walk_cache.h"

#include <stdatomic.h>

#define SLOT_BITS 8  /* the number of a slot is a byte */
#define WAYS      2u /* slots of a walk */
#define RECENT    4u /* walks that started alike */

struct seen_walk {
    _Atomic uint32_t version; /* odd during a write; 0: never written */
    _Atomic uint32_t id, count;
    _Atomic uint8_t next; /* slot of the walk that followed */
    _Atomic uintptr_t base, high;
    _Atomic uint64_t generation, stacks;
    _Atomic uintptr_t words[GS_WALK_WORDS];
    _Atomic uint32_t offsets[GS_WALK_WORDS];
} __attribute__((aligned(64)));

/* 992 KiB of zero pages until the first walk. */
static struct seen_walk seen[1 << SLOT_BITS];

/* By start: the slots of the last walks, a byte each, the newest lowest. */
static _Atomic uint32_t recent[1 << SLOT_BITS];

/* The slot of this thread's last walk. */
static __thread uint8_t last __attribute__((tls_model("initial-exec")));

#define GET(field)        atomic_load_explicit(&(field), memory_order_acquire)
#define PUT(field, value) atomic_store_explicit(&(field), (value), memory_order_release)

/* Not instrumented: the words are on the thread's own stack, where sanitizers see the red
 * zones of other frames. */
#define NO_SANITIZE __attribute__((no_sanitize("address"), no_sanitize("thread")))

/* Returns true if a frame record may be there, further out than `inner`. */
static inline bool is_record(uintptr_t record, uintptr_t inner, uintptr_t high)
{
    return (record - inner < high - inner - 2 * sizeof(uintptr_t)) &
           (record % sizeof(uintptr_t) == 0);
}

static inline size_t hash_of(uintptr_t key)
{
    return (size_t)(key * 0x9e3779b97f4a7c15u >> (64 - SLOT_BITS));
}

NO_SANITIZE static inline _Atomic uint32_t *recent_of(const struct gs_walk_start *start)
{
    uintptr_t key = start->base, record = start->base;

    for (unsigned i = 0; i < 2; i++) {
        uintptr_t outer = *(const volatile uintptr_t *)record;

        if (!is_record(outer, record, start->high)) {
            break;
        }
        record = outer;
        key = key * 31 + ((const volatile uintptr_t *)record)[1];
    }
    return &recent[hash_of(key)];
}

/* Returns the stack id if the words of the recorded walk are unchanged, else 0. */
NO_SANITIZE static inline uint32_t recognise(struct seen_walk *walk,
                                             const struct gs_walk_start *start)
{
    const volatile uintptr_t *base = (const volatile uintptr_t *)start->base;
    size_t limit = (start->high - start->base) / sizeof(uintptr_t);
    uint32_t version = GET(walk->version), count = GET(walk->count), id = GET(walk->id);

    if (GET(walk->base) != start->base || GET(walk->generation) != start->generation ||
        GET(walk->stacks) != start->stacks || GET(walk->high) != start->high) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t offset = GET(walk->offsets[i]);

        if (GS_UNLIKELY(offset >= limit) || base[offset] != GET(walk->words[i])) {
            return 0;
        }
    }
    return version % 2 == 0 && GET(walk->version) == version ? id : 0;
}

/* The thread's last walk is now that in `slot`. */
static inline void follow(uint8_t slot)
{
    struct seen_walk *before = &seen[last];

    if (GET(before->next) != slot) {
        PUT(before->next, slot);
    }
    last = slot;
}

static GS_NOINLINE uint32_t find_recent(const struct gs_walk_start *start)
{
    uint32_t slots = GET(*recent_of(start)), id = 0;

    for (unsigned i = 0; i < RECENT; i++, slots >>= 8) {
        id = recognise(&seen[slots & 0xff], start);
        if (id != 0) {
            follow((uint8_t)slots);
            break;
        }
    }
    return id;
}

uint32_t gs_walk_cache_find(const struct gs_walk_start *start)
{
    uint8_t next = GET(seen[last].next);
    uint32_t id = recognise(&seen[next], start);

    if (GS_UNLIKELY(id == 0)) {
        return find_recent(start);
    }
    last = next;
    return id;
}

/* Returns the way with the fewest writes: two walks of one slot take turns. A fork may
 * have left one in the midst of a write, for good. */
static uint8_t oldest_way(size_t slot)
{
    size_t oldest = slot;
    uint32_t least = UINT32_MAX;

    for (size_t way = 0; way < WAYS; way++) {
        uint32_t version = GET(seen[slot ^ way].version);

        if (version % 2 == 0 && version < least) {
            least = version;
            oldest = slot ^ way;
        }
    }
    return (uint8_t)oldest;
}

/* Makes `slot` the newest of the walks that start like this one. */
static void put_first(const struct gs_walk_start *start, uint8_t slot)
{
    _Atomic uint32_t *mine = recent_of(start);
    uint32_t slots = GET(*mine), kept = slot;

    for (unsigned i = 0, used = 1; i < RECENT && used < RECENT; i++, slots >>= 8) {
        if ((slots & 0xff) != slot) {
            kept |= (slots & 0xff) << 8 * used++;
        }
    }
    PUT(*mine, kept);
}

NO_SANITIZE void gs_walk_cache_add(const struct gs_walk_start *start,
                                   const struct gs_walk_reads *notes, uint32_t id)
{
    const volatile uintptr_t *base = (const volatile uintptr_t *)notes->base;
    uint8_t slot = oldest_way(hash_of(start->base ^ (uintptr_t)id << 32));
    struct seen_walk *walk = &seen[slot];
    uint32_t version = GET(walk->version);

    if (id == 0 || notes->count > GS_WALK_WORDS || version % 2 != 0 ||
        !atomic_compare_exchange_strong(&walk->version, &version, version + 1)) {
        return;
    }
    PUT(walk->id, id);
    PUT(walk->count, notes->count);
    PUT(walk->base, start->base);
    PUT(walk->high, start->high);
    PUT(walk->generation, notes->generation);
    PUT(walk->stacks, start->stacks);
    for (unsigned i = 0; i < notes->count; i++) {
        PUT(walk->offsets[i], notes->offsets[i]);
        PUT(walk->words[i], base[notes->offsets[i]]);
    }
    PUT(walk->version, version + 2);
    put_first(start, slot);
    follow(slot);
}
