/*
 * watch_table.h - the processes that are watched, with the states that they sent.
 *
 * A process is in the table until it has ended and its reports are written; the command
 * itself, the first row, to the end.
 *
 * Locks: none; one thread.
 */
#ifndef GS_WATCH_TABLE_H
#define GS_WATCH_TABLE_H

#include "shim/tools/launcher/watch.h"

enum gs_watch_stage { GS_WATCH_KEPT, GS_WATCH_DUE, GS_WATCH_WRITING, GS_WATCH_DONE };

struct gs_watch_row {
    struct gs_watch_state state;
    struct gs_watch_row *next; /* the process's next */
    enum gs_watch_stage stage;
    pid_t reporter;
};

struct gs_watch_process {
    pid_t pid;
    int pidfd;           /* -1: none */
    uint64_t start;      /* for a process without pidfd */
    bool is_main, ended; /* the command's own */
    struct gs_watch_end end;
    struct gs_watch_row *rows; /* its states */
};

/* Rows move when a process is added or dropped. */
struct gs_watch_table {
    struct gs_watch_process *processes;
    size_t count, room;
    bool received; /* some process has sent a state: it made a CUDA call */
    pid_t bad;     /* the first process whose report has leaks or errors; 0: none */
};

/* The process that has not ended; NULL: none. */
struct gs_watch_process *gs_watch_table_find(struct gs_watch_table *table, pid_t pid);

/* pidfd: -1: opened here. NULL: no memory. */
struct gs_watch_process *gs_watch_table_add(struct gs_watch_table *table, pid_t pid,
                                            int pidfd);

/* How many have not ended. */
size_t gs_watch_table_live(const struct gs_watch_table *table);

/* Whether no report is due or being written. */
bool gs_watch_table_quiet(const struct gs_watch_table *table);

/* Whether the process has ended. */
bool gs_watch_process_ended(const struct gs_watch_process *process);

/* A state whose process, or image, has reported itself is done; any other one is due if
 * `ended`. */
void gs_watch_process_settle(struct gs_watch_table *table,
                             struct gs_watch_process *process, bool ended);

/* A report of the process has leaks or errors. */
void gs_watch_table_bad(struct gs_watch_table *table, pid_t pid);

/* Closes and frees what nothing needs any more: the memory of states that are done, and
 * processes that have ended without other ones. */
void gs_watch_table_drop(struct gs_watch_table *table);

/* ---- messages (watch_messages.c) ---- */

/* Takes what was sent until now to the socket of gs_watch_open. */
void gs_watch_receive(struct gs_watch_table *table, int socket);

/* ---- the watcher's place (watch_place.c) ---- */

/* Leaves the launcher's session, descriptors, folder and name; `config` has the new
 * numbers of its descriptors. */
void gs_watch_take_place(struct gs_watch *config);

#endif
