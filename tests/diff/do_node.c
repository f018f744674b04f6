/*
 * do_node.c - graphs built node by node. The nodes of a graph are in one row, so that a
 * launch has one outcome, but where a list says otherwise: then what they write is
 * unknown.
 */
#include <string.h>

#include "do.h"

static struct diff_graph *graph_at(struct diff_call *call, unsigned argument)
{
    return &call->world->graphs[(uint64_t)call->op->args[argument] % DIFF_SLOTS];
}

/* A graph that was made by graph_new here, to which a node may be added. */
static struct diff_slot *graph_of(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_of(call, DIFF_GRAPH, 0);

    if (!slot)
        return NULL;
    if (call->ctx < 0 || graph_at(call, 0)->ctx != call->ctx ||
        graph_at(call, 0)->count == DIFF_NODES) {
        diff_skip(call, "graph");
        return NULL;
    }
    return slot;
}

void diff_do_graph_new(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_free(call, DIFF_GRAPH, 0);
    struct diff_graph *made = graph_at(call, 0);
    CUgraph graph = NULL;

    if (!slot || diff_code(call, "code", CU(cuGraphCreate)(&graph, 0)))
        return;
    diff_slot_made(call, slot, (uint64_t)(uintptr_t)graph);
    *made = (struct diff_graph){.ctx = call->ctx, .number = ++call->world->capture};
}

/* ---- nodes --------------------------------------------------------------------------
 */

/* Which nodes the next one is behind. */
struct place {
    struct diff_slot *slot;
    struct diff_graph *graph;
    CUgraph handle;
    CUgraphNode after[DIFF_NODES];
    size_t count;
    bool loose;
};

static bool place_node(struct diff_call *call, unsigned argument, struct place *out)
{
    int64_t how = call->op->args[argument];
    unsigned from;

    memset(out, 0, sizeof(*out));
    out->slot = graph_of(call);
    if (!out->slot)
        return false;
    out->graph = graph_at(call, 0);
    out->handle = (CUgraph)(uintptr_t)out->slot->value;
    /* Memory that is not there yet, or no more, must not be met by chance. */
    if (how == 6 && out->graph->count && out->graph->has_memory)
        how = 0;
    from = how == 7 || out->graph->count == 0 ? 0 : out->graph->count - 1;
    out->loose = how == 6 && out->graph->count;
    for (unsigned i = out->loose ? out->graph->count : from; i < out->graph->count; i++)
        out->after[out->count++] = (CUgraphNode)(uintptr_t)out->graph->nodes[i];
    return true;
}

static bool placed(struct diff_call *call, const struct place *place, CUresult code,
                   const CUgraphNode *node)
{
    if (diff_code(call, "code", code) != CUDA_SUCCESS)
        return false;
    place->graph->nodes[place->graph->count++] = (uint64_t)(uintptr_t)*node;
    place->graph->loose |= place->loose;
    return true;
}

static CUcontext current(const struct diff_call *call)
{
    return (CUcontext)(uintptr_t)call->world->slots[DIFF_CTX][call->ctx].value;
}

/* May a node of the graph use the memory? */
static bool may_use(struct diff_call *call, const struct place *place,
                    const struct diff_memory *memory)
{
    bool own = memory->kind == 'n' && memory->source == place->graph->number &&
               !place->graph->loose;

    if (own || (strchr("dpgah", memory->kind) &&
                (memory->kind == 'h' || memory->kind == 'g' || memory->ctx == call->ctx)))
        return true;
    diff_skip(call, "reach");
    return false;
}

static void uses(struct diff_call *call, const struct place *place,
                 const struct diff_memory *memory)
{
    unsigned number = (unsigned)(memory - call->world->memory);

    if (!(place->slot->touched & 1u << number))
        place->slot->lives[number] = memory->life;
    place->slot->touched |= 1u << number;
}

/* The node writes the part, the same bytes each time; bytes 0: who knows what. */
static void writes(struct diff_call *call, const struct place *place,
                   const struct diff_memory *memory, struct diff_part part)
{
    unsigned number = (unsigned)(memory - call->world->memory);

    uses(call, place, memory);
    if (part.bytes == 0)
        place->graph->unknown |= 1u << number;
    place->graph->part[number] = part;
}

