/*
 * transfers.c - copies between host and device, in ways that cost time and in ways that
 * do not.
 *
 * Each part checks its data; the sum of them all is printed. Proves that
 * GPUSHIM_CHECK=transfers reports each call marked SLOW, with the number and size of its
 * copies, and no other.
 *
 *   transfers [CASE...]   some of `cases`; without arguments, all that are not apart
 *
 * The rate of `rate`, `busy` and `unaligned` depends on the machine, and `fork` has a
 * report more: they run by their names alone. `fork` comes first.
 */
#include "launch.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE    (128 * APP_KIB)
#define SMALL    (4 * APP_KIB)
#define ARENA    (2 * APP_MIB)
#define PAGE     4096
#define CAPTURED 200

static unsigned char heap[ARENA + PAGE], *pinned;
static gpu_ptr arena;
static gpu_stream stream;
static uint64_t sum = APP_CHECKSUM;

static gpu_ptr at(size_t offset)
{
    return gpu_from_address(gpu_address(arena) + offset);
}

/* The arena begins with the pattern of `seed`. */
APP_FRAME static void expect_data(size_t bytes, uint32_t seed)
{
    APP_OK(gpu_get(pinned, arena, bytes));
    app_expect(app_bytes_match(pinned, bytes, seed), "data");
    sum = app_checksum(sum, pinned, bytes);
}

/* ---- pageable memory --------------------------------------------------------------- */

APP_FRAME static void put_pageable(void)
{
    app_bytes_fill(heap, LARGE, 1);
    for (int i = 0; i < 12; i++)
        APP_OK(gpu_put(arena, heap, LARGE)); /* SLOW: put_pageable */
    expect_data(LARGE, 1);
}

APP_FRAME static void get_pageable(void)
{
    app_bytes_fill(pinned, LARGE, 2);
    APP_OK(gpu_put(arena, pinned, LARGE));
    for (int i = 0; i < 10; i++)
        APP_OK(gpu_get(heap, arena, LARGE)); /* SLOW: get_pageable */
    app_expect(app_bytes_match(heap, LARGE, 2), "data in pageable memory");
}

/* The driver finds out which side is the host's. */
APP_FRAME static void move_pageable(void)
{
    app_bytes_fill(heap, LARGE, 3);
    for (int i = 0; i < 11; i++)
        APP_OK(gpu_move(arena, gpu_from_address(heap), LARGE)); /* SLOW: move_pageable */
    expect_data(LARGE, 3);
}

APP_FRAME static void put_pageable_async(void)
{
    app_bytes_fill(heap, LARGE, 4);
    for (size_t i = 0; i < 12; i++)
        APP_OK(gpu_put_async(at(i * LARGE), heap, LARGE, /* SLOW: put_pageable_async */
                             stream));
    APP_OK(gpu_stream_sync(stream));
    expect_data(LARGE, 4);
}

APP_FRAME static void put_rows(void)
{
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = heap,
                                .srcPitch = 2 * SMALL,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = gpu_address(arena),
                                .dstPitch = SMALL,
                                .WidthInBytes = SMALL,
                                .Height = 32};

    for (size_t i = 0; i < 32; i++)
        app_bytes_fill(heap + i * 2 * SMALL, SMALL, 5);
    for (int i = 0; i < 10; i++)
        APP_OK(CU(cuMemcpy2D)(&rows)); /* SLOW: put_rows */
    expect_data(SMALL, 5);
}

/* ---- many small copies ------------------------------------------------------------- */

APP_FRAME static void put_small(void)
{
    app_bytes_fill(heap, SMALL, 6);
    for (size_t i = 0; i < 200; i++)
        APP_OK(gpu_put(at(i * SMALL), heap, SMALL)); /* SLOW: put_small */
    expect_data(SMALL, 6);
}

