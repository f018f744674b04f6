/*
 * shim_output.c - proves that an output file is there whole or not at all: new, in
 * place of another, on a full disk, under a name that cannot be, where something else is.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "folder.h"
#include "shim/settings/output.h"
#include "shim/settings/output_ours.h"

static void enter_own_folder(void)
{
    enter_folder();
    gs_output_ours_force(true); /* or the texts here are somebody else's */
}

TestSuite(output_file, .init = enter_own_folder, .fini = remove_folder);

/* Write `text` to `path`; returns what closing says. */
static int write_text(const char *path, const char *text, bool keep)
{
    struct gs_output_file file;

    gs_output_file_open(&file, path);
    if (!file.error)
        (void)gs_output_file_write(&file, text, strlen(text));
    return gs_output_file_close(&file, keep);
}

static void expect_content(const char *path, const char *expected)
{
    char text[256] = "";
    FILE *stream = fopen(path, "r");

    cr_assert_not_null(stream, "%s", path);
    size_t length = fread(text, 1, sizeof(text) - 1, stream);
    fclose(stream);
    cr_expect_eq(length, strlen(expected));
    cr_expect_str_eq(text, expected);
}

/* Nothing is in the folder but these names. */
static void expect_names(size_t count)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;
    size_t found = 0;

    cr_assert_not_null(entries);
    while ((entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            found++;
            cr_expect_neq(strncmp(entry->d_name, ".gpushim", 8), 0, "%s", entry->d_name);
        }
    }
    closedir(entries);
    cr_expect_eq(found, count, "%zu names", found);
}

Test(output_file, a_new_one_is_its_owners_alone)
{
    struct stat info;

    umask(0);
    cr_assert_eq(write_text("a.json", "text", true), 0);
    expect_content("a.json", "text");
    cr_assert_eq(stat("a.json", &info), 0);
    cr_expect_eq(info.st_mode & 0777, 0600);
    expect_names(1);
}

Test(output_file, another_is_replaced_as_a_whole)
{
    char before[64] = "";

    cr_assert_eq(write_text("a", "what was there, and was longer", true), 0);
    int reader = open("a", O_RDONLY);
    cr_assert_eq(write_text("a", "new", true), 0);
    expect_content("a", "new");
    /* Who has the old one open still has all of it. */
    cr_assert_eq(read(reader, before, sizeof(before) - 1), 30);
    cr_expect_str_eq(before, "what was there, and was longer");
    close(reader);
    expect_names(1);
}

Test(output_file, what_is_not_kept_leaves_the_other)
{
    cr_assert_eq(write_text("a", "old", true), 0);
    cr_assert_eq(write_text("a", "half", false), 0);
    expect_content("a", "old");
    cr_assert_eq(write_text("b", "half", false), 0);
    expect_names(1);
}

Test(output_file, a_folder_is_in_the_way)
{
    cr_assert_eq(mkdir("a", 0777), 0);
    cr_expect_eq(write_text("a", "text", true), EISDIR);
    cr_assert_eq(symlink("a", "b"), 0);
    cr_expect_eq(write_text("b", "text", true), ELOOP);
    expect_names(2);
}

Test(output_file, no_such_folder)
{
    cr_expect_eq(write_text("none/a", "text", true), ENOENT);
    cr_assert_eq(write_text("a", "", true), 0);
    cr_expect_eq(write_text("a/b", "text", true), ENOTDIR);
    expect_names(1);
}

Test(output_file, a_name_that_is_too_long)
{
    char name[300];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    cr_expect_eq(write_text(name, "text", true), ENAMETOOLONG);
    name[255] = '\0';
    cr_expect_eq(write_text(name, "text", true), 0);
    expect_names(1);
}

/* A link to a file, to nothing, and to itself: neither followed nor replaced. */
Test(output_file, links_to_files_stay)
{
    char target[64] = "";

    cr_assert_eq(write_text("precious", "old", true), 0);
    cr_assert_eq(symlink("precious", "a"), 0);
    cr_assert_eq(symlink("nothing", "b"), 0);
    cr_assert_eq(symlink("c", "c"), 0);
    cr_expect_eq(write_text("a", "text", true), ELOOP);
    cr_expect_eq(write_text("b", "text", true), ELOOP);
    cr_expect_eq(write_text("c", "text", true), ELOOP);
    expect_content("precious", "old");
    cr_expect_eq(readlink("a", target, sizeof(target)), 8);
    expect_names(4);
}

/* What the program has open, by the kernel's name for it, is written where the program
 * would, and the program goes on behind that. */
Test(output_file, an_open_file_is_added_to)
{
    char name[32];
    int fd;

    cr_assert_eq(write_text("a", "old", true), 0);
    fd = open("a", O_RDWR);
    cr_assert_eq(write(fd, "my", 2), 2);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    cr_expect_eq(write_text(name, "text", true), 0);
    cr_assert_eq(write(fd, "end", 3), 3);
    close(fd);
    expect_content("a", "mytextend");
    expect_names(1);
}

