/*
 * resets.c - the device is reset again and again while other threads allocate and free.
 *
 * Proves that a thread whose context ends within its allocation or free harms no later
 * context: the program goes on as natively, and afterwards no two allocations overlap.
 *
 * resets [COUNT]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "gpu.h"

enum { THREADS = 6, BLOCKS = 200, MOST = 200000, PAUSE_US = 300 };

static atomic_bool done;

/* What the calls answer depends on the moment, as natively. */
static void *makes_calls(void *seed)
{
    unsigned state = (unsigned)(size_t)seed;

    app_gpu_thread();
    while (!done) {
        gpu_ptr block = (gpu_ptr)0;

        if (gpu_malloc(&block, 1 + (size_t)(rand_r(&state) % MOST)) == 0)
            (void)gpu_free(block);
    }
    return NULL;
}

static void allocate_apart(void)
{
    gpu_ptr blocks[BLOCKS];
    uintptr_t begins[BLOCKS], ends[BLOCKS];
    int overlaps = 0;

    for (int i = 0; i < BLOCKS; i++) {
        size_t bytes = 1 + (size_t)i * 1000;

        APP_OK(gpu_malloc(&blocks[i], bytes));
        begins[i] = (uintptr_t)blocks[i];
        ends[i] = begins[i] + bytes;
        for (int j = 0; j < i; j++)
            overlaps += begins[i] < ends[j] && begins[j] < ends[i];
    }
    for (int i = 0; i < BLOCKS; i++)
        APP_OK(gpu_free(blocks[i]));
    printf("resets: %d of the blocks afterwards overlap\n", overlaps);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1000;
    pthread_t threads[THREADS];

    app_gpu_start();
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, makes_calls, (void *)(i + 1));
    for (int i = 0; i < count; i++) {
        usleep(PAUSE_US);
        app_gpu_reset();
    }
    done = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    allocate_apart();
    return 0;
}
