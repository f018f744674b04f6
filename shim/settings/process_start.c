/*
 * process_start.c - whether a process runs, by its number and its start.
 * Owns: nothing.   Lock: none.
 */
#include "shim/settings/process_start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gs_read_text.h"

enum answer { RUNS, ENDED, NOT_KNOWN };

/* Word `number` of /proc/PID/stat, from the third on; NULL: it has no such word. The
 * second is the name, which may contain anything in parentheses. */
static const char *word_of(const char *text, unsigned number)
{
    const char *word = strrchr(text, ')');
    for (unsigned i = 2; word && i < number; i++) {
        word = strchr(word + 1, ' ');
    }
    return word ? word + 1 : NULL;
}

/* Reads the process's state. A zombie has ended unless other threads outlive its first
 * thread; its parent has not been notified yet. */
static enum answer look_up(int64_t pid, uint64_t *start, bool *has_memory)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    (void)gs_read_text(path, text, sizeof(text));
    const char *state = word_of(text, 3), *threads = word_of(text, 20),
               *started = word_of(text, 22), *size = word_of(text, 23);
    if (!size) {
        return NOT_KNOWN;
    }
    *start = strtoull(started, NULL, 10);
    *has_memory = strtoull(size, NULL, 10) != 0;
    return strchr("ZXx", *state) && strtoul(threads, NULL, 10) <= 1 ? ENDED : RUNS;
}

enum gs_status gs_process_start(int64_t pid, uint64_t *start)
{
    bool unused;
    return look_up(pid, start, &unused) == RUNS ? GS_OK : GS_ERR_NOT_FOUND;
}

uint64_t gs_process_ran_ns(void)
{
    uint64_t start = 0;
    struct timespec now = {0};
    long ticks = sysconf(_SC_CLK_TCK);
    if (gs_process_start(gs_process_self(), &start) != GS_OK || ticks <= 0 ||
        clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
        return 0;
    }
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    uint64_t start_ns = start * (1000000000u / (uint64_t)ticks);
    return now_ns > start_ns ? now_ns - start_ns : 0;
}

bool gs_process_exiting(int64_t pid, uint64_t start, uint64_t mask)
{
    uint64_t now = 0;
    bool has_memory = true;
    return look_up(pid, &now, &has_memory) == RUNS && !has_memory &&
           ((now ^ start) & mask) == 0;
}

int64_t gs_process_self(void)
{
    char text[32];
    (void)gs_read_text("/proc/self/stat", text, sizeof(text));
    return strtoll(text, NULL, 10);
}

bool gs_process_is_stopped(int64_t pid)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    (void)gs_read_text(path, text, sizeof(text));
    const char *state = word_of(text, 3);
    return state && (*state == 'T' || *state == 't');
}
