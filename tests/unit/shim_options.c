/*
 * shim_options.c - proves that gs_options_load reads good values, survives bad ones, and
 * says about each bad one a single complete line.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/settings/options.h"
#include "shim/settings/options_table.h"

static struct gs_options opts;
static struct gs_options_messages notes;

static void load(char *const *env)
{
    memset(&opts, 0xa5, sizeof(opts));
    memset(&notes, 0xa5, sizeof(notes));
    gs_options_load(&opts, env, false, &notes);
    cr_assert_eq(strlen(notes.text), notes.length);
}

static void load_one(const char *entry)
{
    char *env[] = {(char *)entry, NULL};

    load(env);
}

/* Loads the entry and wants exactly this text of notes. */
static void expect_note(const char *entry, const char *text)
{
    load_one(entry);
    cr_expect_str_eq(notes.text, text, "%s\n  got    %s  wanted %s", entry, notes.text,
                     text);
}

static void expect_defaults(void)
{
    cr_expect(opts.enable && opts.track && opts.symbolize && opts.pool);
    cr_expect(!opts.help);
    cr_expect_eq(opts.verbose, 1u);
    cr_expect_eq(opts.error_exitcode, 0u);
    cr_expect_eq(opts.stack, GS_UNWIND_AUTO);
    cr_expect_eq(opts.stack_depth, 32u);
    cr_expect(opts.track_start && opts.stack_free == GS_STACK_FREE_AUTO);
    cr_expect_eq(opts.track_sample_bytes, 0u);
    cr_expect_eq(opts.track_min_bytes, 0u);
    cr_expect_eq(opts.stack_always_bytes, 0u);
    cr_expect_eq(opts.stack_table_bytes, 256 * GS_MIB);
    cr_expect_str_empty(opts.track_signal);
    cr_expect_eq(opts.symbolize_timeout_ms, 5000u);
    cr_expect_eq(opts.leak_report, GS_LEAK_REPORT_EXIT);
    cr_expect_eq(opts.leak_max, 10u);
    cr_expect_eq(opts.leak_min_bytes, 0u);
    cr_expect_eq(opts.pool_segment_bytes, 20 * GS_MIB);
    cr_expect_eq(opts.pool_limit, gs_share_percent(100));
    cr_expect_eq(opts.mem_limit, gs_share_percent(100));
    cr_expect_eq(opts.pool_trim_interval_ms, 10000u);
    cr_expect_str_empty(opts.warmup);
    cr_expect_str_eq(opts.pool_cache, "32M");
    cr_expect_str_empty(opts.log_file);
    cr_expect_str_empty(opts.lookup_log);
}

Test(options, defaults_stand_without_any_variable)
{
    char *env[] = {"HOME=/root",       "GPUSHIM=1",    "XGPUSHIM_POOL=off",
                   "gpushim_pool=off", "GPUSHIM_POOL", NULL};

    load(env);
    expect_defaults();
    cr_expect_str_empty(notes.text);
    load(NULL);
    expect_defaults();
    cr_expect_eq(notes.lines, 0u);
}

Test(options, table_rows_agree_with_their_own_parser)
{
    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        const struct gs_option *option = &gs_options_table[i];
        uint64_t value = 0, bound;

        cr_expect_eq(strncmp(option->name, "GPUSHIM_", 8), 0, "%s", option->name);
        cr_expect(strlen(option->name) < 40, "%s", option->name);
        cr_expect(*option->doc && option->doc[strlen(option->doc) - 1] != '.', "%s",
                  option->name);
        if (option->type == GS_OPTION_PATH || option->type == GS_OPTION_TEXT) {
            cr_expect_lt(strlen(option->fallback), GS_OPTIONS_PATH_BYTES);
            continue;
        }
        cr_expect_eq(gs_option_parse(option, option->fallback, &value), GS_OK, "%s",
                     option->name);
        cr_expect(gs_option_in_range(option, value), "%s", option->name);
        if (*option->min)
            cr_expect_eq(gs_option_parse(option, option->min, &bound), GS_OK);
        if (*option->max)
            cr_expect_eq(gs_option_parse(option, option->max, &bound), GS_OK);
        if (option->type == GS_OPTION_UINT || option->type == GS_OPTION_TIME)
            cr_expect(*option->max && bound <= UINT32_MAX, "%s", option->name);
    }
}

