/*
 * text.h - a growable text buffer; out of memory truncates it and sets a flag.
 * Owns: the buffer.   Lock: none, one thread uses one buffer.
 */
#ifndef GS_TEXT_H
#define GS_TEXT_H

#include "gs_base.h"

struct gs_text {
    char *data; /* NUL-terminated once anything was added; free with gs_text_free */
    size_t length, capacity;
    bool truncated;
};

void gs_text_add(struct gs_text *text, const char *format, ...) GS_PRINTF(2, 3);
/* Allocates memory for `bytes`, or for fewer, before text is added: names and lines of
 * a report may take what is left of a small address space. */
void gs_text_reserve(struct gs_text *text, size_t bytes);
/* Adds a text from outside as a part of a line (gs_make_printable). */
void gs_text_add_foreign(struct gs_text *text, const char *foreign);
/* Adds bytes as they are, control characters too: for text that gs_text_add has made. */
void gs_text_add_bytes(struct gs_text *text, const char *bytes, size_t length);
void gs_text_free(struct gs_text *text);

/* "12.0 MiB", "2.31 GiB", "272 MiB", "17 B": IEC units, three significant digits. */
const char *gs_text_bytes(uint64_t bytes, char out[24]);
/* "184,203" */
const char *gs_text_count(uint64_t count, char out[32]);
/* "4.12 s", "37.5 ms", "12 us"; "12m41s", "2h03m" from a minute on. Each duration of the
 * report, the page and top has this form. */
const char *gs_text_duration(uint64_t ns, char out[24]);
/* "+154 MiB in the last 3.00 s (51.3 MiB/s)", "no change in the last 3.00 s" */
const char *gs_text_growth(int64_t bytes, uint64_t ns, char out[96]);

#endif
