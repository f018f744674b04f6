/*
 * shim_submissions.c - proves what is taken for idle: the counts of calls begun and
 * ended, over threads that come and go.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "shim/state/sync_proof.h"

/* The device that marks are made for, where there is one alone. */
#define DEVICE gs_submissions_count_of(0)

static void submit(uintptr_t stream)
{
    gs_submission_end(gs_submission_begin(stream));
}

static void *submit_on_thread(void *count)
{
    for (uintptr_t i = 0; i < (uintptr_t)count; i++) {
        submit(0);
    }
    return NULL;
}

static void on_thread(uintptr_t count)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, submit_on_thread, (void *)count), 0);
    pthread_join(thread, NULL);
}

/* As a wait that succeeds. */
static void wait_for_all(uint64_t *idle_at)
{
    struct gs_snapshot before = gs_submissions_snapshot(DEVICE, 0);
    gs_submissions_record(idle_at, before.mark);
}

Test(submissions, never_seen_complete_is_not_idle)
{
    uint64_t idle_at = 0;
    cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE));
}

Test(submissions, idle_after_a_wait_until_the_next_call)
{
    uint64_t idle_at = 0;
    submit(0);
    wait_for_all(&idle_at);
    cr_assert(gs_submissions_idle_on(&idle_at, DEVICE));
    submit(0);
    cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE));
    wait_for_all(&idle_at);
    cr_assert(gs_submissions_idle_on(&idle_at, DEVICE));
}

Test(submissions, work_given_during_the_wait_is_not_proven)
{
    uint64_t idle_at = 0;
    struct gs_snapshot before = gs_submissions_snapshot(DEVICE, 0);
    submit(0);
    gs_submissions_record(&idle_at, before.mark);
    cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE));
}

Test(submissions, a_call_under_way_spoils_the_snapshot)
{
    uint64_t idle_at = 0;
    struct gs_calls *own = gs_submission_begin(0);
    struct gs_snapshot before = gs_submissions_snapshot(DEVICE, 0);
    cr_assert_eq(before.mark, 0);
    gs_submissions_record(&idle_at, before.mark);
    gs_submission_end(own);
    cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE));
}

Test(submissions, a_call_is_seen_from_its_beginning)
{
    uint64_t idle_at = 0;
    wait_for_all(&idle_at);
    struct gs_calls *own = gs_submission_begin(0);
    cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE));
    gs_submission_end(own);
    cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE));
}

/* A copy to the host is itself counted. */
Test(submissions, a_counted_call_that_waits_proves_itself)
{
    uint64_t idle_at = 0;
    struct gs_calls *own = gs_submission_begin(0);
    struct gs_snapshot before = gs_submissions_snapshot(DEVICE, 1);
    gs_submissions_record(&idle_at, before.mark);
    gs_submission_end(own);
    cr_assert(gs_submissions_idle_on(&idle_at, DEVICE));
}

Test(submissions, an_older_mark_does_not_take_a_newer_ones_place)
{
    uint64_t idle_at = 0;
    struct gs_snapshot old = gs_submissions_snapshot(DEVICE, 0);
    submit(0);
    wait_for_all(&idle_at);
    gs_submissions_record(&idle_at, old.mark);
    cr_assert(gs_submissions_idle_on(&idle_at, DEVICE));
}

Test(submissions, calls_of_ended_threads_stay_counted)
{
    uint64_t idle_at = 0;
    wait_for_all(&idle_at);
    on_thread(3);
    cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE));
    wait_for_all(&idle_at);
    cr_assert(gs_submissions_idle_on(&idle_at, DEVICE));
    /* A later thread goes on where an ended one left its record. */
    for (int i = 0; i < 100; i++) {
        on_thread(1);
        cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE));
        wait_for_all(&idle_at);
        cr_assert(gs_submissions_idle_on(&idle_at, DEVICE));
    }
}

static pthread_key_t late_key;

static void submit_late(void *unused)
{
    (void)unused;
    submit(0);
}

static void *with_late_submission(void *unused)
{
    pthread_setspecific(late_key, unused);
    submit(0);
    return NULL;
}

