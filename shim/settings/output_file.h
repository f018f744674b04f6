/*
 * output_file.h - writes one file, completely or not at all.
 *
 * A regular file appears under its name when it is complete, and replaces an earlier one:
 * it is written under a temporary name in the same folder, and renamed. Devices and pipes
 * are written directly. Only the owner can read a new file, since it contains addresses
 * of the process. A symbolic link to a file is neither followed nor replaced
 * (link_open.h), except for /dev/stdout and the like.
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
    bool direct;           /* not a regular file: `path` itself is open */
    const char *path;      /* owned by the caller */
    char beside[PATH_MAX]; /* the temporary name, until the rename */
};

/*
 * The three are called in this order; after an error the later ones do nothing and keep
 * this error. The caller blocks signals that write(2) may raise (shield.h).
 */
void gs_output_file_open(struct gs_output_file *file, const char *path);
/* False: failed. For gs_export_sink. */
bool gs_output_file_write(void *file, const void *data, size_t length);
/*
 * Renames the file to its name; or, if `keep` is false or an error occurred, removes it.
 * Returns 0, or the errno of the first failure.
 */
int gs_output_file_close(struct gs_output_file *file, bool keep);

/*
 * Opens an existing file for writing, if it still has this device and inode. Returns -1
 * and sets errno if this is not possible; ENOENT: its name now belongs to another file.
 */
int gs_output_file_reopen(const char *path, dev_t device, ino_t inode);

#endif
