/*
 * scope_table.h - the scopes of many processes, each with its sums and with the process
 * whose peak is the highest: gpushim merge; and those of one process: gpushim top.
 * Locks: none.   Design: docs/outputs.md
 */
#ifndef GS_SCOPE_TABLE_H
#define GS_SCOPE_TABLE_H

#include "shim/tools/reader/report_file.h"
#include "tracker/report/files/export_json_values.h"
#include "tracker/report/text/text.h"

/* Zero at first. Its memory grows with the scopes, not with the processes. */
struct gs_scope_table {
    struct gs_scope_total *scopes; /* by path */
    uint64_t processes;
    bool failed; /* some are missing for lack of memory */
};

/* Adds the scopes of a process. */
void gs_scope_table_add(struct gs_scope_table *table, const struct gs_report_file *file);
/* Writes a line for each of at most `most` scopes, the highest peak first; nothing
 * without scopes. `columns`: where a line is cut; 0: nowhere. */
void gs_scope_table_write(struct gs_scope_table *table, unsigned most, unsigned columns,
                          struct gs_text *text);
/* The same as a table of Markdown. */
void gs_scope_table_markdown(struct gs_scope_table *table, unsigned most,
                             struct gs_text *text);
/* Writes the member for scopes. */
void gs_scope_table_json(struct gs_scope_table *table, struct gs_json *json);
void gs_scope_table_free(struct gs_scope_table *table);

/* Writes the scopes of a process, what is live now first. Sorts them. */
void gs_scope_table_of_process(struct gs_report_file *file, struct gs_text *text);

#endif
