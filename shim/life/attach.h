/*
 * attach.h - the library in a process that was not started under it: gpushim attach has
 * loaded it (shim/tools/launcher/attach.c).
 *
 * The pool stays off, so that memory from before needs no owner: all calls reach the
 * driver, and are recorded. Two things lead calls to the wrappers. The slots of the
 * modules for the driver's functions, and for dlsym, are set here, by name, also those of
 * modules that are loaded later. Words of writable memory that hold the address of a
 * driver's function, as a runtime's table does, are replaced by the command, which can
 * stop all threads: the answer lists the addresses.
 */
#ifndef GS_ATTACH_H
#define GS_ATTACH_H

#include "gs_base.h"

/*
 * Called on a thread of its own, in a process that runs.
 * In:      request  "attach", with lines NAME=VALUE, which are the library's variables;
 * or "detach" Returns: lines, in memory that stays until the next call: refused REASON
 * nothing was changed attached | again | detached driver PATH          there is one
 *            kept                 its variables are those of the first request
 *            partly               some modules may have been left out
 *            variables BYTES      of a thread, below its thread pointer; in hexadecimal
 *            skip BEGIN END       memory that must not be changed, in hexadecimal
 *            word FUNCTION WRAPPER SYMBOL
 *            slot FUNCTION WRAPPER SYMBOL    of slots only: for detaching
 * Threads: one call at a time.
 */
GS_EXPORT char *gpushim_attach(const char *request);

/* Returns true if the library was attached once, and is no longer: it sees no call. */
bool gs_attach_has_ended(void);

#endif
