/*
 * read_file.h - reads a file that the user has named, whole.
 * Locks: none.
 */
#ifndef GS_READ_FILE_H
#define GS_READ_FILE_H

#include "gs_base.h"

/*
 * Reads a regular file of at most `most` bytes; it may be growing.
 * Out:    *length   bytes read
 *         *problem  the reason for NULL (static); NULL: larger than `most`
 * Returns memory of free(3), aligned to a page, with space for one more byte; or NULL.
 */
char *gs_read_file(const char *path, size_t most, size_t *length, const char **problem);

#endif
