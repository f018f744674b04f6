/*
 * watch.h - the watcher: a process that keeps the states of the command's processes, and
 * writes the report of each one that could not.
 *
 * Locks: none; one thread.   Design: docs/state.md, "Reports that the command writes"
 */
#ifndef GS_WATCH_H
#define GS_WATCH_H

#include <sys/types.h>

#include "gs_base.h"

/* What the watcher says of the command when it has ended. */
struct gs_watch_answer {
    pid_t bad; /* the first process whose report has leaks or errors; 0: none */
    bool cuda; /* some process made a CUDA call */
};

struct gs_watch {
    int socket;   /* where processes send their states */
    int main_fd;  /* a pidfd of the command; -1: the kernel has none */
    pid_t main;   /* the command */
    int parent;   /* a socket to the launcher, which waits: it sends the status of the
                   * command, as waitpid has it, and gets an answer. -1: there is none */
    char **words; /* the launcher's, which the watcher must not be found by */
    bool summary; /* a line for each process when the command has ended */
};

/* Makes the socket, and names it in the environment. False: not possible; it is said. */
bool gs_watch_open(struct gs_watch *watch);

/* Watches until the command and all its processes have ended. Runs in a process of its
 * own. */
__attribute__((noreturn)) void gs_watch_run(const struct gs_watch *watch);

/* ---- one report (watch_report.c) ---- */

struct gs_watch_piece {
    int fd;
    uint64_t offset;
};

/* A state that was sent. */
struct gs_watch_state {
    uint64_t key;
    struct gs_watch_piece *pieces;
    size_t count;
    bool whole; /* one piece, a file */
    char *text; /* of struct gs_watch_head */
    size_t text_bytes;
    pid_t pid; /* the process, its user and group */
    uid_t user;
    gid_t group;
};

/* How a process ended, if the watcher knows. */
struct gs_watch_end {
    bool known;
    int status;       /* as waitpid has it */
    uint64_t unix_ms; /* when the watcher saw it; 0: not yet */
};

/* "killed by SIGABRT", "exit_group 3"; NULL: not known. Returns `out`. */
#define GS_WATCH_END_BYTES 64
const char *gs_watch_end_text(const struct gs_watch_end *end,
                              char out[GS_WATCH_END_BYTES]);

/* Statuses of the process that writes a report. */
enum { GS_WATCH_CLEAN = 0, GS_WATCH_UNREADABLE = 1, GS_WATCH_BAD = 2 };

/* Writes the report of an ended process to its log. Runs in a process of its own; returns
 * its exit status. */
int gs_watch_report(const struct gs_watch_state *state, const struct gs_watch_end *end);

/* The state's bytes, from malloc; NULL: no memory, or nothing can be read. */
char *gs_watch_gather(const struct gs_watch_state *state, size_t *length);

/* What the state says of its end. False: it cannot be read. */
struct gs_state_process;
bool gs_watch_process_of(const struct gs_watch_state *state,
                         struct gs_state_process *out);

/* ---- processes (watch_processes.c) ---- */

/* How an ended process ended, by its pidfd or while it is a zombie. */
void gs_watch_find_end(pid_t pid, int pidfd, struct gs_watch_end *out);

/* Calls `found` for each process of this user whose environment at its start names the
 * watcher's socket. */
void gs_watch_find_processes(void (*found)(void *self, pid_t pid), void *self);

/* Whether one of the first three descriptors of a process is the file that is this
 * process's standard error. */
bool gs_watch_shares_stderr(pid_t pid);

#endif
