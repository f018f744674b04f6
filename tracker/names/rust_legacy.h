/*
 * rust_legacy.h - Rust's older mangling: a C++ name whose last part is a hash.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_RUST_LEGACY_H
#define GS_RUST_LEGACY_H

#include "gs_base.h"

/* Writes a character; returns its length, 1 to 4 bytes. */
static inline size_t gs_rust_put_utf8(char *out, uint32_t c)
{
    size_t count = 0;

    if (c < 0x80) {
        out[count++] = (char)c;
        return count;
    }
    if (c < 0x800) {
        out[count++] = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        out[count++] = (char)(0xe0 | c >> 12);
        out[count++] = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        out[count++] = (char)(0xf0 | (c >> 18 & 7));
        out[count++] = (char)(0x80 | (c >> 12 & 0x3f));
        out[count++] = (char)(0x80 | (c >> 6 & 0x3f));
    }
    out[count++] = (char)(0x80 | (c & 0x3f));
    return count;
}

/* Returns true for _ZN...17h<16 hexadecimal digits>E, and clones of it. */
bool gs_rust_is_legacy(const char *linkage);

/* A malloc'ed readable name without the hash; NULL: damaged, or no memory. */
char *gs_rust_demangle_legacy(const char *linkage);

#endif
