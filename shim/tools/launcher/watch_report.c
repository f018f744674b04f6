/*
 * watch_report.c - the report of a process that ended without one, from the state that it
 * sent, in the settings that it had.
 *
 * Owns: nothing.   Lock: none; one thread, in a process of its own.
 */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/settings/log_pattern.h"
#include "shim/statefile/watch_message.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/launcher/watch.h"
#include "shim/tools/reader/state_open.h"

/* A report that takes longer is given up. */
#define LIMIT_S 120

/* ---- the bytes --------------------------------------------------------------------- */

/* Reads up to `bytes`; returns how many there were. */
static size_t read_at(int fd, char *out, size_t bytes, off_t offset)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(fd, out + done, bytes - done, offset + (off_t)done);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            break;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return done;
}

static size_t size_of(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && info.st_size > 0 ? (size_t)info.st_size : 0;
}

/* The header's own count bounds what is read: pieces are longer than what is in them. */
char *gs_watch_gather(const struct gs_watch_state *state, size_t *length)
{
    struct gs_state_header header;
    size_t total = 0;
    *length = 0;
    for (size_t i = 0; i < state->count; i++) {
        size_t end = state->pieces[i].offset + size_of(state->pieces[i].fd);
        total = end > total ? end : total;
    }
    if (!state->whole && state->count &&
        read_at(state->pieces[0].fd, (char *)&header, sizeof(header), 0) ==
            sizeof(header) &&
        header.used < total) {
        total = (size_t)header.used;
    }
    char *bytes = total ? aligned_alloc(4096, gs_round_up(total + 1, 4096)) : NULL;
    for (size_t i = 0; bytes && i < state->count; i++) {
        uint64_t offset = state->pieces[i].offset;
        if (offset != *length || offset >= total) {
            break; /* one is missing, or nothing is in it yet */
        }
        *length += read_at(state->pieces[i].fd, bytes + offset, total - offset, 0);
    }
    return bytes;
}

bool gs_watch_process_of(const struct gs_watch_state *state, struct gs_state_process *out)
{
    struct gs_state_header header;
    if (!state->count || read_at(state->pieces[0].fd, (char *)&header, sizeof(header),
                                 0) != sizeof(header)) {
        return false;
    }
    *out = header.process;
    out->ending[sizeof(out->ending) - 1] = '\0';
    out->program[sizeof(out->program) - 1] = '\0';
    return true;
}

/* ---- the process's place ----------------------------------------------------------- */

/* The process has given up rights: its files are opened without them, too. */
static bool take_user(const struct gs_watch_state *state)
{
    return state->user == geteuid() ||
           (setgroups(0, NULL) == 0 &&
            setresgid(state->group, state->group, state->group) == 0 &&
            setresuid(state->user, state->user, state->user) == 0);
}

/* Sets the variables and the folder that the process had. */
static void take_settings(const struct gs_watch_state *state)
{
    static char *kept[1024];
    size_t count = 0;
    for (char **entry = environ; *entry && count < GS_ARRAY_LEN(kept) - 1; entry++) {
        if (strncmp(*entry, "GPUSHIM_", 8) != 0 &&
            strncmp(*entry, GS_WATCH_VARIABLE, strlen(GS_WATCH_VARIABLE)) != 0) {
            kept[count++] = *entry;
        }
    }
    const char *end = state->text + state->text_bytes;
    for (char *entry = state->text; entry && entry < end; entry += strlen(entry) + 1) {
        if (entry[0] == '=') {
            if (chdir(entry + 1) != 0) {
                continue; /* its files have whole names */
            }
        } else if (count < GS_ARRAY_LEN(kept) - 1) {
            kept[count++] = entry;
        }
    }
    environ = kept;
}

/* glibc names signals since 2.32; the command runs with 2.28. */
static const char *signal_name(int number)
{
#define ROW(name) [SIG##name] = "SIG" #name
    static const char *const names[] = {
        ROW(HUP),  ROW(INT),    ROW(QUIT), ROW(ILL),  ROW(TRAP), ROW(ABRT),
        ROW(BUS),  ROW(FPE),    ROW(KILL), ROW(USR1), ROW(SEGV), ROW(USR2),
        ROW(PIPE), ROW(ALRM),   ROW(TERM), ROW(XCPU), ROW(XFSZ), ROW(VTALRM),
        ROW(PROF), ROW(STKFLT), ROW(IO),   ROW(PWR),  ROW(SYS)};
#undef ROW
    return (size_t)number < GS_ARRAY_LEN(names) ? names[number] : NULL;
}

const char *gs_watch_end_text(const struct gs_watch_end *end,
                              char out[GS_WATCH_END_BYTES])
{
    if (!end->known) {
        return NULL;
    }
    if (WIFSIGNALED(end->status)) {
        const char *name = signal_name(WTERMSIG(end->status));
        if (name) {
            (void)snprintf(out, GS_WATCH_END_BYTES, "killed by %s", name);
        } else {
            (void)snprintf(out, GS_WATCH_END_BYTES, "killed by signal %d",
                           WTERMSIG(end->status));
        }
    } else {
        (void)snprintf(out, GS_WATCH_END_BYTES, "exit_group %d",
                       WEXITSTATUS(end->status));
    }
    return out;
}

/* Adds to a state file how its process ended, for later readers. */
static void record_end(const struct gs_watch_state *state, const struct gs_state_end *end)
{
    struct gs_state_process seen = {.seen_unix_ms = end->unix_ms};
    const size_t text = offsetof(struct gs_state_header, process.seen_ending);
    const size_t time = offsetof(struct gs_state_header, process.seen_unix_ms);
    static_assert(sizeof(seen.seen_ending) == GS_WATCH_END_BYTES, "it has room");
    if (!state->whole || !end->text) {
        return;
    }
    (void)snprintf(seen.seen_ending, sizeof(seen.seen_ending), "%s", end->text);
    int fd = state->pieces[0].fd;
    if (pwrite(fd, &seen.seen_unix_ms, sizeof(seen.seen_unix_ms), (off_t)time) > 0) {
        (void)!pwrite(fd, seen.seen_ending, sizeof(seen.seen_ending), (off_t)text);
    }
}

int gs_watch_report(const struct gs_watch_state *state, const struct gs_watch_end *end)
{
    struct gs_state_process process;
    char text[GS_WATCH_END_BYTES];
    struct gs_state_end ending = {.text = gs_watch_end_text(end, text),
                                  .unix_ms = end->unix_ms};
    if (ending.text && WIFSIGNALED(end->status)) {
        ending.signal = text + strlen("killed by ");
    }
    sigset_t none;
    bool bad = false;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)alarm(LIMIT_S);
    if (!take_user(state) || !gs_watch_process_of(state, &process)) {
        return GS_WATCH_UNREADABLE;
    }
    record_end(state, &ending);
    take_settings(state);
    gs_log_pattern_start(process.start_time);
    gs_log_pattern_of_process((pid_t)process.pid);
    const char *slash = strrchr(process.program, '/');
    if (slash) {
        program_invocation_short_name = (char *)(uintptr_t)slash + 1;
    }
    size_t length;
    char *bytes = gs_watch_gather(state, &length);
    if (!bytes || !gs_state_report_ended(bytes, length, &ending, &bad)) {
        return GS_WATCH_UNREADABLE;
    }
    return bad ? GS_WATCH_BAD : GS_WATCH_CLEAN;
}
