/*
 * timeline_perfetto.c - Chrome's trace event format, which Perfetto reads: how much
 * memory is live, each allocation from its beginning to its end, and the waits of each
 * thread.
 *
 * Allocations of one call site are one track: an asynchronous slice each, named by the
 * site.
 *
 * Owns: nothing.   Lock: none.   Source: "Trace Event Format" of the Chromium project
 */
#include "shim/tools/launcher/timeline.h"
#include "tracker/names/shown_path.h"
#include "tracker/report/files/export_json_values.h"
#include "tracker/report/text/text.h"

#include <stdio.h>
#include <string.h>

#define DEVICES 256

/* The curve of a memory. Of many points an interval of time has its largest, and its
 * last.
 */
struct curve {
    uint64_t live, most; /* now; the largest of the interval */
    uint64_t most_ns, last_ns, interval;
    struct gs_replay_op memory; /* one of its operations; op NONE: no point is due */
};

struct writer {
    struct gs_json json;
    const struct gs_timeline *timeline;
    struct gs_timeline_pool *pool;
    uint64_t interval_ns;             /* 0: each point is written */
    struct curve curves[DEVICES + 1]; /* the last: pinned host memory */
    struct gs_shown_paths paths;      /* of the call sites */
};

/* What each event has; the caller closes it. */
static void begin_event(struct writer *writer, const char *phase, const char *name,
                        uint64_t thread, uint64_t time_ns)
{
    struct gs_json *json = &writer->json;

    gs_json_open(json, '{');
    gs_json_member_text(json, "ph", phase);
    gs_json_member_text(json, "name", name);
    gs_json_member(json, "pid", writer->timeline->trace->pid);
    gs_json_member(json, "tid", thread);
    gs_json_key(json, "ts");
    gs_json_thousandths(json, time_ns);
}

static void put_metadata(struct writer *writer, const char *what, uint64_t thread,
                         const char *name)
{
    struct gs_json *json = &writer->json;

    begin_event(writer, "M", what, thread, 0);
    gs_json_member_open(json, "args", '{');
    gs_json_member_text(json, "name", name);
    gs_json_close(json, '}');
    gs_json_close(json, '}');
}

static void put_point(struct writer *writer, const struct gs_replay_op *op,
                      const char *what, uint64_t time_ns, uint64_t live)
{
    struct gs_json *json = &writer->json;
    char memory[32], name[48];

    snprintf(name, sizeof(name), "%s %s", gs_timeline_memory(op, memory), what);
    begin_event(writer, "C", name, 0, time_ns);
    gs_json_member_open(json, "args", '{');
    gs_json_member(json, "bytes", live);
    gs_json_close(json, '}');
    gs_json_close(json, '}');
}

/* Writes the points of the interval that ends. */
static void end_interval(struct writer *writer, struct curve *curve)
{
    if (curve->memory.op == GS_TRACE_NONE) {
        return;
    }
    if (curve->most_ns < curve->last_ns) {
        put_point(writer, &curve->memory, "live", curve->most_ns, curve->most);
    }
    put_point(writer, &curve->memory, "live", curve->last_ns, curve->live);
    curve->memory.op = GS_TRACE_NONE;
}

/* Live memory after the operation. */
static void add_point(struct writer *writer, const struct gs_replay_op *op)
{
    bool pinned = op->kind == GS_TRACE_KIND_PINNED;
    struct curve *curve = &writer->curves[pinned ? DEVICES : op->device];
    uint64_t interval = writer->interval_ns ? op->time_ns / writer->interval_ns : 0;

    if (interval != curve->interval) {
        end_interval(writer, curve);
    }
    curve->interval = interval;
    curve->live += op->op == GS_TRACE_ALLOC ? op->bytes : -op->bytes;
    if (curve->memory.op == GS_TRACE_NONE || curve->live >= curve->most) {
        curve->most = curve->live;
        curve->most_ns = op->time_ns;
    }
    curve->last_ns = op->time_ns;
    curve->memory = *op;
    if (writer->interval_ns == 0) {
        end_interval(writer, curve);
    }
}

