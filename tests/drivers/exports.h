/*
 * exports.h - what a loaded library exports, read from its own symbol table.
 *
 * dlsym is one of the functions that the preloaded library answers itself; the symbol
 * table gives the driver's own addresses. Lock: none, one thread.
 */
#ifndef GS_DRIVERS_EXPORTS_H
#define GS_DRIVERS_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export
{
    const char *name;
    void *address;
};

struct exports {
    char *base;         /* load bias */
    char *begin, *end;  /* mapped range */
    struct export *all; /* functions and variables, sorted by name */
    size_t count;
};

/* Reads the exports of the loaded library whose path ends in `file`, or contains `file`
 * followed by a version. False: no such library is loaded. Never freed. */
bool exports_of(const char *file, struct exports *out);

/* Address of one export; NULL: there is none. */
void *exports_find(const struct exports *of, const char *name);

/* Name of the function of the driver's that begins at an address; NULL: none does. Where
 * several names share the address, the one that begins with `asked` is preferred. */
const char *exports_name(const struct exports *of, const void *address,
                         const char *asked);

/* Whether a driver's function can be called with any arguments: others wait for somebody,
 * or end the process. */
bool exports_may_call(const char *name);

/* Whether an address lies in the library. */
static inline bool exports_own(const struct exports *of, const void *address)
{
    return (const char *)address >= of->begin && (const char *)address < of->end;
}

#endif