/* A destructor of thread-local data submits after the thread has left its record. */
Test(submissions, work_of_a_threads_destructors_is_counted)
{
    uint64_t idle_at = 0;
    pthread_t thread;
    submit(0); /* the library's own key is older */
    cr_assert_eq(pthread_key_create(&late_key, submit_late), 0);
    for (int i = 0; i < 20; i++) {
        wait_for_all(&idle_at);
        struct gs_snapshot before = gs_submissions_snapshot(DEVICE, 0);
        cr_assert_eq(pthread_create(&thread, NULL, with_late_submission, &late_key), 0);
        pthread_join(thread, NULL);
        cr_assert_eq(gs_submissions_snapshot(DEVICE, 0).mark, before.mark + 2);
    }
}

static void *begin_and_die(void *unused)
{
    (void)unused;
    (void)gs_submission_begin(0);
    pthread_exit(NULL); /* as when it is cancelled inside the driver */
}

/* Else no free would ever find its context idle again. */
Test(submissions, a_call_of_a_thread_that_died_in_it_is_over)
{
    uint64_t idle_at = 0;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, begin_and_die, NULL), 0);
    pthread_join(thread, NULL);
    cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE));
    wait_for_all(&idle_at);
    cr_assert(gs_submissions_idle_on(&idle_at, DEVICE));
    on_thread(1);
    cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE));
}

Test(submissions, streams_are_remembered)
{
    cr_assert_eq(gs_submissions_snapshot(DEVICE, 0).streams, 0);
    submit(1);
    cr_assert_eq(gs_submissions_snapshot(DEVICE, 0).streams, GS_STREAMS_LEGACY);
    submit(0x7000);
    cr_assert(gs_submissions_snapshot(DEVICE, 0).streams > GS_STREAMS_LEGACY);
    wait_for_all(&(uint64_t){0});
    cr_assert(gs_submissions_snapshot(DEVICE, 0).streams > GS_STREAMS_LEGACY);
}

Test(submissions, keeps_errno)
{
    errno = 77;
    submit(0);
    cr_assert_eq(errno, 77);
}

/* ---- many threads ------------------------------------------------------------------ */

#define THREADS 24
#define CALLS   20000

static sem_t started, finish;

static void *submit_and_stay(void *unused)
{
    submit_on_thread((void *)(uintptr_t)CALLS);
    sem_post(&started);
    sem_wait(&finish);
    return unused;
}

