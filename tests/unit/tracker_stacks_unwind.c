/*
 * Proves that every way of unwinding sees the same callers, on plain, odd and foreign
 * stacks; that a walk leaves nothing behind (errno, re-entry); and that modules which are
 * replaced while threads walk lead neither to faults nor to wrong stacks.
 */
#include "tracker/stacks/stacks.h"
#include "tracker/stacks/unwind.h"
#include "tracker_stacks_fixtures.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define WAYS 4

/* libunwind takes a mutex when a thread ends, after ThreadSanitizer has let go of it. */
#if defined(__SANITIZE_THREAD__)
#define LIBUNWIND GS_UNWIND_CFI
#else
#define LIBUNWIND GS_UNWIND_LIBUNWIND
#endif

static const enum gs_unwinder way_names[WAYS] = {GS_UNWIND_GCC, GS_UNWIND_CFI, LIBUNWIND,
                                                 GS_UNWIND_FP};
static struct gs_stacks *ways[WAYS];
static uint32_t ids[WAYS];
static enum gs_walk_end cfi_end; /* of a walk by CFI alone, without GCC's help */

typedef int enter_function(int (*call)(void *), void *argument);

static enter_function *find_enter(void *module, const char *name)
{
    return (enter_function *)dlsym(module, name);
}

/* ThreadSanitizer asks the loader before it is set up itself. */
#if !defined(__SANITIZE_THREAD__)
#define OWN_LOADER_CALL 1

static __thread void (*during_loader_call)(void);
static __thread unsigned loader_calls;

/* In front of libc's: counts, and lets a test act in the middle of a capture. */
int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
    static int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
    void (*during)(void) = during_loader_call;

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    loader_calls++;
    during_loader_call = NULL;
    if (during != NULL)
        during();
    return real(callback, data);
}
#endif

static struct gs_stacks *new_stacks(enum gs_unwinder unwinder, unsigned depth)
{
    struct gs_stacks_config config = {.unwinder = unwinder, .depth = depth};
    struct gs_stacks *stacks = NULL;

    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_OK);
    return stacks;
}

static void open_ways(void)
{
    for (int i = 0; i < WAYS; i++)
        ways[i] = new_stacks(way_names[i], GS_STACK_MAX_DEPTH);
    cr_assert_eq(gs_stacks_unwinder(ways[0]), GS_UNWIND_GCC);
    cr_assert_eq(gs_stacks_unwinder(ways[1]), GS_UNWIND_CFI);
}

static void close_ways(void)
{
    for (int i = 0; i < WAYS; i++)
        gs_stacks_destroy(ways[i]);
}

TestSuite(stacks_unwind, .init = open_ways, .fini = close_ways, .timeout = 120);

/* All ways from one call instruction, so that all frames can be compared. */
static __attribute__((noinline)) int capture_all(void *unused)
{
    uintptr_t frames[GS_STACK_MAX_DEPTH];

    (void)unused;
    gs_unwind_cfi(frames, GS_STACK_MAX_DEPTH, &cfi_end);
    for (volatile int i = 0; i < WAYS; i++) /* volatile: not unrolled, one call */
        ids[i] = gs_stacks_capture(ways[i]);
    return 1;
}

/* The first `frames` frames of ways `a` and `b` are the same. */
static void assert_same(int a, int b, unsigned frames)
{
    uintptr_t left[GS_STACK_MAX_DEPTH], right[GS_STACK_MAX_DEPTH];
    unsigned count = gs_stacks_frames(ways[a], ids[a], left, GS_STACK_MAX_DEPTH);
    unsigned other = gs_stacks_frames(ways[b], ids[b], right, GS_STACK_MAX_DEPTH);

    cr_assert(count >= frames && other >= frames, "way %d: %u, way %d: %u frames", a,
              count, b, other);
    for (unsigned i = 0; i < frames; i++)
        cr_assert_eq(left[i], right[i], "frame %u of ways %d and %d: %#lx, %#lx", i, a, b,
                     (unsigned long)left[i], (unsigned long)right[i]);
}

/* libgcc is the reference: CFI must see exactly what it sees. */
static void assert_cfi_is_exact(unsigned at_least)
{
    unsigned count = gs_stacks_frames(ways[0], ids[0], NULL, 0);

    cr_assert_geq(count, at_least);
    cr_assert_eq(gs_stacks_frames(ways[1], ids[1], NULL, 0), count);
    assert_same(0, 1, count);
}

