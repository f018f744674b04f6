/*
 * top_list.c - see top_list.h.
 * A process without a report leaves its row after a while, and its file is then left
 * alone like one that cannot be read: a folder may have thousands of them.
 *
 * Owns: struct gs_top_list.   Lock: none; one thread.   Design: docs/state.md
 */
#include "shim/tools/reader/top_list.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gs_clock.h"
#include "gs_compare.h"
#include "gs_grow.h"
#include "gs_hash.h"
#include "shim/settings/output_map.h"
#include "shim/settings/process_start.h"
#include "shim/tools/reader/ask.h"
#include "shim/tools/reader/state_open.h"

#define SECOND_NS UINT64_C(1000000000)
/* A process that has ended is shown so long. */
#define LINGER_NS (5 * SECOND_NS)
/* Folders are read again after so long; what changes in them without a new name is seen
 * then. */
#define SCAN_NS (10 * SECOND_NS)

const char gs_top_sort_names[GS_TOP_SORTS][12] = {
    [GS_TOP_LIVE] = "live",    [GS_TOP_RESERVED] = "reserved",
    [GS_TOP_PEAK] = "peak",    [GS_TOP_RATE] = "allocs/s",
    [GS_TOP_PID] = "pid",      [GS_TOP_PROGRAM] = "command",
    [GS_TOP_GROWTH] = "growth"};

/* The known facts of a file. */
enum file_state {
    FILE_NEW,
    FILE_RUNS,
    FILE_ENDED,  /* and still shown */
    FILE_LEFT,   /* it ended, and is no longer shown */
    FILE_COPY,   /* of a process that may run: not shown */
    FILE_UNREAD, /* not a state file, or a damaged one; a process that cannot answer */
    FILE_FOREIGN /* another user's process */
};

/* The shown row of a process. */
struct shown {
    struct gs_live_totals now;
    /* Of the reading before: allocations by device, and when. */
    uint64_t before_ns, before[GS_MAX_DEVICES + 1];
    double rates[GS_MAX_DEVICES + 1];        /* by row of `now` */
    uint64_t first_live[GS_MAX_DEVICES + 1]; /* by device, of the first reading */
};

struct gs_top_file {
    UT_hash_handle hh;
    char *path;
    enum file_state state;
    bool is_named;  /* by the user: not found in a folder */
    bool is_thread; /* the path is its name */
    char who[32];   /* of a thread, for messages */
    const char *problem;
    struct stat left; /* the file when it was left alone */
    uint64_t ended_ns;
    struct shown *shown; /* FILE_RUNS and FILE_ENDED; else NULL */
};

/* ---- finding ----------------------------------------------------------------------- */

static void add(struct gs_top_list *list, const char *path, bool is_named, bool is_thread)
{
    struct gs_top_file *file;
    HASH_FIND(hh, list->files, path, strlen(path), file);
    if (file || !(file = calloc(1, sizeof(*file)))) {
        return;
    }
    file->path = strdup(path);
    file->is_named = is_named;
    file->is_thread = is_thread;
    if (file->path) {
        HASH_ADD_KEYPTR(hh, list->files, file->path, strlen(path), file);
    }
    if (!file->path || !file->hh.tbl) {
        free(file->path);
        free(file);
    }
}

static void add_file(struct gs_top_list *list, const char *path, bool is_named)
{
    add(list, path, is_named, false);
}

static void add_threads(struct gs_top_list *list)
{
    size_t count;
    struct gs_ask_thread *threads = gs_ask_list(&count);
    for (size_t i = 0; i < count; i++) {
        add(list, threads[i].name, false, true);
    }
    free(threads);
}

static void scan_folder(struct gs_top_list *list, const char *folder)
{
    static char path[4096]; /* one thread reads */
    DIR *entries = opendir(folder);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of this function's own */
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        int length = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && length > 0 && (size_t)length < sizeof(path) &&
            (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN ||
             entry->d_type == DT_LNK) &&
            !gs_output_map_is_data(path)) {
            add_file(list, path, false);
        }
    }
    if (entries) {
        closedir(entries);
    }
}

/* Reads the folders, if one has changed since, or after a time. Returns whether it did.
 */
