/*
 * tracker_export_findings.c - proves JUnit's XML, compared whole, and SARIF's results:
 * which findings are faults, skipped or suppressed, names of any bytes, and what does not
 * change from run to run. That other programs read the files, and that they are as their
 * schemas say, tests/e2e/cases/outputs_ci.sh asks readers.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/stacks/scopes.h"
#include "tracker_export_helpers.h"
#include "tracker_fixture.h"

#define HEAD                                                                             \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"                                       \
    "<testsuites name=\"gpushim\">\n"                                                    \
    "  <testsuite name=\"./app --fast\" timestamp=\"2023-11-14T22:13:20\" "              \
    "hostname=\"n07\" "
#define SUITE                                                                            \
    " time=\"600.000\" id=\"0\" package=\"gpushim\">\n"                                  \
    "    <properties>\n"                                                                 \
    "      <property name=\"gpushim\" value=\"0.1.0\"/>\n"                               \
    "      <property name=\"command\" value=\"./app --fast\"/>\n"                        \
    "      <property name=\"program\" value=\"/opt/app/app\"/>\n"                        \
    "      <property name=\"pid\" value=\"41233\"/>\n"                                   \
    "      <property name=\"host\" value=\"n07\"/>\n"                                    \
    "      <property name=\"ending\" value=\"exit 0\"/>\n"                               \
    "      <property name=\"exit_status\" value=\"0\"/>\n"
#define TAIL "    <system-out/>\n    <system-err/>\n  </testsuite>\n</testsuites>\n"

TestSuite(export_junit, .init = set_up_tracker, .fini = take_down_tracker);
TestSuite(export_sarif, .init = set_up_tracker, .fini = take_down_tracker);
TestSuite(export_findings, .init = set_up_tracker, .fini = take_down_tracker);

/* The findings so far in a format; the caller frees bytes.data. */
static struct test_bytes exported(enum gs_export_row row)
{
    return test_export(tracker, test_report_config(), row, 0);
}

static void expect_has(const struct test_bytes *bytes, const char *text)
{
    cr_expect_not_null(strstr(bytes->data, text), "no %s in %s", text, bytes->data);
}

/* A suite without test cases is an error to some readers. */
Test(export_junit, a_clean_run_passes)
{
    struct test_bytes bytes = exported(GS_EXPORT_junit);

    cr_assert_eq(bytes.status, GS_OK);
    cr_expect_str_eq(
        bytes.data,
        HEAD "tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"0\"" SUITE
             "      <property name=\"errors\" value=\"0\"/>\n"
             "      <property name=\"leaked_bytes\" value=\"0\"/>\n"
             "      <property name=\"leaked_count\" value=\"0\"/>\n"
             "      <property name=\"call_sites\" value=\"0\"/>\n"
             "      <property name=\"peak_bytes\" value=\"0\"/>\n"
             "      <property name=\"allocs\" value=\"0\"/>\n"
             "    </properties>\n"
             "    <testcase classname=\"gpushim\" name=\"no errors\" time=\"0\"/>\n"
             "    <testcase classname=\"gpushim\" name=\"no leaks\" time=\"0\"/>\n" TAIL);
    free(bytes.data);
}

/* A program without a GPU would pass as one without leaks. */
Test(export_junit, a_run_without_cuda_does_not_pass)
{
    struct gs_report_config config = test_report_config();

    config.no_start = "cuInit: no <device>";
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_junit, 0);
    expect_has(&bytes, "tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"2\"");
    expect_has(&bytes, "<skipped message=\"nothing recorded: CUDA did not start: cuInit: "
                       "no &lt;device&gt;\"/>");
    free(bytes.data);
    bytes = test_export(tracker, config, GS_EXPORT_sarif, 0);
    expect_has(&bytes, "\"executionSuccessful\": false");
    expect_has(&bytes, "Nothing recorded: CUDA did not start: cuInit: no <device>");
    free(bytes.data);
}

