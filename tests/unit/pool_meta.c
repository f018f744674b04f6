/*
 * pool_meta.c - proves what the pool's own records cost, and that its inner structures
 * keep their promises where the public functions cannot show it.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "pool/heap.h"
#include "pool_fake.h"

#define COUNT 100000

static double bytes_per_block(size_t fixed, size_t spread)
{
    uint64_t state = 17;
    struct bed bed;
    size_t before;
    double each;

    bed_init(&bed, 64 * GS_GIB, 0);
    before = gs_pool_metadata_bytes(bed.pool);
    for (int i = 0; i < COUNT; i++)
        cr_assert_neq(bed_alloc(&bed, fixed + (spread ? bed_random(&state) % spread : 0)),
                      0);
    each = (double)(gs_pool_metadata_bytes(bed.pool) - before) / COUNT;
    bed_fini(&bed);
    return each;
}

Test(meta, takes_at_most_96_bytes_a_live_small_block, .timeout = 120)
{
    static const size_t sizes[][2] = {{512, 0},       {1024, 0},       {2048, 0},
                                      {4096, 0},      {8192, 0},       {16384, 0},
                                      {65536, 0},     {1, 4096},       {1, 16 * 1024},
                                      {1, 64 * 1024}, {1, 256 * 1024}, {131072, 0}};

    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        double each = bytes_per_block(sizes[i][0], sizes[i][1]);

        cr_assert_leq(each, 96, "%.1f bytes for %zu + %zu", each, sizes[i][0],
                      sizes[i][1]);
    }
}

Test(meta, is_used_again_when_blocks_are_freed, .timeout = 120)
{
    static uint64_t addrs[20000];
    struct bed bed;
    size_t peak = 0;

    bed_init(&bed, 64 * GS_GIB, 0);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 20000; i++)
            addrs[i] = bed_alloc(&bed, 512 + 512 * (size_t)(i % 7));
        if (!peak)
            peak = gs_pool_metadata_bytes(bed.pool);
        for (int i = 0; i < 20000; i++)
            bed_free(&bed, addrs[i * 7919 % 20000]);
        cr_assert_leq(gs_pool_metadata_bytes(bed.pool), peak + 64 * GS_KIB);
        if (round % 2)
            gs_pool_trim(bed.pool, 0, SIZE_MAX);
    }
    bed_fini(&bed);
}

Test(meta, bins_of_every_hole_are_in_range_and_in_order)
{
    unsigned last = 0;

    cr_assert_eq(gs_bins_of(0, GS_LARGE_UNITS), GS_BIN_COUNT - 1);
    cr_assert_eq(gs_bins_of(1, UINT32_MAX / 2), GS_BIN_COUNT - 1);
    for (uint32_t units = 1; units <= 5000; units++) {
        unsigned bin = gs_bins_of(0, units);

        cr_assert_lt(bin, GS_BIN_COUNT);
        cr_assert_geq(bin, last);
        last = bin;
        for (uint32_t offset = 0; offset < GS_ALIGNED_UNITS; offset++)
            cr_assert_lt(gs_bins_of(offset, units), GS_BIN_COUNT);
    }
}

/* Members in a random order, in and out: the first one is always the least. */
Test(meta, treap_stays_in_order_and_knows_its_first)
{
    enum { ROOM = 2000 };
    static bool in[ROOM];
    struct gs_segment segment = {.addr = FAKE_BASE, .shared = true};
    struct gs_tree tree = {0, 0};
    uint64_t state = 3;
    uint32_t seed = 1, ids[ROOM];
    struct bed bed;
    size_t count = 0, members = 0;

    bed_init(&bed, 64 * GS_MIB, 0);
    for (uint32_t i = 0; i < ROOM; i++) {
        struct gs_block *block;

        cr_assert_eq(gs_table_take(&bed.pool->blocks, &ids[i]), GS_OK);
        block = gs_block_at(bed.pool, ids[i]);
        block->id = ids[i];
        block->segment = &segment;
        block->offset = i * 8;
        block->units = 1 + i % 3;
        block->prev = block->next = 1; /* not a whole segment */
    }
    for (int step = 0; step < 100000; step++) {
        uint32_t i = bed_random(&state) % ROOM;
        struct gs_block *block = gs_block_at(bed.pool, ids[i]);

        if (in[i])
            gs_tree_drop(&bed.pool->blocks, &tree, block);
        else
            gs_tree_put(&bed.pool->blocks, &tree, block, &seed);
        in[i] = !in[i];
        members += in[i] ? 1 : (size_t)-1;
        if (step % 500)
            continue;
        count = 0;
        cr_assert(gs_tree_check(&bed.pool->blocks, &tree, -1, &count));
        cr_assert_eq(count, members);
        for (uint32_t units = 1; units <= 3; units++) {
            struct gs_block *fit = gs_tree_fit(&bed.pool->blocks, &tree, units);
            struct gs_block *want = NULL;

            for (uint32_t more = units; more <= 3 && !want; more++)
                for (uint32_t j = more - 1; j < ROOM && !want; j += 3)
                    want = in[j] ? gs_block_at(bed.pool, ids[j]) : NULL;
            cr_assert_eq(fit, want);
        }
    }
    bed_fini(&bed);
}