Test(output_file, devices_and_pipes_are_written_as_they_are)
{
    char text[16] = "";
    struct stat info;

    cr_expect_eq(write_text("/dev/null", "text", true), 0);
    cr_assert_eq(stat("/dev/null", &info), 0);
    cr_expect(S_ISCHR(info.st_mode));
    cr_expect_eq(write_text("/dev/full", "text", true), ENOSPC);
    cr_assert_eq(stat("/dev/full", &info), 0);
    cr_expect(S_ISCHR(info.st_mode));
    cr_assert_eq(mkfifo("pipe", 0666), 0);
    cr_expect_eq(write_text("pipe", "text", true), ENXIO); /* no process reads it */
    int reader = open("pipe", O_RDONLY | O_NONBLOCK);
    cr_expect_eq(write_text("pipe", "text", true), 0);
    cr_expect_eq(read(reader, text, sizeof(text)), 4);
    cr_expect_str_eq(text, "text");
    close(reader);
    cr_assert_eq(symlink("/dev/full", "link"), 0);
    cr_expect_eq(write_text("link", "text", true), geteuid() == 0 ? ENOSPC : ELOOP);
    expect_names(2);
}

static int reader;
static volatile sig_atomic_t ticks;

/* A tenth of a second has passed. After 10 s the reader has pity, so that a failure ends.
 */
static void tick(int signal)
{
    char bytes[4096];

    (void)signal;
    while (++ticks >= 100 && read(reader, bytes, sizeof(bytes)) > 0)
        continue;
}

Test(output_file, signals_do_not_prolong_the_wait_for_a_reader)
{
    const struct itimerval tenths = {{0, 100000}, {0, 100000}}, none = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct gs_output_file file;
    static char text[200000];

    cr_assert_eq(mkfifo("pipe", 0666), 0);
    reader = open("pipe", O_RDONLY | O_NONBLOCK);
    cr_assert(reader >= 0);
    gs_output_file_open(&file, "pipe");
    cr_assert_eq(file.error, 0);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &tenths, NULL);
    (void)gs_output_file_write(&file, text, sizeof(text));
    setitimer(ITIMER_REAL, &none, NULL);
    cr_expect(ticks < 50, "given up after 1 s, not after %d.%d", ticks / 10, ticks % 10);
    cr_expect_eq(gs_output_file_close(&file, true), EAGAIN);
}

/* A limit on file sizes raises a signal natively, which ends the process. */
Test(output_file, a_file_size_limit_raises_nothing)
{
    const struct rlimit limit = {.rlim_cur = 3, .rlim_max = RLIM_INFINITY};
    sigset_t pending;

    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(write_text("a", "text", true), EFBIG);
    sigpending(&pending);
    cr_expect_not(sigismember(&pending, SIGXFSZ));
    expect_names(0);
}

/* Left by a process that was killed in the middle, and had our number. */
Test(output_file, a_leftover_is_not_touched)
{
    char left[64];

    snprintf(left, sizeof(left), ".gpushim.%ld.0", (long)getpid());
    cr_assert_eq(write_text("a", "old", true), 0);
    cr_assert_eq(rename("a", left), 0);
    cr_expect_eq(write_text("a", "new", true), 0);
    expect_content("a", "new");
    expect_content(left, "old");
}

static bool is_ours(const char *text, size_t length)
{
    FILE *stream = fopen("some", "w");

    cr_assert_not_null(stream);
    cr_assert_eq(fwrite(text, 1, length, stream), length);
    fclose(stream);
    return gs_output_is_ours("some");
}

/* Or a name that is mistyped costs a program or a source file. */
Test(output_file, replaces_gpushims_files_only)
{
    static const char *const ours[] = {
        "",
        "{\n  \"schema\": \"gpushim-report\",\n",
        "# TYPE gpushim_process_info gauge\n",
        "device,kind,owner,call,function,file\n",
        "GPU 0;main 7\n",
        "managed memory, GPU 12;main 7\n",
        "pinned host memory;[no stack] 7\n",
        "v 10400 2\nX app\n",
        "desc: gpushim timeline\ncmd: app\n",
        "<!doctype html>\n<html><meta name=\"generator\" content=\"gpushim\">",
    };
    static const char *const others[] = {
        "x",
        ("\x7f"
         "ELF"),
        "#include <cuda.h>\n",
        "# TYPE node_cpu counter\n",
        "{\"schema\": \"gpushim-report\"}", /* of other spaces: made by hand */
        "<!doctype html>\n<html>",
        "def f(): pass; # GPU\n",
        "GPU x;main 7\n",
        "GPU 0\nmain;7\n",
        "all;main 7\n",
        "v 10400 3\n",
        "gpushim\x1a",
    };

    gs_output_ours_force(false);
    for (size_t i = 0; i < GS_ARRAY_LEN(ours); i++)
        cr_expect(is_ours(ours[i], strlen(ours[i])), "%s", ours[i]);
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
        cr_expect_not(is_ours(others[i], strlen(others[i])), "%s", others[i]);
    cr_expect_not(gs_output_is_ours("missing"));
    write_text("some", "new", true);
    expect_content("some", others[GS_ARRAY_LEN(others) - 1]);
    gs_output_ours_force(true);
    cr_expect(gs_output_is_ours("some"));
}
