/*
 * tracker_damage.c - proves what the report says of memory that was written by somebody
 * who was not to, what rules take of it, and what it says where nobody could look.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_helpers.h"

struct setting {
    struct gs_stacks *stacks;
    struct gs_tracker *tracker;
    struct gs_report_config config;
    struct gs_allocation block;
    struct gs_free_site found;
};

static struct setting begin(void)
{
    struct setting setting = {.stacks = test_stacks(), .config = test_report_config()};

    setting.tracker = test_tracker(setting.stacks);
    setting.block = test_allocation(0x7f1244000000, 64 * GS_KIB);
    setting.block.stack = TEST_STACK(setting.stacks, AT_CUDART, AT_LOAD, AT_MAIN);
    setting.found = (struct gs_free_site){
        .time_ns = SECONDS(20),
        .thread = 7,
        .api = API_MEM_FREE,
        .stack = TEST_STACK(setting.stacks, AT_CUDART, AT_RUN, AT_MAIN)};
    return setting;
}

static void overrun(struct setting *setting)
{
    struct gs_damage damage = {.kind = GS_ERROR_DAMAGE_BEHIND,
                               .allocation = setting->block,
                               .changed_bytes = 12,
                               .first = 64 * GS_KIB};

    gs_tracker_error_damage(setting->tracker, &damage, &setting->found);
}

static void finish(struct setting *setting)
{
    gs_tracker_destroy(setting->tracker);
    gs_stacks_destroy(setting->stacks);
}

static void expect_report(struct setting *setting, const char *expected)
{
    char *text = test_report_text(setting->tracker, &setting->config, NULL);

    cr_expect_str_eq(text, expected);
    free(text);
    finish(setting);
}

#define HEAD "gpushim 0.1.0: ./app --fast   host n07  10m00s  exit 0\n"
#define MADE                                                                             \
    "  allocated at 1.00 s by thread 100 with cudaMalloc\n"                              \
    "    #0 load_batch                    loader.c:88\n"                                 \
    "    #1 main                          app.c:12\n"                                    \
    "\n"
#define SUMMARY "SUMMARY: gpushim: 1 error, 0 B leaked in 0 allocations, 0 call sites\n"

Test(damage, an_overrun_names_the_allocation_and_who_found_it)
{
    struct setting setting = begin();

    overrun(&setting);
    expect_report(&setting, HEAD
                  "\n"
                  "ERROR 1: overrun of 0x7f1244000000 (64.0 KiB, GPU 0, cudaMalloc): "
                  "12 bytes changed past its end, first at +65,536\n"
                  "  found by cudaMalloc at 20.0 s by thread 7\n"
                  "    #0 run                           app+0x210\n"
                  "    #1 main                          app.c:12\n" MADE SUMMARY);
}

Test(damage, at_the_last_look_there_is_no_call)
{
    struct setting setting = begin();

    setting.found.api = API_UNKNOWN;
    setting.found.stack = 0;
    overrun(&setting);
    expect_report(&setting, HEAD
                  "\n"
                  "ERROR 1: overrun of 0x7f1244000000 (64.0 KiB, GPU 0, cudaMalloc): "
                  "12 bytes changed past its end, first at +65,536\n"
                  "  found at the last check, at 20.0 s\n" MADE SUMMARY);
}

Test(damage, a_write_after_free_names_who_freed_it)
{
    struct setting setting = begin();
    struct gs_damage damage = {.kind = GS_ERROR_WRITE_AFTER_FREE,
                               .allocation = setting.block,
                               .changed_bytes = 1,
                               .first = 128,
                               .freed = {.time_ns = SECONDS(10), .thread = 8}};

    gs_tracker_error_damage(setting.tracker, &damage, &setting.found);
    expect_report(
        &setting,
        HEAD "\n"
             "ERROR 1: write after free to 0x7f1244000000 (64.0 KiB, GPU 0, cudaMalloc): "
             "1 byte changed, first at +128\n"
             "  found by cudaMalloc at 20.0 s by thread 7\n"
             "    #0 run                           app+0x210\n"
             "    #1 main                          app.c:12\n"
             "  freed at 10.0 s by thread 8 (no call stack recorded: "
             "GPUSHIM_STACK=free)\n" MADE SUMMARY);
}

Test(damage, is_suppressed_by_whose_memory_it_is)
{
    static const struct {
        const char *rule;
        uint64_t errors;
    } cases[] = {{"overrun:load_batch", 0},
                 {"overrun:^run$", 1},
                 {"free:load_batch", 1},
                 {"leak:load_batch", 1}};

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct setting setting = begin();
        struct gs_report_summary summary;

        overrun(&setting);
        cr_assert_eq(gs_suppressions_create(&setting.config.suppressions), GS_OK);
        cr_assert_eq(gs_suppressions_add(setting.config.suppressions, "r", cases[i].rule,
                                         strlen(cases[i].rule), NULL, NULL),
                     GS_OK);
        free(test_report_text(setting.tracker, &setting.config, &summary));
        cr_expect_eq(summary.errors, cases[i].errors, "%s", cases[i].rule);
        gs_suppressions_destroy(setting.config.suppressions);
        finish(&setting);
    }
}

Test(damage, what_was_not_looked_at_is_counted)
{
    struct setting setting = begin();

    gs_tracker_count_check(setting.tracker, GS_CHECK_DONE, 1200);
    gs_tracker_count_check(setting.tracker, GS_CHECK_CAPTURE, 2);
    gs_tracker_count_check(setting.tracker, GS_CHECK_END, 1);
    expect_report(&setting,
                  HEAD "Not checked: 3 of 1,203 (2 while a stream captured, "
                       "1 when the process ended): docs/checks.md\n"
                       "SUMMARY: gpushim: 0 errors, 0 B leaked in 0 allocations, "
                       "0 call sites\n");
}

Test(damage, looks_alone_are_not_worth_a_line)
{
    struct setting setting = begin();

    gs_tracker_count_check(setting.tracker, GS_CHECK_DONE, 5);
    expect_report(&setting, HEAD "SUMMARY: gpushim: 0 errors, 0 B leaked in 0 "
                                 "allocations, 0 call sites\n");
}

Test(damage, a_live_record_is_found_by_its_id)
{
    struct setting setting = begin();
    struct gs_allocation found;
    uint32_t id = test_add(setting.tracker, &setting.block, true);

    cr_assert_eq(gs_tracker_get(setting.tracker, id, &found), GS_OK);
    cr_expect_eq(found.addr, setting.block.addr);
    cr_expect_eq(found.stack, setting.block.stack);
    gs_tracker_remove(setting.tracker, id, NULL);
    cr_expect_eq(gs_tracker_get(setting.tracker, id, &found), GS_ERR_NOT_FOUND);
    cr_expect_eq(gs_tracker_get(setting.tracker, 0, &found), GS_ERR_NOT_FOUND);
    cr_expect_eq(gs_tracker_get(setting.tracker, 1u << 30, &found), GS_ERR_NOT_FOUND);
    finish(&setting);
}
