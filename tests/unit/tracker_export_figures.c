/*
 * tracker_export_figures.c - proves the CSV and the OpenMetrics of a report, compared
 * whole: sums that belong together are in one row, names end neither field nor label,
 * and a program that runs has leaked nothing yet. That Python's csv and Prometheus read
 * them, tests/e2e/cases/outputs.sh and metrics.sh ask them.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_export_helpers.h"

#define CSV_HEAD                                                                         \
    "device,kind,owner,call,function,file,line,stack,live_bytes,live_count,"             \
    "leaked_bytes,leaked_count,peak_bytes,peak_count,total_bytes,total_count,"           \
    "owner_path,places,scope\n"

/* An allocation of now, tallied as the library does it. */
static struct gs_allocation make(struct gs_tracker *tracker, uint64_t addr,
                                 uint64_t bytes, uint32_t stack, uint32_t *id)
{
    struct gs_allocation allocation = test_allocation(addr, bytes);

    allocation.time_ns = 0;
    allocation.stack = stack;
    gs_tracker_tally(tracker, &allocation);
    *id = test_add(tracker, &allocation, true);
    return allocation;
}

static void expect(struct test_bytes bytes, const char *expected)
{
    cr_assert_eq(bytes.status, GS_OK);
    cr_expect_str_eq(bytes.data, expected);
    free(bytes.data);
}

Test(export_csv, sums_of_a_call_site_are_in_one_row)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tally_tracker(stacks);
    uint32_t torch =
        TEST_STACK(stacks, AT_SHIM, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN, AT_LIBC);
    uint32_t load = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    uint32_t same = TEST_STACK(stacks, AT_LOAD_TOO, AT_MAIN);
    uint32_t freed, kept;

    (void)make(tracker, 0x1000, 4000, torch, &kept);
    (void)make(tracker, 0x3000, 500, load, &freed);
    (void)make(tracker, 0x5000, 70, same, &kept);
    gs_tracker_remove(tracker, freed, NULL);
    (void)make(tracker, 0x7000, 8, 0, &kept);
    expect(test_export(tracker, test_report_config(), GS_EXPORT_csv, 0),
           CSV_HEAD "0,device,app,cudaMalloc,run,,,"
                    "main;run,4000,1,4000,1,4000,1,4000,1,/opt/app/app,/src/"
                    "app.c:12;/opt/app/app,\n"
                    "0,device,app,cuMemAlloc,load_batch,loader.c,88,main;load_batch,"
                    "70,1,70,1,570,2,570,2,/opt/app/app,/src/app.c:12;loader.c:88,\n"
                    "0,device,,cuMemAlloc,,,,[no call stack],8,1,8,1,0,0,8,1,,,\n");
}

/* AT_RUN and AT_RUN + 8: `run` of two files. */
static void two_files(void *self, struct gs_symbol_request *requests, size_t count)
{
    (void)self;
    for (size_t i = 0; i < count; i++) {
        bool other = requests[i].frame == AT_RUN + 8;

        requests[i].result.function = requests[i].frame == AT_MAIN   ? "main"
                                      : requests[i].frame == AT_LOAD ? "alloc"
                                                                     : "run";
        requests[i].result.file = requests[i].frame == AT_LOAD ? "/src/alloc.c"
                                  : other                      ? "/src/b/utils.cpp"
                                                               : "/src/a/utils.cpp";
        requests[i].result.line = 2;
    }
}

/* Equal functions, and the innermost ones at one line: only the callers' files differ. */
Test(export_csv, callers_of_two_files_are_two_rows)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_source source = test_source();

    source.resolve = two_files;
    test_leak(tracker, 0x1000, 1, 0, TEST_STACK(stacks, AT_LOAD, AT_RUN, AT_MAIN));
    test_leak(tracker, 0x2000, 2, 0, TEST_STACK(stacks, AT_LOAD, AT_RUN + 8, AT_MAIN));
    struct test_bytes bytes = test_export_from(tracker, test_report_config(), &source,
                                               test_job(), GS_EXPORT_csv, 0);
    cr_expect(strstr(bytes.data, ",alloc,/src/alloc.c,2,main;run;alloc,1,1,"), "%s",
              bytes.data);
    cr_expect(strstr(bytes.data, ",alloc,/src/alloc.c,2,main;run;alloc,2,1,"));
    cr_expect(strstr(bytes.data, ";/src/b/utils.cpp:2;/src/alloc.c:2,\n"));
    free(bytes.data);
}

