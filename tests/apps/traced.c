/*
 * traced.c - a server whose trace begins and ends while it runs.   traced_WAY FOLDER
 * [toggle]
 *
 * Four threads take and free memory of each kind at random. While the file FOLDER/pause
 * is there they rest, and the program says what is live; it ends once FOLDER/over is
 * there.
 *
 *   toggle   begins and ends traces and changes limits itself, then ends
 *
 * Proves that a trace that began at any moment has what is live when it ends, to the byte
 * and at its lines.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu.h"
#include "gpushim.h"

enum { THREADS = 4, SLOTS = 48, MOST_TURNS = 60 * 1000 };
enum kind { SMALL, LARGE, ORDERED, MANAGED, PINNED, KINDS };

static struct slot {
    enum kind kind;
    gpu_ptr device;
    void *host;
    size_t bytes; /* 0: free */
} slots[THREADS][SLOTS];

static int pausing, resting, over; /* atomic */
static const char *folder;

APP_FRAME static void take(struct slot *slot, size_t bytes, gpu_stream stream)
{
    if (slot->kind == ORDERED) {
        APP_OK(gpu_malloc_async(&slot->device, bytes, stream));
    } else if (slot->kind == MANAGED) {
        APP_OK(gpu_malloc_managed(&slot->device, bytes));
    } else if (slot->kind == PINNED) {
        APP_OK(gpu_malloc_host(&slot->host, bytes));
    } else {
        APP_OK(gpu_malloc(&slot->device, bytes));
    }
    slot->bytes = bytes;
}

static void give(struct slot *slot, gpu_stream stream)
{
    if (slot->kind == ORDERED) {
        APP_OK(gpu_free_async(slot->device, stream));
    } else if (slot->kind == PINNED) {
        APP_OK(gpu_free_host(slot->host));
    } else {
        APP_OK(gpu_free(slot->device));
    }
    slot->bytes = 0;
}

static void *serve(void *own)
{
    struct slot *mine = own;
    unsigned seed = (unsigned)(mine - &slots[0][0]) + 1;
    gpu_stream stream;

    app_gpu_thread();
    APP_OK(gpu_stream_create(&stream));
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        struct slot *slot = &mine[rand_r(&seed) % SLOTS];

        if (__atomic_load_n(&pausing, __ATOMIC_ACQUIRE)) {
            __atomic_add_fetch(&resting, 1, __ATOMIC_SEQ_CST);
            while (__atomic_load_n(&pausing, __ATOMIC_ACQUIRE))
                usleep(1000);
            __atomic_sub_fetch(&resting, 1, __ATOMIC_SEQ_CST);
            continue;
        }
        if (slot->bytes) {
            give(slot, stream);
        } else {
            slot->kind = (enum kind)(rand_r(&seed) % KINDS);
            take(slot,
                 slot->kind == LARGE ? (size_t)(2 + rand_r(&seed) % 3) << 20
                                     : (size_t)(1 + rand_r(&seed) % 64) << 9,
                 stream);
        }
        usleep(200);
    }
    return NULL;
}

static void say_live(void)
{
    uint64_t bytes[2] = {0}, count[2] = {0};

    for (size_t i = 0; i < THREADS * SLOTS; i++) {
        const struct slot *slot = &slots[i / SLOTS][i % SLOTS];

        bytes[slot->kind == PINNED] += slot->bytes;
        count[slot->kind == PINNED] += slot->bytes > 0;
    }
    printf("traced: GPU %llu in %llu, host %llu in %llu\n", (unsigned long long)bytes[0],
           (unsigned long long)count[0], (unsigned long long)bytes[1],
           (unsigned long long)count[1]);
    fflush(stdout);
}

static void *toggle(void *unused)
{
    char path[4096];

    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof(path), "%s/trace%d", folder, i);
        (void)gpushim_set_option("TRACE_FILE", path, NULL, 0);
        usleep(50000);
        (void)gpushim_set_option("POOL_CACHE", i % 2 ? "1M" : "64M", NULL, 0);
        (void)gpushim_set_option("PRESSURE", i % 2 ? "warning:0.75" : "", NULL, 0);
        (void)gpushim_set_option("TRACE_FILE", "", NULL, 0);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    return unused;
}

static int is_there(const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS], toggler;

    folder = argc > 1 ? argv[1] : ".";
    app_gpu_start();
    for (int i = 0; i < THREADS; i++)
        app_expect(pthread_create(&threads[i], NULL, serve, slots[i]) == 0, "a thread");
    usleep(300000);
    puts("traced: ready");
    fflush(stdout);
    if (argc > 2) {
        app_expect(pthread_create(&toggler, NULL, toggle, NULL) == 0, "a thread");
        pthread_join(toggler, NULL);
    }
    for (unsigned turn = 0; !__atomic_load_n(&over, __ATOMIC_ACQUIRE) &&
                            turn < MOST_TURNS && !is_there("over");
         turn++) {
        if (is_there("pause")) {
            __atomic_store_n(&pausing, 1, __ATOMIC_RELEASE);
            while (__atomic_load_n(&resting, __ATOMIC_SEQ_CST) < THREADS)
                usleep(1000);
            say_live();
            while (is_there("pause") && !is_there("over"))
                usleep(1000);
            __atomic_store_n(&pausing, 0, __ATOMIC_RELEASE);
        }
        usleep(1000);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
