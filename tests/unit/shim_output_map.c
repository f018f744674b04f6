/*
 * shim_output_map.c - proves that the data of a mapped file is found under its name and
 * beside it, and that no file of somebody else is replaced or removed for it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "shim/settings/output_map.h"

static struct gs_output_map file;

TestSuite(output_map, .init = enter_folder, .fini = remove_folder);

static void write_text(const char *path, const char *text)
{
    FILE *stream = fopen(path, "w");

    cr_assert_not_null(stream);
    cr_assert_geq(fputs(text, stream), 0);
    cr_assert_eq(fclose(stream), 0);
}

static void expect_read(const char *path, const char *expected)
{
    char text[64] = "";
    int fd = gs_output_map_read(path, 0);

    cr_assert_geq(fd, 0, "%s: %s", path, strerror(errno));
    cr_expect_eq(read(fd, text, sizeof(text) - 1), (ssize_t)strlen(expected));
    cr_expect_str_eq(text, expected);
    close(fd);
}

static void make(const char *name)
{
    int fd = gs_output_map_create(&file, name, "", NULL);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, "data", 4), 4);
    close(fd);
}

Test(output_map, is_read_by_its_name_from_its_begin_to_its_end)
{
    make("one");
    expect_read("one", "data");
    cr_expect_eq(access("one.data", F_OK), 0);
    cr_expect_eq(gs_output_map_publish(&file), 0);
    cr_expect_neq(access("one.data", F_OK), 0);
    expect_read("one", "data");
    int fd = gs_output_map_open(&file);
    cr_expect_geq(fd, 0);
    close(fd);
    cr_expect_eq(gs_output_map_publish(&file), 0, "twice is once");
    gs_output_map_withdraw(&file);
    cr_expect_eq(access("one.data", F_OK), 0);
    expect_read("one", "data");
    cr_expect_eq(gs_output_map_publish(&file), 0);
    gs_output_map_remove(&file);
    cr_expect_neq(access("one", F_OK), 0);
}

/* Or whatever empties the name would take the data with it. */
Test(output_map, survives_what_happens_to_its_name)
{
    struct stat info;

    for (off_t bytes = 0; bytes < 12; bytes += 11) {
        make("one");
        cr_assert_eq(truncate("one", bytes), 0);
        if (bytes == 0)
            expect_read("one", "data");
        cr_expect_eq(gs_output_map_publish(&file), 0);
        expect_read("one", "data");
        gs_output_map_remove(&file);
    }
    make("one");
    cr_assert_eq(rename("one", "two"), 0);
    expect_read("two", "data");
    cr_expect_eq(gs_output_map_publish(&file), 0);
    cr_assert_eq(stat("one", &info), 0);
    cr_expect_eq(info.st_size, 4);
}

Test(output_map, leaves_other_files_alone)
{
    make("one");
    cr_assert_eq(unlink("one"), 0);
    write_text("one", "mine"); /* often with the same inode */
    cr_expect_eq(gs_output_map_publish(&file), EEXIST);
    gs_output_map_remove(&file);
    expect_read("one", "mine");

    write_text("two.data", "mine");
    make("two");
    cr_expect_str_eq(file.data_path, "two.data.2");
    expect_read("two", "data");
    gs_output_map_remove(&file);
    expect_read("two.data", "mine");
}

Test(output_map, follows_links_and_long_names)
{
    char name[NAME_MAX + 1];

    make("one");
    cr_assert_eq(mkdir("folder", 0700), 0);
    cr_assert_eq(symlink("../one", "folder/link"), 0);
    expect_read("folder/link", "data");
    memset(name, 'n', NAME_MAX);
    name[NAME_MAX] = '\0';
    make(name);
    expect_read(name, "data");
    cr_expect_eq(gs_output_map_publish(&file), 0);
    expect_read(name, "data");
}

Test(output_map, refuses_names_that_lead_elsewhere)
{
    write_text("secret", "mine");
    write_text(".hidden", "mine");
    write_text("out", GS_OUTPUT_MAP_MAGIC "../secret\n");
    expect_read("out", GS_OUTPUT_MAP_MAGIC "../secret\n");
    write_text("out", GS_OUTPUT_MAP_MAGIC ".gone\n");
    cr_expect_eq(gs_output_map_read("out", 0), -1);
    cr_expect_eq(errno, ENODATA);
    cr_expect_eq(gs_output_map_read("missing", 0), -1);
    cr_expect_eq(errno, ENOENT);
    write_text("empty", "");
    expect_read("empty", "");
}

/* The tools that read a folder take no report twice. */
Test(output_map, data_files_are_known_by_their_names)
{
    static const char *const yes[] = {"run.data", "run.data.12"};
    static const char *const no[] = {"run",   "other.data", "run.data.",
                                     ".data", "run.data.x", "data"};

    write_text("run", "");
    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++)
        cr_expect(gs_output_map_is_data(yes[i]), "%s", yes[i]);
    for (size_t i = 0; i < GS_ARRAY_LEN(no); i++)
        cr_expect_not(gs_output_map_is_data(no[i]), "%s", no[i]);
}
