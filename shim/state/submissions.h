/*
 * submissions.h - how often each thread has given the device work, and whether all of it
 * is known to be complete.
 *
 * Each thread has a record with two counts: calls that submit begun, and ended. A wrapper
 * of submit.def adds to the first, calls the driver, adds to the second. A snapshot is
 * taken before a synchronize is entered, and is good for a proof if no call was under way
 * then (begun equals ended). Once the synchronize has succeeded, the context is idle for
 * as long as nothing more is begun: that is all a free has to look at.
 *
 * Why both counts. Counted at the end alone, a call that has submitted and not yet
 * returned is unseen by a free that comes after it by other means: its kernel has written
 * a flag, another thread has read it and frees. Counted at the beginning alone, a call
 * that was counted before the snapshot may submit after the synchronize.
 *
 * Memory order. A count is written by its thread alone, with release order, the first one
 * before the driver is entered; the driver's own barriers in front of its doorbell keep
 * it before anything that the device makes of the work. Counts are read with acquire
 * order. Work that the program orders before a free, by whatever it synchronizes its
 * threads with, is counted where that free reads. Work that it does not order before the
 * free is not the free's to wait for. A snapshot is published with the mark of its
 * context (release) and read before the counts are (acquire), and counts only grow: equal
 * sums mean that each thread's count is as it was at the snapshot.
 *
 * What a snapshot taken too early misses, it counts as new work: a wait too many. In the
 * other direction it cannot err.
 *
 * Calls are counted by stream as well (streams_seen.h), in a way that costs a launch
 * nothing while it goes to the stream of the one before: a row's calls are added up when
 * the thread goes on to another stream.
 *
 * Calls are counted by device as well, once the process uses two: work of one device then
 * says nothing of another one's. A call counts for the device whose stream it is given;
 * in a default stream, for the device of the current context, which the driver is asked
 * for each time. What may be another device's work too (GS_STREAMS_ACROSS,
 * GS_STREAMS_BEYOND, streams whose creation was not seen) counts for every device. A
 * handle names streams of one device: as soon as a new stream has the handle of an older
 * one of another device, all counts are every device's again, for good.
 *
 * A thread's record joins the list when the thread first needs one, and leaves it with
 * the thread, so that a free adds up no more than there are threads. What an ended thread
 * counted stays in one record for all of them, the list's last (submissions.c).
 *
 * Owns:  a record for each thread, used again by later threads; never freed.
 * Lock:  that of submissions.c to join and to leave; none to read.   Design: docs/free.md
 */
#ifndef GS_SUBMISSIONS_H
#define GS_SUBMISSIONS_H

#include "gs_base.h"
#include "thread.h"

/*
 * What `where` of submit.def comes to: the handle of a stream, and what else is true of
 * the call. The legacy stream is 0 or CU_STREAM_LEGACY. A handle is an address, whose low
 * bits are free for
 *   PER_THREAD  CU_STREAM_PER_THREAD: the calling thread's own default stream
 *   BEYOND      no synchronize of a stream covers the call, and it is in no stream's
 * order LOOSE       a synchronize of the stream covers the call, which may be out of the
 *               stream's order, or use other contexts' memory
 *   ACROSS      (the top bit) the call may be work of other devices, too
 */
#define GS_STREAMS_LEGACY     ((uintptr_t)1)
#define GS_STREAMS_PER_THREAD ((uintptr_t)2)
#define GS_STREAMS_BEYOND     ((uintptr_t)4)
#define GS_STREAMS_LOOSE      ((uintptr_t)8)
#define GS_STREAMS_ACROSS     ((uintptr_t)1 << 63)

/* Any of these ends the single order (single_order.h) ... */
#define GS_STREAMS_UNORDERED                                                             \
    (GS_STREAMS_PER_THREAD | GS_STREAMS_BEYOND | GS_STREAMS_LOOSE)
/* ... and any of these is work that an event of each made stream does not cover. */
#define GS_STREAMS_UNCOVERED (GS_STREAMS_PER_THREAD | GS_STREAMS_BEYOND)

/* Streams that a thread tells apart: the legacy stream and six more. What it submits
 * elsewhere counts in the last row. */
enum { GS_STREAM_ROWS = 8, GS_STREAM_ROW_ELSEWHERE = GS_STREAM_ROWS - 1 };

/* Whose calls a count has: every device's, those of one of the first devices, or none:
 * the count of a device behind those is empty, and its calls are every device's. */
