/*
 * pages.c - see pages.h.
 * Owns: nothing.   Lock: none.
 */
#include "gs_string.h"
#include "shim/tools/reader/living_thread.h"
#include "shim/tools/server/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_grow.h"
#include "gs_printable.h"
#include "shim/tools/reader/live_totals.h"
#include "shim/tools/server/merge.h"
#include "shim/tools/server/pod_names.h"

char *gs_page_program(pid_t pid, char out[GS_PROGRAM_NAME])
{
    static const char deleted[] = " (deleted)";
    char path[64], program[4096];
    (void)snprintf(path, sizeof(path), "/proc/%ld/exe", (long)gs_living_thread(pid));
    ssize_t length = readlink(path, program, sizeof(program) - 1);
    program[length > 0 ? length : 0] = '\0';
    size_t end = strlen(program), tail = strlen(deleted);
    if (end > tail && strcmp(program + end - tail, deleted) == 0) {
        program[end - tail] = '\0';
    }
    (void)snprintf(out, GS_PROGRAM_NAME, "%.*s", GS_PROGRAM_NAME - 1,
                   gs_file_name(program));
    return out;
}

/* ---- metrics ----------------------------------------------------------------------- */

/* Why a process has no metrics; the label's value. */
static const struct {
    char word[12];
} reasons[] = {{"stopped"}, {"late"}, {"refused"}, {"malformed"}, {"other"}};
enum { STOPPED, LATE, REFUSED, MALFORMED, OTHER };

/* What a scrape has found. */
struct scrape {
    uint64_t found, answered, missing[GS_ARRAY_LEN(reasons)];
    struct gs_merge merge;
};

/* Of the server itself. */
static const struct gs_metric_family found_family = {
    "gpushim_serve_processes", "", "Processes under gpushim with a CUDA context.", false};
static const struct gs_metric_family answered_family = {
    "gpushim_serve_processes_answered", "", "Of these, those with metrics here.", false};
static const struct gs_metric_family missing_family = {
    "gpushim_serve_processes_unanswered", "", "Of these, those without.", false};
static const struct gs_metric_family seconds_family = {
    "gpushim_serve_scrape_seconds", "seconds", "Time to ask all processes.", false};

/* The labels of a process's pod and container; `shown` has the place for an id. */
static void find_pod(const struct gs_container *container,
                     const struct gs_pod_names *names, struct gs_merge_labels *labels,
                     char shown[GS_CONTAINER_SHOWN + 1])
{
    const struct gs_pod_name *name = gs_pod_names_find(names, container->id);
    if (name) {
        labels->namespace = name->namespace;
        labels->pod = name->pod;
        labels->container = name->container;
        return;
    }
    memcpy(shown, container->id, GS_CONTAINER_SHOWN);
    shown[GS_CONTAINER_SHOWN] = '\0';
    labels->pod = container->pod;
    labels->container = shown;
}

static bool add_metrics(struct gs_merge *merge, const struct gs_ask_answer *answer,
                        const struct gs_pod_names *names)
{
    char program[GS_PROGRAM_NAME], shown[GS_CONTAINER_SHOWN + 1];
    struct gs_container container;
    struct gs_merge_labels labels = {.pid = (long)answer->pid,
                                     .program = gs_page_program(answer->pid, program)};
    if (gs_container_of(answer->pid, &container)) {
        find_pod(&container, names, &labels, shown);
    }
    return gs_merge_add(merge, answer->text, answer->length, &labels);
}

static void take(struct scrape *scrape, const struct gs_ask_answer *answer,
                 const struct gs_pod_names *names)
{
    if (answer->problem == gs_ask_gone || answer->problem == gs_ask_foreign) {
        return; /* it has ended since, or has become somebody else's */
    }
    scrape->found++;
    if (answer->problem) {
        scrape->missing[answer->problem == gs_ask_stopped ? STOPPED
                        : answer->problem == gs_ask_late  ? LATE
                                                          : OTHER]++;
    } else if (answer->refused) {
        scrape->missing[REFUSED]++;
    } else if (add_metrics(&scrape->merge, answer, names)) {
        scrape->answered++;
    } else {
        scrape->missing[MALFORMED]++;
    }
}

