/*
 * pressure.h - memory pressure: the level of each device, the idle memory that returns
 * at a level, and the program's functions that are called when a level rises.
 *
 * A level is checked at a safe point after the calling thread had a segment mapped or
 * returned, was refused memory, or has run the maintenance; and by the trim thread. The
 * pool's own memory is counted. The memory of other processes is queried from the driver
 * as for GPUSHIM_POOL_RESERVE (mem_limits.h), and once more before a level changes at a
 * safe point. Without GPUSHIM_PRESSURE and without such functions nothing is checked.
 *
 * Lock: one inside, never held across a call of the driver or of the program.
 * Design: docs/tuning.md
 */
#ifndef GS_PRESSURE_H
#define GS_PRESSURE_H

#include "shim/limits/pressure_levels.h"
#include "shim/state/state.h"

/* Functions of the program that may be there at once. */
#define GS_PRESSURE_CALLS 16u

/* Called at start: reads GPUSHIM_PRESSURE, and logs an error in it. */
void gs_pressure_start(const char *text);
/* Changes the levels while the program runs; "": the defaults, without lines and without
 * shrinking. Returns NULL, or why not, as the end of a sentence. */
const char *gs_pressure_change(const struct gs_state *state, const char *text);
void gs_pressure_reset(void); /* in a forked child */

/* Atomic: levels are checked. */
extern bool gs_pressure_watched __attribute__((visibility("hidden")));

/* Memory of the device was mapped or returned: its level is to be checked at the thread's
 * next safe point. */
static inline void gs_pressure_moved(int device)
{
    if (GS_UNLIKELY(__atomic_load_n(&gs_pressure_watched, __ATOMIC_RELAXED))) {
        gs_thread.pressed = device + 1;
    }
}

/* The program was refused `bytes` of the device (-1: not known which). */
void gs_pressure_refused(struct gs_state *state, int device, size_t bytes);

/* Updates the level of the device. Returns the bytes of idle memory to return for it.
 * Called after the memory of other processes was queried; calls no driver. */
size_t gs_pressure_excess(struct gs_state *state, int device);

/* The slow path of gs_pressure_safe_point. */
void gs_pressure_check(struct gs_state *state) __attribute__((cold, noinline));

/* At the end of a wrapper, whose call has done its work: checks the level if that is due,
 * returns idle memory where this costs no wait, then calls the program's functions. No
 * lock is held. */
static inline void gs_pressure_safe_point(struct gs_state *state)
{
    if (GS_UNLIKELY(gs_thread.pressed != 0)) {
        gs_pressure_check(state);
    }
}

/* The level of a device now, and the share in use. Returns false if the program has no
 * context there. There is a pool; the driver is asked. */
bool gs_pressure_query(struct gs_state *state, int device, gpushim_pressure *level,
                       double *share) GS_MUST_USE;

/* For gpushim_on_pressure and gpushim_off_pressure. Returns false if there are
 * GS_PRESSURE_CALLS already; if there is no such function. */
bool gs_pressure_add(gpushim_pressure from, gpushim_pressure_call call,
                     void *self) GS_MUST_USE;
bool gs_pressure_remove(gpushim_pressure_call call, void *self) GS_MUST_USE;

/* For the report: the highest level that a device (< GS_MAX_DEVICES) has reached, and how
 * often the level has changed. Returns false without GPUSHIM_PRESSURE. */
bool gs_pressure_history(unsigned device, gpushim_pressure *highest, uint64_t *changes);

#endif
