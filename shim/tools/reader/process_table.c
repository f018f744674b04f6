/*
 * process_table.c - see process_table.h.
 * Owns: struct gs_process_table.   Lock: none.   Design: docs/outputs.md
 */
#include "shim/tools/reader/process_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_grow.h"

#define ENDING_LEAST 22 /* "ended without a report" */
#define ENDING_MOST  48 /* of exec, say; a longer one moves its own command */
#define TOGETHER_MS  ((uint64_t)1000)

/* ---- devices ----------------------------------------------------------------------- */

/* A device that processes had memory on. Each has its own ordinals; devices of different
 * processes are the same if the hostname and PCI bus id are. */
struct gs_shared_device {
    char hostname[sizeof(((struct gs_state_process *)0)->hostname)];
    char bus[GS_STATE_BUS_BYTES]; /* "0" if the id is not known */
    char name[GS_STATE_DEVICE_BYTES];
    uint64_t peak_bytes; /* the sum over processes */
    unsigned processes;
};

/* NULL: no memory. */
static struct gs_shared_device *find_device(struct gs_process_table *table,
                                            const struct gs_shared_device *like)
{
    for (size_t i = 0; i < table->device_count; i++) {
        struct gs_shared_device *known = &table->devices[i];
        bool same_hostname = strcmp(known->hostname, like->hostname) == 0;
        table->of_hosts = table->of_hosts || !same_hostname;
        if (same_hostname && strcmp(known->bus, like->bus) == 0) {
            return known;
        }
    }
    if (!gs_grow(&table->devices, table->device_count, &table->device_room,
                 sizeof(*table->devices))) {
        return NULL;
    }
    table->devices[table->device_count] = *like;
    return &table->devices[table->device_count++];
}

static void add_devices(struct gs_process_table *table, const struct gs_report_file *file)
{
    for (size_t i = 0; i < file->device_count; i++) {
        const struct gs_file_device *found = &file->devices[i];
        struct gs_shared_device like = {.processes = 0};
        if (found->peak_bytes == 0) {
            continue;
        }
        (void)snprintf(like.hostname, sizeof(like.hostname), "%s", file->hostname);
        (void)snprintf(like.name, sizeof(like.name), "%s",
                       found->name ? found->name : "");
        if (found->bus) {
            (void)snprintf(like.bus, sizeof(like.bus), "%s", found->bus);
        } else {
            (void)snprintf(like.bus, sizeof(like.bus), "%llu",
                           (unsigned long long)found->ordinal);
        }
        struct gs_shared_device *device = find_device(table, &like);
        if (device) {
            device->peak_bytes += found->peak_bytes;
            device->processes++;
        }
    }
}

/* The sum of the peaks is the most that all can have had at once: they may have reached
 * them at different times. */
static void write_devices(struct gs_process_table *table)
{
    for (size_t i = 0; i < table->device_count; i++) {
        const struct gs_shared_device *device = &table->devices[i];
        char bytes[24];
        gs_text_add(&table->text,
                    "gpushim: GPU %s %s%s%s: at most %s at once, by %u process%s\n",
                    device->bus, device->name, table->of_hosts ? " of " : "",
                    table->of_hosts ? device->hostname : "",
                    gs_text_bytes(device->peak_bytes, bytes), device->processes,
                    device->processes == 1 ? "" : "es");
    }
}

/* ---- processes --------------------------------------------------------------------- */

/* A line of the table. */
struct gs_process_row {
    char process[24], rank[24], peak[24], live[24], leaked[24], ending[128];
    char hostname[sizeof(((struct gs_state_process *)0)->hostname)];
    uint64_t pid, peak_bytes, bytes; /* bytes: live or leaked */
    uint64_t allocs, errors, rank_number;
    bool has_live; /* `bytes` has not leaked */
    char *command; /* NULL: no memory */
    size_t equal;  /* rows that this one stands for; 0: another stands for it */
    size_t run;    /* where they are in the order of fold_rows */
};

