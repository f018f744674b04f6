/*
 * shim_epochs.c - proves when an epoch of frees is closed and done, over fake operations
 * that does as the test says.
 */
#include <criterion/criterion.h>

#include <pthread.h>

#include "shim/state/epochs.h"

/* Fake operations whose events are numbers, done up to `done`. */
struct fake {
    struct gs_epochs epochs;
    uint64_t recorded, done, released; /* atomic */
    unsigned queries, tries;
    enum gs_status record_status, query_status;
    gs_fence joined; /* by a free that comes while an event is being recorded */
    bool join_during_record;
};

static struct gs_epochs *under_test; /* of the test that runs */

static enum gs_status record(void *self, uint64_t *event)
{
    struct fake *fake = self;
    bool full;
    fake->tries++;
    if (fake->join_during_record) {
        fake->join_during_record = false;
        cr_assert_eq(gs_epochs_join(&fake->epochs, 1, &fake->joined, &full), GS_OK);
    }
    if (fake->record_status == GS_OK) {
        *event = __atomic_add_fetch(&fake->recorded, 1, __ATOMIC_RELAXED);
    }
    return fake->record_status;
}

static enum gs_status query(void *self, uint64_t event)
{
    struct fake *fake = self;
    fake->queries++;
    cr_assert_neq(event, 0);
    if (fake->query_status != GS_OK) {
        return fake->query_status;
    }
    return event <= fake->done ? GS_OK : GS_ERR_TIMEOUT;
}

static void release(void *self, uint64_t event)
{
    struct fake *fake = self;
    cr_assert_neq(event, 0);
    __atomic_add_fetch(&fake->released, 1, __ATOMIC_RELAXED);
}

static const struct gs_event_ops functions = {
    .record = record, .query = query, .release = release};

static void begin(struct fake *fake)
{
    under_test = &fake->epochs;
    *fake = (struct fake){.done = 0};
    gs_epochs_init(&fake->epochs, &functions, fake);
}

/* Where memory is scarce: what is open is closed by it. */
static enum gs_status ask(gs_fence fence)
{
    gs_epochs_headroom(under_test, 0);
    enum gs_status status = gs_epoch_query(fence);
    gs_epochs_headroom(under_test, SIZE_MAX);
    return status;
}

static gs_fence join(struct fake *fake, size_t bytes, bool *full)
{
    gs_fence fence = 0;
    cr_assert_eq(gs_epochs_join(&fake->epochs, bytes, &fence, full), GS_OK);
    cr_assert(gs_epoch_is(fence));
    return fence;
}

Test(epochs, a_free_records_nothing)
{
    struct fake fake;
    bool full;
    begin(&fake);
    for (unsigned i = 1; i < GS_EPOCH_FREES; i++) {
        (void)join(&fake, 512, &full);
        cr_assert_not(full);
    }
    cr_assert_eq(fake.tries, 0);
    (void)join(&fake, 512, &full);
    cr_assert(full, "the last one fills it");
}

Test(epochs, frees_share_one_until_it_closes)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_fence first = join(&fake, 1, &full);
    cr_assert_eq(join(&fake, 1, &full), first);
    gs_epochs_close(&fake.epochs);
    cr_assert_eq(fake.recorded, 1);
    cr_assert_neq(join(&fake, 1, &full), first);
}

Test(epochs, is_done_when_its_mark_was_seen_done)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_fence fence = join(&fake, 1, &full);
    gs_epochs_close(&fake.epochs);
    cr_assert_eq(ask(fence), GS_ERR_TIMEOUT);
    cr_assert_eq(gs_epoch_proof_event(fence), 0, "not proven yet");
    fake.done = 1;
    cr_assert_eq(ask(fence), GS_OK);
    cr_assert_eq(gs_epoch_proof_event(fence), 1);
    unsigned asked = fake.queries;
    cr_assert_eq(ask(fence), GS_OK);
    cr_assert_eq(fake.queries, asked, "what is done is not asked after again");
}

/* What proves it is the event that was seen complete, which lives as long as it does. */
Test(epochs, a_later_ones_mark_proves_it_too)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_fence first = join(&fake, 1, &full);
    gs_epochs_close(&fake.epochs);
    gs_fence second = join(&fake, 1, &full);
    gs_epochs_close(&fake.epochs);
    gs_fence third = join(&fake, 1, &full);
    gs_epochs_close(&fake.epochs);
    fake.done = 2;
    cr_assert_eq(ask(second), GS_OK);
    unsigned asked = fake.queries;
    cr_assert_eq(ask(first), GS_OK);
    cr_assert_eq(fake.queries, asked);
    cr_assert_eq(gs_epoch_proof_event(first), 2);
    gs_epoch_release(second);
    fake.done = 3;
    cr_assert_eq(ask(third), GS_OK);
    gs_epoch_release(third);
    cr_assert_eq(fake.released, 0, "the first one needs the second, the next the third");
    gs_epoch_release(first);
    cr_assert_eq(fake.released, 2);
    gs_epochs_end(&fake.epochs);
    cr_assert_eq(fake.released, 3);
}

