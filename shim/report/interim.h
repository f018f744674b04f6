/*
 * interim.h - reports while the program goes on: out of memory, on a signal, on SIGTERM;
 * and the signal that starts and stops recording.
 */
#ifndef GS_INTERIM_H
#define GS_INTERIM_H

#include "state.h"

/* While the state is made: handlers for GPUSHIM_DUMP_SIGNAL, GPUSHIM_TRACK_SIGNAL and
 * GPUSHIM_DUMP_ON_TERM, each only while the program leaves that signal at its default,
 * and a thread that waits for them. tracker: NULL, where nothing is tracked. */
void gs_interim_start(const struct gs_options *options, struct gs_tracker *tracker);

/* Says of each switch of the tracker by a signal that was not said yet. */
void gs_interim_log_switches(void);

/* In a forked child: no thread, and signals at their default again. */
void gs_interim_reset(void);

/*
 * The driver has no memory for an allocation, and neither has the pool. The first time in
 * a process, who holds the memory is written (GPUSHIM_DUMP_ON_OOM).
 * In: api     the call, as gs_record_api tells
 *     bytes   that were asked for; 0: not known
 */
void gs_interim_refused(struct gs_state *state, int device, enum gs_api api,
                        uint64_t bytes);

/* A context of the device is about to end, and its memory with it: who has some is
 * written, if anybody has (GPUSHIM_LEAK_REPORT=reset). */
void gs_interim_context_ends(struct gs_state *state, int device);

#endif
