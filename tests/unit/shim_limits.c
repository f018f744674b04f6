/*
 * shim_limits.c - proves the books of GPUSHIM_MEM_LIMIT: shares, charges by address and
 * handle, and what ends with a context. No driver is loaded: the device of these tests is
 * met by no context, so that nothing is refused and all is counted.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/limits/mem_limits.h"

#define DEVICE 3
#define FIRST  ((CUcontext)0x1000)
#define SECOND ((CUcontext)0x2000)

static void start(void)
{
    struct gs_options options = {.mem_limit = 64 * GS_MIB,
                                 .pool_limit = gs_share_percent(100),
                                 .pool_release = gs_share_percent(100)};

    gs_limits_start(&options);
    cr_assert(gs_limits_charging);
}

static void make(CUcontext context, uint64_t key, size_t bytes)
{
    cr_assert_eq(gs_limits_begin(DEVICE, bytes), CUDA_SUCCESS);
    cr_assert_eq(gs_limits_end(DEVICE, bytes, CUDA_SUCCESS), CUDA_SUCCESS);
    gs_limits_record(key, bytes, DEVICE, context);
}

static void drop(uint64_t key, bool freed)
{
    gs_limits_leave(key);
    gs_limits_left(freed);
}

Test(shares, are_bytes_or_percent_of_the_device)
{
    cr_expect_eq(gs_share_bytes(5 * GS_MIB, 100), 5 * GS_MIB);
    cr_expect_eq(gs_share_bytes(gs_share_percent(80), 1000), 800);
    cr_expect_eq(gs_share_bytes(gs_share_percent(0), 1000), 0);
    cr_expect_eq(gs_share_bytes(gs_share_percent(100), UINT64_MAX / 2), UINT64_MAX / 2,
                 "without overflow");
    cr_expect_eq(gs_share_bytes(gs_share_percent(50), 199), 99);
}

Test(mem_limits, cost_nothing_where_there_are_none)
{
    struct gs_options options = {.mem_limit = gs_share_percent(100)};

    gs_limits_start(&options);
    cr_expect_not(gs_limits_charging);
    cr_expect_eq(gs_limits_begin(DEVICE, SIZE_MAX), CUDA_SUCCESS);
    cr_expect_eq(gs_limits_charged(DEVICE), 0);
}

Test(mem_limits, count_as_the_device_does)
{
    start();
    make(FIRST, 0x7000, 1);
    cr_expect_eq(gs_limits_charged(DEVICE), 512);
    make(FIRST, 0x8000, 3 * GS_MIB);
    cr_expect_eq(gs_limits_charged(DEVICE), 512 + 4 * GS_MIB);
    drop(0x7000, true);
    drop(0x8000, true);
    cr_expect_eq(gs_limits_charged(DEVICE), 0);
}

Test(mem_limits, a_failed_attempt_costs_nothing)
{
    start();
    cr_expect_eq(gs_limits_begin(DEVICE, 100), CUDA_SUCCESS);
    cr_expect_eq(gs_limits_end(DEVICE, 100, CUDA_ERROR_NOT_SUPPORTED),
                 CUDA_ERROR_NOT_SUPPORTED);
    cr_expect_eq(gs_limits_charged(DEVICE), 0);
    cr_expect_eq(gs_limits_begin(DEVICE, SIZE_MAX), CUDA_SUCCESS);
    /* The code is the driver's, and these tests have none. */
    cr_expect_neq(gs_limits_begin(DEVICE, GS_MIB), CUDA_SUCCESS,
                  "the sum would not fit 64 bits");
}

Test(mem_limits, a_refused_free_is_still_charged)
{
    start();
    make(FIRST, 0x7000, GS_MIB);
    drop(0x7000, false);
    cr_expect_eq(gs_limits_charged(DEVICE), GS_MIB);
    drop(0x7000, true);
    drop(0x7000, true);
    drop(0, true);
    cr_expect_eq(gs_limits_charged(DEVICE), 0);
}