Test(export_junit, a_leak_and_an_error)
{
    struct gs_free_site free_site = {.api = API_MEM_FREE, .time_ns = SECONDS(2)};

    test_leak(tracker, 0x1000, 4096, SECONDS(1), TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    free_site.stack = TEST_STACK(stacks, AT_RUN, AT_MAIN);
    gs_tracker_error_free(tracker, 0xdead0000, 0, &free_site);
    struct test_bytes bytes = exported(GS_EXPORT_junit);
    cr_expect_str_eq(
        bytes.data, HEAD
        "tests=\"2\" failures=\"2\" errors=\"0\" skipped=\"0\"" SUITE
        "      <property name=\"errors\" value=\"1\"/>\n"
        "      <property name=\"leaked_bytes\" value=\"4096\"/>\n"
        "      <property name=\"leaked_count\" value=\"1\"/>\n"
        "      <property name=\"call_sites\" value=\"1\"/>\n"
        "      <property name=\"peak_bytes\" value=\"4096\"/>\n"
        "      <property name=\"allocs\" value=\"1\"/>\n"
        "    </properties>\n"
        "    <testcase classname=\"app\" name=\"invalid free, cuMemFree, at run "
        "app+0x210 &lt; main app.c:12\" time=\"0\">\n"
        "      <failure type=\"invalid-free\" message=\"invalid free, GPU 0, cuMemFree, "
        "at run app+0x210 &lt; main app.c:12\">  freed\n"
        "    #0 run                           /opt/app/app+0x210\n"
        "    #1 main                          /src/app.c:12\n"
        "</failure>\n"
        "    </testcase>\n"
        "    <testcase classname=\"app\" name=\"leak, cuMemAlloc, at load_batch "
        "loader.c:88 &lt; main app.c:12\" time=\"0\">\n"
        "      <failure type=\"leak\" message=\"4.00 KiB in 1 allocation, cuMemAlloc, "
        "GPU 0, at load_batch loader.c:88 &lt; main app.c:12\">live at exit\n"
        "  allocated\n"
        "    #0 load_batch                    loader.c:88\n"
        "    #1 main                          /src/app.c:12\n"
        "</failure>\n"
        "    </testcase>\n" TAIL);
    free(bytes.data);
}

static void hostile_names(void *self, struct gs_symbol_request *requests, size_t count)
{
    (void)self;
    for (size_t i = 0; i < count; i++) {
        requests[i].result.function = "f<a&\"b\">]]>\x01\x80\xef\xbf\xbe\n2";
        requests[i].result.file = "src/a b%\xff.c";
        requests[i].result.line = 7;
    }
}

/* Or one name makes the file unreadable. */
Test(export_findings, names_of_any_bytes)
{
    struct gs_report_source source = test_source();

    source.resolve = hostile_names;
    test_leak(tracker, 0x1000, 1, 0, TEST_STACK(stacks, AT_RUN));
    struct test_bytes bytes = test_export_from(tracker, test_report_config(), &source,
                                               test_job(), GS_EXPORT_junit, 0);
    expect_has(&bytes, "at f&lt;a&amp;&quot;b&quot;&gt;]]&gt;????2 a b%?.c:7\"");
    for (const char *at = bytes.data; *at; at++)
        cr_assert(*at == '\n' || (unsigned char)*at >= ' ');
    free(bytes.data);
    bytes = test_export_from(tracker, test_report_config(), &source, test_job(),
                             GS_EXPORT_sarif, 0);
    expect_has(&bytes, "\"artifactLocation\": {\"uri\": \"src/a%20b%25%FF.c\", "
                       "\"uriBaseId\": \"%SRCROOT%\"}, \"region\": {\"startLine\": 7}");
    expect_has(&bytes, "\"fullyQualifiedName\": "
                       "\"f<a&\\\"b\\\">]]>\\u0001\xef\xbf\xbd\xef\xbf\xbe\\n2\"");
    free(bytes.data);
}

/* Known leaks would fail each build. */
Test(export_findings, what_is_suppressed_is_no_failure)
{
    struct gs_report_config config = test_report_config();

    config.suppressions = test_rules("# known\nleak:load_batch\n");
    test_leak(tracker, 0x1000, 9000, 0, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    test_leak(tracker, 0x8000, 100, 0, TEST_STACK(stacks, AT_RUN, AT_MAIN));
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_junit, 0);
    expect_has(&bytes, "tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\"");
    expect_has(&bytes, "<skipped message=\"8.79 KiB in 1 allocation, cuMemAlloc, GPU 0: "
                       "suppressed by load_batch (r:2)\"/>");
    expect_has(&bytes, "name=\"leaked_bytes\" value=\"100\"");
    free(bytes.data);
    bytes = test_export(tracker, config, GS_EXPORT_sarif, 0);
    expect_has(&bytes, "\"suppressions\": []}");
    expect_has(&bytes, "\"suppressions\": [{\"kind\": \"external\", \"justification\": "
                       "\"suppressed by load_batch (r:2)\"}]");
    free(bytes.data);
    gs_suppressions_destroy(config.suppressions);
}

/* The name and the outcome of a test case, with its message, one each line. */
static void expect_cases(struct test_bytes bytes, const char *expected)
{
    char found[2048] = "";

    for (char *line = strtok(bytes.data, "\n"); line; line = strtok(NULL, "\n")) {
        const char *name = strstr(line, "classname="),
                   *message = strstr(line, " message=");
        if (name || message) {
            strcat(strcat(found, name ? name : message), "\n");
        }
    }
    cr_expect_str_eq(found, expected, "%s", found);
    free(bytes.data);
}

/* The fault: a leak that grows is another test in each run; leaks of two scopes are one
 * test, or those of two devices two of one name. */
Test(export_junit, a_name_has_the_call_site_alone)
{
    uint32_t load = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    struct gs_allocation other = test_allocation(0x9000, 512);

    test_leak(tracker, 0x1000, 4096, 0, load);
    test_leak(tracker, 0x4000, 4096, 0, load);
    other.device = 1;
    other.stack = load;
    test_add(tracker, &other, true);
    cr_assert_eq(gs_scopes_begin("train"), GS_OK);
    test_leak(tracker, 0xa000, 100, 0, gs_scopes_add(stacks, load));
    cr_assert_eq(gs_scopes_end(), GS_OK);
    expect_cases(exported(GS_EXPORT_junit),
                 "classname=\"app\" name=\"leak, cuMemAlloc, at load_batch loader.c:88 "
                 "&lt; main app.c:12\" time=\"0\">\n"
                 " message=\"8.00 KiB in 2 allocations, cuMemAlloc, GPU 0, at load_batch "
                 "loader.c:88 &lt; main app.c:12; 512 B in 1 allocation, cuMemAlloc, GPU "
                 "1, at load_batch loader.c:88 &lt; main app.c:12\">live at exit\n"
                 "classname=\"app\" name=\"leak, cuMemAlloc, at load_batch loader.c:88 "
                 "&lt; main app.c:12 [scope train]\" time=\"0\">\n"
                 " message=\"100 B in 1 allocation, cuMemAlloc, GPU 0, at load_batch "
                 "loader.c:88 &lt; main app.c:12\">live at exit\n"
                 "classname=\"gpushim\" name=\"no errors\" time=\"0\"/>\n");
}

/* A request while the program runs would fail by all that it has. */
Test(export_findings, live_memory_is_no_failure)
{
    struct gs_report_config config = test_report_config();

    config.running = true;
    config.ending = "on gpushim export";
    test_leak(tracker, 0x1000, 9000, 0, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_junit, 0);
    expect_has(&bytes, "tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"1\"");
    expect_has(&bytes, "<skipped message=\"8.79 KiB in 1 allocation, cuMemAlloc, GPU 0: "
                       "live\"/>");
    cr_expect_null(strstr(bytes.data, "no leaks"));
    cr_expect_null(strstr(bytes.data, "exit_status"));
    free(bytes.data);
    bytes = test_export(tracker, config, GS_EXPORT_sarif, 0);
    expect_has(&bytes, "\"level\": \"note\"");
    cr_expect_null(strstr(bytes.data, "exitCode\""));
    free(bytes.data);
}

/* The leaks of a new run in one of two orders, which give the stacks other numbers. */
static struct test_bytes run_in_order(bool reverse, enum gs_export_row row)
{
    static const uintptr_t inner[] = {AT_LOAD, AT_RUN, AT_LOAD_NEXT, AT_TORCH, AT_MINE};

    take_down_tracker();
    set_up_tracker();
    for (size_t i = 0; i < GS_ARRAY_LEN(inner); i++) {
        size_t k = reverse ? GS_ARRAY_LEN(inner) - 1 - i : i;
        test_leak(tracker, 0x1000 * (i + 1), 512, SECONDS(i),
                  TEST_STACK(stacks, inner[k], AT_MAIN));
    }
    return exported(row);
}

/* Threads that race change the numbers of stacks and the times. */
Test(export_findings, the_order_is_the_same_in_every_run)
{
    static const enum gs_export_row rows[] = {GS_EXPORT_junit, GS_EXPORT_sarif};

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct test_bytes once = run_in_order(false, rows[i]);
        struct test_bytes again = run_in_order(true, rows[i]);

        cr_expect_str_eq(once.data, again.data);
        free(once.data);
        free(again.data);
    }
}

