/*
 * run.c - runs the command: in the place of the launcher, with the watcher as a second
 * process; or as the launcher's child.
 *
 * In its place the command has the process id, parent, group, session, terminal, signals
 * and exit status that it would have without the launcher. What its processes could not
 * report comes from the watcher then, as soon as they have ended, but the shell or the
 * service manager that waits for the command does not wait for that. So the launcher
 * stays, as the parent, where the wait is the point:
 *   - the exit status, or a summary, depends on the report (--error-exitcode, --summary)
 *   - the command was typed at a terminal: the report comes before the prompt
 *   - the launcher is the first process of a PID namespace (a container), or adopts
 * orphans: its end is the end of all others
 *   - the first process waits for no orphans (containers again): each watcher would stay
 * as a zombie
 * --watch chooses otherwise.
 *
 * Owns: nothing.   Lock: none; one thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gs_read_text.h"
#include "shim/coverage.h"
#include "shim/settings/options.h"
#include "shim/settings/options_table.h"
#include "shim/statefile/watch_message.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/launcher/watch.h"

/* The longest wait for the reports of the command. */
#define ANSWER_MS 130000
/* Of them half may be zombies that started so long ago: the first process may be late. */
#define ORPHANS_LOOKED_AT 16
#define ORPHAN_OLD_S      5

/* ---- which way --------------------------------------------------------------------- */

/* Returns whether something is recorded; says so if the outcome is asked for. */
static bool records(const struct gs_arguments *arguments)
{
    const char *asks = arguments->summary                           ? "--summary"
                       : arguments->error_no_cuda                   ? "--error-no-cuda"
                       : gs_value_now(GS_OPTION_ROW_error_exitcode) ? "--error-exitcode"
                                                                    : NULL;
    static const enum gs_option_row switches[] = {GS_OPTION_ROW_enable,
                                                  GS_OPTION_ROW_track};
    for (size_t i = 0; i < GS_ARRAY_LEN(switches); i++) {
        const char *name = gs_options_table[switches[i]].name;
        if (gs_value_now(switches[i]) == 0) {
            if (asks) {
                gs_launcher_warn(
                    "%s: with %s=%s nothing is recorded; %s", asks, name, getenv(name),
                    arguments->summary ? "none is written" : "no leak or error is found");
            }
            return false;
        }
    }
    return true;
}

/* Typed at a terminal: a shell with job control makes each command the leader of a
 * process group, and this one the terminal's. In a pipeline, a script or make it is a
 * member of that group; then only a report that goes to the terminal is waited for. */
static bool is_at_prompt(void)
{
    struct sigaction interrupt;
    if ((getpid() != getpgrp() && !isatty(STDERR_FILENO)) || getsid(0) == getpid() ||
        sigaction(SIGINT, NULL, &interrupt) != 0 || interrupt.sa_handler == SIG_IGN) {
        return false;
    }
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool foreground = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
    if (terminal >= 0) {
        close(terminal);
    }
    return foreground;
}

/* Its end would be the watcher's, or the watcher its child. */
static bool adopts_orphans(void)
{
    int reaper = 0;
    return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &reaper) == 0 && reaper);
}

/* Returns whether a process, by its number as text, is a zombie that started long ago. */
static bool is_old_zombie(const char *pid)
{
    char path[64], stat[512];
    struct timespec now;
    (void)snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    (void)gs_read_text(path, stat, sizeof(stat));
    const char *at = strrchr(stat, ')');
    if (!at || at[1] == '\0' || at[2] != 'Z' ||
        clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
        return false;
    }
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    long started_s = at ? strtol(at, NULL, 10) / sysconf(_SC_CLK_TCK) : now.tv_sec;
    return now.tv_sec - started_s >= ORPHAN_OLD_S;
}

/* Looks at the orphans that the first process adopted last. */
static bool orphans_pile_up(void)
{
    char text[8192];
    unsigned zombies = 0;
    size_t length = gs_read_text("/proc/1/task/1/children", text, sizeof(text));
    for (unsigned i = 0; i < ORPHANS_LOOKED_AT && length > 1; i++) {
        text[--length] = '\0'; /* the space after the last one */
        while (length > 0 && text[length - 1] != ' ') {
            length--;
        }
        zombies += is_old_zombie(text + length);
    }
    return zombies >= ORPHANS_LOOKED_AT / 2;
}

