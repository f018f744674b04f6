/*
 * intervals.h - what is live, and which places hold more and more, every so often:
 * GPUSHIM_STATS_INTERVAL.
 *
 * Locks: start-up starts it; the rest may be called from any thread.
 */
#ifndef GS_INTERVALS_H
#define GS_INTERVALS_H

#include "growth.h"
#include "options.h"

/* While the state is made: a thread, if one is asked for. */
void gs_intervals_start(const struct gs_options *options);
/* In a forked child: there is no thread. */
void gs_intervals_reset(void);

/* For the report; NULL: nothing was compared. */
struct gs_growth *gs_intervals_growth(void);

#endif
