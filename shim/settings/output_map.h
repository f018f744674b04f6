/*
 * output_map.h - a file that is mapped while it is written, under a name of its own.
 *
 * If a mapped file is truncated, the next store to it ends the process by SIGBUS. So the
 * data of the file NAME is in NAME.data until the last byte is written: programs that
 * empty or rotate NAME find only a small file there, which names the data file. At the
 * end the data file replaces it. Readers open both by gs_output_map_read.
 *
 * No descriptor stays open.
 *
 * Locks: none; one thread uses a struct at a time.   Design: docs/state.md
 */
#ifndef GS_OUTPUT_MAP_H
#define GS_OUTPUT_MAP_H

#include <limits.h>
#include <sys/types.h>

#include "gs_base.h"

/* The first bytes of NAME while the data is in another file. The name of that file and a
 * newline follow; it is in the same folder. */
#define GS_OUTPUT_MAP_MAGIC "gpushim\x1c"

struct gs_output_inode {
    dev_t device;
    ino_t inode;
};

struct gs_output_map {
    struct gs_output_inode name, data;
    char path[PATH_MAX];      /* NAME */
    char data_path[PATH_MAX]; /* of the data until it is published */
};

/*
 * Creates the file under the first free name: WANTED, then WANTED with `tail` and a
 * number. Never changes an existing file.
 * In:     clear  may remove a file that is in the way; returns whether it did. Or NULL
 * Returns the descriptor of the data, or -1 and sets errno.
 */
int gs_output_map_create(struct gs_output_map *file, const char *wanted, const char *tail,
                         bool (*clear)(const char *path));
/* Opens the data again. Returns -1 and sets errno; ENOENT: the name is now another
 * file's. */
int gs_output_map_open(const struct gs_output_map *file);
/* Allocates blocks for the range: a store to a page for which a full disk has no block
 * would end the program. Returns 0 or an errno. */
int gs_output_map_extend(int fd, off_t offset, size_t bytes);
/* Gives the data the name NAME, unless that is another file's by now: then the data stays
 * where it is. Returns 0 or an errno. Async-signal-safe. */
int gs_output_map_publish(const struct gs_output_map *file);
/* Logs its error, if there is one, with the name of the variable. */
void gs_output_map_log(const struct gs_output_map *file, const char *variable, int error);
/* After gs_output_map_publish: the data is written to again. If this fails, it keeps its
 * name. */
void gs_output_map_withdraw(struct gs_output_map *file);
/* Removes both names, if they are still the file's. */
void gs_output_map_remove(const struct gs_output_map *file);

/* ---- output_map_read.c ------------------------------------------------------------- */

/* The length of NAME in a path NAME.data or NAME.data.N; 0: it is no such path. */
size_t gs_output_map_name_length(const char *path);
/* Returns true if a path is NAME.data or NAME.data.N, and its NAME exists: who reads a
 * whole folder finds the data by NAME. */
bool gs_output_map_is_data(const char *path);

/* The path of a file's data file; turn: 1, or more if that name is taken. False, with
 * errno: too long. */
bool gs_output_map_data_path(const char *path, unsigned turn, char out[PATH_MAX]);
/*
 * Opens a file that the user has named, for reading: its data file, if it has one. Any
 * other file is opened as it is.
 * In:     flags  O_NONBLOCK or 0
 * Returns the descriptor, or -1 and sets errno; ENODATA: the data file is missing
 */
int gs_output_map_read(const char *path, int flags);

#endif
