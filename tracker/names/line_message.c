/*
 * line_message.c - see line_message.h.
 * Owns: nothing.   Lock: none.
 */
#include "tracker/names/line_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MOST 100000000ul

/* Whether a text can be a field. */
static bool is_plain(const char *text)
{
    return text == NULL || text[strcspn(text, "\t\n")] == '\0';
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* The fields of the next line; false: there is no line of so many. Changes the text. */
static bool next_line(char **text, char *fields[3])
{
    char *line = strsep(text, "\n");
    for (int i = 0; line != NULL && i < 3; i++) {
        fields[i] = strsep(&line, "\t");
    }
    return line == NULL && fields[2] != NULL;
}

size_t gs_line_message_ask(const struct gs_line_query *queries, size_t count, char *text,
                           size_t room)
{
    size_t written = 0, used = 0;
    text[0] = '\0';
    while (written < count && written < GS_LINE_MESSAGE_QUERIES) {
        const struct gs_line_query *query = &queries[written];
        if (query->path == NULL || !is_plain(query->path) || !is_plain(query->symbol)) {
            break;
        }
        int length = snprintf(text + used, room - used, "%s\t%" PRIx64 "\t%s\n",
                              query->path, query->address, or_empty(query->symbol));
        if (length < 0 || (size_t)length >= room - used) {
            text[used] = '\0';
            break;
        }
        used += (size_t)length;
        written++;
    }
    return written;
}

size_t gs_line_message_read(char *text,
                            struct gs_line_query queries[GS_LINE_MESSAGE_QUERIES])
{
    size_t count = 0;
    char *fields[3] = {0};
    while (count < GS_LINE_MESSAGE_QUERIES && text != NULL && text[0] != '\0' &&
           next_line(&text, fields)) {
        queries[count++] =
            (struct gs_line_query){.path = fields[0],
                                   .address = strtoull(fields[1], NULL, 16),
                                   .symbol = fields[2][0] != '\0' ? fields[2] : NULL};
    }
    return count;
}

void gs_line_message_answer(const struct gs_line_query *queries, size_t count, char *text,
                            size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t end = room - (count - i) - 1; /* the others' empty lines, and NUL */
        for (unsigned k = 0; k < queries[i].count; k++) {
            const struct gs_line_place *place = &queries[i].places[k];
            if (!is_plain(place->function) || !is_plain(place->file)) {
                continue;
            }
            int length =
                snprintf(text + used, end - used, "%s\t%s\t%u\n",
                         or_empty(place->function), or_empty(place->file), place->line);
            if (length < 0 || (size_t)length >= end - used) {
                break;
            }
            used += (size_t)length;
        }
        text[used++] = '\n';
    }
    text[used] = '\0';
}

static char *copy(const char *field)
{
    return field[0] != '\0' ? strdup(field) : NULL;
}

static bool add_place(struct gs_line_query *query, char *fields[3])
{
    size_t bytes = (query->count + 1) * sizeof(*query->places);
    struct gs_line_place *grown =
        query->count < GS_LINE_PLACES_MAX ? realloc(query->places, bytes) : NULL;
    if (grown == NULL) {
        return false;
    }
    unsigned long line = strtoul(fields[2], NULL, 10);
    query->places = grown;
    grown[query->count++] =
        (struct gs_line_place){.function = copy(fields[0]),
                               .file = copy(fields[1]),
                               .line = line <= LINE_MOST ? (unsigned)line : 0};
    return true;
}

void gs_line_message_take(char *text, struct gs_line_query *queries, size_t count)
{
    char *fields[3] = {0};
    for (size_t at = 0; at < count && text != NULL && text[0] != '\0';) {
        if (text[0] == '\n') {
            text++;
            at++;
        } else if (!next_line(&text, fields) || !add_place(&queries[at], fields)) {
            return;
        }
    }
}
