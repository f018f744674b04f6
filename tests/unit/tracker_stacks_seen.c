/*
 * Proves that a stack is recognised only where a walk would find the very same: stacks of
 * one depth that differ in any one caller, threads whose stacks lie at the same place,
 * several tables at once, and slots that threads fight for.
 *
 * The callers come in two kinds of the same frame size, so that stacks of equal length
 * begin in the same frame and share their place in the table: recognising by anything
 * less than the words on the stack would mix them up.
 *
 * And that it is recognised wherever it may be: with other data in the registers that
 * functions save, and among as many walks that start alike as are kept.
 */
#include "tracker/stacks/stacks.h"
#include "tracker/stacks/unwind.h"
#include "tracker/stacks/walk_cache.h"

#include <criterion/criterion.h>
#include <pthread.h>

#define DEPTH 8u

static struct gs_stacks *open_stacks(enum gs_unwinder unwinder)
{
    struct gs_stacks_config config = {.unwinder = unwinder, .depth = 64};
    struct gs_stacks *stacks = NULL;

    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_OK);
    return stacks;
}

/* What is called: bit k of `path` chooses the kind of the k-th caller. */
struct call {
    struct gs_stacks *stacks;
    unsigned path;
    uint32_t id;
};

static void descend(struct call *call, unsigned left);

/* Both do the same; the addresses that they are returned to differ. */
__attribute__((noinline)) static void call_even(struct call *call, unsigned left)
{
    descend(call, left);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void call_odd(struct call *call, unsigned left)
{
    descend(call, left);
    __asm__ volatile("nop" ::: "memory");
}

__attribute__((noinline)) static void descend(struct call *call, unsigned left)
{
    if (left == 0)
        call->id = gs_stacks_capture(call->stacks);
    else if (call->path >> (left - 1) & 1)
        call_odd(call, left - 1);
    else
        call_even(call, left - 1);
    __asm__ volatile("" ::: "memory");
}

static uint32_t capture_path(struct gs_stacks *stacks, unsigned path)
{
    struct call call = {.stacks = stacks, .path = path};

    descend(&call, DEPTH);
    return call.id;
}

/* The callers that the stack shows, as a path. */
static unsigned path_of(struct gs_stacks *stacks, uint32_t id)
{
    uintptr_t frames[64];
    unsigned count = gs_stacks_frames(stacks, id, frames, 64), path = 0, found = 0;

    for (unsigned i = 0; i < count && found < DEPTH; i++) {
        bool even = frames[i] - (uintptr_t)call_even < 64;
        bool odd = frames[i] - (uintptr_t)call_odd < 64;

        if (even && odd) /* they lie close together: the nearer one is it */
            even = !(odd = (uintptr_t)call_odd > (uintptr_t)call_even
                               ? frames[i] > (uintptr_t)call_odd
                               : frames[i] < (uintptr_t)call_even);
        if (even || odd)
            path |= (unsigned)odd << found++;
    }
    cr_assert_eq(found, DEPTH);
    return path;
}

static void check_all_paths(enum gs_unwinder unwinder)
{
    struct gs_stacks *stacks = open_stacks(unwinder);
    uint32_t ids[1 << DEPTH];

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 1 << DEPTH; i++) {
            /* One bit changes from step to step, in turn the innermost and all others. */
            unsigned path = i ^ i >> 1;
            uint32_t id = capture_path(stacks, path);

            cr_assert_neq(id, 0);
            cr_assert_eq(path_of(stacks, id), path);
            if (round > 0)
                cr_assert_eq(id, ids[path]);
            ids[path] = id;
        }
    }
    gs_stacks_destroy(stacks);
}

Test(tracker_stacks_seen, cfi_tells_callers_apart_in_one_place)
{
    check_all_paths(GS_UNWIND_CFI);
}

Test(tracker_stacks_seen, fp_tells_callers_apart_in_one_place)
{
    check_all_paths(GS_UNWIND_FP);
}

Test(tracker_stacks_seen, repeated_capture_is_recognised)
{
    struct gs_stacks *stacks = open_stacks(GS_UNWIND_CFI);
    struct gs_walk_start start = {.stacks = 0};
    uint32_t first = 0, id = 0;

    /* Volatile: unrolled, the calls would be made in four places. */
    for (volatile unsigned i = 0; i < 4; i++) {
        id = capture_path(stacks, 5);
        if (i > 0)
            cr_assert_eq(id, first);
        first = id;
    }
    /* No gs_stacks has the number 0. */
    start.base = start.high = (uintptr_t)__builtin_frame_address(0);
    start.high += 256;
    cr_assert_eq(gs_walk_cache_find(&start), 0);
    gs_stacks_destroy(stacks);
}

#if defined(__x86_64__)

#define DATA_FIRST 0x5eed5eed5eed0001u

/* Code without frame pointers: keeps data in the register while it calls. */
void call_with_data(uintptr_t data, void *argument, void (*call)(void *));
__asm__(".pushsection .text\n"
        ".type call_with_data, @function\n"
        "call_with_data:\n"
        "    .cfi_startproc\n"
        "    push %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset 6, -16\n"
        "    mov %rdi, %rbp\n"
        "    mov %rsi, %rdi\n"
        "    call *%rdx\n"
        "    pop %rbp\n"
        "    .cfi_def_cfa_offset 8\n"
        "    .cfi_restore 6\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size call_with_data, . - call_with_data\n"
        ".popsection\n");

struct read_words {
    struct gs_walk_reads notes;
    uintptr_t words[GS_WALK_WORDS];
};

