/*
 * shim_epochs_gate.c - proves that who records and who begins a capture exclude each
 * other.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <unistd.h>

#include "capture_gate.h"
#include "captures.h"

#define STREAM ((CUstream)(uintptr_t)0x1000)

Test(capture_gate, is_open_while_nothing_captures)
{
    cr_assert(gs_gate_enter());
    cr_assert(gs_gate_enter(), "for several at once");
    gs_gate_leave();
    gs_gate_leave();
    gs_captures_begin(STREAM, false);
    gs_gate_close();
    cr_assert_not(gs_gate_enter());
    gs_captures_end(STREAM, false);
    cr_assert(gs_gate_enter());
    gs_gate_leave();
}

static int begun; /* atomic */

static void *begin_capture(void *unused)
{
    gs_captures_begin(STREAM, false);
    gs_gate_close();
    __atomic_store_n(&begun, 1, __ATOMIC_SEQ_CST);
    return unused;
}

Test(capture_gate, a_capture_begins_when_nobody_is_inside)
{
    pthread_t thread;
    cr_assert(gs_gate_enter());
    cr_assert_eq(pthread_create(&thread, NULL, begin_capture, NULL), 0);
    usleep(20000);
    cr_assert_eq(__atomic_load_n(&begun, __ATOMIC_SEQ_CST), 0);
    cr_assert_not(gs_gate_enter(), "and nobody comes in any more");
    gs_gate_leave();
    pthread_join(thread, NULL);
    cr_assert_eq(__atomic_load_n(&begun, __ATOMIC_SEQ_CST), 1);
}

static int capturing; /* atomic */

static void *record_often(void *unused)
{
    for (int i = 0; i < 20000; i++) {
        if (gs_gate_enter()) {
            cr_assert_eq(__atomic_load_n(&capturing, __ATOMIC_SEQ_CST), 0);
            gs_gate_leave();
        }
    }
    return unused;
}

Test(capture_gate, nobody_is_inside_while_something_captures)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, record_often, NULL), 0);
    }
    for (int i = 0; i < 2000; i++) {
        gs_captures_begin(STREAM, false);
        gs_gate_close();
        __atomic_store_n(&capturing, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&capturing, 0, __ATOMIC_SEQ_CST);
        gs_captures_end(STREAM, false);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
}
