/*
 * shim_log.c - proves that log text arrives whole where it should, and that the host is
 * never harmed by it: no signal, no errno, no descriptor, no file nobody asked for.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "shim/settings/log.h"
#include "shim/settings/log_pattern.h"
#include "shim/settings/stderr.h"

/* ---- Helpers ---- */

TestSuite(log, .init = enter_folder, .fini = remove_folder, .timeout = 120);

/* fd 2 becomes a file, so that what is written there can be read. */
static void catch_stderr(void)
{
    int fd = open("stderr", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);

    cr_assert(fd >= 0);
    cr_assert_eq(dup2(fd, 2), 2);
    close(fd);
    gs_stderr_remember();
}

/* Contents of a file; "" if there is none. */
static const char *contents(const char *path)
{
    static char buffers[2][1 << 20];
    static unsigned turn;
    char *buffer = buffers[turn++ % 2];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, buffer, sizeof(buffers[0]) - 1) : 0;

    if (fd >= 0)
        close(fd);
    buffer[n > 0 ? n : 0] = '\0';
    return buffer;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- Lines ---- */

Test(log, line_goes_to_stderr_before_and_after_open)
{
    catch_stderr();
    gs_log_line(GS_LOG_WARN, "early %d", 1);
    gs_log_open(NULL, GS_LOG_WARN);
    gs_log_line(GS_LOG_WARN, "late %s", "two");
    gs_log_open("", GS_LOG_WARN);
    gs_log_text("raw\n", 4);
    cr_expect_str_eq(contents("stderr"), "gpushim: early 1\ngpushim: late two\nraw\n");
}

Test(log, verbosity_decides_on_lines_but_not_on_text)
{
    catch_stderr();
    gs_log_open(NULL, GS_LOG_ERROR);
    gs_log_line(GS_LOG_WARN, "no");
    gs_log_line(GS_LOG_ERROR, "error");
    gs_log_text("text\n", 5);
    cr_expect_not(gs_log_enabled(GS_LOG_WARN));
    gs_log_open(NULL, GS_LOG_DEBUG);
    gs_log_line(GS_LOG_DEBUG, "debug");
    cr_expect(gs_log_enabled(GS_LOG_DEBUG));
    cr_expect_str_eq(contents("stderr"), "gpushim: error\ntext\ngpushim: debug\n");
}

Test(log, line_is_cut_at_its_limit_and_ends_as_a_line)
{
    char longer[3 * GS_LOG_LINE_BYTES];
    const char *text;

    catch_stderr();
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    gs_log_line(GS_LOG_WARN, "%s", longer);
    text = contents("stderr");
    cr_assert_eq(strlen(text), (size_t)GS_LOG_LINE_BYTES);
    cr_expect_str_eq(text + GS_LOG_LINE_BYTES - 6, "xx...\n");
    /* A line that just fits is whole. */
    catch_stderr();
    gs_log_line(GS_LOG_WARN, "%.*s", GS_LOG_LINE_BYTES - 10, longer);
    text = contents("stderr");
    cr_assert_eq(strlen(text), (size_t)GS_LOG_LINE_BYTES);
    cr_expect_str_eq(text + GS_LOG_LINE_BYTES - 6, "xxxxx\n");
}

Test(log, errno_is_preserved_and_printed)
{
    catch_stderr();
    gs_log_open("/nonexistent/dir/file", GS_LOG_WARN);
    errno = ENOSPC;
    gs_log_line(GS_LOG_WARN, "%m");
    cr_expect_eq(errno, ENOSPC);
    cr_expect(strstr(contents("stderr"), "gpushim: No space left on device\n"));
    close(2);
    errno = ENOSPC;
    gs_log_text("x\n", 2);
    cr_expect_eq(errno, ENOSPC);
}

