/*
 * leaky.c - leaks at known lines, among many allocations that are freed.
 *
 * Proves that a report names every leak with its function and line, with exact totals,
 * and nothing else. A line that leaks ends in a comment LEAK: function bytes count from
 * which the tests compute what the report must say: `bytes` is the size of one
 * allocation, `count` how many are never freed.
 */
#include "launch.h"

static struct app_kernels kernels;
static uint64_t sum = APP_CHECKSUM;

/* Fill a block on the device and add what comes back to the checksum. */
static void use(gpu_ptr block, size_t bytes, uint32_t seed)
{
    static uint32_t words[256];
    size_t count = bytes / sizeof(words[0]) < 256 ? bytes / sizeof(words[0]) : 256;

    app_fill(&kernels, block, count, seed, NULL);
    APP_OK(gpu_get(words, block, count * sizeof(words[0])));
    sum = app_checksum(sum, words, count * sizeof(words[0]));
}

APP_FRAME static void build_index(int parts)
{
    gpu_ptr part;

    for (int i = 0; i < parts; i++) {
        APP_OK(gpu_malloc(&part, 1048576)); /* LEAK: build_index 1048576 3 */
        use(part, 1048576, 10u + (uint32_t)i);
    }
}

APP_FRAME static void load_weights(void)
{
    gpu_ptr weights;

    APP_OK(gpu_malloc(&weights, 25165824)); /* LEAK: load_weights 25165824 1 */
    use(weights, 25165824, 20);
}

APP_FRAME static void stage_input(void)
{
    void *staging;

    APP_OK(gpu_malloc_host(&staging, 262144)); /* LEAK: stage_input 262144 1 */
    app_bytes_fill(staging, 262144, 30);
    sum = app_checksum(sum, staging, 1024);
}

APP_FRAME static void share_state(void)
{
    gpu_ptr state;

    APP_OK(gpu_malloc_managed(&state, 524288)); /* LEAK: share_state 524288 1 */
    use(state, 524288, 40);
}

APP_FRAME static void queue_scratch(gpu_stream stream)
{
    gpu_ptr scratch;

    APP_OK(gpu_malloc_async(&scratch, 786432, stream)); /* LEAK: queue_scratch 786432 1 */
    APP_OK(gpu_stream_sync(stream));
    use(scratch, 786432, 50);
}

/* Correct code: nothing of it may be in the report. */
static void work(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        size_t bytes = 4096u << (i % 10);
        gpu_ptr block;
        void *host;

        APP_OK(gpu_malloc(&block, bytes));
        use(block, bytes, 100u + (uint32_t)i);
        APP_OK(gpu_free(block));
        if (i % 16)
            continue;
        APP_OK(gpu_malloc_host(&host, bytes));
        app_bytes_fill(host, bytes, (uint32_t)i);
        APP_OK(gpu_free_host(host));
        APP_OK(gpu_malloc_managed(&block, bytes));
        use(block, bytes, (uint32_t)i);
        APP_OK(gpu_free(block));
    }
}

int main(void)
{
    gpu_stream stream;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    work(64);
    build_index(3);
    load_weights();
    work(64);
    stage_input();
    share_state();
    queue_scratch(stream);
    work(64);
    APP_OK(gpu_sync());
    APP_OK(gpu_stream_destroy(stream));
    printf("leaky: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
