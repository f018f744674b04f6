/*
 * bench_move.c - what gpushim_memory.h's ways to move and get memory are worth, each
 * beside the plain way to do the same. One case and way a run:
 *
 *   bench_move CASE plain|better
 *
 *   readback   32 MiB are read back and summed: at once, or in chunks while the next
 * comes ring       200 messages of 64 KiB: each copied and waited for, or through a ring
 *   small      1,000 copies of 4 KiB: each waited for, or in a batch with one wait
 *   one        the same bytes: in a batch of 1,000 copies, or in one
 *   pinned     16 MiB to the device: from plain memory, or from page-locked
 *   aligned    16 MiB of page-locked memory: from an odd address, or from an aligned one
 *   many       100 buffers of 4 KiB: each allocated, or as parts of one
 *   reuse      100 uses of 1 MiB: allocated for each, or once
 *   grow       100 times 64 KiB more, the data kept: by as much each time, or by half
 *
 * Prints the fastest of ROUNDS rounds in nanoseconds.
 * Owns: nothing.   Lock: none; one thread.
 */
#include <stdio.h>

#include "gs_base.h"
#include "gs_clock.h"
#include "gpushim_memory.h"

enum { ROUNDS = 7, MESSAGES = 200, SMALL = 1000, MANY = 100, SLOTS = 4 };
#define SMALL_BYTES   ((size_t)4096)
#define MESSAGE_BYTES (64 * GS_KIB)
#define READ_BYTES    (32 * GS_MIB)
#define CHUNK_BYTES   (2 * GS_MIB)
#define LARGE_BYTES   (16 * GS_MIB)

static struct gpushim_buffer device, host; /* READ_BYTES each, host memory is plain */
static struct gpushim_buffer pinned;       /* LARGE_BYTES and a page */
static struct gpushim_streams streams;
static struct gpushim_cache cache;
static volatile uint64_t sum; /* keeps the work */

static void must(gpushim_result result, const char *what)
{
    if (result != GPUSHIM_OK) {
        fprintf(stderr, "bench_move: %s: %s\n", what, gpushim_result_text(result));
        exit(1);
    }
}
#define MUST(call) must((call), #call)

static void add_up(const void *data, size_t bytes)
{
    const uint64_t *words = data;
    uint64_t total = 0;

    for (size_t i = 0; i < bytes / sizeof(*words); i++)
        total = total * 31 + words[i];
    sum += total;
}

static void read_at_once(void)
{
    MUST(gpushim_buffer_get(&device, 0, host.data, READ_BYTES, GPUSHIM_SYNC));
    add_up(host.data, READ_BYTES);
}

static gpushim_result add_chunk(void *user, struct gpushim_buffer *chunk, uint64_t offset,
                                void *stream)
{
    (void)user, (void)offset, (void)stream;
    add_up(chunk->data, chunk->bytes);
    return GPUSHIM_OK;
}

static void read_in_chunks(void)
{
    MUST(gpushim_read_back(&cache, &device, 0, READ_BYTES, CHUNK_BYTES, streams.download,
                           add_chunk, NULL));
}

/* The host's work on a message. */
static void write_message(void *to, size_t number)
{
    uint64_t *words = to;

    for (size_t i = 0; i < MESSAGE_BYTES / sizeof(*words); i++)
        words[i] = number * 31 + i;
}

static void messages_one_by_one(void)
{
    for (size_t i = 0; i < MESSAGES; i++) {
        write_message(host.data, i);
        MUST(gpushim_buffer_put(&device, i * MESSAGE_BYTES % LARGE_BYTES, host.data,
                                MESSAGE_BYTES, GPUSHIM_SYNC));
    }
}

static void messages_by_ring(void)
{
    struct gpushim_ring ring = {0};
    struct gpushim_buffer slot;

    MUST(gpushim_ring_create(&ring, SLOTS, MESSAGE_BYTES));
    for (size_t i = 0; i < MESSAGES; i++) {
        gpushim_result space;
        while ((space = gpushim_ring_space(&ring, &slot)) == GPUSHIM_NOT_FOUND)
            (void)sched_yield();
        must(space, "a slot");
        write_message(slot.data, i);
        MUST(gpushim_ring_push(&ring, GPUSHIM_SYNC));
        MUST(gpushim_ring_next(&ring, &slot));
        MUST(gpushim_buffer_copy(&device, i * MESSAGE_BYTES % LARGE_BYTES, &slot, 0,
                                 MESSAGE_BYTES, streams.upload));
        MUST(gpushim_ring_pop(&ring, streams.upload));
    }
    MUST(gpushim_stream_wait(streams.upload));
    MUST(gpushim_ring_free(&ring));
}

static void small_one_by_one(void)
{
    for (size_t i = 0; i < SMALL; i++)
        MUST(gpushim_buffer_copy(&device, i * SMALL_BYTES, &pinned, i * SMALL_BYTES,
                                 SMALL_BYTES, GPUSHIM_SYNC));
}

static void small_in_a_batch(void)
{
    static struct gpushim_copy copies[SMALL];

    for (size_t i = 0; i < SMALL; i++)
        copies[i] = (struct gpushim_copy){&device, i * SMALL_BYTES, &pinned,
                                          i * SMALL_BYTES, SMALL_BYTES};
    MUST(gpushim_copy_batch(copies, SMALL, GPUSHIM_SYNC, NULL));
}

