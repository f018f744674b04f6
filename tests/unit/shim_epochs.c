/*
 * shim_epochs.c - proves when an epoch of frees is closed, marked and done, over a marker
 * that does as the test says.
 */
#include <criterion/criterion.h>

#include <pthread.h>

#include "epochs.h"

/* A marker whose marks are numbers, done up to `done`. */
struct marker {
    struct gs_epochs epochs;
    uint64_t recorded, done, released; /* atomic */
    unsigned queries, tries;
    enum gs_status record_status, query_status;
    gs_fence joined; /* by a free that comes while a mark is being recorded */
    bool join_during_record;
};

static struct gs_epochs *under_test; /* of the test that runs */

static enum gs_status record(void *self, uint64_t *mark)
{
    struct marker *marker = self;
    bool full;
    marker->tries++;
    if (marker->join_during_record) {
        marker->join_during_record = false;
        cr_assert_eq(gs_epochs_join(&marker->epochs, 1, &marker->joined, &full), GS_OK);
    }
    if (marker->record_status == GS_OK) {
        *mark = __atomic_add_fetch(&marker->recorded, 1, __ATOMIC_RELAXED);
    }
    return marker->record_status;
}

static enum gs_status query(void *self, uint64_t mark)
{
    struct marker *marker = self;
    marker->queries++;
    cr_assert_neq(mark, 0);
    if (marker->query_status != GS_OK) {
        return marker->query_status;
    }
    return mark <= marker->done ? GS_OK : GS_ERR_TIMEOUT;
}

static void release(void *self, uint64_t mark)
{
    struct marker *marker = self;
    cr_assert_neq(mark, 0);
    __atomic_add_fetch(&marker->released, 1, __ATOMIC_RELAXED);
}

static const struct gs_marker functions = {
    .record = record, .query = query, .release = release};

static void begin(struct marker *marker)
{
    under_test = &marker->epochs;
    *marker = (struct marker){.done = 0};
    gs_epochs_init(&marker->epochs, &functions, marker);
}

/* Where memory is scarce: what is open is closed by it. */
static enum gs_status ask(gs_fence fence)
{
    gs_epochs_room(under_test, 0);
    enum gs_status status = gs_epoch_query(fence);
    gs_epochs_room(under_test, SIZE_MAX);
    return status;
}

static gs_fence join(struct marker *marker, size_t bytes, bool *full)
{
    gs_fence fence = 0;
    cr_assert_eq(gs_epochs_join(&marker->epochs, bytes, &fence, full), GS_OK);
    cr_assert(gs_epoch_is(fence));
    return fence;
}

Test(epochs, a_free_records_nothing)
{
    struct marker marker;
    bool full;
    begin(&marker);
    for (unsigned i = 1; i < GS_EPOCH_FREES; i++) {
        (void)join(&marker, 512, &full);
        cr_assert_not(full);
    }
    cr_assert_eq(marker.tries, 0);
    (void)join(&marker, 512, &full);
    cr_assert(full, "the last one fills it");
}

Test(epochs, frees_share_one_until_it_closes)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_fence first = join(&marker, 1, &full);
    cr_assert_eq(join(&marker, 1, &full), first);
    gs_epochs_close(&marker.epochs);
    cr_assert_eq(marker.recorded, 1);
    cr_assert_neq(join(&marker, 1, &full), first);
}

Test(epochs, is_done_when_its_mark_was_seen_done)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_fence fence = join(&marker, 1, &full);
    gs_epochs_close(&marker.epochs);
    cr_assert_eq(ask(fence), GS_ERR_TIMEOUT);
    cr_assert_eq(gs_epoch_mark(fence), 0, "not proven yet");
    marker.done = 1;
    cr_assert_eq(ask(fence), GS_OK);
    cr_assert_eq(gs_epoch_mark(fence), 1);
    unsigned asked = marker.queries;
    cr_assert_eq(ask(fence), GS_OK);
    cr_assert_eq(marker.queries, asked, "what is done is not asked after again");
}

/* What proves it is the mark that was seen complete, which lives as long as it does. */
Test(epochs, a_later_ones_mark_proves_it_too)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_fence first = join(&marker, 1, &full);
    gs_epochs_close(&marker.epochs);
    gs_fence second = join(&marker, 1, &full);
    gs_epochs_close(&marker.epochs);
    gs_fence third = join(&marker, 1, &full);
    gs_epochs_close(&marker.epochs);
    marker.done = 2;
    cr_assert_eq(ask(second), GS_OK);
    unsigned asked = marker.queries;
    cr_assert_eq(ask(first), GS_OK);
    cr_assert_eq(marker.queries, asked);
    cr_assert_eq(gs_epoch_mark(first), 2);
    gs_epoch_release(second);
    marker.done = 3;
    cr_assert_eq(ask(third), GS_OK);
    gs_epoch_release(third);
    cr_assert_eq(marker.released, 0,
                 "the first one needs the second, the next the third");
    gs_epoch_release(first);
    cr_assert_eq(marker.released, 2);
    gs_epochs_end(&marker.epochs);
    cr_assert_eq(marker.released, 3);
}