Test(export_csv, a_program_that_runs_has_leaked_what_is_lost)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_allocation pinned = test_allocation(0x1000, 30);
    struct gs_allocation lost = test_allocation(0x2000, 5);

    config.running = true;
    pinned.kind = GS_MEMORY_PINNED;
    lost.context = 0xdead;
    lost.device = 1;
    test_add(tracker, &pinned, true);
    test_add(tracker, &lost, true);
    gs_tracker_lose_context(tracker, 0xdead, ~0u);
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_csv, 0);
    cr_expect(strstr(bytes.data, "\n,pinned,,cuMemAlloc,,,,[no call stack],30,1,0,0,"));
    cr_expect(strstr(bytes.data, "\n1,device,,cuMemAlloc,,,,[no call stack],0,0,5,1,"));
    cr_expect(strstr(bytes.data, ",,,\n"), "totals without a tally");
    free(bytes.data);
}

static void awkward_names(void *self, struct gs_symbol_request *requests, size_t count)
{
    (void)self;
    for (size_t i = 0; i < count; i++) {
        requests[i].result.function = "f<a, \"b\">\n\x80";
        requests[i].result.file = "=x\r.c";
    }
}

Test(export_csv, a_name_ends_neither_field_nor_line)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_source source = test_source();

    source.resolve = awkward_names;
    test_leak(tracker, 0x1000, 1, 0, TEST_STACK(stacks, AT_RUN));
    struct test_bytes bytes = test_export_from(tracker, test_report_config(), &source,
                                               test_job(), GS_EXPORT_csv, 0);
    cr_expect(strstr(bytes.data, ",\"f<a, \"\"b\"\">?\xef\xbf\xbd\",=x?.c,,"
                                 "\"f<a, \"\"b\"\">?\xef\xbf\xbd\",1,1,"),
              "%s", bytes.data);
    free(bytes.data);
}

#define HEAD(name, type, help) "# TYPE " name " " type "\n# HELP " name " " help "\n"
#define HEAD_OF(name, type, unit, help)                                                  \
    "# TYPE " name " " type "\n# UNIT " name " " unit "\n# HELP " name " " help "\n"
#define WHO "{host=\"n\\\"07\",pid=\"41233\",rank=\"3\","

Test(export_openmetrics, a_leak_a_pool_and_its_owner)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_device device = {.pooled = true, .pool_allocs = 1000};
    uint32_t id;

    config.hostname = "n\"07";
    config.rank = 3;
    config.devices = &device;
    config.device_count = 1;
    (void)make(tracker, 0x1000, 4000, TEST_STACK(stacks, AT_LOAD, AT_MAIN), &id);
    (void)make(tracker, 0x3000, 96, TEST_STACK(stacks, AT_TORCH, AT_MAIN), &id);
    gs_tracker_remove(tracker, id, NULL);
    gs_tracker_add_failed(tracker, 0, GS_MEMORY_DEVICE);
    expect(
        test_export(tracker, config, GS_EXPORT_openmetrics, 0),
        HEAD(
            "gpushim_process_info",
            "gauge", "The process: always 1.") "gpushim_process_info" WHO
                                               "program=\"app\",version=\"0.1.0\"} "
                                               "1\n" HEAD("gpushim_process_running",
                                                          "gauge",
                                                          "Whether the process still "
                                                          "runs.") "gpushim_process_"
                                                                   "running{host="
                                                                   "\"n\\\"07\",pid="
                                                                   "\"41233\",rank=\"3\"}"
                                                                   " 0\n" HEAD_OF("gpushi"
                                                                                  "m_"
                                                                                  "live_"
                                                                                  "bytes",
                                                                                  "gauge",
                                                                                  "bytes",
                                                                                  "Memory"
                                                                                  " alloc"
                                                                                  "ated "
                                                                                  "and "
                                                                                  "not "
                                                                                  "freed"
                                                                                  ".") "g"
                                                                                       "p"
                                                                                       "u"
                                                                                       "s"
                                                                                       "h"
                                                                                       "i"
                                                                                       "m"
                                                                                       "_"
                                                                                       "l"
                                                                                       "i"
                                                                                       "v"
                                                                                       "e"
                                                                                       "_"
                                                                                       "b"
                                                                                       "y"
                                                                                       "t"
                                                                                       "e"
                                                                                       "s" WHO
                                                                                       "d"
                                                                                       "e"
                                                                                       "v"
                                                                                       "i"
                                                                                       "c"
                                                                                       "e"
                                                                                       "="
                                                                                       "\"0\",memory=\"device\"} 4000\n" HEAD("gpushim_live_allocations", "gauge", "Allocations not freed.") "gpushim_live_allocations" WHO "device=\"0\",memory=\"device\"} 1\n" HEAD_OF("gpushim_peak_bytes", "gauge", "bytes", "The most memory that was live at once.") "gpushim_peak_bytes" WHO "device=\"0\",memory=\"device\"} 4096\n" HEAD("gpushim_allocations",
                                                                                                                                                                                                                                                                                                                                                                                                                                   "counter",
                                                                                                                                                                                                                                                                                                                                                                                                                                   "Allocations made.") "gpushim_allocations_total" WHO
                                                                                                                                                                                                                                                                                                                                                                                                                                                        "device=\"0\",memory=\"device\"} 2\n" HEAD("gpushim_frees",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                   "counter", "Allocations freed.") "gpushim_frees_total" WHO
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                    "device=\"0\",memory=\"device\"} 1\n" HEAD(
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        "gpushim_out_of_memory", "counter", "Failed allocations.") "gpushim_out_of_memory_total" WHO
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                   "device=\"0\",memory=\"device\"} 1\n" HEAD_OF("gpushim_lost_bytes",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                 "counter", "bytes", "Memory that was live when its context ended.") "gpushim_lost_bytes_total" WHO "device=\"0\",memory=\"device\"} 0\n" HEAD_OF("gpushim_leaked_bytes",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  "gauge",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  "bytes", "Memory not freed at the end of the process.") "gpushim_leaked_bytes" WHO "device=\"0\",memory=\"device\"} 4000\n" HEAD("gpushim_pool_hits", "counter", "Requests served without the driver.") "gpushim_pool_hits_total" WHO
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "device=\"0\"} 972\n" HEAD_OF("gpushim_pool_driver_seconds", "counter", "seconds",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        "Time spent in driver calls.") "gpushim_pool_driver_seconds_total" WHO "device=\"0\"} 0.000001500\n" HEAD_OF("gpushim_owner_live_bytes",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                     "gauge",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                     "bytes",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                     "Live memory by the file whose code allocated it.") "gpushim_owner_live_bytes" WHO "device=\"0\",kind=\"device\",owner=\"app\",path=\"/opt/app/app\"} 4000\n" HEAD("gpushim_owner_live_allocations", "gauge",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        "Live allocations by the same files.") "gpushim_owner_live_allocations" WHO
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               "device=\"0\",kind=\"device\",owner=\"app\",path=\"/opt/app/app\"} 1\n"
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               "# EOF\n");
}

