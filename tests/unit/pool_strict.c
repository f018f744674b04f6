/*
 * pool_strict.c - pools whose idle memory is counted to the byte.
 *
 * Proves that a large request is rounded to the pool's own step, that a freed large
 * segment of a strict pool is idle at once although threads have caches, and that the
 * limit of idle bytes therefore holds at the next maintenance.
 */
#include <criterion/criterion.h>

#include "pool_fake.h"

static struct fake fake;
static struct gs_pool *pool;
static struct gs_heap *heap;

static void begin_with(bool strict, size_t step)
{
    struct gs_pool_config config = {.segment_bytes = 20 * GS_MIB,
                                    .cache_bytes = 32 * GS_MIB,
                                    .large_step_bytes = step,
                                    .strict_idle = strict};
    struct gs_pool_limits limits = {.reserved_bytes = SIZE_MAX, .idle_bytes = 8 * GS_MIB};

    fake_init(&fake, 256 * GS_MIB);
    fake.granularity = 4096;
    cr_assert_eq(gs_pool_create(&config, &pool), GS_OK);
    cr_assert_eq(gs_heap_create(pool, &fake.backend, &fake, 0, &heap), GS_OK);
    gs_pool_set_limits(pool, 0, &limits);
}

static void end(void)
{
    const char *why = "";

    cr_expect(gs_pool_check(pool, &why), "%s", why);
    cr_expect_null(fake.broken, "%s", fake.broken);
    gs_heap_kill(heap);
    gs_pool_destroy(pool);
    fake_fini(&fake);
}

static uint64_t alloc(size_t bytes)
{
    struct gs_block *block = NULL;

    cr_assert_eq(gs_heap_alloc(heap, bytes, &block, NULL), GS_OK);
    return gs_block_addr(block);
}

static void release(uint64_t addr)
{
    struct gs_block *block = NULL;

    cr_assert_eq(gs_pool_claim(pool, addr, &block), GS_OK);
    gs_block_free(block);
}

Test(strict, rounds_large_requests_to_its_step)
{
    begin_with(true, 64 * GS_KIB);
    uint64_t addr = alloc(2 * GS_MIB + 1);
    struct gs_range range;

    cr_assert_eq(gs_pool_find(pool, addr + 2 * GS_MIB, &range), GS_OK);
    cr_expect_eq(range.segment_bytes, 2 * GS_MIB + 64 * GS_KIB);
    cr_expect_eq(gs_pool_find(pool, addr + 2 * GS_MIB + 64 * GS_KIB, &range),
                 GS_ERR_NOT_OURS, "the rest of its last page is nobody's");
    release(addr);
    cr_expect_eq(alloc(2 * GS_MIB), addr, "an eighth too large at most");
    cr_expect_eq(fake.maps, 1);
    release(addr);
    cr_expect_neq(alloc(3 * GS_MIB), addr, "too small");
    end();
}

Test(strict, keeps_no_large_segment_in_a_thread)
{
    begin_with(true, 64 * GS_KIB);
    uint64_t a = alloc(6 * GS_MIB), b = alloc(6 * GS_MIB);

    release(a);
    release(b);
    cr_expect(gs_heap_wants_maintenance(heap), "12 MiB are idle, 8 may be");
    cr_expect_eq(gs_heap_maintain(heap, 0), 6 * GS_MIB);
    cr_expect_eq(alloc(6 * GS_MIB), b, "the one used last is still there");
    end();
}

Test(strict, is_not_what_others_are)
{
    const struct gs_pool_limits limits = {.reserved_bytes = SIZE_MAX,
                                          .idle_bytes = 96 * GS_MIB};
    struct gs_pool_stats stats;

    for (int strict = 0; strict <= 1; strict++) {
        begin_with(strict, 0);
        gs_pool_set_limits(pool, 0, &limits);
        uint64_t a = alloc(6 * GS_MIB), b = alloc(6 * GS_MIB);

        release(a);
        release(b);
        gs_pool_stats(pool, 0, &stats);
        cr_expect_eq(stats.thread_bytes, strict ? 0 : 12 * GS_MIB, "a thread keeps them");
        end();
    }
}

Test(strict, refuses_a_step_that_is_none)
{
    struct gs_pool_config config = {.segment_bytes = 20 * GS_MIB,
                                    .large_step_bytes = 3000};

    cr_expect_eq(gs_pool_create(&config, &pool), GS_ERR_INVALID);
    config.large_step_bytes = 256;
    cr_expect_eq(gs_pool_create(&config, &pool), GS_ERR_INVALID);
}
