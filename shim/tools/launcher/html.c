/*
 * html.c - gpushim html FILE|FOLDER...: reports and traces as one page for a browser.
 *
 * The page is a template (view/) that the report's JSON is put into; the template's
 * script shows it. FILE is that JSON, or a state file, of which the reader makes it, or a
 * trace. Files of one process are shown as one; a page of several lets the reader choose.
 * Nothing in the report can end the element that it is in: no character there is
 * special in HTML.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_printable.h"
#include "shim/settings/output_map.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/launcher/timeline.h"
#include "shim/tools/reader/report_file.h"
#include "tracker/statefile/state_memory.h"

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

/* A failure is the sink's, which remembers it. */
static void put(const struct gs_export_sink *page, const char *data, size_t length)
{
    (void)page->write(page->self, data, length);
}

/* In JSON these characters are in strings alone, and follow no backslash. */
static void put_json(const struct gs_export_sink *page, const char *text)
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

/* Writes the template from `from` to after the tag. Returns what follows. */
static const char *put_until(const struct gs_export_sink *page, const char *from,
                             const char *tag)
{
    const char *at = memmem(from, (size_t)(gs_view_page_end - from), tag, strlen(tag));
    size_t length = (size_t)(at - from) + strlen(tag);
    put(page, from, length);
    return from + length;
}

/* ---- what the page is made of --------------------------------------------------------
 */

enum input_kind { INPUT_REPORT, INPUT_STATE, INPUT_TRACE };

/* A file, and the process that it is of. */
struct input {
    char *path;
    enum input_kind kind;
    uint64_t pid;
    bool taken; /* on the page already */
};

struct inputs {
    struct input *items;
    size_t count, room;
    unsigned left_out; /* files of a folder that are neither */
};

/* A process on the page: texts from malloc. */
struct run {
    struct gs_timeline_source source;
    char *json, *timeline; /* NULL: none */
    bool failed;
};

/* The pid that a report has, which comes before any name; 0: none. */
static uint64_t pid_of(const char *head)
{
    const char *at = strstr(head, "\"pid\":");
    return at ? strtoull(at + strlen("\"pid\":"), NULL, 10) : 0;
}

/* Looks at the beginning of a file. Returns false if it is none of a folder's that a page
 * can be made of: CSV is a trace only where it is named. */
static bool look_at(struct input *input, bool named)
{
    static union {
        char text[65536];
        struct gs_state_header state;
        struct gs_trace_header trace;
    } head;                                      /* one thread */
    int fd = gs_output_map_read(input->path, 0); /* after a kill: the data of the name */
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    size_t length = file ? fread(head.text, 1, sizeof(head) - 1, file) : 0;
    if (file) {
        (void)fclose(file);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    head.text[length] = '\0';
    if (length >= offsetof(struct gs_state_header, devices) &&
        memcmp(head.text, GS_STATE_MAGIC, 8) == 0) {
        input->kind = INPUT_STATE;
        input->pid = head.state.process.pid;
    } else if (length >= sizeof(head.trace) &&
               memcmp(head.text, GS_TRACE_MAGIC, 8) == 0) {
        input->kind = INPUT_TRACE;
        input->pid = head.trace.pid;
    } else if ((length > 2 && memcmp(head.text, "\x1f\x8b", 2) == 0) ||
               (named && (strncmp(head.text, "t_us,", 5) == 0 ||
                          (head.text[0] >= '0' && head.text[0] <= '9' &&
                           memchr(head.text, ',', length))))) {
        input->kind = INPUT_TRACE;
    } else {
        input->kind = INPUT_REPORT;
        input->pid = pid_of(head.text);
        return named || (head.text[strspn(head.text, " \t\r\n")] == '{' && /* no page */
                         strstr(head.text, "\"gpushim-report\""));
    }
    return true;
}

static void add_input(struct inputs *inputs, const char *path, bool named)
{
    struct input input = {.path = strdup(path)};
    if (!input.path) {
        gs_launcher_fail(CANNOT_READ, "%s", gs_status_text(GS_ERR_HOST_NOMEM));
    }
    if (!look_at(&input, named)) {
        inputs->left_out++;
        free(input.path);
        return;
    }
    inputs->items = gs_replay_grow(inputs->items, inputs->count, &inputs->room,
                                   sizeof(*inputs->items));
    inputs->items[inputs->count++] = input;
}

/* Adds a file, or the files of a folder. */
static void add_path(struct inputs *inputs, const char *path)
{
    struct dirent **entries = NULL;
    struct stat info;
    size_t before = inputs->count;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        add_input(inputs, path, true);
        return;
    }
    int count = scandir(path, &entries, NULL, versionsort);
    for (int i = 0; i < count; i++) {
        char inner[PATH_MAX];
        if (entries[i]->d_name[0] != '.' &&
            snprintf(inner, sizeof(inner), "%s/%s", path, entries[i]->d_name) <
                (int)sizeof(inner) &&
            stat(inner, &info) == 0 && S_ISREG(info.st_mode) &&
            !gs_output_map_is_data(inner)) {
            add_input(inputs, inner, false);
        }
        free(entries[i]);
    }
    free(entries);
    if (inputs->count == before) {
        gs_launcher_fail(CANNOT_READ, "%s: no reports and no traces; no HTML written",
                         path);
    }
    if (inputs->left_out > 0) {
        gs_launcher_warn("%s: %u of %zu files left out: no reports and no traces", path,
                         inputs->left_out, inputs->left_out + inputs->count - before);
    }
}

