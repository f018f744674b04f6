/*
 * rust_name.h - readable names of Rust's two manglings, without the hashes of one build.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_RUST_NAME_H
#define GS_RUST_NAME_H

#include "gs_base.h"

/* Returns true for a name as Rust mangles it: _R..., or _ZN...17h<hash>E. */
bool gs_rust_is_name(const char *linkage);

/* A malloc'ed readable name, such as "<hold::Pool<[u8; 16]>>::grow"; NULL: not a name of
 * Rust's, or no memory. */
char *gs_rust_demangle(const char *linkage);

#endif
