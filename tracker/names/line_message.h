/*
 * line_message.h - queries of line_helper.h and their answers as text, for a process that
 * has them answered by another one (struct gs_line_server).
 *
 * A query is a line, PATH TAB ADDRESS TAB SYMBOL; its answer one line a place, FUNCTION
 * TAB FILE TAB LINE, and an empty line. What cannot be said in this form, or does not
 * fit, is left out; what is read may have any form.
 *
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_LINE_MESSAGE_H
#define GS_LINE_MESSAGE_H

#include "tracker/names/line_helper.h"

/* Of one message. */
#define GS_LINE_MESSAGE_QUERIES 64u

/* Writes queries until `room` or the message is full. Returns how many; 0: the first has
 * no such form. */
size_t gs_line_message_ask(const struct gs_line_query *queries, size_t count, char *text,
                           size_t room);
/* Reads queries, which point into the text. Returns how many. */
size_t gs_line_message_read(char *text,
                            struct gs_line_query queries[GS_LINE_MESSAGE_QUERIES]);
/* Writes the answers of queries, GS_LINE_MESSAGE_QUERIES at most. */
void gs_line_message_answer(const struct gs_line_query *queries, size_t count, char *text,
                            size_t room);
/* Reads the answers of the queries, in their order. The text changes. */
void gs_line_message_take(char *text, struct gs_line_query *queries, size_t count);

#endif
