/*
 * shim_log_pattern.c - proves what each conversion of a log file's name stands for, and
 * that neither a bad pattern nor odd surroundings can lead the name astray.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/settings/log.h"
#include "shim/settings/log_pattern.h"

static void expect_name(const char *pattern, const char *want)
{
    char name[PATH_MAX] = "untouched";

    cr_expect_eq(gs_log_pattern_expand(pattern, name, sizeof(name)), GS_OK, "%s",
                 pattern);
    cr_expect_str_eq(name, want, "%s gave %s, not %s", pattern, name, want);
}

static void no_rank(void)
{
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("PMI_RANK");
    unsetenv("PMIX_RANK");
    unsetenv("SLURM_PROCID");
    unsetenv("RANK");
}

TestSuite(log_pattern, .init = no_rank);

Test(log_pattern, plain_names_stay)
{
    expect_name("", "");
    expect_name("/tmp/log file.txt", "/tmp/log file.txt");
    expect_name("100%%", "100%");
    expect_name("%%p%%%%", "%p%%");
}

Test(log_pattern, process_host_and_program_are_put_in)
{
    char want[256], host[128];

    snprintf(want, sizeof(want), "x%dy%d", getpid(), getpid());
    expect_name("x%py%p", want);
    cr_assert_eq(gethostname(host, sizeof(host)), 0);
    expect_name("%h", host);
    program_invocation_short_name = "a/b\n%pc";
    expect_name("%e.log", "a_b_%pc.log");
    program_invocation_short_name = "";
    expect_name("%e", "unknown");
}

Test(log_pattern, variables_are_put_in_and_not_read_as_patterns)
{
    setenv("GS_TEST", "dir/%p%%q{HOME}\n", 1);
    setenv("GS_EMPTY", "", 1);
    unsetenv("GS_NONE");
    expect_name("<%q{GS_TEST}>", "<dir/%p%%q{HOME}_>");
    expect_name("<%q{GS_EMPTY}%q{GS_NONE}>", "<unsetunset>");
}

Test(log_pattern, rank_is_the_first_set)
{
    expect_name("%r", "norank");
    cr_expect_eq(gs_log_rank(), -1);
    setenv("RANK", "5", 1);
    expect_name("%r", "5");
    setenv("SLURM_PROCID", "4", 1);
    expect_name("%r", "4");
    setenv("PMIX_RANK", "3", 1);
    expect_name("%r", "3");
    setenv("PMI_RANK", "2", 1);
    expect_name("%r", "2");
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    expect_name("%r", "1");
    cr_expect_eq(gs_log_rank(), 1);
}

Test(log_pattern, rank_that_is_no_number_is_passed_over)
{
    setenv("PMI_RANK", "../../etc", 1);
    setenv("SLURM_PROCID", "", 1);
    setenv("RANK", "12345678901234567890", 1);
    expect_name("%r", "norank");
    cr_expect_eq(gs_log_rank(), -1);
    setenv("PMIX_RANK", "17", 1);
    cr_expect_eq(gs_log_rank(), 17);
}

/* In a process of its own, for the start time is noted once. */
static bool date_is_right(time_t date)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        char want[64], name[64];

        strftime(want, sizeof(want), "%Y%m%dT%H%M%SZ", gmtime(&date));
        gs_log_pattern_start(date);
        gs_log_pattern_start(date + 86400); /* the first counts */
        _exit(gs_log_pattern_expand("%t", name, sizeof(name)) != GS_OK ||
              strcmp(name, want) != 0);
    }
    waitpid(child, &status, 0);
    return status == 0;
}

Test(log_pattern, start_time_is_utc_and_follows_the_calendar)
{
    static const time_t dates[] = {1,          951782399,  951782400,  951868800,
                                   1078012800, 1709164800, 1709251199, 1735689599,
                                   1735689600, 4107542399, 4107542400, 253402300799};

    for (size_t i = 0; i < GS_ARRAY_LEN(dates); i++)
        cr_expect(date_is_right(dates[i]), "%lld", (long long)dates[i]);
    /* Over one turn of the calendar, in steps that meet all days of a year. */
    for (time_t day = 0; day < 146097; day += 397)
        cr_expect(date_is_right(day * 86400 + 43200), "day %lld", (long long)day);
}

Test(log_pattern, malformed_patterns_are_named)
{
    static const char *const bad[] = {"%",      "x%",      "%x",  "%q", "%q{", "%q{}",
                                      "%qHOME", "%q{HOME", "%%%", "%P", "%5p", "% p"};
    char name[64] = "untouched";

    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        cr_expect(gs_log_pattern_problem(bad[i]), "%s", bad[i]);
        cr_expect_eq(gs_log_pattern_expand(bad[i], name, sizeof(name)), GS_ERR_INVALID);
        cr_expect_str_eq(name, "untouched");
    }
    cr_expect_null(gs_log_pattern_problem("%p%h%e%t%r%q{A}%%"));
}

Test(log_pattern, result_that_does_not_fit_is_refused)
{
    char name[8] = "before";
    char pattern[PATH_MAX + 10];

    cr_expect_eq(gs_log_pattern_expand("1234567", name, sizeof(name)), GS_OK);
    cr_expect_str_eq(name, "1234567");
    cr_expect_eq(gs_log_pattern_expand("12345678", name, sizeof(name)), GS_ERR_INVALID);
    cr_expect_str_eq(name, "1234567");
    memset(pattern, 'x', sizeof(pattern) - 1);
    pattern[sizeof(pattern) - 1] = '\0';
    cr_expect_eq(gs_log_pattern_expand(pattern, name, sizeof(name)), GS_ERR_INVALID);
}

Test(log_pattern, buffer_is_never_overrun)
{
    char name[9] = "abcdefgh";

    cr_expect_eq(gs_log_pattern_resolve("123456789", name, 8), GS_ERR_INVALID);
    cr_expect_str_eq(name, "1234567");
    cr_expect_eq(gs_log_pattern_finish("%%%%%%%%%%%%%%%%", name, 8), GS_ERR_INVALID);
    cr_expect_str_eq(name, "%%%%%%%");
    name[8] = '!';
    cr_expect_eq(gs_log_pattern_finish("1234567%%", name, 8), GS_ERR_INVALID);
    cr_expect_eq(name[8], '!');
    cr_expect_eq(gs_log_pattern_finish("123456%%", name, 8), GS_OK);
    cr_expect_str_eq(name, "123456%");
}
