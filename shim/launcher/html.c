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
#include <sys/stat.h>

#include "gs_printable.h"
#include "launcher.h"
#include "output.h"
#include "report_file.h"
#include "text.h"

#define CANNOT_READ  1
#define CANNOT_WRITE 1

/* The template (view.S), and the end of the tag that the JSON follows. */
extern const char gs_view_page[], gs_view_page_end[];
static const char json_tag[] = "id=\"report\">";

/* ---- the page -----------------------------------------------------------------------
 */

struct page {
    struct gs_output_file file;
    bool to_stdout;
    uint64_t bytes;
};

static void put(struct page *page, const char *data, size_t length)
{
    page->bytes += length;
    if (page->to_stdout) {
        (void)fwrite(data, 1, length, stdout); /* ferror will tell */
    } else {
        (void)gs_output_file_write(&page->file, data, length);
    }
}

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
static void put_json(struct page *page, const char *text)
{
    const char *done = text;
    while (*text) {
        bool plain =
            (unsigned char)*text < 0x80 && *text != '<' && *text != '>' && *text != '&';
        size_t length = plain ? 1 : gs_utf8_length(text);
        const char *escape = plain ? "" : escape_of(text, length);
        const char *next = text + (length ? length : 1);
        if (escape[0]) {
            put(page, done, (size_t)(text - done));
            put(page, escape, strlen(escape));
            done = next;
        }
        text = next;
    }
    put(page, done, (size_t)(text - done));
}

static void put_page(struct page *page, const char *json)
{
    size_t length = (size_t)(gs_view_page_end - gs_view_page);
    const char *tag = memmem(gs_view_page, length, json_tag, strlen(json_tag));
    size_t head = (size_t)(tag - gs_view_page) + strlen(json_tag);
    put(page, gs_view_page, head);
    put_json(page, json);
    put(page, gs_view_page + head, length - head);
}

/* Returns whether both names are of one file. */
static bool is_same(const char *a, const char *b)
{
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
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
    static struct page page;
    char beside[PATH_MAX], bytes[24];
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
    page.to_stdout = strcmp(path, "-") == 0;
    if (page.to_stdout) {
        put_page(&page, json);
        free(json);
        if (fflush(stdout) != 0 || ferror(stdout)) {
            gs_launcher_fail(CANNOT_WRITE,
                             "the page cannot be written to standard output");
        }
        return 0;
    }
    if (is_same(report, path)) {
        gs_launcher_fail(GS_EXIT_USAGE, "%s: the page would replace its report", path);
    }
    gs_output_file_open(&page.file, path);
    put_page(&page, json);
    free(json);
    int error = gs_output_file_close(&page.file, true);
    if (error) {
        gs_launcher_fail(CANNOT_WRITE, "%s: %s; no page", path,
                         gs_output_error_text(error));
    }
    printf("gpushim: wrote %s (%s)\n", path, gs_text_bytes(page.bytes, bytes));
    return fflush(stdout) == 0 ? 0 : CANNOT_WRITE;
}
