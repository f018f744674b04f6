/*
 * order.h - programs that the order oracle judges: each is right, or wrong in one way
 * that has a name, and says which.
 *
 * A program runs in a process of its own, once for each seed of the hostile schedule. One
 * that is right must never be found fault with; one that is not must be, under some seed,
 * by that name and no other.
 */
#ifndef GS_ORDER_H
#define GS_ORDER_H

#include <cuda.h>

#include "cudasim_notify.h"
#include "cudasim_behind.h"
#include "gs_base.h"

/* What the oracle is to say. */
enum verdict {
    RIGHT,
    RACE,
    LOST_ORDER,
    MASKED,
    NO_ALLOCATION,
    EARLY_RETIRE,
    HANDED_TWICE,
    LAYER_BLOCKS,
    PROGRAM_BLOCKS,
    VERDICTS
};

struct program {
    const char *name; /* topic.what */
    enum verdict verdict;
    const char *says;        /* why, in a sentence */
    const char *environment; /* for this program: "NAME=value NAME=value", or NULL */
    void (*run)(void);
};

/* PROGRAM(topic, name, verdict, sentence) { ... } defines one. */
#define PROGRAM_WITH(topic, label, expected, sentence, setting)                          \
    static void topic##_##label(void);                                                   \
    static const struct program topic##_##label##_program = {                            \
        #topic "." #label, expected, sentence, setting, topic##_##label};                \
    static const struct program *const topic##_##label##_entry                           \
        __attribute__((used, section("order_programs"))) = &topic##_##label##_program;   \
    static void topic##_##label(void)
#define PROGRAM(topic, label, expected, sentence)                                        \
    PROGRAM_WITH(topic, label, expected, sentence, NULL)

/* ---- what programs share (world.c) ------------------------------------------------- */

#define WORDS 256
#define BYTES (WORDS * sizeof(uint32_t))

/* Ends the process with a line unless the call succeeds. */
#define OK(call)         expect((call), CUDA_SUCCESS, #call, __FILE__, __LINE__)
#define CODE(call, code) expect((call), (code), #call, __FILE__, __LINE__)
void expect(CUresult got, CUresult wanted, const char *text, const char *file, int line);
/* From now on the device may fail: what the program does is wrong. */
void forgive(void);
void must(bool held, const char *text);

/* The library is preloaded ... */
bool under_library(void);
/* ... and its frees wait for nothing (GPUSHIM_FREE_SYNC=lazy). */
bool free_is_lazy(void);

/* Device 0's primary context, current; the kernels. Called by the runner. */
void world_begin(void);
CUcontext world_context(void);

CUstream new_stream(void);   /* non-blocking */
CUcontext new_context(void); /* another of the device, current from now on */
CUstream blocking_stream(void);
CUevent new_event(void);      /* without timing */
CUdeviceptr new_memory(void); /* WORDS words of device memory */
CUdeviceptr new_block(size_t bytes);
uint32_t *new_pinned(void); /* WORDS words of pinned memory */
uint32_t *new_flag(void);   /* the first of them is 0 */
void set_flag(uint32_t *flag);

void nap_us(long us);
static inline void nap_ms(long ms)
{
    nap_us(ms * 1000);
}

/* Kernels on WORDS words. */
void fill(CUstream stream, CUdeviceptr memory, uint32_t seed);
/* As fill, by a table that no hook is in front of. The kernel is looked up before, by a
 * call that is counted. */
CUfunction fill_kernel(void);
void fill_by(const struct cudasim_behind *table, CUfunction function, CUstream stream,
             CUdeviceptr memory, uint32_t seed);
void copy(CUstream stream, CUdeviceptr to, CUdeviceptr from);
void add(CUstream stream, CUdeviceptr to, CUdeviceptr from);
void spin(CUstream stream);
void wait_for(CUstream stream, const uint32_t *flag); /* a persistent kernel */
/* The same, allowed to start before the kernel in front has ended; `after`: it
 * waits for it inside before it touches memory. */
void overlapping_fill(CUstream stream, CUdeviceptr memory, uint32_t seed);
void overlapping_copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, bool after);

/* The memory holds fill()'s pattern of that seed: read after everything has ended. */
void must_hold(CUdeviceptr memory, uint32_t seed);

/* Let `b` go on behind what is in `a` now. */
void join(CUstream a, CUstream b);

/* Run on a thread of its own that has the context current. */
struct worker;
struct worker *start_worker(void (*function)(void *), void *argument);
void join_worker(struct worker *worker);

/* Tell the oracle (cudasim_notify.h). */
void notify(const struct cudasim_note *note);
#define NOTE(...)                                                                        \
    notify(&(const struct cudasim_note){.size = sizeof(struct cudasim_note), __VA_ARGS__})

#endif
