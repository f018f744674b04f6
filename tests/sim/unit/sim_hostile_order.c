/*
 * sim_hostile_order.c - proves what the hostile scheduler does to the device's work: a
 * seed is replayed, seeds differ, everything CUDA orders stays in order, and what it
 * leaves open happens in every way.
 */
#include "sim_hostile_helpers.h"

static CUstream new_stream(unsigned flags)
{
    CUstream stream;

    good(cuStreamCreate(&stream, flags));
    return stream;
}

static CUevent new_event(void)
{
    CUevent event;

    good(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* Work in several streams with events, queries, frees and host functions in between. */
static void mixed_program(struct trace *trace)
{
    struct ticks ticks;
    CUstream streams[5];
    CUevent event;

    hostile_start();
    ticks_make(&ticks);
    event = new_event();
    for (unsigned i = 0; i < 5; i++)
        streams[i] = new_stream(i % 2 ? CU_STREAM_NON_BLOCKING : 0);
    for (unsigned i = 0; i < 60; i++) {
        CUdeviceptr block;
        ticks_queue(&ticks, streams[i % 5]);
        if (i % 7 == 0)
            good(cuEventRecord(event, streams[i % 5]));
        if (i % 11 == 0)
            good(cuStreamWaitEvent(streams[(i + 1) % 5], event, 0));
        trace_add(trace, (uint32_t)cuStreamQuery(streams[(i + 2) % 5]));
        if (i % 13 == 0)
            ticks_queue(&ticks, NULL);
        if (i % 17 == 5) {
            good(cuMemAllocAsync(&block, 512, streams[1]));
            good(cuMemFreeAsync(block, streams[1]));
        }
        if (i % 29 == 7)
            good(cuStreamSynchronize(streams[3]));
    }
    ticks_trace(&ticks, trace);
}

Test(sim_hostile, replays_a_seed)
{
    hostile_replays(mixed_program, 30);
}

Test(sim_hostile, differs_among_seeds)
{
    cr_assert_geq(hostile_variety(mixed_program, 30), 25);
}

static void add_to_trace(void *argument)
{
    struct trace *trace = *(struct trace **)argument;

    trace_add(trace, trace->count);
}

struct call {
    struct trace *trace;
    uint32_t value;
};

static void note(void *argument)
{
    struct call *call = argument;

    trace_add(call->trace, call->value);
}

static void functions_program(struct trace *trace)
{
    static struct call calls[40];
    CUstream streams[4];

    hostile_start();
    for (unsigned i = 0; i < 4; i++)
        streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
    for (uint32_t i = 0; i < 40; i++) {
        calls[i] = (struct call){trace, i};
        good(cuLaunchHostFunc(streams[i % 4], note, &calls[i]));
    }
    good(cuCtxSynchronize());
    need(trace->count == 40);
    for (unsigned i = 0; i < 40; i++) { /* each stream's in order */
        for (unsigned j = i + 1; j < 40; j++)
            need(trace->values[i] % 4 != trace->values[j] % 4 ||
                 trace->values[i] < trace->values[j]);
    }
    good(cuLaunchHostFunc(streams[0], add_to_trace, &trace));
    good(cuStreamSynchronize(streams[0]));
    need(trace->values[40] == 40);
}

Test(sim_hostile, runs_host_functions_in_an_order_that_replays)
{
    hostile_replays(functions_program, 10);
    cr_assert_geq(hostile_variety(functions_program, 12), 6);
}

/* What was queued at each index, as an order that must have held: before -> after. */
struct orders {
    uint32_t before[MOST_TICKS], after[MOST_TICKS];
    unsigned count;
};

static void expect_order(struct orders *orders, uint32_t before, uint32_t after)
{
    need(orders->count < MOST_TICKS);
    orders->before[orders->count] = before;
    orders->after[orders->count++] = after;
}

static void check_orders(const struct orders *orders, struct ticks *ticks)
{
    uint32_t found[MOST_TICKS];

    ticks_read(ticks, found);
    for (uint32_t i = 0; i < ticks->used; i++)
        need(found[i] > 0); /* it ran */
    for (unsigned i = 0; i < orders->count; i++)
        need(found[orders->before[i]] < found[orders->after[i]]);
}

static void events_program(struct trace *trace)
{
    struct orders orders = {.count = 0};
    struct ticks ticks;
    CUstream streams[6];
    uint32_t last[6];

    hostile_start();
    ticks_make(&ticks);
    for (unsigned i = 0; i < 6; i++) {
        streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
        last[i] = ticks_queue(&ticks, streams[i]);
    }
    for (unsigned i = 0; i < 60; i++) { /* a stream waits for another one */
        unsigned from = i * 5 % 6, to = (from + 1 + i % 4) % 6;
        CUevent event = new_event();
        good(cuEventRecord(event, streams[from]));
        ticks_queue(&ticks, streams[from]); /* not behind the event */
        good(cuStreamWaitEvent(streams[to], event, 0));
        if (i % 3 == 0)
            good(cuEventRecord(event, streams[to])); /* the wait means the first record */
        uint32_t tick = ticks_queue(&ticks, streams[to]);
        expect_order(&orders, last[from], tick);
        expect_order(&orders, last[to], tick);
        last[from] = ticks.used - 2;
        last[to] = tick;
        good(cuEventDestroy(event));
    }
    (void)trace;
    check_orders(&orders, &ticks);
}

Test(sim_hostile, keeps_the_order_of_streams_and_events)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 300; seed++)
        hostile_run(events_program, seed, trace);
}