Test(log, kind_is_limited)
{
    static struct gs_log_limit once, thrice;

    catch_stderr();
    gs_log_open(NULL, GS_LOG_WARN);
    for (int i = 0; i < 10; i++) {
        gs_log_once(&once, GS_LOG_INFO, "suppressed by verbosity, and not counted");
        gs_log_once(&once, GS_LOG_WARN, "once %d", i);
        gs_log_limited(&thrice, 3, GS_LOG_WARN, "thrice %d", i);
    }
    cr_expect_str_eq(contents("stderr"),
                     "gpushim: once 0\ngpushim: thrice 0\ngpushim: thrice 1\n"
                     "gpushim: thrice 2 (further lines of this kind are not shown)\n");
}

enum { KINDS = 2000, RACERS = 4 };
static struct gs_log_limit raced[KINDS];

static void *race(void *start)
{
    pthread_barrier_wait(start);
    for (int i = 0; i < KINDS; i++)
        gs_log_once(&raced[i], GS_LOG_WARN, "%04d", i);
    return NULL;
}

Test(log, once_holds_between_threads)
{
    pthread_t threads[RACERS];
    pthread_barrier_t start;

    catch_stderr();
    pthread_barrier_init(&start, NULL, RACERS);
    for (int i = 0; i < RACERS; i++)
        pthread_create(&threads[i], NULL, race, &start);
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(strlen(contents("stderr")), KINDS * strlen("gpushim: 0000\n"));
}

/* ---- Files ---- */

Test(log, no_file_appears_until_something_is_logged)
{
    gs_log_open("log", GS_LOG_WARN);
    gs_log_line(GS_LOG_DEBUG, "below the verbosity");
    gs_log_text("", 0);
    cr_expect_not(exists("log"));
    gs_log_line(GS_LOG_WARN, "now");
    cr_expect_str_eq(contents("log"), "gpushim: now\n");
}

Test(log, file_is_appended_to)
{
    FILE *file = fopen("log", "w");

    fputs("before\n", file);
    fclose(file);
    catch_stderr();
    gs_log_open("log", GS_LOG_WARN);
    gs_log_line(GS_LOG_WARN, "one");
    gs_log_line(GS_LOG_WARN, "two");
    cr_expect_str_eq(contents("log"), "before\ngpushim: one\ngpushim: two\n");
    cr_expect_str_empty(contents("stderr"));
}

Test(log, relative_name_survives_chdir)
{
    cr_assert_eq(mkdir("100%p", 0700), 0); /* a directory that looks like a pattern */
    cr_assert_eq(chdir("100%p"), 0);
    gs_log_open("log.%p", GS_LOG_WARN);
    cr_assert_eq(chdir("/"), 0);
    gs_log_line(GS_LOG_WARN, "here");
    cr_assert_eq(chdir(folder), 0);
    {
        char path[64];

        snprintf(path, sizeof(path), "100%%p/log.%d", getpid());
        cr_expect_str_eq(contents(path), "gpushim: here\n", "%s", path);
    }
}

Test(log, relative_name_in_the_root_has_one_slash)
{
    char kept[PATH_MAX];

    cr_assert_eq(chdir("/"), 0);
    gs_log_pattern_keep(kept, "o.json");
    cr_expect_str_eq(kept, "/o.json");
    cr_assert_eq(chdir(folder), 0);
}

Test(log, no_descriptor_stays_open)
{
    int before = dup(0), after;

    gs_log_open("log", GS_LOG_WARN);
    for (int i = 0; i < 100; i++)
        gs_log_line(GS_LOG_WARN, "%d", i);
    after = dup(0);
    cr_expect_eq(after, before + 1);
}

Test(log, unwritable_file_is_told_once_and_stderr_used)
{
    char want[256];

    catch_stderr();
    gs_log_open("missing/%r.%p", GS_LOG_WARN);
    gs_log_line(GS_LOG_WARN, "one");
    gs_log_line(GS_LOG_WARN, "two");
    snprintf(want, sizeof(want),
             "gpushim: GPUSHIM_LOG_FILE: cannot write %s/missing/norank.%d: no such "
             "file or directory; writing to stderr\ngpushim: one\ngpushim: two\n",
             folder, getpid());
    cr_expect_str_eq(contents("stderr"), want);
}

