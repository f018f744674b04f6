/*
 * copies.h - detects another copy of this library in the process.
 */
#ifndef GS_COPIES_H
#define GS_COPIES_H

#include <limits.h>

#include "gs_base.h"

/* "MAJOR.MINOR.PATCH", static. Exported: a copy of the library is known by it. */
const char *gpushim_version(void);

/* The paths as known to the loader. */
struct gs_copies {
    char own[PATH_MAX], other[PATH_MAX];
};

/* False: there is no other copy. Takes the loader's lock, inside its gate. */
bool gs_copies_find(struct gs_copies *copies);

#endif
