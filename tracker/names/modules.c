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
#include "tracker/statefile/state_memory.h"

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

/* Appends a record; grows the table if it is full. NULL: no memory. */
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

/* False: no memory. */
static bool add_record(struct gs_module_table *table, const struct gs_module_record *seen)
{
    const char *path = keep_string(table, seen->module.path);
    struct gs_module_record *record = path != NULL ? new_record(table) : NULL;

    if (record == NULL) {
        return false;
    }
    *record = *seen;
    record->module.path = path;
    return true;
}

void gs_module_table_add(struct gs_module_table *table,
                         const struct gs_module_record *seen)
{
    (void)add_record(table, seen);
}

static void add_loaded(struct gs_module_table *table, const struct gs_module *seen,
                       uint32_t epoch)
{
    const struct gs_module_record record = {.module = *seen,
                                            .first_epoch = epoch,
                                            .last_epoch = UINT32_MAX,
                                            .next = GS_NO_MODULE};

    if (!add_record(table, &record)) {
        return;
    }
    if (table->last_loaded == GS_NO_MODULE) {
        table->first_loaded = table->count - 1;
    } else {
        table->records[table->last_loaded].next = table->count - 1;
    }
    table->last_loaded = table->count - 1;
}

bool gs_module_table_is_current(const struct gs_module_table *table,
                                struct gs_module_counts counts)
{
    return table->epoch != 0 && table->loaded.adds == counts.adds &&
           table->loaded.unloads == counts.unloads;
}

/*
 * Ends the records of modules that the snapshot of the whole list no longer has, and
 * returns how many of its modules are known. Both are in the order of loading, so new
 * modules follow the known ones; a known module after an unknown one gets a new record.
 */
static size_t keep_loaded(struct gs_module_table *table,
                          const struct gs_module_snapshot *snapshot)
{
    size_t known = 0, at = table->first_loaded;

    table->first_loaded = table->last_loaded = GS_NO_MODULE;
    while (at != GS_NO_MODULE) {
        struct gs_module_record *record = &table->records[at];
        size_t next = record->next;

        if (known < snapshot->count &&
            same_module(&record->module, &snapshot->modules[known])) {
            known++;
            record->next = GS_NO_MODULE;
            if (table->last_loaded == GS_NO_MODULE) {
                table->first_loaded = at;
            } else {
                table->records[table->last_loaded].next = at;
            }
            table->last_loaded = at;
        } else {
            record->last_epoch = table->epoch;
        }
        at = next;
    }
    return known;
}

bool gs_module_table_merge(struct gs_module_table *table,
                           const struct gs_module_snapshot *snapshot)
{
    const struct gs_loaded *now = &snapshot->now, *before = &snapshot->before;
    size_t known = 0;

    if (table->epoch == 0) {
        table->first_loaded = table->last_loaded = GS_NO_MODULE;
        if (!snapshot->all) {
            return false;
        }
    }
    /* Both counters only grow, so the snapshot with the smaller sum is the older one. */
    if (table->epoch != 0 &&
        now->adds + now->unloads <= table->loaded.adds + table->loaded.unloads) {
        return true;
    }
    if (snapshot->all) {
        known = keep_loaded(table, snapshot);
    } else if (before->adds != table->loaded.adds ||
               before->unloads != table->loaded.unloads) {
        return false;
    }
    table->epoch++;
    for (size_t k = known; k < snapshot->count; k++) {
        add_loaded(table, &snapshot->modules[k], table->epoch);
    }
    table->loaded = *now;
    return true;
}

/* ---- the look-up by address ------------------------------------------------------- */

/*
 * The first `count` records, sorted by the begin of the module, then by epoch. `reach`:
 * the greatest end up to here. The others are read one by one; once that has cost as much
 * as sorting them would, the index is renewed. Not in a state file.
 */
struct gs_module_index {
    size_t count, bytes;
    size_t passed; /* records read one by one */
    struct gs_index_entry {
        uintptr_t begin, reach;
        size_t record;
    } entries[];
};

#define UNSORTED_MOST ((size_t)64) /* records that need no index */

static bool is_before(const struct gs_module_table *table, const struct gs_index_entry *a,
                      const struct gs_index_entry *b)
{
    return a->begin != b->begin ? a->begin < b->begin
                                : table->records[a->record].first_epoch <
                                      table->records[b->record].first_epoch;
}

