/*
 * place_table.c - see place_table.h.
 * Owns: struct gs_place_table.   Lock: none.   Design: docs/outputs.md
 */
#include "shim/tools/reader/place_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_compare.h"
#include "gs_hash.h"
#include "shim/tools/reader/table_line.h"
#include "tracker/names/shown_path.h"

struct gs_place_total {
    UT_hash_handle hh; /* in gs_place_table.places */
    struct gs_place_key key;
    uint64_t sum;                                  /* bytes */
    uint64_t most, least;                          /* of the processes that have it */
    uint64_t processes;                            /* that have it */
    uint64_t process;                              /* the last one, by its number */
    uint64_t own;                                  /* bytes of the last one */
    char who[GS_TABLE_WHO_BYTES];                  /* the process that has most */
    char last[GS_TABLE_WHO_BYTES];                 /* the last one */
    struct gs_named_frame frames[GS_FRAMES_NAMED]; /* the innermost ones */
    size_t named;
    const char *call, *kind, *no_stack; /* as in gs_file_place */
    char texts[];                       /* all of the above */
};

/* ---- names ------------------------------------------------------------------------- */

#define TEXTS_MOST (2 * GS_FRAMES_NAMED + 3)

/* Finds the texts of a total, which outlive the report. Returns how many. */
static size_t texts_of(struct gs_place_total *total, const char **texts[TEXTS_MOST])
{
    size_t count = 0;
    texts[count++] = &total->call;
    texts[count++] = &total->kind;
    texts[count++] = &total->no_stack;
    for (size_t i = 0; i < total->named; i++) {
        texts[count++] = &total->frames[i].function;
        texts[count++] = &total->frames[i].path;
    }
    return count;
}

/* Makes the sum of a call site, with its name: the two innermost frames, and the call.
 * NULL: no memory. */
static struct gs_place_total *make_total(const struct gs_report_file *file,
                                         const struct gs_file_place *place)
{
    struct gs_place_total named = {
        .call = place->call, .kind = place->kind, .no_stack = place->no_stack};
    named.named = gs_named_frames(file, place, named.frames, GS_FRAMES_NAMED);
    size_t length = 0;
    const char **texts[TEXTS_MOST];
    size_t count = texts_of(&named, texts);
    for (size_t i = 0; i < count; i++) {
        length += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    }
    struct gs_place_total *total = calloc(1, sizeof(*total) + length);
    if (!total) {
        return NULL;
    }
    *total = named;
    char *at = total->texts;
    count = texts_of(total, texts);
    for (size_t i = 0; i < count; i++) {
        if (*texts[i]) {
            *texts[i] = strcpy(at, *texts[i]);
            at += strlen(at) + 1;
        }
    }
    return total;
}

/* Writes the frames, and the call: ", cudaMalloc (device)". */
static void add_title(const struct gs_place_total *total, struct gs_shown_paths *paths,
                      struct gs_text *text)
{
    gs_named_frames_write(total->frames, total->named, paths, text);
    if (total->named == 0) {
        gs_text_add(text, "no call stack%s", total->no_stack ? ": " : "");
        gs_text_add_foreign(text, total->no_stack ? total->no_stack : "");
    }
    gs_text_add(text, ", ");
    gs_text_add_foreign(text, total->call ? total->call : "unknown call");
    gs_text_add(text, " (");
    gs_text_add_foreign(text, total->kind ? total->kind : "unknown");
    gs_text_add(text, ")");
}

/* ---- sums -------------------------------------------------------------------------- */

/* Takes the bytes of the last process into most and least. */
static void settle(struct gs_place_total *total)
{
    if (total->processes == 1 || total->own > total->most) {
        total->most = total->own;
        memcpy(total->who, total->last, sizeof(total->who));
    }
    if (total->processes == 1 || total->own < total->least) {
        total->least = total->own;
    }
}

