/*
 * graph_memory.h - memory that belongs to graphs: who made it, and what a launch does.
 *
 * An allocation node has one address for as long as its graph or an executable graph of
 * it exists. Each launch allocates it; it is freed by a free node, of this or another
 * graph, by cuMemFree and cuMemFreeAsync, or by the next launch of an executable graph
 * with AUTO_FREE_ON_LAUNCH. The end of a graph frees nothing. (CUDA Driver API,
 * cuGraphAddMemAllocNode; CUDA Programming Guide, Graph Memory Nodes.)
 *
 * So the tracker is told of it in the order of calls: as live from the launch on, made by
 * whoever made the node. What a graph both allocates and frees comes and goes within its
 * launch, where it counts for the traffic and the peak.
 *
 * Knows no driver: graph_nodes.h asks it.
 * Owns: makers of nodes by address, memory of executable graphs by handle.
 * Lock: a mutex inside, taken before the tracker's; never over a driver call.
 */
#ifndef GS_GRAPH_MEMORY_H
#define GS_GRAPH_MEMORY_H

#include "cuda_names.h"
#include "tracker.h"

/* Whether the process ever made a memory node. Atomic. */
extern bool gs_graph_memory_seen __attribute__((visibility("hidden")));
/* Nodes whose maker is known; executable graphs that have memory nodes. Atomic. */
extern unsigned gs_graph_maker_count __attribute__((visibility("hidden")));
extern unsigned gs_graph_exec_count __attribute__((visibility("hidden")));

static inline bool gs_graph_memory_was_seen(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_graph_memory_seen, __ATOMIC_ACQUIRE));
}

static inline bool gs_graph_execs_known(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_graph_exec_count, __ATOMIC_ACQUIRE) > 0);
}

/* A memory node of a kind that has no maker: a free node. */
static inline void gs_graph_memory_see(void)
{
    __atomic_store_n(&gs_graph_memory_seen, true, __ATOMIC_RELEASE);
}

/* ---- nodes ------------------------------------------------------------------------- */

/*
 * An allocation node was made in a graph (NULL: not known which), by whom `made` says;
 * its address was another node's only if that is gone. Errors: GS_ERR_HOST_NOMEM  its
 * memory will have no owner
 */
enum gs_status gs_graph_node_added(CUgraph graph,
                                   const struct gs_allocation *made) GS_MUST_USE;
/* Who made the node of that address. */
bool gs_graph_node_maker(uint64_t addr, struct gs_allocation *out) GS_MUST_USE;
/* The child belongs to the parent from now on. */
void gs_graph_moved(CUgraph child, CUgraph parent);

/* About to be destroyed: its handle may be another graph's at once. What was known of its
 * nodes is in *out, for gs_graph_destroyed, which is told whether it is gone. */
struct gs_graph_makers;
struct gs_graph_makers *gs_graph_destroying(CUgraph graph);
void gs_graph_destroyed(struct gs_graph_makers *taken, bool gone);

/* ---- executable graphs ------------------------------------------------------------- */

/* What the nodes of an executable graph do. */
struct gs_graph_memory {
    struct gs_allocation *allocs;
    size_t alloc_count;
    uint64_t *frees; /* addresses */
    size_t free_count;
    bool frees_first; /* AUTO_FREE_ON_LAUNCH */
};

/* It was instantiated. Copies `memory`; one without nodes is not kept.
 * Errors: GS_ERR_HOST_NOMEM  its launches will not be seen */
enum gs_status gs_graph_exec_created(CUgraphExec exec,
                                     const struct gs_graph_memory *memory) GS_MUST_USE;

/* As gs_graph_destroying and gs_graph_destroyed. Its memory stays as it is. */
struct gs_graph_exec;
struct gs_graph_exec *gs_graph_exec_destroying(CUgraphExec exec);
void gs_graph_exec_destroyed(struct gs_graph_exec *taken, bool gone);

/* ---- launches ---------------------------------------------------------------------- */

#define GS_GRAPH_FEW 4

/* A launch on its way through the driver. */
struct gs_graph_launch {
    struct gs_tracker *tracker;
    CUgraphExec exec;
    bool known;                /* it has memory nodes */
    struct gs_allocation *was; /* what it frees, to be put back if it is refused */
    size_t was_count;
    struct gs_allocation few[GS_GRAPH_FEW]; /* room for it */
};

/* About to be launched: what that frees is taken out of the books. Returns whether
 * gs_graph_launched is due. */
bool gs_graph_launching(struct gs_tracker *tracker, CUgraphExec exec,
                        const struct gs_free_site *site,
                        struct gs_graph_launch *launch) GS_MUST_USE;
/* The driver has answered: its allocations are live, or nothing has happened. Returns
 * GS_ERR_HOST_NOMEM if some of it could not be recorded. */
enum gs_status gs_graph_launched(struct gs_graph_launch *launch,
                                 const struct gs_free_site *site, uint64_t stream,
                                 bool launched) GS_MUST_USE;

/* In a forked child: there are no graphs. */
void gs_graph_memory_reset(void);

#endif
