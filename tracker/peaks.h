/*
 * peaks.h - the owners of the memory that was live at the peak.
 *
 * An allocation that is live now, and older than a row's peak, was live then. Allocations
 * that were live then and are freed later are recorded, until a new peak discards them at
 * once. So a pair of calls in a steady state costs one comparison, and nothing is
 * searched while the program runs.
 *
 * Records and peaks are compared by time. The clock is coarse, so the first free after a
 * peak advances the time of new records beyond the peak's, by one unit. If peaks and
 * frees alternate for so long that times would run too far ahead, allocations within one
 * step of the clock count as live at the peak, and the report calls the peak approximate.
 * The same holds if several threads are in the middle of a call when the peak is set.
 *
 * Owns:  the shards' lists (struct gs_since) and the table of their overflow.
 * Locks: a shard's list belongs to the thread inside the shard, or to the thread that has
 *        closed its gate; since_lock for the table.   Design: docs/tracker.md, "Peaks"
 */
#ifndef GS_PEAKS_H
#define GS_PEAKS_H

#include "tracker/groups.h"
#include "tracker/tracker_internal.h"

/* A freed allocation that was live at a peak. */
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

/* Peaks are numbered by row; the number of a past peak is never reused. */
#define GS_PEAK_ROW_BITS 8
static_assert(GS_ROWS <= 1u << GS_PEAK_ROW_BITS, "a row fits");

static inline uint64_t gs_peak_key(uint64_t number, unsigned row)
{
    return number << GS_PEAK_ROW_BITS | row;
}

/* The time of a new record. */
static inline uint64_t gs_peak_time(const struct gs_tracker *tracker, uint64_t time_ns)
{
    uint64_t first = __atomic_load_n(&tracker->peaks.made_from_ns, __ATOMIC_RELAXED);

    return time_ns > first ? time_ns : first;
}

/* Advances the times of records from now on. Returns a time that theirs are not before,
 * and those of all records before are. */
uint64_t gs_peak_advance(struct gs_tracker *tracker);

/* Records the free of an allocation in its scope, if it has one; and for the report if it
 * was live at its row's peak. Inside the shard; `now` in ns. */
void gs_peak_keep(struct gs_tracker *tracker, struct gs_shard *shard, unsigned row,
                  const struct gs_record *words, uint64_t tag, uint64_t now)
    __attribute__((noinline));

/* A live record's stamp without its sequence, for comparing times. */
static inline uint64_t gs_stamp_order(uint64_t stamp)
{
    return stamp * (UINT64_MAX / GS_STAMP_SEQUENCE + 1);
}

/* Records a free, or a loss, if the memory was live at the peak. Inside the shard. */
static inline void gs_peak_record_free(struct gs_tracker *tracker, struct gs_shard *shard,
                                       unsigned row, const struct gs_record *words,
                                       uint64_t tag, uint64_t now)
{
    if (GS_UNLIKELY(gs_stamp_order(words->stamp) <=
                    __atomic_load_n(&tracker->peaks.order[row], __ATOMIC_RELAXED))) {
        gs_peak_keep(tracker, shard, row, words, tag, now);
    }
}

/* Undoes the record of a free that failed; the allocation has its original time. Inside
 * the shard. */
void gs_peak_take_back(struct gs_tracker *tracker, struct gs_shard *shard, unsigned row,
                       const struct gs_allocation *allocation);

/* Sets a row's new peak; peak_lock is held. */
void gs_peak_set(struct gs_tracker *tracker, unsigned row, uint64_t now);

/* ---- for a report ----------------------------------------------------------------- */

/* Devices, and pinned host memory. */
#define GS_PEAK_ROWS (GS_ROW_PINNED + 1)

/* The memory that one call site held, and the part of it that is live now. The group's
 * `lost` was lost with its context. */
struct gs_peak_site {
    struct gs_group held;
    uint64_t live_bytes, live_count;
    double likely_live_bytes;
};

struct gs_peak {
    bool known;       /* false: the other fields are not set */
    bool about;       /* approximate: the sites may sum to more or less than `bytes` */
    uint64_t bytes;   /* the peak */
    uint64_t time_ns; /* the time of the peak */
    uint64_t freed_bytes; /* part of `bytes` that was freed since; without lost memory */
    /* The largest first, then those without a call stack by sampling. */
    struct gs_peak_site *places;
    size_t count;
    /* What allocators of frameworks had handed out of it, by stack; in any order. */
    struct gs_peak_site *parts;
    size_t part_count;
};

/* Returns true if memory of a peak has a call site to show: it has a stack, and is no
 * cache. Places without one come last. */
static inline bool gs_peak_is_placed(const struct gs_group *held)
{
    return !gs_stack_left_out(held->stack) && held->cached_by == 0;
}

/*
 * Gathers the peaks of all rows. The program may run during it.
 * In:  part  skips a peak of which less than 1 / part was freed since; 0: skips none
 * A peak is unknown if the row never had memory, if a file lacks its owners, or if there
 * is no memory for the places.
 */
void gs_peaks_gather(struct gs_tracker *tracker, unsigned part,
                     struct gs_peak peaks[GS_PEAK_ROWS]);
void gs_peak_free(struct gs_peak *peak);
/* Sorts the places. */
void gs_peak_sort(struct gs_peak *peak);

/* Frees the peaks, with the tracker. */
void gs_peaks_free(struct gs_tracker *tracker);

#endif
