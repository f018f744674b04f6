/*
 * tracker_scope_totals.c - what was allocated in each scope: against a model that counts
 * every event itself, with scopes that nest, and for frees that failed, memory lost with
 * its context, growth, allocations without a stack, a new start, several threads, and
 * parts of memory.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/peaks.h"
#include "tracker/scope_totals.h"
#include "tracker_helpers.h"

/* Scope 1 has 2 and 3 in it, 3 has 4; 5 is by itself. Stack s belongs to scope s % 6; 0
 * is none. */
enum { SCOPES = 6, STACKS = 60, LIVE = 64 };
static const uint32_t around[SCOPES] = {0, 0, 1, 1, 3, 0};

static struct gs_tracker *tracker;

static void open_tracker(void)
{
    struct gs_tracker_config config = {.free_history = 64};

    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_OK);
}

static void close_tracker(void)
{
    gs_tracker_destroy(tracker);
}

TestSuite(scope_totals, .init = open_tracker, .fini = close_tracker, .timeout = 60);

static void begin_all(void)
{
    for (uint32_t scope = 1; scope < SCOPES; scope++)
        gs_tracker_scope_begun(tracker, scope, around[scope]);
    for (uint32_t stack = 1; stack <= STACKS; stack++)
        if (stack % SCOPES != 0)
            cr_assert_eq(gs_tracker_scope_stack(tracker, stack, stack % SCOPES), stack);
}

static struct gs_allocation allocation_of(uint64_t addr, uint64_t bytes, uint32_t stack,
                                          int device, unsigned kind)
{
    return (struct gs_allocation){.addr = addr,
                                  .bytes = bytes,
                                  .context = 0xc0 + (uint64_t)device,
                                  .stack = stack,
                                  .device = (int16_t)device,
                                  .api = 1,
                                  .kind = (uint8_t)kind};
}

static uint32_t add(const struct gs_allocation *allocation, bool indexed)
{
    uint32_t id = 0;

    if (indexed && allocation->stream == 0) { /* as of a block */
        struct gs_tracked_who who = {.thread = allocation->thread,
                                     .stack = allocation->stack};
        struct gs_tracked_how how = {.device = allocation->device,
                                     .api = allocation->api,
                                     .kind = allocation->kind};
        id = gs_tracker_add_scoped_block(tracker, allocation->addr, allocation->bytes,
                                         allocation->context, who, how);
        cr_assert_neq(id, 0);
        return id;
    }
    cr_assert_eq(gs_tracker_add_scoped(tracker, allocation, indexed, &id), GS_OK);
    return id;
}

/* ---- the model ------------------------------------------------------------------- */

struct model {
    int64_t live, peak;
    uint64_t allocs, alloc_bytes, frees, lost_count, lost_bytes;
};
static struct model models[SCOPES][GS_ROWS + 1]; /* the last: of all rows */

static void model_event(uint32_t stack, unsigned row, int64_t bytes, int allocs,
                        int frees, bool lost)
{
    for (uint32_t scope = stack % SCOPES; scope != 0; scope = around[scope]) {
        struct model *both[] = {&models[scope][row], &models[scope][GS_ROWS]};

        for (int i = 0; i < 2; i++) {
            struct model *at = both[i];
            at->live += bytes;
            at->peak = at->live > at->peak ? at->live : at->peak;
            at->allocs += (uint64_t)allocs;
            at->alloc_bytes += allocs > 0 ? (uint64_t)bytes : 0;
            at->frees += (uint64_t)frees;
            at->lost_count += lost;
            at->lost_bytes += lost ? (uint64_t)-bytes : 0;
        }
    }
}

static void expect_equal(uint32_t scope, int device, const struct model *model)
{
    struct gs_scope_totals found;

    cr_assert(gs_tracker_scope_totals(tracker, scope, device, &found));
    cr_expect_eq(found.live_bytes, (uint64_t)model->live, "scope %u, %d: live", scope,
                 device);
    cr_expect_eq(found.peak_bytes, (uint64_t)model->peak, "scope %u, %d: peak", scope,
                 device);
    cr_expect_eq(found.allocs, model->allocs, "scope %u, %d: allocs", scope, device);
    cr_expect_eq(found.alloc_bytes, model->alloc_bytes);
    cr_expect_eq(found.frees, model->frees, "scope %u, %d: frees", scope, device);
    cr_expect_eq(found.live_count, model->allocs - model->frees - model->lost_count);
    cr_expect_eq(found.lost_count, model->lost_count);
    cr_expect_eq(found.lost_bytes, model->lost_bytes);
    cr_expect_eq(found.free_bytes,
                 model->alloc_bytes - (uint64_t)model->live - model->lost_bytes);
}

