/*
 * rust_punycode.h - Punycode (RFC 3492), with "_" before the encoded part.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_RUST_PUNYCODE_H
#define GS_RUST_PUNYCODE_H

#include "gs_base.h"

#define GS_RUST_IDENT_MAX 128u /* characters; longer names are cut */

/* Decodes a name; returns its number of characters, 0: damaged. */
size_t gs_rust_punycode(const char *text, size_t length,
                        uint32_t characters[GS_RUST_IDENT_MAX]);

#endif
