/*
 * submissions.h - counts the calls of each thread that submit work to the device, to
 * prove that all submitted work is complete.
 *
 * Each thread has a record with two counts: submitting calls begun, and ended. A wrapper
 * of submit.def adds to the first, calls the driver, and adds to the second. A snapshot
 * is taken before a synchronize begins, and supports a proof if no call was in progress
 * then (begun equals ended). Once the synchronize has succeeded, the context is idle
 * while no further call begins: a free only compares the counts.
 *
 * Why two counts. With a count at the end alone, a free could miss a call that has
 * submitted but not yet returned: its kernel has written a flag, and another thread has
 * read the flag and frees. With a count at the beginning alone, a call counted before the
 * snapshot may submit after the synchronize.
 *
 * Memory order. Only a thread itself writes its counts, with release order; it writes the
 * first before it enters the driver. The driver's own barriers before its doorbell order
 * this write before all effects of the work on the device. Counts are read with acquire
 * order. Work that the program orders before a free, by any synchronization of its
 * threads, is counted when this free reads. A free need not wait for work that is not
 * ordered before it. A snapshot is published with the mark of its context (release) and
 * read before the counts (acquire), and counts only grow: equal sums mean that each
 * thread's count is unchanged since the snapshot.
 *
 * Work that a too early snapshot misses counts as new work, which costs an unneeded wait.
 * The opposite error cannot occur.
 *
 * Calls are also counted by stream (sync_proof.h). A launch to the same stream as the
 * thread's last one costs nothing: the calls are added to a row when the thread switches
 * to another stream.
 *
 * Calls are also counted by device once the process uses two, so that work of one device
 * does not count for another. A call counts for the device of its stream; in a default
 * stream, for the device of the current context, which is queried from the driver each
 * time. A call that may also be another device's work (GS_STREAMS_ACROSS,
 * GS_STREAMS_BEYOND, streams of unknown origin) counts for every device. A handle names
 * streams of one device: once a new stream has the handle of an older stream on another
 * device, all calls count for every device again, for good.
 *
 * A thread's record joins the list when the thread first needs one, and leaves with the
 * thread, so that a free adds up only as many records as there are threads. One record
 * for all ended threads, the list's last, keeps their counts (submissions.c).
 *
 * Owns:  a record for each thread, reused by later threads; never freed.
 * Lock:  the lock of submissions.c to join and to leave; none to read.   Design:
 *        docs/free.md
 */
#ifndef GS_SUBMISSIONS_H
#define GS_SUBMISSIONS_H

#include "gs_base.h"
#include "shim/settings/thread.h"

/*
 * A tagged stream: a stream's handle with properties of the call, as the column `where`
 * of submit.def has it. The legacy stream is 0 or CU_STREAM_LEGACY. A handle is an
 * address, whose low bits are free for
 *   PER_THREAD  CU_STREAM_PER_THREAD: the calling thread's own default stream
 *   BEYOND      no synchronize of a stream covers the call, and no stream orders it
 *   LOOSE       a synchronize of the stream covers the call, but the call may be out of
 *               the stream's order, or use other contexts' memory
 *   ACROSS      (the top bit) the call may be work of other devices, too
 */
#define GS_STREAMS_LEGACY     ((uintptr_t)1)
#define GS_STREAMS_PER_THREAD ((uintptr_t)2)
#define GS_STREAMS_BEYOND     ((uintptr_t)4)
#define GS_STREAMS_LOOSE      ((uintptr_t)8)
#define GS_STREAMS_ACROSS     ((uintptr_t)1 << 63)
/* Of a record's `newest` alone: gs_submissions_watch. */
#define GS_STREAMS_WATCHED ((uintptr_t)1 << 62)

/* Each of these ends the single order (single_order.h). */
#define GS_STREAMS_UNORDERED                                                             \
    (GS_STREAMS_PER_THREAD | GS_STREAMS_BEYOND | GS_STREAMS_LOOSE)
/* Each of these is work that the events of all created streams do not cover. */
#define GS_STREAMS_UNCOVERED (GS_STREAMS_PER_THREAD | GS_STREAMS_BEYOND)

/* The streams that a thread distinguishes: the legacy stream and six more. Calls to other
 * streams count in the last row. */
enum { GS_STREAM_ROWS = 8, GS_STREAM_ROW_ELSEWHERE = GS_STREAM_ROWS - 1 };

/* The device of a count's calls: every device, one of the first devices, or none. The
 * count of a device beyond the first ones is empty: its calls count for every device. */
enum {
    GS_COUNT_EVERY,
    GS_COUNT_DEVICES = 8,
    GS_COUNT_NONE = GS_COUNT_DEVICES + 1,
    GS_COUNTS,
    GS_COUNT_ALL = GS_COUNTS /* the sum of all counts */
};

/* The count of a device's own calls. */
static inline unsigned gs_submissions_count_of(int device)
{
    return device >= 0 && device < GS_COUNT_DEVICES ? (unsigned)device + 1
                                                    : (unsigned)GS_COUNT_NONE;
}

struct gs_calls {
    uint64_t begun, ended; /* atomic */
};

