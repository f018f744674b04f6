/*
 * submissions.c - the records of all threads, and the proofs from their sums.
 *
 * A thread that ends adds its counts to `gone`, the list's last record, then clears its
 * own record, then takes it out of the list. A reader visits the thread's record before
 * `gone`, so a concurrent reader may count these calls twice but never misses any. Only a
 * snapshot must not count twice: later calls without a wait could reach a mark that is
 * too high. So a snapshot is void if a thread ended while it was taken. The streams of an
 * ended thread's calls are not kept: a wait for the whole context covers them.
 *
 * Owns:  the list of records, the page for new records, and the devices of streams.
 * Lock:  records_lock to join and leave, with all signals blocked, since a handler may
 *        submit. Readers take no lock; a record that has left still points to its
 *        successor.
 */
#include "shim/state/submissions.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "gs_locks.h"
#include "shim/link/known_functions.h"
#include "shim/link/real.h"
#include "shim/parts.h"

struct gs_submissions *gs_submissions_records;
unsigned gs_submissions_devices;

static struct gs_mutex records_lock = GS_MUTEX(GS_RANK_SUBMISSIONS);
static struct gs_submissions *last; /* records_lock: last before `gone` */
static struct gs_submissions
    *unused_records; /* records_lock: unused ones, linked by back */
/* The counts of ended threads; in the list once a thread has joined. */
static struct gs_submissions gone = {.unseen = UINTPTR_MAX};
static bool gone_listed;     /* records_lock */
static unsigned long ending; /* atomic, written under records_lock: odd during a change */

enum { PAGE_RECORDS = 10 };
static struct page {
    struct gs_submissions records[PAGE_RECORDS]; /* those in use are in the list */
    size_t used;
} * page; /* records_lock */

static pthread_key_t leave_key; /* immutable after key_once */
static bool leave_key_made;     /* likewise */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* Used where there is no memory for a record; the proof has then ended. */
static struct gs_submissions spare = {.unseen = UINTPTR_MAX,
                                      .at = &spare.counts[GS_COUNT_EVERY]};

/* ---- records ----------------------------------------------------------------------- */

static void lock_records(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
    gs_mutex_lock(&records_lock);
}

