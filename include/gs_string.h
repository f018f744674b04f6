/*
 * gs_string.h - questions to strings that the C library has no function for.
 * Locks: none. Async-signal-safe.
 */
#ifndef GS_STRING_H
#define GS_STRING_H

#include <stdbool.h>
#include <string.h>

static inline bool gs_starts_with(const char *text, const char *prefix)
{
    return (text[0] == prefix[0] || prefix[0] == '\0') &&
           strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The part of a path after its last slash. */
static inline const char *gs_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

#endif
