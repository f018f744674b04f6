/*
 * table_line.c - see table_line.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/reader/table_line.h"

#include <stdio.h>

#include "gs_printable.h"

/* Narrower, a row has a line of its own for its title. */
#define COLUMNS_MIN 80

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
static unsigned whole_numbers(const struct gs_table_form *form)
{
    unsigned width = form->ends[0];
    for (size_t i = 1; i < form->end_count && form->ends[i] <= form->columns; i++) {
        width = form->ends[i];
    }
    return width;
}

void gs_table_line(const struct gs_table_form *form, const char *numbers,
                   const char *title, struct gs_text *text)
{
    struct gs_text line = {0};
    bool narrow = form->columns != 0 && form->columns < COLUMNS_MIN;
    if (narrow) {
        write_cut(text, whole_numbers(form), numbers);
    }
    gs_text_add(&line, "%s  %s", narrow ? "  " : numbers, title);
    write_cut(text, form->whole ? 0 : form->columns, line.data ? line.data : "");
    gs_text_free(&line);
}

const char *gs_table_who(const struct gs_report_file *file, char out[GS_TABLE_WHO_BYTES])
{
    bool ranked = file->rank != UINT64_MAX;
    (void)snprintf(out, GS_TABLE_WHO_BYTES, "%s %llu", ranked ? "rank" : "pid",
                   (unsigned long long)(ranked ? file->rank : file->pid));
    return out;
}

/* A bar would end the cell, also after a backslash, and a backtick the code. */
void gs_table_code(const char *code, struct gs_text *text)
{
    gs_text_add(text, "`");
    for (; *code; code++) {
        if (*code == '|') {
            gs_text_add(text, "\\|");
        } else if (*code == '`') {
            gs_text_add(text, "'");
        } else if (code[0] == '\\' && code[1] == '|') {
            gs_text_add(text, "/");
        } else {
            gs_text_add_bytes(text, code, 1);
        }
    }
    gs_text_add(text, "`");
}