/* Natively the free has waited for what its own event covers, but not for what was
 * submitted later: only for the first may an allocation wait for long. */
Test(epochs, a_wait_is_owed_for_events_of_frees_alone)
{
    struct fake fake;
    gs_fence first, second;
    bool full;

    begin(&fake);
    cr_assert_eq(gs_epochs_join(&fake.epochs, 1, &first, &full), GS_OK);
    cr_assert(!gs_epochs_owe_wait(&fake.epochs), "no event yet");
    gs_epochs_close(&fake.epochs);
    cr_assert(gs_epochs_owe_wait(&fake.epochs));
    fake.done = 1;
    cr_assert_eq(gs_epoch_query(first), GS_OK);
    cr_assert(!gs_epochs_owe_wait(&fake.epochs), "complete");
    cr_assert_eq(gs_epochs_join(&fake.epochs, 1, &second, &full), GS_OK);
    gs_epochs_headroom(&fake.epochs, 0);
    cr_assert_eq(gs_epoch_query(second), GS_ERR_TIMEOUT, "closed by the query");
    cr_assert(!gs_epochs_owe_wait(&fake.epochs), "its event covers later work");
    gs_epoch_release(first);
    gs_epoch_release(second);
    gs_epochs_end(&fake.epochs);
}

Test(epochs, asking_after_an_open_one_closes_it)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_fence fence = join(&fake, 1, &full);
    cr_assert_eq(ask(fence), GS_ERR_TIMEOUT);
    cr_assert_eq(fake.recorded, 1);
}

Test(epochs, its_mark_goes_with_the_last_of_its_blocks)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_fence fence = join(&fake, 1, &full);
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(join(&fake, 1, &full), fence);
    }
    gs_epochs_close(&fake.epochs);
    gs_epoch_release_many(fence, 4);
    cr_assert_eq(fake.released, 0);
    gs_epoch_release_many(fence, 1);
    cr_assert_eq(fake.released, 1);
}

Test(epochs, what_has_no_event_yet_stays_open)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_fence fence = join(&fake, 1, &full);
    fake.record_status = GS_ERR_TIMEOUT;
    gs_epochs_close(&fake.epochs);
    cr_assert_eq(ask(fence), GS_ERR_TIMEOUT);
    cr_assert_eq(join(&fake, 1, &full), fence, "frees go on joining it");
    fake.record_status = GS_OK;
    fake.done = 1;
    cr_assert_eq(ask(fence), GS_OK);
}

Test(epochs, a_free_during_the_recording_is_not_covered)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_fence fence = join(&fake, 1, &full);
    fake.join_during_record = true;
    fake.done = 1;
    cr_assert_eq(ask(fence), GS_OK);
    cr_assert_neq(fake.joined, fence);
    cr_assert_eq(ask(fake.joined), GS_ERR_TIMEOUT);
}

/* The one without an event is open still, and so is the one that was begun then.
 */
Test(epochs, two_may_be_open_after_a_refusal)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_fence fence = join(&fake, 1, &full);
    fake.record_status = GS_ERR_TIMEOUT;
    fake.join_during_record = true;
    gs_epochs_close(&fake.epochs);
    fake.record_status = GS_OK;
    fake.done = 2;
    cr_assert_eq(ask(fence), GS_OK);
    cr_assert_eq(ask(fake.joined), GS_OK);
    cr_assert_eq(fake.recorded, 2);
}

Test(epochs, close_early_where_memory_is_scarce)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_epochs_headroom(&fake.epochs, 800);
    (void)join(&fake, 100, &full);
    cr_assert_not(full);
    (void)join(&fake, 1, &full);
    cr_assert(full);
    gs_epochs_close(&fake.epochs);
    gs_epochs_headroom(&fake.epochs, 0);
    (void)join(&fake, 1, &full);
    cr_assert(full, "a device that refuses: each free");
}

Test(epochs, a_mark_that_fails_breaks_all)
{
    struct fake fake;
    gs_fence fence, other;
    bool full;
    begin(&fake);
    fence = join(&fake, 1, &full);
    gs_epochs_close(&fake.epochs);
    fake.query_status = GS_ERR_BACKEND;
    cr_assert_eq(ask(fence), GS_ERR_BACKEND);
    fake.query_status = GS_OK;
    fake.done = 9;
    cr_assert_eq(ask(fence), GS_ERR_BACKEND, "it stays so");
    cr_assert_eq(gs_epochs_join(&fake.epochs, 1, &other, &full), GS_ERR_BACKEND);
}

Test(epochs, a_recording_that_fails_breaks_all)
{
    struct fake fake;
    gs_fence fence, other;
    bool full;
    begin(&fake);
    fence = join(&fake, 1, &full);
    fake.record_status = GS_ERR_BACKEND;
    gs_epochs_close(&fake.epochs);
    cr_assert_eq(ask(fence), GS_ERR_BACKEND);
    cr_assert_eq(gs_epochs_join(&fake.epochs, 1, &other, &full), GS_ERR_BACKEND);
}

