/*
 * bench_flight.c - the mode `flight`: a free and an allocation while a kernel runs.
 *
 * Each round launches a kernel of SPIN_NS in a non-blocking stream, frees a block that
 * the kernel does not touch, then NEXT more, gets as many of the same size, and waits for
 * the kernel. The line:
 *
 *   flight allocator free alloc kernel next   nanoseconds, medians; next: a free of NEXT
 *
 * A free that takes nearly as long as the kernel has waited for it; it comes after a long
 * wait, so the caches are cold, those behind it find them warm. The driver is found
 * at run time, as most of the programs this is part of are linked with the runtime alone.
 *
 * Owns: the driver's functions and what they made, immutable after open_driver.
 * Lock: none; one thread.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#include "../sim/kernels/kernels_ptx.h"
#include "bench.h"
#include "gs_base.h"

#define SPIN_NS 1000000u
#define BYTES   (64 * GS_KIB)
#define MOST    1000
#define WARM    3
#define NEXT    31

static struct {
    __typeof__(cuModuleLoadData) *load;
    __typeof__(cuModuleGetFunction) *find;
    __typeof__(cuStreamCreate) *make_stream;
    __typeof__(cuLaunchKernel) *launch;
    __typeof__(cuStreamSynchronize) *wait;
    CUfunction spin;
    CUstream stream;
} driver;

static void *entry(void *library, const char *name)
{
    void *address = dlsym(library, name);

    if (!address) {
        fprintf(stderr, "bench: the driver has no %s\n", name);
        exit(1);
    }
    return address;
}

static void open_driver(const struct bench_allocator *allocator)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CUmodule module;

    if (!library) {
        fprintf(stderr, "bench: %s\n", dlerror());
        exit(1);
    }
    driver.load = entry(library, "cuModuleLoadData");
    driver.find = entry(library, "cuModuleGetFunction");
    driver.make_stream = entry(library, "cuStreamCreate");
    driver.launch = entry(library, "cuLaunchKernel");
    driver.wait = entry(library, "cuStreamSynchronize");
    bench_check((int)driver.load(&module, gs_kernels_ptx), "loading a kernel", allocator);
    bench_check((int)driver.find(&driver.spin, module, "gs_spin"), "finding a kernel",
                allocator);
    bench_check((int)driver.make_stream(&driver.stream, CU_STREAM_NON_BLOCKING),
                "making a stream", allocator);
}

static double median(double *list, size_t count)
{
    qsort(list, count, sizeof(*list), bench_compare);
    return list[count / 2];
}

int bench_run_flight(const struct bench_allocator *allocator, unsigned long rounds)
{
    static double frees[MOST], nexts[MOST], allocs[MOST], kernels[MOST]; /* large */
    uint64_t spin_ns = SPIN_NS, blocks[1 + NEXT];
    void *params[] = {&spin_ns};

    if (rounds > MOST)
        rounds = MOST;
    bench_check(allocator->start(), "the start", allocator);
    open_driver(allocator);
    for (size_t j = 0; j <= NEXT; j++)
        bench_check(allocator->alloc(&blocks[j], BYTES), "an allocation", allocator);
    for (unsigned long i = 0; i < rounds + WARM; i++) {
        unsigned long at = i < WARM ? 0 : i - WARM;
        double begin = bench_now_ns(), freed, next, got;

        bench_check((int)driver.launch(driver.spin, 1, 1, 1, 1, 1, 1, 0, driver.stream,
                                       params, NULL),
                    "a launch", allocator);
        freed = bench_now_ns();
        bench_check(allocator->release(blocks[0], BYTES), "a free", allocator);
        next = bench_now_ns();
        frees[at] = next - freed;
        for (size_t j = 1; j <= NEXT; j++)
            bench_check(allocator->release(blocks[j], BYTES), "a free", allocator);
        got = bench_now_ns();
        nexts[at] = (got - next) / NEXT;
        bench_check(allocator->alloc(&blocks[0], BYTES), "an allocation", allocator);
        allocs[at] = bench_now_ns() - got;
        for (size_t j = 1; j <= NEXT; j++)
            bench_check(allocator->alloc(&blocks[j], BYTES), "an allocation", allocator);
        bench_check((int)driver.wait(driver.stream), "a wait", allocator);
        kernels[at] = bench_now_ns() - begin;
    }
    for (size_t j = 0; j <= NEXT; j++)
        bench_check(allocator->release(blocks[j], BYTES), "a free", allocator);
    printf("flight %s %.1f %.1f %.1f %.1f\n", allocator->name, median(frees, rounds),
           median(allocs, rounds), median(kernels, rounds), median(nexts, rounds));
    return 0;
}
