/*
 * demangle.h - readable names for C++ and Rust's older mangling.
 * Owns: the demangler found, process-wide.   Lock: none, atomic.
 */
#ifndef GS_DEMANGLE_H
#define GS_DEMANGLE_H

/* A malloc'ed readable name; NULL if it is not mangled, or no demangler is to be had. */
char *gs_demangle(const char *name);

#endif
