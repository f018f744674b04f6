/*
 * forkrace.c - children forked while other threads are with the loader.
 *
 * Proves that a call in such a child gets the driver's refusal as natively, although
 * glibc leaves the child a lock for ever held: with `calls` the other threads make CUDA
 * calls; with `loader` they are in dl_iterate_phdr, which is what an exception does.
 *
 * With `first` the other threads make the first CUDA calls of the process. A child of
 * that moment may use CUDA or be refused, but must not hang.
 *
 * Proves also that the library registers its fork handlers before main: a handler that is
 * registered while another thread forks does not run in the child.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

enum { THREADS = 2, CHILDREN = 40, REFUSED = 3 };

static atomic_bool in_main, early, late, done;

typedef int register_atfork_fn(void (*)(void), void (*)(void), void (*)(void), void *);
__attribute__((visibility("default"))) register_atfork_fn __register_atfork;

/* What pthread_atfork calls; in front of libc's. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                      void *module)
{
    register_atfork_fn *real =
        (register_atfork_fn *)dlsym(RTLD_NEXT, "__register_atfork");
    Dl_info whose = {0};

    if (dladdr(module, &whose) != 0 && strstr(whose.dli_fname, "libgpushim"))
        *(in_main ? &late : &early) = true;
    return real(prepare, parent, child, module);
}

static void *makes_calls(void *unused)
{
    (void)unused;
    app_gpu_start();
    while (!done) {
        gpu_ptr block;

        APP_OK(gpu_malloc(&block, 1 << 16));
        APP_OK(gpu_free(block));
    }
    return NULL;
}

static int dawdles(struct dl_phdr_info *info, size_t size, void *sum)
{
    (void)size;
    for (int i = 0; i < 100; i++)
        *(volatile size_t *)sum += (size_t)info->dlpi_phnum;
    return 0;
}

static void *asks_the_loader(void *unused)
{
    size_t sum = 0;

    (void)unused;
    while (!done)
        dl_iterate_phdr(dawdles, &sum);
    return NULL;
}

/* How a child ends: 0 if it was refused, or may use CUDA where `any`. */
static int child_once(bool any)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        gpu_ptr block;

        alarm(20);
        _exit((int)gpu_malloc(&block, 4096) == REFUSED || any ? 0 : 1);
    }
    app_expect(child > 0 && waitpid(child, &status, 0) == child, "fork");
    return status;
}

static pthread_t thread[THREADS];

static void start_threads(void *(*body)(void *))
{
    for (int i = 0; i < THREADS; i++)
        app_check(pthread_create(&thread[i], NULL, body, NULL), "thread", __FILE__,
                  __LINE__);
}

/* Makes children; returns how many ended wrongly. */
static int make_children(bool any)
{
    int bad = 0;

    for (int i = 0; i < CHILDREN && bad == 0; i++)
        bad += child_once(any) != 0;
    done = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    return bad;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "calls";
    gpu_ptr held;
    int bad;

    in_main = true;
    if (strcmp(what, "first") == 0) {
        start_threads(makes_calls);
        bad = make_children(true);
        printf("forkrace: %s\n", bad ? "a child did not end" : "every child ends");
        app_gpu_stop();
        return 0;
    }
    app_gpu_start();
    APP_OK(gpu_malloc(&held, 4096));
    const char *preload = getenv("LD_PRELOAD");
    app_expect(!late && (early || !preload || !strstr(preload, "libgpushim")),
               "the library registers fork handlers in a CUDA call");
    start_threads(strcmp(what, "loader") == 0 ? asks_the_loader : makes_calls);
    bad = make_children(false);
    printf("forkrace: %s\n", bad ? "a child was not refused" : "every child is refused");
    APP_OK(gpu_free(held));
    app_gpu_stop();
    return 0;
}
