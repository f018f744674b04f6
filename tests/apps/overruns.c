/*
 * overruns.c - memory that is written by somebody who is not to, one way a run.
 *
 * Proves that what is behind an allocation, and what was freed, is looked at, that the
 * report names whose it is, and that nothing else about the program changes. Without
 * arguments it writes nothing that it should not.
 */
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch.h"

#define SMALL ((size_t)65536)
#define LARGE (4 * APP_MIB)

static struct app_kernels kernels;

APP_FRAME static gpu_ptr make(size_t bytes)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, bytes));
    return block;
}

APP_FRAME static void give_back(gpu_ptr block)
{
    APP_OK(gpu_free(block));
}

static gpu_ptr behind(gpu_ptr block, long bytes)
{
    return gpu_from_address(gpu_address(block) + (CUdeviceptr)bytes);
}

/* A kernel writes all of a block, and `words` beyond it. */
static void fill(gpu_ptr block, size_t bytes, size_t words)
{
    app_fill(&kernels, block, bytes / 4 + words, 1, NULL);
    APP_OK(gpu_sync());
}

/* A kernel writes where the program may not: copies and sets are refused there. */
static void poke(gpu_ptr at, size_t bytes)
{
    app_fill(&kernels, at, bytes / 4, 1, NULL);
    APP_OK(gpu_sync());
}

APP_FRAME static void overrun(size_t bytes, size_t words)
{
    gpu_ptr block = make(bytes);

    fill(block, bytes, words);
    give_back(block);
}

APP_FRAME static void small(void)
{
    overrun(SMALL, 3);
}

APP_FRAME static void large(void)
{
    overrun(LARGE, 2);
}

/* Bytes that the rounding of the request would have hidden: three of a word. */
APP_FRAME static void slack(void)
{
    gpu_ptr block = make(1001);

    poke(behind(block, 1000), 4);
    give_back(block);
}

/* What is in front of a block is what is behind its neighbour. */
APP_FRAME static void underrun(void)
{
    gpu_ptr a = make(1000), b = make(1000);
    gpu_ptr upper = gpu_address(a) > gpu_address(b) ? a : b;

    poke(behind(upper, -4), 4);
    give_back(a);
    give_back(b);
}

static void live(void)
{
    fill(make(SMALL), SMALL, 1);
}

static void live_exit(void)
{
    live();
    fflush(NULL);
    _exit(0);
}

static void reset(void)
{
    live();
    app_gpu_reset();
}

/* After its free, into memory that nobody asks for any more. */
static void late(void)
{
    gpu_ptr block = make(SMALL);

    give_back(block);
    poke(behind(block, 128), 4);
}

APP_FRAME static void reused_size(size_t bytes)
{
    gpu_ptr block = make(bytes);

    give_back(block);
    poke(behind(block, 128), 4);
    give_back(make(bytes));
}

APP_FRAME static void reused(void)
{
    reused_size(SMALL);
}

APP_FRAME static void reused_large(void)
{
    reused_size(LARGE);
}

/* A second free of a block whose memory may be another's by now. */
static void twice(void)
{
    static uint32_t words[SMALL / 4];
    gpu_ptr first = make(SMALL), second, third;

    give_back(first);
    second = make(SMALL);
    fill(second, SMALL, 0);
    printf("overruns: second free %s\n", gpu_free(first) ? "refused" : "done");
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
    third = make(SMALL);
    poke(third, SMALL);
    APP_OK(gpu_get(words, second, SMALL));
    printf("overruns: checksum %016llx\n",
           (unsigned long long)app_checksum(APP_CHECKSUM, words, SMALL));
    (void)gpu_free(second);
    (void)gpu_free(third);
}

/* What new memory has in it. */
static void fresh(void)
{
    unsigned char bytes[4096];

    for (int turn = 0; turn < 2; turn++) {
        gpu_ptr block = make(sizeof(bytes));

        APP_OK(gpu_get(bytes, block, sizeof(bytes)));
        for (size_t i = 1; i < sizeof(bytes); i++)
            app_expect(bytes[i] == bytes[0], "new memory is of one kind");
        printf("overruns: new memory has 0x%02x\n", bytes[0]);
        fill(block, sizeof(bytes), 0);
        give_back(block);
    }
}

