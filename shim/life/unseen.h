/*
 * unseen.h - a process that has loaded a CUDA driver and made no call that the library
 * has seen: its calls bypassed the library (dlmopen, an address read from the driver's
 * symbol table), or it made none.
 *
 * Locks: none.
 */
#ifndef GS_UNSEEN_H
#define GS_UNSEEN_H

/* Called by the constructor: the process that is meant. */
void gs_unseen_begin(void);

/* Called once at the end of a process: logs the line, if the process has made no call
 * that was seen. Returns the status to end with, which is GPUSHIM_ERROR_EXITCODE if the
 * process would end with 0. Does nothing in a child that was forked or vforked. */
int gs_unseen_end(int status);

/* No line: the library came into the process later. */
void gs_unseen_give_up(void);

#endif
