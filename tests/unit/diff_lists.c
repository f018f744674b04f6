/*
 * diff_lists.c - proves that the differential fuzzer's lists come back from text as they
 * were, that its comparer excuses what relation.def says and nothing else, and that its
 * shrinker keeps what a difference needs.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "diff.h"

static struct diff_list list;
static struct diff_answers native, other;
static struct diff_verdict verdict;

static void add(enum diff_kind kind, int64_t argument, const char *first,
                const char *second)
{
    list.ops[list.count] = (struct diff_op){.kind = (uint16_t)kind, .args = {argument}};
    snprintf(native.lines[list.count], DIFF_LINE, "%s", first);
    snprintf(other.lines[list.count], DIFF_LINE, "%s", second);
    list.count++;
}

static bool same(const char *mode)
{
    diff_compare(&list, &native, &other, mode, &verdict);
    return verdict.same;
}

/* ---- lists --------------------------------------------------------------------------
 */

Test(lists, come_back_from_text)
{
    static struct diff_list back;

    for (uint64_t seed = 1; seed <= 50; seed++) {
        FILE *file = tmpfile();

        diff_generate(seed, 300, &list);
        diff_list_print(&list, file);
        rewind(file);
        cr_assert(diff_list_parse(file, &back));
        fclose(file);
        cr_assert_eq(back.seed, seed);
        cr_assert_eq(back.count, 300);
        cr_assert_eq(back.memory_mib, list.memory_mib);
        cr_assert_eq(back.free, list.free);
        cr_assert_eq(back.way, list.way);
        cr_assert_arr_eq(back.ops, list.ops, list.count * sizeof(*list.ops));
    }
}

Test(lists, that_are_none_are_refused)
{
    static const char *const texts[] = {"0.0 nothing 1\n", "0.9 context_wait\n",
                                        "0.0 alloc 1\n", "set colour 3\n", "set way 4\n"};

    for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        FILE *file = tmpfile();

        fputs(texts[i], file);
        rewind(file);
        cr_assert_not(diff_list_parse(file, &list), "%s", texts[i]);
        fclose(file);
    }
}

Test(lists, depend_on_their_seed_alone)
{
    static struct diff_list again;

    diff_generate(7, 300, &list);
    diff_generate(7, 300, &again);
    cr_assert_arr_eq(list.ops, again.ops, 300 * sizeof(*list.ops));
    diff_generate(8, 300, &again);
    cr_assert_arr_neq(list.ops, again.ops, 300 * sizeof(*list.ops));
}

/* ---- comparison ---------------------------------------------------------------------
 */

Test(compare, tells_the_first_operation_that_differs)
{
    add(DIFF_alloc, 0, " code=0 align=9", " code=0 align=9");
    add(DIFF_copy_out, 0, " code=0 hash=1", " code=0 hash=2");
    add(DIFF_free, 0, " code=0", " code=1");
    cr_assert_not(same("native"));
    cr_assert_eq(verdict.op, 1);
    cr_assert_str_eq(verdict.why, "hash");
}

Test(compare, tells_another_end)
{
    strcpy(native.end, "ok0");
    strcpy(other.end, "signal 11 in 3");
    cr_assert_not(same("native"));
    cr_assert_str_eq(verdict.why, "end");
}

/* Its answers would be a matter of time. */
Test(compare, tells_a_list_that_breaks_a_context_by_mistake)
{
    add(DIFF_fill, 0, " code=0", " code=0");
    add(DIFF_alloc, 1, " code=700 out=kept", " code=700 out=kept");
    cr_assert_not(same("native"));
    cr_assert_eq(verdict.op, 1);
    cr_assert_str_eq(verdict.why, "broke");
    cr_assert_not(same("twice"));
    list.ops[0].kind = DIFF_wild;
    cr_assert(same("native"));
}

Test(compare, excuses_whole_pages_of_pinned_memory_alone)
{
    add(DIFF_range, 0, " kind=h bytes=5000 code=0 before=0 size=5000",
        " kind=h bytes=5000 code=0 before=0 size=8192");
    cr_assert(same("native"));
    cr_assert_eq(verdict.excused, 1);
    strcpy(other.lines[0], " kind=h bytes=5000 code=0 before=0 size=12288");
    cr_assert_not(same("native"));
    strcpy(other.lines[0], " kind=h bytes=5000 code=0 before=64 size=8192");
    cr_assert_not(same("native"));
    cr_assert_str_eq(verdict.why, "before");
    strcpy(native.lines[0], " kind=d bytes=5000 code=0 before=0 size=5000");
    strcpy(other.lines[0], " kind=d bytes=5000 code=0 before=0 size=8192");
    cr_assert_not(same("native"));
}