enum {
    GS_COUNT_EVERY,
    GS_COUNT_DEVICES = 8,
    GS_COUNT_NONE = GS_COUNT_DEVICES + 1,
    GS_COUNTS,
    GS_COUNT_ALL = GS_COUNTS /* the sum of all */
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

/* One thread's. Written by the thread that has it, read by any. */
struct gs_submissions {
    struct gs_calls *at; /* the thread's own: the count of its calls to `newest` */
    uintptr_t newest;    /* the thread's own: where it submitted last */
    uintptr_t unseen;    /* atomic: bits that no handle had so far */
    struct gs_submissions *next; /* atomic, written under the lock; kept when it leaves */
    struct gs_calls counts[GS_COUNTS];
    struct gs_submissions *back; /* under the lock */
    /* The calls since the thread last went from one stream to another are those of row
       `row`: begun - row_from of the row's count. Atomic. */
    uint64_t row_from;
    unsigned row, next_row; /* next_row: the thread's own, the next to be taken over */
    unsigned rows_used;     /* atomic: rows from the first on that may have calls */
    uint64_t turns;         /* atomic: odd while the rows change */
    bool apart;             /* the thread's own: it has counted for one device alone */
    struct gs_stream_row {
        uintptr_t stream;   /* atomic: gs_submissions_stream_of; 0: not in use */
        uint64_t calls;     /* atomic: but for those of the current row */
        unsigned count;     /* atomic: GS_COUNT_* of these calls */
    } rows[GS_STREAM_ROWS]; /* the first is the legacy stream's of GS_COUNT_EVERY */
    /* atomic: frees that found their context idle, by device. Behind the line that other
       threads read. */
    uint64_t idle_frees[GS_MAX_DEVICES] __attribute__((aligned(64)));
} __attribute__((aligned(128)));

/* The calling thread's record, given to it now. Keeps errno. */
struct gs_submissions *gs_submissions_join(void) __attribute__((cold, noinline));

static inline struct gs_submissions *gs_submissions_own(void)
{
    struct gs_submissions *own = gs_thread.submissions;
    return GS_LIKELY(own != NULL) ? own : gs_submissions_join();
}

/* Count a call that goes to another stream than the thread's last one, or to a default
 * stream while the process uses several devices. Returns what it counts in. */
struct gs_calls *gs_submissions_turn(uintptr_t where) __attribute__((cold, noinline));
/* The same of a call of the library's own, which the single order allows. */
struct gs_calls *gs_submissions_turn_away(void);

/* ---- devices ----------------------------------------------------------------------- */

/* How calls are counted. */
enum gs_devices_used {
    GS_DEVICES_ONE,     /* the process has used one device: GS_COUNT_EVERY has all */
    GS_DEVICES_APART,   /* by device */
    GS_DEVICES_TOGETHER /* for good: no count is one device's alone */
};
extern unsigned gs_submissions_devices /* atomic */
    __attribute__((visibility("hidden")));

static inline unsigned gs_submissions_devices_used(void)
{
    return __atomic_load_n(&gs_submissions_devices, __ATOMIC_ACQUIRE);
}

/* A context of this device is in use. */
void gs_submissions_meet_device(int device);
/* A stream was created on this device (-1: not known), and nobody has its handle yet. */
void gs_submissions_meet_stream(uintptr_t stream, int device);
/* From now on no count is one device's alone. */
void gs_submissions_count_together(void);

/* GS_STREAMS_ACROSS where that matters: elsewhere a copy goes where the launch before it
 * went. */
static inline uintptr_t gs_submissions_across(void)
{
    return gs_submissions_devices_used() == GS_DEVICES_APART ? GS_STREAMS_ACROSS : 0;
}

/* ---- counting ---------------------------------------------------------------------- */

/* Where a function of the per-thread form submits that was given `where`. */
static inline uintptr_t gs_submissions_per_thread(uintptr_t where)
{
    uintptr_t stream =
        where & ~(GS_STREAMS_BEYOND | GS_STREAMS_LOOSE | GS_STREAMS_ACROSS);
    return where | (stream == 0 || stream == GS_STREAMS_PER_THREAD ? GS_STREAMS_PER_THREAD
                                                                   : GS_STREAMS_LOOSE);
}

/* A plain addition that other threads may read: only the owner writes. */
static inline void gs_submissions_add(uint64_t *count)
{
    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELEASE);
}

/*
 * Around each call that submits; `where` as above. The call counts before its stream is
 * told: whoever reads a thread's rows while no call is under way reads all of them, and
 * one that begins meanwhile is seen to have begun.
 */
