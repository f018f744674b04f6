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
    if (diff_code(
            call, "code",
            CU(cuStreamBeginCapture)(stream, (CUstreamCaptureMode)call->op->args[1])))
        return;
    if (call->world->capturing++ == 0)
        call->world->touched = 0;
    call->world->capture++;
}

void diff_do_capture_end(struct diff_call *call)
{
    struct diff_world *world = call->world;
    struct diff_slot *slot = diff_slot_free(call, DIFF_GRAPH, 1);
    CUgraph graph = NULL;
    CUstream stream;
    CUresult code;
    int line;

    if (!slot || !diff_stream_of(call, 0, &stream, &line))
        return;
    code = diff_code(call, "code", CU(cuStreamEndCapture)(stream, &graph));
    if (world->capturing > 0 &&
        (code == CUDA_SUCCESS || code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED))
        world->capturing--;
    if (code == CUDA_SUCCESS) {
        diff_slot_made(call, slot, (uint64_t)(uintptr_t)graph);
        slot->touched = world->touched;
        world->graphs[(uint64_t)call->op->args[1] % DIFF_SLOTS] =
            (struct diff_graph){.ctx = -1, .unknown = UINT32_MAX};
        memcpy(slot->lives, world->lives, sizeof(slot->lives));
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
    diff_code(call, "code", CU(cuStreamIsCapturing)(stream, &status));
    diff_say(call, " status=%d", (int)status);
}

void diff_do_capture_mode(struct diff_call *call)
{
    CUstreamCaptureMode mode = (CUstreamCaptureMode)call->op->args[0];

    diff_code(call, "code", CU(cuThreadExchangeStreamCaptureMode)(&mode));
    diff_say(call, " mode=%d", (int)mode);
}

void diff_graph_ready(struct diff_call *call, unsigned long long flags)
{
    struct diff_slot *graph = diff_slot_of(call, DIFF_GRAPH, 0);
    struct diff_slot *slot = graph ? diff_slot_free(call, DIFF_EXEC, 1) : NULL;
    CUgraphExec exec = NULL;

    if (!slot || diff_code(call, "code",
                           CU(cuGraphInstantiateWithFlags)(
                               &exec, (CUgraph)(uintptr_t)graph->value, flags)))
        return;
    diff_slot_made(call, slot, (uint64_t)(uintptr_t)exec);
    slot->touched = graph->touched;
    memcpy(slot->lives, graph->lives, sizeof(slot->lives));
    call->world->execs[(uint64_t)call->op->args[1] % DIFF_SLOTS] =
        call->world->graphs[(uint64_t)call->op->args[0] % DIFF_SLOTS];
}

void diff_do_graph_ready(struct diff_call *call)
{
    diff_graph_ready(call, 0);
}

static int line_context(const struct diff_call *call, int line)
{
    return line < LINE_LEGACY ? call->world->slots[DIFF_STREAM][line].ctx : call->ctx;
}

/* All that the graph uses is still there, and ordered before the line. */
static bool may_launch(struct diff_call *call, const struct diff_slot *exec,
                       const struct diff_use *use)
{
    const struct diff_graph *graph =
        &call->world->execs[exec - call->world->slots[DIFF_EXEC]];

    /* Kernels run in the context of the stream. */
    if (graph->count && graph->ctx != line_context(call, use->line)) {
        diff_skip(call, "context");
        return false;
    }
    for (unsigned i = 0; i < DIFF_SLOTS; i++) {
        const struct diff_memory *memory = &call->world->memory[i];

        if (!(exec->touched & 1u << i))
            continue;
        if (memory->kind == 'n' && memory->life == exec->lives[i] &&
            (graph->count == 0 || diff_ordered(call->world, memory, -1)))
            continue;
        if (memory->state != DIFF_LIVE || memory->life != exec->lives[i] ||
            memory->kind == 'i') {
            diff_skip(call, "gone");
            return false;
        }
        if (!use->captured && !diff_ordered(call->world, memory, use->line)) {
            diff_skip(call, "race");
            return false;
        }
    }
    return true;
}

/* What a launch has to do with that memory. */
static void launched(struct diff_call *call, const struct diff_slot *exec, unsigned slot,
                     const struct diff_use *use, bool used)
{
    struct diff_world *world = call->world;
    const struct diff_graph *graph = &world->execs[exec - world->slots[DIFF_EXEC]];
    struct diff_memory *memory = &world->memory[slot];

    if (use->captured)
        diff_touch(world, slot, exec->lives[slot]);
    if (!used)
        return;
    memory->pending[use->line] = world->count[use->line];
    if (graph->loose || graph->unknown & 1u << slot)
        memory->spans = 0;
    else
        diff_define(memory, graph->part[slot]);
}

void diff_do_graph_launch(struct diff_call *call)
{
    struct diff_slot *exec = diff_slot_of(call, DIFF_EXEC, 0);
    struct diff_use use;
    CUresult code;
    bool used;

    if (!exec || !diff_use_stream(call, 1, NULL, NULL, &use))
        return;
    if (!may_launch(call, exec, &use)) {
        diff_not_used(call, &use);
        return;
    }
    use.empty = exec->touched == 0;
    code = diff_code(call, "code",
                     CU(cuGraphLaunch)((CUgraphExec)(uintptr_t)exec->value, use.stream));
    used = diff_used(call, &use, code, NULL, NULL);
    /* Nodes that use no memory order nothing, but they may run for a while. */
    if (use.empty && code == CUDA_SUCCESS && !use.captured)
        diff_submitted(call->world, use.line, NULL, NULL);
    for (unsigned i = 0; i < DIFF_SLOTS; i++)
        if (exec->touched & 1u << i)
            launched(call, exec, i, &use, used);
}

void diff_do_graph_end(struct diff_call *call)
{
    struct diff_slot *graph = diff_slot_of(call, DIFF_GRAPH, 0);

    if (graph &&
        diff_code(call, "code", CU(cuGraphDestroy)((CUgraph)(uintptr_t)graph->value)) ==
            CUDA_SUCCESS)
        graph->state = DIFF_GONE;
}

void diff_do_graph_unready(struct diff_call *call)
{
    struct diff_slot *exec = diff_slot_of(call, DIFF_EXEC, 0);

    if (exec && diff_code(call, "code",
                          CU(cuGraphExecDestroy)((CUgraphExec)(uintptr_t)exec->value)) ==
                    CUDA_SUCCESS)
        exec->state = DIFF_GONE;
}

void diff_do_graph_trim(struct diff_call *call)
{
    diff_code(call, "code", CU(cuDeviceGraphMemTrim)((CUdevice)call->op->args[0]));
}
