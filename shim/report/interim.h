/*
 * interim.h - interim reports: out of memory, on a signal, on SIGTERM; and
 * the signal that starts and stops recording.
 */
#ifndef GS_INTERIM_H
#define GS_INTERIM_H

#include "shim/record.h"
#include "tracker/report/text/text.h"

/* Called while the state is created: installs handlers for the signals of
 * GPUSHIM_REPORT_ON and GPUSHIM_TRACK, each only while the program leaves its signal at
 * the default, and starts a thread that waits for them. tracker: NULL if nothing is
 * tracked. */
void gs_interim_start(const struct gs_options *options, struct gs_tracker *tracker);

/* Whether SIGTERM has asked for the last report: the process ends by the signal, also if a
 * thread that it interrupted ends the process first. Async-signal-safe. */
bool gs_interim_terminates(void);
/* Ends the process by SIGTERM. */
void gs_interim_terminate(void);

/* Logs each switch of the tracker by a signal that was not logged yet. */
void gs_interim_log_switches(void);

/* In a forked child: forgets the thread, and restores the signals' defaults. */
void gs_interim_reset(void);

/* gpushim detach: the signals do what they did before. */
void gs_interim_detach(void);
/* gpushim attach, after gs_tracker_restart. */
void gs_interim_attach(const struct gs_options *options);

/*
 * Called when neither the driver nor the pool has memory for an allocation of the device.
 * For the first one of each size class it writes a report of the owners of live memory
 * (GPUSHIM_REPORT_ON=oom), and waits for the report.
 * In: bytes   the requested size; 0: not known
 */
void gs_interim_refused(struct gs_state *state, const struct gs_call *call, int device,
                        uint64_t bytes);

/* Writes a report for the program (gpushim_report), and waits for it. Returns false if
 * one is being written. */
bool gs_interim_requested(void);

/* Names a stack for the program, and waits for it. On success *text is the lines, to be
 * freed. Errors: GS_ERR_NOT_FOUND (no such stack), GS_ERR_HOST_NOMEM, GS_ERR_BUSY (a
 * report is being written, or takes too long; a signal handler) */
enum gs_status gs_interim_stack(uint32_t stack, struct gs_text *text) GS_MUST_USE;

/* Called before a context of the device ends, and its memory with it: reports the owners
 * of live memory, if there is any (GPUSHIM_REPORT_ON=reset). */
void gs_interim_context_ends(struct gs_state *state, int device);

#endif
