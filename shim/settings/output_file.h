/*
 * output_file.h - one file, written whole or not at all.
 *
 * A regular file appears under its name when it is complete, in place of the one that was
 * there: it is written beside it, under another name, and renamed. Devices and pipes are
 * written as they are. Only the owner can read a file that is made: it has addresses of
 * the process in it. A symbolic link to a file is neither followed nor replaced
 * (link_open.h), but for /dev/stdout and its like.
 *
 * Locks: none; one thread writes a file.
 */
#ifndef GS_OUTPUT_FILE_H
#define GS_OUTPUT_FILE_H

#include <limits.h>
#include <sys/types.h>

#include "gs_base.h"

struct gs_output_file {
    int fd;
    int error;             /* errno of the first failure, 0: none */
    bool direct;           /* no regular file: `path` itself is open */
    const char *path;      /* the caller's */
    char beside[PATH_MAX]; /* what is written, until it is renamed */
};

/*
 * The three of them in this order; from the second on with the error of the first. What
 * write(2) raises as a signal is to be held back by the caller (shield.h).
 */
void gs_output_file_open(struct gs_output_file *file, const char *path);
/* False: it has failed. For gs_export_sink. */
bool gs_output_file_write(void *file, const void *data, size_t length);
/*
 * Give the file its name, or, where `keep` is false or something failed, take back what
 * was written. Returns 0, or the errno of the first failure.
 */
int gs_output_file_close(struct gs_output_file *file, bool keep);

/*
 * Open a file that was made, by the device and number it had then, to write to it.
 * Returns -1 and sets errno where it cannot be; ENOENT: its name means another one now.
 */
int gs_output_file_reopen(const char *path, dev_t device, ino_t inode);

#endif