Test(log, directory_as_file_names_its_reason)
{
    catch_stderr();
    gs_log_open("/tmp", GS_LOG_WARN);
    gs_log_text("text\n", 5);
    cr_expect_str_eq(contents("stderr"), "gpushim: GPUSHIM_LOG_FILE: cannot write /tmp: "
                                         "is a directory; writing to stderr\ntext\n");
}

Test(log, full_disk_is_told_and_the_text_not_lost)
{
    catch_stderr();
    gs_log_open("/dev/full", GS_LOG_WARN);
    gs_log_text("text\n", 5);
    cr_expect_str_eq(contents("stderr"),
                     "gpushim: GPUSHIM_LOG_FILE: cannot write /dev/full: no space left; "
                     "writing to stderr\ntext\n");
}

Test(log, name_too_long_is_told)
{
    char pattern[PATH_MAX];

    catch_stderr();
    memset(pattern, 'x', sizeof(pattern) - 1);
    pattern[sizeof(pattern) - 1] = '\0';
    setenv("LONG", pattern, 1);
    gs_log_open("/%q{LONG}%q{LONG}", GS_LOG_WARN);
    gs_log_text("text\n", 5);
    cr_expect_str_eq(
        contents("stderr"),
        "gpushim: GPUSHIM_LOG_FILE: cannot write /%q{LONG}%q{LONG}: name too "
        "long; writing to stderr\ntext\n");
}

Test(log, file_size_limit_raises_no_signal)
{
    const struct rlimit limit = {8, RLIM_INFINITY};

    signal(SIGXFSZ, SIG_DFL);
    gs_log_open("log", GS_LOG_WARN);
    close(2); /* whose file would be limited too */
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    gs_log_text("0123456789abcdef\n", 17);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}),
                 0);
    cr_expect_str_eq(contents("log"), "01234567");
}

Test(log, fifo_without_reader_does_not_block)
{
    catch_stderr();
    cr_assert_eq(mkfifo("fifo", 0600), 0);
    gs_log_open("fifo", GS_LOG_WARN);
    gs_log_text("text\n", 5);
    cr_expect(strstr(contents("stderr"), "/fifo: no process reads it; writing to stderr\n"
                                         "text\n"));
}

Test(log, second_file_is_independent)
{
    static struct gs_log_file lookups, unused;

    gs_log_open("main", GS_LOG_WARN);
    gs_log_file_open(&lookups, "GPUSHIM_LOOKUP_LOG", "lookups");
    gs_log_file_open(&unused, "GPUSHIM_LOOKUP_LOG", "");
    cr_expect(gs_log_file_used(&lookups));
    cr_expect_not(gs_log_file_used(&unused));
    gs_log_file_write(&lookups, "a\n", 2);
    gs_log_file_write(&unused, "b\n", 2);
    gs_log_line(GS_LOG_WARN, "c");
    cr_expect_str_eq(contents("lookups"), "a\n");
    cr_expect_str_eq(contents("main"), "gpushim: c\n");
}

/* ---- stderr in every state ---- */

Test(log, closed_stderr_is_silent)
{
    close(2);
    gs_log_line(GS_LOG_ERROR, "nobody hears this");
    cr_expect_eq(fcntl(2, F_GETFD), -1, "nothing was opened in its place");
    gs_log_open("/nonexistent/file", GS_LOG_WARN);
    gs_log_line(GS_LOG_ERROR, "nor this");
    cr_expect_eq(fcntl(2, F_GETFD), -1);
}

static void stderr_to_broken_pipe(void)
{
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(dup2(ends[1], 2), 2);
    close(ends[0]);
    close(ends[1]);
}

Test(log, broken_pipe_raises_no_signal)
{
    sigset_t pending;

    signal(SIGPIPE, SIG_DFL);
    stderr_to_broken_pipe();
    gs_log_line(GS_LOG_WARN, "into the void");
    sigpending(&pending);
    cr_expect_not(sigismember(&pending, SIGPIPE), "ours was taken back");
}

