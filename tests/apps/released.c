/*
 * released.c - a program whose scope kv_cache gives its memory to the device and gets it
 * back (GPUSHIM_RELEASABLE=kv_cache).     released WHAT [KEEP]     KEEP: pinned, plain,
 * discard
 *
 *   contents  how much of the device is free before, meanwhile and after; that what was
 *             written by work in flight comes back, and that other memory stays
 *   graph     a captured graph of the scope's memory runs again
 *   uses      what may be done with released memory: frees, and copies, which are refused
 *   full      the device has less than what comes back; then it has enough
 *   held      memory with attributes stays
 *   ends      the context ends while memory is released, and is made again
 *   edges     unknown names, twice, while a stream captures, in a forked child
 *   threads   threads allocate, write and free in the scope while it comes and goes
 *   wait      releases, waits for the file OVER, and resumes
 *   take      says how much of the device it can have, by 2 MiB
 *   outside   waits for the file OVER, and says whether the contents are right
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpushim.h"
#include "launch.h"

#define BLOCKS 3

static const size_t sizes[BLOCKS] = {8 * APP_MIB, 3 * APP_MIB + 512, 2 * APP_MIB};

static struct app_kernels kernels;
static gpu_ptr cache[BLOCKS], weights, small;
static gpushim_keep keep;

static void forget_error(void)
{
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

static size_t free_mib(void)
{
    size_t free_bytes, total;

    APP_OK(gpu_mem_info(&free_bytes, &total));
    return free_bytes / APP_MIB;
}

static void say(const char *what, gpushim_result result,
                const struct gpushim_released *released)
{
    printf("%s: %s, %d of %d bytes, %d MiB of the device, %d MiB on the host", what,
           gpushim_result_text(result), (int)released->count, (int)released->bytes,
           (int)(released->device_bytes / APP_MIB),
           (int)(released->host_bytes / APP_MIB));
    for (unsigned i = 0; i < GPUSHIM_LEFT_REASONS; i++)
        if (released->left_count[i])
            printf("; %d of %d bytes: %s", (int)released->left_count[i],
                   (int)released->left_bytes[i], gpushim_left_text(i));
    printf("\n");
    fflush(stdout);
}

static gpushim_result release(void)
{
    struct gpushim_released released;
    gpushim_result result = gpushim_release("kv_cache", keep, &released);

    say("release", result, &released);
    return result;
}

static gpushim_result resume(void)
{
    struct gpushim_released released;
    gpushim_result result = gpushim_resume("kv_cache", &released);

    say("resume", result, &released);
    return result;
}

/* The scope's memory, one that the scope has and cannot be released, and another's. */
static void allocate(void)
{
    gpushim_scope_begin("engine");
    gpushim_scope_begin("kv_cache");
    for (int i = 0; i < BLOCKS; i++) {
        APP_OK(gpu_malloc(&cache[i], sizes[i]));
    }
    APP_OK(gpu_malloc(&small, 4096));
    gpushim_scope_end();
    APP_OK(gpu_malloc(&weights, 4 * APP_MIB));
    gpushim_scope_end();
}

static void fill(uint32_t seed, gpu_stream stream)
{
    for (int i = 0; i < BLOCKS; i++)
        app_fill(&kernels, cache[i], sizes[i] / 4, seed + (uint32_t)i, stream);
    app_fill(&kernels, weights, APP_MIB, seed, stream);
}

static void check(const char *what, uint32_t seed)
{
    uint32_t wrong = 0, other;

    for (int i = 0; i < BLOCKS; i++)
        wrong += app_mismatches(&kernels, cache[i], sizes[i] / 4, seed + (uint32_t)i, 0);
    other = app_mismatches(&kernels, weights, APP_MIB, seed, 0);
    printf("%s: %s, others %s\n", what, wrong ? "lost" : "right",
           other ? "LOST" : "right");
    fflush(stdout);
}

static void free_all(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        APP_OK(gpu_free(cache[i]));
    }
    APP_OK(gpu_free(small));
    APP_OK(gpu_free(weights));
}

