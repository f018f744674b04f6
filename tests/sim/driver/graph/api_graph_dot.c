/*
 * api_graph_dot.c - a graph as a DOT file: its nodes, what they do, its edges. A body
 * lies in a frame of its own, behind the node it belongs to. Owns:  nothing.   Lock:
 * graph_lock while the text is made. Source: Driver API, cuGraphDebugDotPrint.
 */
#include <stdio.h>
#include <stdlib.h>

#include "graph.h"
#include "launch.h"
#include "node_work.h"

#define KNOWN_FLAGS ((1u << 16) - 1)

/* What is written beside the topology. Source: CUgraphDebugDot_flags. */
enum {
    DOT_VERBOSE = 1 << 0,
    DOT_KERNELS = 1 << 2,
    DOT_COPIES = 1 << 3,
    DOT_SETS = 1 << 4,
    DOT_HANDLES = 1 << 10,
    DOT_EDGES = 1 << 14,
};

static const char *const type_names[] = {
    "KERNEL",         "MEMCPY",       "MEMSET",
    "HOST",           "GRAPH",        "EMPTY",
    "WAIT_EVENT",     "EVENT_RECORD", "EXT_SEMAS_SIGNAL",
    "EXT_SEMAS_WAIT", "MEM_ALLOC",    "MEM_FREE",
    "BATCH_MEM_OP",   "CONDITIONAL"};

struct dot {
    FILE *file;
    unsigned flags;
};

static bool wants(const struct dot *dot, unsigned what)
{
    return dot->flags & (what | DOT_VERBOSE);
}

static void print_kernel(const struct dot *dot, const struct sim_work *work)
{
    const struct sim_launch_record *record = work->ops[0]->kernel.record;

    if (!record)
        return;
    fprintf(dot->file, "\\n%s", record->function->name);
    if (wants(dot, DOT_KERNELS))
        fprintf(dot->file, "\\n<<<%u,%u,%u; %u,%u,%u; %u>>>", record->grid[0],
                record->grid[1], record->grid[2], record->block[0], record->block[1],
                record->block[2], record->shared_bytes);
    if (wants(dot, DOT_HANDLES))
        fprintf(dot->file, "\\nfunction %p", record->function->object.handle);
}

/* H: host, D: device. */
static char place_of(const struct sim_home *home)
{
    return home->on_host ? 'H' : 'D';
}

static void print_work(const struct dot *dot, const struct sim_work *work)
{
    switch ((int)work->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        print_kernel(dot, work);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        fprintf(dot->file, "\\n%cto%c", place_of(&work->homes[1]),
                place_of(&work->homes[0]));
        if (wants(dot, DOT_COPIES))
            fprintf(dot->file, "\\n%zu x %zu x %zu", work->copy.WidthInBytes,
                    work->copy.Height, work->copy.Depth);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        if (wants(dot, DOT_SETS))
            fprintf(dot->file, "\\n0x%x, %u bytes, %zu x %zu", work->set.value,
                    work->set.elementSize, work->set.width, work->set.height);
        break;
    default:
        break;
    }
}

static void print_node(const struct dot *dot, const struct sim_node *node)
{
    fprintf(dot->file, "\"node_%llu\" [label=\"%llu %s", (unsigned long long)node->id,
            (unsigned long long)node->id,
            (size_t)node->type < GS_ARRAY_LEN(type_names) ? type_names[node->type] : "");
    print_work(dot, node->work);
    if (wants(dot, DOT_HANDLES))
        fprintf(dot->file, "\\nnode %p", node->object.handle);
    fprintf(dot->file, "\"];\n");
    for (size_t i = 0; i < node->after.count; i++) {
        const CUgraphEdgeData *edge = &node->after.edges[i];
        fprintf(dot->file, "\"node_%llu\" -> \"node_%llu\"",
                (unsigned long long)node->after.nodes[i]->id,
                (unsigned long long)node->id);
        if (!sim_edge_is_full(edge) || wants(dot, DOT_EDGES))
            fprintf(dot->file, " [label=\"port %u, type %u\"]", edge->from_port,
                    edge->type);
        fprintf(dot->file, ";\n");
    }
}

static void print_graph(const struct dot *dot, const struct sim_graph *graph)
{
    fprintf(dot->file, "subgraph cluster_%llu {\nlabel=\"graph_%llu\";\n",
            (unsigned long long)graph->id, (unsigned long long)graph->id);
    for (size_t i = 0; i < graph->nodes.count; i++)
        print_node(dot, graph->nodes.nodes[i]);
    fprintf(dot->file, "}\n");
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct sim_node *node = graph->nodes.nodes[i];
        for (unsigned k = 0; k < node->body_count; k++) {
            print_graph(dot, node->bodies[k]);
            if (node->bodies[k]->nodes.count > 0)
                fprintf(dot->file, "\"node_%llu\" -> \"node_%llu\" [style=dotted];\n",
                        (unsigned long long)node->id,
                        (unsigned long long)node->bodies[k]->nodes.nodes[0]->id);
        }
    }
}

SIM_API(cuGraphDebugDotPrint, CUgraph handle, const char *path, unsigned int flags)
{
    SIM_TRY(sim_enter(SIM_ID_cuGraphDebugDotPrint));
    struct sim_graph *graph =
        path && !(flags & ~KNOWN_FLAGS) ? sim_graph_get(handle) : NULL;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    const struct dot dot = {fopen(path, "we"), flags};
    if (!dot.file) {
        sim_graph_put(graph);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    fprintf(dot.file, "digraph dot {\n");
    pthread_mutex_lock(&sim_graph_lock);
    print_graph(&dot, graph);
    pthread_mutex_unlock(&sim_graph_lock);
    fprintf(dot.file, "}\n");
    bool failed = ferror(dot.file);
    failed = fclose(dot.file) != 0 || failed;
    sim_graph_put(graph);
    return failed ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
