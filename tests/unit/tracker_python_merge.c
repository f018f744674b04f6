/*
 * tracker_python_merge.c - proves that Python frames stand where the interpreter
 * evaluated them: native frames between two evaluations stay between, the interpreter's
 * own go, and what cannot be placed stands together, in the interpreter's place.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "gs_locks.h"
#include "tracker/python/python.h"
#include "tracker/python/python_layout.h"

#define VERSION_3_12 0x030c01f0u

/* Code: the interpreter's from 0x10000, of which the evaluation is at 0x11000 and the
 * command's entry at 0x12000; others' from 0x20000. */
#define EVAL  0x11010u
#define INNER 0x10010u
#define MAIN  0x12010u

static uint64_t runtime[16], type[4];
static struct gs_mutex lock = GS_MUTEX(GS_RANK_STACKS);
static struct gs_python *python;

static void *no_state(void)
{
    return NULL;
}

static void start(void)
{
    struct gs_python_symbols symbols = {.version = VERSION_3_12,
                                        .runtime = runtime,
                                        .code_type = type,
                                        .thread_state = no_state,
                                        .code = {0x10000, 0x18000},
                                        .evaluation = {0x11000, 0x12000},
                                        .programs = {{0x12000, 0x12100}}};

    python = gs_python_create(&symbols, &lock, NULL);
    cr_assert_not_null(python);
}

static void stop(void)
{
    gs_python_destroy(python);
}

TestSuite(python_merge, .init = start, .fini = stop);

/* The interpreter's first places stand for native frames that are left out, and for
 * others. */
#define LEFT_OUT (GS_PYTHON_FRAME_BASE + 1)
#define SKIPPED  (LEFT_OUT + 1)
#define FIRST    (SKIPPED + 1)

/* "a" to "z" are Python frames, "|" ends a run that was placed at the next of `places`.
 */
static struct gs_python_walk walk_of(const char *text, const uintptr_t *places)
{
    struct gs_python_walk walk = {0};

    for (; *text; text++) {
        if (*text == '|')
            walk.native_addresses[walk.runs] = places ? places[walk.runs] : 0;
        walk.runs += *text == '|';
        walk.entries[walk.count++] =
            *text == '|' ? GS_PYTHON_RUN_END : FIRST + (uintptr_t)(*text - 'a');
    }
    return walk;
}

static const char *merged(const uintptr_t *frames, const uintptr_t *stack_pointers,
                          unsigned count, const struct gs_python_walk *walk,
                          unsigned depth)
{
    static char text[256];
    struct gs_native_walk native = {
        .frames = frames, .stack_pointers = stack_pointers, .count = count};
    struct gs_merged_stack out;
    size_t used = 0;

    gs_python_merge(python, &native, walk, depth, &out);
    for (unsigned i = 0; i < out.count; i++) {
        if (out.frames[i] == LEFT_OUT)
            text[used++] = '~';
        else if (gs_frame_is_python(out.frames[i]))
            text[used++] = (char)('a' + (out.frames[i] - FIRST));
        else
            used += (size_t)snprintf(text + used, sizeof(text) - used, "<%lx>",
                                     (unsigned long)out.frames[i]);
    }
    text[used] = '\0';
    if (out.truncated)
        strcat(text, "!");
    return text;
}

static const uintptr_t frames[] = {0x20010, INNER, EVAL, INNER, 0x20020,
                                   EVAL,    INNER, EVAL, MAIN,  0x20030};
static const uintptr_t pointers[] = {100, 200, 300, 400, 500, 600, 700, 800, 900, 1000};
#define COUNT GS_ARRAY_LEN(frames)

Test(python_merge, runs_stand_at_their_places)
{
    static const uintptr_t places[] = {310, 699, 800};
    struct gs_python_walk walk = walk_of("ab|c|de|", places);

    cr_expect_str_eq(merged(frames, pointers, COUNT, &walk, 32), "<20010>ab<20020>cde");
}

/* The compiler may have made several functions of the evaluation. */
Test(python_merge, a_place_tells_more_than_the_code)
{
    static const uintptr_t places[] = {210, 310};
    struct gs_python_walk walk = walk_of("a|b|", places);

    cr_expect_str_eq(merged(frames, pointers, COUNT, &walk, 32), "<20010>ab<20020>");
}

Test(python_merge, without_places_evaluations_are_counted)
{
    struct gs_python_walk walk = walk_of("ab|c|de|", NULL);

    cr_expect_str_eq(merged(frames, NULL, COUNT, &walk, 32), "<20010>ab<20020>cde");
    cr_expect_str_eq(merged(frames, pointers, COUNT, &walk, 32), "<20010>ab<20020>cde");
}

/* Another interpreter's evaluations lie further in. */
Test(python_merge, fewer_runs_are_the_outer_ones)
{
    struct gs_python_walk walk = walk_of("c|de|", NULL);

    cr_expect_str_eq(merged(frames, NULL, COUNT, &walk, 32), "<20010><20020>cde");
}

