/*
 * replay_base.c - messages, and memory or a message.
 * Owns: gs_replay_program.   Lock: none.
 */
#include "replay_trace.h"

#include <stdarg.h>
#include <stdlib.h>

const char *gs_replay_program = "gpushim";

static void write_line(const char *format, va_list words)
{
    fprintf(stderr, "%s: ", gs_replay_program);
    vfprintf(stderr, format, words);
    fputc('\n', stderr);
}

void gs_replay_warn(const char *format, ...)
{
    va_list words;

    va_start(words, format);
    write_line(format, words);
    va_end(words);
}

void gs_replay_fail(const char *format, ...)
{
    va_list words;

    va_start(words, format);
    write_line(format, words);
    va_end(words);
    exit(GS_REPLAY_BAD);
}

void *gs_replay_alloc(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);

    if (!memory)
        gs_replay_fail("no memory for %zu x %zu bytes", count, bytes);
    return memory;
}
