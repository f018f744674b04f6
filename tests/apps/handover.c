/*
 * handover.c - threads that free what other threads have allocated, for tools that look
 * for races: over the simulated device nothing else runs, so that they find none.
 */
#include <pthread.h>

#include "gpu.h"

#define THREADS 3
#define ROUNDS  60
#define PLACES  4

static gpu_ptr places[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *exchange(void *unused)
{
    app_gpu_thread();
    for (size_t i = 0; i < ROUNDS; i++) {
        gpu_ptr block, before;

        APP_OK(gpu_malloc(&block, 1000 + 100 * i));
        pthread_mutex_lock(&lock);
        before = places[i % PLACES];
        places[i % PLACES] = block;
        pthread_mutex_unlock(&lock);
        if (before)
            APP_OK(gpu_free(before));
    }
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];

    app_gpu_start();
    for (int i = 0; i < THREADS; i++)
        app_expect(pthread_create(&threads[i], NULL, exchange, NULL) == 0,
                   "pthread_create");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < PLACES; i++)
        APP_OK(gpu_free(places[i]));
    printf("handover: %d blocks\n", THREADS * ROUNDS);
    return 0;
}
