/*
 * api.c - a program that uses gpushim.h, and goes on without the library.
 *
 *   api_WAY                  calls each function, and prints what it returned
 *   api_WAY scopes           leaks within scopes: of functions, threads, too deep
 *   api_WAY limits           sets one limit of memory after another
 *   api_WAY lower            lowers a limit below the idle memory, and below what is live
 *   api_WAY child            leaks within scopes in a forked child
 *   api_WAY streams SEED     memory of gpushim_stream_alloc that several streams use
 *   api_WAY legacy SEED      such memory of the legacy stream, for blocking streams
 *   api_WAY handed           such memory that the program frees by itself
 *   api_WAY captured         such memory, allocated and freed while its stream captures
 *   api_WAY threads          statistics, options, scopes and trims of threads at once
 *   api_WAY signals          all functions in a signal handler, which interrupts them
 *   api_WAY atexit           all functions while the process ends, and at its very end
 *
 * Data that is wrong ends it with 1.
 * With GPUSHIM_ENABLE=off, and without the library, streams and captured use cudaMalloc.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpushim_memory.h"
#include "launch.h"

enum { STREAMS = 3, BLOCKS = 12, ROUNDS = 150, WORDS = 3000, THREADS = 4 };

static struct app_kernels kernels;

static void tell(const char *what, gpushim_result result)
{
    printf("%s: %s\n", what, gpushim_result_text(result));
}

/* ---- each function -------------------------------------------------------------------
 */

/* A peak of a stretch is its own; a forked child has none of its parent's. */
static void show_stretches(void)
{
    struct gpushim_statistics all, now;
    struct gpushim_stretch *stretch, *inner;
    gpu_ptr block;
    int status = 0;

    tell("before a stretch", gpushim_get_statistics(0, &all));
    APP_OK(gpu_malloc(&block, 32 << 20));
    APP_OK(gpu_free(block));
    tell("a stretch", gpushim_stretch_begin(0, &stretch));
    APP_OK(gpu_malloc(&block, 5 << 20));
    tell("a stretch within", gpushim_stretch_begin(GPUSHIM_ALL_DEVICES, &inner));
    APP_OK(gpu_free(block));
    tell("a stretch so far", gpushim_stretch_get(stretch, &now));
    printf("its peak: %d MiB, %d allocations\n",
           (int)((now.peak_bytes - all.live_bytes) >> 20), (int)now.allocs);
    pid_t child = fork();
    if (child == 0) {
        _exit((int)gpushim_stretch_get(stretch, &now) << 4 |
              (int)gpushim_stretch_end(stretch));
    }
    waitpid(child, &status, 0);
    tell("in a child", (gpushim_result)(WEXITSTATUS(status) >> 4));
    tell("its end there", (gpushim_result)(WEXITSTATUS(status) & 15));
    tell("its end", gpushim_stretch_end(stretch));
    tell("the other so far", gpushim_stretch_get(inner, &now));
    printf("no more than was live: %d allocations\n", (int)now.allocs);
    tell("its end", gpushim_stretch_end(inner));
    tell("a stretch of no device", gpushim_stretch_begin(1000, &inner));
    tell("none of it", gpushim_stretch_get(inner, &now));
    tell("no end of it", gpushim_stretch_end(inner));
    tell("nowhere", gpushim_stretch_begin(0, NULL));
}

