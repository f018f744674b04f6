/*
 * tracker_suppress.c - proves which lines are rules, what is said of the others, what a
 * pattern matches, and that many rules answer as each alone would.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tracker/report/report_internal.h"
#include "tracker/report/rules/suppress_internal.h"

struct problems {
    char text[4096];
    size_t length;
};

static void note_problem(void *self, unsigned line, const char *what)
{
    struct problems *problems = self;

    problems->length += (size_t)snprintf(problems->text + problems->length,
                                         sizeof(problems->text) - problems->length,
                                         "%u: %s\n", line, what);
}

static struct gs_suppressions *rules_of(const char *text, size_t length,
                                        struct problems *problems)
{
    struct gs_suppressions *rules = NULL;

    memset(problems, 0, sizeof(*problems));
    cr_assert_eq(gs_suppressions_create(&rules), GS_OK);
    cr_assert_eq(
        gs_suppressions_add(rules, "r.txt", text, length, note_problem, problems), GS_OK);
    return rules;
}

/* A file of which nothing is wrong. */
static struct gs_suppressions *good_rules(const char *text)
{
    struct problems problems;
    struct gs_suppressions *rules = rules_of(text, strlen(text), &problems);

    cr_assert_str_eq(problems.text, "");
    return rules;
}

static uint32_t find_name(struct gs_suppressions *rules, const char *name)
{
    return gs_suppressions_find(rules, GS_RULE_LEAK, 0, GS_RULE_TEXT_NAME, name, 0);
}

static uint32_t find_path(struct gs_suppressions *rules, const char *path)
{
    return gs_suppressions_find(rules, GS_RULE_LEAK, 0, GS_RULE_TEXT_PATH, path, 0);
}

/* --- lines ----------------------------------------------------------------------------
 */

Test(suppress, a_file_has_rules_comments_and_blank_lines)
{
    struct gs_suppressions *rules =
        good_rules("\xef\xbb\xbf# known\n\n   \t\n"
                   "leak:load_batch\r\n"
                   "  leak: operator new(unsigned long) max_count=3  max_bytes=20M\n"
                   "\t# not this\n"
                   "free:^evict$ device=2\n"
                   "leak:a == b\n"
                   "leak:last");
    const struct gs_rule *rule;

    cr_assert_eq(gs_suppressions_count(rules), 5);
    cr_expect(gs_suppressions_need_names(rules));
    rule = gs_suppressions_rule(rules, 0);
    cr_expect_eq(rule->kind, GS_RULE_LEAK);
    cr_expect_str_eq(rule->pattern, "load_batch");
    cr_expect_eq(rule->device, -1);
    cr_expect_eq(rule->max_count, GS_RULE_ANY);
    cr_expect_eq(rule->max_bytes, GS_RULE_ANY);
    cr_expect_str_eq(rule->source, "r.txt");
    cr_expect_eq(rule->line, 4);
    rule = gs_suppressions_rule(rules, 1);
    cr_expect_str_eq(rule->pattern, "operator new(unsigned long)");
    cr_expect_eq(rule->max_count, 3);
    cr_expect_eq(rule->max_bytes, 20 * GS_MIB);
    rule = gs_suppressions_rule(rules, 2);
    cr_expect_eq(rule->kind, GS_RULE_FREE);
    cr_expect_str_eq(rule->pattern, "^evict$");
    cr_expect_eq(rule->device, 2);
    cr_expect_str_eq(gs_suppressions_rule(rules, 3)->pattern, "a == b");
    cr_expect_str_eq(gs_suppressions_rule(rules, 4)->pattern, "last");
    cr_expect_eq(gs_suppressions_rule(rules, 4)->line, 9);
    gs_suppressions_destroy(rules);
}

/* file= is the file of the frame that is named in front of it: by base name, or by path
 * if it has a slash. A frame whose file is not known does not match. */
