/*
 * stack_table.c - interns stacks: a trie of frames and a hash index of whole stacks.
 *
 * Owns:  all memory of the table, straight from the kernel.
 * Lock:  the owner's for adding; none for finding.   Design: docs/stacks.md
 *
 * Stacks of one program share their outer frames, so frames form a trie, and a stack is
 * its innermost node. A look-up takes one probe of the index and a comparison along the
 * parents; only adding walks the trie frame by frame.
 */
#include "tracker/stacks/stack_table.h"

#include "tracker/host_memory.h"
#include "tracker/statefile/state_memory.h"

#include <string.h>

#define CHUNK_LENGTH      ((uint32_t)1 << GS_STACK_CHUNK_BITS)
#define FIRST_INDEX_BITS  12
#define FIRST_BUCKET_BITS 12

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Mixes pairs of frames with a key for each position, and sums them: no product depends
 * on the previous one, so the processor computes them in parallel. */
uint32_t gs_stack_hash(const uintptr_t *frames, unsigned count, bool truncated)
{
    uint64_t sum = (uint64_t)count << 1 | truncated;
    uint64_t key = 0xa0761d6478bd642fu;
    unsigned i = 0;

    for (; i + 2 <= count; i += 2, key += 0x9e3779b97f4a7c15u) {
        sum += mix(frames[i] ^ key, frames[i + 1] + key);
    }
    if (i < count) {
        sum += mix(frames[i] ^ key, 0x8ebc6af09c88c6e3u);
    }
    return (uint32_t)(mix(sum ^ 0xe7037ed1a0b428dbu, 0x1d8e4e27c47d124fu) >> 32);
}

static inline struct gs_stack_node *node_at(const struct gs_stack_table *table,
                                            uint32_t i)
{
    return atomic_load_explicit(&table->nodes[i >> GS_STACK_CHUNK_BITS],
                                memory_order_acquire) +
           (i & (CHUNK_LENGTH - 1));
}

static inline struct gs_stack_entry *entry_at(const struct gs_stack_table *table,
                                              uint32_t i)
{
    return atomic_load_explicit(&table->entries[i >> GS_STACK_CHUNK_BITS],
                                memory_order_acquire) +
           (i & (CHUNK_LENGTH - 1));
}

static inline uint32_t slot_of(uint32_t hash, uint32_t bits)
{
    return hash * 0x9e3779b1u >> (32 - bits);
}

/*
 * Nodes that were added for one stack are consecutive, the caller before the callee.
 * Stepping down by one, where that holds, avoids loading the parent's number, and lets
 * the processor run ahead.
 */
static bool equals(const struct gs_stack_table *table, uint32_t id,
                   const uintptr_t *frames, unsigned count, bool truncated)
{
    const struct gs_stack_entry *entry = entry_at(table, id);
    const struct gs_stack_node *node;
    uint32_t i = entry->leaf;

    if (entry->depth != count || entry->truncated != truncated) {
        return false;
    }
    node = node_at(table, i);
    for (unsigned k = 0;;) {
        if (node->frame != frames[k]) {
            return false;
        }
        if (++k == count) {
            return true;
        }
        if (GS_LIKELY(node->parent == i - 1 && i % CHUNK_LENGTH != 0)) {
            i--;
            node--;
        } else {
            i = node->parent;
            node = node_at(table, i);
        }
    }
}

uint32_t gs_stack_table_find(const struct gs_stack_table *table, uint32_t hash,
                             const uintptr_t *frames, unsigned count, bool truncated)
{
    const struct gs_stack_index *index =
        atomic_load_explicit(&table->index, memory_order_acquire);
    uint32_t mask, slot;
    uint64_t found;

    if (index == NULL) {
        return 0;
    }
    mask = ((uint32_t)1 << index->bits) - 1;
    for (slot = slot_of(hash, index->bits);; slot = (slot + 1) & mask) {
        found = atomic_load_explicit(&index->slots[slot], memory_order_acquire);
        if (found == 0) {
            return 0;
        }
        if ((uint32_t)(found >> 32) == hash &&
            equals(table, (uint32_t)found, frames, count, truncated)) {
            return (uint32_t)found;
        }
    }
}

static size_t index_bytes(uint32_t bits)
{
    return sizeof(struct gs_stack_index) + (sizeof(uint64_t) << bits);
}