static void legacy_program(struct trace *trace)
{
    struct orders orders = {.count = 0};
    struct ticks ticks;
    CUstream streams[4];
    uint32_t last[4] = {0};

    hostile_start();
    ticks_make(&ticks);
    for (unsigned i = 0; i < 4; i++)
        streams[i] = new_stream(0);
    streams[3] = CU_STREAM_PER_THREAD;
    uint32_t legacy = ticks_queue(&ticks, NULL);
    for (unsigned i = 0; i < 4; i++)
        last[i] = legacy;
    for (unsigned i = 0; i < 80; i++) {
        if (i % 5 != 4) {
            uint32_t tick = ticks_queue(&ticks, streams[i % 4]);
            expect_order(&orders, last[i % 4], tick);
            expect_order(&orders, legacy, tick);
            last[i % 4] = tick;
            continue;
        }
        uint32_t tick = ticks_queue(&ticks, CU_STREAM_LEGACY);
        for (unsigned j = 0; j < 4; j++)
            expect_order(&orders, last[j], tick);
        expect_order(&orders, legacy, tick);
        legacy = tick;
    }
    (void)trace;
    check_orders(&orders, &ticks);
}

Test(sim_hostile, keeps_the_legacy_barrier)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 300; seed++)
        hostile_run(legacy_program, seed, trace);
}

/* The values a pinned word has while the program gives the device work. */
static void late_program(struct trace *trace)
{
    uint32_t *word;
    CUdeviceptr address;
    CUstream stream;

    hostile_start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    good(cuMemHostAlloc((void **)&word, 4, CU_MEMHOSTALLOC_DEVICEMAP));
    good(cuMemHostGetDevicePointer(&address, word, 0));
    __atomic_store_n(word, 0, __ATOMIC_RELAXED);
    for (uint32_t i = 1; i <= 400; i++) {
        good(cuStreamWriteValue32(stream, address, i, 0));
        trace_add(trace, __atomic_load_n(word, __ATOMIC_RELAXED));
    }
    good(cuStreamSynchronize(stream));
    need(__atomic_load_n(word, __ATOMIC_RELAXED) == 400);
}

Test(sim_hostile, is_as_late_as_it_may_be_and_as_early)
{
    struct trace *trace = trace_new();
    unsigned idle = 0, eager = 0;

    for (unsigned seed = 0; seed < 40; seed++) {
        hostile_run(late_program, seed, trace);
        idle += trace->values[399] == 0;
        eager += trace->values[399] >= 390;
    }
    cr_assert_gt(idle, 5);
    cr_assert_gt(eager, 2);
}

