/*
 * shim_options_lists.c - proves that each item of a list does what the variable of its
 * own name did, that this variable still works and is answered with the list, and that
 * each thing wrong with a list gets one line.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "shim/settings/options.h"
#include "shim/settings/options_lists.h"

static struct gs_options opts, other;
static struct gs_options_messages notes;

static void load(struct gs_options *out, char *const *env)
{
    memset(out, 0, sizeof(*out));
    gs_options_load(out, env, false, &notes);
}

static void load_one(struct gs_options *out, const char *entry)
{
    char *env[] = {(char *)entry, NULL};
    load(out, env);
}

/* Loads the entries and wants exactly these lines. */
static void expect_lines(char *const *env, const char *text, const char *renamed)
{
    load(&opts, env);
    cr_expect_str_eq(notes.text, text, "%s\n  got    %s  wanted %s", env[0], notes.text,
                     text);
    cr_expect_str_eq(notes.renamed, renamed, "%s\n  got    %s  wanted %s", env[0],
                     notes.renamed, renamed);
}

/* The i-th value to try of an option; false: no more. */
static bool value_at(unsigned row, unsigned i, const char **out)
{
    static const char *const switches[] = {"on", "off"}, *const signals[] = {"USR1"};
    const struct gs_option *option = &gs_options_table[row];
    const char *const bounds[] = {option->min, option->max, option->fallback};
    switch (option->type) {
    case GS_OPTION_BOOL:
        *out = switches[i % 2];
        return i < 2;
    case GS_OPTION_TEXT:
        *out = signals[0];
        return i < 1;
    case GS_OPTION_ENUM:
        for (size_t k = 0; k < gs_choices_count; k++) {
            if (gs_choices[k].offset == option->offset && i-- == 0) {
                *out = gs_choices[k].word;
                return true;
            }
        }
        return false;
    default:
        *out = bounds[i % 3];
        return i < 3;
    }
}

Test(options_lists, item_does_what_its_own_variable_did)
{
    char entry[256], list[GS_LIST_BYTES], want[512];
    unsigned tried = 0;

    for (unsigned row = 0; row < GS_OPTIONS_COUNT; row++) {
        const struct gs_item *item = gs_item_of(row);
        const char *name = gs_options_table[row].name, *value = "";
        for (unsigned i = 0; item && value_at(row, i, &value); i++, tried++) {
            const char *values[GS_OPTIONS_COUNT] = {[0] = NULL};
            values[row] = value;
            cr_assert_str_not_empty(gs_list_write(item->list, values, list), "%s=%s",
                                    name, value);
            snprintf(entry, sizeof(entry), "%s=%s", name, value);
            load_one(&opts, entry);
            cr_expect_str_empty(notes.text, "%s: %s", entry, notes.text);
            snprintf(want, sizeof(want), "gpushim: %s is now %s=%.200s\n", entry,
                     gs_lists[item->list].name, list);
            cr_expect_str_eq(notes.renamed,
                             row == gs_list_own_row(item->list) ? "" : want, "%s: %s",
                             entry, notes.renamed);
            snprintf(entry, sizeof(entry), "%s=%.200s", gs_lists[item->list].name, list);
            load_one(&other, entry);
            cr_expect_str_empty(notes.text, "%s: %s", entry, notes.text);
            cr_expect_str_empty(notes.renamed, "%s: %s", entry, notes.renamed);
            cr_expect_eq(memcmp(&opts, &other, sizeof(opts)), 0, "%s=%s is not %s", name,
                         value, entry);
        }
    }
    cr_assert_geq(tried, 10u);
}

Test(options_lists, default_of_a_list_is_that_of_its_items)
{
    char entry[128];

    load(&opts, NULL);
    for (unsigned list = 0; list < GS_LISTS; list++) {
        snprintf(entry, sizeof(entry), "%s=%s", gs_lists[list].name,
                 gs_lists[list].fallback);
        load_one(&other, entry);
        cr_expect_str_empty(notes.text, "%s", notes.text);
        cr_expect_eq(memcmp(&opts, &other, sizeof(opts)), 0, "%s", entry);
    }
}

Test(options_lists, names_of_before_share_one_line)
{
    char *env[] = {"GPUSHIM_CHECK_FILL=poison", "GPUSHIM_CHECK_ARGS=yes", NULL};

    expect_lines(env, "",
                 "gpushim: GPUSHIM_CHECK_ARGS=yes, GPUSHIM_CHECK_FILL=poison are now "
                 "GPUSHIM_CHECK=args,fill:poison\n");
    cr_expect(opts.check_args && opts.check_fill == GS_CHECK_FILL_POISON);
}

