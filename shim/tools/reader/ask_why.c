/*
 * ask_why.c - see ask_why.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/reader/ask_why.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gs_read_text.h"
#include "shim/settings/process_start.h"
#include "shim/statefile/control_message.h"
#include "shim/tools/reader/ask.h"
#include "shim/tools/reader/living_thread.h"

#define WITH_ON                                                                          \
    "start it with GPUSHIM_CONTROL=on if the filter allows rt_sigtimedwait, shmctl, "    \
    "shmat and shmdt"

const char gs_ask_no_context[] = "it has no CUDA context";
const char gs_ask_no_call[] = "it has made no CUDA call since gpushim attach";

const char gs_ask_other_proc[] = "/proc is that of another PID namespace";

const char gs_ask_filtered[] =
    "it has installed a seccomp filter, which may end it for an answer: " WITH_ON;

bool gs_ask_has_library(pid_t pid, bool *readable)
{
    char path[64], *line = NULL;
    size_t room = 0;
    bool found = false;
    (void)snprintf(path, sizeof(path), "/proc/%ld/maps", (long)gs_living_thread(pid));
    FILE *maps = fopen(path, "re");
    *readable = maps && getline(&line, &room, maps) > 0;
    while (*readable && !found && getline(&line, &room, maps) > 0) {
        found = strstr(line, "/libgpushim.so") != NULL;
    }
    if (maps) {
        (void)fclose(maps);
    }
    free(line);
    return found;
}

bool gs_ask_lacks_addresses(pid_t pid, size_t bytes)
{
    char path[64], text[64];
    struct rlimit limit;
    if (prlimit(pid, RLIMIT_AS, NULL, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return false;
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld/statm", (long)gs_living_thread(pid));
    (void)gs_read_text(path, text, sizeof(text));
    return strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) + bytes >
           limit.rlim_cur;
}

/* Returns whether a switch was off in the environment that the process started with. */
static bool is_off(pid_t pid, const char *variable)
{
    static const char *const words[] = {"off", "0", "no", "false"};
    char path[64], *entry = NULL;
    size_t room = 0, length = strlen(variable);
    bool off = false;
    (void)snprintf(path, sizeof(path), "/proc/%ld/environ", (long)gs_living_thread(pid));
    FILE *environment = fopen(path, "re");
    while (environment && getdelim(&entry, &room, '\0', environment) > 0) {
        if (strncmp(entry, variable, length) != 0 || entry[length] != '=') {
            continue;
        }
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            off |= strcasecmp(entry + length + 1, words[i]) == 0;
        }
    }
    if (environment) {
        (void)fclose(environment);
    }
    free(entry);
    return off;
}

/* Returns whether the process may have been started with the library. */
static bool is_preloaded(pid_t pid)
{
    static char text[1 << 16]; /* one thread asks */
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%ld/environ", (long)gs_living_thread(pid));
    size_t length = gs_read_text(path, text, sizeof(text));
    bool found = memmem(text, length, "libgpushim", strlen("libgpushim")) != NULL;
    (void)snprintf(path, sizeof(path), "/proc/%ld/root/etc/ld.so.preload",
                   (long)gs_living_thread(pid));
    return found || access(path, F_OK) == 0;
}

bool gs_ask_was_preloaded(pid_t pid)
{
    static const char preload[] = "LD_PRELOAD=";
    char path[64], *entry = NULL;
    size_t room = 0;
    bool found = false;
    (void)snprintf(path, sizeof(path), "/proc/%ld/environ", (long)gs_living_thread(pid));
    FILE *environment = fopen(path, "re");
    while (environment && getdelim(&entry, &room, '\0', environment) > 0) {
        found |= strncmp(entry, preload, strlen(preload)) == 0 &&
                 strstr(entry, "libgpushim.so") != NULL;
    }
    if (environment) {
        (void)fclose(environment);
    }
    free(entry);
    return found;
}

static bool is_filtered(pid_t pid)
{
    static char status[4096]; /* one thread asks */
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    (void)gs_read_text(path, status, sizeof(status));
    unsigned filters = gs_control_filters(status);
    (void)gs_read_text("/proc/1/status", status, sizeof(status));
    return filters > gs_control_filters(status);
}

/* Returns whether the process runs the command gpushim. */
static bool is_launcher(pid_t pid)
{
    static char program[PATH_MAX]; /* one thread asks */
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%ld/exe", (long)gs_living_thread(pid));
    ssize_t length = readlink(path, program, sizeof(program) - 1);
    program[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(program, '/');
    return slash && strcmp(slash, "/gpushim") == 0;
}

const char *gs_ask_why_launcher(pid_t pid)
{
    static char why[96], children[4096]; /* one thread asks */
    char path[64];
    if (!is_launcher(pid)) {
        return NULL;
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", (long)pid,
                   (long)pid);
    (void)gs_read_text(path, children, sizeof(children));
    (void)strcpy(why, "it is gpushim itself");
    for (char *at = children, *end; *at; at = end + (*end == ' ')) {
        long child = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        if (!is_launcher((pid_t)child)) { /* nor one that writes a report */
            (void)snprintf(why, sizeof(why),
                           "it is gpushim itself; its program is process %ld", child);
            break;
        }
    }
    return why;
}

const char *gs_ask_why_none(pid_t pid)
{
    uint64_t unused;
    bool readable;
    if (gs_process_self() != getpid()) {
        return gs_ask_other_proc;
    }
    if (gs_process_start(pid, &unused) != GS_OK) {
        return "no such process";
    }
    bool preloaded = gs_ask_has_library(pid, &readable);
    if (!readable && geteuid() != 0) {
        return gs_ask_foreign;
    }
    if (!preloaded) {
        const char *launcher = gs_ask_why_launcher(pid);
        return launcher ? launcher
                        : "it runs without libgpushim.so (gpushim attach "
                          "records it from now on)";
    }
    if (is_off(pid, "GPUSHIM_ENABLE")) {
        return "it was started with GPUSHIM_ENABLE=off";
    }
    if (is_off(pid, "GPUSHIM_CONTROL")) {
        return "it was started with GPUSHIM_CONTROL=off";
    }
    if (is_filtered(pid)) {
        return "it has no CUDA context, or a seccomp filter that may end it for an "
               "answer: " WITH_ON;
    }
    return is_preloaded(pid) ? gs_ask_no_context : gs_ask_no_call;
}