Test(mem_limits, a_handle_is_another_key_than_an_address)
{
    start();
    make(NULL, 0x7000, GS_MIB);
    make(FIRST, gs_key(GS_KEY_ARRAY, 0x7000), 2 * GS_MIB);
    drop(0x7000, true);
    cr_expect_eq(gs_limits_charged(DEVICE), 2 * GS_MIB);
    drop(gs_key(GS_KEY_ARRAY, 0x7000), true);
    cr_expect_eq(gs_limits_charged(DEVICE), 0);
}

Test(mem_limits, an_address_given_out_again_has_one_charge)
{
    start();
    make(FIRST, 0x7000, GS_MIB);
    make(FIRST, 0x7000, 4 * GS_MIB);
    cr_expect_eq(gs_limits_charged(DEVICE), 4 * GS_MIB);
}

Test(mem_limits, what_ends_with_its_context_is_free_again)
{
    start();
    for (uint64_t i = 1; i <= 500; i++) {
        make(i % 5 == 0 ? NULL : i % 2 ? FIRST : SECOND, i << 21, GS_MIB);
    }
    gs_limits_context_lost(FIRST);
    cr_expect_eq(gs_limits_charged(DEVICE), 300 * GS_MIB, "200 of another, 50 + 50 kept");
    gs_limits_context_lost(SECOND);
    cr_expect_eq(gs_limits_charged(DEVICE), 100 * GS_MIB);
    for (uint64_t i = 5; i <= 500; i += 5) {
        drop(i << 21, true);
    }
    cr_expect_eq(gs_limits_charged(DEVICE), 0);
}

static void *work(void *base)
{
    for (uint64_t i = 1; i <= 2000; i++) {
        make(FIRST, (uintptr_t)base + (i << 12), 1000 + i);
        if (i > 50) {
            drop((uintptr_t)base + ((i - 50) << 12), i % 3 != 0);
        }
    }
    for (uint64_t i = 1; i <= 2000; i++) {
        drop((uintptr_t)base + (i << 12), true);
    }
    return NULL;
}

Test(mem_limits, threads_leave_nothing_behind)
{
    pthread_t threads[4];

    start();
    for (uintptr_t i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, work, (void *)((i + 1) << 32));
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    cr_expect_eq(gs_limits_charged(DEVICE), 0);
}

/* ---- in a group -------------------------------------------------------------------- */

static CUresult get_info(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = 256 * GS_MIB;
    return CUDA_SUCCESS;
}

/* What is charged by an estimate, and what is corrected, are one sum. */
Test(mem_limits, corrections_are_charged_to_the_group)
{
    static struct gs_real driver = {.cuMemGetInfo_v2 = get_info};
    static struct gs_state state = {.device_buses = {[DEVICE] = "0000:03:00.0"}};
    char path[64];
    uint64_t others;

    snprintf(path, sizeof(path), "/dev/shm/gpushim-test-limits.%d", (int)getpid());
    struct gs_options options = {.mem_limit = 64 * GS_MIB,
                                 .pool_limit = gs_share_percent(100),
                                 .pool_release = gs_share_percent(100)};
    strcpy(options.mem_group, path);
    gs_real_found = &driver;
    gs_limits_start(&options);
    gs_limits_add_device(&state, DEVICE);
    cr_assert(gs_limits_group(DEVICE, &others));
    gs_limits_correct(DEVICE, 0, 40 * GS_MIB);
    cr_expect_eq(gs_limits_charged(DEVICE), 40 * GS_MIB);
    cr_expect_eq(gs_limits_begin(DEVICE, 30 * GS_MIB), CUDA_ERROR_OUT_OF_MEMORY);
    gs_limits_correct(DEVICE, 40 * GS_MIB, 2 * GS_MIB);
    gs_limits_uncharge(DEVICE, 2 * GS_MIB);
    cr_expect_eq(gs_limits_charged(DEVICE), 0);
    cr_expect_eq(gs_limits_begin(DEVICE, 64 * GS_MIB), CUDA_SUCCESS);
    unlink(path);
}
