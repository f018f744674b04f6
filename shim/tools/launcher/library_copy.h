/*
 * library_copy.h - a copy of the library among the files of another process, for as long
 * as the process opens it.
 *
 * Owns: nothing.   Lock: none; one thread.
 */
#ifndef GS_LIBRARY_COPY_H
#define GS_LIBRARY_COPY_H

#include <sys/types.h>

#include "gs_base.h"

struct gs_library_copy {
    char path[64]; /* as the process has it */
    char name[24]; /* of the folder */
    int folder;    /* the descriptor of the folder that this one is in */
};

/* Makes the copy. Returns NULL, or why not: completes "process N: ". */
const char *gs_library_copy_make(pid_t pid, const char *library,
                                 struct gs_library_copy *out);
/* Removes it; a process that has opened it keeps it. */
void gs_library_copy_remove(struct gs_library_copy *copy);

#endif
