/*
 * shim_record.c - proves that every way to record an allocation names the same context.
 * No driver is loaded.
 */
#include <criterion/criterion.h>

#include "pool/heap.h"
#include "shim/record.h"

#define DEVICE 1
#define AT     UINT64_C(0x10000)

/* The view of a green context, whose memory ends with the primary context. */
static const struct gs_context view = {
    .handle = (CUcontext)0x1000, .owner = (CUcontext)0x2000, .device = DEVICE};

static struct gs_state state;

static void start(void)
{
    struct gs_tracker_config config = {
        .api_names = gs_api_names(), .api_count = GS_API_COUNT, .free_history = 64};

    cr_assert_eq(gs_tracker_create(&config, &state.tracker), GS_OK);
}

static void expect_live(unsigned count, const char *when)
{
    struct gs_tracker_totals totals;

    gs_tracker_get_totals(state.tracker, DEVICE, &totals);
    cr_expect_eq(totals.live_count, count, "%s: %u", when, (unsigned)totals.live_count);
}

/* Only this test has a context that is not its own owner in the hot path: the pool serves
 * a green context as the primary one. */
Test(record, each_way_names_the_context_that_memory_ends_with, .init = start)
{
    struct gs_call call = gs_call_in(&view, GS_MEMORY_DEVICE, GS_API_cuMemAlloc_v2);
    struct gs_block block = {0};
    uint32_t tag = 0;

    cr_expect_neq(gs_record_alloc(&state, &call, AT, 1, NULL), 0);
    gs_record_detailed_block(&state, &call, AT + 1, 1, &block);
    cr_expect_neq(gs_block_tag(&block), 0);
    gs_record_block(&state, &view, GS_MEMORY_DEVICE, GS_API_cuMemAlloc_v2, AT + 2, 1,
                    NULL, &tag);
    cr_expect_neq(tag, 0);
    gs_record_context_lost(&state, view.handle);
    expect_live(3, "the view ended");
    gs_record_context_lost(&state, view.owner);
    expect_live(0, "the owner ended");
}
