/*
 * sched_tasks.c - the threads of the process as the kernel sees them.
 *
 * A task's stat file says whether it runs and how much processor time it had; a thread
 * that is woken is seen to run from the moment the waking system call returns. How many
 * threads there are is the number of links of /proc/self/task, one system call. Where
 * /proc is missing every task is said to sleep: programs still run, but a replay is not
 * exact.
 *
 * Owns:  the list of known tasks, the entries of strangers.   Lock: sim_hostile_lock.
 * Source: proc(5), /proc/pid/stat and /proc/pid/task.
 */
#include "sched_tasks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hosts.h"

#define LONG_TICKS   5 /* a thread that ran so long, 10 ms each, is not waited for */
#define MOST_THREADS 4194304 /* ids of threads are below that on every machine */

atomic_uint sim_tasks_watched; /* atomic */

static struct sim_task *tasks;   /* sim_hostile_lock; by age */
static unsigned known;           /* sim_hostile_lock: how many */
static int folder = -1;          /* sim_hostile_lock: /proc/self/task */
static unsigned links_of_folder; /* sim_hostile_lock: its links without any thread */

struct sim_task *sim_tasks_first(void)
{
    return tasks;
}

/* ---- the list -----------------------------------------------------------------------
 */

/* The place of a thread in the order in which they were made. The kernel counts ids up
 * and begins again at the lowest, at any moment of a process's life: counted from the id
 * of the process, which is that of its first thread, they go on to rise. */
static unsigned age(pid_t tid)
{
    return (unsigned)(tid - getpid()) % MOST_THREADS;
}

static struct sim_task **find(pid_t tid)
{
    struct sim_task **link = &tasks;
    unsigned wanted = age(tid);

    while (*link && age((*link)->tid) < wanted)
        link = &(*link)->next;
    return link;
}

void sim_task_watch(struct sim_task *task, bool watched)
{
    if (task->watched == watched)
        return;
    task->watched = watched;
    task->given_up = false;
    task->looked_at = false;
    if (watched)
        atomic_fetch_add_explicit(&sim_tasks_watched, 1, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&sim_tasks_watched, 1, memory_order_relaxed);
}

void sim_task_remove(struct sim_task *task)
{
    struct sim_task **link = find(task->tid);

    if (*link != task)
        return;
    sim_task_watch(task, false);
    *link = task->next;
    known--;
    if (task->fd >= 0)
        close(task->fd);
    task->fd = -1;
}

static void insert(struct sim_task *task, pid_t tid, enum sim_task_kind kind)
{
    struct sim_task **link = find(tid);

    if (*link && (*link)->tid == tid) {
        struct sim_task *before = *link;
        sim_task_remove(before); /* a stranger, or a thread that ended unseen */
        if (before->kind == SIM_TASK_STRANGER || before->kind == SIM_TASK_LEAVER)
            free(before);
        link = find(tid);
    }
    task->tid = tid;
    task->fd = -1;
    task->kind = kind;
    task->watched = false;
    task->next = *link;
    *link = task;
    known++;
}

void sim_task_add(struct sim_task *task, enum sim_task_kind kind)
{
    insert(task, (pid_t)syscall(SYS_gettid), kind);
}

/* ---- one task -----------------------------------------------------------------------
 */

static bool open_stat(struct sim_task *task)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)task->tid);
    task->fd = open(path, O_RDONLY | O_CLOEXEC);
    return task->fd >= 0;
}

/* The text of the stat file; empty if the task is gone or there is no such file. */
static void read_stat(struct sim_task *task, char *text, size_t room)
{
    for (unsigned attempt = 0; attempt < 2; attempt++) {
        text[0] = '\0';
        if (task->fd < 0 && !open_stat(task))
            return;
        ssize_t bytes = pread(task->fd, text, room - 1, 0);
        text[bytes > 0 ? bytes : 0] = '\0';
        if (bytes <= 0 && errno == ESRCH)
            return;
        if (bytes > 0 && strtol(text, NULL, 10) == task->tid)
            return;
        task->fd = -1; /* the program closed it, and may have another file there */
    }
    text[0] = '\0';
}