Test(suppress, a_file_is_that_of_the_frame_before_it)
{
    struct gs_suppressions *rules =
        good_rules("leak:grab file=/a/utils.cpp$ from=run max_bytes=1K file=^run.c$\n");
    const struct gs_rule *rule = gs_suppressions_rule(rules, 0);
    struct gs_symbol_request frames[] = {
        {.result = {.function = "grab", .file = "/src/a/utils.cpp"}},
        {.result = {.function = "run", .file = "/src/other/run.c"}},
        {.result = {.function = "run", .file = "/src/xrun.c"}},
        {.result = {.function = "run"}},
    };
    struct gs_shown_stack stack = {.frames = frames, .count = 2};

    cr_expect_str_eq(rule->pattern, "grab");
    cr_expect_str_eq(rule->file, "/a/utils.cpp$");
    cr_expect_eq(memcmp(rule->from, "run\0^run.c$\0", 13), 0);
    cr_expect_eq(rule->max_bytes, 1024);
    cr_expect(gs_pattern_matches_file(rule->file, frames[0].result.file));
    cr_expect_not(gs_pattern_matches_file(rule->file, "/src/b/utils.cpp"));
    cr_expect_not(gs_pattern_matches_file(rule->file, NULL));
    cr_expect_not(gs_pattern_matches_file("utils", "/utils/x.c"), "the base name alone");
    cr_expect(gs_report_callers_match(&stack, 0, rule->from));
    frames[1] = frames[2];
    cr_expect_not(gs_report_callers_match(&stack, 0, rule->from), "another file");
    frames[1] = frames[3];
    cr_expect_not(gs_report_callers_match(&stack, 0, rule->from), "no file");
    gs_suppressions_destroy(rules);
}

Test(suppress, a_malformed_line_is_told_and_skipped)
{
    static const char text[] = "leak:first\n"
                               "race:thread\n"
                               "load_batch\n"
                               "leak:\n"
                               "leak: max_count=1\n"
                               "leak:a max_count=few\n"
                               "leak:a max_bytes=1X\n"
                               "leak:a max_count=1 max_count=2\n"
                               "leak:a max_cuont=1\n"
                               "leak:a device=gpu\n"
                               "free:a max_bytes=1M\n"
                               "leak:a max_count=18446744073709551615\n"
                               "leak:a max_bytes=99999999999T\n"
                               "leak:\0hidden\n"
                               "leak:second\n"
                               "leak:a from=\n"
                               "leak:a from=1 from=2 from=3 from=4 from=5 from=6 from=7 "
                               "from=8 from=9\n"
                               "leak:a file=\n"
                               "leak:a file=x.c file=y.c from=b\n"
                               "leak:file=x.c\n";
    struct problems problems;
    struct gs_suppressions *rules = rules_of(text, sizeof(text) - 1, &problems);

    cr_expect_str_eq(
        problems.text,
        "2: a rule of another tool\n"
        "3: not one of leak:, free:, overrun:, arg:, peak: and deny:\n"
        "4: no pattern\n"
        "5: no pattern\n"
        "6: max_count is not a whole number: max_count=few\n"
        "7: max_bytes is not a size (such as 20M): max_bytes=1X\n"
        "8: max_count is given twice: max_count=1\n"
        "9: unknown setting (file, from, max_count, max_bytes, device, not_from and "
        "after "
        "are known): max_cuont=1\n"
        "10: device is not a device number: device=gpu\n"
        "11: max_bytes is for leak: and peak: rules: max_bytes=1M\n"
        "12: max_count is not a whole number: max_count=18446744073709551615\n"
        "13: max_bytes is not a size (such as 20M): max_bytes=99999999999T\n"
        "14: a NUL byte\n"
        "16: from has no pattern: from=\n"
        "17: from is given more than 8 times: from=1\n"
        "18: file has no pattern: file=\n"
        "19: file is given twice: file=x.c\n"
        "20: no pattern\n");
    cr_assert_eq(gs_suppressions_count(rules), 2);
    cr_expect_eq(find_name(rules, "the second"), 1);
    gs_suppressions_destroy(rules);
}