static bool scan(struct gs_top_list *list)
{
    uint64_t now = gs_now_ns();
    struct timespec wall;
    struct stat info;
    bool due = list->scanned_ns == 0 || now - list->scanned_ns >= SCAN_NS;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t since_s = (now - list->scanned_ns) / SECOND_NS + 2;
    for (char *const *path = list->paths; *path && !due; path++) {
        due = stat(*path, &info) == 0 && S_ISDIR(info.st_mode) &&
              info.st_mtime + (time_t)since_s >= wall.tv_sec;
    }
    for (char *const *path = list->paths; *path && due; path++) {
        if (stat(*path, &info) == 0 && S_ISDIR(info.st_mode)) {
            scan_folder(list, *path);
        } else {
            add_file(list, *path, true);
        }
    }
    if (due) {
        list->scanned_ns = now;
    }
    return due;
}

/* ---- reading ----------------------------------------------------------------------- */

/* Leaves the file alone until it changes. */
static void leave(struct gs_top_file *file, enum file_state state)
{
    file->state = state;
    free(file->shown);
    file->shown = NULL;
    file->left = (struct stat){.st_ino = 0};
    (void)stat(file->path, &file->left);
}

/* Returns whether a file that is left alone has changed, or is gone. */
static bool has_changed(const struct gs_top_file *file)
{
    struct stat info;
    return stat(file->path, &info) != 0 || info.st_ino != file->left.st_ino ||
           info.st_dev != file->left.st_dev || info.st_size != file->left.st_size ||
           info.st_mtim.tv_sec != file->left.st_mtim.tv_sec ||
           info.st_mtim.tv_nsec != file->left.st_mtim.tv_nsec;
}

/* A new process may have taken the name. */
static bool is_other(const struct gs_state_process *a, const struct gs_state_process *b)
{
    return a->pid != b->pid || a->pid_start != b->pid_start;
}

/* Takes the next reading, and the rates since the last one. */
static void take(struct shown *shown, const struct gs_live_totals *next)
{
    bool follows =
        shown->now.at_ns != 0 && !is_other(&shown->now.process, &next->process);
    if (!follows) {
        memset(shown->first_live, 0, sizeof(shown->first_live));
        for (unsigned i = 0; i < next->row_count; i++) {
            shown->first_live[next->rows[i].device] = next->rows[i].live_bytes;
        }
    }
    double seconds = (double)(next->at_ns - shown->now.at_ns) / 1e9;
    for (unsigned i = 0; follows && i < shown->now.row_count; i++) {
        shown->before[shown->now.rows[i].device] = shown->now.rows[i].allocs;
    }
    shown->now = *next;
    for (unsigned i = 0; i < next->row_count; i++) {
        const struct gs_live_totals_row *row = &next->rows[i];
        uint64_t before = shown->before[row->device];
        bool known = follows && seconds > 0 && row->has_counts && row->allocs >= before;
        shown->rates[i] = known ? (double)(row->allocs - before) / seconds : -1;
    }
}

/* The process has ended: it is shown a while, if it was shown before or was named. */
static void end(struct gs_top_file *file)
{
    if (file->state == FILE_RUNS || (file->state == FILE_NEW && file->is_named)) {
        file->ended_ns = gs_now_ns();
        file->state = FILE_ENDED;
    } else if (file->state != FILE_ENDED || gs_now_ns() - file->ended_ns >= LINGER_NS) {
        bool is_copy = file->shown && gs_state_is_copy(&file->shown->now.process);
        leave(file, is_copy ? FILE_COPY : FILE_LEFT);
    }
}

static void read_file(struct gs_top_file *file)
{
    static struct gs_live_totals totals; /* large, and one thread reads */
    bool read = gs_live_totals_read(file->path, &totals, &file->problem);
    if (!read && file->problem == gs_live_totals_too_early) {
        return;
    }
    if (!read && !file->shown) {
        leave(file, FILE_UNREAD);
        return;
    }
    if (!file->shown && !(file->shown = calloc(1, sizeof(*file->shown)))) {
        return;
    }
    if (read) {
        take(file->shown, &totals);
    }
    if (read && totals.running) {
        file->state = FILE_RUNS;
    } else {
        end(file); /* or its file is gone: shown as it was */
    }
}

/* A process that goes on without an answer is shown as it was. */
static void halt(struct gs_top_file *file, const char *why)
{
    file->shown->now.halted = why;
    file->state = FILE_RUNS;
}

