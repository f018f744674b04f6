/*
 * capture.c - stream capture, and memory that comes and goes while a stream captures.
 *
 *   capture [STEP...]     replay free allocate async thread destroyed ended (all of
 * them), and forbidden: a free that the capture forbids
 *   capture reset         the device is reset while the stream captures; then memory
 * comes and goes between the lines `rounds` and `end of rounds` on stderr
 *
 * Proves that a captured graph computes the same each time it is launched; that a block
 * may be freed, by any thread, while another one captures and does not forbid it; that an
 * allocation is served in a relaxed capture and refused in a global one, however many
 * cached blocks would fit; that allocations of a graph are no leaks; that a capture which
 * ends badly leaves nothing behind: afterwards memory comes and goes as before.
 */
#include <pthread.h>

#include "launch.h"

#define COUNT ((size_t)20000)
#define BYTES (COUNT * 4)

#define GPU_CAPTURE_THREAD_LOCAL 1 /* the same in both APIs */

enum { NOT_SUPPORTED = 801 };

static struct app_kernels kernels;
static gpu_stream stream;
static uint32_t *host; /* page-locked, BYTES */
static uint64_t sum = APP_CHECKSUM;

static void forget_error(void)
{
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

static bool supported(void)
{
    gpu_graph graph;
    int code = (int)gpu_begin_capture(stream, GPU_CAPTURE_RELAXED);

    forget_error();
    if (code == NOT_SUPPORTED)
        return false;
    app_check(code, "begin capture", __FILE__, __LINE__);
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_graph_destroy(graph));
    return true;
}

/* Run a graph a few times, each time on cleared memory of the host, and destroy it. */
static void run_graph(gpu_graph graph, gpu_stream on)
{
    gpu_exec exec;

    APP_OK(gpu_instantiate(&exec, graph));
    for (int launch = 0; launch < 3; launch++) {
        memset(host, 0, BYTES);
        APP_OK(gpu_graph_launch(exec, on));
        APP_OK(gpu_stream_sync(on));
        sum = app_checksum(sum, host, BYTES);
    }
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
}

/* Fill, copy, add and read back: two blocks that live outside the graph. */
static void enqueue_work(gpu_ptr left, gpu_ptr right, uint32_t seed, gpu_stream on)
{
    app_fill(&kernels, left, COUNT, seed, on);
    app_copy(&kernels, right, left, COUNT, on);
    app_add(&kernels, right, left, COUNT, on);
    APP_OK(gpu_get_async(host, right, BYTES, on));
}

/* Memory comes and goes as if nothing had been captured. */
static void allocate_and_free(uint32_t seed)
{
    gpu_ptr blocks[4];

    for (unsigned i = 0; i < APP_COUNT(blocks); i++) {
        APP_OK(gpu_malloc(&blocks[i], BYTES));
        app_fill(&kernels, blocks[i], COUNT, seed + i, stream);
    }
    for (unsigned i = 0; i < APP_COUNT(blocks); i++) {
        app_expect(app_mismatches(&kernels, blocks[i], COUNT, seed + i, stream) == 0,
                   "blocks after a capture overlap");
        APP_OK(gpu_free(blocks[i]));
    }
}

static void step_replay(void)
{
    gpu_ptr left, right;
    gpu_graph graph;

    APP_OK(gpu_malloc(&left, BYTES));
    APP_OK(gpu_malloc(&right, BYTES));
    APP_OK(gpu_sync());
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_THREAD_LOCAL));
    enqueue_work(left, right, 77, stream);
    APP_OK(gpu_end_capture(stream, &graph));
    run_graph(graph, stream);
    APP_OK(gpu_free(right));
    APP_OK(gpu_free(left));
}

struct free_order {
    gpu_ptr block;
    int code;
};

static void *free_on_thread(void *argument)
{
    struct free_order *order = argument;

    app_gpu_thread();
    order->code = (int)gpu_free(order->block);
    forget_error();
    return NULL;
}

