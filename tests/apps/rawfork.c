/*
 * rawfork.c - children made by system calls, past fork and its handlers.
 *
 * Sandboxes, checkpoint tools and old runtimes make them. Proves that such a child ends,
 * becomes another program, forks, and calls CUDA in one or two threads, without harm to
 * itself, to what its parent records, or to its parent; and that it uses CUDA if its
 * parent has not. So does a child of fork in a handler that runs before all others. What
 * the driver answers a child of a process that has used CUDA is its own.
 *
 *   rawfork         children of each kind that make no CUDA call
 *   rawfork calls   children of each kind that make some
 */
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

/* ---- ways to make one ---------------------------------------------------------------
 */

static pid_t by_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static pid_t by_clone3(void)
{
    uint64_t arguments[8] = {[4] = SIGCHLD}; /* struct clone_args */
    pid_t child = (pid_t)syscall(SYS_clone3, arguments, sizeof(arguments));

    return child < 0 ? by_clone() : child; /* before Linux 5.3, and in some containers */
}

static pid_t by_fork(void)
{
#ifdef SYS_fork
    return (pid_t)syscall(SYS_fork);
#else
    return by_clone();
#endif
}

/* The first process of new namespaces, where the system allows them. */
static pid_t by_sandbox(void)
{
    pid_t child =
        (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);

    return child < 0 ? by_clone() : child;
}

static const struct {
    const char *name;
    pid_t (*make)(void);
} ways[] = {
    {"clone", by_clone},
    {"clone3", by_clone3},
    {"fork", by_fork},
    {"sandbox", by_sandbox},
};

/* ---- what it does -------------------------------------------------------------------
 */

static pid_t (*make)(void); /* the way in use */

/* The end of the child that `how` makes, which ends as `body` says. */
static int end_of(pid_t (*how)(void), void (*body)(void))
{
    int status = -1;
    pid_t child = how();

    if (child == 0)
        body();
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static void leave(void)
{
    _exit(3);
}

static void end(void)
{
    exit(3);
}

static void become(void)
{
    execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
    _exit(127);
}

static void shell(void)
{
    _exit(system("exit 7") >> 8);
}

/* Whatever the driver answers: the calls return. */
static void call(void)
{
    gpu_ptr block = 0;

    if ((int)gpu_malloc(&block, 4096) == 0)
        (void)gpu_free(block);
    exit(4);
}

static void forks(void)
{
    exit(end_of(fork, leave) >> 8);
}

static void same_again(void)
{
    exit(end_of(make, forks) >> 8);
}

static void forks_caller(void)
{
    exit(end_of(fork, call) >> 8);
}

static void same_again_caller(void)
{
    exit(end_of(make, call) >> 8);
}

static void calls_then_forks(void)
{
    gpu_ptr block = 0;

    if ((int)gpu_malloc(&block, 4096) == 0)
        (void)gpu_free(block);
    exit(end_of(make, call) >> 8);
}

static pthread_barrier_t both;

static void *one_of_two(void *unused)
{
    gpu_ptr block = 0;

    (void)pthread_barrier_wait(&both);
    if ((int)gpu_malloc(&block, 4096) == 0)
        (void)gpu_free(block);
    return unused;
}

static void two_threads(void)
{
    pthread_t threads[2];

    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++)
        app_expect(pthread_create(&threads[i], NULL, one_of_two, NULL) == 0, "thread");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    exit(8);
}

/* ---- a handler of fork that calls CUDA ------------------------------------------------
 */

static bool handler_calls;

static void in_child(void)
{
    gpu_ptr block = 0;

    if (handler_calls && (int)gpu_malloc(&block, 4096) == 0)
        (void)gpu_free(block);
}

static void register_first(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

/* Before the constructors of all libraries, so that the handler is the first to run. */
__attribute__((section(".preinit_array"),
               used)) static void (*first)(void) = register_first;

static void with_handler(void)
{
    handler_calls = true;
    fflush(stdout);
    printf("rawfork: one whose fork handler calls CUDA: %#x\n",
           (unsigned)end_of(fork, call));
    handler_calls = false;
}

static void begins(void)
{
    static uint32_t words[30000];
    struct app_kernels kernels;
    gpu_ptr block;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_malloc(&block, sizeof(words)));
    app_fill(&kernels, block, APP_COUNT(words), 1, NULL);
    APP_OK(gpu_get(words, block, sizeof(words)));
    APP_OK(gpu_free(block));
    printf("rawfork: a child computes %016llx\n",
           (unsigned long long)app_checksum(APP_CHECKSUM, words, sizeof(words)));
    exit(9);
}

static void with_child(const char *what, void (*body)(void))
{
    for (size_t i = 0; i < APP_COUNT(ways); i++) {
        make = ways[i].make;
        fflush(stdout);
        printf("rawfork: %s, %s: %#x\n", ways[i].name, what,
               (unsigned)end_of(make, body));
    }
}

/* ---- a child that shares the memory ---------------------------------------------------
 */

static int share(void *unused)
{
    (void)unused;
    execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
    _exit(127);
}

static void with_shared_memory(void)
{
    static _Alignas(16) char stack[64 * 1024];
    int status = -1;
    pid_t child;

    fflush(stdout);
    child = clone(share, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    app_expect(child > 0 && waitpid(child, &status, 0) == child, "waitpid");
    printf("rawfork: one that shares the memory: %#x\n", (unsigned)status);
}

int main(int argc, char **argv)
{
    static uint32_t words[30000];
    struct app_kernels kernels;
    gpu_ptr held;
    bool calls = argc > 1 && strcmp(argv[1], "calls") == 0;

    with_child("before CUDA", end);
    if (calls)
        with_child("before CUDA, one that uses it", begins);
    app_gpu_start();
    APP_OK(gpu_malloc(&held, sizeof(words)));
    APP_OK(gpu_set(held, 0, sizeof(words)));
    APP_OK(gpu_sync());
    with_child("one that leaves", leave);
    with_child("one that ends", end);
    with_child("one that becomes a shell", become);
    with_child("one that runs a shell", shell);
    with_child("one with a child", forks);
    with_child("one with a child of its kind", same_again);
    with_shared_memory();
    if (calls) {
        with_child("one that calls CUDA", call);
        with_child("one whose child calls CUDA", forks_caller);
        with_child("one whose child of its kind calls CUDA", same_again_caller);
        with_child("one that calls CUDA, and its child", calls_then_forks);
        with_child("one with two threads that call CUDA", two_threads);
        with_handler();
    }
    app_kernels_load(&kernels);
    app_fill(&kernels, held, APP_COUNT(words), 3, NULL);
    APP_OK(gpu_get(words, held, sizeof(words)));
    APP_OK(gpu_free(held));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("rawfork: checksum %016llx\n",
           (unsigned long long)app_checksum(APP_CHECKSUM, words, sizeof(words)));
    return 0;
}