Test(epochs, asking_after_an_open_one_closes_it)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_fence fence = join(&marker, 1, &full);
    cr_assert_eq(ask(fence), GS_ERR_TIMEOUT);
    cr_assert_eq(marker.recorded, 1);
}

Test(epochs, its_mark_goes_with_the_last_of_its_blocks)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_fence fence = join(&marker, 1, &full);
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(join(&marker, 1, &full), fence);
    }
    gs_epochs_close(&marker.epochs);
    gs_epoch_release_many(fence, 4);
    cr_assert_eq(marker.released, 0);
    gs_epoch_release_many(fence, 1);
    cr_assert_eq(marker.released, 1);
}

Test(epochs, what_cannot_be_marked_now_stays_open)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_fence fence = join(&marker, 1, &full);
    marker.record_status = GS_ERR_TIMEOUT;
    gs_epochs_close(&marker.epochs);
    cr_assert_eq(ask(fence), GS_ERR_TIMEOUT);
    cr_assert_eq(join(&marker, 1, &full), fence, "frees go on joining it");
    marker.record_status = GS_OK;
    marker.done = 1;
    cr_assert_eq(ask(fence), GS_OK);
}

Test(epochs, a_free_during_the_recording_is_not_covered)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_fence fence = join(&marker, 1, &full);
    marker.join_during_record = true;
    marker.done = 1;
    cr_assert_eq(ask(fence), GS_OK);
    cr_assert_neq(marker.joined, fence);
    cr_assert_eq(ask(marker.joined), GS_ERR_TIMEOUT);
}

/* The one that could not be marked is open still, and so is the one that was begun then.
 */
Test(epochs, two_may_be_open_after_a_refusal)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_fence fence = join(&marker, 1, &full);
    marker.record_status = GS_ERR_TIMEOUT;
    marker.join_during_record = true;
    gs_epochs_close(&marker.epochs);
    marker.record_status = GS_OK;
    marker.done = 2;
    cr_assert_eq(ask(fence), GS_OK);
    cr_assert_eq(ask(marker.joined), GS_OK);
    cr_assert_eq(marker.recorded, 2);
}

Test(epochs, close_early_where_memory_is_scarce)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_epochs_room(&marker.epochs, 800);
    (void)join(&marker, 100, &full);
    cr_assert_not(full);
    (void)join(&marker, 1, &full);
    cr_assert(full);
    gs_epochs_close(&marker.epochs);
    gs_epochs_room(&marker.epochs, 0);
    (void)join(&marker, 1, &full);
    cr_assert(full, "a device that refuses: each free");
}

Test(epochs, a_mark_that_fails_breaks_all)
{
    struct marker marker;
    gs_fence fence, other;
    bool full;
    begin(&marker);
    fence = join(&marker, 1, &full);
    gs_epochs_close(&marker.epochs);
    marker.query_status = GS_ERR_BACKEND;
    cr_assert_eq(ask(fence), GS_ERR_BACKEND);
    marker.query_status = GS_OK;
    marker.done = 9;
    cr_assert_eq(ask(fence), GS_ERR_BACKEND, "it stays so");
    cr_assert_eq(gs_epochs_join(&marker.epochs, 1, &other, &full), GS_ERR_BACKEND);
}

Test(epochs, a_recording_that_fails_breaks_all)
{
    struct marker marker;
    gs_fence fence, other;
    bool full;
    begin(&marker);
    fence = join(&marker, 1, &full);
    marker.record_status = GS_ERR_BACKEND;
    gs_epochs_close(&marker.epochs);
    cr_assert_eq(ask(fence), GS_ERR_BACKEND);
    cr_assert_eq(gs_epochs_join(&marker.epochs, 1, &other, &full), GS_ERR_BACKEND);
}

Test(epochs, the_last_block_takes_the_mark_along)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_fence fence = join(&marker, 1, &full);
    (void)join(&marker, 1, &full);
    gs_epochs_close(&marker.epochs);
    gs_epoch_release(fence);
    cr_assert_eq(marker.released, 0);
    gs_epoch_release(fence);
    cr_assert_eq(marker.released, 1);
}