/* What a free on another thread answers. */
static int free_elsewhere(gpu_ptr block)
{
    struct free_order order = {block, -1};
    pthread_t thread;

    app_expect(pthread_create(&thread, NULL, free_on_thread, &order) == 0, "no thread");
    pthread_join(thread, NULL);
    return order.code;
}

/* Free two blocks while a capture of that mode runs, here and on another thread. */
static void free_during(const char *name, int mode, bool here)
{
    gpu_ptr left, right, mine, other;
    gpu_graph graph = NULL;

    APP_OK(gpu_malloc(&left, BYTES));
    APP_OK(gpu_malloc(&right, BYTES));
    APP_OK(gpu_malloc(&mine, BYTES));
    APP_OK(gpu_malloc(&other, BYTES));
    APP_OK(gpu_begin_capture(stream, mode));
    app_fill(&kernels, left, COUNT, 5, stream);
    printf("capture: %s: a free on another thread answers %d\n", name,
           free_elsewhere(other));
    if (here)
        printf("capture: %s: a free answers %d\n", name, (int)gpu_free(mine));
    app_copy(&kernels, right, left, COUNT, stream);
    APP_OK(gpu_get_async(host, right, BYTES, stream));
    printf("capture: %s: its end answers %d\n", name,
           (int)gpu_end_capture(stream, &graph));
    forget_error();
    if (!here)
        APP_OK(gpu_free(mine));
    if (graph)
        run_graph(graph, stream);
    APP_OK(gpu_free(right));
    APP_OK(gpu_free(left));
    allocate_and_free(40);
}

static void step_free(void)
{
    free_during("relaxed", GPU_CAPTURE_RELAXED, true);
    free_during("thread local", GPU_CAPTURE_THREAD_LOCAL, false);
}

/* A free by the very thread that captures, in a mode that is not relaxed. */
static void step_forbidden(void)
{
    gpu_ptr block;
    gpu_graph graph = NULL;

    APP_OK(gpu_malloc(&block, BYTES));
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_THREAD_LOCAL));
    int code = (int)gpu_free(block);
    printf("capture: a forbidden free answers %d\n", code);
    forget_error();
    printf("capture: its end answers %d\n", (int)gpu_end_capture(stream, &graph));
    forget_error();
    if (graph)
        APP_OK(gpu_graph_destroy(graph));
    if (code != 0)
        APP_OK(gpu_free(block));
}

/* Served in a relaxed capture, refused in a global one. */
static void step_allocate(void)
{
    gpu_ptr left, right, other, refused = 0;
    gpu_graph graph = NULL;
    int code;

    APP_OK(gpu_malloc(&left, BYTES));
    APP_OK(gpu_malloc(&right, BYTES));
    APP_OK(gpu_sync());
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    APP_OK(gpu_malloc(&other, BYTES));
    enqueue_work(left, right, 78, stream);
    APP_OK(gpu_end_capture(stream, &graph));
    run_graph(graph, stream);
    APP_OK(gpu_free(other));
    APP_OK(gpu_free(right));
    APP_OK(gpu_free(left));

    graph = NULL;
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_GLOBAL));
    code = (int)gpu_malloc(&refused, BYTES);
    printf("capture: malloc in a global capture answers %d\n", code);
    printf("capture: its end answers %d\n", (int)gpu_end_capture(stream, &graph));
    forget_error();
    if (code == 0)
        APP_OK(gpu_free(refused));
    if (graph)
        APP_OK(gpu_graph_destroy(graph));
    allocate_and_free(50);
}

/* Memory that the graph allocates and frees at every launch. */
static void step_async(void)
{
    gpu_ptr left, right;
    gpu_graph graph;

    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_GLOBAL));
    APP_OK(gpu_malloc_async(&left, BYTES, stream));
    APP_OK(gpu_malloc_async(&right, BYTES, stream));
    enqueue_work(left, right, 79, stream);
    APP_OK(gpu_free_async(right, stream));
    APP_OK(gpu_free_async(left, stream));
    APP_OK(gpu_end_capture(stream, &graph));
    run_graph(graph, stream);
    allocate_and_free(60);
}