/* The record of one thread. Written by this thread, read by any. */
struct gs_submissions {
    struct gs_calls *at;         /* the thread's own: the count for calls to `newest` */
    uintptr_t newest;            /* the thread's own: the last submission's stream */
    uintptr_t unseen;            /* atomic: bits that no handle has had so far */
    struct gs_submissions *next; /* atomic, written under the lock; kept on leaving */
    struct gs_calls counts[GS_COUNTS];
    struct gs_submissions *back; /* under the lock */
    /* The calls since the thread last switched streams belong to row `row`: begun -
     * row_from of the row's count. Atomic. */
    uint64_t row_from;
    unsigned row, next_row; /* next_row: the thread's own, the next to be reused */
    unsigned rows_used;     /* atomic: rows from the first on that may have calls */
    uint64_t turns;         /* atomic: odd while the rows change */
    bool apart; /* the thread's own: has counted a call for one device alone */
    struct gs_stream_row {
        uintptr_t stream;   /* atomic: gs_submissions_stream_of; 0: unused */
        uint64_t calls;     /* atomic: without those since row_from */
        unsigned count;     /* atomic: GS_COUNT_* of these calls */
    } rows[GS_STREAM_ROWS]; /* the first is the legacy stream's of GS_COUNT_EVERY */
    /* atomic: frees that found their context idle, by device. In a cache line of its own,
     * since other threads read the fields above. */
    uint64_t idle_frees[GS_MAX_DEVICES] __attribute__((aligned(64)));
} __attribute__((aligned(128)));

/* Creates the calling thread's record. Preserves errno. */
struct gs_submissions *gs_submissions_join(void) __attribute__((cold, noinline));

static inline struct gs_submissions *gs_submissions_own(void)
{
    struct gs_submissions *own = gs_thread.submissions;
    return GS_LIKELY(own != NULL) ? own : gs_submissions_join();
}

/* Counts a call to a stream other than the thread's last one, or to a default stream
 * while the process uses several devices. Returns the count for the end of the call. */
struct gs_calls *gs_submissions_turn(uintptr_t tagged_stream)
    __attribute__((cold, noinline));
/* Like gs_submissions_turn, for a call of the library's own, which the single order
 * allows. */
struct gs_calls *gs_submissions_turn_away(void);

/* ---- devices ----------------------------------------------------------------------- */

/* The way in which calls are counted by device. */
enum gs_devices_used {
    GS_DEVICES_ONE,   /* the process has used one device: GS_COUNT_EVERY has all calls */
    GS_DEVICES_APART, /* by device */
    GS_DEVICES_TOGETHER /* for good: every call counts for every device */
};
extern unsigned gs_submissions_devices /* atomic */
    __attribute__((visibility("hidden")));

static inline unsigned gs_submissions_devices_used(void)
{
    return __atomic_load_n(&gs_submissions_devices, __ATOMIC_ACQUIRE);
}

/* Called when a context of this device is used. */
void gs_submissions_add_device(int device);
/* Called when a stream was created on this device (-1: not known), before the program
 * gets the handle. */
void gs_submissions_add_stream(uintptr_t stream, int device);
/* Makes every later call count for every device. */
void gs_submissions_count_together(void);

/* GS_STREAMS_ACROSS while the process counts by device; else 0, so that a copy counts in
 * the same place as the launch before it. */
static inline uintptr_t gs_submissions_across(void)
{
    return gs_submissions_devices_used() == GS_DEVICES_APART ? GS_STREAMS_ACROSS : 0;
}

/* ---- counting ---------------------------------------------------------------------- */

/* The `tagged_stream` of a per-thread form of a function that was given `tagged_stream`.
 */
static inline uintptr_t gs_submissions_per_thread(uintptr_t tagged_stream)
{
    uintptr_t stream =
        tagged_stream & ~(GS_STREAMS_BEYOND | GS_STREAMS_LOOSE | GS_STREAMS_ACROSS);
    return tagged_stream |
           (stream == 0 || stream == GS_STREAMS_PER_THREAD ? GS_STREAMS_PER_THREAD
                                                           : GS_STREAMS_LOOSE);
}

/* A plain addition to a count that only its owner writes and other threads may read. */
static inline void gs_submissions_add(uint64_t *count)
{
    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELEASE);
}

/* gs_submission_begin, with a statement for its slow path. */
#define GS_SUBMISSION_BEGIN(tagged_stream, watch)                                        \
    ({                                                                                   \
        const uintptr_t to = (tagged_stream);                                            \
        struct gs_submissions *own_record = gs_thread.submissions;                       \
        struct gs_calls *own_calls;                                                      \
        if (GS_UNLIKELY(!own_record || own_record->newest != to)) {                      \
            watch;                                                                       \
            own_calls = gs_submissions_turn(to);                                         \
        } else {                                                                         \
            own_calls = own_record->at;                                                  \
            gs_submissions_add(&own_calls->begun);                                       \
        }                                                                                \
        own_calls;                                                                       \
    })

/* Makes every later call take the slow path. Called at start. */
void gs_submissions_watch(void);

