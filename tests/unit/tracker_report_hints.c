/*
 * tracker_report_hints.c - proves when the report gives a hint, and above all when not:
 * a small program, one that only allocates, one that goes on, one whose user asked for no
 * warnings.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_export_helpers.h"

static struct gs_report_class classes[1];

/* The hints of a run, a line each; `leaks` allocations are live. */
static char *hints_of(const struct gs_report_device *device, uint32_t leaks,
                      void (*change)(struct gs_report_config *))
{
    static char found[2048];
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_report_summary summary;
    char *text;

    config.devices = device;
    config.device_count = device ? 1 : 0;
    config.show_hints = true;
    if (change)
        change(&config);
    for (uint32_t i = 0; i < leaks; i++) {
        struct gs_allocation allocation = test_allocation(0x10000 + 0x1000 * i, 512);

        (void)test_add(tracker, &allocation, true);
    }
    text = test_report_text(tracker, &config, &summary);
    found[0] = '\0';
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (!strncmp(line, "Hint: ", 6)) {
            strcat(found, line + 6);
            strcat(found, "\n");
        }
    cr_expect_eq(summary.leaked_count, leaks);
    free(text);
    return found;
}

/* A device whose memory was asked for 100 times over, with few hits. */
static struct gs_report_device hungry(void)
{
    return (struct gs_report_device){.name = "A",
                                     .pooled = true,
                                     .pool_allocs = 5000,
                                     .pool_hits = 1900,
                                     .requested_bytes = 6400 * GS_MIB,
                                     .rounded_bytes = 6400 * GS_MIB,
                                     .reserved_bytes = 64 * GS_MIB,
                                     .reserved_peak_bytes = 64 * GS_MIB};
}

/* One of whose memory much lies between blocks. */
static struct gs_report_device torn(void)
{
    return (struct gs_report_device){.name = "A",
                                     .pooled = true,
                                     .pool_allocs = 5000,
                                     .pool_hits = 4900,
                                     .requested_bytes = 6400 * GS_MIB,
                                     .rounded_bytes = 6400 * GS_MIB,
                                     .reserved_bytes = 300 * GS_MIB,
                                     .reserved_peak_bytes = 300 * GS_MIB,
                                     .idle_bytes = 200 * GS_MIB,
                                     .classes = classes,
                                     .class_count = 1,
                                     .holes = {.count = 1203,
                                               .bytes = 200 * GS_MIB,
                                               .largest_bytes = 4 * GS_MIB,
                                               .stranded_bytes = 180 * GS_MIB}};
}

/* ---- few hits -----------------------------------------------------------------------
 */

#define FEW_HITS                                                                         \
    "GPU 0: the driver served 3,100 of 5,000 requests: gpushim advise finds settings "   \
    "with fewer driver calls from a trace of the run (GPUSHIM_TRACE_FILE)\n"

Test(report_hints, few_hits)
{
    struct gs_report_device device = hungry();

    cr_expect_str_eq(hints_of(&device, 0, NULL), FEW_HITS);
    device.pool_hits = 2499;
    cr_expect_str_neq(hints_of(&device, 0, NULL), "");
    device.pool_hits = 2500;
    cr_expect_str_eq(hints_of(&device, 0, NULL), "", "half of them are hits");
}

Test(report_hints, few_hits_of_a_small_program)
{
    struct gs_report_device device = hungry();

    device.pool_allocs = 999;
    device.pool_hits = 0;
    cr_expect_str_eq(hints_of(&device, 0, NULL), "");
}

/* Weights that are loaded once: there was nothing to hit. */
Test(report_hints, few_hits_where_memory_is_not_used_again)
{
    struct gs_report_device device = hungry();

    device.requested_bytes = 3 * 100 * 512;
    cr_expect_str_eq(hints_of(&device, 100, NULL), "");
    device.requested_bytes = 4 * 100 * 512;
    cr_expect_str_eq(hints_of(&device, 100, NULL), FEW_HITS);
}

