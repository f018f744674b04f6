/*
 * leak_rules.h - the rules for known leaks and wrong frees: GPUSHIM_SUPPRESSIONS and the
 * built-in ones.
 */
#ifndef GS_LEAK_RULES_H
#define GS_LEAK_RULES_H

#include "shim/settings/options.h"
#include "tracker/report/rules/suppress.h"

/* Reads the files, once for a process image: a forked child has its parent's rules. Logs
 * their errors, and writes the built-in rules if the option asks for this. Called at
 * start. */
void gs_rules_start(const struct gs_options *options);

/* Replaces the rules while the program runs. Returns NULL, or why not, as the end of a
 * sentence. One caller at a time. builtin: with the built-in ones. */
const char *gs_rules_change(const char *files, bool builtin);

/* Whether a part of GPUSHIM_SUPPRESSIONS is not in use: a file could not be read, or a
 * line is no rule, nor one of another tool. A check has then not been made. */
bool gs_rules_ignored(void);

/* What is wrong with a file of rules, for the command, which has one thread: it cannot be
 * read, or "FILE:LINE: ..."; NULL: nothing. */
const char *gs_rules_fault(const char *path);

/* For the report; NULL: none. */
struct gs_suppressions *gs_rules(void);

#define GS_RULES_WRONG "a rule, not a file: put it into a file and name the file"
/* Whether a value of GPUSHIM_SUPPRESSIONS is a rule. */
bool gs_rules_is_rule(const char *list);

/* Whether a rule denies calls: the tracker then sums up all allocations by call site.
 * Constant after start. */
bool gs_rules_deny(void);

#endif
