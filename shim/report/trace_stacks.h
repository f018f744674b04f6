/*
 * trace_stacks.h - the call stacks of a trace that began while the program ran: nobody
 * had asked for a state file.
 */
#ifndef GS_TRACE_STACKS_H
#define GS_TRACE_STACKS_H

/* Called when a trace has ended: writes FILE.state next to it, once, if it began late.
 * Logs a failure. One caller at a time. */
void gs_trace_stacks_write(void);

#endif
