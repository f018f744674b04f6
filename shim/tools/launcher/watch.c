/*
 * watch.c - see watch.h.
 *
 * The watcher is in a session of its own, with no descriptor but standard error, and
 * blocks every signal: what is sent to the command's group, or comes from its terminal,
 * does not reach the watcher. It ends when the command and all processes that the command
 * has started have ended. While the command's standard error is a pipe, the watcher keeps
 * it open no longer than a process of the command does: a reader sees its end as
 * natively.
 *
 * Owns:  the table of processes.   Lock: none; one thread.
 */
#include "shim/tools/launcher/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/coverage.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/launcher/watch_table.h"
#include "shim/tools/reader/process_table.h"

/* Reports written at once. */
#define REPORTERS_MOST 4
/* Lists of /proc, one after the other, without a process that is watched. */
#define LISTS 3
/* How often a pipe's other owners are looked for: soon after an end, then less and less.
 * And processes without pidfd. */
#define PIPE_FIRST_MS 5
#define PIPE_MS       1000
#define NO_FD_MS      50
#define FAILED_MAX    3 /* lines about reports that failed */

static struct {
    struct gs_watch config;
    struct gs_watch_table table; /* the first one is the command */
    int children;                /* a signalfd */
    unsigned reporters;
    bool pipe, terminal, answered; /* the kinds of standard error */
    int pipe_ms;
} watcher = {.pipe_ms = PIPE_MS};

static void found_process(void *unused, pid_t pid)
{
    (void)unused;
    if (!gs_watch_table_find(&watcher.table, pid)) {
        (void)gs_watch_table_add(&watcher.table, pid, -1);
    }
}

static void receive_queue(void)
{
    gs_watch_receive(&watcher.table, watcher.config.socket);
}

/* ---- ends -------------------------------------------------------------------------- */

static uint64_t now_unix_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void end_process(struct gs_watch_process *process)
{
    if (!process->end.known) {
        gs_watch_find_end(process->pid, process->pidfd, &process->end);
    }
    process->end.unix_ms = now_unix_ms();
    process->ended = true;
    if (process->pidfd >= 0) {
        close(process->pidfd);
    }
    process->pidfd = -1;
    watcher.pipe_ms = PIPE_FIRST_MS;
    gs_watch_process_settle(&watcher.table, process, true);
}

static void find_ended(void)
{
    for (size_t i = 0; i < watcher.table.count; i++) {
        struct gs_watch_process *process = &watcher.table.processes[i];
        /* The launcher's word comes before the pidfd, with the status. */
        bool told = process->is_main && watcher.config.parent >= 0;
        if (!process->ended && !told && gs_watch_process_ended(process)) {
            receive_queue();
            end_process(&watcher.table.processes[i]);
        }
    }
}

/* ---- reports ----------------------------------------------------------------------- */

static void say_failed(const struct gs_watch_row *row, const char *why)
{
    static unsigned failed;
    if (failed++ < FAILED_MAX) {
        gs_launcher_warn("no report of process %ld: writing it failed (%s)",
                         (long)row->state.pid, why);
    }
}

static void start_reporter(const struct gs_watch_process *process,
                           struct gs_watch_row *row)
{
    row->reporter = fork();
    if (row->reporter == 0) {
        (void)setpgid(0, 0);
        gs_coverage_exit(gs_watch_report(&row->state, &process->end));
    }
    if (row->reporter < 0) {
        say_failed(row, strerror(errno));
    }
    row->stage = row->reporter < 0 ? GS_WATCH_DONE : GS_WATCH_WRITING;
    watcher.reporters += row->reporter > 0;
}

static void start_reporters(void)
{
    for (size_t i = 0; i < watcher.table.count; i++) {
        for (struct gs_watch_row *row = watcher.table.processes[i].rows; row;
             row = row->next) {
            if (row->stage == GS_WATCH_DUE && watcher.reporters < REPORTERS_MOST) {
                start_reporter(&watcher.table.processes[i], row);
            }
        }
    }
}