Test(options, switch_takes_all_its_words_in_any_case)
{
    static const char *const on[] = {"1", "on", "yes", "true", "ON", "Yes", "TRUE"};
    static const char *const off[] = {"0", "off", "no", "false", "OFF", "No", "fALSE"};
    char entry[64];

    for (size_t i = 0; i < GS_ARRAY_LEN(on); i++) {
        snprintf(entry, sizeof(entry), "GPUSHIM_HELP=%s", on[i]);
        load_one(entry);
        cr_expect(opts.help, "%s", entry);
        cr_expect_str_empty(notes.text);
        snprintf(entry, sizeof(entry), "GPUSHIM_POOL=%s", off[i]);
        load_one(entry);
        cr_expect_not(opts.pool, "%s", entry);
        cr_expect_str_empty(notes.text);
    }
}

Test(options, switch_refuses_other_words)
{
    static const char *const bad[] = {"2", "01", "onn", "o", " on", "on ", "-1", "y"};
    char entry[64], want[128];

    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        snprintf(entry, sizeof(entry), "GPUSHIM_POOL=%s", bad[i]);
        snprintf(want, sizeof(want), "gpushim: %s: not a switch (on or off); using on\n",
                 entry);
        expect_note(entry, want);
        cr_expect(opts.pool);
    }
}

Test(options, size_takes_iec_units)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"4096B", 4096},
                {"4096b", 4096},
                {"3k", 3 * GS_KIB},
                {"3KB", 3 * GS_KIB},
                {"3KiB", 3 * GS_KIB},
                {"3kib", 3 * GS_KIB},
                {"32M", 32 * GS_MIB},
                {"2gib", 2 * GS_GIB},
                {"1024T", (uint64_t)1 << 50},
                {"007", 7}};
    char entry[64];

    for (size_t i = 0; i < GS_ARRAY_LEN(good); i++) {
        snprintf(entry, sizeof(entry), "GPUSHIM_LEAK_MIN_BYTES=%s", good[i].text);
        load_one(entry);
        cr_expect_eq(opts.leak_min_bytes, good[i].bytes, "%s", entry);
        cr_expect_str_empty(notes.text);
    }
}

Test(options, size_refuses_junk_and_overflow)
{
    static const char *const bad[] = {"banana", "M",  "+1",  " 1",    "1 M",   "1Mx",
                                      "1MM",    "1i", "1BB", "1iB",   "0x10",  "1P",
                                      "1Kb ",   "1.", ".5G", "1..5G", "1.5.5G"};
    char entry[64], want[160];

    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        snprintf(entry, sizeof(entry), "GPUSHIM_POOL_SEGMENT=%s", bad[i]);
        snprintf(want, sizeof(want), "gpushim: %s: not a size (such as 20M); using 20M\n",
                 entry);
        expect_note(entry, want);
        cr_expect_eq(opts.pool_segment_bytes, 20 * GS_MIB);
    }
}