void diff_do_node_alloc(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 1);
    CUDA_MEM_ALLOC_NODE_PARAMS wanted = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = diff_size(call->op->args[2])};
    struct place place;
    CUgraphNode node;
    CUdevice device;

    if (!memory || !place_node(call, 3, &place) || place.loose || place.graph->loose ||
        CU(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
        return;
    wanted.poolProps.location.id = device;
    if (!placed(call, &place,
                CU(cuGraphAddMemAllocNode)(&node, place.handle, place.after, place.count,
                                           &wanted),
                &node))
        return;
    diff_memory_made(call, memory, 'n', wanted.dptr, wanted.bytesize);
    memory->source = place.graph->number;
    place.graph->has_memory = true;
    uses(call, &place, memory);
}

void diff_do_node_free(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 1);
    struct place place;
    CUgraphNode node;

    if (!memory || memory->kind != 'n' || !place_node(call, 2, &place) ||
        !may_use(call, &place, memory))
        return;
    if (placed(call, &place,
               CU(cuGraphAddMemFreeNode)(&node, place.handle, place.after, place.count,
                                         memory->at),
               &node))
        memory->state = DIFF_GONE;
}

void diff_do_node_set(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 1);
    CUDA_MEMSET_NODE_PARAMS set = {.elementSize = 1, .height = 1};
    struct diff_part part;
    struct place place;
    CUgraphNode node;

    if (!memory || !place_node(call, 4, &place) || !may_use(call, &place, memory))
        return;
    part = diff_part_of(memory, call->op->args[2]);
    set.dst = memory->at + part.at;
    set.value = (unsigned)call->op->args[3];
    set.width = part.bytes;
    if (placed(call, &place,
               CU(cuGraphAddMemsetNode)(&node, place.handle, place.after, place.count,
                                        &set, current(call)),
               &node) &&
        part.bytes)
        writes(call, &place, memory, part);
}

void diff_do_node_copy(struct diff_call *call)
{
    struct diff_memory *to = diff_memory_of(call, 1);
    struct diff_memory *from = to ? diff_memory_of(call, 2) : NULL;
    struct diff_part part;
    struct place place;
    CUgraphNode node;

    if (!from || to == from || !place_node(call, 4, &place) ||
        !may_use(call, &place, to) || !may_use(call, &place, from))
        return;
    part = diff_part_of(to->bytes < from->bytes ? to : from, call->op->args[3]);
    const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .srcDevice = from->at + part.at,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = to->at + part.at,
                                .WidthInBytes = part.bytes,
                                .Height = 1,
                                .Depth = 1};
    if (!placed(call, &place,
                CU(cuGraphAddMemcpyNode)(&node, place.handle, place.after, place.count,
                                         &copy, current(call)),
                &node))
        return;
    uses(call, &place, from);
    writes(call, &place, to, (struct diff_part){0, 0});
}

void diff_do_node_fill(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 1);
    uint32_t seed = (uint32_t)call->op->args[2];
    CUDA_KERNEL_NODE_PARAMS kernel = {.gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 32,
                                      .blockDimY = 1,
                                      .blockDimZ = 1};
    struct diff_part part;
    struct place place;
    CUgraphNode node;
    uint64_t count;

    if (!memory || !place_node(call, 3, &place) || !may_use(call, &place, memory))
        return;
    part = diff_part_of(memory, 0);
    count = part.bytes / 4;
    kernel.func = diff_kernel(call, "gs_fill");
    kernel.kernelParams = (void *[]){&memory->at, &count, &seed};
    if (!kernel.func) {
        diff_skip(call, "module");
        return;
    }
    if (placed(call, &place,
               CU(cuGraphAddKernelNode)(&node, place.handle, place.after, place.count,
                                        &kernel),
               &node))
        writes(call, &place, memory, (struct diff_part){0, count * 4});
}

void diff_do_node_empty(struct diff_call *call)
{
    struct place place;
    CUgraphNode node;

    if (place_node(call, 1, &place))
        (void)placed(
            call, &place,
            CU(cuGraphAddEmptyNode)(&node, place.handle, place.after, place.count),
            &node);
}

/* ---- graphs -------------------------------------------------------------------------
 */

void diff_do_graph_ready_as(struct diff_call *call)
{
    static const unsigned long long flags[] = {
        CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, 0,
        CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
            CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY,
        1ull << 40};

    diff_graph_ready(call, flags[call->op->args[2] % 4]);
}

void diff_do_graph_clone(struct diff_call *call)
{
    struct diff_slot *graph = diff_slot_of(call, DIFF_GRAPH, 0);
    struct diff_slot *slot = graph ? diff_slot_free(call, DIFF_GRAPH, 1) : NULL;
    CUgraph clone = NULL;

    if (!slot || diff_code(call, "code",
                           CU(cuGraphClone)(&clone, (CUgraph)(uintptr_t)graph->value)))
        return;
    diff_slot_made(call, slot, (uint64_t)(uintptr_t)clone);
    slot->touched = graph->touched;
    memcpy(slot->lives, graph->lives, sizeof(slot->lives));
    *graph_at(call, 1) = *graph_at(call, 0);
    graph_at(call, 1)->count = DIFF_NODES; /* its nodes are others: none is added */
}