static void let_go(const sigset_t *before)
{
    gs_mutex_unlock(&records_lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* records_lock is held from here on, unless noted. */
static void set_next(struct gs_submissions **link, struct gs_submissions *next)
{
    __atomic_store_n(link, next, __ATOMIC_RELEASE);
}

static void add_count(uint64_t *to, const uint64_t *from)
{
    uint64_t sum =
        __atomic_load_n(to, __ATOMIC_RELAXED) + __atomic_load_n(from, __ATOMIC_RELAXED);
    __atomic_store_n(to, sum, __ATOMIC_RELEASE);
}

/* Moves the counts to `gone`; `own` precedes it in the list and stays so. The streams
 * move first, so that counted calls always have their streams. The record keeps `unseen`
 * for its next thread. */
static void move_counts(struct gs_submissions *own)
{
    __atomic_store_n(&gone.unseen, gone.unseen & own->unseen, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < GS_COUNTS; i++) {
        add_count(&gone.counts[i].begun, &own->counts[i].begun);
        add_count(&gone.counts[i].ended, &own->counts[i].ended);
    }
    for (size_t i = 0; i < GS_MAX_DEVICES; i++) {
        add_count(&gone.idle_frees[i], &own->idle_frees[i]);
        __atomic_store_n(&own->idle_frees[i], 0, __ATOMIC_RELEASE);
    }
    for (unsigned i = 0; i < GS_COUNTS; i++) {
        __atomic_store_n(&own->counts[i].begun, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&own->counts[i].ended, 0, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&own->row_from, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&own->row, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&own->rows_used, 0, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < GS_STREAM_ROWS; i++) {
        __atomic_store_n(&own->rows[i].stream, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&own->rows[i].calls, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&own->rows[i].count, GS_COUNT_EVERY, __ATOMIC_RELEASE);
    }
    own->newest = 0;
    own->at = &own->counts[GS_COUNT_EVERY];
    own->apart = false;
}

static void link_first(struct gs_submissions *record)
{
    struct gs_submissions *first = gs_submissions_records;
    record->back = NULL;
    set_next(&record->next, first);
    if (first) {
        first->back = record;
    }
    if (!first || first == &gone) {
        last = record;
    }
    set_next(&gs_submissions_records, record);
}

static void unlink_record(struct gs_submissions *record)
{
    set_next(record->back ? &record->back->next : &gs_submissions_records, record->next);
    record->next->back = record->back;
    if (record == last) {
        last = record->back;
    }
}

static void retire_record(struct gs_submissions *own)
{
    if (!gone_listed) {
        gone.back = last;
        set_next(&last->next, &gone);
        gone_listed = true;
    }
    __atomic_store_n(&ending, ending + 1, __ATOMIC_RELAXED);
    move_counts(own);
    unlink_record(own);
    __atomic_store_n(&ending, ending + 1, __ATOMIC_RELEASE);
    own->back = unused_records;
    unused_records = own;
}

/* Called as the thread ends. Work submitted by a later destructor gives the thread a new
 * record. A call that was cancelled in the driver counts as ended. In a forked child,
 * records of the parent are void. Takes the lock. */
static void leave_record(void *record)
{
    struct gs_submissions *own = record;
    sigset_t before;
    if (gs_thread.submissions != own) {
        return;
    }
    lock_records(&before);
    for (unsigned i = 0; i < GS_COUNTS; i++) {
        struct gs_calls *calls = &own->counts[i];
        __atomic_store_n(&calls->ended, __atomic_load_n(&calls->begun, __ATOMIC_RELAXED),
                         __ATOMIC_RELEASE);
    }
    gs_thread.submissions = NULL;
    retire_record(own);
    let_go(&before);
}

static void make_key(void)
{
    leave_key_made = pthread_key_create(&leave_key, leave_record) == 0;
}

/* A record from the page in use or a new page. Does not call malloc: a wrapper may run
 * inside a malloc that another tool interposes. */
static struct gs_submissions *new_record(void)
{
    if (!page || page->used == PAGE_RECORDS) {
        struct page *made = mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made == MAP_FAILED) {
            return NULL;
        }
        page = made;
    }
    struct gs_submissions *record = &page->records[page->used++];
    record->unseen = UINTPTR_MAX;
    record->at = &record->counts[GS_COUNT_EVERY];
    return record;
}

static struct gs_submissions *take_record(void)
{
    struct gs_submissions *record = unused_records;
    if (record) {
        unused_records = record->back;
    } else {
        record = new_record();
    }
    if (record) {
        link_first(record);
    }
    return record;
}

/* Takes the lock. */
struct gs_submissions *gs_submissions_join(void)
{
    int saved_errno = errno;
    sigset_t before;
    pthread_once(&key_once, make_key);
    lock_records(&before);
    struct gs_submissions *own = gs_thread.submissions; /* a handler may have joined */
    if (!own) {
        own = take_record();
    }
    gs_thread.submissions = own;
    let_go(&before);
    if (!own) {
        gs_known_end_proof("a thread that there is no memory to count for");
        own = &spare;
    } else if (leave_key_made) {
        /* Without the key, or if this fails, the record is never reused. */
        (void)pthread_setspecific(leave_key, own);
    }
    gs_thread.submissions = own;
    errno = saved_errno;
    return own;
}

/* ---- devices ----------------------------------------------------------------------- */

/*
 * The device of each created stream, by its handle. An entry may outlive its stream. An
 * entry is a handle with the GS_COUNT_* of its device in the low bits; atomic, and
 * written once.
 */
#define STREAMS_KNOWN 4096u
#define STREAMS_MOST  (STREAMS_KNOWN / 2)
#define COUNT_BITS    ((uintptr_t)15)
static uintptr_t stream_devices[STREAMS_KNOWN];
static unsigned streams_met;  /* atomic */
static int first_device = -1; /* atomic; -1: none yet */

static_assert((uintptr_t)GS_COUNTS <= COUNT_BITS,
              "a count fits the low bits of a handle");

void gs_submissions_count_together(void)
{
    __atomic_store_n(&gs_submissions_devices, GS_DEVICES_TOGETHER, __ATOMIC_RELEASE);
}

void gs_submissions_add_device(int device)
{
    int none = -1;
    unsigned one = GS_DEVICES_ONE;
    if (!__atomic_compare_exchange_n(&first_device, &none, device, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) &&
        none != device) {
        (void)__atomic_compare_exchange_n(&gs_submissions_devices, &one, GS_DEVICES_APART,
                                          false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
}

/* The table entry of the handle, used or free. */
static uintptr_t *device_entry(uintptr_t stream)
{
    size_t i = (size_t)((stream >> 4) * 0x9e3779b97f4a7c15u >> 52) % STREAMS_KNOWN;
    for (;;) {
        uintptr_t held = __atomic_load_n(&stream_devices[i], __ATOMIC_ACQUIRE);
        if (held == 0 || (held & ~COUNT_BITS) == stream) {
            return &stream_devices[i];
        }
        i = (i + 1) % STREAMS_KNOWN;
    }
}

void gs_submissions_add_stream(uintptr_t stream, int device)
{
    uintptr_t none = 0, entry = stream | gs_submissions_count_of(device);
    if (gs_submissions_devices_used() == GS_DEVICES_TOGETHER) {
        return;
    }
    if ((stream & COUNT_BITS) != 0 ||
        __atomic_load_n(&streams_met, __ATOMIC_RELAXED) >= STREAMS_MOST) {
        gs_submissions_count_together();
        return;
    }
    uintptr_t *place = device_entry(stream);
    while (!__atomic_compare_exchange_n(place, &none, entry, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
        if ((none & ~COUNT_BITS) == stream) {
            if (none != entry) {
                gs_submissions_count_together();
            }
            return;
        }
        place = device_entry(stream); /* another thread's stream took the entry */
        none = 0;
    }
    __atomic_add_fetch(&streams_met, 1, __ATOMIC_RELAXED);
}

static bool is_default(uintptr_t stream)
{
    return stream <= GS_STREAMS_LEGACY || (stream & GS_STREAMS_PER_THREAD) != 0;
}

/* The count for a call to this place. */
static unsigned count_of(uintptr_t tagged_stream)
{
    uintptr_t stream = tagged_stream & ~(GS_STREAMS_LOOSE | GS_STREAMS_ACROSS);
    if (gs_submissions_devices_used() != GS_DEVICES_APART ||
        (tagged_stream & GS_STREAMS_BEYOND) != 0 ||
        (tagged_stream & GS_STREAMS_ACROSS) != 0) {
        return GS_COUNT_EVERY;
    }
    unsigned count = GS_COUNT_NONE;
    if (!is_default(stream)) {
        count = (unsigned)(*device_entry(stream) & COUNT_BITS);
    } else {
        CUdevice device;
        if (gs_real_now()->cuCtxGetDevice(&device) == CUDA_SUCCESS) {
            count = gs_submissions_count_of((int)device);
        }
    }
    return count == GS_COUNT_NONE ? GS_COUNT_EVERY : count;
}

/* ---- calls by stream --------------------------------------------------------------- */

/* A stream that no call uses: the next call takes the slow path, wherever it goes. */
#define NOWHERE UINTPTR_MAX

static uintptr_t watched; /* GS_STREAMS_WATCHED or 0; set at start */

void gs_submissions_watch(void)
{
    watched = GS_STREAMS_WATCHED;
}

/* Returns the row of the stream and count. If there is none, reuses the rows in turn: the
 * earlier calls of a reused row then count in no row. */
static unsigned find_row(struct gs_submissions *own, uintptr_t tagged_stream,
                         unsigned count)
{
    uintptr_t stream = gs_submissions_stream_of(tagged_stream);
    if (stream == 0) {
        return GS_STREAM_ROW_ELSEWHERE;
    }
    if (stream == GS_STREAMS_LEGACY && count == GS_COUNT_EVERY) {
        return 0;
    }
    for (unsigned i = 1; i < GS_STREAM_ROW_ELSEWHERE; i++) {
        if (own->rows[i].stream == stream && own->rows[i].count == count) {
            return i;
        }
    }
    unsigned taken = own->next_row + 1;
    own->next_row = taken % (GS_STREAM_ROW_ELSEWHERE - 1);
    __atomic_store_n(&own->rows[taken].stream, stream, __ATOMIC_RELEASE);
    __atomic_store_n(&own->rows[taken].calls, 0, __ATOMIC_RELEASE);
    return taken;
}

/*
 * Adds the current row's calls to the row; the call is the next row's first. A signal
 * handler that submits while its thread is in here would corrupt the rows: the proof
 * ends.
 */
static struct gs_calls *change_row(struct gs_submissions *own, uintptr_t tagged_stream,
                                   unsigned count)
{
    struct gs_calls *calls = &own->counts[count];
    uint64_t turns = __atomic_load_n(&own->turns, __ATOMIC_RELAXED);
    if (turns % 2 != 0) {
        gs_known_end_proof("a signal handler that submits during a submission");
        gs_submissions_add(&calls->begun);
        return calls;
    }
    __atomic_store_n(&own->turns, turns + 1, __ATOMIC_RELAXED);
    if (GS_UNLIKELY(count != GS_COUNT_EVERY && !own->apart)) {
        /* Voids earlier proofs about all calls. */
        own->apart = true;
        gs_submissions_add(&own->counts[GS_COUNT_EVERY].begun);
        gs_submissions_add(&own->counts[GS_COUNT_EVERY].ended);
    }
    uint64_t until = __atomic_load_n(&own->at->begun, __ATOMIC_RELAXED);
    uint64_t from = __atomic_load_n(&calls->begun, __ATOMIC_RELAXED);
    struct gs_stream_row *row = &own->rows[own->row];
    gs_submissions_add(&calls->begun);
    __atomic_store_n(&row->calls, row->calls + (until - own->row_from), __ATOMIC_RELEASE);
    __atomic_store_n(&own->row_from, from, __ATOMIC_RELEASE);
    unsigned next = find_row(own, tagged_stream, count);
    if (next >= own->rows_used && next < GS_STREAM_ROW_ELSEWHERE) {
        __atomic_store_n(&own->rows_used, next + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&own->rows[next].count, count, __ATOMIC_RELEASE);
    __atomic_store_n(&own->row, next, __ATOMIC_RELEASE);
    own->at = calls;
    /* The device of a default stream is queried for each call. */
    own->newest =
        gs_submissions_devices_used() == GS_DEVICES_APART &&
                is_default(tagged_stream & ~(GS_STREAMS_LOOSE | GS_STREAMS_ACROSS))
            ? NOWHERE
            : tagged_stream | watched;
    __atomic_store_n(&own->turns, turns + 2, __ATOMIC_RELEASE);
    return calls;
}

struct gs_calls *gs_submissions_turn(uintptr_t tagged_stream)
{
    struct gs_submissions *own = gs_submissions_own();
    uintptr_t unseen = __atomic_load_n(&own->unseen, __ATOMIC_RELAXED);
    if (tagged_stream & unseen) {
        gs_parts_submits_elsewhere(tagged_stream);
        __atomic_store_n(&own->unseen, unseen & ~tagged_stream, __ATOMIC_RELEASE);
    }
    return change_row(own, tagged_stream, count_of(tagged_stream));
}

struct gs_calls *gs_submissions_turn_away(void)
{
    return change_row(gs_submissions_own(), GS_STREAMS_BEYOND, GS_COUNT_EVERY);
}

/* Makes the thread's next call take the slow path if the thread began while only one
 * device was in use: the call may be one device's. */
static void turn_soon(void)
{
    struct gs_submissions *own = gs_thread.submissions;
    if (gs_submissions_devices_used() == GS_DEVICES_APART && own &&
        own->at == &own->counts[GS_COUNT_EVERY]) {
        own->newest = NOWHERE;
    }
}

/* Adds the record's calls to each stream that may be work of the device to `calls`. Valid
 * if the thread begins nothing on the device during the call. False: its rows changed. */
static bool add_calls(const struct gs_submissions *record, unsigned device,
                      const uintptr_t *streams, unsigned stream_count, uint64_t *calls)
{
    uint64_t turns = __atomic_load_n(&record->turns, __ATOMIC_ACQUIRE);
    unsigned current = __atomic_load_n(&record->row, __ATOMIC_ACQUIRE);
    unsigned used = __atomic_load_n(&record->rows_used, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < used; i++) {
        const struct gs_stream_row *row = &record->rows[i];
        uintptr_t stream =
            i == 0 ? GS_STREAMS_LEGACY : __atomic_load_n(&row->stream, __ATOMIC_ACQUIRE);
        unsigned k = 0, count = __atomic_load_n(&row->count, __ATOMIC_ACQUIRE);
        while (k < stream_count && streams[k] != stream) {
            k++;
        }
        if (k == stream_count ||
            (device != GS_COUNT_ALL && count != GS_COUNT_EVERY && count != device)) {
            continue;
        }
        calls[k] += __atomic_load_n(&row->calls, __ATOMIC_ACQUIRE);
        if (i == current) {
            calls[k] += __atomic_load_n(&record->counts[count].begun, __ATOMIC_ACQUIRE) -
                        __atomic_load_n(&record->row_from, __ATOMIC_ACQUIRE);
        }
    }
    return turns % 2 == 0 && __atomic_load_n(&record->turns, __ATOMIC_ACQUIRE) == turns;
}

/* Sums add_calls over all records, starting from 0. */
static bool sum_calls(unsigned device, const uintptr_t *streams, unsigned stream_count,
                      uint64_t *calls)
{
    const struct gs_submissions *record =
        __atomic_load_n(&gs_submissions_records, __ATOMIC_ACQUIRE);
    for (unsigned k = 0; k < stream_count; k++) {
        calls[k] = 0;
    }
    for (; record; record = gs_submissions_next(record)) {
        if (record != &gone && !add_calls(record, device, streams, stream_count, calls)) {
            return false;
        }
    }
    return true;
}

/* ---- the proof --------------------------------------------------------------------- */

/* Sums over all threads: of the calls that may be the device's, and of all calls. */
struct sums {
    uint64_t device, all;
};

static inline __attribute__((always_inline)) struct sums sum_up(unsigned device,
                                                                bool ended)
{
    const struct gs_submissions *record =
        __atomic_load_n(&gs_submissions_records, __ATOMIC_ACQUIRE);
    struct sums sums = {0};
    for (; record; record = gs_submissions_next(record)) {
        for (unsigned i = 0; i < GS_COUNTS; i++) {
            const struct gs_calls *calls = &record->counts[i];
            uint64_t count =
                __atomic_load_n(ended ? &calls->ended : &calls->begun, __ATOMIC_ACQUIRE);
            sums.all += count;
            if (device == GS_COUNT_ALL || i == GS_COUNT_EVERY || i == device) {
                sums.device += count;
            }
        }
    }
    return sums;
}

static uint64_t ended_of_every(void)
{
    const struct gs_submissions *record =
        __atomic_load_n(&gs_submissions_records, __ATOMIC_ACQUIRE);
    uint64_t sum = 0;
    for (; record; record = gs_submissions_next(record)) {
        sum += __atomic_load_n(&record->counts[GS_COUNT_EVERY].ended, __ATOMIC_ACQUIRE);
    }
    return sum;
}

uint64_t gs_submissions_begun_on(unsigned used, unsigned device)
{
    return sum_up(used == GS_DEVICES_TOGETHER ? GS_COUNT_ALL : device, false).device;
}

bool gs_submissions_idle_on(const uint64_t *idle_at, unsigned device)
{
    uint64_t mark = __atomic_load_n(idle_at, __ATOMIC_ACQUIRE);
    return mark != 0 && gs_submissions_begun(device) + 1 == mark;
}

/* The streams of all calls. A call's streams are recorded before the call ends. Read
 * after the counts, and with no call in progress, they include the streams of every
 * counted call. */
static uintptr_t all_streams(void)
{
    const struct gs_submissions *record =
        __atomic_load_n(&gs_submissions_records, __ATOMIC_ACQUIRE);
    uintptr_t streams = 0;
    for (; record; record = gs_submissions_next(record)) {
        streams |= ~__atomic_load_n(&record->unseen, __ATOMIC_RELAXED);
    }
    return streams;
}

/* Tries for a snapshot during which no thread ends; the first one nearly always
 * succeeds. */
enum { TRIES = 4 };

/*
 * Reads ended before begun. Ended never exceeds begun, and neither falls: if begun, read
 * later, is not larger, no thread had a call in progress in between. The device's calls
 * and all calls are compared separately: a call in progress on another device only voids
 * the second.
 */
static inline __attribute__((always_inline)) struct gs_snapshot
take_snapshot(unsigned device, unsigned own_calls, const uintptr_t *streams,
              unsigned count, uint64_t *calls)
{
    struct gs_snapshot snapshot = {.mark = 0};
    for (unsigned i = 0; i < TRIES; i++) {
        unsigned used = gs_submissions_devices_used();
        unsigned of = used == GS_DEVICES_TOGETHER ? GS_COUNT_ALL : device;
        unsigned long before = __atomic_load_n(&ending, __ATOMIC_ACQUIRE);
        struct sums ended, begun;
        /* While one device is in use, the calls for every device are all calls. */
        if (GS_LIKELY(used == GS_DEVICES_ONE)) {
            ended.device = ended.all = ended_of_every();
        } else {
            turn_soon();
            ended = sum_up(of, true);
        }
        bool whole = count == 0 || sum_calls(of, streams, count, calls);
        if (GS_LIKELY(used == GS_DEVICES_ONE)) {
            begun.device = begun.all = gs_submissions_begun_of_every();
        } else {
            begun = sum_up(of, false);
        }
        snapshot.streams = all_streams();
        if (!whole || before % 2 != 0 ||
            __atomic_load_n(&ending, __ATOMIC_RELAXED) != before ||
            gs_submissions_devices_used() != used) {
            continue;
        }
        if (ended.device + own_calls == begun.device) {
            snapshot.mark = begun.device + 1;
            snapshot.alone = used == GS_DEVICES_ONE ? snapshot.mark : 0;
        }
        if (ended.all + own_calls == begun.all) {
            snapshot.all = begun.all + 1;
        }
        break;
    }
    return snapshot;
}

struct gs_snapshot gs_submissions_snapshot(unsigned device, unsigned own_calls)
{
    return take_snapshot(device, own_calls, NULL, 0, NULL);
}

struct gs_snapshot gs_submissions_snapshot_of(unsigned device, unsigned own_calls,
                                              const uintptr_t *streams, unsigned count,
                                              uint64_t *calls)
{
    return take_snapshot(device, own_calls, streams, count, calls);
}

void gs_submissions_record(uint64_t *at, uint64_t mark)
{
    /* Two threads may mark at once; keeping the older mark only costs a wait. */
    if (mark > __atomic_load_n(at, __ATOMIC_RELAXED)) {
        __atomic_store_n(at, mark, __ATOMIC_RELEASE);
    }
}

uint64_t gs_submissions_idle_frees(unsigned device)
{
    const struct gs_submissions *record =
        __atomic_load_n(&gs_submissions_records, __ATOMIC_ACQUIRE);
    uint64_t sum = 0;
    for (; record; record = gs_submissions_next(record)) {
        sum += __atomic_load_n(&record->idle_frees[device], __ATOMIC_RELAXED);
    }
    return sum;
}

void gs_submissions_reset(void)
{
    /* Drops the page: the records of the parent's other threads would never be reused. */
    gs_mutex_init(&records_lock, GS_RANK_SUBMISSIONS);
    __atomic_store_n(&gs_submissions_records, NULL, __ATOMIC_RELEASE);
    page = NULL;
    last = unused_records = NULL;
    memset(&gone, 0, sizeof(gone)); /* a thread of the parent may have been ending */
    gone.unseen = UINTPTR_MAX;
    gone_listed = false;
    __atomic_store_n(&ending, 0, __ATOMIC_RELAXED);
    gs_thread.submissions = NULL;
    watched = 0;
    memset(stream_devices, 0, sizeof(stream_devices));
    streams_met = 0;
    first_device = -1;
    __atomic_store_n(&gs_submissions_devices, GS_DEVICES_ONE, __ATOMIC_RELAXED);
}
