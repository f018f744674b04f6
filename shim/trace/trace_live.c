/*
 * trace_live.c - see trace_live.h.
 *
 * Tables of records, found by their address with linear probing; a removed row is filled
 * from behind, so that no marks of removed rows pile up. In a kept free `bytes` is its
 * chunk.
 *
 * Owns:  the tables' pages.   Lock: the caller's.
 */
#include "shim/trace/trace_live.h"

#include <string.h>

#include "tracker/host_memory.h"

#define FIRST_ROOM 4096u

/* ---- tables ----------------------------------------------------------------------- */

static size_t home_of(const struct gs_trace_table *table, uint64_t key)
{
    return (size_t)(key * 0x9e3779b97f4a7c15ull >> 20) & (table->room - 1);
}

/* The row of the key, or the empty one for it; NULL: the table is empty. */
static struct gs_trace_record *find(const struct gs_trace_table *table, uint64_t key)
{
    if (table->room == 0) {
        return NULL;
    }
    for (size_t i = home_of(table, key);; i = (i + 1) & (table->room - 1)) {
        if (table->rows[i].key == key || table->rows[i].key == 0) {
            return &table->rows[i];
        }
    }
}

static struct gs_trace_record *find_present(const struct gs_trace_table *table,
                                            uint64_t key)
{
    struct gs_trace_record *row = find(table, key);

    return row && row->key != 0 ? row : NULL;
}

static bool grow(struct gs_trace_table *table)
{
    struct gs_trace_table more = {.room = table->room ? 2 * table->room : FIRST_ROOM};

    more.rows = gs_host_map(more.room * sizeof(*more.rows));
    if (!more.rows) {
        return false;
    }
    more.count = table->count;
    for (size_t i = 0; i < table->room; i++) {
        if (table->rows[i].key != 0) {
            *find(&more, table->rows[i].key) = table->rows[i];
        }
    }
    gs_host_unmap(table->rows, table->room * sizeof(*table->rows));
    *table = more;
    return true;
}

static void put(struct gs_trace_live *live, struct gs_trace_table *table,
                const struct gs_trace_record *record)
{
    struct gs_trace_record *row = find_present(table, record->key);

    if (!row && 2 * (table->count + 1) > table->room && !grow(table)) {
        live->no_memory = true;
        return;
    }
    row = find(table, record->key);
    table->count += row->key == 0;
    *row = *record;
}

static void drop(struct gs_trace_table *table, struct gs_trace_record *row)
{
    size_t hole = (size_t)(row - table->rows), mask = table->room - 1;

    for (size_t i = (hole + 1) & mask; table->rows[i].key != 0; i = (i + 1) & mask) {
        size_t home = home_of(table, table->rows[i].key);

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            table->rows[hole] = table->rows[i];
            hole = i;
        }
    }
    table->rows[hole].key = 0;
    table->count--;
}

/* ---- allocations ------------------------------------------------------------------ */

static void add_alloc(struct gs_trace_live *live, const struct gs_trace_record *record)
{
    struct gs_trace_record *row = find_present(&live->blocks, record->key);

    if (!row) {
        put(live, &live->blocks, record);
    } else if (row->op == GS_TRACE_FREE && row->time_ns >= record->time_ns) {
        drop(&live->blocks, row);
    } else if (row->time_ns <= record->time_ns) {
        *row = *record; /* the free between the two is still to come */
    }
}

static void add_free(struct gs_trace_live *live, const struct gs_trace_record *record,
                     uint64_t chunk)
{
    struct gs_trace_record *row = find_present(&live->blocks, record->key);

    if (row && row->op == GS_TRACE_ALLOC) {
        if (row->time_ns > record->time_ns) {
            return; /* of an earlier allocation of the address */
        }
        live->recent[live->next_recent++ % GS_TRACE_LIVE_RECENT] = *row;
        drop(&live->blocks, row);
    } else {
        struct gs_trace_record kept = *record;

        kept.bytes = chunk;
        put(live, &live->blocks, &kept);
    }
}

/* The thread's last free of the address did not take place. */
static void add_refused(struct gs_trace_live *live, const struct gs_trace_record *record)
{
    struct gs_trace_record *row = find_present(&live->blocks, record->key);

    if (row) {
        if (row->op == GS_TRACE_FREE && row->thread == record->thread) {
            drop(&live->blocks, row);
        }
        return;
    }
    for (unsigned i = 0; i < GS_TRACE_LIVE_RECENT; i++) {
        struct gs_trace_record *recent = &live->recent[i];

        if (recent->key == record->key) {
            put(live, &live->blocks, recent);
            recent->key = 0;
            return;
        }
    }
}

