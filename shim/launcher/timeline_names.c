/*
 * timeline_names.c - what the formats of a timeline ask of it.
 * Owns: nothing.   Lock: none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timeline.h"

const char *gs_timeline_memory(const struct gs_replay_op *op, char out[32])
{
    if (op->kind == GS_TRACE_KIND_PINNED) {
        return strcpy(out, "pinned host memory");
    }
    (void)snprintf(out, 32, "GPU %u", (unsigned)op->device);
    return out;
}

const char *gs_timeline_function(const struct gs_export_frame *frame, char out[512])
{
    if (frame->function) {
        return frame->function;
    }
    (void)snprintf(out, 512, "%.400s+0x%llx", frame->module ? frame->module : "unknown",
                   (unsigned long long)frame->offset);
    return out;
}

bool gs_timeline_shows(const struct gs_timeline *timeline, uint32_t allocation)
{
    return !timeline->shown || timeline->shown[allocation];
}

static int by_id(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
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

struct gs_timeline_stack gs_timeline_stack(const struct gs_timeline *timeline,
                                           const struct gs_replay_op *op)
{
    size_t number = gs_timeline_stack_number(timeline, op);
    return number < timeline->stack_count ? timeline->stacks[number]
                                          : (struct gs_timeline_stack){.count = 0};
}