Test(options_lists, list_wins_over_names_of_before)
{
    char *env[] = {"GPUSHIM_CHECK_FILL=poison", "GPUSHIM_CHECK=args",
                   "GPUSHIM_CHECK_REDZONE=512", NULL};
    char *one[] = {"GPUSHIM_CHECK=off", "GPUSHIM_CHECK_ARGS=on", NULL};

    expect_lines(env,
                 "gpushim: GPUSHIM_CHECK_REDZONE=512, GPUSHIM_CHECK_FILL=poison: "
                 "GPUSHIM_CHECK is set, which replaces them; ignored\n",
                 "");
    cr_expect(opts.check_args && opts.check_fill == GS_CHECK_FILL_OFF);
    cr_expect_eq(opts.check_redzone_bytes, 0u);
    expect_lines(one,
                 "gpushim: GPUSHIM_CHECK_ARGS=on: GPUSHIM_CHECK is set, which replaces "
                 "it; ignored\n",
                 "");
    cr_expect_not(opts.check_args);
}

/* The line names the variable, the item, and what was done; the other items count. */
Test(options_lists, bad_item_gets_one_line)
{
    static const struct {
        const char *entry, *line;
    } cases[] = {
        {"GPUSHIM_CHECK=args,memory", "memory: not one of args, transfers, churn, "
                                      "redzone:..., fill:..., quarantine:...; "
                                      "left out"},
        {"GPUSHIM_CHECK=args,args", "args: given twice; the first counts"},
        {"GPUSHIM_CHECK=args,args:off", "args:off: given twice; the first counts"},
        {"GPUSHIM_CHECK=,args", ": an item is empty; left out"},
        {"GPUSHIM_CHECK=args,", ": an item is empty; left out"},
        {"GPUSHIM_CHECK=args,redzone", "redzone: needs a value (redzone:...); left out"},
        {"GPUSHIM_CHECK=args,redzone:",
         "redzone:: needs a value (redzone:...); left out"},
        {"GPUSHIM_CHECK=args,redzone:17M", "redzone:17M: not in 0 to 16M; using 0"},
        {"GPUSHIM_CHECK=args,redzone:x", "redzone:x: not a size (such as 20M); using 0"},
        {"GPUSHIM_CHECK=args,redzone:1:2",
         "redzone:1:2: not a size (such as 20M); using 0"},
        {"GPUSHIM_CHECK=args,fill:on",
         "fill:on: not one of off, zero, poison; using off"},
        {"GPUSHIM_CHECK=args,off",
         "off: turns the whole list off, and is then its only item; left out"},
        {"GPUSHIM_CHECK=ARGS,REDZONE:1", "redzone:1: not a multiple of 256; using 256"},
        {"GPUSHIM_CHECK= args , args", "args: given twice; the first counts"},
    };
    char want[512];

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        load_one(&opts, cases[i].entry);
        snprintf(want, sizeof(want), "gpushim: GPUSHIM_CHECK=%s\n", cases[i].line);
        cr_expect_str_eq(notes.text, want, "%s\n  got    %s  wanted %s", cases[i].entry,
                         notes.text, want);
        cr_expect(opts.check_args, "%s", cases[i].entry);
    }
}

/* Nothing of it is known: it says nothing. */
Test(options_lists, unknown_list_leaves_the_defaults)
{
    load(&opts, NULL);
    for (unsigned list = 0; list < GS_LISTS; list++) {
        char entry[128];
        snprintf(entry, sizeof(entry), "%s=nothing,of:this", gs_lists[list].name);
        load_one(&other, entry);
        cr_expect_eq(notes.lines, 2u, "%s: %s", entry, notes.text);
        cr_expect_eq(memcmp(&opts, &other, sizeof(opts)), 0, "%s", entry);
    }
}

Test(options_lists, first_of_two_lists_counts)
{
    char *env[] = {"GPUSHIM_CHECK=args", "GPUSHIM_CHECK=transfers", NULL};

    expect_lines(env, "gpushim: GPUSHIM_CHECK is set more than once; the first counts\n",
                 "");
    cr_expect(opts.check_args && !opts.check_transfers);
}

/* GPUSHIM_POOL is a list and a switch. Alone sees each of the two counted once. */
Test(options_lists, first_of_a_switch_and_a_list_counts)
{
    char *env[] = {"GPUSHIM_POOL=off", "GPUSHIM_POOL=device,pinned", NULL};

    expect_lines(env, "gpushim: GPUSHIM_POOL is set more than once; the first counts\n",
                 "");
    cr_expect(!opts.pool);
}