/* The file that the run is to add rules to; NULL: none. */
static const char *file_of_rules(void)
{
    const char *rules = getenv("GPUSHIM_WRITE_SUPPRESSIONS");
    return rules && rules[0] ? rules : NULL;
}

static enum gs_watch_way way_of(const struct gs_arguments *arguments)
{
    if (arguments->error_no_cuda && gs_value_now(GS_OPTION_ROW_error_exitcode) == 0) {
        gs_launcher_fail(GS_EXIT_USAGE, "--error-no-cuda needs --error-exitcode=NUMBER");
    }
    if (!records(arguments)) {
        if (arguments->error_no_cuda) {
            exit(GS_EXIT_USAGE);
        }
        return GS_WATCH_OFF;
    }
    if (arguments->watch != GS_WATCH_AUTO) {
        bool waits = arguments->summary || arguments->error_no_cuda;
        if (waits && arguments->watch != GS_WATCH_PARENT) {
            gs_launcher_fail(GS_EXIT_USAGE, "%s needs --watch=parent",
                             arguments->summary ? "--summary" : "--error-no-cuda");
        }
        return arguments->watch;
    }
    /* A process 1 that writes its report at SIGTERM goes on after it, which a child would
     * not; and a watcher would be a child that its wait never sees end. */
    bool first = getpid() == 1 && gs_value_now(GS_OPTION_ROW_dump_on_term) != 0;
    if (first && !arguments->summary && gs_value_now(GS_OPTION_ROW_error_exitcode) == 0) {
        return GS_WATCH_OFF;
    }
    if (arguments->summary || gs_value_now(GS_OPTION_ROW_error_exitcode) != 0 ||
        file_of_rules()) {
        return GS_WATCH_PARENT;
    }
    return adopts_orphans() || is_at_prompt() || orphans_pile_up() ? GS_WATCH_PARENT
                                                                   : GS_WATCH_BESIDE;
}

/* Nor does a process say again that nobody takes its state. */
static void say_no_watcher(int error)
{
    gs_launcher_warn("no process can be started for the watcher: %s; a process that is "
                     "killed has no report",
                     strerror(error));
    (void)unsetenv(GS_WATCH_VARIABLE);
}

/* ---- beside ------------------------------------------------------------------------ */

/* The watcher is a child's child, and so nobody's that the command or its parent could
 * wait for. */
static void start_beside(struct gs_watch *watch)
{
    int status;
    watch->main = getpid();
    watch->main_fd = (int)syscall(SYS_pidfd_open, watch->main, 0);
    watch->parent = -1;
    pid_t between = fork();
    if (between == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            gs_watch_run(watch);
        }
        gs_coverage_exit(pid < 0 ? errno : 0);
    }
    int error = between < 0 ? errno : 0;
    while (between > 0 && waitpid(between, &status, 0) < 0) {
        if (errno != EINTR) {
            between = 0; /* SIGCHLD is ignored: its end has no status */
        }
    }
    if (between > 0) {
        error = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
    }
    if (error) {
        say_no_watcher(error);
    }
    if (watch->main_fd >= 0) {
        close(watch->main_fd);
    }
    close(watch->socket);
}

/* ---- the parent -------------------------------------------------------------------- */

static pid_t child;

/* The child becomes the command once it is known whether there is a watcher: memory that
 * both share, for descriptors may be used up. */
enum { NOT_KNOWN, WATCHED, NOT_WATCHED };
static uint32_t *watched;

static void tell_child(uint32_t answer)
{
    if (watched) {
        __atomic_store_n(watched, answer, __ATOMIC_RELEASE);
        (void)syscall(SYS_futex, watched, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

/* If the launcher is killed, so is the child. */
static void await_answer(void)
{
    while (watched && __atomic_load_n(watched, __ATOMIC_ACQUIRE) == NOT_KNOWN) {
        (void)syscall(SYS_futex, watched, FUTEX_WAIT, NOT_KNOWN, NULL, NULL, 0);
    }
    if (watched && *watched == NOT_WATCHED) {
        (void)unsetenv(GS_WATCH_VARIABLE);
    }
}

/* Returns whether the child catches the signal: the first process of a PID namespace gets
 * no other. */
static bool child_catches(int signal)
{
    char path[64], text[4096];
    (void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)child);
    (void)gs_read_text(path, text, sizeof(text));
    const char *caught = strstr(text, "\nSigCgt:");
    return !caught || (strtoull(caught + 8, NULL, 16) >> (unsigned)(signal - 1) & 1) != 0;
}

static bool child_is_stopped(void)
{
    char path[64], text[512];
    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)child);
    (void)gs_read_text(path, text, sizeof(text));
    const char *state = strrchr(text, ')');
    return state && state[1] && state[2] == 'T';
}