/* The value is in the line, and nothing of a bad rule stays. */
Test(suppress, bad_budgets_are_told_and_skipped)
{
    static const char text[] = "peak:a\n"
                               "peak:\n"
                               "peak:a max_bytes=2.5G\n"
                               "peak:a max_bytes=-2G\n"
                               "peak:a max_bytes=G\n"
                               "peak:a max_bytes=2GB\n"
                               "peak:a max_bytes=2G max_count=1\n"
                               "peak:a max_bytes=2G after=3s\n"
                               "deny:\n"
                               "deny: after=3s\n"
                               "deny:a max_bytes=2G\n"
                               "deny:a file=x.c\n"
                               "deny:a after=3\n"
                               "deny:a after=-3s\n"
                               "deny:a after=\n"
                               "deny:a after=3s after=x\n"
                               "deny:a after=99999999999999999999h\n"
                               "deny:a not_from=\n"
                               "leak:a not_from=x\n"
                               "deny:cudaMalloc not from=rmm after=mark\n"
                               "peak:a max_bytes=2G\n"
                               "deny:a after=5x\n"
                               "deny:a after=1.5s\n"
                               "deny:a after=3d_conv\n"
                               "peak: max_bytes=6815744\n";
    struct problems problems;
    struct gs_suppressions *rules = rules_of(text, sizeof(text) - 1, &problems);

    cr_expect_str_eq(
        problems.text,
        "1: a peak: rule needs max_bytes (such as max_bytes=2G)\n"
        "2: a peak: rule needs max_bytes (such as max_bytes=2G)\n"
        "3: max_bytes is not a size (such as 20M): max_bytes=2.5G\n"
        "4: max_bytes is not a size (such as 20M): max_bytes=-2G\n"
        "5: max_bytes is not a size (such as 20M): max_bytes=G\n"
        "6: max_bytes is not a size (such as 20M): max_bytes=2GB\n"
        "7: max_count is not for peak: rules: max_count=1\n"
        "8: after is for deny: rules only: after=3s\n"
        "9: no pattern\n"
        "10: no pattern\n"
        "11: max_bytes is for leak: and peak: rules: max_bytes=2G\n"
        "12: file is not for deny: rules: file=x.c\n"
        "13: after is a time without a unit (ms, s, m or h): after=3\n"
        "14: after is a negative time: after=-3s\n"
        "15: after has neither a time (such as 30s) nor the pattern of a scope: after=\n"
        "16: after is given twice: after=3s\n"
        "17: after is too long a time: after=99999999999999999999h\n"
        "18: not_from has no pattern: not_from=\n"
        "19: not_from is for deny: rules only: not_from=x\n"
        "20: the pattern of a call has a space (callers are from= and not_from=)\n"
        "22: after is not a time (such as 30s; a scope with such a name: after=^5x): "
        "after=5x\n"
        "23: after is not a time (such as 30s; a scope with such a name: after=^5x): "
        "after=1.5s\n"
        "24: after is not a time (such as 30s; a scope with such a name: after=^5x): "
        "after=3d_conv\n");
    cr_assert_eq(gs_suppressions_count(rules), 2);
    cr_expect(gs_suppressions_has(rules, GS_RULE_PEAK));
    cr_expect_not(gs_suppressions_has(rules, GS_RULE_DENY));
    cr_expect_eq(gs_suppressions_rule(rules, 0)->max_bytes, 2 * GS_GIB);
    cr_expect_eq(gs_suppressions_rule(rules, 1)->max_bytes, 6815744);
    gs_suppressions_destroy(rules);
}

/* Equal conditions are one, so that eight are enough for any number of rules. */
Test(suppress, conditions_of_deny_rules_are_bits)
{
    static const char text[] = "deny:a after=10ms\ndeny:b after=2m\ndeny:c after=10ms\n"
                               "deny:d after=train\ndeny:e after=train\ndeny:f\n"
                               "deny:g after=^3d_conv\n"
                               "deny:h after=1\ndeny:h after=p\ndeny:h after=q\n"
                               "deny:h after=r\ndeny:h after=s\ndeny:h after=t\n";
    static const uint8_t bits[] = {1, 2, 1, 4, 4, 0, 8, 16, 32, 64, 128};
    struct problems problems;
    struct gs_suppressions *rules = rules_of(text, sizeof(text) - 1, &problems);

    cr_expect_str_eq(problems.text,
                     "8: after is a time without a unit (ms, s, m or h): after=1\n"
                     "13: more than 8 different after= in all rules: t\n");
    cr_assert_eq(gs_suppressions_count(rules), GS_ARRAY_LEN(bits));
    for (uint32_t i = 0; i < GS_ARRAY_LEN(bits); i++) {
        cr_expect_eq(gs_suppressions_rule(rules, i)->phase, bits[i], "rule %u", i);
    }
    const struct gs_phases *phases = gs_suppressions_phases(rules);
    cr_expect_eq(phases->items[0].after_ns, 10000000);
    cr_expect_eq(phases->items[1].after_ns, UINT64_C(120000000000));
    cr_expect_str_eq(phases->items[2].scope, "train");
    gs_suppressions_destroy(rules);
}

