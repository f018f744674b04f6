/*
 * start_folder.h - the folder in which the process started, for relative file names.
 *
 * A daemon changes to "/" before its first CUDA call, at which the options are read. The
 * files that the user named are then still those of the folder where the program was
 * started.
 * Locks: none; written before main.
 */
#ifndef GS_START_FOLDER_H
#define GS_START_FOLDER_H

#include <limits.h>

#include "gs_base.h"

/* Called before main: records the current folder if a variable in `env` names a file
 * relative to it. */
void gs_start_folder_remember(char *const *env);

/* The recorded folder, else the current one, in `out`. False: it has no path, or one that
 * is too long. Async-signal-safe. */
bool gs_start_folder(char out[PATH_MAX]);

/* Makes a file name absolute; leaves the name unchanged if it is absolute, or where
 * that is impossible. Not a pattern: percent signs have no meaning. */
void gs_start_folder_absolute(const char *name, char out[PATH_MAX]);

/* Returns whether the value of an option names a relative file, for the launcher too. */
struct gs_option;
bool gs_start_folder_matters(const struct gs_option *option, const char *value);

#endif
