/*
 * top_list.h - the processes that gpushim top shows: their files and threads found, read
 * again and again, filtered and sorted. Knows no terminal.
 * Locks: none; one thread.   Design: docs/state.md
 */
#ifndef GS_TOP_LIST_H
#define GS_TOP_LIST_H

#include "shim/tools/reader/live_totals.h"
#include "tracker/report/text/text.h"

/* The columns that rows can be sorted by. */
enum gs_top_sort {
    GS_TOP_LIVE,
    GS_TOP_RESERVED,
    GS_TOP_PEAK,
    GS_TOP_RATE,
    GS_TOP_PID,
    GS_TOP_PROGRAM,
    GS_TOP_GROWTH,
    GS_TOP_SORTS
};
extern const char gs_top_sort_names[GS_TOP_SORTS][12];

#define GS_TOP_FILTER_BYTES 64

/* A process on a device. */
struct gs_top_row {
    const struct gs_top_file *file;
    const struct gs_live_totals *totals;
    const struct gs_live_totals_row *memory;
    double rate;          /* allocations a second; < 0: not known yet */
    int64_t growth_bytes; /* of live memory, since it was read first */
    bool ended;
};

/* The processes of a device, by hostname and PCI bus id, or of a machine's pinned memory.
 */
struct gs_top_device {
    const struct gs_live_totals *totals; /* of one of them */
    const struct gs_live_totals_row *memory;
    uint64_t live_bytes, reserved_bytes;
    unsigned processes;
};
#define GS_TOP_DEVICES 64u /* more are not summed up */

/* Zero at first, but for `paths`. */
struct gs_top_list {
    char *const *paths; /* files and folders, NULL at the end */
    bool asks;          /* processes without a file are asked, too */
    bool quiet;         /* nothing is said of files that are no state files */
    enum gs_top_sort sort;
    bool reversed;
    char filter[GS_TOP_FILTER_BYTES]; /* part of the command, process id, hostname or path
                                       */

    struct gs_top_file *files; /* by path */
    uint64_t scanned_ns;       /* when folders were read */
    struct gs_top_row *rows;   /* as of the last gs_top_list_read */
    size_t count, room;
    unsigned processes, ended;           /* running; ended and not shown */
    unsigned unread, cut, others;        /* cut: of those unread; others: of a folder */
    const char *unread_path, *problem;   /* one of those unread, one that is cut first */
    uint64_t live_bytes, reserved_bytes; /* of those that run */
    struct gs_top_device devices[GS_TOP_DEVICES];
    unsigned device_count;
};

/* Reads what can have changed. Files in folders that cannot be read, or whose processes
 * have ended, are not read again before they change. */
void gs_top_list_read(struct gs_top_list *list);
/* Filters and sorts the rows, without reading. */
void gs_top_list_arrange(struct gs_top_list *list);
/* The path of a row's file, or the name of its thread (gs_live_totals_ask). */
const char *gs_top_list_path(const struct gs_top_row *row);
void gs_top_list_free(struct gs_top_list *list);

#endif