/* Returns an empty row, or NULL without memory. */
static struct gs_process_row *add_row(struct gs_process_table *table)
{
    if (!gs_grow(&table->rows, table->processes, &table->row_room,
                 sizeof(*table->rows))) {
        return NULL;
    }
    struct gs_process_row *row = &table->rows[table->processes++];
    *row = (struct gs_process_row){.rank_number = UINT64_MAX, .equal = 1};
    return row;
}

/* ---- equal processes --------------------------------------------------------------- */

/* With more processes than a screen shows, equal ones are one line. */
#define FOLDED_FROM 25u
/* Ranges of ranks in a line. */
#define RANGES_MOST 8u

/* By all that the columns say but process and rank. */
static int compare_columns(const struct gs_process_row *a, const struct gs_process_row *b)
{
    const char *texts[][2] = {
        {a->peak, b->peak},
        {a->live, b->live},
        {a->leaked, b->leaked},
        {a->ending, b->ending},
        {a->command ? a->command : "", b->command ? b->command : ""}};
    if (a->allocs != b->allocs || a->errors != b->errors) {
        return a->allocs < b->allocs || (a->allocs == b->allocs && a->errors < b->errors)
                   ? -1
                   : 1;
    }
    int order = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(texts) && order == 0; i++) {
        order = strcmp(texts[i][0], texts[i][1]);
    }
    return order;
}

/* For qsort; of equal rows the first one comes first. */
static int compare_rows(const void *a, const void *b)
{
    const struct gs_process_row *one = *(struct gs_process_row *const *)a,
                                *other = *(struct gs_process_row *const *)b;
    int order = compare_columns(one, other);
    return order != 0 ? order : one < other ? -1 : one > other;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct gs_process_row *one = *(struct gs_process_row *const *)a,
                                *other = *(struct gs_process_row *const *)b;
    return one->rank_number < other->rank_number   ? -1
           : one->rank_number > other->rank_number ? 1
                                                   : 0;
}

/* Finds equal rows. Returns the rows in an order where these are together, from malloc;
 * NULL: each stands for itself. */
static struct gs_process_row **fold_rows(struct gs_process_table *table)
{
    size_t count = table->processes;
    struct gs_process_row **order =
        count >= FOLDED_FROM ? calloc(count, sizeof(struct gs_process_row *)) : NULL;
    if (!order) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = &table->rows[i];
    }
    qsort(order, count, sizeof(struct gs_process_row *), compare_rows);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && compare_columns(order[i], order[next]) == 0;
             next++) {
            order[next]->equal = 0;
        }
        order[i]->run = i;
        order[i]->equal = next - i;
    }
    return order;
}

/* Writes the line of the rows that another one stands for. */
static void write_others(struct gs_process_table *table, struct gs_process_row **others,
                         size_t count)
{
    unsigned ranges = 0;
    qsort(others, count, sizeof(struct gs_process_row *), compare_ranks);
    gs_text_add(&table->text, "gpushim: %9s and %zu more", "", count);
    for (size_t i = 0, next; i < count && others[i]->rank_number != UINT64_MAX;
         i = next) {
        for (next = i + 1; next < count &&
                           others[next]->rank_number - others[next - 1]->rank_number <= 1;
             next++) {
        }
        if (ranges++ == RANGES_MOST) {
            gs_text_add(&table->text, ", ...");
            break;
        }
        gs_text_add(&table->text, "%s%s", ranges == 1 ? ": ranks " : ", ",
                    others[i]->rank);
        if (others[next - 1]->rank_number != others[i]->rank_number) {
            gs_text_add(&table->text, "-%s", others[next - 1]->rank);
        }
    }
    gs_text_add(&table->text, "\n");
}

/* All but the last two columns; the caller adds the rest. The column of live memory is
 * there if some process has not ended, or was killed. */