static void polling_program(struct trace *trace)
{
    struct ticks ticks;
    CUevent event;
    CUstream stream;
    unsigned polls = 0;

    hostile_start();
    ticks_make(&ticks);
    stream = new_stream(0);
    event = new_event();
    for (unsigned i = 0; i < 50; i++)
        ticks_queue(&ticks, stream);
    good(cuEventRecord(event, stream));
    ticks_queue(&ticks, stream);
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        need(++polls < 20000);
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        need(++polls < 20000);
    trace_add(trace, polls);
}

Test(sim_hostile, lets_polls_end)
{
    struct trace *trace = trace_new();
    unsigned most = 0;

    for (unsigned seed = 0; seed < 60; seed++) {
        hostile_run(polling_program, seed, trace);
        most = trace->values[0] > most ? trace->values[0] : most;
    }
    cr_assert_gt(most, 100); /* and some of them are not spoilt */
}

/* It never stops giving the device work, and looks for the first of it. */
static void busy_polling_program(struct trace *trace)
{
    CUdeviceptr block;
    CUevent event;
    CUstream stream, other;
    unsigned polls = 0;

    hostile_start();
    stream = new_stream(0);
    other = new_stream(0);
    event = new_event();
    good(cuMemAlloc(&block, 4));
    good(cuMemsetD32Async(block, 1, 1, stream));
    good(cuEventRecord(event, stream));
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) {
        good(cuMemsetD32Async(block, 1, 1, other));
        need(++polls < 200000);
    }
    trace_add(trace, polls);
}

Test(sim_hostile, lets_polls_end_that_give_it_work)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 30; seed++)
        hostile_run(busy_polling_program, seed, trace);
}

static void many_streams_program(struct trace *trace)
{
    struct orders orders = {.count = 0};
    struct ticks ticks;
    CUstream streams[300];
    uint32_t first[300];

    hostile_start();
    ticks_make(&ticks);
    for (unsigned i = 0; i < 300; i++) {
        streams[i] = new_stream(i % 3 ? CU_STREAM_NON_BLOCKING : 0);
        first[i] = ticks_queue(&ticks, streams[i]);
    }
    for (unsigned i = 0; i < 300; i++)
        expect_order(&orders, first[i], ticks_queue(&ticks, streams[i]));
    for (unsigned i = 0; i < 300; i += 2)
        good(cuStreamDestroy(streams[i])); /* what is queued still runs */
    (void)trace;
    check_orders(&orders, &ticks);
    for (unsigned i = 1; i < 300; i += 2)
        good(cuStreamDestroy(streams[i]));
}

Test(sim_hostile, serves_hundreds_of_streams)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 12; seed++)
        hostile_run(many_streams_program, seed, trace);
}

/* A wait in one stream for what another one writes, both submitted in either order. */
static void wait_value_program(struct trace *trace)
{
    struct orders orders = {.count = 0};
    struct ticks ticks;
    CUdeviceptr flags;
    CUstream waiting, writing;

    hostile_start();
    ticks_make(&ticks);
    waiting = new_stream(CU_STREAM_NON_BLOCKING);
    writing = new_stream(CU_STREAM_NON_BLOCKING);
    good(cuMemAlloc(&flags, 64 * 4));
    good(cuMemsetD32(flags, 0, 64));
    good(cuCtxSynchronize());
    for (uint32_t i = 0; i < 64; i++) {
        good(cuStreamWaitValue32(waiting, flags + 4 * i, 7, CU_STREAM_WAIT_VALUE_GEQ));
        uint32_t after = ticks_queue(&ticks, waiting);
        expect_order(&orders, ticks_queue(&ticks, writing), after);
        good(cuStreamWriteValue32(writing, flags + 4 * i, 7, 0));
    }
    (void)trace;
    check_orders(&orders, &ticks);
}

Test(sim_hostile, releases_a_wait_for_a_value_by_a_write)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 40; seed++)
        hostile_run(wait_value_program, seed, trace);
}