/* ---- a process -----------------------------------------------------------------------
 */

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
    enum gs_status status = timeline ? gs_timeline_spans(timeline, &sink)
                                     : gs_export_write(export, GS_EXPORT_json, &sink);
    return fclose(file) == 0 && status == GS_OK;
}

/* gs_state_visit.write */
static void write_both(void *self, const struct gs_export *export)
{
    struct run *run = self;
    run->failed = true;
    if (export) {
        gs_timeline_take_frames(&run->source, export);
        run->failed = !write_piece(&run->json, NULL, export) ||
                      !write_piece(&run->timeline, &run->source.timeline, NULL);
    }
}

static void open_trace(struct run *run, const char *trace)
{
    (void)gs_timeline_open(&run->source, trace);
    if (run->source.trace.count == 0) {
        gs_launcher_fail(CANNOT_READ, "%s: no trace; no HTML written", trace);
    }
}

/* A state file's report, and the timeline of its trace with call stacks. */
static void make_both(struct run *run, const char *state, const char *trace)
{
    const char *problem = NULL;
    open_trace(run, trace);
    if (run->source.trace.pid_start == 0) {
        gs_launcher_fail(
            CANNOT_READ,
            "%s: recorded without --state-file, which keeps the call stacks; "
            "no HTML written",
            trace);
    }
    if (!gs_timeline_visit(&run->source, state, write_both, run, &problem)) {
        gs_launcher_fail(CANNOT_READ, "%s: %s; no HTML written", state, problem);
    }
    gs_timeline_close(&run->source);
}

static void make_report(struct run *run, const char *report)
{
    size_t length;
    const char *problem;
    run->json = gs_report_file_json(report, true, &length, &problem);
    if (!run->json) {
        gs_launcher_fail(CANNOT_READ, "%s: %s; no HTML written", report, problem);
    }
}

/* The timeline of a trace alone: by size. */
static void make_timeline(struct run *run, const char *trace)
{
    open_trace(run, trace);
    run->failed = !write_piece(&run->timeline, &run->source.timeline, NULL);
    gs_timeline_close(&run->source);
}

/* Makes the page's part of a process. Either name may be NULL. */
static void make_run(struct run *run, const struct input *report, const char *trace)
{
    *run = (struct run){.json = NULL};
    if (report && trace && report->kind == INPUT_STATE) {
        make_both(run, report->path, trace);
    } else {
        if (report) {
            make_report(run, report->path);
        }
        if (trace) {
            make_timeline(run, trace);
        }
    }
    if (run->failed) {
        gs_launcher_fail(CANNOT_READ, "%s: %s; no HTML written",
                         report ? report->path : trace,
                         gs_status_text(GS_ERR_HOST_NOMEM));
    }
}

/* The first input of the kind and the process that is not on the page yet; NULL: none. */
static struct input *find_input(struct inputs *inputs, uint64_t pid, enum input_kind kind)
{
    for (size_t i = 0; i < inputs->count; i++) {
        struct input *input = &inputs->items[i];
        if (!input->taken && input->kind == kind && input->pid == pid && pid != 0) {
            return input;
        }
    }
    return NULL;
}

/* Takes the next process: with its trace, a state file comes before JSON, which has no
 * call stacks for the trace. Returns false at the end. */
static bool next_run(struct inputs *inputs, struct run *run)
{
    struct input *first = NULL, *report, *trace;
    for (size_t i = 0; i < inputs->count && !first; i++) {
        first = inputs->items[i].taken ? NULL : &inputs->items[i];
    }
    if (!first) {
        return false;
    }
    trace =
        first->kind == INPUT_TRACE ? first : find_input(inputs, first->pid, INPUT_TRACE);
    report = trace ? find_input(inputs, first->pid, INPUT_STATE) : NULL;
    if (!report) {
        report = first->kind != INPUT_TRACE
                     ? first
                     : find_input(inputs, first->pid, INPUT_REPORT);
    }
    make_run(run, report, trace ? trace->path : NULL);
    for (size_t i = 0; i < inputs->count; i++) {
        struct input *input = &inputs->items[i];
        input->taken |= input == first || input == report || input == trace ||
                        (report && input->kind != INPUT_TRACE && input->pid != 0 &&
                         input->pid == first->pid);
    }
    return true;
}

