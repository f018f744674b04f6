/*
 * shim_epochs_gate.c - proves that who records and who begins a capture exclude each
 * other, and that a capture is patient with those who wait for their context, but not for
 * long.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <unistd.h>

#include "gs_clock.h"
#include "shim/order/capture_gate.h"
#include "shim/order/captures.h"

#define STREAM ((CUstream)(uintptr_t)0x1000)

Test(capture_gate, is_open_while_nothing_captures)
{
    cr_assert(gs_gate_enter());
    cr_assert(gs_gate_enter(), "for several at once");
    gs_gate_leave();
    gs_gate_leave();
    gs_captures_begin(STREAM, false, NULL, NULL);
    gs_gate_close();
    cr_assert_not(gs_gate_enter());
    gs_captures_end(STREAM, false, NULL);
    cr_assert(gs_gate_enter());
    gs_gate_leave();
}

static int begun; /* atomic */

static void *begin_capture(void *unused)
{
    gs_captures_begin(STREAM, false, NULL, NULL);
    gs_gate_close();
    __atomic_store_n(&begun, 1, __ATOMIC_SEQ_CST);
    return unused;
}

Test(capture_gate, a_capture_begins_when_nobody_is_inside)
{
    pthread_t thread;
    bool open = true;
    cr_assert(gs_gate_enter());
    cr_assert_eq(pthread_create(&thread, NULL, begin_capture, NULL), 0);
    for (int i = 0; i < 10000 && open; i++) {
        usleep(1000);
        open = gs_gate_enter();
        if (open) {
            gs_gate_leave();
        }
    }
    cr_assert_eq(__atomic_load_n(&begun, __ATOMIC_SEQ_CST), 0);
    cr_assert_not(open, "and nobody comes in any more");
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
        gs_captures_begin(STREAM, false, NULL, NULL);
        gs_gate_close();
        __atomic_store_n(&capturing, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&capturing, 0, __ATOMIC_SEQ_CST);
        gs_captures_end(STREAM, false, NULL);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* ---- patience ------------------------------------------------------------------------
 */

#define MS UINT64_C(1000000)
/* For one that passes, and of all captures together, as capture_gate.h has it ... */
#define SURE     (100 * MS)
#define PATIENCE (500 * MS)
/* ... by how much it may be cut short: by what it took to come there. */
#define TOLERANCE (50 * MS)

/* How long a capture takes to begin. */
static uint64_t begin_ns(void)
{
    uint64_t began = gs_now_ns();
    gs_captures_begin(STREAM, false, NULL, NULL);
    gs_gate_close();
    uint64_t took = gs_now_ns() - began;
    gs_captures_end(STREAM, false, NULL);
    return took;
}

Test(capture_gate, a_capture_gives_who_passes_a_tenth_of_a_second)
{
    cr_assert(gs_gate_pass());
    uint64_t took = begin_ns();
    cr_assert_geq(took, SURE - TOLERANCE, "it was given %lu ms", took / MS);
    /* What it waits for may be this thread: the next captures wait no more. However busy
       the machine is, a hundred that did would take ten seconds. */
    took = 0;
    for (int i = 0; i < 100; i++) {
        took += begin_ns();
    }
    cr_assert_lt(took, 50 * SURE, "a hundred more took %lu ms", took / MS);
    gs_gate_passed();
}

/* How long `captures` take to begin, each beside a thread that has just passed. */
static uint64_t begin_beside_ns(int captures)
{
    uint64_t took = 0;
    for (int i = 0; i < captures; i++) {
        cr_assert(gs_gate_pass());
        took += begin_ns();
        gs_gate_passed();
    }
    return took;
}

Test(capture_gate, all_captures_wait_half_a_second_for_those_who_pass)
{
    uint64_t took = begin_beside_ns(6);
    cr_assert_geq(took, PATIENCE - TOLERANCE, "they were given %lu ms", took / MS);
    took = begin_beside_ns(100);
    cr_assert_lt(took, 50 * SURE, "a hundred more took %lu ms", took / MS);
}

struct passer {
    int inside, leaving; /* atomic */
};

static void *pass_for_a_while(void *argument)
{
    struct passer *passer = argument;
    cr_assert(gs_gate_pass());
    __atomic_store_n(&passer->inside, 1, __ATOMIC_SEQ_CST);
    usleep(50000);
    __atomic_store_n(&passer->leaving, 1, __ATOMIC_SEQ_CST);
    gs_gate_passed();
    return NULL;
}

Test(capture_gate, a_capture_begins_once_they_are_through)
{
    struct passer passer = {0, 0};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, pass_for_a_while, &passer), 0);
    while (!__atomic_load_n(&passer.inside, __ATOMIC_SEQ_CST)) {
        usleep(100);
    }
    uint64_t took = begin_ns();
    /* Where the machine let it sleep for so long, it was right to give up. */
    cr_assert(__atomic_load_n(&passer.leaving, __ATOMIC_SEQ_CST) ||
                  took >= PATIENCE - TOLERANCE,
              "it began after %lu ms", took / MS);
    pthread_join(thread, NULL);
}

Test(capture_gate, patience_is_new_in_a_forked_child)
{
    (void)begin_beside_ns(6);
    gs_gate_reset();
    uint64_t took = begin_beside_ns(6);
    cr_assert_geq(took, PATIENCE - TOLERANCE, "%lu ms", took / MS);
}

Test(capture_gate, nobody_passes_while_something_captures)
{
    gs_captures_begin(STREAM, false, NULL, NULL);
    cr_assert_not(gs_gate_pass());
    gs_captures_end(STREAM, false, NULL);
    cr_assert(gs_gate_pass());
    gs_gate_passed();
    cr_assert_lt(begin_ns(), PATIENCE, "nobody is left inside");
}
