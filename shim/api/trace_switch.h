/*
 * trace_switch.h - a trace that begins and ends while the program runs.
 *
 * Locks: the caller's, one at a time.   Design: docs/traces.md
 */
#ifndef GS_TRACE_SWITCH_H
#define GS_TRACE_SWITCH_H

#include "shim/state/state.h"

/*
 * Starts recording in the file that the pattern names (as GPUSHIM_TRACE_FILE), with what
 * is live and mapped at that time at its beginning; "": ends it.
 * Returns NULL, or why not, as the end of a sentence: then nothing has changed.
 */
const char *gs_trace_switch(struct gs_state *state, const char *pattern);

#endif
