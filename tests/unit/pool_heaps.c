/*
 * pool_heaps.c - proves what happens to whole heaps: death, poison, stale addresses,
 * giving back, sums over devices, and arguments nobody should pass.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

#include "pool/hit.h"
#include "pool/reclaim.h"
#include "pool_fake.h"

Test(heap, dies_with_its_segments_and_calls_the_backend_no_more)
{
    struct bed bed;
    struct gs_block *block;
    uint64_t small, large;
    unsigned calls;

    bed_init(&bed, 64 * GS_MIB, 0);
    small = bed_alloc(&bed, 512);
    large = bed_alloc(&bed, 4 * GS_MIB);
    bed_free(&bed, bed_alloc(&bed, 8 * GS_MIB));
    fake_fence_set(&bed.fake, 5, FAKE_FENCE_BUSY);
    bed_free_fenced(&bed, bed_alloc(&bed, 6 * GS_MIB), 5);
    calls = bed.fake.map_calls + bed.fake.unmaps + bed.fake.queries;
    gs_heap_kill(bed.heap);
    gs_heap_kill(bed.heap);
    cr_assert_eq(gs_pool_claim(bed.pool, small, &block), GS_ERR_NOT_OURS);
    cr_assert_eq(gs_pool_claim(bed.pool, large, &block), GS_ERR_NOT_OURS);
    cr_assert_eq(gs_heap_alloc(bed.heap, 512, &block, NULL), GS_ERR_UNPOOLABLE);
    cr_assert_eq(gs_pool_trim(bed.pool, -1, SIZE_MAX), 0);
    gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
    cr_assert_eq(bed.fake.map_calls + bed.fake.unmaps + bed.fake.queries, calls);
    cr_assert_eq(bed.fake.fence_released[5], 1);
    cr_assert_eq(bed_stats(&bed).reserved_bytes, 0);
    cr_assert_eq(bed_stats(&bed).live_bytes, 0);
    cr_assert_eq(bed_stats(&bed).pending_bytes, 0);
    cr_assert_eq(bed_stats(&bed).allocs, 4, "counters outlive the heap");
    cr_assert_eq(bed_stats(&bed).reserved_peak_bytes, 20 * GS_MIB);
    bed_fini(&bed);
}

/* Else a question about idle memory costs more with each context that has ended. */
Test(heap, a_dead_one_is_asked_nothing)
{
    enum { HEAPS = 30 };
    struct gs_heap *heaps[HEAPS];
    unsigned living = 0;
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    for (int i = 0; i < HEAPS; i++)
        cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &heaps[i]),
                     GS_OK);
    bed_free(&bed, bed_alloc(&bed, 8 * GS_MIB));
    for (int i = 0; i < HEAPS; i++)
        if (i % 10 != 5)
            gs_heap_kill(heaps[i]);
    for (struct gs_heap *heap = atomic_load(&bed.pool->living); heap;
         heap = atomic_load(&heap->next_living)) {
        cr_assert_not(gs_heap_is_dead(heap));
        living++;
    }
    cr_assert_eq(living, HEAPS / 10 + 1);
    /* Whoever looked at a dead one goes on from there. */
    for (struct gs_heap *heap = heaps[HEAPS - 1]; heap;
         heap = atomic_load(&heap->next_living))
        living -= !gs_heap_is_dead(heap);
    cr_assert_eq(living, 0);
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 8 * GS_MIB);
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 8 * GS_MIB);
    bed_fini(&bed);
}

Test(heap, claimed_blocks_outlive_it)
{
    struct bed bed;
    struct gs_block *parked, *fenced, *unclaimed, *large, *lost;

    bed_init(&bed, 64 * GS_MIB, 0);
    parked = bed_claim(&bed, bed_alloc(&bed, 512));
    fenced = bed_claim(&bed, bed_alloc(&bed, 512));
    unclaimed = bed_claim(&bed, bed_alloc(&bed, 512));
    large = bed_claim(&bed, bed_alloc(&bed, 4 * GS_MIB));
    cr_assert_eq(gs_heap_alloc(bed.heap, 700, &lost, NULL), GS_OK);
    gs_heap_kill(bed.heap);
    fake_fence_set(&bed.fake, 3, FAKE_FENCE_BUSY);
    cr_assert_eq(gs_block_heap(parked), bed.heap);
    cr_assert_eq(gs_block_requested(lost), 700, "a look at a lost block is safe");
    gs_block_free(parked);
    gs_block_free_fenced(fenced, 3);
    gs_block_release_claim(unclaimed);
    gs_block_free(large);
    gs_block_free(lost);
    cr_assert_eq(bed.fake.fence_released[3], 1);
    cr_assert_eq(bed_stats(&bed).frees, 3);
    cr_assert_eq(bed_stats(&bed).live_bytes, 0);
    bed_fini(&bed);
}

