/*
 * diff.h - compares two reports, call site by call site: gpushim diff.
 * Locks: none.   Design: docs/outputs.md
 */
#ifndef GS_DIFF_H
#define GS_DIFF_H

#include "shim/tools/reader/place_key.h"
#include "tracker/report/files/export_json_values.h"
#include "tracker/report/text/text.h"

/* In the order in which they are written. */
enum gs_diff_kind {
    GS_DIFF_NEW,
    GS_DIFF_GROWN,
    GS_DIFF_SHRUNK,
    GS_DIFF_GONE,
    GS_DIFF_SUPPRESSED, /* leaks in one report, a rule took it in the other */
    GS_DIFF_SAME,
    GS_DIFF_KINDS
};

/* A call site: what it has in the first and in the second report. */
struct gs_diff_row {
    enum gs_diff_kind kind;
    uint64_t bytes[2], counts[2];
    unsigned side;                     /* of `place` */
    const struct gs_file_place *place; /* the largest: its stack is written */
    bool same_code; /* its modules are of the same build in both reports */
};

#define GS_DIFF_REBUILT_MOST 3

struct gs_diff {
    struct gs_diff_row *rows; /* what grew most first, what shrank most last */
    size_t count;
    uint64_t kinds[GS_DIFF_KINDS];             /* rows of each kind */
    uint64_t grown[GS_DIFF_KINDS];             /* bytes by which these grew or shrank */
    uint64_t bytes[2], counts[2];              /* in all, with what is in no place */
    const char *rebuilt[GS_DIFF_REBUILT_MOST]; /* modules of another build id */
    size_t rebuilt_count;
    const char *moved[2]; /* the paths of a file that has moved, in A and in B */
    size_t moved_count;   /* such files */
    bool joined;          /* some lines were taken for one call site of their function */
};

/* Compares; gs_diff_free must follow. False: no memory. Sets file_there and path_there of
 * the second file. */
bool gs_diff_make(struct gs_report_file files[2], struct gs_diff *out);
void gs_diff_free(struct gs_diff *diff);

/* Writes at most `most` call sites that differ, and the sums. */
void gs_diff_write(const struct gs_diff *diff, const struct gs_report_file files[2],
                   const char *const paths[2], unsigned most, struct gs_text *text);

/* The same as a table in Markdown, for a comment on a change. */
void gs_diff_markdown(const struct gs_diff *diff, const struct gs_report_file files[2],
                      const char *const paths[2], unsigned most, struct gs_text *text);
/* Writes the members for all call sites, and the sums. */
void gs_diff_json(const struct gs_diff *diff, const struct gs_report_file files[2],
                  const char *const paths[2], struct gs_json *json);

/* What fails: growth of more than a limit, in bytes or (gs_share_bytes) of what was. */
struct gs_diff_limits {
    bool fails[GS_DIFF_KINDS]; /* GS_DIFF_NEW and GS_DIFF_GROWN alone */
    uint64_t limits[GS_DIFF_KINDS];
};
/* Reads "new,grown:10%". False: malformed. */
bool gs_diff_limits_read(const char *words, struct gs_diff_limits *out);
/* The number of call sites beyond the limits. */
size_t gs_diff_failures(const struct gs_diff *diff, const struct gs_diff_limits *limits);

#endif
