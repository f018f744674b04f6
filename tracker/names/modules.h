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
#include "tracker/names/loaded.h"
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

/* Copies the modules loaded since `since`; all of them if one was unloaded since then.
 * NULL: no memory. Takes the loader's lock. May read /proc/self/maps. */
struct gs_module_snapshot *gs_module_snapshot_take(const struct gs_loaded *since);
void gs_module_snapshot_free(struct gs_module_snapshot *snapshot);

struct gs_module_record {
    struct gs_module module;
    uint32_t first_epoch, last_epoch; /* last: UINT32_MAX while it is loaded */
    size_t next;                      /* the next loaded one; GS_NO_MODULE: none */
};

#define GS_NO_MODULE SIZE_MAX

/* All zero, except `memory`, is an empty table. */
struct gs_module_table {
    struct gs_module_record *records;
    size_t count, capacity;
    struct gs_loaded loaded;          /* the list as of the last merge */
    size_t first_loaded, last_loaded; /* records in the order of the list, if there is an
                                       * epoch; GS_NO_MODULE: none */
    uint32_t epoch;                   /* 0: no snapshot was merged yet */
    size_t bytes;                     /* memory held */
    struct gs_module_index *index;    /* by address; NULL: none yet */
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
 * modules stay unknown. False: another snapshot was merged since the table's `loaded` was
 * read, from which this one was taken. */
bool gs_module_table_merge(struct gs_module_table *table,
                           const struct gs_module_snapshot *snapshot);

/* Adds a module that another process saw; copies strings. Dropped without memory. */
void gs_module_table_add(struct gs_module_table *table,
                         const struct gs_module_record *seen);

/* The module that contained `address` in `epoch`, NULL if none. May renew the index. */
const struct gs_module *gs_module_table_find(struct gs_module_table *table,
                                             uint32_t epoch, uintptr_t address);

void gs_module_table_clear(struct gs_module_table *table);

#endif
