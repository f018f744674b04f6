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

#define GS_READ_FILE_HEAD (64u * 1024)

/* Judges a file by its beginning: `length` bytes, GS_READ_FILE_HEAD at most, and a NUL.
 * `file_bytes`: its size, read after the beginning. Returns NULL: read the file; else why
 * not. */
typedef const char *gs_read_file_judge(void *self, const char *head, size_t length,
                                       uint64_t file_bytes);

/* The same for a file of any size that may be something else: reads the beginning, and
 * the rest if the judge accepts the file. */
char *gs_read_file_judged(const char *path, gs_read_file_judge *judge, void *self,
                          size_t *length, const char **problem);

#endif