static void ask_thread(struct gs_top_file *file)
{
    static struct gs_live_totals totals; /* large, and one thread reads */
    if (file->shown && file->state == FILE_RUNS &&
        gs_process_is_stopped(file->shown->now.process.pid)) {
        halt(file, "stopped");
        return;
    }
    if (gs_live_totals_ask(file->path, &totals, &file->problem)) {
        if (file->shown || (file->shown = calloc(1, sizeof(*file->shown)))) {
            take(file->shown, &totals);
            file->state = FILE_RUNS;
        }
    } else if (file->problem == gs_ask_foreign) {
        file->state = FILE_FOREIGN;
    } else if (file->problem == gs_ask_gone) {
        if (file->shown) { /* whether it wrote a report is not known */
            (void)strcpy(file->shown->now.process.ending, "ended");
        }
        end(file);
    } else if (file->shown) {
        halt(file, file->problem == gs_ask_stopped           ? "stopped"
                   : file->problem == gs_live_totals_refused ? "not recorded"
                                                             : "no answer");
    } else {
        struct gs_ask_thread thread = {.pid = 0};
        (void)gs_ask_read_name(file->path, &thread);
        (void)snprintf(file->who, sizeof(file->who), "process %ld", (long)thread.pid);
        file->state = FILE_UNREAD;
    }
}

static void remove_file(struct gs_top_list *list, struct gs_top_file *file)
{
    HASH_DEL(list->files, file);
    free(file->shown);
    free(file->path);
    free(file);
}

void gs_top_list_read(struct gs_top_list *list)
{
    bool scanned = scan(list);
    if (list->asks) {
        add_threads(list);
    }
    struct gs_top_file *file, *next;
    HASH_ITER (hh, list->files, file, next) {
        if (file->is_thread) {
            if (file->state != FILE_LEFT && file->state != FILE_FOREIGN) {
                ask_thread(file);
            }
            continue;
        }
        bool left = file->state == FILE_LEFT || file->state == FILE_COPY ||
                    file->state == FILE_UNREAD;
        if (left && !((scanned || file->is_named) && has_changed(file))) {
            continue;
        }
        struct stat info;
        if (left && !file->is_named && stat(file->path, &info) != 0) {
            remove_file(list, file);
            continue;
        }
        if (left) {
            file->state = FILE_NEW;
        }
        read_file(file);
    }
    gs_top_list_arrange(list);
}

/* ---- rows -------------------------------------------------------------------------- */

static bool is_wanted(const struct gs_top_list *list, const struct gs_top_file *file)
{
    char pid[24];
    snprintf(pid, sizeof(pid), "%lld", (long long)file->shown->now.process.pid);
    return !list->filter[0] ||
           strcasestr(file->shown->now.process.command, list->filter) ||
           strcasestr(file->shown->now.process.hostname, list->filter) ||
           strstr(file->shown->now.container, list->filter) ||
           strstr(pid, list->filter) || strstr(file->path, list->filter);
}