/* Does a start's run go on behind it, so that it would leave a deleted slot? */
static bool leaves_deleted_slot(const struct gs_starts *starts,
                                const struct gs_block *block)
{
    const struct gs_starts_table *table = atomic_load(&starts->table);
    uint32_t at = (uint32_t)(gs_starts_hash(gs_block_addr(block)) >> 32) & table->mask;

    while ((table->slots[at] & (GS_TABLE_IDS - 1)) != block->id)
        at = (at + 1) & table->mask;
    return table->slots[(at + 1) & table->mask] != 0;
}

/* A claim may be looking up a heap's table when the heap dies: it finds an empty one, of
 * a slot of its own (a sanitizer sees what lies behind a table without). */
Test(meta, start_table_of_a_dead_heap_is_empty_and_has_a_slot)
{
    struct gs_segment segment = {.addr = FAKE_BASE};
    struct gs_starts starts = {.used = 0};
    struct gs_starts_walk walk;

    cr_assert_eq(gs_starts_init(&starts), GS_OK);
    gs_starts_clear(&starts);
    gs_starts_begin(&walk, &starts, FAKE_BASE);
    cr_assert_eq(walk.mask, 0);
    cr_assert_eq(gs_starts_next(&walk), 0);
    cr_assert_null(gs_starts_seek(NULL, &starts, &segment, 0));
    gs_starts_fini(&starts);
}

/* The table against an array, its members coming and going, most often such as leave a
 * deleted slot: it grows, and then is swept again and again. */
Test(meta, start_table_agrees_with_an_array)
{
    enum { ROOM = 2900, UNITS = 40960 };
    static struct gs_block *at[UNITS], *members[ROOM];
    struct gs_segment segment = {.addr = FAKE_BASE};
    uint64_t state = 77;
    struct gs_starts starts = {.used = 0};
    struct bed bed;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_starts_init(&starts), GS_OK);
    for (uint32_t i = 0; i < ROOM; i++) {
        uint32_t id;

        cr_assert_eq(gs_table_take(&bed.pool->blocks, &id), GS_OK);
        members[i] = gs_block_at(bed.pool, id);
        members[i]->id = id;
    }
    for (int step = 0; step < 200000; step++) {
        struct gs_block *block = members[bed_random(&state) % ROOM];
        uint32_t place = bed_random(&state) % UNITS;

        if (block->units && step % 8 && !leaves_deleted_slot(&starts, block))
            continue;
        if (block->units) {
            gs_starts_drop(&starts, block);
            at[block->offset] = NULL;
            block->units = 0;
        }
        if (!at[place]) {
            cr_assert_eq(gs_starts_reserve(bed.pool, &starts), GS_OK);
            gs_block_place(block, &segment, place, 1);
            gs_starts_put(&starts, block);
            at[place] = block;
        }
        place = bed_random(&state) % UNITS;
        cr_assert_eq(gs_starts_seek(bed.pool, &starts, &segment, place), at[place]);
    }
    /* It grew twice, from 1,024 slots to 4,096, or 8,192; each time counts two. */
    cr_assert(atomic_load(&starts.version) > 2 * 3, "nothing was swept in place: %u",
              atomic_load(&starts.version));
    gs_starts_clear(&starts);
    for (uint32_t place = 0; place < UNITS; place++)
        cr_assert_null(gs_starts_find(bed.pool, &starts, &segment, place));
    gs_starts_fini(&starts);
    bed_fini(&bed);
}

