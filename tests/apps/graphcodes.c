/*
 * graphcodes.c - what frees answer while a stream captures, and what becomes of the
 * capture.
 *
 *   graphcodes [KIND...]   small large crossed pitched ordered queued pinned managed (all
 * of them)
 *
 * Proves, compared with what it prints natively, that a free of each kind of memory in
 * each mode of capture, by the capturing thread and by another one, while the device is
 * idle and while it works, has the driver's own answer; that a capture it ends natively
 * is ended, and no other; and that the memory comes and goes as before afterwards.
 */
#include <pthread.h>

#include "launch.h"

#define SMALL ((size_t)4096)
#define LARGE (4 * APP_MIB)

static struct app_kernels kernels;
static gpu_stream stream, beside;

static void forget_error(void)
{
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

/* ---- kinds of memory ----------------------------------------------------------------
 */

static gpu_ptr new_small(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, SMALL));
    return block;
}

static gpu_ptr new_large(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, LARGE));
    return block;
}

static gpu_ptr new_pitched(void)
{
    gpu_ptr block;
    size_t pitch;

    APP_OK(gpu_malloc_pitch(&block, &pitch, SMALL, 4));
    return block;
}

static gpu_ptr new_ordered(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc_async(&block, SMALL, beside));
    APP_OK(gpu_stream_sync(beside));
    return block;
}

static gpu_ptr new_pinned(void)
{
    void *block;

    APP_OK(gpu_malloc_host(&block, SMALL));
    return gpu_from_address((uintptr_t)block);
}

static gpu_ptr new_managed(void)
{
    gpu_ptr block;

    APP_OK(gpu_malloc_managed(&block, SMALL));
    return block;
}

static int free_plainly(gpu_ptr block)
{
    return (int)gpu_free(block);
}

static int free_queued(gpu_ptr block)
{
    return (int)gpu_free_async(block, beside);
}

static int free_pinned(gpu_ptr block)
{
    return (int)gpu_free_host(gpu_on_host(gpu_address(block)));
}

static const struct kind {
    const char *name;
    gpu_ptr (*make)(void);
    int (*release)(gpu_ptr block);
} kinds[] = {
    {"small", new_small, free_plainly},     {"large", new_large, free_plainly},
    {"crossed", new_small, free_queued},    {"pitched", new_pitched, free_plainly},
    {"ordered", new_ordered, free_plainly}, {"queued", new_ordered, free_queued},
    {"pinned", new_pinned, free_pinned},    {"managed", new_managed, free_plainly},
};

static const struct {
    const char *name;
    int value; /* the same in both APIs */
} modes[] = {{"global", 0}, {"thread local", 1}, {"relaxed", 2}};

/* ---- a free in a capture ------------------------------------------------------------
 */

struct order {
    const struct kind *kind;
    gpu_ptr block;
    int code;
};

static void *release(void *argument)
{
    struct order *order = argument;

    app_gpu_thread();
    order->code = order->kind->release(order->block);
    forget_error();
    return NULL;
}

static int release_elsewhere(const struct kind *kind, gpu_ptr block)
{
    struct order order = {kind, block, -1};
    pthread_t thread;

    app_expect(pthread_create(&thread, NULL, release, &order) == 0, "no thread");
    pthread_join(thread, NULL);
    return order.code;
}

static void try(const struct kind *kind, unsigned mode, bool elsewhere, bool busy)
{
    gpu_ptr block = kind->make(), other;
    gpu_graph graph = NULL;
    int code, end;

    APP_OK(gpu_malloc(&other, SMALL));
    APP_OK(gpu_sync());
    if (busy)
        app_fill(&kernels, other, SMALL / 4, 1, beside);
    APP_OK(gpu_begin_capture(stream, modes[mode].value));
    app_fill(&kernels, other, SMALL / 4, 2, stream);
    code = elsewhere ? release_elsewhere(kind, block) : kind->release(block);
    forget_error();
    end = (int)gpu_end_capture(stream, &graph);
    forget_error();
    printf("graphcodes: %s, %s, %s thread, %s: %d, its end %d\n", kind->name,
           modes[mode].name, elsewhere ? "another" : "that", busy ? "busy" : "idle", code,
           end);
    if (graph)
        APP_OK(gpu_graph_destroy(graph));
    if (code != 0)
        APP_OK(kind->release(block));
    APP_OK(gpu_free(other));
    block = kind->make();
    APP_OK(kind->release(block));
    APP_OK(gpu_sync());
}

static void try_kind(const struct kind *kind)
{
    for (unsigned mode = 0; mode < APP_COUNT(modes); mode++) {
        for (unsigned how = 0; how < 4; how++)
            try(kind, mode, how & 1, how & 2);
    }
}

/* ---- its end ------------------------------------------------------------------------
 */

struct capture {
    gpu_graph graph;
    int code;
};

static void *end_capture(void *argument)
{
    struct capture *capture = argument;

    app_gpu_thread();
    capture->code = (int)gpu_end_capture(stream, &capture->graph);
    forget_error();
    return NULL;
}

/* Begun by this thread, ended by another, and where that is refused, by this one. */
static void end_elsewhere(unsigned mode)
{
    struct capture capture = {NULL, -1};
    gpu_ptr other = new_small();
    pthread_t thread;
    int again = 0;

    APP_OK(gpu_begin_capture(stream, modes[mode].value));
    app_fill(&kernels, other, SMALL / 4, 2, stream);
    app_expect(pthread_create(&thread, NULL, end_capture, &capture) == 0, "no thread");
    pthread_join(thread, NULL);
    if (capture.code != 0)
        again = (int)gpu_end_capture(stream, &capture.graph);
    forget_error();
    printf("graphcodes: %s, ended by another thread: %d, then %d\n", modes[mode].name,
           capture.code, again);
    if (capture.graph)
        APP_OK(gpu_graph_destroy(capture.graph));
    APP_OK(gpu_free(other));
    APP_OK(gpu_free(new_large()));
}

int main(int argc, char **argv)
{
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_stream_create(&beside));
    for (unsigned i = 0; i < APP_COUNT(kinds); i++) {
        bool wanted = argc == 1;
        for (int k = 1; k < argc; k++)
            wanted |= strcmp(argv[k], kinds[i].name) == 0;
        if (wanted)
            try_kind(&kinds[i]);
    }
    for (unsigned mode = 0; argc == 1 && mode < APP_COUNT(modes); mode++)
        end_elsewhere(mode);
    APP_OK(gpu_stream_destroy(beside));
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    return 0;
}
