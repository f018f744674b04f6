/*
 * output_ours.h - which existing files may be replaced: those that gpushim wrote whole,
 * and empty ones. A name that is mistyped must not cost a program or a source file.
 * Locks: none.
 */
#ifndef GS_OUTPUT_OURS_H
#define GS_OUTPUT_OURS_H

#include "gs_base.h"

/* With true, each regular file may be replaced (GPUSHIM_FORCE). Called at start. */
void gs_output_ours_force(bool force);
/* Returns whether the regular file may be replaced. A file that cannot be read may
 * not. */
bool gs_output_is_ours(const char *path);

#endif