static void put_figure(struct gs_export_out *out, const struct gs_metric_family *family,
                       bool plain, uint64_t value)
{
    gs_metric_head(out, family, plain);
    gs_out_text(out, family->name);
    gs_out_char(out, ' ');
    gs_out_number(out, value);
    gs_out_char(out, '\n');
}

static void put_own(struct gs_export_out *out, const struct scrape *scrape, bool plain,
                    uint64_t took_ns)
{
    char seconds[40];
    put_figure(out, &found_family, plain, scrape->found);
    put_figure(out, &answered_family, plain, scrape->answered);
    gs_metric_head(out, &missing_family, plain);
    for (size_t i = 0; i < GS_ARRAY_LEN(reasons); i++) {
        gs_out_text(out, missing_family.name);
        gs_metric_label(out, '{', "why", reasons[i].word);
        gs_out_text(out, "} ");
        gs_out_number(out, scrape->missing[i]);
        gs_out_char(out, '\n');
    }
    gs_metric_head(out, &seconds_family, plain);
    (void)snprintf(seconds, sizeof(seconds), " %llu.%06llu\n",
                   (unsigned long long)(took_ns / 1000000000),
                   (unsigned long long)(took_ns / 1000 % 1000000));
    gs_out_text(out, seconds_family.name);
    gs_out_text(out, seconds);
}

bool gs_page_metrics(const struct gs_asks *asks, const char *pod_logs, uint64_t began_ns,
                     bool plain, struct gs_text *text)
{
    struct scrape scrape = {.found = 0};
    struct gs_pod_names names;
    struct gs_export_out out;
    const struct gs_export_sink sink = gs_export_text_sink(text);
    gs_pod_names_read(pod_logs, &names);
    for (size_t i = 0; i < asks->count; i++) {
        take(&scrape, &asks->answers[i], &names);
    }
    gs_pod_names_free(&names);
    gs_out_begin(&out, &sink);
    gs_merge_write(&scrape.merge, plain, &out);
    put_own(&out, &scrape, plain, gs_now_ns() - began_ns);
    if (!plain) {
        gs_out_text(&out, "# EOF\n");
    }
    bool good = gs_out_end(&out) == GS_OK && !gs_merge_failed(&scrape.merge);
    gs_merge_free(&scrape.merge);
    return good;
}

/* ---- the table --------------------------------------------------------------------- */

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<meta http-equiv=\"refresh\" content=\"5\"><title>gpushim</title>\n"
    "<style>body{font:14px system-ui,sans-serif;margin:1.5em}"
    "table{border-collapse:collapse}"
    "th,td{padding:.25em .8em;text-align:right;border-bottom:1px solid #8884}"
    "th:nth-last-child(-n+3),td:nth-last-child(-n+3){text-align:left}"
    "td:last-child{font-family:ui-monospace,monospace;word-break:break-all}"
    "</style></head><body>\n";

/* A process on a device, as a row. */
struct row {
    const struct gs_ask_answer *answer;
    struct gs_live_totals_row memory;
    char container[GS_CONTAINER_TEXT];
    char command[sizeof(((struct gs_state_process *)0)->command)];
};

struct table {
    struct row *rows;
    size_t count, room;
    bool failed;
};

/* Adds a text from outside: HTML's own characters, and what a terminal would execute,
 * become harmless. */
static void put_foreign(struct gs_text *out, const char *text)
{
    for (size_t length; *text; text += length) {
        length = gs_utf8_length(text);
        bool strange = length == 0 || gs_is_control(text, length);
        length = length ? length : 1;
        switch (strange ? '?' : *text) {
        case '&':
            gs_text_add_bytes(out, "&amp;", 5);
            break;
        case '<':
            gs_text_add_bytes(out, "&lt;", 4);
            break;
        case '>':
            gs_text_add_bytes(out, "&gt;", 4);
            break;
        case '"':
            gs_text_add_bytes(out, "&quot;", 6);
            break;
        default:
            gs_text_add_bytes(out, strange ? "?" : text, strange ? 1 : length);
        }
    }
}

static void add_row(struct table *table, const struct gs_ask_answer *answer,
                    const struct gs_live_totals *totals,
                    const struct gs_live_totals_row *memory)
{
    if (!gs_grow(&table->rows, table->count, &table->room, sizeof(*table->rows))) {
        table->failed = true;
        return;
    }
    struct row *row = &table->rows[table->count++];
    *row = (struct row){.answer = answer, .memory = *memory};
    (void)gs_container_text(answer->pid, true, row->container);
    (void)snprintf(row->command, sizeof(row->command), "%s", totals->process.command);
}