APP_FRAME static void put_small_async(void)
{
    app_bytes_fill(pinned, ARENA, 7);
    for (size_t i = 0, bytes = 16; i < 150; i++, bytes = i < 75 ? 16 : 1024)
        APP_OK(gpu_put_async(at(i * 16), pinned + i * 16, /* SLOW: put_small_async */
                             bytes, stream));
    APP_OK(gpu_stream_sync(stream));
    expect_data(1024, 7);
}

static void *put_in_thread(void *ordinal)
{
    gpu_ptr mine = at((size_t)(uintptr_t)ordinal * LARGE);

    app_gpu_thread();
    for (int i = 0; i < 50; i++)
        APP_OK(gpu_put(mine, heap, SMALL)); /* SLOW: put_in_thread */
    APP_OK(gpu_sync()); /* the last may still be on its way in a stream of the thread */
    return NULL;
}

APP_FRAME static void put_in_threads(void)
{
    pthread_t threads[4];

    app_bytes_fill(heap, SMALL, 8);
    for (uintptr_t i = 0; i < APP_COUNT(threads); i++)
        app_expect(pthread_create(&threads[i], NULL, put_in_thread, (void *)i) == 0,
                   "a thread");
    for (size_t i = 0; i < APP_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    expect_data(SMALL, 8);
}

/* ---- a synchronize after each ------------------------------------------------------ */

APP_FRAME static void put_and_wait(void)
{
    app_bytes_fill(pinned, LARGE, 9);
    for (int i = 0; i < 120; i++) {
        APP_OK(gpu_put_async(arena, pinned, LARGE, stream)); /* SLOW: put_and_wait */
        APP_OK(gpu_stream_sync(stream));
    }
    expect_data(LARGE, 9);
}

/* One in ten is not waited for. */
APP_FRAME static void get_and_wait_for_all(void)
{
    app_bytes_fill(pinned, LARGE, 10);
    APP_OK(gpu_put(arena, pinned, LARGE));
    for (int i = 0; i < 120; i++) {
        APP_OK(gpu_get_async(pinned, arena, LARGE, /* SLOW: get_and_wait_for_all */
                             stream));
        if (i % 10 != 0)
            APP_OK(gpu_sync());
    }
    APP_OK(gpu_sync());
    app_expect(app_bytes_match(pinned, LARGE, 10), "data after a synchronize");
}

/* ---- a slow rate ------------------------------------------------------------------- */

/* After each the device is known to be idle. */
APP_FRAME static void get_slowly(void)
{
    APP_OK(gpu_set(arena, 11, ARENA));
    APP_OK(gpu_sync());
    for (int i = 0; i < 5; i++)
        APP_OK(gpu_get(pinned, arena, APP_MIB)); /* SLOW: get_slowly */
    app_expect(pinned[APP_MIB - 1] == 11, "data of a slow copy");
}

/* Of seven copies two are off the lines of a bus by the GPU's end, two by the host's. */
APP_FRAME static void get_unaligned(void)
{
    static const struct {
        int to, from;
    } off[] = {{0, 0}, {0, 4}, {0, 63}, {1, 0}, {32, 0}, {64, 0}, {0, 128}};

    APP_OK(gpu_set(arena, 13, ARENA));
    APP_OK(gpu_sync());
    for (size_t i = 0; i < sizeof(off) / sizeof(*off); i++)
        APP_OK(gpu_get(pinned + off[i].to, /* SLOW: get_unaligned */
                       at((size_t)off[i].from), APP_MIB));
    app_expect(pinned[APP_MIB - 1] == 13, "data of an unaligned copy");
}

/* The same to pageable memory, which the driver does not copy to directly. */
APP_FRAME static void get_pageable_unaligned(void)
{
    APP_OK(gpu_set(arena, 14, ARENA));
    APP_OK(gpu_sync());
    for (int i = 0; i < 5; i++)
        APP_OK(gpu_get(heap + i + 1, arena, APP_MIB)); /* SLOW: get_pageable_unaligned */
    app_expect(heap[APP_MIB] == 14, "data of a copy to pageable memory");
}

/* The copy has to wait for other work: its time says nothing. */
APP_FRAME static void get_while_busy(void)
{
    for (int i = 0; i < 5; i++) {
        APP_OK(gpu_set(arena, 12, ARENA));
        APP_OK(gpu_get(pinned, arena, APP_MIB));
    }
    app_expect(pinned[APP_MIB - 1] == 12, "data of a copy behind work");
}

/* ---- copies that are right --------------------------------------------------------- */

APP_FRAME static void put_pinned(void)
{
    app_bytes_fill(pinned, LARGE, 20);
    for (int i = 0; i < 120; i++) {
        APP_OK(gpu_put(arena, pinned + i, LARGE)); /* wherever it begins */
        APP_OK(gpu_sync());                        /* it has waited already */
    }
    APP_OK(gpu_move(arena, gpu_from_address(pinned), LARGE));
    expect_data(LARGE, 20);
}

APP_FRAME static void put_registered(void)
{
    unsigned char *page = heap + (PAGE - (uintptr_t)heap % PAGE);

    app_bytes_fill(page, ARENA / 2, 21);
    APP_OK(gpu_host_register(page, ARENA / 2));
    for (int i = 0; i < 20; i++)
        APP_OK(gpu_put(arena, page + (size_t)i * PAGE, LARGE));
    APP_OK(gpu_put(arena, page, LARGE));
    APP_OK(gpu_host_unregister(page));
    expect_data(LARGE, 21);
}

APP_FRAME static void put_managed(void)
{
    gpu_ptr managed;

    APP_OK(gpu_malloc_managed(&managed, 2 * LARGE));
    app_bytes_fill(heap, LARGE, 22);
    for (int i = 0; i < 20; i++) {
        APP_OK(gpu_move(managed, gpu_from_address(heap), LARGE));
        APP_OK(gpu_put(arena, gpu_on_host(managed), LARGE));
        APP_OK(gpu_move(arena, managed, LARGE));
    }
    APP_OK(gpu_free(managed));
    expect_data(LARGE, 22);
}

/* To pin memory for so few is not worth it, nor to gather so few. */
APP_FRAME static void put_few(void)
{
    app_bytes_fill(heap, LARGE, 23);
    for (int i = 0; i < 9; i++)
        APP_OK(gpu_put(arena, heap, LARGE));
    for (size_t i = 0; i < 99; i++)
        APP_OK(gpu_put(at(LARGE), heap, SMALL));
    expect_data(LARGE, 23);
}

/* Small ones, but each with other work before it. */
APP_FRAME static void put_between(void)
{
    app_bytes_fill(heap, 64, 24);
    for (int i = 0; i < 200; i++) {
        APP_OK(gpu_set(at(LARGE), 1, SMALL));
        APP_OK(gpu_put(arena, heap, 64));
    }
    expect_data(64, 24);
}

APP_FRAME static void put_in_turn(void)
{
    app_bytes_fill(pinned, LARGE, 25);
    for (int i = 0; i < 120; i++) {
        APP_OK(gpu_put_async(arena, pinned, LARGE, stream));
        if (i % 20 == 19)
            APP_OK(gpu_stream_sync(stream));
    }
    expect_data(LARGE, 25);
}

/* Each is waited for, but there is work to be done between them. */
APP_FRAME static void get_what_is_needed(void)
{
    for (unsigned char i = 0; i < 120; i++) {
        APP_OK(gpu_set(arena, i, LARGE));
        APP_OK(gpu_sync());
        APP_OK(gpu_get_async(pinned, arena, LARGE, stream));
        APP_OK(gpu_stream_sync(stream));
        app_expect(pinned[LARGE - 1] == i, "data that are needed");
    }
}

/* What is waited for is another stream, or came between. */
APP_FRAME static void put_and_wait_elsewhere(void)
{
    gpu_stream other;

    APP_OK(gpu_stream_create(&other));
    app_bytes_fill(pinned, LARGE, 26);
    for (int i = 0; i < 120; i++) {
        APP_OK(gpu_put_async(arena, pinned, LARGE, stream));
        APP_OK(gpu_put_async(at(LARGE), pinned, LARGE, stream));
        APP_OK(gpu_stream_sync(other));
    }
    for (int i = 0; i < 120; i++) {
        APP_OK(gpu_put_async(arena, pinned, LARGE, stream));
        APP_OK(gpu_put_async(at(LARGE), pinned, LARGE, stream));
        APP_OK(gpu_set(at(2 * LARGE), 1, SMALL));
        APP_OK(gpu_stream_sync(stream));
    }
    APP_OK(gpu_stream_destroy(other));
    expect_data(LARGE, 26);
}

APP_FRAME static void move_on_device(void)
{
    app_bytes_fill(pinned, SMALL, 27);
    APP_OK(gpu_put(at(LARGE), pinned, SMALL));
    for (int i = 0; i < 200; i++)
        APP_OK(gpu_move(arena, at(LARGE), SMALL));
    expect_data(SMALL, 27);
}

/* Copies of a graph: captured, then launched. */
APP_FRAME static void put_in_graph(void)
{
    gpu_graph graph;
    gpu_exec exec;

    app_bytes_fill(pinned, SMALL, 28);
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    for (int i = 0; i < CAPTURED; i++)
        APP_OK(gpu_put_async(arena, pinned, SMALL, stream));
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_instantiate(&exec, graph));
    for (int i = 0; i < 120; i++) {
        APP_OK(gpu_graph_launch(exec, stream));
        APP_OK(gpu_stream_sync(stream));
    }
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
    expect_data(SMALL, 28);
}

