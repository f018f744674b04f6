/*
 * shim_first_end.c - the process of a job that is said to have failed first: also where
 * ends were noticed late, in another order, or are not known.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "shim/tools/reader/process_table.h"

struct end {
    uint64_t rank, unix_ms;
    const char *text; /* NULL: the launcher does not know */
};

/* Fails unless the last line of the table says `wanted`; NULL: it has no such line. */
static void expect_first(const struct end *ends, size_t count, const char *wanted)
{
    struct gs_process_table table = {.processes = 0};
    char line[400] = "";
    for (size_t i = 0; i < count; i++) {
        struct gs_state_ended ended[2] = {{.pid = 10 + (int64_t)i}};
        const struct gs_report_file file = {.pid = 10 + i,
                                            .rank = ends[i].rank,
                                            .killed = true,
                                            .hostname = "node",
                                            .command = "job",
                                            .ending = "ended without a report"};
        ended[0].unix_ms = ends[i].unix_ms;
        (void)snprintf(ended[0].text, sizeof(ended[0].text), "%s",
                       ends[i].text ? ends[i].text : "");
        gs_process_table_add(&table, &file, ended);
    }
    gs_process_table_sum(&table);
    if (wanted) {
        (void)snprintf(line, sizeof(line), "gpushim: first to fail: %s\n", wanted);
    }
    const char *found = strstr(table.text.data, "gpushim: first to fail: ");
    cr_expect_str_eq(found ? found : "", line);
    gs_process_table_free(&table);
}
#define EXPECT(wanted, ...)                                                              \
    expect_first((const struct end[]){__VA_ARGS__},                                      \
                 sizeof((const struct end[]){__VA_ARGS__}) / sizeof(struct end), wanted)

Test(first_end, the_first_in_time)
{
    EXPECT("rank 1 of node, killed by SIGABRT", {0, 9000, "killed by SIGSEGV"},
           {1, 5000, "killed by SIGABRT"}, {2, 7000, "exit_group 3"});
    EXPECT("rank 0 of node, killed by SIGKILL", {0, 5000, "killed by SIGKILL"},
           {1, 7000, "killed by SIGABRT"});
    EXPECT("rank 3 of node, killed by SIGKILL", {3, 5000, "killed by SIGKILL"},
           {1, 5500, "killed by SIGABRT"});
    EXPECT(NULL, {0, 5000, "exit_group 0"}, {1, 7000, "exit_group 0"});
}

/* The watcher may hear of both at once, and of the one that was ended for it first. */
Test(first_end, one_that_others_ended_comes_second)
{
    EXPECT("rank 1 of node, killed by SIGABRT", {0, 5000, "killed by SIGTERM"},
           {1, 5000, "killed by SIGABRT"});
    EXPECT("rank 1 of node, exit_group 1", {0, 5000, "killed by SIGINT"},
           {2, 5000, "killed by SIGHUP"}, {1, 5999, "exit_group 1"});
    EXPECT("rank 1 of node, killed by SIGABRT", {1, 5999, "killed by SIGABRT"},
           {0, 5000, "killed by SIGINT"});
}

/* A launcher ends the other ranks by SIGKILL, too; for want of memory, few are ended so. */
Test(first_end, many_that_were_stopped_come_second)
{
    EXPECT("rank 2 of node, killed by SIGABRT", {0, 5000, "killed by SIGKILL"},
           {1, 5010, "killed by SIGKILL"}, {2, 5020, "killed by SIGABRT"});
    EXPECT("rank 0 of node, killed by SIGKILL", {0, 5000, "killed by SIGKILL"},
           {1, 5010, "killed by SIGKILL"}, {2, 9000, "killed by SIGABRT"});
    EXPECT("rank 1 of node, killed by SIGKILL", {0, 5010, "killed by SIGKILL"},
           {1, 5000, "killed by SIGKILL"}, {2, 5020, "killed by SIGABRT"},
           {3, 5020, "exit_group 1"});
    EXPECT("rank 1 of node, killed by SIGKILL", {0, 5010, "killed by SIGKILL"},
           {1, 5000, "killed by SIGKILL"});
}

/* On kernels that do not tell, an end without a report may have been the failure. */
Test(first_end, an_unknown_one_before_is_named_too)
{
    EXPECT("rank 1 of node, ended without a report; or rank 0 of node, killed by SIGTERM",
           {0, 5000, "killed by SIGTERM"}, {1, 5000, NULL});
    EXPECT("rank 0 of node, killed by SIGABRT", {0, 5000, "killed by SIGABRT"},
           {1, 9000, NULL});
    EXPECT(NULL, {0, 5000, NULL}, {1, 5000, NULL});
}
