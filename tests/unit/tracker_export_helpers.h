/*
 * tracker_export_helpers.h - what the tests of the export share: one format of a
 * tracker's report, as bytes.
 */
#ifndef GS_TEST_TRACKER_EXPORT_HELPERS_H
#define GS_TEST_TRACKER_EXPORT_HELPERS_H

#include "tracker/report/export_internal.h"
#include "tracker_helpers.h"

struct test_bytes {
    char *data; /* with a NUL behind it */
    size_t length, room;
    size_t limit;   /* the sink refuses what goes beyond; 0: no limit */
    unsigned calls; /* of the sink */
    enum gs_status status;
};

/* A sink that appends to a struct test_bytes. */
bool test_bytes_write(void *bytes, const void *data, size_t length);

/* A job with two options, one device's counters and a fixed end; `write` is the test's.
 */
struct gs_export_job test_job(void);

/* The report in this format with the names of test_source; the caller frees data. */
struct test_bytes test_export(struct gs_tracker *tracker, struct gs_report_config config,
                              enum gs_export_row row, size_t limit);
/* The same with the given names and job; its `write` and `self` are replaced. */
struct test_bytes test_export_from(struct gs_tracker *tracker,
                                   struct gs_report_config config,
                                   const struct gs_report_source *source,
                                   struct gs_export_job job, enum gs_export_row row,
                                   size_t limit);

/* How often the text has the word. */
size_t test_occurrences(const char *text, const char *word);

/* A tracker that keeps a tally. */
struct gs_tracker *test_tally_tracker(struct gs_stacks *stacks);

#endif
