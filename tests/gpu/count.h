/*
 * count.h - what libgpu_count.so tells the program it is preloaded into.
 * The program finds it with dlsym(RTLD_DEFAULT, "gpu_count_each").
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_GPU_COUNT_H
#define GS_GPU_COUNT_H

#include <stdint.h>

/* Where CUlaunchConfig has the number of its attributes, in bytes. */
#define GPU_COUNT_ATTRIBUTES_AT 48

enum gpu_count_kind {
    GPU_COUNT_MEMORY,
    GPU_COUNT_LAUNCH,
    GPU_COUNT_GRAPH,
    GPU_COUNT_COPY,
    GPU_COUNT_SET,
    GPU_COUNT_OTHER,
    GPU_COUNT_KINDS
};

typedef void gpu_count_row(const char *symbol, enum gpu_count_kind kind, uint64_t calls,
                           void *argument);

/* Hands every counted call, in a fixed order, to `row`. Any thread. */
typedef void gpu_count_each_fn(gpu_count_row *row, void *argument);
extern gpu_count_each_fn gpu_count_each;

#endif
