/*
 * habits.c - memory used in ways that cost time, and in ways that do not.
 *
 * Proves that GPUSHIM_CHECK=churn,transfers reports each call marked HINT, with its
 * numbers, and no other.
 *
 *   habits CASE...   some of `cases`
 */
#include "launch.h"

#include <unistd.h>

#define TIMES 3000
#define TRIPS 300
#define TRIP  APP_MIB

static gpu_stream stream;
static unsigned char *host; /* pinned, TRIP bytes */
static gpu_ptr device;

/* ---- allocations that live shortly ------------------------------------------------- */

APP_FRAME static void allocate_in_a_loop(void)
{
    for (size_t i = 0; i < TIMES; i++) {
        gpu_ptr block;

        APP_OK(gpu_malloc(&block, 4096 + i % 2 * 4096)); /* HINT: allocate_in_a_loop */
        APP_OK(gpu_free(block));
    }
}

/* Too large for the pool's caches of a thread. */
APP_FRAME static void allocate_large(void)
{
    for (size_t i = 0; i < TIMES; i++) {
        gpu_ptr block;

        APP_OK(gpu_malloc(&block, 4 * APP_MIB)); /* HINT: allocate_large */
        APP_OK(gpu_free(block));
    }
}

APP_FRAME static void allocate_in_order(void)
{
    for (size_t i = 0; i < TIMES; i++) {
        gpu_ptr block;

        APP_OK(gpu_malloc_async(&block, 4096, stream)); /* HINT: allocate_in_order */
        APP_OK(gpu_free_async(block, stream));
    }
    APP_OK(gpu_stream_sync(stream));
}

/* Four live at once. */
APP_FRAME static void allocate_in_turn(void)
{
    gpu_ptr blocks[4] = {0};

    for (size_t i = 0; i < TIMES; i++) {
        gpu_ptr *block = &blocks[i % APP_COUNT(blocks)];

        if (i >= APP_COUNT(blocks))
            APP_OK(gpu_free(*block));
        APP_OK(gpu_malloc(block, 4096)); /* HINT: allocate_in_turn */
    }
    for (size_t i = 0; i < APP_COUNT(blocks); i++)
        APP_OK(gpu_free(blocks[i]));
}

/* ---- and right ones ---------------------------------------------------------------- */

/* Two buffers, used in turn. */
APP_FRAME static void use_a_ring(void)
{
    gpu_ptr ring[2];

    for (size_t i = 0; i < APP_COUNT(ring); i++)
        APP_OK(gpu_malloc(&ring[i], 4096));
    for (size_t i = 0; i < TIMES; i++)
        APP_OK(gpu_set(ring[i % APP_COUNT(ring)], (unsigned char)i, 4096));
    APP_OK(gpu_sync());
    for (size_t i = 0; i < APP_COUNT(ring); i++)
        APP_OK(gpu_free(ring[i]));
}

/* As many, and each is needed. */
APP_FRAME static void allocate_a_model(void)
{
    static gpu_ptr weights[TIMES];

    for (size_t i = 0; i < TIMES; i++)
        APP_OK(gpu_malloc(&weights[i], 4096));
    usleep(100 * 1000);
    for (size_t i = 0; i < TIMES; i++)
        APP_OK(gpu_free(weights[i]));
}

/* Each for a while: the allocation costs nothing beside the work. */
APP_FRAME static void allocate_for_long(void)
{
    for (size_t i = 0; i < 20; i++) {
        gpu_ptr block;

        APP_OK(gpu_malloc(&block, 4096));
        usleep(20 * 1000);
        APP_OK(gpu_free(block));
    }
}

APP_FRAME static void allocate_seldom(void)
{
    for (size_t i = 0; i < 999; i++) {
        gpu_ptr block;

        APP_OK(gpu_malloc(&block, 4096));
        APP_OK(gpu_free(block));
    }
}

/* ---- bytes that go to the host and back -------------------------------------------- */

/* The device changes them each time, the host never. */
APP_FRAME static void go_and_return(void)
{
    for (int i = 0; i < TRIPS; i++) {
        APP_OK(gpu_set(device, (unsigned char)i, TRIP));
        APP_OK(gpu_get(host, device, TRIP));
        APP_OK(gpu_put(device, host, TRIP)); /* HINT: go_and_return */
    }
    app_expect(host[TRIP - 1] == (TRIPS - 1) % 256, "data");
}

