/*
 * color.c - marks a report for a terminal.
 *
 * Works on the finished text: the writers of the report do not know colours, and a file
 * gets none. The text has no control characters of its own (gs_report_clean), so the
 * sequences that are added are the only ones.
 *
 * Owns: nothing.   Lock: none.
 */
#include "tracker/report/text/color.h"

#include <stdio.h>
#include <string.h>

#include "gs_base.h"

#define DIM     "\033[2m"
#define BOLD    "\033[1m"
#define RED     "\033[1;31m"
#define GREEN   "\033[1;32m"
#define YELLOW  "\033[33m"
#define CYAN    "\033[36m"
#define NOTHING "\033[0m"

/* Headlines: a line that begins with the word is marked as far as its colon. */
static const struct {
    char word[14], color[8]; /* no pointers: each costs every start a relocation */
} headlines[] = {{"LEAK ", RED},     {"ERROR ", RED},          {"LIVE ", BOLD},
                 {"PEAK ", BOLD},    {"GROWING ", RED},        {"REGISTERED ", BOLD},
                 {"Note", YELLOW},   {"GPU ", BOLD},           {"Pinned host", BOLD},
                 {"Pool of ", BOLD}, {"SLOW COPIES ", YELLOW}, {"NEW ", RED},
                 {"GROWN ", RED},    {"SHRUNK ", GREEN},       {"GONE ", GREEN},
                 {"Try", YELLOW},    {"largest", RED}};

static bool begins(const char *at, size_t length, const char *word)
{
    size_t size = strlen(word);

    return length >= size && memcmp(at, word, size) == 0;
}

static void add(struct gs_text *out, const char *at, size_t length)
{
    gs_text_add_bytes(out, at, length);
}

static void add_marked(struct gs_text *out, const char *color, const char *at,
                       size_t length)
{
    add(out, color, strlen(color));
    add(out, at, length);
    add(out, NOTHING, strlen(NOTHING));
}

/* The bytes before two spaces. */
static size_t word_length(const char *at, size_t length)
{
    for (size_t i = 0; i + 1 < length; i++) {
        if (at[i] == ' ' && at[i + 1] == ' ') {
            return i;
        }
    }
    return length;
}

/* "    #0 load_weights                  leaky.c:39": the function and the line. */
static bool color_frame(struct gs_text *out, const char *at, size_t length)
{
    size_t spaces = 0, digits, name;

    while (spaces < length && at[spaces] == ' ') {
        spaces++;
    }
    digits = spaces + 1;
    while (digits < length && at[digits] >= '0' && at[digits] <= '9') {
        digits++;
    }
    if (spaces == length || at[spaces] != '#' || digits == spaces + 1 ||
        digits == length || at[digits] != ' ') {
        return false;
    }
    add(out, at, ++digits);
    name = word_length(at + digits, length - digits);
    add_marked(out, BOLD, at + digits, name);
    at += digits + name;
    length -= digits + name;
    spaces = 0;
    while (spaces < length && at[spaces] == ' ') {
        spaces++;
    }
    add(out, at, spaces);
    if (spaces < length) {
        add_marked(out, CYAN, at + spaces, length - spaces);
    }
    return true;
}

/* A line without its prefix and newline. */
static void color_line(struct gs_text *out, const char *at, size_t length)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(headlines); i++) {
        const char *colon = memchr(at, ':', length);

        if (!colon || !begins(at, length, headlines[i].word)) {
            continue;
        }
        add_marked(out, headlines[i].color, at, (size_t)(colon - at));
        add(out, colon, length - (size_t)(colon - at));
        return;
    }
    if (begins(at, length, "SUMMARY:")) {
        bool clean = begins(at, length, "SUMMARY: gpushim: 0 errors, 0 B leaked") ||
                     begins(at, length, "SUMMARY: gpushim diff: 0 new, 0 grown,");

        add_marked(out, clean ? GREEN : RED, at, length);
        return;
    }
    if (length > 0 && at[0] != ' ' && word_length(at, length) < length) {
        size_t title = word_length(at, length); /* of a table, or a device */

        add_marked(out, BOLD, at, title);
        add(out, at + title, length - title);
        return;
    }
    if (!color_frame(out, at, length)) {
        add(out, at, length);
    }
}

/* "==123==" and the space: the bytes; 0: the line has none. */
static size_t prefix_length(const char *at, size_t length)
{
    size_t i = 2;

    if (!begins(at, length, "==")) {
        return 0;
    }
    while (i < length && at[i] >= '0' && at[i] <= '9') {
        i++;
    }
    if (i == 2 || !begins(at + i, length - i, "==")) {
        return 0;
    }
    i += 2;
    return i < length && at[i] == ' ' ? i + 1 : i;
}

void gs_text_color(struct gs_text *text)
{
    struct gs_text out = {0};
    const char *at = text->data, *end = at + text->length;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        size_t prefix = prefix_length(at, length);

        if (prefix > 0) {
            add_marked(&out, DIM, at, prefix);
        }
        color_line(&out, at + prefix, length - prefix);
        if (newline) {
            add(&out, "\n", 1);
        }
        at = newline ? newline + 1 : end;
    }
    if (out.truncated || !out.data) {
        gs_text_free(&out);
        return;
    }
    gs_text_free(text);
    *text = out;
}
