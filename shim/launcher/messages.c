/*
 * messages.c - the launcher's own lines on stderr.
 *
 * Owns: nothing.   Lock: none.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher.h"

static void write_line(const char *format, va_list words)
{
    fputs("gpushim: ", stderr);
    vfprintf(stderr, format, words);
    fputc('\n', stderr);
}

void gs_launcher_warn(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    write_line(format, words);
    va_end(words);
}

void gs_launcher_fail(int status, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    write_line(format, words);
    va_end(words);
    exit(status);
}