static void contents(void)
{
    gpu_stream stream;
    size_t before;

    allocate();
    APP_OK(gpu_stream_create(&stream));
    (void)gpushim_trim(0, UINT64_MAX, NULL);
    before = free_mib();
    app_spin(&kernels, 3000000, stream);
    fill(7, stream); /* in flight at the release */
    release();
    printf("free: %d MiB more\n", (int)(free_mib() - before));
    release();
    APP_OK(gpu_sync());
    resume();
    printf("free: %d MiB more\n", (int)(free_mib() - before));
    resume();
    check("contents", 7);
    fill(9, stream);
    APP_OK(gpu_sync());
    release();
    resume();
    check("again", 9);
    free_all();
    APP_OK(gpu_stream_destroy(stream));
}

static void graph(void)
{
    gpu_stream stream;
    gpu_graph captured;
    gpu_exec exec;

    allocate();
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    fill(3, stream);
    release();
    resume();
    APP_OK(gpu_end_capture(stream, &captured));
    APP_OK(gpu_instantiate(&exec, captured));
    APP_OK(gpu_graph_launch(exec, stream));
    release(); /* waits for the graph */
    resume();
    check("graph", 3);
    fill(5, stream);
    APP_OK(gpu_stream_sync(stream));
    release();
    resume();
    APP_OK(gpu_graph_launch(exec, stream));
    APP_OK(gpu_stream_sync(stream));
    check("graph again", 3);
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(captured));
    free_all();
    APP_OK(gpu_stream_destroy(stream));
}

static void uses(void)
{
    char byte[512] = {1};
    gpu_stream stream;
    gpu_ptr other;

    allocate();
    APP_OK(gpu_stream_create(&stream));
    release();
    printf("read: %d\n", (int)gpu_get(byte, cache[0], sizeof(byte)));
    forget_error();
    printf("write: %d\n", (int)gpu_put(cache[1], byte, sizeof(byte)));
    forget_error();
    printf("set: %d\n", (int)gpu_set(cache[0], 1, 64));
    forget_error();
    printf("others: %d\n", (int)gpu_set(weights, 1, 64));
    APP_OK(gpu_sync());
    APP_OK(gpu_free(cache[1]));
    APP_OK(gpu_free_async(cache[2], stream));
    APP_OK(gpu_stream_sync(stream));
    printf("freed twice: %d\n", (int)gpu_free(cache[1]));
    forget_error();
    gpushim_scope_begin("kv_cache");
    APP_OK(gpu_malloc(&other, 2 * APP_MIB));
    gpushim_scope_end();
    APP_OK(gpu_set(other, 1, 2 * APP_MIB));
    release(); /* the new one */
    APP_OK(gpu_free(other));
    resume();
    APP_OK(gpu_get(byte, cache[0], sizeof(byte)));
    APP_OK(gpu_free(cache[0]));
    APP_OK(gpu_free(small));
    APP_OK(gpu_free(weights));
    resume();
    APP_OK(gpu_stream_destroy(stream));
}

static void full(void)
{
    gpu_ptr taken[256];
    int count = 0;

    allocate();
    fill(5, 0);
    release();
    while (count < 256 && gpu_malloc(&taken[count], 2 * APP_MIB) == 0)
        count++;
    forget_error();
    resume();
    while (count > 0) {
        APP_OK(gpu_free(taken[--count]));
    }
    if (resume() != GPUSHIM_OK) /* a call failed */
        resume();
    check("full", 5);
    free_all();
}

static void edges(void)
{
    struct gpushim_released released;
    gpu_stream stream;
    gpu_graph captured;
    int status = 1;

    say("unknown", gpushim_release("engine", keep, &released), &released);
    say("unknown", gpushim_resume("nobody", &released), &released);
    say("no name", gpushim_release("", keep, NULL), &released);
    say("no way", gpushim_release("kv_cache", (gpushim_keep)3, &released), &released);
    release();
    resume();
    allocate();
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    release();
    APP_OK(gpu_end_capture(stream, &captured));
    APP_OK(gpu_graph_destroy(captured));
    release();
    fflush(stdout);
    if (fork() == 0) {
        say("child", gpushim_resume("kv_cache", &released), &released);
        fflush(stdout);
        _exit(0);
    }
    (void)wait(&status);
    printf("child ended: %d\n", status);
    APP_OK(gpu_stream_destroy(stream));
    resume();
    free_all();
}