static __attribute__((noinline)) int chain(int left)
{
    volatile int result = 0;

    result += left > 0 ? chain(left - 1) : capture_all(NULL);
    return result;
}

Test(stacks_unwind, ways_agree_on_a_known_chain)
{
    uintptr_t frames[GS_STACK_MAX_DEPTH];

    cr_assert_eq(chain(12), 1);
    assert_cfi_is_exact(14);
    assert_same(0, 2, 14);
    assert_same(0, 3, 14);
    cr_assert_geq(gs_stacks_frames(ways[1], ids[1], frames, GS_STACK_MAX_DEPTH), 14);
    /* innermost first: capture_all, then the recursion, which returns to one place */
    cr_assert(frames[0] > (uintptr_t)capture_all &&
              frames[0] < (uintptr_t)capture_all + 8192);
    cr_assert(frames[1] > (uintptr_t)chain && frames[1] < (uintptr_t)chain + 512);
    cr_assert_eq(frames[2], frames[5]);
}

/* A frame whose size is known only at run time: the CFA hangs on the frame pointer. */
static __attribute__((noinline)) int variable_frame(size_t bytes)
{
    volatile char *space = __builtin_alloca(bytes);
    int result;

    space[0] = 1;
    space[bytes - 1] = 2;
    result = capture_all(NULL);
    return result + space[0] + space[bytes - 1];
}

/* A stack pointer realigned beyond the ABI, and that variable too: GCC describes the CFA
 * by an expression. */
static __attribute__((noinline)) int realigned_frame(size_t bytes)
{
    volatile char space[256] __attribute__((aligned(128)));
    volatile char *more = __builtin_alloca(bytes);
    int result;

    space[0] = bytes > 100;
    more[bytes - 1] = 3;
    result = variable_frame(bytes);
    return result + space[0] + more[bytes - 1];
}

Test(stacks_unwind, odd_frames_are_walked_exactly)
{
    cr_assert_gt(realigned_frame(1234), 0);
    assert_cfi_is_exact(4);
    cr_assert_eq(cfi_end, GS_WALK_OUTERMOST);
}

static int compare_and_capture(const void *a, const void *b)
{
    capture_all(NULL);
    return *(const int *)a - *(const int *)b;
}

Test(stacks_unwind, frames_of_libc_are_walked_exactly)
{
    int numbers[] = {3, 1};

    qsort(numbers, 2, sizeof(int), compare_and_capture);
    assert_cfi_is_exact(5);
}

static void handle_signal(int number)
{
    (void)number;
    capture_all(NULL);
}

Test(stacks_unwind, signal_handler_sees_what_it_interrupted)
{
    signal(SIGUSR1, handle_signal);
    raise(SIGUSR1);
    assert_cfi_is_exact(5);
    cr_assert_eq(cfi_end, GS_WALK_FOREIGN);
}

Test(stacks_unwind, alternate_signal_stack_is_left_to_the_unwinder_that_can)
{
    static char space[256 << 10];
    stack_t alternate = {.ss_sp = space, .ss_size = sizeof(space)};
    struct sigaction action = {.sa_handler = handle_signal, .sa_flags = SA_ONSTACK};

    cr_assert_eq(sigaltstack(&alternate, NULL), 0);
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    raise(SIGUSR1);
    assert_cfi_is_exact(5);
    cr_assert_eq(ids[3], 0, "frame pointers cannot know this stack");
}

static void *capture_in_thread(void *unused)
{
    (void)unused;
    chain(3);
    return NULL;
}

Test(stacks_unwind, threads_are_walked_to_their_start)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, capture_in_thread, NULL), 0);
    pthread_join(thread, NULL);
    assert_cfi_is_exact(6);
}

Test(stacks_unwind, wild_frame_pointer_ends_the_walk)
{
    void *module = dlopen(fixture_path("plugin_small.so"), RTLD_NOW);

    cr_assert_not_null(module, "%s", dlerror());
    find_enter(module, "plugin_enter_wild")(capture_all, NULL);
    assert_cfi_is_exact(4);
    cr_assert_neq(ids[3], 0);
    cr_assert_eq(gs_stacks_frames(ways[3], ids[3], NULL, 0), 2);
    cr_assert(gs_stacks_truncated(ways[3], ids[3]));
}