static void expect_all_equal(void)
{
    for (uint32_t scope = 1; scope < SCOPES; scope++) {
        expect_equal(scope, GS_SCOPE_ALL, &models[scope][GS_ROWS]);
        for (unsigned row = 0; row < GS_ROWS; row++)
            expect_equal(scope, gs_totals_device(row), &models[scope][row]);
    }
}

/* ---- tests ----------------------------------------------------------------------- */

/* Would see: an event counted in the wrong scope or row, not in a scope around it, or a
 * free that no scope hears of, since it is younger than the peak. */
Test(scope_totals, equal_a_model)
{
    static struct {
        struct gs_allocation was;
        uint32_t id; /* 0: by address */
        bool live;
    } slots[LIVE];

    srand(7);
    begin_all();
    for (unsigned turn = 0; turn < 40000; turn++) {
        unsigned at = (unsigned)rand() % LIVE, what = (unsigned)rand() % 16;
        unsigned row;

        if (!slots[at].live) {
            bool indexed = rand() % 2;
            unsigned kind = rand() % 3 ? GS_MEMORY_DEVICE : GS_MEMORY_PINNED;
            slots[at].was =
                allocation_of(0x10000 + at * 0x1000 + turn * UINT64_C(0x100000),
                              1 + (uint64_t)rand() % 5000, (uint32_t)rand() % STACKS + 1,
                              rand() % 2, kind);
            slots[at].id = add(&slots[at].was, indexed);
            slots[at].id = indexed ? slots[at].id : 0;
            slots[at].live = true;
            model_event(slots[at].was.stack, gs_totals_row(slots[at].was.device, kind),
                        (int64_t)slots[at].was.bytes, 1, 0, false);
            continue;
        }
        row = gs_totals_row(slots[at].was.device, slots[at].was.kind);
        if (slots[at].id != 0) {
            gs_tracker_remove(tracker, slots[at].id, NULL);
        } else {
            struct gs_allocation was;
            cr_assert_eq(
                gs_tracker_remove_address(tracker, slots[at].was.addr, NULL, &was),
                GS_OK);
            if (what < 4) { /* the driver refuses the free */
                cr_assert_eq(gs_tracker_restore(tracker, &was), GS_OK);
                continue;
            }
        }
        slots[at].live = false;
        model_event(slots[at].was.stack, row, -(int64_t)slots[at].was.bytes, 0, 1, false);
    }
    expect_all_equal();
}

/* Would see: lost memory that stays live in its scope, or counts as freed. */
Test(scope_totals, of_a_lost_context)
{
    struct gs_allocation one = allocation_of(0x1000, 100, 4, 0, GS_MEMORY_DEVICE);
    struct gs_allocation two = allocation_of(0x2000, 50, 2, 1, GS_MEMORY_DEVICE);

    begin_all();
    uint32_t id = add(&one, true);
    (void)add(&two, false);
    model_event(4, 0, 100, 1, 0, false);
    model_event(2, 1, 50, 1, 0, false);
    gs_tracker_lose_context(tracker, 0xc0, 1u << GS_MEMORY_DEVICE);
    model_event(4, 0, -100, 0, 0, true);
    gs_tracker_remove(tracker, id, NULL); /* its owner frees the id later */
    expect_all_equal();
}

/* Would see: memory that grew and is freed, with more than it was counted with. */
Test(scope_totals, of_memory_that_grows)
{
    struct gs_allocation one = allocation_of(0x1000, 100, 3, 0, GS_MEMORY_DEVICE);
    struct gs_scope_totals found;

    begin_all();
    uint32_t id = add(&one, true);
    gs_tracker_grow(tracker, id, 28);
    cr_assert(gs_tracker_scope_totals(tracker, 1, 0, &found));
    cr_expect_eq(found.live_bytes, 128);
    cr_expect_eq(found.alloc_bytes, 128);
    cr_expect_eq(found.allocs, 1);
    gs_tracker_remove(tracker, id, NULL);
    cr_assert(gs_tracker_scope_totals(tracker, 3, 0, &found));
    cr_expect_eq(found.live_bytes, 0);
    cr_expect_eq(found.peak_bytes, 128);
    cr_expect_eq(found.free_bytes, 128);
}

/* Would see: an allocation that sampling left without a stack and whose free its scope
 * misses; or a scope that shows in the record's stack. */