/* A synchronize retired its blocks before anybody closed it. */
Test(epochs, one_that_nobody_waits_for_is_never_marked)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_epoch_release(join(&marker, 1, &full));
    gs_epochs_close(&marker.epochs);
    cr_assert_eq(marker.tries, 0);
    cr_assert_eq(marker.released, 0);
}

/* ---- several threads --------------------------------------------------------------- */

static enum gs_status record_done(void *self, uint64_t *mark)
{
    struct marker *marker = self;
    *mark = __atomic_add_fetch(&marker->recorded, 1, __ATOMIC_RELAXED);
    return GS_OK;
}

static enum gs_status query_done(void *self, uint64_t mark)
{
    (void)self, (void)mark;
    return GS_OK;
}

static const struct gs_marker always = {
    .record = record_done, .query = query_done, .release = release};

static void *free_often(void *argument)
{
    struct marker *marker = argument;
    for (int i = 0; i < 20000; i++) {
        gs_fence fence;
        bool full;
        cr_assert_eq(gs_epochs_join(&marker->epochs, 1, &fence, &full), GS_OK);
        if (full || i % 7 == 0) {
            gs_epochs_close(&marker->epochs);
        }
        while (ask(fence) != GS_OK) {
        }
        gs_epoch_release(fence);
    }
    return NULL;
}

Test(epochs, threads_release_each_mark_once)
{
    struct marker marker = {.done = 0};
    pthread_t threads[4];
    gs_epochs_init(&marker.epochs, &always, &marker);
    under_test = &marker.epochs;
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, free_often, &marker), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    gs_epochs_end(&marker.epochs);
    cr_assert_gt(marker.recorded, 0);
    cr_assert_eq(marker.recorded, marker.released);
    cr_assert_null(marker.epochs.open);
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

static const struct gs_marker ordering = {
    .record = record, .query = query, .release = release, .orders = orders};

Test(epochs, ordered_ones_are_ready_without_a_question)
{
    struct marker marker;
    bool full;
    begin(&marker);
    marker.epochs.marker = &ordering;
    gs_fence before = join(&marker, 1, &full);
    is_ordered = false;
    gs_epochs_close(&marker.epochs);
    cr_assert_eq(gs_epoch_query(before), GS_ERR_TIMEOUT);
    unsigned queries = marker.queries;
    gs_fence fence = join(&marker, 1, &full);
    is_ordered = true;
    gs_epochs_close(&marker.epochs);
    cr_assert_eq(gs_epoch_query(fence), GS_OK);
    cr_assert_eq(gs_epoch_query(before), GS_OK, "and those in front of them");
    cr_assert_eq(marker.queries, queries);
    cr_assert_eq(gs_epoch_mark(fence), 0, "its mark was not seen done");
    cr_assert_neq(gs_epoch_marked(accepted), 0, "but there is one to wait for");
    gs_epoch_release(fence);
    cr_assert_eq(marker.released, 0, "who accepted it has a reference");
    gs_epoch_release(accepted);
    cr_assert_eq(marker.released, 1);
}

Test(epochs, one_closed_by_a_question_is_not_ordered)
{
    struct marker marker;
    bool full;
    begin(&marker);
    marker.epochs.marker = &ordering;
    is_ordered = true;
    gs_fence fence = join(&marker, 1, &full);
    cr_assert_eq(ask(fence), GS_ERR_TIMEOUT);
    cr_assert_eq(marker.recorded, 1);
    cr_assert_eq(accepted, 0);
}

Test(epochs, an_open_one_stays_open_while_memory_is_plentiful)
{
    struct marker marker;
    bool full;
    begin(&marker);
    gs_fence fence = join(&marker, 1, &full);
    cr_assert_eq(gs_epoch_query(fence), GS_ERR_TIMEOUT);
    cr_assert_eq(marker.tries, 0);
}

Test(epochs, requests_ask_less_often_while_told_not_yet)
{
    struct marker marker;
    unsigned asked_after = 0;
    bool full;
    begin(&marker);
    (void)join(&marker, 1, &full);
    gs_epochs_close(&marker.epochs);
    marker.epochs.calls = 1000; /* more than the frees are good for */
    for (unsigned i = 0; i < 1000; i++) {
        asked_after += gs_epochs_worth_asking(&marker.epochs);
    }
    cr_assert_gt(asked_after, 5);
    cr_assert_lt(asked_after, 30);
    gs_epochs_room(&marker.epochs, 0);
    cr_assert(gs_epochs_worth_asking(&marker.epochs), "memory is scarce");
}