/* Returns whether the terminal has sent the signal: to its whole group, and so to the
 * command, too. A timer of the launcher's (alarm, then exec) is the command's. */
static bool is_of_terminal(const siginfo_t *info)
{
    static const int signals[] = {SIGINT,  SIGQUIT, SIGTSTP, SIGTTIN,
                                  SIGTTOU, SIGHUP,  SIGCONT, SIGWINCH};
    for (size_t i = 0; i < GS_ARRAY_LEN(signals); i++) {
        if (signals[i] == info->si_signo) {
            return info->si_code == SI_KERNEL;
        }
    }
    return false;
}

/* What was sent to the launcher is sent to the command, but not what the command itself
 * has sent to its parent or to all processes: natively it would not get that. */
static void pass_on(const siginfo_t *info)
{
    int signal = info->si_signo;
    bool own = info->si_code <= 0 && info->si_pid == child; /* by a process */
    if (own || is_of_terminal(info) || signal == SIGCHLD ||
        (signal == SIGCONT && !child_is_stopped()) ||
        (getpid() == 1 && !child_catches(signal))) {
        return;
    }
    (void)kill(child, signal);
}

static void raise_default(int signal)
{
    sigset_t one;
    (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    sigemptyset(&one);
    sigaddset(&one, signal);
    gs_coverage_flush();
    (void)raise(signal);
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
    (void)sigprocmask(SIG_BLOCK, &one, NULL);
}

/* Reads the child's state. Returns whether it has ended, with its status. */
static bool look_at_children(int *status)
{
    int one;
    pid_t pid;
    while ((pid = waitpid(getpid() == 1 ? -1 : child, &one, WNOHANG | WUNTRACED)) > 0) {
        if (pid != child) {
            continue; /* an orphan */
        }
        if (WIFSTOPPED(one)) {
            raise_default(WSTOPSIG(one)); /* the shell waits for the launcher */
            continue;
        }
        *status = one;
        return true;
    }
    return false;
}

/* Becomes the command. */
__attribute__((noreturn)) static void
become(const struct gs_command *command, const struct gs_arguments *arguments,
       const sigset_t *mask, const struct sigaction *children, pid_t launcher)
{
    /* Who kills the launcher means the command. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) {
        gs_coverage_exit(GS_EXIT_CANNOT_RUN);
    }
    await_answer();
    (void)sigaction(SIGCHLD, children, NULL);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    (void)setenv("LD_PRELOAD", arguments->preload, 1);
    gs_command_become(command, arguments->command);
    gs_launcher_warn("%s: %s", arguments->command[0], strerror(errno));
    gs_coverage_exit(errno == ENOENT ? GS_EXIT_NOT_FOUND : GS_EXIT_CANNOT_RUN);
}

/* Ends as the command did; a core file would be the launcher's, not the command's. */
__attribute__((noreturn)) static void end_as(int status)
{
    if (!WIFSIGNALED(status)) {
        exit(WEXITSTATUS(status));
    }
    const struct rlimit none = {0, 0};
    int signal = WTERMSIG(status);
    (void)fflush(NULL);
    (void)setrlimit(RLIMIT_CORE, &none);
    raise_default(signal);
    exit(128 + signal);
}

/* Starts the watcher, a child. Returns a socket to it; -1: there is none, which is said.
 */
static int start_watcher(struct gs_watch *watch)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        say_no_watcher(errno);
        return -1;
    }
    watch->main = child;
    watch->main_fd = (int)syscall(SYS_pidfd_open, child, 0);
    watch->parent = ends[1];
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        gs_watch_run(watch);
    }
    int error = errno;
    close(ends[1]);
    if (watch->main_fd >= 0) {
        close(watch->main_fd);
    }
    if (pid < 0) {
        close(ends[0]);
        say_no_watcher(error);
        return -1;
    }
    return ends[0];
}

/* Tells the watcher how the command ended, and waits for the reports. Without an answer
 * nothing is bad. */