static void write_cells(struct gs_process_table *table, const struct gs_process_row *row,
                        const char *allocs, const char *errors)
{
    gs_text_add(&table->text, "gpushim: %9s %5s %10s ", row->process, row->rank,
                row->peak);
    if (table->live > 0) {
        gs_text_add(&table->text, "%10s ", row->live);
    }
    gs_text_add(&table->text, "%10s %12s %7s", row->leaked, allocs, errors);
}

static void write_row(struct gs_process_table *table, const struct gs_process_row *row)
{
    char count[32], wrong[32];
    write_cells(table, row, gs_text_count(row->allocs, count),
                gs_text_count(row->errors, wrong));
}

static void write_rows(struct gs_process_table *table)
{
    static const struct gs_process_row head = {.process = "process",
                                               .rank = "rank",
                                               .peak = "peak",
                                               .live = "live",
                                               .leaked = "leaked"};
    size_t width = ENDING_LEAST;
    if (table->processes == 0) {
        return;
    }
    for (size_t i = 0; i < table->processes; i++) {
        size_t length = strlen(table->rows[i].ending);
        width = length > width && length <= ENDING_MOST ? length : width;
    }
    write_cells(table, &head, "allocs", "errors");
    gs_text_add(&table->text, "  %-*s command\n", (int)width, "ending");
    struct gs_process_row **order =
        gs_state_settings()->verbose < 2 ? fold_rows(table) : NULL;
    for (size_t i = 0; i < table->processes; i++) {
        const struct gs_process_row *row = &table->rows[i];
        if (row->equal == 0) {
            continue;
        }
        write_row(table, row);
        gs_text_add(&table->text, "  %-*s %s\n", (int)width, row->ending,
                    row->command ? row->command : "?");
        if (order && row->equal > 1) {
            write_others(table, order + row->run + 1, row->equal - 1);
        }
    }
    free(order);
}

static bool has_no_report(const struct gs_report_file *file)
{
    return strcmp(file->ending, "ended without a report") == 0;
}

/* What the launcher knows of the end of a process without a report; NULL: nothing. */
static const struct gs_state_ended *end_of(const struct gs_report_file *file,
                                           const struct gs_state_ended *ended)
{
    if (!ended || !has_no_report(file)) {
        return NULL;
    }
    while (ended->pid != 0 && (uint64_t)ended->pid != file->pid) {
        ended++;
    }
    return ended->pid != 0 ? ended : NULL;
}

/* How the process ended. */
static const char *ending_of(const struct gs_report_file *file,
                             const struct gs_state_ended *ended)
{
    if (file->running) { /* "runs", or of when the report is: "on gpushim export" */
        return file->ending[0] ? file->ending : "runs";
    }
    if (file->no_start) {
        return "CUDA did not start";
    }
    ended = end_of(file, ended);
    return ended && ended->text[0] ? ended->text : file->ending;
}

/* Returns true if the process still had the use of its memory: it runs, or was killed. */
static bool is_live(const struct gs_report_file *file, const char *ending)
{
    return file->running ||
           (file->killed && !file->no_start && strncmp(ending, "exit_group ", 11) != 0);
}

/* A signal, or a status other than 0: "exit 3", "_exit 3", "exit_group 3". */
static bool is_failure(const char *ending)
{
    size_t length = strlen(ending);
    bool status = strstr(ending, "exit") != NULL && strncmp(ending, "exec", 4) != 0;
    return strncmp(ending, "killed by ", 10) == 0 || strncmp(ending, "SIG", 3) == 0 ||
           (status && length > 2 && strcmp(ending + length - 2, " 0") != 0);
}

/* A signal by which a job is ended when one of its processes has failed. SIGKILL may be
 * one, or the cause, for want of memory (first_to_fail). */
static bool is_sent(const char *ending)
{
    static const char *const names[] = {"SIGTERM", "SIGINT", "SIGHUP"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (strstr(ending, names[i])) {
            return true;
        }
    }
    return false;
}

