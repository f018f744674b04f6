/*
 * early.c - a program that stands for functions of the C library, and finds the next ones
 * when its constructor runs, after those of all libraries: a call before that ends it
 * with 9, as a jump to NULL would. It writes how often each was called.
 */
#include "launch.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

static void check(const void *next, const char *name)
{
    if (!next) {
        dprintf(STDERR_FILENO, "%s was called before its constructor\n", name);
        _exit(9);
    }
}

/* type name params, with the arguments of its call, as another name in C. */
#define STAND_FOR(type, name, params, ...)                                               \
    static type(*next_##name) params;                                                    \
    static unsigned calls_##name;                                                        \
    type early_##name params __asm__(#name) __attribute__((visibility("default")));      \
    type early_##name params                                                             \
    {                                                                                    \
        check((void *)next_##name, #name);                                               \
        __atomic_fetch_add(&calls_##name, 1, __ATOMIC_RELAXED);                          \
        return next_##name(__VA_ARGS__);                                                 \
    }
#define FUNCTIONS(DO)                                                                    \
    DO(unsigned long, getauxval, (unsigned long type), type)                             \
    DO(int, dl_iterate_phdr,                                                             \
       (int (*visit)(struct dl_phdr_info *, size_t, void *), void *data), visit, data)   \
    DO(int, dladdr, (const void *address, Dl_info *out), address, out)                   \
    DO(int, on_exit, (void (*end)(int, void *), void *argument), end, argument)          \
    DO(int, __cxa_at_quick_exit, (void (*end)(void *), void *dso), end, dso)             \
    DO(char *, getcwd, (char *out, size_t bytes), out, bytes)                            \
    DO(int, pthread_create,                                                              \
       (pthread_t * thread, const pthread_attr_t *attributes, void *(*body)(void *),     \
        void *argument),                                                                 \
       thread, attributes, body, argument)                                               \
    DO(int, pthread_key_create, (pthread_key_t * key, void (*end)(void *)), key, end)    \
    DO(int, pthread_setspecific, (pthread_key_t key, const void *value), key, value)

FUNCTIONS(STAND_FOR)

__attribute__((constructor)) static void find(void)
{
#define FIND(type, name, params, ...)                                                    \
    next_##name = (type(*) params)dlsym(RTLD_NEXT, #name);
    FUNCTIONS(FIND)
}

int main(void)
{
    gpu_ptr block;

    app_gpu_start();
    APP_OK(gpu_malloc(&block, 1000));
    APP_OK(gpu_free(block));
#define PRINT(type, name, params, ...) printf(#name " %u\n", calls_##name);
    FUNCTIONS(PRINT)
    return 0;
}
