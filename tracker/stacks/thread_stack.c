/*
 * thread_stack.c - the range of the calling thread's stack.
 *
 * Owns:  gs_own_stack, thread-local.   Lock: none.   Design: docs/stacks.md
 *
 * The library is preloaded, so its thread-local storage is part of the static block and
 * needs no call (initial-exec). The range stays valid after fork: the child's only thread
 * runs on the stack it forked from.
 */
#include "tracker/stacks/thread_stack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct gs_stack_range gs_own_stack;

void gs_thread_stack_query(void)
{
    struct gs_stack_range *range = &gs_own_stack;
    pthread_attr_t attributes;
    void *low;
    size_t bytes;

    range->asked = true;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return;
    }
    if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
        range->low = (uintptr_t)low;
        range->high = (uintptr_t)low + bytes;
    }
    pthread_attr_destroy(&attributes);
}

/* A partly read line of maps: "low-high rest". */
struct line {
    uintptr_t bounds[2];
    unsigned field; /* the field of the next digit; 2: the rest */
};

static void read_character(struct line *line, char c)
{
    if (c == '-' || c == ' ') {
        line->field += line->field < 2;
    } else if (line->field < 2) {
        line->bounds[line->field] = line->bounds[line->field] << 4 |
                                    (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
}

/* Uses bare system calls: libc's wrappers are cancellation points. */
bool gs_mapping_of(uintptr_t address, struct gs_stack_range *range)
{
    int saved = errno, file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/maps",
                                           O_RDONLY | O_CLOEXEC);
    struct line line = {0};
    bool found = false;
    char text[256];
    long length;

    if (file < 0) {
        errno = saved;
        return false;
    }
    while (!found && (length = syscall(SYS_read, file, text, sizeof(text))) > 0) {
        for (long i = 0; i < length && !found; i++) {
            if (text[i] != '\n') {
                read_character(&line, text[i]);
                continue;
            }
            found = address - line.bounds[0] < line.bounds[1] - line.bounds[0];
            if (!found) {
                line = (struct line){0};
            }
        }
    }
    if (found) {
        *range = (struct gs_stack_range){.low = line.bounds[0], .high = line.bounds[1]};
    }
    syscall(SYS_close, file);
    errno = saved;
    return found;
}