Test(heap, dead_lets_no_thread_into_its_backend)
{
    struct gs_ticket ticket;
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert(gs_reclaim_begin(bed.heap, &ticket, true));
    gs_reclaim_end(bed.heap, &ticket, false);
    gs_heap_kill(bed.heap);
    cr_assert_not(gs_reclaim_begin(bed.heap, &ticket, true));
    bed_fini(&bed);
}

struct waiting {
    struct bed *bed;
    uint64_t enough, returned;
    bool changed;
};

static void *wait_for_enough(void *argument)
{
    struct waiting *waiting = argument;
    struct gs_heap *heap = waiting->bed->heap;

    waiting->changed = gs_reclaim_changed(heap, gs_reclaim_generation(waiting->bed->pool),
                                          waiting->enough);
    waiting->returned = gs_reclaim_returned(heap);
    return NULL;
}

/* Woken by each change, dozens of threads would ask a full device for every one of them.
 */
Test(heap, full_device_is_asked_again_when_enough_went_back)
{
    struct gs_ticket tickets[3];
    struct bed bed;
    pthread_t thread;
    bool waits = false;

    bed_init(&bed, 64 * GS_MIB, 0);
    struct gs_reclaim *reclaim = &bed.pool->reclaim;
    struct waiting waiting = {.bed = &bed, .enough = 4 * GS_MIB};
    for (int i = 0; i < 3; i++)
        cr_assert(gs_reclaim_begin(bed.heap, &tickets[i], true));
    gs_reclaim_account(bed.heap, 4 * GS_MIB);
    gs_reclaim_depart(bed.heap, 4 * GS_MIB);
    pthread_create(&thread, NULL, wait_for_enough, &waiting);
    while (!waits) {
        gs_mutex_lock(&reclaim->lock);
        waits = !gs_list_empty(&reclaim->waiters);
        gs_mutex_unlock(&reclaim->lock);
    }
    gs_reclaim_return(bed.heap, &tickets[0], GS_MIB, GS_MIB);
    usleep(20000);
    gs_reclaim_return(bed.heap, &tickets[1], 3 * GS_MIB, 3 * GS_MIB);
    pthread_join(thread, NULL); /* the third stay goes on */
    cr_expect(waiting.changed);
    cr_expect_eq(waiting.returned, 4 * GS_MIB);
    gs_reclaim_end(bed.heap, &tickets[2], false);
    bed_fini(&bed);
}

/* A free that the driver makes may last as long as a kernel. Whoever finds the device
 * full meanwhile is refused at once, as natively, and not after a second. */
Test(heap, memory_in_a_free_of_the_drivers_is_not_waited_for)
{
    struct gs_block *block, *other;
    struct gs_segment *segment;
    struct bed bed;
    uint64_t addr;
    int native;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 40 * GS_MIB);
    cr_assert_eq(gs_pool_claim(bed.pool, addr, &block), GS_OK);
    segment = gs_block_detach(block);
    cr_assert_not_null(segment);
    cr_expect(gs_list_empty(&bed.pool->reclaim.tickets), "nobody waits for it");
    cr_expect_eq(gs_reclaim_stays(bed.pool), 0, "but it is inside");
    cr_expect_eq(bed_stats(&bed).live_bytes, 0);
    cr_expect_eq(bed_stats(&bed).frees, 1);
    cr_expect_eq(gs_pool_claim(bed.pool, addr, &block), GS_ERR_NOT_OURS);
    cr_expect_eq(gs_heap_alloc(bed.heap, 40 * GS_MIB, &other, &native), GS_ERR_NOMEM);
    bed.fake.backend.unmap(&bed.fake, addr, 40 * GS_MIB);
    gs_segment_was_freed(segment, true);
    cr_expect_eq(gs_reclaim_returned(bed.heap), 40 * GS_MIB);
    cr_expect_eq(gs_reclaim_row(bed.pool, 0).booked, 0);
    cr_expect_eq(gs_heap_alloc(bed.heap, 40 * GS_MIB, &other, &native), GS_OK);
    bed_fini(&bed);
}

