/*
 * text.c - lines of text. See oracle_text.h.
 * Owns:  nothing.   Lock: none.
 */
#include "oracle_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void oracle_text_add(struct oracle_text *text, const char *format, ...)
{
    size_t room = sizeof(text->bytes) - text->used;
    va_list args;

    va_start(args, format);
    int more = vsnprintf(text->bytes + text->used, room, format, args);
    va_end(args);
    if (more > 0)
        text->used += (size_t)more < room ? (size_t)more : room - 1;
}

void oracle_write_all(int fd, const char *bytes, size_t count)
{
    int saved = errno;

    while (count > 0) {
        ssize_t done = write(fd, bytes, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            break;
        bytes += done;
        count -= (size_t)done;
    }
    errno = saved;
}
