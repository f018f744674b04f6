/*
 * top_text.c - see top_text.h.
 * Owns: nothing.   Lock: none.   Design: docs/state.md
 */
#include "shim/tools/reader/top_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "gs_printable.h"
#include "shim/tools/reader/ask.h"
#include "shim/tools/reader/report_file.h"
#include "shim/tools/reader/scope_table.h"
#include "shim/tools/reader/state_open.h"

/* The longest wait for a report. */
#define PLACES_MS 5000

static const char *clock_text(char out[16])
{
    time_t now = time(NULL);
    struct tm parts;
    out[0] = '\0';
    if (localtime_r(&now, &parts)) {
        (void)strftime(out, 16, "%H:%M:%S", &parts);
    }
    return out;
}

void gs_top_write_head(const struct gs_top_list *list, struct gs_text *text)
{
    char live[24], reserved[24], clock[16];
    gs_text_add(text, "gpushim top  %s  %u process%s, %s live, %s reserved",
                clock_text(clock), list->processes, list->processes == 1 ? "" : "es",
                gs_text_bytes(list->live_bytes, live),
                gs_text_bytes(list->reserved_bytes, reserved));
    if (list->ended > 0) {
        gs_text_add(text, ", %u ended and not shown", list->ended);
    }
    if (list->filter[0]) {
        gs_text_add(text, ", filter: %s", list->filter);
    }
    gs_text_add(text, "\n");
}

static int compare_devices(const void *left, const void *right)
{
    const struct gs_top_device *a = left, *b = right;
    int order = strcmp(a->totals->process.hostname, b->totals->process.hostname);
    return order ? order
                 : (a->memory->device > b->memory->device) -
                       (a->memory->device < b->memory->device);
}

/* Whether another device of the list has the same number: processes that see different
 * devices (CUDA_VISIBLE_DEVICES) call each of them GPU 0. */
static bool is_ambiguous(const struct gs_top_list *list, unsigned which)
{
    const struct gs_top_device *device = &list->devices[which];
    for (unsigned i = 0; i < list->device_count; i++) {
        if (i != which && compare_devices(&list->devices[i], device) == 0) {
            return true;
        }
    }
    return false;
}

void gs_top_write_devices(struct gs_top_list *list, struct gs_text *text)
{
    const char *space = "";
    bool hosts = false;
    char live[24], reserved[24];
    if (list->device_count == 0) {
        gs_text_add(text, "\n");
        return;
    }
    qsort(list->devices, list->device_count, sizeof(*list->devices), compare_devices);
    hosts = strcmp(list->devices[0].totals->process.hostname,
                   list->devices[list->device_count - 1].totals->process.hostname) != 0;
    for (unsigned i = 0; i < list->device_count; i++) {
        const struct gs_top_device *device = &list->devices[i];
        gs_text_add(text, "%s%s%s", space, hosts ? device->totals->process.hostname : "",
                    hosts ? " " : "");
        if (device->memory->device == GS_LIVE_TOTALS_HOST) {
            gs_text_add(text, "host: %s live", gs_text_bytes(device->live_bytes, live));
        } else {
            const char *bus = is_ambiguous(list, i) ? device->memory->bus : "";
            gs_text_add(text, "GPU %u%s%s: %s live, %s reserved", device->memory->device,
                        bus[0] ? " " : "", bus, gs_text_bytes(device->live_bytes, live),
                        gs_text_bytes(device->reserved_bytes, reserved));
        }
        space = "   ";
    }
    gs_text_add(text, "\n");
}

void gs_top_write_hint(const struct gs_top_list *list, struct gs_text *text)
{
    if (list->asks) {
        gs_text_add(text,
                    "  no process of yours with a CUDA context answers: start one "
                    "with\n"
                    "  gpushim ./app; gpushim stats PID says why a process does not\n");
        return;
    }
    struct stat info;
    const char *path = list->paths[0];
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
        gs_text_add(text, "  ");
        gs_text_add_foreign(text, path);
        gs_text_add(text, " is not the state file of a running process");
    } else {
        gs_text_add(text, "  no process with a state file runs in ");
        gs_text_add_foreign(text, strcmp(path, ".") == 0 ? "this folder" : path);
    }
    gs_text_add(text,
                ": start programs with\n"
                "  gpushim --state-file=FOLDER/%%p.state, then gpushim top FOLDER\n");
}

static void write_cells(bool narrow, const char *pid, const char *device,
                        const char *live, const char *reserved, const char *peak,
                        const char *growth, const char *rate, struct gs_text *text)
{
    if (narrow) {
        gs_text_add(text, "%7s %4s %8s  ", pid, device, live);
    } else {
        gs_text_add(text, "%9s %5s %9s %9s %9s %9s %9s  ", pid, device, live, reserved,
                    peak, growth, rate);
    }
}

