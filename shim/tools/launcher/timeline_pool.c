/*
 * timeline_pool.c - what the pool held over a trace's time: how much memory was reserved
 * of the driver, and how much of each segment was in use.
 *
 * Reserved are the ranges that the pool has, and the allocations outside of them, which
 * are the driver's own. What is taken out of a range is idle; of two rests the first has
 * its live bytes.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "gs_compare.h"
#include "shim/tools/launcher/timeline.h"
#include "shim/tools/replay/replay_map.h"
#include "tracker/report/files/export_json_values.h"

#include <stdlib.h>
#include <string.h>

#define INTERVALS GS_TIMELINE_INTERVALS_MOST
#define COLUMNS   120   /* of the map of segments */
#define RANGES    65536 /* segments at a time */
#define ROWS      4096  /* segments that are followed; the others are only counted */
#define SHOWN     48    /* rows of a memory: those that were largest for longest */
#define NONE      0xff  /* no segment then */

static_assert(INTERVALS % COLUMNS == 0, "a column is whole intervals");

/* A segment now. */
struct range {
    uint64_t begin, bytes, live;
    unsigned memory;
    uint32_t row; /* ROWS: none */
    uint16_t context;
};

/* All segments of a size that began at an address. */
struct row {
    uint64_t begin, bytes, area;
    unsigned memory;
    unsigned char used[COLUMNS]; /* per cent at the column's end, or NONE */
};

struct reserved {
    uint64_t now, most[INTERVALS];
    size_t interval;
};

struct gs_timeline_pool {
    uint64_t interval_ns;
    struct range *ranges; /* by address */
    size_t count, room, column;
    struct gs_replay_map row_numbers;
    struct row *rows;
    size_t row_count;
    struct reserved *reserved[GS_TIMELINE_MEMORIES]; /* NULL: none of it */
    gs_timeline_segment_see *see;                    /* NULL: nobody watches */
    void *self;
};

struct gs_timeline_pool *gs_timeline_pool_create(const struct gs_timeline *timeline)
{
    struct gs_timeline_pool *pool = gs_replay_alloc(1, sizeof(*pool));

    pool->interval_ns = gs_timeline_interval_ns(timeline->trace, INTERVALS);
    return pool;
}

void gs_timeline_pool_free(struct gs_timeline_pool *pool)
{
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        free(pool->reserved[i]);
    }
    gs_replay_map_free(&pool->row_numbers);
    free(pool->ranges);
    free(pool->rows);
    free(pool);
}

/* ---- time ------------------------------------------------------------------------- */

static void end_column(struct gs_timeline_pool *pool)
{
    for (size_t i = 0; i < pool->count; i++) {
        const struct range *range = &pool->ranges[i];
        struct row *row = range->row < ROWS ? &pool->rows[range->row] : NULL;

        if (!row || range->bytes == 0) {
            continue;
        }
        row->area += range->bytes;
        row->used[pool->column] =
            range->live < range->bytes
                ? (unsigned char)((range->live * 100 + range->bytes - 1) / range->bytes)
                : 100; /* rounded up: 0 is empty */
    }
    pool->column++;
}

static void go_to(struct gs_timeline_pool *pool, uint64_t time_ns)
{
    uint64_t column_ns = pool->interval_ns * (INTERVALS / COLUMNS);

    while (pool->column + 1 < COLUMNS && time_ns >= (pool->column + 1) * column_ns) {
        end_column(pool);
    }
}

/* ---- how much is reserved --------------------------------------------------------- */

/* Not below 0: an allocation of a damaged trace may end elsewhere than it began. */
static void change_by(uint64_t *bytes, uint64_t change)
{
    *bytes = (int64_t)change < 0 && *bytes < -change ? 0 : *bytes + change;
}

static void reserve(struct gs_timeline_pool *pool, unsigned memory, uint64_t time_ns,
                    uint64_t change)
{
    struct reserved *reserved = pool->reserved[memory];

    if (!reserved) {
        reserved = pool->reserved[memory] = gs_replay_alloc(1, sizeof(*reserved));
    }
    while (reserved->interval + 1 < INTERVALS &&
           time_ns >= (reserved->interval + 1) * pool->interval_ns) {
        reserved->most[++reserved->interval] = reserved->now;
    }
    change_by(&reserved->now, change);
    if (reserved->now > reserved->most[reserved->interval]) {
        reserved->most[reserved->interval] = reserved->now;
    }
}

/* ---- segments --------------------------------------------------------------------- */

