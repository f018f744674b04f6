/*
 * stack_table.h - lists of addresses, each stored once, with dense ids.
 *
 * Readers take no lock: the table only grows, and an entry is written before its id can
 * be found. One writer at a time.
 * Design: docs/stacks.md
 */
#ifndef GS_STACK_TABLE_H
#define GS_STACK_TABLE_H

#include "gs_base.h"

#include <stdatomic.h>

/* Chunks of a growing array that never moves. */
#define GS_STACK_CHUNK_BITS 16
#define GS_STACK_CHUNKS     1024

/* A frame and its caller: a node of the trie that all stacks share. */
struct gs_stack_node {
    uintptr_t frame;
    uint32_t parent; /* node of the caller; 0: outermost */
    uint32_t next;   /* next node with the same hash of (parent, frame); for the writer */
};

struct gs_stack_entry {
    uint32_t leaf;  /* node of the innermost frame */
    uint32_t epoch; /* of the module table when the stack was interned */
    uint16_t depth;
    uint16_t truncated; /* 1: the stack continues beyond the outermost frame */
};

/* Hash table of ids: a slot is hash << 32 | id, 0 if empty; never more than half full. */
struct gs_stack_index {
    struct gs_stack_index *older; /* replaced, but readers may still use it */
    uint32_t bits;
    _Atomic uint64_t slots[];
};

/* All zero, except `memory`, is an empty table. */
struct gs_stack_table {
    _Atomic(struct gs_stack_index *) index;
    _Atomic(struct gs_stack_node *) nodes[GS_STACK_CHUNKS];
    _Atomic(struct gs_stack_entry *) entries[GS_STACK_CHUNKS];
    _Atomic uint32_t count; /* ids in use: 1..count */
    _Atomic uint32_t node_count;
    uint32_t *buckets; /* for the writer: first node with a hash of (parent, frame) */
    uint32_t bucket_bits;
    _Atomic size_t bytes;           /* memory held by indexes and buckets */
    struct gs_state_memory *memory; /* of nodes and entries; NULL: not in a file */
};

/* Hash of a list of frames, and of whether the stack continues beyond them. */
uint32_t gs_stack_hash(const uintptr_t *frames, unsigned count, bool truncated);

/* Returns the id of a known stack, 0 if unknown. No lock. */
uint32_t gs_stack_table_find(const struct gs_stack_table *table, uint32_t hash,
                             const uintptr_t *frames, unsigned count, bool truncated);

/* Finds or adds; count is 1 or more. 0: no memory. Under the owner's lock. */
uint32_t gs_stack_table_add(struct gs_stack_table *table, uint32_t hash,
                            const uintptr_t *frames, unsigned count, bool truncated,
                            uint32_t epoch);

/* The entry of an id, NULL if there is none. No lock. */
const struct gs_stack_entry *gs_stack_table_entry(const struct gs_stack_table *table,
                                                  uint32_t id);

/* Writes at most `max` frames, innermost first; returns how many there are. No lock. */
unsigned gs_stack_table_frames(const struct gs_stack_table *table,
                               const struct gs_stack_entry *entry, uintptr_t *frames,
                               unsigned max);

/* Bytes in use: nodes and entries written, and whole indexes. */
size_t gs_stack_table_bytes(const struct gs_stack_table *table);

void gs_stack_table_clear(struct gs_stack_table *table);

#endif