/* Some columns are left out below 80. */
static bool is_narrow(unsigned columns)
{
    return columns < 80;
}

void gs_top_write_columns(unsigned columns, struct gs_text *text)
{
    write_cells(is_narrow(columns), "PID", "GPU", "LIVE", "RESERVED", "PEAK", "GROWTH",
                "ALLOCS/S", text);
    gs_text_add(text, "COMMAND\n");
}

/* "12", "1,234", "56.7k", "1.23M" */
static const char *rate_text(double rate, char out[32])
{
    if (rate < 0) {
        snprintf(out, 32, "-");
    } else if (rate < 10000) {
        gs_text_count((uint64_t)(rate + 0.5), out);
    } else if (rate < 1e6) {
        snprintf(out, 32, "%.1fk", rate / 1e3);
    } else {
        snprintf(out, 32, "%.2fM", rate / 1e6);
    }
    return out;
}

/* A command that does not fit is written without the folders of its words, so that the
 * name of the program, or of its script, comes before the end of the line. */
static void write_command(const char *command, size_t columns, struct gs_text *text)
{
    bool fits = gs_printable_columns(command) <= columns;
    while (*command) {
        size_t length = strcspn(command, " ");
        const char *end = command + length, *name = command;
        const char *slash = length > 1 ? memrchr(command, '/', length - 1) : NULL;
        if (!fits && slash && command[0] != '-' && !memchr(command, ':', length)) {
            name = slash + 1;
        }
        gs_text_add_bytes(text, name, (size_t)(end - name));
        gs_text_add_bytes(text, " ", *end ? 1 : 0);
        command = end + (*end ? 1 : 0);
    }
    gs_text_add(text, "\n");
}

void gs_top_write_row(const struct gs_top_row *row, unsigned columns,
                      struct gs_text *text)
{
    size_t start = text->length;
    const struct gs_state_process *process = &row->totals->process;
    const struct gs_live_totals_row *memory = row->memory;
    bool host = memory->device == GS_LIVE_TOTALS_HOST;
    char pid[24], device[16] = "host", live[24], reserved[24], peak[24], rate[32],
                  growth[32] = "-";
    (void)snprintf(pid, sizeof(pid), "%lld", (long long)process->pid);
    if (!host) {
        (void)snprintf(device, sizeof(device), "%u", memory->device);
    }
    if (row->growth_bytes != 0 && !row->ended) {
        char bytes[24];
        (void)snprintf(growth, sizeof(growth), "%c%s", row->growth_bytes > 0 ? '+' : '-',
                       gs_text_bytes((uint64_t)llabs(row->growth_bytes), bytes));
    }
    write_cells(
        is_narrow(columns), pid, device,
        gs_live_totals_bytes(memory->has_counts, memory->live_bytes, live),
        gs_live_totals_bytes(memory->has_reserved, memory->reserved_bytes, reserved),
        gs_live_totals_bytes(memory->has_counts, memory->peak_bytes, peak), growth,
        rate_text(row->rate, rate), text);
    if (row->ended) {
        gs_text_add(text, "(%s) ", gs_state_ending(process));
    }
    if (row->totals->attached) {
        gs_text_add(text, "(attached) ");
    }
    if (row->totals->halted && !row->ended) {
        gs_text_add(text, "(%s) ", row->totals->halted);
    }
    if (row->totals->container[0]) {
        gs_text_add(text, "%s: ", row->totals->container);
    }
    if (process->rank >= 0) {
        gs_text_add(text, "rank %d: ", process->rank);
    }
    size_t used = text->length - start;
    write_command(process->command, used < columns ? columns - used : 0, text);
}

void gs_top_write_problem(const struct gs_top_list *list, struct gs_text *text)
{
    if (list->unread + list->others == 0) {
        return;
    }
    if (list->unread > 0) {
        gs_text_add_foreign(text, list->unread_path);
        gs_text_add(text, ": %s", list->problem);
    }
    if (list->unread > 1) {
        gs_text_add(text, "; and %u more file%s", list->unread - 1,
                    list->unread == 2 ? "" : "s");
    }
    if (list->others > 0) {
        gs_text_add(text, "%s%u file%s left out: no state file%s",
                    list->unread > 0 ? "; " : "", list->others,
                    list->others == 1 ? "" : "s", list->others == 1 ? "" : "s");
    }
    gs_text_add(text, "\n");
}

