/*
 * options_idle.h - options that have no effect beside others.
 *
 * Values that are wrong are options.c's; this is about good ones that do nothing. What a
 * part of the library finds out for itself, it tells itself (GPUSHIM_CHECK_*).
 */
#ifndef GS_OPTIONS_IDLE_H
#define GS_OPTIONS_IDLE_H

#include "options.h"

/* name=value, and why it does nothing: a sentence without a full stop. */
typedef void (*gs_options_idle_sink)(const char *name, const char *value,
                                     const char *why);

/* In:  env  that the options were read from: for the values as they were written
 * Locks: none. */
void gs_options_log_idle(const struct gs_options *options, char *const *env,
                         gs_options_idle_sink tell);

#endif
