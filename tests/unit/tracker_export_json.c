/*
 * tracker_export_json.c - proves the JSON of a report, compared whole: a clean run, leaks
 * and errors, names of any bytes, and that of thousands of places nothing is left out.
 * That it is JSON, and as the schema says, tests/e2e/cases/outputs.sh asks a validator.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_export_helpers.h"

/* From `from` to the end of its line must be this, `from` included. */
static void expect_line(const struct test_bytes *bytes, const char *from,
                        const char *expected)
{
    const char *found = strstr(bytes->data, from);

    cr_assert_not_null(found, "no %s in %s", from, bytes->data);
    size_t length = strcspn(found, "\n");
    cr_expect(length == strlen(expected) && memcmp(found, expected, length) == 0,
              "found %.*s\nnot   %s", (int)length, found, expected);
}

#define NO_TOTALS                                                                        \
    "    \"totals\": {\"allocs\": 0, \"frees\": 0, \"failed\": 0, \"live_bytes\": 0, "   \
    "\"live_count\": 0, \"peak_bytes\": 0, \"peak_time_ns\": 0, \"lost_bytes\": 0, "     \
    "\"lost_count\": 0}\n"

Test(export_json, a_run_without_anything)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct test_bytes bytes =
        test_export(tracker, test_report_config(), GS_EXPORT_json, 0);

    cr_assert_eq(bytes.status, GS_OK);
    cr_expect_str_eq(
        bytes.data,
        "{\n"
        "  \"schema\": \"gpushim-report\",\n"
        "  \"version\": 1,\n"
        "  \"gpushim\": \"0.1.0\",\n"
        "  \"process\": {\n"
        "    \"pid\": 41233,\n"
        "    \"command\": \"./app --fast\",\n"
        "    \"program\": \"/opt/app/app\",\n"
        "    \"host\": \"n07\",\n"
        "    \"rank\": null,\n"
        "    \"ending\": \"exit 0\",\n"
        "    \"running\": false,\n"
        "    \"exit_status\": 0\n"
        "  },\n"
        "  \"time\": {\n"
        "    \"start_unix_ms\": 1700000000000,\n"
        "    \"end_unix_ms\": 1700000600000,\n"
        "    \"duration_ns\": 600000000000\n"
        "  },\n"
        "  \"summary\": {\n"
        "    \"errors\": 0,\n"
        "    \"leaked_bytes\": 0,\n"
        "    \"leaked_count\": 0,\n"
        "    \"places\": 0,\n"
        "    \"peak_bytes\": 0,\n"
        "    \"allocs\": 0\n"
        "  },\n"
        "  \"devices\": [],\n"
        "  \"pinned_host\": {\n" NO_TOTALS "  },\n"
        "  \"registered_host\": {\n" NO_TOTALS "  },\n"
        "  \"imported\": {\n" NO_TOTALS "  },\n"
        "  \"views\": {\n" NO_TOTALS "  },\n"
        "  \"errors\": [],\n"
        "  \"out_of_memory\": [],\n"
        "  \"checks\": {\n"
        "    \"looked_at\": 0,\n"
        "    \"not_looked_at\": {\"capture\": 0, \"busy\": 0, \"refused\": 0, "
        "\"room\": 0, \"native\": 0, \"ordered\": 0, \"end\": 0}\n"
        "  },\n"
        "  \"idle_proof\": null,\n"
        "  \"hints\": [],\n"
        "  \"leaks\": [],\n"
        "  \"suppressed\": [],\n"
        "  \"registered\": [],\n"
        "  \"not_grouped\": {\n"
        "    \"bytes\": 0,\n"
        "    \"count\": 0\n"
        "  },\n"
        "  \"owners\": [],\n"
        "  \"peaks\": [],\n"
        "  \"frames\": [],\n"
        "  \"modules\": [],\n"
        "  \"note\": null,\n"
        "  \"options\": {\n"
        "    \"GPUSHIM_POOL\": \"on\",\n"
        "    \"GPUSHIM_LOG_FILE\": \"a\\\"b\"\n"
        "  },\n"
        "  \"units\": {\n"
        "    \"totals\": {\"allocs\": \"count\", \"frees\": \"count\", \"failed\": "
        "\"count\", \"live_bytes\": \"bytes\", \"live_count\": \"count\", "
        "\"peak_bytes\": \"bytes\", \"peak_time_ns\": \"ns\", \"lost_bytes\": \"bytes\", "
        "\"lost_count\": \"count\"},\n"
        "    \"pool\": {\"hits\": \"count\", \"driver_ns\": \"ns\"},\n"
        "    \"pool_holes\": {\"count\": \"count\", \"bytes\": \"bytes\", "
        "\"largest_bytes\": \"bytes\", \"stranded_bytes\": \"bytes\", "
        "\"retained_bytes\": \"bytes\", \"tolerance_bytes\": \"bytes\"},\n"
        "    \"pool_sizes\": {\"bytes\": \"bytes\", \"live\": \"count\", "
        "\"live_bytes\": \"bytes\", \"rounding_bytes\": \"bytes\", "
        "\"cached\": \"count\", \"cached_bytes\": \"bytes\", "
        "\"pending\": \"count\", \"pending_bytes\": \"bytes\", "
        "\"hits\": \"count\", \"misses\": \"count\"}\n"
        "  }\n"
        "}\n");
    free(bytes.data);
}

