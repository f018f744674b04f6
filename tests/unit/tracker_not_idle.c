/*
 * tracker_not_idle.c - proves that frees which relied on a wrong idle check are one error
 * for each place, with the longest wait, beside wrong frees of the same place; that no
 * rule on wrong frees hides them; and the lines that the report has on them.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_helpers.h"

static const struct gs_free_site site = {
    .time_ns = SECONDS(3), .thread = 300, .stack = 8, .api = API_MEM_FREE};

Test(not_idle, is_one_error_a_place_with_its_longest_wait)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_free_site other = site;
    struct gs_error errors[GS_ERRORS_KEPT];

    other.stack = 9;
    gs_tracker_error_not_idle(tracker, 0, 0x55, 1000, &site);
    gs_tracker_error_not_idle(tracker, 0, 0x66, 3000, &site);
    gs_tracker_error_not_idle(tracker, 0, 0x77, 2000, &site);
    gs_tracker_error_not_idle(tracker, 0, 0x55, 500, &other);
    cr_assert_eq(gs_errors_copy(tracker, errors), 2);
    cr_expect_eq(errors[0].kind, GS_ERROR_NOT_IDLE);
    cr_expect_eq(errors[0].addr, 0x55, "the first stream");
    cr_expect_eq(errors[0].repeats, 2);
    cr_expect_eq(errors[0].waited_ns, 3000);
    cr_expect_eq(errors[1].repeats, 0);
    cr_expect_eq(errors[1].waited_ns, 500);
    gs_tracker_error_not_idle(NULL, 0, 0x55, 1000, &site);
}

/* A place that frees wrongly, too: neither is counted with the other. */
Test(not_idle, is_no_wrong_free)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_error errors[GS_ERRORS_KEPT];

    gs_tracker_error_not_idle(tracker, 0, 0x55, 1000, &site);
    for (unsigned i = 0; i < 100; i++)
        gs_tracker_error_free(tracker, 0x1234, 0, &site);
    gs_tracker_error_not_idle(tracker, 0, 0x55, 1000, &site);
    cr_assert_eq(gs_errors_copy(tracker, errors), 2);
    cr_expect_eq(errors[0].repeats, 1);
    cr_expect_eq(errors[1].kind, GS_ERROR_INVALID_FREE);
    cr_expect_eq(errors[1].repeats, 99);
}

/* The report of a run with those errors, from the first of its lines that begins so. */
static char *report_from(struct gs_tracker *tracker, const struct gs_report_proof *proof,
                         const char *from, uint64_t *errors)
{
    struct gs_report_config config = test_report_config();
    struct gs_report_summary summary;

    config.proof = proof;
    char *text = test_report_text(tracker, &config, &summary),
         *found = strstr(text, from);
    cr_assert_not_null(found, "no %s in %s", from, text);
    found = strdup(found);
    free(text);
    if (errors)
        *errors = summary.errors;
    return found;
}

Test(not_idle, is_reported_by_what_showed_it)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    struct gs_free_site bare = {
        .time_ns = SECONDS(3), .thread = 300, .api = API_MEM_FREE};
    uint64_t errors;

    gs_tracker_error_not_idle(tracker, 1, 0x55, 12300000, &bare);
    gs_tracker_error_not_idle(tracker, 1, 0, 45000, &bare);
    char *text = report_from(tracker, NULL, "ERROR 1", &errors);
    cr_expect_eq(errors, 2);
    cr_expect_not_null(strstr(text,
                              "ERROR 1: idle check failed (cuMemFree, GPU 1): "
                              "stream 0x55 had work that no counted call submitted; "
                              "it ran for 12.3 ms more\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, "ERROR 2: idle check failed (cuMemFree, GPU 1): no "
                                    "stream showed work, but the device needed 45 us to "
                                    "be idle\n"),
                       "%s", text);
    cr_expect_null(strstr(text, "Idle check:"), "%s", text);
    free(text);
}

/* One line, also of a clean run; the look-ups where something was found. */
static void expect_proof(const struct gs_report_proof *proof, const char *expected)
{
    OWNED_TRACKER tracker = test_tracker(NULL);
    char *text = report_from(tracker, proof, "Idle check:", NULL);

    *strstr(text, "SUMMARY") = '\0';
    cr_expect_str_eq(text, expected);
    free(text);
}

Test(not_idle, proof_has_one_line)
{
    static const char *const names[] = {"cuTomorrow", "cuMemAlloc_v2"};
    struct gs_report_proof proof = {.checked = 1, .longest_ns = 4000, .ended_by = ""};

    expect_proof(&proof, "Idle check: made 1 time, failed 0, longest wait 4 us\n");
    proof = (struct gs_report_proof){.checked = 1204,
                                     .violated = 3,
                                     .unchecked = 2,
                                     .longest_ns = 12300000,
                                     .ended_by = "cuTomorrow",
                                     .look_ups = names,
                                     .look_up_count = 2};
    expect_proof(&proof,
                 "Idle check: made 1,204 times, failed 3, not checked 2, longest wait "
                 "12.3 ms; ended by cuTomorrow: each free waited from then on\n"
                 "  last look-ups before the first failure: cuTomorrow, cuMemAlloc_v2\n");
}
