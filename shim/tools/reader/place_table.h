/*
 * place_table.h - the call sites of many processes, each with its sum, the most and the
 * least that a process has, and how many have it: gpushim merge.
 * Locks: none.   Design: docs/outputs.md
 */
#ifndef GS_PLACE_TABLE_H
#define GS_PLACE_TABLE_H

#include "shim/tools/reader/named_frame.h"
#include "shim/tools/reader/place_key.h"
#include "tracker/report/text/text.h"

/* Zero at first. Its memory grows with the call sites, not with the processes. */
struct gs_place_table {
    struct gs_place_total *places; /* by key */
    uint64_t processes;
    uint64_t rest_bytes; /* in no call site */
    bool failed;         /* some are missing for lack of memory */
};

/* Adds the places of a process. */
void gs_place_table_add(struct gs_place_table *table, const struct gs_report_file *file);
/* Writes a line for each of at most `most` call sites, the largest sum first. `columns`:
 * where a line is cut; 0: nowhere. `what`: "leaked", for the head. `full_paths`: files
 * have their whole path, and the line is not cut. */
void gs_place_table_write(struct gs_place_table *table, const char *what, unsigned most,
                          unsigned columns, bool full_paths, struct gs_text *text);
/* The same as a table of Markdown. */
void gs_place_table_markdown(struct gs_place_table *table, const char *what,
                             unsigned most, bool full_paths, struct gs_text *text);
/* Writes the members for call sites, of whose stacks the two innermost frames are
 * kept. */
void gs_place_table_json(struct gs_place_table *table, struct gs_json *json);
void gs_place_table_free(struct gs_place_table *table);

#endif
