/*
 * modules.h - which shared objects lay where, now and earlier.
 *
 * A table of modules is only ever added to. Each look at the loader's list is an epoch; a
 * module is known from the epoch it was first seen in to the last, so that an address and
 * an epoch name one module even where two lay at the same place one after the other.
 *
 * Locks: a table has none of its own; its owner's lock guards it. Snapshots need none.
 * Design: docs/stacks.md.
 */
#ifndef GS_MODULES_H
#define GS_MODULES_H

#include "gs_base.h"
#include "stacks.h"

/* How often the loader added and removed modules. Equal counts: nothing has changed. */
struct gs_module_counts {
    uint64_t adds, unloads;
};

/* Asks the loader; takes its lock for a moment (some 12 ns when nobody else wants it). */
struct gs_module_counts gs_modules_counts(void);
uint64_t gs_modules_unloads(void);

/* The loader's list, copied: made without any lock of ours, then merged under it. */
struct gs_module_snapshot;

/* NULL: no memory. Takes the loader's lock. May read /proc/self/maps. */
struct gs_module_snapshot *gs_module_snapshot_take(void);
void gs_module_snapshot_free(struct gs_module_snapshot *snapshot);

struct gs_module_record {
    struct gs_module module;
    uint32_t first_epoch, last_epoch; /* last: UINT32_MAX while it is loaded */
};

/* All zero but `memory` is an empty table. */
struct gs_module_table {
    struct gs_module_record *records;
    size_t count, capacity;
    struct gs_module_counts counts; /* as of the last merge */
    uint32_t epoch;                 /* 0: no snapshot was merged yet */
    size_t bytes;                   /* memory held */
    struct gs_string_block *strings;
    struct gs_state_memory *memory; /* NULL: in no file */
    /* Where the file cannot grow: what it had of `records`. */
    struct gs_module_record *kept;
    size_t kept_count;
};

/* Does the table show the loader's list as it is at these counts? */
bool gs_module_table_is_current(const struct gs_module_table *table,
                                struct gs_module_counts counts);

/* Merge a snapshot; one older than what is known is ignored. Without memory the new
 * modules of this snapshot stay unknown until the next one. */
void gs_module_table_merge(struct gs_module_table *table,
                           const struct gs_module_snapshot *snapshot);

/* One that another process saw; strings are copied. Dropped where there is no memory. */
void gs_module_table_add(struct gs_module_table *table,
                         const struct gs_module_record *seen);

/* The module that held `address` in `epoch`, NULL if none. */
const struct gs_module *gs_module_table_find(const struct gs_module_table *table,
                                             uint32_t epoch, uintptr_t address);

void gs_module_table_clear(struct gs_module_table *table);

#endif
