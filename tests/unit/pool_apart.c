/*
 * pool_apart.c - proves that a block whose memory can leave it shares its segment with no
 * other block, that its memory leaves and comes back at the same addresses whatever call
 * of the driver fails, and that the pool's counters follow it.
 */
#include <criterion/criterion.h>

#include "pool/heap.h"
#include "pool_pager.h"

#define PAGE  GS_LARGE_BYTES
#define BASE  (FAKE_BASE + ((uint64_t)1 << 40))
#define ARENA (64 * PAGE)

static struct bed bed;
static struct pager pager;

static enum gs_status make(void *self, size_t bytes, uint64_t *addr, int *native)
{
    (void)self;
    return gs_page_store_make(pager.store, bytes, NULL, 0, addr, native);
}

static void unmap_any(void *self, uint64_t addr, size_t bytes)
{
    if (gs_page_store_owns(pager.store, addr))
        gs_page_store_give(pager.store, addr, bytes);
    else
        fake_unmap(self, addr, bytes);
}

static void begin(size_t pages)
{
    bed_init(&bed, pages * PAGE, 0);
    bed.fake.backend.unmap = unmap_any;
    pager_init(&pager, &bed.fake, BASE, ARENA);
}

static void end(void)
{
    pager_end(&pager, &bed);
}

static struct gs_block *apart(size_t bytes)
{
    struct gs_block *block = NULL;
    int native;

    cr_assert_eq(gs_heap_alloc_apart(bed.heap, bytes, make, &block, &native), GS_OK);
    cr_assert(pager_is_mapped(&pager, gs_block_addr(block), gs_block_whole_bytes(block)));
    bed_check(&bed);
    return block;
}

/* Its memory leaves a block, or comes back. The caller has claimed it. */
static void leave(struct gs_block *block)
{
    gs_page_store_empty(pager.store, gs_block_addr(block), gs_block_whole_bytes(block));
    gs_block_set_absent(block, true);
    cr_assert_not(gs_page_store_is_filled(pager.store, gs_block_addr(block)));
    bed_check(&bed);
}

static enum gs_status come(struct gs_block *block)
{
    int native;
    enum gs_status status = gs_page_store_fill(pager.store, gs_block_addr(block),
                                               gs_block_whole_bytes(block), &native);

    if (status == GS_OK)
        gs_block_set_absent(block, false);
    bed_check(&bed);
    return status;
}

Test(apart, goes_back_when_it_is_freed)
{
    struct gs_block *block;
    uint64_t first, other;

    begin(64);
    block = apart(3 * PAGE + 1);
    first = gs_block_addr(block);
    cr_expect_eq(gs_block_whole_bytes(block), 4 * PAGE);
    cr_expect_eq(bed_stats(&bed).reserved_bytes, 4 * PAGE);
    other = bed_alloc(&bed, PAGE);
    cr_expect_not(gs_page_store_owns(pager.store, other));
    bed_free(&bed, first);
    cr_expect_eq(bed.fake.mapped_bytes, PAGE, "no later block gets its pages");
    bed_free(&bed, other);
    end();
}

Test(apart, has_no_small_blocks)
{
    struct gs_block *block;
    int native;

    begin(64);
    cr_expect_eq(gs_heap_alloc_apart(bed.heap, PAGE - 1, make, &block, &native),
                 GS_ERR_UNPOOLABLE);
    end();
}

Test(apart, idle_memory_makes_room)
{
    uint64_t idle;

    begin(16);
    idle = bed_alloc(&bed, 12 * PAGE);
    bed_free(&bed, idle);
    bed_free(&bed, gs_block_addr(apart(8 * PAGE)));
    end();
}

Test(apart, memory_leaves_and_comes_back)
{
    struct gs_block *block, *held;
    uint64_t other;

    begin(16);
    block = apart(10 * PAGE);
    held = bed_claim(&bed, gs_block_addr(block));
    leave(held);
    cr_expect_eq(bed.fake.mapped_bytes, 0);
    cr_expect_eq(bed_stats(&bed).reserved_bytes, 0);
    other = bed_alloc(&bed, 10 * PAGE); /* has room now */
    cr_assert_neq(other, 0);
    cr_expect_eq(come(held), GS_ERR_NOMEM);
    cr_expect_eq(bed_stats(&bed).reserved_bytes, 10 * PAGE);
    bed_free(&bed, other);
    gs_pool_trim(bed.pool, -1, SIZE_MAX);
    cr_expect_eq(come(held), GS_OK);
    cr_expect(pager_is_mapped(&pager, gs_block_addr(block), 10 * PAGE));
    gs_block_release_claim(held);
    bed_free(&bed, gs_block_addr(block));
    end();
}

Test(apart, is_freed_without_its_memory)
{
    struct gs_block *held;
    uint64_t addr;

    begin(16);
    addr = gs_block_addr(apart(10 * PAGE));
    held = bed_claim(&bed, addr);
    leave(held);
    gs_block_free(held);
    bed_check(&bed);
    cr_expect_eq(bed_stats(&bed).reserved_bytes, 0);
    cr_expect_eq(gs_block_addr(apart(10 * PAGE)), addr, "its addresses are free again");
    bed_free(&bed, addr);
    end();
}

/* Each call that can fail fails once: what has left stays so, and comes at the next try.
 */
Test(apart, a_failure_changes_nothing)
{
    for (unsigned at = 1; at <= 3; at++) {
        struct gs_block *held;
        uint64_t addr;

        begin(16);
        addr = gs_block_addr(apart(4 * PAGE));
        held = bed_claim(&bed, addr);
        leave(held);
        pager.fail_at = pager.calls + at;
        cr_expect_neq(come(held), GS_OK, "call %u", at);
        pager.fail_at = 0;
        cr_expect_eq(bed.fake.mapped_bytes, 0, "call %u", at);
        cr_expect_eq(come(held), GS_OK, "call %u", at);
        gs_block_release_claim(held);
        bed_free(&bed, addr);
        end();
    }
}

Test(apart, ends_with_its_context)
{
    struct gs_block *held;

    begin(16);
    held = bed_claim(&bed, gs_block_addr(apart(4 * PAGE)));
    leave(held);
    gs_heap_kill(bed.heap);
    gs_block_set_absent(held, false);
    gs_block_free(held);
    gs_page_store_give_all(pager.store);
    bed_fini(&bed);
    pager_fini(&pager);
}
