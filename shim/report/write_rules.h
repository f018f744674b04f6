/*
 * write_rules.h - GPUSHIM_WRITE_SUPPRESSIONS: a file to which a report adds rules.
 */
#ifndef GS_WRITE_RULES_H
#define GS_WRITE_RULES_H

#include "tracker/report/text/text.h"

/* Sets or changes the file; "": none. Returns NULL, or why not, as the end of a sentence.
 * One caller at a time. */
const char *gs_rules_change_file(const char *path);
/* Whether there is a file. */
bool gs_rules_wanted(void);
/* Why no rule would be added to this file as it is now; NULL: it is one of rules, or
 * missing. */
const char *gs_rules_refusal(const char *path);
/*
 * Adds to the file the rules that it lacks, and raises the caps of those that it has, all
 * or none of them; creates it if there is no rule, too. Logs how many, or why not.
 * Processes of one run take turns.
 * In:  found    rules, a line each, and perhaps a remark ("# ...") as the last one, which
 *               is logged
 */
void gs_rules_write(const struct gs_text *found, const char *command);

#endif
