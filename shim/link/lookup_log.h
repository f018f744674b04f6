/*
 * lookup_log.h - the log of symbol look-ups that went through cuGetProcAddress, and of
 * private tables: GPUSHIM_LOOKUP_LOG.
 *
 * Lock: none; the file is opened once, by start-up.
 */
#ifndef GS_LOOKUP_LOG_H
#define GS_LOOKUP_LOG_H

#include <stdbool.h>

#include "cuda_names.h"

/* Append one line a look-up to the file of this pattern; "" = no log. */
void gs_lookup_log_open(const char *pattern);

/* A function was looked up; `ours`: the answer is a wrapper. */
void gs_lookup_log_function(const char *name, int version, cuuint64_t flags, bool ours);
/* A private table was asked for. */
void gs_lookup_log_table(const char *guid, CUresult result);

#endif
