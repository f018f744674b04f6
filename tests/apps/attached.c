/*
 * attached.c - a program that gpushim attaches to while it runs.
 *   attached FOLDER [idle|threads|pairs|second|leaving]
 *
 * Takes 1 MiB, says "ready", and waits for FOLDER/begin. Then makes calls whose number it
 * says, and keeps some of the memory; waits for FOLDER/more, and frees all, also what is
 * from before; waits for FOLDER/end. Each wait is half an hour at most.
 *
 *   idle     makes no CUDA call before `begin`
 *   threads  32 threads call all the time, from the start to `end`
 *   pairs    allocates a block and frees the one before until `end`, each time between
 *            the system calls getppid and getuid (tests/inject/steps.c)
 *   second   in a second thread, since the first one has ended; all but the calls that
 *            have the driver start a thread, with which no process would end
 *   leaving  the same, where the first one ends by pthread_exit once there is
 *            FOLDER/leave; at the end a function of atexit says "exit"
 *
 * Checks the memory's contents, so that a call that went astray is seen.
 */
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launch.h"

#define ROUNDS  100
#define THREADS 32
#define WARM_UP 1000

static const char *folder;
static volatile int ending;

static int is_there(const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void await(const char *name)
{
    for (int i = 0; i < 180000 && !is_there(name); i++)
        usleep(10000);
}

static void say(const char *what)
{
    printf("attached: %s\n", what);
    fflush(stdout);
}

APP_FRAME static void keep_weights(gpu_ptr *out)
{
    APP_OK(gpu_malloc(out, 3 << 20));
}

APP_FRAME static void one_step(void)
{
    unsigned in[64], back[64] = {0};
    gpu_ptr block, pitched, managed;
    void *host;
    size_t pitch;

    for (unsigned i = 0; i < 64; i++)
        in[i] = i * 7;
    APP_OK(gpu_malloc(&block, sizeof(in)));
    APP_OK(gpu_malloc_pitch(&pitched, &pitch, 100, 10));
    APP_OK(gpu_malloc_managed(&managed, 5000));
    APP_OK(gpu_malloc_host(&host, 6000));
    APP_OK(gpu_put(block, in, sizeof(in)));
    APP_OK(gpu_get(back, block, sizeof(in)));
    app_expect(memcmp(in, back, sizeof(in)) == 0, "the contents of a block");
    memset(host, 1, 6000);
    APP_OK(gpu_free_host(host));
    APP_OK(gpu_free(managed));
    APP_OK(gpu_free(pitched));
    APP_OK(gpu_free(block));
}

static void *step_again(void *unused)
{
    app_gpu_thread();
    while (!ending)
        one_step();
    return unused;
}

/* The C library's locks cost less in a process that never had a second thread. */
static void *do_nothing(void *unused)
{
    await("end");
    return unused;
}

static void pair_again(void)
{
    gpu_ptr block, next;
    pthread_t other;

    APP_OK(pthread_create(&other, NULL, do_nothing, NULL) != 0);
    APP_OK(gpu_malloc(&block, 4096));
    for (int i = 0; i < WARM_UP; i++) {
        APP_OK(gpu_malloc(&next, 4096));
        APP_OK(gpu_free(block));
        block = next;
    }
    say("ready");
    while (!is_there("end")) {
        syscall(SYS_getppid);
        APP_OK(gpu_malloc(&next, 4096));
        APP_OK(gpu_free(block));
        syscall(SYS_getuid);
        block = next;
        usleep(1000);
    }
    APP_OK(gpu_free(block));
    APP_OK(pthread_join(other, NULL) != 0);
}

static int run(const char *way)
{
    gpu_ptr first, weights[2];
    pthread_t threads[THREADS];
    int many = strcmp(way, "threads") == 0 ? THREADS : 0;
    int rounds = strcmp(way, "second") == 0 || strcmp(way, "leaving") == 0 ? 0 : ROUNDS;

    if (strcmp(way, "idle") == 0) {
        say("ready");
        await("begin");
    }
    app_gpu_start();
    APP_OK(gpu_malloc(&first, 1 << 20));
    for (int i = 0; i < many; i++)
        APP_OK(pthread_create(&threads[i], NULL, step_again, NULL) != 0);
    if (strcmp(way, "idle") != 0) {
        if (strcmp(way, "pairs") == 0) {
            pair_again();
            return 0;
        }
        say("ready");
        await("begin");
    }
    for (int i = 0; i < rounds; i++)
        one_step();
    for (int i = 0; i < 2; i++)
        keep_weights(&weights[i]);
    say("done");
    await("more");
    APP_OK(gpu_free(first));
    APP_OK(gpu_free(weights[0]));
    APP_OK(gpu_free(weights[1]));
    say("freed");
    await("end");
    ending = 1;
    for (int i = 0; i < many; i++)
        APP_OK(pthread_join(threads[i], NULL) != 0);
    say("over");
    return 0;
}

static void say_exit(void)
{
    say("exit");
}

static void *run_second(void *way)
{
    run(way);
    return NULL;
}

int main(int argc, char **argv)
{
    char *way = argc > 2 ? argv[2] : "";
    pthread_t second;

    folder = argc > 1 ? argv[1] : ".";
    if (strcmp(way, "leaving") == 0)
        atexit(say_exit);
    if (strcmp(way, "second") == 0 || strcmp(way, "leaving") == 0) {
        APP_OK(pthread_create(&second, NULL, run_second, way) != 0);
        if (strcmp(way, "leaving") == 0)
            await("leave");
        pthread_exit(NULL);
    }
    return run(way);
}
