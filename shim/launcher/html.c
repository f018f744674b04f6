/*
 * html.c - gpushim html FILE: a report as one page for a browser, with a timeline if
 * there is a trace.
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
#include "timeline.h"

#define CANNOT_READ  1
#define CANNOT_WRITE 1

/* The template (view.S), and the end of the tag that the JSON follows. */
extern const char gs_view_page[], gs_view_page_end[];
static const char report_tag[] = "id=\"report\">",
                  timeline_tag[] = "id=\"timeline-data\">";

/* ---- the page ---------------------------------------------------------------------- */

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

/* Writes the template from `from` to behind the tag. Returns what follows. */
static const char *put_until(struct gs_page *page, const char *from, const char *tag)
{
    const char *at = memmem(from, (size_t)(gs_view_page_end - from), tag, strlen(tag));
    size_t length = (size_t)(at - from) + strlen(tag);
    (void)gs_page_put(page, from, length);
    return from + length;
}

static void put_page(struct gs_page *page, const char *json, const char *timeline)
{
    const char *rest = put_until(page, gs_view_page, report_tag);
    put_json(page, json);
    rest = put_until(page, rest, timeline_tag);
    put_json(page, timeline);
    (void)gs_page_put(page, rest, (size_t)(gs_view_page_end - rest));
}

/* ---- a timeline beside the report -------------------------------------------------- */

/* Texts in memory, from malloc. */
struct pieces {
    struct gs_timeline_source source;
    char *json, *timeline;
    bool failed;
};

static bool put_piece(void *file, const void *data, size_t length)
{
    return fwrite(data, 1, length, file) == length;
}

static bool write_piece(char **out, const struct gs_timeline *timeline,
                        const struct gs_export *export)
{
    size_t length;
    FILE *file = open_memstream(out, &length);
    if (!file) {
        return false;
    }
    const struct gs_export_sink sink = {.write = put_piece, .self = file};
    enum gs_status status = timeline ? gs_timeline_curves(timeline, &sink)
                                     : gs_export_write(export, GS_EXPORT_json, &sink);
    return fclose(file) == 0 && status == GS_OK;
}

/* gs_state_visit.write */
static void write_pieces(void *self, const struct gs_export *export)
{
    struct pieces *pieces = self;
    pieces->failed = true;
    if (export) {
        gs_timeline_take_frames(&pieces->source, export);
        pieces->failed = !write_piece(&pieces->json, NULL, export) ||
                         !write_piece(&pieces->timeline, &pieces->source.timeline, NULL);
    }
}

/* The report of a state file, and the timeline of its trace. */
static void make_pieces(struct pieces *pieces, const char *report, const char *trace)
{
    const char *problem = NULL;
    (void)gs_timeline_open(&pieces->source, trace);
    const struct gs_replay_trace *found = &pieces->source.trace;
    if (found->count == 0) {
        gs_launcher_fail(CANNOT_READ, "%s: no trace; no page", trace);
    }
    if (found->pid_start == 0) {
        gs_launcher_fail(
            CANNOT_READ,
            "%s: recorded without --state-file, which keeps the call stacks; "
            "no page",
            trace);
    }
    if (!gs_timeline_visit(&pieces->source, report, write_pieces, pieces, &problem)) {
        gs_launcher_fail(CANNOT_READ, "%s: %s; no page", report, problem);
    }
    if (pieces->failed) {
        gs_launcher_fail(CANNOT_READ, "%s: %s; no page", report,
                         gs_status_text(GS_ERR_HOST_NOMEM));
    }
    gs_timeline_close(&pieces->source);
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
    static struct pieces pieces; /* one thread */
    char *sources[] = {arguments->command[0], (char *)(uintptr_t)arguments->trace, NULL};
    if (arguments->trace) {
        make_pieces(&pieces, report, arguments->trace);
    } else {
        size_t length;
        const char *problem;
        pieces.json = gs_report_file_json(report, true, &length, &problem);
        if (!pieces.json) {
            gs_launcher_fail(CANNOT_READ, "%s: %s; no page", report, problem);
        }
    }
    gs_page_open(&page, "page", path, sources);
    put_page(&page, pieces.json, pieces.timeline ? pieces.timeline : "null");
    free(pieces.json);
    free(pieces.timeline);
    return gs_page_close(&page);
}
