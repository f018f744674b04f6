/*
 * tracker_budgets.c - proves what peak: and deny: rules find: a budget at the peak, of
 * call sites and of devices, and calls by stack, by what came before and by their number.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/stacks/scopes.h"
#include "tracker_export_helpers.h"

static struct gs_stacks *stacks;
static struct gs_tracker *tracker;
static struct gs_suppressions *rules;
static uint64_t next_addr;

static void begin(const char *text)
{
    static const char *const names[] = {"unknown", "cuMemAlloc", "cuMemAlloc"};

    stacks = test_stacks();
    rules = test_rules(text);
    struct gs_tracker_config config = {.api_names = names,
                                       .api_count = 3,
                                       .stacks = stacks,
                                       .tally = true,
                                       .phases = gs_suppressions_phases(rules)};
    cr_assert_eq(gs_tracker_create(&config, &tracker), GS_OK);
    next_addr = 0x100000;
}

static void finish(void)
{
    gs_tracker_destroy(tracker);
    gs_suppressions_destroy(rules);
    gs_stacks_destroy(stacks);
}

/* An allocation on a device, recorded as the shim does it. Returns its id. */
static uint32_t take(uint64_t mib, int16_t device, uint32_t stack)
{
    struct gs_allocation allocation = test_allocation(next_addr, mib * GS_MIB);

    next_addr += 0x1000;
    allocation.time_ns = 0;
    allocation.stack = stack;
    allocation.device = device;
    gs_tracker_tally(tracker, &allocation);
    return test_add(tracker, &allocation, true);
}

static void take_and_free(uint64_t mib, int16_t device, uint32_t stack)
{
    struct gs_free_site site = {.api = API_MEM_FREE};

    gs_tracker_remove(tracker, take(mib, device, stack), &site);
}

/* The lines of the report that name an error, each followed by a newline, and the number
 * of errors in its summary. */
static char *errors_of(uint64_t *count)
{
    struct gs_report_config config = test_report_config();
    struct gs_report_summary summary;

    config.suppressions = rules;
    char *text = test_report_text(tracker, &config, &summary);
    char *found = calloc(1, strlen(text) + 1);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "ERROR ", 6) == 0) {
            strcat(strcat(found, line), "\n");
        }
    }
    free(text);
    *count = summary.errors;
    return found;
}

static void expect_errors(const char *expected, uint64_t expected_count)
{
    uint64_t count;
    char *found = errors_of(&count);

    cr_expect_str_eq(found, expected, "%s", found);
    cr_expect_eq(count, expected_count, "%llu errors", (unsigned long long)count);
    free(found);
}

/* The fault: live memory, or the sum of what was ever allocated, taken for the peak; and
 * memory of other call sites and devices added to it. */
Test(budgets, a_peak_is_of_the_call_sites_that_a_rule_names)
{
    begin("peak:load_batch max_bytes=59M\n"
          "peak:load_batch max_bytes=60M\n"
          "peak:nobody max_bytes=0K\n"
          "peak:load_batch from=nobody max_bytes=1M\n"
          "peak:load_batch device=1 max_bytes=1M\n");
    uint32_t load = TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN);
    uint32_t next = TEST_STACK(stacks, AT_CUDART, AT_LOAD_NEXT, AT_MAIN);
    take_and_free(50, 0, load);
    uint32_t first = take(20, 0, load), second = take(40, 0, next);
    take(30, 0, TEST_STACK(stacks, AT_CUDART, AT_RUN, AT_MAIN));
    gs_tracker_remove(tracker, first, NULL);
    gs_tracker_remove(tracker, second, NULL);
    take_and_free(50, 0, load);
    expect_errors(
        "ERROR 1: budget exceeded: 60.0 MiB at the peak of GPU 0, more than the "
        "59.0 MiB of peak:load_batch max_bytes=59M (r:1)\n",
        1);
    finish();
}

