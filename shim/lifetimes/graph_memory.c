/*
 * graph_memory.c - records of graph memory.
 *
 * Allocation nodes are in a tree by address, and in a list for each graph, whose end
 * drops the list. Executable graphs are in a tree by handle. An executable graph copies
 * the records it needs when it is created, since its graph is mostly destroyed right
 * after.
 *
 * The program must not launch one executable graph twice at the same time ("not
 * thread-safe"). If it does, one launch may be taken for the other, with no worse effect.
 *
 * Owns:  both trees.   Lock: book_lock; the counts are atomic.
 */
#include "shim/lifetimes/graph_memory.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "gs_compare.h"
#include "gs_locks.h"
#include "shim/record.h"

struct graph_node {
    struct gs_allocation alloc;
    struct gs_graph_nodes *graph;
    struct graph_node *next, *previous; /* of the same graph */
};

struct gs_graph_nodes {
    CUgraph handle;
    struct graph_node *first;
};

struct gs_graph_exec {
    CUgraphExec handle;
    struct gs_graph_memory memory;
    bool *inside;  /* for each allocation: a node of the same graph frees it */
    uint32_t *ids; /* under book_lock: the allocations' record ids while live */
};

static struct gs_mutex book_lock = GS_MUTEX(GS_RANK_GRAPHS);
static void *by_address; /* book_lock: struct graph_node */
static void *by_graph;   /* book_lock: struct gs_graph_nodes */
static void *by_exec;    /* book_lock: struct gs_graph_exec */
bool gs_graph_memory_used;
unsigned gs_graph_node_count, gs_graph_exec_count;

static int order(uint64_t a, uint64_t b)
{
    return GS_RISING(a, b);
}

static int order_nodes(const void *left, const void *right)
{
    return order(((const struct graph_node *)left)->alloc.addr,
                 ((const struct graph_node *)right)->alloc.addr);
}

static int order_graphs(const void *left, const void *right)
{
    return order((uintptr_t)((const struct gs_graph_nodes *)left)->handle,
                 (uintptr_t)((const struct gs_graph_nodes *)right)->handle);
}

static int order_execs(const void *left, const void *right)
{
    return order((uintptr_t)((const struct gs_graph_exec *)left)->handle,
                 (uintptr_t)((const struct gs_graph_exec *)right)->handle);
}

/* The tree's entry for the key, or NULL. */
static void *find(void *const *root, const void *key,
                  int (*compare)(const void *, const void *))
{
    void *const *found = tfind(key, root, compare);
    return found ? *found : NULL;
}

/* ---- allocation nodes; book_lock is held ------------------------------------------- */

static struct graph_node *find_node(uint64_t addr)
{
    const struct graph_node key = {.alloc = {.addr = addr}};
    return find(&by_address, &key, order_nodes);
}

static struct gs_graph_nodes *find_graph(CUgraph handle)
{
    const struct gs_graph_nodes key = {.handle = handle};
    return find(&by_graph, &key, order_graphs);
}

static void link_node(struct graph_node *node, struct gs_graph_nodes *graph)
{
    node->graph = graph;
    node->previous = NULL;
    node->next = graph->first;
    if (graph->first) {
        graph->first->previous = node;
    }
    graph->first = node;
}

static void unlink_node(struct graph_node *node)
{
    *(node->previous ? &node->previous->next : &node->graph->first) = node->next;
    if (node->next) {
        node->next->previous = node->previous;
    }
}

/* The graph's entry, created if missing; NULL without memory. */
static struct gs_graph_nodes *graph_entry(CUgraph handle)
{
    struct gs_graph_nodes *graph = find_graph(handle);
    if (graph) {
        return graph;
    }
    graph = calloc(1, sizeof(*graph));
    if (!graph) {
        return NULL;
    }
    graph->handle = handle;
    if (!tsearch(graph, &by_graph, order_graphs)) {
        free(graph);
        return NULL;
    }
    return graph;
}

static void drop_if_empty(struct gs_graph_nodes *graph)
{
    if (!graph->first) {
        (void)tdelete(graph, &by_graph, order_graphs);
        free(graph);
    }
}

/* Removes a node from the tree and from its graph's list. */
static void take_node(struct graph_node *node)
{
    (void)tdelete(node, &by_address, order_nodes);
    unlink_node(node);
    drop_if_empty(node->graph);
    __atomic_sub_fetch(&gs_graph_node_count, 1, __ATOMIC_RELEASE);
}