/* The first range that ends after the address. */
static size_t first_behind(const struct gs_timeline_pool *pool, uint64_t address)
{
    size_t low = 0, high = pool->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct range *range = &pool->ranges[middle];

        if (range->begin + range->bytes > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static uint32_t row_of(struct gs_timeline_pool *pool, const struct range *range)
{
    uint64_t key = range->begin ^ range->bytes * 0x9e3779b97f4a7c15ull ^
                   range->memory * 0xd6e8feb86659fd93ull;
    uint64_t *known = gs_replay_map_find(&pool->row_numbers, key);

    if (!known && pool->row_count == ROWS) {
        return ROWS;
    }
    if (!pool->rows) {
        pool->rows = gs_replay_alloc(ROWS, sizeof(*pool->rows));
    }
    if (!known) {
        struct row *row = &pool->rows[pool->row_count];

        known = gs_replay_map_put(&pool->row_numbers, key, pool->row_count++);
        *row = (struct row){
            .begin = range->begin, .bytes = range->bytes, .memory = range->memory};
        memset(row->used, NONE, sizeof(row->used));
    }
    return (uint32_t)*known;
}

/* Tells who watches. */
static void tell(const struct gs_timeline_pool *pool, const struct range *range,
                 uint64_t time_ns, bool ends)
{
    if (pool->see) {
        pool->see(pool->self, &(struct gs_timeline_segment){.time_ns = time_ns,
                                                            .begin = range->begin,
                                                            .bytes = range->bytes,
                                                            .memory = range->memory,
                                                            .ends = ends});
    }
}

static void add_range(struct gs_timeline_pool *pool, struct range range, uint64_t time_ns)
{
    size_t at = first_behind(pool, range.begin);

    if (pool->count == RANGES) {
        return;
    }
    pool->ranges =
        gs_replay_grow(pool->ranges, pool->count, &pool->room, sizeof(*pool->ranges));
    range.row = row_of(pool, &range);
    memmove(&pool->ranges[at + 1], &pool->ranges[at],
            (pool->count++ - at) * sizeof(range));
    pool->ranges[at] = range;
    reserve(pool, range.memory, time_ns, range.bytes);
    tell(pool, &range, time_ns, false);
}

static struct range take_range(struct gs_timeline_pool *pool, size_t at, uint64_t time_ns)
{
    struct range range = pool->ranges[at];

    memmove(&pool->ranges[at], &pool->ranges[at + 1],
            (--pool->count - at) * sizeof(range));
    reserve(pool, range.memory, time_ns, -range.bytes);
    tell(pool, &range, time_ns, true);
    return range;
}

/* Takes the parts between the addresses out of all ranges. */
static void cut(struct gs_timeline_pool *pool, uint64_t begin, uint64_t end,
                uint64_t time_ns)
{
    for (;;) {
        size_t at = first_behind(pool, begin);
        struct range left, right;

        if (at == pool->count || pool->ranges[at].begin >= end) {
            return;
        }
        left = right = take_range(pool, at, time_ns);
        if (left.begin >= begin && right.begin + right.bytes <= end) {
            reserve(pool, left.memory, time_ns,
                    left.live); /* the driver's own from now on */
        }
        if (left.begin < begin) {
            left.bytes = begin - left.begin;
            add_range(pool, left, time_ns);
            right.live = 0;
        }
        if (right.begin + right.bytes > end) {
            right.bytes -= end - right.begin;
            right.begin = end;
            add_range(pool, right, time_ns);
        }
    }
}

static void end_context(struct gs_timeline_pool *pool, uint16_t context, uint64_t time_ns)
{
    for (size_t i = pool->count; i-- > 0;) {
        if (pool->ranges[i].context == context) {
            (void)take_range(pool, i, time_ns);
        }
    }
}

void gs_timeline_pool_see_range(struct gs_timeline_pool *pool,
                                const struct gs_replay_range *seen)
{
    const struct range range = {
        .begin = seen->begin,
        .bytes = seen->bytes,
        .memory = seen->kind == GS_TRACE_KIND_PINNED ? GS_TIMELINE_PINNED : seen->device,
        .context = seen->context};

    if (seen->begin > UINT64_MAX / 2 ||
        (seen->bytes == 0 && seen->op != GS_TRACE_CONTEXT_END)) { /* no range */
        return;
    }
    go_to(pool, seen->time_ns);
    if (seen->op == GS_TRACE_CONTEXT_END) {
        if (seen->context != 0 && seen->context != GS_TRACE_UNNUMBERED) {
            end_context(pool, seen->context, seen->time_ns);
        }
        return;
    }
    cut(pool, seen->begin, seen->begin + seen->bytes, seen->time_ns);
    if (seen->op == GS_TRACE_MAPPED) {
        add_range(pool, range, seen->time_ns);
    }
}

void gs_timeline_pool_see(struct gs_timeline_pool *pool, const struct gs_replay_op *op,
                          uint64_t address)
{
    size_t at = first_behind(pool, address);
    uint64_t change = gs_timeline_change(op);

    go_to(pool, op->time_ns);
    if (at < pool->count && pool->ranges[at].begin <= address) {
        change_by(&pool->ranges[at].live, change);
    } else {
        reserve(pool, gs_timeline_memory_of(op), op->time_ns, change);
    }
}

void gs_timeline_pool_watch(struct gs_timeline_pool *pool, gs_timeline_segment_see *see,
                            void *self)
{
    pool->see = see;
    pool->self = self;
}

bool gs_timeline_pool_has(const struct gs_timeline_pool *pool, uint64_t address)
{
    size_t at = first_behind(pool, address);

    return at < pool->count && pool->ranges[at].begin <= address;
}

void gs_timeline_pool_segments(const struct gs_timeline_pool *pool,
                               gs_timeline_segment_see *see, void *self)
{
    for (size_t i = 0; i < pool->count; i++) {
        const struct range *range = &pool->ranges[i];

        see(self, &(struct gs_timeline_segment){.begin = range->begin,
                                                .bytes = range->bytes,
                                                .memory = range->memory});
    }
}

bool gs_timeline_pool_end(struct gs_timeline_pool *pool)
{
    while (pool->column < COLUMNS) {
        end_column(pool);
    }
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        if (pool->reserved[i]) {
            reserve(pool, i, UINT64_MAX, 0);
        }
    }
    return pool->row_count > 0;
}

const uint64_t *gs_timeline_pool_reserved(const struct gs_timeline_pool *pool,
                                          unsigned memory)
{
    return pool->reserved[memory] ? pool->reserved[memory]->most : NULL;
}

/* ---- JSON ------------------------------------------------------------------------- */

static void put_row(struct gs_json *json, const struct row *row)
{
    gs_json_open(json, '{');
    gs_json_member_hex(json, "address", row->begin);
    gs_json_member(json, "bytes", row->bytes);
    gs_json_member_open(json, "used", '[');
    for (size_t i = 0; i < COLUMNS; i++) {
        if (row->used[i] == NONE) {
            gs_json_null(json);
        } else {
            gs_json_number(json, row->used[i]);
        }
    }
    gs_json_close(json, ']');
    gs_json_close(json, '}');
}

static int by_area(const void *a, const void *b)
{
    const struct row *x = *(const struct row *const *)a,
                     *y = *(const struct row *const *)b;

    return GS_FALLING(x->area, y->area) ?: GS_RISING(x->begin, y->begin);
}

static int by_address(const void *a, const void *b)
{
    const struct row *x = *(const struct row *const *)a,
                     *y = *(const struct row *const *)b;

    return GS_RISING(x->begin, y->begin);
}

void gs_timeline_pool_put(const struct gs_timeline_pool *pool, struct gs_json *json,
                          unsigned memory)
{
    static const struct row *rows[ROWS]; /* one thread */
    const uint64_t *reserved = gs_timeline_pool_reserved(pool, memory);
    size_t count = 0;

    gs_json_member_open(json, "reserved", '[');
    /* Each change: the interval, and the bytes from there on. */
    for (size_t i = 0; i < INTERVALS; i++) {
        if (i == 0 || (reserved && reserved[i] != reserved[i - 1])) {
            gs_json_number(json, i);
            gs_json_number(json, reserved ? reserved[i] : 0);
        }
    }
    gs_json_close(json, ']');
    for (size_t i = 0; i < pool->row_count; i++) {
        if (pool->rows[i].memory == memory && pool->rows[i].area > 0) {
            rows[count++] = &pool->rows[i];
        }
    }
    qsort(rows, count, sizeof(*rows), by_area);
    gs_json_member(json, "segments_all", count);
    count = count < SHOWN ? count : SHOWN;
    qsort(rows, count, sizeof(*rows), by_address);
    gs_json_member_open(json, "segments", '[');
    for (size_t i = 0; i < count; i++) {
        put_row(json, rows[i]);
    }
    gs_json_close(json, ']');
}
