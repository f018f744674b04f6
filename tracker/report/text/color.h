/*
 * color.h - marks a report for a terminal: headlines, verdicts, functions and lines.
 * Locks: none.
 */
#ifndef GS_COLOR_H
#define GS_COLOR_H

#include <string.h>

#include "tracker/report/text/text.h"

/* Returns whether the value of TERM, NULL if there is none, is that of a terminal without
 * colours. */
static inline bool gs_text_is_dumb(const char *terminal)
{
    return terminal && (terminal[0] == '\0' || strcmp(terminal, "dumb") == 0);
}

/* Puts escape sequences (SGR) into the lines of a report; lines of other forms stay as
 * they are. Without memory the whole text does. */
void gs_text_color(struct gs_text *text);

#endif
