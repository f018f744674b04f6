/*
 * timeline_massif.c - what valgrind's massif writes: how much was live over time, with
 * trees of call sites at the peak and between.
 *
 * The memories ("GPU 0") are the first level of a tree; below them are the call sites,
 * the innermost frame first. What has less than a hundredth of the snapshot is summed up,
 * as massif does.
 *
 * Owns: nothing.   Lock: none.   Source: valgrind, massif/ms_print.in
 */
#include "gs_compare.h"
#include "shim/tools/launcher/timeline.h"
#include "tracker/report/files/export_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As massif: at most 100 snapshots, each tenth with a tree, whose nodes have at least a
 * hundredth of what is live. */
#define SNAPSHOTS      100
#define DETAILED_EVERY 10
#define LEAST_PARTS    100

/* Live memory of one call site, while a tree is written. */
struct site {
    struct gs_timeline_stack stack;
    uint64_t bytes;
    uint32_t frame; /* at the depth that is written; NO_FRAME: the stack ends before */
};
#define NO_FRAME UINT32_MAX

/* Sites that are equal down to some depth: a node of the tree. */
struct node {
    struct site *sites;
    size_t count;
    uint64_t bytes;
};

struct writer {
    struct gs_export_out out;
    const struct gs_timeline *timeline;
    struct gs_timeline_intervals intervals;
    size_t site_count; /* stacks, and one for no stack */
    struct site *sites;
    uint64_t
        *live[GS_TIMELINE_MEMORIES]; /* by site; NULL: the trace has no such memory */
    size_t snapshots, peak;          /* written so far; the interval with most */
    uint64_t last;                   /* the operation of the last snapshot */
    uint64_t now_ns;                 /* the time of the operation that is seen */
    uint64_t total;                  /* of the snapshot */
    bool failed;                     /* no memory */
};

static void put_number(struct writer *writer, const char *name, uint64_t value)
{
    gs_out_text(&writer->out, name);
    gs_out_number(&writer->out, value);
    gs_out_char(&writer->out, '\n');
}

/* " n2: 4096 ", indented by depth. */
static void begin_node(struct writer *writer, size_t depth, size_t children,
                       uint64_t bytes)
{
    for (size_t i = 0; i < depth; i++) {
        gs_out_char(&writer->out, ' ');
    }
    gs_out_char(&writer->out, 'n');
    gs_out_number(&writer->out, children);
    gs_out_text(&writer->out, ": ");
    gs_out_number(&writer->out, bytes);
    gs_out_char(&writer->out, ' ');
}

/* A reader takes a line for a node, and what follows '#' for a comment. */
static void put_text(struct writer *writer, const char *text)
{
    gs_out_part(&writer->out, text, "#");
}

/* "0x1485: load_weights (leaky.c:39)", or "(in libtorch.so)" */
static void put_frame(struct writer *writer, const struct gs_export_frame *frame)
{
    char name[512], line[24];

    gs_out_hex(&writer->out, frame->offset);
    gs_out_text(&writer->out, ": ");
    put_text(writer, gs_timeline_function(frame, name));
    gs_out_text(&writer->out, frame->file ? " (" : " (in ");
    put_text(writer, frame->file     ? frame->file
                     : frame->module ? frame->module
                                     : "unknown");
    if (frame->file) {
        snprintf(line, sizeof(line), ":%u", frame->line);
        gs_out_text(&writer->out, line);
    }
    gs_out_text(&writer->out, ")\n");
}

static int by_frame(const void *a, const void *b)
{
    const struct site *x = a, *y = b;

    return GS_RISING(x->frame, y->frame);
}

static int by_bytes(const void *a, const void *b)
{
    const struct node *x = a, *y = b;

    return GS_FALLING(x->bytes, y->bytes) ?: GS_RISING(x->sites, y->sites);
}

/* Parts the sites of a node by their frame at `depth`. Returns the nodes, to be freed;
 * NULL: there are none. */
