/*
 * shim_diff.c - proves which call sites of two reports are the same one: at other
 * addresses, in a program that was rebuilt, without lines; and what grew, in which order.
 * Likewise the sums over many processes.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/tools/reader/diff.h"
#include "shim/tools/reader/place_table.h"
#include "shim/tools/reader/process_table.h"

/* A report: its places as "bytes function line; ...", of a build. */
struct given {
    const char *places, *build;
    unsigned shift; /* of addresses */
    bool no_lines, no_names;
    unsigned pid;
    const char *file, *main_file; /* NULL: /src/a.c */
    const char *module;           /* NULL: /bin/a */
    bool python;                  /* the frames have no module */
};

#define GIVEN(text, ...)                                                                 \
    (struct given)                                                                       \
    {                                                                                    \
        .places = (text), .build = __VA_ARGS__                                           \
    }

static void put_frame(FILE *out, const char *function, unsigned line,
                      const struct given *given, unsigned number)
{
    const char *file = line == 100 ? given->main_file : given->file;

    if (given->python)
        fprintf(out, "%s{\"address\": null, \"module\": null, \"offset\": null, ",
                number ? ", " : "");
    else
        fprintf(out, "%s{\"address\": \"0x%x\", \"module\": 0, \"offset\": \"0x%x\", ",
                number ? ", " : "", 0x1000 * given->shift + line, line);
    if (given->no_names)
        fputs("\"function\": null, \"linkage\": null, ", out);
    else
        fprintf(out, "\"function\": \"%s\", \"linkage\": null, ", function);
    if (given->no_lines)
        fputs("\"file\": null, \"line\": null}", out);
    else
        fprintf(out, "\"file\": \"%s\", \"line\": %u}", file ? file : "/src/a.c", line);
}

/* Reads the report that a program of one module could have written. */
static struct gs_report_file make(struct given given)
{
    char path[] = "/tmp/gpushim-unit.XXXXXX", *frames = NULL;
    size_t length;
    int fd = mkstemp(path);
    FILE *out = fdopen(fd, "w"), *code = open_memstream(&frames, &length);
    struct gs_report_file file;
    const char *problem = NULL;
    unsigned number = 0;

    fprintf(out,
            "{\"schema\": \"gpushim-report\", \"version\": 1, \"process\": {\"pid\": %u, "
            "\"rank\": null, \"command\": \"./a\"}, \"leaks\": [",
            given.pid ? given.pid : 1);
    bool first = true;
    for (const char *at = given.places; *at; at += strcspn(at, ";|")) {
        char function[32];
        unsigned long bytes;
        unsigned line;
        if (*at == '|') {
            fputs("], \"suppressed\": [", out);
            first = true;
        }
        at += *at == ';' || *at == '|';
        cr_assert_eq(sscanf(at, " %lu %31s %u", &bytes, function, &line), 3);
        fprintf(out,
                "%s{\"bytes\": %lu, \"count\": 1, \"call\": \"cudaMalloc\", \"kind\": "
                "\"device\", \"stack\": [%u, %u, 99], \"truncated\": false}",
                first ? "" : ", ", bytes, 2 * number, 2 * number + 1);
        put_frame(code, function, line, &given, number);
        fputs(", ", code);
        put_frame(code, "main", 100, &given, 0);
        number++;
        first = false;
    }
    fclose(code);
    fprintf(out, "], \"frames\": [%s], \"modules\": [{\"path\": \"%s\", \"build_id\": ",
            frames, given.module ? given.module : "/bin/a");
    fprintf(out, given.build ? "\"%s\"}]}" : "null}]}", given.build);
    fclose(out);
    free(frames);
    cr_assert(gs_report_file_read(path, GS_REPORT_OF_LEAKS, false, &file, &problem), "%s",
              problem);
    remove(path);
    return file;
}

/* "NEW load 5 0 7; ...": kind, function, line, bytes before and after. */
static void expect_rows(struct given before, struct given after, const char *expected)
{
    static const char *const kinds[] = {"NEW",  "GROWN",      "SHRUNK",
                                        "GONE", "SUPPRESSED", "SAME"};
    struct gs_report_file files[2] = {make(before), make(after)};
    struct gs_diff diff;
    char found[1024] = "";

    cr_assert(gs_diff_make(files, &diff));
    for (size_t i = 0; i < diff.count; i++) {
        const struct gs_diff_row *row = &diff.rows[i];
        const struct gs_file_frame *frame =
            gs_report_file_frame(&files[row->side], row->place, 0);
        char text[128];
        snprintf(text, sizeof(text), "%s%s %s %u %u %u", i ? "; " : "", kinds[row->kind],
                 frame->function ? frame->function : "?", (unsigned)frame->offset,
                 (unsigned)row->bytes[0], (unsigned)row->bytes[1]);
        strcat(found, text);
    }
    cr_expect_str_eq(found, expected);
    gs_diff_free(&diff);
    gs_report_file_free(&files[0]);
    gs_report_file_free(&files[1]);
}

