/*
 * leak_rules.h - the rules for leaks and wrong frees: GPUSHIM_SUPPRESSIONS and what is
 * built in.
 */
#ifndef GS_LEAK_RULES_H
#define GS_LEAK_RULES_H

#include "options.h"
#include "suppress.h"

/* Read the files, once for a process image: a forked child has its parent's rules. Says
 * what is wrong with them, and writes the built-in ones where that is asked for. Called
 * by start-up. */
void gs_rules_start(const struct gs_options *options);

/* For the report; NULL: none. */
struct gs_suppressions *gs_rules(void);

#endif
