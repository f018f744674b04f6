/*
 * threads.c - eight threads that allocate, and free what another thread allocated.
 *
 * Proves that the pool keeps blocks of many threads apart, from 1 byte to 4 MiB, and that
 * a block may be freed by a thread that did not allocate it. Every thread fills a block,
 * passes it to its neighbour, and checks and frees what it was passed. The sum printed
 * does not depend on who came first.
 *
 * threads [LOG2]: sizes up to 2^LOG2 bytes (22). Under a sanitizer the bytes take most of
 * the time.
 */
#include <pthread.h>

#include "launch.h"

#define THREADS 8
#define BLOCKS  40

struct parcel {
    gpu_ptr block;
    size_t bytes;
    uint32_t seed;
    bool by_kernel;
};

/* From one thread to the next: a slot each way. Lock: mutex. */
struct mailbox {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct parcel parcel;
    bool full;
};

struct worker {
    int index;
    uint64_t sum;  /* of the checksums of what this thread received */
    size_t passed; /* bytes it received */
    unsigned char *host;
    gpu_stream stream;
};

static int max_log = 22; /* 4 MiB */
static struct app_kernels kernels;
static struct mailbox mailboxes[THREADS];

static void mailbox_put(struct mailbox *mailbox, const struct parcel *parcel)
{
    pthread_mutex_lock(&mailbox->mutex);
    while (mailbox->full)
        pthread_cond_wait(&mailbox->changed, &mailbox->mutex);
    mailbox->parcel = *parcel;
    mailbox->full = true;
    pthread_cond_broadcast(&mailbox->changed);
    pthread_mutex_unlock(&mailbox->mutex);
}

static struct parcel mailbox_take(struct mailbox *mailbox)
{
    struct parcel parcel;

    pthread_mutex_lock(&mailbox->mutex);
    while (!mailbox->full)
        pthread_cond_wait(&mailbox->changed, &mailbox->mutex);
    parcel = mailbox->parcel;
    mailbox->full = false;
    pthread_cond_broadcast(&mailbox->changed);
    pthread_mutex_unlock(&mailbox->mutex);
    return parcel;
}

/* Sizes from 1 byte to 2^max_log, each power of two as likely as any other. */
static size_t draw_size(uint64_t *random)
{
    size_t top = (size_t)1 << (app_random(random) % (max_log + 1));

    return top - app_random(random) % (top / 2 + 1);
}

static void send_block(struct worker *worker, uint64_t *random, int round)
{
    struct parcel parcel = {.bytes = draw_size(random)};

    parcel.seed = (uint32_t)(worker->index * 1000 + round);
    parcel.by_kernel = parcel.bytes >= 4 && round % 2;
    APP_OK(gpu_malloc(&parcel.block, parcel.bytes));
    if (parcel.by_kernel) {
        app_fill(&kernels, parcel.block, parcel.bytes / 4, parcel.seed, worker->stream);
        APP_OK(gpu_stream_sync(worker->stream));
    } else {
        app_bytes_fill(worker->host, parcel.bytes, parcel.seed);
        APP_OK(gpu_put_async(parcel.block, worker->host, parcel.bytes, worker->stream));
        APP_OK(gpu_stream_sync(worker->stream));
    }
    mailbox_put(&mailboxes[(worker->index + 1) % THREADS], &parcel);
}

static void receive_block(struct worker *worker)
{
    struct parcel parcel = mailbox_take(&mailboxes[worker->index]);
    size_t bytes = parcel.by_kernel ? parcel.bytes / 4 * 4 : parcel.bytes;

    if (parcel.by_kernel)
        app_expect(app_mismatches(&kernels, parcel.block, bytes / 4, parcel.seed,
                                  worker->stream) == 0,
                   "block filled by a kernel of another thread");
    APP_OK(gpu_get_async(worker->host, parcel.block, bytes, worker->stream));
    APP_OK(gpu_stream_sync(worker->stream));
    if (!parcel.by_kernel)
        app_expect(app_bytes_match(worker->host, bytes, parcel.seed),
                   "block filled by a copy of another thread");
    worker->sum += app_checksum(APP_CHECKSUM, worker->host, bytes);
    worker->passed += parcel.bytes;
    APP_OK(gpu_free(parcel.block));
}

static void *run(void *argument)
{
    struct worker *worker = argument;
    uint64_t random = 0x9e3779b97f4a7c15ull * (uint64_t)(worker->index + 1);

    app_gpu_thread();
    APP_OK(gpu_stream_create(&worker->stream));
    worker->host = app_host_memory((size_t)1 << max_log);
    for (int round = 0; round < BLOCKS; round++) {
        send_block(worker, &random, round);
        receive_block(worker);
    }
    free(worker->host);
    APP_OK(gpu_stream_destroy(worker->stream));
    return NULL;
}

int main(int argc, char **argv)
{
    struct worker workers[THREADS] = {0};
    pthread_t ids[THREADS];
    uint64_t sum = 0;
    size_t passed = 0;

    if (argc > 1 && atoi(argv[1]) > 0 && atoi(argv[1]) < max_log)
        max_log = atoi(argv[1]);
    app_gpu_start();
    app_kernels_load(&kernels);
    for (int i = 0; i < THREADS; i++) {
        pthread_mutex_init(&mailboxes[i].mutex, NULL);
        pthread_cond_init(&mailboxes[i].changed, NULL);
        workers[i].index = i;
    }
    for (int i = 0; i < THREADS; i++)
        app_check(pthread_create(&ids[i], NULL, run, &workers[i]), "pthread_create",
                  __FILE__, __LINE__);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        sum += workers[i].sum;
        passed += workers[i].passed;
    }
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("threads: %d blocks, %zu bytes, checksum %016llx\n", THREADS * BLOCKS, passed,
           (unsigned long long)sum);
    return 0;
}
