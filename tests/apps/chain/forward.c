/*
 * forward.c - a driver that forwards each call to another driver's function, which it
 * looks up by its name: the shape of WSL2's libcuda.so.1, of remote GPUs, of quota
 * wrappers. Built by cases/chain.sh, with -DINNER="path of the driver" and names.h, which
 * has a FORWARD(name) for each function. FORWARD_AT=start opens the other driver in a
 * constructor, thread in another thread; by default the first call does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORWARD(name) void *to_##name __attribute__((visibility("hidden")));
#include "names.h"
#undef FORWARD

static const struct {
    const char *name;
    void **to;
} table[] = {
#define FORWARD(name) {#name, &to_##name},
#include "names.h"
#undef FORWARD
};

static void *fill(void *unused)
{
    void *inner = dlopen(INNER, RTLD_NOW | RTLD_LOCAL);
    if (!inner) {
        fprintf(stderr, "forward: %s\n", dlerror());
        abort();
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        *table[i].to = dlsym(inner, table[i].name);
    return unused;
}

static void open_inner(void)
{
    const char *at = getenv("FORWARD_AT");
    pthread_t thread;
    if (at && strcmp(at, "thread") == 0) {
        pthread_create(&thread, NULL, fill, NULL);
        pthread_join(thread, NULL);
    } else {
        fill(NULL);
    }
}

__attribute__((visibility("hidden"))) void forward_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_inner);
}

__attribute__((constructor)) static void start(void)
{
    const char *at = getenv("FORWARD_AT");
    if (at && strcmp(at, "start") == 0)
        forward_open();
}

#define FORWARD(name)                                                                    \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"          \
            "endbr64\npush %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\n"  \
            "sub $8, %rsp\ncall forward_open\nadd $8, %rsp\n"                            \
            "pop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\n"                 \
            "jmp *to_" #name "(%rip)\n.size " #name ", . - " #name "\n");
#include "names.h"
