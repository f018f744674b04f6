/*
 * top_text.c - see top_text.h.
 * Owns: nothing.   Lock: none.   Design: docs/state.md
 */
#include "top_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "report_file.h"

void gs_top_write_head(const struct gs_top_list *list, struct gs_text *text)
{
    char live[24], reserved[24], clock[16] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (localtime_r(&now, &parts)) {
        (void)strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
    }
    gs_text_add(text, "gpushim top  %s  %u process%s, %s live, %s reserved", clock,
                list->processes, list->processes == 1 ? "" : "es",
                gs_text_bytes(list->live_bytes, live),
                gs_text_bytes(list->reserved_bytes, reserved));
    if (list->ended > 0) {
        gs_text_add(text, ", %u ended", list->ended);
    }
    if (list->filter[0]) {
        gs_text_add(text, ", filter: %s", list->filter);
    }
    gs_text_add(text, "\n");
}

static void write_cells(bool narrow, const char *pid, const char *device,
                        const char *live, const char *reserved, const char *peak,
                        const char *rate, struct gs_text *text)
{
    if (narrow) {
        gs_text_add(text, "%7s %4s %8s  ", pid, device, live);
    } else {
        gs_text_add(text, "%9s %5s %9s %9s %9s %9s  ", pid, device, live, reserved, peak,
                    rate);
    }
}

void gs_top_write_columns(bool narrow, struct gs_text *text)
{
    write_cells(narrow, "PID", "GPU", "LIVE", "RESERVED", "PEAK", "ALLOCS/S", text);
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

void gs_top_write_row(const struct gs_top_row *row, bool narrow, struct gs_text *text)
{
    const struct gs_state_process *process = &row->glance->process;
    const struct gs_glance_row *memory = row->memory;
    bool host = memory->device == GS_GLANCE_HOST;
    char pid[24], device[16] = "host", live[24], reserved[24] = "-", peak[24], rate[32];
    (void)snprintf(pid, sizeof(pid), "%lld", (long long)process->pid);
    if (!host) {
        (void)snprintf(device, sizeof(device), "%u", memory->device);
        gs_text_bytes(memory->reserved_bytes, reserved);
    }
    write_cells(narrow, pid, device, gs_text_bytes(memory->live_bytes, live), reserved,
                gs_text_bytes(memory->peak_bytes, peak), rate_text(row->rate, rate),
                text);
    if (row->ended) {
        gs_text_add(text, "(%s) ",
                    process->ending[0] ? process->ending : "ended without a report");
    }
    if (process->rank >= 0) {
        gs_text_add(text, "rank %d: ", process->rank);
    }
    gs_text_add(text, "%s\n", process->command);
}

void gs_top_write_problem(const struct gs_top_list *list, struct gs_text *text)
{
    if (list->unread == 0) {
        return;
    }
    gs_text_add(text, "%s: %s", list->unread_path, list->problem);
    if (list->unread > 1) {
        gs_text_add(text, "; and %u more files", list->unread - 1);
    }
    gs_text_add(text, "\n");
}

static int compare_places(const void *left, const void *right)
{
    const struct gs_file_place *a = left, *b = right;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

void gs_top_write_places(const char *path, struct gs_text *text)
{
    static struct gs_report_file file;
    const char *problem;
    char who[32], bytes[24], count[32];
    if (!gs_report_file_read(path, GS_REPORT_OF_LEAKS, true, &file, &problem)) {
        gs_text_add(text, "%s: %s\n", path, problem);
        return;
    }
    gs_text_add(text, "%s  %s  %s\n", gs_report_file_who(&file, who), file.ending,
                file.command);
    gs_text_add(text, "%s %s in %s allocation%s, %zu call site%s\n\n",
                gs_text_bytes(file.leaked_bytes, bytes), file.running ? "live" : "leaked",
                gs_text_count(file.leaked_count, count),
                file.leaked_count == 1 ? "" : "s", file.place_count,
                file.place_count == 1 ? "" : "s");
    if (file.place_count > 0) {
        qsort(file.places, file.place_count, sizeof(*file.places), compare_places);
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
        gs_report_file_stack(&file, place, text);
        gs_text_add(text, "\n");
    }
    gs_report_file_free(&file);
}

void gs_top_write_help(struct gs_text *text)
{
    gs_text_add(text, "Keys of gpushim top\n"
                      "\n"
                      "  up, down, page up, page down, home, end   choose a process\n"
                      "  Enter, right    its call stacks; left, Esc or q: back\n"
                      "  s, S            sort by the next, or the last, column\n"
                      "  r               reverse the order\n"
                      "  /               filter by command, process id, host or file;\n"
                      "                  Esc: no filter\n"
                      "  h, ?            this page\n"
                      "  q               quit\n"
                      "\n"
                      "LIVE is allocated and not freed, RESERVED what the pool holds of\n"
                      "the device, PEAK the most that was live. RESERVED is up to 0.1 s\n"
                      "old. A process that ends is shown for five more seconds.\n");
}
