/*
 * shim_all_contexts.c - proves that the registry of contexts has each once, whatever the
 * order in which they begin and end.
 */
#include "shim/state/all_contexts.h"

#include <criterion/criterion.h>

#include "gs_base.h"

#define HANDLES 500u

static CUcontext handle_of(unsigned i)
{
    return (CUcontext)(uintptr_t)(0x1000 + 16 * i);
}

/* The registry has exactly the handles that are set. */
static void expect(const bool *alive)
{
    bool seen[HANDLES] = {false};
    unsigned count = 0;
    CUcontext handle;

    for (unsigned i = 0; gs_all_contexts_at(i, &handle); i++, count++) {
        unsigned number = (unsigned)(((uintptr_t)handle - 0x1000) / 16);

        cr_assert(alive[number] && !seen[number]);
        seen[number] = true;
    }
    cr_assert_eq(gs_all_contexts_count, count);
    for (unsigned i = 0; i < HANDLES; i++)
        cr_assert_eq(seen[i], alive[i]);
}

Test(all_contexts, has_each_context_once)
{
    bool alive[HANDLES] = {false};
    unsigned chance = 1;

    for (unsigned step = 0; step < 20000; step++) {
        unsigned i = (chance = chance * 1103515245 + 12345) >> 8 & 0x1ff;

        if (i >= HANDLES)
            continue;
        if (alive[i] && step % 3) {
            gs_all_contexts_remove(handle_of(i));
            alive[i] = false;
        } else {
            gs_all_contexts_add(handle_of(i));
            alive[i] = true;
        }
        if (step % 1000 == 0)
            expect(alive);
    }
    expect(alive);
}

Test(all_contexts, a_primary_context_keeps_its_uses)
{
    gs_all_contexts_add(handle_of(1));
    gs_all_contexts_add_primary(handle_of(2), 3);
    gs_all_contexts_use_more(3);
    gs_all_contexts_remove(handle_of(1)); /* the other takes its place in the list */
    gs_all_contexts_add(handle_of(2));
    cr_assert_eq(gs_all_contexts_primary(3), handle_of(2));
    cr_assert_eq(gs_all_contexts_uses(3), 1);
    gs_all_contexts_remove(handle_of(2));
    cr_assert_null(gs_all_contexts_primary(3));
    cr_assert_eq(gs_all_contexts_count, 0);
}