static void show_statistics(void)
{
    struct gpushim_statistics before, after, stretch, small = {.size = 0};
    struct gpushim_class classes[GPUSHIM_CLASSES];
    gpu_ptr block;

    tell("statistics", gpushim_get_statistics(0, &before));
    for (int i = 0; i < 10; i++) {
        APP_OK(gpu_malloc(&block, 4000));
        APP_OK(gpu_free(block));
    }
    tell("again", gpushim_get_statistics(0, &after));
    gpushim_get_difference(&before, &after, &stretch);
    printf(
        "stretch: %d allocations, %d frees, %d live, hit rate %.2f, fragmentation %.2f\n",
        (int)stretch.allocs, (int)stretch.frees, (int)stretch.live_count,
        gpushim_hit_rate(&stretch), gpushim_fragmentation(&stretch));
    printf("size of the device: %s\n",
           after.device_total_bytes >= after.device_free_bytes &&
                   after.device_free_bytes > 0
               ? "known"
               : "unknown");
    tell("all devices", gpushim_get_statistics(GPUSHIM_ALL_DEVICES, &after));
    tell("pinned", gpushim_get_statistics(GPUSHIM_PINNED, &after));
    tell("no such device", gpushim_get_statistics(1000, &after));
    tell("no such row", gpushim_get_statistics(-7, &after));
    tell("nowhere", gpushim_get_statistics(0, NULL));
    tell("a difference of nothing", gpushim_get_difference(NULL, &after, &stretch));
    tell("classes", gpushim_get_classes(0, classes, GPUSHIM_CLASSES));
    printf("class of 4000 bytes: number %d, %d hits\n",
           (int)gpushim_class_of(classes, GPUSHIM_CLASSES, 4000), (int)classes[7].hits);
    tell("two classes", gpushim_get_classes(GPUSHIM_ALL_DEVICES, classes, 2));
    tell("classes of pinned memory", gpushim_get_classes(GPUSHIM_PINNED, classes, 2));
    tell("more classes than there are", gpushim_get_classes(0, classes, SIZE_MAX));
    /* A program of a version whose struct was smaller. */
    if (gpushim_library()) {
        small.size = offsetof(struct gpushim_statistics, live_bytes);
        small.live_bytes = 42;
        tell("an older program", gpushim_library()->statistics(0, &small));
        printf("kept: %d, allocations %s\n", (int)small.live_bytes,
               small.allocs ? "known" : "unknown");
    }
}

static void show_option(const char *name, const char *value)
{
    char problem[200], now[64];
    gpushim_result result = gpushim_set_option(name, value, problem, sizeof(problem));

    printf("%s=%s: %s", name, value, gpushim_result_text(result));
    result = gpushim_get_option(name, now, sizeof(now));
    printf(", now \"%s\" (%s)%s%s\n", now, gpushim_result_text(result),
           *problem ? "; " : "", problem);
}

static void show_options(void)
{
    char two[2];

    show_option("LEAK_MAX", "3");
    show_option("gpushim_leak_max", "4");
    show_option("LEAK_MAX", "-1");
    show_option("LEAK_MAX", "lots");
    show_option("POOL_LIMIT", "50%");
    show_option("POOL_RELEASE", "1M");
    show_option("POOL_WAIT", "1500ms");
    show_option("LEAK_REPORT", "exit");
    show_option("REPORT_ON", "exit");
    show_option("REPORT_ON", "oom,exit");
    show_option("REPORT_ON", "exit,USR1");
    show_option("REPORT_ON", "1");
    show_option("CHECK", "redzone:256");
    show_option("CHECK", "off");
    show_option("SYMBOLIZE", "off");
    show_option("POOL", "off");
    show_option("POOL_CACHE", "1M,stream:4");
    show_option("POOL_CACHE", "5G");
    show_option("POOL_CACHE", "32M");
    show_option("PRESSURE", "warning:0.75");
    show_option("PRESSURE", "alarm:0.5");
    show_option("PRESSURE", "");
    show_option("SUPPRESSIONS", "leak:hold");
    show_option("SUPPRESSIONS", "/nonexistent/rules");
    show_option("TRACE_LIMIT", "8M");
    show_option("TRACE_FILE", "/nonexistent/trace");
    show_option("TRACE_FILE", "");
    show_option("NO_SUCH_OPTION", "1");
    tell("a short buffer", gpushim_get_option("POOL_SEGMENT", two, sizeof(two)));
    printf("cut: \"%s\"\n", two);
    tell("no buffer", gpushim_get_option("POOL", two, 0));
    tell("no name", gpushim_set_option(NULL, "1", NULL, 0));
}

static void show_control(void)
{
    gpu_ptr large;
    uint64_t given;

    APP_OK(gpu_malloc(&large, 8 * APP_MIB));
    APP_OK(gpu_free(large));
    tell("trim", gpushim_trim(0, UINT64_MAX, &given));
    printf("given back: %s\n", given >= 8 * APP_MIB ? "8 MiB and more" : "nothing");
    tell("trim of nothing", gpushim_trim(GPUSHIM_ALL_DEVICES, 0, NULL));
    tell("trim of no device", gpushim_trim(-2, 1, NULL));
    tell("record", gpushim_record(0));
    APP_OK(gpu_malloc(&large, 100));
    tell("record", gpushim_record(1));
    APP_OK(gpu_free(large));
    tell("end of no scope", gpushim_scope_end());
    tell("scope without a name", gpushim_scope_begin(""));
    tell("scope within it", gpushim_scope_begin(NULL));
    tell("end", gpushim_scope_end());
    tell("end", gpushim_scope_end());
    tell("report", gpushim_report());
}