Test(budgets, a_peak_without_a_pattern_is_of_the_device)
{
    begin("peak: max_bytes=4M\npeak: device=1 max_bytes=8M\npeak: max_bytes=9M\n");
    take_and_free(5, 0, TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN));
    take(9, 1, TEST_STACK(stacks, AT_CUDART, AT_RUN, AT_MAIN));
    expect_errors(
        "ERROR 1: budget exceeded: 5.00 MiB at the peak of GPU 0, more than the "
        "4.00 MiB of peak: max_bytes=4M (r:1)\n"
        "ERROR 2: budget exceeded: 9.00 MiB at the peak of GPU 1, more than the "
        "4.00 MiB of peak: max_bytes=4M (r:1)\n"
        "ERROR 3: budget exceeded: 9.00 MiB at the peak of GPU 1, more than the "
        "8.00 MiB of peak: max_bytes=8M device=1 (r:2)\n",
        3);
    finish();
}

/* The fault: "^train" compared with the frame "[scope step/train]" alone, a path with
 * each of its names alone, or the bracket of a name taken for that of the frame. */
Test(budgets, a_scope_is_named_as_the_program_names_it)
{
    begin("peak:^train$ max_bytes=1M\npeak:^step$ max_bytes=2M\n"
          "peak:^step/train$ max_bytes=1K\npeak:^rain$ max_bytes=0K\n"
          "peak:^step/test[3]$ max_bytes=4K\npeak:^train/test[3]$ max_bytes=5K\n"
          "peak:^step/t$ max_bytes=0K\npeak:p/train/t max_bytes=6K\n");
    uint32_t load = TEST_STACK(stacks, AT_CUDART, AT_LOAD, AT_MAIN);
    cr_assert_eq(gs_scopes_begin("step"), GS_OK);
    take(1, 0, gs_scopes_add(stacks, load));
    cr_assert_eq(gs_scopes_begin("train"), GS_OK);
    take(2, 0, gs_scopes_add(stacks, load));
    cr_assert_eq(gs_scopes_begin("test[3]"), GS_OK);
    take(3, 0, gs_scopes_add(stacks, load));
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    expect_errors(
        "ERROR 1: budget exceeded: 5.00 MiB at the peak of GPU 0, more than the "
        "1.00 MiB of peak:^train$ max_bytes=1M (r:1)\n"
        "ERROR 2: budget exceeded: 6.00 MiB at the peak of GPU 0, more than the "
        "2.00 MiB of peak:^step$ max_bytes=2M (r:2)\n"
        "ERROR 3: budget exceeded: 5.00 MiB at the peak of GPU 0, more than the "
        "1.00 KiB of peak:^step/train$ max_bytes=1K (r:3)\n"
        "ERROR 4: budget exceeded: 3.00 MiB at the peak of GPU 0, more than the "
        "5.00 KiB of peak:^train/test[3]$ max_bytes=5K (r:6)\n"
        "ERROR 5: budget exceeded: 3.00 MiB at the peak of GPU 0, more than the "
        "6.00 KiB of peak:p/train/t max_bytes=6K (r:8)\n",
        5);
    finish();
}

/* The fault: callers compared with functions alone. */
Test(budgets, a_scope_is_a_caller)
{
    begin("deny:Alloc from=^step$\ndeny:Alloc from=^main$ from=^a/step$\n"
          "deny:Alloc from=^other$\n");
    uint32_t load = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    take(1, 0, load);
    cr_assert_eq(gs_scopes_begin("a"), GS_OK);
    cr_assert_eq(gs_scopes_begin("step"), GS_OK);
    take(2, 0, gs_scopes_add(stacks, load));
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    expect_errors("ERROR 1: denied call: cuMemAlloc, GPU 0, 1 call, 2.00 MiB, denied by "
                  "deny:Alloc from=^step$ (r:1)\n"
                  "ERROR 2: denied call: cuMemAlloc, GPU 0, 1 call, 2.00 MiB, denied by "
                  "deny:Alloc from=^main$ from=^a/step$ (r:2)\n",
                  2);
    finish();
}