static struct gs_watch_answer hear_watcher(int to_watcher, int status)
{
    const struct gs_watch_answer none = {.cuda = true};
    struct gs_watch_answer answer;
    struct pollfd one = {to_watcher, POLLIN, 0};
    if (to_watcher < 0) {
        return none;
    }
    if (send(to_watcher, &status, sizeof(status), MSG_NOSIGNAL) == sizeof(status) &&
        poll(&one, 1, ANSWER_MS) == 1 &&
        recv(to_watcher, &answer, sizeof(answer), MSG_DONTWAIT) ==
            (ssize_t)sizeof(answer)) {
        return answer;
    }
    gs_launcher_warn("the watcher has not answered: reports not yet written are lost");
    return none;
}

/* A run without a CUDA call has passed no check, and whoever waits for its report at a
 * terminal would wonder. In scripts such runs may be many, and stay silent. */
static void say_no_cuda(const struct gs_arguments *arguments, int status)
{
    const char *rules = file_of_rules();
    if (status != 0 && !arguments->summary) {
        gs_launcher_warn("no CUDA call was seen, so nothing was checked%s",
                         arguments->error_no_cuda ? "" : " (--error-no-cuda: an error)");
    }
    if (rules) {
        gs_launcher_warn("GPUSHIM_WRITE_SUPPRESSIONS=%.400s: no CUDA call was seen; no "
                         "rule is added",
                         rules);
    }
    if (status == 0 && !rules && !arguments->summary && isatty(STDERR_FILENO) &&
        gs_value_now(GS_OPTION_ROW_verbose) != 0) {
        gs_launcher_warn("no CUDA call was seen: there is nothing to report");
    }
}

/* The exit status of GPUSHIM_ERROR_EXITCODE if it is due; 0: it is not. */
static int error_status(const struct gs_watch_answer *answer,
                        const struct gs_arguments *arguments)
{
    int status = (int)gs_value_now(GS_OPTION_ROW_error_exitcode);
    if (!answer->cuda) {
        say_no_cuda(arguments, status);
    }
    bool missing = arguments->error_no_cuda && !answer->cuda;
    return answer->bad || missing ? status : 0;
}

/* Returns only if there is no process for the command. */
static void stay(const struct gs_command *command, const struct gs_arguments *arguments,
                 struct gs_watch *watch)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    struct sigaction children;
    sigset_t all, before;
    siginfo_t info;
    pid_t launcher = getpid();
    int status = 0;
    sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, &before); /* none is lost until both are ready */
    (void)sigaction(SIGCHLD, &plain, &children);
    watched = mmap(NULL, sizeof(*watched), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    watched = watched == MAP_FAILED ? NULL : watched; /* then it is not waited for */
    child = fork();
    if (child < 0) {
        gs_launcher_warn(
            "no process can be started for the command: %s; the command replaces the "
            "launcher, without --summary and with its own exit status",
            strerror(errno));
        (void)sigaction(SIGCHLD, &children, NULL);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        (void)unsetenv(GS_WATCH_VARIABLE);
        return;
    }
    if (child == 0) {
        become(command, arguments, &before, &children, launcher);
    }
    int to_watcher = watch->socket >= 0 ? start_watcher(watch) : -1;
    tell_child(watch->socket >= 0 && to_watcher < 0 ? NOT_WATCHED : WATCHED);
    if (watch->socket >= 0) {
        close(watch->socket);
    }
    while (!look_at_children(&status)) {
        if (sigwaitinfo(&all, &info) > 0) {
            pass_on(&info);
        }
    }
    const struct gs_watch_answer answer = hear_watcher(to_watcher, status);
    int error = error_status(&answer, arguments);
    if (error != 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        if (answer.bad > 0 && answer.bad != child) {
            gs_launcher_warn("the command ended with 0, and process %ld has leaks or "
                             "errors: exit status %d",
                             (long)answer.bad, error);
        }
        exit(error);
    }
    end_as(status);
}

void gs_run_command(const struct gs_command *command,
                    const struct gs_arguments *arguments)
{
    struct gs_watch watch = {
        .socket = -1, .summary = arguments->summary, .words = arguments->all};
    enum gs_watch_way way = way_of(arguments);
    bool opened = way != GS_WATCH_OFF && gs_watch_open(&watch);
    if (way == GS_WATCH_PARENT) {
        stay(command, arguments, &watch);
    }
    if (opened && way == GS_WATCH_BESIDE) {
        start_beside(&watch);
    }
    (void)setenv("LD_PRELOAD", arguments->preload, 1);
    gs_command_become(command, arguments->command);
}