Test(suppress, a_line_of_any_length_is_taken_or_told)
{
    char text[5000 + 8];
    struct problems problems;

    memcpy(text, "leak:", 5);
    memset(text + 5, 'a', 5000);
    struct gs_suppressions *rules = rules_of(text, 5005, &problems);
    cr_expect_str_eq(problems.text, "1: longer than 4096 bytes\n");
    gs_suppressions_destroy(rules);
    rules = rules_of(text, 4096, &problems);
    cr_expect_str_eq(problems.text, "");
    cr_expect_eq(gs_suppressions_count(rules), 1);
    gs_suppressions_destroy(rules);
    rules = rules_of("", 0, &problems);
    cr_expect_eq(gs_suppressions_count(rules), 0);
    gs_suppressions_destroy(rules);
}

/* --- patterns -------------------------------------------------------------------------
 */

Test(suppress, patterns_match_as_leak_sanitizers_do)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } rows[] = {
        {"load", "load_batch", true},
        {"batch", "load_batch", true},
        {"d_b", "load_batch", true},
        {"loads", "load_batch", false},
        {"LOAD", "load_batch", false},
        {"^load", "load_batch", true},
        {"^batch", "load_batch", false},
        {"batch$", "load_batch", true},
        {"load$", "load_batch", false},
        {"^load_batch$", "load_batch", true},
        {"^load_batch$", "load_batches", false},
        {"l*h", "load_batch", true},
        {"^l*h$", "load_batch", true},
        {"^o*h$", "load_batch", false},
        {"*batch", "load_batch", true},
        {"^*batch$", "load_batch", true},
        {"load*", "load_batch", true},
        {"load*$", "load_batch", true},
        {"b*l", "load_batch", false},
        {"a*a*a", "load_batch", false},
        {"a*a", "load_batch", true},
        {"*", "x", true},
        {"**", "x", true},
        {"^$", "x", false},
        {"bar$", "barbar", true}, /* the first that is found is not the last */
        {"a*bar$", "a_bar_bar", true},
        {"^ab*ba$", "aba", false}, /* the two parts do not overlap */
        {"ns::f(char*)", "ns::f(char*)", true},
        {"cost$a", "cost$a", true}, /* within a pattern it is what it is */
        {"a^b", "a^b", true},
        {"libfoo.so", "libfooXso", false},
        {"x", "", false},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        char line[64];
        snprintf(line, sizeof(line), "leak:%s\n", rows[i].pattern);
        struct gs_suppressions *rules = good_rules(line);
        cr_expect_eq(find_name(rules, rows[i].text), rows[i].matches ? 0 : GS_RULE_NONE,
                     "%s in %s", rows[i].pattern, rows[i].text);
        gs_suppressions_destroy(rules);
    }
}

Test(suppress, paths_are_compared_by_base_name_unless_a_rule_has_a_slash)
{
    struct gs_suppressions *rules = good_rules("leak:^libfoo.so\n"
                                               "leak:/opt/app/*/libbar.so\n"
                                               "leak:opt\n");

    cr_expect_eq(find_path(rules, "/usr/lib/libfoo.so.2"), 0);
    cr_expect_eq(find_path(rules, "libfoo.so.2"), 0);
    cr_expect_eq(find_path(rules, "/opt/app/x/libbar.so"), 1);
    cr_expect_eq(find_path(rules, "/opt/other/libbar.so"), GS_RULE_NONE);
    cr_expect_eq(find_path(rules, "/lib/libopt.so"), 2);
    cr_expect_eq(find_path(rules, NULL), GS_RULE_NONE);
    gs_suppressions_destroy(rules);
}

/* The callers of a rule must match in their order, each further out than the last; a rule
 * whose callers do not match leaves its turn to the next. */