/* The fault: only live memory compared, so a call that was freed is missed; or a caller
 * that is excused denied. */
Test(budgets, a_denied_call_is_found_though_it_was_freed)
{
    begin("deny:^cuMemAlloc$ not_from=torch not_from=^run$\n"
          "deny:^cuMemAlloc$ from=load_batch device=1\n"
          "deny:^cuMem$\n");
    uint32_t load = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    take_and_free(1, 0, load);
    take_and_free(2, 0, load);
    take_and_free(4, 0, TEST_STACK(stacks, AT_TORCH, AT_LOAD, AT_MAIN));
    take_and_free(4, 0, TEST_STACK(stacks, AT_LOAD, AT_RUN, AT_MAIN));
    take(8, 0, TEST_STACK(stacks, AT_STRIPPED, AT_MAIN));
    take(3, 0, 0);
    expect_errors("ERROR 1: denied call: cuMemAlloc, GPU 0, 2 calls, 3.00 MiB, denied by "
                  "deny:^cuMemAlloc$ not_from=torch not_from=^run$ (r:1)\n"
                  "ERROR 2: denied call: cuMemAlloc, GPU 0, 1 call, 8.00 MiB, denied by "
                  "deny:^cuMemAlloc$ not_from=torch not_from=^run$ (r:1)\n",
                  3);
    finish();
}

/* The fault: calls without a stack are let through, or calls with one count for them,
 * too. */