/* ---- writing -------------------------------------------------------------------------
 */

static void put_text(const struct gs_export_sink *page, const char *text)
{
    put(page, text, strlen(text));
}

/* Writes the texts of a process, and frees them. The first one's are in the template's
 * elements, and those of another in elements of their own. */
static const char *put_run(const struct gs_export_sink *page, const char *rest,
                           struct run *run, size_t number)
{
    static const char element[] =
        "</script>\n<script type=\"application/json\" id=\"%s-%zu\">";
    char tag[96];
    if (number == 0) {
        rest = put_until(page, rest, report_tag);
    } else {
        (void)snprintf(tag, sizeof(tag), element, "report", number);
        put_text(page, tag);
    }
    put_json(page, run->json ? run->json : "null");
    if (number == 0) {
        rest = put_until(page, rest, timeline_tag);
    } else {
        (void)snprintf(tag, sizeof(tag), element, "timeline-data", number);
        put_text(page, tag);
    }
    put_json(page, run->timeline ? run->timeline : "null");
    free(run->json);
    free(run->timeline);
    return rest;
}

void gs_html_of_report(const char *json, struct gs_text *out)
{
    const struct gs_export_sink sink = gs_export_text_sink(out);
    const char *rest = put_until(&sink, gs_view_page, report_tag);
    put_json(&sink, json);
    rest = put_until(&sink, rest, timeline_tag);
    put_text(&sink, "null");
    put(&sink, rest, (size_t)(gs_view_page_end - rest));
}

/* Next to the report: run.json gives run.html, run.state gives run.state.html, and a
 * folder gpushim.html in it. */
static void name_page(const char *report, char out[PATH_MAX])
{
    size_t length = strlen(report);
    struct stat info;
    const char *end = "";
    if (length > 5 && strcmp(report + length - 5, ".json") == 0) {
        length -= 5;
    } else if (stat(report, &info) == 0 && S_ISDIR(info.st_mode)) {
        end = "/gpushim";
    }
    if (snprintf(out, PATH_MAX, "%.*s%s.html", (int)length, report, end) >= PATH_MAX) {
        gs_launcher_fail(CANNOT_WRITE, "%s: the name is too long; no HTML written",
                         report);
    }
}

/* The one state file, or report, that a trace was named with must be of its process. A
 * state file is compared when it is read; a trace as CSV, or with gzip, has no process.
 */
static void pair_named(struct inputs *inputs)
{
    struct input *a = inputs->items, *b = a + 1;
    if (inputs->count != 2 || (a->kind == INPUT_TRACE) == (b->kind == INPUT_TRACE)) {
        return;
    }
    const struct input *report = a->kind == INPUT_TRACE ? b : a;
    if (report->kind == INPUT_REPORT && a->pid != 0 && b->pid != 0 && a->pid != b->pid) {
        gs_launcher_fail(CANNOT_READ, "%s: of another process; no HTML written",
                         report->path);
    }
    a->pid = b->pid = 1;
}

int gs_html_write(const struct gs_arguments *arguments)
{
    static struct gs_page page;
    static struct run run; /* one thread */
    const struct gs_export_sink sink = {.write = gs_page_put, .self = &page};
    struct inputs inputs = {.count = 0};
    char *const *words = arguments->command;
    char beside[PATH_MAX];
    const char *path = arguments->page, *rest = gs_view_page;
    if (!words[0]) {
        gs_help_refuse(GS_VERB_HTML, "html: no REPORT, TRACE or FOLDER is given");
    }
    if (!path) {
        name_page(words[0], beside);
        path = beside;
    }
    for (; *words; words++) {
        add_path(&inputs, *words);
    }
    if (arguments->trace) {
        add_input(&inputs, arguments->trace, true);
        inputs.items[inputs.count - 1].kind = INPUT_TRACE;
    }
    pair_named(&inputs);
    char **sources = gs_replay_alloc(inputs.count + 1, sizeof(*sources));
    for (size_t i = 0; i < inputs.count; i++) {
        sources[i] = inputs.items[i].path;
    }
    bool more = next_run(&inputs, &run); /* before the file is opened: it may fail */
    gs_page_open(&page, "HTML", path, sources);
    for (size_t number = 0; more; more = next_run(&inputs, &run)) {
        rest = put_run(&sink, rest, &run, number++);
    }
    put(&sink, rest, (size_t)(gs_view_page_end - rest));
    for (size_t i = 0; i < inputs.count; i++) {
        free(inputs.items[i].path);
    }
    free(inputs.items);
    free(sources);
    return gs_page_close(&page);
}
