/*
 * silent.c - a program that frees what it has and makes no call for a while, like a
 * notebook between two cells.   silent MODE MS
 *
 *   plain    device, pinned and managed memory, freed; the last work of the device, on an
 *            explicit stream, comes after the frees and nothing waits for all of it
 *   held     the same, and a kernel runs the while
 *   waited   the same as held, and another stream has work and is waited for the while
 *   capture  the same as plain, and a stream captures the while (in the strictest mode)
 *   fork     the same as plain, and children come and go the while, each of which ends by
 *            exit
 *   nothing  nothing is freed before the end
 *
 * Prints nothing but its name: the simulated driver's log tells what went back between
 * `asleep` and `awake` on standard error, and a line there how many threads of the
 * library there were. `the end` comes from the last exit handler, which then stays for
 * longer than the library's thread naps: what is called after the line comes from behind
 * all exit handlers of the driver and the library.
 */
#include <dirent.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

#define SMALLS 40

static struct app_kernels kernels;
static gpu_stream stream;
static bool is_child;

static void sleep_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};

    while (nanosleep(&left, &left) != 0)
        ;
}

/* Registered first, so that it runs last. */
static void say_end(void)
{
    if (is_child)
        return;
    fprintf(stderr, "silent: the end\n");
    sleep_ms(30);
}

/* Threads called gpushim-trim. */
static int trimmers(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int found = 0;

    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        char path[300], name[32] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (file && fgets(name, sizeof(name), file))
            found += strcmp(name, "gpushim-trim\n") == 0;
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static void work(gpu_ptr block)
{
    app_fill(&kernels, block, 1024, 1, stream);
    APP_OK(gpu_stream_sync(stream));
}

struct memory {
    gpu_ptr large, kept, smalls[SMALLS], managed;
    void *pinned;
};

static void take(struct memory *memory)
{
    APP_OK(gpu_malloc(&memory->kept, APP_MIB));
    APP_OK(gpu_malloc(&memory->large, 16 * APP_MIB));
    for (int i = 0; i < SMALLS; i++)
        APP_OK(gpu_malloc(&memory->smalls[i], 200 * APP_KIB));
    APP_OK(gpu_malloc_host(&memory->pinned, 4 * APP_MIB));
    APP_OK(gpu_malloc_managed(&memory->managed, 60 * APP_KIB));
    work(memory->large);
}

static void give(struct memory *memory)
{
    APP_OK(gpu_free(memory->large));
    for (int i = 0; i < SMALLS; i++)
        APP_OK(gpu_free(memory->smalls[i]));
    APP_OK(gpu_free_host(memory->pinned));
    APP_OK(gpu_free(memory->managed));
}

static void breed(long ms)
{
    for (long i = 0; i < ms; i++) {
        int status = -1;
        pid_t child = fork();

        if (child == 0) {
            is_child = true;
            exit(0);
        }
        app_expect(waitpid(child, &status, 0) == child && status == 0, "a child");
        sleep_ms(1);
    }
}

static void use_other_stream(gpu_ptr block, long ms)
{
    gpu_stream other;

    APP_OK(gpu_stream_create(&other));
    for (long i = 0; i < ms; i += 5) {
        app_fill(&kernels, block, 1024, 1, other);
        APP_OK(gpu_stream_sync(other));
        sleep_ms(5);
    }
    APP_OK(gpu_stream_destroy(other));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "plain";
    long ms = argc > 2 ? atol(argv[2]) : 100;
    uint32_t *flag = NULL;
    struct memory memory;
    gpu_graph graph;

    atexit(say_end);
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_host_alloc((void **)&flag, 4096, 0));
    *flag = 0;
    take(&memory);
    if (strcmp(mode, "nothing") != 0) {
        give(&memory);
        work(memory.kept);
    }
    if (strcmp(mode, "held") == 0 || strcmp(mode, "waited") == 0)
        app_hold(&kernels, flag, stream);
    if (strcmp(mode, "capture") == 0)
        APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_GLOBAL));
    fprintf(stderr, "silent: asleep\n");
    if (strcmp(mode, "fork") == 0)
        breed(ms);
    else if (strcmp(mode, "waited") == 0)
        use_other_stream(memory.kept, ms);
    else
        sleep_ms(ms);
    fprintf(stderr, "silent: awake\nsilent: %d of the library\n", trimmers());
    *flag = 1;
    if (strcmp(mode, "capture") == 0) {
        APP_OK(gpu_end_capture(stream, &graph));
        APP_OK(gpu_graph_destroy(graph));
    }
    APP_OK(gpu_sync());
    if (strcmp(mode, "nothing") == 0)
        give(&memory);
    APP_OK(gpu_free(memory.kept));
    APP_OK(gpu_free_host(flag));
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("silent: %s\n", mode);
    return 0;
}
