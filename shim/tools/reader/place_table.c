/*
 * place_table.c - see place_table.h.
 * Owns: struct gs_place_table.   Lock: none.   Design: docs/outputs.md
 */
#include "shim/tools/reader/place_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_hash.h"
#include "gs_printable.h"
#include "tracker/names/shown_path.h"

#define WHO_BYTES      32
#define FUNCTION_BYTES 81
#define CALL_BYTES     160
#define NUMBERS_BYTES  160
#define FRAMES_NAMED   2

/* A frame of a title: "load_weights leaky.c:39", or "?? libfoo.so+0x12". */
struct named_frame {
    char function[FUNCTION_BYTES];
    const char *path; /* NULL: neither file nor module is known */
    uint64_t number;  /* line, or offset */
    bool in_file;
};

struct gs_place_total {
    UT_hash_handle hh; /* in gs_place_table.places */
    struct gs_place_key key;
    uint64_t sum;                            /* bytes */
    uint64_t most, least;                    /* of the processes that have it */
    uint64_t processes;                      /* that have it */
    uint64_t process;                        /* the last one, by its number */
    uint64_t own;                            /* bytes of the last one */
    char who[WHO_BYTES];                     /* the process that has most */
    char last[WHO_BYTES];                    /* the last one */
    struct named_frame frames[FRAMES_NAMED]; /* the innermost ones */
    size_t named;
    char call[CALL_BYTES]; /* what the title has after the frames */
    char paths[];          /* of the frames */
};

static void add(uint64_t *sum, uint64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum)) {
        *sum = UINT64_MAX;
    }
}

/* ---- names ------------------------------------------------------------------------- */

static struct named_frame name_frame(const struct gs_report_file *file,
                                     const struct gs_file_frame *frame)
{
    const struct gs_file_module *module = gs_report_file_module(file, frame);
    struct named_frame named = {.in_file = frame->file && frame->file[0]};
    (void)snprintf(named.function, sizeof(named.function), "%s",
                   frame->function ? frame->function : "??");
    named.path = named.in_file ? frame->file : module ? module->path : NULL;
    named.number = named.in_file ? frame->line : frame->offset;
    return named;
}

/* Makes the sum of a call site, with its name: the two innermost frames, and the call.
 * NULL: no memory. */
static struct gs_place_total *make_total(const struct gs_report_file *file,
                                         const struct gs_file_place *place)
{
    struct named_frame frames[FRAMES_NAMED];
    size_t named = 0, length = 0;
    for (size_t i = 0; i < place->depth && named < FRAMES_NAMED; i++) {
        const struct gs_file_frame *frame = gs_report_file_frame(file, place, i);
        if (frame) {
            frames[named] = name_frame(file, frame);
            length += frames[named].path ? strlen(frames[named].path) + 1 : 0;
            named++;
        }
    }
    struct gs_place_total *total = calloc(1, sizeof(*total) + length);
    if (!total) {
        return NULL;
    }
    char *at = total->paths;
    for (size_t i = 0; i < named; i++) {
        total->frames[i] = frames[i];
        if (frames[i].path) {
            total->frames[i].path = strcpy(at, frames[i].path);
            at += strlen(at) + 1;
        }
    }
    total->named = named;
    (void)snprintf(total->call, sizeof(total->call), "%s%s%.40s, %s (%s)",
                   named == 0 ? "no call stack" : "",
                   named == 0 && place->no_stack ? ": " : "",
                   named == 0 && place->no_stack ? place->no_stack : "",
                   place->call ? place->call : "unknown call",
                   place->kind ? place->kind : "unknown");
    return total;
}

static void add_title(const struct gs_place_total *total, struct gs_shown_paths *paths,
                      struct gs_text *text)
{
    for (size_t i = 0; i < total->named; i++) {
        const struct named_frame *frame = &total->frames[i];
        gs_text_add(text, "%s", i ? " < " : "");
        gs_text_add_foreign(text, frame->function);
        if (frame->path) {
            gs_text_add(text, " ");
            gs_text_add_foreign(text, gs_shown_path(paths, frame->path));
            gs_text_add(text, frame->in_file ? ":%llu" : "+0x%llx",
                        (unsigned long long)frame->number);
        }
    }
    gs_text_add_foreign(text, total->call);
}

static void name_process(const struct gs_report_file *file, char out[WHO_BYTES])
{
    bool ranked = file->rank != UINT64_MAX;
    (void)snprintf(out, WHO_BYTES, "%s %llu", ranked ? "rank" : "pid",
                   (unsigned long long)(ranked ? file->rank : file->pid));
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
    add(&table->rest_bytes, file->rest_bytes);
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
            name_process(file, total->last);
        }
        add(&total->own, place->bytes);
        add(&total->sum, place->bytes);
    }
}

/* ---- the text ---------------------------------------------------------------------- */

