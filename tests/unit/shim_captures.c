/*
 * shim_captures.c - proves that captures are counted begin by begin and end by end.
 */
#include <criterion/criterion.h>

#include <pthread.h>

#include "shim/order/captures.h"

static CUstream stream_of(uintptr_t value)
{
    return (CUstream)value;
}

Test(captures, are_active_between_begin_and_end)
{
    cr_assert_not(gs_captures_active());
    gs_captures_begin(stream_of(0x1000), false, NULL, NULL);
    cr_assert(gs_captures_active());
    gs_captures_end(stream_of(0x1000), false, NULL);
    cr_assert_not(gs_captures_active());
}

Test(captures, an_end_without_a_begin_changes_nothing)
{
    gs_captures_end(stream_of(0x1000), false, NULL);
    gs_captures_begin(stream_of(0x1000), false, NULL, NULL);
    gs_captures_end(stream_of(0x2000), false, NULL);
    cr_assert(gs_captures_active());
    gs_captures_end(stream_of(0x1000), false, NULL);
    gs_captures_end(stream_of(0x1000), false, NULL);
    cr_assert_not(gs_captures_active());
}

Test(captures, end_with_their_context_alone)
{
    CUcontext ended = (CUcontext)0x10, other = (CUcontext)0x20;
    gs_captures_begin(stream_of(0x1000), false, ended, NULL);
    gs_captures_begin(stream_of(0x2000), false, other, NULL);
    gs_captures_begin(NULL, true, ended, NULL);
    gs_captures_begin(stream_of(0x3000), false, NULL, NULL);
    gs_captures_context_ends(ended);
    cr_assert_eq(gs_captures_running, 2);
    gs_captures_context_ends(NULL);
    gs_captures_end(stream_of(0x2000), false, NULL);
    cr_assert(gs_captures_active());
    gs_captures_end(stream_of(0x3000), false, NULL);
    cr_assert_not(gs_captures_active());
}

Test(captures, end_with_their_green_context)
{
    CUgreenCtx ended = (CUgreenCtx)(uintptr_t)0x100, other = (CUgreenCtx)(uintptr_t)0x200;
    CUcontext primary = (CUcontext)(uintptr_t)0x300;

    gs_captures_begin(stream_of(0x1000), false, primary, ended);
    gs_captures_begin(stream_of(0x2000), false, primary, other);
    gs_captures_begin(NULL, true, primary, ended);
    gs_captures_begin(stream_of(0x3000), false, primary, NULL);
    gs_captures_green_ends(ended);
    cr_assert_eq(gs_captures_running, 2);
    gs_captures_green_ends(NULL);
    cr_assert_eq(gs_captures_running, 2, "no green context is none's");
    gs_captures_context_ends(primary);
    cr_assert_not(gs_captures_active());
}

Test(captures, several_streams_end_one_by_one)
{
    for (uintptr_t i = 1; i <= 100; i++) {
        gs_captures_begin(stream_of(i << 8), false, NULL, NULL);
    }
    for (uintptr_t i = 1; i <= 100; i++) {
        cr_assert(gs_captures_active());
        gs_captures_end(stream_of(i << 8), false, NULL);
    }
    cr_assert_not(gs_captures_active());
}

Test(captures, the_two_names_of_the_per_thread_stream_are_one)
{
    gs_captures_begin(NULL, true, NULL, NULL);
    gs_captures_end(CU_STREAM_PER_THREAD, false, NULL);
    cr_assert_not(gs_captures_active());
}

static void *end_here(void *unused)
{
    (void)unused;
    gs_captures_end(CU_STREAM_PER_THREAD, false, NULL);
    return NULL;
}

Test(captures, per_thread_streams_of_two_threads_are_two)
{
    pthread_t thread;
    gs_captures_begin(CU_STREAM_PER_THREAD, false, NULL, NULL);
    cr_assert_eq(pthread_create(&thread, NULL, end_here, NULL), 0);
    pthread_join(thread, NULL);
    cr_assert(gs_captures_active());
    gs_captures_end(CU_STREAM_PER_THREAD, false, NULL);
    cr_assert_not(gs_captures_active());
}

Test(captures, per_thread_streams_of_two_contexts_are_two)
{
    CUcontext capturing = (CUcontext)0x10, other = (CUcontext)0x20;
    gs_captures_begin(NULL, true, capturing, NULL);
    gs_captures_end(NULL, true, other);
    cr_assert(gs_captures_active());
    gs_captures_begin(NULL, true, other, NULL);
    gs_captures_end(NULL, true, capturing);
    cr_assert(gs_captures_active());
    gs_captures_end(CU_STREAM_PER_THREAD, false, other);
    cr_assert_not(gs_captures_active());
}

Test(captures, more_than_the_table_holds_keep_allocations_with_the_driver)
{
    for (uintptr_t i = 1; i <= 300; i++) {
        gs_captures_begin(stream_of(i << 8), false, NULL, NULL);
    }
    for (uintptr_t i = 1; i <= 300; i++) {
        gs_captures_end(stream_of(i << 8), false, NULL);
    }
    cr_assert(gs_captures_active());
    gs_captures_reset();
    cr_assert_not(gs_captures_active());
}