/* A free while a stream captures, and a block that was made before it. */
static void captured(void)
{
    gpu_stream stream;
    gpu_graph graph;
    gpu_ptr block = make(SMALL), other = make(SMALL);

    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    app_fill(&kernels, other, SMALL / 4, 1, stream);
    give_back(block);
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_graph_destroy(graph));
    APP_OK(gpu_stream_destroy(stream));
    give_back(other);
}

static void freed_in_order(void)
{
    gpu_stream stream;
    gpu_ptr block = make(SMALL);

    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_free_async(block, stream));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_stream_destroy(stream));
}

/* Freed in a stream's order, and had by the next one as soon as it may be, whose data
 * stay what they are. Nothing of the context was waited for. */
static void next_owner(void)
{
    static unsigned char put[1200], got[sizeof(put)];
    size_t room, all;
    gpu_stream stream;
    gpu_ptr block = make(1000), next = block;
    CUdeviceptr first = gpu_address(block), end = first + 1536;

    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_free_async(block, stream));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_mem_info(&room, &all));
    for (int i = 0; i < 2000; i++) {
        next = make(sizeof(put));
        if (gpu_address(next) < end && gpu_address(next) + sizeof(put) > first)
            break;
    }
    memset(put, 0x33, sizeof(put));
    APP_OK(gpu_put(next, put, sizeof(put)));
    APP_OK(gpu_sync());
    APP_OK(gpu_get(got, next, sizeof(got)));
    app_expect(memcmp(got, put, sizeof(put)) == 0, "the next owner has what it wrote");
}

/* A block of more than half the device: there is no room for a second. */
static void only(void)
{
    gpu_ptr block;

    for (int turn = 0; turn < 3; turn++) {
        APP_OK(gpu_malloc(&block, 40 * APP_MIB));
        fill(block, 40 * APP_MIB, 0);
        give_back(block);
    }
    printf("overruns: served\n");
}

/* Uses of the context are taken and given back, while there is one more. */
static void uses(void)
{
    gpu_ptr blocks[8];
    CUcontext context;

    for (size_t i = 0; i < APP_COUNT(blocks); i++)
        blocks[i] = make(1000);
    for (int i = 0; i < 50; i++) {
        APP_OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
        APP_OK(CU(cuDevicePrimaryCtxRelease)(0));
    }
    for (size_t i = 0; i < APP_COUNT(blocks); i++)
        give_back(blocks[i]);
}

/* Too far between such a use and the end of the last one. */
static void released(void)
{
    gpu_ptr block = make(SMALL);
    CUcontext context;

    APP_OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    APP_OK(CU(cuDevicePrimaryCtxRelease)(0));
    fill(block, SMALL, 1);
}

/* An exec that fails: the kernel knows no such format. */
static void not_run(void)
{
    static const char name[] = "./not_a_program";
    char *const argv[] = {(char *)name, NULL};
    gpu_ptr blocks[4];
    FILE *file = fopen(name, "w");

    for (size_t i = 0; i < APP_COUNT(blocks); i++)
        blocks[i] = make(1000);
    app_expect(file && fputs("\001junk", file) >= 0 && fclose(file) == 0, "a file");
    APP_OK(chmod(name, 0755));
    execv(name, argv);
    for (size_t i = 0; i < APP_COUNT(blocks); i++)
        give_back(blocks[i]);
    printf("overruns: went on\n");
}

/* While a kernel runs that waits for this thread. */
static void busy(void)
{
    CUfunction wait;
    gpu_stream stream;
    void *host;
    uint32_t *flag;
    CUdeviceptr seen;
    gpu_ptr blocks[4];

    APP_OK(CU(cuModuleGetFunction)(&wait, kernels.module, "gs_wait"));
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_malloc_host(&host, sizeof(*flag)));
    flag = host;
    *flag = 0;
    seen = (CUdeviceptr)(uintptr_t)flag;
    APP_OK(CU(cuLaunchKernel)(wait, 1, 1, 1, 1, 1, 1, 0, (CUstream)stream,
                              (void *[]){&seen}, NULL));
    for (size_t i = 0; i < APP_COUNT(blocks); i++)
        blocks[i] = make(i % 2 ? LARGE : SMALL);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    APP_OK(gpu_stream_sync(stream));
    for (size_t i = 0; i < APP_COUNT(blocks); i++)
        give_back(blocks[i]);
    APP_OK(gpu_free_host(host));
    APP_OK(gpu_stream_destroy(stream));
}

