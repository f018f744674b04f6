/*
 * trace.c - gpushim trace PID FILE: a trace of a process that runs already.
 *
 * The process writes the trace itself, in its own view of the file system, and the call
 * stacks once the trace has ended.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/traces.md
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_wait.h"
#include "shim/settings/output.h"
#include "shim/settings/process_start.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/reader/ask.h"
#include "shim/tools/reader/ask_why.h"
#include "shim/tools/reader/living_thread.h"
#include "shim/tools/replay/replay_trace.h"

#define DEFAULT_WAIT_S 10
#define MOST_WAIT_S    3600
#define MOST_STAY_S    86400
/* How soon Ctrl-C and the process's end are seen. */
#define NAP_NS 50000000ull
/* A name for the process's folder /tmp. */
#define PLACE "/tmp/gpushim-trace."

struct recording {
    pid_t pid;
    unsigned wait_ms;
    bool elsewhere;        /* the process has another view of the file system */
    char wanted[PATH_MAX]; /* absolute, as this command sees it */
    char path[PATH_MAX];   /* as the process sees it */
    const char *shown;     /* what the user calls it */
};

static volatile sig_atomic_t interrupted;

/* Asks the process. Returns whether it has answered; if not, answer->problem says why. */
static bool try_to_ask(const struct recording *recording, const char *request,
                       struct gs_ask_answer *answer)
{
    struct gs_ask_thread thread;
    *answer = (struct gs_ask_answer){.problem = gs_ask_find(recording->pid, &thread)};
    if (!answer->problem && gs_ask(&thread, request, recording->wait_ms, answer)) {
        return true;
    }
    if (answer->problem == gs_ask_gone) {
        answer->problem = gs_ask_why_none(recording->pid);
    }
    return false;
}

/* Asks the process. The text is from malloc; NULL: a line says why there is none. What
 * was attached to answers from its next CUDA call on. */
static struct gs_ask_answer ask(const struct recording *recording, const char *request)
{
    const uint64_t wait_ns = recording->wait_ms * UINT64_C(1000000);
    struct gs_wait wait = {.nap_ns = NAP_NS, .until_ns = gs_now_ns() + wait_ns};
    struct gs_ask_answer answer;
    bool answered;
    while (!(answered = try_to_ask(recording, request, &answer)) &&
           (answer.problem == gs_ask_no_context || answer.problem == gs_ask_no_call) &&
           !interrupted && gs_wait_step(&wait)) {
    }
    if (answered && !answer.refused) {
        return answer;
    }
    if (answered) {
        answer.problem = answer.text;
    }
    gs_launcher_warn("process %ld: %s", (long)recording->pid, answer.problem);
    free(answer.text);
    answer.text = NULL;
    return answer;
}

/* ---- the file ---------------------------------------------------------------------- */

/* Returns whether the file's folder is another one in the process's view. */
static bool is_elsewhere(const struct recording *recording)
{
    char folder[PATH_MAX], path[PATH_MAX + 64];
    struct stat theirs, own;
    (void)snprintf(folder, sizeof(folder), "%.*s",
                   (int)(strrchr(recording->wanted, '/') + 1 - recording->wanted),
                   recording->wanted);
    (void)snprintf(path, sizeof(path), "/proc/%ld/root%s",
                   (long)gs_living_thread(recording->pid), folder);
    return stat(folder, &own) == 0 &&
           (stat(path, &theirs) != 0 || theirs.st_dev != own.st_dev ||
            theirs.st_ino != own.st_ino);
}

/* Ends the command if the file's path cannot be made absolute. */
static void choose_path(struct recording *recording, const char *file)
{
    char folder[PATH_MAX] = "";
    int length;
    if (file[0] != '/' && !getcwd(folder, sizeof(folder))) {
        gs_launcher_fail(1, "the working directory: %s", strerror(errno));
    }
    length = snprintf(recording->wanted, PATH_MAX, "%s%s%s", folder,
                      file[0] == '/' ? "" : "/", file);
    if (length < 0 || length >= GS_CONTROL_REQUEST_BYTES - 32 || strchr(file, '\n') ||
        file[0] == '\0') {
        gs_launcher_fail(GS_EXIT_USAGE, "trace: no name of a file: %.200s", file);
    }
    if (access(recording->wanted, F_OK) == 0) {
        gs_launcher_fail(GS_EXIT_USAGE, "trace: %.600s: exists; name a new file", file);
    }
    recording->shown = file;
    recording->elsewhere = is_elsewhere(recording);
    if (recording->elsewhere) {
        (void)snprintf(recording->path, PATH_MAX, PLACE "%ld", (long)getpid());
    } else {
        (void)memcpy(recording->path, recording->wanted, PATH_MAX);
    }
}

/* Makes a new file of the command's. Returns -1 after a line. */
static int create(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        gs_launcher_warn("%.600s: %s", path, gs_output_error_text(errno));
    }
    return fd;
}

/* Opens a file in the process's view of the file system, whose links may lead anywhere:
 * it must be the process's own. Returns -1 if there is none. */
static int open_theirs(const struct recording *recording, const char *path)
{
    char process[48];
    struct stat owner, file;
    (void)snprintf(process, sizeof(process), "/proc/%ld", (long)recording->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && (stat(process, &owner) != 0 || fstat(fd, &file) != 0 ||
                    !S_ISREG(file.st_mode) || file.st_uid != owner.st_uid)) {
        gs_launcher_warn("%.600s: not a file of the process", path);
        close(fd);
        return -1;
    }
    return fd;
}