/* Of ends so close together that they may have been noticed in any order, one by a signal
 * that others send comes second. */
static bool is_before(const struct gs_first_end *one, const struct gs_first_end *other)
{
    if (other->unix_ms == 0 || one->sent == other->sent) {
        return other->unix_ms == 0 || one->unix_ms < other->unix_ms;
    }
    return one->sent ? one->unix_ms + TOGETHER_MS < other->unix_ms
                     : one->unix_ms <= other->unix_ms + TOGETHER_MS;
}

/* The process that failed first; its unix_ms is 0 if none did. SIGKILL for more processes
 * than failed by themselves has ended a job, and comes second. */
static const struct gs_first_end *first_to_fail(const struct gs_process_table *table)
{
    struct gs_first_end stopped = table->stopped;
    stopped.sent = table->stops > table->failures;
    return stopped.unix_ms != 0 && is_before(&stopped, &table->failed) ? &table->stopped
                                                                       : &table->failed;
}

/* Keeps the process if it failed before those so far. When one without a report ended,
 * only the launcher knows. */
static void note_end(struct gs_process_table *table, const struct gs_report_file *file,
                     const char *ending, const struct gs_state_ended *ended)
{
    char who[32];
    ended = end_of(file, ended);
    struct gs_first_end end = {.unix_ms = ended                  ? ended->unix_ms
                                          : file->killed_unix_ms ? file->killed_unix_ms
                                                                 : file->end_unix_ms,
                               .sent = is_sent(ending)};
    bool unknown = has_no_report(file) && ending == file->ending;
    bool stopped = strstr(ending, "SIGKILL") != NULL;
    struct gs_first_end *first = unknown   ? &table->unknown
                                 : stopped ? &table->stopped
                                           : &table->failed;
    if (file->running || end.unix_ms == 0 || (!unknown && !is_failure(ending))) {
        return;
    }
    table->stops += first == &table->stopped;
    table->failures += first == &table->failed && !end.sent;
    if (!is_before(&end, first)) {
        return;
    }
    (void)snprintf(end.text, sizeof(end.text), "%s of %s, %s",
                   gs_report_file_who(file, who), file->hostname, ending);
    *first = end;
}

void gs_process_table_add(struct gs_process_table *table,
                          const struct gs_report_file *file,
                          const struct gs_state_ended *ended)
{
    const char *ending = ending_of(file, ended);
    bool live = is_live(file, ending);
    struct gs_process_row *row = add_row(table);
    if (!row) {
        return;
    }
    snprintf(row->process, sizeof(row->process), "%llu", (unsigned long long)file->pid);
    row->rank[0] = '-';
    if (file->rank != UINT64_MAX) {
        snprintf(row->rank, sizeof(row->rank), "%llu", (unsigned long long)file->rank);
        row->rank_number = file->rank;
    }
    (void)gs_text_bytes(file->peak_bytes, row->peak);
    *(live ? row->leaked : row->live) = '-';
    (void)gs_text_bytes(file->leaked_bytes, live ? row->live : row->leaked);
    (void)snprintf(row->ending, sizeof(row->ending), "%.99s", ending);
    (void)snprintf(row->hostname, sizeof(row->hostname), "%s", file->hostname);
    row->pid = file->pid;
    row->peak_bytes = file->peak_bytes;
    row->bytes = file->leaked_bytes;
    row->has_live = live;
    row->allocs = file->allocs;
    row->errors = file->errors;
    row->command = strdup(file->command);
    note_end(table, file, ending, ended);
    add_devices(table, file);
    table->allocs += file->allocs;
    table->leaked_bytes += live ? 0 : file->leaked_bytes;
    table->live_bytes += live ? file->leaked_bytes : 0;
    table->live += live;
    if (live && !file->running) {
        table->killed++;
        table->killed_bytes += file->leaked_bytes;
    }
    table->errors += file->errors;
}

