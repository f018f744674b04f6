/*
 * looked_up.h - the driver functions and private tables that the program looked up last,
 * for the report of a wrong idle proof (GPUSHIM_FREE_SYNC=verify): one of them may be
 * what submitted work that nothing counted. They are kept from the first look-up on: most
 * programs have made all of theirs when the options are read.
 *
 * Called from within dlsym: takes no lock and allocates nothing.
 */
#ifndef GS_LOOKED_UP_H
#define GS_LOOKED_UP_H

#include <stddef.h>

#define GS_LOOKED_UP_NAMES 12
#define GS_LOOKED_UP_BYTES 48 /* of a name, with its NUL; longer ones are cut */

/* A look-up of that name, by dlsym, dlvsym or cuGetProcAddress; ignored unless it is a
 * driver function's. */
void gs_looked_up(const char *name);
/* A request for a private table, by its GUID. */
void gs_looked_up_table(const char *guid);

/* The names, the newest first. Returns how many there are. A name that another thread
 * writes meanwhile may be a mixture of two. */
size_t gs_looked_up_copy(char out[GS_LOOKED_UP_NAMES][GS_LOOKED_UP_BYTES]);

/* In a forked child, and for tests: none. */
void gs_looked_up_reset(void);

#endif
