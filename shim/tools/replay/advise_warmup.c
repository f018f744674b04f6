/*
 * advise_warmup.c - the list for GPUSHIM_WARMUP that a trace calls for.
 *
 * Requests of 2 MiB and more: the segments that the pool had for them when it held most,
 * each of which was a driver call. Smaller ones share segments, so that only their sum
 * counts: what was live of them when that was most.
 *
 * Owns: nothing.   Lock: none.
 */
#include "gs_compare.h"
#include "shim/tools/replay/advise.h"

#include <stdlib.h>
#include <string.h>

#include "shim/tools/replay/driver_model.h"

/* Items of the list. One of them stands for the small sizes beyond these, and for those
 * that have less than one part of all small ones. */
#define SMALL_ITEMS 24u
#define SMALL_PARTS 50u
#define LARGE_ITEMS (GS_WARMUP_ITEMS - SMALL_ITEMS - 1)
/* The size of the item that stands for the other small sizes. */
#define REST_BYTES ((size_t)64 << 10)

/* ---- sizes and how many ------------------------------------------------------------ */

/* How many there are of each size. */
struct sizes {
    struct gs_replay_map map; /* to a count */
};

static void change(struct sizes *sizes, size_t bytes, int by)
{
    uint64_t *count = gs_replay_map_put(&sizes->map, bytes, 0);

    if (by > 0 || *count > 0) {
        *count += (uint64_t)by;
    }
}

static uint64_t sum_of(const struct gs_warmup_item *item)
{
    return (uint64_t)item->bytes * item->count;
}

static int by_sum(const void *a, const void *b)
{
    uint64_t x = sum_of(a), y = sum_of(b);

    return GS_FALLING(x, y);
}

static int by_count(const void *a, const void *b)
{
    const struct gs_warmup_item *x = a, *y = b;

    return GS_FALLING(x->count, y->count) ?: GS_FALLING(x->bytes, y->bytes);
}

static int by_size(const void *a, const void *b)
{
    const struct gs_warmup_item *x = a, *y = b;

    return GS_RISING(x->bytes, y->bytes);
}

/* The sizes as items, in the given order; to be freed. */
static struct gs_warmup_item *list_of(const struct sizes *sizes, size_t *count,
                                      int (*order)(const void *, const void *))
{
    struct gs_warmup_item *items = gs_replay_alloc(sizes->map.count, sizeof(*items));

    *count = 0;
    for (size_t i = 0; i < sizes->map.room; i++) {
        const struct gs_replay_map_row *row = &sizes->map.rows[i];

        if (row->used && row->value > 0) {
            items[(*count)++] = (struct gs_warmup_item){
                (size_t)row->key,
                (unsigned)(row->value < GS_WARMUP_COUNT_MAX ? row->value
                                                            : GS_WARMUP_COUNT_MAX)};
        }
    }
    qsort(items, *count, sizeof(*items), order);
    return items;
}

/* ---- large requests ---------------------------------------------------------------- */

static bool is_large(const struct gs_replay_segment *segment)
{
    return segment->request >= GS_LARGE_BYTES;
}

/* After which record the pool held most. */
static size_t find_most(const struct gs_replay_segments *segments)
{
    uint64_t held = 0, most = 0;
    size_t at = 0;

    for (size_t i = 0; i < segments->count; i++) {
        held += segments->items[i].request ? segments->items[i].bytes
                                           : -(uint64_t)segments->items[i].bytes;
        if (held > most) {
            most = held;
            at = i + 1;
        }
    }
    return at;
}

static void add_large(const struct gs_replay_segments *segments,
                      struct gs_warmup_list *list)
{
    struct gs_replay_map sizes_at = {
        0}; /* address to the size of a segment of large requests */
    struct sizes sizes = {0};
    struct gs_warmup_item *items;
    size_t end = find_most(segments), count;

    for (size_t i = 0; i < end; i++) {
        const struct gs_replay_segment *segment = &segments->items[i];
        uint64_t *size = gs_replay_map_put(&sizes_at, segment->addr, 0);

        if (segment->request == 0 && *size) {
            change(&sizes, (size_t)*size, -1);
        }
        *size = is_large(segment) ? gs_round_up(segment->bytes, GS_LARGE_BYTES) : 0;
        if (*size) {
            change(&sizes, (size_t)*size, 1);
        }
    }
    items = list_of(&sizes, &count, by_count);
    for (size_t i = 0; i < count && i < LARGE_ITEMS; i++) {
        list->items[list->count++] = items[i];
    }
    free(items);
    gs_replay_map_free(&sizes.map);
    gs_replay_map_free(&sizes_at);
}

/* ---- small requests ---------------------------------------------------------------- */

static bool is_small(const struct gs_replay_op *op)
{
    return op->op != GS_TRACE_SYNC && op->bytes > 0 && op->bytes < GS_LARGE_BYTES;
}

