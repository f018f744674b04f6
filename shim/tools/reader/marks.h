/*
 * marks.h - which processes gpushim pause has paused, for gpushim top: empty files in a
 * folder of the user's own, since no file of the process can say it.
 * Locks: none; one thread.
 */
#ifndef GS_MARKS_H
#define GS_MARKS_H

#include <limits.h>

#include "gs_base.h"

/* Makes or finds a folder for this user's small files, which nobody else can write to. */
bool gs_marks_folder(char out[PATH_MAX]);

/* Sets or removes the mark of a process that runs. */
void gs_mark_paused(int64_t pid, bool paused);
/* In: start  of the process, so that a later one of the same number has no mark */
bool gs_mark_is_paused(int64_t pid, uint64_t start);

#endif