Test(scope_totals, without_a_stack)
{
    static const uint32_t left_out[] = {GS_STACK_NOT_SAMPLED, GS_STACK_TOO_SMALL};

    begin_all();
    for (int i = 0; i < 2; i++) {
        struct gs_allocation one =
            allocation_of(0x1000, 100, gs_tracker_scope_stack(tracker, left_out[i], 4), 0,
                          GS_MEMORY_DEVICE);
        struct gs_allocation found;

        (void)add(&one, false);
        model_event(4, 0, 100, 1, 0, false);
        expect_all_equal();
        cr_assert_eq(gs_tracker_find(tracker, 0x1000, &found), GS_OK);
        cr_expect_eq(found.stack, left_out[i]);
        cr_assert_eq(gs_tracker_remove_address(tracker, 0x1000, NULL, &found), GS_OK);
        cr_assert_eq(gs_tracker_restore(tracker, &found), GS_OK);
        expect_all_equal();
        cr_assert_eq(gs_tracker_remove_address(tracker, 0x1000, NULL, NULL), GS_OK);
        model_event(4, 0, -100, 0, 1, false);
        expect_all_equal();
    }
}

/* ---- parts that an allocator hands out of its memory ------------------------------ */

/* As the allocator reports one: after it has taken memory, if it did. */
static void part(uint64_t addr, int64_t bytes, uint32_t stack, int device)
{
    const struct gs_part_report report = {
        .addr = addr, .bytes = bytes, .stack = stack, .device = device};

    if (bytes > 0)
        (void)gs_tracker_divide(tracker, &report);
    gs_tracker_part(tracker, &report);
}

/* Blocks of an allocator, each with up to PARTS parts, amid memory of the program.
 * Would see: a block that counts in a scope, at its peak, at its free, or after a free
 * that failed; a part that does not, in the wrong row, or when it comes back. */
Test(scope_totals, equal_a_model_of_parts)
{
    enum { BLOCKS = 16, PARTS = 4, BLOCK = 0x10000 };
    static struct {
        struct gs_allocation was;
        uint32_t id; /* 0: by address */
        bool live, own;
        uint32_t stacks[PARTS]; /* of the parts; 0: none */
        int64_t bytes[PARTS];
    } blocks[BLOCKS];

    begin_all();
    srand(3);
    for (int turn = 0; turn < 20000; turn++) {
        unsigned at = (unsigned)rand() % BLOCKS, i = (unsigned)rand() % PARTS;
        const int device = at % 2;
        uint64_t addr = (at + 1) * UINT64_C(0x100000);

        if (!blocks[at].live) {
            blocks[at].own = rand() % 3 == 0;
            blocks[at].was = allocation_of(addr, BLOCK, (uint32_t)rand() % STACKS + 1,
                                           device, GS_MEMORY_DEVICE);
            blocks[at].live = true;
            bool indexed = rand() % 2;
            blocks[at].id = add(&blocks[at].was, indexed);
            blocks[at].id = indexed ? blocks[at].id : 0;
            if (blocks[at].own) {
                model_event(blocks[at].was.stack, (unsigned)device, BLOCK, 1, 0, false);
                continue;
            }
        } else if (blocks[at].own || rand() % 50 == 0) {
            struct gs_allocation was;
            if (blocks[at].id != 0) {
                gs_tracker_remove(tracker, blocks[at].id, NULL);
            } else {
                cr_assert_eq(gs_tracker_remove_address(tracker, addr, NULL, &was), GS_OK);
                if (rand() % 2) { /* the driver refuses the free */
                    cr_assert_eq(gs_tracker_restore(tracker, &was), GS_OK);
                    continue;
                }
            }
            blocks[at].live = false;
            if (blocks[at].own)
                model_event(blocks[at].was.stack, (unsigned)device, -BLOCK, 0, 1, false);
            for (i = 0; i < PARTS; i++) {
                if (blocks[at].stacks[i] == 0)
                    continue;
                part(addr + i * (BLOCK / PARTS), -1, 0, device);
                model_event(blocks[at].stacks[i], (unsigned)device, -blocks[at].bytes[i],
                            0, 1, false);
                blocks[at].stacks[i] = 0;
            }
            continue;
        }
        if (blocks[at].stacks[i] == 0) {
            blocks[at].stacks[i] = (uint32_t)rand() % STACKS + 1;
            blocks[at].bytes[i] = 1 + rand() % (BLOCK / PARTS);
            part(addr + i * (BLOCK / PARTS), blocks[at].bytes[i], blocks[at].stacks[i],
                 device);
            model_event(blocks[at].stacks[i], (unsigned)device, blocks[at].bytes[i], 1, 0,
                        false);
        } else {
            part(addr + i * (BLOCK / PARTS), -blocks[at].bytes[i], 0, device);
            model_event(blocks[at].stacks[i], (unsigned)device, -blocks[at].bytes[i], 0,
                        1, false);
            blocks[at].stacks[i] = 0;
        }
    }
    expect_all_equal();
}