Test(options, number_that_is_too_large_or_too_small_is_told_as_such)
{
    static const char *const large[] = {"18446744073709551616", "99999999999999999999",
                                        "16777216T", "18014398509481984K",
                                        "99999999999999999999.5M"};
    char entry[64], want[160];

    for (size_t i = 0; i < GS_ARRAY_LEN(large); i++) {
        snprintf(entry, sizeof(entry), "GPUSHIM_POOL_SEGMENT=%s", large[i]);
        snprintf(want, sizeof(want), "gpushim: %s: too large; using 20M\n", entry);
        expect_note(entry, want);
    }
    expect_note("GPUSHIM_VERBOSE=-1",
                "gpushim: GPUSHIM_VERBOSE=-1: not in 0 to 3; using 1\n");
    expect_note("GPUSHIM_POOL_SEGMENT=-1M",
                "gpushim: GPUSHIM_POOL_SEGMENT=-1M: not in 2M to 1G; using 20M\n");
    expect_note("GPUSHIM_MEM_LIMIT=-1M",
                "gpushim: GPUSHIM_MEM_LIMIT=-1M: less than 0; using 100%\n");
    /* The fault: a device of 0 bytes, where other programs mean no limit. */
    expect_note("GPUSHIM_MEM_LIMIT=0",
                "gpushim: GPUSHIM_MEM_LIMIT=0: less than 1 (100% is "
                "no limit); using 100%\n");
    expect_note("GPUSHIM_MEM_LIMIT=0.0%",
                "gpushim: GPUSHIM_MEM_LIMIT=0.0%: less than 1 (100% is no limit); using "
                "100%\n");
    expect_note("GPUSHIM_POOL_LIMIT=0", "");
    expect_note("GPUSHIM_VERBOSE=-x",
                "gpushim: GPUSHIM_VERBOSE=-x: not a whole number; using 1\n");
}

Test(options, size_may_have_a_fraction)
{
    load_one("GPUSHIM_MEM_LIMIT=1.5G");
    cr_expect_eq(opts.mem_limit, 1536 * GS_MIB);
    load_one("GPUSHIM_LEAK_MIN_BYTES=0.25k");
    cr_expect_eq(opts.leak_min_bytes, 256u);
    load_one("GPUSHIM_LEAK_MIN_BYTES=1.000001");
    cr_expect_eq(opts.leak_min_bytes, 1u);
    load_one("GPUSHIM_POOL_RESERVE=2.5%");
    cr_expect_eq(gs_share_bytes(opts.pool_reserve, 1000), 25u);
    load_one("GPUSHIM_POOL_RESERVE=0.001%");
    cr_expect_eq(gs_share_bytes(opts.pool_reserve, 1000000), 10u);
    cr_expect_str_empty(notes.text);
}

/* As a user would write it, and to the byte. */
Test(options, size_is_written_as_it_is)
{
    static const struct {
        uint64_t value;
        const char *text;
    } all[] = {{0, "0"},
               {256, "256"},
               {1024, "1K"},
               {2100224, "2051K"},
               {2100225, "2100225"},
               {100 * GS_MIB, "100M"},
               {1536 * GS_MIB, "1536M"},
               {3 * GS_GIB, "3G"},
               {1024 * GS_GIB, "1T"},
               {1024 * 1024 * GS_GIB, "1024T"}};
    char out[GS_OPTION_SIZE_BYTES];
    uint64_t value;

    for (size_t i = 0; i < GS_ARRAY_LEN(all); i++)
        cr_expect_str_eq(gs_option_size_text(all[i].value, out), all[i].text);
    for (unsigned percent = 0; percent <= 100; percent++) {
        const struct gs_option share = {.type = GS_OPTION_SHARE};
        char want[8];

        snprintf(want, sizeof(want), "%u%%", percent);
        cr_expect_str_eq(gs_option_size_text(gs_share_percent(percent), out), want);
        cr_assert_eq(gs_option_parse(&share, want, &value), GS_OK);
        cr_expect_eq(value, gs_share_percent(percent));
    }
    load_one("GPUSHIM_POOL_RESERVE=2.5%");
    cr_expect_str_eq(gs_option_size_text(opts.pool_reserve, out), "2.5%");
    expect_note("GPUSHIM_CHECK_REDZONE=1",
                "gpushim: GPUSHIM_CHECK_REDZONE=1: not a multiple of 256; using 256\n");
    expect_note("GPUSHIM_CHECK_REDZONE=2100000",
                "gpushim: GPUSHIM_CHECK_REDZONE=2100000: not a multiple of 256; using "
                "2051K\n");
}

