/*
 * wraps.c - a preloaded library that wraps what other preloaded libraries wrap, and must
 * not be called while it cannot answer: during a fork, as while it holds its lock, and
 * after its destructor. A call of libgpushim.so then ends the process with 99 and the
 * function's name. In front of libgpushim.so it begins last and ends first.
 * Owns:  the phase.   Lock: none; one thread forks or ends.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static volatile uintptr_t forking; /* the thread; others wait for a lock until it has */
static volatile int ended;
static uintptr_t begin, end; /* libgpushim.so */

static long say_and_end(const char *name, const char *when)
{
    char text[128] = "";
    long (*call)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");

    strcat(strcat(strcat(strcat(text, "wraps: "), name), when), "\n");
    call(SYS_write, 2, text, strlen(text));
    call(SYS_exit_group, 99);
    return 0;
}

static void check(const char *name, void *caller, int at_exit)
{
    if ((uintptr_t)caller < begin || (uintptr_t)caller >= end)
        return;
    if (forking && forking == (uintptr_t)pthread_self())
        say_and_end(name, " during a fork");
    if (ended && at_exit)
        say_and_end(name, " after the destructors");
}

typedef long call_fn(long, long, long, long, long, long, long);

#define SHOWN __attribute__((visibility("default")))

/* Another name in C: the types differ. */
#define WRAPPED(name)                                                                    \
    SHOWN long wrapped_##name(long, long, long, long, long, long, long) __asm__(#name);  \
    long wrapped_##name(long a, long b, long c, long d, long e, long f, long g)          \
    {                                                                                    \
        static call_fn *next;                                                            \
        check(#name, __builtin_return_address(0), 1);                                    \
        if (!next)                                                                       \
            next = (call_fn *)dlsym(RTLD_NEXT, #name);                                   \
        return next(a, b, c, d, e, f, g);                                                \
    }
#include "wraps.def"

/* Allocators answer until the end. */
#define ALLOCATES(name, params, args)                                                    \
    extern void *__libc_##name params;                                                   \
    SHOWN void *name params                                                              \
    {                                                                                    \
        check(#name, __builtin_return_address(0), 0);                                    \
        return __libc_##name args;                                                       \
    }
ALLOCATES(malloc, (size_t bytes), (bytes))
ALLOCATES(calloc, (size_t count, size_t bytes), (count, bytes))
ALLOCATES(realloc, (void *from, size_t bytes), (from, bytes))
extern void __libc_free(void *);
SHOWN void free(void *memory)
{
    check("free", __builtin_return_address(0), 0);
    __libc_free(memory);
}

static int find_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    for (int i = 0; strstr(info->dlpi_name, "libgpushim.so") && i < info->dlpi_phnum;
         i++) {
        uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        begin = begin && begin < from ? begin : from;
        end = from + info->dlpi_phdr[i].p_memsz;
    }
    return 0;
}

static void fork_begins(void)
{
    forking = (uintptr_t)pthread_self();
}

static void fork_ends(void)
{
    forking = 0;
}

__attribute__((constructor)) static void start(void)
{
    dl_iterate_phdr(find_library, NULL);
    pthread_atfork(fork_begins, fork_ends, fork_ends);
}

__attribute__((destructor)) static void stop(void)
{
    ended = 1;
}