static void record_walk(void *argument)
{
    struct read_words *read = argument;
    uintptr_t frames[64];
    enum gs_walk_end end;

    read->notes.base = (uintptr_t)__builtin_frame_address(0);
    cr_assert_gt(gs_unwind_walk_recording(GS_UNWIND_CFI, frames, 64, &end, &read->notes),
                 3);
    cr_assert_leq(read->notes.count, GS_WALK_WORDS);
    for (unsigned i = 0; i < read->notes.count; i++)
        read->words[i] = ((const uintptr_t *)read->notes.base)[read->notes.offsets[i]];
}

/* Fails if a saved register is recorded that no step of the walk uses: then a program
 * without frame pointers is recognised only with the same data, and so hardly ever. And
 * if one is left out that a step uses: this function's own frame pointer. */
Test(tracker_stacks_seen, data_in_saved_registers_is_not_compared)
{
    static struct read_words walks[2];
    const struct gs_walk_reads *notes = &walks[0].notes, *again = &walks[1].notes;
    bool has_own = false;

    for (volatile unsigned i = 0; i < 2; i++)
        call_with_data(DATA_FIRST + i, &walks[i], record_walk);
    cr_assert_gt(notes->count, 3);
    cr_assert_eq(again->count, notes->count);
    for (unsigned i = 0; i < notes->count; i++) {
        cr_assert_neq(walks[0].words[i], DATA_FIRST);
        has_own |= walks[0].words[i] == (uintptr_t)__builtin_frame_address(0);
        cr_assert_eq(walks[1].words[i], walks[0].words[i]);
        cr_assert_eq(again->offsets[i], notes->offsets[i]);
    }
    cr_assert(has_own);
}

#endif

#define ALIKE 4u

/* Fails if fewer walks with one start are kept, or if they drive each other out. */
Test(tracker_stacks_seen, walks_that_start_alike_are_all_recognised)
{
    static uintptr_t stack[16]; /* no frame record: the start is the base alone */
    static struct gs_walk_reads notes = {
        .base = (uintptr_t)stack, .generation = 7, .count = 1, .offsets = {9}};
    struct gs_walk_start start = {.base = (uintptr_t)stack,
                                  .high = (uintptr_t)(stack + 16),
                                  .generation = 7,
                                  .stacks = UINT64_MAX};
    unsigned chance = 1;

    for (unsigned i = 0; i < ALIKE; i++) {
        stack[9] = 100 + i;
        cr_assert_eq(gs_walk_cache_find(&start), 0);
        gs_walk_cache_add(&start, &notes, 1 + i);
    }
    for (unsigned round = 0; round < 1000; round++) {
        unsigned i = (chance = chance * 1103515245 + 12345) >> 16 & (ALIKE - 1);

        stack[9] = 100 + i;
        cr_assert_eq(gs_walk_cache_find(&start), 1 + i);
    }
    stack[9] = 99;
    cr_assert_eq(gs_walk_cache_find(&start), 0);
}

/* Fails if a walk of the deepest stack reads more words than the cache keeps: then each
 * allocation of a deep program walks again, ten times as slow. */
Test(tracker_stacks_seen, the_deepest_walk_is_recognised)
{
    enum { WORDS = 2 * (GS_STACK_MAX_DEPTH + GS_WALK_INNER_MAX) };
    static uintptr_t stack[WORDS + 2];
    static struct gs_walk_reads notes = {.base = (uintptr_t)stack, .generation = 7};
    struct gs_walk_start start = {.base = (uintptr_t)stack,
                                  .high = (uintptr_t)(stack + WORDS + 2),
                                  .generation = 7,
                                  .stacks = UINT64_MAX - 1};

    for (unsigned i = 0; i < WORDS; i++) {
        stack[2 + i] = 1000 + i;
        gs_walk_record(&notes, (uintptr_t)&stack[2 + i]);
    }
    gs_walk_cache_add(&start, &notes, 5);
    cr_assert_eq(gs_walk_cache_find(&start), 5);
    stack[WORDS + 1]++; /* the outermost word of all */
    cr_assert_eq(gs_walk_cache_find(&start), 0);
}

/* A table of stacks that is mapped where another was gets none of that one's ids. */
Test(tracker_stacks_seen, ids_end_with_their_table)
{
    for (unsigned i = 0; i < 20; i++) {
        struct gs_stacks *stacks = open_stacks(GS_UNWIND_CFI);

        for (unsigned k = 0; k <= i; k++) {
            uint32_t id = capture_path(stacks, i + k);
            cr_assert_eq(id, k + 1);
            cr_assert_eq(path_of(stacks, id), i + k);
        }
        gs_stacks_destroy(stacks);
    }
}

static void *capture_in_thread(void *argument)
{
    struct call *call = argument;

    for (unsigned i = 0; i < 400; i++) {
        unsigned path = (call->path * 37 + i * 11) % (1 << DEPTH);
        uint32_t id = capture_path(call->stacks, path);

        if (id == 0 || path_of(call->stacks, id) != path)
            call->id++;
    }
    return NULL;
}

/* One after the other they get the same stack; at once they fight for the places. */
Test(tracker_stacks_seen, threads_see_their_own_stacks)
{
    struct gs_stacks *stacks = open_stacks(GS_UNWIND_CFI);
    struct call calls[8];
    pthread_t threads[8];

    for (unsigned round = 0; round < 8; round++) {
        unsigned at_once = round % 2 ? 8 : 1;

        for (unsigned i = 0; i < at_once; i++) {
            calls[i] = (struct call){.stacks = stacks, .path = round * 8 + i};
            cr_assert_eq(pthread_create(&threads[i], NULL, capture_in_thread, &calls[i]),
                         0);
        }
        for (unsigned i = 0; i < at_once; i++) {
            pthread_join(threads[i], NULL);
            cr_assert_eq(calls[i].id, 0);
        }
    }
    gs_stacks_destroy(stacks);
}