/* Publishes an id; the index has space. */
static void put_slot(struct gs_stack_index *index, uint64_t value)
{
    uint32_t mask = ((uint32_t)1 << index->bits) - 1;
    uint32_t slot = slot_of((uint32_t)(value >> 32), index->bits);

    while (atomic_load_explicit(&index->slots[slot], memory_order_relaxed) != 0) {
        slot = (slot + 1) & mask;
    }
    atomic_store_explicit(&index->slots[slot], value, memory_order_release);
}

/* Returns an index with space for one more id: the present one, or one of twice the
 * size. */
static struct gs_stack_index *index_with_room(struct gs_stack_table *table)
{
    struct gs_stack_index *old =
        atomic_load_explicit(&table->index, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&table->count, memory_order_relaxed);
    uint32_t bits = old == NULL ? FIRST_INDEX_BITS : old->bits + 1;
    struct gs_stack_index *larger;

    if (old != NULL && count < (uint32_t)1 << (old->bits - 1)) {
        return old;
    }
    larger = bits < 32 ? gs_host_map(index_bytes(bits)) : NULL;
    if (larger == NULL) {
        return NULL;
    }
    larger->bits = bits;
    larger->older = old;
    for (uint32_t i = 0; old != NULL && i < (uint32_t)1 << old->bits; i++) {
        uint64_t value = atomic_load_explicit(&old->slots[i], memory_order_relaxed);

        if (value != 0) {
            put_slot(larger, value);
        }
    }
    atomic_fetch_add_explicit(&table->bytes, index_bytes(bits), memory_order_relaxed);
    atomic_store_explicit(&table->index, larger, memory_order_release);
    return larger;
}

static uint32_t bucket_of(uintptr_t frame, uint32_t parent, uint32_t bits)
{
    uint64_t key = (uint64_t)frame ^ (uint64_t)parent << 40 ^ parent;

    return (uint32_t)(key * 0x9e3779b97f4a7c15u >> (64 - bits));
}

static void link_node(struct gs_stack_table *table, uint32_t i)
{
    struct gs_stack_node *node = node_at(table, i);
    uint32_t *head =
        &table->buckets[bucket_of(node->frame, node->parent, table->bucket_bits)];

    node->next = *head;
    *head = i;
}

/* Makes at least as many buckets as nodes. False: there are no buckets at all. */
static bool grow_buckets(struct gs_stack_table *table)
{
    uint32_t nodes = atomic_load_explicit(&table->node_count, memory_order_relaxed);
    uint32_t bits = table->buckets == NULL ? FIRST_BUCKET_BITS : table->bucket_bits + 1;
    size_t old_bytes =
        table->buckets == NULL ? 0 : sizeof(uint32_t) << table->bucket_bits;
    uint32_t *larger;

    if (table->buckets != NULL && nodes < (uint32_t)1 << table->bucket_bits) {
        return true;
    }
    larger = gs_host_map(sizeof(uint32_t) << bits);
    if (larger == NULL) {
        return table->buckets != NULL; /* longer chains are only slower */
    }
    gs_host_unmap(table->buckets, old_bytes);
    table->buckets = larger;
    table->bucket_bits = bits;
    for (uint32_t i = 1; i <= nodes; i++) {
        link_node(table, i);
    }
    atomic_fetch_add_explicit(&table->bytes, (sizeof(uint32_t) << bits) - old_bytes,
                              memory_order_relaxed);
    return true;
}

/* Returns the node of `frame` below `parent`, added if it is new. 0: no memory. */
static uint32_t child_node(struct gs_stack_table *table, uintptr_t frame, uint32_t parent)
{
    uint32_t last = atomic_load_explicit(&table->node_count, memory_order_relaxed);
    uint32_t chunk = (last + 1) >> GS_STACK_CHUNK_BITS, i;
    struct gs_stack_node *node;

    if (!grow_buckets(table)) {
        return 0;
    }
    i = table->buckets[bucket_of(frame, parent, table->bucket_bits)];
    for (; i != 0; i = node->next) {
        node = node_at(table, i);
        if (node->frame == frame && node->parent == parent) {
            return i;
        }
    }
    if (chunk >= GS_STACK_CHUNKS) {
        return 0;
    }
    if (atomic_load_explicit(&table->nodes[chunk], memory_order_relaxed) == NULL) {
        node = gs_state_map(table->memory, CHUNK_LENGTH * sizeof(*node));
        if (node == NULL) {
            return 0;
        }
        atomic_store_explicit(&table->nodes[chunk], node, memory_order_release);
    }
    i = last + 1;
    node = node_at(table, i);
    node->frame = frame;
    node->parent = parent;
    link_node(table, i);
    atomic_store_explicit(&table->node_count, i, memory_order_relaxed);
    return i;
}

