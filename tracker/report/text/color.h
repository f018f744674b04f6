/*
 * color.h - marks a report for a terminal: headlines, verdicts, functions and lines.
 * Locks: none.
 */
#ifndef GS_COLOR_H
#define GS_COLOR_H

#include "tracker/report/text/text.h"

/* Puts escape sequences (SGR) into the lines of a report; lines of other forms stay as
 * they are. Without memory the whole text does. */
void gs_text_color(struct gs_text *text);

#endif