Test(budgets, calls_that_were_not_sampled_are_denied)
{
    begin("deny:Alloc\n");
    tracker->config.sampling.distance_bytes = 100 * GS_MIB;
    take(1, 0, GS_STACK_NOT_SAMPLED);
    take(2, 0, GS_STACK_TOO_SMALL);
    take(4, 0, GS_STACK_NOT_SAMPLED);
    take(8, 0, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    expect_errors("ERROR 1: denied call: cuMemAlloc, GPU 0, 3 calls, 7.00 MiB, denied by "
                  "deny:Alloc (r:1)\n"
                  "ERROR 2: denied call: cuMemAlloc, GPU 0, 1 call, 8.00 MiB, denied by "
                  "deny:Alloc (r:1)\n",
                  4);
    finish();
}

/* The fault: such calls pass for excused. */
Test(budgets, calls_whose_callers_are_not_known_are_not_judged)
{
    struct gs_report_config config = test_report_config();

    begin(
        "deny:Alloc not_from=^run$\ndeny:Alloc from=^run$ device=1\ndeny:Free from=a\n");
    take(1, 0, GS_STACK_NOT_SAMPLED);
    take(1, 0, GS_STACK_NOT_SAMPLED);
    take(2, 1, 0);
    take(8, 0, TEST_STACK(stacks, AT_RUN, AT_MAIN));
    config.suppressions = rules;
    char *text = test_report_text(tracker, &config, NULL);
    cr_expect(strstr(text, "\nNot judged: 3 calls without a call stack, by deny:Alloc "
                           "not_from=^run$ (r:1)\n"
                           "Not judged: 1 call without a call stack, by deny:Alloc "
                           "from=^run$ device=1 (r:2)\n"),
              "%s", text);
    cr_expect_null(strstr(text, "deny:Free"));
    free(text);
    expect_errors("", 0);
    finish();
}

Test(budgets, so_many_calls_are_allowed)
{
    begin("deny:Alloc max_count=2\ndeny:Alloc max_count=3\n");
    uint32_t load = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    take_and_free(1, 0, load);
    take_and_free(1, 1, load);
    take_and_free(1, 1, load);
    expect_errors("ERROR 1: denied call: cuMemAlloc, GPU 1, 2 calls, 2.00 MiB, 3 calls "
                  "in all, more than max_count=2 of deny:Alloc (r:1)\n"
                  "ERROR 2: denied call: cuMemAlloc, GPU 0, 1 call, 1.00 MiB, 3 calls "
                  "in all, more than max_count=2 of deny:Alloc (r:1)\n",
                  3);
    finish();
}

/* The fault: calls before the scope are denied, those after its end are not, or those of
 * a later condition are. */
Test(budgets, calls_are_denied_once_a_scope_has_begun)
{
    begin("deny:Alloc after=^mark$\ndeny:Alloc after=other\ndeny:Alloc after=1h\n"
          "deny:Alloc after=0s max_count=3\ndeny:Alloc after=^remark/mark$\n"
          "deny:Alloc after=^mark/remark$\n");
    uint32_t load = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    take_and_free(1, 0, load);
    cr_assert_eq(gs_scopes_begin("remark"), GS_OK);
    take_and_free(2, 0, load);
    cr_assert_eq(gs_scopes_begin("mark"), GS_OK);
    cr_assert_eq(gs_scopes_begin("inner"), GS_OK);
    take_and_free(4, 0, load);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    take_and_free(8, 0, load);
    expect_errors("ERROR 1: denied call: cuMemAlloc, GPU 0, 2 calls, 12.0 MiB, denied by "
                  "deny:Alloc after=^mark$ (r:1)\n"
                  "ERROR 2: denied call: cuMemAlloc, GPU 0, 4 calls, 15.0 MiB, 4 calls "
                  "in all, more than max_count=3 of deny:Alloc after=0s (r:4)\n"
                  "ERROR 3: denied call: cuMemAlloc, GPU 0, 2 calls, 12.0 MiB, denied by "
                  "deny:Alloc after=^remark/mark$ (r:5)\n",
                  8);
    finish();
}

/* The fault: calls that are kept apart for a rule are lines of their own in a profile. */
Test(budgets, a_profile_has_a_call_site_once)
{
    struct gs_samples samples = {0};

    begin("deny:Alloc after=mark\n");
    uint32_t load = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    take_and_free(1, 0, load);
    cr_assert_eq(gs_scopes_begin("mark"), GS_OK);
    take_and_free(1, 0, load);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    cr_assert_eq(gs_tally_copy(tracker->tally, false, &samples), GS_OK);
    cr_expect_eq(samples.count, 1);
    gs_samples_free(&samples);
    cr_assert_eq(gs_tally_copy(tracker->tally, true, &samples), GS_OK);
    cr_expect_eq(samples.count, 2);
    gs_samples_free(&samples);
    finish();
}

/* The fault: an error that is in the text alone. */
Test(budgets, files_have_what_was_broken)
{
    static const struct {
        unsigned format;
        const char *words[4];
    } files[] = {
        {GS_EXPORT_json,
         {"\"error\": \"budget exceeded\"",
          "\"broken_rule\": {\"rule\": \"peak:load max_bytes=1M (r:1)\", \"bytes\": "
          "2097152, "
          "\"max_bytes\": 1048576}",
          "\"broken_rule\": {\"rule\": \"deny:Alloc (r:2)\", \"bytes\": 2097152, "
          "\"max_bytes\": null}",
          "\"errors\": 2"}},
        {GS_EXPORT_junit,
         {"failures=\"3\"", "<failure type=\"over-budget\" message=\"budget exceeded: ",
          "<failure type=\"denied-call\" message=\"denied call: cuMemAlloc, GPU 0, 1 "
          "call, "
          "2.00 MiB, denied by deny:Alloc (r:2), at load_batch loader.c:88",
          "  allocated\n    #0 load_batch "}},
        {GS_EXPORT_sarif,
         {"\"ruleId\": \"over-budget\"", "\"ruleId\": \"denied-call\"",
          "\"text\": \"budget exceeded: 2.00 MiB at the peak of GPU 0, more than the "
          "1.00 "
          "MiB of peak:load max_bytes=1M (r:1), at load_batch loader.c:88",
          "\"startLine\": 88"}},
    };
    struct gs_report_config config = test_report_config();

    begin("peak:load max_bytes=1M\ndeny:Alloc\n");
    take(2, 0, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    config.suppressions = rules;
    for (size_t i = 0; i < GS_ARRAY_LEN(files); i++) {
        struct test_bytes bytes = test_export(tracker, config, files[i].format, 0);
        for (size_t k = 0; k < GS_ARRAY_LEN(files[i].words); k++) {
            cr_expect_not_null(strstr(bytes.data, files[i].words[k]), "no %s in %s",
                               files[i].words[k], bytes.data);
        }
        free(bytes.data);
    }
    finish();
}

/* The lines of the report on rules that leave something open. */
static char *notes_of(bool devices)
{
    struct gs_report_config config = test_report_config();

    config.suppressions = rules;
    config.show_devices = devices;
    char *text = test_report_text(tracker, &config, NULL);
    char *found = calloc(1, strlen(text) + 1);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "Never matched", 13) == 0 ||
            strncmp(line, "Not judged", 10) == 0) {
            strcat(strcat(found, line), "\n");
        }
    }
    free(text);
    return found;
}

