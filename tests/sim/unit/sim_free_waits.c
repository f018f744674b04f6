/*
 * sim_free_waits.c - the table of what a native free waits for, and the text that
 * replaces rows of it: which class a size is of, and that a text is taken whole or not at
 * all.
 */
#include <criterion/criterion.h>

#include "../driver/core/gs_free_waits.h"

#define KIB ((size_t)1024)

Test(free_waits, a_size_is_of_the_last_class_that_it_reaches)
{
    static const struct {
        size_t bytes;
        enum gs_free_scope scope;
    } cases[] = {{1, GS_FREE_NONE},
                 {64 * KIB - 1, GS_FREE_NONE},
                 {64 * KIB, GS_FREE_BLOCKING},
                 {1024 * KIB - 1, GS_FREE_BLOCKING},
                 {1024 * KIB, GS_FREE_CONTEXT},
                 {2048 * KIB - 1, GS_FREE_CONTEXT},
                 {2048 * KIB, GS_FREE_DEVICE},
                 {SIZE_MAX, GS_FREE_DEVICE}};
    struct gs_free_waits waits = gs_free_waits_assumed();
    size_t length;

    cr_assert_null(gs_free_waits_parse("device.tiny=none,device.small=blocking,"
                                       "device.medium=context,device.large=device",
                                       &waits, &length));
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        cr_assert_eq(gs_free_waits_of(&waits, GS_FREE_device, cases[i].bytes),
                     cases[i].scope, "%zu", cases[i].bytes);
        cr_assert_eq(gs_free_waits_of(&waits, GS_FREE_pinned, cases[i].bytes),
                     GS_FREE_CONTEXT, "another kind is as it was");
    }
}

Test(free_waits, what_comes_later_wins)
{
    struct gs_free_waits waits = gs_free_waits_assumed();
    size_t length;

    cr_assert_null(gs_free_waits_parse("none,pinned=blocking,pinned.large=context",
                                       &waits, &length));
    cr_assert_eq(gs_free_waits_of(&waits, GS_FREE_managed, 1), GS_FREE_NONE);
    cr_assert_eq(gs_free_waits_of(&waits, GS_FREE_pinned, 1), GS_FREE_BLOCKING);
    cr_assert_eq(gs_free_waits_of(&waits, GS_FREE_pinned, 4096 * KIB), GS_FREE_CONTEXT);
}

Test(free_waits, a_wrong_text_is_named_and_changes_nothing)
{
    static const char *const wrong[][2] = {
        {"", ""},
        {"some", "some"},
        {"none,", ""},
        {"device=none,pinned=some", "pinned=some"},
        {"device.huge=none", "device.huge=none"},
        {"device.=none", "device.=none"},
        {"dev=none", "dev=none"},
        {"device=", "device="},
        {"=none", "=none"},
        {"none none", "none none"},
    };
    const struct gs_free_waits before = gs_free_waits_assumed();

    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        struct gs_free_waits waits = before;
        size_t length = 99;
        const char *item = gs_free_waits_parse(wrong[i][0], &waits, &length);
        cr_assert_not_null(item, "%s", wrong[i][0]);
        cr_assert_eq(length, strlen(wrong[i][1]), "%s", wrong[i][0]);
        cr_assert_eq(strncmp(item, wrong[i][1], length), 0, "%s", wrong[i][0]);
        cr_assert_arr_eq(&waits, &before, sizeof(waits));
    }
}