/* The fingerprint of a leak whose innermost frame is this one, and of another in the same
 * function. Returns `out`. */
static const char *fingerprint(uintptr_t frame, uintptr_t other, char out[20])
{
    static const char key[] = "\"callStack/v1\": \"";

    take_down_tracker();
    set_up_tracker();
    test_leak(tracker, 0x1000, 4096, 0, TEST_STACK(stacks, frame, AT_MAIN));
    if (other)
        test_leak(tracker, 0x8000, 1, 0, TEST_STACK(stacks, other, AT_MAIN));
    struct test_bytes bytes = exported(GS_EXPORT_sarif);
    const char *at = strstr(bytes.data, key);
    cr_assert_not_null(at);
    memcpy(out, at + strlen(key), 19);
    out[18] = '\0';
    cr_expect_eq(test_occurrences(bytes.data, key), other ? 2 : 1);
    if (other)
        cr_expect_eq(test_occurrences(bytes.data, ":2\"}"), 1);
    free(bytes.data);
    return out;
}

/* Or a line inserted above makes a known alert a new one, and two are taken for one. */
Test(export_sarif, fingerprints_are_of_functions_not_of_lines)
{
    char one[20], next[20], run[20], both[20];

    cr_expect_str_eq(fingerprint(AT_LOAD, 0, one), fingerprint(AT_LOAD_NEXT, 0, next));
    cr_expect_str_neq(one, fingerprint(AT_RUN, 0, run));
    fingerprint(AT_LOAD, AT_LOAD_NEXT, both);
    cr_expect_eq(memcmp(one, both, 17), 0, "%s and %s", one, both);
}

