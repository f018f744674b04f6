/*
 * process_start.c - whether a process runs, by its number and its start.
 * Owns: nothing.   Lock: none.
 */
#include "process_start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
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

/* A zombie has ended, only its parent does not know yet; unless other threads go on
 * without the first. */
static enum answer look_up(int64_t pid, uint64_t *start)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    (void)gs_read_text(path, text, sizeof(text));
    const char *state = word_of(text, 3), *threads = word_of(text, 20),
               *started = word_of(text, 22);
    if (!started) {
        return NOT_KNOWN;
    }
    *start = strtoull(started, NULL, 10);
    return strchr("ZXx", *state) && strtoul(threads, NULL, 10) <= 1 ? ENDED : RUNS;
}

enum gs_status gs_process_start(int64_t pid, uint64_t *start)
{
    return look_up(pid, start) == RUNS ? GS_OK : GS_ERR_NOT_FOUND;
}

bool gs_process_ended(int64_t pid, uint64_t start, uint64_t mask)
{
    uint64_t now = 0;
    if (syscall(SYS_kill, (pid_t)pid, 0) != 0 && errno == ESRCH) {
        return true;
    }
    enum answer answer = look_up(pid, &now);
    return answer == ENDED || (answer == RUNS && ((now ^ start) & mask) != 0);
}

int64_t gs_process_self(void)
{
    char text[32];
    (void)gs_read_text("/proc/self/stat", text, sizeof(text));
    return strtoll(text, NULL, 10);
}
