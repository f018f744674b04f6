/*
 * peaks.h - who held the memory when there was most of it.
 *
 * What is live now and was made before a row's peak was live then; what was live then and
 * has been freed since is remembered until there is a new peak, which forgets it at once.
 * So a pair of calls in a steady state pays a comparison, and nothing is looked through
 * while the program runs.
 *
 * Before and after are told by the time of a record. The clock is coarse: the first free
 * behind a peak moves the time that new records get beyond that of the peak, by one unit.
 * Where peaks and frees take turns for so long that this would lead too far, what was
 * made within one step of the clock counts as live at the peak, which is then said to be
 * about right. So it is with several threads that are in the middle of a call when it is
 * set.
 *
 * Owns:  the shards' lists (struct gs_since) and the table of what they had no room for.
 * Locks: a shard's list belongs to who is inside the shard, or has closed its gate;
 *        since_lock for the table.   Design: docs/tracker.md, "Peaks"
 */
#ifndef GS_PEAKS_H
#define GS_PEAKS_H

#include "groups.h"
#include "tracker_internal.h"

/* Of a freed allocation that was live at a peak. */
struct gs_since_entry {
    uint64_t who, bytes; /* as in its record */
    uint64_t tag;        /* of its place */
    uint64_t peak;       /* gs_peak_key */
};

#define GS_SINCE_ENTRIES 511u

struct gs_since {
    uint32_t count;
    struct gs_since_entry entries[GS_SINCE_ENTRIES];
};

/* Peaks are numbered by row; the number of one that is over never comes again. */
#define GS_PEAK_ROW_BITS 8
static_assert(GS_ROWS <= 1u << GS_PEAK_ROW_BITS, "a row fits");

static inline uint64_t gs_peak_key(uint64_t number, unsigned row)
{
    return number << GS_PEAK_ROW_BITS | row;
}

/* The time that a new record gets. */
static inline uint64_t gs_peak_time(const struct gs_tracker *tracker, uint64_t time_ns)
{
    uint64_t first = __atomic_load_n(&tracker->peaks.made_from_ns, __ATOMIC_RELAXED);

    return time_ns > first ? time_ns : first;
}

/* A free of what was live at its row's peak. Inside the shard; `now` in ns. */
void gs_peak_keep(struct gs_tracker *tracker, struct gs_shard *shard, unsigned row,
                  const struct gs_record *words, uint64_t tag, uint64_t now)
    __attribute__((noinline));

/* A stamp of a live record without its sequence: times are compared in this form. */
static inline uint64_t gs_stamp_order(uint64_t stamp)
{
    return stamp * (UINT64_MAX / GS_STAMP_SEQUENCE + 1);
}

/* A record is freed, or lost: was it there at the peak? Inside the shard. */
static inline void gs_peak_note_free(struct gs_tracker *tracker, struct gs_shard *shard,
                                     unsigned row, const struct gs_record *words,
                                     uint64_t tag, uint64_t now)
{
    if (GS_UNLIKELY(gs_stamp_order(words->stamp) <=
                    __atomic_load_n(&tracker->peaks.order[row], __ATOMIC_RELAXED)))
        gs_peak_keep(tracker, shard, row, words, tag, now);
}

/* What was freed, at that time of its making, was not freed after all. Inside the shard.
 */
void gs_peak_take_back(struct gs_tracker *tracker, struct gs_shard *shard, unsigned row,
                       const struct gs_allocation *allocation);

/* A row has a new peak; peak_lock is held. */
void gs_peak_set(struct gs_tracker *tracker, unsigned row, uint64_t now);

/* ---- for a report -------------------------------------------------------------------
 */

/* Devices, and pinned host memory. */
#define GS_PEAK_ROWS (GS_ROW_PINNED + 1)

/* What one place held; `live`: of that, what is live yet. `lost` of the group: with its
 * context. */
struct gs_peak_place {
    struct gs_group held;
    uint64_t live_bytes, live_count;
    double likely_live_bytes;
};

struct gs_peak {
    bool known;           /* false: there is nothing else here */
    bool about;           /* the places may have more or less than `bytes` in all */
    uint64_t bytes;       /* the peak */
    uint64_t time_ns;     /* when it was */
    uint64_t freed_bytes; /* of it, since then; without what was lost */
    /* The largest first, and behind them those without a call stack on purpose. */
    struct gs_peak_place *places;
    size_t count;
};

/*
 * The peaks of all rows. The program may go on meanwhile.
 * In:  part  1 / part of a peak is to have been freed since, or it is left out; 0: none
 * is A peak is not known where the row never had memory, where a file does not tell who
 * had it, and where there is no memory for the places.
 */
void gs_peaks_gather(struct gs_tracker *tracker, unsigned part,
                     struct gs_peak peaks[GS_PEAK_ROWS]);
void gs_peak_free(struct gs_peak *peak);
/* The order of the places. */
void gs_peak_sort(struct gs_peak *peak);

/* With the tracker. */
void gs_peaks_free(struct gs_tracker *tracker);

#endif
