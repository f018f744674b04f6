/*
 * call_site.h - what a running program may ask of a live allocation: words and names that
 * its report would have.
 * Locks: none. Strings live as long as the stack table.
 */
#ifndef GS_CALL_SITE_H
#define GS_CALL_SITE_H

#include "tracker/report/report.h"

struct gs_call_site {
    const char *kind;     /* kinds.def's word: "device" */
    const char *call;     /* of the driver: "cuMemAlloc" */
    const char *no_stack; /* why the stack is not known; "": it is */
};

/* The totals that count the allocation: the `device` of gs_tracker_get_totals. */
int gs_call_site_row(const struct gs_allocation *allocation);

/* The owner of a stack's memory as in the table of owners: a path; "": unknown. */
const char *gs_call_site_owner(const struct gs_tracker *tracker, uint32_t stack);

void gs_call_site_describe(const struct gs_tracker *tracker,
                           const struct gs_allocation *allocation,
                           struct gs_call_site *out);

/* Adds the lines of a stack as the report has them. Returns false for an unknown one. The
 * caller has time, and a stack as for a report. */
bool gs_call_site_write(struct gs_tracker *tracker, const struct gs_report_config *config,
                        uint32_t stack, struct gs_text *text);

#endif
