/*
 * tracker_export_journal.c - proves the records for systemd-journald, compared whole:
 * fields, the form of values with line feeds, and which leaks and errors have a record.
 * That journald itself takes them, tests/e2e/cases/outputs_journal.sh asks it.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_export_helpers.h"
#include "tracker_fixture.h"

/* The two kinds of records, and what each has of test_report_config. */
#define SUMMARY "SYSLOG_IDENTIFIER=gpushim\nMESSAGE_ID=1419cc9e7f1f4687b91d9e591c92394f\n"
#define FINDING "SYSLOG_IDENTIFIER=gpushim\nMESSAGE_ID=c68d1a170ef94b63bf9a1c1a7f62e4bf\n"
#define PROCESS                                                                          \
    "GPUSHIM_PID=41233\nGPUSHIM_COMMAND=./app --fast\nGPUSHIM_PROGRAM=/opt/app/app\n"    \
    "GPUSHIM_HOST=n07\n"
#define ENDED                                                                            \
    "GPUSHIM_VERSION=0.1.0\nGPUSHIM_ENDING=exit 0\nGPUSHIM_RUNNING=false\n"              \
    "GPUSHIM_EXIT_STATUS=0\n"

TestSuite(export_journal, .init = set_up_tracker, .fini = take_down_tracker);

static struct test_bytes exported(struct gs_report_config config)
{
    return test_export(tracker, config, GS_EXPORT_journal, 0);
}

/* Compares all bytes: those of a length are NULs, too. */
static void expect_bytes(struct test_bytes bytes, const char *expected, size_t length)
{
    cr_expect_eq(bytes.status, GS_OK);
    cr_expect_eq(bytes.length, length, "%zu bytes", bytes.length);
    cr_expect(bytes.length == length && memcmp(bytes.data, expected, length) == 0, "%s",
              bytes.data);
    free(bytes.data);
}
#define EXPECT_BYTES(bytes, literal) expect_bytes(bytes, literal, sizeof(literal) - 1)

static void expect_has(const struct test_bytes *bytes, const char *text, bool has)
{
    cr_expect_eq(memmem(bytes->data, bytes->length, text, strlen(text)) != NULL, has,
                 "%s in %s", text, bytes->data);
}

Test(export_journal, a_clean_run_is_one_record)
{
    EXPECT_BYTES(exported(test_report_config()),
                 "MESSAGE=app: 0 errors, 0 B leaked in 0 allocations, 0 call sites\n"
                 "PRIORITY=6\n" SUMMARY PROCESS ENDED
                 "GPUSHIM_ERRORS=0\nGPUSHIM_LEAKED_BYTES=0\nGPUSHIM_LEAKED_COUNT=0\n"
                 "GPUSHIM_PLACES=0\nGPUSHIM_PEAK_BYTES=0\nGPUSHIM_ALLOCS=0\n");
}