static enum gs_status put_node(struct graph_node *node, CUgraph handle)
{
    struct graph_node *former = find_node(node->alloc.addr);
    if (former) { /* its graph ended without a notice */
        take_node(former);
        free(former);
    }
    struct gs_graph_nodes *graph = graph_entry(handle);
    if (!graph) {
        return GS_ERR_HOST_NOMEM;
    }
    if (!tsearch(node, &by_address, order_nodes)) {
        drop_if_empty(graph);
        return GS_ERR_HOST_NOMEM;
    }
    link_node(node, graph);
    __atomic_add_fetch(&gs_graph_node_count, 1, __ATOMIC_RELEASE);
    return GS_OK;
}

/* ---- nodes ------------------------------------------------------------------------- */

enum gs_status gs_graph_node_added(CUgraph graph, const struct gs_allocation *alloc)
{
    struct graph_node *node = calloc(1, sizeof(*node));
    enum gs_status status = GS_ERR_HOST_NOMEM;
    gs_graph_memory_set_used();
    if (!node) {
        return status;
    }
    node->alloc = *alloc;
    gs_mutex_lock(&book_lock);
    status = put_node(node, graph);
    gs_mutex_unlock(&book_lock);
    if (status != GS_OK) {
        free(node);
    }
    return status;
}

bool gs_graph_find_node(uint64_t addr, struct gs_allocation *out)
{
    gs_mutex_lock(&book_lock);
    const struct graph_node *node = find_node(addr);
    if (node) {
        *out = node->alloc;
    }
    gs_mutex_unlock(&book_lock);
    return node != NULL;
}

struct gs_graph_nodes *gs_graph_destroying(CUgraph handle)
{
    if (__atomic_load_n(&gs_graph_node_count, __ATOMIC_ACQUIRE) == 0) {
        return NULL;
    }
    gs_mutex_lock(&book_lock);
    struct gs_graph_nodes *graph = find_graph(handle);
    if (graph) {
        (void)tdelete(graph, &by_graph, order_graphs);
        for (struct graph_node *node = graph->first; node; node = node->next) {
            (void)tdelete(node, &by_address, order_nodes);
            __atomic_sub_fetch(&gs_graph_node_count, 1, __ATOMIC_RELEASE);
        }
    }
    gs_mutex_unlock(&book_lock);
    return graph;
}

/* Puts removed nodes back into a graph, or drops them. */
static void put_back(struct gs_graph_nodes *taken, bool keep, CUgraph handle)
{
    struct graph_node *next;
    for (struct graph_node *node = taken->first; node; node = next) {
        next = node->next;
        if (!keep || put_node(node, handle) != GS_OK) {
            free(node);
        }
    }
    free(taken);
}

void gs_graph_destroyed(struct gs_graph_nodes *taken, bool gone)
{
    if (taken) {
        gs_mutex_lock(&book_lock);
        put_back(taken, !gone, taken->handle);
        gs_mutex_unlock(&book_lock);
    }
}

void gs_graph_moved(CUgraph child, CUgraph parent)
{
    struct gs_graph_nodes *taken = gs_graph_destroying(child);
    if (taken) {
        gs_mutex_lock(&book_lock);
        put_back(taken, true, parent);
        gs_mutex_unlock(&book_lock);
    }
}

/* ---- executable graphs ---------------------------------------------------------- */

static void free_exec(struct gs_graph_exec *exec)
{
    if (exec) {
        free(exec->memory.allocs);
        free(exec->memory.frees);
        free(exec->inside);
        free(exec->ids);
        free(exec);
    }
}

static int order_allocs(const void *left, const void *right)
{
    return order(((const struct gs_allocation *)left)->addr,
                 ((const struct gs_allocation *)right)->addr);
}

static int order_addrs(const void *left, const void *right)
{
    return order(*(const uint64_t *)left, *(const uint64_t *)right);
}

/* Marks the allocations that the graph frees itself, and drops their free nodes; the
 * other free nodes stay. */