/* Moves an entry down to its place in a heap with the greatest on top. */
static void sift_down(const struct gs_module_table *table, struct gs_index_entry *heap,
                      size_t at, size_t count)
{
    struct gs_index_entry moved = heap[at];

    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_before(table, &heap[child], &heap[child + 1])) {
            child++;
        }
        if (!is_before(table, &moved, &heap[child])) {
            break;
        }
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Sorts by a heap: the C library's qsort may allocate. */
static void sort_index(const struct gs_module_table *table, struct gs_module_index *index)
{
    struct gs_index_entry *entries = index->entries;
    uintptr_t reach = 0;

    for (size_t i = index->count / 2; i-- > 0;) {
        sift_down(table, entries, i, index->count);
    }
    for (size_t i = index->count; i-- > 1;) {
        struct gs_index_entry greatest = entries[0];

        entries[0] = entries[i];
        entries[i] = greatest;
        sift_down(table, entries, 0, i);
    }
    for (size_t i = 0; i < index->count; i++) {
        uintptr_t end = table->records[entries[i].record].module.end;

        reach = end > reach ? end : reach;
        entries[i].reach = reach;
    }
}

static void renew_index(struct gs_module_table *table)
{
    size_t bytes =
        sizeof(*table->index) + table->count * sizeof(table->index->entries[0]);
    struct gs_module_index *index = gs_host_map(bytes);

    if (index == NULL) {
        return;
    }
    index->bytes = bytes;
    index->count = table->count;
    for (size_t i = 0; i < table->count; i++) {
        index->entries[i].record = i;
        index->entries[i].begin = table->records[i].module.begin;
    }
    sort_index(table, index);
    gs_host_unmap(table->index, table->index != NULL ? table->index->bytes : 0);
    table->index = index;
}

static bool has(const struct gs_module_record *record, uint32_t epoch, uintptr_t address)
{
    return address >= record->module.begin && address < record->module.end &&
           epoch >= record->first_epoch && epoch <= record->last_epoch;
}

/* Returns how many entries begin at most at the address, in an epoch up to this one. */
static size_t entries_up_to(const struct gs_module_table *table, size_t count,
                            uint32_t epoch, uintptr_t address)
{
    const struct gs_index_entry *entries = table->index->entries;
    size_t low = 0;

    while (count > 0) {
        size_t half = count / 2;
        const struct gs_index_entry *entry = &entries[low + half];

        if (entry->begin < address ||
            (entry->begin == address &&
             table->records[entry->record].first_epoch <= epoch)) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* Modules of one begin follow each other in time: of each begin, only the last one up to
 * the epoch may be it. */
static const struct gs_module_record *find_sorted(const struct gs_module_table *table,
                                                  uint32_t epoch, uintptr_t address)
{
    const struct gs_index_entry *entries = table->index->entries;
    size_t count = entries_up_to(table, table->index->count, UINT32_MAX, address);

    while (count > 0 && entries[count - 1].reach > address) {
        uintptr_t begin = entries[count - 1].begin;
        size_t last = entries_up_to(table, count, epoch, begin);

        if (last > 0 && entries[last - 1].begin == begin &&
            has(&table->records[entries[last - 1].record], epoch, address)) {
            return &table->records[entries[last - 1].record];
        }
        count = entries_up_to(table, count, 0, begin);
        while (count > 0 && entries[count - 1].begin == begin) {
            count--; /* epoch 0 */
        }
    }
    return NULL;
}

static const struct gs_module_record *find_unsorted(const struct gs_module_table *table,
                                                    size_t from, uint32_t epoch,
                                                    uintptr_t address)
{
    for (size_t i = from; i < table->count; i++) {
        if (has(&table->records[i], epoch, address)) {
            return &table->records[i];
        }
    }
    return NULL;
}

/* Out of line: a table of few modules needs no saved registers. */
__attribute__((noinline)) static const struct gs_module_record *
find_among_many(struct gs_module_table *table, uint32_t epoch, uintptr_t address)
{
    size_t sorted = table->index != NULL ? table->index->count : 0;
    const struct gs_module_record *record;

    if (table->count - sorted > UNSORTED_MOST &&
        (table->index == NULL || table->index->passed > 16 * table->count)) {
        renew_index(table);
        sorted = table->index != NULL ? table->index->count : 0;
    }
    record = sorted > 0 ? find_sorted(table, epoch, address) : NULL;
    if (table->index != NULL) {
        table->index->passed += table->count - sorted;
    }
    return record != NULL ? record : find_unsorted(table, sorted, epoch, address);
}

const struct gs_module *gs_module_table_find(struct gs_module_table *table,
                                             uint32_t epoch, uintptr_t address)
{
    const struct gs_module_record *record = table->count <= UNSORTED_MOST
                                                ? find_unsorted(table, 0, epoch, address)
                                                : find_among_many(table, epoch, address);

    return record != NULL ? &record->module : NULL;
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
    gs_host_unmap(table->index, table->index != NULL ? table->index->bytes : 0);
    memset(table, 0, sizeof(*table));
}
