/*
 * scope_table.c - see scope_table.h.
 * Owns: struct gs_scope_table.   Lock: none.   Design: docs/outputs.md
 */
#include "shim/tools/reader/scope_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_compare.h"
#include "gs_hash.h"
#include "shim/tools/reader/table_line.h"

struct gs_scope_total {
    UT_hash_handle hh; /* in gs_scope_table.scopes, by `path` */
    struct gs_file_scope sum;
    uint64_t most, least;         /* peak of a process, of those that have the scope */
    uint64_t processes;           /* that have it */
    uint64_t process;             /* the last one, by its number */
    char who[GS_TABLE_WHO_BYTES]; /* the process with the highest peak */
    char path[];
};

/* ---- sums -------------------------------------------------------------------------- */

/* NULL: no memory. */
static struct gs_scope_total *total_of(struct gs_scope_table *table, const char *path)
{
    struct gs_scope_total *total;
    size_t length = strlen(path);
    HASH_FIND(hh, table->scopes, path, length, total);
    if (total || !(total = calloc(1, sizeof(*total) + length + 1))) {
        return total;
    }
    memcpy(total->path, path, length + 1);
    HASH_ADD_KEYPTR(hh, table->scopes, total->path, length, total);
    if (!total->hh.tbl) {
        free(total);
        return NULL;
    }
    return total;
}

static void add_scope(struct gs_scope_table *table, const struct gs_report_file *file,
                      const struct gs_file_scope *scope)
{
    struct gs_scope_total *total = total_of(table, scope->path);
    if (!total) {
        table->failed = true;
        return;
    }
    if (total->process == table->processes) {
        return; /* a path that a report has twice */
    }
    total->process = table->processes;
    if (total->processes == 0 || scope->peak_bytes > total->most) {
        total->most = scope->peak_bytes;
        (void)gs_table_who(file, total->who);
    }
    if (total->processes == 0 || scope->peak_bytes < total->least) {
        total->least = scope->peak_bytes;
    }
    total->processes++;
#define GS_FILE_SCOPE(name) gs_table_add(&total->sum.name, scope->name);
#include "shim/tools/reader/file_scopes.def"
}

void gs_scope_table_add(struct gs_scope_table *table, const struct gs_report_file *file)
{
    table->processes++;
    for (size_t i = 0; i < file->scope_count; i++) {
        if (file->scopes[i].path) {
            add_scope(table, file, &file->scopes[i]);
        }
    }
}

static int compare_totals(struct gs_scope_total *a, struct gs_scope_total *b)
{
    return GS_FALLING(a->most, b->most) ?: strcmp(a->path, b->path);
}

/* The lowest peak: a process without the scope has none. */
static uint64_t least_of(const struct gs_scope_table *table,
                         const struct gs_scope_total *total)
{
    return total->processes == table->processes ? total->least : 0;
}

/* ---- the text ---------------------------------------------------------------------- */

#define FORM "%8s %-11s %8s %9s %10s %10s %11s"

static const unsigned char ends[] = {8, 20, 29, 39, 50, 61, 73}; /* of FORM */

static void write_total(const struct gs_scope_table *table,
                        const struct gs_scope_total *total,
                        const struct gs_table_form *form, struct gs_text *text)
{
    char line[GS_TABLE_NUMBERS_BYTES], most[24], least[24], live[24], bytes[24],
        allocs[32], in[48];
    struct gs_text title = {0};
    (void)snprintf(in, sizeof(in), "%llu of %llu", (unsigned long long)total->processes,
                   (unsigned long long)table->processes);
    (void)snprintf(line, sizeof(line), FORM, gs_text_bytes(total->most, most), total->who,
                   gs_text_bytes(least_of(table, total), least),
                   gs_text_bytes(total->sum.live_bytes, live),
                   gs_text_bytes(total->sum.alloc_bytes, bytes),
                   gs_text_count(total->sum.allocs, allocs), in);
    gs_text_add_foreign(&title, total->path);
    gs_table_line(form, line, title.data ? title.data : "", text);
    gs_text_free(&title);
}

/* What the table lacks. */
static void write_rest(const struct gs_scope_table *table, unsigned written,
                       struct gs_text *text)
{
    unsigned count = HASH_COUNT(table->scopes);
    uint64_t missed = 0;
    char number[32];
    for (const struct gs_scope_total *total = table->scopes; total;
         total = total->hh.next) {
        if (!strchr(total->path, '/')) { /* those within count there, too */
            gs_table_add(&missed, total->sum.missed);
        }
    }
    if (count > written) {
        gs_text_add(
            text, "%s more scope%s with lower peaks (GPUSHIM_LEAK_MAX=N lists more)\n",
            gs_text_count(count - written, number), count - written == 1 ? "" : "s");
    }
    if (missed > 0) {
        gs_text_add(text,
                    "Note: without %s allocation%s for which the tables of call stacks "
                    "had no room\n",
                    gs_text_count(missed, number), missed == 1 ? "" : "s");
    }
    if (table->failed) {
        gs_text_add(text, "Note: some scopes are missing for lack of memory\n");
    }
}

