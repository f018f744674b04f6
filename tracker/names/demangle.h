/*
 * demangle.h - readable names for C++ and Rust's older mangling.
 * Owns: the demangler found, process-wide.   Lock: none, atomic.
 */
#ifndef GS_DEMANGLE_H
#define GS_DEMANGLE_H

/* A malloc'ed readable name; NULL if the name is not mangled, or there is no
 * demangler. */
char *gs_demangle(const char *name);

#endif