static void called(void *self, int device, gpushim_pressure level)
{
    (void)self, (void)device, (void)level;
}

static void show_pressure(void)
{
    gpushim_pressure level = GPUSHIM_CRITICAL;
    char places[16];
    double share = 7;

    tell("pressure", gpushim_get_pressure(0, &level, &share));
    printf("level: %s, %s\n", gpushim_pressure_text(level),
           share >= 0 && share < 0.5 ? "little in use" : "much in use");
    tell("pressure, unasked", gpushim_get_pressure(0, NULL, NULL));
    tell("pressure nowhere", gpushim_get_pressure(-1, &level, NULL));
    tell("pressure of no device", gpushim_get_pressure(1000, &level, NULL));
    tell("pressure without a context", gpushim_get_pressure(60, &level, NULL));
    for (int i = 0; i < 15; i++)
        gpushim_on_pressure(GPUSHIM_WARNING, called, &places[i]);
    tell("the last call", gpushim_on_pressure(GPUSHIM_WARNING, called, NULL));
    tell("the same", gpushim_on_pressure(GPUSHIM_ELEVATED, called, NULL));
    tell("one too many", gpushim_on_pressure(GPUSHIM_WARNING, called, &places[15]));
    tell("no call", gpushim_on_pressure(GPUSHIM_WARNING, NULL, NULL));
    tell("from normal on", gpushim_on_pressure(GPUSHIM_NORMAL, called, NULL));
    tell("no more", gpushim_off_pressure(called, NULL));
    tell("no more again", gpushim_off_pressure(called, NULL));
    for (int i = 0; i < 15; i++)
        gpushim_off_pressure(called, &places[i]);
    printf("a level of a later version: %s\n",
           gpushim_pressure_text((gpushim_pressure)99));
}

static void show_warm_up(void)
{
    struct gpushim_statistics before, after;
    gpu_ptr blocks[20];

    tell("warm up", gpushim_warm_up(0, "100K:20, 3M:2"));
    gpushim_get_statistics(0, &before);
    for (int i = 0; i < 20; i++)
        APP_OK(gpu_malloc(&blocks[i], 100 * APP_KIB));
    gpushim_get_statistics(0, &after);
    printf("missed: %d\n", (int)(after.misses - before.misses));
    for (int i = 0; i < 20; i++)
        APP_OK(gpu_free(blocks[i]));
    tell("warm up with nonsense", gpushim_warm_up(0, "4K:20,lots"));
    tell("warm up with nothing", gpushim_warm_up(0, ""));
    tell("warm up nowhere", gpushim_warm_up(-1, "4K:1"));
    tell("warm up on no device", gpushim_warm_up(1000, "4K:1"));
    tell("warm up without a list", gpushim_warm_up(0, NULL));
    tell("warm up too much", gpushim_warm_up(0, "1G:1000"));
}

/* The same by a thread; once it is waited for, there is none. */
static void show_warming(void)
{
    struct gpushim_warming warming;
    gpushim_result begun = gpushim_warming_start(&warming, 0, "200K:3");
    int ready = 0;

    tell("warming", begun);
    while (begun == GPUSHIM_OK && !ready)
        app_expect(gpushim_warming_poll(&warming, &ready) == GPUSHIM_OK, "a poll");
    if (begun == GPUSHIM_OK) {
        tell("warming, its end", gpushim_warming_wait(&warming));
        tell("warming, once more", gpushim_warming_wait(&warming));
        tell("warming, a poll of none", gpushim_warming_poll(&warming, &ready));
        tell("warming with nonsense", gpushim_warming_start(&warming, 0, "lots"));
        tell("warming with nonsense, its end", gpushim_warming_wait(&warming));
    }
    tell("warming nowhere", gpushim_warming_start(&warming, -1, "4K:1"));
}

static void show_streams(void)
{
    char on_host;
    void *memory = NULL;

    tell("allocate", gpushim_stream_alloc(&memory, 1000, 0, NULL));
    tell("used elsewhere", gpushim_stream_uses(memory, (void *)1));
    tell("used elsewhere again", gpushim_stream_uses(memory, (void *)1));
    tell("other memory used", gpushim_stream_uses(&on_host, NULL));
    tell("no memory used", gpushim_stream_uses(NULL, NULL));
    tell("free on another device", gpushim_stream_free(memory, 1000, NULL));
    tell("free", gpushim_stream_free(memory, 0, NULL));
    tell("freed memory used", gpushim_stream_uses(memory, NULL));
    tell("free nothing", gpushim_stream_free(NULL, 0, NULL));
    tell("allocate nothing", gpushim_stream_alloc(&memory, 0, 0, NULL));
    tell("allocate nowhere", gpushim_stream_alloc(&memory, 1, -1, NULL));
    tell("allocate on no device", gpushim_stream_alloc(&memory, 1, 1000, NULL));
    tell("allocate too much", gpushim_stream_alloc(&memory, (size_t)1 << 46, 0, NULL));
}

