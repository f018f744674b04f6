/*
 * tracker_slots.c - proves that a thread has a slot to itself while there are enough,
 * that slots come back when threads end, that who closes a gate keeps its owner out, and
 * that the numbers of origins come back when their context dies.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracker_helpers.h"

#define MANY 100 /* threads at once: more than slots */

static void *pair(void *arg)
{
    struct gs_tracker *tracker = arg;
    struct gs_allocation allocation = test_allocation(0x1000, 512);

    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), NULL);
    return NULL;
}

Test(slots, of_threads_that_ended_are_used_again)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    pthread_t thread;

    pair(tracker);
    for (unsigned i = 0; i < 1000; i++) {
        cr_assert_eq(pthread_create(&thread, NULL, pair, tracker), 0);
        cr_assert_eq(pthread_join(thread, NULL), 0);
    }
    cr_assert_eq(gs_slots_used, 2, "%u slots", gs_slots_used);
    cr_assert_eq(gs_gates[1].wanted, 0);
    cr_assert_eq(test_totals(tracker, 0).allocs, 1001);
    cr_assert_eq(test_totals(tracker, 0).frees, 1001);
    cr_assert_leq(tracker->record_limit, 128, "the ids of ended threads are lost");
}

struct crowd {
    struct gs_tracker *tracker;
    pthread_barrier_t all_in;
};

static void *stay(void *arg)
{
    struct crowd *crowd = arg;

    pair(crowd->tracker);
    pthread_barrier_wait(&crowd->all_in);
    for (unsigned i = 0; i < 1000; i++)
        pair(crowd->tracker);
    pthread_barrier_wait(&crowd->all_in);
    return NULL;
}

Test(slots, are_shared_only_while_there_are_too_few, .timeout = 60)
{
    struct crowd crowd = {.tracker = test_tracker(NULL)};
    pthread_t threads[MANY];
    unsigned shared = 0;

    cr_assert_eq(pthread_barrier_init(&crowd.all_in, NULL, MANY + 1), 0);
    for (unsigned i = 0; i < MANY; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, stay, &crowd), 0);
    pthread_barrier_wait(&crowd.all_in);
    for (unsigned i = 0; i < GS_SHARDS; i++)
        shared += (__atomic_load_n(&gs_gates[i].wanted, __ATOMIC_RELAXED) &
                   GS_GATE_SHARED) != 0;
    cr_assert_eq(shared, MANY - GS_SHARDS);
    pthread_barrier_wait(&crowd.all_in);
    for (unsigned i = 0; i < MANY; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < GS_SHARDS; i++)
        cr_assert_eq(gs_gates[i].wanted, 0, "slot %u is still shared", i);
    cr_assert_eq(test_totals(crowd.tracker, 0).allocs, MANY * 1001);
    cr_assert_eq(test_totals(crowd.tracker, 0).frees, MANY * 1001);
    cr_assert_eq(test_totals(crowd.tracker, 0).live_bytes, 0);
    gs_tracker_destroy(crowd.tracker);
}

/* One more, slowly: two at a time would lose one. */
static void count_slowly(volatile uint64_t *counter)
{
    uint64_t value = *counter;

    for (volatile unsigned i = 0; i < 50; i++) {
    }
    *counter = value + 1;
}

struct owner {
    struct gs_tracker *tracker;
    uint64_t counted;
    uint32_t stop; /* atomic */
};

static void *go_in(void *arg)
{
    struct owner *owner = arg;

    while (!__atomic_load_n(&owner->stop, __ATOMIC_ACQUIRE)) {
        struct gs_shard *shard = gs_shard_enter(owner->tracker);
        count_slowly(&shard->rows[0].failed);
        gs_shard_leave();
        owner->counted++;
    }
    return NULL;
}