/* Physical memory has a handle for its address, so the caller names its record.
 * Would see: memory that is divided twice, or that its lost context takes away again. */
Test(scope_totals, of_divided_physical_memory)
{
    struct gs_allocation one =
        allocation_of(gs_key(GS_KEY_ALLOCATION, 7), 1000, 4, 0, GS_MEMORY_PHYSICAL);
    const struct gs_part_report report = {.addr = 0x1000, .bytes = 50, .stack = 4};

    begin_all();
    uint32_t id = add(&one, true);
    cr_expect(gs_tracker_divide(tracker, &report));
    gs_tracker_divide_record(tracker, id);
    gs_tracker_divide_record(tracker, id);
    gs_tracker_part(tracker, &report);
    cr_expect_not(gs_tracker_divide(tracker, &report)); /* nothing new */
    model_event(4, 0, 50, 1, 0, false);
    expect_all_equal();
    gs_tracker_grow(tracker, id, 24);
    gs_tracker_lose_context(tracker, 0xc0, 1u << GS_MEMORY_PHYSICAL);
    expect_all_equal();
    gs_tracker_divide_record(tracker, id); /* no longer live */
    gs_tracker_divide_record(tracker, 0);
    gs_tracker_divide_record(tracker, UINT32_MAX);
    expect_all_equal();
}

/* Would see: a part without a stack, of sampling, that no scope counts; or what stands
 * for its scope in the list of a report. */
Test(scope_totals, of_parts_without_a_stack)
{
    struct gs_allocation block = allocation_of(0x1000, 1000, 0, 0, GS_MEMORY_DEVICE);

    begin_all();
    block.stack = gs_tracker_scope_stack(tracker, GS_STACK_NOT_SAMPLED, 4);
    (void)add(&block, true);
    part(0x1000, 100, block.stack, 0);
    model_event(4, 0, 100, 1, 0, false);
    expect_all_equal();
    struct gs_part_list list = gs_cached_parts_copy(tracker->parts);
    cr_assert_eq(list.count, 1);
    cr_expect_eq(list.items[0].stack, 0);
    gs_part_list_free(&list);
    part(0x1000, -100, 0, 0);
    model_event(4, 0, -100, 0, 1, false);
    expect_all_equal();
}

/* Would see: parts from before a new start that come back, and take away what was
 * allocated since; or the first block after it, which is not found. */
Test(scope_totals, of_parts_and_a_new_start)
{
    struct gs_allocation block = allocation_of(0x10000, 1000, 4, 0, GS_MEMORY_DEVICE);

    begin_all();
    (void)add(&block, true);
    part(0x10000, 100, 4, 0);
    gs_tracker_restart(tracker, 0);
    part(0x10000, -100, 0, 0);
    expect_all_equal(); /* nothing */
    block.addr = 0x20000;
    (void)add(&block, true);
    part(0x20000, 70, 4, 0);
    model_event(4, 0, 70, 1, 0, false);
    expect_all_equal();
}

/* Would see: frees after which the peak of the process lists memory that was not live
 * then, as all frees of the row are led to the scopes. */
Test(scope_totals, leave_the_peaks_alone)
{
    struct gs_allocation big = allocation_of(0x1000, 1000, 2, 0, GS_MEMORY_DEVICE);
    struct gs_allocation later = allocation_of(0x2000, 10, 2, 0, GS_MEMORY_DEVICE);
    static struct gs_peak peaks[GS_PEAK_ROWS];

    begin_all();
    uint32_t id = add(&big, true);
    gs_tracker_remove(tracker, id, NULL);
    for (int i = 0; i < 20; i++) {
        id = add(&later, true);
        gs_tracker_remove(tracker, id, NULL);
    }
    gs_peaks_gather(tracker, 0, peaks);
    cr_expect_eq(peaks[0].bytes, 1000);
    cr_expect_eq(peaks[0].count, 1);
    cr_expect_eq(peaks[0].places[0].held.count, 1);
    cr_expect_eq(peaks[0].freed_bytes, 1000);
    for (unsigned i = 0; i < GS_PEAK_ROWS; i++)
        gs_peak_free(&peaks[i]);
}