static void show_all(void)
{
    tell("no CUDA yet", gpushim_report());
    tell("a scope before it", gpushim_scope_begin("early"));
    app_gpu_start();
    tell("its end", gpushim_scope_end());
    printf("version: %s\n", gpushim_library_version()[0] ? "known" : "none");
    show_statistics();
    show_stretches();
    show_control();
    show_pressure();
    show_warm_up();
    show_warming();
    show_options();
    show_streams();
    tell("a result of a later version", (gpushim_result)99);
}

/* ---- limits that change
 * ---------------------------------------------------------------
 */

static bool fits(size_t bytes)
{
    gpu_ptr block;
    bool done = gpu_malloc(&block, bytes) == 0;

    if (done)
        APP_OK(gpu_free(block));
    return done;
}

static void limit_to(const char *value)
{
    char problem[200];
    size_t free_bytes, total_bytes;
    gpushim_result result =
        gpushim_set_option("MEM_LIMIT", value, problem, sizeof(problem));

    APP_OK(gpu_mem_info(&free_bytes, &total_bytes));
    printf("limit %s: %s%s%s; total %zu MiB, 16 MiB %s, 48 MiB %s\n", value,
           gpushim_result_text(result), *problem ? "; " : "", problem,
           total_bytes / APP_MIB, fits(16 * APP_MIB) ? "fit" : "do not fit",
           fits(48 * APP_MIB) ? "fit" : "do not fit");
}

static void in_limits(void)
{
    gpu_ptr block;

    app_gpu_start();
    APP_OK(gpu_malloc(&block, 40 * APP_MIB));
    limit_to("64M");
    limit_to("100M");
    limit_to("32M"); /* less than is live */
    APP_OK(gpu_free(block));
    limit_to("33M");
    limit_to("25%");
    limit_to("100%");
}

/* Takes as many of `count` blocks as fit. Returns their number. */
static int take_blocks(gpu_ptr blocks[], int count, size_t bytes)
{
    int taken = 0;

    while (taken < count && gpu_malloc(&blocks[taken], bytes) == 0)
        taken++;
    return taken;
}

static void free_blocks(const gpu_ptr blocks[], int count)
{
    for (int i = 0; i < count; i++)
        APP_OK(gpu_free(blocks[i]));
}

static void show_taken(const char *when, size_t bytes)
{
    struct gpushim_statistics now = {0};
    gpu_ptr blocks[8];
    int taken = take_blocks(blocks, 8, bytes);

    free_blocks(blocks, taken);
    (void)gpushim_get_statistics(0, &now);
    printf("%s: %d fit, then %llu MiB reserved\n", when, taken,
           (unsigned long long)now.reserved_bytes / APP_MIB);
}

/* A limit that is lowered while the pool holds idle memory, and before memory is freed.
 */
static void in_lower_limits(void)
{
    gpu_ptr blocks[8];
    int taken;

    app_gpu_start();
    show_taken("at 64M", 8 * APP_MIB);
    APP_OK(gpushim_set_option("MEM_LIMIT", "20M", NULL, 0));
    show_taken("idle memory beyond 20M", 8 * APP_MIB);
    APP_OK(gpushim_set_option("MEM_LIMIT", "64M", NULL, 0));
    taken = take_blocks(blocks, 8, 8 * APP_MIB);
    APP_OK(gpushim_set_option("MEM_LIMIT", "20M", NULL, 0));
    APP_OK(gpu_free(blocks[--taken]));
    show_taken("one of 8 freed since", 8 * APP_MIB);
    free_blocks(blocks, taken);
    show_taken("all freed since", 8 * APP_MIB);
    APP_OK(gpushim_set_option("MEM_LIMIT", "64M", NULL, 0));
    show_taken("at 64M again", 8 * APP_MIB);
}

/* ---- scopes ---------------------------------------------------------------------------
 */

APP_FRAME static void lose(size_t bytes)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, bytes));
}

