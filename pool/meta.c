/*
 * meta.c - tables of records in mmap'ed slabs.
 * Owns: slabs and directories.   Lock: table->lock.   See meta.h
 */
#include "pool/meta.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* All mappings, for gs_meta_visit. Atomic: a counter hands out the entries; the size is
 * written last and becomes 0 at the unmapping. */
static struct mapped {
    uintptr_t begin;
    size_t bytes;
} mapped[GS_META_MAPPINGS];
static uint32_t mapped_count; /* atomic; beyond GS_META_MAPPINGS: some are not recorded */

static void note_mapped(void *memory, size_t bytes)
{
    uint32_t number = __atomic_fetch_add(&mapped_count, 1, __ATOMIC_RELAXED);

    if (number >= GS_META_MAPPINGS) {
        return;
    }
    __atomic_store_n(&mapped[number].begin, (uintptr_t)memory, __ATOMIC_RELAXED);
    __atomic_store_n(&mapped[number].bytes, bytes, __ATOMIC_RELEASE);
}

/* The number of recorded mappings. */
static uint32_t mapping_count(void)
{
    uint32_t count = __atomic_load_n(&mapped_count, __ATOMIC_ACQUIRE);

    return count < GS_META_MAPPINGS ? count : GS_META_MAPPINGS;
}

static void note_unmapped(const void *memory)
{
    for (uint32_t i = mapping_count(); i-- > 0;) {
        if (__atomic_load_n(&mapped[i].begin, __ATOMIC_RELAXED) == (uintptr_t)memory &&
            __atomic_load_n(&mapped[i].bytes, __ATOMIC_ACQUIRE) != 0) {
            __atomic_store_n(&mapped[i].bytes, 0, __ATOMIC_RELEASE);
            return;
        }
    }
}

bool gs_meta_visit(gs_meta_visitor visit, void *self)
{
    for (uint32_t i = 0; i < mapping_count(); i++) {
        size_t bytes = __atomic_load_n(&mapped[i].bytes, __ATOMIC_ACQUIRE);
        if (bytes != 0) {
            visit(self, __atomic_load_n(&mapped[i].begin, __ATOMIC_RELAXED), bytes);
        }
    }
    return __atomic_load_n(&mapped_count, __ATOMIC_ACQUIRE) <= GS_META_MAPPINGS;
}

void *gs_meta_map(size_t bytes)
{
    int saved = errno;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    errno = saved;
    if (memory == MAP_FAILED) {
        return NULL;
    }
    note_mapped(memory, bytes);
    return memory;
}

void gs_meta_unmap(void *memory, size_t bytes)
{
    int saved = errno;

    note_unmapped(memory);
    munmap(memory, bytes);
    errno = saved;
}

void gs_meta_empty(void *memory, size_t bytes)
{
    int saved = errno;

    if (madvise(memory, bytes, MADV_DONTNEED)) { /* locked in memory, for one */
        memset(memory, 0, bytes);
    }
    errno = saved;
}

static size_t slab_bytes(const struct gs_table *table)
{
    return gs_round_up((size_t)table->item_bytes << GS_SLAB_SHIFT, GS_META_PAGE_BYTES);
}

enum gs_status gs_table_init(struct gs_table *table, size_t item_bytes,
                             size_t link_offset, struct gs_lock *lock)
{
    table->slabs = gs_meta_map(GS_TABLE_SLABS * sizeof(*table->slabs));
    if (!table->slabs) {
        return GS_ERR_HOST_NOMEM;
    }
    table->item_bytes = (uint32_t)item_bytes;
    table->link_offset = (uint32_t)link_offset;
    table->lock = lock;
    table->carved = 1; /* id 0 means "none" */
    table->free_head = 0;
    return GS_OK;
}

