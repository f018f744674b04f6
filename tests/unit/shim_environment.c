/*
 * shim_environment.c - proves that a variable which is set for the library alone is there
 * once, and leaves the others and the process's own as they are.
 */
#include "shim/settings/environment.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static unsigned count_of(char *const *list, const char *entry)
{
    unsigned count = 0;

    for (; *list; list++)
        count += strcmp(*list, entry) == 0;
    return count;
}

static unsigned length_of(char *const *list)
{
    unsigned length = 0;

    while (list[length])
        length++;
    return length;
}

/* Would see: a variable whose name begins with that of another, taken for it. */
Test(environment, a_variable_is_set_for_the_library_alone)
{
    setenv("GPUSHIM_POOL_LIMIT", "1G", 1);
    setenv("GPUSHIM_LEAK_MAX", "3", 1);
    unsigned before = length_of(gs_environment());
    cr_assert(gs_environment_set("GPUSHIM_POOL", "device,vmm:on=x"));
    cr_assert(gs_environment_set("GPUSHIM_LEAK_MAX", "7"));
    cr_assert(gs_environment_set("GPUSHIM_LEAK_MAX", "8"));
    char *const *list = gs_environment();
    cr_expect_str_eq(list[0], "GPUSHIM_LEAK_MAX=8");
    cr_expect_eq(
        count_of(list, "GPUSHIM_LEAK_MAX=3") + count_of(list, "GPUSHIM_LEAK_MAX=7"), 0);
    cr_expect_eq(count_of(list, "GPUSHIM_POOL=device,vmm:on=x"), 1);
    cr_expect_eq(count_of(list, "GPUSHIM_POOL_LIMIT=1G"), 1);
    cr_expect_eq(length_of(list), before + 1);
    cr_expect_str_eq(getenv("GPUSHIM_LEAK_MAX"), "3");
    cr_expect_null(getenv("GPUSHIM_POOL"));
    cr_expect_not(gs_environment_is_replaced());
}

Test(environment, of_gpushim_attach_comes_first)
{
    static char entry[] = "GPUSHIM_LEAK_MAX=1", *const list[] = {entry, NULL};

    cr_assert(gs_environment_set("GPUSHIM_LEAK_MAX", "7"));
    gs_environment_replace(list);
    cr_expect_eq(gs_environment(), list);
}