static void held(void)
{
    unsigned on = 1;

    allocate();
    APP_OK(CU(cuPointerSetAttribute)(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                     gpu_address(cache[2])));
    release();
    resume();
    free_all();
}

static void ends(void)
{
    allocate();
    fill(6, 0);
    release();
    app_kernels_unload(&kernels);
    app_gpu_reset();
    app_kernels_load(&kernels);
    resume();
    allocate();
    fill(8, 0);
    release();
    resume();
    check("ends", 8);
    release();
    free_all();
}

static int ending; /* atomic */

static void *work(void *number)
{
    uint32_t seed = *(const uint32_t *)number;
    gpu_stream stream;
    gpu_ptr block, tiny;

    app_gpu_thread();
    APP_OK(gpu_stream_create(&stream));
    for (int i = 0; i < 200 && !__atomic_load_n(&ending, __ATOMIC_RELAXED); i++) {
        gpushim_scope_begin("kv_cache");
        APP_OK(gpu_malloc(&block, (2 + seed % 3) * APP_MIB));
        gpushim_scope_end();
        APP_OK(gpu_malloc(&tiny, 4096));
        APP_OK(gpu_free(tiny));
        APP_OK(seed % 2 ? gpu_free(block) : gpu_free_async(block, stream));
    }
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_stream_destroy(stream));
    return NULL;
}

static void threads(void)
{
    static uint32_t numbers[3] = {1, 2, 3};
    pthread_t all[3];
    gpushim_result result;

    allocate();
    fill(1, 0);
    for (int i = 0; i < 3; i++)
        app_expect(pthread_create(&all[i], NULL, work, &numbers[i]) == 0, "no thread");
    for (int i = 0; i < 20; i++) {
        result = gpushim_release("kv_cache", keep, NULL);
        app_expect(result == GPUSHIM_OK, gpushim_result_text(result));
        result = gpushim_resume("kv_cache", NULL);
        app_expect(result == GPUSHIM_OK, gpushim_result_text(result));
    }
    __atomic_store_n(&ending, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(all[i], NULL);
    check("threads", 1);
    free_all();
}

static const char *over; /* a file */

static void await_file(void)
{
    while (access(over, F_OK) != 0)
        usleep(10000);
}

static void wait_for_file(void)
{
    allocate();
    fill(2, 0);
    release();
    await_file();
    resume();
    check("waited", 2);
    free_all();
}

static void take(void)
{
    gpu_ptr block;
    int count = 0;

    while (gpu_malloc(&block, 2 * APP_MIB) == 0)
        count++;
    printf("taken: %d MiB\n", 2 * count);
}

static void outside(void)
{
    allocate();
    fill(4, 0);
    printf("ready\n");
    fflush(stdout);
    await_file();
    check("outside", 4);
    free_all();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"contents", contents},  {"graph", graph},     {"uses", uses},
               {"full", full},          {"held", held},       {"ends", ends},
               {"edges", edges},        {"threads", threads}, {"take", take},
               {"wait", wait_for_file}, {"outside", outside}};

    if (argc > 2)
        keep = strcmp(argv[2], "plain") == 0     ? GPUSHIM_KEEP_PLAIN
               : strcmp(argv[2], "discard") == 0 ? GPUSHIM_DISCARD
                                                 : GPUSHIM_KEEP_PINNED;
    over = argc > 3 ? argv[3] : ".";
    app_gpu_start();
    app_kernels_load(&kernels);
    for (size_t i = 0; argc > 1 && i < APP_COUNT(all); i++)
        if (strcmp(argv[1], all[i].name) == 0)
            all[i].run();
    app_kernels_unload(&kernels);
    app_gpu_stop();
    return 0;
}
