/*
 * sim_helpers.h - shared by the tests of the simulated driver: start it, launch the
 * built-in kernels, open a latch that gs_wait waits for.
 */
#ifndef SIM_HELPERS_H
#define SIM_HELPERS_H

#include <criterion/criterion.h>
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gs_base.h"

/* Looks, 2 ms apart, at what must come: a minute, for machines that do other things. */
#define SIM_TEST_LOOKS 30000

#define ok(call)       cr_assert_eq((call), CUDA_SUCCESS)
#define fails(call, e) cr_assert_eq((call), (e))

/* The ABI that needs no parameter struct; the 13.0 headers no longer declare it. */
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);

/* The forms without edge data, which every header since 12.0 knows or may be told of. */
#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies
#undef cuStreamUpdateCaptureDependencies
CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                 size_t *count);
CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out,
                                            size_t *count);
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *out,
                                              size_t *count);
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                                        const CUgraphNode *to, size_t count);
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
                                           const CUgraphNode *to, size_t count);
CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes,
                                                   size_t count, unsigned int flags);
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
                                           cuuint64_t *id, CUgraph *graph,
                                           const CUgraphNode **nodes, size_t *count);
CUresult CUDAAPI cuCtxRecordEvent(CUcontext context, CUevent event);

/* The PTX a compiler would give for the kernels of ../kernels/kernels.h, bodiless. */
static const char sim_test_ptx[] = ".version 8.0\n"
                                   ".target sm_90\n"
                                   ".address_size 64\n"
                                   "// .entry gs_commented(\n"
                                   ".visible .entry gs_fill(.param .u64 a) { ret; }\n"
                                   ".visible .entry gs_check(.param .u64 a) { ret; }\n"
                                   ".visible .entry gs_copy(.param .u64 a) { ret; }\n"
                                   ".visible .entry gs_add(.param .u64 a) { ret; }\n"
                                   ".visible .entry gs_spin(.param .u64 a) { ret; }\n"
                                   ".visible .entry\n\tgs_wait(.param .u64 a) { ret; }\n"
                                   ".entry own_kernel() { ret; }\n";

/* Initialize with so much memory per device and make the primary context current. */
static inline CUcontext sim_test_start(const char *devices, const char *memory)
{
    CUcontext context;

    setenv("CUDASIM_DEVICES", devices, 1);
    setenv("CUDASIM_MEMORY", memory, 1);
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxSetCurrent(context));
    return context;
}

static inline size_t sim_test_free_bytes(void)
{
    size_t free_bytes, total;

    ok(cuMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

static inline CUfunction sim_test_kernel(const char *name)
{
    CUmodule module;
    CUfunction function;

    ok(cuModuleLoadData(&module, sim_test_ptx));
    ok(cuModuleGetFunction(&function, module, name));
    return function;
}

static inline CUresult sim_test_launch(CUfunction function, CUstream stream,
                                       void **params)
{
    return cuLaunchKernel(function, 4, 1, 1, 64, 1, 1, 0, stream, params, NULL);
}

static inline void sim_test_sleep_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

/* What a child process that runs `body` says on stderr. */
static inline void sim_test_said_by(void (*body)(void), char *text, size_t room)
{
    int ends[2], status;
    size_t used = 0;
    ssize_t got;

    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        body();
        _exit(0);
    }
    close(ends[1]);
    while (used < room - 1 && (got = read(ends[0], text + used, room - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}

static inline int sim_test_lines_of(const char *text)
{
    int lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* A pinned word that keeps gs_wait running until it is opened. */
struct sim_latch {
    uint32_t *flag;
    CUfunction wait;
    pthread_t thread;
};

static inline void sim_latch_make(struct sim_latch *latch)
{
    ok(cuMemHostAlloc((void **)&latch->flag, 4, CU_MEMHOSTALLOC_PORTABLE));
    __atomic_store_n(latch->flag, 0, __ATOMIC_RELEASE);
    latch->wait = sim_test_kernel("gs_wait");
}

static inline void sim_latch_block(struct sim_latch *latch, CUstream stream)
{
    CUdeviceptr flag = (CUdeviceptr)(uintptr_t)latch->flag;
    void *params[] = {&flag};

    ok(sim_test_launch(latch->wait, stream, params));
}

static inline void sim_latch_open(struct sim_latch *latch)
{
    __atomic_store_n(latch->flag, 1, __ATOMIC_RELEASE);
}

static inline bool sim_latch_is_open(struct sim_latch *latch)
{
    return __atomic_load_n(latch->flag, __ATOMIC_ACQUIRE) != 0;
}

static inline void *sim_latch_open_later_thread(void *argument)
{
    sim_test_sleep_ms(100);
    sim_latch_open(argument);
    return NULL;
}

/* Open it a tenth of a second from now; sim_latch_join ends it. */
static inline void sim_latch_open_later(struct sim_latch *latch)
{
    cr_assert_eq(pthread_create(&latch->thread, NULL, sim_latch_open_later_thread, latch),
                 0);
}

static inline void sim_latch_join(struct sim_latch *latch)
{
    pthread_join(latch->thread, NULL);
}

static inline CUevent sim_test_event(void)
{
    CUevent event;

    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static inline CUstream sim_test_stream(unsigned flags)
{
    CUstream stream;

    ok(cuStreamCreate(&stream, flags));
    return stream;
}

/* The word at an address, by a copy. */
static inline uint32_t sim_test_word(CUdeviceptr words)
{
    uint32_t word = 0;

    ok(cuMemcpyDtoH(&word, words, 4));
    return word;
}

static inline unsigned long long sim_test_attribute(CUdeviceptr pointer,
                                                    CUpointer_attribute name)
{
    unsigned long long value = 0;

    ok(cuPointerGetAttribute(&value, name, pointer));
    return value;
}

static inline void *sim_test_exported(const char *symbol)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    cr_assert_not_null(library);
    return dlsym(library, symbol);
}

#endif
