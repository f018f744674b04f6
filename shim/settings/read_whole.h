/*
 * read_whole.h - reads a file of the user's whole.
 * Locks: none.
 */
#ifndef GS_READ_WHOLE_H
#define GS_READ_WHOLE_H

#include "gs_base.h"

/*
 * Reads a regular file, which may grow or shrink meanwhile.
 * In:  most, too_large  a file of more bytes is not read; the problem is then `too_large`
 * Returns memory of malloc, aligned to a page, with space for one more byte.
 * NULL: *problem is the reason.
 */
char *gs_read_whole(const char *path, size_t most, const char *too_large, size_t *length,
                    const char **problem);

#endif