Test(diff, addresses_do_not_matter)
{
    expect_rows(GIVEN("8 load 5; 4 index 9", "aa", .shift = 1),
                GIVEN("8 load 5; 4 index 9", "aa", .shift = 7),
                "SAME load 5 8 8; SAME index 9 4 4");
}

/* A function of the name, at the line, in a file of the base name is another call site.
 */
Test(diff, files_of_one_base_name)
{
    for (unsigned python = 0; python < 2; python++)
        expect_rows(GIVEN("8 make 5", "aa", .file = "/sp/foo/__init__.py",
                          .main_file = "/sp/main.py", .module = "/sp/foo/lib.so",
                          .python = python),
                    GIVEN("9 make 5", "bb", .file = "/sp/bar/__init__.py",
                          .main_file = "/sp/main.py", .module = "/sp/bar/lib.so",
                          .python = python),
                    python ? "NEW make 0 0 9; GONE make 0 8 0"
                           : "NEW make 5 0 9; GONE make 5 8 0");
}

/* Two spellings of a path are one file. */
Test(diff, a_file_is_not_its_spelling)
{
    expect_rows(GIVEN("8 load 5", "aa", .file = "/src/./sub/../a.c"),
                GIVEN("8 load 5", "bb", .file = "/src//a.c"), "SAME load 5 8 8");
    expect_rows(GIVEN("8 load 5", "aa", .file = "./a.c"),
                GIVEN("8 load 5", "bb", .file = "a.c"), "SAME load 5 8 8");
}

/* A function of a module is the same one after its file was renamed. */
Test(diff, a_file_that_was_renamed)
{
    expect_rows(GIVEN("8 load 5", "aa", .file = "/src/a.c", .main_file = "/src/m.c"),
                GIVEN("9 load 6", "bb", .file = "/src/b.c", .main_file = "/src/m.c"),
                "GROWN load 6 8 9");
}

/* Each run has a checkout of its own: no call site is new. */
Test(diff, a_folder_that_has_moved)
{
    for (unsigned python = 0; python < 2; python++)
        expect_rows(GIVEN("8 load 5", "aa", .file = "/build/123/src/a.c",
                          .main_file = "/build/123/main.c", .python = python),
                    GIVEN("9 load 5", "bb", .file = "/build/124/src/a.c",
                          .main_file = "/build/124/main.c", .python = python),
                    python ? "GROWN load 0 8 9" : "GROWN load 5 8 9");
}

Test(diff, by_growth)
{
    expect_rows(GIVEN("8 a 1; 8 b 2; 8 c 3; 8 d 4", "aa"),
                GIVEN("9 a 1; 3 b 2; 7 e 5; 8 d 4", "aa"),
                "NEW e 5 0 7; GROWN a 1 8 9; SAME d 4 8 8; SHRUNK b 2 8 3; GONE c 3 8 0");
}

/* The fault: a rule that one of the runs had makes its leak new or gone; one of both runs
 * is a row. */
Test(diff, what_a_rule_took)
{
    expect_rows(GIVEN("8 a 1; 8 c 3| 8 b 2; 5 d 4", "aa"),
                GIVEN("9 a 1; 7 b 2| 8 c 3; 5 d 4", "aa"),
                "SUPPRESSED b 2 0 7; GROWN a 1 8 9; SUPPRESSED c 3 8 0");
}

/* In the same build each line is a call site of its own. */
Test(diff, lines_of_the_same_build)
{
    expect_rows(GIVEN("8 load 5; 4 load 6", "aa"), GIVEN("4 load 6; 8 load 7", "aa"),
                "NEW load 7 0 8; SAME load 6 4 4; GONE load 5 8 0");
}

/* Lines that have moved make no new call sites. */
Test(diff, lines_that_have_moved)
{
    expect_rows(GIVEN("8 load 5; 4 load 6", "aa"), GIVEN("8 load 15; 4 load 16", "bb"),
                "SAME load 15 12 12");
    expect_rows(GIVEN("8 load 5; 4 load 6", "aa"), GIVEN("8 load 6; 5 load 7", "bb"),
                "GROWN load 6 12 13");
}