/* Copies a file from the process's view of the file system, where it then is no more.
 * Returns false, after a line, if it does not; also if there is none, without. */
static bool fetch(const struct recording *recording, const char *extension)
{
    char from[PATH_MAX + 64], to[PATH_MAX + 8];
    ssize_t sent = 1;
    (void)snprintf(from, sizeof(from), "/proc/%ld/root%s%s",
                   (long)gs_living_thread(recording->pid), recording->path, extension);
    (void)snprintf(to, sizeof(to), "%s%s", recording->wanted, extension);
    int in = open_theirs(recording, from);
    if (in < 0) {
        return false;
    }
    int out = create(to);
    while (out >= 0 && (sent = sendfile(out, in, NULL, 1 << 30)) > 0) {
    }
    if (sent < 0) {
        gs_launcher_warn("%.600s: %s", to, gs_output_error_text(errno));
    }
    close(in);
    bool copied = out >= 0 && sent == 0 && close(out) == 0;
    if (copied) {
        (void)unlink(from);
    }
    return copied;
}

/* ---- the time ---------------------------------------------------------------------- */

static void interrupt(int unused)
{
    (void)unused;
    interrupted = 1;
}

static void catch_signals(void)
{
    const struct sigaction action = {.sa_handler = interrupt};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}

static bool exists(pid_t pid)
{
    uint64_t start;
    return gs_process_start(pid, &start) == GS_OK;
}

/* Waits until it is over. seconds 0: until Ctrl-C, or the process's end. */
static void stay(pid_t pid, unsigned long seconds)
{
    const uint64_t end_ns = gs_now_ns() + seconds * UINT64_C(1000000000);
    while (!interrupted && exists(pid) && (seconds == 0 || gs_now_ns() < end_ns)) {
        gs_nap(NAP_NS);
    }
}

/* ---- the command ------------------------------------------------------------------- */

/* Writes the request: the path as a pattern, in which a percent sign is doubled. */
static void put_start(const char *path, char *out, const char *end)
{
    static const char words[] = "trace start ";
    (void)memcpy(out, words, strlen(words));
    for (out += strlen(words); *path && out + 2 < end; path++) {
        *out++ = *path;
        if (*path == '%') {
            *out++ = '%';
        }
    }
    *out = '\0';
}

/* Starts the recording. */
static bool start(struct recording *recording)
{
    char request[2 * PATH_MAX];
    put_start(recording->path, request, request + sizeof(request));
    struct gs_ask_answer answer = ask(recording, request);
    bool same = answer.text && strcmp(answer.text, recording->path) == 0;
    if (answer.text && !same && recording->elsewhere) {
        gs_launcher_warn("process %ld: it records in %.600s, which is not fetched",
                         (long)recording->pid, answer.text);
    } else if (answer.text && !same) { /* the file was created just now */
        (void)snprintf(recording->wanted, PATH_MAX, "%s", answer.text);
        recording->shown = recording->wanted;
        same = true;
    }
    free(answer.text);
    return same;
}

/* Ends the recording, and says what there is. The process may have ended before: then
 * it has written both files itself. */
static bool finish(const struct recording *recording)
{
    char stacks[PATH_MAX + 8];
    struct gs_ask_answer answer = {0};
    bool ended = !exists(recording->pid);
    if (!ended) {
        answer = ask(recording, "trace stop");
        ended = answer.text != NULL;
        free(answer.text);
    }
    if (ended && recording->elsewhere) {
        (void)fetch(recording, "");
        (void)fetch(recording, ".state");
    }
    (void)snprintf(stacks, sizeof(stacks), "%s.state", recording->wanted);
    bool has_trace = access(recording->wanted, F_OK) == 0;
    bool has_stacks = access(stacks, F_OK) == 0;
    if (!has_trace) {
        gs_launcher_warn("process %ld: it left no trace", (long)recording->pid);
    } else if (has_stacks) {
        printf("%ld: %s, with call stacks in %s.state\n", (long)recording->pid,
               recording->shown, recording->shown);
    } else {
        printf("%ld: %s, without call stacks\n", (long)recording->pid, recording->shown);
    }
    return ended && has_trace && has_stacks;
}

int gs_trace_run(const struct gs_arguments *arguments)
{
    static struct recording recording;
    char **words = arguments->command;
    if (!words[0] || !words[1]) {
        gs_help_refuse(GS_VERB_TRACE, "trace: no %s is given",
                       words[0] ? "FILE" : "PID or NAME");
    }
    if (words[2]) {
        gs_help_refuse(GS_VERB_TRACE, "trace takes one process and one FILE, not %.200s",
                       words[2]);
    }
    if (arguments->every) {
        gs_help_refuse(GS_VERB_TRACE, "trace takes one process, not --all");
    }
    recording.wait_ms =
        1000 * (unsigned)(arguments->wait
                              ? gs_value_number("--wait", arguments->wait, 1, MOST_WAIT_S)
                              : DEFAULT_WAIT_S);
    unsigned long seconds =
        arguments->stay ? gs_value_number("--for", arguments->stay, 1, MOST_STAY_S) : 0;
    recording.pid = gs_request_process(words[0]);
    if (!recording.pid) {
        return 1;
    }
    choose_path(&recording, words[1]);
    catch_signals();
    if (!start(&recording)) {
        return 1;
    }
    if (seconds == 0 && isatty(STDERR_FILENO)) {
        gs_launcher_warn("recording process %ld; Ctrl-C ends it", (long)recording.pid);
    }
    stay(recording.pid, seconds);
    return gs_replay_end(finish(&recording) ? 0 : 1);
}