enum sim_task_state sim_task_look(struct sim_task *task)
{
    char text[512], *rest;
    int saved = errno;
    unsigned long user = 0, kernel = 0;
    char state = '?';

    read_stat(task, text, sizeof(text));
    errno = saved;
    rest = strrchr(text, ')'); /* the name before it may hold anything */
    if (!rest) { /* one that cannot be opened, for want of descriptors say, is not gone */
        snprintf(text, sizeof(text), "/proc/self/task/%d", (int)task->tid);
        bool gone = access("/proc/self/task", F_OK) == 0 && access(text, F_OK) != 0;
        errno = saved;
        return gone ? SIM_TASK_GONE : SIM_TASK_SLEEPS;
    }
    sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state, &user,
           &kernel);
    task->ticks = user + kernel;
    if (state == 'Z' || state == 'X' || state == 'x')
        return SIM_TASK_GONE;
    return state == 'R' || state == 'D' ? SIM_TASK_RUNS : SIM_TASK_SLEEPS;
}

/* ---- all of them --------------------------------------------------------------------
 */

/* A task that is gone: whoever knew it forgets it. */
static void forget(struct sim_task *task)
{
    sim_task_remove(task);
    if (task->kind != SIM_TASK_OWN)
        free(task);
}

static bool any_unsettled(bool first)
{
    bool unsettled = false;

    for (struct sim_task *task = tasks, *next; task; task = next) {
        next = task->next;
        if (!task->watched)
            continue;
        enum sim_task_state state = sim_task_look(task);
        if (state == SIM_TASK_GONE) { /* its end may have woken one looked at before */
            forget(task);
            unsettled = true;
            continue;
        }
        if (first || !task->looked_at)
            task->before = task->ticks;
        task->looked_at = true;
        if (state == SIM_TASK_SLEEPS)
            task->given_up = false;
        else if (task->ticks - task->before >= LONG_TICKS)
            task->given_up = true;
        unsettled |= state == SIM_TASK_RUNS && !task->given_up;
    }
    return unsettled;
}

/* Twice: one that ran may have woken another, behind the look at that one, and fallen
 * asleep before the look at itself. */
bool sim_tasks_unsettled(bool first)
{
    if (any_unsettled(first))
        return true;
    return atomic_load_explicit(&sim_tasks_watched, memory_order_relaxed) > 1 &&
           any_unsettled(false);
}

bool sim_tasks_any_runs(void)
{
    for (struct sim_task *task = tasks; task; task = task->next) {
        if (task->watched && sim_task_look(task) == SIM_TASK_RUNS)
            return true;
    }
    return false;
}

void sim_tasks_give_up(void)
{
    for (struct sim_task *task = tasks; task; task = task->next)
        task->given_up |= task->watched;
}

/* Links of the folder of threads, and how many of them are no threads. */
static unsigned count_links(void)
{
    struct stat status;

    if (folder < 0)
        folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &status) != 0)
        return known + links_of_folder;
    return (unsigned)status.st_nlink;
}

/* Enter every thread of the process that is not known; returns how many there are. */
static unsigned scan(void)
{
    DIR *list = opendir("/proc/self/task");
    struct dirent *entry;
    unsigned count = 0;

    while (list && (entry = readdir(list))) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct sim_task *found = *find(tid);
        count++;
        if (found && found->tid == tid)
            continue;
        struct sim_task *stranger = calloc(1, sizeof(*stranger));
        if (!stranger)
            continue;
        insert(stranger, tid, SIM_TASK_STRANGER);
        sim_task_watch(stranger, true);
    }
    if (list)
        closedir(list);
    return count;
}

bool sim_tasks_census(void)
{
    unsigned links = count_links();

    if (links == known + links_of_folder && links_of_folder)
        return false;
    unsigned before = known, count = scan();
    if (count > 0 && count_links() == links && links > count)
        links_of_folder = links - count;
    return known != before;
}
