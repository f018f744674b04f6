/*
 * Proves that equal stacks have equal ids and different ones do not, from any number of
 * threads; that frames come back as they went in; and that shared tails are kept once.
 */
#include "tracker/stacks/stack_table.h"
#include "tracker/stacks/stacks.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8
#define SHARED  500
#define PRIVATE 300
#define DEPTH   16

static struct gs_stacks *stacks;

static void open_stacks(void)
{
    struct gs_stacks_config config = {.unwinder = GS_UNWIND_AUTO, .depth = DEPTH};

    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_OK);
}

static void close_stacks(void)
{
    gs_stacks_destroy(stacks);
}

TestSuite(stacks_table, .init = open_stacks, .fini = close_stacks, .timeout = 120);

/* Stack number `n` of owner `who`: outer frames are common to many, inner ones its own.
 */
static unsigned make_stack(uintptr_t *frames, unsigned who, unsigned n)
{
    unsigned count = 4 + n % (DEPTH - 3);

    for (unsigned i = 0; i < count; i++) {
        unsigned from_outside = count - 1 - i;

        frames[i] = 0x10000 + from_outside * 0x100;
        if (from_outside >= 3)
            frames[i] += ((uintptr_t)who << 40) + ((uintptr_t)n << 16);
    }
    return count;
}

Test(stacks_table, frames_come_back_and_ids_are_dense)
{
    uintptr_t frames[DEPTH], back[DEPTH];

    for (unsigned n = 0; n < 20000; n++) {
        unsigned count = make_stack(frames, 1, n);

        cr_assert_eq(gs_stacks_intern(stacks, frames, count), n + 1);
    }
    cr_assert_eq(gs_stacks_count(stacks), 20000);
    for (unsigned n = 0; n < 20000; n++) {
        unsigned count = make_stack(frames, 1, n);

        cr_assert_eq(gs_stacks_intern(stacks, frames, count), n + 1);
        cr_assert_eq(gs_stacks_frames(stacks, n + 1, back, DEPTH), count);
        cr_assert_arr_eq(back, frames, count * sizeof(frames[0]));
    }
    cr_assert_eq(gs_stacks_count(stacks), 20000);
}

Test(stacks_table, unknown_and_empty_are_nothing)
{
    uintptr_t frame = 0x1234;
    struct gs_module module;

    cr_assert_eq(gs_stacks_intern(stacks, &frame, 0), 0);
    cr_assert_eq(gs_stacks_intern(stacks, NULL, 3), 0);
    cr_assert_eq(gs_stacks_intern(NULL, &frame, 1), 0);
    for (uint32_t id = 0; id < 3; id++) {
        cr_assert_eq(gs_stacks_frames(stacks, id, &frame, 1), 0);
        cr_assert_eq(gs_stacks_module(stacks, id, frame, &module), GS_ERR_NOT_FOUND);
        cr_assert_not(gs_stacks_truncated(stacks, id));
    }
    cr_assert_eq(gs_stacks_frames(stacks, UINT32_MAX, &frame, 1), 0);
    cr_assert_eq(frame, 0x1234);
    gs_stacks_destroy(NULL);
}

Test(stacks_table, tails_prefixes_and_order_are_told_apart)
{
    const uintptr_t frames[] = {1, 2, 3, 2, 1};
    const uintptr_t reversed[] = {2, 1, 3};
    uint32_t all = gs_stacks_intern(stacks, frames, 5);
    uint32_t tail = gs_stacks_intern(stacks, frames + 1, 4);
    uint32_t head = gs_stacks_intern(stacks, frames, 3);
    uint32_t other = gs_stacks_intern(stacks, reversed, 3);
    uintptr_t back[5];

    cr_assert(all != tail && all != head && tail != head && other != head);
    cr_assert_eq(gs_stacks_frames(stacks, tail, back, 5), 4);
    cr_assert_arr_eq(back, frames + 1, 4 * sizeof(back[0]));
    cr_assert_eq(gs_stacks_frames(stacks, head, back, 5), 3);
    cr_assert_arr_eq(back, frames, 3 * sizeof(back[0]));
    cr_assert_eq(gs_stacks_intern(stacks, frames, 5), all);
}

Test(stacks_table, cut_stack_differs_from_a_whole_one_of_the_same_frames)
{
    uintptr_t frames[DEPTH + 1], back[DEPTH];
    uint32_t whole, cut;

    for (unsigned i = 0; i <= DEPTH; i++)
        frames[i] = 0x1000 + i;
    whole = gs_stacks_intern(stacks, frames, DEPTH);
    cut = gs_stacks_intern(stacks, frames, DEPTH + 1);
    cr_assert_neq(whole, cut);
    cr_assert_not(gs_stacks_truncated(stacks, whole));
    cr_assert(gs_stacks_truncated(stacks, cut));
    cr_assert_eq(gs_stacks_frames(stacks, cut, back, DEPTH), DEPTH);
    cr_assert_arr_eq(back, frames, sizeof(back));
}

Test(stacks_table, frames_writes_no_more_than_asked)
{
    const uintptr_t frames[] = {11, 12, 13};
    uintptr_t back[3] = {0, 77, 77};
    uint32_t id = gs_stacks_intern(stacks, frames, 3);

    cr_assert_eq(gs_stacks_frames(stacks, id, back, 1), 3);
    cr_assert(back[0] == 11 && back[1] == 77 && back[2] == 77);
}