Test(export_openmetrics, kinds_are_told_apart_and_names_escaped)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = test_source();
    struct gs_export_job job = test_job();
    struct gs_allocation managed = test_allocation(0x1000, 7);
    struct gs_allocation pinned = test_allocation(0x2000, 9);

    managed.kind = GS_MEMORY_MANAGED;
    pinned.kind = GS_MEMORY_PINNED;
    test_add(tracker, &managed, true);
    test_add(tracker, &pinned, true);
    test_leak(tracker, 0x3000, 5, SECONDS(1), 0);
    config.running = true;
    job.stacks = false;
    job.program = "/opt/a\\\"b\nc\x1b\xff";
    struct test_bytes bytes =
        test_export_from(tracker, config, &source, job, GS_EXPORT_openmetrics, 0);
    cr_assert_eq(bytes.status, GS_OK);
    cr_expect(strstr(bytes.data, ",program=\"a\\\\\\\"b\\nc?\xef\xbf\xbd\",version"));
    cr_expect(strstr(bytes.data, ",device=\"0\",memory=\"device\"} 12\n"));
    cr_expect(strstr(bytes.data, ",memory=\"pinned\"} 9\n"));
    cr_expect(
        strstr(bytes.data, ",device=\"0\",kind=\"managed\",owner=\"unknown\"} 7\n"));
    cr_expect(strstr(bytes.data, ",device=\"0\",kind=\"device\",owner=\"unknown\"} 5\n"));
    cr_expect(strstr(bytes.data, "\",kind=\"pinned\",owner=\"unknown\"} 9\n"));
    cr_expect(
        strstr(bytes.data, "gpushim_process_running{host=\"n07\",pid=\"41233\"} 1\n"));
    cr_expect_null(strstr(bytes.data, "gpushim_leaked_bytes"));
    free(bytes.data);
}

Test(export_openmetrics, a_full_disk_is_an_error)
{
    OWNED_TRACKER tracker = test_tracker(NULL);

    for (size_t limit = 1; limit < 100; limit += 49) {
        struct test_bytes bytes =
            test_export(tracker, test_report_config(), GS_EXPORT_openmetrics, limit);
        cr_expect_eq(bytes.status, GS_ERR_IO);
        free(bytes.data);
        bytes = test_export(tracker, test_report_config(), GS_EXPORT_csv, limit);
        cr_expect_eq(bytes.status, GS_ERR_IO);
        free(bytes.data);
    }
}