APP_FRAME static int lost(int bytes)
{
    lose((size_t)bytes);
    return bytes;
}

static void *work(void *unused)
{
    (void)unused;
    app_gpu_thread();
    gpushim_scope_begin("worker");
    lose(4000);
    gpushim_scope_end();
    lose(5000);
    app_expect(GPUSHIM_NAMED("weights", lost(10000)) == 10000, "a named call");
    return NULL;
}

static void in_scopes(void)
{
    char text[140];
    pthread_t thread;

    gpushim_scope_begin("early");
    app_gpu_start();
    lose(1000);
    gpushim_scope_begin("step");
    lose(2000);
    gpushim_scope_begin("forward");
    lose(3000);
    gpushim_scope_end();
    APP_OK(pthread_create(&thread, NULL, work, NULL));
    APP_OK(pthread_join(thread, NULL));
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    gpushim_scope_begin(text); /* too long: what is around it counts */
    lose(6000);
    gpushim_scope_end();
    for (int i = 0; i < 40; i++)
        gpushim_scope_begin("deep");
    lose(7000);
    for (int i = 0; i < 40; i++)
        gpushim_scope_end();
    gpushim_scope_end();
    gpushim_scope_end();
    lose(8000);
    printf("left: %s\n", gpushim_result_text(gpushim_scope_end()));
}

/* A child keeps the scopes of the thread that forked. */
static void in_child(void)
{
    pid_t child;
    int status;

    gpushim_scope_begin("parent");
    child = fork();
    if (child == 0) {
        gpushim_scope_begin("child");
        app_gpu_start();
        lose(9000);
        gpushim_scope_end();
        exit(0);
    }
    waitpid(child, &status, 0);
    gpushim_scope_end();
    printf("child: %d\n", status);
}

/* ---- streams
 * --------------------------------------------------------------------------- */

static gpu_ptr allocate(size_t bytes, gpu_stream stream)
{
    void *memory;
    gpu_ptr block;
    gpushim_result result = gpushim_stream_alloc(&memory, bytes, 0, stream);

    if (result == GPUSHIM_OK)
        return gpu_from_address((uintptr_t)memory);
    app_expect(result == GPUSHIM_INACTIVE, "no memory");
    APP_OK(gpu_malloc(&block, bytes));
    return block;
}

static void release(gpu_ptr block, gpu_stream stream)
{
    gpushim_result result = gpushim_stream_free(gpu_on_host(block), 0, stream);

    if (result == GPUSHIM_INACTIVE)
        APP_OK(gpu_free(block));
    else
        app_expect(result == GPUSHIM_OK, "a free failed");
}

/* Fills blocks in one stream, checks one half of each there and the other half in another
 * stream, and frees the block at once. */
static void in_streams(uint64_t state)
{
    gpu_stream streams[STREAMS];
    gpu_event filled;
    gpu_ptr wrong, second, blocks[BLOCKS] = {0};
    uint32_t found;

    app_gpu_start();
    app_kernels_load(&kernels);
    for (int i = 0; i < STREAMS; i++)
        APP_OK(gpu_stream_create(&streams[i]));
    APP_OK(gpu_event_create(&filled));
    APP_OK(gpu_malloc(&wrong, 4));
    APP_OK(gpu_set(wrong, 0, 4));
    APP_OK(gpu_sync());
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t chance = app_random(&state);
        gpu_stream own = streams[chance % STREAMS];
        gpu_stream other = streams[(chance >> 8) % STREAMS];
        size_t words = WORDS + (chance >> 16) % WORDS * ((chance >> 40) % 2 ? 300 : 1);
        gpu_ptr *block = &blocks[(chance >> 48) % BLOCKS];

        *block = allocate(words * 4, own);
        app_fill(&kernels, *block, words, round, own);
        APP_OK(gpu_event_record(filled, own));
        APP_OK(gpu_stream_wait(other, filled));
        app_count_wrong(&kernels, *block, words / 2, round, wrong, other);
        second = gpu_from_address(gpu_address(*block) + words / 2 * 4);
        app_fill(&kernels, second, words / 2, ~round, own);
        app_count_wrong(&kernels, second, words / 2, ~round, wrong, own);
        app_expect(other == own || gpushim_stream_uses(gpu_on_host(*block), other) <=
                                       GPUSHIM_INACTIVE,
                   "a use was refused");
        release(*block, own);
    }
    APP_OK(gpu_sync());
    APP_OK(gpu_get(&found, wrong, 4));
    app_expect(found == 0, "another stream's work was overwritten");
    APP_OK(gpu_free(wrong));
    printf("streams: ok\n");
}