/* Those that have not moved are told apart. */
Test(diff, lines_that_have_not_moved)
{
    expect_rows(GIVEN("8 load 5", "aa"), GIVEN("8 load 5; 4 load 6", "bb"),
                "NEW load 6 0 4; SAME load 5 8 8");
    expect_rows(GIVEN("8 load 5; 4 load 6", NULL), GIVEN("8 load 5", NULL),
                "SAME load 5 8 8; GONE load 6 4 0");
}

Test(diff, one_without_lines)
{
    expect_rows(GIVEN("8 load 5; 4 index 9", "aa"),
                GIVEN("8 load 5; 2 index 9", "aa", .shift = 3, .no_lines = true),
                "SAME load 5 8 8; SHRUNK index 9 4 2");
    expect_rows(GIVEN("8 load 5; 4 load 9", "aa", .no_lines = true),
                GIVEN("8 load 5; 2 load 9", "aa", .shift = 3, .no_lines = true),
                "SAME load 5 8 8; SHRUNK load 9 4 2");
}

/* Of the same build, addresses are the names. */
Test(diff, one_without_names)
{
    expect_rows(GIVEN("8 load 5; 4 index 9; 3 old 11", "aa"),
                GIVEN("8 load 5; 2 index 9; 1 new 12", "aa", .shift = 3, .no_lines = true,
                      .no_names = true),
                "NEW ? 12 0 1; SAME load 5 8 8; SHRUNK index 9 4 2; GONE old 11 3 0");
    expect_rows(GIVEN("8 load 5", "aa"),
                GIVEN("8 load 5", "bb", .no_lines = true, .no_names = true),
                "NEW ? 5 0 8; GONE load 5 8 0");
}

Test(diff, nothing_at_all)
{
    expect_rows(GIVEN("", "aa"), GIVEN("", "bb"), "");
    expect_rows(GIVEN("", "aa"), GIVEN("1 a 1", "bb"), "NEW a 1 0 1");
}

Test(diff, limits)
{
    struct gs_diff_limits limits;
    static const char *const bad[] = {"",     "newer", "new,",        "gone",
                                      "new:", "new:x", "grown:10 %%", "grown:101%",
                                      ",new"};
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        cr_expect_not(gs_diff_limits_read(bad[i], &limits), "%s", bad[i]);
    struct gs_report_file files[2] = {make(GIVEN("100 a 1; 100 b 2", "aa")),
                                      make(GIVEN("110 a 1; 111 b 2; 50 c 3", "aa"))};
    struct gs_diff diff;
    cr_assert(gs_diff_make(files, &diff));
    static const struct {
        const char *words;
        size_t failures;
    } cases[] = {{"new", 1},       {"grown", 2},         {"new,grown", 3},
                 {"grown:10%", 1}, {"grown:11%", 0},     {"grown:10", 1},
                 {"new:49", 1},    {"new:50,grown:9", 2}};
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        cr_assert(gs_diff_limits_read(cases[i].words, &limits), "%s", cases[i].words);
        cr_expect_eq(gs_diff_failures(&diff, &limits), cases[i].failures, "%s",
                     cases[i].words);
    }
    gs_diff_free(&diff);
}

static void add_report(struct gs_place_table *places, struct gs_process_table *processes,
                       struct given given)
{
    struct gs_report_file file = make(given);
    gs_place_table_add(places, &file);
    gs_process_table_add(processes, &file, NULL);
    gs_report_file_free(&file);
}

