/*
 * process_table.h - a line for each of several processes, one for all, and the sum of the
 * peaks on each device: gpushim merge, and --summary.
 * Locks: none.   Design: docs/outputs.md
 */
#ifndef GS_PROCESS_TABLE_H
#define GS_PROCESS_TABLE_H

#include "shim/tools/reader/report_file.h"
#include "tracker/report/files/export_json_values.h"
#include "tracker/report/text/text.h"

/* How a process ended of which its file may not know it. */
struct gs_state_ended {
    int64_t pid;      /* 0 at the end of an array */
    char text[64];    /* "killed by SIGABRT"; "": not known */
    uint64_t unix_ms; /* when; 0: not known */
};

/* Zero at first. */
struct gs_process_table {
    struct gs_text text; /* of gs_process_table_sum */
    struct gs_process_row *rows;
    size_t row_room;
    unsigned processes;
    uint64_t leaked_bytes, live_bytes, killed_bytes, allocs, errors; /* of all */
    unsigned live, killed; /* processes whose memory has not leaked; of them, ended */
    struct gs_shared_device *devices;
    size_t device_count, device_room;
    bool of_hosts; /* of more than one */
    /* The processes that failed first, and that ended first in a way that is not known.
     */
    struct gs_first_end {
        uint64_t unix_ms; /* 0: none */
        bool sent;        /* by a signal that others send: after the failure of one */
        char text[160];
    } failed, unknown, stopped; /* stopped: by SIGKILL */
    unsigned failures, stops;   /* processes that failed by themselves; by SIGKILL */
};

/* Adds a report's line. ended: an array; NULL: nothing is known. */
void gs_process_table_add(struct gs_process_table *table,
                          const struct gs_report_file *file,
                          const struct gs_state_ended *ended);
/* Writes the lines of each process, and of all. */
void gs_process_table_sum(struct gs_process_table *table);
/* Writes the members for each process, each device, and all of them. */
void gs_process_table_json(const struct gs_process_table *table, struct gs_json *json);
void gs_process_table_free(struct gs_process_table *table);

#endif
