/*
 * shim_outputs.c - proves what GPUSHIM_OUTPUT chooses, and that the settings a file tells
 * of are such as would have the same effect again.
 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/report/outputs.h"
#include "shim/settings/log.h"

static struct gs_options options;

static void load(const char *output)
{
    static struct gs_options_messages notes;
    char variable[256] = "GPUSHIM_OUTPUT=";
    char *env[] = {variable, NULL};

    strcat(variable, output);
    gs_options_load(&options, env, false, &notes);
    cr_assert_eq(notes.length, 0, "%s", notes.text);
    gs_outputs_open(&options);
}

/* Is anything written, and is a tally kept for it? */
static void expect_chosen(const char *output, bool any, bool tallied)
{
    struct gs_output_contents outputs;

    load(output);
    cr_expect_eq(gs_outputs_tallied(), tallied, "%s", output);
    bool begun = gs_outputs_begin(&options, NULL, NULL, 0, GS_OUTPUTS_END, &outputs);
    cr_expect_eq(begun, any, "%s", output);
    if (begun)
        gs_output_contents_free(&outputs);
}

Test(outputs, a_list_of_formats, .init = cr_redirect_stderr)
{
    expect_chosen("", false, false);
    expect_chosen("json", true, false);
    expect_chosen("PPROF", true, true);
    expect_chosen("collapsed,json,json,openmetrics", true, false);
    expect_chosen("csv", true, true);
    expect_chosen(" json , pprof ", true, true);
    fflush(stderr);
    cr_assert_stderr_eq_str("");
}

Test(outputs, an_unknown_word_is_told, .init = cr_redirect_stderr)
{
    expect_chosen("jsn,pprof,json\x01x", true, true);
    cr_assert_stderr_eq_str(
        "gpushim: GPUSHIM_OUTPUT: \"jsn\" is not a format (json, pprof, collapsed, "
        "collapsed-peak, collapsed-total, csv, prometheus, openmetrics, junit, sarif, "
        "journal); left out\n"
        "gpushim: GPUSHIM_OUTPUT: \"json\\x01x\" is not a format (json, pprof, "
        "collapsed, "
        "collapsed-peak, collapsed-total, csv, prometheus, openmetrics, junit, sarif, "
        "journal); left out\n");
}

/* Alone sees a list that names nothing: a run of hours would write no file, and say so
 * nowhere. */
Test(outputs, a_list_without_words_is_told, .init = cr_redirect_stderr)
{
    char wrong[GS_OUTPUTS_WRONG_BYTES];
    cr_expect_null(gs_outputs_wrong("", wrong));
    cr_expect_str_eq(
        gs_outputs_wrong(", ,", wrong),
        "\", ,\" is not a format (json, pprof, collapsed, collapsed-peak, "
        "collapsed-total, csv, prometheus, openmetrics, junit, sarif, journal)");
    expect_chosen(",,", false, false);
    cr_assert_stderr_eq_str(
        "gpushim: GPUSHIM_OUTPUT: \",,\" is not a format (json, pprof, collapsed, "
        "collapsed-peak, collapsed-total, csv, prometheus, openmetrics, junit, sarif, "
        "journal); left out\n");
}

Test(outputs, a_file_after_a_format_is_told, .init = cr_redirect_stderr)
{
    expect_chosen("csv:/tmp/a.csv,pprof,json=b", true, true);
    cr_assert_stderr_eq_str(
        "gpushim: GPUSHIM_OUTPUT: \"csv:/tmp/a.csv\": a format alone; "
        "GPUSHIM_OUTPUT_FILE names the file; left out\n"
        "gpushim: GPUSHIM_OUTPUT: \"json=b\": a format alone; "
        "GPUSHIM_OUTPUT_FILE names the file; left out\n");
}

Test(outputs, without_tracking_nothing_can_be_written, .init = cr_redirect_stderr)
{
    load("json");
    options.track = false;
    gs_outputs_open(&options);
    cr_assert_stderr_eq_str(
        "gpushim: GPUSHIM_OUTPUT: nothing is written: tracking is off\n");
}

/* Or a user waits for a file that nothing will write. */
Test(outputs, a_file_name_without_a_file_is_told, .init = cr_redirect_stderr)
{
    memset(&options, 0, sizeof(options));
    options.track = true;
    strcpy(options.output, "journal");
    strcpy(options.output_file, "run");
    gs_outputs_open(&options);
    cr_expect(gs_outputs_wanted());
    strcpy(options.output, "journal,json");
    gs_outputs_open(&options);
    cr_assert_stderr_eq_str("gpushim: GPUSHIM_OUTPUT_FILE=run: no format of "
                            "GPUSHIM_OUTPUT is a file; not written\n");
}

/* --- metrics -------------------------------------------------------------------------
 */

