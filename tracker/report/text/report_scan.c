/*
 * report_scan.c - the text of a scan's results.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "Lost or still referenced"
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>

static const struct {
    const char *all, *some; /* all: for a whole group; some: after a number */
} texts[GS_SCAN_RESULTS] = {
    [GS_SCAN_NOT_MADE] = {"live at exit", "not searched for"},
    [GS_SCAN_LOST] = {"lost (no host pointer found)", "lost"},
    [GS_SCAN_START] = {"still referenced", "still referenced"},
    [GS_SCAN_INSIDE] = {"still referenced (inside only)", "inside only"},
    [GS_SCAN_AMBIGUOUS] = {"referenced, perhaps only by the driver",
                           "perhaps only by the driver"},
};

const char *gs_scan_fate(const struct gs_group *group, char out[160])
{
    static const enum gs_scan_found order[] = {
        GS_SCAN_LOST, GS_SCAN_START, GS_SCAN_INSIDE, GS_SCAN_AMBIGUOUS, GS_SCAN_NOT_MADE};
    size_t length = 0;
    char count[32];

    if (group->lost) {
        return "live at reset";
    }
    out[0] = '\0';
    for (size_t i = 0; i < GS_ARRAY_LEN(order); i++) {
        uint64_t found = group->found[order[i]];
        if (found == group->count) {
            return texts[order[i]].all;
        }
        if (found != 0) {
            length += (size_t)snprintf(out + length, 160 - length, "%s%s %s",
                                       length ? ", " : "", gs_text_count(found, count),
                                       texts[order[i]].some);
        }
        if (length >= 160) {
            break;
        }
    }
    return out;
}

void gs_scan_note(const struct gs_scan *scan, const char *prefix, bool figures,
                  struct gs_text *text)
{
    char bytes[24];

    if (scan->why_not) {
        gs_text_add(text, "%sNote: no scan for pointers: %s\n", prefix, scan->why_not);
    } else if (scan->python_unread && scan->count != 0) {
        gs_text_add(text,
                    "%sNote: the leak scan is not reliable for Python objects: %s; no "
                    "leak is called lost\n",
                    prefix, scan->python_unread);
    }
    if (scan->why_not) {
        return;
    }
    if (figures && scan->count != 0) {
        gs_text_add(text, "%sSearched %s of host memory for pointers, %u.%03u s\n",
                    prefix, gs_text_bytes(scan->scanned_bytes, bytes),
                    (unsigned)(scan->took_ns / 1000000000u),
                    (unsigned)(scan->took_ns / 1000000u % 1000u));
    }
}
