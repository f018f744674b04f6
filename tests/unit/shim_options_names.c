/*
 * shim_options_names.c - proves that a mistyped variable is answered with the name that
 * was probably meant, that others are not guessed at, and that the help text is complete.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "shim/settings/options.h"
#include "shim/settings/options_lists.h"
#include "shim/settings/options_table.h"

static const char *notes_about(const char *name)
{
    static struct gs_options_messages notes;
    static struct gs_options opts;
    char entry[512];
    char *env[] = {entry, NULL};

    snprintf(entry, sizeof(entry), "%s=1", name);
    gs_options_load(&opts, env, false, &notes);
    return notes.text;
}

Test(options_names, nearest_is_suggested)
{
    static const char *const pairs[][2] = {
        {"GPUSHIM_SEGMNET", "GPUSHIM_POOL_SEGMENT"},
        {"GPUSHIM_SEGMENT", "GPUSHIM_POOL_SEGMENT"},
        {"GPUSHIM_POOL_SEGMET", "GPUSHIM_POOL_SEGMENT"},
        {"GPUSHIM_pool_segment", "GPUSHIM_POOL_SEGMENT"},
        {"GPUSHIM_LOGFILE", "GPUSHIM_LOG_FILE"},
        {"GPUSHIM_DEPTH", "GPUSHIM_STACK"},
        {"GPUSHIM_TIMEOUT", "GPUSHIM_SYMBOLIZE"},
        {"GPUSHIM_EXITCODE", "GPUSHIM_ERROR_EXITCODE"},
        {"GPUSHIM_ERROR_EXIT_CODE", "GPUSHIM_ERROR_EXITCODE"},
        {"GPUSHIM_LEAK_MINBYTES", "GPUSHIM_LEAK_MIN_BYTES"},
        {"GPUSHIM_TARCK", "GPUSHIM_TRACK"},
        {"GPUSHIM_STACKS", "GPUSHIM_STACK"},
        {"GPUSHIM_ENABLED", "GPUSHIM_ENABLE"},
        {"GPUSHIM_VERBOSITY", "GPUSHIM_VERBOSE"},
        {"GPUSHIM_CHEKC", "GPUSHIM_CHECK"},
        {"GPUSHIM_CHECK_REDZONES", "GPUSHIM_CHECK"},
        {"GPUSHIM_LIBARY", "GPUSHIM_LIBRARY"}};
    char want[256];

    for (size_t i = 0; i < GS_ARRAY_LEN(pairs); i++) {
        snprintf(want, sizeof(want),
                 "gpushim: %s is not a gpushim variable (did you mean %s?); ignored\n",
                 pairs[i][0], pairs[i][1]);
        cr_expect_str_eq(notes_about(pairs[i][0]), want, "got %s  wanted %s",
                         notes_about(pairs[i][0]), want);
    }
}

Test(options_names, far_names_are_not_guessed)
{
    static const char *const names[] = {
        "GPUSHIM_",
        "GPUSHIM_X",
        "GPUSHIM_LO",
        "GPUSHIM_MA",
        "GPUSHIM_FOO",
        "GPUSHIM_COLOUR_SCHEME",
        "GPUSHIM_BANANA",
        "GPUSHIM_STREAMS",
        "GPUSHIM_XYZZY_PLUGH",
        "GPUSHIM_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        const char *text = notes_about(names[i]);

        cr_expect(strstr(text, "is not a gpushim variable; ignored\n") != NULL, "%s",
                  text);
        cr_expect(strstr(text, "did you mean") == NULL, "%s", text);
    }
}

struct help {
    char text[20480];
    size_t length;
};

static void take(void *self, const char *text, size_t length)
{
    struct help *help = self;

    cr_assert(help->length + length < sizeof(help->text));
    memcpy(help->text + help->length, text, length);
    help->length += length;
    help->text[help->length] = '\0';
}

static const char *help_text(void)
{
    static struct help help;

    help.length = 0;
    gs_options_help(GS_OPTIONS_AS_VARIABLES, take, &help);
    return help.text;
}

Test(options_help, describes_every_variable_once)
{
    const char *text = help_text();
    char line[128];

    for (size_t i = 0; i < GS_OPTIONS_COUNT; i++) {
        const struct gs_item *item = gs_item_of((unsigned)i);
        const char *name = item ? gs_lists[item->list].name : gs_options_table[i].name;
        const char *at;

        snprintf(line, sizeof(line), "\n  %.80s=", name);
        at = strstr(text, line);
        cr_assert(at, "%s", name);
        cr_expect(!strstr(at + 1, line), "%s stands twice", name);
        snprintf(line, sizeof(line), "\n    %.80s", item ? item->word : "");
        cr_expect(!item || strstr(at, line), "%s: no item of %s", name,
                  gs_options_table[i].name);
        snprintf(line, sizeof(line), "\n%.80s\n", gs_options_table[i].group);
        at = strstr(text, line);
        cr_assert(at, "%s", gs_options_table[i].group);
        cr_expect(!strstr(at + 1, line), "group %s twice", gs_options_table[i].group);
    }
    for (size_t i = 0; i < gs_choices_count; i++) {
        snprintf(line, sizeof(line), "        %s: ", gs_choices[i].word);
        cr_expect(strstr(text, line), "%s", gs_choices[i].word);
    }
}

Test(options_help, shows_defaults_ranges_and_choices)
{
    const char *text = help_text();

    cr_expect(strstr(text, "GPUSHIM_POOL_SEGMENT=SIZE  (default 20M; 2M to 1G)\n"));
    cr_expect(strstr(text, "\n  GPUSHIM_STACK=LIST  (default auto)\n"));
    cr_expect(strstr(text, "\n    auto|cfi|libunwind|fp|unwind|off  (default auto)\n"));
    cr_expect(strstr(text, "\n    depth:NUMBER  (default 32; 1 to 128)\n"));
    cr_expect(strstr(text, "\n  GPUSHIM_POOL=LIST  (default device,pinned,managed)\n"));
    cr_expect(strstr(text, "\n  GPUSHIM_NVML=on|off  (default off)\n"));
    cr_expect(strstr(text, "GPUSHIM_LOG_FILE=FILE\n"));
}

Test(options_help, keeps_within_78_columns)
{
    const char *text = help_text();

    while (*text) {
        size_t columns = strcspn(text, "\n");

        cr_expect(columns <= 78, "%.*s", (int)columns, text);
        cr_expect(columns == 0 || text[columns - 1] != ' ', "%.*s", (int)columns, text);
        cr_assert_eq(text[columns], '\n', "the text ends with a newline");
        text += columns + 1;
    }
}