Test(options, segment_is_bounded_and_rounded_up)
{
    expect_note("GPUSHIM_POOL_SEGMENT=2M", "");
    cr_expect_eq(opts.pool_segment_bytes, 2 * GS_MIB);
    expect_note("GPUSHIM_POOL_SEGMENT=1G", "");
    cr_expect_eq(opts.pool_segment_bytes, GS_GIB);
    expect_note("GPUSHIM_POOL_SEGMENT=21M", "gpushim: GPUSHIM_POOL_SEGMENT=21M: not a "
                                            "multiple of 2M; using 22M\n");
    cr_expect_eq(opts.pool_segment_bytes, 22 * GS_MIB);
    expect_note("GPUSHIM_POOL_SEGMENT=1073741823",
                "gpushim: GPUSHIM_POOL_SEGMENT=1073741823: not a multiple of 2M; "
                "using 1G\n");
    cr_expect_eq(opts.pool_segment_bytes, GS_GIB);
    expect_note("GPUSHIM_POOL_SEGMENT=2097151", "gpushim: GPUSHIM_POOL_SEGMENT=2097151: "
                                                "not in 2M to 1G; using 20M\n");
    cr_expect_eq(opts.pool_segment_bytes, 20 * GS_MIB);
    expect_note("GPUSHIM_POOL_SEGMENT=1025M", "gpushim: GPUSHIM_POOL_SEGMENT=1025M: "
                                              "not in 2M to 1G; using 20M\n");
}

Test(options, number_is_whole_and_in_range)
{
    expect_note("GPUSHIM_STACK_DEPTH=128", "");
    cr_expect_eq(opts.stack_depth, 128u);
    expect_note("GPUSHIM_STACK_DEPTH=1", "");
    cr_expect_eq(opts.stack_depth, 1u);
    expect_note("GPUSHIM_STACK_DEPTH=0",
                "gpushim: GPUSHIM_STACK_DEPTH=0: not in 1 to 128; using 32\n");
    cr_expect_eq(opts.stack_depth, 32u);
    expect_note("GPUSHIM_STACK_DEPTH=4294967297",
                "gpushim: GPUSHIM_STACK_DEPTH=4294967297: not in 1 to 128; using 32\n");
    expect_note("GPUSHIM_STACK_DEPTH=8K",
                "gpushim: GPUSHIM_STACK_DEPTH=8K: not a whole number; using 32\n");
    expect_note("GPUSHIM_STACK_DEPTH=-1",
                "gpushim: GPUSHIM_STACK_DEPTH=-1: not in 1 to 128; using 32\n");
    expect_note("GPUSHIM_VERBOSE=99999999999999999999",
                "gpushim: GPUSHIM_VERBOSE=99999999999999999999: too large; using 1\n");
}

Test(options, time_takes_its_units)
{
    static const struct {
        const char *text;
        unsigned ms;
    } good[] = {{"10ms", 10}, {"10MS", 10}, {"5", 5000},
                {"7s", 7000}, {"7S", 7000}, {"10m", 600000}};
    static const char *const bad[] = {"5w", "ms", "1.5s", "5 s", "5sec", "5hh"};
    char entry[64], want[160];

    for (size_t i = 0; i < GS_ARRAY_LEN(good); i++) {
        snprintf(entry, sizeof(entry), "GPUSHIM_SYMBOLIZE_TIMEOUT=%s", good[i].text);
        expect_note(entry, "");
        cr_expect_eq(opts.symbolize_timeout_ms, good[i].ms, "%s", entry);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        snprintf(entry, sizeof(entry), "GPUSHIM_SYMBOLIZE_TIMEOUT=%s", bad[i]);
        snprintf(want, sizeof(want),
                 "gpushim: %s: not a time (such as 500ms, 5s or 1h); using 5s\n", entry);
        expect_note(entry, want);
        cr_expect_eq(opts.symbolize_timeout_ms, 5000u);
    }
    expect_note("GPUSHIM_SYMBOLIZE_TIMEOUT=18446744073709551615m",
                "gpushim: GPUSHIM_SYMBOLIZE_TIMEOUT=18446744073709551615m: too large; "
                "using 5s\n");
    expect_note("GPUSHIM_STATS_INTERVAL=1h", "");
    cr_expect_eq(opts.stats_interval_ms, 3600000u);
    expect_note("GPUSHIM_POOL_WAIT=1D",
                "gpushim: GPUSHIM_POOL_WAIT=1D: not in 0 to 60m; using 30s\n");
    expect_note("GPUSHIM_SYMBOLIZE_TIMEOUT=11m",
                "gpushim: GPUSHIM_SYMBOLIZE_TIMEOUT=11m: not in 10ms to 10m; using 5s\n");
}