#define THREADS 8
#define TURNS   40

static void *work(void *arg)
{
    uint64_t random = (uintptr_t)arg + 1;

    app_gpu_thread();
    for (int turn = 0; turn < TURNS; turn++) {
        size_t bytes = 4 + app_random(&random) % 100000 / 4 * 4;

        overrun(bytes, turn == TURNS / 2);
    }
    return NULL;
}

/* Each thread goes too far once. */
static void threads(void)
{
    pthread_t running[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        APP_OK(pthread_create(&running[i], NULL, work, (void *)i));
    for (size_t i = 0; i < THREADS; i++)
        APP_OK(pthread_join(running[i], NULL));
}

/* On the last device, from a thread that uses another one when it frees. */
static void devices(void)
{
    int last = app_gpu_devices() - 1;
    struct app_kernels there;
    gpu_ptr block;

    app_gpu_use(last);
    app_kernels_load(&there);
    block = make(SMALL);
    app_fill(&there, block, SMALL / 4 + 1, 1, NULL);
    APP_OK(gpu_sync());
    app_kernels_unload(&there);
    app_gpu_use(0);
    give_back(block);
}

/* As many as there is room for, twice: the second time of memory that was freed. */
static void full(void)
{
    static gpu_ptr blocks[4096];
    size_t counts[2] = {0, 0};

    for (int turn = 0; turn < 2; turn++) {
        while (counts[turn] < APP_COUNT(blocks) &&
               gpu_malloc(&blocks[counts[turn]], 2 * APP_MIB) == 0)
            counts[turn]++;
#if APP_RUNTIME
        (void)cudaGetLastError();
#endif
        for (size_t i = 0; i < counts[turn]; i++)
            give_back(blocks[i]);
    }
    printf("overruns: room for %zu, then for %zu\n", counts[0], counts[1]);
}

static void clean(void)
{
    static uint32_t words[5000];
    uint64_t sum = APP_CHECKSUM, random = 7;

    for (int turn = 0; turn < 100; turn++) {
        size_t bytes = 4 + app_random(&random) % (turn % 10 ? 20000 : 5000000) / 4 * 4;
        gpu_ptr block = make(bytes);

        fill(block, bytes, 0);
        APP_OK(gpu_get(words, block, bytes < sizeof(words) ? bytes : sizeof(words)));
        sum = app_checksum(sum, words, bytes < sizeof(words) ? bytes : sizeof(words));
        give_back(block);
    }
    printf("overruns: checksum %016llx\n", (unsigned long long)sum);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {{"clean", clean},
            {"small", small},
            {"large", large},
            {"slack", slack},
            {"underrun", underrun},
            {"live", live},
            {"_exit", live_exit},
            {"reset", reset},
            {"late", late},
            {"reused", reused},
            {"large_reused", reused_large},
            {"twice", twice},
            {"fresh", fresh},
            {"captured", captured},
            {"ordered", freed_in_order},
            {"next", next_owner},
            {"only", only},
            {"not_run", not_run},
            {"uses", uses},
            {"released", released},
            {"busy", busy},
            {"threads", threads},
            {"devices", devices},
            {"full", full}};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "clean";
    bool reset_it = strcmp(name, "reset") == 0;

    app_gpu_start();
    app_kernels_load(&kernels);
    for (size_t i = 0; i < APP_COUNT(ways); i++) {
        if (strcmp(name, ways[i].name) == 0)
            ways[i].run();
    }
    if (!reset_it)
        app_kernels_unload(&kernels);
    app_gpu_stop();
    return 0;
}
