/*
 * summary.c - runs a command as a child and summarizes its processes when it has ended.
 *
 * Each process has a state file in a folder of the run, so that processes which were
 * killed are in the summary as well.
 *
 * Owns: the folder of the run.   Lock: none; one thread.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher.h"
#include "options.h"
#include "options_table.h"
#include "process_table.h"

#define FOLDER_BYTES 1024

/* Signals that the command gets, too. */
static const int passed_on[] = {SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT};
static volatile pid_t child;

static void pass_on(int signal)
{
    int before = errno;
    if (child > 0) {
        (void)kill(child, signal);
    }
    errno = before;
}

/* Warns of the first variable with which nothing is recorded; returns whether there is
 * one. */
static bool records_nothing(void)
{
    static const size_t switches[] = {GS_OPTION_ROW_enable, GS_OPTION_ROW_track};
    for (size_t i = 0; i < GS_ARRAY_LEN(switches); i++) {
        const struct gs_option *option = &gs_options_table[switches[i]];
        const char *text = getenv(option->name);
        uint64_t value;
        if (text && gs_option_parse(option, text, &value) == GS_OK && value == 0) {
            gs_launcher_warn("--summary: with %s=%s nothing is recorded; none is written",
                             option->name, text);
            return true;
        }
    }
    return false;
}

static bool make_folder(char out[FOLDER_BYTES])
{
    const char *places[] = {getenv("TMPDIR"), "/tmp"};
    for (size_t i = 0; i < GS_ARRAY_LEN(places); i++) {
        if (places[i] && places[i][0] &&
            snprintf(out, FOLDER_BYTES, "%s/gpushim.XXXXXX", places[i]) < FOLDER_BYTES &&
            mkdtemp(out)) {
            return true;
        }
    }
    gs_launcher_warn("--summary: no folder can be made in %s (TMPDIR), nor in /tmp; none "
                     "is written",
                     places[0] ? places[0] : "/tmp");
    return false;
}

/* Becomes the command. */
__attribute__((noreturn)) static void become(const struct gs_command *command,
                                             char **words, const char *preload,
                                             const char *folder, const sigset_t *mask)
{
    char pattern[FOLDER_BYTES + 8];
    (void)snprintf(pattern, sizeof(pattern), "%s/%%p", folder);
    (void)setenv("GPUSHIM_STATE_FILE", pattern, 1);
    (void)setenv("LD_PRELOAD", preload, 1);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    gs_command_become(command, words);
    gs_launcher_warn("%s: %s", words[0], strerror(errno));
    _exit(errno == ENOENT ? GS_EXIT_NOT_FOUND : GS_EXIT_CANNOT_RUN);
}

/* Runs the command; returns its status, as waitpid has it, and its process id. */
static int run(const struct gs_command *command, char **words, const char *preload,
               const char *folder, pid_t *pid)
{
    struct sigaction pass = {.sa_handler = pass_on}, ignore = {.sa_handler = SIG_IGN};
    sigset_t all, before;
    int status = 0;
    sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, &before); /* none is lost until both are ready */
    child = fork();
    if (child < 0) {
        gs_launcher_fail(GS_EXIT_CANNOT_RUN, "no process can be made: %s",
                         strerror(errno));
    }
    if (child == 0) {
        become(command, words, preload, folder, &before);
    }
    *pid = child;
    for (size_t i = 0; i < GS_ARRAY_LEN(passed_on); i++) {
        (void)sigaction(passed_on[i], &pass, NULL);
    }
    /* From a terminal the command gets these two itself. */
    (void)sigaction(SIGINT, &ignore, NULL);
    (void)sigaction(SIGQUIT, &ignore, NULL);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    pid_t ended;
    do {
        ended = waitpid(child, &status, 0);
    } while (ended < 0 && errno == EINTR);
    /* Its process id may be another's from now on. */
    (void)sigaction(SIGHUP, &ignore, NULL);
    (void)sigaction(SIGTERM, &ignore, NULL);
    child = 0;
    return status;
}

/* Removes the folder and its files. */
static void remove_folder(const char *folder)
{
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        (void)unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries) {
        closedir(entries);
    }
    (void)rmdir(folder);
}

/* Writes the summary of the folder's files to stderr, and removes the folder. */
static void write_summary(char *folder, pid_t pid, int status)
{
    const struct gs_state_ended ended = {pid, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    char *const paths[] = {folder, NULL};
    if (rmdir(folder) == 0) {
        gs_launcher_warn("no process made a CUDA call");
        return;
    }
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    (void)gs_summary_write(paths, ended.signal ? &ended : NULL);
    remove_folder(folder);
}

/* Ends as the command did; a core file would be the launcher's, not the command's. */
__attribute__((noreturn)) static void end_as(int status)
{
    if (!WIFSIGNALED(status)) {
        exit(WEXITSTATUS(status));
    }
    const struct rlimit none = {0, 0};
    sigset_t one;
    int signal = WTERMSIG(status);
    (void)fflush(NULL);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    sigemptyset(&one);
    sigaddset(&one, signal);
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
    (void)raise(signal);
    exit(128 + signal);
}

void gs_summary_run(const struct gs_command *command, char **words, const char *preload)
{
    char folder[FOLDER_BYTES];
    const char *state_file = getenv("GPUSHIM_STATE_FILE");
    if (state_file && state_file[0]) {
        gs_launcher_fail(GS_EXIT_USAGE, "--summary and --state-file: one of them");
    }
    if (records_nothing() || !make_folder(folder)) {
        return;
    }
    pid_t pid = 0;
    int status = run(command, words, preload, folder, &pid);
    write_summary(folder, pid, status);
    end_as(status);
}
