/*
 * Proves that a scope is the outermost frame of each stack captured in it, with the path
 * of its names; that equal paths are equal frames in every thread; and that wrong names,
 * too many scopes and unbalanced ends lose nothing.
 */
#include "tracker/stacks/scopes.h"
#include "tracker/stacks/stacks.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gs_stacks *stacks;

static void open_with(enum gs_unwinder unwinder, unsigned depth)
{
    struct gs_stacks_config config = {.unwinder = unwinder, .depth = depth};

    cr_assert_eq(gs_stacks_create(&config, &stacks), GS_OK);
}

static void open_stacks(void)
{
    open_with(GS_UNWIND_AUTO, 32);
}

static void close_stacks(void)
{
    gs_stacks_destroy(stacks);
}

TestSuite(scopes, .init = open_stacks, .fini = close_stacks, .timeout = 60);

/* The path of a stack's scope; "" if it has none. */
static const char *scope_of(uint32_t id)
{
    static char path[GS_SCOPE_PATH_SIZE + 16];
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    struct gs_python_location place;
    unsigned count = gs_stacks_frames(stacks, id, frames, GS_STACK_MAX_DEPTH);

    if (count == 0 || !gs_frame_is_scope(frames[count - 1]))
        return "";
    for (unsigned i = 0; i + 1 < count; i++)
        cr_assert_not(gs_frame_is_scope(frames[i]));
    cr_assert_eq(gs_stacks_python(stacks, frames[count - 1], &place), GS_OK);
    cr_assert_str_eq(place.file, "");
    cr_assert_eq(place.line, 0);
    cr_assert_eq(strncmp(place.function, "[scope ", 7), 0);
    strcpy(path, place.function + 7);
    path[strlen(path) - 1] = '\0';
    return path;
}

static __attribute__((noinline)) uint32_t captured(void)
{
    uint32_t id = gs_stacks_capture(stacks);

    __asm__ volatile("" : "+r"(id));
    return id;
}

Test(scopes, nest_and_end)
{
    uint32_t ids[5];

    ids[0] = captured();
    cr_assert_eq(gs_scopes_begin("step"), GS_OK);
    cr_assert_str_eq(scope_of(captured()), "step");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(gs_scopes_begin("forward"), GS_OK);
        ids[1 + i] = captured();
        cr_assert_str_eq(scope_of(ids[1 + i]), "step/forward");
        cr_assert_eq(gs_scopes_end(), GS_OK);
    }
    cr_assert_eq(ids[1], ids[2]); /* one call site */
    cr_assert_eq(ids[2], ids[3]);
    cr_assert_str_eq(scope_of(captured()), "step");
    cr_assert_eq(gs_scopes_begin("backward"), GS_OK);
    cr_assert_str_eq(scope_of(captured()), "step/backward");
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_str_eq(scope_of(captured()), "");
    cr_assert_eq(gs_scopes_end(), GS_ERR_NOT_FOUND);
    cr_assert_str_eq(scope_of(ids[0]), "");
}

Test(scopes, leave_the_other_frames_alone)
{
    uintptr_t without[GS_STACK_MAX_DEPTH], with[GS_STACK_MAX_DEPTH];
    uint32_t ids[2];

    for (int i = 0; i < 2; i++) {
        ids[i] = captured();
        cr_assert_eq(gs_scopes_begin("a"), GS_OK);
    }
    unsigned count = gs_stacks_frames(stacks, ids[0], without, GS_STACK_MAX_DEPTH);
    cr_assert_gt(count, 2);
    cr_assert_eq(gs_stacks_frames(stacks, ids[1], with, GS_STACK_MAX_DEPTH), count + 1);
    cr_assert_arr_eq(with, without, count * sizeof(*with));
}

static void *same_path(void *frame)
{
    uintptr_t frames[GS_STACK_MAX_DEPTH];

    for (int i = 0; i < 200; i++) {
        char name[16];
        snprintf(name, sizeof(name), "name%d", i % 50);
        cr_assert_eq(gs_scopes_begin(name), GS_OK);
        cr_assert_eq(gs_scopes_begin("inner"), GS_OK);
        unsigned count = gs_stacks_frames(stacks, captured(), frames, GS_STACK_MAX_DEPTH);
        if (i == 7)
            *(uintptr_t *)frame = frames[count - 1];
        cr_assert_eq(gs_scopes_end(), GS_OK);
        cr_assert_eq(gs_scopes_end(), GS_OK);
    }
    return NULL;
}

