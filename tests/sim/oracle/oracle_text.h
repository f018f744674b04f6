/*
 * oracle_text.h - lines of text, put together in one piece and written in one.
 * Owns:  nothing.   Lock: none.
 */
#ifndef ORACLE_TEXT_H
#define ORACLE_TEXT_H

#include "gs_base.h"

struct oracle_text {
    size_t used;
    char bytes[12 * 1024]; /* what does not fit is left out */
};

void oracle_text_add(struct oracle_text *text, const char *format, ...) GS_PRINTF(2, 3);

/* Write it all, whatever signals come; errors are ignored. Keeps errno. */
void oracle_write_all(int fd, const char *bytes, size_t count);

#endif
