/*
 * watch_table.c - see watch_table.h.
 *
 * Owns: nothing; the table is the caller's.   Lock: none; one thread.
 */
#include "shim/tools/launcher/watch_table.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_grow.h"
#include "shim/settings/process_start.h"
#include "shim/tools/reader/state_open.h"

struct gs_watch_process *gs_watch_table_find(struct gs_watch_table *table, pid_t pid)
{
    for (size_t i = table->count; i-- > 0;) {
        if (table->processes[i].pid == pid && !table->processes[i].ended) {
            return &table->processes[i];
        }
    }
    return NULL;
}

struct gs_watch_process *gs_watch_table_add(struct gs_watch_table *table, pid_t pid,
                                            int pidfd)
{
    if (!gs_grow(&table->processes, table->count, &table->room,
                 sizeof(*table->processes))) {
        return NULL;
    }
    struct gs_watch_process *process = &table->processes[table->count++];
    *process = (struct gs_watch_process){
        .pid = pid, .pidfd = pidfd >= 0 ? pidfd : (int)syscall(SYS_pidfd_open, pid, 0)};
    if (gs_process_start(pid, &process->start) != GS_OK) {
        process->start = 0; /* it has ended */
    }
    return process;
}

size_t gs_watch_table_live(const struct gs_watch_table *table)
{
    size_t live = 0;
    for (size_t i = 0; i < table->count; i++) {
        live += !table->processes[i].ended;
    }
    return live;
}

bool gs_watch_table_quiet(const struct gs_watch_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        for (struct gs_watch_row *row = table->processes[i].rows; row; row = row->next) {
            if (row->stage == GS_WATCH_DUE || row->stage == GS_WATCH_WRITING) {
                return false;
            }
        }
    }
    return true;
}

bool gs_watch_process_ended(const struct gs_watch_process *process)
{
    struct pollfd one = {process->pidfd, POLLIN, 0};
    if (process->pidfd >= 0) {
        return poll(&one, 1, 0) == 1;
    }
    uint64_t start;
    if (gs_process_start(process->pid, &start) == GS_OK) {
        return start != process->start;
    }
    /* What cannot be seen has ended, where /proc can be read at all. */
    return gs_process_self() > 0 || (kill(process->pid, 0) != 0 && errno == ESRCH);
}

void gs_watch_table_bad(struct gs_watch_table *table, pid_t pid)
{
    table->bad = table->bad ? table->bad : pid;
}

void gs_watch_process_settle(struct gs_watch_table *table,
                             struct gs_watch_process *process, bool ended)
{
    struct gs_state_process is;
    for (struct gs_watch_row *row = process->rows; row; row = row->next) {
        if (row->stage != GS_WATCH_KEPT) {
            continue;
        }
        bool read = gs_watch_process_of(&row->state, &is);
        if (read && is.ending[0]) {
            row->stage = GS_WATCH_DONE;
            if (is.bad) {
                gs_watch_table_bad(table, process->pid);
            }
        } else if (ended) {
            row->stage = read ? GS_WATCH_DUE : GS_WATCH_DONE;
        }
    }
}

static void forget_state(struct gs_watch_state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        close(state->pieces[i].fd);
    }
    free(state->pieces);
    free(state->text);
    state->pieces = NULL;
    state->text = NULL;
    state->count = 0;
}

static void drop_rows(struct gs_watch_process *process)
{
    for (struct gs_watch_row **at = &process->rows; *at;) {
        struct gs_watch_row *row = *at;
        if (row->stage != GS_WATCH_DONE) {
            at = &row->next;
            continue;
        }
        forget_state(&row->state);
        *at = row->next;
        free(row);
    }
}

void gs_watch_table_drop(struct gs_watch_table *table)
{
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++) {
        struct gs_watch_process *process = &table->processes[i];
        drop_rows(process);
        if (process->is_main || !process->ended || process->rows) {
            table->processes[kept++] = *process;
        }
    }
    table->count = kept;
}