/* Writes GPUSHIM_METRICS_FILE for a tracker without anything. */
static void write_metrics(void)
{
    struct gs_tracker_config tracking = {.api_count = 0};
    struct gs_tracker *tracker;
    struct gs_output_contents outputs;

    cr_assert_eq(gs_tracker_create(&tracking, &tracker), GS_OK);
    cr_assert(gs_outputs_begin_metrics(&options, NULL, NULL, 0, &outputs));
    const struct gs_report_config config = {
        .rank = -1, .pid = 7, .running = true, .job = &outputs.job};
    gs_report_figures(tracker, &config);
    gs_output_contents_free(&outputs);
    gs_tracker_destroy(tracker);
}

static void load_metrics(const char *path, const char *log)
{
    memset(&options, 0, sizeof(options));
    options.track = true;
    strcpy(options.metrics_file, path);
    strcpy(options.log_file, log);
    gs_outputs_open(&options);
}

Test(outputs, metrics_are_a_file_that_others_may_read, .init = cr_redirect_stderr)
{
    char folder[] = "/tmp/gpushim-metrics.XXXXXX", path[64], text[512] = "";
    struct stat info;

    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/m.prom", folder);
    load_metrics(path, "");
    cr_expect_not(gs_outputs_wanted(), "it is no format of the report");
    cr_assert(gs_outputs_metrics_wanted());
    write_metrics();
    write_metrics(); /* in place of the first */
    FILE *stream = fopen(path, "r");
    cr_assert_not_null(stream);
    size_t length = fread(text, 1, sizeof(text) - 1, stream);
    fclose(stream);
    cr_assert_gt(length, 2);
    cr_expect_eq(text[length - 1], '\n');
    cr_expect_null(strstr(text, "# UNIT"), "not in Prometheus' text format");
    cr_assert_eq(stat(path, &info), 0);
    cr_expect_eq(info.st_mode & 0777, 0644);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(rmdir(folder), 0, "something is left");
    fflush(stderr);
    cr_assert_stderr_eq_str("");
}

Test(outputs, metrics_that_cannot_be_are_told_once, .init = cr_redirect_stderr)
{
    load_metrics("/none/m.prom", "");
    write_metrics();
    write_metrics();
    load_metrics("/tmp/../tmp/gpushim.log", "/tmp/gpushim.log");
    write_metrics();
    cr_assert_stderr_eq_str(
        "gpushim: GPUSHIM_METRICS_FILE: cannot write /none/m.prom: "
        "no such file or directory; left out\n"
        "gpushim: GPUSHIM_METRICS_FILE: cannot write "
        "/tmp/../tmp/gpushim.log: it is GPUSHIM_LOG_FILE; left out\n");
}

Test(outputs, no_metrics_without_a_name_or_without_tracking)
{
    struct gs_output_contents outputs;

    load_metrics("", "");
    cr_expect_not(gs_outputs_metrics_wanted());
    cr_expect_not(gs_outputs_begin_metrics(&options, NULL, NULL, 0, &outputs));
    load_metrics("m.prom", "");
    options.track = false;
    gs_outputs_open(&options);
    cr_expect_not(gs_outputs_metrics_wanted());
}

/* Settings that differ from the defaults, one of each type. */
static char *settings[] = {(char *)"GPUSHIM_OUTPUT=json",
                           (char *)"GPUSHIM_POOL=off",
                           (char *)"GPUSHIM_STACK=depth:7",
                           (char *)"GPUSHIM_POOL_CACHE=3M",
                           (char *)"GPUSHIM_POOL_LIMIT=80%",
                           (char *)"GPUSHIM_MEM_LIMIT=5G",
                           (char *)"GPUSHIM_SYMBOLIZE=timeout:250ms",
                           (char *)"GPUSHIM_FREE_SYNC=lazy",
                           (char *)"GPUSHIM_LOG_FILE=/tmp/%p \"x\".log",
                           (char *)"GPUSHIM_WARMUP=4K:50,64K:20",
                           NULL};

Test(outputs, settings_read_back_are_the_same)
{
    static struct gs_options_messages notes;
    static struct gs_options again;
    struct gs_output_contents outputs;

    gs_options_load(&options, settings, false, &notes);
    cr_assert_eq(notes.length, 0, "%s", notes.text);
    gs_outputs_open(&options);
    cr_assert(gs_outputs_begin(&options, NULL, NULL, 0, GS_OUTPUTS_END, &outputs));
    char **env = calloc(outputs.job.option_count + 1, sizeof(*env));
    cr_assert_geq(outputs.job.option_count, GS_ARRAY_LEN(settings));
    for (size_t i = 0; i < outputs.job.option_count; i++) {
        const struct gs_export_option *option = &outputs.job.options[i];
        cr_assert_gt(asprintf(&env[i], "%s=%s", option->name, option->value), 0);
    }
    gs_options_load(&again, env, false, &notes);
    cr_expect_eq(notes.length, 0, "%s", notes.text);
    cr_expect_eq(memcmp(&again, &options, sizeof(again)), 0);
    for (size_t i = 0; i < outputs.job.option_count; i++)
        free(env[i]);
    free(env);
    gs_output_contents_free(&outputs);
}
