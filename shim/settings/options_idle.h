/*
 * options_idle.h - options that have no effect because of another one.
 *
 * options.c handles wrong values; this file handles valid ones without effect. A part of
 * the library that detects an option without effect logs it itself (GPUSHIM_CHECK).
 */
#ifndef GS_OPTIONS_IDLE_H
#define GS_OPTIONS_IDLE_H

#include "shim/settings/options.h"

/* name=value, and why it has no effect: a sentence without a full stop. */
typedef void (*gs_options_idle_sink)(const char *name, const char *value,
                                     const char *why);

/* In:  env  the environment of the options: for the values as they were written
 * Locks: none. */
void gs_options_log_idle(const struct gs_options *options, char *const *env,
                         gs_options_idle_sink sink);

#endif
