/*
 * top_text.h - the screens of gpushim top as lines of text, without escape sequences.
 * Locks: none.   Design: docs/state.md
 */
#ifndef GS_TOP_TEXT_H
#define GS_TOP_TEXT_H

#include "shim/tools/reader/top_list.h"
#include "tracker/report/text/text.h"

/* The time, processes and their sum: one line. */
void gs_top_write_head(const struct gs_top_list *list, struct gs_text *text);
/* A line with the sums of each device. Sorts them. */
void gs_top_write_devices(struct gs_top_list *list, struct gs_text *text);
/* Two lines for a list without processes. */
void gs_top_write_hint(const struct gs_top_list *list, struct gs_text *text);
/* The heads of the table, and a row, for a screen of `columns` characters: a narrow one
 * has fewer columns, and a command that does not fit is written without folders. */
void gs_top_write_columns(unsigned columns, struct gs_text *text);
void gs_top_write_row(const struct gs_top_row *row, unsigned columns,
                      struct gs_text *text);
/* The file that cannot be read, if there is one: a line, or nothing. */
void gs_top_write_problem(const struct gs_top_list *list, struct gs_text *text);

/* The call sites of a process, the largest first, with their stacks; or one line why they
 * cannot be read. */
void gs_top_write_places(const char *path, struct gs_text *text);

/* The scopes of a process, what is live now first; or one line why they cannot be read.
 */
void gs_top_write_scopes(const char *path, struct gs_text *text);

void gs_top_write_help(struct gs_text *text);

#endif
