/*
 * runtime_modules.h - the modules whose frames and data are not the program's.
 * Locks: none.
 */
#ifndef GS_RUNTIME_MODULES_H
#define GS_RUNTIME_MODULES_H

#include "gs_base.h"

/* Base name of a path; "" for NULL. */
const char *gs_module_base_name(const char *path);
/* Returns true for the base name of a file of the CUDA runtime, the driver, or this
 * library. */
bool gs_module_is_runtime(const char *base_name);

/* Call at start: the files of this library and of a second copy in the process. Both
 * count as this library. */
void gs_runtime_modules_set_copies(const char *own, const char *other);

#endif