/* "load_model (app.c:31)", or the kind of memory where no site is known. */
static void name_site(struct writer *writer, const struct gs_timeline_stack *stack,
                      const struct gs_replay_op *op, char out[512])
{
    const struct gs_export_frame *frame = stack->frames;
    char function[512];

    if (stack->count == 0) {
        snprintf(out, 512, "%s memory", gs_replay_kind_name(op->kind));
        return;
    }
    if (frame->file && frame->line) {
        snprintf(out, 512, "%.300s (%.150s:%u)", gs_timeline_function(frame, function),
                 gs_shown_path(&writer->paths, frame->file), frame->line);
    } else {
        snprintf(out, 512, "%.450s", gs_timeline_function(frame, function));
    }
}

/* An array: Perfetto shows "\n" in a text as it stands in the file. */
static void put_stack(struct writer *writer, const struct gs_timeline_stack *stack)
{
    char room[512], text[1024];

    if (stack->count == 0) {
        return;
    }
    gs_json_member_open(&writer->json, "call stack", '[');
    for (size_t i = 0; i < stack->count; i++) {
        const struct gs_export_frame *frame = &stack->frames[i];
        const char *function = gs_timeline_function(frame, room);

        if (frame->file && frame->line) {
            snprintf(text, sizeof(text), "%.400s (%.400s:%u)", function, frame->file,
                     frame->line);
        } else {
            snprintf(text, sizeof(text), "%.400s", function);
        }
        gs_json_text(&writer->json, text);
    }
    gs_json_close(&writer->json, ']');
}

/* What happens to an allocation. */
enum event { BEGIN, END, NOT_FREED };

/* The beginning of an allocation's slice, or its end. */
static void put_slice(struct writer *writer, const struct gs_replay_op *op,
                      uint64_t address, enum event event)
{
    struct gs_json *json = &writer->json;
    const struct gs_timeline_stack stack = gs_timeline_stack(writer->timeline, op);
    char site[512], memory[32], size[24];

    name_site(writer, &stack, op, site);
    begin_event(writer, event == BEGIN ? "b" : "e", site, op->thread, op->time_ns);
    gs_json_member_text(json, "cat", gs_timeline_memory(op, memory));
    gs_json_member_open(json, "id2", '{');
    gs_json_member_hex(json, "local", (uint64_t)op->id + 1); /* the process's own */
    gs_json_close(json, '}');
    if (event == NOT_FREED) {
        gs_json_member_open(json, "args", '{');
        gs_json_member_text(json, "end", "not freed");
        gs_json_close(json, '}');
    } else if (event == BEGIN) {
        gs_json_member_open(json, "args", '{');
        gs_json_member_text(json, "size", gs_text_bytes(op->bytes, size));
        gs_json_member(json, "bytes", op->bytes);
        if (address) {
            gs_json_member_hex(json, "address", address);
        }
        gs_json_member_text(json, "kind", gs_replay_kind_name(op->kind));
        put_stack(writer, &stack);
        gs_json_close(json, '}');
    }
    gs_json_close(json, '}');
}

static void put_wait(struct writer *writer, const struct gs_replay_op *op)
{
    struct gs_json *json = &writer->json;

    begin_event(writer, "i",
                op->how == GS_TRACE_SYNC_STREAM  ? "waited for a stream"
                : op->how == GS_TRACE_SYNC_EVENT ? "waited for an event"
                                                 : "waited for the context",
                op->thread, op->time_ns);
    gs_json_member_text(json, "s", "t"); /* of its thread */
    gs_json_close(json, '}');
}

