/*
 * paused.c - a program whose GPU memory goes away and comes back while it works.
 *
 *   paused_WAY FILE           works until FILE is there: a dot for each round, then how
 *                             much was wrong
 *   paused_WAY FILE capture   each round is captured and launched as a graph
 *   paused_WAY FILE device    without managed memory, which a driver may not checkpoint
 *
 * A round checks what lies in memory of every kind, writes it anew, and takes and gives
 * back some; two threads do so. Proves that a pause at any moment changes nothing.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

#define KEPT  6
#define BYTES ((size_t)192 << 10)

static const char *stop_file;
static gpu_stream stream;
static bool has_managed = true; /* immutable once work began */
static uint64_t wrong;          /* atomic */

static bool is_over(void)
{
    return access(stop_file, F_OK) == 0;
}

/* Memory that stays, of each kind. */
struct memory {
    gpu_ptr kept[KEPT], unified;
    unsigned char *pinned, *managed, *host;
};

static void take(struct memory *memory, uint32_t seed)
{
    for (unsigned i = 0; i < KEPT; i++)
        APP_OK(gpu_malloc(&memory->kept[i], BYTES << i));
    APP_OK(gpu_malloc_host((void **)&memory->pinned, BYTES));
    if (has_managed) {
        APP_OK(gpu_malloc_managed(&memory->unified, BYTES));
        memory->managed = gpu_on_host(memory->unified);
    } else {
        memory->managed = malloc(BYTES);
    }
    memory->host = malloc(BYTES);
    app_bytes_fill(memory->pinned, BYTES, seed);
    app_bytes_fill(memory->managed, BYTES, seed);
    for (unsigned i = 0; i < KEPT; i++)
        APP_OK(gpu_put(memory->kept[i], memory->pinned, BYTES));
}

static void give(struct memory *memory)
{
    for (unsigned i = 0; i < KEPT; i++)
        APP_OK(gpu_free(memory->kept[i]));
    APP_OK(gpu_free_host(memory->pinned));
    if (has_managed)
        APP_OK(gpu_free(memory->unified));
    else
        free(memory->managed);
    free(memory->host);
}

static void check(const unsigned char *bytes, uint32_t seed)
{
    if (!app_bytes_match(bytes, BYTES, seed))
        __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static void work(struct memory *memory, uint32_t seed)
{
    gpu_ptr some, ordered;

    APP_OK(gpu_malloc(&some, BYTES * (1 + seed % 40)));
    APP_OK(gpu_put(some, memory->pinned, BYTES));
    APP_OK(gpu_malloc_async(&ordered, BYTES * (1 + seed % 7), stream));
    for (unsigned i = 0; i < KEPT; i++) {
        APP_OK(gpu_get(memory->host, memory->kept[i], BYTES));
        check(memory->host, seed);
    }
    APP_OK(gpu_get(memory->host, some, BYTES));
    check(memory->host, seed);
    check(memory->managed, seed);
    app_bytes_fill(memory->pinned, BYTES, seed + 1);
    app_bytes_fill(memory->managed, BYTES, seed + 1);
    for (unsigned i = 0; i < KEPT; i++)
        APP_OK(gpu_put_async(memory->kept[i], memory->pinned, BYTES, stream));
    APP_OK(gpu_free_async(ordered, stream));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_free(some));
}

static void *work_in_thread(void *unused)
{
    struct memory memory;
    uint32_t seed = 1000;

    app_gpu_thread();
    take(&memory, seed);
    while (!is_over())
        work(&memory, seed++);
    give(&memory);
    return unused;
}

static void capture(struct memory *memory)
{
    gpu_graph graph;
    gpu_exec exec;

    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    for (unsigned i = 1; i < KEPT; i++)
        APP_OK(gpu_put_async(memory->kept[i], memory->pinned, BYTES, stream));
    usleep(2000);
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_instantiate(&exec, graph));
    APP_OK(gpu_graph_launch(exec, stream));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";
    bool captures = strcmp(what, "capture") == 0;
    struct memory memory;
    pthread_t thread;
    uint32_t seed = 1;

    has_managed = strcmp(what, "device") != 0;
    stop_file = argc > 1 ? argv[1] : "/";
    alarm(120); /* whoever was to make the file may have failed */
    app_gpu_start();
    APP_OK(gpu_stream_create(&stream));
    take(&memory, seed);
    if (!captures)
        pthread_create(&thread, NULL, work_in_thread, NULL);
    do {
        if (captures)
            capture(&memory);
        work(&memory, seed++);
        putchar('.');
        fflush(stdout);
        usleep(1000);
    } while (!is_over());
    if (!captures)
        pthread_join(thread, NULL);
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_stream_destroy(stream));
    give(&memory);
    printf("\n%llu wrong\n", (unsigned long long)wrong);
    return wrong != 0;
}