/* The program frees such memory itself, and ends the stream that used it: the next owner
 * of the address has nothing to do with that stream. */
static void in_other_hands(void)
{
    gpu_stream stream, side;
    gpu_ptr block, next;

    app_gpu_start();
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_stream_create(&side));
    block = allocate(5000, stream);
    app_expect(gpushim_stream_uses(gpu_on_host(block), side) <= GPUSHIM_INACTIVE,
               "a use was refused");
    APP_OK(gpu_free_async(block, stream));
    APP_OK(gpu_stream_destroy(side));
    next = allocate(5000, stream);
    app_expect(next == block, "another address");
    release(next, stream);
    APP_OK(gpu_stream_sync(stream));
    printf("handed: ok\n");
}

#if APP_RUNTIME
#define blocking_stream(out) cudaStreamCreate(out)
#else
#define blocking_stream(out) CU(cuStreamCreate)((out), CU_STREAM_DEFAULT)
#endif

/* Memory of the legacy stream, used by two streams that wait for it: each use is behind
 * the allocation, and in front of the free. */
static void in_legacy(uint64_t state)
{
    gpu_stream streams[2];
    gpu_ptr wrong, block;
    uint32_t found;

    app_gpu_start();
    app_kernels_load(&kernels);
    for (int i = 0; i < 2; i++)
        APP_OK(blocking_stream(&streams[i]));
    APP_OK(gpu_malloc(&wrong, 4));
    APP_OK(gpu_set(wrong, 0, 4));
    APP_OK(gpu_sync());
    for (uint32_t round = 0; round < ROUNDS; round++) {
        gpu_stream own = streams[app_random(&state) % 2];

        block = allocate(WORDS * 4, NULL);
        app_fill(&kernels, block, WORDS, round, own);
        app_spin(&kernels, 20000, own);
        app_count_wrong(&kernels, block, WORDS, round, wrong, own);
        release(block, NULL);
    }
    APP_OK(gpu_sync());
    APP_OK(gpu_get(&found, wrong, 4));
    app_expect(found == 0, "a stream's work was overwritten");
    APP_OK(gpu_free(wrong));
    printf("legacy: ok\n");
}

/* The graph's memory outlives its free: the graph may be launched again. */
static void in_capture(void)
{
    gpu_stream stream, side;
    gpu_graph graph;
    gpu_exec exec;
    gpu_ptr block, after, result;
    uint32_t words[4] = {0};

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_stream_create(&side));
    APP_OK(gpu_malloc(&result, sizeof(words)));
    block = allocate(sizeof(words), side); /* an idle heap */
    release(block, side);
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    block = allocate(sizeof(words), stream);
    app_fill(&kernels, block, 4, 7, stream);
    app_copy(&kernels, result, block, 4, stream);
    if (gpushim_stream_free(gpu_on_host(block), 0, stream) == GPUSHIM_INACTIVE)
        block = gpu_from_address(0);
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_instantiate(&exec, graph));
    after = allocate(sizeof(words), stream);
    app_expect(after != block, "memory of a graph was given away");
    app_fill(&kernels, after, 4, 8, stream);
    APP_OK(gpu_graph_launch(exec, stream));
    APP_OK(gpu_stream_sync(stream));
    app_expect(app_mismatches(&kernels, after, 4, 8, stream) == 0,
               "a graph wrote to memory of another");
    app_expect(app_mismatches(&kernels, result, 4, 7, stream) == 0, "the graph's result");
    release(after, stream);
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
    APP_OK(gpu_free(result));
    printf("captured: ok\n");
}

/* ---- threads
 * --------------------------------------------------------------------------- */

static void *mix(void *seed)
{
    uint64_t state = 1 + (uint64_t)(uintptr_t)seed;
    struct gpushim_statistics statistics;
    struct gpushim_class classes[GPUSHIM_CLASSES];
    char value[64];

    app_gpu_thread();
    for (int i = 0; i < 400; i++) {
        gpu_ptr block;
        gpushim_scope_begin(i % 2 ? "odd" : "even");
        APP_OK(gpu_malloc(&block, 1 + app_random(&state) % 100000));
        gpushim_scope_end();
        switch (app_random(&state) % 16) {
        case 0:
            gpushim_get_statistics((int)(app_random(&state) % 3) - 1, &statistics);
            break;
        case 1:
            gpushim_trim(GPUSHIM_ALL_DEVICES, app_random(&state) % (4 * APP_MIB), NULL);
            break;
        case 2:
            gpushim_set_option("POOL_LIMIT", i % 2 ? "50%" : "100%", NULL, 0);
            break;
        case 3:
            gpushim_get_option("POOL_LIMIT", value, sizeof(value));
            break;
        case 4:
            gpushim_get_classes(0, classes, GPUSHIM_CLASSES);
            break;
        default:
            break;
        }
        APP_OK(gpu_free(block));
    }
    return NULL;
}