static struct node *part(struct writer *writer, const struct node *node, size_t depth,
                         size_t *count)
{
    struct node *parts = calloc(node->count + 1, sizeof(*parts));

    *count = 0;
    if (!parts) {
        writer->failed = true;
        return NULL;
    }
    for (size_t i = 0; i < node->count; i++) {
        struct site *site = &node->sites[i];

        site->frame =
            depth < site->stack.count ? site->stack.frames[depth].number : NO_FRAME;
    }
    qsort(node->sites, node->count, sizeof(*node->sites), by_frame);
    for (size_t i = 0; i < node->count && node->sites[i].frame != NO_FRAME; i++) {
        if (i == 0 || node->sites[i].frame != node->sites[i - 1].frame) {
            parts[(*count)++].sites = &node->sites[i];
        }
        parts[*count - 1].count++;
        parts[*count - 1].bytes += node->sites[i].bytes;
    }
    qsort(parts, *count, sizeof(*parts), by_bytes);
    return parts;
}

/* Writes the children of a node, of which `begin_node` has said how many there are. */
static void put_children(struct writer *writer, const struct node *parts, size_t count,
                         size_t depth);

/* How many lines the children take: those that are too small share one. */
static size_t lines_of(const struct writer *writer, const struct node *parts,
                       size_t count)
{
    size_t lines = 0;

    while (lines < count && parts[lines].bytes >= writer->total / LEAST_PARTS) {
        lines++;
    }
    return lines < count ? lines + 1 : lines;
}

static void put_node(struct writer *writer, const struct node *node, size_t depth)
{
    size_t count = 0;
    struct node *parts = part(writer, node, depth, &count);

    begin_node(writer, depth + 1, lines_of(writer, parts, count), node->bytes);
    put_frame(writer, &node->sites[0].stack.frames[depth - 1]);
    put_children(writer, parts, count, depth);
    free(parts);
}

static void put_children(struct writer *writer, const struct node *parts, size_t count,
                         size_t depth)
{
    size_t i = 0;
    uint64_t rest = 0;
    char line[96];

    for (; i < count && parts[i].bytes >= writer->total / LEAST_PARTS; i++) {
        put_node(writer, &parts[i], depth + 1);
    }
    if (i == count) {
        return;
    }
    for (size_t k = i; k < count; k++) {
        rest += parts[k].bytes;
    }
    begin_node(writer, depth + 2, 0, rest);
    snprintf(line, sizeof(line), "in %zu place%s below massif's threshold (1.00%%)\n",
             count - i, count - i == 1 ? "," : "s, all");
    gs_out_text(&writer->out, line);
}

/* The sites of a memory with live memory. */
static struct node take_sites(struct writer *writer, unsigned memory)
{
    const uint64_t *live = writer->live[memory];
    struct node node = {.sites = writer->sites};

    for (size_t i = 0; i < writer->site_count; i++) {
        if (live[i] == 0) {
            continue;
        }
        writer->sites[node.count++] = (struct site){
            .stack = i < writer->timeline->stack_count ? writer->timeline->stacks[i]
                                                       : (struct gs_timeline_stack){0},
            .bytes = live[i]};
        node.bytes += live[i];
    }
    return node;
}

static void put_memory(struct writer *writer, unsigned memory)
{
    const struct gs_replay_op op = {.kind = memory == GS_TIMELINE_PINNED
                                                ? GS_TRACE_KIND_PINNED
                                                : GS_TRACE_KIND_DEVICE,
                                    .device = (uint8_t)memory};
    struct node node = take_sites(writer, memory);
    size_t count = 0;
    struct node *parts = part(writer, &node, 0, &count);
    char name[32];

    begin_node(writer, 1, lines_of(writer, parts, count), node.bytes);
    gs_out_text(&writer->out, gs_timeline_memory(&op, name));
    gs_out_char(&writer->out, '\n');
    put_children(writer, parts, count, 0);
    free(parts);
}

static void put_tree(struct writer *writer)
{
    size_t memories = 0;

    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        memories += writer->live[i] != NULL;
    }
    begin_node(writer, 0, memories, writer->total);
    gs_out_text(&writer->out, "(memory of devices, and pinned host memory)\n");
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        if (writer->live[i]) {
            put_memory(writer, i);
        }
    }
}