/* GitHub refuses a result without a file: the program stands for what is not known. */
Test(export_sarif, each_result_has_a_file)
{
    test_leak(tracker, 0x1000, 4096, 0, TEST_STACK(stacks, AT_NOWHERE, AT_MAIN));
    test_leak(tracker, 0x8000, 10, 0, 0);
    struct test_bytes bytes = exported(GS_EXPORT_sarif);
    expect_has(&bytes, "\"locations\": [{\"physicalLocation\": {\"artifactLocation\": "
                       "{\"uri\": \"file:///opt/app/app\"}}, \"logicalLocations\": "
                       "[{\"fullyQualifiedName\": \"0x90010\", \"kind\": \"module\"}]}]");
    expect_has(&bytes, "GPU 0, (no call stack was recorded): live at exit\"}, "
                       "\"locations\": [{\"physicalLocation\": {\"artifactLocation\": "
                       "{\"uri\": \"file:///opt/app/app\"}}}], \"partialFingerprints\"");
    free(bytes.data);
}

/* What GitHub shows of an error: its own line, and the other calls as links and flows. */
Test(export_sarif, the_calls_of_an_error)
{
    struct gs_allocation allocation = test_allocation(0x1000, 4096);
    struct gs_free_site first = {.api = API_MEM_FREE, .time_ns = SECONDS(2)};
    struct gs_free_site again = {.api = API_MEM_FREE, .time_ns = SECONDS(3)};

    allocation.stack = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    first.stack = TEST_STACK(stacks, AT_LOAD_NEXT, AT_MAIN);
    again.stack = TEST_STACK(stacks, AT_RUN, AT_MAIN);
    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), &first);
    gs_tracker_error_free(tracker, 0x1000, 0, &again);
    struct test_bytes bytes = exported(GS_EXPORT_sarif);
    expect_has(&bytes, "\"ruleId\": \"double-free\", \"ruleIndex\": 1, \"level\": "
                       "\"error\", \"message\": {\"text\": \"double free of 4.00 KiB, "
                       "GPU 0, cuMemFree, at run app+0x210 < main app.c:12\"}, "
                       "\"locations\": [{\"physicalLocation\": {\"artifactLocation\": "
                       "{\"uri\": \"file:///opt/app/app\"}}, \"logicalLocations\": "
                       "[{\"fullyQualifiedName\": \"run\", \"kind\": \"function\"}]}]");
    const char *flows = strstr(bytes.data, "\"codeFlows\"");
    cr_assert_not_null(flows);
    const char *allocated = strstr(flows, "{\"message\": {\"text\": \"allocated\"}"),
               *freed = strstr(flows, "{\"message\": {\"text\": \"freed\"}"),
               *twice = strstr(flows, "{\"message\": {\"text\": \"freed again\"}");
    cr_expect(allocated && allocated < freed && freed < twice, "%s", flows);
    cr_expect_eq(test_occurrences(strstr(flows, "\"relatedLocations\""), "\"startLine\""),
                 2);
    free(bytes.data);
}