static inline struct gs_calls *gs_submission_begin(uintptr_t where)
{
    struct gs_submissions *own = gs_thread.submissions;
    if (GS_UNLIKELY(!own || own->newest != where)) {
        return gs_submissions_turn(where);
    }
    struct gs_calls *calls = own->at;
    gs_submissions_add(&calls->begun);
    return calls;
}

static inline void gs_submission_end(struct gs_calls *calls)
{
    gs_submissions_add(&calls->ended);
}

/* A stream, as calls that a synchronize of it covers are counted by it: the handle; the
 * calling thread's own number for its default stream. 0: there is none. */
static inline uintptr_t gs_submissions_stream_of(uintptr_t where)
{
    uintptr_t stream = where & ~(GS_STREAMS_LOOSE | GS_STREAMS_ACROSS);
    if (where & GS_STREAMS_BEYOND) {
        return 0;
    }
    if (stream == GS_STREAMS_PER_THREAD) {
        return (uintptr_t)gs_submissions_own() | GS_STREAMS_PER_THREAD;
    }
    return stream ? stream : GS_STREAMS_LEGACY;
}

/* The stream the calling thread submitted to last, as a number that names it. */
static inline uint64_t gs_submissions_stream(void)
{
    return gs_thread.submissions ? gs_thread.submissions->newest & ~GS_STREAMS_ACROSS : 0;
}

/* What has been submitted up to now. */
struct gs_snapshot {
    uint64_t mark;     /* for gs_submissions_mark; 0: no proof can rest on it */
    uint64_t alone;    /* the same while the process has used one device, else 0 */
    uint64_t all;      /* the same of every device's calls together */
    uintptr_t streams; /* GS_STREAMS_*: all that were ever used */
};

/*
 * Taken before a call that waits is entered.
 * In:  device     gs_submissions_count_of the device that is waited for, or GS_COUNT_ALL
 *      own_calls  calls between begin and end on this thread: 0, or 1 if the call that
 *                 waits is itself counted
 */
struct gs_snapshot gs_submissions_snapshot(unsigned device, unsigned own_calls);

/* The same, and how many calls each of `count` streams has in it. */
struct gs_snapshot gs_submissions_snapshot_of(unsigned device, unsigned own_calls,
                                              const uintptr_t *streams, unsigned count,
                                              uint64_t *calls);

/* A wait has succeeded: `mark` of its snapshot for an `*at` of gs_submissions_idle_on,
 * `alone` for one of gs_submissions_idle, `all` for one that is compared with all calls.
 */
void gs_submissions_mark(uint64_t *at, uint64_t mark);

/* The records of living threads, the newest first, then that of ended ones; atomic. */
extern struct gs_submissions *gs_submissions_records
    __attribute__((visibility("hidden")));

static inline struct gs_submissions *
gs_submissions_next(const struct gs_submissions *record)
{
    return __atomic_load_n(&record->next, __ATOMIC_ACQUIRE);
}

/* Calls begun, by all threads, that count for every device. While a thread ends its calls
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

/* Out of line part of the function below. */
uint64_t gs_submissions_begun_on(unsigned used, unsigned device) __attribute__((cold));

/* Calls begun that may be work of the device: gs_submissions_count_of or GS_COUNT_ALL. */
static inline uint64_t gs_submissions_begun(unsigned device)
{
    unsigned used = gs_submissions_devices_used();
    return GS_LIKELY(used == GS_DEVICES_ONE) ? gs_submissions_begun_of_every()
                                             : gs_submissions_begun_on(used, device);
}

/*
 * Whether nothing was begun since the mark, which was made while the process had used one
 * device: before a thread counts its first call for one device alone, it adds one to its
 * calls for every device, and all such marks are void.
 */
static inline bool gs_submissions_idle(const uint64_t *idle_at)
{
    uint64_t mark = __atomic_load_n(idle_at, __ATOMIC_ACQUIRE);
    return GS_LIKELY(mark != 0) && gs_submissions_begun_of_every() + 1 == mark;
}

/* Whether nothing was begun on the device since the mark. */
bool gs_submissions_idle_on(const uint64_t *idle_at, unsigned device)
    __attribute__((cold, noinline));

/* Frees that found their context idle. */
uint64_t gs_submissions_idle_frees(unsigned device);

/* In a forked child: no thread has submitted anything. */
void gs_submissions_reset(void);

#endif
