/*
 * pool_classes.c - proves that requests are rounded to the user's classes, and only while
 * there is room; and that what is said of each class and of the holes is exact.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "pool_fake.h"

static void begin(struct bed *bed, size_t capacity, const size_t *classes, unsigned count)
{
    const struct gs_pool_config config = {.segment_bytes = 20 * GS_MIB,
                                          .cache_bytes = 32 * GS_MIB,
                                          .classes = classes,
                                          .class_count = count};

    bed_init_with(bed, capacity, &config);
}

static size_t room_of(struct bed *bed, uint64_t addr)
{
    struct gs_range range;

    cr_assert_eq(gs_pool_find(bed->pool, addr, &range), GS_OK);
    return range.block_bytes;
}

static struct gs_pool_class_stats stats;

static const struct gs_pool_class *look(struct bed *bed, size_t bytes)
{
    gs_pool_class_stats(bed->pool, 0, &stats);
    return &stats.classes[gs_pool_class_of(bytes)];
}

/* ---- the user's classes -------------------------------------------------------------
 */

static const size_t user_classes[] = {256, 4096, 65536, 8 * GS_MIB};

Test(size_classes, requests_are_rounded_up_to_them)
{
    struct bed bed;

    begin(&bed, GS_GIB, user_classes, GS_ARRAY_LEN(user_classes));
    cr_expect_eq(room_of(&bed, bed_alloc(&bed, 100)), 512, "a block has 512 bytes");
    cr_expect_eq(room_of(&bed, bed_alloc(&bed, 257)), 4096);
    cr_expect_eq(room_of(&bed, bed_alloc(&bed, 4096)), 4096);
    cr_expect_eq(room_of(&bed, bed_alloc(&bed, 4097)), 65536);
    cr_expect_eq(room_of(&bed, bed_alloc(&bed, 100000)), 8 * GS_MIB);
    cr_expect_eq(room_of(&bed, bed_alloc(&bed, 8 * GS_MIB + 1)), 10 * GS_MIB,
                 "above all");
    bed_check(&bed);
    bed_fini(&bed);
}

Test(size_classes, a_freed_block_serves_all_of_its_class)
{
    struct bed bed;
    uint64_t addr;

    begin(&bed, GS_GIB, user_classes, GS_ARRAY_LEN(user_classes));
    addr = bed_alloc(&bed, 5000);
    bed_free(&bed, addr);
    cr_expect_eq(bed_alloc(&bed, 60000), addr);
    cr_expect_eq(bed_stats(&bed).thread_hits, 1);
    bed_free(&bed, addr);
    addr = bed_alloc(&bed, 3 * GS_MIB);
    bed_free(&bed, addr);
    cr_expect_eq(bed_alloc(&bed, 6 * GS_MIB), addr);
    bed_fini(&bed);
}

Test(size_classes, a_full_device_is_not_rounded_away)
{
    struct bed bed;

    begin(&bed, 32 * GS_MIB, user_classes, GS_ARRAY_LEN(user_classes));
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(room_of(&bed, bed_alloc(&bed, 3 * GS_MIB)), 8 * GS_MIB);
    bed_alloc(&bed, 4 * GS_MIB); /* the last 8 */
    cr_expect_eq(bed_alloc(&bed, 2 * GS_MIB), 0);
    bed_fini(&bed);
    begin(&bed, 30 * GS_MIB, user_classes, GS_ARRAY_LEN(user_classes));
    for (size_t i = 0; i < 3; i++)
        bed_alloc(&bed, 3 * GS_MIB);
    cr_expect_eq(room_of(&bed, bed_alloc(&bed, 3 * GS_MIB)), 4 * GS_MIB, "8 do not fit");
    cr_expect_eq(room_of(&bed, bed_alloc(&bed, GS_MIB)), GS_MIB, "still full");
    cr_expect_eq(bed_stats(&bed).failed, 0);
    bed_check(&bed);
    bed_fini(&bed);
}

