/*
 * tracker_helpers.h - what the tracker's tests share: a tracker with known call names,
 * and a stand-in for the symbolizer that knows a dozen made-up functions.
 */
#ifndef GS_TEST_TRACKER_HELPERS_H
#define GS_TEST_TRACKER_HELPERS_H

#include "tracker/report/report_internal.h"

/* Call numbers of the trackers made here. */
enum {
    API_UNKNOWN,
    API_MEM_ALLOC,    /* "cuMemAlloc" */
    API_MEM_ALLOC_V2, /* "cuMemAlloc" again, as another version of the symbol has it */
    API_MANAGED,      /* "cuMemAllocManaged" */
    API_HOST_ALLOC,   /* "cuMemHostAlloc" */
    API_MEM_FREE,     /* "cuMemFree" */
    API_COUNT
};

/* A tracker with a history of 4,096 addresses; fails the test where it cannot be had. */
struct gs_tracker *test_tracker(struct gs_stacks *stacks);
struct gs_stacks *test_stacks(void);
/* One whose clock moves only when a test changes test_now_ns, from 1 s on; with a history
 * of 64 addresses. */
struct gs_tracker *test_slow_tracker(void);
extern uint64_t test_now_ns;

/* A tracker, or stacks, that end with the scope of the variable. */
#define OWNED_TRACKER __attribute__((cleanup(test_tracker_end))) struct gs_tracker *
#define OWNED_STACKS  __attribute__((cleanup(test_stacks_end))) struct gs_stacks *
void test_tracker_end(struct gs_tracker **tracker);
void test_stacks_end(struct gs_stacks **stacks);

/* A device allocation made by thread 100 with API_MEM_ALLOC at time 1 s. */
struct gs_allocation test_allocation(uint64_t addr, uint64_t bytes);
/* Record it; returns its id. */
uint32_t test_add(struct gs_tracker *tracker, const struct gs_allocation *allocation,
                  bool indexed);
/* A device allocation that stays. */
void test_leak(struct gs_tracker *tracker, uint64_t addr, uint64_t bytes,
               uint64_t time_ns, uint32_t stack);
struct gs_tracker_totals test_totals(struct gs_tracker *tracker, int device);

/* Made-up code addresses. */
enum {
    AT_MAIN = 0x10010,          /* main, app.c:12, in app */
    AT_LOAD = 0x10110,          /* load_batch, loader.c:88, in app */
    AT_LOAD_TOO = 0x10118,      /* the same line once more */
    AT_LOAD_NEXT = 0x10120,     /* load_batch, loader.c:89, in app */
    AT_RUN = 0x10210,           /* run, no file, in app */
    AT_STRIPPED = 0x10310,      /* no name, in app */
    AT_STATIC_CUDA = 0x10410,   /* cudaMalloc inside app: a static runtime */
    AT_STATIC_INNER = 0x10510,  /* no name, in app: the inside of a static runtime */
    AT_START = 0x10610,         /* _start, in app */
    AT_TORCH = 0x20010,         /* at::native::empty_cuda, in libtorch_cuda.so */
    AT_CUDART = 0x30010,        /* cudaMalloc, in libcudart.so.13 */
    AT_DRIVER = 0x40010,        /* no name, in libcuda.so.1 */
    AT_LIBC = 0x50010,          /* __libc_start_call_main, in libc.so.6 */
    AT_THREAD = 0x50110,        /* start_thread, in libc.so.6 */
    AT_CLONE = 0x50210,         /* clone3, in libc.so.6 */
    AT_LIBC_STRIPPED = 0x50310, /* no name, in libc.so.6 */
    AT_SHIM = 0x60010,          /* cuMemAlloc_v2, in libgpushim.so */
    AT_MINE = 0x70010,          /* mine::keep, in libmine.so */
    AT_NOWHERE = 0x90010        /* no module */
};

/* Names for the addresses above; the time is 10 minutes after the tracker's start. */
struct gs_report_source test_source(void);
/* A configuration with all fixed parts filled in. */
struct gs_report_config test_report_config(void);
/* The rules of a text. */
struct gs_suppressions *test_rules(const char *text);
/* Take "==41233== " off each line, in place; a line without it fails the test. */
void test_take_prefix_off(char *text);
/* The report with these names, without the prefix of its lines; the caller frees it. */
char *test_report_text(struct gs_tracker *tracker, const struct gs_report_config *config,
                       struct gs_report_summary *summary);
uint32_t test_stack(struct gs_stacks *stacks, const uintptr_t *frames, unsigned count);

#define TEST_STACK(stacks, ...)                                                          \
    test_stack(stacks, (const uintptr_t[]){__VA_ARGS__},                                 \
               sizeof((const uintptr_t[]){__VA_ARGS__}) / sizeof(uintptr_t))
#define SECONDS(n) ((uint64_t)(n)*1000000000u)

#endif