Test(export_json, a_leak_a_pool_and_its_code)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_device device = {
        .name = "A \"B\"", .pooled = true, .pool_allocs = 1000, .pool_hits = 972};
    uint32_t torch =
        TEST_STACK(stacks, AT_SHIM, AT_CUDART, AT_TORCH, AT_RUN, AT_MAIN, AT_LIBC);
    uint32_t lost = TEST_STACK(stacks, AT_NOWHERE, AT_STRIPPED);

    config.rank = 3;
    config.devices = &device;
    config.device_count = 1;
    config.ending = "_exit 7";
    test_leak(tracker, 0x1000, 4096, SECONDS(2), torch);
    test_leak(tracker, 0x3000, 4096, SECONDS(5), torch);
    test_leak(tracker, 0x5000, 100, SECONDS(6), lost);
    test_leak(tracker, 0x6000, 7, SECONDS(6), 0);
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_json, 0);
    cr_assert_eq(bytes.status, GS_OK);
    expect_line(&bytes, "\"rank\"", "\"rank\": 3,");
    expect_line(&bytes, "\"exit_status\"", "\"exit_status\": 7");
    expect_line(&bytes, "{\"device\": 0, \"name\"",
                "{\"device\": 0, \"name\": \"A \\\"B\\\"\", \"pci_bus_id\": null, "
                "\"totals\": {\"allocs\": 4, \"frees\": 0, \"failed\": 0, "
                "\"live_bytes\": 8299, \"live_count\": 4, "
                "\"peak_bytes\": 8299, \"peak_time_ns\": 6000000000, \"lost_bytes\": 0, "
                "\"lost_count\": 0}, \"pool\": {\"hits\": 972, \"driver_ns\": 1500}, "
                "\"pool_holes\": null, \"pool_sizes\": null, "
                "\"pool_as_of_ns\": null, \"not_allocated_via_api_bytes\": null, "
                "\"pressure\": null, \"spilled\": null}");
    expect_line(&bytes, "\"peak_bytes\": 8299,\n", "\"peak_bytes\": 8299,");
    expect_line(&bytes, "\"allocs\": 4\n", "\"allocs\": 4");
    expect_line(&bytes, "{\"bytes\": 8192",
                "{\"bytes\": 8192, \"count\": 2, \"call\": \"cudaMalloc\", \"kind\": "
                "\"device\", \"device\": 0, \"fate\": \"live at exit\", \"oldest_ns\": "
                "2000000000, \"newest_ns\": 5000000000, \"stack\": [3, 4], "
                "\"inner\": \"1 frame of PyTorch\", \"full_stack\": [0, 1, 2, 3, 4, 5], "
                "\"truncated\": false},");
    expect_line(&bytes, "{\"bytes\": 7,",
                "{\"bytes\": 7, \"count\": 1, \"call\": \"cuMemAlloc\", \"kind\": "
                "\"device\", \"device\": 0, \"fate\": \"live at exit\", \"oldest_ns\": "
                "6000000000, \"newest_ns\": 6000000000, \"stack\": null, "
                "\"full_stack\": null, \"truncated\": false}");
    expect_line(
        &bytes, "{\"address\": \"0x10010\"",
        "{\"address\": \"0x10010\", \"module\": 0, \"offset\": \"0x10\", "
        "\"function\": \"main\", \"linkage\": \"main\", \"file\": \"/src/app.c\", "
        "\"line\": 12},");
    expect_line(
        &bytes, "{\"address\": \"0x90010\"",
        "{\"address\": \"0x90010\", \"module\": null, \"offset\": null, "
        "\"function\": null, \"linkage\": null, \"file\": null, \"line\": null},");
    expect_line(&bytes, "{\"address\": \"0x10310\"",
                "{\"address\": \"0x10310\", \"module\": 0, \"offset\": \"0x310\", "
                "\"function\": null, \"linkage\": null, \"file\": null, \"line\": null}");
    /* The program's module is the first, though libgpushim.so was met before. */
    expect_line(
        &bytes, "{\"path\":",
        "{\"path\": \"/opt/app/app\", \"build_id\": null, \"begin\": \"0x10000\", "
        "\"end\": \"0x20000\", \"bias\": \"0x10000\"},");
    expect_line(&bytes, "{\"module\": \"app\"",
                "{\"module\": \"app\", \"device\": 0, \"memory\": "
                "\"device\", \"bytes\": 8192, \"count\": 2, \"path\": "
                "\"/opt/app/app\"},");
    free(bytes.data);
}

