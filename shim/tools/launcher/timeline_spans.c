/*
 * timeline_spans.c - the timeline of a page: what was live at which moment.
 *
 * A moment is the peak of one of many equal intervals of the trace's time, so that no
 * peak of the run is lost; the last moment is the end of the trace. Allocations of a call
 * site that are live at the same moments are one span: the page adds spans up, for the
 * curves, for a moment and for a range. An allocation that no moment sees is left out.
 *
 * Without call stacks, the sites are kinds of memory and sizes.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "gs_compare.h"
#include "shim/tools/launcher/timeline.h"
#include "shim/tools/replay/replay_map.h"
#include "tracker/report/files/export_json_values.h"

#include <stdlib.h>
#include <string.h>

/* A page with more spans has half as many moments, and so on. */
#define SPANS_MOST    300000
#define MOMENTS_LEAST 75

/* A memory. Its keys are of spans: site, first moment, and the one after the last. */
struct memory {
    struct gs_timeline_intervals intervals;
    size_t passed; /* moments, at this operation of a visit */
    struct gs_replay_map keys;
    uint64_t *bytes, *counts; /* by number of the key */
    size_t bytes_room, counts_room;
};

struct spans {
    const struct gs_timeline *timeline;
    struct memory *memories[GS_TIMELINE_MEMORIES]; /* NULL: the trace has none of it */
    size_t moments;                                /* intervals; the end is one more */
    size_t count;
    uint16_t *first;               /* by allocation: its first moment */
    struct gs_replay_map sites;    /* numbers of sites, see site_of */
    struct gs_timeline_pool *pool; /* NULL: the trace does not say what it held */
};

/* ---- bytes as text ----------------------------------------------------------------- */

struct packed {
    unsigned char *data;
    size_t length, room;
};

/* Seven bits a byte, the lowest first; the last byte has the eighth bit clear. */
static void pack(struct packed *packed, uint64_t value)
{
    do {
        packed->data = gs_replay_grow(packed->data, packed->length, &packed->room, 1);
        packed->data[packed->length++] =
            (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value != 0);
}

/* Writes the bytes in base64, and frees them. */
static void put_packed(struct gs_json *json, const char *key, struct packed *packed)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = gs_replay_alloc(packed->length / 3 * 4 + 5, 1), *to = text;

    for (size_t i = 0; i < packed->length; i += 3) {
        size_t rest = packed->length - i;
        unsigned word = (unsigned)packed->data[i] << 16 |
                        (rest > 1 ? (unsigned)packed->data[i + 1] << 8 : 0) |
                        (rest > 2 ? packed->data[i + 2] : 0);
        for (unsigned k = 0; k < 4; k++) {
            *to++ = k <= rest ? digits[word >> (18 - 6 * k) & 63] : '=';
        }
    }
    gs_json_member_text(json, key, text);
    free(text);
    free(packed->data);
    *packed = (struct packed){.length = 0};
}

/* ---- the visits -------------------------------------------------------------------- */

static struct memory *memory_of(struct spans *spans, const struct gs_replay_op *op)
{
    struct memory **memory = &spans->memories[gs_timeline_memory_of(op)];

    if (!*memory) {
        *memory = gs_replay_alloc(1, sizeof(**memory));
        gs_timeline_divide(&(*memory)->intervals, spans->timeline->trace, spans->moments);
    }
    return *memory;
}

/* A stack's number, or after them one for no stack; where no stack is known, a kind of
 * memory and a power of two. */
static uint64_t site_of(const struct gs_timeline *timeline, const struct gs_replay_op *op)
{
    if (timeline->stack_count > 0) {
        return gs_timeline_stack_number(timeline, op);
    }
    return op->kind * 64u + (op->bytes ? 63u - (unsigned)__builtin_clzll(op->bytes) : 0);
}

/* gs_replay_see */
static void find_moments(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct spans *spans = self;

    if (op->op == GS_TRACE_SYNC) {
        return;
    }
    gs_timeline_add(&memory_of(spans, op)->intervals, op);
    if (spans->pool) {
        gs_timeline_pool_see(spans->pool, op, address);
    }
}

