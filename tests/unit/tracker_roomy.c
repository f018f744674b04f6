/*
 * tracker_roomy.c - proves that a call that needs room gets it, in the same thread and
 * from any stack, and that who walks the stack from there sees who asked for it.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "tracker/stacks/alt_stack.h"
#include "tracker/stacks/stacks.h"
#include "tracker/stacks/unwind.h"

#define SMALL ((size_t)16 << 10)
#define BELOW ((size_t)256 << 10)

static void *small_stack(void)
{
    char *memory = mmap(NULL, BELOW + SMALL, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert(memory != MAP_FAILED);
    return memory + BELOW;
}

/* Was anything below the stack written to? */
static bool is_clean_below(const char *stack)
{
    for (size_t i = 0; i < BELOW; i++) {
        if (stack[i - BELOW] != 0)
            return false;
    }
    return true;
}

static void run_in_thread(void *(*body)(void *), void *arg, char *stack)
{
    pthread_attr_t attributes;
    pthread_t thread;

    cr_assert_eq(pthread_attr_init(&attributes), 0);
    cr_assert_eq(pthread_attr_setstack(&attributes, stack, SMALL), 0);
    cr_assert_eq(pthread_create(&thread, &attributes, body, arg), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

static ucontext_t outside, inside;

static void run_in_fiber(void (*body)(void), char *stack)
{
    cr_assert_eq(getcontext(&inside), 0);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = SMALL;
    inside.uc_link = &outside;
    makecontext(&inside, body, 0);
    cr_assert_eq(swapcontext(&outside, &inside), 0);
}

/* ---- where the body runs ---- */

struct seen {
    uintptr_t asked_at, ran_at, ran_again_at;
    pthread_t thread;
};

static void take_much(void *arg)
{
    volatile char much[48 << 10];
    struct seen *seen = arg;

    memset((char *)much, 1, sizeof(much));
    seen->ran_at = (uintptr_t)__builtin_frame_address(0);
    seen->thread = pthread_self();
}

static void *ask(void *arg)
{
    struct seen *seen = arg;

    seen->asked_at = (uintptr_t)__builtin_frame_address(0);
    gs_alt_stack_call(GS_ALT_STACK_BYTES, take_much, seen);
    cr_expect(pthread_equal(seen->thread, pthread_self()), "the same thread");
    cr_expect_eq(gs_alt_stack_here.high, 0u, "it has come back");
    return NULL;
}

static struct seen fibers;

static void ask_in_fiber(void)
{
    (void)ask(&fibers);
}

Test(roomy, a_small_thread_gets_room_elsewhere)
{
    char *stack = small_stack();
    struct seen seen = {0};

    run_in_thread(ask, &seen, stack);
    cr_expect(seen.ran_at < (uintptr_t)stack || seen.ran_at >= (uintptr_t)stack + SMALL);
    cr_expect(is_clean_below(stack));
}

Test(roomy, a_fiber_gets_room_elsewhere)
{
    char *stack = small_stack();

    run_in_fiber(ask_in_fiber, stack);
    cr_expect(fibers.ran_at < (uintptr_t)stack ||
              fibers.ran_at >= (uintptr_t)stack + SMALL);
    cr_expect(is_clean_below(stack));
}

Test(roomy, a_thread_with_room_stays)
{
    struct seen seen = {0};

    (void)ask(&seen);
    cr_expect(seen.ran_at < seen.asked_at &&
              seen.asked_at - seen.ran_at < GS_ALT_STACK_BYTES);
}

static void note_again(void *arg)
{
    ((struct seen *)arg)->ran_again_at = (uintptr_t)__builtin_frame_address(0);
}

static void ask_again(void *arg)
{
    struct seen *seen = arg;

    seen->ran_at = (uintptr_t)__builtin_frame_address(0);
    cr_expect(gs_alt_stack_has(GS_ALT_STACK_BYTES));
    cr_expect_not(gs_alt_stack_has((size_t)1 << 30));
    gs_alt_stack_call(GS_ALT_STACK_BYTES, note_again, seen);
    cr_expect(seen->ran_again_at < seen->ran_at &&
              seen->ran_at - seen->ran_again_at < GS_ALT_STACK_BYTES);
}

static void *ask_twice(void *arg)
{
    gs_alt_stack_call(GS_ALT_STACK_BYTES, ask_again, arg);
    return NULL;
}

Test(roomy, who_has_room_there_stays_there)
{
    struct seen seen = {0};

    run_in_thread(ask_twice, &seen, small_stack());
    cr_expect_neq(seen.ran_again_at, 0u);
}

/* ---- who is seen from there ---- */

static uintptr_t caller;
static unsigned found;

static void look_for_caller(void *arg)
{
    enum gs_unwinder unwinder = *(enum gs_unwinder *)arg;
    uintptr_t frames[64];
    enum gs_walk_end end;
    unsigned count = gs_unwind_walk(unwinder, frames, 64, &end);

    for (unsigned i = 0; i < count; i++)
        found += frames[i] == caller;
}

static __attribute__((noinline)) void walk_from_there(enum gs_unwinder unwinder)
{
    caller = (uintptr_t)__builtin_return_address(0);
    found = 0;
    gs_alt_stack_call((size_t)1 << 19, look_for_caller, &unwinder);
    cr_expect_eq(found, 1, "unwinder %d", (int)unwinder);
}

static void *walk_in_thread(void *unused)
{
    static const enum gs_unwinder all[] = {GS_UNWIND_CFI, GS_UNWIND_FP, GS_UNWIND_GCC,
                                           GS_UNWIND_LIBUNWIND};

    for (size_t i = 0; i < GS_ARRAY_LEN(all); i++) {
        if (gs_unwind_prepare(all[i]) == all[i])
            walk_from_there(all[i]);
    }
    return unused;
}

static void *walk_in_small_thread(void *unused)
{
    walk_from_there(GS_UNWIND_CFI);
    walk_from_there(GS_UNWIND_FP);
    return unused;
}

/* With libgcc's part, CFI is proven from there, too. */
static void prepare(void *arg)
{
    *(enum gs_unwinder *)arg = gs_unwind_prepare(GS_UNWIND_AUTO);
}

static void *prepare_in_thread(void *arg)
{
    gs_alt_stack_call(GS_ALT_STACK_BYTES, prepare, arg);
    return NULL;
}

Test(roomy, walks_from_there_see_the_caller)
{
    pthread_attr_t attributes;
    pthread_t thread;

    cr_assert_eq(pthread_attr_init(&attributes), 0);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, (size_t)256 << 10), 0);
    cr_assert_eq(pthread_create(&thread, &attributes, walk_in_thread, NULL), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    run_in_thread(walk_in_small_thread, NULL, small_stack());
}

Test(roomy, cfi_is_proven_from_there)
{
    enum gs_unwinder chosen = GS_UNWIND_OFF;

    run_in_thread(prepare_in_thread, &chosen, small_stack());
    cr_expect_eq(chosen, GS_UNWIND_CFI);
}

/* One place, one stack: with room or without. */
static struct gs_stacks *stacks;

static void *capture(void *arg)
{
    *(uint32_t *)arg = gs_stacks_capture(stacks);
    return NULL;
}

Test(roomy, a_capture_is_the_same_with_room_or_without)
{
    const struct gs_stacks_config config = {.unwinder = GS_UNWIND_CFI, .depth = 16};
    uint32_t small = 0, large = 0;
    pthread_t thread;

    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_OK);
    run_in_thread(capture, &small, small_stack());
    cr_assert_eq(pthread_create(&thread, NULL, capture, &large), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_expect_neq(small, 0u);
    cr_expect_eq(small, large);
    gs_stacks_destroy(stacks);
}