void diff_do_graph_update(struct diff_call *call)
{
    struct diff_slot *exec = diff_slot_of(call, DIFF_EXEC, 0);
    struct diff_slot *graph = exec ? diff_slot_of(call, DIFF_GRAPH, 1) : NULL;
    CUgraphExecUpdateResultInfo info = {0};

    if (!graph)
        return;
    diff_code(call, "code",
              CU(cuGraphExecUpdate)((CUgraphExec)(uintptr_t)exec->value,
                                    (CUgraph)(uintptr_t)graph->value, &info));
    diff_say(call, " result=%d", (int)info.result);
    /* Some of its nodes are the other graph's now. */
    for (unsigned i = 0; i < DIFF_SLOTS; i++) {
        if (!(graph->touched & 1u << i))
            continue;
        exec->lives[i] = !(exec->touched & 1u << i) || exec->lives[i] == graph->lives[i]
                             ? graph->lives[i]
                             : UINT32_MAX;
    }
    exec->touched |= graph->touched;
    call->world->execs[exec - call->world->slots[DIFF_EXEC]].unknown = UINT32_MAX;
}

void diff_do_graph_upload(struct diff_call *call)
{
    struct diff_slot *exec = diff_slot_of(call, DIFF_EXEC, 0);
    struct diff_use use;

    if (exec && diff_use_stream(call, 1, NULL, NULL, &use))
        diff_used(
            call, &use,
            diff_code(call, "code",
                      CU(cuGraphUpload)((CUgraphExec)(uintptr_t)exec->value, use.stream)),
            NULL, NULL);
}

void diff_do_graph_count(struct diff_call *call)
{
    struct diff_slot *graph = diff_slot_of(call, DIFF_GRAPH, 0);
    size_t nodes = 77, roots = 77;

    if (!graph)
        return;
    diff_code(call, "code",
              CU(cuGraphGetNodes)((CUgraph)(uintptr_t)graph->value, NULL, &nodes));
    diff_code(call, "again",
              CU(cuGraphGetRootNodes)((CUgraph)(uintptr_t)graph->value, NULL, &roots));
    diff_say(call, " nodes=%zu roots=%zu", nodes, roots);
}

/* With a graph goes its memory, and others may have the address. */
static bool graph_lives(struct diff_call *call, const struct diff_memory *memory)
{
    for (unsigned i = 0; i < DIFF_SLOTS; i++)
        if (call->world->slots[DIFF_GRAPH][i].state == DIFF_LIVE &&
            call->world->graphs[i].number == memory->source)
            return true;
    return false;
}

/* Memory of a launched graph, freed in a stream's order or at once. */
void diff_do_node_release(struct diff_call *call)
{
    struct diff_memory *memory =
        &call->world->memory[(uint64_t)call->op->args[0] % DIFF_SLOTS];
    struct diff_use use;
    CUresult code;

    if (memory->state != DIFF_LIVE || memory->process != call->op->process ||
        memory->kind != 'n' || !graph_lives(call, memory) ||
        !diff_ordered(call->world, memory, -1)) {
        diff_skip(call, "race");
        return;
    }
    if (!diff_use_stream(call, 1, NULL, NULL, &use))
        return;
    if (use.captured) {
        diff_skip(call, "captured");
        return;
    }
    code = call->op->args[2] ? CU(cuMemFree)(memory->at)
                             : CU(cuMemFreeAsync)(memory->at, use.stream);
    diff_code(call, "code", code);
    if (call->op->args[2])
        diff_not_used(call, &use);
    else
        diff_used(call, &use, code, memory, NULL);
    if (code == CUDA_SUCCESS)
        memory->state = DIFF_GONE;
}

void diff_do_graph_memory(struct diff_call *call)
{
    CUgraphMem_attribute attribute = (CUgraphMem_attribute)call->op->args[1];
    cuuint64_t value = 0;

    if (diff_code(call, "code",
                  CU(cuDeviceGetGraphMemAttribute)((CUdevice)call->op->args[0], attribute,
                                                   &value)) == CUDA_SUCCESS &&
        attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT && !call->list->free &&
        diff_all_quiet(call->world))
        diff_say(call, " used=%llu", (unsigned long long)value);
}

/* ---- as in a list with captures -----------------------------------------------------
 */

void diff_do_node_launch(struct diff_call *call)
{
    diff_do_graph_launch(call);
}

void diff_do_node_graph_end(struct diff_call *call)
{
    diff_do_graph_end(call);
}

void diff_do_node_exec_end(struct diff_call *call)
{
    diff_do_graph_unready(call);
}
