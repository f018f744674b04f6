/*
 * timeline_names.c - what the formats of a timeline ask of it.
 * Owns: nothing.   Lock: none.
 */
#include <stdio.h>
#include <string.h>

#include "shim/tools/launcher/timeline.h"
#include "tracker/names/runtime_modules.h"

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
    (void)snprintf(out, 512, "%.400s+0x%llx",
                   frame->module ? gs_module_base_name(frame->module) : "unknown",
                   (unsigned long long)frame->offset);
    return out;
}

bool gs_timeline_shows(const struct gs_timeline *timeline, uint32_t allocation)
{
    return !timeline->shown || timeline->shown[allocation];
}

struct gs_timeline_stack gs_timeline_stack(const struct gs_timeline *timeline,
                                           const struct gs_replay_op *op)
{
    size_t number = gs_timeline_stack_number(timeline, op);
    return number < timeline->stack_count ? timeline->stacks[number]
                                          : (struct gs_timeline_stack){.count = 0};
}