Test(heap, memory_that_the_driver_did_not_take_is_not_counted_as_returned)
{
    struct gs_segment *segment;
    struct gs_block *block;
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 4 * GS_MIB);
    cr_assert_eq(gs_pool_claim(bed.pool, addr, &block), GS_OK);
    segment = gs_block_detach(block);
    gs_segment_was_freed(segment, false);
    cr_expect_eq(gs_reclaim_returned(bed.heap), 0);
    cr_expect_eq(gs_reclaim_row(bed.pool, 0).booked, 0);
    cr_expect_eq(bed_stats(&bed).reserved_bytes, 0);
    bed.fake.backend.unmap(&bed.fake, addr, 4 * GS_MIB);
    bed_fini(&bed);
}

Test(heap, no_block_is_taken_out_that_shares_its_segment_or_whose_heap_is_dead)
{
    struct gs_block *small, *large;
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_pool_claim(bed.pool, bed_alloc(&bed, 1000), &small), GS_OK);
    cr_assert_eq(gs_pool_claim(bed.pool, bed_alloc(&bed, 4 * GS_MIB), &large), GS_OK);
    gs_pool_set_refused(bed.pool, 0, 60 * GS_MIB);
    cr_expect(!gs_block_goes_back(small));
    cr_expect_null(gs_block_detach(small));
    gs_block_free(small);
    gs_heap_kill(bed.heap);
    cr_expect_null(gs_block_detach(large));
    gs_block_free(large);
    bed_fini(&bed);
}

/* A thread may be about to set the tag of a block that its allocation returned, while
 * other threads end one context after the other. Recycled at the next death, the record
 * is a hole of another heap by then, and the tag one of the hole's links. */
Test(heap, a_late_tag_of_a_lost_block_breaks_no_other_heap)
{
    enum { LOST = 40 };
    struct gs_block *lost[LOST], *block;
    struct gs_heap *heap;
    struct bed bed;

    bed_init(&bed, GS_GIB, 0);
    for (int i = 0; i < LOST; i++)
        cr_assert_eq(gs_heap_alloc(bed.heap, 512, &lost[i], NULL), GS_OK);
    for (int round = 0; round < 20; round++) {
        gs_heap_kill(round ? heap : bed.heap);
        while (bed.fake.region_count)
            fake_unmap(&bed.fake, bed.fake.regions[0].addr, bed.fake.regions[0].bytes);
        cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &heap),
                     GS_OK);
        for (int i = 0; i < 4 * LOST; i++) {
            cr_assert_eq(gs_heap_alloc(heap, 512 + 512 * (size_t)(i % 9), &block, NULL),
                         GS_OK);
            if (i % 2)
                gs_block_free(block);
        }
        for (int i = 0; i < LOST; i++) {
            cr_assert_eq(gs_block_heap(lost[i]), bed.heap, "the record was reused");
            gs_block_set_tag(lost[i], 7);
        }
        bed_check(&bed);
    }
    bed_fini(&bed);
}

/* A tag that comes later than that is set in the block alone that it is meant for. */
Test(heap, a_tag_is_not_set_in_a_record_that_serves_another_block)
{
    struct gs_block *block;
    struct bed bed;
    uint64_t addr;

    bed_init(&bed, GS_GIB, 0);
    cr_assert_eq(gs_heap_alloc(bed.heap, 512, &block, NULL), GS_OK);
    addr = gs_block_addr(block);
    gs_block_set_tag_late(block, addr, 5);
    cr_expect_eq(gs_block_tag(block), 5);
    gs_block_set_tag_late(block, addr + 512, 6);
    cr_expect_eq(gs_block_tag(block), 5);
    gs_block_free(bed_claim(&bed, addr));
    gs_block_set_tag_late(block, addr, 7);
    cr_expect_neq(gs_block_tag(block), 7);
    bed_check(&bed);
    bed_fini(&bed);
}

/* Heaps end one after the other; `apart_ns`: the time from one end to the next, which the
 * records of lost blocks stay unused for. Returns the bytes that the records take after
 * three heaps, and *at_end after fifty, of which each loses 3,333 blocks. */