APP_FRAME static void go_and_return_in_order(void)
{
    for (int i = 0; i < TRIPS; i++) {
        APP_OK(gpu_get_async(host, device, TRIP, stream));
        APP_OK(gpu_stream_sync(stream));
        APP_OK(gpu_put_async(device, host, TRIP, /* HINT: go_and_return_in_order */
                             stream));
    }
    APP_OK(gpu_sync());
}

/* ---- and right ones ---------------------------------------------------------------- */

/* The host changes one byte, anywhere. */
APP_FRAME static void change_on_the_host(void)
{
    for (size_t i = 0; i < TRIPS; i++) {
        APP_OK(gpu_get(host, device, TRIP));
        host[i * 3491 % TRIP]++;
        APP_OK(gpu_put(device, host, TRIP));
    }
}

/* What comes back is not what went. */
APP_FRAME static void read_results(void)
{
    unsigned char *results = host + TRIP / 2;

    for (int i = 0; i < TRIPS; i++) {
        app_bytes_fill(host, TRIP / 2, (uint32_t)i);
        APP_OK(gpu_put(device, host, TRIP / 2));
        APP_OK(gpu_set(device, (unsigned char)i, TRIP / 2));
        APP_OK(gpu_get(results, device, TRIP / 2));
        app_expect(results[0] == i % 256, "a result");
    }
}

/* New data where the results of before were read. */
APP_FRAME static void reuse_the_buffer(void)
{
    for (int i = 0; i < TRIPS; i++) {
        app_bytes_fill(host, TRIP, (uint32_t)i);
        APP_OK(gpu_put_async(device, host, TRIP, stream));
        APP_OK(gpu_get_async(host, device, TRIP, stream));
        APP_OK(gpu_stream_sync(stream));
    }
}

/* What a wait for an event ends is changed before the stream is waited for. */
APP_FRAME static void change_after_an_event(void)
{
    gpu_event event;

    APP_OK(gpu_event_create(&event));
    for (size_t i = 0; i < 20; i++) { /* fewer are no waits that cost time */
        APP_OK(gpu_get_async(host, device, TRIP, stream));
        APP_OK(gpu_event_record(event, stream));
        APP_OK(gpu_event_sync(event));
        host[i * 3491 % TRIP]++;
        APP_OK(gpu_stream_sync(stream));
        for (int k = 0; k < 2; k++) {
            APP_OK(gpu_put_async(device, host, TRIP, stream));
            APP_OK(gpu_stream_sync(stream));
        }
    }
    APP_OK(gpu_event_destroy(event));
}

/* The bytes of one half, to the other. */
APP_FRAME static void send_other_bytes(void)
{
    app_bytes_fill(host, TRIP, 5);
    for (int i = 0; i < TRIPS; i++) {
        APP_OK(gpu_get(host, device, TRIP / 2));
        APP_OK(gpu_put(device, host + TRIP / 2, TRIP / 2));
    }
}

APP_FRAME static void return_seldom(void)
{
    for (int i = 0; i < 9; i++) {
        APP_OK(gpu_get(host, device, TRIP));
        APP_OK(gpu_put(device, host, TRIP));
    }
}

/* ---- all of them ------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"loop", allocate_in_a_loop},
    {"large", allocate_large},
    {"order", allocate_in_order},
    {"turn", allocate_in_turn},
    {"ring", use_a_ring},
    {"model", allocate_a_model},
    {"long", allocate_for_long},
    {"seldom", allocate_seldom},
    {"trips", go_and_return},
    {"trips-async", go_and_return_in_order},
    {"changed", change_on_the_host},
    {"results", read_results},
    {"reused", reuse_the_buffer},
    {"few", return_seldom},
    {"event", change_after_an_event},
    {"other", send_other_bytes},
};

int main(int argc, char **argv)
{
    app_gpu_start();
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_malloc(&device, TRIP));
    APP_OK(gpu_malloc_host((void **)&host, TRIP));
    for (int k = 1; k < argc; k++) {
        size_t i = 0;

        while (i < APP_COUNT(cases) && strcmp(cases[i].name, argv[k]) != 0)
            i++;
        app_expect(i < APP_COUNT(cases), argv[k]);
        cases[i].run();
    }
    APP_OK(gpu_free_host(host));
    APP_OK(gpu_free(device));
    APP_OK(gpu_stream_destroy(stream));
    puts("habits: done");
    app_gpu_stop();
    return 0;
}