Test(options, choice_maps_words_to_constants)
{
    static const struct {
        const char *entry;
        int value;
    } good[] = {{"GPUSHIM_STACK=auto", GS_UNWIND_AUTO},
                {"GPUSHIM_STACK=libunwind", GS_UNWIND_LIBUNWIND},
                {"GPUSHIM_STACK=FP", GS_UNWIND_FP},
                {"GPUSHIM_STACK=unwind", GS_UNWIND_GCC},
                {"GPUSHIM_STACK=off", GS_UNWIND_OFF}};

    for (size_t i = 0; i < GS_ARRAY_LEN(good); i++) {
        expect_note(good[i].entry, "");
        cr_expect_eq(opts.stack, good[i].value, "%s", good[i].entry);
    }
    expect_note("GPUSHIM_LEAK_REPORT=off", "");
    cr_expect_eq(opts.leak_report, GS_LEAK_REPORT_OFF);
    expect_note("GPUSHIM_LEAK_REPORT=fp",
                "gpushim: GPUSHIM_LEAK_REPORT=fp: not one of exit, reset, off; "
                "using exit\n");
    expect_note("GPUSHIM_STACK=none",
                "gpushim: GPUSHIM_STACK=none: not one of auto, cfi, "
                "libunwind, fp, unwind, off; using auto\n");
    cr_expect_eq(opts.stack, GS_UNWIND_AUTO);
}

Test(options, path_is_copied_and_its_pattern_checked)
{
    char entry[2048] = "GPUSHIM_LOG_FILE=/tmp/%e.%p.%h.%t.%r.%q{USER}.%%.log";

    expect_note(entry, "");
    cr_expect_str_eq(opts.log_file, "/tmp/%e.%p.%h.%t.%r.%q{USER}.%%.log");
    memset(entry, 'x', sizeof(entry)); /* a copy, not a pointer into the environment */
    cr_expect_eq(opts.log_file[0], '/');

    expect_note("GPUSHIM_LOG_FILE=a%z", "gpushim: GPUSHIM_LOG_FILE=a%z: only %p, %h, %e, "
                                        "%t, %r, %q{VAR} and %% may follow a percent "
                                        "sign; ignored\n");
    cr_expect_str_empty(opts.log_file);
    expect_note("GPUSHIM_LOOKUP_LOG=a%q{",
                "gpushim: GPUSHIM_LOOKUP_LOG=a%q{: %q needs a variable in braces, such "
                "as %q{USER}; ignored\n");
}

Test(options, path_longer_than_its_field_is_ignored)
{
    char entry[4096];
    size_t prefix = (size_t)sprintf(entry, "GPUSHIM_LOG_FILE=");

    memset(entry + prefix, 'x', 1023);
    entry[prefix + 1023] = '\0';
    expect_note(entry, "");
    cr_expect_eq(strlen(opts.log_file), 1023u);
    entry[prefix + 1023] = 'x';
    entry[prefix + 1024] = '\0';
    load_one(entry);
    cr_expect_str_empty(opts.log_file);
    cr_expect(strstr(notes.text, "xxx...: longer than 1023 bytes; ignored\n") != NULL);
}

Test(options, empty_value_means_unset)
{
    char *env[] = {"GPUSHIM_POOL=", "GPUSHIM_STACK=",    "GPUSHIM_POOL_SEGMENT=",
                   "GPUSHIM_HELP=", "GPUSHIM_LOG_FILE=", NULL};

    load(env);
    expect_defaults();
    cr_expect_str_empty(notes.text);
}

