/*
 * finish.h - the report at the end of the process.
 */
#ifndef GS_FINISH_H
#define GS_FINISH_H

#include "shim/report/refusals.h"
#include "shim/report/report_settings.h"

/*
 * Writes the report, once for the process: at exit, quick_exit, _exit or before an exec.
 * Does nothing in a process without CUDA calls, and in a child that shares or copied the
 * memory of the process that made them.
 *
 * In:  ending  how the process ends ("exit 0"), for the header
 *      again   a later call may write another report (an exec that fails)
 * Returns whether there were leaks or errors.
 */
bool gs_finish_report(const char *ending, bool again);

/*
 * Replaces gs_finish_report if the calling thread must not write a report, since it was
 * interrupted inside the library. Waits for a report that another thread writes, since
 * the process must not end during it. If there is none, logs one line. Async-signal-safe.
 *
 * In:  format  why there is no report, as the end of a sentence
 */
void gs_finish_without_report(const char *format, ...) GS_PRINTF(1, 2);

/* An interim report, while the program runs. */
struct gs_interim {
    const char *ending;  /* the cause, for the header */
    const char *note;    /* a line below it; NULL: none */
    uint32_t stack;      /* of the call that caused it; 0: none */
    unsigned call_sites; /* number of call sites listed; 0: GPUSHIM_LEAK_MAX */
    struct gs_report_lines lines;
    struct gs_refusal *refusal;       /* that caused it */
    bool only_files;                  /* of GPUSHIM_OUTPUT, without the text */
    bool owners_alone;                /* of call sites and peaks only the sums by owner */
    struct gs_text *text;             /* the report goes there alone; NULL: to the log */
    const enum gs_export_row *format; /* of that text; NULL: a report's own */
};

/* Writes an interim report and its files, unless the last one was written. Not for a
 * thread of the program: it needs time, stack and locks. */
void gs_finish_interim(const struct gs_interim *what);

/* Writes GPUSHIM_METRICS_FILE while the program runs, if there is one to write, unless
 * a report is being written. Not for a thread of the program. */
void gs_finish_metrics(void);

/* Writes the log's report, the files and the state file's end for gpushim detach, as the
 * program goes on, unless the last report was written. After it none is due. */
void gs_finish_detach(void);

/* Returns true if this process has a report to write at its end. Async-signal-safe. */
bool gs_finish_due(void);

/* The status to end with instead of `status`: GPUSHIM_ERROR_EXITCODE if it applies. */
int gs_finish_status(int status, bool bad);

#endif