Test(suppress, callers_are_compared_in_their_order)
{
    struct gs_suppressions *rules =
        good_rules("leak:grab from=^inner$ from=out*r max_bytes=1K\n"
                   "leak:grab\n");
    const struct gs_rule *rule = gs_suppressions_rule(rules, 0);
    struct gs_symbol_request frames[] = {
        {.result.function = "grab"},
        {.result.function = "between"},
        {.result.function = "inner"},
        {.result.function = "outer", .result.file = "/a/b.c"},
        {.result.function = "main"},
    };
    struct gs_shown_stack stack = {.frames = frames, .count = GS_ARRAY_LEN(frames)};

    cr_expect_str_eq(rule->pattern, "grab");
    cr_expect_eq(memcmp(rule->from, "^inner$\0\0out*r\0\0", 17), 0);
    cr_expect_eq(rule->max_bytes, 1024);
    cr_expect(gs_report_callers_match(&stack, 0, rule->from));
    cr_expect(gs_report_callers_match(&stack, 1, rule->from));
    cr_expect_not(gs_report_callers_match(&stack, 2, rule->from), "inner is the callee");
    cr_expect_not(gs_report_callers_match(&stack, 0, "outer\0\0inner\0\0"), "the order");
    cr_expect_not(gs_report_callers_match(&stack, 0, "inner\0\0inner\0\0"),
                  "one frame twice");
    cr_expect(gs_report_callers_match(&stack, 0, "^b.c$\0\0"), "a file");
    cr_expect(gs_report_callers_match(&stack, 0, "/a/\0\0"), "a path");
    cr_expect(gs_report_callers_match(&stack, 4, "\0"), "no callers asked for");
    cr_expect_eq(find_name(rules, "grab"), 0);
    cr_expect_eq(
        gs_suppressions_find(rules, GS_RULE_LEAK, 0, GS_RULE_TEXT_NAME, "grab", 1), 1);
    cr_expect_eq(
        gs_suppressions_find(rules, GS_RULE_LEAK, 0, GS_RULE_TEXT_NAME, "grab", 2),
        GS_RULE_NONE);
    gs_suppressions_destroy(rules);
}

Test(suppress, kind_and_device_are_minded_and_the_first_rule_decides)
{
    struct gs_suppressions *rules = good_rules("free:load\n"
                                               "leak:load device=1\n"
                                               "leak:load_batch\n"
                                               "leak:load\n");

    cr_expect_eq(
        gs_suppressions_find(rules, GS_RULE_LEAK, 0, GS_RULE_TEXT_NAME, "load", 0), 3);
    cr_expect_eq(
        gs_suppressions_find(rules, GS_RULE_LEAK, 1, GS_RULE_TEXT_NAME, "load_batch", 0),
        1);
    cr_expect_eq(
        gs_suppressions_find(rules, GS_RULE_LEAK, 0, GS_RULE_TEXT_NAME, "load_batch", 0),
        2);
    cr_expect_eq(
        gs_suppressions_find(rules, GS_RULE_FREE, 5, GS_RULE_TEXT_NAME, "load", 0), 0);
    gs_suppressions_destroy(rules);
    cr_expect_eq(find_name(NULL, "load"), GS_RULE_NONE);
}

/* --- many rules -----------------------------------------------------------------------
 */

static char random_letter(unsigned *seed, const char *letters)
{
    return letters[(unsigned)rand_r(seed) % strlen(letters)];
}

/* Against each rule tried by itself: few letters, so that much matches, and long parts.
 */
Test(suppress, the_index_answers_as_all_rules_one_by_one)
{
    unsigned seed = 7;
    size_t matches = 0;

    for (unsigned round = 0; round < 60; round++) {
        char text[8192], *at = text;
        for (unsigned i = 0; i < 100; i++) {
            at += sprintf(at, "leak:%s", rand_r(&seed) % 8 == 0 ? "^" : "");
            unsigned length = 1 + (unsigned)rand_r(&seed) % (round % 2 ? 6 : 40);
            for (unsigned k = 0; k < length; k++)
                *at++ = random_letter(&seed, rand_r(&seed) % 9 == 0 ? "*/" : "ab");
            at += sprintf(at, "%s\n", rand_r(&seed) % 8 == 0 ? "$" : "");
        }
        struct gs_suppressions *rules = good_rules(text);
        cr_assert_gt(gs_suppressions_count(rules), GS_RULE_FEW);
        for (unsigned i = 0; i < 200; i++) {
            char name[64];
            unsigned length = 1 + (unsigned)rand_r(&seed) % 60;
            uint32_t expected = GS_RULE_NONE;
            for (unsigned k = 0; k < length; k++)
                name[k] = random_letter(&seed, "aab/b");
            name[length] = '\0';
            for (uint32_t k = 0; k < gs_suppressions_count(rules); k++) {
                if (gs_pattern_matches(gs_suppressions_rule(rules, k)->pattern, name)) {
                    expected = k;
                    break;
                }
            }
            matches += expected != GS_RULE_NONE;
            cr_assert_eq(find_name(rules, name), expected, "%s", name);
        }
        gs_suppressions_destroy(rules);
    }
    cr_expect_gt(matches, 1000);
}