static size_t end_heaps(uint64_t apart_ns, size_t *at_end)
{
    struct bed bed;
    size_t after_two = 0;

    bed_init(&bed, GS_GIB, 0);
    for (int round = 0; round < 50; round++) {
        struct gs_heap *heap;
        struct gs_block *block;

        cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &heap),
                     GS_OK);
        for (int i = 0; i < 5000; i++) {
            cr_assert_eq(gs_heap_alloc(heap, 512, &block, NULL), GS_OK);
            if (i % 3 == 0)
                gs_block_free(block);
        }
        bed.pool->lost_since_ns -= apart_ns;
        gs_heap_kill(heap);
        while (bed.fake.region_count) /* the context took its memory along */
            fake_unmap(&bed.fake, bed.fake.regions[0].addr, bed.fake.regions[0].bytes);
        if (round == 2)
            after_two = gs_pool_metadata_bytes(bed.pool);
    }
    *at_end = gs_pool_metadata_bytes(bed.pool);
    bed_fini(&bed);
    return after_two;
}

/* All of them: each heap takes those of the heap before the last one. Alone sees records
 * that are forgotten, however few. */
Test(heap, records_of_dead_heaps_are_used_again)
{
    size_t at_end, after_two = end_heaps(2000000000u, &at_end);

    cr_assert_leq(at_end, after_two + 50 * 4096);
}

/* Twice LOST_MOST, and those of two heaps, may be set aside: 1.9 MB. Those of all heaps
 * are 8 MB. Alone sees a limit that is missing. */
Test(heap, records_of_heaps_that_die_at_once_are_used_again)
{
    size_t at_end, after_two = end_heaps(0, &at_end);

    cr_assert_leq(at_end, after_two + 2 * GS_MIB);
}

/* Heaps that end one after the other take the place of those before them, with nothing of
 * theirs; not while anybody holds a block of theirs. */
Test(heap, that_ends_leaves_its_record_to_another)
{
    enum { HEAPS = 1000, HELD = 3 };
    static struct fake fakes[HEAPS];
    struct gs_heap *heap, *first = NULL;
    struct gs_block *block, *held[HELD];
    size_t after_some = 0, bytes;
    bool again = false;
    struct bed bed;

    bed_init_cached(&bed, 64 * GS_GIB, 2 * GS_MIB, 64 * GS_MIB);
    for (int i = 0; i < HEAPS; i++) {
        fake_init(&fakes[i], GS_GIB);
        cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &fakes[i], 0, &heap),
                     GS_OK);
        cr_assert_eq(gs_heap_self(heap), &fakes[i]);
        first = i == 0 ? heap : first;
        cr_assert(i == 0 || i > HEAPS / 2 || heap != first, "a block of it is held");
        again |= i > 0 && heap == first;
        for (int j = 0; j < 3000; j++) { /* the table of starts grows */
            cr_assert_eq(gs_heap_alloc(heap, 512, &block, NULL), GS_OK);
            cr_assert_eq(gs_block_heap(block), heap);
        }
        cr_assert_eq(gs_heap_alloc(heap, 4 * GS_MIB, &block, NULL), GS_OK);
        gs_block_free(block);
        bed_check(&bed);
        if (i < HELD) {
            cr_assert_eq(gs_heap_alloc(heap, 512, &block, NULL), GS_OK);
            held[i] = bed_claim(&bed, gs_block_addr(block));
        }
        gs_heap_kill(heap);
        gs_heap_end(heap);
        fake_fini(&fakes[i]);
        bytes = gs_pool_metadata_bytes(bed.pool);
        after_some = i == 100 ? bytes : after_some;
        cr_assert(i < 100 || bytes <= after_some, "%zu, then %zu", after_some, bytes);
        for (int j = 0; i == HEAPS / 2 && j < HELD; j++)
            gs_block_free(held[j]);
    }
    cr_assert(again, "nobody holds it any more");
    cr_assert_eq(bed_stats(&bed).allocs, HEAPS * 3001 + HELD);
    bed_fini(&bed);
}

/* A call that is in an ended heap, as no program's should be, finds its record for the
 * time in which 64 more heaps end. */
Test(heap, record_is_not_reused_before_64_more_have_ended)
{
    enum { KEPT = 64 };
    struct gs_heap *ended[KEPT + 1], *heap;
    struct bed bed;

    bed_init(&bed, GS_GIB, 0);
    for (int i = 0; i <= KEPT; i++) {
        cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &heap),
                     GS_OK);
        for (int j = 0; j < i; j++)
            cr_assert_neq(heap, ended[j], "the record of heap %d serves heap %d", j, i);
        ended[i] = heap;
        gs_heap_kill(heap);
        gs_heap_end(heap);
    }
    cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 0, &heap), GS_OK);
    cr_expect_eq(heap, ended[0]);
    bed_fini(&bed);
}

