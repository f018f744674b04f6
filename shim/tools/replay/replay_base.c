/*
 * replay_base.c - messages, and memory or a message.
 * Owns: gs_replay_program.   Lock: none.
 */
#include "shim/tools/replay/replay_trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/tools/replay/foreign.h"

const char *gs_replay_program = "gpushim";

static bool progress_shown;

bool gs_replay_no_progress;

static void write_line(const char *format, va_list words)
{
    gs_replay_progress(0, 0, 0);
    gs_foreign_line(stderr, gs_replay_program, format, words);
}

void gs_replay_warn(const char *format, ...)
{
    va_list words;

    va_start(words, format);
    write_line(format, words);
    va_end(words);
}

int gs_replay_end(int status)
{
    bool failed = ferror(stdout) != 0;

    errno = 0;
    if (fflush(stdout) == 0 && !failed) {
        return status;
    }
    gs_replay_warn("standard output cannot be written%s%s", errno ? ": " : "",
                   errno ? strerror(errno) : "");
    return GS_REPLAY_BAD;
}

void gs_replay_fail(const char *format, ...)
{
    va_list words;

    va_start(words, format);
    write_line(format, words);
    va_end(words);
    exit(GS_REPLAY_BAD);
}

void gs_replay_progress(unsigned visit, size_t done, size_t all)
{
    if (gs_replay_no_progress || isatty(STDERR_FILENO) != 1 ||
        (all == 0 && !progress_shown)) {
        return;
    }
    progress_shown = all != 0;
    if (progress_shown) {
        fprintf(stderr, "\r%s: reading the trace, pass %u: %zu %% ", gs_replay_program,
                visit, done * 100 / all);
    } else {
        fprintf(stderr, "\r%64s\r", "");
    }
}

void *gs_replay_alloc(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);

    if (!memory) {
        gs_replay_fail("no memory for %zu x %zu bytes", count, bytes);
    }
    return memory;
}

void *gs_replay_grow(void *items, size_t count, size_t *room, size_t bytes)
{
    if (count < *room) {
        return items;
    }
    *room = *room ? 2 * *room : 256;
    void *grown = gs_replay_alloc(*room, bytes);

    if (items) {
        memcpy(grown, items, count * bytes);
    }
    free(items);
    return grown;
}
