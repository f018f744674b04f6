/*
 * sim_nonsense_calls.h - every driver function that the headers declare, to be called
 * with arguments that make no sense. The types of the arguments come from the
 * declarations, so that a pointer is never anything but NULL or good memory. Owns:
 * nothing.   Lock: none; one thread.
 */
#ifndef SIM_NONSENSE_CALLS_H
#define SIM_NONSENSE_CALLS_H

#include <cuda.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What the arguments are. "Buffers": each pointer to data leads to its own zeroed memory.
 *
 *   NONSENSE(name, pointers to data, numbers, handles)
 */
#define NONSENSE_KINDS(NONSENSE)                                                         \
    NONSENSE(ZEROS, NO_DATA, 0, NO_HANDLE)                                               \
    NONSENSE(NEGATIVE, NO_DATA, -1, WILD_HANDLE)                                         \
    NONSENSE(ONE_OF_NULL, NO_DATA, 1, NO_HANDLE)                                         \
    NONSENSE(BUFFERS, BUFFERS, 0, NO_HANDLE)                                             \
    NONSENSE(BUFFERS_OF_ONE, BUFFERS, 1, NO_HANDLE)                                      \
    NONSENSE(MADE_UP, BUFFERS, 1, MADE_UP_HANDLE)                                        \
    NONSENSE(STALE_ALONE, NO_DATA, 0, STALE_HANDLE)                                      \
    NONSENSE(STALE, BUFFERS, 1, STALE_HANDLE)                                            \
    NONSENSE(FOREIGN, BUFFERS, 1, FOREIGN_HANDLE)                                        \
    NONSENSE(LIVE_ALONE, NO_DATA, 0, LIVE_HANDLE)                                        \
    NONSENSE(LIVE_NEGATIVE, NO_DATA, -1, LIVE_HANDLE)                                    \
    NONSENSE(LIVE_ONE_OF_NULL, NO_DATA, 1, LIVE_HANDLE)                                  \
    NONSENSE(LIVE_BUFFERS, BUFFERS, 0, LIVE_HANDLE)                                      \
    NONSENSE(LIVE, BUFFERS, 1, LIVE_HANDLE)

enum nonsense {
#define NONSENSE_NAME(name, data, number, handle) NONSENSE_##name,
    NONSENSE_KINDS(NONSENSE_NAME)
#undef NONSENSE_NAME
        NONSENSE_COUNT
};

/* One handle of each kind that a program can have. */
struct nonsense_handles {
    CUcontext context;
    CUstream stream;
    CUevent event;
    CUmodule module;
    CUfunction function;
    CUlibrary library;
    CUkernel kernel;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUmemoryPool pool;
    CUarray array;
    CUmipmappedArray mipmap;
    CUuserObject object;
};

/* What live and stale handles are from now on. */
void nonsense_use(const struct nonsense_handles *live,
                  const struct nonsense_handles *stale);

struct nonsense_function {
    const char *name;
    int modelled;
    CUresult (*call)(enum nonsense kind);
};

/* Ended by a row of NULLs; empty where the headers are older than the table of symbols.
 */
extern const struct nonsense_function nonsense_functions[];

#ifdef __cplusplus
}
#endif

#endif