Test(heap, that_lost_its_context_unseen_is_killed_by_a_new_one)
{
    struct bed bed;
    struct gs_heap *heap;
    struct gs_block *block;
    struct fake other;
    uint64_t stale;

    bed_init(&bed, 64 * GS_MIB, 0);
    fake_init(&other, 64 * GS_MIB); /* a new context: the same addresses come again */
    stale = bed_alloc(&bed, 8 * GS_MIB);
    cr_assert_eq(gs_heap_create(bed.pool, &other.backend, &other, 0, &heap), GS_OK);
    cr_assert_eq(gs_heap_alloc(heap, 4 * GS_MIB, &block, NULL), GS_OK);
    cr_assert_eq(gs_block_addr(block), stale);
    cr_assert_eq(gs_pool_claim(bed.pool, stale + 4 * GS_MIB, &block), GS_ERR_NOT_OURS);
    cr_assert_eq(gs_heap_alloc(bed.heap, 512, &block, NULL), GS_ERR_UNPOOLABLE);
    cr_assert_eq(bed.fake.unmaps, 0);
    cr_assert_eq(gs_pool_claim(bed.pool, stale, &block), GS_OK);
    cr_assert_eq(gs_block_heap(block), heap);
    gs_block_free(block);
    bed_check(&bed);
    cr_assert_null(other.broken);
    gs_pool_destroy(bed.pool);
    fake_fini(&other);
    fake_fini(&bed.fake);
}

Test(heap, that_is_handed_its_own_address_is_stale_itself)
{
    struct bed bed;
    struct gs_block *block;
    uint64_t addr;

    bed_init(&bed, 64 * GS_MIB, 0);
    addr = bed_alloc(&bed, 8 * GS_MIB);
    bed.fake.next_addr = addr + 2 * GS_MIB;
    cr_assert_eq(gs_heap_alloc(bed.heap, 4 * GS_MIB, &block, NULL), GS_ERR_UNPOOLABLE);
    cr_assert_eq(bed.fake.unmaps, 1, "the new memory is the caller's to ask for again");
    cr_assert_eq(gs_pool_claim(bed.pool, addr, &block), GS_ERR_NOT_OURS);
    bed_fini(&bed);
}

Test(heap, poisoned_takes_frees_but_gives_nothing)
{
    struct bed bed;
    struct gs_block *block;
    uint64_t small, large;

    bed_init(&bed, 64 * GS_MIB, 0);
    small = bed_alloc(&bed, 512);
    large = bed_alloc(&bed, 4 * GS_MIB);
    gs_heap_poison(bed.heap);
    bed_free(&bed, large);
    cr_assert_eq(gs_heap_alloc(bed.heap, 4 * GS_MIB, &block, NULL), GS_ERR_UNPOOLABLE);
    cr_assert_eq(gs_heap_alloc(bed.heap, 512, &block, NULL), GS_ERR_UNPOOLABLE);
    bed_free(&bed, small);
    cr_assert_eq(gs_pool_claim(bed.pool, small, &block), GS_ERR_BAD_FREE);
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 6 * GS_MIB);
    bed_fini(&bed);
}

static void poison_during(struct fake *fake, size_t bytes)
{
    (void)bytes;
    gs_heap_poison(fake->extra);
}

Test(heap, poisoned_while_it_grows_gives_the_segment_back)
{
    struct bed bed;
    struct gs_block *block;

    bed_init(&bed, 64 * GS_MIB, 0);
    bed.fake.extra = bed.heap;
    bed.fake.during_map = poison_during;
    cr_assert_eq(gs_heap_alloc(bed.heap, 512, &block, NULL), GS_ERR_UNPOOLABLE);
    cr_assert_eq(bed.fake.mapped_bytes, 0);
    bed_fini(&bed);
}

