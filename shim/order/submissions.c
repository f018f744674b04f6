/*
 * submissions.c - the records of all threads, and what their sum proves.
 * Owns:  the list of records, and the page that new ones come from.
 * Lock:  none; records are pushed with compare-and-swap and stay. A record changes hands
 *        through `taken` (release, acquire), so that its counts go on from where the last
 *        thread left them.
 */
#include "submissions.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "known.h"

struct gs_submissions *gs_submissions_records;

enum { PAGE_RECORDS = 12 };
static struct page {
    struct gs_submissions records[PAGE_RECORDS]; /* those in use are in the list */
    size_t used; /* atomic: PAGE_RECORDS or more: all are */
} * page;        /* atomic */

static pthread_key_t leave_key; /* immutable after key_once */
static bool leave_key_made;     /* likewise */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* Used where there is no memory for one; the proof has ended then. */
static struct gs_submissions spare = {.unseen = UINTPTR_MAX};

/* ---- records ----------------------------------------------------------------------- */

/* The thread ends. Work it submits after this, in a destructor that runs later, gives it
   a record again. A call that was cancelled in the driver has ended, too. */
static void leave(void *record)
{
    struct gs_submissions *own = record;
    __atomic_store_n(&own->ended, __atomic_load_n(&own->begun, __ATOMIC_RELAXED),
                     __ATOMIC_RELEASE);
    gs_thread.submissions = NULL;
    __atomic_store_n(&own->taken, 0, __ATOMIC_RELEASE);
}

static void make_key(void)
{
    leave_key_made = pthread_key_create(&leave_key, leave) == 0;
}

static struct gs_submissions *take_left(void)
{
    struct gs_submissions *record =
        __atomic_load_n(&gs_submissions_records, __ATOMIC_ACQUIRE);
    for (; record; record = record->next) {
        unsigned taken = 0;
        if (__atomic_load_n(&record->taken, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&record->taken, &taken, 1, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            return record;
        }
    }
    return NULL;
}

static void publish(struct gs_submissions *record)
{
    record->next = __atomic_load_n(&gs_submissions_records, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&gs_submissions_records, &record->next, record,
                                        false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    }
}

/* A new one, from the page in use or another. Not malloc: a wrapper may run inside one
   that another tool has put in front of the C library's. */
static struct gs_submissions *take_new(void)
{
    struct page *now = __atomic_load_n(&page, __ATOMIC_ACQUIRE);
    size_t i = now ? __atomic_fetch_add(&now->used, 1, __ATOMIC_RELAXED) : PAGE_RECORDS;
    if (i >= PAGE_RECORDS) {
        now = mmap(NULL, sizeof(*now), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (now == MAP_FAILED) {
            return NULL;
        }
        i = 0;
        now->used = 1;
        /* Of two threads that map one each, what is left of the first is not used. */
        __atomic_store_n(&page, now, __ATOMIC_RELEASE);
    }
    now->records[i].taken = 1;
    now->records[i].unseen = UINTPTR_MAX;
    publish(&now->records[i]);
    return &now->records[i];
}

struct gs_submissions *gs_submissions_join(void)
{
    int saved_errno = errno;
    pthread_once(&key_once, make_key);
    struct gs_submissions *own = take_left();
    if (!own) {
        own = take_new();
    }
    if (!own) {
        gs_known_end_proof("memory for a thread's count");
        own = &spare;
    } else if (leave_key_made) {
        /* Without the key, or if this fails, the record stays the thread's for ever. */
        (void)pthread_setspecific(leave_key, own);
    }
    gs_thread.submissions = own;
    errno = saved_errno;
    return own;
}

struct gs_submissions *gs_submissions_admit(uintptr_t where)
{
    struct gs_submissions *own = gs_submissions_own();
    uintptr_t unseen = __atomic_load_n(&own->unseen, __ATOMIC_RELAXED);
    if (where & unseen) {
        gs_submissions_elsewhere(where);
        __atomic_store_n(&own->unseen, unseen & ~where, __ATOMIC_RELAXED);
    }
    return own;
}

/* ---- the proof --------------------------------------------------------------------- */

static uint64_t sum_ended(void)
{
    const struct gs_submissions *record =
        __atomic_load_n(&gs_submissions_records, __ATOMIC_ACQUIRE);
    uint64_t sum = 0;
    for (; record; record = record->next) {
        sum += __atomic_load_n(&record->ended, __ATOMIC_ACQUIRE);
    }
    return sum;
}

/* A call's streams are written before it is counted: read after the count they hold those
   of every call counted. */
static uintptr_t all_streams(void)
{
    const struct gs_submissions *record =
        __atomic_load_n(&gs_submissions_records, __ATOMIC_ACQUIRE);
    uintptr_t streams = 0;
    for (; record; record = record->next) {
        streams |= ~__atomic_load_n(&record->unseen, __ATOMIC_RELAXED);
    }
    return streams;
}

/*
 * Ended is read first. It never exceeds begun, and neither falls: if what was read later
 * as begun is not more, then in each thread nothing was under way between.
 */
struct gs_snapshot gs_submissions_snapshot(unsigned own_calls)
{
    uint64_t ended = sum_ended() + own_calls;
    uint64_t begun = gs_submissions_begun();
    struct gs_snapshot snapshot = {.streams = all_streams()};
    if (ended == begun || gs_mutant(GS_MUTANT_count_before)) {
        snapshot.mark = begun + 1;
    }
    return snapshot;
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
    for (; record; record = record->next) {
        sum += __atomic_load_n(&record->idle_frees[device], __ATOMIC_RELAXED);
    }
    return sum;
}

void gs_submissions_reset(void)
{
    /* Other threads' records would be theirs for ever; the page is the price. */
    __atomic_store_n(&gs_submissions_records, NULL, __ATOMIC_RELEASE);
    __atomic_store_n(&page, NULL, __ATOMIC_RELEASE);
    gs_thread.submissions = NULL;
}