/* Makes space for entry `id`. */
static struct gs_stack_entry *new_entry(struct gs_stack_table *table, uint32_t id)
{
    uint32_t chunk = id >> GS_STACK_CHUNK_BITS;
    struct gs_stack_entry *entries;

    if (chunk >= GS_STACK_CHUNKS) {
        return NULL;
    }
    if (atomic_load_explicit(&table->entries[chunk], memory_order_relaxed) == NULL) {
        entries = gs_state_map(table->memory, CHUNK_LENGTH * sizeof(*entries));
        if (entries == NULL) {
            return NULL;
        }
        atomic_store_explicit(&table->entries[chunk], entries, memory_order_release);
    }
    return entry_at(table, id);
}

uint32_t gs_stack_table_add(struct gs_stack_table *table, uint32_t hash,
                            const uintptr_t *frames, unsigned count, bool truncated,
                            uint32_t epoch)
{
    uint32_t id = gs_stack_table_find(table, hash, frames, count, truncated), node = 0;
    struct gs_stack_index *index;
    struct gs_stack_entry *entry;

    if (id != 0) {
        return id; /* another thread was first */
    }
    id = atomic_load_explicit(&table->count, memory_order_relaxed) + 1;
    index = index_with_room(table);
    entry = new_entry(table, id);
    if (index == NULL || entry == NULL) {
        return 0;
    }
    for (unsigned i = count; i-- > 0;) {
        node = child_node(table, frames[i], node);
        if (node == 0) {
            return 0;
        }
    }
    *entry = (struct gs_stack_entry){node, epoch, (uint16_t)count, truncated};
    atomic_store_explicit(&table->count, id, memory_order_release);
    put_slot(index, (uint64_t)hash << 32 | id);
    return id;
}

const struct gs_stack_entry *gs_stack_table_entry(const struct gs_stack_table *table,
                                                  uint32_t id)
{
    if (id == 0 || id > atomic_load_explicit(&table->count, memory_order_acquire)) {
        return NULL;
    }
    return entry_at(table, id);
}

unsigned gs_stack_table_frames(const struct gs_stack_table *table,
                               const struct gs_stack_entry *entry, uintptr_t *frames,
                               unsigned max)
{
    const unsigned depth = entry->depth, count = depth < max ? depth : max;
    uint32_t node = entry->leaf;

    for (unsigned i = 0; i < count; i++) {
        const struct gs_stack_node *at = node_at(table, node);
        frames[i] = at->frame;
        node = at->parent;
    }
    return depth;
}

size_t gs_stack_table_bytes(const struct gs_stack_table *table)
{
    return atomic_load_explicit(&table->bytes, memory_order_relaxed) +
           atomic_load_explicit(&table->node_count, memory_order_relaxed) *
               sizeof(struct gs_stack_node) +
           atomic_load_explicit(&table->count, memory_order_relaxed) *
               sizeof(struct gs_stack_entry);
}

void gs_stack_table_clear(struct gs_stack_table *table)
{
    struct gs_stack_index *index = atomic_load(&table->index);

    while (index != NULL) {
        struct gs_stack_index *older = index->older;

        gs_host_unmap(index, index_bytes(index->bits));
        index = older;
    }
    for (unsigned i = 0; i < GS_STACK_CHUNKS; i++) {
        gs_state_unmap(table->memory, atomic_load(&table->nodes[i]),
                       CHUNK_LENGTH * sizeof(struct gs_stack_node));
        gs_state_unmap(table->memory, atomic_load(&table->entries[i]),
                       CHUNK_LENGTH * sizeof(struct gs_stack_entry));
    }
    if (table->buckets != NULL) {
        gs_host_unmap(table->buckets, sizeof(uint32_t) << table->bucket_bits);
    }
    memset(table, 0, sizeof(*table));
}