Test(meta, checker_sees_what_is_broken)
{
    const char *why = NULL;
    struct bed bed;
    struct gs_block *block;

    bed_init(&bed, 64 * GS_MIB, 0);
    block = bed_claim(&bed, bed_alloc(&bed, 4096));
    cr_assert(gs_pool_check(bed.pool, &why));
    block->units--;
    cr_assert_not(gs_pool_check(bed.pool, &why));
    cr_assert_not_null(why);
    block->units++;
    bed.heap->small_units++;
    cr_assert_not(gs_pool_check(bed.pool, &why));
    bed.heap->small_units--;
    block->segment->occupied++;
    cr_assert_not(gs_pool_check(bed.pool, &why));
    block->segment->occupied--;
    bed.heap->bins->words[5] = 1;
    cr_assert_not(gs_pool_check(bed.pool, &why));
    bed.heap->bins->words[5] = 0;
    bed.heap->stats.reserved_bytes += 512;
    cr_assert_not(gs_pool_check(bed.pool, &why));
    bed.heap->stats.reserved_bytes -= 512;
    bed_fini(&bed);
}

/* What a scan of host memory leaves out: every mapping there is, and none that is gone.
 */
struct visited {
    uintptr_t wanted;
    size_t bytes, count;
};

static void visit_mapping(void *self, uintptr_t begin, size_t bytes)
{
    struct visited *visited = self;

    visited->count++;
    if (begin == visited->wanted)
        visited->bytes = bytes;
}

Test(meta, mappings_are_known_while_they_last)
{
    struct visited visited = {0};
    void *memory = gs_meta_map(12288), *other;

    cr_assert_not_null(memory);
    visited.wanted = (uintptr_t)memory;
    cr_expect(gs_meta_visit(visit_mapping, &visited));
    cr_expect_eq(visited.bytes, 12288);
    gs_meta_unmap(memory, 12288);
    visited.bytes = 0;
    cr_expect(gs_meta_visit(visit_mapping, &visited));
    cr_expect_eq(visited.bytes, 0);
    for (unsigned i = 0; i < GS_META_MAPPINGS; i++) {
        other = gs_meta_map(4096);
        cr_assert_not_null(other);
        gs_meta_unmap(other, 4096);
    }
    cr_expect_not(gs_meta_visit(visit_mapping, &visited), "some were not noted");
}

static void visit_holder(void *self, uintptr_t begin, size_t bytes)
{
    struct visited *visited = self;

    visited->count += visited->wanted - begin < bytes;
}

/* A segment's record has its address, as a pointer of the program's would be. */
Test(meta, records_with_addresses_lie_in_mappings_that_are_known)
{
    struct visited visited = {0};
    struct bed bed;
    struct gs_block *block;

    bed_init(&bed, GS_GIB, 0);
    block = bed_claim(&bed, bed_alloc(&bed, 4 * GS_MIB));
    visited.wanted = (uintptr_t)&block->segment->addr;
    cr_expect(gs_meta_visit(visit_holder, &visited));
    cr_expect_eq(visited.count, 1);
    bed_fini(&bed);
}

/* Or two threads with a block each would wait for each other's writes. */
Test(meta, records_in_a_row_share_no_line_of_the_cache)
{
    struct gs_stock stock = {0};
    struct bed bed;
    uintptr_t before = 0;

    bed_init(&bed, 64 * GS_MIB, 0);
    cr_assert_eq(gs_stock_fill(&bed.pool->blocks, &stock, GS_STOCK_LOW), GS_OK);
    for (unsigned i = 0; i < GS_STOCK_LOW; i++) {
        uint32_t id = stock.head;
        uintptr_t record = (uintptr_t)gs_block_at(bed.pool, id);
        uintptr_t low = record < before ? record : before;
        uintptr_t high = record < before ? before : record;

        cr_expect(i == 0 || high / 64 > (low + sizeof(struct gs_block) - 1) / 64,
                  "the record %u, %u", i, id);
        before = record;
        stock.head = gs_block_at(bed.pool, id)->next;
    }
    bed_fini(&bed);
}