Test(scopes, are_equal_in_all_threads)
{
    pthread_t threads[8];
    uintptr_t frames[8] = {0};

    cr_assert_eq(gs_scopes_begin("not theirs"), GS_OK);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, same_path, &frames[i]), 0);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 8; i++) {
        cr_assert(gs_frame_is_scope(frames[i]));
        cr_assert_eq(frames[i], frames[0]);
    }
    cr_assert_str_eq(scope_of(captured()), "not theirs");
}

Test(scopes, with_wrong_names_are_those_around_them)
{
    char long_name[GS_SCOPE_NAME_MAX + 2];

    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[GS_SCOPE_NAME_MAX + 1] = '\0';
    cr_assert_eq(gs_scopes_begin(NULL), GS_ERR_INVALID);
    cr_assert_str_eq(scope_of(captured()), "");
    cr_assert_eq(gs_scopes_begin("around"), GS_OK);
    cr_assert_eq(gs_scopes_begin(""), GS_ERR_INVALID);
    cr_assert_eq(gs_scopes_begin(NULL), GS_ERR_INVALID);
    cr_assert_eq(gs_scopes_begin(long_name), GS_ERR_INVALID);
    cr_assert_str_eq(scope_of(captured()), "around");
    cr_assert_eq(gs_scopes_begin(long_name + 1), GS_OK);
    cr_assert_eq(strlen(scope_of(captured())), strlen("around/") + GS_SCOPE_NAME_MAX);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_end(), GS_ERR_NOT_FOUND);
}

/* Would see: two scopes of one path, or the memory of a name that the program did not
 * choose with paths in mind in the scope around. */
Test(scopes, slashes_of_a_name_are_colons_in_the_path)
{
    cr_assert_eq(gs_scopes_begin("serve"), GS_OK);
    cr_assert_eq(gs_scopes_begin("GET /v1//users/"), GS_OK);
    cr_expect_str_eq(scope_of(captured()), "serve/GET :v1::users:");
    cr_expect(gs_scopes_within("GET /v1//users/"));
    cr_expect(gs_scopes_within("GET :v1::users:"));
    cr_expect_not(gs_scopes_within("GET /v1//users"));
    cr_expect_not(gs_scopes_within("serve/GET /v1//users/"));
    cr_assert_eq(gs_scopes_begin("/"), GS_OK);
    cr_expect_str_eq(scope_of(captured()), "serve/GET :v1::users:/:");
    for (int i = 0; i < 3; i++)
        cr_assert_eq(gs_scopes_end(), GS_OK);
}

Test(scopes, too_deep_are_counted)
{
    char deepest[GS_SCOPE_PATH_SIZE];

    for (unsigned i = 0; i < GS_SCOPES_MAX; i++)
        cr_assert_eq(gs_scopes_begin("deep"), GS_OK);
    strcpy(deepest, scope_of(captured()));
    cr_assert_eq(strlen(deepest), 5 * GS_SCOPES_MAX - 1);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(gs_scopes_begin("deeper"), GS_ERR_INVALID);
    cr_assert_str_eq(scope_of(captured()), deepest);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_str_eq(scope_of(captured()), deepest);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(strlen(scope_of(captured())), strlen(deepest) - 5);
}

/* Names so long that the path is full before the scopes are too many. */
Test(scopes, with_a_full_path_are_counted)
{
    char name[GS_SCOPE_NAME_MAX + 1];
    unsigned begun = 0;

    memset(name, 'y', GS_SCOPE_NAME_MAX);
    name[GS_SCOPE_NAME_MAX] = '\0';
    while (gs_scopes_begin(name) == GS_OK)
        begun++;
    cr_assert_eq(begun, GS_SCOPE_PATH_SIZE / (GS_SCOPE_NAME_MAX + 1));
    cr_assert_eq(strlen(scope_of(captured())), begun * (GS_SCOPE_NAME_MAX + 1) - 1);
    for (unsigned i = 0; i < begun + 1; i++)
        cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_end(), GS_ERR_NOT_FOUND);
}

