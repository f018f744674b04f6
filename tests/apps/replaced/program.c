/*
 * program.c - plug-ins that come to the place of others, each with a runtime of its own.
 *             replaced WAY held|gone [plain|bare [LIBRARY]]
 *             replaced forked
 *
 *   called     the program calls dlclose
 *   looked_up  it asks for dlclose in the C library itself
 *   deepbind   a library does it that was opened with RTLD_DEEPBIND
 *   forked     another thread does it all the time, while children are made that call the
 *              runtime, too; they print what they reached
 *
 * plain, bare: plug-ins and runtimes with and without the usual start files.
 * LIBRARY is opened first, into the global scope.
 * held: the runtimes stay loaded all the time; gone: each goes with its plug-in. Every
 * plug-in prints which runtime it reached, by cudaMalloc, before and while it is closed.
 * On standard error: how many came to the place of the other kind.
 *
 * Proves that what is remembered of a caller ends with it, whoever closes it.
 */
#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app.h"

#define ROUNDS 10

typedef int close_fn(void *library);
typedef int ask_fn(void);

static void *open_beside(const char *program, const char *name, int flags)
{
    char path[4096];
    const char *slash = strrchr(program, '/');
    int folder = slash ? (int)(slash - program) : 1;

    snprintf(path, sizeof(path), "%.*s/%s", folder, slash ? program : ".", name);
    void *library = dlopen(path, RTLD_NOW | flags);
    if (!library)
        app_fail("dlopen", dlerror());
    return library;
}

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        app_fail("dlsym", dlerror());
    return found;
}

static close_fn *closer(const char *program, const char *way)
{
    if (strcmp(way, "looked_up") == 0)
        return (close_fn *)find(dlopen(LIBC_SO, RTLD_NOW | RTLD_NOLOAD), "dlclose");
    if (strcmp(way, "deepbind") == 0)
        return (close_fn *)find(
            open_beside(program, "libreplaced_closer.so", RTLD_LOCAL | RTLD_DEEPBIND),
            "replaced_close");
    return dlclose;
}

/* ---- while there are forks --------------------------------------------------------- */

#define CHILDREN 300

static atomic_bool over;

static void *come_and_go(void *program)
{
    while (!over)
        (void)dlclose(open_beside(program, "replaced_2.so", RTLD_LOCAL));
    return NULL;
}

static int make_children(char *program)
{
    ask_fn *ask =
        (ask_fn *)find(open_beside(program, "replaced_1.so", RTLD_LOCAL), "replaced_ask");
    pthread_t thread;
    int status, right = 0;

    (void)ask();
    app_expect(!pthread_create(&thread, NULL, come_and_go, program), "a thread");
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(ask());
        }
        right += waitpid(child, &status, 0) == child && status == 1 << 8;
    }
    over = true;
    pthread_join(thread, NULL);
    fprintf(stderr, "replaced: %d of %d children\n", right, CHILDREN);
    return 0;
}

/* ------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    static const char *const names[2][4] = {
        {"replaced_1.so", "replaced_2.so", "libcudart.so.91", "libcudart.so.92"},
        {"replaced_3.so", "replaced_4.so", "libcudart.so.93", "libcudart.so.94"},
    };
    const char *const *parts = names[argc > 3 && strcmp(argv[3], "bare") == 0];
    const char *const *runtimes = parts + 2;
    void *places[2] = {NULL, NULL};
    long same = 0;

    if (argc > 1 && strcmp(argv[1], "forked") == 0)
        return make_children(argv[0]);
    if (argc < 3)
        return 0;
    if (argc > 4 && !dlopen(argv[4], RTLD_NOW | RTLD_GLOBAL))
        app_fail("dlopen", dlerror());
    close_fn *close_it = closer(argv[0], argv[1]);
    for (int i = 0; i < 2 && strcmp(argv[2], "held") == 0; i++)
        (void)open_beside(argv[0], runtimes[i], RTLD_LOCAL);
    for (long i = 0; i < ROUNDS; i++) {
        void *part = open_beside(argv[0], parts[i % 2], RTLD_LOCAL);
        ask_fn *ask = (ask_fn *)find(part, "replaced_ask");
        for (int k = 0; k < 3; k++)
            printf("replaced: %d\n", ask());
        places[i % 2] = (void *)ask;
        same += places[0] == places[1];
        if (close_it(part) != 0)
            app_fail("dlclose", dlerror());
    }
    fprintf(stderr, "replaced: %ld at the place of another\n", same);
    return 0;
}
