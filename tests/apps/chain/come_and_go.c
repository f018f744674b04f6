/*
 * come_and_go.c - threads that open ./module0.so, ... and close them again, each second
 * one with RTLD_DEEPBIND, look functions up meanwhile, and fork. Linked with the driver,
 * which so stays.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 6, ROUNDS = 400, ROUNDS_TO_A_FORK = 40 };

static void fail(const char *what)
{
    printf("%s\n", what);
    exit(1);
}

static void fork_once(void)
{
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fail("a child failed");
    }
}

static void *come_and_go(void *argument)
{
    int number = *(const int *)argument;
    int flags = number % 2 ? RTLD_NOW | RTLD_DEEPBIND : RTLD_LAZY;
    char file[32];
    snprintf(file, sizeof(file), "./module%d.so", number);
    for (int round = 1; round <= ROUNDS; round++) {
        void *module = dlopen(file, flags);
        if (!module || !dlsym(module, "work")) {
            fail("a module is missing");
        }
        (void)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
        if (!dlsym(module, "cuMemFree_v2") || dlerror()) {
            fail("a function is missing");
        }
        if (dlsym(module, "absent") || !dlerror()) {
            fail("an absent function was found");
        }
        dlclose(module);
        if (round % ROUNDS_TO_A_FORK == 0) {
            fork_once();
        }
    }
    return NULL;
}

int main(void)
{
    static int numbers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, come_and_go, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    puts("done");
    return 0;
}