Test(trim, gives_the_largest_part_first_and_of_it_what_is_missed_least)
{
    struct bed bed;
    uint64_t a, b, c, small;

    bed_init(&bed, 64 * GS_MIB, 0);
    a = bed_alloc(&bed, 4 * GS_MIB);
    b = bed_alloc(&bed, 8 * GS_MIB);
    c = bed_alloc(&bed, 2 * GS_MIB);
    small = bed_alloc(&bed, 512);
    bed_free(&bed, small);
    bed_free(&bed, a);
    bed_free(&bed, b);
    bed_free(&bed, c);
    cr_assert_eq(bed_alloc(&bed, 4 * GS_MIB), a);
    bed_free(&bed, a); /* now used after b and c */
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 16 * GS_MIB);
    cr_assert_eq(gs_pool_trim(bed.pool, 0, 1), 8 * GS_MIB);
    cr_assert_not(fake_is_mapped(&bed.fake, b), "the longest idle, and the largest");
    cr_assert_eq(gs_pool_trim(bed.pool, 0, 5 * GS_MIB), 6 * GS_MIB);
    cr_assert_not(fake_is_mapped(&bed.fake, a));
    cr_assert_not(fake_is_mapped(&bed.fake, c));
    cr_assert(fake_is_mapped(&bed.fake, small), "the empty shared segment comes last");
    cr_assert_eq(gs_pool_trim(bed.pool, 0, 1), 2 * GS_MIB);
    cr_assert_eq(gs_pool_trim(bed.pool, 0, SIZE_MAX), 0);
    cr_assert_eq(bed.fake.mapped_bytes, 0);
    cr_assert_eq(bed_stats(&bed).segments_unmapped, 4);
    bed_fini(&bed);
}

static bool runs;

static bool is_quiet(void *self)
{
    (void)self;
    return !runs;
}

Test(trim, unwaited_leaves_what_runs_alone)
{
    struct gs_backend backend;
    struct gs_heap *other;
    struct gs_block *block;
    struct bed bed;

    bed_init_cached(&bed, 64 * GS_MIB, 0, 8 * GS_MIB);
    backend = bed.fake.backend;
    backend.quiet = is_quiet;
    cr_assert_eq(gs_heap_create(bed.pool, &backend, &bed.fake, 0, &other), GS_OK);
    cr_assert_eq(gs_heap_alloc(other, 16 * GS_MIB, &block, NULL), GS_OK);
    bed_free(&bed, gs_block_addr(block));
    bed_free(&bed, bed_alloc(&bed, 4 * GS_MIB));
    runs = true;
    cr_assert_eq(gs_pool_trim_unwaited(bed.pool, 0, SIZE_MAX), 4 * GS_MIB);
    cr_assert_eq(bed.fake.awaited, 0);
    cr_assert_eq(bed.fake.mapped_bytes, 16 * GS_MIB);
    runs = false;
    cr_assert_eq(gs_pool_trim_unwaited(bed.pool, 1, SIZE_MAX), 0, "another device");
    cr_assert_eq(gs_pool_trim_unwaited(bed.pool, 0, 1), 16 * GS_MIB);
    bed_fini(&bed);
}

Test(trim, leaves_segments_in_use_alone)
{
    struct bed bed;
    uint64_t keep;

    bed_init(&bed, 64 * GS_MIB, 0);
    keep = bed_alloc(&bed, 512);
    bed_free(&bed, bed_alloc(&bed, GS_MIB));
    cr_assert_eq(gs_pool_idle_bytes(bed.pool, 0), 0);
    cr_assert_eq(gs_pool_trim(bed.pool, -1, SIZE_MAX), 0);
    cr_assert(fake_is_mapped(&bed.fake, keep));
    bed_fini(&bed);
}

Test(trim, of_nothing_gives_nothing)
{
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    bed_free(&bed, bed_alloc(&bed, 4 * GS_MIB));
    cr_assert_eq(gs_pool_trim(bed.pool, 0, 0), 0);
    cr_assert_eq(gs_pool_trim(bed.pool, 7, SIZE_MAX), 0, "no such device");
    cr_assert_eq(gs_pool_trim(bed.pool, -1, SIZE_MAX), 4 * GS_MIB);
    bed_fini(&bed);
}

Test(stats, sum_over_the_heaps_of_a_device)
{
    struct bed bed;
    struct gs_heap *far;
    struct gs_block *block;
    struct gs_pool_stats stats;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 3, &far), GS_OK);
    bed_free(&bed, bed_alloc(&bed, 4 * GS_MIB));
    cr_assert_eq(gs_heap_alloc(far, 5 * GS_MIB, &block, NULL), GS_OK);
    gs_pool_stats(bed.pool, 3, &stats);
    cr_assert_eq(stats.allocs, 1);
    cr_assert_eq(stats.live_bytes, 5 * GS_MIB);
    cr_assert_eq(stats.reserved_bytes, 6 * GS_MIB);
    cr_assert_eq(stats.reserved_peak_bytes, 6 * GS_MIB);
    gs_pool_stats(bed.pool, 0, &stats);
    cr_assert_eq(stats.reserved_bytes, 4 * GS_MIB);
    gs_pool_trim(bed.pool, 0, SIZE_MAX);
    cr_assert_eq(bed_alloc(&bed, 2 * GS_MIB), FAKE_BASE);
    gs_pool_stats(bed.pool, -1, &stats);
    cr_assert_eq(stats.allocs, 3);
    cr_assert_eq(stats.reserved_bytes, 8 * GS_MIB);
    cr_assert_eq(stats.reserved_peak_bytes, 10 * GS_MIB, "the peak of the sum");
    bed_fini(&bed);
}

