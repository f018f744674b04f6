/*
 * starts.c - the hash table of block starts.
 *
 * Open addressing with linear probing. A removed start leaves a deleted slot behind,
 * unless its run ends there. So no run is ever cut before a start that it still holds,
 * and a reader without the lock finds every block that stays occupied during the search.
 * At three quarters full the table is copied to one of twice the size, or, if deleted
 * slots fill it, rearranged in place. Readers whose search failed in the meantime repeat
 * it.
 *
 * An old table is emptied, not unmapped, because a reader may be walking along it.
 *
 * Owns: its tables.   Lock: heap->lock for writers.   See starts.h
 */
#include "pool/starts.h"

#include <errno.h>
#include <sys/mman.h>

#include "gs_wait.h"
#include "pool/heap.h"

/* The back-off of a reader while a table is rearranged. */
#define YIELDS 32
#define NAP_NS 20000

/* The table of a dead heap: one slot, always empty. */
static struct gs_starts_table no_table = {.mask = 0, .slots = {0}};

static size_t table_bytes(size_t mask)
{
    return sizeof(struct gs_starts_table) + sizeof(uint32_t) * (mask + 1);
}

static struct gs_starts_table *table_of(const struct gs_starts *starts)
{
    return atomic_load_explicit(&starts->table, memory_order_acquire);
}

static inline uint32_t slot_at(const struct gs_starts_table *table, size_t at)
{
    return atomic_load_explicit(&table->slots[at], memory_order_acquire);
}

static void set_slot(struct gs_starts_table *table, size_t at, uint32_t slot)
{
    atomic_store_explicit(&table->slots[at], slot, memory_order_release);
}

static inline size_t mask_of(const struct gs_starts_table *table)
{
    return atomic_load_explicit(&table->mask, memory_order_relaxed);
}

static inline uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)hash & (uint32_t)15 << GS_STARTS_TAG_BITS;
}

static inline size_t home_of(uint64_t hash, size_t mask)
{
    return hash >> 32 & mask;
}

/* An empty table of 2^bits slots. Each size is used once in a heap's life, and is mapped
 * for good. */
static struct gs_starts_table *prepare(struct gs_starts *starts, unsigned bits)
{
    size_t mask = ((size_t)1 << bits) - 1;
    struct gs_starts_table *table = starts->tables[bits];

    table = table ? table : gs_meta_map(table_bytes(mask));
    if (!table) {
        return NULL;
    }
    atomic_store_explicit(&table->mask, (uint32_t)mask, memory_order_relaxed);
    starts->tables[bits] = table;
    return table;
}

/* Three quarters of the slots. */
static uint32_t most_of(const struct gs_starts_table *table)
{
    return (uint32_t)((mask_of(table) + 1) / 4 * 3);
}

/* Empties a table that no new reader enters; a reader still in it finds nothing. */
static void clear_table(struct gs_starts_table *table)
{
    int saved = errno;
    size_t mask = mask_of(table);

    if (madvise(table, table_bytes(mask), MADV_DONTNEED)) {
        for (size_t i = 0; i <= mask; i++) {
            set_slot(table, i, 0);
        }
    }
    errno = saved;
}

static void begin(struct gs_starts *starts, struct gs_starts_table *table)
{
    atomic_store(&starts->table, table);
    starts->most = most_of(table);
}

enum gs_status gs_starts_init(struct gs_starts *starts)
{
    struct gs_starts_table *table = prepare(starts, GS_STARTS_MIN_BITS);

    if (!table) {
        return GS_ERR_HOST_NOMEM;
    }
    begin(starts, table);
    return GS_OK;
}

void gs_starts_restart(struct gs_starts *starts)
{
    begin(starts, prepare(starts, GS_STARTS_MIN_BITS)); /* which is mapped */
}

void gs_starts_fini(struct gs_starts *starts)
{
    for (unsigned bits = 0; bits <= GS_STARTS_MAX_BITS; bits++) {
        if (starts->tables[bits]) {
            gs_meta_unmap(starts->tables[bits], table_bytes(((size_t)1 << bits) - 1));
        }
    }
}

/* Enters the block into the first free slot of its run. Returns the slot's old
 * content. */
static uint32_t insert(struct gs_starts_table *table, const struct gs_block *block)
{
    uint64_t hash = gs_starts_hash(gs_block_start(block));
    size_t mask = mask_of(table), at = home_of(hash, mask);
    uint32_t was;

    for (; (was = slot_at(table, at)) && was != GS_STARTS_DELETED; at = (at + 1) & mask) {
    }
    set_slot(table, at, block->id | tag_of(hash));
    return was;
}

static void insert_all(struct gs_pool *pool, struct gs_starts_table *to,
                       const struct gs_starts_table *from)
{
    for (size_t i = 0; i <= mask_of(from); i++) {
        uint32_t slot = slot_at(from, i);

        if (slot && slot != GS_STARTS_DELETED) {
            (void)insert(to, gs_block_at(pool, slot & (GS_TABLE_IDS - 1)));
        }
    }
}

static enum gs_status grow(struct gs_pool *pool, struct gs_starts *starts)
{
    struct gs_starts_table *old = table_of(starts), *table;

    unsigned bits = 32 - (unsigned)__builtin_clz((unsigned)mask_of(old));