/* What the report says beside the tracker's own: of which moment the pool's figures are,
 * what no call accounts for, how full the device was, which place grows. */
Test(export_json, what_is_known_from_elsewhere)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_device device = {.name = "A",
                                      .pooled = true,
                                      .pool_allocs = 1,
                                      .as_of_ns = 77,
                                      .rest_known = true,
                                      .rest_bytes = 512 * GS_MIB,
                                      .pressure = "critical",
                                      .pressure_changes = 14,
                                      .spilled = 3,
                                      .spilled_peak_bytes = 4096};
    struct gs_allocation registered = test_allocation(0x9000, 5);

    config.devices = &device;
    config.device_count = 1;
    config.running = true;
    config.growth = gs_growth_create();
    cr_assert_not_null(config.growth);
    registered.kind = GS_MEMORY_REGISTERED;
    test_add(tracker, &registered, true);
    for (uint64_t i = 0; i < 4; i++) {
        test_leak(tracker, 0x10000 * (i + 1), 4096, SECONDS(2),
                  TEST_STACK(stacks, AT_LOAD, AT_MAIN));
        gs_growth_take_snapshot(config.growth, tracker);
    }
    test_leak(tracker, 0x90000, 1, SECONDS(2), TEST_STACK(stacks, AT_RUN, AT_MAIN));
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_json, 0);
    cr_assert_eq(bytes.status, GS_OK);
    expect_line(&bytes, "\"running\"", "\"running\": true,");
    expect_line(&bytes, "\"pool_as_of_ns\"",
                "\"pool_as_of_ns\": 77, \"not_allocated_via_api_bytes\": 536870912, "
                "\"pressure\": {\"highest\": \"critical\", \"changes\": 14}, "
                "\"spilled\": {\"count\": 3, \"peak_bytes\": 4096}}");
    cr_expect_eq(test_occurrences(bytes.data, "\"growing\": true"), 1);
    cr_expect_eq(test_occurrences(bytes.data, "\"growing\": false"), 2);
    expect_line(&bytes, "\"allocs\": 6\n", "\"allocs\": 6");
    cr_expect_not_null(strstr(bytes.data, "\"registered_host\": {\n    \"totals\": "
                                          "{\"allocs\": 1,"));
    cr_expect_not_null(
        strstr(bytes.data, "\"device\": null, \"memory\": \"registered_host\","));
    free(bytes.data);
    gs_growth_destroy(config.growth);
}

Test(export_json, an_error_with_both_ends)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    uint32_t load = TEST_STACK(stacks, AT_LOAD, AT_MAIN);
    struct gs_allocation allocation = test_allocation(0x7000, 64);
    struct gs_free_site first = {
        .time_ns = SECONDS(3), .thread = 41233, .api = API_MEM_FREE};
    struct gs_free_site again = {
        .time_ns = SECONDS(4), .thread = 41301, .stack = load, .api = API_MEM_FREE};

    allocation.stack = load;
    gs_tracker_remove(tracker, test_add(tracker, &allocation, true), &first);
    gs_tracker_error_free(tracker, allocation.addr, 0, &again);
    gs_tracker_error_free(tracker, 0xdead0000, 0, &first);
    struct test_bytes bytes =
        test_export(tracker, test_report_config(), GS_EXPORT_json, 0);
    cr_assert_eq(bytes.status, GS_OK);
    expect_line(
        &bytes, "{\"error\": \"double free\"",
        "{\"error\": \"double free\", \"address\": \"0x7000\", \"device\": 0, "
        "\"time_ns\": 4000000000, \"thread\": 41301, \"call\": \"cuMemFree\", "
        "\"stack\": [0, 1], \"full_stack\": [0, 1], \"truncated\": false, "
        "\"thread_name\": null, \"offset_bytes\": 0, "
        "\"changed_bytes\": 0, \"first_changed\": 0, \"lost_with_context\": "
        "false, \"repeats\": 0, \"waited_ns\": 0, \"use\": null, \"broken_rule\": null, "
        "\"first_freed\": {\"time_ns\": "
        "3000000000, "
        "\"thread\": 41233, "
        "\"call\": \"cuMemFree\", \"stack\": null, \"full_stack\": null, "
        "\"truncated\": false}, \"allocation\": {\"address\": \"0x7000\", "
        "\"bytes\": 64, \"kind\": \"device\", \"device\": 0, \"time_ns\": "
        "1000000000, \"thread\": 100, \"call\": \"cuMemAlloc\", \"stack\": "
        "[0, 1], \"full_stack\": [0, 1], \"truncated\": false}},");
    cr_expect_not_null(strstr(bytes.data, "{\"error\": \"invalid free\", \"address\": "
                                          "\"0xdead0000\""));
    cr_expect_not_null(strstr(bytes.data, "\"errors\": 2,"));
    free(bytes.data);
}