void gs_scope_table_write(struct gs_scope_table *table, unsigned most, unsigned columns,
                          struct gs_text *text)
{
    const struct gs_table_form form = {
        .columns = columns, .ends = ends, .end_count = GS_ARRAY_LEN(ends)};
    char line[GS_TABLE_NUMBERS_BYTES];
    unsigned written = 0;
    HASH_SORT(table->scopes, compare_totals);
    if (table->scopes) {
        (void)snprintf(line, sizeof(line), FORM, "peak", "at", "least", "live",
                       "allocated", "allocs", "processes");
        gs_table_line(&form, line, "scope", text);
    }
    for (const struct gs_scope_total *total = table->scopes; total && written < most;
         total = total->hh.next, written++) {
        write_total(table, total, &form, text);
    }
    write_rest(table, written, text);
}

void gs_scope_table_markdown(struct gs_scope_table *table, unsigned most,
                             struct gs_text *text)
{
    char peak[24], least[24], live[24], bytes[24], allocs[32];
    unsigned written = 0;
    HASH_SORT(table->scopes, compare_totals);
    if (table->scopes) {
        gs_text_add(text, "| Peak | At | Least | Live | Allocated | Allocations | "
                          "Processes | Scope |\n"
                          "| ---: | --- | ---: | ---: | ---: | ---: | --- | --- |\n");
    }
    for (const struct gs_scope_total *total = table->scopes; total && written < most;
         total = total->hh.next, written++) {
        gs_text_add(text, "| %s | %s | %s | %s | %s | %s | %llu of %llu | ",
                    gs_text_bytes(total->most, peak), total->who,
                    gs_text_bytes(least_of(table, total), least),
                    gs_text_bytes(total->sum.live_bytes, live),
                    gs_text_bytes(total->sum.alloc_bytes, bytes),
                    gs_text_count(total->sum.allocs, allocs),
                    (unsigned long long)total->processes,
                    (unsigned long long)table->processes);
        gs_table_code(total->path, text);
        gs_text_add(text, " |\n");
    }
    gs_text_add(text, "%s", written ? "\n" : "");
    write_rest(table, written, text);
}

/* ---- JSON -------------------------------------------------------------------------- */

void gs_scope_table_json(struct gs_scope_table *table, struct gs_json *json)
{
    HASH_SORT(table->scopes, compare_totals);
    gs_json_member_open(json, "scopes", '[');
    for (const struct gs_scope_total *total = table->scopes; total;
         total = total->hh.next) {
        gs_json_open(json, '{');
        gs_json_member_text(json, "path", total->path);
        gs_json_member(json, "most_peak_bytes", total->most);
        gs_json_member_text(json, "most_at", total->who);
        gs_json_member(json, "least_peak_bytes", least_of(table, total));
        gs_json_member(json, "processes", total->processes);
#define GS_FILE_SCOPE(name) gs_json_member(json, #name, total->sum.name);
#include "shim/tools/reader/file_scopes.def"
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
    gs_json_member_bool(json, "scopes_complete", !table->failed);
}

void gs_scope_table_free(struct gs_scope_table *table)
{
    GS_HASH_FREE(table->scopes);
    *table = (struct gs_scope_table){.scopes = NULL};
}

/* ---- one process ------------------------------------------------------------------- */

static int compare_live(const void *left, const void *right)
{
    const struct gs_file_scope *a = left, *b = right;
    return GS_FALLING(a->live_bytes, b->live_bytes) ?:
        GS_FALLING(a->peak_bytes, b->peak_bytes) ?:
        strcmp(a->path ? a->path : "", b->path ? b->path : "");
}

void gs_scope_table_of_process(struct gs_report_file *file, struct gs_text *text)
{
    char live[24], peak[24], bytes[24], allocs[32], begun[32];
    if (file->scope_count == 0) {
        gs_text_add(text, "no scope was begun: gpushim_scope_begin, or NVTX ranges with "
                          "gpushim --nvtx\n");
        return;
    }
    qsort(file->scopes, file->scope_count, sizeof(*file->scopes), compare_live);
    gs_text_add(text, "%9s %9s %9s %10s %10s  %s\n", "LIVE", "PEAK", "ALLOCATED",
                "ALLOCS", "BEGUN", "SCOPE (AND WITHIN)");
    for (size_t i = 0; i < file->scope_count; i++) {
        const struct gs_file_scope *scope = &file->scopes[i];
        gs_text_add(
            text, "%9s %9s %9s %10s %10s  ", gs_text_bytes(scope->live_bytes, live),
            gs_text_bytes(scope->peak_bytes, peak),
            gs_text_bytes(scope->alloc_bytes, bytes),
            gs_text_count(scope->allocs, allocs), gs_text_count(scope->begun, begun));
        gs_text_add_foreign(text, scope->path ? scope->path : "?");
        gs_text_add(text, "\n");
    }
}