Test(size_classes, wrong_ones_make_no_pool)
{
    static const size_t fall[] = {4096, 512}, twice[] = {512, 512}, none[] = {0, 512};
    const size_t *const wrong[] = {fall, twice, none};
    struct gs_pool *pool;

    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        const struct gs_pool_config config = {
            .segment_bytes = GS_LARGE_BYTES, .classes = wrong[i], .class_count = 2};

        cr_expect_eq(gs_pool_create(&config, &pool), GS_ERR_INVALID);
    }
}

/* ---- the pool's own -----------------------------------------------------------------
 */

Test(class_stats, each_size_has_the_class_that_holds_it)
{
    for (unsigned i = 0; i < GS_POOL_CLASSES; i++) {
        size_t bytes = gs_pool_class_bytes(i);

        cr_assert_eq(gs_pool_class_of(bytes), i, "%u", i);
        if (i + 1 < GS_POOL_CLASSES)
            cr_assert_eq(gs_pool_class_of(bytes + 1), i + 1, "%u", i);
    }
    cr_expect_eq(gs_pool_class_bytes(GS_POOL_SMALL_CLASSES - 1), 2 * GS_MIB);
    cr_expect_eq(gs_pool_class_bytes(GS_POOL_CLASSES - 1), (size_t)1 << 40);
    cr_expect_eq(gs_pool_class_of(SIZE_MAX), GS_POOL_CLASSES - 1);
}

Test(class_stats, say_what_a_class_holds_and_has_served)
{
    const struct gs_pool_class *class;
    struct bed bed;
    uint64_t a, b;

    begin(&bed, GS_GIB, NULL, 0);
    a = bed_alloc(&bed, 1000);
    b = bed_alloc(&bed, 1024);
    class = look(&bed, 1024);
    cr_expect_eq(class->bytes, 1024);
    cr_expect_eq(class->live, 2);
    cr_expect_eq(class->live_bytes, 2048);
    cr_expect_eq(class->rounding_bytes, 24);
    cr_expect_eq(class->misses, 1);
    cr_expect_eq(class->hits, 1);
    bed_free(&bed, a);
    bed_free_fenced(&bed, b, 0);
    class = look(&bed, 1024);
    cr_expect_eq(class->live, 0);
    cr_expect_eq(class->cached, 1);
    cr_expect_eq(class->cached_bytes, 1024);
    cr_expect_eq(class->pending, 1);
    cr_expect_eq(class->pending_bytes, 1024);
    cr_expect_eq(bed_alloc(&bed, 600), a);
    class = look(&bed, 1024);
    cr_expect_eq(class->hits, 2);
    cr_expect_eq(class->rounding_bytes, 424);
    bed_check(&bed);
    bed_fini(&bed);
}

/* Would see: a class of the list that has what is in another one, or is not there; two of
 * one class of the pool, which no block can be told apart by. */
Test(class_stats, are_summed_by_the_users_classes)
{
    static const size_t list[] = {200, 256, 1024, 4096, 6 * GS_MIB};
    struct gs_pool_class *found = stats.classes;
    struct bed bed;

    begin(&bed, GS_GIB, list, GS_ARRAY_LEN(list));
    bed_alloc(&bed, 100);
    bed_alloc(&bed, 300);
    bed_alloc(&bed, 2500);
    bed_free(&bed, bed_alloc(&bed, 4000));
    bed_alloc(&bed, 5000);
    bed_alloc(&bed, 20 * GS_MIB);
    (void)look(&bed, 1);
    unsigned own = GS_POOL_CLASSES - gs_pool_class_of(6 * GS_MIB) - 1;
    cr_assert_eq(gs_pool_classes_by_user(bed.pool, found), 4 + own);
    cr_expect_eq(found[0].bytes, 256);
    cr_expect_eq(found[0].live, 1);
    cr_expect_eq(found[1].bytes, 1024);
    cr_expect_eq(found[1].rounding_bytes, 1024 - 300);
    cr_expect_eq(found[2].bytes, 4096);
    cr_expect_eq(found[2].live, 1);
    cr_expect_eq(found[2].hits + found[2].misses, 2);
    cr_expect_eq(found[3].bytes, 6 * GS_MIB);
    cr_expect_eq(found[3].live_bytes, 6 * GS_MIB);
    cr_expect_eq(found[4].bytes, 16 * GS_MIB);
    cr_expect_eq(found[5].live, 1);
    cr_expect_eq(found[3 + own].bytes, gs_pool_class_bytes(GS_POOL_CLASSES - 1));
    bed_check(&bed);
    bed_fini(&bed);
}

