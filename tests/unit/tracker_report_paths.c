/*
 * tracker_report_paths.c - proves that two files of one base name are two in the report:
 * in its stacks, its table of owners, its rules; and that each is shown by what tells it
 * from the other files that the report names.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker_helpers.h"

/* AT_RUN is `run` of one file, AT_MINE that of another; AT_LOAD is of a third. */
static const char *run_file, *mine_file;
static struct gs_report_source source;

static void resolve(void *self, struct gs_symbol_request *requests, size_t count)
{
    test_source().resolve(self, requests, count);
    for (size_t i = 0; i < count; i++) {
        struct gs_symbol *symbol = &requests[i].result;

        if (requests[i].frame != AT_RUN && requests[i].frame != AT_MINE)
            continue;
        symbol->function = "run";
        symbol->file = requests[i].frame == AT_RUN ? run_file : mine_file;
        symbol->line = 2;
    }
}

/* Each module has a path of its own, and the base name of the others. */
static enum gs_status plug_ins(void *self, uint32_t stack, uintptr_t frame,
                               struct gs_module *out)
{
    enum gs_status status = test_source().module(self, stack, frame, out);

    if (frame == AT_RUN || frame == AT_MINE)
        out->path = frame == AT_RUN ? "/opt/a/libplug.so" : "/opt/b/libplug.so";
    return status;
}

/* The report of a leak of 512 bytes at AT_RUN and one of 256 at AT_MINE, and then their
 * rules; from malloc. */
static char *report_of(struct gs_report_config config)
{
    OWNED_STACKS stacks = test_stacks();
    OWNED_TRACKER tracker = test_tracker(stacks);
    struct gs_text text = {0}, rules = {0};

    config.rules = &rules;
    source = test_source();
    source.resolve = resolve;
    source.module = plug_ins;
    test_leak(tracker, 0x1000, 512, SECONDS(599),
              TEST_STACK(stacks, AT_CUDART, AT_RUN, AT_MAIN));
    test_leak(tracker, 0x2000, 256, SECONDS(599),
              TEST_STACK(stacks, AT_CUDART, AT_MINE, AT_MAIN));
    gs_report_write_from(tracker, &config, &source, &text, NULL);
    gs_text_add_bytes(&text, "\n", 1);
    gs_text_add_bytes(&text, rules.data ? rules.data : "", rules.length);
    gs_text_free(&rules);
    return text.data;
}

static void expect_text(const char *text, const char *part)
{
    cr_expect(strstr(text, part), "no %s in\n%s", part, text);
}

Test(report_paths, files_and_modules_of_one_base_name)
{
    run_file = "/src/a/utils.cpp";
    mine_file = "/src/b/utils.cpp";
    char *text = report_of(test_report_config());
    expect_text(text, "#0 run                           a/utils.cpp:2\n");
    expect_text(text, "#0 run                           b/utils.cpp:2\n");
    expect_text(text, " app.c:12\n");
    expect_text(text, "  a/libplug.so                  512 B          1\n");
    expect_text(text, "  b/libplug.so                  256 B          1\n");
    expect_text(text, "\nleak:^run$ file=/a/utils.cpp$ max_bytes=512\n");
    expect_text(text, "\nleak:^run$ file=/b/utils.cpp$ max_bytes=256\n");
    free(text);
}

/* Other base names: none is longer than it must be, and the rule's file is anchored. */
Test(report_paths, base_names_that_tell)
{
    run_file = "/src/a/x.cpp";
    mine_file = "/src/b/y.cpp";
    char *text = report_of(test_report_config());
    expect_text(text, "#0 run                           x.cpp:2\n");
    expect_text(text, "\nleak:^run$ file=^x.cpp$ max_bytes=512\n");
    expect_text(text, "\nleak:^run$ file=^y.cpp$ max_bytes=256\n");
    free(text);
}

/* One file, however it is written, is one call site, and its rule needs no file. */
Test(report_paths, spellings_of_one_file)
{
    run_file = "/src/./a.cpp";
    mine_file = "/src/sub/../a.cpp";
    char *text = report_of(test_report_config());
    expect_text(text, "#0 run                           a.cpp:2\n");
    expect_text(text, "\nleak:^run$ max_bytes=768\n");
    free(text);
}

/* What is not printed is no reason for a longer path. */
Test(report_paths, only_what_is_printed_counts)
{
    struct gs_report_config config = test_report_config();

    run_file = "/src/a/utils.cpp";
    mine_file = "/src/b/utils.cpp";
    config.max_groups = 1;
    char *text = report_of(config);
    expect_text(text, "#0 run                           utils.cpp:2\n");
    expect_text(text, "  a/libplug.so ");
    free(text);
}

Test(report_paths, in_full)
{
    struct gs_report_config config = test_report_config();

    run_file = "/src/a/utils.cpp";
    mine_file = "./utils.cpp";
    config.full_paths = true;
    char *text = report_of(config);
    expect_text(text, "#0 run                           /src/a/utils.cpp:2\n");
    expect_text(text, "#0 run                           ./utils.cpp:2\n");
    expect_text(text, "  /opt/a/libplug.so             512 B          1\n");
    free(text);
}

/* Nothing of a path ends the line, or is lost: 4,000 bytes are shown in full. */
Test(report_paths, odd_paths)
{
    static char long_path[4001];
    struct gs_report_config config = test_report_config();

    memset(long_path, 'x', 4000);
    long_path[0] = '/';
    run_file = long_path;
    mine_file = "/src/\x1b[31m\n.c";
    config.full_paths = true;
    char *text = report_of(config);
    expect_text(text, long_path);
    expect_text(text, "  /src/?[31m?.c:2\n");
    expect_text(text, "\nleak:^run$ file=^*[31m*.c$ ");
    free(text);
}
