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
    uint64_t first = __atomic_load_n(&tracker->made_from_ns, __ATOMIC_RELAXED);

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
                    __atomic_load_n(&tracker->shared[row].peak_order, __ATOMIC_RELAXED)))
        gs_peak_keep(tracker, shard, row, words, tag, now);
}

/* It was not freed after all. Inside the shard. */
void gs_peak_take_back(struct gs_tracker *tracker, struct gs_shard *shard, unsigned row,
                       uint64_t who, uint64_t bytes);

/* A row has a new peak; peak_lock is held. */
void gs_peak_set(struct gs_tracker *tracker, struct gs_shared_row *shared, uint64_t now);

/* What held a row's memory when there was most of it. */
struct gs_peak {
    uint64_t bytes, time_ns;
    uint64_t freed_bytes; /* of these, since */
    bool about;           /* what the places have is not exactly that in all */
    struct gs_groups places;
    struct gs_groups live; /* of these places, what has not been freed */
};

/*
 * For a report. The program may go on meanwhile.
 * In:     part  1 / part of the peak is to have been freed since; 0: nothing need be
 * Errors: GS_ERR_NOT_FOUND  the row never had memory, who had it is not known any more,
 * or less of it has been freed GS_ERR_HOST_NOMEM
 */
enum gs_status gs_peak_gather(struct gs_tracker *tracker, unsigned row, unsigned part,
                              struct gs_peak *out) GS_MUST_USE;
void gs_peak_free(struct gs_peak *peak);

/* With the tracker. */
void gs_peaks_free(struct gs_tracker *tracker);

#endif