/* gs_replay_see_range */
static void see_range(void *self, const struct gs_replay_range *range)
{
    struct spans *spans = self;

    if (spans->pool) {
        gs_timeline_pool_see_range(spans->pool, range);
    }
}

static void add_span(struct spans *spans, struct memory *memory,
                     const struct gs_replay_op *op, size_t first, size_t end)
{
    uint64_t site = gs_replay_map_number(&spans->sites, site_of(spans->timeline, op));
    size_t before = memory->keys.count;

    if (first >= end) {
        return;
    }
    size_t at = (size_t)gs_replay_map_number(&memory->keys,
                                             site << 24 | (uint64_t)first << 12 | end);
    if (memory->keys.count > before) {
        memory->bytes =
            gs_replay_grow(memory->bytes, at, &memory->bytes_room, sizeof(uint64_t));
        memory->counts =
            gs_replay_grow(memory->counts, at, &memory->counts_room, sizeof(uint64_t));
        memory->bytes[at] = memory->counts[at] = 0;
        spans->count++;
    }
    memory->bytes[at] += op->bytes;
    memory->counts[at]++;
}

static void pass_moment(void *self, size_t interval)
{
    struct memory *memory = self;

    memory->passed = interval + 1;
}

/* gs_replay_see */
static void find_spans(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct spans *spans = self;
    struct memory *memory;

    (void)address;
    if (op->op == GS_TRACE_SYNC) {
        return;
    }
    memory = memory_of(spans, op);
    if (op->op == GS_TRACE_FREE) {
        add_span(spans, memory, op, spans->first[op->id], memory->passed);
    } else if (spans->timeline->freed[op->id]) {
        spans->first[op->id] = (uint16_t)memory->passed;
    } else {
        add_span(spans, memory, op, memory->passed, spans->moments + 1);
    }
    gs_timeline_add_again(&memory->intervals, pass_moment, memory);
}

static void free_memories(struct spans *spans)
{
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        struct memory *memory = spans->memories[i];

        if (!memory) {
            continue;
        }
        gs_replay_map_free(&memory->keys);
        free(memory->bytes);
        free(memory->counts);
        free(memory);
        spans->memories[i] = NULL;
    }
    gs_replay_map_free(&spans->sites);
    spans->sites = (struct gs_replay_map){.count = 0};
    spans->count = 0;
}

static void visit(struct spans *spans)
{
    const struct gs_replay_trace *trace = spans->timeline->trace;

    gs_replay_visit_ranges(trace, find_moments, see_range, spans);
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        struct memory *memory = spans->memories[i];

        if (!memory) {
            continue;
        }
        gs_timeline_end(&memory->intervals);
        gs_timeline_repeat(&memory->intervals, pass_moment, memory);
    }
    gs_replay_visit(trace, find_spans, spans);
}

static void make(struct spans *spans)
{
    spans->moments = GS_TIMELINE_INTERVALS_MOST;
    spans->first =
        gs_replay_alloc(spans->timeline->trace->allocations, sizeof(*spans->first));
    spans->pool = gs_timeline_pool_create(spans->timeline);
    visit(spans);
    struct gs_timeline_pool *pool = spans->pool;
    spans->pool = NULL;
    while (spans->count > SPANS_MOST && spans->moments / 2 >= MOMENTS_LEAST) {
        free_memories(spans);
        spans->moments /= 2;
        visit(spans);
    }
    free(spans->first);
    spans->pool = pool;
    if (!gs_timeline_pool_end(pool)) {
        gs_timeline_pool_free(pool);
        spans->pool = NULL;
    }
}

/* ---- JSON -------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const struct gs_replay_map_row *x = a, *y = b;

    return GS_RISING(x->key, y->key);
}

/* By site, then by first moment: differences are small numbers. */
static void put_spans(struct gs_json *json, struct memory *memory)
{
    struct gs_replay_map_row *rows = memory->keys.rows;
    struct packed packed = {.length = 0};
    uint64_t site = 0, first = 0;
    size_t count = 0;

    for (size_t i = 0; i < memory->keys.room; i++) {
        if (rows[i].used) {
            rows[count++] = rows[i];
        }
    }
    if (count > 0) {
        qsort(rows, count, sizeof(*rows), by_key);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t of = rows[i].key >> 24, begin = rows[i].key >> 12 & 0xfff,
                 end = rows[i].key & 0xfff;
        pack(&packed, of - site);
        pack(&packed, of == site ? begin - first : begin);
        pack(&packed, end - begin);
        pack(&packed, memory->counts[rows[i].value]);
        pack(&packed, memory->bytes[rows[i].value]);
        site = of;
        first = begin;
    }
    put_packed(json, "spans", &packed);
}