Test(log, pending_signal_of_the_program_stays)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGPIPE);
    stderr_to_broken_pipe();
    gs_log_line(GS_LOG_WARN, "into the void");
    sigemptyset(&set);
    sigpending(&set);
    cr_expect(sigismember(&set, SIGPIPE));
    sigprocmask(SIG_BLOCK, NULL, &set);
    cr_expect(sigismember(&set, SIGPIPE), "the mask is the program's again");
    cr_expect_not(sigismember(&set, SIGXFSZ));
}

static size_t slow_reader_bytes;

static void *read_slowly(void *end)
{
    char buffer[4096];
    ssize_t n;

    while ((n = read(*(int *)end, buffer, sizeof(buffer))) > 0) {
        slow_reader_bytes += (size_t)n;
        usleep(500);
    }
    return NULL;
}

Test(log, full_non_blocking_stderr_is_waited_for)
{
    enum { BYTES = 300000 };
    char *text = calloc(1, BYTES);
    pthread_t reader;
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(dup2(ends[1], 2), 2);
    close(ends[1]);
    fcntl(2, F_SETFL, O_NONBLOCK);
    pthread_create(&reader, NULL, read_slowly, &ends[0]);
    gs_log_text(text, BYTES);
    close(2);
    pthread_join(reader, NULL);
    cr_expect_eq(slow_reader_bytes, (size_t)BYTES);
    free(text);
}

Test(log, stderr_nobody_reads_is_given_up)
{
    char text[200000] = {0};
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(dup2(ends[1], 2), 2);
    fcntl(2, F_SETFL, O_NONBLOCK);
    gs_log_text(text, sizeof(text)); /* the suite's time limit fails it otherwise */
}

/* ---- A pipe whose reader waits for us ---- */

static int late_pipe[2];
static volatile sig_atomic_t ticks;

/* Whether another process is quicker to take the room that poll(2) shows. */
static volatile sig_atomic_t is_quicker;

/* Instead of libc's. */
int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    const struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    long found =
        syscall(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &timeout, NULL, (size_t)8);
    int other;

    if (found > 0 && is_quicker) {
        other = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK);
        while (write(other, "0123456789abcdef", 16) > 0)
            continue;
        close(other);
    }
    return (int)found;
}

/* A tenth of a second has passed. After 30 s the reader has pity, so that a failure ends.
 */
static void tick(int signal)
{
    char byte[4096];

    (void)signal;
    if (++ticks >= 300)
        (void)!read(late_pipe[0], byte, sizeof(byte));
}

/* fd 2 becomes a full pipe that would block. */
static void fill_stderr(void)
{
    cr_assert_eq(pipe(late_pipe), 0);
    cr_assert_eq(fcntl(late_pipe[1], F_SETFL, O_NONBLOCK), 0);
    while (write(late_pipe[1], "0123456789abcdef", 16) > 0)
        continue;
    cr_assert_eq(fcntl(late_pipe[1], F_SETFL, 0), 0);
    cr_assert_eq(dup2(late_pipe[1], 2), 2);
    gs_stderr_remember();
}

static void log_by_the_clock(void)
{
    const struct itimerval tenths = {{0, 100000}, {0, 100000}}, none = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &tenths, NULL);
    gs_log_line(GS_LOG_WARN, "nobody reads this");
    setitimer(ITIMER_REAL, &none, NULL);
    cr_expect(ticks < 200, "given up after 10 s, not after %d.%d", ticks / 10,
              ticks % 10);
}

Test(log, signals_do_not_prolong_the_wait_for_a_reader)
{
    fill_stderr();
    log_by_the_clock();
}

Test(log, room_that_another_has_taken_holds_nobody_up)
{
    cr_assert_eq(pipe(late_pipe), 0);
    cr_assert_eq(dup2(late_pipe[1], 2), 2);
    gs_stderr_remember();
    is_quicker = true;
    log_by_the_clock();
}

/* ---- Threads and processes ---- */

static void *log_lines(void *name)
{
    for (int i = 0; i < 500; i++)
        gs_log_line(GS_LOG_WARN, "%s %03d of a line that is long enough to be torn",
                    (const char *)name, i);
    return NULL;
}