Test(report_hints, nothing_of_a_device_without_a_pool)
{
    struct gs_report_device device = hungry();

    device.pooled = false;
    cr_expect_str_eq(hints_of(&device, 0, NULL), "");
    cr_expect_str_eq(hints_of(NULL, 0, NULL), "");
}

/* ---- fragmented ----------------------------------------------------------------------
 */

Test(report_hints, fragmented)
{
    struct gs_report_device device = torn();

    cr_expect(gs_report_may_be_fragmented(&device));
    cr_expect_str_eq(
        hints_of(&device, 0, NULL),
        "GPU 0: 180 MiB of the pool's 300 MiB are free but fragmented, in 1,203 "
        "blocks: allocate long-lived buffers first and together\n");
}

Test(report_hints, fragmented_only_if_it_matters)
{
    struct gs_report_device device = torn();

    device.holes.stranded_bytes = 0; /* nothing is live: all of it can go back */
    cr_expect_str_eq(hints_of(&device, 0, NULL), "");
    device = torn();
    device.reserved_bytes = 3000 * GS_MIB;
    cr_expect_str_eq(hints_of(&device, 0, NULL), "");
    cr_expect_not(gs_report_may_be_fragmented(&device));
    device = torn();
    device.holes.largest_bytes = 150 * GS_MIB;
    cr_expect_str_eq(hints_of(&device, 0, NULL), "");
    device = torn();
    device.classes = NULL; /* not known */
    cr_expect_str_eq(hints_of(&device, 0, NULL), "");
    device = torn();
    device.idle_bytes = device.holes.bytes = device.holes.stranded_bytes = 20 * GS_MIB;
    device.reserved_bytes = 30 * GS_MIB;
    cr_expect_str_eq(hints_of(&device, 0, NULL), "", "20 MiB are not worth a word");
    cr_expect_not(gs_report_may_be_fragmented(&device));
}

/* ---- not freed ------------------------------------------------------------------------
 */

#define NOT_FREED                                                                        \
    "1,001 allocations were not freed: GPUSHIM_INTERVAL=stats:1m lists the call sites "  \
    "that grow\n"

static void let_run(struct gs_report_config *config)
{
    config->running = true;
}

static void let_be_killed(struct gs_report_config *config)
{
    config->killed = true;
}

static void want_no_leaks(struct gs_report_config *config)
{
    config->show_leaks = false;
}

static void want_no_warnings(struct gs_report_config *config)
{
    config->show_hints = false;
}

Test(report_hints, not_freed)
{
    cr_expect_str_eq(hints_of(NULL, 1001, NULL), NOT_FREED);
    cr_expect_str_eq(hints_of(NULL, 1000, NULL), "");
    cr_expect_str_eq(hints_of(NULL, 1001, let_run), "");
    cr_expect_str_eq(hints_of(NULL, 1001, let_be_killed), "");
    cr_expect_str_eq(hints_of(NULL, 1001, want_no_leaks), "");
    cr_expect_str_eq(hints_of(NULL, 1001, want_no_warnings), "");
}

Test(report_hints, all_of_them_in_order)
{
    struct gs_report_device device = torn();

    device.pool_hits = 1900;
    char *found = hints_of(&device, 1001, NULL), *second = strstr(found, FEW_HITS);
    cr_assert(!strncmp(found, NOT_FREED, strlen(NOT_FREED)));
    cr_assert_not_null(second);
    cr_expect_not_null(strstr(second, "free but fragmented"));
}

Test(report_hints, also_in_json)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_report_config config = test_report_config();
    struct gs_report_device device = hungry();

    config.devices = &device;
    config.device_count = 1;
    struct test_bytes bytes = test_export(tracker, config, GS_EXPORT_json, 0);
    cr_expect_not_null(
        strstr(bytes.data,
               "{\"hint\": \"few hits\", \"device\": 0, \"text\": \"GPU 0: the "
               "driver served 3,100 of 5,000 requests: "),
        "%s", bytes.data);
    free(bytes.data);
}