Test(class_stats, without_a_list_are_the_pools_own)
{
    struct bed bed;

    begin(&bed, GS_GIB, NULL, 0);
    bed_alloc(&bed, 2500);
    (void)look(&bed, 1);
    cr_assert_eq(gs_pool_classes_by_user(bed.pool, stats.classes), GS_POOL_CLASSES);
    cr_expect_eq(stats.classes[4].bytes, 2560);
    cr_expect_eq(stats.classes[4].live, 1);
    bed_fini(&bed);
}

Test(class_stats, count_whole_segments_and_their_slack)
{
    const struct gs_pool_class *class;
    struct bed bed;
    uint64_t addr;

    begin(&bed, GS_GIB, NULL, 0);
    addr = bed_alloc(&bed, 18 * GS_MIB);
    bed_free(&bed, addr);
    class = look(&bed, 18 * GS_MIB);
    cr_expect_eq(class->cached_bytes, 18 * GS_MIB);
    gs_pool_trim(bed.pool, 0,
                 0); /* out of the thread cache, to be found by other sizes */
    cr_expect_eq(bed_alloc(&bed, 16 * GS_MIB), addr);
    class = look(&bed, 18 * GS_MIB);
    cr_expect_eq(class->cached, 0);
    cr_expect_eq(class->live, 1);
    cr_expect_eq(class->rounding_bytes, 2 * GS_MIB);
    cr_expect_eq(class->hits, 1);
    cr_expect_eq(stats.holes.tolerance_bytes, 2 * GS_MIB);
    bed_check(&bed);
    bed_fini(&bed);
}

Test(class_stats, say_where_free_memory_lies)
{
    uint64_t addrs[4];
    struct bed bed;

    begin(&bed, GS_GIB, NULL, 0);
    cr_expect_eq(stats.holes.bytes, 0);
    for (size_t i = 0; i < 4; i++)
        addrs[i] = bed_alloc(&bed, 512 * GS_KIB);
    bed_free(&bed, addrs[0]);
    bed_free(&bed, addrs[2]);
    bed_free(&bed, addrs[3]);
    gs_pool_trim(bed.pool, 0, 1); /* out of the cache tiers */
    look(&bed, 1);
    cr_expect_eq(stats.holes.count, 2);
    cr_expect_eq(stats.holes.bytes, 1536 * GS_KIB);
    cr_expect_eq(stats.holes.largest_bytes, GS_MIB);
    cr_expect_eq(stats.holes.stranded_bytes, 1536 * GS_KIB);
    cr_assert_eq(gs_pool_retain(bed.pool, addrs[1]), GS_OK);
    look(&bed, 1);
    cr_expect_eq(stats.holes.retained_bytes, 1536 * GS_KIB);
    bed_check(&bed);
    bed_fini(&bed);
}

/* gs_pool_check compares the sums with the other counters; this is what it compares. */
Test(class_stats, stay_exact_over_random_calls)
{
    uint64_t live[128] = {0}, state = 11;
    struct bed bed;

    begin(&bed, 96 * GS_MIB, NULL, 0);
    for (unsigned i = 0; i < 30000; i++) {
        size_t at = bed_random(&state) % GS_ARRAY_LEN(live);

        if (live[at]) {
            if (bed_random(&state) % 4)
                bed_free(&bed, live[at]);
            else
                bed_free_fenced(&bed, live[at], 0);
            live[at] = 0;
        } else {
            live[at] =
                bed_alloc(&bed, 1 + bed_random(&state) % (i % 16 ? 65536 : 9 * GS_MIB));
        }
        if (i % 100 == 0) {
            gs_heap_retire(bed.heap, gs_heap_retire_begin(bed.heap));
            bed_check(&bed);
        }
    }
    bed_fini(&bed);
}