/* Would see: counters that outlive the records they count. */
Test(scope_totals, begin_anew)
{
    struct gs_allocation one = allocation_of(0x1000, 100, 4, 0, GS_MEMORY_DEVICE);
    struct gs_allocation two = allocation_of(0x2000, 70, 4, 0, GS_MEMORY_DEVICE);

    begin_all();
    uint32_t id = add(&one, true);
    gs_tracker_restart(tracker, 0);
    gs_tracker_remove(tracker, id, NULL);
    expect_all_equal();
    id = add(&two, true);
    model_event(4, 0, 70, 1, 0, false);
    expect_all_equal();
    gs_tracker_remove(tracker, id, NULL);
    model_event(4, 0, -70, 0, 1, false);
    expect_all_equal();
}

Test(scope_totals, count_begins)
{
    struct gs_scope_totals found;

    cr_expect_eq(gs_tracker_scope_limit(tracker), 1);
    cr_expect_not(gs_tracker_scope_totals(tracker, 1, GS_SCOPE_ALL, &found));
    for (int i = 0; i < 3; i++)
        gs_tracker_scope_begun(tracker, 700, 0);
    cr_assert(gs_tracker_scope_totals(tracker, 700, GS_SCOPE_ALL, &found));
    cr_expect_eq(found.begun, 3);
    cr_expect_eq(gs_tracker_scope_limit(tracker), 701);
    cr_expect_not(gs_tracker_scope_totals(tracker, 699, GS_SCOPE_ALL, &found));
    cr_expect_eq(gs_tracker_scope_stack(tracker, 9, 699), 9); /* no such scope */
    gs_tracker_scope_begun(tracker, UINT32_MAX, 0);           /* beyond the table */
    cr_expect_not(gs_tracker_scope_totals(tracker, UINT32_MAX, GS_SCOPE_ALL, &found));
}

/* Would see: an allocation without a count that a scope around does not say it lacks. */
Test(scope_totals, say_what_they_miss)
{
    struct gs_scope_totals found;

    begin_all();
    gs_tracker_scope_missed(tracker, 4); /* in 3, in 1 */
    gs_tracker_scope_missed(tracker, 3);
    gs_tracker_scope_missed(tracker, UINT32_MAX);
    static const uint64_t missed[SCOPES] = {0, 2, 0, 2, 1, 0};
    for (uint32_t scope = 1; scope < SCOPES; scope++) {
        cr_assert(gs_tracker_scope_totals(tracker, scope, 0, &found));
        cr_expect_eq(found.missed, missed[scope], "scope %u", scope);
        cr_expect_eq(found.allocs, 0);
    }
    gs_tracker_restart(tracker, 0);
    cr_assert(gs_tracker_scope_totals(tracker, 4, 0, &found));
    cr_expect_eq(found.missed, 0);
}

/* ---- threads --------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20000 };
static uint32_t handed[THREADS];

/* Each frees what its neighbour allocated. */
static void *churn(void *arg)
{
    unsigned self = (unsigned)(uintptr_t)arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct gs_allocation one =
            allocation_of(0x1000 + self, 8 + i % 64, 4 + self % 2, 0, GS_MEMORY_DEVICE);
        uint32_t id = add(&one, true);

        id = __atomic_exchange_n(&handed[(self + 1) % THREADS], id, __ATOMIC_ACQ_REL);
        if (id != 0)
            gs_tracker_remove(tracker, id, NULL);
    }
    return NULL;
}

/* Would see: an update of a scope that two threads make at once, and one of them loses.
 */
Test(scope_totals, of_threads)
{
    pthread_t threads[THREADS];
    struct gs_scope_totals all, four, five;

    begin_all();
    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        gs_tracker_remove(tracker, handed[i], NULL);
    cr_assert(gs_tracker_scope_totals(tracker, 4, GS_SCOPE_ALL, &four));
    cr_assert(gs_tracker_scope_totals(tracker, 5, GS_SCOPE_ALL, &five));
    cr_assert(gs_tracker_scope_totals(tracker, 1, GS_SCOPE_ALL, &all));
    cr_expect_eq(four.allocs, THREADS / 2 * ROUNDS);
    cr_expect_eq(five.allocs, THREADS / 2 * ROUNDS);
    cr_expect_eq(four.frees, four.allocs);
    cr_expect_eq(four.live_bytes, 0);
    cr_expect_eq(four.free_bytes, four.alloc_bytes);
    cr_expect_leq(four.peak_bytes, 71 * (THREADS + THREADS));
    cr_expect_eq(all.allocs, four.allocs);
    /* Events of two threads may change places on the way. */
    cr_expect_leq(all.peak_bytes, 71 * (THREADS + THREADS));
}