/* A capture in the default stream of a thread, which is a blocking one. */
static void step_thread(void)
{
    gpu_stream own = (gpu_stream)CU_STREAM_PER_THREAD;
    gpu_ptr left, right, other;
    gpu_graph graph;

    APP_OK(gpu_malloc(&left, BYTES));
    APP_OK(gpu_malloc(&right, BYTES));
    APP_OK(gpu_malloc(&other, BYTES));
    APP_OK(gpu_sync());
    APP_OK(gpu_begin_capture(own, GPU_CAPTURE_RELAXED));
    enqueue_work(left, right, 80, own);
    APP_OK(gpu_free(other));
    APP_OK(gpu_malloc(&other, BYTES));
    APP_OK(gpu_end_capture(own, &graph));
    run_graph(graph, own);
    APP_OK(gpu_free(other));
    APP_OK(gpu_free(right));
    APP_OK(gpu_free(left));
    allocate_and_free(70);
}

/* The stream goes away with its capture. */
static void step_destroyed(void)
{
    gpu_stream doomed;
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, BYTES));
    APP_OK(gpu_stream_create(&doomed));
    APP_OK(gpu_begin_capture(doomed, GPU_CAPTURE_RELAXED));
    app_fill(&kernels, block, COUNT, 6, doomed);
    printf("capture: destroying a capturing stream answers %d\n",
           (int)gpu_stream_destroy(doomed));
    forget_error();
    allocate_and_free(80);
    APP_OK(gpu_free(block));
}

/* Asking a capturing stream invalidates its capture, which still has to be ended. */
static void step_ended(void)
{
    gpu_ptr block;
    gpu_graph graph = NULL;

    APP_OK(gpu_malloc(&block, BYTES));
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    app_fill(&kernels, block, COUNT, 7, stream);
    printf("capture: waiting for a capturing stream answers %d\n",
           (int)gpu_stream_sync(stream));
    printf("capture: its end answers %d\n", (int)gpu_end_capture(stream, &graph));
    forget_error();
    app_expect(!graph, "an invalidated capture gave a graph");
    allocate_and_free(90);
    APP_OK(gpu_free(block));
}

/* The stream and its context go away with the capture, and all that main has made. */
static void reset(void)
{
    gpu_ptr block;

    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    app_gpu_reset();
    APP_OK(gpu_malloc(&block, BYTES));
    APP_OK(gpu_free(block));
    fprintf(stderr, "rounds\n");
    for (int i = 0; i < 50; i++) {
        APP_OK(gpu_malloc(&block, BYTES));
        APP_OK(gpu_set(block, i, BYTES));
        APP_OK(gpu_free(block));
    }
    fprintf(stderr, "end of rounds\n");
    printf("capture: reset\n");
}

static const struct {
    const char *name;
    void (*run)(void);
} steps[] = {
    {"replay", step_replay}, {"free", step_free},           {"allocate", step_allocate},
    {"async", step_async},   {"thread", step_thread},       {"destroyed", step_destroyed},
    {"ended", step_ended},   {"forbidden", step_forbidden},
};

static void run_step(const char *name)
{
    for (unsigned i = 0; i < APP_COUNT(steps); i++) {
        if (strcmp(name, steps[i].name) == 0) {
            steps[i].run();
            return;
        }
    }
    app_fail("no such step", name);
}

int main(int argc, char **argv)
{
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    if (!supported()) {
        printf("capture: not supported\n");
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "reset") == 0) {
        reset();
        return 0;
    }
    APP_OK(gpu_malloc_host((void **)&host, BYTES));
    for (int i = 1; i < argc; i++)
        run_step(argv[i]);
    for (unsigned i = 0; argc == 1 && i + 1 < APP_COUNT(steps); i++)
        steps[i].run(); /* all but the last */
    APP_OK(gpu_free_host(host));
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("capture: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
