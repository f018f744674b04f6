/*
 * shim_pressure_levels.c - proves that GPUSHIM_PRESSURE is taken whole or not at all,
 * that what it does not name is as shipped, which level a share has on its way up and
 * down, and that no text does harm.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "shim/limits/pressure_levels.h"

static struct gs_pressure_levels levels;

static const char *parse(const char *text)
{
    memset(&levels, 0xa5, sizeof(levels));
    return gs_pressure_parse(text, &levels);
}

static void expect(gpushim_pressure level, double threshold, double target)
{
    cr_expect_float_eq(levels.threshold[level], threshold, 1e-12);
    cr_expect_float_eq(levels.target[level], target, 1e-12);
}

static void expect_shipped(void)
{
    expect(GPUSHIM_ELEVATED, 0.70, 0);
    expect(GPUSHIM_WARNING, 0.80, 0);
    expect(GPUSHIM_CRITICAL, 0.95, 0);
    expect(GPUSHIM_OUT_OF_MEMORY, 2, 0);
}

Test(pressure_levels, reads_shares_and_actions)
{
    cr_assert_null(parse("warning:0.80=shrink:0.70,critical:0.95=shrink:0.50"));
    expect(GPUSHIM_ELEVATED, 0.70, 0);
    expect(GPUSHIM_WARNING, 0.80, 0.70);
    expect(GPUSHIM_CRITICAL, 0.95, 0.50);
    expect(GPUSHIM_OUT_OF_MEMORY, 2, 0.50);
    cr_assert_null(parse(" Critical:1 , elevated:.3=NONE ,WARNING:0.555=Shrink:0.5 "));
    expect(GPUSHIM_ELEVATED, 0.3, 0);
    expect(GPUSHIM_WARNING, 0.555, 0.5);
    expect(GPUSHIM_CRITICAL, 1, 0.5);
}

Test(pressure_levels, what_is_not_named_is_as_shipped)
{
    cr_assert_null(parse(""));
    expect_shipped();
    cr_assert_null(parse("warning"));
    expect_shipped();
    cr_assert_null(parse("critical=none"));
    expect_shipped();
}

Test(pressure_levels, an_action_holds_above_its_level_too)
{
    cr_assert_null(parse("elevated=shrink:0.6"));
    expect(GPUSHIM_WARNING, 0.80, 0.6);
    expect(GPUSHIM_CRITICAL, 0.95, 0.6);
    cr_assert_null(parse("elevated=shrink:0.6,critical=none"));
    expect(GPUSHIM_WARNING, 0.80, 0.6);
    expect(GPUSHIM_CRITICAL, 0.95, 0);
}

Test(pressure_levels, one_mistake_spoils_it_all)
{
    static const char *const wrong[] = {
        ",",
        " ",
        "warning,",
        ",warning",
        "warning,,critical",
        "normal:0.5",
        "out of memory",
        "high",
        "warning:",
        "warning:80%",
        "warning:1.01",
        "warning:0.049",
        "warning:-0.8",
        "warning:0.8.1",
        "warning:.",
        "warning:0,8",
        "warning:0.8e0",
        "warning=",
        "warning=shrink",
        "warning=shrink:",
        "warning=shrink:0",
        "warning=shrink:0.8",
        "warning=trim:0.7",
        "warning=none:0.7",
        "warning:0.8:0.9",
        "warning:0.8=none=none",
        "warning=shrink:0.7:0.6",
        "warning,warning",
        "warning:0.70",
        "warning:0.95",
        "elevated:0.9",
        "critical:0.5,warning:0.6",
        "warning 0.8",
        "warning:0.800000000000000000000000000000000000000000000000000000000000000000",
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        cr_expect_not_null(parse(wrong[i]), "%s", wrong[i]);
        expect_shipped();
    }
}

static gpushim_pressure level(gpushim_pressure was, double share)
{
    return gs_pressure_level(&levels, was, share);
}

Test(pressure_levels, rise_at_their_shares)
{
    cr_assert_null(parse(""));
    cr_expect_eq(level(GPUSHIM_NORMAL, 0), GPUSHIM_NORMAL);
    cr_expect_eq(level(GPUSHIM_NORMAL, 0.6999), GPUSHIM_NORMAL);
    cr_expect_eq(level(GPUSHIM_NORMAL, 0.70), GPUSHIM_ELEVATED);
    cr_expect_eq(level(GPUSHIM_ELEVATED, 0.7999), GPUSHIM_ELEVATED);
    cr_expect_eq(level(GPUSHIM_NORMAL, 0.80), GPUSHIM_WARNING);
    cr_expect_eq(level(GPUSHIM_NORMAL, 0.95), GPUSHIM_CRITICAL, "past two levels");
    cr_expect_eq(level(GPUSHIM_WARNING, 1), GPUSHIM_CRITICAL, "and no further");
}

Test(pressure_levels, fall_some_hundredths_below_them)
{
    cr_assert_null(parse(""));
    cr_expect_eq(level(GPUSHIM_ELEVATED, 0.68), GPUSHIM_ELEVATED);
    cr_expect_eq(level(GPUSHIM_ELEVATED, 0.66), GPUSHIM_NORMAL);
    cr_expect_eq(level(GPUSHIM_WARNING, 0.78), GPUSHIM_WARNING);
    cr_expect_eq(level(GPUSHIM_WARNING, 0.76), GPUSHIM_ELEVATED);
    cr_expect_eq(level(GPUSHIM_CRITICAL, 0.93), GPUSHIM_CRITICAL);
    cr_expect_eq(level(GPUSHIM_CRITICAL, 0.79), GPUSHIM_WARNING,
                 "each level has its own");
    cr_expect_eq(level(GPUSHIM_CRITICAL, 0.1), GPUSHIM_NORMAL);
    cr_expect_eq(level(GPUSHIM_OUT_OF_MEMORY, 0.93), GPUSHIM_CRITICAL);
    cr_expect_eq(level(GPUSHIM_OUT_OF_MEMORY, 0.5), GPUSHIM_NORMAL);
}

/* A share that goes up and down a little changes no level but once. */
Test(pressure_levels, do_not_flap)
{
    gpushim_pressure now = GPUSHIM_NORMAL;
    unsigned changes = 0;

    cr_assert_null(parse(""));
    for (int i = 0; i < 1000; i++) {
        gpushim_pressure next = level(now, 0.80 + (i % 2 ? 0.014 : -0.014));

        changes += next != now;
        now = next;
    }
    cr_expect_eq(changes, 2, "elevated, then warning");
    cr_expect_eq(now, GPUSHIM_WARNING);
}

Test(pressure_levels, no_text_does_harm)
{
    static const char *const pieces[] = {"warning", "critical", "elevated", ":", "=",
                                         ",",       "0.8",      "0.95",     "1", "shrink",
                                         "none",    " ",        "\xff",     "."};
    uint64_t state = 88172645463325252u;

    for (int round = 0; round < 20000; round++) {
        char text[200] = "";

        for (int i = 0; i < 12; i++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            strcat(text, pieces[state % GS_ARRAY_LEN(pieces)]);
        }
        if (parse(text))
            expect_shipped();
        for (int i = GPUSHIM_ELEVATED; i <= GPUSHIM_CRITICAL; i++)
            cr_assert(levels.threshold[i] > levels.threshold[i - 1] &&
                      levels.threshold[i] <= 1 && levels.target[i] < levels.threshold[i]);
    }
}
