/*
 * windows.c - a program of which a part of the run is recorded: it asks for that itself,
 * by a SIGUSR2 that it only sends if somebody has a handler for it.
 *
 *   windows_WAY            memory of several kinds from before, inside and after a window
 *   windows_WAY many       seven signals, a leak behind each
 *   windows_WAY wrong      each wrong free once before the window and once inside
 *   windows_WAY own        handles SIGUSR2 itself, from before the first CUDA call
 *   windows_WAY child      a child that made no CUDA call gets SIGUSR2
 *   windows_WAY storm [N]  eight threads make N pairs each while another process sends
 *                          SIGUSR2 again and again
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

enum { THREADS = 8, HELD = 16 };

static bool is_handled(void)
{
    struct sigaction now;

    return sigaction(SIGUSR2, NULL, &now) == 0 &&
           ((now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL);
}

static void ask(void)
{
    if (is_handled())
        raise(SIGUSR2);
}

/* ---- a window ---------------------------------------------------------------------- */

struct blocks {
    gpu_ptr small, large, managed;
    void *pinned;
};

static void get_all(struct blocks *blocks)
{
    APP_OK(gpu_malloc(&blocks->small, 3000));
    APP_OK(gpu_malloc(&blocks->large, 5 * APP_MIB));
    APP_OK(gpu_malloc_managed(&blocks->managed, 70000));
    APP_OK(gpu_host_alloc(&blocks->pinned, 9000, 0));
}

static void free_all(struct blocks *blocks)
{
    APP_OK(gpu_free(blocks->small));
    APP_OK(gpu_free(blocks->large));
    APP_OK(gpu_free(blocks->managed));
    APP_OK(gpu_free_host(blocks->pinned));
}

APP_FRAME static void before_it(struct blocks *blocks)
{
    gpu_ptr kept;

    get_all(blocks);
    APP_OK(gpu_malloc(&kept, 11 * APP_KIB));
}

APP_FRAME static void inside_it(void)
{
    gpu_ptr kept;

    APP_OK(gpu_malloc(&kept, 300 * APP_KIB)); /* LEAK: inside_it 307200 1 */
}

APP_FRAME static void pinned_inside(void)
{
    void *kept;

    APP_OK(gpu_malloc_host(&kept, 20 * APP_KIB)); /* LEAK: pinned_inside 20480 1 */
}

APP_FRAME static void after_it(void)
{
    gpu_ptr kept;

    APP_OK(gpu_malloc(&kept, 7 * APP_MIB));
}

static void one_window(void)
{
    struct blocks early, inside, passing;

    before_it(&early);
    ask();
    inside_it();
    pinned_inside();
    get_all(&inside);
    get_all(&passing);
    free_all(&passing);
    free_all(&early); /* recorded by nobody */
    ask();
    free_all(&inside); /* taken off, though nothing is recorded now */
    get_all(&passing);
    free_all(&passing);
    after_it();
    puts("windows: one");
}

APP_FRAME static void leak_one(unsigned number)
{
    gpu_ptr kept;

    APP_OK(gpu_malloc(&kept, (size_t)1024 << number));
}

static void many_windows(void)
{
    for (unsigned i = 0; i < 7; i++) {
        ask();
        leak_one(i);
    }
    puts("windows: many");
}

/* ---- wrong frees --------------------------------------------------------------------
 */

APP_FRAME static void free_wrongly(const char *when)
{
    gpu_ptr block;
    int twice, never;

    APP_OK(gpu_malloc(&block, 4096));
    APP_OK(gpu_free(block));
    twice = (int)gpu_free(block);
    never = (int)gpu_free(gpu_from_address(0x1234500));
    printf("windows: %s %d %d\n", when, twice != 0, never != 0);
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

static void wrong_frees(void)
{
    free_wrongly("before");
    ask();
    free_wrongly("inside");
    ask();
    free_wrongly("after");
}

/* ---- signals ------------------------------------------------------------------------
 */

static void told(int number)
{
    static const char text[] = "windows: the program's own handler\n";

    (void)number;
    (void)!write(STDOUT_FILENO, text, sizeof(text) - 1);
}

static void let_a_child_get_it(void)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        raise(SIGUSR2);
        _exit(1);
    }
    app_expect(child > 0 && waitpid(child, &status, 0) == child, "fork");
    printf("windows: the child ended with %d\n", status);
}

/* ---- a storm ------------------------------------------------------------------------
 */

static unsigned long pairs = 20000;

static void *make_pairs(void *argument)
{
    gpu_ptr held[HELD] = {0};
    uint64_t random = 0x9e3779b97f4a7c15ull * ((uint64_t)(uintptr_t)argument + 1);

    app_gpu_thread();
    for (unsigned long i = 0; i < pairs; i++) {
        gpu_ptr *block = &held[app_random(&random) % HELD];

        if (*block)
            APP_OK(gpu_free(*block));
        APP_OK(gpu_malloc(block, 256 + app_random(&random) % 8192));
    }
    for (unsigned i = 0; i < HELD; i++) {
        if (held[i])
            APP_OK(gpu_free(held[i]));
    }
    return NULL;
}

/* Sends until the gate ends; its first byte says that there is a handler. `sent` gets one
 * once it has begun, or ends. */
static pid_t start_sender(int gate[2], int sent[2])
{
    char byte;
    pid_t sender;

    app_expect(pipe(gate) == 0 && pipe(sent) == 0, "pipe");
    sender = fork();
    app_expect(sender >= 0, "fork");
    if (sender != 0)
        return sender;
    close(gate[1]);
    close(sent[0]);
    if (read(gate[0], &byte, 1) == 1) {
        int flags = 0;
        bool first = true;
        fd_set readable;
        struct timeval pause;

        while (flags == 0) {
            (void)kill(getppid(), SIGUSR2);
            if (first)
                app_expect(write(sent[1], "", 1) == 1, "write");
            first = false;
            FD_ZERO(&readable);
            FD_SET(gate[0], &readable);
            pause = (struct timeval){.tv_usec = 300};
            flags = select(gate[0] + 1, &readable, NULL, NULL, &pause);
        }
    }
    _exit(0);
}

static void storm(void)
{
    int gate[2] = {-1, -1}, sent[2] = {-1, -1};
    char byte;
    pthread_t threads[THREADS];
    pid_t sender = start_sender(gate, sent);

    close(gate[0]);
    close(sent[1]);
    app_gpu_start();
    if (is_handled())
        app_expect(write(gate[1], "", 1) == 1 && read(sent[0], &byte, 1) == 1,
                   "the first signal");
    for (uintptr_t i = 0; i < THREADS; i++)
        app_check(pthread_create(&threads[i], NULL, make_pairs, (void *)i),
                  "pthread_create", __FILE__, __LINE__);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    close(gate[1]);
    app_expect(waitpid(sender, NULL, 0) == sender, "sender");
    printf("windows: %lu pairs by %d threads\n", pairs, THREADS);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "one";

    if (argc > 2)
        pairs = strtoul(argv[2], NULL, 10);
    if (strcmp(what, "storm") == 0) {
        storm();
    } else {
        if (strcmp(what, "own") == 0)
            (void)signal(SIGUSR2, told);
        app_gpu_start();
        if (strcmp(what, "many") == 0)
            many_windows();
        else if (strcmp(what, "wrong") == 0)
            wrong_frees();
        else if (strcmp(what, "own") == 0)
            ask();
        else if (strcmp(what, "child") == 0)
            let_a_child_get_it();
        else
            one_window();
    }
    app_gpu_stop();
    return 0;
}
