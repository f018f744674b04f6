/*
 * do_graph.c - captures and graphs. What a graph writes is not followed: memory that a
 * launch touched has unknown contents until it is written again.
 */
#include <string.h>

#include "do.h"

void diff_do_capture_begin(struct diff_call *call)
{
    CUstream stream;
    int line;

    if (!diff_stream_of(call, 0, &stream, &line))
        return;
    if (diff_code(call, "code",
                  cuStreamBeginCapture(stream, (CUstreamCaptureMode)call->op->args[1])) ==
        CUDA_SUCCESS)
        call->world->capturing++;
}

void diff_do_capture_end(struct diff_call *call)
{
    struct diff_world *world = call->world;
    struct diff_slot *slot = diff_slot_free(call, DIFF_GRAPH, 1);
    CUgraph graph = NULL;
    CUstream stream;
    int line;

    if (!slot || !diff_stream_of(call, 0, &stream, &line))
        return;
    if (diff_code(call, "code", cuStreamEndCapture(stream, &graph)) == CUDA_SUCCESS) {
        diff_slot_made(call, slot, (uint64_t)(uintptr_t)graph);
        slot->touched = world->touched;
        for (unsigned i = 0; i < DIFF_SLOTS; i++)
            slot->lives[i] = world->memory[i].life;
    }
    diff_say(call, " graph=%d", graph != NULL);
}

void diff_do_capture_state(struct diff_call *call)
{
    CUstreamCaptureStatus status = (CUstreamCaptureStatus)77;
    CUstream stream;
    int line;

    if (!diff_stream_of(call, 0, &stream, &line))
        return;
    diff_code(call, "code", cuStreamIsCapturing(stream, &status));
    diff_say(call, " status=%d", (int)status);
}

void diff_do_capture_mode(struct diff_call *call)
{
    CUstreamCaptureMode mode = (CUstreamCaptureMode)call->op->args[0];

    diff_code(call, "code", cuThreadExchangeStreamCaptureMode(&mode));
    diff_say(call, " mode=%d", (int)mode);
}

void diff_do_graph_ready(struct diff_call *call)
{
    struct diff_slot *graph = diff_slot_of(call, DIFF_GRAPH, 0);
    struct diff_slot *slot = graph ? diff_slot_free(call, DIFF_EXEC, 1) : NULL;
    CUgraphExec exec = NULL;

    if (!slot ||
        diff_code(call, "code",
                  cuGraphInstantiate(&exec, (CUgraph)(uintptr_t)graph->value, 0)))
        return;
    diff_slot_made(call, slot, (uint64_t)(uintptr_t)exec);
    slot->touched = graph->touched;
    memcpy(slot->lives, graph->lives, sizeof(slot->lives));
}

/* All that the graph uses is still there, and ordered before the line. */
static bool may_launch(struct diff_call *call, const struct diff_slot *exec, int line)
{
    for (unsigned i = 0; i < DIFF_SLOTS; i++) {
        const struct diff_memory *memory = &call->world->memory[i];

        if (!(exec->touched & 1u << i))
            continue;
        if (memory->kind == 'n')
            continue;
        if (memory->state != DIFF_LIVE || memory->life != exec->lives[i] ||
            memory->kind == 'i') {
            diff_skip(call, "gone");
            return false;
        }
        if (!diff_ordered(call->world, memory, line)) {
            diff_skip(call, "race");
            return false;
        }
    }
    return true;
}

void diff_do_graph_launch(struct diff_call *call)
{
    struct diff_slot *exec = diff_slot_of(call, DIFF_EXEC, 0);
    struct diff_use use;

    if (!exec || !diff_use_stream(call, 1, NULL, NULL, &use))
        return;
    if (!may_launch(call, exec, use.line)) {
        diff_not_used(call, &use);
        return;
    }
    use.empty = exec->touched == 0;
    if (!diff_used(
            call, &use,
            diff_code(call, "code",
                      cuGraphLaunch((CUgraphExec)(uintptr_t)exec->value, use.stream)),
            NULL, NULL))
        return;
    for (unsigned i = 0; i < DIFF_SLOTS; i++) {
        struct diff_memory *memory = &call->world->memory[i];

        if (!(exec->touched & 1u << i) || memory->kind == 'n')
            continue;
        memory->spans = 0;
        memory->pending[use.line] = call->world->count[use.line];
    }
}

void diff_do_graph_end(struct diff_call *call)
{
    struct diff_slot *graph = diff_slot_of(call, DIFF_GRAPH, 0);

    if (graph &&
        diff_code(call, "code", cuGraphDestroy((CUgraph)(uintptr_t)graph->value)) ==
            CUDA_SUCCESS)
        graph->state = DIFF_GONE;
}

void diff_do_graph_unready(struct diff_call *call)
{
    struct diff_slot *exec = diff_slot_of(call, DIFF_EXEC, 0);

    if (exec && diff_code(call, "code",
                          cuGraphExecDestroy((CUgraphExec)(uintptr_t)exec->value)) ==
                    CUDA_SUCCESS)
        exec->state = DIFF_GONE;
}

void diff_do_graph_trim(struct diff_call *call)
{
    diff_code(call, "code", cuDeviceGraphMemTrim((CUdevice)call->op->args[0]));
}
