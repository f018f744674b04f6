/*
 * foreign.h - prints text from outside: file names, words of a command line, names in the
 * file of another process. The programs `gpushim` and `replay` print such text through
 * these functions alone; the library has gs_log_line and gs_report_clean.
 *
 * Control characters, and bytes that are not UTF-8, become question marks
 * (gs_printable.h): a terminal executes them, and a line feed forges a line.
 * Locks: none; the stream's.
 */
#ifndef GS_FOREIGN_H
#define GS_FOREIGN_H

#include <stdarg.h>
#include <stdio.h>

#include "gs_base.h"

/* Prints one text. */
void gs_foreign_print(FILE *to, const char *text);
/* Prints a line "WHO: ...", whose arguments may be foreign. */
void gs_foreign_line(FILE *to, const char *who, const char *format, va_list words)
    GS_PRINTF(3, 0);

#endif
