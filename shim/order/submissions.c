/*
 * submissions.c - the records of all threads, and what their sum proves.
 *
 * A thread that ends adds its counts to `gone`, the list's last record, then empties its
 * own, then takes that out of the list. Who reads meanwhile has read the one before he
 * comes to the other, so he may count those calls twice and never misses any. Twice is
 * once too often for a snapshot alone: too high a mark would later be met by calls that
 * nobody waited for. So a snapshot is void if a thread ended while it was taken. Which
 * streams they went to is not kept: a wait for the whole context covers them.
 *
 * Owns:  the list of records, and the page that new ones come from.
 * Lock:  records_lock for who joins and leaves, with all signals blocked: a handler may
 *        submit. Nobody takes it to read, and a record that has left still leads on.
 */
#include "submissions.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "known.h"

struct gs_submissions *gs_submissions_records;

static pthread_mutex_t records_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gs_submissions *last; /* records_lock: of the list, but for `gone` */
static struct gs_submissions *left; /* records_lock: without a thread, linked by back */
/* What ended threads counted; in the list once there is one. */
static struct gs_submissions gone = {.unseen = UINTPTR_MAX};
static bool gone_listed;     /* records_lock */
static unsigned long ending; /* atomic, written under records_lock: odd meanwhile */

enum { PAGE_RECORDS = 10 };
static struct page {
    struct gs_submissions records[PAGE_RECORDS]; /* those in use are in the list */
    size_t used;
} * page; /* records_lock */

static pthread_key_t leave_key; /* immutable after key_once */
static bool leave_key_made;     /* likewise */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* Used where there is no memory for one; the proof has ended then. */
static struct gs_submissions spare = {.unseen = UINTPTR_MAX};

/* ---- records ----------------------------------------------------------------------- */

static void hold(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
    pthread_mutex_lock(&records_lock);
}

