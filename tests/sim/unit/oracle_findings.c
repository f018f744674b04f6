/*
 * oracle_findings.c - proves what is said: each kind in words and as a line for programs,
 * once for equal call sites, not more than asked for, in the file as well; call stacks;
 * calls that block; the summary; and that a NULL is taken anywhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oracle_helpers.h"

static void has(const char *text, const char *part)
{
    cr_assert_not_null(strstr(text, part), "no \"%s\" in:\n%s", part, text);
}

static void has_not(const char *text, const char *part)
{
    cr_assert_null(strstr(text, part), "\"%s\" in:\n%s", part, text);
}

static unsigned times(const char *text, const char *part)
{
    unsigned count = 0;

    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

static void lose_order(void)
{
    struct oracle_line *x = stream_new(), *y = stream_new();
    const struct oracle_range range = {MEMORY, BYTES};

    oracle_forget(&range);
    struct oracle_allocation *a = give();
    run(put(x, NULL), WRITES);
    take_waiting(a, x);
    give();
    put(y, NULL);
    run(put(y, NULL), READS);
}

Test(oracle_findings, are_told_in_words_and_in_a_line)
{
    begin();
    int capture = stderr_capture();
    lose_order();
    const char *text = stderr_text(capture);

    has(text, "cudasim: LOST ORDER: two accesses to the same memory that the program had "
              "ordered were not (seed 7)\n");
    has(text, "cudasim:   0x700000000000, 4096 bytes, allocation 2 (cuMemAlloc_v2), was "
              "allocation 1 (cuMemAlloc_v2), freed by cuMemFree_v2\n");
    has(text, "cudasim:   write by cuLaunchKernel, operation 1 of stream 1\n");
    has(text, "cudasim:   then read by cuLaunchKernel, operation 2 of stream 2\n");
    has(text, "\ncudasim-finding: kind=lost-order seed=7 address=0x700000000000 "
              "bytes=4096 first=cuLaunchKernel first_stream=1 first_op=1 "
              "first_access=write second=cuLaunchKernel second_stream=2 second_op=2 "
              "second_access=read allocation=2 before=1\n");
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        cr_assert_eq(strncmp(line, "cudasim", 7), 0, "%s", line);
}

Test(oracle_findings, name_a_host_thread)
{
    begin();
    struct oracle_allocation *allocation = give();
    const struct oracle_access access = {.range = {MEMORY, 8}, .allocation = allocation};
    int capture = stderr_capture();

    run(put(stream_new(), NULL), WRITES);
    oracle_host_access(host(), &access);
    const char *text = stderr_text(capture);
    has(text, "then read by the host, thread 100\n");
    has(text, "second_thread=100 second_access=read");
    has(text, "kind=race");
}

Test(oracle_findings, name_a_free_and_an_allocation)
{
    begin();
    struct oracle_line *x = stream_new(), *y = stream_new();
    int capture = stderr_capture();
    struct oracle_allocation *a = give_in(put(x, NULL));

    run(put(y, NULL), WRITES);
    take(a);
    const char *text = stderr_text(capture);
    has(text, "first=cuMemAllocAsync first_access=alloc second=cuLaunchKernel");
    has(text, "first_access=write second=cuMemFree_v2 second_access=free allocation=1");
}

Test(oracle_findings, say_why_memory_is_nobodys)
{
    begin();
    int capture = stderr_capture();

    take(give());
    run(put(stream_new(), NULL), WRITES);
    const char *text = stderr_text(capture);
    has(text, "NO TENANT");
    has(text, "allocation 1 (cuMemAlloc_v2), freed by cuMemFree_v2\n");
    has(text, "it was submitted when nobody had them");
    has(text, "kind=no-allocation");
    has_not(text, "first=");
}

Test(oracle_findings, name_what_retired_too_early)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_allocation *a = give();
    int capture = stderr_capture();

    take_waiting(a, x);
    oracle_allocation_retire(a, host(), put_own(x, NULL));
    const char *text = stderr_text(capture);
    has(text, "EARLY RETIRE");
    has(text, "cuEventRecord (a layer's own), operation 1 of stream 1");
    has(text, "kind=early-retire seed=7 address=0x700000000000 bytes=4096 "
              "first=cuEventRecord first_stream=1 first_op=1 first_own=1 allocation=1");
}

Test(oracle_findings, of_equal_sites_are_told_once_and_counted)
{
    begin();
    int capture = stderr_capture();
    for (int i = 0; i < 10; i++)
        lose_order();
    const char *text = stderr_text(capture);
    cr_assert_eq(times(text, "cudasim-finding:"), 1);
    cr_assert_eq(times(text, "LOST ORDER"), 1);
    expect(ORACLE_LOST_ORDER, 10);
}

Test(oracle_findings, of_other_kinds_at_equal_sites_are_told)
{
    begin();
    int capture = stderr_capture();
    lose_order();
    run(put(stream_new(), NULL), WRITES);
    const char *text = stderr_text(capture);
    cr_assert_eq(times(text, "cudasim-finding: kind=lost-order"), 1);
    cr_assert_eq(times(text, "cudasim-finding: kind=race"), 1);
}

Test(oracle_findings, of_other_calls_are_told)
{
    begin();
    static const char *const calls[] = {"cuMemcpyAsync", "cuMemsetD8Async"};
    int capture = stderr_capture();

    give();
    run(put(stream_new(), NULL), WRITES);
    for (size_t i = 0; i < 2; i++) {
        const struct oracle_work work = {
            .call = calls[i], .host = host(), .stream = stream_new()};
        struct oracle_op *op = oracle_op_new();
        oracle_op_submit(op, &work);
        run(op, READS);
    }
    cr_assert_eq(times(stderr_text(capture), "cudasim-finding:"), 2);
}

Test(oracle_findings, are_not_printed_beyond_the_limit)
{
    begin_with((struct oracle_options){.most_findings = 1});
    int capture = stderr_capture();
    lose_order();
    run(put(stream_new(), NULL), WRITES);
    const char *text = stderr_text(capture);
    cr_assert_eq(times(text, "cudasim-finding:"), 1);
    cr_assert_geq(oracle_findings(), 2);
}

Test(oracle_findings, go_to_the_file)
{
    char name[] = "/tmp/oracle-findings-XXXXXX", text[4096];
    int fd = mkstemp(name);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, "before\n", 7), 7);
    begin_with((struct oracle_options){.seed = 3, .file = name, .most_findings = 1});
    int capture = stderr_capture();
    lose_order();
    run(put(stream_new(), NULL), WRITES);
    stderr_text(capture);
    text[pread(fd, text, sizeof(text) - 1, 0)] = '\0';
    close(fd);
    unlink(name);
    cr_assert_eq(strncmp(text, "before\ncudasim-finding: kind=lost-order seed=3 ", 47), 0,
                 "%s", text);
    cr_assert_eq(times(text, "cudasim-finding: kind=race seed=3 "), 1, "%s", text);
}

Test(oracle_findings, need_no_file_that_can_be_written)
{
    begin_with((struct oracle_options){.file = "/nonexistent/file", .most_findings = 9});
    int capture = stderr_capture();
    lose_order();
    has(stderr_text(capture), "cudasim-finding: kind=lost-order");
}

/* ---- call stacks ------------------------------------------------------------------ */