Test(options, first_of_two_entries_counts)
{
    char *env[] = {"GPUSHIM_STACK=fp", "GPUSHIM_STACK=off", "GPUSHIM_STACK=banana",
                   "GPUSHIM_POOL=",    "GPUSHIM_POOL=off",  NULL};

    load(env);
    cr_expect_eq(opts.stack, GS_UNWIND_FP);
    cr_expect(opts.pool, "an empty first entry counts too");
    cr_expect_str_eq(notes.text,
                     "gpushim: GPUSHIM_STACK is set more than once; the first counts\n"
                     "gpushim: GPUSHIM_POOL is set more than once; the first counts\n");
}

Test(options, everything_is_ignored_in_a_secure_process)
{
    char *env[] = {"GPUSHIM_POOL=off", "GPUSHIM_LOG_FILE=/etc/passwd", "GPUSHIM_X=1",
                   NULL};

    memset(&opts, 0xa5, sizeof(opts));
    gs_options_load(&opts, env, true, &notes);
    cr_expect(!opts.symbolize, "PATH would choose the helper");
    opts.symbolize = true;
    expect_defaults();
    cr_expect_str_empty(notes.text);
}

Test(options, launcher_variable_is_known)
{
    expect_note("GPUSHIM_LIBRARY=/opt/lib/libgpushim.so", "");
}

Test(options, values_are_shortened_and_made_printable)
{
    expect_note("GPUSHIM_POOL=\x1b[31m\tx\x7f\xc3\xa9\n",
                "gpushim: GPUSHIM_POOL=\\x1b[31m\\x09x\\x7f\\xc3\\xa9\\x0a: not a switch "
                "(on or off); using on\n");
    expect_note("GPUSHIM_POOL=0123456789012345678901234567890123456789ABCDEFG",
                "gpushim: GPUSHIM_POOL=0123456789012345678901234567890123456789A...: not "
                "a switch (on or off); using on\n");
}

Test(options, flood_of_problems_is_capped)
{
    char text[64][128];
    char *env[65] = {NULL};
    unsigned newlines = 0;

    for (unsigned i = 0; i < 64; i++) {
        snprintf(text[i], sizeof(text[i]), "GPUSHIM_%080u%c=x", i, 1 + i % 31);
        env[i] = text[i];
    }
    load(env);
    for (const char *c = notes.text; *c; c++)
        newlines += *c == '\n';
    cr_expect_eq(notes.lines, (unsigned)GS_OPTIONS_MESSAGE_LINES);
    cr_expect_eq(notes.dropped, 64u - GS_OPTIONS_MESSAGE_LINES);
    cr_expect_eq(newlines, GS_OPTIONS_MESSAGE_LINES + 1u);
    cr_expect(strstr(notes.text,
                     "\ngpushim: 44 more problems with GPUSHIM_ variables are not "
                     "shown\n") != NULL);
}

Test(options, errno_is_left_alone)
{
    char *env[] = {"GPUSHIM_POOL=x", "GPUSHIM_LEAK_MIN_BYTES=99999999999999999999", NULL};

    errno = 4711;
    load(env);
    cr_expect_eq(errno, 4711);
    cr_expect_eq(notes.lines, 2u);
}

/* Whatever stands in the environment: no crash, fields in range, notes well formed.
   GPUSHIM_TEST_STEPS=n: a quarter as many environments, 20000 at most. */