Test(merge, most_least_and_how_many)
{
    struct gs_place_table places = {.places = NULL};
    struct gs_process_table processes = {.processes = 0};
    struct gs_text text = {0};
    add_report(&places, &processes, GIVEN("8 load 5; 4 index 9", "aa", .pid = 11));
    add_report(&places, &processes, GIVEN("6 load 5; 6 load 5", "aa", .pid = 12));
    add_report(&places, &processes, GIVEN("7 load 5; 9 new 1", "aa", .pid = 13));
    gs_place_table_write(&places, "leaked", 2, 0, false, &text);
    cr_expect_str_eq(
        text.data,
        "  leaked     most at             least   spread   processes  call site\n"
        "    27 B     12 B pid 12           7 B      5 B      3 of 3  load a.c:5 < main "
        "a.c:100, cudaMalloc (device)\n"
        "     9 B      9 B pid 13           0 B      9 B      1 of 3  new a.c:1 < main "
        "a.c:100, cudaMalloc (device)\n"
        "1 more call site with less (GPUSHIM_LEAK_MAX=N lists more)\n");
    text.length = 0;
    gs_place_table_write(&places, "leaked", 1, 40, false, &text);
    cr_expect_str_eq(text.data,
                     "  leaked     most at             least\n"
                     "    call site\n"
                     "    27 B     12 B pid 12           7 B\n"
                     "    load a.c:5 < main a.c:100, cudaMallo\n"
                     "2 more call sites with less (GPUSHIM_LEAK_MAX=N lists more)\n");
    gs_text_free(&text);
    cr_expect_eq(processes.processes, 3);
    gs_process_table_free(&processes);
    gs_place_table_free(&places);
}

/* A file is known by its path: in two processes, `load a.c:5` of two files is two call
 * sites, with as many folders as tell them apart, or all of them. */
Test(merge, files_of_one_base_name)
{
    struct gs_place_table places = {.places = NULL};
    struct gs_process_table processes = {.processes = 0};
    struct gs_text text = {0};
    add_report(&places, &processes,
               GIVEN("8 load 5", "aa", .pid = 11, .file = "/x/a/utils.cpp"));
    add_report(&places, &processes,
               GIVEN("6 load 5", "aa", .pid = 12, .file = "/x/b/utils.cpp"));
    gs_place_table_write(&places, "leaked", 9, 0, false, &text);
    cr_expect(strstr(text.data, "1 of 2  load a/utils.cpp:5 < main a.c:100, "), "%s",
              text.data);
    cr_expect(strstr(text.data, "1 of 2  load b/utils.cpp:5 < main a.c:100, "));
    text.length = 0;
    gs_place_table_write(&places, "leaked", 1, 0, false, &text);
    cr_expect(strstr(text.data, "  load utils.cpp:5 < main a.c:100, "),
              "the other one is not written: %s", text.data);
    text.length = 0;
    gs_place_table_write(&places, "leaked", 9, 100, true, &text);
    cr_expect(strstr(text.data, "  load /x/a/utils.cpp:5 < main /src/a.c:100, cudaMalloc "
                                "(device)\n"),
              "not cut: %s", text.data);
    gs_text_free(&text);
    gs_process_table_free(&processes);
    gs_place_table_free(&places);
}

/* Damaged in each byte, a report is read or refused; nothing else happens. */
Test(report_file, damaged_bytes)
{
    struct gs_report_file file = make(GIVEN("8 load 5; 4 index 9", "aa"));
    static const char text[] =
        "{\"schema\": \"gpushim-report\", \"version\": 1, \"leaks\": [{\"bytes\": 1, "
        "\"stack\": [0, 18446744073709551615, -1, \"x\", 1]}], \"frames\": [{\"module\": "
        "9, "
        "\"function\": \"f\"}], \"modules\": [], \"devices\": [{\"device\": 1, "
        "\"totals\": "
        "{\"peak_bytes\": 3}}], \"peaks\": [{\"places\": [{}]}]}";
    gs_report_file_free(&file);
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        char path[] = "/tmp/gpushim-unit.XXXXXX", damaged[sizeof(text)];
        const char *problem = NULL;
        int fd = mkstemp(path);
        memcpy(damaged, text, sizeof(text));
        damaged[i] = "\"{}[],:\\x0"[i % 10];
        FILE *out = fdopen(fd, "w");
        fwrite(damaged, 1, sizeof(text) - 1, out);
        fclose(out);
        if (gs_report_file_read(path, i % 2 ? GS_REPORT_OF_LEAKS : GS_REPORT_OF_PEAK,
                                false, &file, &problem)) {
            struct gs_place_table places = {.places = NULL};
            struct gs_shown_paths paths = {.count = 0};
            struct gs_text stack = {0};
            gs_place_table_add(&places, &file);
            for (size_t j = 0; j < file.place_count; j++)
                gs_report_file_paths(&file, &file.places[j], &paths);
            for (size_t j = 0; j < file.place_count; j++)
                gs_report_file_stack(&file, &file.places[j], &paths, &stack);
            gs_text_free(&stack);
            gs_shown_paths_free(&paths);
            gs_place_table_free(&places);
            gs_report_file_free(&file);
        } else {
            cr_expect_not_null(problem);
        }
        remove(path);
    }
}