void gs_table_fini(struct gs_table *table)
{
    if (!table->slabs) {
        return;
    }
    for (size_t i = 0; i < GS_TABLE_SLABS && table->slabs[i]; i++) {
        gs_meta_unmap(table->slabs[i], slab_bytes(table));
    }
    gs_meta_unmap(table->slabs, GS_TABLE_SLABS * sizeof(*table->slabs));
    table->slabs = NULL;
}

/* Takes an id, recycled or new; 0 if there is no memory. The lock is held. */
static uint32_t take_locked(struct gs_table *table)
{
    uint32_t id = table->free_head;

    if (id) {
        uint32_t *link = gs_table_link(table, id);

        table->free_head = *link;
        *link = 0;
        return id;
    }
    id = table->carved;
    if (id == GS_TABLE_IDS) {
        return 0;
    }
    if (!table->slabs[id >> GS_SLAB_SHIFT]) {
        char *slab = gs_meta_map(slab_bytes(table));

        if (!slab) {
            return 0;
        }
        table->slabs[id >> GS_SLAB_SHIFT] = slab;
    }
    table->carved++;
    return id;
}

enum gs_status gs_table_take(struct gs_table *table, uint32_t *id)
{
    uint32_t taken;

    gs_lock_take(table->lock);
    taken = take_locked(table);
    gs_lock_drop(table->lock);
    if (!taken) {
        return GS_ERR_HOST_NOMEM;
    }
    *id = taken;
    return GS_OK;
}

void gs_table_give(struct gs_table *table, uint32_t id)
{
    gs_lock_take(table->lock);
    *gs_table_link(table, id) = table->free_head;
    table->free_head = id;
    gs_lock_drop(table->lock);
}

void gs_table_give_chain(struct gs_table *table, uint32_t head)
{
    uint32_t tail = head;

    if (!head) {
        return;
    }
    while (*gs_table_link(table, tail)) {
        tail = *gs_table_link(table, tail);
    }
    gs_lock_take(table->lock);
    *gs_table_link(table, tail) = table->free_head;
    table->free_head = head;
    gs_lock_drop(table->lock);
}

enum gs_status gs_stock_fill(struct gs_table *table, struct gs_stock *stock,
                             uint32_t want)
{
    uint32_t goal = want > GS_STOCK_LOW ? want : GS_STOCK_LOW;
    uint32_t heads[2] = {stock->head, 0}, last = 0;

    if (GS_LIKELY(stock->count >= want)) {
        return GS_OK;
    }
    gs_lock_take(table->lock);
    for (unsigned turn = 1; stock->count < goal; turn ^= 1) {
        uint32_t id = take_locked(table);

        if (!id) {
            break;
        }
        if (turn && !last) {
            last = id;
        }
        *gs_table_link(table, id) = heads[turn];
        heads[turn] = id;
        stock->count++;
    }
    gs_lock_drop(table->lock);
    if (last) {
        *gs_table_link(table, last) = heads[0];
        stock->head = heads[1];
    }
    return stock->count >= want ? GS_OK : GS_ERR_HOST_NOMEM;
}

void gs_stock_drain(struct gs_table *table, struct gs_stock *stock, uint32_t keep)
{
    gs_lock_take(table->lock);
    while (stock->count > keep) {
        uint32_t id = stock->head;
        uint32_t *link = gs_table_link(table, id);

        stock->head = *link;
        stock->count--;
        *link = table->free_head;
        table->free_head = id;
    }
    gs_lock_drop(table->lock);
}

size_t gs_table_bytes(struct gs_table *table)
{
    size_t items, slabs, directory;

    gs_lock_take(table->lock);
    items = table->carved;
    gs_lock_drop(table->lock);
    slabs = items >> GS_SLAB_SHIFT;
    directory = gs_round_up((slabs + 1) * sizeof(*table->slabs), GS_META_PAGE_BYTES);
    return directory + slabs * slab_bytes(table) +
           gs_round_up((items & (GS_SLAB_ITEMS - 1)) * table->item_bytes,
                       GS_META_PAGE_BYTES);
}
