/*
 * private.c - work that reaches the device behind the library's back, through a private
 * table of the driver's, a library that uses one, or a function that a library behind the
 * preloaded one has looked up, and a free that must wait for it.
 *
 * Each program is right natively: the free waits for all work of its context. A layer
 * that counts launches to know that a context is idle does not count these.
 * Source: docs/free.md, "What it cannot see"; include/cudasim_behind.h
 */
#include <dlfcn.h>
#include <string.h>

#include "order.h"

typedef CUresult get_table(const void **table, const CUuuid *id);
typedef const struct cudasim_behind *find_table(void);

static const CUuuid behind_id = CUDASIM_BEHIND_GUID;

static const struct cudasim_behind *table_from(get_table *get)
{
    const void *table = NULL;

    must(get != NULL, "the driver has cuGetExportTable");
    OK(get(&table, &behind_id));
    return table;
}

/* The memory is written behind the layer's back when it is freed, and has a new owner in
 * another stream. */
static void write_free_and_reuse(const struct cudasim_behind *table)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), reused;
    CUfunction function = fill_kernel();

    OK(cuCtxSynchronize());
    fill_by(table, function, a, memory, 1);
    OK(cuMemFree(memory));
    reused = new_memory();
    must(reused == memory || free_is_lazy(), "the address is used again at once");
    fill(b, reused, 2);
    must_hold(reused, 2);
}

/* ---- tables ------------------------------------------------------------------------ */

PROGRAM(private, table_linked, RIGHT, "a table that was asked for by a linked call")
{
    OK(cuCtxSynchronize());
    write_free_and_reuse(table_from(cuGetExportTable));
}

PROGRAM(private, table_dlsym, RIGHT, "by an address of dlsym")
{
    get_table *get;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *found;

    must(driver != NULL, "the driver is loaded");
    found = dlsym(driver, "cuGetExportTable");
    memcpy(&get, &found, sizeof(get));
    OK(cuCtxSynchronize());
    write_free_and_reuse(table_from(get));
}

PROGRAM(private, table_proc, RIGHT, "by an address of cuGetProcAddress")
{
    get_table *get;
    void *found = NULL;

#if CUDA_VERSION >= 12000
    OK(cuGetProcAddress("cuGetExportTable", &found, 3000, 0, NULL));
#else
    OK(cuGetProcAddress("cuGetExportTable", &found, 3000, 0));
#endif
    memcpy(&get, &found, sizeof(get));
    OK(cuCtxSynchronize());
    write_free_and_reuse(table_from(get));
}

/* ---- libraries --------------------------------------------------------------------- */

/* A stand-in by OptiX's name, with a table that was never asked for by a hooked call. */
static const struct cudasim_behind *table_of_a_library(void)
{
    find_table *find;
    void *library = dlopen(LAUNCHER, RTLD_NOW | RTLD_LOCAL), *found;

    must(library && (found = dlsym(library, "gs_launcher")), "the library is there");
    memcpy(&find, &found, sizeof(find));
    return find();
}

PROGRAM(private, library_is_loaded, RIGHT, "a library that is loaded after a wait")
{
    OK(cuCtxSynchronize());
    write_free_and_reuse(table_of_a_library());
}

PROGRAM(private, library_was_loaded, RIGHT, "one that was there before the first wait")
{
    const struct cudasim_behind *table = table_of_a_library();

    write_free_and_reuse(table);
}

/* ---- host memory ------------------------------------------------------------------- */

static CUdeviceptr view_of(uint32_t *memory)
{
    CUdeviceptr view;

    OK(cuMemHostGetDevicePointer(&view, memory, 0));
    return view;
}

PROGRAM(private, pinned_memory, RIGHT, "pinned memory is written by such a launch")
{
    const struct cudasim_behind *table = table_from(cuGetExportTable);
    CUstream a = new_stream(), b = new_stream();
    CUfunction function = fill_kernel();
    uint32_t *memory = new_pinned(), *reused;

    OK(cuCtxSynchronize());
    fill_by(table, function, a, view_of(memory), 1);
    OK(cuMemFreeHost(memory));
    reused = new_pinned();
    must(reused == memory || !under_library(), "the address is used again at once");
    fill(b, view_of(reused), 2);
    must_hold(view_of(reused), 2);
}

