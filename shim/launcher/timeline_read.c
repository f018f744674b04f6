/*
 * timeline_read.c - reads a trace, and takes its call stacks from a report's data.
 * Owns: nothing.   Lock: none.   Design: docs/traces.md
 */
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "state_open.h"

#define FRAMES_MOST 1024 /* of a stack, with inlined functions and Python's */

static int by_id(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Lists the trace's ids of stacks. */
static void list_stacks(struct gs_timeline_source *source)
{
    const struct gs_replay_trace *trace = &source->trace;
    size_t count = trace->made ? trace->allocations : 0, kept = 0;
    source->known = gs_replay_alloc(count, sizeof(*source->known));
    source->found = gs_replay_alloc(count, sizeof(*source->found));
    for (size_t i = 0; i < count; i++) {
        source->known[i] = trace->made[i].stack;
    }
    qsort(source->known, count, sizeof(*source->known), by_id);
    for (size_t i = 0; i < count; i++) {
        if (source->known[i] != 0 &&
            (kept == 0 || source->known[i] != source->known[kept - 1])) {
            source->known[kept++] = source->known[i];
        }
    }
    memcpy(source->found, source->known, kept * sizeof(*source->found));
    source->count = kept;
}

static uint32_t index_of(const struct gs_timeline_source *source, uint32_t id)
{
    const uint32_t *at =
        source->count ? bsearch(&id, source->known, source->count, sizeof(id), by_id)
                      : NULL;
    return at ? (uint32_t)(at - source->known) : (uint32_t)source->count;
}

static void follow_allocations(struct gs_timeline_source *source)
{
    struct gs_timeline *timeline = &source->timeline;
    const struct gs_replay_trace *trace = timeline->trace;
    timeline->stack_of = gs_replay_alloc(trace->allocations, sizeof(uint32_t));
    timeline->end_of = gs_replay_alloc(trace->allocations, sizeof(size_t));
    for (uint32_t i = 0; i < trace->allocations; i++) {
        timeline->end_of[i] = trace->count;
        timeline->stack_of[i] = index_of(source, trace->made ? trace->made[i].stack : 0);
    }
    for (size_t i = 0; i < trace->count; i++) {
        if (trace->ops[i].op == GS_TRACE_FREE) {
            timeline->end_of[trace->ops[i].id] = i;
        }
    }
}

/* Copies the frames of all stacks; their texts are the export's. */
void gs_timeline_take_frames(struct gs_timeline_source *source,
                             const struct gs_export *export)
{
    struct gs_timeline *timeline = &source->timeline;
    struct gs_export_frame frames[FRAMES_MOST];
    timeline->stacks = gs_replay_alloc(source->count, sizeof(*timeline->stacks));
    timeline->stack_count = source->count;
    timeline->frame_count = gs_export_frames(export);
    for (size_t i = 0; i < source->count; i++) {
        size_t count = gs_export_shown(export, source->found[i], frames, FRAMES_MOST);
        struct gs_export_frame *copy = gs_replay_alloc(count, sizeof(*copy));
        memcpy(copy, frames, count * sizeof(*copy));
        timeline->stacks[i] = (struct gs_timeline_stack){.frames = copy, .count = count};
    }
}

bool gs_timeline_visit(const struct gs_timeline_source *source, const char *state,
                       void (*write)(void *self, const struct gs_export *export),
                       void *self, const char **problem)
{
    const struct gs_state_visit visit = {
        .lines = GS_STATE_ALL_LINES,
        .pid = source->trace.pid,
        .pid_start = source->trace.pid_start,
        .stacks = {.ids = source->found, .count = source->count},
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
    free(source->timeline.stack_of);
    free(source->timeline.end_of);
    free(source->timeline.shown);
    free(source->known);
    free(source->found);
    gs_replay_free(&source->trace);
}

int gs_timeline_open(struct gs_timeline_source *source, const char *path)
{
    *source = (struct gs_timeline_source){.timeline = {.trace = &source->trace}};
    int status = gs_replay_open(path, &source->trace);
    if (source->trace.count != 0) {
        list_stacks(source);
        follow_allocations(source);
    }
    return status;
}