/* After which operation most bytes of small requests were live. */
static size_t find_small_peak(const struct gs_replay_trace *trace)
{
    uint64_t live = 0, most = 0;
    size_t at = 0;

    for (size_t i = 0; i < trace->count; i++) {
        const struct gs_replay_op *op = &trace->ops[i];

        if (!is_small(op)) {
            continue;
        }
        live += op->op == GS_TRACE_ALLOC ? op->bytes : -op->bytes;
        if (live > most) {
            most = live;
            at = i + 1;
        }
    }
    return at;
}

static void add_small(const struct gs_replay_trace *trace, struct gs_warmup_list *list)
{
    struct sizes sizes = {0};
    size_t end = find_small_peak(trace), count;
    struct gs_warmup_item *items;
    uint64_t all = 0, rest = 0;

    for (size_t i = 0; i < end; i++) {
        if (is_small(&trace->ops[i])) {
            change(&sizes, gs_round_up(trace->ops[i].bytes, GS_BLOCK_BYTES),
                   trace->ops[i].op == GS_TRACE_ALLOC ? 1 : -1);
        }
    }
    items = list_of(&sizes, &count, by_sum);
    for (size_t i = 0; i < count; i++) {
        all += sum_of(&items[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (i < SMALL_ITEMS && sum_of(&items[i]) >= all / SMALL_PARTS) {
            list->items[list->count++] = items[i];
        } else {
            rest += sum_of(&items[i]);
        }
    }
    if (rest) {
        list->items[list->count++] = (struct gs_warmup_item){
            REST_BYTES, (unsigned)gs_round_up(rest, REST_BYTES) / REST_BYTES};
    }
    free(items);
    gs_replay_map_free(&sizes.map);
}

/* ---- the list ---------------------------------------------------------------------- */

/* As a variable has it, as far as there is room; the list loses what there is none for.
 */
static void write_text(struct gs_warmup_list *list, char *out, size_t size)
{
    static const char units[] = "\0KMG";
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < list->count; i++) {
        const struct gs_warmup_item *item = &list->items[i];
        size_t bytes = item->bytes;
        unsigned unit = 0;
        char text[48];
        int length;

        for (; unit < 3 && bytes % 1024 == 0; unit++) {
            bytes /= 1024;
        }
        length = snprintf(text, sizeof(text), "%s%zu%.1s:%u", used ? "," : "", bytes,
                          &units[unit], item->count);
        if (used + (size_t)length >= size) {
            list->count = i;
            return;
        }
        used = (size_t)(stpcpy(out + used, text) - out);
    }
}

/* The device with the most allocations: each context gets the whole list. */
static unsigned busiest(const struct gs_replay_trace *trace)
{
    uint32_t counts[256] = {0};
    unsigned found = 0;

    for (size_t i = 0; i < trace->count; i++) {
        counts[trace->ops[i].device] += trace->ops[i].op == GS_TRACE_ALLOC;
    }
    for (unsigned i = 1; i < GS_ARRAY_LEN(counts); i++) {
        found = counts[i] > counts[found] ? i : found;
    }
    return found;
}

static void copy_device(const struct gs_replay_trace *trace, unsigned device,
                        struct gs_replay_trace *out)
{
    *out = (struct gs_replay_trace){0};
    for (size_t i = 0; i < trace->count; i++) {
        if (trace->ops[i].op == GS_TRACE_SYNC || trace->ops[i].device == device) {
            gs_replay_add(out, &trace->ops[i]);
        }
    }
}

void gs_advise_find_warmup(const struct gs_advise_case *wanted,
                           struct gs_advise_warmup *out)
{
    struct gs_replay_pool pool;
    struct gs_replay_segments segments = {0};
    struct gs_replay_config config = {.pool = &pool, .segments = &segments};
    struct gs_replay_outcome outcome;
    struct gs_replay_trace trace;

    copy_device(wanted->trace, busiest(wanted->trace), &trace);
    gs_advise_settings("", &pool);
    gs_replay_through_pool(&trace, wanted->capacity, &wanted->ready, &config, &outcome);
    gs_advise_progress();
    out->calls = outcome.calls;
    pool.warmup.count = 0;
    add_large(&segments, &pool.warmup);
    add_small(&trace, &pool.warmup);
    free(segments.items);
    qsort(pool.warmup.items, pool.warmup.count, sizeof(pool.warmup.items[0]), by_size);
    write_text(&pool.warmup, out->text, sizeof(out->text));
    config.segments = NULL;
    gs_replay_through_pool(&trace, wanted->capacity, &wanted->ready, &config, &outcome);
    gs_advise_progress();
    out->remaining = outcome.calls - outcome.warm_calls;
    gs_replay_free(&trace);
}