/* Exported by -rdynamic; not inlined, so that they are frames. */
__attribute__((visibility("default"), noinline)) struct oracle_op *
oracle_test_submits_first(struct oracle_line *stream);
__attribute__((visibility("default"), noinline)) struct oracle_op *
oracle_test_submits_second(struct oracle_line *stream);

static volatile int after_call; /* keeps the calls from being jumps */
static volatile int rounds = 3; /* keeps a loop one loop */

struct oracle_op *oracle_test_submits_first(struct oracle_line *stream)
{
    struct oracle_op *op = put(stream, NULL);
    after_call++;
    return op;
}

struct oracle_op *oracle_test_submits_second(struct oracle_line *stream)
{
    struct oracle_op *op = put(stream, NULL);
    after_call++;
    return op;
}

Test(oracle_findings, show_both_call_stacks)
{
    begin_with((struct oracle_options){.stacks = true, .most_findings = 9});
    struct oracle_op *a = oracle_test_submits_first(stream_new());
    struct oracle_op *b = oracle_test_submits_second(stream_new());
    int capture = stderr_capture();

    run(a, WRITES);
    run(b, WRITES);
    const char *text = stderr_text(capture);
    const char *first = strstr(text, "oracle_test_submits_first (unit_oracle + 0x");
    const char *then = strstr(text, "cudasim:   then write");
    const char *second = strstr(text, "oracle_test_submits_second (unit_oracle + 0x");
    cr_assert(first && then && second && first < then && then < second, "%s", text);
    has(text, "cudasim:     #0 ");
}

Test(oracle_findings, from_other_places_are_told)
{
    begin_with((struct oracle_options){.stacks = true, .most_findings = 9});
    int capture = stderr_capture();

    run(oracle_test_submits_first(stream_new()), WRITES);
    run(oracle_test_submits_second(stream_new()), READS);
    run(oracle_test_submits_first(stream_new()), READS);
    for (int i = 0; i < rounds; i++) /* one call site, whatever the compiler unrolls */
        run(oracle_test_submits_second(stream_new()), READS);
    cr_assert_eq(times(stderr_text(capture), "cudasim-finding:"), 3);
    expect(ORACLE_RACE, 5);
}

/* ---- liveness --------------------------------------------------------------------- */

