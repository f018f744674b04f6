/*
 * inflight.c - pairs of a free and an allocation while work runs.
 *              inflight [held|rolling [STREAMS [THREADS [PAIRS]]]]
 *
 *   held     one kernel runs all the time, until the program lets it go: natively the
 *            first free would wait for it for ever, so this is for the lazy mode alone
 *   rolling  (the default) a short kernel for each pair; all are waited for after every
 *            eighth
 *
 * STREAMS 0 is the legacy stream alone. Of THREADS all but the first only sleep.
 *
 * Proves nothing by itself: an instruction counter, or the simulated driver's log, gives
 * the cost of one pair.
 */
#include "launch.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#define BYTES       ((size_t)4096)
#define LIVE        16
#define MOST        8
#define TOGETHER    8
#define MOST_OTHERS 8

static gpu_stream streams[MOST];
static unsigned stream_count;
static sem_t end;

static void *sleep_until_end(void *unused)
{
    (void)unused;
    while (sem_wait(&end))
        continue;
    return NULL;
}

static gpu_stream stream_of(long i)
{
    return stream_count ? streams[(unsigned long)i % stream_count] : NULL;
}

static void sync_all(void)
{
    for (unsigned i = 0; i < stream_count; i++)
        APP_OK(gpu_stream_sync(streams[i]));
    if (!stream_count)
        APP_OK(gpu_stream_sync(NULL));
}

static void replace(gpu_ptr *block)
{
    APP_OK(gpu_free(*block));
    APP_OK(gpu_malloc(block, BYTES));
}

static void run_pairs(const struct app_kernels *kernels, bool rolling, long pairs)
{
    static gpu_ptr blocks[LIVE];

    for (unsigned i = 0; i < LIVE; i++)
        APP_OK(gpu_malloc(&blocks[i], BYTES));
    fprintf(stderr, "pairs\n");
    for (long i = 0; i < pairs; i++) {
        app_round(i, pairs);
        if (rolling)
            app_fill(kernels, blocks[i % LIVE], BYTES / 4, 1, stream_of(i));
        replace(&blocks[i % LIVE]);
        if (rolling && i % TOGETHER == TOGETHER - 1)
            sync_all();
    }
    app_count_ends();
    fprintf(stderr, "end of pairs\n");
    for (unsigned i = 0; i < LIVE; i++)
        APP_OK(gpu_free(blocks[i]));
}

int main(int argc, char **argv)
{
    bool rolling = argc < 2 || strcmp(argv[1], "rolling") == 0;
    unsigned others = argc > 3 ? (unsigned)atoi(argv[3]) - 1 : 0;
    long pairs = argc > 4 ? atol(argv[4]) : 100;
    pthread_t threads[MOST_OTHERS];
    struct app_kernels kernels;
    uint32_t *word;

    stream_count = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    if (stream_count > MOST || others > MOST_OTHERS)
        return 2;
    sem_init(&end, 0, 0);
    app_gpu_start();
    app_kernels_load(&kernels);
    for (unsigned i = 0; i < stream_count; i++)
        APP_OK(gpu_stream_create(&streams[i]));
    APP_OK(gpu_malloc_host((void **)&word, sizeof(*word)));
    *word = 0;
    for (unsigned i = 0; i < others; i++)
        app_expect(!pthread_create(&threads[i], NULL, sleep_until_end, NULL), "a thread");
    if (!rolling)
        app_hold(&kernels, word, stream_of(0));
    run_pairs(&kernels, rolling, pairs);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    sync_all();
    APP_OK(gpu_free_host(word));
    for (unsigned i = 0; i < others; i++)
        sem_post(&end);
    for (unsigned i = 0; i < others; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < stream_count; i++)
        APP_OK(gpu_stream_destroy(streams[i]));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("inflight: %ld pairs\n", pairs);
    return 0;
}
