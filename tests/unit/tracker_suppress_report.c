/*
 * tracker_suppress_report.c - proves what rules do to a report: which groups and errors
 * they take, that a cap is on all that a rule matches, that nothing is hidden, and what
 * the gathered groups say of it to whoever writes another format.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_helpers.h"

static struct gs_suppressions *rules_of(const char *text, bool builtin)
{
    struct gs_suppressions *rules = test_rules(text);

    if (builtin)
        cr_assert_eq(gs_suppressions_add_builtin(rules), GS_OK);
    return rules;
}

struct setting {
    struct gs_stacks *stacks;
    struct gs_tracker *tracker;
    struct gs_report_config config;
};

/* load_batch leaks 3 KiB twice, run 1 KiB on two devices; at two places memory is freed
 * wrongly. */
static struct setting begin(const char *rules)
{
    struct setting setting = {.stacks = test_stacks(), .config = test_report_config()};
    struct gs_allocation other = test_allocation(0x40000, 1024);
    struct gs_free_site site = {.time_ns = SECONDS(20), .thread = 7, .api = API_MEM_FREE};

    setting.tracker = test_tracker(setting.stacks);
    uint32_t load = TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD, AT_MAIN);
    uint32_t run = TEST_STACK(setting.stacks, AT_CUDART, AT_RUN, AT_MAIN);
    test_leak(setting.tracker, 0x10000, 3072, SECONDS(10), load);
    test_leak(setting.tracker, 0x20000, 3072, SECONDS(11), load);
    test_leak(setting.tracker, 0x30000, 1024, SECONDS(12), run);
    other.device = 1;
    other.stack = run;
    test_add(setting.tracker, &other, true);
    site.stack = TEST_STACK(setting.stacks, AT_TORCH, AT_MAIN);
    gs_tracker_error_free(setting.tracker, 0x77770000, 0, &site);
    site.stack = TEST_STACK(setting.stacks, AT_TORCH, AT_RUN, AT_MAIN);
    gs_tracker_error_free(setting.tracker, 0x77780000, 0, &site);
    setting.config.suppressions = rules_of(rules, true);
    return setting;
}

static void finish(struct setting *setting)
{
    gs_suppressions_destroy(setting->config.suppressions);
    gs_tracker_destroy(setting->tracker);
    gs_stacks_destroy(setting->stacks);
}

/* The line of a report that begins with `head`, without its newline; "" if none does. */
static char *line_of(const char *text, const char *head)
{
    for (const char *line = text; line && *line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, head, strlen(head)) == 0)
            return strndup(line, strcspn(line, "\n"));
    }
    return strdup("");
}

static void expect_line(const char *rules, const char *head, const char *expected)
{
    struct setting setting = begin(rules);
    char *text = test_report_text(setting.tracker, &setting.config, NULL);
    char *line = line_of(text, head);

    cr_expect_str_eq(line, expected, "%s: %s", rules, text);
    free(line);
    free(text);
    finish(&setting);
}

Test(suppress_report, what_is_suppressed_leaves_the_summary_and_is_counted)
{
    expect_line("", "SUMMARY",
                "SUMMARY: gpushim: 2 errors, 8.00 KiB leaked in 4 "
                "allocations, 3 call sites");
    expect_line("", "Suppressed", "");
    expect_line(
        "leak:load_batch", "SUMMARY",
        "SUMMARY: gpushim: 2 errors, 2.00 KiB leaked in 2 allocations, 2 call sites");
    expect_line("leak:load_batch", "Suppressed",
                "Suppressed: 2 allocations, 6.00 KiB by 1 rule");
    expect_line("leak:load_batch\nleak:^run$\nfree:empty_cuda\n", "SUMMARY",
                "SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, 0 call sites");
    expect_line("leak:load_batch\nleak:^run$\nfree:empty_cuda\n", "Suppressed",
                "Suppressed: 2 errors, 4 allocations, 8.00 KiB by 3 rules");
    expect_line("free:torch\nfree:nobody", "Suppressed",
                "Suppressed: 2 errors by 1 rule");
}

Test(suppress_report, a_rule_for_a_device_takes_that_devices)
{
    expect_line("leak:run device=1", "Suppressed",
                "Suppressed: 1 allocation, 1.00 KiB by 1 rule");
    expect_line("leak:run device=2", "Suppressed", "");
}

Test(suppress_report, a_cap_is_on_all_that_a_rule_matches)
{
    expect_line("leak:app max_count=4", "Suppressed",
                "Suppressed: 4 allocations, 8.00 KiB by 1 rule");
    expect_line("leak:app max_count=3", "Suppressed", "");
    expect_line("leak:app max_count=3", "  not suppressed",
                "  not suppressed: 4 allocations of 8.00 KiB in all, more than leak:app "
                "max_count=3 (r:1) allows");
    expect_line("leak:app max_bytes=8K", "Suppressed",
                "Suppressed: 4 allocations, 8.00 KiB by 1 rule");
    expect_line("leak:app max_bytes=8191", "Suppressed", "");
    expect_line("free:torch max_count=1", "  not suppressed",
                "  not suppressed: 2 errors in all, more than free:torch max_count=1 "
                "(r:1) allows");
    /* The first rule that matches decides, even where its cap is exceeded. */
    expect_line("leak:load max_count=1\nleak:load_batch\n", "Suppressed", "");
}

/* Three lines: nothing else is said of a run with nothing but known leaks. */
Test(suppress_report, a_run_with_known_leaks_only)
{
    struct setting setting = begin("leak:app\nfree:torch\n");
    struct gs_report_summary summary;

    char *text = test_report_text(setting.tracker, &setting.config, &summary);
    cr_expect_str_eq(text, "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
                           "Suppressed: 2 errors, 4 allocations, 8.00 KiB by 2 rules\n"
                           "SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, "
                           "0 call sites\n");
    cr_expect_eq(summary.errors, 0);
    cr_expect_eq(summary.leaked_count, 0);
    cr_expect_eq(summary.leak_groups, 0);
    free(text);
    finish(&setting);
}