PROGRAM(private, managed_memory, RIGHT, "and so is managed memory")
{
    const struct cudasim_behind *table = table_from(cuGetExportTable);
    CUstream a = new_stream(), b = new_stream();
    CUfunction function = fill_kernel();
    CUdeviceptr memory, reused;

    OK(cuMemAllocManaged(&memory, BYTES, CU_MEM_ATTACH_GLOBAL));
    OK(cuCtxSynchronize());
    fill_by(table, function, a, memory, 1);
    OK(cuMemFree(memory));
    OK(cuMemAllocManaged(&reused, BYTES, CU_MEM_ATTACH_GLOBAL));
    must(reused == memory || !under_library(), "the address is used again at once");
    fill(b, reused, 2);
    must_hold(reused, 2);
}

/* ---- functions --------------------------------------------------------------------- */

void *gs_behind_find(const char *name); /* behind/behind.c */

typedef CUresult launch_graph(CUgraphExec exec, CUstream stream);
/* `status` may be NULL. */
typedef CUresult get_address(const char *name, void **found, int version,
                             cuuint64_t flags, void *status);

/* The driver's own function, at least once it was looked up behind the library. */
static void find_behind(const char *name, void *function)
{
    void *found = gs_behind_find(name);

    must(found != NULL, "the driver has the function");
    memcpy(function, &found, sizeof(found));
}

static CUgraphExec fill_graph(CUstream stream, CUdeviceptr memory)
{
    CUgraph graph;
    CUgraphExec exec;

    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fill(stream, memory, 1);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

/* As write_free_and_reuse, by a graph that no hook sees launched. */
static void launch_free_and_reuse(launch_graph *launch)
{
    CUstream a = new_stream(), b = new_stream();
    CUdeviceptr memory = new_memory(), reused;
    CUgraphExec exec = fill_graph(a, memory);

    OK(cuCtxSynchronize());
    OK(launch(exec, a));
    OK(cuMemFree(memory));
    reused = new_memory();
    fill(b, reused, 2);
    must_hold(reused, 2);
}

PROGRAM(private, graph_launch_behind, RIGHT, "a function found behind the library")
{
    launch_graph *launch;

    OK(cuCtxSynchronize());
    find_behind("cuGraphLaunch", &launch);
    launch_free_and_reuse(launch);
}

PROGRAM(private, address_behind, RIGHT, "one that a look-up found there hands out")
{
    get_address *get;
    launch_graph *launch;
    void *found = NULL;

    OK(cuCtxSynchronize());
    find_behind("cuGetProcAddress_v2", &get);
    OK(get("cuGraphLaunch", &found, 12000, 0, NULL));
    memcpy(&launch, &found, sizeof(found));
    launch_free_and_reuse(launch);
}

/* ---- the single order -------------------------------------------------------------- */

#define MANY 128 /* frees that make an epoch (shim/state/epochs.h) */

/* In the lazy mode the blocks have new owners while the first use still runs. */
static void reuse_in(CUstream stream, CUdeviceptr blocks[MANY])
{
    for (unsigned i = 0; i < MANY; i++)
        OK(cuMemAlloc(&blocks[i], BYTES));
    for (unsigned i = 0; i < MANY; i++)
        fill(stream, blocks[i], 1);
    for (unsigned i = 0; i < MANY; i++)
        OK(cuMemFree(blocks[i]));
    for (unsigned i = 0; i < MANY; i++)
        OK(cuMemAlloc(&blocks[i], BYTES));
}

/* A stream that does not wait for the first: no call that is hooked has made it known. */
static void write_elsewhere(const struct cudasim_behind *table,
                            const CUdeviceptr blocks[MANY])
{
    CUfunction function = fill_kernel();

    for (unsigned i = 0; i < MANY; i += 8)
        fill_by(table, function, CU_STREAM_PER_THREAD, blocks[i], 2 + i);
    for (unsigned i = 0; i < MANY; i += 8)
        must_hold(blocks[i], 2 + i);
}

PROGRAM(order, private_table, RIGHT, "a private table may launch in any stream")
{
    CUdeviceptr blocks[MANY];

    reuse_in(blocking_stream(), blocks);
    write_elsewhere(table_from(cuGetExportTable), blocks);
}

PROGRAM(order, launch_behind, RIGHT, "and so may a function found behind the library")
{
    CUdeviceptr blocks[MANY];
    struct cudasim_behind table = {.size = sizeof(table)};

    reuse_in(blocking_stream(), blocks);
    find_behind("cuLaunchKernel", &table.launch);
    write_elsewhere(&table, blocks);
}

PROGRAM(order, launcher_is_loaded, RIGHT, "and so may a library that uses one")
{
    CUdeviceptr blocks[MANY];

    reuse_in(blocking_stream(), blocks);
    write_elsewhere(table_of_a_library(), blocks);
}