static void put_threads(struct writer *writer)
{
    const struct gs_replay_trace *trace = writer->timeline->trace;

    put_metadata(writer, "process_name", 0,
                 trace->program[0] ? trace->program : "gpushim");
    for (uint32_t i = 0; i < trace->threads; i++) {
        char name[32];

        snprintf(name, sizeof(name), "thread %u", i);
        put_metadata(writer, "thread_name", i, name);
    }
}

/* Reserved memory in equal intervals, each with its peak. */
static void put_reserved(struct writer *writer, unsigned memory)
{
    const uint64_t *reserved = gs_timeline_pool_reserved(writer->pool, memory);
    uint64_t each_ns =
        gs_timeline_interval_ns(writer->timeline->trace, GS_TIMELINE_INTERVALS_MOST);
    const struct gs_replay_op op = {.kind = memory == GS_TIMELINE_PINNED
                                                ? GS_TRACE_KIND_PINNED
                                                : GS_TRACE_KIND_DEVICE,
                                    .device = (uint8_t)memory};

    for (size_t i = 0; reserved && i < GS_TIMELINE_INTERVALS_MOST; i++) {
        if (i == 0 || reserved[i] != reserved[i - 1]) {
            put_point(writer, &op, "reserved", i * each_ns, reserved[i]);
        }
    }
}

/* gs_replay_see_range */
static void see_range(void *self, const struct gs_replay_range *range)
{
    struct writer *writer = self;

    gs_timeline_pool_see_range(writer->pool, range);
}

/* gs_replay_see: all but the ends of what was never freed. */
static void put_operation(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct writer *writer = self;

    if (op->op == GS_TRACE_SYNC) {
        put_wait(writer, op);
        return;
    }
    if (gs_timeline_shows(writer->timeline, op->id)) {
        put_slice(writer, op, address, op->op == GS_TRACE_ALLOC ? BEGIN : END);
    }
    add_point(writer, op);
    gs_timeline_pool_see(writer->pool, op, address);
}

/* gs_replay_see: an allocation that was never freed ends with the trace. */
static void end_slice(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct writer *writer = self;
    const struct gs_timeline *timeline = writer->timeline;
    struct gs_replay_op last = *op;

    if (op->op != GS_TRACE_ALLOC || timeline->freed[op->id] ||
        !gs_timeline_shows(timeline, op->id)) {
        return;
    }
    last.time_ns = timeline->trace->end_ns;
    put_slice(writer, &last, address, NOT_FREED);
}

enum gs_status gs_timeline_perfetto(const struct gs_timeline *timeline,
                                    const struct gs_export_sink *sink)
{
    const struct gs_replay_trace *trace = timeline->trace;
    static struct writer writer; /* one thread */
    struct gs_json *json = &writer.json;

    writer = (struct writer){.timeline = timeline};
    for (size_t i = 0; i < timeline->stack_count; i++) {
        if (timeline->stacks[i].count > 0) {
            gs_shown_paths_add(&writer.paths, timeline->stacks[i].frames->file);
        }
    }
    if (timeline->shown) {
        writer.interval_ns = trace->end_ns / (timeline->most / 2 + 1) + 1;
    }
    gs_out_begin(&json->out, sink);
    gs_json_open(json, '{');
    gs_json_member_text(json, "displayTimeUnit", "ns");
    gs_json_member_open(json, "traceEvents", '[');
    put_threads(&writer);
    writer.pool = gs_timeline_pool_create(timeline);
    gs_replay_visit_ranges(trace, put_operation, see_range, &writer);
    for (size_t i = 0; i <= DEVICES; i++) {
        end_interval(&writer, &writer.curves[i]);
    }
    if (gs_timeline_pool_end(writer.pool)) {
        for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
            put_reserved(&writer, i);
        }
    }
    gs_timeline_pool_free(writer.pool);
    gs_replay_visit(trace, end_slice, &writer);
    gs_json_close(json, ']');
    gs_json_close(json, '}');
    gs_out_char(&json->out, '\n');
    gs_shown_paths_free(&writer.paths);
    return gs_out_end(&json->out);
}
