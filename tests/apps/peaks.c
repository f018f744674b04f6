/*
 * peaks.c - a program that knows itself who held its memory when there was most of it.
 *
 *   peaks               three places, which all give back what they had
 *   peaks leak          likewise, but for one
 *
 *   peaks random SEED   allocates and frees at random, in five places; prints its peak,
 *                       and what each place had of it
 *
 *   peaks threads       eight threads do so at once; most is held while all of them wait
 */
#include "launch.h"

#include <pthread.h>
#include <string.h>

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)

/* A place each, whatever the compiler thinks of it. */
#define PLACE(name)                                                                      \
    static __attribute__((noinline)) gpu_ptr name(size_t bytes)                          \
    {                                                                                    \
        gpu_ptr memory = 0;                                                              \
        APP_OK(gpu_malloc(&memory, bytes));                                              \
        __asm__ volatile("" ::: "memory");                                               \
        return memory;                                                                   \
    }

PLACE(weights)
PLACE(activations)
PLACE(scratch)
PLACE(batches)
PLACE(tables)

static gpu_ptr (*const places[])(size_t) = {weights, activations, scratch, batches,
                                            tables};
static const char *const names[] = {"weights", "activations", "scratch", "batches",
                                    "tables"};
#define PLACES (sizeof(places) / sizeof(*places))

static void steps(bool leak)
{
    gpu_ptr kept = weights(4 * MIB), large[6], small;

    for (int i = 0; i < 6; i++)
        large[i] = activations(8 * MIB);
    small = scratch(2 * MIB); /* here it holds most */
    for (int i = 0; i < 6; i++)
        APP_OK(gpu_free(large[i]));
    for (int i = 0; i < 20; i++)
        APP_OK(gpu_free(batches(16 * MIB)));
    APP_OK(gpu_free(small));
    if (!leak)
        APP_OK(gpu_free(kept));
    printf("peaks: 54 MiB at most\n");
}

/* ---- at random ------------------------------------------------------------------------
 */

#define BLOCKS 400

static uint64_t state;

static uint32_t next_random(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 20) % below;
}

static void at_random(uint64_t seed)
{
    static struct {
        gpu_ptr memory;
        size_t bytes;
        unsigned place;
    } blocks[BLOCKS];
    size_t held[PLACES] = {0}, most[PLACES] = {0}, all = 0, peak = 0;
    unsigned count = 0;

    state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int step = 0; step < 6000; step++) {
        /* Full and empty by turns, fuller for a while each time. */
        unsigned aim = 20 + (unsigned)(step / 500) * 25 + next_random(40);

        if (count < BLOCKS && (count == 0 || count < aim)) {
            unsigned place = next_random(PLACES);
            size_t bytes = (1 + next_random(200)) * 512;

            blocks[count].memory = places[place](bytes);
            blocks[count].bytes = bytes;
            blocks[count++].place = place;
            held[place] += bytes;
            all += bytes;
        } else {
            unsigned gone = next_random(count);

            APP_OK(gpu_free(blocks[gone].memory));
            held[blocks[gone].place] -= blocks[gone].bytes;
            all -= blocks[gone].bytes;
            blocks[gone] = blocks[--count];
        }
        if (all > peak) {
            peak = all;
            memcpy(most, held, sizeof(most));
        }
    }
    while (count > next_random(30))
        APP_OK(gpu_free(blocks[--count].memory));
    printf("peak %zu\n", peak);
    for (unsigned i = 0; i < PLACES; i++)
        printf("%s %zu\n", names[i], most[i]);
}

/* ---- threads --------------------------------------------------------------------------
 */

#define THREADS 8

static pthread_barrier_t all_hold;

static void *one_thread(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    gpu_ptr held[50];

    app_gpu_thread();
    for (int round = 0; round < 200; round++)
        APP_OK(gpu_free(scratch((1 + (size_t)round % 7) * KIB)));
    pthread_barrier_wait(&all_hold);
    for (unsigned i = 0; i < 50; i++)
        held[i] = places[number % 2](64 * KIB);
    pthread_barrier_wait(&all_hold); /* 25 MiB are held here, and never more */
    for (unsigned i = 0; i < 50; i++)
        APP_OK(gpu_free(held[i]));
    for (int round = 0; round < 200; round++)
        APP_OK(gpu_free(scratch((1 + (size_t)round % 7) * KIB)));
    return NULL;
}

static void with_threads(void)
{
    pthread_t threads[THREADS];

    pthread_barrier_init(&all_hold, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        app_expect(pthread_create(&threads[i], NULL, one_thread, (void *)(uintptr_t)i) ==
                       0,
                   "a thread");
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("peak %zu\n%s %zu\n%s %zu\n", THREADS * 50 * 64 * KIB, names[0],
           THREADS / 2 * 50 * 64 * KIB, names[1], THREADS / 2 * 50 * 64 * KIB);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    app_gpu_start();
    if (strcmp(what, "random") == 0)
        at_random(argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
    else if (strcmp(what, "threads") == 0)
        with_threads();
    else
        steps(strcmp(what, "leak") == 0);
    return 0;
}
