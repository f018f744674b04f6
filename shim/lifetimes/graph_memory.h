/*
 * graph_memory.h - memory of graphs: its allocation nodes, and the effect of a launch.
 *
 * An allocation node has one address for as long as its graph or an executable graph of
 * it exists. Each launch allocates it; it is freed by a free node, of this or another
 * graph, by cuMemFree and cuMemFreeAsync, or by the next launch of an executable graph
 * with AUTO_FREE_ON_LAUNCH. The end of a graph frees nothing. (CUDA Driver API,
 * cuGraphAddMemAllocNode; CUDA Programming Guide, Graph Memory Nodes.)
 *
 * So the tracker records this memory in the order of the calls: as live from the launch
 * on, owned by the call that created the node. Memory that a graph both allocates and
 * frees is live only within its launch, where it counts for the traffic and the peak.
 *
 * Does not call the driver; graph_nodes.h does.
 * Owns: allocation nodes by address, memory of executable graphs by handle.
 * Lock: a mutex inside, taken before the tracker's; never held across a driver call.
 */
#ifndef GS_GRAPH_MEMORY_H
#define GS_GRAPH_MEMORY_H

#include "shim/cuda/cuda_names.h"
#include "tracker/tracker.h"

/* True if the process ever created a memory node. Atomic. */
extern bool gs_graph_memory_used __attribute__((visibility("hidden")));
/* Known allocation nodes; executable graphs with memory nodes. Atomic. */
extern unsigned gs_graph_node_count __attribute__((visibility("hidden")));
extern unsigned gs_graph_exec_count __attribute__((visibility("hidden")));

static inline bool gs_graph_memory_was_seen(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_graph_memory_used, __ATOMIC_ACQUIRE));
}

static inline bool gs_graph_execs_known(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_graph_exec_count, __ATOMIC_ACQUIRE) > 0);
}

/* Records that the process has created a free node. */
static inline void gs_graph_memory_set_used(void)
{
    __atomic_store_n(&gs_graph_memory_used, true, __ATOMIC_RELEASE);
}

/* ---- nodes ------------------------------------------------------------------------- */

/*
 * Records an allocation node of a graph (NULL: not known which); `alloc`: its record. A
 * record of another node at the same address is out of date.
 * Errors: GS_ERR_HOST_NOMEM its memory will have no owner
 */
enum gs_status gs_graph_node_added(CUgraph graph,
                                   const struct gs_allocation *alloc) GS_MUST_USE;
/* Finds the record of the allocation node at this address. */
bool gs_graph_find_node(uint64_t addr, struct gs_allocation *out) GS_MUST_USE;
/* The child belongs to the parent from now on. */
void gs_graph_moved(CUgraph child, CUgraph parent);

/* Called before a graph is destroyed, since its handle may name another graph at once:
 * moves the records of its nodes to *out for gs_graph_destroyed, which learns whether the
 * graph has ended. */
struct gs_graph_nodes;
struct gs_graph_nodes *gs_graph_destroying(CUgraph graph);
void gs_graph_destroyed(struct gs_graph_nodes *taken, bool gone);

/* ---- executable graphs ------------------------------------------------------------- */

/* The memory that the nodes of an executable graph allocate and free. */
struct gs_graph_memory {
    struct gs_allocation *allocs;
    size_t alloc_count;
    uint64_t *frees; /* addresses */
    size_t free_count;
    bool frees_first; /* AUTO_FREE_ON_LAUNCH */
};

/* Called after an instantiation. Copies `memory`; a graph without nodes is not recorded.
 * Errors: GS_ERR_HOST_NOMEM  its launches will not be recorded */
enum gs_status gs_graph_exec_created(CUgraphExec exec,
                                     const struct gs_graph_memory *memory) GS_MUST_USE;

/* Like gs_graph_destroying and gs_graph_destroyed, for an executable graph. Its memory
 * stays as it is. */
struct gs_graph_exec;
struct gs_graph_exec *gs_graph_exec_destroying(CUgraphExec exec);
void gs_graph_exec_destroyed(struct gs_graph_exec *taken, bool gone);

/* ---- launches ---------------------------------------------------------------------- */

#define GS_GRAPH_FEW 4

/* A launch in progress. */
struct gs_graph_launch {
    struct gs_tracker *tracker;
    CUgraphExec exec;
    bool known;                /* it has memory nodes */
    struct gs_allocation *was; /* records of freed memory, restored on a refusal */
    size_t was_count;
    struct gs_allocation few[GS_GRAPH_FEW]; /* space for a few */
};

/* Called before a launch: removes the records of the memory that it frees. Returns
 * whether gs_graph_launched must follow. */
bool gs_graph_launching(struct gs_tracker *tracker, CUgraphExec exec,
                        const struct gs_free_site *site,
                        struct gs_graph_launch *launch) GS_MUST_USE;
/* Called with the driver's answer: records the allocations, or restores the removed
 * records. Returns GS_ERR_HOST_NOMEM if some of it could not be recorded. */
enum gs_status gs_graph_launched(struct gs_graph_launch *launch,
                                 const struct gs_free_site *site, uint64_t stream,
                                 bool launched) GS_MUST_USE;

/* In a forked child: drops all graphs. */
void gs_graph_memory_reset(void);

#endif