static void end_reporter(pid_t pid, int status)
{
    for (size_t i = 0; i < watcher.table.count; i++) {
        for (struct gs_watch_row *row = watcher.table.processes[i].rows; row;
             row = row->next) {
            if (row->stage != GS_WATCH_WRITING || row->reporter != pid) {
                continue;
            }
            row->stage = GS_WATCH_DONE;
            if (WIFEXITED(status) && WEXITSTATUS(status) == GS_WATCH_BAD) {
                gs_watch_table_bad(&watcher.table, row->state.pid);
            }
            if (WIFSIGNALED(status)) {
                say_failed(row, strsignal(WTERMSIG(status)));
            }
            watcher.reporters--;
            return;
        }
    }
}

static void wait_for_reporters(void)
{
    struct signalfd_siginfo unused;
    int status;
    pid_t pid;
    while (read(watcher.children, &unused, sizeof(unused)) > 0) {
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        end_reporter(pid, status);
    }
}

/* ---- the command's end ------------------------------------------------------------- */

/* The states as files: pieces are copied to a new one. */
static int file_of(const struct gs_watch_state *state)
{
    if (state->whole) {
        return state->pieces[0].fd;
    }
    size_t length, done = 0;
    char *bytes = gs_watch_gather(state, &length);
    int fd = bytes ? (int)syscall(SYS_memfd_create, "gpushim", 0) : -1;
    while (fd >= 0 && done < length) {
        ssize_t put = write(fd, bytes + done, length - done);
        if (put <= 0) {
            break;
        }
        done += (size_t)put;
    }
    free(bytes);
    return fd;
}

/* In a process of its own. */
static int write_summary(void)
{
    size_t count = 0;
    struct gs_state_ended *ended = calloc(watcher.table.count + 1, sizeof(*ended));
    for (size_t i = 0; ended && i < watcher.table.count; i++) {
        const struct gs_watch_process *process = &watcher.table.processes[i];
        ended[i] =
            (struct gs_state_ended){.pid = process->pid, .unix_ms = process->end.unix_ms};
        (void)gs_watch_end_text(&process->end, ended[i].text);
    }
    char **paths = calloc(1, sizeof(*paths));
    for (size_t i = 0; i < watcher.table.count; i++) {
        for (struct gs_watch_row *row = watcher.table.processes[i].rows; row;
             row = row->next) {
            int fd = row->state.count ? file_of(&row->state) : -1;
            char **more = fd < 0 ? NULL : reallocarray(paths, count + 2, sizeof(*paths));
            if (more && asprintf(&more[count], "/proc/self/fd/%d", fd) >= 0) {
                more[++count] = NULL;
            }
            paths = more ? more : paths;
        }
    }
    if (count == 0) {
        gs_launcher_warn("no process made a CUDA call");
        return 0;
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    return gs_summary_write(paths, ended);
}

/* All that has ended with the command is reported. */
static void end_command(void)
{
    const struct gs_watch_answer answer = {.bad = watcher.table.bad,
                                           .cuda = watcher.table.received};
    if (watcher.config.summary) {
        pid_t child = fork();
        if (child == 0) {
            exit(write_summary());
        }
        while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
        watcher.config.summary = false;
    }
    if (watcher.config.parent >= 0) {
        (void)send(watcher.config.parent, &answer, sizeof(answer), MSG_NOSIGNAL);
        close(watcher.config.parent);
        watcher.config.parent = -1;
    }
    watcher.answered = true;
}

/* The launcher says how the command ended; or is no more, and the command soon. */
static void hear_parent(void)
{
    struct gs_watch_process *command = &watcher.table.processes[0];
    int status;
    if (watcher.config.parent < 0 || command->ended) {
        return;
    }
    ssize_t got = recv(watcher.config.parent, &status, sizeof(status), MSG_DONTWAIT);
    if (got == (ssize_t)sizeof(status)) {
        receive_queue();
        command = &watcher.table.processes[0]; /* they may have moved */
        command->end = (struct gs_watch_end){.known = true, .status = status};
        end_process(command);
    } else if (got == 0) {
        close(watcher.config.parent);
        watcher.config.parent = -1;
    }
}

/* A pipe that nobody else has open any more is let go. A launcher that waits has it open,
 * and may still get the summary there. */
static void release_pipe(void)
{
    struct gs_watch_process *command = &watcher.table.processes[0];
    if (!watcher.pipe || watcher.config.parent >= 0 ||
        !gs_watch_table_quiet(&watcher.table) ||
        (!command->ended && command->pidfd < 0)) {
        return;
    }
    for (size_t i = 0; i < watcher.table.count; i++) {
        if (!watcher.table.processes[i].ended &&
            gs_watch_shares_stderr(watcher.table.processes[i].pid)) {
            return;
        }
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, STDERR_FILENO);
        close(null);
    }
    watcher.pipe = false;
}