/* What 100,000 rules and 20,000 names take. Trying each rule takes some 100 s. */
Test(suppress, a_hundred_thousand_rules_take_no_second)
{
    char *text = malloc(100000 * 64), *at = text, name[96];
    struct timespec start, end;
    uint32_t found = 0;

    cr_assert_not_null(text);
    for (unsigned i = 0; i < 100000; i++)
        at += sprintf(at, "leak:^namespace::Class%u::method_%u$\n", i % 1000, i);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    struct gs_suppressions *rules = good_rules(text);
    for (unsigned i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "namespace::Class%u::method_%u", i * 5 % 1000,
                 i * 5);
        found += find_name(rules, name) == i * 5;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double seconds =
        (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    printf("100,000 rules, 20,000 names: %.3f s\n", seconds);
    cr_expect_eq(found, 20000);
    cr_expect_lt(seconds, 1.0);
    gs_suppressions_destroy(rules);
    free(text);
}

/* --- built-in rules -------------------------------------------------------------------
 */

Test(suppress, built_in_rules_know_libraries_and_not_frameworks)
{
    static const char *const yes[] = {
        "libcublas.so.12", "libcublasLt.so.13",  "libcudnn_engines_precompiled.so.9",
        "libcufft.so.11",  "libcusparseLt.so.0", "libcusolverMg.so.11",
        "libcurand.so.10", "libnccl.so.2",       "libnvshmem_host.so.3"};
    static const char *const no[] = {
        "libcudart.so.13", "libcuda.so.1", "libtorch_cuda.so", "libc10_cuda.so",
        "libmycublas.so",  "app",          "libgpushim.so"};
    struct gs_suppressions *rules = NULL;

    cr_assert_eq(gs_suppressions_create(&rules), GS_OK);
    cr_assert_eq(gs_suppressions_add_builtin(rules), GS_OK);
    cr_expect_not(gs_suppressions_need_names(rules));
    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++)
        cr_expect_neq(find_path(rules, yes[i]), GS_RULE_NONE, "%s", yes[i]);
    for (size_t i = 0; i < GS_ARRAY_LEN(no); i++)
        cr_expect_eq(find_path(rules, no[i]), GS_RULE_NONE, "%s", no[i]);
    gs_suppressions_destroy(rules);
}

/* What is printed, read as a file, has the same rules. */
Test(suppress, built_in_rules_are_printed_in_the_grammar_of_files)
{
    struct gs_suppressions *builtin = NULL;
    struct gs_text text = {0};

    gs_suppressions_print_builtin(&text);
    struct gs_suppressions *read = good_rules(text.data);
    cr_assert_eq(gs_suppressions_create(&builtin), GS_OK);
    cr_assert_eq(gs_suppressions_add_builtin(builtin), GS_OK);
    cr_assert_eq(gs_suppressions_count(read), gs_suppressions_count(builtin));
    for (uint32_t i = 0; i < gs_suppressions_count(read); i++) {
        const struct gs_rule *a = gs_suppressions_rule(read, i);
        const struct gs_rule *b = gs_suppressions_rule(builtin, i);
        cr_expect_str_eq(a->pattern, b->pattern);
        cr_expect_eq(a->max_count, b->max_count);
        cr_expect_eq(a->kind, b->kind);
    }
    gs_suppressions_destroy(read);
    gs_suppressions_destroy(builtin);
    gs_text_free(&text);
}