    if (bits == GS_STARTS_MAX_BITS) {
        return GS_ERR_HOST_NOMEM;
    }
    table = prepare(starts, bits + 1);
    if (!table) {
        return GS_ERR_HOST_NOMEM;
    }
    insert_all(pool, table, old);
    atomic_store_explicit(&starts->table, table, memory_order_release);
    starts->most = most_of(table);
    atomic_fetch_add_explicit(&starts->version, 2, memory_order_release);
    clear_table(old);
    return GS_OK;
}

/* Rearranges in place. Readers whose search fails wait while the version is odd. */
static enum gs_status sweep_deleted(struct gs_pool *pool, struct gs_starts *starts)
{
    struct gs_starts_table *table = table_of(starts), *copy;
    size_t mask = mask_of(table);

    copy = gs_meta_map(table_bytes(mask));
    if (!copy) {
        return GS_ERR_HOST_NOMEM;
    }
    atomic_store_explicit(&copy->mask, (uint32_t)mask, memory_order_relaxed);
    for (size_t i = 0; i <= mask; i++) {
        set_slot(copy, i, slot_at(table, i));
    }
    atomic_fetch_add_explicit(&starts->version, 1, memory_order_acq_rel);
    for (size_t i = 0; i <= mask; i++) {
        set_slot(table, i, 0);
    }
    insert_all(pool, table, copy);
    atomic_fetch_add_explicit(&starts->version, 1, memory_order_release);
    gs_meta_unmap(copy, table_bytes(mask));
    return GS_OK;
}

enum gs_status gs_starts_make_room(struct gs_pool *pool, struct gs_starts *starts)
{
    enum gs_status status = starts->used >= starts->most / 2
                                ? grow(pool, starts)
                                : sweep_deleted(pool, starts);

    if (status == GS_OK) {
        starts->deleted = 0;
    }
    return status;
}

void gs_starts_put(struct gs_starts *starts, const struct gs_block *block)
{
    if (insert(table_of(starts), block) == GS_STARTS_DELETED) {
        starts->deleted--;
    }
    starts->used++;
}

/* Frees the slot at `at`. Its run may end there now. */
static void free_slot(struct gs_starts *starts, struct gs_starts_table *table, size_t at)
{
    size_t mask = mask_of(table);

    starts->used--;
    if (slot_at(table, (at + 1) & mask)) {
        set_slot(table, at, GS_STARTS_DELETED);
        starts->deleted++;
        return;
    }
    set_slot(table, at, 0);
    for (at = (at - 1) & mask; slot_at(table, at) == GS_STARTS_DELETED;
         at = (at - 1) & mask) {
        set_slot(table, at, 0);
        starts->deleted--;
    }
}

void gs_starts_drop(struct gs_starts *starts, const struct gs_block *block)
{
    struct gs_starts_table *table = table_of(starts);
    uint64_t hash = gs_starts_hash(gs_block_start(block));
    size_t mask = mask_of(table), at = home_of(hash, mask);
    uint32_t mine = block->id | tag_of(hash);

    while (slot_at(table, at) != mine) {
        assert(slot_at(table, at));
        at = (at + 1) & mask;
    }
    free_slot(starts, table, at);
}

void gs_starts_clear(struct gs_starts *starts)
{
    struct gs_starts_table *table = table_of(starts);

    atomic_store_explicit(&starts->table, &no_table, memory_order_release);
    atomic_fetch_add_explicit(&starts->version, 2, memory_order_release);
    clear_table(table);
    starts->used = starts->deleted = starts->most = 0;
}

struct gs_block *gs_starts_find(const struct gs_pool *pool,
                                const struct gs_starts *starts,
                                const struct gs_segment *segment, uint32_t offset)
{
    struct gs_starts_walk walk;
    uint32_t slot;

    gs_starts_begin(&walk, starts,
                    __atomic_load_n(&segment->addr, __ATOMIC_RELAXED) +
                        (uint64_t)offset * GS_BLOCK_BYTES);
    while ((slot = gs_starts_next(&walk))) {
        struct gs_block *block = gs_block_at(pool, slot & (GS_TABLE_IDS - 1));

        if (GS_LIKELY(__atomic_load_n(&block->segment, __ATOMIC_RELAXED) == segment &&
                      __atomic_load_n(&block->offset, __ATOMIC_RELAXED) == offset)) {
            return block;
        }
    }
    return NULL;
}

struct gs_block *gs_starts_seek(const struct gs_pool *pool,
                                const struct gs_starts *starts,
                                const struct gs_segment *segment, uint32_t offset)
{
    struct gs_wait wait = {.yields = YIELDS, .nap_ns = NAP_NS};

    for (;;) {
        uint32_t version = atomic_load_explicit(&starts->version, memory_order_acquire);
        struct gs_block *block = gs_starts_find(pool, starts, segment, offset);

        if (GS_LIKELY(block != NULL)) {
            return block;
        }
        /* The slots were read with acquire order, so this read comes after them. */
        if (!(version & 1) &&
            atomic_load_explicit(&starts->version, memory_order_acquire) == version) {
            return NULL;
        }
        (void)gs_wait_step(&wait);
    }
}

size_t gs_starts_bytes(const struct gs_starts *starts)
{
    size_t used_mask = mask_of(table_of(starts));

    return used_mask ? table_bytes(used_mask) : 0;
}
