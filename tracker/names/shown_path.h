/*
 * shown_path.h - how a report shows the path of a file: by the fewest of its last
 * components that no other file of the report ends with, or in full.
 *
 * Paths are compared as the debug information or Python writes them, without `.`, empty
 * components, and what a `..` takes back. Links are not followed: a file with two names
 * is two files.
 *
 * Owns: an array of pointers; the paths are the caller's, but for copies.   Lock: none.
 */
#ifndef GS_SHOWN_PATH_H
#define GS_SHOWN_PATH_H

#include "gs_base.h"

/* The files of a report. Zero at first. */
struct gs_shown_paths {
    const char **items;
    size_t count, capacity;
    bool sorted; /* each file once, by its components, the last one first */
    bool whole;  /* paths are shown in full; also set without memory */
};

/* Adds a path, which must live as long as the table. NULL and "" are ignored; adding one
 * twice is allowed. */
void gs_shown_paths_add(struct gs_shown_paths *paths, const char *path);
/* Adds a copy of a path that the table does not have; gs_shown_paths_free_copies frees a
 * table of these. */
void gs_shown_paths_add_copy(struct gs_shown_paths *paths, const char *path);
void gs_shown_paths_free_copies(struct gs_shown_paths *paths);
/* Returns whether the table has the file. */
bool gs_shown_paths_have(struct gs_shown_paths *paths, const char *path);
/* Returns the end of `path` that tells it from the table's other files. `paths` NULL: the
 * base name. `path` NULL: "". */
const char *gs_shown_path(struct gs_shown_paths *paths, const char *path);
void gs_shown_paths_free(struct gs_shown_paths *paths);

/* Compares the files that two paths name; 0: the same one. NULL precedes all paths. */
int gs_path_compare(const char *a, const char *b);
/* Returns how many last components two paths have in common. */
size_t gs_path_common(const char *a, const char *b);

/* The components of a path as they are compared, the last one first. */
struct gs_path_part {
    const char *text;
    size_t length;
    bool made; /* a `..`; it is not a part of the path's text */
};
struct gs_path_walk {
    const char *path, *at; /* what is before `at` is not read yet */
    size_t taken_back;     /* components that a `..` further right cancels */
};
struct gs_path_walk gs_path_walk(const char *path);
/* Returns false at the path's begin. */
bool gs_path_next(struct gs_path_walk *walk, struct gs_path_part *out);

#endif