static __attribute__((noinline)) uint32_t recurse(unsigned depth)
{
    uint32_t id = depth ? recurse(depth - 1) : captured();

    __asm__ volatile("" : "+r"(id));
    return id;
}

Test(scopes, are_kept_of_the_deepest_stack, .init = NULL)
{
    uintptr_t frames[GS_STACK_MAX_DEPTH];

    open_with(GS_UNWIND_AUTO, GS_STACK_MAX_DEPTH);
    cr_assert_eq(gs_scopes_begin("deep"), GS_OK);
    uint32_t id = recurse(300);
    cr_assert_eq(gs_stacks_frames(stacks, id, frames, GS_STACK_MAX_DEPTH),
                 GS_STACK_MAX_DEPTH);
    cr_assert(gs_stacks_truncated(stacks, id));
    cr_assert_str_eq(scope_of(id), "deep");
}

Test(scopes, stand_alone_without_an_unwinder, .init = NULL)
{
    open_with(GS_UNWIND_OFF, 32);
    cr_assert_eq(captured(), 0);
    cr_assert_eq(gs_scopes_begin("alone"), GS_OK);
    cr_assert_str_eq(scope_of(captured()), "alone");
}

Test(scopes, are_found_by_name)
{
    static const char path[] = "step/kv_cache/forward";

    cr_expect(gs_scopes_path_has(path, strlen(path), "step"));
    cr_expect(gs_scopes_path_has(path, strlen(path), "kv_cache"));
    cr_expect(gs_scopes_path_has(path, strlen(path), "forward"));
    cr_expect_not(gs_scopes_path_has(path, strlen(path), "kv"));
    cr_expect_not(gs_scopes_path_has(path, strlen(path), "cache"));
    cr_expect_not(gs_scopes_path_has(path, strlen(path), "step/kv_cache"));
    cr_expect_not(gs_scopes_path_has(path, strlen(path), ""));
    cr_expect_not(gs_scopes_path_has("", 0, "step"));
    cr_expect_not(gs_scopes_path_has(path, strlen(path) - 1, "forward"));
    cr_expect_not(gs_scopes_within("step"));
    cr_assert_eq(gs_scopes_begin("step"), GS_OK);
    cr_assert_eq(gs_scopes_begin("forward"), GS_OK);
    cr_expect(gs_scopes_within("step"));
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_expect_not(gs_scopes_within("forward"));
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_expect_not(gs_scopes_within("step"));
}

/* ---- numbers ------------------------------------------------------------------------
 */

static unsigned begins;
static uint32_t last_scope, last_around;

static void count_begun(void *self, uint32_t scope, uint32_t around)
{
    cr_expect_eq(self, &begins);
    begins++;
    last_scope = scope;
    last_around = around;
}

/* Would see: a scope that is counted twice, or not at all because it was begun before
 * anyone asked; and one with a wrong name that is counted as a scope of its own. */
Test(scopes, are_told_once)
{
    char path[GS_SCOPE_PATH_SIZE];
    struct gs_stacks *own = stacks;
    uint32_t step, forward;

    cr_expect_eq(gs_scopes_number(stacks, count_begun, &begins), 0);
    cr_assert_eq(gs_scopes_begin("step"), GS_OK);
    (void)captured(); /* numbers the scope, and tells nobody */
    step = gs_scopes_number(stacks, count_begun, &begins);
    cr_expect(begins == 1 && last_scope == step && step != 0 && last_around == 0);
    cr_expect_eq(gs_scopes_number(stacks, count_begun, &begins), step);
    cr_expect_eq(begins, 1);
    cr_assert_eq(gs_scopes_begin(""), GS_ERR_INVALID);
    cr_expect_eq(gs_scopes_number(stacks, count_begun, &begins), step);
    cr_expect_eq(begins, 1);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(gs_scopes_begin("forward"), GS_OK);
        forward = gs_scopes_number(stacks, count_begun, &begins);
        cr_expect(begins == 2 + i && last_scope == forward && last_around == step);
        cr_assert_eq(gs_scopes_end(), GS_OK);
    }
    cr_expect_eq(gs_scopes_path(stacks, forward, path), strlen("step/forward"));
    cr_expect_str_eq(path, "step/forward");
    cr_expect_eq(gs_scopes_path(stacks, forward + 1, path), 0);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    open_stacks(); /* as in a forked child: the scope is open there, too */
    cr_expect_neq(gs_scopes_number(stacks, count_begun, &begins), 0);
    cr_expect_eq(begins, 4);
    gs_stacks_destroy(own);
    cr_assert_eq(gs_scopes_end(), GS_OK);
}