Test(stacks_table, shared_outer_frames_are_kept_once)
{
    uintptr_t frames[DEPTH];
    size_t before = gs_stacks_bytes(stacks), each;

    for (unsigned n = 0; n < 5000; n++) {
        for (unsigned i = 0; i < DEPTH; i++)
            frames[i] = 0x5000 + i;
        frames[0] = 0x100000 + n; /* only the innermost differs */
        cr_assert_neq(gs_stacks_intern(stacks, frames, DEPTH), 0);
    }
    each = (gs_stacks_bytes(stacks) - before) / 5000;
    cr_assert_lt(each, DEPTH * sizeof(uintptr_t), "%zu bytes each", each);
}

/* Two stacks with one hash: found by frames, not by hash. */
Test(stacks_table, equal_hashes_do_not_make_equal_stacks)
{
    struct gs_stack_table *table = calloc(1, sizeof(*table));
    const uintptr_t a[] = {1, 2, 3}, b[] = {1, 2, 4};
    uint32_t first, second;

    cr_assert_not_null(table);
    first = gs_stack_table_add(table, 42, a, 3, false, 0);
    second = gs_stack_table_add(table, 42, b, 3, false, 0);
    cr_assert(first != 0 && second != 0 && first != second);
    cr_assert_eq(gs_stack_table_find(table, 42, a, 3, false), first);
    cr_assert_eq(gs_stack_table_find(table, 42, b, 3, false), second);
    cr_assert_eq(gs_stack_table_find(table, 42, a, 3, true), 0);
    cr_assert_eq(gs_stack_table_find(table, 42, a, 2, false), 0);
    gs_stack_table_clear(table);
    free(table);
}

struct worker {
    pthread_t thread;
    unsigned who;
    uint32_t shared[SHARED], own[PRIVATE];
    uint32_t captured;
};

static pthread_barrier_t start_line;

/* However often the compiler writes the loop out, it ends in this one place. */
static __attribute__((noinline)) uint32_t capture_here(void)
{
    volatile uint32_t id = gs_stacks_capture(stacks);

    return id;
}

static void *intern_many(void *arg)
{
    struct worker *worker = arg;
    uintptr_t frames[DEPTH], back[DEPTH];

    pthread_barrier_wait(&start_line);
    for (unsigned i = 0; i < SHARED; i++) {
        /* some together, some in another order */
        unsigned n = worker->who % 2 ? i : (i * 7 + worker->who * 61) % SHARED;
        unsigned count = make_stack(frames, 0, n);

        worker->shared[n] = gs_stacks_intern(stacks, frames, count);
        if (i < PRIVATE) {
            count = make_stack(frames, 1 + worker->who, i);
            worker->own[i] = gs_stacks_intern(stacks, frames, count);
            cr_assert_eq(gs_stacks_frames(stacks, worker->own[i], back, DEPTH), count);
            cr_assert_arr_eq(back, frames, count * sizeof(frames[0]));
        }
    }
    for (volatile unsigned i = 0; i < SHARED; i++) {
        worker->captured = capture_here();
        cr_assert_neq(worker->captured, 0);
    }
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

Test(stacks_table, threads_agree_on_ids)
{
    static struct worker workers[THREADS];
    static uint32_t all[SHARED + THREADS * PRIVATE];
    size_t used = 0;

    pthread_barrier_init(&start_line, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].who = i;
        cr_assert_eq(pthread_create(&workers[i].thread, NULL, intern_many, &workers[i]),
                     0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (unsigned n = 0; n < SHARED; n++) {
        for (unsigned i = 1; i < THREADS; i++)
            cr_assert_eq(workers[i].shared[n], workers[0].shared[n]);
        all[used++] = workers[0].shared[n];
    }
    for (unsigned i = 0; i < THREADS; i++) {
        cr_assert_eq(workers[i].captured, workers[0].captured, "one place, one stack");
        for (unsigned n = 0; n < PRIVATE; n++)
            all[used++] = workers[i].own[n];
    }
    qsort(all, used, sizeof(all[0]), compare_ids);
    cr_assert_neq(all[0], 0);
    for (size_t i = 1; i < used; i++)
        cr_assert_neq(all[i - 1], all[i], "one id for two stacks");
    cr_assert_eq(gs_stacks_count(stacks), used + 1);
}

static _Atomic int stop_interning;

static void *intern_until_stopped(void *arg)
{
    uintptr_t frames[DEPTH];

    for (unsigned n = 0; stop_interning == 0; n++)
        gs_stacks_intern(stacks, frames, make_stack(frames, *(unsigned *)arg, n));
    return NULL;
}

/* The table's lock and the loader's are both held by others in many of these moments. */
Test(stacks_table, fork_leaves_the_child_a_table_that_works)
{
    pthread_t threads[3];
    unsigned owners[3] = {20, 21, 22};
    uintptr_t frames[DEPTH];
    int bad = 0;

    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, intern_until_stopped, &owners[i]),
                     0);
    for (unsigned n = 0; n < 400 && bad == 0; n++) {
        int status = -1;
        pid_t pid;

        gs_stacks_before_fork(stacks);
        pid = fork();
        if (pid != 0)
            gs_stacks_after_fork(stacks);
        else
            gs_stacks_after_fork_in_child(stacks);
        if (pid == 0) {
            unsigned count = make_stack(frames, 4, n);

            alarm(120);
            _exit(gs_stacks_intern(stacks, frames, count) != 0 ? 0 : 1);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        bad += status != 0;
    }
    stop_interning = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(bad, 0);
}
