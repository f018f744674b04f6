/*
 * foreign.c - see foreign.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/replay/foreign.h"

#include <stdlib.h>
#include <string.h>

#include "gs_printable.h"

void gs_foreign_print(FILE *to, const char *text)
{
    while (*text) {
        size_t length = gs_utf8_length(text), bytes = length ? length : 1;
        if (length == 0 || gs_is_control(text, length)) {
            fputc('?', to);
        } else {
            (void)fwrite(text, 1, length, to);
        }
        text += bytes;
    }
}

void gs_foreign_line(FILE *to, const char *who, const char *format, va_list words)
{
    char *line = NULL;
    bool made = vasprintf(&line, format, words) >= 0;
    fprintf(to, "%s: ", who);
    gs_foreign_print(to, made ? line : format);
    fputc('\n', to);
    if (made) {
        free(line);
    }
}