static void end_context(struct gs_trace_live *live, const struct gs_trace_record *end)
{
    struct gs_trace_table *table = &live->blocks;

    for (size_t i = 0; i < table->room;) {
        struct gs_trace_record *row = &table->rows[i];

        if (row->key != 0 && row->op == GS_TRACE_ALLOC && row->context == end->context &&
            end->context != GS_TRACE_UNNUMBERED && row->kind != GS_TRACE_KIND_ASYNC &&
            row->time_ns <= end->time_ns) {
            drop(table, row); /* another row may be here now */
        } else {
            i++;
        }
    }
    table = &live->ranges;
    for (size_t i = 0; i < table->room;) {
        if (table->rows[i].key != 0 && table->rows[i].context == end->context &&
            end->context != 0) {
            drop(table, &table->rows[i]);
        } else {
            i++;
        }
    }
}

/* ---- ranges of the pool ----------------------------------------------------------- */

/* The remainders of a range on both sides of the unmapped part. */
static void cut_range(struct gs_trace_live *live, struct gs_trace_record range,
                      uint64_t begin, uint64_t end)
{
    uint64_t range_end = range.key + range.bytes;

    drop(&live->ranges, find_present(&live->ranges, range.key));
    if (range.key < begin) {
        range.bytes = begin - range.key;
        put(live, &live->ranges, &range);
    }
    if (end < range_end) {
        range.key = end;
        range.bytes = range_end - end;
        put(live, &live->ranges, &range);
    }
}

static void unmap_range(struct gs_trace_live *live, const struct gs_trace_record *record)
{
    uint64_t begin = record->key, end = begin + record->bytes;
    struct gs_trace_record *row = find_present(&live->ranges, begin);

    if (row && row->bytes == record->bytes) {
        drop(&live->ranges, row);
        return;
    }
    for (size_t i = 0; i < live->ranges.room; i++) {
        struct gs_trace_record range = live->ranges.rows[i];

        if (range.key != 0 && range.key < end && begin < range.key + range.bytes) {
            cut_range(live, range, begin, end);
            i = (size_t)-1; /* the rows have moved */
        }
    }
}

/* ---- the public part -------------------------------------------------------------- */

void gs_trace_live_add(struct gs_trace_live *live, const struct gs_trace_record *record,
                       uint64_t chunk)
{
    switch (record->op) {
    case GS_TRACE_CONTEXT_END:
        end_context(live, record);
        return;
    case GS_TRACE_ALLOC:
    case GS_TRACE_FREE:
    case GS_TRACE_FREE_REFUSED:
    case GS_TRACE_MAPPED:
    case GS_TRACE_UNMAPPED:
        break;
    default:
        return;
    }
    if (record->key == 0) {
        return;
    }
    if (record->op == GS_TRACE_ALLOC) {
        add_alloc(live, record);
    } else if (record->op == GS_TRACE_FREE) {
        add_free(live, record, chunk);
    } else if (record->op == GS_TRACE_FREE_REFUSED) {
        add_refused(live, record);
    } else if (record->op == GS_TRACE_UNMAPPED) {
        unmap_range(live, record);
    } else if (record->bytes != 0) {
        put(live, &live->ranges, record);
    }
}

void gs_trace_live_expire(struct gs_trace_live *live, uint64_t chunk)
{
    struct gs_trace_table *table = &live->blocks;

    for (size_t i = 0; i < table->room;) {
        struct gs_trace_record *row = &table->rows[i];

        if (row->key != 0 && row->op == GS_TRACE_FREE && row->bytes < chunk) {
            drop(table, row);
        } else {
            i++;
        }
    }
}

size_t gs_trace_live_count(const struct gs_trace_live *live)
{
    return live->blocks.count + live->ranges.count;
}

void gs_trace_live_visit(const struct gs_trace_live *live,
                         void (*visit)(void *arg, const struct gs_trace_record *record),
                         void *arg)
{
    const struct gs_trace_table *const tables[] = {&live->ranges, &live->blocks};

    for (size_t t = 0; t < GS_ARRAY_LEN(tables); t++) {
        for (size_t i = 0; i < tables[t]->room; i++) {
            struct gs_trace_record record = tables[t]->rows[i];

            if (record.op == GS_TRACE_FREE) {
                record.bytes = 0;
            }
            if (record.key != 0) {
                visit(arg, &record);
            }
        }
    }
}

void gs_trace_live_free(struct gs_trace_live *live)
{
    gs_host_unmap(live->blocks.rows, live->blocks.room * sizeof(*live->blocks.rows));
    gs_host_unmap(live->ranges.rows, live->ranges.room * sizeof(*live->ranges.rows));
    memset(live, 0, sizeof(*live));
}