static void flag_program(struct trace *trace)
{
    struct sim_latch latch;
    CUdeviceptr block;
    CUstream stream;
    uint32_t value = 0;

    hostile_start();
    good(cuMemHostAlloc((void **)&latch.flag, 4, CU_MEMHOSTALLOC_PORTABLE));
    *latch.flag = 0;
    latch.wait = hostile_kernel("gs_wait");
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    good(cuMemAlloc(&block, 4));
    CUdeviceptr flag = (CUdeviceptr)(uintptr_t)latch.flag;
    void *params[] = {&flag};
    good(sim_test_launch(latch.wait, stream, params));
    good(cuMemsetD32Async(block, 5, 1, stream));
    for (unsigned i = 0; i < 2000; i++)
        need(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    sim_latch_open(&latch);
    good(cuStreamSynchronize(stream));
    good(cuMemcpyDtoH(&value, block, 4));
    need(value == 5);
    flag = 0x10; /* a bad address is told of, not waited for */
    good(sim_test_launch(latch.wait, stream, params));
    need(cuStreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
    trace_add(trace, 1);
}

Test(sim_hostile, polls_the_flag_of_a_waiting_kernel)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 20; seed++)
        hostile_run(flag_program, seed, trace);
}

static void launch_overlapping(struct ticks *ticks, CUstream stream, CUdeviceptr word)
{
    uint64_t count = 1;
    void *params[] = {&word, &ticks->one, &count};
    CUlaunchAttribute attribute = {
        .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &attribute,
                             .numAttrs = 1};

    good(cuLaunchKernelEx(&config, ticks->copy, params, NULL));
}

/* A launch that may overlap the one before it writes to the same word. */
static void overlap_program(struct trace *trace)
{
    struct ticks ticks;
    CUdeviceptr words;
    CUstream stream;
    uint32_t values[32];

    hostile_start();
    ticks_make(&ticks);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    good(cuMemAlloc(&words, sizeof(values)));
    good(cuMemsetD32(words, 0, 32));
    good(cuCtxSynchronize());
    for (uint32_t i = 0; i < 32; i++) {
        CUdeviceptr word = words + 4 * i;
        uint64_t count = 1;
        uint32_t seed = 9;
        void *params[] = {&word, &count, &seed};
        CUfunction fill = hostile_kernel("gs_fill");
        good(sim_test_launch(fill, stream, params));
        launch_overlapping(&ticks, stream, word);
        good(cuMemsetD32Async(ticks.words, i, 1, stream)); /* behind both */
    }
    good(cuStreamSynchronize(stream));
    good(cuMemcpyDtoH(values, words, sizeof(values)));
    for (unsigned i = 0; i < 32; i++) {
        need(values[i] == 1 || values[i] > 1);
        trace_add(trace, values[i] == 1); /* 1: the second one was second */
    }
}

Test(sim_hostile, overlaps_programmatic_launches_both_ways)
{
    struct trace *trace = trace_new();
    unsigned in_order = 0, ahead = 0;

    for (unsigned seed = 0; seed < 24; seed++) {
        hostile_run(overlap_program, seed, trace);
        for (unsigned i = 0; i < 32; i++) {
            in_order += trace->values[i] == 1;
            ahead += trace->values[i] == 0;
        }
    }
    cr_assert_gt(in_order, 50);
    cr_assert_gt(ahead, 50);
}

