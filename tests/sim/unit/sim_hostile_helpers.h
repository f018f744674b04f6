/*
 * sim_hostile_helpers.h - shared by the tests of the hostile scheduler: a program is run
 * in a process of its own with a seed, and leaves what it saw in memory that it shares
 * with the test.
 *
 * What it says of itself it says by `need`: a process forked from a test has no
 * assertions.
 */
#ifndef SIM_HOSTILE_HELPERS_H
#define SIM_HOSTILE_HELPERS_H

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_helpers.h"

#define BROKEN 3 /* exit status of a program that found something wrong */

#define need(condition)                                                                  \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: seed %s: not so: %s\n", __FILE__, __LINE__,          \
                    getenv("CUDASIM_SEED"), #condition);                                 \
            _exit(BROKEN);                                                               \
        }                                                                                \
    } while (0)
#define good(call) need((call) == CUDA_SUCCESS)

#define TRACE_ROOM 4096

/* What a program leaves behind. */
struct trace {
    uint32_t count;
    uint32_t values[TRACE_ROOM];
    char output[512]; /* what it wrote to stderr */
};

typedef void hostile_program(struct trace *trace);

static inline struct trace *trace_new(void)
{
    struct trace *trace = mmap(NULL, sizeof(*trace), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq((void *)trace, MAP_FAILED);
    return trace;
}

/* By any thread: who loses its turn while it sleeps is not in order before the next one
 * as the language sees it. */
static inline void trace_add(struct trace *trace, uint32_t value)
{
    uint32_t place = __atomic_fetch_add(&trace->count, 1, __ATOMIC_RELAXED);

    need(place < TRACE_ROOM);
    __atomic_store_n(&trace->values[place], value, __ATOMIC_RELAXED);
}

static inline bool trace_same(const struct trace *left, const struct trace *right)
{
    return left->count == right->count &&
           memcmp(left->values, right->values, left->count * sizeof(uint32_t)) == 0;
}

/* Run the program in a child under the hostile schedule; its wait status. With `says`
 * what it writes to stderr is kept in the trace. */
static inline int hostile_run_status(hostile_program *program, unsigned seed,
                                     struct trace *trace, bool says)
{
    char text[16];
    int status, ends[2];

    memset(trace, 0, sizeof(*trace));
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        snprintf(text, sizeof(text), "%u", seed);
        setenv("CUDASIM_SCHEDULE", "hostile", 1);
        setenv("CUDASIM_SEED", text, 1);
        setenv("CUDASIM_ORACLE", "0", 1);
        unsetenv("CUDASIM_EXIT");
        if (says)
            dup2(ends[1], STDERR_FILENO);
        alarm(120);
        program(trace);
        _exit(0);
    }
    cr_assert_gt(child, 0);
    close(ends[1]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (says) {
        ssize_t bytes = read(ends[0], trace->output, sizeof(trace->output) - 1);
        trace->output[bytes > 0 ? bytes : 0] = '\0';
    }
    close(ends[0]);
    return status;
}

static inline void hostile_run(hostile_program *program, unsigned seed,
                               struct trace *trace)
{
    int status = hostile_run_status(program, seed, trace, false);

    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "seed %u: status 0x%x", seed,
              (unsigned)status);
}

/* How many different traces a number of seeds gives. */
static inline unsigned hostile_variety(hostile_program *program, unsigned seeds)
{
    struct trace **traces = calloc(seeds, sizeof(struct trace *));
    unsigned count = 0;

    cr_assert_not_null(traces);
    for (unsigned seed = 0; seed < seeds; seed++) {
        traces[count] = trace_new();
        hostile_run(program, seed, traces[count]);
        bool is_new = true;
        for (unsigned i = 0; i < count; i++)
            is_new &= !trace_same(traces[i], traces[count]);
        count += is_new;
    }
    free(traces);
    return count;
}

/* Twice with each seed: the same. */
static inline void hostile_replays(hostile_program *program, unsigned seeds)
{
    struct trace *first = trace_new(), *second = trace_new();

    for (unsigned seed = 0; seed < seeds; seed++) {
        hostile_run(program, seed, first);
        hostile_run(program, seed, second);
        cr_assert(first->count > 0);
        cr_assert(trace_same(first, second), "seed %u does not replay", seed);
    }
    munmap(first, sizeof(*first));
    munmap(second, sizeof(*second));
}

/*
 * A program's device: a counter that operations count up when they run, and a word for
 * each of them, in which it finds the number it was.
 */
#define MOST_TICKS 1024

struct ticks {
    CUfunction add, copy;
    CUdeviceptr one, counter, words;
    uint32_t used;
};

static inline void hostile_start(void)
{
    CUcontext context;

    setenv("CUDASIM_MEMORY", "64M", 1);
    good(cuInit(0));
    good(cuDevicePrimaryCtxRetain(&context, 0));
    good(cuCtxSetCurrent(context));
}

static inline CUfunction hostile_kernel(const char *name)
{
    CUmodule module;
    CUfunction function;

    good(cuModuleLoadData(&module, sim_test_ptx));
    good(cuModuleGetFunction(&function, module, name));
    return function;
}

static inline void ticks_make(struct ticks *ticks)
{
    uint32_t one = 1;

    ticks->add = hostile_kernel("gs_add");
    ticks->copy = hostile_kernel("gs_copy");
    ticks->used = 0;
    good(cuMemAlloc(&ticks->one, (2 + MOST_TICKS) * 4));
    ticks->counter = ticks->one + 4;
    ticks->words = ticks->one + 8;
    good(cuMemcpyHtoD(ticks->one, &one, 4));
    good(cuMemsetD32(ticks->counter, 0, 1 + MOST_TICKS));
    good(cuCtxSynchronize()); /* a set is done when it is done */
}

/* Queue one; its index. It is two kernels, so that others may come in between. */
static inline uint32_t ticks_queue(struct ticks *ticks, CUstream stream)
{
    uint64_t count = 1;
    CUdeviceptr word = ticks->words + 4 * ticks->used;
    void *add[] = {&ticks->counter, &ticks->one, &count};
    void *copy[] = {&word, &ticks->counter, &count};

    need(ticks->used < MOST_TICKS);
    good(sim_test_launch(ticks->add, stream, add));
    good(sim_test_launch(ticks->copy, stream, copy));
    return ticks->used++;
}

/* Wait for everything and read what each of them found. */
static inline void ticks_read(struct ticks *ticks, uint32_t *out)
{
    good(cuCtxSynchronize());
    good(cuMemcpyDtoH(out, ticks->words, (size_t)ticks->used * 4));
}

static inline void ticks_trace(struct ticks *ticks, struct trace *trace)
{
    uint32_t found[MOST_TICKS];

    ticks_read(ticks, found);
    for (uint32_t i = 0; i < ticks->used; i++)
        trace_add(trace, found[i]);
}

static inline CUfunction function_of(const char *image, const char *name)
{
    CUmodule module;
    CUfunction function;

    good(cuModuleLoadData(&module, image));
    good(cuModuleGetFunction(&function, module, name));
    return function;
}

#endif