Test(options, random_environments_never_harm)
{
    static const char alphabet[] =
        "GPUSHIM_=POOLSTACK0123456789KMGTiB%q{}pms\x01\xff -.x";
    const char *steps = getenv("GPUSHIM_TEST_STEPS");
    long rounds = steps && atol(steps) < 80000 ? atol(steps) / 4 : 20000;
    uint64_t seed = 0x9e3779b97f4a7c15u;

    for (long round = 0; round < rounds; round++) {
        char text[4][80];
        char *env[5] = {text[0], text[1], text[2], text[3], NULL};

        for (unsigned i = 0; i < 4; i++) {
            const struct gs_option *option;
            size_t length;

            seed = seed * 6364136223846793005u + 1442695040888963407u;
            option = &gs_options_table[(seed >> 40) % GS_OPTIONS_COUNT];
            length = (size_t)sprintf(text[i], "%.*s", (seed >> 33) & 1 ? 40 : 11,
                                     option->name);
            if ((seed >> 34) & 1)
                text[i][length++] = '=';
            for (unsigned n = (seed >> 56) % 24; n > 0; n--) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                text[i][length++] = alphabet[(seed >> 40) % (sizeof(alphabet) - 1)];
            }
            text[i][length] = '\0';
        }
        load(env);
        cr_assert(opts.stack_depth >= 1 && opts.stack_depth <= 128);
        cr_assert(opts.pool_segment_bytes >= 2 * GS_MIB &&
                  opts.pool_segment_bytes <= GS_GIB &&
                  opts.pool_segment_bytes % (2 * GS_MIB) == 0);
        cr_assert(opts.verbose <= 3 && opts.error_exitcode <= 255);
        cr_assert(notes.length == 0 || (strncmp(notes.text, "gpushim: ", 9) == 0 &&
                                        notes.text[notes.length - 1] == '\n'));
        for (const char *c = notes.text; *c; c++)
            cr_assert(*c == '\n' || (*c >= 0x20 && *c < 0x7f));
    }
}

Test(options, share_takes_a_size_or_a_percentage_of_the_device)
{
    load_one("GPUSHIM_POOL_LIMIT=80%");
    cr_expect_eq(opts.pool_limit, gs_share_percent(80));
    load_one("GPUSHIM_POOL_LIMIT=0%");
    cr_expect_eq(opts.pool_limit, gs_share_percent(0));
    load_one("GPUSHIM_MEM_LIMIT=3g");
    cr_expect_eq(opts.mem_limit, 3 * 1024 * GS_MIB);
    cr_expect_str_empty(notes.text);
    expect_note("GPUSHIM_POOL_LIMIT=101%",
                "gpushim: GPUSHIM_POOL_LIMIT=101%: more than 100%; using 100%\n");
    expect_note("GPUSHIM_POOL_LIMIT=100.1%",
                "gpushim: GPUSHIM_POOL_LIMIT=100.1%: more than 100%; using 100%\n");
    expect_note("GPUSHIM_POOL_RESERVE=5 %",
                "gpushim: GPUSHIM_POOL_RESERVE=5 %: not a size or a percentage (such as "
                "20M or 80%); using 2%\n");
    expect_note("GPUSHIM_MEM_LIMIT=9223372036854775808",
                "gpushim: GPUSHIM_MEM_LIMIT=9223372036854775808: too large; using "
                "100%\n");
    cr_expect_eq(opts.mem_limit, gs_share_percent(100), "the top bit is no size");
}

Test(options, text_is_taken_as_it_is_unless_it_is_too_long)
{
    static char entry[2000] = "GPUSHIM_WARMUP=";

    load_one("GPUSHIM_WARMUP=4K:50,%q{");
    cr_expect_str_eq(opts.warmup, "4K:50,%q{");
    cr_expect_str_empty(notes.text);
    memset(entry + strlen(entry), 'x', 1500);
    load_one(entry);
    cr_expect_str_empty(opts.warmup);
    cr_expect_eq(notes.lines, 1u);
}

Test(options, tell_what_was_given)
{
    char *const env[] = {"GPUSHIM_POOLS=1", "GPUSHIM_TRACK=", "GPUSHIM_POOL=nonsense",
                         NULL};
    cr_assert(gs_options_given(env, "GPUSHIM_POOL"));
    cr_assert_not(gs_options_given(env, "GPUSHIM_TRACK"));
    cr_assert_not(gs_options_given(env, "GPUSHIM_STACK"));
    cr_assert_not(gs_options_given(NULL, "GPUSHIM_POOL"));
}