static void begun(void *self, uint32_t scope, uint32_t around)
{
    gs_tracker_scope_begun(self, scope, around);
}

/* The fault: a misspelt pattern passes for a rule that is kept; or a rule that a correct
 * program gives nothing to match is taken for misspelt. */
Test(budgets, a_rule_that_matched_nothing_is_named)
{
    begin("peak:^laod_batch$ max_bytes=2G\n"
          "peak:^load_batch$ max_bytes=2G\n"
          "peak: max_bytes=2G\n"
          "peak: max_bytes=2G device=5\n"
          "peak:^step$ max_bytes=2G\n"
          "deny:^cuMemAloc$\n"
          "deny:^cuMemAlloc$ after=^setp$\n"
          "deny:^cuMemAlloc$ after=^step$\n"
          "deny:^cuMemAlloc$ not_from=^load_batch$\n"
          "deny:^cuMemAlloc$ device=1\n");
    take(1, 0, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    cr_assert_eq(gs_scopes_begin("step"), GS_OK);
    uint32_t scope = gs_scopes_number(stacks, begun, tracker);
    cr_assert_neq(scope, 0);
    cr_assert_eq(gs_scopes_end(), GS_OK);
    char *found = notes_of(false);
    cr_expect_str_eq(found,
                     "Never matched: the peak has no memory of such a call site, by "
                     "peak:^laod_batch$ max_bytes=2G (r:1)\n"
                     "Never matched: nothing was allocated there, by peak: max_bytes=2G "
                     "device=5 (r:4)\n"
                     "Never matched: no allocating function has this name, by "
                     "deny:^cuMemAloc$ (r:6)\n"
                     "Never matched: no such scope was begun, by deny:^cuMemAlloc$ "
                     "after=^setp$ (r:7)\n",
                     "%s", found);
    free(found);
    found = notes_of(true);
    cr_expect_not_null(strstr(found,
                              "Never matched: the peak has no memory of such a call "
                              "site, by peak:^step$ max_bytes=2G (r:5)\n"),
                       "%s", found);
    cr_expect_not_null(strstr(found, "Never matched: no such call was made, by "
                                     "deny:^cuMemAlloc$ after=^step$ (r:8)\n"
                                     "Never matched: no such call was made, by "
                                     "deny:^cuMemAlloc$ device=1 (r:10)\n"),
                       "%s", found);
    free(found);
    expect_errors("", 0);
    finish();
}

/* The fault: other processes of the same run, which allocate nothing, complain of rules;
 * or the report of a running program does. */
Test(budgets, a_process_without_allocations_has_no_notes)
{
    struct gs_report_config config = test_report_config();

    begin("peak:^laod_batch$ max_bytes=2G\ndeny:^cuMemAloc$\n");
    char *found = notes_of(true);
    cr_expect_str_eq(found, "", "%s", found);
    free(found);
    take(1, 0, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    config.suppressions = rules;
    config.running = true;
    char *text = test_report_text(tracker, &config, NULL);
    cr_expect_null(strstr(text, "Never matched"), "%s", text);
    free(text);
    finish();
}

/* The fault: rules that need the process's own end pass for kept. */
Test(budgets, a_killed_process_is_not_judged)
{
    struct gs_report_config config = test_report_config();

    begin("peak:^nobody$ max_bytes=2G\npeak: max_bytes=2G\ndeny:^cuMemFree$\n");
    take(1, 0, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    config.suppressions = rules;
    config.killed = true;
    char *text = test_report_text(tracker, &config, NULL);
    cr_expect_not_null(strstr(text, "Not judged: the process ended without a report, by "
                                    "peak:^nobody$ max_bytes=2G (r:1)\n"
                                    "Not judged: the process ended without a report, by "
                                    "deny:^cuMemFree$ (r:3)\n"),
                       "%s", text);
    free(text);
    finish();
}

/* The fault: what was not judged is in the text alone, and a reader of a file takes the
 * rule for kept. */
Test(budgets, files_have_what_was_not_judged)
{
    static const struct {
        unsigned format;
        const char *words[4];
    } files[] = {
        {GS_EXPORT_json,
         {"{\"rule\": \"peak:laod max_bytes=1M (r:1)\", \"matched\": 0, \"not_judged\": "
          "0, \"note\": {\"note\": \"never matched\", \"why\": \"the peak has no memory "
          "of such a call site\", \"expected\": false}}",
          "{\"rule\": \"deny:Alloc from=run (r:2)\", \"matched\": 2, \"not_judged\": 2, "
          "\"note\": {\"note\": \"not judged\", \"why\": \"2 calls without a call "
          "stack\", \"expected\": false}}",
          "{\"rule\": \"deny:Alloc max_count=2 (r:3)\", \"matched\": 2, "
          "\"not_judged\": 0, \"note\": null}",
          "\"expected\": true}}"}},
        {GS_EXPORT_junit,
         {"tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"2\"",
          "name=\"peak:laod max_bytes=1M (r:1)\" time=\"0\">\n      <skipped "
          "message=\"never matched: the peak has no memory of such a call site\"/>",
          "name=\"deny:Alloc from=run (r:2)\" time=\"0\">\n      <skipped "
          "message=\"not judged: 2 calls without a call stack\"/>"}},
        {GS_EXPORT_sarif,
         {"\"toolExecutionNotifications\": [{\"level\": \"warning\", \"message\": "
          "{\"text\": \"peak:laod max_bytes=1M (r:1): never matched: the peak has no "
          "memory of such a call site\"}}, ",
          "{\"text\": \"deny:Alloc from=run (r:2): not judged: 2 calls without a call "
          "stack\"}}]"}},
    };
    struct gs_report_config config = test_report_config();

    begin("peak:laod max_bytes=1M\ndeny:Alloc from=run\ndeny:Alloc max_count=2\n"
          "deny:Alloc device=7\n");
    take(1, 0, GS_STACK_NOT_SAMPLED);
    take(1, 0, GS_STACK_NOT_SAMPLED);
    config.suppressions = rules;
    for (size_t i = 0; i < GS_ARRAY_LEN(files); i++) {
        struct test_bytes bytes = test_export(tracker, config, files[i].format, 0);
        for (size_t k = 0; k < GS_ARRAY_LEN(files[i].words) && files[i].words[k]; k++) {
            cr_expect_not_null(strstr(bytes.data, files[i].words[k]), "no %s in %s",
                               files[i].words[k], bytes.data);
        }
        free(bytes.data);
    }
    finish();
}

/* The fault: memory beyond what the array of errors holds. */
Test(budgets, more_call_sites_than_are_kept_are_counted)
{
    begin("deny:Alloc\n");
    for (uintptr_t i = 0; i < 400; i++) {
        take(1, 0, TEST_STACK(stacks, AT_NOWHERE + i * 64, AT_MAIN));
    }
    uint64_t count;
    char *found = errors_of(&count);
    cr_expect_eq(count, 400);
    cr_expect_not_null(strstr(found, "ERROR 288: "));
    cr_expect_null(strstr(found, "ERROR 289: "));
    free(found);
    finish();
}
