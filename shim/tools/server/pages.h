/*
 * pages.h - what the server makes of the answers of all processes: the page of metrics,
 * and a table for a browser.
 * Locks: none; one thread.
 */
#ifndef GS_PAGES_H
#define GS_PAGES_H

#include "shim/tools/server/asks.h"
#include "tracker/report/text/text.h"

#define GS_PROGRAM_NAME 256

/* The name of a process's program, without its folder; "": not known. Returns `out`. */
char *gs_page_program(pid_t pid, char out[GS_PROGRAM_NAME]);

/* Writes the metrics of all processes, and what the server knows of its questions. False:
 * no memory. In: began_ns  when the request came; plain  Prometheus' text format */
bool gs_page_metrics(const struct gs_asks *asks, const char *pod_logs, uint64_t began_ns,
                     bool plain, struct gs_text *out);

/* Writes the table of all processes, as HTML; the answers change. */
void gs_page_table(struct gs_asks *asks, struct gs_text *out);

#endif