/* `tree`: "empty", "detailed" or "peak", of writer->live. */
static void put_snapshot(struct writer *writer, uint64_t time_ns, uint64_t live,
                         const char *tree)
{
    gs_out_text(&writer->out, "#-----------\n");
    put_number(writer, "snapshot=", writer->snapshots);
    gs_out_text(&writer->out, "#-----------\n");
    put_number(writer, "time=", time_ns / 1000000);
    put_number(writer, "mem_heap_B=", live);
    gs_out_text(&writer->out, "mem_heap_extra_B=0\nmem_stacks_B=0\n");
    gs_out_text(&writer->out, "heap_tree=");
    gs_out_text(&writer->out, tree);
    gs_out_char(&writer->out, '\n');
    writer->total = live;
    if (strcmp(tree, "empty") != 0) {
        put_tree(writer);
    }
    writer->snapshots++;
}

static void see_peak(void *self, size_t interval)
{
    struct writer *writer = self;
    const struct gs_timeline_intervals *intervals = &writer->intervals;
    uint64_t at = intervals->at[interval];

    if (at == writer->last) {
        return;
    }
    writer->last = at;
    put_snapshot(writer, writer->now_ns, intervals->most[interval],
                 interval == writer->peak                  ? "peak"
                 : writer->snapshots % DETAILED_EVERY == 0 ? "detailed"
                                                           : "empty");
}

/* gs_replay_see */
static void find_peaks(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct writer *writer = self;
    uint64_t **live = &writer->live[gs_timeline_memory_of(op)];

    (void)address;
    if (op->op == GS_TRACE_SYNC) {
        return;
    }
    if (!*live) {
        *live = gs_replay_alloc(writer->site_count, sizeof(**live));
    }
    gs_timeline_add(&writer->intervals, op);
}

/* gs_replay_see */
static void put_peaks(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct writer *writer = self;
    uint64_t *live = writer->live[gs_timeline_memory_of(op)];

    (void)address;
    if (op->op == GS_TRACE_SYNC || !live) { /* none: the file has changed */
        return;
    }
    live[gs_timeline_stack_number(writer->timeline, op)] += gs_timeline_change(op);
    writer->now_ns = op->time_ns;
    gs_timeline_add_again(&writer->intervals, see_peak, writer);
}

static void put_snapshots(struct writer *writer)
{
    const struct gs_replay_trace *trace = writer->timeline->trace;
    struct gs_timeline_intervals *intervals = &writer->intervals;
    uint64_t left = 0;

    gs_replay_visit(trace, find_peaks, writer);
    gs_timeline_end(intervals);
    writer->last = GS_TIMELINE_BEFORE;
    for (size_t i = 1; i < intervals->count; i++) {
        if (intervals->most[i] > intervals->most[writer->peak]) {
            writer->peak = i;
        }
    }
    put_snapshot(writer, 0, 0, "empty");
    gs_timeline_repeat(intervals, see_peak, writer);
    gs_replay_visit(trace, put_peaks, writer);
    /* What is left at the end: the program's leaks, if it ended. */
    for (unsigned memory = 0; memory < GS_TIMELINE_MEMORIES; memory++) {
        for (size_t i = 0; writer->live[memory] && i < writer->site_count; i++) {
            left += writer->live[memory][i];
        }
    }
    if (trace->count) {
        put_snapshot(writer, trace->end_ns, left, left ? "detailed" : "empty");
    }
}

enum gs_status gs_timeline_massif(const struct gs_timeline *timeline,
                                  const struct gs_export_sink *sink)
{
    const struct gs_replay_trace *trace = timeline->trace;
    static struct writer writer; /* one thread */

    writer =
        (struct writer){.timeline = timeline, .site_count = timeline->stack_count + 1};
    writer.sites = gs_replay_alloc(writer.site_count, sizeof(*writer.sites));
    gs_timeline_divide(&writer.intervals, trace, SNAPSHOTS - 2);
    gs_out_begin(&writer.out, sink);
    gs_out_text(&writer.out, "desc: gpushim timeline\ncmd: ");
    put_text(&writer, trace->program[0] ? trace->program : "unknown");
    gs_out_text(&writer.out, "\ntime_unit: ms\n");
    put_snapshots(&writer);
    for (unsigned i = 0; i < GS_TIMELINE_MEMORIES; i++) {
        free(writer.live[i]);
    }
    free(writer.sites);
    enum gs_status status = gs_out_end(&writer.out);
    return writer.failed ? GS_ERR_HOST_NOMEM : status;
}
