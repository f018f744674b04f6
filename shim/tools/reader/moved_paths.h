/*
 * moved_paths.h - finds the files of a report that have another path in a second one,
 * because their folder has moved: a checkout of its own for each run, an installation for
 * each user.
 *
 * Locks: none.   Design: docs/outputs.md
 */
#ifndef GS_MOVED_PATHS_H
#define GS_MOVED_PATHS_H

#include "shim/tools/reader/report_file.h"

struct gs_moved_paths {
    const char *example[2]; /* the paths of one of them; NULL: there is none */
    size_t count;
};

/*
 * Sets file_there and path_there in the second report, where its file has another path in
 * the first one. Only files that one report alone has are paired: each with the one that
 * shares most last components with it, if both have no other as good. Two files that
 * share their base name alone are one only if no file of both reports is in the folder
 * above them: there, nothing has moved.
 * Returns false without memory: then none is paired.
 */
bool gs_moved_paths_find(struct gs_report_file files[2], struct gs_moved_paths *out);

#endif