Test(log, lines_of_several_threads_stay_whole)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    pthread_t threads[4];
    unsigned lines = 0;

    gs_log_open("log.%p", GS_LOG_WARN);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, log_lines, (void *)names[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    {
        char path[64];
        const char *text;

        snprintf(path, sizeof(path), "log.%d", getpid());
        for (text = contents(path); *text; lines++) {
            size_t length = strcspn(text, "\n");

            cr_assert_eq(length, strlen("gpushim: a 000 of a line that is long enough to "
                                        "be torn"));
            cr_assert_eq(strncmp(text, "gpushim: ", 9), 0);
            text += length + 1;
        }
    }
    cr_expect_eq(lines, 2000u);
}

Test(log, forked_child_writes_to_a_file_of_its_own)
{
    char path[64];
    int status;
    pid_t child;

    gs_log_open("log.%p", GS_LOG_WARN);
    gs_log_line(GS_LOG_WARN, "parent");
    child = fork();
    if (child == 0) {
        gs_log_line(GS_LOG_WARN, "child");
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    gs_log_line(GS_LOG_WARN, "parent again");
    snprintf(path, sizeof(path), "log.%d", child);
    cr_expect_str_eq(contents(path), "gpushim: child\n");
    snprintf(path, sizeof(path), "log.%d", getpid());
    cr_expect_str_eq(contents(path), "gpushim: parent\ngpushim: parent again\n");
}

Test(log, vfork_child_leaves_the_parent_as_it_was)
{
    char path[64];
    pid_t child;

    gs_log_open("log.%p", GS_LOG_WARN);
    child = vfork();
    if (child == 0) {
        gs_log_line(GS_LOG_WARN, "child");
        _exit(0);
    }
    waitpid(child, NULL, 0);
    gs_log_line(GS_LOG_WARN, "parent");
    snprintf(path, sizeof(path), "log.%d", child);
    cr_expect_str_eq(contents(path), "gpushim: child\n");
    snprintf(path, sizeof(path), "log.%d", getpid());
    cr_expect_str_eq(contents(path), "gpushim: parent\n");
}

static bool survived;

static void *log_while_cancelled(void *unused)
{
    (void)unused;
    pthread_cancel(pthread_self());
    gs_log_line(GS_LOG_WARN, "not a cancellation point");
    survived = true;
    pthread_testcancel();
    return NULL;
}

Test(log, cancelled_thread_finishes_its_line)
{
    pthread_t thread;
    void *result;

    gs_log_open("log", GS_LOG_WARN);
    pthread_create(&thread, NULL, log_while_cancelled, NULL);
    pthread_join(thread, &result);
    cr_expect(survived);
    cr_expect_eq(result, PTHREAD_CANCELED, "and is cancelled afterwards");
    cr_expect_str_eq(contents("log"), "gpushim: not a cancellation point\n");
}

/* ---- Characters ---- */

Test(log, line_has_no_control_characters)
{
    catch_stderr();
    gs_log_line(GS_LOG_WARN, "a\x1b[31m\nb\x7f\xc2\x9b\x9b\xff\xc3\xa9");
    cr_expect_str_eq(contents("stderr"), "gpushim: a?[31m?b??\?\?\?\xc3\xa9\n");
}

Test(log, link_of_another_user_is_not_followed)
{
    static struct gs_log_file file;

    catch_stderr();
    cr_assert_eq(symlink("precious", "link"), 0);
    if (geteuid() == 0) /* root's own are followed */
        cr_assert_eq(lchown("link", 65534, 65534), 0);
    gs_log_file_open(&file, "GPUSHIM_LOG_FILE", "link");
    gs_log_file_write(&file, "text\n", 5);
    cr_expect_neq(access("precious", F_OK), 0);
    cr_expect(strstr(contents("stderr"), "a symbolic link is in the way") != NULL);
    cr_expect(strstr(contents("stderr"), "text\n") != NULL);
}