static void in_threads(void)
{
    pthread_t threads[THREADS];
    struct gpushim_statistics statistics;

    app_gpu_start();
    for (uintptr_t i = 0; i < THREADS; i++)
        APP_OK(pthread_create(&threads[i], NULL, mix, (void *)i));
    for (int i = 0; i < THREADS; i++)
        APP_OK(pthread_join(threads[i], NULL));
    gpushim_get_statistics(0, &statistics);
    app_expect(statistics.live_count == 0, "something is live");
    printf("threads: ok\n");
}

/* ---- signal handlers, and the end of the process
 * ----------------------------------------
 */

/* Each function of gpushim.h, as one thread calls it while another may be inside it. */
/* clang-format off */
#define EACH_CALL(row)                                                                   \
    row(statistics, gpushim_get_statistics(0, &each->statistics))                        \
    row(of_all, gpushim_get_statistics(GPUSHIM_ALL_DEVICES, &each->statistics))          \
    row(classes, gpushim_get_classes(0, each->classes, GPUSHIM_CLASSES))                 \
    row(trim, gpushim_trim(0, 4096, NULL))                                               \
    row(warm_up, gpushim_warm_up(0, "4K:1"))                                             \
    row(get_option, gpushim_get_option("POOL", each->value, sizeof(each->value)))        \
    row(set_option, gpushim_set_option("LEAK_MAX", "9", NULL, 0))                        \
    row(record, gpushim_record(1))                                                       \
    row(report, each->reports ? gpushim_report() : GPUSHIM_OK)                           \
    row(pressure, gpushim_get_pressure(0, &each->level, NULL))                           \
    row(on_pressure, gpushim_on_pressure(GPUSHIM_CRITICAL, called, each))                \
    row(off_pressure, gpushim_off_pressure(called, each))                                \
    row(releasable, gpushim_set_option("RELEASABLE", "each", NULL, 0))                   \
    row(release, gpushim_release("each", GPUSHIM_DISCARD, NULL))                         \
    row(resume, gpushim_resume("each", NULL))                                            \
    row(scope_begin, gpushim_scope_begin("each"))                                        \
    row(scope_end, gpushim_scope_end())                                                  \
    row(alloc, gpushim_stream_alloc(&each->memory, 100, 0, NULL))                        \
    row(uses, gpushim_stream_uses(each->memory ? each->memory : for_all, NULL))          \
    row(find, gpushim_find_allocation(each->memory ? each->memory : for_all,             \
                                      &each->found))                                     \
    row(visit, gpushim_visit_allocations(GPUSHIM_EVERYWHERE, visited, each))             \
    row(snapshot, gpushim_snapshot_take(0, &each->snapshot))                             \
    row(difference, gpushim_snapshot_difference(NULL, each->snapshot, changed, each))    \
    row(forget, gpushim_snapshot_free(each->snapshot))                                   \
    row(free, gpushim_stream_free(each->memory, 0, NULL))
/* clang-format on */
enum {
#define ROW(name, call) EACH_##name,
    EACH_CALL(ROW)
#undef ROW
        EACH_COUNT
};

struct each {
    struct gpushim_statistics statistics;
    struct gpushim_class classes[GPUSHIM_CLASSES];
    char value[9];
    bool reports;
    gpushim_pressure level;
    struct gpushim_allocation found;
    struct gpushim_snapshot *snapshot;
    void *memory;
    gpushim_result results[EACH_COUNT];
};

static void *for_all; /* memory that a handler and the program name at once */

static int visited(void *self, const struct gpushim_allocation *allocation)
{
    (void)self;
    return allocation->bytes == 0;
}

static int changed(void *self, const struct gpushim_change *change)
{
    (void)self;
    return change->new_count == 0;
}

static void call_each(struct each *each)
{
    each->memory = NULL;
#define ROW(name, call) each->results[EACH_##name] = (call);
    EACH_CALL(ROW)
#undef ROW
}

