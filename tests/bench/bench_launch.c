/*
 * bench_launch.c - what a kernel launch costs the thread that makes it.
 *
 *   bench_launch [LAUNCHES]       20000; the line:  launch median least
 *   bench_launch count LAUNCHES   that many, for an instruction counter
 *
 * Nanoseconds a launch of a kernel that does nothing, in batches of 64 with a wait
 * between them that is not timed. Run with and without the library, the difference is
 * what the library adds.
 *
 * Ends with 1 if a call fails, with 2 for bad usage. Owns: nothing.   Lock: none.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "../sim/kernels/kernels_ptx.h"
#include "bench_time.h"

#define BATCH   64
#define MOST    1000000
#define BUSY_NS 200000 /* longer than a batch takes */

static void need(CUresult res, const char *what)
{
    if (res == CUDA_SUCCESS)
        return;
    fprintf(stderr, "bench_launch: %s: error %d\n", what, (int)res);
    exit(1);
}

static CUfunction make_kernel(void)
{
    CUcontext context;
    CUmodule module;
    CUfunction spin;

    need(cuInit(0), "cuInit");
    need(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    need(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    need(cuModuleLoadData(&module, gs_kernels_ptx), "cuModuleLoadData");
    need(cuModuleGetFunction(&spin, module, "gs_spin"), "cuModuleGetFunction");
    return spin;
}

static void launch(CUfunction spin, uint64_t spin_ns)
{
    void *params[] = {&spin_ns};

    need(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), "cuLaunchKernel");
}

/* Nanoseconds a launch. */
static double run_batch(CUfunction spin, size_t launches)
{
    double begin = bench_now_ns(), took_ns;

    for (size_t i = 0; i < launches; i++)
        launch(spin, 0);
    took_ns = bench_now_ns() - begin;
    need(cuCtxSynchronize(), "cuCtxSynchronize");
    return took_ns / (double)launches;
}

int main(int argc, char **argv)
{
    static double took[MOST / BATCH + 1]; /* large */
    const int counted = argc == 3 && !strcmp(argv[1], "count");
    size_t launches = argc > 1 ? strtoul(argv[argc - 1], NULL, 10) : 20000, batches = 0;
    CUfunction spin;

    if (argc > 2 + counted || launches < 1 || launches > MOST) {
        fprintf(stderr, "usage: bench_launch [[count] LAUNCHES (1 to %d)]\n", MOST);
        return 2;
    }
    spin = make_kernel();
    if (!counted)
        run_batch(spin, BATCH); /* warm */
    for (size_t left = launches; left > 0;) {
        size_t some = left < BATCH ? left : BATCH;

        /* Behind a kernel that still runs: whether the device sleeps when a launch comes,
         * and has to be woken, is the machine's business. */
        if (!counted)
            launch(spin, BUSY_NS);
        took[batches++] = run_batch(spin, some);
        left -= some;
    }
    qsort(took, batches, sizeof(*took), bench_compare);
    printf("launch %.1f %.1f\n", took[batches / 2], took[0]);
    return 0;
}
