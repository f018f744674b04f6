/*
 * Proves that a started program's environment is the caller's but for this library in
 * LD_PRELOAD, that nothing is copied where there is nothing to take out, and that room
 * is measured right.
 */
#include "shim/life/child_env.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define OWN "libgpushim.so"

/* The new environment, in memory of exactly the size that was measured. */
static char *const *made(char *const *env)
{
    static char **entries;
    static char *text;
    struct gs_child_env need = gs_child_env_measure_for(OWN, env);

    free(entries);
    free(text);
    entries = malloc(need.entries * sizeof(*entries));
    text = malloc(need.bytes);
    return gs_child_env_make(&need, env, entries, text);
}

static void expect(const char *before, const char *after)
{
    char *env[] = {(char *)"HOME=/", (char *)(size_t)before, (char *)"GPUSHIM_POOL=on",
                   NULL};
    char *const *now = made(env);

    cr_assert_str_eq(now[0], "HOME=/");
    if (after) {
        cr_assert_str_eq(now[1], after);
        now++;
    }
    cr_assert_str_eq(now[1], "GPUSHIM_POOL=on");
    cr_assert_null(now[2]);
}

Test(child_env, takes_the_library_out)
{
    expect("LD_PRELOAD=/opt/lib/libgpushim.so", NULL);
    expect("LD_PRELOAD=libgpushim.so", NULL);
    expect("LD_PRELOAD=  /a/libgpushim.so : ", NULL);
    expect("LD_PRELOAD=/a/libgpushim.so:/b/libother.so", "LD_PRELOAD=/b/libother.so");
    expect("LD_PRELOAD=/b/libother.so /a/libgpushim.so", "LD_PRELOAD=/b/libother.so");
    expect("LD_PRELOAD=x.so:/a/libgpushim.so y.so:/b/libgpushim.so::z.so",
           "LD_PRELOAD=x.so:y.so:z.so");
}

Test(child_env, is_passed_on_where_there_is_nothing_to_take)
{
    static const char *const others[] = {"LD_PRELOAD=",
                                         "LD_PRELOAD=/a/libother.so",
                                         "LD_PRELOAD=/a/libgpushim.so.1",
                                         "LD_PRELOAD=/a/mylibgpushim.so",
                                         "LD_PRELOAD=/libgpushim.so/x.so",
                                         "XLD_PRELOAD=libgpushim.so",
                                         "LD_PRELOAD"};
    char *none[] = {NULL};

    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++) {
        char *env[] = {(char *)(size_t)others[i], NULL};
        cr_expect_eq(made(env), env, "%s", others[i]);
    }
    cr_expect_eq(made(none), none);
    cr_expect_null(made(NULL));
    cr_expect_eq(gs_child_env_measure(none).entries, 1, "not asked for here");
}

Test(child_env, every_entry_of_the_name_counts)
{
    char *env[] = {(char *)"LD_PRELOAD=libgpushim.so", (char *)"A=1",
                   (char *)"LD_PRELOAD=b.so:libgpushim.so", NULL};
    char *const *now = made(env);

    cr_assert_str_eq(now[0], "A=1");
    cr_assert_str_eq(now[1], "LD_PRELOAD=b.so");
    cr_assert_null(now[2]);
}

Test(child_env, of_any_size)
{
    static char *env[100001];

    for (size_t i = 0; i < 100000; i++)
        env[i] = (char *)"A=1";
    env[5] = (char *)"LD_PRELOAD=libgpushim.so";
    cr_assert_neq(made(env), env);
    cr_assert_str_eq(made(env)[99998], "A=1");
    cr_assert_null(made(env)[99999]);
}

/* The environment changes while it is copied: no more than was measured is written. */
Test(child_env, that_grows_meanwhile)
{
    char *env[] = {(char *)"LD_PRELOAD=libgpushim.so", NULL, NULL, NULL};
    struct gs_child_env need = gs_child_env_measure_for(OWN, env);
    char *entries[2], text[32];
    char guard = text[0] = 'x';

    cr_assert_eq(need.entries, 2);
    cr_assert_eq(need.bytes, strlen(env[0]) + 1);
    env[0] = (char *)"LD_PRELOAD=libgpushim.so:and-much-more-of-it.so";
    env[1] = env[2] = (char *)"B=2";
    entries[1] = NULL;
    char *const *now = gs_child_env_make(&need, env, entries, text);
    cr_assert_eq(now[0], env[0], "too long: as it is");
    cr_assert_null(now[1]);
    cr_assert_eq(text[0], guard);
}

Test(child_env, says_that_renamed_variables_were_told)
{
    char *env[] = {(char *)"A=1", (char *)"LD_PRELOAD=/a/libgpushim.so", NULL};
    char *told[] = {(char *)GS_RENAMED_VARIABLE "=said", NULL};
    char *entries[4], text[1];
    struct gs_child_env need = gs_child_env_measure(env);

    cr_assert_eq(gs_child_env_make(&need, env, entries, text), env, "nothing was told");
    gs_child_env_note_renamed();
    need = gs_child_env_measure(env);
    cr_assert_eq(need.entries, 4u);
    cr_assert_eq(gs_child_env_make(&need, env, entries, text), entries);
    cr_assert_eq(entries[0], env[0]);
    cr_assert_eq(entries[1], env[1]);
    cr_assert_str_eq(entries[2], told[0]);
    cr_assert_null(entries[3]);
    need = gs_child_env_measure(told);
    cr_assert_eq(gs_child_env_make(&need, told, entries, text), told, "once");
    need = gs_child_env_measure(NULL);
    cr_assert_eq(need.entries, 2u);
    cr_assert_eq(gs_child_env_make(&need, NULL, entries, text), entries);
    cr_assert_str_eq(entries[0], told[0]);
    cr_assert_null(entries[1]);
}
