/*
 * table_line.h - lines of the tables of gpushim merge: numbers, and a title that is cut
 * where the terminal ends; and the cells of Markdown.
 * Locks: none.   Design: docs/outputs.md
 */
#ifndef GS_TABLE_LINE_H
#define GS_TABLE_LINE_H

#include "shim/tools/reader/report_file.h"
#include "tracker/report/text/text.h"

#define GS_TABLE_WHO_BYTES     32
#define GS_TABLE_NUMBERS_BYTES 160

/* Where a table is written. */
struct gs_table_form {
    unsigned columns;          /* of the terminal; 0: none */
    bool whole;                /* titles are not cut */
    const unsigned char *ends; /* where the columns of numbers end, rising */
    size_t end_count;
};

/* Writes numbers and title; a narrow terminal has a line for each, with those numbers
 * that fit. */
void gs_table_line(const struct gs_table_form *form, const char *numbers,
                   const char *title, struct gs_text *text);

/* "rank 3", or "pid 4711". Returns `out`. */
const char *gs_table_who(const struct gs_report_file *file, char out[GS_TABLE_WHO_BYTES]);

/* Writes a text as code in a cell of a Markdown table, whatever it contains. */
void gs_table_code(const char *code, struct gs_text *text);

/* Adds to a sum, which stops at the largest number. */
static inline void gs_table_add(uint64_t *sum, uint64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum)) {
        *sum = UINT64_MAX;
    }
}

#endif