Test(stacks_unwind, auto_prefers_cfi_and_off_captures_nothing)
{
    struct gs_stacks *automatic = new_stacks(GS_UNWIND_AUTO, 8);
    struct gs_stacks *off = new_stacks(GS_UNWIND_OFF, 8);

    cr_assert_eq(gs_stacks_unwinder(automatic), GS_UNWIND_CFI);
    cr_assert_neq(gs_stacks_capture(automatic), 0);
    cr_assert_eq(gs_stacks_unwinder(off), GS_UNWIND_OFF);
    cr_assert_eq(gs_stacks_capture(off), 0);
    cr_assert_eq(gs_stacks_capture(NULL), 0);
    gs_stacks_destroy(off);
    gs_stacks_destroy(automatic);
}

Test(stacks_unwind, bad_configurations_are_refused)
{
    struct gs_stacks_config config = {.unwinder = GS_UNWIND_AUTO, .depth = 0};
    struct gs_stacks *stacks = NULL;

    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_ERR_INVALID);
    config.depth = GS_STACK_MAX_DEPTH + 1;
    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_ERR_INVALID);
    config.depth = 4;
    config.own_begin = 2;
    config.own_end = 1;
    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_ERR_INVALID);
    config.own_begin = 1;
    config.unwinder = (enum gs_unwinder)99;
    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_ERR_INVALID);
    cr_assert_eq(gs_stacks_create(NULL, &stacks), GS_ERR_INVALID);
    cr_assert_null(stacks);
}

/* One call instruction for whatever depth, so that the frames can be compared. */
static __attribute__((noinline)) void capture_two(struct gs_stacks **two, uint32_t *out)
{
    for (volatile int i = 0; i < 2; i++)
        out[i] = gs_stacks_capture(two[i]);
}

static __attribute__((noinline)) int chain_two(int left, struct gs_stacks **two,
                                               uint32_t *out)
{
    volatile int result = 1;

    if (left > 0)
        result += chain_two(left - 1, two, out);
    else
        capture_two(two, out);
    return result;
}

Test(stacks_unwind, depth_cuts_the_outer_end_and_says_so)
{
    for (int way = 0; way < WAYS; way++) {
        struct gs_stacks *two[2] = {new_stacks(way_names[way], 5), ways[way]};
        uintptr_t cut[GS_STACK_MAX_DEPTH], whole[GS_STACK_MAX_DEPTH];
        uint32_t out[2];

        chain_two(20, two, out);
        cr_assert_eq(gs_stacks_frames(two[0], out[0], cut, GS_STACK_MAX_DEPTH), 5);
        cr_assert_geq(gs_stacks_frames(two[1], out[1], whole, GS_STACK_MAX_DEPTH), 22);
        cr_assert_arr_eq(cut, whole, 5 * sizeof(cut[0]));
        cr_assert(gs_stacks_truncated(two[0], out[0]));
        if (way_names[way] != GS_UNWIND_FP)
            cr_assert_not(gs_stacks_truncated(two[1], out[1]), "way %d", way);
        gs_stacks_destroy(two[0]);
    }
}

Test(stacks_unwind, deeper_than_the_array_is_truncated)
{
    struct gs_stacks *two[2] = {ways[1], ways[0]};
    uint32_t out[2];

    chain_two(GS_STACK_MAX_DEPTH + 50, two, out);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(gs_stacks_frames(two[i], out[i], NULL, 0), GS_STACK_MAX_DEPTH);
        cr_assert(gs_stacks_truncated(two[i], out[i]));
    }
}

Test(stacks_unwind, own_range_is_dropped_from_the_inner_end_only)
{
    struct gs_stacks_config config = {.unwinder = GS_UNWIND_CFI,
                                      .depth = GS_STACK_MAX_DEPTH,
                                      .own_begin = (uintptr_t)capture_two,
                                      .own_end = (uintptr_t)capture_two + 1};
    struct gs_stacks *two[2] = {ways[1], NULL};
    uintptr_t whole[GS_STACK_MAX_DEPTH], trimmed[GS_STACK_MAX_DEPTH];
    unsigned count;
    uint32_t out[2];

    /* where capture_two returns into itself is inside it, wherever it ends */
    chain_two(0, two, out);
    count = gs_stacks_frames(ways[1], out[0], whole, GS_STACK_MAX_DEPTH);
    config.own_end = whole[0];
    cr_assert_eq(gs_stacks_create(&config, &two[1]), GS_OK);
    chain_two(0, two, out);
    cr_assert_eq(gs_stacks_frames(ways[1], out[0], whole, GS_STACK_MAX_DEPTH), count);
    cr_assert_eq(gs_stacks_frames(two[1], out[1], trimmed, GS_STACK_MAX_DEPTH),
                 count - 1);
    cr_assert_eq(trimmed[0], whole[1]);
    gs_stacks_destroy(two[1]);
}