/* What is written of a value, read again, is the value; for each type. */
Test(options, values_read_as_they_are_written)
{
    static const char *const entries[] = {
        "GPUSHIM_POOL=off",           "GPUSHIM_LEAK_MAX=17",
        "GPUSHIM_POOL_SEGMENT=32M",   "GPUSHIM_POOL_WAIT=1500ms",
        "GPUSHIM_POOL_WAIT=2m",       "GPUSHIM_POOL_LIMIT=2.5%",
        "GPUSHIM_POOL_LIMIT=2100224", "GPUSHIM_FREE_SYNC=lazy",
        "GPUSHIM_LOG_FILE=/a b/%p",   "GPUSHIM_WARMUP=4K:50",
        "GPUSHIM_STATS_INTERVAL=0"};
    struct gs_options first;
    char text[GS_OPTION_SIZE_BYTES];
    const char *value;
    unsigned row, list;

    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        char name[40];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(entries[i], "="), entries[i]);
        load_one(entries[i]);
        first = opts;
        row = gs_option_row_of(name);
        cr_assert_lt(row, GS_OPTIONS_COUNT);
        value = gs_option_value_text(&gs_options_table[row], &first, false, text);
        cr_assert_eq(gs_options_read_one(name, value, &opts, &row, &list, &notes), GS_OK,
                     "%s became %s", entries[i], value);
        cr_assert_eq(memcmp(&opts, &first, sizeof(opts)), 0, "%s became %s", entries[i],
                     value);
    }
}

Test(options, one_value_is_read_as_its_variable)
{
    unsigned row, list;

    cr_assert_eq(gs_options_read_one("leak_max", "5", &opts, &row, &list, &notes), GS_OK);
    cr_assert_eq(opts.leak_max, 5);
    cr_assert_eq(row, GS_OPTION_ROW_leak_max);
    cr_assert_eq(gs_options_read_one("GPUSHIM_Leak_Max", "5", &opts, &row, &list, &notes),
                 GS_OK);
    cr_assert_eq(gs_options_read_one("LEAK_MAX", "-5", &opts, &row, &list, &notes),
                 GS_ERR_INVALID);
    cr_assert(strstr(notes.text, "GPUSHIM_LEAK_MAX=-5: not in 0 to 100000"));
    cr_assert_eq(gs_options_read_one("LEAK_MAXI", "5", &opts, &row, &list, &notes),
                 GS_ERR_NOT_FOUND);
    cr_assert_eq(gs_options_read_one("", "5", &opts, &row, &list, &notes),
                 GS_ERR_NOT_FOUND);
    /* A value that would be rounded is refused, not taken for another one. */
    cr_assert_eq(gs_options_read_one("POOL_SEGMENT", "3M", &opts, &row, &list, &notes),
                 GS_ERR_INVALID);
}

/* What the command gpushim refuses is what the library warns of, in the same words. */
Test(options, what_is_wrong_with_a_value_is_told)
{
    static const struct {
        enum gs_option_row row;
        const char *text, *wrong; /* NULL: nothing */
    } cases[] = {
        {GS_OPTION_ROW_error_exitcode, "255", NULL},
        {GS_OPTION_ROW_error_exitcode, "256", "not in 0 to 255"},
        {GS_OPTION_ROW_error_exitcode, "on", "not a whole number"},
        {GS_OPTION_ROW_error_exitcode, "", "not a whole number"},
        {GS_OPTION_ROW_pool_segment_bytes, "3M", NULL}, /* rounded up */
        {GS_OPTION_ROW_pool_segment_bytes, "abc", "not a size (such as 20M)"},
        {GS_OPTION_ROW_pool, "Yes", NULL},
        {GS_OPTION_ROW_pool, "maybe", "not a switch (on or off)"},
        {GS_OPTION_ROW_pool_limit, "101%", "more than 100%"},
        {GS_OPTION_ROW_stats_interval_ms, "-1s", "not in 0 to 60m"},
        {GS_OPTION_ROW_pool_carve, "off", NULL},
        {GS_OPTION_ROW_pool_carve, "x", "not one of auto, on, off"},
        {GS_OPTION_ROW_output, "anything", NULL}, /* its reader's */
    };
    char out[GS_OPTION_WRONG_BYTES];

    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        const char *wrong =
            gs_option_wrong(&gs_options_table[cases[i].row], cases[i].text, out);
        cr_expect(cases[i].wrong ? wrong && strcmp(wrong, cases[i].wrong) == 0 : !wrong,
                  "%s: %s", cases[i].text, wrong ? wrong : "none");
    }
}