Test(epochs, the_last_block_takes_the_mark_along)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_fence fence = join(&fake, 1, &full);
    (void)join(&fake, 1, &full);
    gs_epochs_close(&fake.epochs);
    gs_epoch_release(fence);
    cr_assert_eq(fake.released, 0);
    gs_epoch_release(fence);
    cr_assert_eq(fake.released, 1);
}

/* A synchronize retired its blocks before anybody closed it. */
Test(epochs, one_that_nobody_waits_for_has_no_event)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_epoch_release(join(&fake, 1, &full));
    gs_epochs_close(&fake.epochs);
    cr_assert_eq(fake.tries, 0);
    cr_assert_eq(fake.released, 0);
}

/* ---- several threads --------------------------------------------------------------- */

static enum gs_status record_done(void *self, uint64_t *event)
{
    struct fake *fake = self;
    *event = __atomic_add_fetch(&fake->recorded, 1, __ATOMIC_RELAXED);
    return GS_OK;
}

static enum gs_status query_done(void *self, uint64_t event)
{
    (void)self, (void)event;
    return GS_OK;
}

static const struct gs_event_ops always = {
    .record = record_done, .query = query_done, .release = release};

static void *free_often(void *argument)
{
    struct fake *fake = argument;
    for (int i = 0; i < 20000; i++) {
        gs_fence fence;
        bool full;
        cr_assert_eq(gs_epochs_join(&fake->epochs, 1, &fence, &full), GS_OK);
        if (full || i % 7 == 0) {
            gs_epochs_close(&fake->epochs);
        }
        while (ask(fence) != GS_OK) {
        }
        gs_epoch_release(fence);
    }
    return NULL;
}

Test(epochs, threads_release_each_mark_once)
{
    struct fake fake = {.done = 0};
    pthread_t threads[4];
    gs_epochs_init(&fake.epochs, &always, &fake);
    under_test = &fake.epochs;
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, free_often, &fake), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    gs_epochs_end(&fake.epochs);
    cr_assert_gt(fake.recorded, 0);
    cr_assert_eq(fake.recorded, fake.released);
    cr_assert_null(fake.epochs.open);
}

/* ---- single order ------------------------------------------------------------------ */

static bool is_ordered;
static gs_fence accepted;

static bool orders(void *self, gs_fence epoch)
{
    (void)self;
    accepted = is_ordered ? epoch : 0;
    return is_ordered;
}

static const struct gs_event_ops ordering = {
    .record = record, .query = query, .release = release, .orders = orders};

Test(epochs, ordered_ones_are_ready_without_a_question)
{
    struct fake fake;
    bool full;
    begin(&fake);
    fake.epochs.event_ops = &ordering;
    gs_fence before = join(&fake, 1, &full);
    is_ordered = false;
    gs_epochs_close(&fake.epochs);
    cr_assert_eq(gs_epoch_query(before), GS_ERR_TIMEOUT);
    unsigned queries = fake.queries;
    gs_fence fence = join(&fake, 1, &full);
    is_ordered = true;
    gs_epochs_close(&fake.epochs);
    cr_assert_eq(gs_epoch_query(fence), GS_OK);
    cr_assert_eq(gs_epoch_query(before), GS_OK, "and those in front of them");
    cr_assert_eq(fake.queries, queries);
    cr_assert_eq(gs_epoch_proof_event(fence), 0, "its event was not seen done");
    cr_assert_neq(gs_epoch_event(accepted), 0, "but there is one to wait for");
    gs_epoch_release(fence);
    cr_assert_eq(fake.released, 0, "who accepted it has a reference");
    gs_epoch_release(accepted);
    cr_assert_eq(fake.released, 1);
}

Test(epochs, one_closed_by_a_question_is_not_ordered)
{
    struct fake fake;
    bool full;
    begin(&fake);
    fake.epochs.event_ops = &ordering;
    is_ordered = true;
    gs_fence fence = join(&fake, 1, &full);
    cr_assert_eq(ask(fence), GS_ERR_TIMEOUT);
    cr_assert_eq(fake.recorded, 1);
    cr_assert_eq(accepted, 0);
}

Test(epochs, an_open_one_stays_open_while_memory_is_plentiful)
{
    struct fake fake;
    bool full;
    begin(&fake);
    gs_fence fence = join(&fake, 1, &full);
    cr_assert_eq(gs_epoch_query(fence), GS_ERR_TIMEOUT);
    cr_assert_eq(fake.tries, 0);
}

Test(epochs, requests_ask_less_often_while_told_not_yet)
{
    struct fake fake;
    unsigned asked_after = 0;
    bool full;
    begin(&fake);
    (void)join(&fake, 1, &full);
    gs_epochs_close(&fake.epochs);
    fake.epochs.calls = 1000; /* more than the frees are good for */
    for (unsigned i = 0; i < 1000; i++) {
        asked_after += gs_epochs_worth_asking(&fake.epochs);
    }
    cr_assert_gt(asked_after, 5);
    cr_assert_lt(asked_after, 30);
    gs_epochs_headroom(&fake.epochs, 0);
    cr_assert(gs_epochs_worth_asking(&fake.epochs), "memory is scarce");
}
