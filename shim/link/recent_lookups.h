/*
 * recent_lookups.h - the driver functions and private tables that the program looked up
 * last, for the report of a violated idle proof (GPUSHIM_FREE_SYNC=verify): one of them
 * may have submitted the uncounted work. Recorded from the first look-up on, since most
 * programs have made all look-ups before the options are read.
 *
 * Called from within dlsym: takes no lock and allocates nothing.
 */
#ifndef GS_RECENT_LOOKUPS_H
#define GS_RECENT_LOOKUPS_H

#include <stddef.h>

#define GS_RECENT_LOOKUPS      12
#define GS_RECENT_LOOKUP_BYTES 48 /* of a name, with its NUL; longer names are cut */

/* Records a look-up of a name, by dlsym, dlvsym or cuGetProcAddress; ignores names that
 * are not a driver function's. */
void gs_recent_lookups_add(const char *name);
/* Records a request for a private table, by its GUID. */
void gs_recent_lookups_add_table(const char *guid);

/* Copies the names, the newest first. Returns the number of names. A name that another
 * thread is writing may be a mixture of two. */
size_t gs_recent_lookups_copy(char out[GS_RECENT_LOOKUPS][GS_RECENT_LOOKUP_BYTES]);

/* In a forked child, and for tests: empties the ring. */
void gs_recent_lookups_reset(void);

#endif