/* Behind a kernel that does not end: it may run, but it is not done before its turn. */
static void early_program(struct trace *trace)
{
    struct ticks ticks;
    CUdeviceptr word;
    CUstream stream, other;
    CUevent event;
    uint32_t *flags;

    hostile_start();
    ticks_make(&ticks);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    other = new_stream(CU_STREAM_NON_BLOCKING);
    event = new_event();
    good(cuMemHostAlloc((void **)&flags, 8, CU_MEMHOSTALLOC_PORTABLE));
    flags[0] = flags[1] = 0;
    word = (CUdeviceptr)(uintptr_t)flags;
    void *params[] = {&word};
    good(sim_test_launch(hostile_kernel("gs_wait"), stream, params));
    launch_overlapping(&ticks, stream, word + 4);
    for (unsigned i = 0; i < 4000; i++)
        need(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    sim_test_sleep_ms(20); /* what it may run has run */
    trace_add(trace, __atomic_load_n(&flags[1], __ATOMIC_ACQUIRE));
    need(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    good(cuEventRecord(event, stream));
    good(cuStreamWaitEvent(other, event, 0));
    uint32_t behind = ticks_queue(&ticks, other);
    need(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
    need(cuStreamQuery(other) == CUDA_ERROR_NOT_READY);
    __atomic_store_n(&flags[0], 1, __ATOMIC_RELEASE);
    good(cuStreamSynchronize(other));
    need(flags[1] == 1 && behind == 0);
}

Test(sim_hostile, signals_the_end_of_early_ones_in_their_turn)
{
    struct trace *trace = trace_new();
    unsigned early = 0;

    for (unsigned seed = 0; seed < 16; seed++) {
        hostile_run(early_program, seed, trace);
        early += trace->values[0];
    }
    cr_assert_gt(early, 3);
    cr_assert_lt(early, 16);
}

/* A sanitizer keeps what was freed for a while. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST_PAGES SIZE_MAX / 2
#else
#define MOST_PAGES 1000
#endif

static size_t pages_in_use(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t all = 0, resident = 0;

    need(file && fscanf(file, "%zu %zu", &all, &resident) == 2);
    fclose(file);
    return resident;
}

static void recycle_program(struct trace *trace)
{
    CUdeviceptr word;
    size_t before = 0;

    hostile_start();
    good(cuMemAlloc(&word, 4));
    for (unsigned i = 0; i < 60000; i++) {
        CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
        good(cuMemsetD32Async(word, i, 1, stream));
        good(cuStreamDestroy(stream));
        if (i % 100 == 99)
            good(cuCtxSynchronize());
        if (i == 10000)
            before = pages_in_use();
    }
    need(pages_in_use() < before + MOST_PAGES);
    trace_add(trace, 1);
}

Test(sim_hostile, gives_back_streams_and_operations)
{
    struct trace *trace = trace_new();

    hostile_run(recycle_program, 0, trace);
    hostile_run(recycle_program, 3, trace);
}

static void destroy_program(struct trace *trace)
{
    struct ticks ticks;
    uint32_t found[MOST_TICKS];

    hostile_start();
    ticks_make(&ticks);
    for (unsigned i = 0; i < 100; i++) { /* a stream lives for one tick */
        CUstream stream = new_stream(0);
        ticks_queue(&ticks, stream);
        good(cuStreamDestroy(stream));
    }
    ticks_read(&ticks, found);
    for (unsigned i = 0; i < 100; i++)
        need(found[i] > 0);
    trace_add(trace, 1);
    good(cuDevicePrimaryCtxReset(0));
}

Test(sim_hostile, finishes_the_work_of_destroyed_streams)
{
    struct trace *trace = trace_new();

    for (unsigned seed = 0; seed < 12; seed++)
        hostile_run(destroy_program, seed, trace);
}

static void spin_program(struct trace *trace)
{
    uint64_t ns = 3600ull * 1000000000u;
    void *params[] = {&ns};
    CUstream stream;
    CUevent start, end;
    float ms = 0;

    hostile_start();
    stream = new_stream(0);
    CUfunction spin = hostile_kernel("gs_spin");
    good(cuEventCreate(&start, 0));
    good(cuEventCreate(&end, 0));
    good(cuEventRecord(start, stream));
    good(sim_test_launch(spin, stream, params));
    good(cuEventRecord(end, stream));
    good(cuStreamSynchronize(stream));
    good(cuEventElapsedTime(&ms, start, end));
    need(ms >= 3600000.f && ms < 3600001.f);
    trace_add(trace, 1);
}

Test(sim_hostile, has_a_clock_of_its_own, .timeout = 120)
{
    hostile_run(spin_program, 1, trace_new());
}
