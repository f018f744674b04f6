/*
 * suppress_files.h - which functions of the leaks are in several files: a rule for one of
 * them names its file.
 * Owns: a struct gs_rule_functions.   Lock: none.   Design: docs/suppressions.md
 */
#ifndef GS_SUPPRESS_FILES_H
#define GS_SUPPRESS_FILES_H

#include "tracker/report/report_internal.h"

/* Room for a pattern of a proposed rule. */
#define GS_RULE_PATTERN_BYTES 256u

/* A function of a leak, and the file of a frame of it. */
struct gs_rule_function {
    const char *function, *file;
};

struct gs_rule_functions {
    struct gs_rule_function *items; /* by name, then by file; each once */
    size_t count, capacity;
    struct gs_shown_paths paths; /* of all their files */
};

/* Finds the functions of all leaks whose stacks are named; of suppressed ones, too, since
 * their rules must not match the others. Without memory some are missing. */
void gs_rule_functions_find(const struct gs_report_writer *writer,
                            struct gs_rule_functions *out);
void gs_rule_functions_free(struct gs_rule_functions *functions);

/* Writes the pattern of a frame's file, "^main.c$" or "/a/utils.cpp$", if functions of
 * its name are in other files, too; else "". It has as many folders as tell the file from
 * the others, so that it holds for another checkout. */
void gs_rule_functions_pattern(struct gs_rule_functions *functions,
                               const struct gs_symbol *symbol,
                               char out[GS_RULE_PATTERN_BYTES]);

#endif