Test(slots, a_closed_gate_keeps_its_owner_out, .timeout = 60)
{
    struct owner owner = {.tracker = test_tracker(NULL)};
    struct gs_shard *theirs = &owner.tracker->shards[1];
    enum { ROUNDS = 30000, TURNS = 10 };
    pthread_t thread;

    pair(owner.tracker); /* takes slot 0 */
    cr_assert_eq(pthread_create(&thread, NULL, go_in, &owner), 0);
    while (__atomic_load_n(&gs_slots_used, __ATOMIC_ACQUIRE) < 2)
        usleep(100);
    for (unsigned i = 0; i < ROUNDS; i++) {
        gs_slots_close_all();
        for (unsigned turn = 0; turn < TURNS; turn++)
            count_slowly(&theirs->rows[0].failed);
        gs_slots_open_all();
        for (volatile unsigned pause = 0; pause < 500; pause++) {
        }
    }
    __atomic_store_n(&owner.stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    cr_assert_gt(owner.counted, 0);
    cr_assert_eq(theirs->rows[0].failed, owner.counted + ROUNDS * TURNS);
    gs_tracker_destroy(owner.tracker);
}

Test(slots, of_other_threads_are_free_in_a_forked_child)
{
    struct crowd crowd = {.tracker = test_tracker(NULL)};
    pthread_t thread;
    int status = 0;

    cr_assert_eq(pthread_barrier_init(&crowd.all_in, NULL, 2), 0);
    cr_assert_eq(pthread_create(&thread, NULL, stay, &crowd), 0);
    while (__atomic_load_n(&gs_slots_used, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
    gs_slots_close_all(); /* as another thread might have, when the child was made */
    pid_t child = fork();
    if (child == 0) {
        gs_tracker_after_fork_in_child();
        struct gs_tracker *tracker = test_tracker(NULL);
        alarm(20);
        pair(tracker);
        gs_tracker_lose_context(tracker, 0xc0, ~0u);
        _exit(gs_slots_used == 1 && test_totals(tracker, 0).frees == 1 ? 0 : 1);
    }
    gs_slots_open_all();
    cr_assert_gt(child, 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pthread_barrier_wait(&crowd.all_in);
    pthread_barrier_wait(&crowd.all_in);
    pthread_join(thread, NULL);
    gs_tracker_destroy(crowd.tracker);
}

Test(origins, are_numbered_again_when_their_context_has_died)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 512), found;

    allocation.kind = GS_MEMORY_ASYNC;
    allocation.stream = 0xabc;
    allocation.context = 1;
    test_add(tracker, &allocation, false); /* survives its context */
    for (uint64_t context = 1; context <= 1000; context++) {
        struct gs_allocation dying = test_allocation(0x2000, 512);
        dying.context = context;
        test_add(tracker, &dying, true);
        gs_tracker_lose_context(tracker, context, 1u << GS_MEMORY_DEVICE);
    }
    cr_assert_leq(tracker->origin_count, 3);
    cr_assert_eq(gs_tracker_find(tracker, 0x1000, &found), GS_OK);
    cr_assert_eq(found.context, 1);
    cr_assert_eq(found.stream, 0xabc);
    cr_assert_eq(found.kind, GS_MEMORY_ASYNC);
}

Test(origins, too_many_are_counted_and_not_recorded)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x1000, 512);
    uint32_t id = 0;

    for (uint32_t i = 1; i < GS_ORIGINS; i++)
        tracker->origins[i] = (struct gs_origin){.context = i, .tag = GS_TAG_USED};
    tracker->origin_count = GS_ORIGINS - 1;
    cr_assert_eq(gs_tracker_add(tracker, &allocation, true, &id), GS_ERR_HOST_NOMEM);
    cr_assert_eq(test_totals(tracker, 0).allocs, 1);
    cr_assert_eq(test_totals(tracker, 0).live_count, 0);
    cr_assert_eq(id, 0);
}

/* Two entries' words in one: what two threads may leave that write it at once. */
Test(slots, a_mixed_history_entry_is_none)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_allocation allocation = test_allocation(0x7f0000001000, 512);
    struct gs_former former;

    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), NULL);
    cr_assert(gs_history_get(tracker, allocation.addr, &former));
    cr_assert_eq(former.allocation.bytes, 512);
    uint64_t *words =
        (uint64_t *)(void *)&tracker->history[gs_history_slot(tracker, allocation.addr)];
    for (unsigned i = 1; i < 8; i++) {
        words[i] ^= 0x40;
        cr_assert_not(gs_history_get(tracker, allocation.addr, &former), "word %u", i);
        words[i] ^= 0x40;
    }
    cr_assert(gs_history_get(tracker, allocation.addr, &former));
}