/*
 * Called before and after each call that submits; `tagged_stream` as above. The call
 * counts as begun before its stream is recorded: a reader that finds no call in progress
 * reads complete rows, and detects a call that begins during the reading.
 */
static inline __attribute__((always_inline)) struct gs_calls *
gs_submission_begin(uintptr_t tagged_stream)
{
    return GS_SUBMISSION_BEGIN(tagged_stream, (void)0);
}

static inline __attribute__((always_inline)) void
gs_submission_end(struct gs_calls *calls)
{
    gs_submissions_add(&calls->ended);
}

/* The key under which a stream's calls are counted for synchronizes: the handle; for a
 * per-thread default stream the calling thread's own number. 0: none. */
static inline uintptr_t gs_submissions_stream_of(uintptr_t tagged_stream)
{
    uintptr_t stream = tagged_stream & ~(GS_STREAMS_LOOSE | GS_STREAMS_ACROSS);
    if (tagged_stream & GS_STREAMS_BEYOND) {
        return 0;
    }
    if (stream == GS_STREAMS_PER_THREAD) {
        return (uintptr_t)gs_submissions_own() | GS_STREAMS_PER_THREAD;
    }
    return stream ? stream : GS_STREAMS_LEGACY;
}

/* A number for the stream of the calling thread's last submission. */
static inline uint64_t gs_submissions_stream(void)
{
    return gs_thread.submissions
               ? gs_thread.submissions->newest & ~(GS_STREAMS_ACROSS | GS_STREAMS_WATCHED)
               : 0;
}

/* The state of the counts at one time. */
struct gs_snapshot {
    uint64_t mark;     /* for gs_submissions_record; 0: supports no proof */
    uint64_t alone;    /* `mark` while the process has used one device, else 0 */
    uint64_t all;      /* like `mark`, for the calls of all devices together */
    uintptr_t streams; /* GS_STREAMS_*: all bits ever used */
};

/*
 * Takes a snapshot. Called before a call that waits.
 * In:  device     gs_submissions_count_of the device that is waited for, or GS_COUNT_ALL
 *      own_calls  calls in progress on this thread: 0, or 1 if the call that waits is
 *                 itself counted
 */
struct gs_snapshot gs_submissions_snapshot(unsigned device, unsigned own_calls);

/* Like gs_submissions_snapshot; also returns the calls of each of `count` streams. */
struct gs_snapshot gs_submissions_snapshot_of(unsigned device, unsigned own_calls,
                                              const uintptr_t *streams, unsigned count,
                                              uint64_t *calls);

/* Called after a wait has succeeded. The mark is a member of the wait's snapshot: `mark`
 * for an `*at` of gs_submissions_idle_on, `alone` for one of gs_submissions_idle, `all`
 * for one that is compared with all calls. */
void gs_submissions_record(uint64_t *at, uint64_t mark);

/* The records of living threads, the newest first, then the record of ended threads;
 * atomic. */
extern struct gs_submissions *gs_submissions_records
    __attribute__((visibility("hidden")));

static inline struct gs_submissions *
gs_submissions_next(const struct gs_submissions *record)
{
    return __atomic_load_n(&record->next, __ATOMIC_ACQUIRE);
}

/* Calls begun by all threads that count for every device. While a thread ends, its calls
 * may be counted twice. */
static inline uint64_t gs_submissions_begun_of_every(void)
{
    const struct gs_submissions *record =
        __atomic_load_n(&gs_submissions_records, __ATOMIC_ACQUIRE);
    uint64_t sum = 0;
    for (; record; record = gs_submissions_next(record)) {
        sum += __atomic_load_n(&record->counts[GS_COUNT_EVERY].begun, __ATOMIC_ACQUIRE);
    }
    return sum;
}

/* The slow path of gs_submissions_begun. */
uint64_t gs_submissions_begun_on(unsigned used, unsigned device) __attribute__((cold));

/* Calls begun that may be work of the device: gs_submissions_count_of or GS_COUNT_ALL. */
static inline uint64_t gs_submissions_begun(unsigned device)
{
    unsigned used = gs_submissions_devices_used();
    return GS_LIKELY(used == GS_DEVICES_ONE) ? gs_submissions_begun_of_every()
                                             : gs_submissions_begun_on(used, device);
}

/*
 * Returns true if no call has begun since the mark, which was set while the process had
 * used one device: before a thread counts its first call for one device alone, it adds
 * one to its calls for every device, which voids all such marks.
 */
static inline bool gs_submissions_idle(const uint64_t *idle_at)
{
    uint64_t mark = __atomic_load_n(idle_at, __ATOMIC_ACQUIRE);
    return GS_LIKELY(mark != 0) && gs_submissions_begun_of_every() + 1 == mark;
}

/* Returns true if no call has begun on the device since the mark. */
bool gs_submissions_idle_on(const uint64_t *idle_at, unsigned device)
    __attribute__((cold, noinline));

/* The frees that found their context idle. */
uint64_t gs_submissions_idle_frees(unsigned device);

/* In a forked child: resets all counts. */
void gs_submissions_reset(void);

#endif
