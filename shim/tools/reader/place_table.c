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
#include "tracker/names/runtime_modules.h"

#define WHO_BYTES     32
#define TITLE_BYTES   256
#define NUMBERS_BYTES 160

struct gs_place_total {
    UT_hash_handle hh; /* in gs_place_table.places */
    struct gs_place_key key;
    uint64_t sum;         /* bytes */
    uint64_t most, least; /* of the processes that have it */
    uint64_t processes;   /* that have it */
    uint64_t process;     /* the last one, by its number */
    uint64_t own;         /* bytes of the last one */
    char who[WHO_BYTES];  /* the process that has most */
    char last[WHO_BYTES]; /* the last one */
    char title[TITLE_BYTES];
};

static void add(uint64_t *sum, uint64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum)) {
        *sum = UINT64_MAX;
    }
}

/* ---- names ------------------------------------------------------------------------- */

/* "load_weights leaky.c:39" */
static size_t name_frame(const struct gs_report_file *file,
                         const struct gs_file_frame *frame, char *out, size_t size)
{
    const struct gs_file_module *module = gs_report_file_module(file, frame);
    int length = snprintf(out, size, "%.80s", frame->function ? frame->function : "??");
    size_t used = length > 0 ? (size_t)length : 0;
    if (used < size && frame->file && frame->file[0]) {
        length =
            snprintf(out + used, size - used, " %.60s:%llu",
                     gs_module_base_name(frame->file), (unsigned long long)frame->line);
    } else if (used < size && module && module->path) {
        length = snprintf(out + used, size - used, " %.60s+0x%llx",
                          gs_module_base_name(module->path),
                          (unsigned long long)frame->offset);
    } else {
        length = 0;
    }
    used += length > 0 ? (size_t)length : 0;
    return used < size ? used : size - 1;
}

/* The two innermost frames, and the call. */
static void name_place(const struct gs_report_file *file,
                       const struct gs_file_place *place, char out[TITLE_BYTES])
{
    size_t used = 0, named = 0;
    for (size_t i = 0; i < place->depth && named < 2; i++) {
        const struct gs_file_frame *frame = gs_report_file_frame(file, place, i);
        if (!frame) {
            continue;
        }
        if (named++ > 0) {
            used += (size_t)snprintf(out + used, TITLE_BYTES - used, " < ");
            used = used < TITLE_BYTES ? used : TITLE_BYTES - 1;
        }
        used += name_frame(file, frame, out + used, TITLE_BYTES - used);
    }
    if (named == 0) {
        used = (size_t)snprintf(out, TITLE_BYTES, "no call stack%s%.40s",
                                place->no_stack ? ": " : "",
                                place->no_stack ? place->no_stack : "");
    }
    (void)snprintf(out + used, TITLE_BYTES - used, ", %s (%s)",
                   place->call ? place->call : "unknown call",
                   place->kind ? place->kind : "unknown");
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
    if (total || !(total = calloc(1, sizeof(*total)))) {
        return total;
    }
    total->key = key;
    name_place(file, place, total->title);
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
    return strcmp(a->title, b->title);
}

/* Narrower, a call site has a line of its own. */
#define COLUMNS_MIN 80
#define FORM        "%8s %8s %-11s %8s %8s %11s"

/* Adds a line, cut where the terminal's columns end. */
static void write_cut(struct gs_text *text, unsigned columns, char *line)
{
    size_t at = 0;
    gs_make_printable(line, false);
    for (unsigned i = 0; line[at] && (columns == 0 || i < columns); i++) {
        at += gs_utf8_length(line + at);
    }
    gs_text_add(text, "%.*s\n", (int)at, line);
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

static void write_line(struct gs_text *text, unsigned columns, char *numbers,
                       const char *title)
{
    char line[NUMBERS_BYTES + 2 + TITLE_BYTES];
    if (columns == 0 || columns >= COLUMNS_MIN) {
        (void)snprintf(line, sizeof(line), "%s  %s", numbers, title);
        write_cut(text, columns, line);
    } else {
        write_cut(text, whole_numbers(columns), numbers);
        (void)snprintf(line, sizeof(line), "    %s", title);
        write_cut(text, columns, line);
    }
}

static void write_total(const struct gs_place_table *table,
                        const struct gs_place_total *total, unsigned columns,
                        struct gs_text *text)
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
    write_line(text, columns, line, total->title);
}

void gs_place_table_write(struct gs_place_table *table, const char *what, unsigned most,
                          unsigned columns, struct gs_text *text)
{
    char line[NUMBERS_BYTES], number[32], bytes[24];
    unsigned written = 0, count = HASH_COUNT(table->places);
    for (struct gs_place_total *total = table->places; total; total = total->hh.next) {
        settle(total);
    }
    HASH_SORT(table->places, compare_totals);
    (void)snprintf(line, sizeof(line), FORM, what, "most", "at", "least", "spread",
                   "processes");
    if (count > 0) {
        write_line(text, columns, line, "call site");
    }
    for (struct gs_place_total *total = table->places; total && written < most;
         total = total->hh.next, written++) {
        write_total(table, total, columns, text);
    }
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