Test(stats, devices_beyond_the_last_row_share_it)
{
    struct bed bed;
    struct gs_heap *far;
    struct gs_block *block;
    struct gs_pool_stats stats;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, &bed.fake, 1000, &far),
                 GS_OK);
    cr_assert_eq(gs_heap_alloc(far, 512, &block, NULL), GS_OK);
    gs_pool_stats(bed.pool, 1000, &stats);
    cr_assert_eq(stats.reserved_peak_bytes, 2 * GS_MIB);
    cr_assert_eq(stats.allocs, 1);
    bed_fini(&bed);
}

Test(pool, refuses_arguments_it_cannot_use)
{
    static const size_t sizes[] = {0, 1, GS_MIB, 3 * GS_MIB, SIZE_MAX, (size_t)1 << 41};
    struct gs_pool_config config;
    struct gs_pool *pool = NULL;
    struct gs_heap *heap;
    struct bed bed;

    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        config.segment_bytes = sizes[i];
        cr_assert_eq(gs_pool_create(&config, &pool), GS_ERR_INVALID);
    }
    cr_assert_eq(gs_pool_create(NULL, &pool), GS_ERR_INVALID);
    cr_assert_null(pool);
    gs_pool_destroy(NULL);
    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_heap_create(NULL, &bed.fake.backend, NULL, 0, &heap), GS_ERR_INVALID);
    cr_assert_eq(gs_heap_create(bed.pool, NULL, NULL, 0, &heap), GS_ERR_INVALID);
    cr_assert_eq(gs_heap_create(bed.pool, &bed.fake.backend, NULL, -1, &heap),
                 GS_ERR_INVALID);
    bed_fini(&bed);
}

Test(pool, destruction_leaves_device_memory_alone)
{
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_neq(bed_alloc(&bed, 4 * GS_MIB), 0);
    bed_free(&bed, bed_alloc(&bed, 8 * GS_MIB));
    gs_pool_destroy(bed.pool);
    cr_assert_eq(bed.fake.unmaps, 0);
    fake_fini(&bed.fake);
}

/* A thread that works in many contexts by turns: its thread cache of each is one of a few
 * in a chain, also after some of the heaps have died and others took their thread caches.
 */
static void expect_short_chains(struct gs_heap **heaps, unsigned count)
{
    const struct gs_tcache *first = gs_tcaches_own;

    cr_assert_not_null(first->known, "a map");
    cr_assert_eq(first->own_count, count, "those of dead heaps are bound again");
    for (unsigned i = 0; i < count; i++) {
        struct gs_tcache *tcache = gs_tcache_search(heaps[i]);
        unsigned steps = 1;

        cr_assert_not_null(tcache);
        cr_assert_eq(atomic_load(&tcache->heap), heaps[i]);
        cr_assert_not_null(tcache->known_in);
        for (struct gs_tcache *at = *tcache->known_in; at != tcache; at = at->known_next)
            steps++;
        cr_assert_leq(steps, 10);
    }
    for (struct gs_tcache *other = first->next; other; other = other->next)
        cr_assert_null(other->known, "the first has the map");
}

static void *use_many_heaps(void *argument)
{
    enum { HEAPS = 500 };
    static struct gs_heap *heaps[HEAPS];
    struct bed *bed = argument;

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < HEAPS; i++) {
            struct gs_block *block;

            if (round > 0 && i % 3 == round)
                gs_heap_kill(heaps[i]);
            if (round == 0 || i % 3 == round)
                cr_assert_eq(gs_heap_create(bed->pool, &bed->fake.backend, &bed->fake, 0,
                                            &heaps[i]),
                             GS_OK);
            cr_assert_eq(gs_heap_alloc(heaps[i], 512, &block, NULL), GS_OK);
        }
        expect_short_chains(heaps, HEAPS);
    }
    return NULL;
}