static int compare_places(const void *left, const void *right)
{
    const struct gs_file_place *a = left, *b = right;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

/* The report of a process without a state file. */
static void write_answer(const struct gs_ask_thread *thread, struct gs_text *text)
{
    struct gs_ask_answer answer;
    if (gs_ask(thread, "dump", PLACES_MS, &answer)) {
        gs_text_add(text, "%s\n", answer.text);
        free(answer.text);
    } else {
        gs_text_add(text, "process %ld: %s\n", (long)answer.pid, answer.problem);
    }
}

static void write_process(const struct gs_report_file *file, struct gs_text *text)
{
    bool runs = file->running && !file->is_copy;
    char who[32], clock[16];
    gs_text_add(text, "%s  %s  %s%s%s\n", gs_report_file_who(file, who), file->ending,
                file->command, runs ? "  as of " : "", runs ? clock_text(clock) : "");
}

void gs_top_write_places(const char *path, struct gs_text *text)
{
    static struct gs_report_file file;
    const char *problem;
    char bytes[24], count[32];
    struct gs_ask_thread thread;
    if (gs_ask_read_name(path, &thread)) {
        write_answer(&thread, text);
        return;
    }
    if (!gs_report_file_read(path, GS_REPORT_OF_LEAKS, true, &file, &problem)) {
        gs_text_add_foreign(text, path);
        gs_text_add(text, ": %s\n", problem);
        return;
    }
    write_process(&file, text);
    gs_text_add(text, "%s %s in %s allocation%s, %zu call site%s\n\n",
                gs_text_bytes(file.leaked_bytes, bytes), file.running ? "live" : "leaked",
                gs_text_count(file.leaked_count, count),
                file.leaked_count == 1 ? "" : "s", file.place_count,
                file.place_count == 1 ? "" : "s");
    if (file.place_count > 0) {
        qsort(file.places, file.place_count, sizeof(*file.places), compare_places);
    }
    struct gs_shown_paths paths = {.whole = gs_state_settings()->full_paths};
    for (size_t i = 0; i < file.place_count; i++) {
        gs_report_file_paths(&file, &file.places[i], &paths);
    }
    for (size_t i = 0; i < file.place_count; i++) {
        const struct gs_file_place *place = &file.places[i];
        gs_text_add(text, "%s in %s allocation%s: %s, %s",
                    gs_text_bytes(place->bytes, bytes),
                    gs_text_count(place->count, count), place->count == 1 ? "" : "s",
                    place->call ? place->call : "unknown call",
                    place->kind ? place->kind : "unknown");
        if (place->device != UINT64_MAX) {
            gs_text_add(text, ", GPU %llu", (unsigned long long)place->device);
        }
        gs_text_add(text, "\n");
        gs_report_file_stack(&file, place, &paths, text);
        gs_text_add(text, "\n");
    }
    gs_shown_paths_free(&paths);
    gs_report_file_free(&file);
}

/* Reads what a process answers. False: it was written why not. */
static bool ask_report(const struct gs_ask_thread *thread, struct gs_report_file *out,
                       struct gs_text *text)
{
    struct gs_ask_answer answer;
    const char *problem = NULL;
    if (!gs_ask_bytes(thread, "export json", PLACES_MS, &answer)) {
        problem = answer.problem;
    } else if (answer.refused) {
        gs_ask_make_printable(&answer);
        gs_text_add(text, "process %ld: %s\n", (long)answer.pid, answer.text);
        free(answer.text);
        return false;
    } else if (gs_report_file_take(answer.text, answer.length, GS_REPORT_OF_LEAKS, out,
                                   &problem)) {
        return true;
    }
    gs_text_add(text, "process %ld: %s\n", (long)answer.pid, problem);
    return false;
}

void gs_top_write_scopes(const char *path, struct gs_text *text)
{
    static struct gs_report_file file;
    struct gs_ask_thread thread;
    const char *problem;
    if (gs_ask_read_name(path, &thread)) {
        if (!ask_report(&thread, &file, text)) {
            return;
        }
    } else if (!gs_report_file_read(path, GS_REPORT_OF_LEAKS, false, &file, &problem)) {
        gs_text_add_foreign(text, path);
        gs_text_add(text, ": %s\n", problem);
        return;
    }
    write_process(&file, text);
    gs_text_add(text, "\n");
    gs_scope_table_of_process(&file, text);
    gs_report_file_free(&file);
}

void gs_top_write_help(struct gs_text *text)
{
    gs_text_add(text,
                "Keys of gpushim top\n"
                "\n"
                "  up, down, page up, page down, home, end   choose a process\n"
                "  Enter, right    its call stacks; left, Esc or q: back\n"
                "  m               its memory by scope; likewise back\n"
                "  s, S            sort by the next, or the last, column\n"
                "  r               reverse the order\n"
                "  /               filter by command, process id, host or file;\n"
                "                  Esc: no filter\n"
                "  h, ?            this page\n"
                "  q               quit\n"
                "\n"
                "LIVE is allocated and not freed, GROWTH its change since gpushim top\n"
                "first read the process, RESERVED what the pool holds of the device,\n"
                "PEAK the most that was live. RESERVED is up to 0.1 s old. A process\n"
                "that ends is shown for five more seconds. (stopped): by a signal;\n"
                "(paused): by gpushim pause, its memory is on the host.\n");
}
