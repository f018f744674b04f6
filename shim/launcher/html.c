/*
 * html.c - gpushim html FILE: a report as one page for a browser.
 *
 * The page is a template (view/) that the report's JSON is put into; the template's
 * script shows it. FILE has the JSON, or is a state file, of which the reader makes it.
 * Nothing in the report can end the element that it stands in: no character there is
 * special in HTML.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gs_printable.h"
#include "launcher.h"
#include "report_file.h"

#define CANNOT_READ  1
#define CANNOT_WRITE 1

/* The template (view.S), and the end of the tag that the JSON follows. */
extern const char gs_view_page[], gs_view_page_end[];
static const char json_tag[] = "id=\"report\">";

/* ---- the page -----------------------------------------------------------------------
 */

/* The escape of a character that HTML or a script may take for its own; "": none. */
static const char *escape_of(const char *c, size_t length)
{
    static const struct {
        char text[4], escape[8];
    } escapes[] = {{"<", "\\u003c"},
                   {">", "\\u003e"},
                   {"&", "\\u0026"},
                   {"\u2028", "\\u2028"},
                   {"\u2029", "\\u2029"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(escapes); i++) {
        if (length == strlen(escapes[i].text) &&
            memcmp(c, escapes[i].text, length) == 0) {
            return escapes[i].escape;
        }
    }
    return length == 0 ? "\\ufffd" : ""; /* not UTF-8 */
}

/* In JSON these characters are in strings alone, and follow no backslash. */
static void put_json(struct gs_page *page, const char *text)
{
    const char *done = text;
    while (*text) {
        bool plain =
            (unsigned char)*text < 0x80 && *text != '<' && *text != '>' && *text != '&';
        size_t length = plain ? 1 : gs_utf8_length(text);
        const char *escape = plain ? "" : escape_of(text, length);
        const char *next = text + (length ? length : 1);
        if (escape[0]) {
            (void)gs_page_put(page, done, (size_t)(text - done));
            (void)gs_page_put(page, escape, strlen(escape));
            done = next;
        }
        text = next;
    }
    (void)gs_page_put(page, done, (size_t)(text - done));
}

static void put_page(struct gs_page *page, const char *json)
{
    size_t length = (size_t)(gs_view_page_end - gs_view_page);
    const char *tag = memmem(gs_view_page, length, json_tag, strlen(json_tag));
    size_t head = (size_t)(tag - gs_view_page) + strlen(json_tag);
    (void)gs_page_put(page, gs_view_page, head);
    put_json(page, json);
    (void)gs_page_put(page, gs_view_page + head, length - head);
}

/* Beside the report: run.json gives run.html, run.state gives run.state.html. */
static void name_page(const char *report, char out[PATH_MAX])
{
    size_t length = strlen(report);
    if (length > 5 && strcmp(report + length - 5, ".json") == 0) {
        length -= 5;
    }
    if (snprintf(out, PATH_MAX, "%.*s.html", (int)length, report) >= PATH_MAX) {
        gs_launcher_fail(CANNOT_WRITE, "%s: the name is too long; no page", report);
    }
}

int gs_html_write(const struct gs_arguments *arguments)
{
    static struct gs_page page;
    char beside[PATH_MAX];
    const char *report = arguments->command[0], *path = arguments->page;
    if (!report || arguments->command[1]) {
        gs_arguments_usage(stderr);
        return GS_EXIT_USAGE;
    }
    if (!path) {
        name_page(report, beside);
        path = beside;
    }
    size_t length;
    const char *problem;
    char *json = gs_report_file_json(report, GS_STATE_ALL_LINES, &length, &problem);
    if (!json) {
        gs_launcher_fail(CANNOT_READ, "%s: %s; no page", report, problem);
    }
    gs_page_open(&page, "page", path, arguments->command);
    put_page(&page, json);
    free(json);
    return gs_page_close(&page);
}