Test(heap, thread_finds_its_thread_cache_among_many)
{
    pthread_t thread;
    struct bed bed;

    bed_init_cached(&bed, 64 * GS_GIB, 2 * GS_MIB, 64 * GS_MIB);
    for (int i = 0; i < 2; i++) { /* the second thread has the caches of the first */
        cr_assert_eq(pthread_create(&thread, NULL, use_many_heaps, &bed), 0);
        cr_assert_eq(pthread_join(thread, NULL), 0);
    }
    bed_fini(&bed);
}

/* Threads that each end heaps in which the others have thread caches. */
#define ENDERS      4
#define ENDER_STEPS 1500

struct enders {
    struct bed *bed;
    _Atomic(struct gs_heap *) last[ENDERS]; /* not ended yet */
};

static void *end_each_others(void *argument)
{
    struct enders *enders = argument;
    struct gs_heap *heap, *ended;
    struct gs_block *block;

    for (unsigned i = 0; i < ENDER_STEPS; i++) {
        cr_assert_eq(gs_heap_create(enders->bed->pool, &enders->bed->fake.backend,
                                    &enders->bed->fake, 0, &heap),
                     GS_OK);
        cr_assert_eq(gs_heap_alloc(heap, 512, &block, NULL), GS_OK);
        ended = atomic_exchange(&enders->last[i % ENDERS], heap);
        if (ended) {
            gs_heap_kill(ended);
            gs_heap_end(ended);
        }
    }
    /* The heaps that another has taken and not ended yet are bound, too. */
    cr_assert_leq(gs_tcaches_own->own_count, 4 * ENDERS);
    return NULL;
}

Test(heap, thread_caches_of_heaps_that_others_end_are_bound_again, .timeout = 60)
{
    struct enders enders = {0};
    pthread_t threads[ENDERS];
    struct bed bed;

    bed_init_cached(&bed, 64 * GS_GIB, 2 * GS_MIB, 64 * GS_MIB);
    enders.bed = &bed;
    for (int i = 0; i < ENDERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, end_each_others, &enders), 0);
    for (int i = 0; i < ENDERS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    bed_check(&bed);
    bed_fini(&bed);
}

/* Would see a segment that is left out of the list, or one of a dead heap in it. */
Test(heap, segments_are_those_that_are_mapped)
{
    struct gs_pool_segment list[8];
    struct bed bed;
    size_t count, bytes = 0;

    bed_init(&bed, GS_GIB, 0);
    cr_assert_eq(gs_pool_segments(bed.pool, NULL, 0), 0);
    (void)bed_alloc(&bed, 4096);
    (void)bed_alloc(&bed, 6 * GS_MIB);
    count = gs_pool_segments(bed.pool, list, GS_ARRAY_LEN(list));
    cr_assert_eq(count, 2);
    for (size_t i = 0; i < count; i++) {
        bytes += list[i].bytes;
        cr_expect_eq(list[i].heap, bed.heap);
        cr_expect_eq(list[i].device, 0);
        cr_expect(fake_is_mapped(&bed.fake, list[i].addr));
    }
    cr_assert_eq(bytes, bed_stats(&bed).reserved_bytes);
    list[1].bytes = 0;
    cr_assert_eq(gs_pool_segments(bed.pool, list, 1), 2);
    cr_assert_eq(list[1].bytes, 0); /* there was no room */
    gs_heap_kill(bed.heap);
    cr_assert_eq(gs_pool_segments(bed.pool, list, GS_ARRAY_LEN(list)), 0);
    bed_fini(&bed);
}

static void die_during_map(struct fake *fake, size_t bytes)
{
    (void)bytes;
    fake->during_map = NULL;
    gs_heap_bury(fake->extra, 0);
}

/* Would see memory that a heap maps as it dies become a part of the dead heap. */
Test(heap, dies_while_it_maps_and_keeps_nothing)
{
    static const size_t sizes[] = {512, 4 * GS_MIB};

    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        struct gs_block *block;
        struct bed bed;

        bed_init(&bed, GS_GIB, 0);
        bed.fake.extra = bed.heap;
        bed.fake.during_map = die_during_map;
        cr_assert_eq(gs_heap_alloc(bed.heap, sizes[i], &block, NULL), GS_ERR_UNPOOLABLE);
        cr_assert_eq(bed.fake.maps, 1);
        cr_assert_eq(gs_pool_segments(bed.pool, NULL, 0), 0);
        cr_assert_eq(bed_stats(&bed).reserved_bytes, 0);
        bed_fini(&bed);
    }
}