Test(oracle_findings, blame_a_layer_that_blocks)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *kernel = put(x, NULL), *fence = put_own(x, NULL);
    int capture = stderr_capture();

    oracle_blocked("cuEventSynchronize", "cuMemAlloc_v2", host(), fence, kernel, true,
                   false);
    const char *text = stderr_text(capture);
    has(text, "LAYER BLOCKS");
    has(text, "cuEventSynchronize by thread 100, a layer's own, on behalf of "
              "cuMemAlloc_v2\n");
    has(text, "cudasim-finding: kind=layer-blocks seed=7 call=cuEventSynchronize "
              "entry=cuMemAlloc_v2 thread=100 awaited=cuEventRecord awaited_stream=1 "
              "awaited_op=2 awaited_own=1 culprit=cuLaunchKernel culprit_stream=1 "
              "culprit_op=1\n");
    expect(ORACLE_LAYER_BLOCKS, 1);
}

Test(oracle_findings, blame_the_program_where_native_waits)
{
    begin();
    struct oracle_op *kernel = put(stream_new(), NULL);

    oracle_blocked("cuCtxSynchronize", "cuMemFree_v2", host(), kernel, kernel, true,
                   true);
    expect(ORACLE_PROGRAM_BLOCKS, 1);
    oracle_blocked("cuCtxSynchronize", NULL, host(), kernel, NULL, false, false);
    expect(ORACLE_PROGRAM_BLOCKS, 2);
}

Test(oracle_findings, of_a_wait_for_something_unknown_are_told)
{
    begin();
    int capture = stderr_capture();
    oracle_blocked("cuCtxSynchronize", NULL, NULL, NULL, NULL, false, true);
    has(stderr_text(capture),
        "kind=program-blocks seed=7 call=cuCtxSynchronize thread=0\n");
}

/* ---- the summary ------------------------------------------------------------------ */

Test(oracle_findings, sums_up)
{
    begin();
    lose_order();
    oracle_unchecked("foo");
    oracle_unchecked("bar");
    oracle_unchecked("foo");
    int capture = stderr_capture();
    oracle_summary(false);
    cr_assert_str_eq(stderr_text(capture),
                     "cudasim: oracle: 1 finding (1 lost-order) in 3 operations, 3 "
                     "unchecked launches (foo, bar)\n");
}

Test(oracle_findings, sums_up_nothing_only_if_asked)
{
    begin();
    int capture = stderr_capture();
    put(stream_new(), NULL);
    oracle_summary(false);
    cr_assert_str_eq(stderr_text(capture), "");
    capture = stderr_capture();
    oracle_summary(true);
    cr_assert_str_eq(stderr_text(capture),
                     "cudasim: oracle: 0 findings in 1 operations\n");
}

Test(oracle_findings, names_some_of_many_unchecked_kernels)
{
    begin();
    char name[16];

    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "kernel%d", i);
        oracle_unchecked(name);
    }
    int capture = stderr_capture();
    oracle_summary(false);
    const char *text = stderr_text(capture);
    has(text, "100 unchecked launches (kernel0, kernel1,");
    has(text, "kernel7, ...)\n");
}

/* ---- nothing where something was expected ----------------------------------------- */

Test(oracle_findings, take_null_anywhere)
{
    begin();
    struct oracle_line *x = stream_new();
    struct oracle_op *op = oracle_op_new();
    const struct oracle_work nowhere = {.call = "c"}, work = {.call = "c", .stream = x};
    const struct oracle_access access = {.range = {MEMORY, 8}, .writes = true};
    const struct oracle_range range = {MEMORY, 8};

    oracle_op_ref(NULL);
    oracle_op_unref(NULL);
    oracle_op_after(NULL, op);
    oracle_op_after(op, NULL);
    oracle_op_after_line(NULL, x);
    oracle_op_after_line(op, NULL);
    oracle_op_submit(NULL, &work);
    oracle_op_submit(op, &nowhere);
    oracle_op_saw(NULL, MEMORY, 8, true);
    oracle_host_saw(NULL, op, false, false);
    oracle_host_saw(host(), NULL, false, false);
    oracle_host_saw_line(NULL, x, false, false);
    oracle_host_saw_line(host(), NULL, false, false);
    oracle_host_function(NULL);
    oracle_host_function(op);
    oracle_op_runs(NULL, &access, 1);
    oracle_op_runs(op, &access, 1);
    oracle_op_done(NULL);
    oracle_op_done(op);
    oracle_host_access(NULL, &access);
    oracle_line_end(NULL);
    oracle_allocation_end(NULL, "c", host(), NULL, NULL, 0);
    oracle_allocation_retire(NULL, host(), NULL);
    oracle_allocation_unref(NULL);
    struct oracle_allocation *allocation =
        oracle_allocation_begin(&range, NULL, NULL, NULL, true);
    struct oracle_line *none = NULL;
    oracle_allocation_end(allocation, NULL, NULL, NULL, &none, 1);
    oracle_allocation_end(allocation, NULL, NULL, NULL, &none, 1);
    oracle_allocation_retire(allocation, NULL, NULL);
    oracle_op_submit(op, &work);
    oracle_op_submit(op, &work);
    oracle_op_unref(op);
    oracle_allocation_unref(allocation);
    expect_nothing();
}