/* Names as hostile as file systems and symbol tables allow. */
static enum gs_status hostile_module(void *self, uint32_t stack, uintptr_t frame,
                                     struct gs_module *out)
{
    (void)self;
    (void)stack;
    *out = (struct gs_module){.path = "/tmp/\xff\"; rm -rf\n/lib\\x.so",
                              .begin = frame & ~(uintptr_t)0xfff,
                              .end = frame + 0x1000,
                              .bias = frame & ~(uintptr_t)0xfff,
                              .build_id = {0x00, 0xab, 0xff},
                              .build_id_len = 3};
    return GS_OK;
}

static void hostile_resolve(void *self, struct gs_symbol_request *requests, size_t count)
{
    (void)self;
    for (size_t i = 0; i < count; i++)
        requests[i].result =
            (struct gs_symbol){.function = "operator\"\" _x<';', \"\xc3\x28\">",
                               .file = "a\tb\x01.c",
                               .line = 1};
}

Test(export_json, hostile_names)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_report_config config = test_report_config();
    struct gs_report_source source = {
        .now_ns = SECONDS(1), .module = hostile_module, .resolve = hostile_resolve};

    config.command = "./a \xf0\x9f\x92\xa9\x80\n";
    test_leak(tracker, 0x1000, 1, 0, TEST_STACK(stacks, 0x5010));
    struct test_bytes bytes =
        test_export_from(tracker, config, &source, test_job(), GS_EXPORT_json, 0);
    expect_line(&bytes, "\"command\"",
                "\"command\": \"./a \xf0\x9f\x92\xa9\xef\xbf\xbd\\n\",");
    expect_line(&bytes, "{\"path\"",
                "{\"path\": \"/tmp/\xef\xbf\xbd\\\"; rm -rf\\n/lib\\\\x.so\", "
                "\"build_id\": \"00abff\", \"begin\": \"0x5000\", \"end\": \"0x6010\", "
                "\"bias\": \"0x5000\"}");
    expect_line(&bytes, "{\"address\"",
                "{\"address\": \"0x5010\", \"module\": 0, \"offset\": \"0xf\", "
                "\"function\": \"operator\\\"\\\" _x<';', \\\"\xef\xbf\xbd(\\\">\", "
                "\"linkage\": null, \"file\": \"a\\tb\\u0001.c\", \"line\": 1}");
    free(bytes.data);
}

Test(export_json, thousands_of_places_are_all_there)
{
    enum { PLACES = 3000 };
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    char text[64];

    for (uintptr_t i = 0; i < PLACES; i++)
        test_leak(tracker, 0x7f0000000000 + i * 512, i + 1, SECONDS(1),
                  TEST_STACK(stacks, 0x10700 + i, AT_MAIN));
    struct test_bytes bytes =
        test_export(tracker, test_report_config(), GS_EXPORT_json, 0);
    cr_assert_eq(bytes.status, GS_OK);
    cr_expect_eq(test_occurrences(bytes.data, "\"fate\": "), PLACES);
    cr_expect_eq(test_occurrences(bytes.data, "{\"address\": "), PLACES + 1);
    for (unsigned i = 1; i <= PLACES; i += 97) {
        snprintf(text, sizeof(text), "{\"bytes\": %u, ", i);
        cr_expect_not_null(strstr(bytes.data, text), "%s", text);
    }
    free(bytes.data);
}

Test(export_json, the_largest_numbers)
{
    OWNED_TRACKER tracker = test_tracker(NULL);

    test_leak(tracker, UINT64_MAX - 4095, GS_TRACKED_BYTES_MAX, SECONDS(1), 0);
    struct test_bytes bytes =
        test_export(tracker, test_report_config(), GS_EXPORT_json, 0);
    expect_line(&bytes, "\"leaked_bytes\"", "\"leaked_bytes\": 281474976710655,");
    free(bytes.data);
}

Test(export_json, a_full_disk_is_told)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct test_bytes bytes =
        test_export(tracker, test_report_config(), GS_EXPORT_json, 10);

    cr_assert_eq(bytes.status, GS_ERR_IO);
    free(bytes.data);
}