static void small_as_one(void)
{
    MUST(gpushim_buffer_copy(&device, 0, &pinned, 0, SMALL * SMALL_BYTES, GPUSHIM_SYNC));
}

static void large_from_plain(void)
{
    MUST(gpushim_buffer_copy(&device, 0, &host, 0, LARGE_BYTES, GPUSHIM_SYNC));
}

static void large_from_pinned(void)
{
    MUST(gpushim_buffer_copy(&device, 0, &pinned, 0, LARGE_BYTES, GPUSHIM_SYNC));
}

static void large_from_odd(void)
{
    MUST(gpushim_buffer_copy(&device, 456, &pinned, 123, LARGE_BYTES, GPUSHIM_SYNC));
}

static void many_alone(void)
{
    struct gpushim_buffer parts[MANY];

    for (size_t i = 0; i < MANY; i++)
        MUST(gpushim_buffer_create(&parts[i], GPUSHIM_DEVICE, SMALL_BYTES, 0, 0));
    for (size_t i = 0; i < MANY; i++)
        MUST(gpushim_buffer_free(&parts[i]));
}

static void many_as_parts(void)
{
    struct gpushim_buffer block, parts[MANY];
    size_t bytes[MANY];

    for (size_t i = 0; i < MANY; i++)
        bytes[i] = SMALL_BYTES;
    MUST(gpushim_batch_create(&block, parts, bytes, MANY, GPUSHIM_DEVICE, 0, 0));
    MUST(gpushim_buffer_free(&block));
}

static void use(struct gpushim_buffer *buffer)
{
    MUST(gpushim_buffer_put(buffer, 0, host.data, SMALL_BYTES, GPUSHIM_SYNC));
}

static void allocated_each_time(void)
{
    struct gpushim_buffer buffer;

    for (size_t i = 0; i < MANY; i++) {
        MUST(gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, GS_MIB, 0, 0));
        use(&buffer);
        MUST(gpushim_buffer_free(&buffer));
    }
}

static void allocated_once(void)
{
    struct gpushim_buffer buffer;

    MUST(gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, GS_MIB, 0, 0));
    for (size_t i = 0; i < MANY; i++)
        use(&buffer);
    MUST(gpushim_buffer_free(&buffer));
}

static void grow_by(double growth)
{
    struct gpushim_buffer buffer;

    MUST(gpushim_buffer_create(&buffer, GPUSHIM_DEVICE, MESSAGE_BYTES, 0, 0));
    buffer.growth = growth;
    for (size_t i = 2; i <= MANY; i++)
        MUST(gpushim_buffer_resize(&buffer, i * MESSAGE_BYTES, GPUSHIM_SYNC));
    MUST(gpushim_buffer_free(&buffer));
}

static void grow_exactly(void)
{
    grow_by(1);
}

static void grow_by_half(void)
{
    grow_by(1.5);
}

static const struct {
    const char *name;
    void (*plain)(void), (*better)(void);
} cases[] = {
    {"readback", read_at_once, read_in_chunks},
    {"ring", messages_one_by_one, messages_by_ring},
    {"small", small_one_by_one, small_in_a_batch},
    {"one", small_in_a_batch, small_as_one},
    {"pinned", large_from_plain, large_from_pinned},
    {"aligned", large_from_odd, large_from_pinned},
    {"many", many_alone, many_as_parts},
    {"reuse", allocated_each_time, allocated_once},
    {"grow", grow_exactly, grow_by_half},
};

static void prepare(void)
{
    MUST(gpushim_buffer_create(&device, GPUSHIM_DEVICE, READ_BYTES, 0, GPUSHIM_ZEROED));
    MUST(gpushim_buffer_create(&host, GPUSHIM_HOST, READ_BYTES, 4096, GPUSHIM_ZEROED));
    MUST(gpushim_buffer_create(&pinned, GPUSHIM_PINNED_HOST, LARGE_BYTES + 4096, 4096,
                               GPUSHIM_ZEROED));
    MUST(gpushim_streams_create(&streams));
    MUST(gpushim_cache_create(&cache, GPUSHIM_PINNED_HOST, 2, 0));
}

static void give_back(void)
{
    MUST(gpushim_cache_free(&cache));
    MUST(gpushim_streams_free(&streams));
    MUST(gpushim_buffer_free(&pinned));
    MUST(gpushim_buffer_free(&host));
    MUST(gpushim_buffer_free(&device));
}

static uint64_t fastest(void (*run)(void))
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t begin = gs_now_ns(), took;
        run();
        took = gs_now_ns() - begin;
        least = took < least ? took : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < GS_ARRAY_LEN(cases); i++) {
        bool plain = strcmp(argv[2], "plain") == 0;

        if (strcmp(argv[1], cases[i].name) != 0 ||
            (!plain && strcmp(argv[2], "better") != 0))
            continue;
        prepare();
        printf("%llu\n",
               (unsigned long long)fastest(plain ? cases[i].plain : cases[i].better));
        give_back();
        return 0;
    }
    fprintf(stderr, "usage: bench_move CASE plain|better\n");
    return 2;
}
