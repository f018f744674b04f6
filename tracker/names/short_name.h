/*
 * short_name.h - C++ names as a reader would write them, and cut where they are long.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_SHORT_NAME_H
#define GS_SHORT_NAME_H

#include "gs_base.h"

/* Shortens a demangled name in place: std::string for its template, no default arguments
 * of the standard containers (std::vector<T>), no versions of the library (std::__1). */
void gs_name_tidy(char *name);

/* Returns a name of less than `size` bytes: `name`, or a form of it in `out`, with "..."
 * for its template arguments, the deepest first, and for its arguments. The function's
 * own name stays. */
const char *gs_name_fit(const char *name, char *out, size_t size);

#endif