/* Rules are for all that leaks, not only for what is written out. */
Test(suppress_report, groups_that_are_not_written_out_are_compared_too)
{
    struct setting setting = begin("leak:^run$\nleak:nobody");
    struct gs_report_summary summary;

    for (unsigned shown = 0; shown < 2; shown++) {
        setting.config.max_groups = shown;
        char *text = test_report_text(setting.tracker, &setting.config, &summary);
        char *line = line_of(text, "Suppressed");
        cr_expect_str_eq(line, "Suppressed: 2 allocations, 2.00 KiB by 1 rule");
        cr_expect_eq(summary.leak_groups, 1);
        free(line);
        free(text);
    }
    finish(&setting);
}

/* That is the library's fault, whatever is known of who frees. */
Test(suppress_report, a_wrong_idle_proof_stays)
{
    struct setting setting = begin("free:torch");
    struct gs_report_summary summary;
    struct gs_free_site site = {.time_ns = SECONDS(20), .thread = 7, .api = API_MEM_FREE};

    site.stack = TEST_STACK(setting.stacks, AT_TORCH, AT_MAIN);
    gs_tracker_error_not_idle(setting.tracker, 0, 0x55, 1000, &site);
    free(test_report_text(setting.tracker, &setting.config, &summary));
    cr_expect_eq(summary.errors, 1, "the two wrong frees are suppressed");
    finish(&setting);
}

/* Errors of which only the number is known are nobody's to suppress. */
Test(suppress_report, errors_that_were_only_counted_stay)
{
    struct setting setting = begin("free:torch\nleak:app");
    struct gs_free_site site = {.thread = 7};
    struct gs_report_summary summary;

    for (unsigned i = 0; i < 100; i++) {
        site.stack = TEST_STACK(setting.stacks, AT_TORCH, AT_NOWHERE + i, AT_MAIN);
        gs_tracker_error_free(setting.tracker, 0x88880000, 0, &site);
    }
    char *text = test_report_text(setting.tracker, &setting.config, &summary);
    cr_expect_eq(summary.errors, 102 - GS_ERRORS_KEPT);
    free(text);
    finish(&setting);
}

/* What another format reads: all groups, the leaks first, each with its rule. */
Test(suppress_report, gathered_groups_name_their_rule)
{
    struct setting setting =
        begin("leak:nobody\nleak:load_batch\nleak:run max_count=1\n");
    struct gs_report_source source = test_source();
    struct gs_report_data data;
    struct gs_frame_table frames;
    uint32_t ids[16];

    gs_report_gather(setting.tracker, &setting.config, &data);
    cr_assert_eq(data.groups.count, 3);
    for (size_t i = 0; i < 3; i++)
        ids[i] = data.groups.items[i].stack;
    gs_frame_table_fill(&frames, &setting.config, setting.stacks, &source, ids, 3);
    gs_report_suppress(setting.tracker, &setting.config, &source, &frames, &data);
    gs_report_choose(&setting.config, &data);
    cr_expect_eq(data.leak_groups, 2);
    cr_expect_eq(data.shown, 2);
    cr_expect_eq(data.groups.items[0].suppressed_by, 0);
    cr_expect_eq(data.groups.items[0].beyond_rule, 3);
    cr_expect_eq(data.groups.items[1].beyond_rule, 3);
    cr_expect_eq(data.groups.items[2].suppressed_by, 2);
    cr_expect_eq(data.groups.items[2].bytes, 6144);
    cr_expect_eq(data.leaked_bytes + data.suppressed_bytes, 8192);
    cr_expect_eq(data.grouped_count, 2);
    gs_frame_table_free(&frames);
    gs_report_data_free(&data);
    finish(&setting);
}

/* Without rules of files no name is asked for: modules are enough. */
static unsigned resolved;

static void count_resolve(void *self, struct gs_symbol_request *requests, size_t count)
{
    (void)self;
    (void)requests;
    resolved += (unsigned)count;
}

static enum gs_status all_is_cublas(void *self, uint32_t stack, uintptr_t frame,
                                    struct gs_module *out)
{
    (void)self;
    (void)stack;
    (void)frame;
    *out = (struct gs_module){.path = "/usr/lib/libcublas.so.13", .end = UINTPTR_MAX};
    return GS_OK;
}

Test(suppress_report, built_in_rules_need_modules_only)
{
    struct setting setting = begin("");
    struct gs_report_source source = {
        .now_ns = SECONDS(600), .module = all_is_cublas, .resolve = count_resolve};
    struct gs_report_summary summary;
    struct gs_text text = {0};

    setting.config.show_devices = true;
    gs_report_write_from(setting.tracker, &setting.config, &source, &text, &summary);
    cr_expect_eq(summary.leaked_count, 0);
    cr_expect_eq(summary.errors, 2);
    cr_expect_not_null(strstr(text.data, "Suppressed: 4 allocations, 8.00 KiB by 1 "
                                         "built-in rule\n"));
    cr_expect_not_null(
        strstr(text.data,
               "         4  8.00 KiB  leak:^libcublas.so max_count=256 (built-in)\n"));
    cr_expect_not_null(
        strstr(text.data,
               "GPU 0: peak 7.00 KiB at 12.0 s  (kept by libraries 7.00 KiB in 3)\n"),
        "%s", text.data);
    cr_expect_eq(resolved, 5, "the frames of the errors' two stacks, not %u", resolved);
    gs_text_free(&text);
    finish(&setting);
}