Test(options_lists, list_that_is_too_long_is_ignored)
{
    static char entry[4096] = "GPUSHIM_CHECK=args,";

    memset(entry + strlen(entry), 'x', 3000);
    load_one(&opts, entry);
    cr_expect(strstr(notes.text, "...: longer than 2047 bytes; ignored\n"));
    cr_expect_not(opts.check_args);
}

/* One value, or a list of them: the caller learns which. */
Test(options_lists, one_read_value_may_be_a_list)
{
    unsigned row, list;

    cr_expect_eq(
        gs_options_read_one("SYMBOLIZE", "timeout:30s", &opts, &row, &list, &notes),
        GS_OK);
    cr_expect_eq(list, (unsigned)GS_LIST_symbolize);
    cr_expect_eq(opts.symbolize_timeout_ms, 30000u);
    cr_expect_eq(gs_options_read_one("SYMBOLIZE", "off", &opts, &row, &list, &notes),
                 GS_OK);
    cr_expect_eq(list, (unsigned)GS_LISTS);
    cr_expect_not(opts.symbolize);
    cr_expect_eq(gs_options_read_one("report_on", "oom", &opts, &row, &list, &notes),
                 GS_OK);
    cr_expect_eq(list, (unsigned)GS_LIST_report_on);
    cr_expect_eq(gs_options_read_one("REPORT_ON", "never", &opts, &row, &list, &notes),
                 GS_ERR_INVALID);
    cr_expect_str_eq(notes.text, "gpushim: GPUSHIM_REPORT_ON=never: not one of exit, "
                                 "reset, oom, term, a signal such as USR1; left out\n");
}

/* The text of a list is what it was set to, or its default. */
Test(options_lists, text_of_a_list)
{
    static const char *const cases[][2] = {
        {"GPUSHIM_CHECK=redzone:256,args", "args,redzone:256"},
        {"GPUSHIM_CHECK=no", "off"},
        {"GPUSHIM_REPORT_ON=exit, term , SIGUSR1", "exit,term,SIGUSR1"},
        {"GPUSHIM_REPORT_ON=off", "off"},
        {"GPUSHIM_REPORT_ON=exit,oom", "exit,oom"},
        {"GPUSHIM_DUMP_SIGNAL=10", "exit,oom,SIGUSR1"},
        {"GPUSHIM_POOL=on", "on"},
        {"GPUSHIM_POOL=off", "off"},
        {"GPUSHIM_POOL=device", "device"},
        {"GPUSHIM_STACK=fp,depth:64", "fp,depth:64"},
        {"GPUSHIM_STACK=fp", "fp"},
        {"GPUSHIM_INTERVAL=stats:10s", "stats:10s"},
    };
    char out[GS_LIST_BYTES];

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        load_one(&opts, cases[i][0]);
        cr_expect_str_empty(notes.text, "%s: %s", cases[i][0], notes.text);
        size_t length = strcspn(cases[i][0], "=");
        const unsigned list = gs_list_named(cases[i][0], length);
        cr_expect_str_eq(
            gs_list_text(list < GS_LISTS ? list : GS_LIST_report_on, &opts, out),
            cases[i][1], "%s: %s", cases[i][0], out);
    }
}

/* A switch's value in a list of signals turns nothing else off. */
Test(options_lists, bare_number_is_no_signal)
{
    char *env[] = {"GPUSHIM_REPORT_ON=1", NULL};

    expect_lines(env,
                 "gpushim: GPUSHIM_REPORT_ON=1: not one of exit, reset, oom, term, a "
                 "signal such as USR1; left out\n",
                 "");
    cr_expect_eq(opts.leak_report, GS_LEAK_REPORT_EXIT);
    cr_expect(opts.dump_on_oom);
}

