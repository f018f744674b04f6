/*
 * lookup_log.h - GPUSHIM_LOOKUP_LOG: the log of symbol look-ups by cuGetProcAddress, and
 * of requests for private tables.
 *
 * Lock: none; start opens the file once.
 */
#ifndef GS_LOOKUP_LOG_H
#define GS_LOOKUP_LOG_H

#include <stdbool.h>

#include "shim/cuda/cuda_names.h"

/* Opens the file of this pattern; each look-up appends a line. "" = no log. */
void gs_lookup_log_open(const char *pattern);

/* Logs a look-up of a function; `ours`: the result is a wrapper. */
void gs_lookup_log_function(const char *name, int version, cuuint64_t flags, bool ours);
/* Logs a request for a private table. */
void gs_lookup_log_table(const char *guid, CUresult result);

#endif