/* NULL: no memory. */
static struct gs_place_total *total_of(struct gs_place_table *table,
                                       const struct gs_report_file *file,
                                       const struct gs_file_place *place)
{
    const struct gs_place_key key = gs_place_key_of(file, place, GS_PLACE_BY_LINE);
    struct gs_place_total *total = GS_HASH_FIND(table->places, &key);
    if (total || !(total = make_total(file, place))) {
        return total;
    }
    total->key = key;
    if (!GS_HASH_ADD(table->places, key, total)) {
        free(total);
        return NULL;
    }
    return total;
}

void gs_place_table_add(struct gs_place_table *table, const struct gs_report_file *file)
{
    table->processes++;
    gs_table_add(&table->rest_bytes, file->rest_bytes);
    for (size_t i = 0; i < file->place_count; i++) {
        const struct gs_file_place *place = &file->places[i];
        struct gs_place_total *total = total_of(table, file, place);
        if (!total) {
            table->failed = true;
            return;
        }
        if (total->process != table->processes) {
            if (total->processes > 0) {
                settle(total);
            }
            total->process = table->processes;
            total->processes++;
            total->own = 0;
            (void)gs_table_who(file, total->last);
        }
        gs_table_add(&total->own, place->bytes);
        gs_table_add(&total->sum, place->bytes);
    }
}

/* ---- the text ---------------------------------------------------------------------- */