/* Whether a process that is asked is shown by its state file, too. */
static bool is_twice(const struct gs_top_list *list, const struct gs_top_file *asked)
{
    const struct gs_state_process *process = &asked->shown->now.process;
    for (const struct gs_top_file *file = list->files; file; file = file->hh.next) {
        if (!file->is_thread && file->shown &&
            !is_other(&file->shown->now.process, process) &&
            strcmp(file->shown->now.process.hostname, process->hostname) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_device(const struct gs_top_device *device,
                      const struct gs_live_totals *totals,
                      const struct gs_live_totals_row *memory)
{
    return strcmp(device->totals->process.hostname, totals->process.hostname) == 0 &&
           strcmp(device->memory->bus, memory->bus) == 0 &&
           (memory->bus[0] || device->memory->device == memory->device);
}

/* What a paused process has is not on the device. */
static void add_to_device(struct gs_top_list *list, const struct gs_live_totals *totals,
                          const struct gs_live_totals_row *memory)
{
    unsigned i = 0;
    if (totals->halted && strcmp(totals->halted, "paused") == 0) {
        return;
    }
    while (i < list->device_count && !is_device(&list->devices[i], totals, memory)) {
        i++;
    }
    if (i == GS_TOP_DEVICES) {
        return;
    }
    struct gs_top_device *device = &list->devices[i];
    if (i == list->device_count) {
        list->device_count++;
        *device = (struct gs_top_device){.totals = totals, .memory = memory};
    }
    device->live_bytes += memory->live_bytes;
    device->reserved_bytes += memory->reserved_bytes;
    device->processes++;
}

static void add_row(struct gs_top_list *list, const struct gs_top_file *file, unsigned i)
{
    if (!gs_grow(&list->rows, list->count, &list->room, sizeof(*list->rows))) {
        return;
    }
    bool ended = file->state == FILE_ENDED;
    const struct gs_live_totals_row *memory = &file->shown->now.rows[i];
    list->rows[list->count++] = (struct gs_top_row){
        .file = file,
        .totals = &file->shown->now,
        .memory = &file->shown->now.rows[i],
        .rate = ended ? -1 : file->shown->rates[i],
        .growth_bytes =
            (int64_t)(memory->live_bytes - file->shown->first_live[memory->device]),
        .ended = ended};
    if (!ended) {
        list->live_bytes += file->shown->now.rows[i].live_bytes;
        list->reserved_bytes += file->shown->now.rows[i].reserved_bytes;
        add_to_device(list, &file->shown->now, memory);
    }
}

static int order_of(double a, double b)
{
    return GS_RISING(a, b);
}

/* The largest first; processes and commands rising. */
static int compare_by(const struct gs_top_row *a, const struct gs_top_row *b,
                      enum gs_top_sort sort)
{
    switch (sort) {
    case GS_TOP_LIVE:
        return order_of((double)b->memory->live_bytes, (double)a->memory->live_bytes);
    case GS_TOP_RESERVED:
        return order_of((double)b->memory->reserved_bytes,
                        (double)a->memory->reserved_bytes);
    case GS_TOP_PEAK:
        return order_of((double)b->memory->peak_bytes, (double)a->memory->peak_bytes);
    case GS_TOP_RATE:
        return order_of(b->rate, a->rate);
    case GS_TOP_PROGRAM:
        return strcmp(a->totals->process.command, b->totals->process.command);
    case GS_TOP_GROWTH:
        return order_of((double)b->growth_bytes, (double)a->growth_bytes);
    case GS_TOP_PID:
    case GS_TOP_SORTS:
        break;
    }
    return 0;
}

static int compare_rows(const void *left, const void *right, void *self)
{
    const struct gs_top_row *a = left, *b = right;
    const struct gs_top_list *list = self;
    int order = compare_by(a, b, list->sort);
    if (order == 0) {
        order = order_of((double)a->totals->process.pid, (double)b->totals->process.pid);
    }
    if (order == 0) {
        order = strcmp(a->file->path, b->file->path);
    }
    if (order == 0) {
        order = (a->memory->device > b->memory->device) -
                (a->memory->device < b->memory->device);
    }
    return list->reversed ? -order : order;
}

/* Counts what could not be read. Of a folder, what is no state file is left out. */
static void add_unread(struct gs_top_list *list, const struct gs_top_file *file)
{
    if (list->quiet && !file->is_thread) {
        return;
    }
    if (!file->is_thread && !file->is_named && file->problem == gs_state_is_none) {
        list->others++;
        return;
    }
    bool is_cut = file->problem == gs_state_cut_short;
    if (list->unread++ == 0 || (is_cut && list->cut == 0)) {
        list->unread_path = file->is_thread ? file->who : file->path;
        list->problem = file->problem;
    }
    list->cut += is_cut;
}

void gs_top_list_arrange(struct gs_top_list *list)
{
    list->count = 0;
    list->processes = list->ended = list->unread = list->cut = list->others = 0;
    list->live_bytes = list->reserved_bytes = 0;
    list->device_count = 0;
    for (struct gs_top_file *file = list->files; file; file = file->hh.next) {
        list->ended += file->state == FILE_LEFT;
        if (file->state == FILE_UNREAD) {
            add_unread(list, file);
        }
        if ((file->state == FILE_RUNS || file->state == FILE_ENDED) && file->shown &&
            is_wanted(list, file) && !(file->is_thread && is_twice(list, file))) {
            list->processes += file->state == FILE_RUNS;
            for (unsigned i = 0; i < file->shown->now.row_count; i++) {
                add_row(list, file, i);
            }
        }
    }
    if (list->count > 0) {
        qsort_r(list->rows, list->count, sizeof(*list->rows), compare_rows, list);
    }
}

const char *gs_top_list_path(const struct gs_top_row *row)
{
    return row->file->path;
}

void gs_top_list_free(struct gs_top_list *list)
{
    struct gs_top_file *file, *next;
    HASH_ITER (hh, list->files, file, next) {
        remove_file(list, file);
    }
    free(list->rows);
    list->rows = NULL;
    list->count = list->room = 0;
}