Test(submissions, threads_at_once_lose_no_count)
{
    pthread_t threads[THREADS];
    uint64_t before = gs_submissions_snapshot(DEVICE, 0).mark;
    sem_init(&started, 0, 0);
    sem_init(&finish, 0, 0);
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, submit_and_stay, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        sem_wait(&started);
    }
    cr_assert_eq(gs_submissions_snapshot(DEVICE, 0).mark - before,
                 (uint64_t)THREADS * CALLS);
    for (int i = 0; i < THREADS; i++) {
        sem_post(&finish);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* Else a free would cost more with every thread that there ever was at one time. */
Test(submissions, ended_threads_are_not_counted_one_by_one)
{
    pthread_t threads[THREADS];
    size_t records = 0;
    uint64_t before = gs_submissions_snapshot(DEVICE, 0).mark;
    sem_init(&started, 0, 0);
    sem_init(&finish, 0, 0);
    submit(0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < THREADS; i++) {
            cr_assert_eq(pthread_create(&threads[i], NULL, submit_and_stay, NULL), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            sem_wait(&started);
        }
        for (int i = 0; i < THREADS; i++) {
            sem_post(&finish);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    for (struct gs_submissions *record = gs_submissions_records; record;
         record = gs_submissions_next(record)) {
        records++;
    }
    cr_assert_leq(records, 2, "%zu records of one thread", records);
    cr_assert_eq(gs_submissions_snapshot(DEVICE, 0).mark - before,
                 2 * THREADS * CALLS + 1);
    cr_assert_eq(gs_submissions_snapshot(DEVICE, 0).streams, 0);
}

#define ENDS 20000

static void *come_and_go(void *unused)
{
    for (int i = 0; i < ENDS; i++) {
        on_thread(1);
    }
    sem_post(&finish);
    return unused;
}

/* Counted twice in a snapshot, an ended thread's call would hide the next one's. */
Test(submissions, a_thread_that_ends_does_not_hide_a_call)
{
    pthread_t thread;
    uint64_t proven = 0;
    sem_init(&finish, 0, 0);
    cr_assert_eq(pthread_create(&thread, NULL, come_and_go, NULL), 0);
    while (sem_trywait(&finish) != 0) {
        uint64_t idle_at = 0;
        struct gs_snapshot before = gs_submissions_snapshot(DEVICE, 0);
        submit(0);
        gs_submissions_record(&idle_at, before.mark);
        proven += before.mark != 0;
        cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE),
                      "work since the snapshot");
    }
    pthread_join(thread, NULL);
    cr_assert_gt(proven, 0);
    cr_assert_eq(gs_submissions_snapshot(DEVICE, 0).mark,
                 gs_submissions_begun(DEVICE) + 1);
}

Test(submissions, a_fork_forgets)
{
    uint64_t idle_at = 0;
    submit(0x7000);
    gs_submissions_reset();
    cr_assert_eq(gs_submissions_snapshot(DEVICE, 0).mark, 1);
    cr_assert_eq(gs_submissions_snapshot(DEVICE, 0).streams, 0);
    cr_assert_not(gs_submissions_idle_on(&idle_at, DEVICE));
    submit(0);
    cr_assert_eq(gs_submissions_snapshot(DEVICE, 0).mark, 2);
}

/* ---- calls by stream --------------------------------------------------------------- */

#define STREAM ((uintptr_t)0x1000)

static uint64_t calls_of(uintptr_t stream)
{
    uint64_t calls;
    (void)gs_submissions_snapshot_of(DEVICE, 0, &stream, 1, &calls);
    return calls;
}

Test(submissions, counts_by_stream)
{
    submit(STREAM);
    submit(0);
    submit(STREAM | GS_STREAMS_LOOSE);
    submit(GS_STREAMS_LEGACY);
    submit(STREAM);
    cr_assert_eq(calls_of(STREAM), 3);
    cr_assert_eq(calls_of(GS_STREAMS_LEGACY), 2, "by both of its handles");
    submit(GS_STREAMS_BEYOND);
    cr_assert_eq(calls_of(STREAM) + calls_of(GS_STREAMS_LEGACY), 5);
}

Test(submissions, per_thread_form)
{
    cr_assert_eq(gs_submissions_per_thread(0), GS_STREAMS_PER_THREAD);
    cr_assert_eq(gs_submissions_per_thread(GS_STREAMS_PER_THREAD), GS_STREAMS_PER_THREAD);
    cr_assert_eq(gs_submissions_per_thread(GS_STREAMS_LOOSE),
                 GS_STREAMS_PER_THREAD | GS_STREAMS_LOOSE);
    cr_assert_eq(gs_submissions_per_thread(GS_STREAMS_LEGACY),
                 GS_STREAMS_LEGACY | GS_STREAMS_LOOSE);
    cr_assert_eq(gs_submissions_per_thread(STREAM), STREAM | GS_STREAMS_LOOSE);
    cr_assert(gs_submissions_per_thread(GS_STREAMS_BEYOND) & GS_STREAMS_BEYOND);
}

static void *submit_to_stream(void *unused)
{
    submit(STREAM);
    return unused;
}

Test(submissions, an_ended_thread_has_calls_in_no_stream)
{
    pthread_t thread;
    submit(STREAM);
    cr_assert_eq(pthread_create(&thread, NULL, submit_to_stream, NULL), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(calls_of(STREAM), 1);
    cr_assert_eq(gs_submissions_begun(DEVICE), 2);
}

/* ---- calls by device --------------------------------------------------------------- */

#define FIRST  gs_submissions_count_of(0)
#define SECOND gs_submissions_count_of(1)

/* Two devices are in use, each with a stream. */
static void use_two_devices(uintptr_t first, uintptr_t second)
{
    gs_submissions_add_device(0);
    gs_submissions_add_stream(first, 0);
    gs_submissions_add_device(1);
    gs_submissions_add_stream(second, 1);
}

static uint64_t begun(unsigned device)
{
    return gs_submissions_begun(device);
}

Test(submissions, one_devices_work_is_not_anothers)
{
    uint64_t idle_at = 0;
    use_two_devices(0x1000, 0x2000);
    submit(0x2000); /* the first one counts for every device, too */
    struct gs_snapshot before = gs_submissions_snapshot(FIRST, 0);
    gs_submissions_record(&idle_at, before.mark);
    submit(0x2000);
    cr_assert(gs_submissions_idle_on(&idle_at, FIRST));
    submit(0x1000);
    cr_assert_not(gs_submissions_idle_on(&idle_at, FIRST));
    cr_assert_eq(begun(FIRST), 2);
    cr_assert_eq(begun(SECOND), 3);
    cr_assert_eq(begun(GS_COUNT_ALL), 4);
}

/* A mark from before the second device was used must not outlive the first call that is
 * not every device's. */
Test(submissions, a_mark_of_one_device_ends_with_the_first_call_of_another)
{
    uint64_t alone_at = 0;
    gs_submissions_add_device(0);
    submit(0x1000);
    struct gs_snapshot before = gs_submissions_snapshot(FIRST, 0);
    cr_assert_neq(before.alone, 0);
    gs_submissions_record(&alone_at, before.alone);
    cr_assert(gs_submissions_idle(&alone_at));
    use_two_devices(0x1000, 0x2000);
    cr_assert(gs_submissions_idle(&alone_at));
    submit(0x2000);
    cr_assert_not(gs_submissions_idle(&alone_at));
    cr_assert_eq(gs_submissions_snapshot(FIRST, 0).alone, 0);
}

/* Unknown streams, work across devices and work of no stream. */
Test(submissions, what_may_be_any_devices_is_every_devices)
{
    static const uintptr_t any[] = {0x3000, 0x1000 | GS_STREAMS_ACROSS, GS_STREAMS_BEYOND,
                                    0x1000 | GS_STREAMS_LOOSE | GS_STREAMS_ACROSS};
    use_two_devices(0x1000, 0x2000);
    for (size_t i = 0; i < GS_ARRAY_LEN(any); i++) {
        submit(any[i]);
        cr_assert_eq(begun(FIRST), i + 1);
        cr_assert_eq(begun(SECOND), i + 1);
    }
    submit(0x1000 | GS_STREAMS_LOOSE);
    cr_assert_eq(begun(FIRST), begun(SECOND) + 1);
}

Test(submissions, a_device_behind_the_first_eight_has_no_count_of_its_own)
{
    use_two_devices(0x1000, 0x2000);
    gs_submissions_add_stream(0x3000, 8);
    submit(0x3000);
    cr_assert_eq(gs_submissions_count_of(8), GS_COUNT_NONE);
    cr_assert_eq(begun(gs_submissions_count_of(8)), 1);
    cr_assert_eq(begun(FIRST), 1);
}

Test(submissions, a_call_under_way_elsewhere_spoils_the_snapshot_of_all_alone)
{
    use_two_devices(0x1000, 0x2000);
    struct gs_calls *own = gs_submission_begin(0x2000);
    struct gs_snapshot before = gs_submissions_snapshot(FIRST, 0);
    gs_submission_end(own);
    cr_assert_eq(before.mark, begun(FIRST) + 1);
    cr_assert_eq(before.all, 0);
}

Test(submissions, a_handle_of_two_devices_ends_the_counts_by_device)
{
    uint64_t idle_at = 0;
    use_two_devices(0x1000, 0x2000);
    submit(0x1000);
    submit(0x2000);
    struct gs_snapshot before = gs_submissions_snapshot(FIRST, 0);
    gs_submissions_record(&idle_at, before.mark);
    gs_submissions_add_stream(0x2000, 0);
    cr_assert_not(gs_submissions_idle_on(&idle_at, FIRST),
                  "the other device's call counts");
    before = gs_submissions_snapshot(FIRST, 0);
    gs_submissions_record(&idle_at, before.mark);
    cr_assert(gs_submissions_idle_on(&idle_at, FIRST));
    submit(0x2000);
    cr_assert_not(gs_submissions_idle_on(&idle_at, FIRST));
}

Test(submissions, more_streams_than_are_known_end_the_counts_by_device)
{
    use_two_devices(0x1000, 0x2000);
    for (uintptr_t i = 0; i < 2100; i++) {
        gs_submissions_add_stream(0x100000 + 16 * i, 1);
    }
    cr_assert_eq(gs_submissions_devices_used(), GS_DEVICES_TOGETHER);
    submit(0x2000);
    cr_assert_eq(begun(FIRST), 1);
}

/* A stream's calls of before, when one device was in use, are every device's. */
Test(submissions, counts_a_stream_by_device)
{
    uint64_t calls;
    uintptr_t stream = 0x1000;
    gs_submissions_add_device(0);
    gs_submissions_add_stream(stream, 0);
    submit(stream);
    use_two_devices(stream, 0x2000);
    cr_assert_eq(gs_submissions_snapshot(FIRST, 0).mark, 2, "the next call turns");
    submit(stream);
    submit(stream);
    /* With the one that is added as the first call counts for one device. */
    (void)gs_submissions_snapshot_of(FIRST, 0, &stream, 1, &calls);
    cr_assert_eq(calls, 4);
    (void)gs_submissions_snapshot_of(SECOND, 0, &stream, 1, &calls);
    cr_assert_eq(calls, 2);
}

/* ---- streams that are watched ------------------------------------------------------ */

/* As a synchronize of the stream, or of the context (0), that succeeds. */
static bool wait_for(struct gs_sync_proof *seen, uintptr_t stream)
{
    struct gs_sync_proof_before before;
    struct gs_snapshot snapshot = gs_sync_proof_begin(seen, stream, 0, &before);
    uint64_t mark;
    if (!stream) {
        gs_sync_proof_rebase(seen, &before, &snapshot);
        return true;
    }
    mark = gs_sync_proof_cover(seen, &before, &snapshot);
    return gs_submissions_idle_on(&mark, DEVICE);
}

Test(submissions, streams_prove_what_they_cover)
{
    static struct gs_sync_proof seen;
    submit(STREAM);
    cr_assert_not(wait_for(&seen, STREAM), "there is no base");
    wait_for(&seen, 0);
    submit(STREAM);
    cr_assert(wait_for(&seen, STREAM));
    submit(GS_STREAMS_BEYOND);
    submit(STREAM);
    cr_assert_not(wait_for(&seen, STREAM), "no stream covers that");
    wait_for(&seen, 0);
    submit(STREAM);
    cr_assert(wait_for(&seen, STREAM));
}

Test(submissions, the_end_of_a_context_ends_what_streams_prove)
{
    static struct gs_sync_proof seen;
    submit(STREAM);
    wait_for(&seen, STREAM);
    wait_for(&seen, 0);
    gs_sync_proof_context_ends();
    submit(STREAM);
    cr_assert_not(wait_for(&seen, STREAM));
    wait_for(&seen, 0);
    submit(STREAM);
    cr_assert(wait_for(&seen, STREAM));
}

Test(submissions, a_stream_that_ends_leaves_what_it_covered)
{
    static struct gs_sync_proof seen;
    const uintptr_t other = 2 * STREAM;
    submit(STREAM);
    submit(other);
    wait_for(&seen, STREAM);
    wait_for(&seen, other);
    wait_for(&seen, 0);
    submit(STREAM);
    wait_for(&seen, STREAM);
    gs_sync_proof_stream_ends(STREAM);
    submit(other);
    cr_assert(wait_for(&seen, other));
    gs_sync_proof_stream_ends(other);
    submit(other);
    cr_assert_not(wait_for(&seen, other), "another stream by the same handle");
}

/* Two streams are covered in turn; a third one's call is not. */
Test(submissions, a_later_call_that_is_covered_stands_for_no_other)
{
    static struct gs_sync_proof seen;
    const uintptr_t other = 2 * STREAM;
    struct gs_sync_proof_before before;
    submit(STREAM);
    submit(other);
    wait_for(&seen, STREAM);
    wait_for(&seen, other);
    wait_for(&seen, 0);
    submit(STREAM);
    submit(3 * STREAM);
    struct gs_snapshot snapshot = gs_sync_proof_begin(&seen, STREAM, 0, &before);
    submit(other);
    wait_for(&seen, other);
    uint64_t mark = gs_sync_proof_cover(&seen, &before, &snapshot);
    cr_assert_eq(mark, snapshot.mark, "as many as the snapshot has");
    cr_assert_not(gs_submissions_idle_on(&mark, DEVICE));
}