static void let_go(const sigset_t *before)
{
    pthread_mutex_unlock(&records_lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* records_lock is held from here on, where nothing else is said. */
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

/* To `gone`; `own` is in front of it, and stays so. Its streams come first: what is
   counted has its streams. The record keeps `unseen` for its next thread. */
static void move_counts(struct gs_submissions *own)
{
    __atomic_store_n(&gone.unseen, gone.unseen & own->unseen, __ATOMIC_RELEASE);
    add_count(&gone.begun, &own->begun);
    add_count(&gone.ended, &own->ended);
    for (size_t i = 0; i < GS_MAX_DEVICES; i++) {
        add_count(&gone.idle_frees[i], &own->idle_frees[i]);
        __atomic_store_n(&own->idle_frees[i], 0, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&own->begun, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&own->ended, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&own->row_from, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&own->row, 0, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < GS_STREAM_ROWS; i++) {
        __atomic_store_n(&own->rows[i].stream, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&own->rows[i].calls, 0, __ATOMIC_RELEASE);
    }
    own->newest = 0;
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

static void retire(struct gs_submissions *own)
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
    own->back = left;
    left = own;
}

/* The thread ends. Work it submits after this, in a destructor that runs later, gives it
   a record again. A call that was cancelled in the driver has ended, too. What a forked
   child's thread had before is no record any more. Takes the lock. */
static void leave(void *record)
{
    struct gs_submissions *own = record;
    sigset_t before;
    if (gs_thread.submissions != own) {
        return;
    }
    hold(&before);
    __atomic_store_n(&own->ended, __atomic_load_n(&own->begun, __ATOMIC_RELAXED),
                     __ATOMIC_RELEASE);
    gs_thread.submissions = NULL;
    retire(own);
    let_go(&before);
}

static void make_key(void)
{
    leave_key_made = pthread_key_create(&leave_key, leave) == 0;
}

/* From the page in use or another. Not malloc: a wrapper may run inside one that another
   tool has put in front of the C library's. */
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
    return record;
}

static struct gs_submissions *take(void)
{
    struct gs_submissions *record = left;
    if (record) {
        left = record->back;
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
    hold(&before);
    struct gs_submissions *own = gs_thread.submissions; /* a handler may have been here */
    if (!own) {
        own = take();
    }
    gs_thread.submissions = own;
    let_go(&before);
    if (!own) {
        gs_known_end_proof("a thread that there is no memory to count for");
        own = &spare;
    } else if (leave_key_made) {
        /* Without the key, or if this fails, the record stays the thread's for ever. */
        (void)pthread_setspecific(leave_key, own);
    }
    gs_thread.submissions = own;
    errno = saved_errno;
    return own;
}

/* ---- calls by stream --------------------------------------------------------------- */

/* What a row that is taken over has counted, counts in no row from now on. */
static unsigned row_of(struct gs_submissions *own, uintptr_t where)
{
    uintptr_t stream = gs_submissions_stream_of(where);
    if (stream <= GS_STREAMS_LEGACY) {
        return stream ? 0 : GS_STREAM_ROW_ELSEWHERE;
    }
    for (unsigned i = 1; i < GS_STREAM_ROW_ELSEWHERE; i++) {
        if (own->rows[i].stream == stream) {
            return i;
        }
    }
    unsigned taken = own->next_row + 1;
    own->next_row = taken % (GS_STREAM_ROW_ELSEWHERE - 1);
    __atomic_store_n(&own->rows[taken].stream, stream, __ATOMIC_RELEASE);
    if (!gs_mutant(GS_MUTANT_seen_row_inherited)) {
        __atomic_store_n(&own->rows[taken].calls, 0, __ATOMIC_RELEASE);
    }
    return taken;
}

/* The current row's calls are added to it; the call is the next row's first. */
static void turn(struct gs_submissions *own, uintptr_t where)
{
    uint64_t from = __atomic_load_n(&own->begun, __ATOMIC_RELAXED);
    struct gs_stream_row *row = &own->rows[own->row];
    if (!gs_mutant(GS_MUTANT_count_after)) {
        gs_submissions_add(&own->begun);
    }
    __atomic_store_n(&row->calls, row->calls + (from - own->row_from), __ATOMIC_RELEASE);
    __atomic_store_n(&own->row_from, from, __ATOMIC_RELEASE);
    __atomic_store_n(&own->row, row_of(own, where), __ATOMIC_RELEASE);
    own->newest = where;
}

struct gs_submissions *gs_submissions_turn(uintptr_t where)
{
    struct gs_submissions *own = gs_submissions_own();
    uintptr_t unseen = __atomic_load_n(&own->unseen, __ATOMIC_RELAXED);
    if (where & unseen) {
        gs_submissions_elsewhere(where);
        __atomic_store_n(&own->unseen, unseen & ~where, __ATOMIC_RELEASE);
    }
    turn(own, where);
    return own;
}

struct gs_submissions *gs_submissions_turn_away(void)
{
    struct gs_submissions *own = gs_submissions_own();
    turn(own, GS_STREAMS_BEYOND);
    return own;
}

/* Of a record whose thread begins nothing meanwhile. */
static uint64_t calls_in(const struct gs_submissions *record, uintptr_t stream)
{
    unsigned i = 0;
    if (stream != GS_STREAMS_LEGACY) {
        for (i = 1; i < GS_STREAM_ROW_ELSEWHERE; i++) {
            if (__atomic_load_n(&record->rows[i].stream, __ATOMIC_ACQUIRE) == stream) {
                break;
            }
        }
    }
    if (i == GS_STREAM_ROW_ELSEWHERE) {
        return 0;
    }
    uint64_t calls = __atomic_load_n(&record->rows[i].calls, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&record->row, __ATOMIC_ACQUIRE) == i) {
        calls += __atomic_load_n(&record->begun, __ATOMIC_ACQUIRE) -
                 __atomic_load_n(&record->row_from, __ATOMIC_ACQUIRE);
    }
    return calls;
}

static uint64_t sum_in(uintptr_t stream)
{
    const struct gs_submissions *record =
        __atomic_load_n(&gs_submissions_records, __ATOMIC_ACQUIRE);
    uint64_t sum = 0;
    for (; record; record = gs_submissions_next(record)) {
        if (record != &gone) {
            sum += calls_in(record, stream);
        }
    }
    return sum;
}

/* ---- the proof --------------------------------------------------------------------- */

static uint64_t sum_ended(void)
{
    const struct gs_submissions *record =
        __atomic_load_n(&gs_submissions_records, __ATOMIC_ACQUIRE);
    uint64_t sum = 0;
    for (; record; record = gs_submissions_next(record)) {
        sum += __atomic_load_n(&record->ended, __ATOMIC_ACQUIRE);
    }
    return sum;
}

/* A call's streams are written before it has ended. Read after the counts, and with no
   call under way, they hold those of every call counted. */
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

/* A snapshot that no thread's end has spoilt is had at the first try, nearly always. */
enum { TRIES = 4 };

/*
 * Ended is read first. It never exceeds begun, and neither falls: if what was read later
 * as begun is not more, then in each thread nothing was under way between.
 */
static inline __attribute__((always_inline)) struct gs_snapshot
take_snapshot(unsigned own_calls, const uintptr_t *streams, unsigned count,
              uint64_t *calls)
{
    struct gs_snapshot snapshot = {.mark = 0};
    for (unsigned i = 0; i < TRIES; i++) {
        unsigned long before = __atomic_load_n(&ending, __ATOMIC_ACQUIRE);
        uint64_t ended = sum_ended() + own_calls;
        for (unsigned k = 0; k < count; k++) {
            calls[k] = sum_in(streams[k]);
        }
        uint64_t begun = gs_submissions_begun();
        snapshot.streams = all_streams();
        if (before % 2 != 0 || __atomic_load_n(&ending, __ATOMIC_RELAXED) != before) {
            continue;
        }
        if (ended == begun || gs_mutant(GS_MUTANT_count_before)) {
            snapshot.mark = begun + 1;
        }
        break;
    }
    return snapshot;
}

struct gs_snapshot gs_submissions_snapshot(unsigned own_calls)
{
    return take_snapshot(own_calls, NULL, 0, NULL);
}

struct gs_snapshot gs_submissions_snapshot_of(unsigned own_calls,
                                              const uintptr_t *streams, unsigned count,
                                              uint64_t *calls)
{
    return take_snapshot(own_calls, streams, count, calls);
}

void gs_submissions_mark(uint64_t *idle_at, const struct gs_snapshot *snapshot)
{
    /* Two threads may mark at once; the older mark costs a wait, no more. */
    if (snapshot->mark > __atomic_load_n(idle_at, __ATOMIC_RELAXED)) {
        __atomic_store_n(idle_at, snapshot->mark, __ATOMIC_RELEASE);
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
    /* Other threads' records would be theirs for ever; the page is the price. */
    pthread_mutex_init(&records_lock, NULL);
    __atomic_store_n(&gs_submissions_records, NULL, __ATOMIC_RELEASE);
    page = NULL;
    last = left = NULL;
    memset(&gone, 0, sizeof(gone)); /* another thread may have been ending */
    gone.unseen = UINTPTR_MAX;
    gone_listed = false;
    __atomic_store_n(&ending, 0, __ATOMIC_RELAXED);
    gs_thread.submissions = NULL;
}