static void put_memory(struct gs_json *json, const struct spans *spans, unsigned number)
{
    struct memory *memory = spans->memories[number];
    struct packed packed = {.length = 0};
    uint64_t before_ns = 0;

    gs_json_open(json, '{');
    gs_json_member_or_null(json, "device", number != GS_TIMELINE_PINNED, number);
    for (size_t i = 0; i < spans->moments; i++) {
        uint64_t time_ns = memory->intervals.time_ns[i];
        time_ns = time_ns > before_ns ? time_ns : before_ns; /* threads may overlap */
        pack(&packed, time_ns - before_ns);
        before_ns = time_ns;
    }
    put_packed(json, "times", &packed);
    put_spans(json, memory);
    if (spans->pool) {
        gs_timeline_pool_put(spans->pool, json, number);
    }
    gs_json_close(json, '}');
}

static void put_stack(struct gs_json *json, const struct gs_timeline_stack *stack)
{
    gs_json_member_open(json, "stack", '[');
    for (size_t i = 0; i < stack->count; i++) {
        gs_json_number(json, stack->frames[i].number);
    }
    gs_json_close(json, ']');
    gs_json_member_text(json, "owner", stack->owner);
}

static void put_sites(struct gs_json *json, const struct spans *spans)
{
    const struct gs_timeline *timeline = spans->timeline;
    uint64_t *sites = gs_replay_alloc(spans->sites.count, sizeof(*sites));

    for (size_t i = 0; i < spans->sites.room; i++) {
        if (spans->sites.rows[i].used) {
            sites[spans->sites.rows[i].value] = spans->sites.rows[i].key;
        }
    }
    gs_json_member_open(json, "sites", '[');
    for (size_t i = 0; i < spans->sites.count; i++) {
        gs_json_open(json, '{');
        if (timeline->stack_count == 0) {
            gs_json_member_text(json, "kind", gs_replay_kind_name(sites[i] / 64 & 0xff));
            gs_json_member(json, "at_least", UINT64_C(1) << sites[i] % 64);
        } else if (sites[i] < timeline->stack_count) {
            put_stack(json, &timeline->stacks[sites[i]]);
        }
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
    free(sites);
}

enum gs_status gs_timeline_spans(const struct gs_timeline *timeline,
                                 const struct gs_export_sink *sink)
{
    static struct spans spans; /* one thread */
    static struct gs_json json;
    const struct gs_replay_trace *trace = timeline->trace;

    json = (struct gs_json){.depth = 0};
    spans = (struct spans){.timeline = timeline};
    make(&spans);
    gs_out_begin(&json.out, sink);
    gs_json_open(&json, '{');
    gs_json_member(&json, "pid", trace->pid);
    gs_json_member_text(&json, "program", trace->program);
    gs_json_member(&json, "start_unix_ms", trace->start_real_ns / 1000000);
    gs_json_member(&json, "end_ns", trace->end_ns);
    gs_json_member(&json, "moments", spans.moments);
    gs_json_member(&json, "interval_ns", gs_timeline_interval_ns(trace, spans.moments));
    gs_json_member(&json, "reserved_ns",
                   gs_timeline_interval_ns(trace, GS_TIMELINE_INTERVALS_MOST));
    put_sites(&json, &spans);
    gs_json_member_open(&json, "memories", '[');
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        if (spans.memories[i]) {
            put_memory(&json, &spans, i);
        }
    }
    gs_json_close(&json, ']');
    gs_json_close(&json, '}');
    free_memories(&spans);
    if (spans.pool) {
        gs_timeline_pool_free(spans.pool);
    }
    return gs_out_end(&json.out);
}
