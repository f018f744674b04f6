/*
 * starts.h - where the occupied blocks of a heap's shared segments begin.
 *
 * A claim must decide in constant time, and without a lock, whether an address is the
 * start of a block. An array of ids over all offsets would cost 4 bytes per 512, far more
 * than its record for a block of 64 KiB. This hash table by address costs 5 to 11 bytes a
 * block of any size. A slot is a block's 28-bit id and four more bits of the hash, so a
 * walk along a run of slots reads almost no record but the right one.
 *
 * Readers take no lock. They check a block that they find against its own record, which
 * never goes away. A failed search counts only if the table was not rearranged during the
 * search (gs_starts_seek). A slot stays in place while its block is occupied, unless the
 * whole table is rearranged.
 *
 * Owns: its tables.   Lock: heap->lock for writers
 */
#ifndef GS_POOL_STARTS_H
#define GS_POOL_STARTS_H

#include <stdatomic.h>

#include "gs_base.h"

struct gs_pool;
struct gs_block;
struct gs_segment;

#define GS_STARTS_MIN_BITS 10u
#define GS_STARTS_MAX_BITS 29u
#define GS_STARTS_TAG_BITS 28u /* the id is below, four bits of the hash above */
/* Id 0: a deleted slot. */
#define GS_STARTS_DELETED ((uint32_t)15 << GS_STARTS_TAG_BITS)

/* Memory that reads as zero is an empty table, of one slot. The fields that every call
 * reads are some lines into the page: the first lines of all pages share a set of the
 * cache. */
#define GS_STARTS_COLOUR 17u
struct gs_starts_table {
    uint8_t unused[64 * GS_STARTS_COLOUR];
    _Atomic uint32_t mask; /* slots less one */
    _Atomic uint32_t slots[];
};

struct gs_starts {
    _Atomic(struct gs_starts_table *) table;
    _Atomic uint32_t version; /* odd while a table is being rearranged in place */
    uint32_t used, deleted;   /* slots of `table` ... */
    uint32_t most;            /* ... and of both together, so that runs stay short */
    /* By bits. Former tables are empty, but stay mapped. */
    struct gs_starts_table *tables[GS_STARTS_MAX_BITS + 1];
};

/* Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_starts_init(struct gs_starts *starts) GS_MUST_USE;
void gs_starts_fini(struct gs_starts *starts);

/* Makes space for one more start. Errors: GS_ERR_HOST_NOMEM, with nothing changed. */
enum gs_status gs_starts_make_room(struct gs_pool *pool,
                                   struct gs_starts *starts) GS_MUST_USE;
static inline enum gs_status gs_starts_reserve(struct gs_pool *pool,
                                               struct gs_starts *starts)
{
    return GS_LIKELY(starts->used + starts->deleted < starts->most)
               ? GS_OK
               : gs_starts_make_room(pool, starts);
}
/* Enters the start of `block`; gs_starts_reserve came first. */
void gs_starts_put(struct gs_starts *starts, const struct gs_block *block);
/* Removes the start of `block`. */
void gs_starts_drop(struct gs_starts *starts, const struct gs_block *block);
/* Removes all starts of a dead heap, and returns their memory. */
void gs_starts_clear(struct gs_starts *starts);
/* Empties the table, as after gs_starts_init: its heap's record is reused. */
void gs_starts_restart(struct gs_starts *starts);

/* Bits 32 and up are the slot's index, the four below them the tag. */
static inline uint64_t gs_starts_hash(uint64_t addr)
{
    return (addr >> 9) * 0x9e3779b97f4a7c15ull;
}

/* A walk along the slots that may belong to one address. Takes no lock. */
struct gs_starts_walk {
    const struct gs_starts_table *table;
    uint32_t mask, at;
    uint32_t tag; /* in the top four bits */
};

static inline void gs_starts_begin(struct gs_starts_walk *walk,
                                   const struct gs_starts *starts, uint64_t addr)
{
    uint64_t hash = gs_starts_hash(addr);

    walk->table = atomic_load_explicit(&starts->table, memory_order_acquire);
    walk->mask = atomic_load_explicit(&walk->table->mask, memory_order_relaxed);
    walk->at = (uint32_t)(hash >> 32) & walk->mask;
    walk->tag = (uint32_t)hash;
}

/* The next slot with the right tag, its id in the lower bits; 0: the run has ended. A
 * deleted slot's id is 0, which is the record of no block. */
static inline uint32_t gs_starts_next(struct gs_starts_walk *walk)
{
    uint32_t slot;

    do {
        slot = atomic_load_explicit(&walk->table->slots[walk->at], memory_order_acquire);
        if (!slot) {
            return 0;
        }
        walk->at = (walk->at + 1) & walk->mask;
    } while ((slot ^ walk->tag) >> GS_STARTS_TAG_BITS);
    return slot;
}

/*
 * The block that starts at `offset` (units) of the segment, or NULL. Without the lock
 * NULL may be wrong, and the block may be reused at any time.
 */
struct gs_block *gs_starts_find(const struct gs_pool *pool,
                                const struct gs_starts *starts,
                                const struct gs_segment *segment, uint32_t offset);
/* The same without the lock, but a NULL is right. */
struct gs_block *gs_starts_seek(const struct gs_pool *pool,
                                const struct gs_starts *starts,
                                const struct gs_segment *segment, uint32_t offset);
/* Host memory in use, in bytes. */
size_t gs_starts_bytes(const struct gs_starts *starts);

#endif