static void sort_out_frees(struct gs_graph_exec *exec)
{
    struct gs_graph_memory *memory = &exec->memory;
    size_t kept = 0;
    qsort(memory->frees, memory->free_count, sizeof(*memory->frees), order_addrs);
    qsort(memory->allocs, memory->alloc_count, sizeof(*memory->allocs), order_allocs);
    for (size_t i = 0, k = 0; i < memory->free_count; i++) {
        while (k < memory->alloc_count && memory->allocs[k].addr < memory->frees[i]) {
            k++;
        }
        if (k < memory->alloc_count && memory->allocs[k].addr == memory->frees[i]) {
            exec->inside[k] = true;
        } else {
            memory->frees[kept++] = memory->frees[i];
        }
    }
    memory->free_count = kept;
}

/* An entry for the executable graph `handle`, with a copy of the graph's memory nodes;
 * NULL: no memory. */
static struct gs_graph_exec *copy_exec(CUgraphExec handle,
                                       const struct gs_graph_memory *from)
{
    size_t allocs = from->alloc_count ? from->alloc_count : 1;
    struct gs_graph_exec *exec = calloc(1, sizeof(*exec));
    if (!exec) {
        return NULL;
    }
    exec->handle = handle;
    exec->memory.frees_first = from->frees_first;
    exec->memory.alloc_count = from->alloc_count;
    exec->memory.free_count = from->free_count;
    exec->memory.allocs = calloc(allocs, sizeof(*exec->memory.allocs));
    exec->memory.frees =
        calloc(from->free_count ? from->free_count : 1, sizeof(*exec->memory.frees));
    exec->inside = calloc(allocs, sizeof(*exec->inside));
    exec->ids = calloc(allocs, sizeof(*exec->ids));
    if (!exec->memory.allocs || !exec->memory.frees || !exec->inside || !exec->ids) {
        free_exec(exec);
        return NULL;
    }
    if (from->alloc_count) {
        memcpy(exec->memory.allocs, from->allocs,
               from->alloc_count * sizeof(*from->allocs));
    }
    if (from->free_count) {
        memcpy(exec->memory.frees, from->frees, from->free_count * sizeof(*from->frees));
    }
    sort_out_frees(exec);
    return exec;
}

/* book_lock is held from here on, unless noted. */
static struct gs_graph_exec *find_exec(CUgraphExec handle)
{
    const struct gs_graph_exec key = {.handle = handle};
    return find(&by_exec, &key, order_execs);
}

static void take_exec(struct gs_graph_exec *exec)
{
    (void)tdelete(exec, &by_exec, order_execs);
    __atomic_sub_fetch(&gs_graph_exec_count, 1, __ATOMIC_RELEASE);
}

static enum gs_status put_exec(struct gs_graph_exec *exec)
{
    struct gs_graph_exec *former = find_exec(exec->handle);
    if (former) { /* the old one ended without a notice */
        take_exec(former);
        free_exec(former);
    }
    if (!tsearch(exec, &by_exec, order_execs)) {
        return GS_ERR_HOST_NOMEM;
    }
    __atomic_add_fetch(&gs_graph_exec_count, 1, __ATOMIC_RELEASE);
    return GS_OK;
}

/* Takes the lock. */
enum gs_status gs_graph_exec_created(CUgraphExec handle,
                                     const struct gs_graph_memory *memory)
{
    if (memory->alloc_count + memory->free_count == 0) {
        /* An earlier graph with this handle may have ended without a notice. */
        gs_graph_exec_destroyed(gs_graph_exec_destroying(handle), true);
        return GS_OK;
    }
    struct gs_graph_exec *exec = copy_exec(handle, memory);
    if (!exec) {
        return GS_ERR_HOST_NOMEM;
    }
    gs_mutex_lock(&book_lock);
    enum gs_status status = put_exec(exec);
    gs_mutex_unlock(&book_lock);
    if (status != GS_OK) {
        free_exec(exec);
    }
    return status;
}

/* Takes the lock. */
struct gs_graph_exec *gs_graph_exec_destroying(CUgraphExec handle)
{
    if (!gs_graph_execs_known()) {
        return NULL;
    }
    gs_mutex_lock(&book_lock);
    struct gs_graph_exec *exec = find_exec(handle);
    if (exec) {
        take_exec(exec);
    }
    gs_mutex_unlock(&book_lock);
    return exec;
}

/* Takes the lock. */
void gs_graph_exec_destroyed(struct gs_graph_exec *taken, bool gone)
{
    if (taken && !gone) {
        gs_mutex_lock(&book_lock);
        gone = put_exec(taken) != GS_OK;
        gs_mutex_unlock(&book_lock);
    }
    if (gone) {
        free_exec(taken);
    }
}

