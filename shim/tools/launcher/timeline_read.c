/*
 * timeline_read.c - reads a trace, and takes its call stacks from a report's data.
 * Owns: nothing.   Lock: none.   Design: docs/traces.md
 */
#include "gs_compare.h"
#include "shim/tools/launcher/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "shim/tools/reader/state_open.h"
#include "shim/tools/replay/replay.h"
#include "shim/tools/replay/replay_map.h"

#define FRAMES_MOST 1024 /* of a stack, with inlined functions and Python's */

static int by_id(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return GS_RISING(*x, *y);
}

size_t gs_timeline_stack_number(const struct gs_timeline *timeline,
                                const struct gs_replay_op *op)
{
    const uint32_t *found = timeline->stack_count
                                ? bsearch(&op->stack, timeline->ids, timeline->id_count,
                                          sizeof(*timeline->ids), by_id)
                                : NULL;
    return found ? (size_t)(found - timeline->ids) : timeline->stack_count;
}

/* What one visit finds. */
struct found {
    struct gs_replay_map ids; /* of stacks */
    bool *freed;
};

/* gs_replay_see */
static void see_operation(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct found *found = self;
    (void)address;
    if (op->stack != 0) {
        (void)gs_replay_map_number(&found->ids, op->stack);
    }
    if (op->op == GS_TRACE_FREE) {
        found->freed[op->id] = true;
    }
}

/* Lists the trace's stacks, and its frees. */
static void visit_trace(struct gs_timeline_source *source)
{
    struct gs_timeline *timeline = &source->timeline;
    const struct gs_replay_trace *trace = timeline->trace;
    struct found found = {.freed = gs_replay_alloc(trace->allocations, sizeof(bool))};
    gs_replay_visit(trace, see_operation, &found);
    timeline->freed = found.freed;
    timeline->ids = gs_replay_alloc(found.ids.count, sizeof(*timeline->ids));
    source->found = gs_replay_alloc(found.ids.count, sizeof(*source->found));
    for (size_t i = 0; i < found.ids.room; i++) {
        if (found.ids.rows[i].used) {
            timeline->ids[timeline->id_count++] = (uint32_t)found.ids.rows[i].key;
        }
    }
    qsort(timeline->ids, timeline->id_count, sizeof(*timeline->ids), by_id);
    memcpy(source->found, timeline->ids, timeline->id_count * sizeof(*source->found));
    gs_replay_map_free(&found.ids);
}

/* Copies the frames of all stacks; their texts are the export's. */
void gs_timeline_take_frames(struct gs_timeline_source *source,
                             const struct gs_export *export)
{
    struct gs_timeline *timeline = &source->timeline;
    struct gs_export_frame frames[FRAMES_MOST];
    timeline->stacks = gs_replay_alloc(timeline->id_count, sizeof(*timeline->stacks));
    timeline->stack_count = timeline->id_count;
    timeline->frame_count = gs_export_frames(export);
    for (size_t i = 0; i < timeline->id_count; i++) {
        size_t count = gs_export_shown(export, source->found[i], frames, FRAMES_MOST);
        struct gs_export_frame *copy = gs_replay_alloc(count, sizeof(*copy));
        memcpy(copy, frames, count * sizeof(*copy));
        timeline->stacks[i] = (struct gs_timeline_stack){
            .frames = copy,
            .count = count,
            .owner = gs_export_owner(export, source->found[i])};
    }
}

bool gs_timeline_visit(const struct gs_timeline_source *source, const char *state,
                       void (*write)(void *self, const struct gs_export *export),
                       void *self, const char **problem)
{
    const struct gs_state_visit visit = {
        .lines = true,
        .pid = source->trace.pid,
        .pid_start = source->trace.pid_start,
        .stacks = {.ids = source->found, .count = source->timeline.id_count},
        .write = write,
        .self = self};
    return gs_state_visit(state, &visit, problem);
}

void gs_timeline_close(struct gs_timeline_source *source)
{
    for (size_t i = 0; i < source->timeline.stack_count; i++) {
        free((void *)(uintptr_t)source->timeline.stacks[i].frames);
    }
    free(source->timeline.stacks);
    free(source->timeline.ids);
    free(source->timeline.freed);
    free(source->timeline.shown);
    free(source->found);
    gs_replay_free(&source->trace);
}

int gs_timeline_open(struct gs_timeline_source *source, const char *path)
{
    *source = (struct gs_timeline_source){.timeline = {.trace = &source->trace}};
    int status = gs_replay_open(path, gs_replay_scan, &source->trace);
    if (source->trace.count != 0) {
        visit_trace(source);
    }
    return status;
}