Test(compare, excuses_nothing_between_two_native_runs)
{
    add(DIFF_range, 0, " kind=h bytes=5000 code=0 before=0 size=5000",
        " kind=h bytes=5000 code=0 before=0 size=8192");
    cr_assert_not(same("twice"));
}

Test(compare, excuses_what_a_mode_is_for_in_that_mode)
{
    add(DIFF_wild, 0, " code=0 wait=700", " code=0 wait=700");
    add(DIFF_free, 0, " kind=d own=1 code=700", " kind=d own=1 code=0");
    cr_assert(same("lazy"));
    cr_assert_not(same("native"));
}

Test(compare, ends_where_a_list_is_no_longer_the_same)
{
    add(DIFF_free_other, 0, " kind=d own=0 code=201", " kind=d own=0 code=0");
    add(DIFF_free_again, 0, " code=0", " code=1");
    cr_assert(same("native"));
    cr_assert_eq(verdict.compared, 1);
    cr_assert_eq(verdict.left, 1);
}

Test(compare, excuses_an_overlap_with_what_its_owner_has_freed_alone)
{
    add(DIFF_ipc_take, 0, " own=0 stale=0 bytes=4096 beside=stale code=208",
        " own=0 stale=0 bytes=4096 beside=stale code=0 align=9");
    add(DIFF_ipc_close, 0, " skip=none", " kind=i code=0");
    cr_assert(same("native"));
    cr_assert_eq(verdict.left, 1);
    strcpy(native.lines[0], " own=0 stale=0 bytes=4096 code=208");
    strcpy(other.lines[0], " own=0 stale=0 bytes=4096 code=0 align=9");
    cr_assert_not(same("native"));
}

Test(compare, excuses_work_for_stream_ordered_memory_in_the_mode_pool_alone)
{
    add(DIFF_stream_query, 0, " code=0", " code=600");
    cr_assert_not(same("pool"));
    list.count = 0;
    add(DIFF_async_alloc, 3, " code=0", " code=0");
    add(DIFF_stream_query, 0, " code=0", " code=600");
    cr_assert(same("pool"));
    cr_assert_not(same("native"));
    strcpy(other.lines[1], " code=700");
    cr_assert_not(same("pool"));
}

Test(compare, excuses_whole_segments_of_a_pool_in_the_mode_pool_alone)
{
    add(DIFF_pool_get, 0, " code=0 used=1895424", " code=0 used=2097152");
    cr_assert(same("pool"));
    cr_assert_not(same("native"));
    strcpy(other.lines[0], " code=0 used=1048576");
    cr_assert_not(same("pool"));
}

Test(compare, excuses_a_refusal_on_a_full_device_alone)
{
    list.memory_mib = 64;
    add(DIFF_alloc, 0, " code=0 align=9",
        " code=2 out=kept live=60000000 wanted=1000000");
    cr_assert(same("native"));
    strcpy(other.lines[0], " code=2 out=kept live=30000000 wanted=1000000");
    cr_assert_not(same("native"));
}

Test(compare, excuses_a_refusal_in_a_capture_in_the_lazy_mode_alone)
{
    list.memory_mib = 64;
    add(DIFF_alloc, 0, " code=0 align=9",
        " code=2 out=kept live=30000000 wanted=1000000 captures=1");
    cr_assert(same("lazy"));
    cr_assert_not(same("native"));
    strcpy(other.lines[0], " code=2 out=kept live=30000000 wanted=1000000");
    cr_assert_not(same("lazy"));
}

/* ---- shrinking ----------------------------------------------------------------------
 */

/* Differs while slot 3 is filled with something, and freed after it. */
static bool differs(const struct diff_list *trial, void *asked)
{
    bool there = false;

    ++*(unsigned *)asked;
    for (unsigned i = 0; i < trial->count; i++) {
        if (trial->ops[i].kind == DIFF_alloc && trial->ops[i].args[0] == 3)
            there = true;
        if (trial->ops[i].kind == DIFF_free && trial->ops[i].args[0] == 3 && there)
            return true;
    }
    return false;
}

Test(shrink, keeps_what_the_difference_needs_and_nothing_else)
{
    unsigned asked = 0;

    diff_generate(11, 400, &list);
    list.ops[57] = (struct diff_op){.thread = 2, .kind = DIFF_alloc, .args = {3, 77}};
    list.ops[311] = (struct diff_op){.thread = 1, .kind = DIFF_free, .args = {3}};
    cr_assert_eq(diff_shrink(&list, differs, &asked), asked);
    cr_assert_eq(list.count, 2);
    cr_assert_eq(list.ops[0].kind, DIFF_alloc);
    cr_assert_eq(list.ops[1].kind, DIFF_free);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(list.ops[i].args[0], 3);
        cr_assert_eq(list.ops[i].thread, 0);
    }
    cr_assert_eq(list.ops[0].args[1], 0);
    cr_assert_lt(asked, 1000);
}
