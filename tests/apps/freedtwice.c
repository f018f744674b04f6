/*
 * freedtwice.c - frees memory of one kind twice, in two functions; prints the answers.
 *
 *   freedtwice KIND            small, large, ordered, managed or pinned
 *   freedtwice KIND elsewhere  the first free is another thread's
 *   freedtwice KIND loop       the thread frees 60,000 other blocks before
 *   freedtwice KIND late       and between the two
 *
 * Proves that the report names both frees and the allocation, whatever is freed.
 */
#include "launch.h"

#include <pthread.h>

#define OTHERS 60000

static const char *kind;
static gpu_stream stream;
static void *pinned;
static gpu_ptr block;

static bool is(const char *name)
{
    return strcmp(kind, name) == 0;
}

/* A macro, so that the call is in the function that it is named after. */
#define FREE_IT()                                                                        \
    (is("pinned")    ? (int)gpu_free_host(pinned)                                        \
     : is("ordered") ? (int)gpu_free_async(block, stream)                                \
                     : (int)gpu_free(block))

APP_FRAME static void take(void)
{
    if (is("small"))
        APP_OK(gpu_malloc(&block, 5000));
    else if (is("large"))
        APP_OK(gpu_malloc(&block, 5 * APP_MIB));
    else if (is("ordered"))
        APP_OK(gpu_malloc_async(&block, 5000, stream));
    else if (is("managed"))
        APP_OK(gpu_malloc_managed(&block, 5 * APP_MIB));
    else if (is("pinned"))
        APP_OK(gpu_malloc_host(&pinned, 5000));
    else
        app_fail("no such kind of memory", kind);
}

APP_FRAME static void give_first(void)
{
    app_expect(FREE_IT() == 0, "the first free");
}

APP_FRAME static void give_again(void)
{
    printf("freedtwice: %s again %d\n", kind, FREE_IT());
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

static void *thread_main(void *unused)
{
    app_gpu_thread();
    give_first();
    return unused;
}

/* Frees as many addresses as no history of frees has, within milliseconds. */
static void free_others(void)
{
    static gpu_ptr others[OTHERS];

    for (int i = 0; i < OTHERS; i++)
        APP_OK(gpu_malloc(&others[i], 512));
    for (int i = 0; i < OTHERS; i++)
        APP_OK(gpu_free(others[i]));
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[2] : "";
    gpu_ptr first;

    kind = argc > 1 ? argv[1] : "small";
    app_gpu_start();
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_malloc(&first, 5000)); /* so that segments and pools exist */
    if (strcmp(how, "loop") == 0)
        free_others();
    take();
    if (strcmp(how, "elsewhere") == 0) {
        pthread_t thread;

        app_expect(pthread_create(&thread, NULL, thread_main, NULL) == 0, "a thread");
        pthread_join(thread, NULL);
    } else {
        give_first();
    }
    if (strcmp(how, "late") == 0)
        free_others();
    give_again();
    APP_OK(gpu_free(first));
    APP_OK(gpu_stream_destroy(stream));
    app_gpu_stop();
    return 0;
}