/* ---- launches ---------------------------------------------------------------------- */

/* Removes a record, and saves it in case the launch is refused. */
static void unrecord(struct gs_graph_launch *launch, size_t room, uint64_t addr,
                     const struct gs_free_site *site)
{
    struct gs_allocation was;
    if (gs_tracker_remove_address(launch->tracker, addr, site, &was) == GS_OK &&
        launch->was_count < room) {
        launch->was[launch->was_count++] = was;
    }
}

/* Takes the lock. */
bool gs_graph_launching(struct gs_tracker *tracker, CUgraphExec handle,
                        const struct gs_free_site *site, struct gs_graph_launch *launch)
{
    launch->tracker = tracker;
    launch->exec = handle;
    launch->was = launch->few;
    launch->was_count = 0;
    gs_mutex_lock(&book_lock);
    const struct gs_graph_exec *exec = find_exec(handle);
    launch->known = exec != NULL;
    if (exec) {
        const struct gs_graph_memory *memory = &exec->memory;
        size_t room =
            memory->free_count + (memory->frees_first ? memory->alloc_count : 0);
        if (room > GS_GRAPH_FEW) {
            launch->was = malloc(room * sizeof(*launch->was));
            room = launch->was ? room : 0;
        }
        for (size_t i = 0; i < memory->free_count; i++) {
            unrecord(launch, room, memory->frees[i], site);
        }
        for (size_t i = 0; memory->frees_first && i < memory->alloc_count; i++) {
            if (!exec->inside[i]) {
                unrecord(launch, room, memory->allocs[i].addr, site);
            }
        }
    }
    gs_mutex_unlock(&book_lock);
    return launch->known;
}

/* Passes over the launch while recording is stopped. */
static void pass_over(struct gs_tracker *tracker, struct gs_graph_exec *exec)
{
    for (size_t i = 0; i < exec->memory.alloc_count; i++) {
        gs_tracker_pass(tracker, exec->memory.allocs[i].addr, exec->inside[i]);
        exec->ids[i] = 0;
    }
}

/* Records the launch. All its memory is live at the same time, which counts for the
 * peak. */
static enum gs_status record(struct gs_tracker *tracker, struct gs_graph_exec *exec,
                             const struct gs_free_site *site, uint64_t stream)
{
    const struct gs_graph_memory *memory = &exec->memory;
    enum gs_status status = GS_OK;
    if (gs_record_is_detailed() && !gs_tracker_records(tracker)) {
        pass_over(tracker, exec);
        return GS_OK;
    }
    for (size_t i = 0; i < memory->alloc_count; i++) {
        struct gs_allocation alloc = memory->allocs[i];
        uint32_t id = 0;
        alloc.stream = exec->inside[i] ? 0 : stream;
        gs_tracker_tally(tracker, &alloc);
        if (gs_tracker_add_scoped(tracker, &alloc, exec->inside[i], &id) != GS_OK) {
            status = GS_ERR_HOST_NOMEM;
            id = 0;
        }
        exec->ids[i] = id;
    }
    for (size_t i = 0; i < memory->alloc_count; i++) {
        if (exec->inside[i] && exec->ids[i] != 0) {
            gs_tracker_remove(tracker, exec->ids[i], site);
        }
    }
    return status;
}

/* Takes the lock. */
enum gs_status gs_graph_launched(struct gs_graph_launch *launch,
                                 const struct gs_free_site *site, uint64_t stream,
                                 bool launched)
{
    enum gs_status status = GS_OK;
    gs_mutex_lock(&book_lock);
    struct gs_graph_exec *exec = launched ? find_exec(launch->exec) : NULL;
    if (exec) {
        status = record(launch->tracker, exec, site, stream);
    }
    gs_mutex_unlock(&book_lock);
    for (size_t i = 0; !launched && i < launch->was_count; i++) {
        if (gs_tracker_restore(launch->tracker, &launch->was[i]) != GS_OK) {
            status = GS_ERR_HOST_NOMEM;
        }
    }
    if (launch->was != launch->few) {
        free(launch->was);
    }
    return status;
}

void gs_graph_memory_reset(void)
{
    gs_mutex_init(&book_lock, GS_RANK_GRAPHS);
    by_address = by_graph = by_exec = NULL;
    __atomic_store_n(&gs_graph_node_count, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&gs_graph_exec_count, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&gs_graph_memory_used, false, __ATOMIC_RELAXED);
}