static int compare_texts(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

static int compare_totals(struct gs_place_total *a, struct gs_place_total *b)
{
    if (a->sum != b->sum) {
        return a->sum > b->sum ? -1 : 1;
    }
    for (size_t i = 0; i < a->named && i < b->named; i++) {
        int order = compare_texts(a->frames[i].function, b->frames[i].function) ?:
            gs_path_compare(a->frames[i].path, b->frames[i].path) ?:
            GS_RISING(a->frames[i].number, b->frames[i].number);
        if (order != 0) {
            return order;
        }
    }
    int order = compare_texts(a->call, b->call);
    return order ? order : compare_texts(a->kind, b->kind);
}

#define FORM "%8s %8s %-11s %8s %8s %11s"

static const unsigned char ends[] = {8, 17, 29, 38, 47, 59}; /* of FORM */

/* What the process has that has least of it: without the call site it has nothing. */
static uint64_t least_of(const struct gs_place_table *table,
                         const struct gs_place_total *total)
{
    return total->processes == table->processes ? total->least : 0;
}

static void write_total(const struct gs_place_table *table,
                        const struct gs_place_total *total,
                        const struct gs_table_form *form, struct gs_shown_paths *paths,
                        struct gs_text *text)
{
    char line[GS_TABLE_NUMBERS_BYTES], sum[24], most[24], least[24], spread[24], in[48];
    uint64_t lowest = least_of(table, total);
    (void)snprintf(in, sizeof(in), "%llu of %llu", (unsigned long long)total->processes,
                   (unsigned long long)table->processes);
    (void)snprintf(line, sizeof(line), FORM, gs_text_bytes(total->sum, sum),
                   gs_text_bytes(total->most, most), total->who,
                   gs_text_bytes(lowest, least),
                   gs_text_bytes(total->most - lowest, spread), in);
    struct gs_text title = {0};
    add_title(total, paths, &title);
    gs_table_line(form, line, title.data ? title.data : "", text);
    gs_text_free(&title);
}

/* The paths of the `most` call sites that are written. */
static void find_paths(const struct gs_place_table *table, unsigned most,
                       struct gs_shown_paths *paths)
{
    unsigned found = 0;
    for (struct gs_place_total *total = table->places; total && found < most;
         total = total->hh.next, found++) {
        for (size_t i = 0; i < total->named; i++) {
            gs_shown_paths_add(paths, total->frames[i].path);
        }
    }
}

static void sort(struct gs_place_table *table)
{
    for (struct gs_place_total *total = table->places; total; total = total->hh.next) {
        settle(total);
    }
    HASH_SORT(table->places, compare_totals);
}

/* What the table lacks. */
static void write_rest(const struct gs_place_table *table, unsigned written,
                       struct gs_text *text)
{
    unsigned count = HASH_COUNT(table->places);
    char number[32], bytes[24];
    if (count > written) {
        gs_text_add(
            text, "%s more call site%s with less (GPUSHIM_LEAK_MAX=N lists more)\n",
            gs_text_count(count - written, number), count - written == 1 ? "" : "s");
    }
    if (table->rest_bytes > 0) {
        gs_text_add(text, "%s in no call site, for lack of memory\n",
                    gs_text_bytes(table->rest_bytes, bytes));
    }
    if (table->failed) {
        gs_text_add(text, "Note: some call sites are missing for lack of memory\n");
    }
}

void gs_place_table_write(struct gs_place_table *table, const char *what, unsigned most,
                          unsigned columns, bool full_paths, struct gs_text *text)
{
    char line[GS_TABLE_NUMBERS_BYTES];
    const struct gs_table_form form = {.columns = columns,
                                       .whole = full_paths,
                                       .ends = ends,
                                       .end_count = GS_ARRAY_LEN(ends)};
    unsigned written = 0;
    sort(table);
    struct gs_shown_paths paths = {.whole = full_paths};
    find_paths(table, most, &paths);
    (void)snprintf(line, sizeof(line), FORM, what, "most", "at", "least", "spread",
                   "processes");
    if (table->places) {
        gs_table_line(&form, line, "call site", text);
    }
    for (struct gs_place_total *total = table->places; total && written < most;
         total = total->hh.next, written++) {
        write_total(table, total, &form, &paths, text);
    }
    gs_shown_paths_free(&paths);
    write_rest(table, written, text);
}

void gs_place_table_markdown(struct gs_place_table *table, const char *what,
                             unsigned most, bool full_paths, struct gs_text *text)
{
    char sum[24], most_bytes[24], least[24];
    struct gs_shown_paths paths = {.whole = full_paths};
    struct gs_text title = {0};
    unsigned written = 0;
    sort(table);
    find_paths(table, most, &paths);
    if (table->places) {
        gs_text_add(text,
                    "| %c%s | Most | At | Least | Processes | Call site |\n"
                    "| ---: | ---: | --- | ---: | --- | --- |\n",
                    what[0] + 'A' - 'a', what + 1);
    }
    for (struct gs_place_total *total = table->places; total && written < most;
         total = total->hh.next, written++) {
        gs_text_add(
            text, "| %s | %s | %s | %s | %llu of %llu | ", gs_text_bytes(total->sum, sum),
            gs_text_bytes(total->most, most_bytes), total->who,
            gs_text_bytes(least_of(table, total), least),
            (unsigned long long)total->processes, (unsigned long long)table->processes);
        title.length = 0;
        add_title(total, &paths, &title);
        gs_table_code(title.data ? title.data : "", text);
        gs_text_add(text, " |\n");
    }
    gs_text_free(&title);
    gs_shown_paths_free(&paths);
    gs_text_add(text, "%s", written ? "\n" : "");
    write_rest(table, written, text);
}

static void put_total(struct gs_json *json, const struct gs_place_table *table,
                      const struct gs_place_total *total)
{
    gs_json_open(json, '{');
    gs_json_member(json, "bytes", total->sum);
    gs_json_member(json, "most_bytes", total->most);
    gs_json_member_text(json, "most_at", total->who);
    gs_json_member(json, "least_bytes", least_of(table, total));
    gs_json_member(json, "processes", total->processes);
    gs_json_member_text(json, "call", total->call);
    gs_json_member_text(json, "kind", total->kind);
    gs_named_frames_json(json, "stack", total->frames, total->named);
    gs_json_close(json, '}');
}

void gs_place_table_json(struct gs_place_table *table, struct gs_json *json)
{
    sort(table);
    gs_json_member_open(json, "call_sites", '[');
    for (struct gs_place_total *total = table->places; total; total = total->hh.next) {
        put_total(json, table, total);
    }
    gs_json_close(json, ']');
    gs_json_member(json, "not_grouped_bytes", table->rest_bytes);
    gs_json_member_bool(json, "complete", !table->failed);
}

void gs_place_table_free(struct gs_place_table *table)
{
    GS_HASH_FREE(table->places);
    *table = (struct gs_place_table){.places = NULL};
}