Test(python_merge, more_runs_than_evaluations_stand_together)
{
    static const uintptr_t nowhere[] = {310, 50, 810, 820};
    struct gs_python_walk walk = walk_of("a|b|c|d|", NULL);
    struct gs_python_walk placed = walk_of("a|b|c|d|", nowhere);

    cr_expect_str_eq(merged(frames, NULL, COUNT, &walk, 32), "<20010>abcd<20020>");
    cr_expect_str_eq(merged(frames, pointers, COUNT, &placed, 32), "<20010>abcd<20020>");
}

Test(python_merge, without_python_frames_the_native_ones_stay)
{
    struct gs_python_walk walk = {0};

    cr_expect_str_eq(merged(frames, pointers, 3, &walk, 32), "<20010><10010><11010>");
}

Test(python_merge, depth_counts_what_is_left)
{
    static const uintptr_t places[] = {310, 699, 800};
    struct gs_python_walk walk = walk_of("ab|c|de|", places);

    cr_expect_str_eq(merged(frames, pointers, COUNT, &walk, 7), "<20010>ab<20020>cde");
    walk.truncated = true;
    cr_expect_str_eq(merged(frames, pointers, COUNT, &walk, 7), "<20010>ab<20020>cde!");
}

/* However many native frames lie before them. */
Test(python_merge, the_depth_leaves_out_native_frames_alone)
{
    static const uintptr_t places[] = {310, 699, 800};
    struct gs_python_walk walk = walk_of("ab|c|de|", places);

    cr_expect_str_eq(merged(frames, pointers, COUNT, &walk, 6), "<20010>ab<20020>cde");
    cr_expect_str_eq(merged(frames, pointers, COUNT, &walk, 3), "<20010>ab~cde");
    cr_expect_str_eq(merged(frames, pointers, COUNT, &walk, 1), "<20010>ab~cde");
    walk = walk_of("ab|", places);
    cr_expect_str_eq(merged(frames, pointers, 5, &walk, 2), "<20010>ab!");
}

Test(python_merge, deep_native_frames_leave_room_for_python)
{
    uintptr_t deep[GS_STACK_MAX_DEPTH], stack_pointers[GS_STACK_MAX_DEPTH];
    uintptr_t place = 10 * (GS_STACK_MAX_DEPTH - 1) + 5;
    struct gs_python_walk walk = walk_of("ab|", &place);
    struct gs_native_walk native = {
        .frames = deep, .stack_pointers = stack_pointers, .count = GS_ARRAY_LEN(deep)};
    struct gs_merged_stack out;

    for (unsigned i = 0; i < GS_ARRAY_LEN(deep); i++) {
        deep[i] = 0x20010 + i;
        stack_pointers[i] = 10 * i;
    }
    deep[GS_ARRAY_LEN(deep) - 1] = EVAL;
    for (unsigned depth = 1; depth <= 125; depth++) {
        gs_python_merge(python, &native, &walk, depth, &out);
        cr_assert_eq(out.count, depth + 3, "depth %u: %u frames", depth, out.count);
        cr_expect_not(out.truncated);
        cr_expect_eq(out.frames[depth - 1], deep[depth - 1]);
        cr_expect_eq(out.frames[depth], LEFT_OUT);
        cr_expect_eq(out.frames[depth + 2], FIRST + 1);
    }
    for (unsigned depth = 126; depth <= GS_STACK_MAX_DEPTH; depth++) {
        gs_python_merge(python, &native, &walk, depth, &out);
        cr_expect_leq(out.count, GS_STACK_MAX_DEPTH);
    }
}

/* Without its outermost frames two functions' allocations would be one call site. */
Test(python_merge, too_deep_a_stack_keeps_both_ends)
{
    static const uintptr_t place[] = {310};
    struct gs_python_walk walk = {.runs = 1, .native_addresses = {place[0]}};
    struct gs_native_walk native = {
        .frames = frames, .stack_pointers = pointers, .count = COUNT};
    struct gs_merged_stack out;

    for (unsigned i = 0; i < 200; i++)
        walk.entries[walk.count++] = FIRST + i;
    walk.entries[walk.count++] = GS_PYTHON_RUN_END;
    gs_python_merge(python, &native, &walk, 32, &out);
    cr_assert_eq(out.count, GS_STACK_MAX_DEPTH);
    cr_expect_eq(out.frames[0], frames[0]);
    cr_expect_eq(out.frames[1], FIRST);
    cr_expect_eq(out.frames[94], FIRST + 93);
    cr_expect_eq(out.frames[95], SKIPPED);
    cr_expect_eq(out.frames[96], FIRST + 168);
    cr_expect_eq(out.frames[GS_STACK_MAX_DEPTH - 1], FIRST + 199);
}

Test(python_merge, a_run_that_was_cut_stands_at_the_next_evaluation)
{
    static const uintptr_t places[] = {310, 0};
    struct gs_python_walk walk = walk_of("a|bc|", places);

    walk.truncated = true;
    cr_expect_str_eq(merged(frames, pointers, COUNT, &walk, 32), "<20010>a<20020>bc!");
}

Test(python_merge, the_interpreter_is_known_by_its_code)
{
    static const uintptr_t others[] = {0x20010, 0x18001, 0x10000};

    cr_expect(gs_python_runs(python, frames, COUNT));
    cr_expect_not(gs_python_runs(python, others, GS_ARRAY_LEN(others)));
    cr_expect_not(gs_python_runs(python, frames, 1));
}
