/*
 * meta.h - where the pool's own records live: tables of equal items in mmap'ed slabs.
 *
 * Device memory cannot hold headers, so every block, index node and segment has a record
 * in host memory. A 28-bit id (0: none), half the size of a pointer, names an item. An
 * item's memory never moves, and stays mapped until the pool is destroyed: a stale id or
 * pointer reads an old record, never unmapped memory. The pool does not use the program's
 * malloc, because it runs inside other people's allocators.
 *
 * A heap keeps a small stock of free items, so that splitting and coalescing take no
 * second lock.
 *
 * Owns: slabs and directories.   Lock: table->lock (GS_RANK_META), a stock by its heap's.
 */
#ifndef GS_POOL_META_H
#define GS_POOL_META_H

#include "gs_base.h"
#include "pool/lock.h"

/* The unit of counting and reclaiming; the system's own page may be larger. */
#define GS_META_PAGE_BYTES 4096u

#define GS_SLAB_SHIFT  10
#define GS_SLAB_ITEMS  (1u << GS_SLAB_SHIFT)
#define GS_TABLE_SLABS ((size_t)1 << 18)
#define GS_TABLE_IDS   (1u << 28) /* GS_SLAB_ITEMS * GS_TABLE_SLABS */

struct gs_table {
    char **slabs; /* directory; the entry of a given id is immutable once the id is out */
    uint32_t item_bytes;
    uint32_t link_offset; /* offset of a free item's link to the next (a uint32_t) */
    struct gs_lock *lock;
    uint32_t carved;    /* ids below this exist; lock */
    uint32_t free_head; /* lock */
};

/* Free items held by one heap. */
struct gs_stock {
    uint32_t head, count;
};

/* Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_table_init(struct gs_table *table, size_t item_bytes,
                             size_t link_offset, struct gs_lock *lock) GS_MUST_USE;
void gs_table_fini(struct gs_table *table);

static inline void *gs_table_at(const struct gs_table *table, uint32_t id,
                                size_t item_bytes)
{
    return table->slabs[id >> GS_SLAB_SHIFT] + (id & (GS_SLAB_ITEMS - 1)) * item_bytes;
}

/* The link word of a free item. */
static inline uint32_t *gs_table_link(const struct gs_table *table, uint32_t id)
{
    char *item = gs_table_at(table, id, table->item_bytes);

    return (uint32_t *)(void *)(item + table->link_offset);
}

/*
 * Takes one item from the table; its link word is 0, the rest is unchanged (zero the
 * first time).
 * Errors: GS_ERR_HOST_NOMEM.   Locks: takes table->lock
 */
enum gs_status gs_table_take(struct gs_table *table, uint32_t *id) GS_MUST_USE;
/* Returns an item. Takes table->lock. */
void gs_table_give(struct gs_table *table, uint32_t id);
/* Returns a chain of items, linked by their link words, ended by 0. Takes table->lock. */
void gs_table_give_chain(struct gs_table *table, uint32_t head);

/*
 * Fills `stock` to at least `want` items. New items of 48 bytes come out in an order in
 * which those that follow each other share no line of the cache: two threads may each
 * use one.
 * Errors: GS_ERR_HOST_NOMEM; the stock keeps its items.   Locks: may take table->lock
 */
enum gs_status gs_stock_fill(struct gs_table *table, struct gs_stock *stock,
                             uint32_t want) GS_MUST_USE;
/* Returns the stock's items above `keep` to the table. Takes table->lock. */
void gs_stock_drain(struct gs_table *table, struct gs_stock *stock, uint32_t keep);

#define GS_STOCK_HIGH 256u
#define GS_STOCK_LOW  64u

/* Host memory in use by the table, in bytes, without pages never touched. */
size_t gs_table_bytes(struct gs_table *table);

/* Zeroed, page-aligned host memory; NULL if there is none. errno is preserved. */
void *gs_meta_map(size_t bytes);
void gs_meta_unmap(void *memory, size_t bytes);
/* Zeroes such memory, and gives its pages back. errno is preserved. */
void gs_meta_empty(void *memory, size_t bytes);

/* Visits all memory of gs_meta_map: it holds addresses of blocks, and is not the
 * program's. Returns false if there were more mappings than the pool records. Takes no
 * lock. */
#define GS_META_MAPPINGS 16384u
typedef void (*gs_meta_visitor)(void *self, uintptr_t begin, size_t bytes);
bool gs_meta_visit(gs_meta_visitor visit, void *self);

#endif