/* Values with line feeds come after their length, in 8 bytes, the lowest first. */
Test(export_journal, a_leak_and_an_error)
{
    struct gs_free_site free_site = {.api = API_MEM_FREE, .time_ns = SECONDS(2)};

    test_leak(tracker, 0x1000, 4096, SECONDS(1), TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    free_site.stack = TEST_STACK(stacks, AT_RUN, AT_MAIN);
    gs_tracker_error_free(tracker, 0xdead0000, 0, &free_site);
    EXPECT_BYTES(exported(test_report_config()),
                 "MESSAGE=app: 1 error, 4.00 KiB leaked in 1 allocation, 1 call site\n"
                 "PRIORITY=3\n" SUMMARY PROCESS ENDED
                 "GPUSHIM_ERRORS=1\nGPUSHIM_LEAKED_BYTES=4096\n"
                 "GPUSHIM_LEAKED_COUNT=1\nGPUSHIM_PLACES=1\n"
                 "GPUSHIM_PEAK_BYTES=4096\nGPUSHIM_ALLOCS=1\n"
                 "\n"
                 "MESSAGE=app: invalid free, GPU 0, cuMemFree, at run app+0x210 < main "
                 "app.c:12\n"
                 "PRIORITY=3\n" FINDING PROCESS
                 "GPUSHIM_RULE=invalid-free\nGPUSHIM_COUNT=1\nCODE_FUNC=run\n"
                 "GPUSHIM_STACK\n\x71\0\0\0\0\0\0\0"
                 "freed\n"
                 "    #0 run                           /opt/app/app+0x210\n"
                 "    #1 main                          /src/app.c:12\n"
                 "\n"
                 "\n"
                 "MESSAGE=app: leak: 4.00 KiB in 1 allocation, cuMemAlloc, GPU 0, at "
                 "load_batch loader.c:88 < main app.c:12\n"
                 "PRIORITY=4\n" FINDING PROCESS
                 "GPUSHIM_RULE=leak\nGPUSHIM_BYTES=4096\nGPUSHIM_COUNT=1\n"
                 "CODE_FUNC=load_batch\nCODE_FILE=loader.c\nCODE_LINE=88\n"
                 "GPUSHIM_STACK\n\x6e\0\0\0\0\0\0\0"
                 "allocated\n"
                 "    #0 load_batch                    loader.c:88\n"
                 "    #1 main                          /src/app.c:12\n"
                 "\n");
}

/* Or a command line ends its field, and its next line is a field of the program's. */
Test(export_journal, a_line_feed_forges_no_field)
{
    struct gs_report_config config = test_report_config();
    struct gs_export_job job = test_job();
    struct gs_report_source source = test_source();

    config.command = "./app\nPRIORITY=0";
    config.hostname = "\n";
    job.program = "/opt/a=\nMESSAGE=b";
    struct test_bytes bytes =
        test_export_from(tracker, config, &source, job, GS_EXPORT_journal, 0);
    static const char head[] =
        "MESSAGE=a=?MESSAGE=b: 0 errors, 0 B leaked in 0 allocations, 0 call sites\n"
        "PRIORITY=6\n" SUMMARY "GPUSHIM_PID=41233\n"
        "GPUSHIM_COMMAND\n\x10\0\0\0\0\0\0\0./app\nPRIORITY=0\n"
        "GPUSHIM_PROGRAM\n\x11\0\0\0\0\0\0\0/opt/a=\nMESSAGE=b\n"
        "GPUSHIM_HOST\n\x01\0\0\0\0\0\0\0\n\n";
    cr_assert_gt(bytes.length, sizeof(head));
    cr_expect_eq(memcmp(bytes.data, head, sizeof(head) - 1), 0, "%s", bytes.data);
    free(bytes.data);
}

/* A field without a value would match a search for the field. */
Test(export_journal, what_is_unknown_has_no_field)
{
    struct gs_report_config config = test_report_config();
    struct gs_export_job job = test_job();
    struct gs_report_source source = test_source();

    config.command = NULL;
    config.hostname = "";
    config.ending = "SIGTERM";
    config.rank = 3;
    job.program = NULL;
    struct test_bytes bytes =
        test_export_from(tracker, config, &source, job, GS_EXPORT_journal, 0);
    expect_has(&bytes, "MESSAGE=0 errors, ", true);
    expect_has(&bytes, "GPUSHIM_COMMAND", false);
    expect_has(&bytes, "GPUSHIM_HOST", false);
    expect_has(&bytes, "GPUSHIM_PROGRAM", false);
    expect_has(&bytes, "GPUSHIM_EXIT_STATUS", false);
    expect_has(&bytes, "GPUSHIM_RANK=3\n", true);
    free(bytes.data);
}

/* Each report of a running program would repeat its errors as new records, and what is
 * live would be a warning. */
Test(export_journal, a_running_program_has_the_summary_alone)
{
    struct gs_report_config config = test_report_config();
    const struct gs_free_site free_site = {.api = API_MEM_FREE,
                                           .stack = TEST_STACK(stacks, AT_RUN, AT_MAIN)};

    test_leak(tracker, 0x1000, 4096, SECONDS(1), TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    config.running = true;
    struct test_bytes bytes = exported(config);
    expect_has(&bytes, "PRIORITY=6\n", true);
    expect_has(&bytes, "GPUSHIM_RUNNING=true\n", true);
    expect_has(&bytes, "GPUSHIM_LEAKED_BYTES=4096\n", true);
    free(bytes.data);
    gs_tracker_error_free(tracker, 0xdead0000, 0, &free_site);
    bytes = exported(config);
    expect_has(&bytes, "PRIORITY=3\n", true);
    expect_has(&bytes, "GPUSHIM_RULE", false);
    free(bytes.data);
}

/* The journal has as many leaks as the text, not one for each of 100,000 call sites. */
Test(export_journal, leaks_beyond_the_texts_limit_are_only_counted)
{
    struct gs_report_config config = test_report_config();

    config.max_groups = 1;
    test_leak(tracker, 0x1000, 9000, 0, TEST_STACK(stacks, AT_LOAD, AT_MAIN));
    test_leak(tracker, 0x8000, 100, 0, TEST_STACK(stacks, AT_RUN, AT_MAIN));
    struct test_bytes bytes = exported(config);
    expect_has(&bytes, "PRIORITY=4\n" SUMMARY, true);
    expect_has(&bytes, "GPUSHIM_PLACES=2\n", true);
    expect_has(&bytes, "GPUSHIM_BYTES=9000\n", true);
    expect_has(&bytes, "GPUSHIM_BYTES=100\n", false);
    free(bytes.data);
    config.max_groups = 10;
    config.suppressions = test_rules("leak:load_batch\n");
    bytes = exported(config);
    expect_has(&bytes, "GPUSHIM_BYTES=9000\n", false);
    expect_has(&bytes, "GPUSHIM_BYTES=100\n", true);
    free(bytes.data);
    gs_suppressions_destroy(config.suppressions);
}

/* Or a record is cut, and taken for a whole one. */
Test(export_journal, a_full_sink_is_told)
{
    struct test_bytes bytes =
        test_export(tracker, test_report_config(), GS_EXPORT_journal, 100);

    cr_expect_eq(bytes.status, GS_ERR_IO);
    free(bytes.data);
}
