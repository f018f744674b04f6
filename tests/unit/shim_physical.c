/*
 * shim_physical.c - proves how long memory that has a handle lives: in the tracker's
 * books and in those of GPUSHIM_MEM_LIMIT, by handles, mappings, bindings and parts of
 * arrays. No driver is loaded.
 */
#include <criterion/criterion.h>
#include <pthread.h>

#include "shim/lifetimes/physical.h"
#include "shim/limits/mem_limits.h"
#include "shim/parts.h"

#define DEVICE 3
#define AT     ((CUdeviceptr)0x10000000)
#define CTX    ((CUcontext)0x1000)

static struct gs_state state;

static void start(void)
{
    struct gs_options options = {.mem_limit = 64 * GS_MIB,
                                 .pool_limit = gs_share_percent(100),
                                 .pool_release = gs_share_percent(100)};
    struct gs_tracker_config config = {
        .api_names = gs_api_names(), .api_count = GS_API_COUNT, .free_history = 64};

    gs_limits_start(&options);
    cr_assert(gs_limits_charging);
    cr_assert_eq(gs_tracker_create(&config, &state.tracker), GS_OK);
}

static uint64_t key(uint64_t handle)
{
    return gs_key(GS_KEY_ALLOCATION, handle);
}

/* Memory of a kind, charged and recorded as cuMemCreate's is. */
static void make(uint64_t handle, enum gs_memory_kind kind, size_t bytes)
{
    const struct gs_call call = {.kind = kind,
                                 .api = GS_API_cuMemCreate,
                                 .device = DEVICE,
                                 .charged = kind == GS_MEMORY_PHYSICAL};

    if (call.charged)
        cr_assert(gs_limits_charge(DEVICE, bytes));
    gs_physical_created(&state, &call, key(handle), bytes, kind == GS_MEMORY_IMPORTED);
}

static void release(uint64_t handle)
{
    struct gs_physical *physical = gs_physical_release(key(handle));

    cr_assert_not_null(physical);
    gs_physical_released(&state, physical, true, GS_API_cuMemRelease);
}

static void expect_live(size_t bytes, unsigned count, const char *when)
{
    struct gs_tracker_totals totals;

    gs_tracker_get_totals(state.tracker, DEVICE, &totals);
    cr_expect_eq(totals.live_bytes, bytes, "%s: %zu bytes are live", when,
                 (size_t)totals.live_bytes);
    cr_expect_eq(totals.live_count, count, "%s", when);
    cr_expect_eq(gs_limits_charged(DEVICE), bytes, "%s: charged", when);
}

Test(physical, lives_while_a_handle_or_a_mapping_is_left, .init = start)
{
    make(77, GS_MEMORY_PHYSICAL, 8 * GS_MIB);
    gs_physical_mapped(&state, 77, AT, 4 * GS_MIB, 0);
    gs_physical_mapped(&state, 77, AT + 4 * GS_MIB, 4 * GS_MIB, 4 * GS_MIB);
    cr_expect(gs_physical_referenced(key(77)));
    release(77);
    release(77);
    expect_live(8 * GS_MIB, 1, "mapped twice");
    cr_expect_null(gs_physical_release(key(77)), "no reference is left");
    gs_physical_unmapped(&state, AT, 4 * GS_MIB);
    expect_live(8 * GS_MIB, 1, "mapped");
    gs_physical_unmapped(&state, AT + 4 * GS_MIB, 4 * GS_MIB);
    expect_live(0, 0, "gone");
}

Test(physical, is_retained_by_any_address_in_its_mapping, .init = start)
{
    make(77, GS_MEMORY_PHYSICAL, 4 * GS_MIB);
    gs_physical_mapped(&state, 77, AT, 4 * GS_MIB, 0);
    release(77);
    gs_physical_retained(AT + 4 * GS_MIB);
    cr_expect_null(gs_physical_release(key(77)), "just behind it");
    gs_physical_retained(AT + 4 * GS_MIB - 1);
    gs_physical_unmapped(&state, AT, 4 * GS_MIB);
    expect_live(4 * GS_MIB, 1, "retained");
    release(77);
    expect_live(0, 0, "gone");
}

