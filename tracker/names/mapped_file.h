/*
 * mapped_file.h - the file behind a mapping of a process, as the kernel knows it: also if
 * the file was deleted, replaced, or never had a name.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_MAPPED_FILE_H
#define GS_MAPPED_FILE_H

#include "gs_base.h"

#include <sys/types.h>

struct gs_mapped_file {
    char range[40]; /* "begin-end", its name in /proc/PID/map_files */
    dev_t device;
    ino_t inode;
    bool same_path; /* it is the path asked for, deleted or not */
};

/* Finds the mapping that begins at an address; another file than that at `path` may be
 * there by now. False: none, or no file. */
bool gs_mapped_file_find(int64_t process, uintptr_t begin, const char *path,
                         struct gs_mapped_file *out);

/* Finds a descriptor of the process that has the file open: /proc/PID/map_files asks for
 * a capability, /proc/PID/fd does not. False: none. `any_device`: the maps of btrfs and
 * overlayfs have another device than stat; the caller checks the build id. */
bool gs_mapped_file_descriptor(int64_t process, const struct gs_mapped_file *mapped,
                               bool any_device, char *path, size_t path_bytes);

#endif