Test(scopes, tell_their_stacks)
{
    cr_expect_not(gs_scopes_have(captured()));
    cr_assert_eq(gs_scopes_begin("step"), GS_OK);
    for (unsigned i = 0; i < 2; i++) {
        uint32_t with = captured();
        cr_expect(with != 0 && gs_scopes_have(with));
        cr_expect_not(gs_scopes_have(0));
        cr_expect_not(gs_scopes_have(with + 1));
    }
    cr_assert_eq(gs_scopes_end(), GS_OK);
}

static uint32_t begin_path(const char *outer, const char *inner)
{
    uint32_t number;

    cr_assert_eq(gs_scopes_begin(outer), GS_OK);
    cr_assert_eq(gs_scopes_begin(inner), GS_OK);
    number = gs_scopes_number(stacks, count_begun, &begins);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    return number;
}

/* Alone sees a number that is kept for a scope of the same name within another one, or
 * for a name that begins like the former one. */
Test(scopes, of_a_name_begin_again_with_their_number)
{
    uint32_t step, forward, other, longer, shorter;

    for (unsigned i = 0; i < 2; i++) {
        step = begin_path("step", "forward");
        cr_expect_eq(begin_path("step", "forward"), step);
        forward = begin_path("eval", "forward");
        longer = begin_path("eval", "forwards");
        shorter = begin_path("eval", "for");
        other = begin_path("steps", "forward");
        cr_expect(step != 0 && forward != 0 && longer != 0 && shorter != 0 && other != 0);
        cr_expect(step != forward && step != other && forward != other &&
                  longer != forward && shorter != forward && shorter != longer);
    }
    cr_assert_eq(gs_scopes_begin("step"), GS_OK);
    cr_assert_eq(gs_scopes_begin(""), GS_ERR_INVALID);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_begin("forward"), GS_OK);
    cr_expect_eq(gs_scopes_number(stacks, count_begun, &begins), step);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_end(), GS_OK);
}

/* Alone sees (with AddressSanitizer, or by a crash) a look behind the last scope that has
 * a place. */
Test(scopes, too_deep_ones_end_and_begin_again)
{
    char path[GS_SCOPE_PATH_SIZE];
    const unsigned count = 100000;

    for (unsigned i = 0; i < count; i++)
        cr_assert_eq(gs_scopes_begin("s"), i < GS_SCOPES_MAX ? GS_OK : GS_ERR_INVALID);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_begin("s"), GS_ERR_INVALID);
    for (unsigned i = 0; i < count - 3; i++)
        cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_begin("s"), GS_OK);
    cr_assert(gs_scopes_current_path(path));
    cr_expect_str_eq(path, "s/s");
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_expect_eq(gs_scopes_end(), GS_ERR_NOT_FOUND);
}

static void *leave_open(void *unused)
{
    cr_assert_eq(gs_scopes_begin("thread"), GS_OK);
    return unused;
}

/* Alone sees (with a leak checker) the memory of a thread that ends in a scope. */
Test(scopes, end_with_their_thread)
{
    pthread_t thread;

    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(pthread_create(&thread, NULL, leave_open, NULL), 0);
        cr_assert_eq(pthread_join(thread, NULL), 0);
    }
    cr_expect_eq(gs_scopes_number(stacks, count_begun, &begins), 0);
}