Test(options_lists, value_of_before_leaves_other_names_alone)
{
    char *pool[] = {"GPUSHIM_POOL=on", "GPUSHIM_HOST_POOL=off", NULL};
    char *none[] = {"GPUSHIM_POOL=off", "GPUSHIM_HOST_POOL=off", NULL};
    char *stack[] = {"GPUSHIM_STACK_DEPTH=64", "GPUSHIM_STACK=FP", NULL};
    char *track[] = {"GPUSHIM_TRACK=on", "GPUSHIM_TRACK_START=off",
                     "GPUSHIM_TRACK_SIGNAL=USR2", NULL};
    char *list[] = {"GPUSHIM_STACK=fp,depth:8", "GPUSHIM_STACK_DEPTH=64", NULL};

    expect_lines(pool, "",
                 "gpushim: GPUSHIM_HOST_POOL=off is now GPUSHIM_POOL=device,managed\n");
    cr_expect(opts.pool && !opts.host_pool && opts.managed_pool);
    expect_lines(none, "", "gpushim: GPUSHIM_HOST_POOL=off is now GPUSHIM_POOL=off\n");
    cr_expect(!opts.pool && !opts.host_pool);
    expect_lines(stack, "",
                 "gpushim: GPUSHIM_STACK_DEPTH=64 is now GPUSHIM_STACK=FP,depth:64\n");
    cr_expect(opts.stack == GS_UNWIND_FP && opts.stack_depth == 64);
    expect_lines(track, "",
                 "gpushim: GPUSHIM_TRACK_START=off, GPUSHIM_TRACK_SIGNAL=USR2 are now "
                 "GPUSHIM_TRACK=on,later,USR2\n");
    cr_expect(opts.track && !opts.track_start && strcmp(opts.track_signal, "USR2") == 0);
    expect_lines(list,
                 "gpushim: GPUSHIM_STACK_DEPTH=64: GPUSHIM_STACK is set, which replaces "
                 "it; ignored\n",
                 "");
    cr_expect_eq(opts.stack_depth, 8u);
}

/* A set says all that is on; parameters leave what they do not name. */
Test(options_lists, items_that_are_missing)
{
    load_one(&opts, "GPUSHIM_REPORT_ON=USR1");
    cr_expect_str_empty(notes.text);
    cr_expect(opts.leak_report == GS_LEAK_REPORT_OFF && !opts.dump_on_oom);
    cr_expect_str_eq(opts.dump_signal, "USR1");
    load_one(&opts, "GPUSHIM_REPORT_ON=reset,exit");
    cr_expect(opts.leak_report == GS_LEAK_REPORT_RESET && !opts.dump_on_oom);
    load_one(&opts, "GPUSHIM_REPORT_ON=off");
    cr_expect(opts.leak_report == GS_LEAK_REPORT_OFF && !opts.dump_on_oom);
    load_one(&opts, "GPUSHIM_POOL=device");
    cr_expect(opts.pool && !opts.host_pool && !opts.managed_pool);
    load_one(&opts, "GPUSHIM_POOL=pinned");
    cr_expect(!opts.pool && opts.host_pool);
    load_one(&opts, "GPUSHIM_TRACK=later,RTMIN+1");
    cr_expect(opts.track && !opts.track_start);
    cr_expect_str_eq(opts.track_signal, "RTMIN+1");
    load_one(&opts, "GPUSHIM_STACK=free");
    cr_expect(opts.stack == GS_UNWIND_AUTO && opts.stack_free == GS_STACK_FREE_ON);
    load_one(&opts, "GPUSHIM_INTERVAL=10s");
    cr_expect(opts.stats_interval_ms == 10000 && opts.output_interval_ms == 10000);
    load_one(&opts, "GPUSHIM_INTERVAL=output:1m,10s");
    cr_expect(opts.stats_interval_ms == 10000 && opts.output_interval_ms == 60000);
    cr_expect_str_empty(notes.text);
}

Test(options_lists, signal_that_is_none_is_no_item)
{
    load_one(&opts, "GPUSHIM_REPORT_ON=exit,USR3,KILL");
    cr_expect_str_eq(
        notes.text, "gpushim: GPUSHIM_REPORT_ON=USR3: not one of exit, reset, oom, term, "
                    "a signal such as USR1; left out\n"
                    "gpushim: GPUSHIM_REPORT_ON=KILL: not one of exit, reset, oom, term, "
                    "a signal such as USR1; left out\n");
    load_one(&opts, "GPUSHIM_REPORT_ON=exit,USR1,USR2");
    cr_expect_str_eq(
        notes.text,
        "gpushim: GPUSHIM_REPORT_ON=USR2: there is one signal; the first counts\n");
    cr_expect_str_eq(opts.dump_signal, "USR1");
    load_one(&opts, "GPUSHIM_INTERVAL=61m");
    cr_expect_str_eq(notes.text,
                     "gpushim: GPUSHIM_INTERVAL=61m: not in 0 to 60m; left out\n");
    load_one(&opts, "GPUSHIM_INTERVAL=often");
    cr_expect_str_eq(notes.text, "gpushim: GPUSHIM_INTERVAL=often: not one of a time, "
                                 "stats:..., output:...; left out\n");
}
