/*
 * statistics.h - what the pool did for each device: for the report, and now and then for
 * the state file.
 *
 * A file has them of some moment, and of which: they are copied to it beside what is
 * slow in any case (a request beyond the thread's own blocks, a wait, each 64th free),
 * once in a sixteenth of the time that the process has run, in a tenth of a second at the
 * latest, and no more often than a thousand times a second. So nothing is paid for where
 * the pool serves.
 *
 * Locks: all functions may be called from any thread; one at a time copies, and who comes
 * meanwhile leaves it.   Design: docs/state.md
 */
#ifndef GS_STATISTICS_H
#define GS_STATISTICS_H

#include "free_wait.h"
#include "report.h"
#include "state.h"

/* Of one device. It lies in files as it is: whole words alone. */
struct gs_statistics {
    uint64_t at_ns; /* when they were taken, since the tracker's start, and 1 */
    struct gs_pool_stats pool;
    struct gs_free_stats frees;
    uint64_t retried;                /* calls of others that were made again */
    uint64_t lazy_saves_waits;       /* 0 or 1, as in gs_report_device */
    uint64_t rest_known, rest_bytes; /* likewise; those of a report alone have them */
};

extern bool gs_statistics_kept __attribute__((visibility("hidden")));

/* Start-up: makes room for them in the state file, if there is one. */
void gs_statistics_start(const struct gs_state *state);
/* In a forked child: the file is its parent's. */
void gs_statistics_reset(void);

/* Those of the first `count` devices, as they are now. */
void gs_statistics_take(struct gs_state *state, struct gs_statistics *out, size_t count);
/* Of one device, as the report tells them; the name is left alone. */
void gs_statistics_report(const struct gs_statistics *statistics,
                          struct gs_report_device *out);

/* What its pool holds and has served by size, and where free memory lies; each block is
 * looked at. `classes` is what *out has from then on. */
void gs_statistics_by_size(struct gs_state *state, int device,
                           struct gs_report_class classes[GS_POOL_CLASSES],
                           struct gs_report_device *out);

/* Into the file, where there is one. */
void gs_statistics_keep(const struct gs_statistics *statistics, size_t count);
/* Take and keep them, if it is time to. No lock is held. */
void gs_statistics_keep_late(struct gs_state *state) __attribute__((cold, noinline));

/* A moment that costs more than this does. */
static inline void gs_statistics_safe_point(struct gs_state *state)
{
    if (GS_UNLIKELY(__atomic_load_n(&gs_statistics_kept, __ATOMIC_RELAXED))) {
        gs_statistics_keep_late(state);
    }
}

/* Bytes of them in a file; a number that stands for their form. */
size_t gs_statistics_bytes(void);
uint64_t gs_statistics_form(void);
/* What a file has of a device; NULL: nothing. `kept` is what the file has of
 * gs_statistics_bytes, or NULL. */
const struct gs_statistics *gs_statistics_of(const void *kept, size_t device);
/* Of all frees, as they are now: what ended the idle proof and the single order, and
 * whether host memory was pooled. Fills these members of *out alone. */
void gs_statistics_frees(const struct gs_state *state, struct gs_report_config *out);
/* The same as a file has it. */
void gs_statistics_report_frees(const void *kept, struct gs_report_config *out);

#endif