static void tell_each(const char *when, struct each *each)
{
    static const char *const names[] = {
#define ROW(name, call) #name,
        EACH_CALL(ROW)
#undef ROW
    };

    call_each(each);
    for (size_t i = 0; i < EACH_COUNT; i++)
        printf("%s: %s: %s\n", when, names[i], gpushim_result_text(each->results[i]));
}

static pthread_t main_thread;
static struct each in_handler, at_end; /* too large for a handler's stack */
static volatile unsigned handled, served, kept_out;

/* A handler is served, or kept out where it has interrupted the library. */
static void on_alarm(int number)
{
    (void)number;
    if (!pthread_equal(pthread_self(), main_thread))
        return;
    call_each(&in_handler);
    handled++;
    for (size_t i = 0; i < EACH_COUNT; i++) {
        gpushim_result result = in_handler.results[i];

        if (result != GPUSHIM_OK && result != GPUSHIM_INACTIVE) {
            fprintf(stderr, "call %zu: %s\n", i, gpushim_result_text(result));
            app_expect(false, "a handler's call");
        }
        served += result == GPUSHIM_OK && i != EACH_report;
        kept_out += result == GPUSHIM_INACTIVE;
    }
}

static void in_signals(void)
{
    const struct itimerval often = {{0, 400}, {0, 400}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    static struct each own;
    bool active;

    main_thread = pthread_self();
    app_gpu_start();
    active = gpushim_stream_alloc(&for_all, 1000, 0, NULL) == GPUSHIM_OK;
    call_each(&own);
    APP_OK(sigaction(SIGALRM, &action, NULL));
    APP_OK(setitimer(ITIMER_REAL, &often, NULL));
    /* On a busy machine, signals may come only where the program begins to run again. */
    for (int i = 0; i < 100000000; i++) {
        if (handled >= 1500 && (!active || (served > 0 && kept_out > 0)))
            break;
        call_each(&own);
        for (size_t k = 0; active && k < EACH_COUNT; k++)
            app_expect(own.results[k] == GPUSHIM_OK, "the program's call");
    }
    APP_OK(setitimer(ITIMER_REAL, &never, NULL));
    app_expect(handled >= 1500, "no signals");
    app_expect(!active || (served > 0 && kept_out > 0), "what was interrupted");
    app_expect(active || served == 0, "a call without a library");
    gpushim_stream_free(for_all, 0, NULL);
    printf("signals: ok\n");
}

static bool at_the_end;

static void while_it_ends(void)
{
    tell_each("in a handler of atexit", &at_end);
}

__attribute__((destructor)) static void in_a_destructor(void)
{
    if (at_the_end)
        tell_each("in a destructor", &at_end);
}

/* Registered before any library's, so it runs after all of them. */
static void at_the_very_end(int status, void *unused)
{
    (void)status;
    (void)unused;
    if (at_the_end)
        tell_each("behind the report", &at_end);
}

static void register_first(int count, char **arguments, char **variables)
{
    (void)count;
    (void)arguments;
    (void)variables;
    on_exit(at_the_very_end, NULL);
}
__attribute__((section(".preinit_array"),
               used)) static void (*first)(int, char **, char **) = register_first;

static void at_exit(void)
{
    app_gpu_start();
    gpushim_stream_alloc(&for_all, 1000, 0, NULL);
    APP_OK(atexit(while_it_ends));
    at_the_end = at_end.reports = true;
    gpushim_scope_begin("to the end");
    gpushim_stream_free(for_all, 0, NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "scopes") == 0)
        in_scopes();
    else if (strcmp(what, "limits") == 0)
        in_limits();
    else if (strcmp(what, "lower") == 0)
        in_lower_limits();
    else if (strcmp(what, "child") == 0)
        in_child();
    else if (strcmp(what, "streams") == 0)
        in_streams(argc > 2 ? strtoull(argv[2], NULL, 10) + 1 : 1);
    else if (strcmp(what, "handed") == 0)
        in_other_hands();
    else if (strcmp(what, "legacy") == 0)
        in_legacy(argc > 2 ? strtoull(argv[2], NULL, 10) + 1 : 1);
    else if (strcmp(what, "captured") == 0)
        in_capture();
    else if (strcmp(what, "threads") == 0)
        in_threads();
    else if (strcmp(what, "signals") == 0)
        in_signals();
    else if (strcmp(what, "atexit") == 0)
        at_exit();
    else
        show_all();
    return 0;
}