/* The largest first. */
static int compare(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    return a->memory.live_bytes != b->memory.live_bytes
               ? (a->memory.live_bytes < b->memory.live_bytes ? 1 : -1)
           : a->answer->pid != b->answer->pid ? (a->answer->pid > b->answer->pid ? 1 : -1)
                                              : 0;
}

static void put_row(struct gs_text *out, const struct row *row)
{
    const struct gs_live_totals_row *memory = &row->memory;
    char live[24], reserved[24], peak[24], count[32], device[16] = "host";
    long pid = (long)row->answer->pid;
    if (memory->device != GS_LIVE_TOTALS_HOST) {
        (void)snprintf(device, sizeof(device), "%u", memory->device);
    }
    gs_text_add(
        out,
        "<tr><td>%ld<td>%s<td>%s<td>%s<td>%s<td>%s<td><a href=\"/process?pid=%ld\">"
        "report</a> <a href=\"/debug/pprof/heap?pid=%ld\">pprof</a><td>",
        pid, device, gs_live_totals_bytes(memory->has_counts, memory->live_bytes, live),
        gs_live_totals_bytes(memory->has_reserved, memory->reserved_bytes, reserved),
        gs_live_totals_bytes(memory->has_counts, memory->peak_bytes, peak),
        memory->has_counts ? gs_text_count(memory->allocs, count) : "-", pid, pid);
    put_foreign(out, row->container);
    gs_text_add(out, "<td>");
    put_foreign(out, row->command);
    gs_text_add(out, "\n");
}

/* Reads the answers into rows; a list of those that could not answer goes to `problems`.
 */
static void fill(struct gs_asks *asks, struct table *table, struct gs_text *problems)
{
    static struct gs_live_totals totals; /* large, and one thread reads */
    for (size_t i = 0; i < asks->count; i++) {
        struct gs_ask_answer *answer = &asks->answers[i];
        const char *problem = answer->problem;
        if (problem == gs_ask_gone || problem == gs_ask_foreign) {
            continue;
        }
        if (!problem && answer->refused) {
            problem = answer->text;
        } else if (!problem && gs_live_totals_parse(answer->text, &totals, &problem)) {
            for (unsigned k = 0; k < totals.row_count; k++) {
                add_row(table, answer, &totals, &totals.rows[k]);
            }
            continue;
        }
        gs_text_add(problems, "<p>process %ld: ", (long)answer->pid);
        put_foreign(problems, problem == gs_ask_late ? "no answer in time" : problem);
        gs_text_add(problems, "\n");
    }
}

void gs_page_table(struct gs_asks *asks, struct gs_text *out)
{
    struct table table = {.rows = NULL};
    struct gs_text problems = {0};
    char host[256] = "", now[32] = "";
    time_t seconds = time(NULL);
    struct tm broken;
    (void)gethostname(host, sizeof(host) - 1);
    (void)strftime(now, sizeof(now), "%H:%M:%S", localtime_r(&seconds, &broken));
    fill(asks, &table, &problems);
    if (table.count > 0) {
        qsort(table.rows, table.count, sizeof(*table.rows), compare);
    }
    gs_text_add(out, "%s<h1>GPU memory on ", head);
    put_foreign(out, host);
    gs_text_add(out, "</h1>\n<p>As of %s. <a href=\"/metrics\">Metrics</a></p>\n", now);
    if (table.count == 0 && problems.length == 0) {
        gs_text_add(out, "<p>No process under gpushim has a CUDA context.</p>\n");
    } else if (table.count > 0) {
        gs_text_add(out, "<table><thead><tr><th>Process<th>GPU<th>Live<th>Reserved"
                         "<th>Peak<th>Allocations in all<th>More<th>Container<th>Command"
                         "</thead><tbody>\n");
    }
    for (size_t i = 0; i < table.count; i++) {
        put_row(out, &table.rows[i]);
    }
    gs_text_add(out, "%s", table.count > 0 ? "</tbody></table>\n" : "");
    gs_text_add_bytes(out, problems.data ? problems.data : "", problems.length);
    gs_text_add(out, "</body></html>\n");
    out->truncated |= table.failed || problems.truncated;
    gs_text_free(&problems);
    free(table.rows);
}
