/*
 * intervals.h - GPUSHIM_INTERVAL=stats: reports at intervals the live memory, and the
 * call sites whose memory grows; GPUSHIM_METRICS_FILE is written at them, too.
 * GPUSHIM_INTERVAL=output: writes the files of GPUSHIM_OUTPUT.
 *
 * Locks: start-up starts it; the other functions may be called from any thread.
 */
#ifndef GS_INTERVALS_H
#define GS_INTERVALS_H

#include "shim/settings/options.h"
#include "tracker/growth.h"

/* Called while the state is created: starts a thread, if an option asks for it. */
void gs_intervals_start(const struct gs_options *options);
/* In a forked child: there is no thread. */
void gs_intervals_reset(void);
/* gpushim attach, after gs_tracker_restart: nothing was compared yet. */
void gs_intervals_restart(struct gs_tracker *tracker);

/* For the report; NULL: nothing was compared. */
struct gs_growth *gs_intervals_growth(void);

#endif
