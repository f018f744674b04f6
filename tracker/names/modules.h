/*
 * modules.h - the address ranges of shared objects, now and earlier.
 *
 * A table of modules only grows. Each snapshot of the loader's list is an epoch. A module
 * is known from the epoch of its first snapshot to that of its last. So an address and an
 * epoch identify one module, even if two modules used the same addresses one after the
 * other.
 *
 * Locks: a table has none of its own; its owner's lock guards it. Snapshots need none.
 * Design: docs/stacks.md
 */
#ifndef GS_MODULES_H
#define GS_MODULES_H

#include "gs_base.h"
#include "tracker/stacks/stacks.h"

/* The number of modules that the loader added and removed. Equal counts: no change. */
struct gs_module_counts {
    uint64_t adds, unloads;
};

/* Queries the loader; briefly takes its lock (some 12 ns without contention). */
struct gs_module_counts gs_modules_counts(void);
uint64_t gs_modules_unloads(void);

/* A copy of the loader's list, taken without any lock of ours and merged under it. */
struct gs_module_snapshot;

/* NULL: no memory. Takes the loader's lock. May read /proc/self/maps. */
struct gs_module_snapshot *gs_module_snapshot_take(void);
void gs_module_snapshot_free(struct gs_module_snapshot *snapshot);

struct gs_module_record {
    struct gs_module module;
    uint32_t first_epoch, last_epoch; /* last: UINT32_MAX while it is loaded */
};

/* All zero, except `memory`, is an empty table. */
struct gs_module_table {
    struct gs_module_record *records;
    size_t count, capacity;
    struct gs_module_counts counts; /* as of the last merge */
    uint32_t epoch;                 /* 0: no snapshot was merged yet */
    size_t bytes;                   /* memory held */
    struct gs_string_block *strings;
    struct gs_state_memory *memory; /* NULL: not in a file */
    /* If the file cannot grow: its part of `records`. */
    struct gs_module_record *kept;
    size_t kept_count;
};

/* Returns true if the table shows the loader's list as of these counts. */
bool gs_module_table_is_current(const struct gs_module_table *table,
                                struct gs_module_counts counts);

/* Merges a snapshot; one older than the last merge is ignored. Without memory the new
 * modules stay unknown until the next snapshot. */
void gs_module_table_merge(struct gs_module_table *table,
                           const struct gs_module_snapshot *snapshot);

/* Adds a module that another process saw; copies strings. Dropped without memory. */
void gs_module_table_add(struct gs_module_table *table,
                         const struct gs_module_record *seen);

/* The module that contained `address` in `epoch`, NULL if none. */
const struct gs_module *gs_module_table_find(const struct gs_module_table *table,
                                             uint32_t epoch, uintptr_t address);

void gs_module_table_clear(struct gs_module_table *table);

#endif