/* ---- all of them ------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
    bool apart;
} cases[] = {
    {"pageable", put_pageable, false},
    {"back", get_pageable, false},
    {"unified", move_pageable, false},
    {"async", put_pageable_async, false},
    {"rows", put_rows, false},
    {"small", put_small, false},
    {"small-async", put_small_async, false},
    {"threads", put_in_threads, false},
    {"waited", put_and_wait, false},
    {"waited-all", get_and_wait_for_all, false},
    {"rate", get_slowly, true},
    {"unaligned", get_unaligned, true},
    {"unaligned-heap", get_pageable_unaligned, true},
    {"busy", get_while_busy, true},
    {"pinned", put_pinned, false},
    {"registered", put_registered, false},
    {"managed", put_managed, false},
    {"few", put_few, false},
    {"between", put_between, false},
    {"in-turn", put_in_turn, false},
    {"needed", get_what_is_needed, false},
    {"elsewhere", put_and_wait_elsewhere, false},
    {"device", move_on_device, false},
    {"graph", put_in_graph, false},
};

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    /* The child uses CUDA on its own, and does the same. */
    pid_t child = is_wanted("fork", argc, argv) ? fork() : -1;
    int status = 0;

    app_gpu_start();
    APP_OK(gpu_malloc(&arena, ARENA));
    APP_OK(gpu_malloc_host((void **)&pinned, ARENA));
    APP_OK(gpu_stream_create(&stream));
    for (size_t i = 0; i < APP_COUNT(cases); i++) {
        if (argc > 1 ? is_wanted(cases[i].name, argc, argv) : !cases[i].apart)
            cases[i].run();
    }
    APP_OK(gpu_stream_destroy(stream));
    APP_OK(gpu_free_host(pinned));
    APP_OK(gpu_free(arena));
    if (child > 0)
        app_expect(waitpid(child, &status, 0) == child && status == 0, "the child");
    if (child != 0)
        printf("transfers: %016llx\n", (unsigned long long)sum);
    app_gpu_stop();
    return 0;
}
