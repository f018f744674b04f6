/*
 * pipeline.c - several streams and events, buffers that come and go between them.
 *
 * Proves that blocks handed out again while streams are busy never mix the data of two
 * owners: each round uploads on one stream, computes on a second, downloads on a third,
 * and frees its device buffers while later rounds are under way.
 */
#include "launch.h"

#define ROUNDS 24
#define SLOTS  3

/* One round in flight. */
struct slot {
    uint32_t *in, *out; /* pinned */
    gpu_ptr source, scratch, result;
    size_t count;
    uint32_t seed;
    gpu_event uploaded, computed, downloaded;
    bool busy;
};

static struct app_kernels kernels;
static gpu_stream upload, compute, download;
static uint64_t sum = APP_CHECKSUM;

static size_t round_count(int round)
{
    return (size_t)(17 + round * 13) * 911u;
}

static void slot_create(struct slot *slot)
{
    size_t bytes = round_count(ROUNDS) * sizeof(uint32_t);

    APP_OK(gpu_malloc_host((void **)&slot->in, bytes));
    APP_OK(gpu_malloc_host((void **)&slot->out, bytes));
    APP_OK(gpu_event_create(&slot->uploaded));
    APP_OK(gpu_event_create(&slot->computed));
    APP_OK(gpu_event_create(&slot->downloaded));
    slot->busy = false;
}

static void slot_destroy(struct slot *slot)
{
    APP_OK(gpu_event_destroy(slot->downloaded));
    APP_OK(gpu_event_destroy(slot->computed));
    APP_OK(gpu_event_destroy(slot->uploaded));
    APP_OK(gpu_free_host(slot->out));
    APP_OK(gpu_free_host(slot->in));
}

/* result = in + in, through scratch. */
static void slot_begin(struct slot *slot, int round)
{
    size_t bytes;

    slot->count = round_count(round);
    slot->seed = 1000u + (uint32_t)round;
    bytes = slot->count * sizeof(uint32_t);
    app_bytes_fill(slot->in, bytes, slot->seed);
    APP_OK(gpu_malloc(&slot->source, bytes));
    APP_OK(gpu_malloc(&slot->scratch, bytes));
    APP_OK(gpu_malloc(&slot->result, bytes));
    APP_OK(gpu_put_async(slot->source, slot->in, bytes, upload));
    APP_OK(gpu_event_record(slot->uploaded, upload));
    APP_OK(gpu_stream_wait(compute, slot->uploaded));
    app_copy(&kernels, slot->scratch, slot->source, slot->count, compute);
    app_copy(&kernels, slot->result, slot->scratch, slot->count, compute);
    app_add(&kernels, slot->result, slot->source, slot->count, compute);
    APP_OK(gpu_event_record(slot->computed, compute));
    APP_OK(gpu_stream_wait(download, slot->computed));
    APP_OK(gpu_get_async(slot->out, slot->result, bytes, download));
    APP_OK(gpu_event_record(slot->downloaded, download));
    slot->busy = true;
}

static void slot_finish(struct slot *slot)
{
    if (!slot->busy)
        return;
    APP_OK(gpu_event_sync(slot->downloaded));
    for (size_t i = 0; i < slot->count; i++)
        app_expect(slot->out[i] == slot->in[i] + slot->in[i], "result of a round");
    sum = app_checksum(sum, slot->out, slot->count * sizeof(uint32_t));
    APP_OK(gpu_free(slot->scratch));
    APP_OK(gpu_free(slot->source));
    APP_OK(gpu_free(slot->result));
    slot->busy = false;
}

int main(void)
{
    struct slot slots[SLOTS];

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&upload));
    APP_OK(gpu_stream_create(&compute));
    APP_OK(gpu_stream_create(&download));
    for (int i = 0; i < SLOTS; i++)
        slot_create(&slots[i]);
    for (int round = 0; round < ROUNDS; round++) {
        slot_finish(&slots[round % SLOTS]);
        slot_begin(&slots[round % SLOTS], round);
    }
    for (int i = 0; i < SLOTS; i++)
        slot_finish(&slots[(ROUNDS + i) % SLOTS]);
    for (int i = 0; i < SLOTS; i++)
        slot_destroy(&slots[i]);
    APP_OK(gpu_stream_destroy(download));
    APP_OK(gpu_stream_destroy(compute));
    APP_OK(gpu_stream_destroy(upload));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("pipeline: %d rounds, checksum %016llx\n", ROUNDS, (unsigned long long)sum);
    return 0;
}