#ifdef OWN_LOADER_CALL
static void spoil_errno(void)
{
    errno = EIO;
}

Test(stacks_unwind, errno_is_kept)
{
    for (int round = 0; round < 4; round++) {
        during_loader_call = spoil_errno;
        errno = 1234;
        ids[1] = gs_stacks_capture(ways[1]);
        cr_assert_neq(ids[1], 0);
        cr_assert_eq(errno, 1234);
    }
}

Test(stacks_unwind, known_stacks_ask_the_loader_nothing)
{
    for (volatile int round = 0; round < 4; round++) {
        if (round == 3)
            loader_calls = 0;
        ids[1] = gs_stacks_capture(ways[1]);
        cr_assert_neq(ids[1], 0);
    }
    cr_assert_eq(loader_calls, 0);
}

static uint32_t inner_id;

static void capture_in_the_middle(void)
{
    inner_id = gs_stacks_capture(ways[1]);
}

Test(stacks_unwind, capture_within_a_capture_gives_none)
{
    inner_id = 99;
    during_loader_call = capture_in_the_middle;
    cr_assert_neq(gs_stacks_capture(ways[1]), 0);
    cr_assert_eq(inner_id, 0, "the loader was not asked, or the inner capture went on");
    cr_assert_neq(gs_stacks_capture(ways[1]), 0);
}
#endif

/*
 * The second plug-in returns to the addresses of the first, from frames of another size.
 * libunwind's memory of the first would lead it off the stack: a crash. All ways stay
 * here in one process and thread, as in a program.
 */
Test(stacks_unwind, plugin_replaced_at_its_place_is_walked_exactly)
{
    static const char *const names[] = {"plugin_small.so", "plugin_large.so",
                                        "plugin_small.so"};
    uintptr_t place = 0, reference[GS_STACK_MAX_DEPTH];

    for (int i = 0; i < 3; i++) {
        void *module = dlopen(fixture_path(names[i]), RTLD_NOW);
        enter_function *enter;

        cr_assert_not_null(module, "%s", dlerror());
        enter = find_enter(module, "plugin_enter");
        cr_assert_not_null(enter);
        if (i > 0 && (uintptr_t)enter != place)
            cr_skip_test("the loader put the second plug-in elsewhere");
        place = (uintptr_t)enter;
        enter(capture_all, NULL);
        assert_cfi_is_exact(4);
        assert_same(0, 2, 4);
        gs_stacks_frames(ways[1], ids[1], reference, GS_STACK_MAX_DEPTH);
        cr_assert(reference[1] > place && reference[1] < place + 64);
        dlclose(module);
    }
}

static _Atomic bool stop_loading;

static void *load_and_unload(void *unused)
{
    (void)unused;
    for (unsigned i = 0; !atomic_load(&stop_loading); i++) {
        void *module =
            dlopen(fixture_path(i % 2 ? "plugin_small.so" : "plugin_large.so"), RTLD_NOW);

        if (module != NULL) {
            find_enter(module, "plugin_enter")(capture_all, NULL);
            dlclose(module);
        }
    }
    return NULL;
}

static void *capture_often(void *unused)
{
    struct gs_stacks *two[2] = {ways[1], ways[2]};
    uint32_t out[2];

    (void)unused;
    for (int i = 0; i < 3000; i++) {
        chain_two(i % 40, two, out);
        cr_assert_neq(out[0], 0);
    }
    return NULL;
}

Test(stacks_unwind, walks_while_modules_come_and_go)
{
    pthread_t loader, walkers[2];

    cr_assert_eq(pthread_create(&loader, NULL, load_and_unload, NULL), 0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&walkers[i], NULL, capture_often, NULL), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(walkers[i], NULL);
    atomic_store(&stop_loading, true);
    pthread_join(loader, NULL);
}
