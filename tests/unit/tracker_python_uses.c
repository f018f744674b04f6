/*
 * tracker_python_uses.c - proves that captures are numbered over all stacks with Python
 * frames, and that a stack without numbers of its own has none.
 */
#include <criterion/criterion.h>

#include "tracker/python/python_internal.h"

/* Would see: numbers of one stack alone, and those of another stack of its slot. */
Test(python_uses, the_first_and_last_capture_are_numbers_of_all)
{
    const uint32_t other = 1 + GS_PYTHON_USES, order[] = {1, 2, 1, 3, other};
    struct gs_mutex lock;
    struct gs_python_uses uses;

    gs_mutex_init(&lock, GS_RANK_STACKS);
    struct gs_python *python = gs_python_create_bare(&lock, NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(order); i++)
        gs_python_count(python, order[i]);
    cr_assert(gs_python_uses(python, 1, &uses));
    cr_expect_eq(uses.count, 2);
    cr_expect_eq(uses.first, 1);
    cr_expect_eq(uses.last, 3);
    cr_expect_eq(uses.all, 5);
    cr_assert(gs_python_uses(python, 3, &uses));
    cr_expect_eq(uses.first, 4);
    cr_expect_eq(uses.last, 4);
    cr_expect_not(gs_python_uses(python, other, &uses));
    cr_expect_not(gs_python_uses(python, 9, &uses));
    cr_expect_not(gs_python_uses(python, 0, &uses));
    gs_python_destroy(python);
    gs_mutex_destroy(&lock);
}