/* ---- the loop ---------------------------------------------------------------------- */

static void wait_for_news(void)
{
    static struct pollfd *fds;
    static size_t room;
    size_t count = 0;
    bool no_fd = false;
    if (!fds || room < watcher.table.count + 3) {
        struct pollfd *more = reallocarray(fds, watcher.table.count + 64, sizeof(*fds));
        if (!more) {
            return;
        }
        fds = more;
        room = watcher.table.count + 64;
    }
    fds[count++] = (struct pollfd){watcher.config.socket, POLLIN, 0};
    fds[count++] = (struct pollfd){watcher.children, POLLIN, 0};
    fds[count++] = (struct pollfd){watcher.config.parent, POLLIN, 0}; /* -1: none */
    for (size_t i = 0; i < watcher.table.count; i++) {
        const struct gs_watch_process *process = &watcher.table.processes[i];
        if (!process->ended && !(process->is_main && watcher.config.parent >= 0)) {
            fds[count++] = (struct pollfd){process->pidfd, POLLIN, 0};
            no_fd |= process->pidfd < 0;
        }
    }
    int timeout = no_fd ? NO_FD_MS : watcher.pipe ? watcher.pipe_ms : -1;
    (void)poll(fds, (nfds_t)count, timeout);
    watcher.pipe_ms = watcher.pipe_ms < PIPE_MS / 2 ? 2 * watcher.pipe_ms : PIPE_MS;
}

static bool goes_on(void)
{
    if (!watcher.table.processes[0].ended || !gs_watch_table_quiet(&watcher.table)) {
        return true;
    }
    if (!watcher.answered) {
        end_command();
        watcher.pipe |=
            watcher.terminal; /* nor is a terminal kept longer than by the command */
    }
    /* A list of /proc may be older than a child of a process that has ended since, as of
     * one that becomes a daemon. The next list has the child. */
    for (int lists = 0; lists < LISTS && gs_watch_table_live(&watcher.table) == 0;
         lists++) {
        gs_watch_find_processes(found_process, NULL);
    }
    return gs_watch_table_live(&watcher.table) > 0;
}

void gs_watch_run(const struct gs_watch *watch)
{
    struct stat info;
    sigset_t children;
    watcher.config = *watch;
    gs_watch_take_place(&watcher.config);
    watcher.pipe = fstat(STDERR_FILENO, &info) == 0 &&
                   (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
    watcher.terminal = isatty(STDERR_FILENO);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    watcher.children = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    struct gs_watch_process *command =
        gs_watch_table_add(&watcher.table, watcher.config.main, watcher.config.main_fd);
    if (!command) {
        gs_coverage_exit(1);
    }
    command->is_main = true;
    do {
        wait_for_news();
        receive_queue();
        wait_for_reporters();
        hear_parent();
        find_ended();
        start_reporters();
        release_pipe();
        if (!watcher.config.summary) {
            gs_watch_table_drop(&watcher.table);
        }
    } while (goes_on());
    gs_coverage_exit(0);
}
