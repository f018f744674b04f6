/*
 * modules.c - the table of modules, and the look-up by address and epoch.
 *
 * Owns:  the records and their strings.   Lock: the owner's.   Design: docs/stacks.md
 *
 * Memory comes from the kernel, because this code runs inside the program's allocation
 * calls. Strings live in blocks that never move, so a returned struct gs_module stays
 * valid until the table is cleared.
 */
#include "tracker/names/modules.h"

#include "tracker/host_memory.h"
#include "tracker/names/module_snapshot.h"
#include "tracker/state/state_memory.h"

#include <string.h>

#define STRING_BLOCK_BYTES ((size_t)64 << 10)
#define FIRST_RECORDS      ((size_t)128)

struct gs_string_block {
    struct gs_string_block *next;
    size_t bytes, used; /* of the whole mapping */
};

static const char *keep_string(struct gs_module_table *table, const char *text)
{
    size_t length = strlen(text) + 1;
    struct gs_string_block *block = table->strings;
    char *copy;

    if (block == NULL || block->bytes - block->used < length) {
        size_t bytes = gs_round_up(sizeof(*block) + length, STRING_BLOCK_BYTES);

        block = gs_state_map(table->memory, bytes);
        if (block == NULL) {
            return NULL;
        }
        block->bytes = bytes;
        block->used = sizeof(*block);
        block->next = table->strings;
        table->strings = block;
        table->bytes += bytes;
    }
    copy = (char *)block + block->used;
    memcpy(copy, text, length);
    block->used += length;
    return copy;
}

static struct gs_module_record *new_record(struct gs_module_table *table)
{
    size_t old_bytes = table->capacity * sizeof(*table->records), capacity;
    struct gs_module_record *larger;

    if (table->count == table->capacity) {
        capacity = table->capacity == 0 ? FIRST_RECORDS : table->capacity * 2;
        larger = gs_state_map(table->memory, capacity * sizeof(*larger));
        if (larger == NULL) {
            return NULL;
        }
        if (table->count != 0) {
            memcpy(larger, table->records, old_bytes);
        }
        if (gs_state_holds(table->memory, table->records) &&
            !gs_state_holds(table->memory, larger)) {
            table->kept_count = table->count;
            table->kept = table->records;
        }
        gs_state_unmap(table->memory, table->records, old_bytes);
        table->records = larger;
        table->capacity = capacity;
        table->bytes += capacity * sizeof(*larger) - old_bytes;
    }
    return &table->records[table->count++];
}

static bool same_module(const struct gs_module *known, const struct gs_module *seen)
{
    return known->begin == seen->begin && known->end == seen->end &&
           known->bias == seen->bias && known->build_id_len == seen->build_id_len &&
           memcmp(known->build_id, seen->build_id, seen->build_id_len) == 0 &&
           strcmp(known->path, seen->path) == 0;
}

void gs_module_table_add(struct gs_module_table *table,
                         const struct gs_module_record *seen)
{
    const char *path = keep_string(table, seen->module.path);
    struct gs_module_record *record = path != NULL ? new_record(table) : NULL;

    if (record == NULL) {
        return;
    }
    *record = *seen;
    record->module.path = path;
}

static void add_record(struct gs_module_table *table, const struct gs_module *seen,
                       uint32_t epoch)
{
    const struct gs_module_record record = {
        .module = *seen, .first_epoch = epoch, .last_epoch = UINT32_MAX};

    gs_module_table_add(table, &record);
}

bool gs_module_table_is_current(const struct gs_module_table *table,
                                struct gs_module_counts counts)
{
    return table->epoch != 0 && table->counts.adds == counts.adds &&
           table->counts.unloads == counts.unloads;
}

void gs_module_table_merge(struct gs_module_table *table,
                           const struct gs_module_snapshot *snapshot)
{
    struct gs_module_counts counts = snapshot->counts;
    size_t known = table->count;
    uint32_t epoch = table->epoch + 1;

    /* Both counters only grow, so the snapshot with the smaller sum is the older one. */
    if (table->epoch != 0 &&
        counts.adds + counts.unloads <= table->counts.adds + table->counts.unloads) {
        return;
    }
    for (size_t i = 0; i < known; i++) {
        if (table->records[i].last_epoch == UINT32_MAX) {
            table->records[i].last_epoch = table->epoch;
        }
    }
    for (size_t k = 0; k < snapshot->count; k++) {
        const struct gs_module *seen = &snapshot->modules[k];
        size_t i = 0;

        while (i < known && (table->records[i].last_epoch != table->epoch ||
                             !same_module(&table->records[i].module, seen))) {
            i++;
        }
        if (i < known) {
            table->records[i].last_epoch = UINT32_MAX;
        } else {
            add_record(table, seen, epoch);
        }
    }
    table->epoch = epoch;
    table->counts = counts;
}

const struct gs_module *gs_module_table_find(const struct gs_module_table *table,
                                             uint32_t epoch, uintptr_t address)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct gs_module_record *record = &table->records[i];

        if (address >= record->module.begin && address < record->module.end &&
            epoch >= record->first_epoch && epoch <= record->last_epoch) {
            return &record->module;
        }
    }
    return NULL;
}

void gs_module_table_clear(struct gs_module_table *table)
{
    while (table->strings != NULL) {
        struct gs_string_block *block = table->strings;

        table->strings = block->next;
        gs_state_unmap(table->memory, block, block->bytes);
    }
    gs_state_unmap(table->memory, table->records,
                   table->capacity * sizeof(*table->records));
    memset(table, 0, sizeof(*table));
}