Test(physical, a_handle_of_the_same_value_is_another, .init = start)
{
    make(77, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    gs_physical_mapped(&state, 77, AT, 2 * GS_MIB, 0);
    release(77);
    make(77, GS_MEMORY_PHYSICAL, 4 * GS_MIB);
    expect_live(6 * GS_MIB, 2, "both");
    release(77);
    expect_live(2 * GS_MIB, 1, "the first is still mapped");
    gs_physical_unmapped(&state, AT, 2 * GS_MIB);
    expect_live(0, 0, "gone");
}

/* Two threads may import the same at once, and neither finds it known. */
Test(physical, made_twice_is_one_until_both_are_released, .init = start)
{
    make(77, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    make(77, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    expect_live(2 * GS_MIB, 1, "made twice");
    release(77);
    expect_live(2 * GS_MIB, 1, "released once");
    release(77);
    expect_live(0, 0, "gone");
}

Test(physical, an_address_mapped_again_holds_what_is_there_now, .init = start)
{
    make(1, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    make(2, GS_MEMORY_PHYSICAL, 4 * GS_MIB);
    gs_physical_mapped(&state, 1, AT, 2 * GS_MIB, 0);
    release(1);
    gs_physical_mapped(&state, 2, AT, 4 * GS_MIB, 0);
    release(2);
    expect_live(4 * GS_MIB, 1, "the first was unmapped unseen");
    gs_physical_unmapped(&state, AT, 4 * GS_MIB);
    expect_live(0, 0, "gone");
}

/* The maps grow several times. */
Test(physical, each_of_many_is_found, .init = start)
{
    const uint64_t many = 3000;

    for (uint64_t i = 0; i < many; i++) {
        make(i << 12, GS_MEMORY_PHYSICAL, 4096);
        gs_physical_mapped(&state, i << 12, AT + (i << 12), 4096, 0);
        release(i << 12);
    }
    expect_live(many * 4096, (unsigned)many, "mapped");
    for (uint64_t i = 0; i < many; i += 2)
        gs_physical_unmapped(&state, AT + (i << 12), 4096);
    expect_live(many / 2 * 4096, (unsigned)many / 2, "each second one");
    for (uint64_t i = 1; i < many; i += 2)
        gs_physical_unmapped(&state, AT + (i << 12), 4096);
    expect_live(0, 0, "gone");
}

Test(physical, a_refused_release_changes_nothing, .init = start)
{
    make(77, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    struct gs_physical *physical = gs_physical_release(key(77));
    cr_expect_null(gs_physical_release(key(77)), "another thread's, meanwhile");
    gs_physical_released(&state, physical, false, GS_API_cuMemRelease);
    expect_live(2 * GS_MIB, 1, "refused");
    release(77);
    expect_live(0, 0, "gone");
}

Test(physical, mappings_side_by_side_end_at_once, .init = start)
{
    make(1, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    make(2, GS_MEMORY_PHYSICAL, 4 * GS_MIB);
    make(3, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    gs_physical_mapped(&state, 1, AT, 2 * GS_MIB, 0);
    gs_physical_mapped(&state, 2, AT + 2 * GS_MIB, 4 * GS_MIB, 0);
    gs_physical_mapped(&state, 3, AT + 6 * GS_MIB, 2 * GS_MIB, 0);
    release(1);
    release(2);
    release(3);
    gs_physical_unmapped(&state, AT, 6 * GS_MIB);
    expect_live(2 * GS_MIB, 1, "one is left");
    /* As where what lies in front was mapped before anybody looked. */
    gs_physical_unmapped(&state, AT + 4 * GS_MIB, 8 * GS_MIB);
    expect_live(0, 0, "gone");
}

static bool is_divided(uint64_t handle)
{
    struct gs_allocation found;

    cr_assert_eq(gs_tracker_find(state.tracker, key(handle), &found), GS_OK);
    return found.divided;
}

/* Would see: memory of a part that still counts in its scope, as that behind the first
 * mapping, or memory of no part that no longer does. */
Test(physical, what_a_part_touches_is_divided, .init = start)
{
    for (uint64_t handle = 1; handle <= 4; handle++) {
        make(handle, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
        gs_physical_mapped(&state, handle, AT + handle * 2 * GS_MIB, 2 * GS_MIB, 0);
    }
    gs_physical_divide(&state, AT, 1); /* nothing is mapped */
    gs_physical_divide(&state, AT + 5 * GS_MIB, GS_MIB + 1);
    cr_expect_not(is_divided(1));
    cr_expect(is_divided(2));
    cr_expect(is_divided(3));
    cr_expect_not(is_divided(4));
    gs_physical_divide(&state, AT + 8 * GS_MIB, 100 * GS_MIB);
    cr_expect(is_divided(4));
}

Test(physical, memory_whose_size_is_not_said_has_what_is_mapped, .init = start)
{
    struct gs_tracker_totals totals;

    make(9, GS_MEMORY_IMPORTED, 0);
    gs_physical_mapped(&state, 9, AT, 2 * GS_MIB, 0);
    gs_physical_mapped(&state, 9, AT + 8 * GS_MIB, 2 * GS_MIB, 4 * GS_MIB);
    gs_physical_mapped(&state, 9, AT + 16 * GS_MIB, 4 * GS_MIB, 0);
    expect_live(0, 0, "none of the device's");
    gs_tracker_get_totals(state.tracker, GS_TOTALS_IMPORTED, &totals);
    cr_expect_eq(totals.live_bytes, 6 * GS_MIB);
    cr_expect_eq(totals.peak_bytes, 6 * GS_MIB);
    cr_expect_eq(totals.allocs, 1);
    gs_physical_unmapped(&state, AT, 20 * GS_MIB);
    release(9);
    gs_tracker_get_totals(state.tracker, GS_TOTALS_IMPORTED, &totals);
    cr_expect_eq(totals.live_bytes, 0);
    cr_expect_eq(totals.live_count, 0);
}

static void bind_handle(uint64_t object, int device, size_t offset, size_t bytes,
                        uint64_t handle)
{
    gs_physical_bound(&(struct gs_bound){object, device, offset, bytes, handle, 0});
}

static void unbind(uint64_t object, int device, size_t offset, size_t bytes)
{
    gs_physical_unbound(&state, &(struct gs_bound){object, device, offset, bytes, 0, 0});
}

Test(physical, what_is_bound_lives_until_the_object_ends_or_unbinds, .init = start)
{
    const uint64_t object = key(100);

    make(100, GS_MEMORY_MULTICAST, 8 * GS_MIB);
    make(1, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    make(2, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    make(3, GS_MEMORY_PHYSICAL, 4 * GS_MIB);
    bind_handle(object, -1, 0, 2 * GS_MIB, 1);
    gs_physical_mapped(&state, 2, AT, 2 * GS_MIB, 0);
    gs_physical_mapped(&state, 3, AT + 2 * GS_MIB, 4 * GS_MIB, 0);
    gs_physical_bound(&(struct gs_bound){object, -1, 2 * GS_MIB, 6 * GS_MIB, 0, AT});
    gs_physical_unmapped(&state, AT, 6 * GS_MIB);
    release(1);
    release(2);
    release(3);
    expect_live(8 * GS_MIB, 3, "bound");
    unbind(object, DEVICE + 1, 0, 8 * GS_MIB);
    expect_live(8 * GS_MIB, 3, "another device's");
    unbind(object, DEVICE, 2 * GS_MIB, 2 * GS_MIB);
    expect_live(6 * GS_MIB, 2, "one unbound");
    release(100);
    expect_live(0, 0, "the object ended");
}

/* Would see: a logical endpoint that is not known before memory is bound to it, or is
 * taken for a handle of its number. */
Test(physical, what_an_endpoint_holds_lives_until_it_ends_or_unbinds, .init = start)
{
    const uint64_t endpoint = gs_key(GS_KEY_ENDPOINT, 1);

    for (uint64_t handle = 1; handle <= 3; handle++)
        make(handle, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    bind_handle(endpoint, DEVICE, 0, 2 * GS_MIB, 1);
    bind_handle(endpoint, DEVICE, 2 * GS_MIB, 2 * GS_MIB, 2);
    bind_handle(endpoint, DEVICE, 4 * GS_MIB, 2 * GS_MIB, 77); /* of no known handle */
    gs_physical_bound(&(struct gs_bound){endpoint, DEVICE, 4 * GS_MIB, 2 * GS_MIB, 0,
                                         AT}); /* nothing */
    bind_handle(gs_key(GS_KEY_ENDPOINT, 2), DEVICE, 0, 2 * GS_MIB, 3);
    for (uint64_t handle = 1; handle <= 3; handle++)
        release(handle);
    expect_live(6 * GS_MIB, 3, "bound");
    unbind(endpoint, DEVICE + 1, 0, 4 * GS_MIB);
    expect_live(6 * GS_MIB, 3, "another device's");
    unbind(endpoint, DEVICE, 0, 2 * GS_MIB);
    expect_live(4 * GS_MIB, 2, "the first");
    gs_physical_object_ended(&state, gs_key(GS_KEY_ENDPOINT, 3),
                             GS_API_cuLogicalEndpointDestroy);
    gs_physical_object_ended(&state, endpoint, GS_API_cuLogicalEndpointDestroy);
    expect_live(2 * GS_MIB, 1, "that of the other endpoint");
    gs_physical_object_ended(&state, gs_key(GS_KEY_ENDPOINT, 2),
                             GS_API_cuLogicalEndpointDestroy);
    expect_live(0, 0, "gone");
}

/* Would see: the device of the call ignored, which is all that tells apart two bindings of
 * host memory at one offset. */
Test(physical, host_memory_is_bound_by_device, .init = start)
{
    struct gs_tracker_totals totals;
    const uint64_t endpoint = gs_key(GS_KEY_ENDPOINT, 1);
    const struct gs_call call = {
        .kind = GS_MEMORY_PHYSICAL_HOST, .api = GS_API_cuMemCreate, .device = -1};

    gs_physical_created(&state, &call, key(1), 2 * GS_MIB, false);
    bind_handle(endpoint, DEVICE, 0, 2 * GS_MIB, 1);
    release(1);
    unbind(endpoint, DEVICE + 1, 0, 2 * GS_MIB);
    gs_tracker_get_totals(state.tracker, GS_TOTALS_PINNED, &totals);
    cr_expect_eq(totals.live_count, 1, "another device's range");
    unbind(endpoint, DEVICE, 0, 2 * GS_MIB);
    gs_tracker_get_totals(state.tracker, GS_TOTALS_PINNED, &totals);
    cr_expect_eq(totals.live_count, 0);
}

Test(physical, what_ends_with_a_context_is_forgotten, .init = start)
{
    struct gs_tracker_totals totals;
    const struct gs_call call = {.kind = GS_MEMORY_IMPORTED,
                                 .api = GS_API_cuIpcOpenMemHandle_v2,
                                 .device = DEVICE,
                                 .owner = CTX};

    make(1, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    gs_physical_created(&state, &call, AT, GS_MIB, false);
    cr_expect(gs_physical_referenced(AT));
    gs_parts_context_lost(&state, CTX);
    cr_expect_not(gs_physical_referenced(AT), "its address may be another's");
    expect_live(2 * GS_MIB, 1, "physical memory outlives every context");
    gs_tracker_get_totals(state.tracker, GS_TOTALS_IMPORTED, &totals);
    cr_expect_eq(totals.live_count, 0);
    cr_expect_eq(totals.lost_bytes, GS_MIB);
    release(1);
}

/* ---- parts of arrays --------------------------------------------------------------- */

static CUarrayMapInfo box(uint64_t array, uint64_t memory, unsigned x, unsigned width)
{
    return (CUarrayMapInfo){.resourceType = CU_RESOURCE_TYPE_ARRAY,
                            .resource = {.array = (CUarray)(uintptr_t)array},
                            .subresourceType =
                                CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
                            .subresource = {.sparseLevel = {.offsetX = x,
                                                            .extentWidth = width,
                                                            .extentHeight = 64,
                                                            .extentDepth = 1}},
                            .memOperationType = memory ? CU_MEM_OPERATION_TYPE_MAP
                                                       : CU_MEM_OPERATION_TYPE_UNMAP,
                            .memHandle = {.memHandle = memory}};
}

static CUarrayMapInfo tail(uint64_t array, uint64_t memory)
{
    CUarrayMapInfo info = box(array, memory, 0, 0);

    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
    info.subresource.miptail.layer = 0;
    info.subresource.miptail.offset = 0;
    info.subresource.miptail.size = 65536;
    return info;
}

Test(tiles, hold_memory_until_they_are_unmapped_or_mapped_again, .init = start)
{
    const CUarrayMapInfo maps[] = {box(5, 1, 0, 64), box(5, 2, 64, 64), tail(5, 3)};
    const CUarrayMapInfo again = box(5, 4, 64, 64), all = box(5, 0, 0, 128);

    for (uint64_t handle = 1; handle <= 4; handle++)
        make(handle, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    gs_physical_array_mapped(&state, maps, 3, CTX);
    for (uint64_t handle = 1; handle <= 3; handle++)
        release(handle);
    expect_live(8 * GS_MIB, 4, "in the array");
    gs_physical_array_mapped(&state, &again, 1, CTX);
    release(4);
    expect_live(6 * GS_MIB, 3, "the second was replaced");
    gs_physical_array_mapped(&state, &all, 1, CTX);
    expect_live(2 * GS_MIB, 1, "the tail is apart");
    gs_physical_object_ended(&state, gs_key(GS_KEY_ARRAY, 6), GS_API_cuArrayDestroy);
    expect_live(2 * GS_MIB, 1, "another array");
    gs_physical_object_ended(&state, gs_key(GS_KEY_ARRAY, 5), GS_API_cuArrayDestroy);
    expect_live(0, 0, "gone");
}

Test(tiles, end_with_the_context_of_their_array, .init = start)
{
    const CUarrayMapInfo map = box(5, 1, 0, 64);

    make(1, GS_MEMORY_PHYSICAL, 2 * GS_MIB);
    gs_physical_array_mapped(&state, &map, 1, CTX);
    release(1);
    gs_physical_context_lost(&state, (CUcontext)0x2000);
    expect_live(2 * GS_MIB, 1, "another context");
    gs_physical_context_lost(&state, CTX);
    expect_live(0, 0, "gone");
}

/* ---- threads ----------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS  2000u

/* Handles and addresses of its own, as many at once as make the maps grow. */
static void *churn(void *arg)
{
    uint64_t base = (uint64_t)(uintptr_t)arg << 32;

    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t handle = base + round % 100 + 1;
        CUdeviceptr addr = base + (uint64_t)(round % 100) * 4096;

        if (round >= 100) {
            gs_physical_unmapped(&state, addr, 4096);
        }
        make(handle, GS_MEMORY_PHYSICAL, 4096);
        gs_physical_mapped(&state, handle, addr, 4096, 0);
        release(handle);
    }
    for (unsigned i = 0; i < 100; i++)
        gs_physical_unmapped(&state, base + (uint64_t)i * 4096, 4096);
    return NULL;
}

Test(physical, threads_do_not_get_in_each_others_way, .init = start)
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    expect_live(0, 0, "all is gone");
}