static int compare_totals(struct gs_place_total *a, struct gs_place_total *b)
{
    if (a->sum != b->sum) {
        return a->sum > b->sum ? -1 : 1;
    }
    for (size_t i = 0; i < a->named && i < b->named; i++) {
        int order = strcmp(a->frames[i].function, b->frames[i].function);
        if (order == 0) {
            order = gs_path_compare(a->frames[i].path, b->frames[i].path);
        }
        if (order != 0) {
            return order;
        }
        if (a->frames[i].number != b->frames[i].number) {
            return a->frames[i].number < b->frames[i].number ? -1 : 1;
        }
    }
    return strcmp(a->call, b->call);
}

/* Narrower, a call site has a line of its own. */
#define COLUMNS_MIN 80
#define FORM        "%8s %8s %-11s %8s %8s %11s"

/* Adds a line, cut where the terminal's columns end. */
static void write_cut(struct gs_text *text, unsigned columns, const char *line)
{
    size_t at = 0;
    for (unsigned i = 0; line[at] && (columns == 0 || i < columns); i++) {
        at += gs_utf8_length(line + at);
    }
    gs_text_add_bytes(text, line, at);
    gs_text_add(text, "\n");
}

/* The width of the numbers that a narrow terminal shows whole; the first at least. */
static unsigned whole_numbers(unsigned columns)
{
    static const unsigned char ends[] = {8, 17, 29, 38, 47, 59}; /* of FORM */
    unsigned width = ends[0];
    for (size_t i = 1; i < GS_ARRAY_LEN(ends) && ends[i] <= columns; i++) {
        width = ends[i];
    }
    return width;
}

/* Writes numbers and title; a narrow terminal has a line for each. `whole`: the title is
 * not cut. */
static void write_line(struct gs_text *text, unsigned columns, bool whole,
                       const char *numbers, const char *title)
{
    struct gs_text line = {0};
    bool narrow = columns != 0 && columns < COLUMNS_MIN;
    if (narrow) {
        write_cut(text, whole_numbers(columns), numbers);
    }
    gs_text_add(&line, "%s  %s", narrow ? "  " : numbers, title);
    write_cut(text, whole ? 0 : columns, line.data ? line.data : "");
    gs_text_free(&line);
}

static void write_total(const struct gs_place_table *table,
                        const struct gs_place_total *total, unsigned columns,
                        struct gs_shown_paths *paths, struct gs_text *text)
{
    char line[NUMBERS_BYTES], sum[24], most[24], least[24], spread[24], in[48];
    /* A process without the call site has nothing of it. */
    uint64_t lowest = total->processes == table->processes ? total->least : 0;
    (void)snprintf(in, sizeof(in), "%llu of %llu", (unsigned long long)total->processes,
                   (unsigned long long)table->processes);
    (void)snprintf(line, sizeof(line), FORM, gs_text_bytes(total->sum, sum),
                   gs_text_bytes(total->most, most), total->who,
                   gs_text_bytes(lowest, least),
                   gs_text_bytes(total->most - lowest, spread), in);
    struct gs_text title = {0};
    add_title(total, paths, &title);
    write_line(text, columns, paths->whole, line, title.data ? title.data : "");
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

void gs_place_table_write(struct gs_place_table *table, const char *what, unsigned most,
                          unsigned columns, bool full_paths, struct gs_text *text)
{
    char line[NUMBERS_BYTES], number[32], bytes[24];
    unsigned written = 0, count = HASH_COUNT(table->places);
    for (struct gs_place_total *total = table->places; total; total = total->hh.next) {
        settle(total);
    }
    HASH_SORT(table->places, compare_totals);
    struct gs_shown_paths paths = {.whole = full_paths};
    find_paths(table, most, &paths);
    (void)snprintf(line, sizeof(line), FORM, what, "most", "at", "least", "spread",
                   "processes");
    if (count > 0) {
        write_line(text, columns, false, line, "call site");
    }
    for (struct gs_place_total *total = table->places; total && written < most;
         total = total->hh.next, written++) {
        write_total(table, total, columns, &paths, text);
    }
    gs_shown_paths_free(&paths);
    if (count > written) {
        gs_text_add(text, "%s more call site%s with less (GPUSHIM_LEAK_MAX)\n",
                    gs_text_count(count - written, number),
                    count - written == 1 ? "" : "s");
    }
    if (table->rest_bytes > 0) {
        gs_text_add(text, "%s in no call site, for lack of memory\n",
                    gs_text_bytes(table->rest_bytes, bytes));
    }
    if (table->failed) {
        gs_text_add(text, "Note: some call sites are missing for lack of memory\n");
    }
}

void gs_place_table_free(struct gs_place_table *table)
{
    GS_HASH_FREE(table->places);
    *table = (struct gs_place_table){.places = NULL};
}
