/*
 * http_library.h - libmicrohttpd, loaded when the server starts: it brings a dozen other
 * libraries (GnuTLS) into a process, and all other subcommands run without it.
 *
 * Locks: none.   Source: the manual of GNU libmicrohttpd; its number 12 has kept its
 * interface since 2014
 */
#ifndef GS_HTTP_LIBRARY_H
#define GS_HTTP_LIBRARY_H

#include <microhttpd.h>

#define GS_HTTP_LIBRARY "libmicrohttpd.so.12"

struct gs_http_library {
#define GS_HTTP_FUNCTION(name) __typeof__(MHD_##name) *name;
#include "shim/tools/server/http_library.def"
};

/* Filled by gs_http_library_load. */
extern struct gs_http_library gs_http;

/* Loads it once. Returns NULL, or why there is none: a sentence. */
const char *gs_http_library_load(void);

#endif