void gs_process_table_sum(struct gs_process_table *table)
{
    struct gs_process_row all = {
        .process = "all", .allocs = table->allocs, .errors = table->errors};
    char bytes[24];
    write_rows(table);
    if (table->processes < 2) {
        return;
    }
    (void)gs_text_bytes(table->live_bytes, all.live);
    (void)gs_text_bytes(table->leaked_bytes, all.leaked);
    write_row(table, &all);
    gs_text_add(&table->text, "\n");
    write_devices(table);
    if (table->killed > 0) {
        gs_text_add(&table->text, "gpushim: live when killed: %s in %u process%s\n",
                    gs_text_bytes(table->killed_bytes, bytes), table->killed,
                    table->killed == 1 ? "" : "es");
    }
    const struct gs_first_end *failed = first_to_fail(table);
    if (failed->unix_ms != 0) {
        bool either = table->unknown.unix_ms != 0 && is_before(&table->unknown, failed);
        gs_text_add(&table->text, "gpushim: first to fail: %s%s%s\n",
                    either ? table->unknown.text : failed->text, either ? "; or " : "",
                    either ? failed->text : "");
    }
}

/* ---- JSON -------------------------------------------------------------------------- */

static void put_row(struct gs_json *json, const struct gs_process_row *row)
{
    gs_json_open(json, '{');
    gs_json_member(json, "pid", row->pid);
    gs_json_member_or_null(json, "rank", row->rank_number != UINT64_MAX,
                           row->rank_number);
    gs_json_member_text(json, "host", row->hostname);
    gs_json_member_text(json, "command", row->command);
    gs_json_member_text(json, "ending", row->ending);
    gs_json_member(json, "peak_bytes", row->peak_bytes);
    gs_json_member_or_null(json, "live_bytes", row->has_live, row->bytes);
    gs_json_member_or_null(json, "leaked_bytes", !row->has_live, row->bytes);
    gs_json_member(json, "allocs", row->allocs);
    gs_json_member(json, "errors", row->errors);
    gs_json_close(json, '}');
}

static void put_device(struct gs_json *json, const struct gs_shared_device *device)
{
    gs_json_open(json, '{');
    gs_json_member_text(json, "host", device->hostname);
    gs_json_member_text(json, "device", device->bus);
    gs_json_member_text(json, "name", device->name);
    gs_json_member(json, "sum_of_peaks_bytes", device->peak_bytes);
    gs_json_member(json, "processes", device->processes);
    gs_json_close(json, '}');
}

void gs_process_table_json(const struct gs_process_table *table, struct gs_json *json)
{
    gs_json_member_open(json, "processes", '[');
    for (size_t i = 0; i < table->processes; i++) {
        put_row(json, &table->rows[i]);
    }
    gs_json_close(json, ']');
    gs_json_member_open(json, "devices", '[');
    for (size_t i = 0; i < table->device_count; i++) {
        put_device(json, &table->devices[i]);
    }
    gs_json_close(json, ']');
    gs_json_member_open(json, "all", '{');
    gs_json_member(json, "processes", table->processes);
    gs_json_member(json, "live_bytes", table->live_bytes);
    gs_json_member(json, "leaked_bytes", table->leaked_bytes);
    gs_json_member(json, "allocs", table->allocs);
    gs_json_member(json, "errors", table->errors);
    gs_json_close(json, '}');
    const struct gs_first_end *failed = first_to_fail(table);
    gs_json_member_text(json, "first_to_fail",
                        failed->unix_ms != 0 ? failed->text : NULL);
}

void gs_process_table_free(struct gs_process_table *table)
{
    for (size_t i = 0; i < table->processes; i++) {
        free(table->rows[i].command);
    }
    free(table->rows);
    gs_text_free(&table->text);
    free(table->devices);
    *table = (struct gs_process_table){.processes = 0};
}
