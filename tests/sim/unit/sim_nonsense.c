/*
 * sim_nonsense.c - proves that no modelled function is brought down by bad input: each
 * one is called, in a process of its own, with NULL, zeros, numbers out of range, handles
 * that are made up, of another kind or destroyed, and live ones among nonsense. It must
 * return.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_helpers.h"
#include "sim_nonsense_calls.h"

#define LIMIT_S 120 /* longer than any of it takes, sanitizers included */

static const char *const kinds[] = {
#define NONSENSE_NAME(name, data, number, handle) #name,
    NONSENSE_KINDS(NONSENSE_NAME)
#undef NONSENSE_NAME
};

/* What the child has come to, seen by its parent. */
struct progress {
    int kind;
};

/* End the child: what it needs for its work does not work. */
static void need(bool condition, int status)
{
    if (!condition)
        _exit(status);
}

static void CUDA_CB ignore(void *data)
{
    (void)data;
}

static struct nonsense_handles make_handles(void)
{
    const CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 16,
                                           .Height = 16,
                                           .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                           .NumChannels = 1};
    const CUDA_ARRAY_DESCRIPTOR flat = {.Width = 16,
                                        .Height = 16,
                                        .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                        .NumChannels = 1};
    const CUmemPoolProps pool = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    struct nonsense_handles all;

    need(cuCtxCreate_v2(&all.context, 0, 0) == CUDA_SUCCESS, 2);
    need(cuStreamCreate(&all.stream, 0) == CUDA_SUCCESS, 2);
    need(cuEventCreate(&all.event, 0) == CUDA_SUCCESS, 2);
    need(cuModuleLoadData(&all.module, sim_test_ptx) == CUDA_SUCCESS, 2);
    need(cuModuleGetFunction(&all.function, all.module, "gs_fill") == CUDA_SUCCESS, 2);
    need(cuLibraryLoadData(&all.library, sim_test_ptx, NULL, NULL, 0, NULL, NULL, 0) ==
             CUDA_SUCCESS,
         2);
    need(cuLibraryGetKernel(&all.kernel, all.library, "own_kernel") == CUDA_SUCCESS, 2);
    need(cuGraphCreate(&all.graph, 0) == CUDA_SUCCESS, 2);
    need(cuGraphAddEmptyNode(&all.node, all.graph, NULL, 0) == CUDA_SUCCESS, 2);
    need(cuGraphInstantiate(&all.exec, all.graph, 0) == CUDA_SUCCESS, 2);
    need(cuMemPoolCreate(&all.pool, &pool) == CUDA_SUCCESS, 2);
    need(cuArrayCreate(&all.array, &flat) == CUDA_SUCCESS, 2);
    need(cuMipmappedArrayCreate(&all.mipmap, &shape, 1) == CUDA_SUCCESS, 2);
    need(cuUserObjectCreate(&all.object, NULL, ignore, 1,
                            CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) == CUDA_SUCCESS,
         2);
    return all;
}

static void destroy_handles(const struct nonsense_handles *all)
{
    need(cuUserObjectRelease(all->object, 1) == CUDA_SUCCESS, 3);
    need(cuMipmappedArrayDestroy(all->mipmap) == CUDA_SUCCESS, 3);
    need(cuArrayDestroy(all->array) == CUDA_SUCCESS, 3);
    need(cuMemPoolDestroy(all->pool) == CUDA_SUCCESS, 3);
    need(cuGraphExecDestroy(all->exec) == CUDA_SUCCESS, 3);
    need(cuGraphDestroy(all->graph) == CUDA_SUCCESS, 3);
    need(cuLibraryUnload(all->library) == CUDA_SUCCESS, 3);
    need(cuModuleUnload(all->module) == CUDA_SUCCESS, 3);
    need(cuEventDestroy(all->event) == CUDA_SUCCESS, 3);
    need(cuStreamDestroy(all->stream) == CUDA_SUCCESS, 3);
    need(cuCtxDestroy(all->context) == CUDA_SUCCESS, 3);
}

/* Every kind of nonsense, each with handles of its own: the one before may have ended
 * them. Never returns. */
static void run_child(const struct nonsense_function *function, struct progress *progress)
{
    int quiet = open("/dev/null", O_WRONLY);

    dup2(quiet, STDERR_FILENO);
    signal(SIGALRM, SIG_DFL);
    alarm(LIMIT_S);
    setenv("CUDASIM_DEVICES", "1", 1);
    setenv("CUDASIM_MEMORY", "64M", 1);
    need(cuInit(0) == CUDA_SUCCESS, 1);
    for (int kind = 0; kind < NONSENSE_COUNT; kind++) {
        progress->kind = kind;
        struct nonsense_handles live = make_handles();
        struct nonsense_handles stale = make_handles();
        destroy_handles(
            &stale); /* last, so that none of its handles is given out again */
        need(cuCtxSetCurrent(live.context) == CUDA_SUCCESS, 2);
        nonsense_use(&live, &stale);
        CUresult res = function->call((enum nonsense)kind);
        need(res == CUDA_SUCCESS || res <= CUDA_ERROR_UNKNOWN, 4);
        cuCtxSetCurrent(live.context); /* ends a capture that was begun; may be gone */
        cuCtxDestroy(live.context);
        cuCtxSetCurrent(NULL);
    }
    _exit(0);
}

/* One line for a function that did not return as it should; true if it did. */
static bool survives(const struct nonsense_function *function, struct progress *progress)
{
    int status = 0;
    pid_t child = fork();

    cr_assert_geq(child, 0);
    if (child == 0)
        run_child(function, progress);
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    fprintf(stderr, "%s, %s: %s %d\n", function->name, kinds[progress->kind],
            WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return false;
}

Test(sim_nonsense, brings_no_function_down)
{
    struct progress *progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t called = 0, failed = 0;

    cr_assert_neq(progress, MAP_FAILED);
    for (const struct nonsense_function *function = nonsense_functions; function->name;
         function++) {
        if (!function->modelled)
            continue;
        called++;
        if (!survives(function, progress))
            failed++;
    }
    if (called == 0)
        cr_skip("the headers are older than the table of symbols");
    cr_assert_eq(failed, 0, "%zu of %zu functions", failed, called);
    munmap(progress, sizeof(*progress));
}
