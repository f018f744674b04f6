/*
 * tracker_shown_path.c - proves by how much of its path a file is shown: the fewest last
 * components that no other file has, for any spelling and length, and for many files.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracker/names/shown_path.h"

static void expect_shown(struct gs_shown_paths *paths, const char *path,
                         const char *expected)
{
    cr_expect_str_eq(gs_shown_path(paths, path), expected, "%s: %s", path,
                     gs_shown_path(paths, path));
}

/* Adds the paths, ended by NULL, and expects the text that follows each. */
static void expect_all(const char *const rows[][2])
{
    struct gs_shown_paths paths = {.count = 0};

    for (size_t i = 0; rows[i][0]; i++)
        gs_shown_paths_add(&paths, rows[i][0]);
    for (size_t i = 0; rows[i][0]; i++)
        expect_shown(&paths, rows[i][0], rows[i][1]);
    gs_shown_paths_free(&paths);
}

Test(shown_path, as_many_folders_as_tell_it)
{
    expect_all((const char *const[][2]){{"/src/main.c", "main.c"},
                                        {"/src/a/utils.cpp", "a/utils.cpp"},
                                        {"/src/b/utils.cpp", "b/utils.cpp"},
                                        {"/sp/x/core/__init__.py", "x/core/__init__.py"},
                                        {"/sp/y/core/__init__.py", "y/core/__init__.py"},
                                        {"/sp/y/__init__.py", "y/__init__.py"},
                                        {"/xb/butils.cpp", "butils.cpp"},
                                        {NULL, NULL}});
}

/* The end of another path is the whole path. */
Test(shown_path, a_path_that_is_the_end_of_another)
{
    expect_all((const char *const[][2]){{"a.c", "a.c"},
                                        {"/a.c", "/a.c"},
                                        {"x/a.c", "x/a.c"},
                                        {"/y/x/a.c", "y/x/a.c"},
                                        {"../a.c", "../a.c"},
                                        {"../../a.c", "../../a.c"},
                                        {"b.c", "b.c"},
                                        {NULL, NULL}});
}

/* These are one file each, so the base name tells it. */
Test(shown_path, spellings_of_a_path_are_one_file)
{
    expect_all((const char *const[][2]){{"/src/a.c", "a.c"},
                                        {"/src/./a.c", "a.c"},
                                        {"//src//x/../a.c", "a.c"},
                                        {"/../src/a.c", "a.c"},
                                        {"b.c", "b.c"},
                                        {"./b.c", "b.c"},
                                        {"x/y/../../b.c", "b.c"},
                                        {NULL, NULL}});
    cr_expect_eq(gs_path_compare("./a.c", "a.c"), 0);
    cr_expect_eq(gs_path_compare("/s/a/../inc/x.h", "/s/b/../inc/x.h"), 0);
    cr_expect_neq(gs_path_compare("a.c", "/a.c"), 0);
    cr_expect_neq(gs_path_compare("../a.c", "a.c"), 0);
    cr_expect_neq(gs_path_compare("a.c", "A.c"), 0);
    cr_expect_eq(gs_path_compare(NULL, NULL), 0);
    cr_expect_lt(gs_path_compare(NULL, ""), 0);
}

Test(shown_path, odd_paths)
{
    struct gs_shown_paths paths = {.count = 0};

    gs_shown_paths_add(&paths, NULL);
    gs_shown_paths_add(&paths, "");
    cr_expect_eq(paths.count, 0);
    expect_shown(&paths, "", "");
    cr_expect_str_eq(gs_shown_path(&paths, NULL), "");
    cr_expect_str_eq(gs_shown_path(NULL, "/a/b.c"), "b.c");
    for (unsigned i = 0; i < 2; i++) {
        static const char *const odd[] = {"/",        ".",       "..",  "/..",
                                          "<string>", "a\n/b.c", "dir/"};
        static const char *const shown[] = {"/",        ".",   "..",  "/..",
                                            "<string>", "b.c", "dir/"};
        for (size_t k = 0; k < GS_ARRAY_LEN(odd); k++) {
            if (i == 1)
                gs_shown_paths_add(&paths, odd[k]);
            expect_shown(&paths, odd[k], shown[k]);
        }
    }
    gs_shown_paths_free(&paths);
}

Test(shown_path, in_full_on_request)
{
    struct gs_shown_paths paths = {.whole = true};

    gs_shown_paths_add(&paths, "/src/a/utils.cpp");
    expect_shown(&paths, "/src/a/utils.cpp", "/src/a/utils.cpp");
    expect_shown(&paths, "./b.c", "./b.c");
    cr_expect_eq(paths.count, 0, "nothing is kept");
    gs_shown_paths_free(&paths);
}

/* Two paths of 4,000 bytes that differ in the first component need all but the root. */
Test(shown_path, long_paths)
{
    static char long_paths[2][4001];
    struct gs_shown_paths paths = {.count = 0};

    for (unsigned i = 0; i < 2; i++) {
        memset(long_paths[i], 'x', 4000);
        for (size_t k = 0; k < 4000; k += 8)
            long_paths[i][k] = '/';
        long_paths[i][1] = (char)('a' + i);
        gs_shown_paths_add(&paths, long_paths[i]);
    }
    for (unsigned i = 0; i < 2; i++)
        cr_expect_eq(gs_shown_path(&paths, long_paths[i]), long_paths[i] + 1);
    gs_shown_paths_free(&paths);
}

#define FILES 30000

/* Each file is told from all others by what is shown, and kept once. To compare each with
 * all others would take minutes. */
Test(shown_path, many_files, .timeout = 60)
{
    char(*files)[64] = calloc(FILES, sizeof(*files));
    struct gs_shown_paths paths = {.count = 0}, ends = {.count = 0};

    for (unsigned i = 0; i < FILES; i++)
        snprintf(files[i], sizeof(*files), "/sp/pkg%u/part%u/file%u.py", i / 100, i / 10,
                 i % 10);
    for (unsigned round = 0; round < 4; round++)
        for (unsigned i = 0; i < FILES; i++)
            gs_shown_paths_add(&paths, files[i]);
    for (unsigned i = 0; i < FILES; i++) {
        const char *shown = gs_shown_path(&paths, files[i]);
        cr_assert(strncmp(shown, "part", 4) == 0, "%s", shown);
        gs_shown_paths_add(&ends, shown);
    }
    cr_expect_eq(paths.count, FILES);
    cr_expect_leq(paths.capacity, 4 * FILES, "a file is kept once");
    expect_shown(&ends, files[0], "pkg0/part0/file0.py");
    cr_expect_eq(ends.count, FILES, "two files are shown as one");
    gs_shown_paths_free(&paths);
    gs_shown_paths_free(&ends);
    free(files);
}
