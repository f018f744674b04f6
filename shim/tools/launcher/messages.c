/*
 * messages.c - the launcher's own lines on stderr.
 *
 * Owns: nothing.   Lock: none.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "shim/tools/launcher/launcher.h"
#include "shim/tools/replay/foreign.h"

void gs_launcher_warn(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    gs_foreign_line(stderr, "gpushim", format, words);
    va_end(words);
}

void gs_launcher_fail(int status, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    gs_foreign_line(stderr, "gpushim", format, words);
    va_end(words);
    exit(status);
}
