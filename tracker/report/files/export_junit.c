/*
 * export_junit.c - the report as JUnit's XML, for continuous integration: a test suite of
 * a process, and in it a test case of each call site that leaks and of each error. A
 * test case's name has no numbers, so that it is the same test in every run; findings of
 * one name are one test case.
 *
 * Elements and attributes are those that the schemas of Jenkins and of Ant have in
 * common. A finding that is excused, or whose memory is live, is skipped, and so is a
 * rule that judged nothing; without leaks, or without errors, a test case says so.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "gs_compare.h"
#include "tracker/report/files/findings.h"

#include <stdio.h>
#include <stdlib.h>

struct junit {
    const struct gs_export *export;
    struct gs_export_out out;
    struct gs_text text; /* of an attribute or a body, before it is escaped */
    bool failed;         /* out of memory */
};

/* Outcomes of test cases. */
struct tally {
    unsigned tests, failures, skipped;
};

/* Findings by name: each name is one test case. */
struct cases {
    const struct gs_findings *findings;
    size_t *next; /* the next finding of the same name; NONE: it is the last */
    bool *later;  /* whether the finding follows another one of its name */
};
#define NONE SIZE_MAX

/* ---- XML -------------------------------------------------------------------------- */

/* Writes text as XML 1.0 allows it: control characters, of which a body keeps line feeds,
 * and noncharacters become question marks. */
static void put_escaped(struct gs_export_out *out, const char *text, bool body)
{
    while (*text) {
        struct gs_utf8 c = gs_utf8_take(&text);
        unsigned value = gs_utf8_value(c.bytes, c.length);

        if (body && value == '\n') {
            gs_out_char(out, '\n');
        } else if (gs_is_control(c.bytes, c.length) || value == 0xfffe ||
                   value == 0xffff) {
            gs_out_char(out, '?');
        } else if (value == '&') {
            gs_out_text(out, "&amp;");
        } else if (value == '<') {
            gs_out_text(out, "&lt;");
        } else if (value == '>') { /* "]]>" may not be in a text */
            gs_out_text(out, "&gt;");
        } else if (value == '"') {
            gs_out_text(out, "&quot;");
        } else {
            gs_out_bytes(out, c.bytes, c.length);
        }
    }
}

static void put_attribute(struct junit *junit, const char *name, const char *value)
{
    gs_out_char(&junit->out, ' ');
    gs_out_text(&junit->out, name);
    gs_out_text(&junit->out, "=\"");
    put_escaped(&junit->out, value, false);
    gs_out_char(&junit->out, '"');
}

static void put_count(struct junit *junit, const char *name, uint64_t value)
{
    gs_out_char(&junit->out, ' ');
    gs_out_text(&junit->out, name);
    gs_out_text(&junit->out, "=\"");
    gs_out_number(&junit->out, value);
    gs_out_char(&junit->out, '"');
}

/* The text that was gathered, which ends. */
static const char *take_text(struct junit *junit)
{
    const char *text = junit->text.length > 0 ? junit->text.data : "";

    junit->failed = junit->failed || junit->text.truncated;
    junit->text.length = 0;
    return text;
}

/* ---- the suite -------------------------------------------------------------------- */

static void put_property(struct junit *junit, const char *name, const char *value)
{
    if (!value || !value[0]) {
        return;
    }
    gs_out_text(&junit->out, "      <property");
    put_attribute(junit, "name", name);
    put_attribute(junit, "value", value);
    gs_out_text(&junit->out, "/>\n");
}

static void put_number(struct junit *junit, const char *name, uint64_t value)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
    put_property(junit, name, digits);
}

static void put_properties(struct junit *junit)
{
    const struct gs_report_config *config = junit->export->config;
    const struct gs_report_summary *summary = junit->export->summary;
    struct gs_tracker_totals sum;
    uint64_t status;

    gs_tracker_sum_totals(junit->export->tracker, &sum);
    gs_out_text(&junit->out, "    <properties>\n");
    put_property(junit, "gpushim", config->version);
    put_property(junit, "command", config->command);
    put_property(junit, "program", junit->export->job->program);
    put_number(junit, "pid", (uint64_t)config->pid);
    put_property(junit, "host", config->hostname);
    if (config->rank >= 0) {
        put_number(junit, "rank", (uint64_t)config->rank);
    }
    put_property(junit, "ending", config->ending);
    if (gs_export_exit_status(junit->export, &status)) {
        put_number(junit, "exit_status", status);
    }
    put_number(junit, "errors", summary->errors);
    put_number(junit, "leaked_bytes", summary->leaked_bytes);
    put_number(junit, "leaked_count", summary->leaked_count);
    put_number(junit, "call_sites", summary->leak_groups);
    put_number(junit, "peak_bytes", sum.peak_bytes);
    put_number(junit, "allocs", sum.allocs);
    gs_out_text(&junit->out, "    </properties>\n");
}

static void put_suite(struct junit *junit, const struct tally *tally)
{
    const struct gs_export *export = junit->export;
    uint64_t ms = export->source->now_ns / 1000000, end_ms = export->job->end_unix_ms;
    const char *hostname = export->config->hostname;
    char text[32];

    gs_out_text(&junit->out, "  <testsuite");
    put_attribute(junit, "name",
                  export->config->command ? export->config->command : "gpushim");
    put_attribute(junit, "timestamp", gs_out_time(end_ms > ms ? end_ms - ms : 0, text));
    put_attribute(junit, "hostname", hostname && hostname[0] ? hostname : "localhost");
    put_count(junit, "tests", tally->tests);
    put_count(junit, "failures", tally->failures);
    put_count(junit, "errors", 0);
    put_count(junit, "skipped", tally->skipped);
    snprintf(text, sizeof(text), "%llu.%03u", (unsigned long long)(ms / 1000),
             (unsigned)(ms % 1000));
    put_attribute(junit, "time", text);
    put_attribute(junit, "id", "0");
    put_attribute(junit, "package", "gpushim");
    gs_out_text(&junit->out, ">\n");
}

/* ---- test cases ------------------------------------------------------------------- */

static void open_case(struct junit *junit, const char *class, const char *name)
{
    gs_out_text(&junit->out, "    <testcase");
    put_attribute(junit, "classname", class);
    put_attribute(junit, "name", name);
    put_attribute(junit, "time", "0");
}

/* Adds, of a known leak, why it counts nonetheless. */
static void put_beyond(struct junit *junit, uint32_t rule)
{
    const struct gs_export *export = junit->export;
    const struct gs_report_writer writer = {.tracker = export->tracker,
                                            .config = export->config,
                                            .data = export->data,
                                            .text = &junit->text};
    gs_report_beyond(&writer, rule);
}

/* Writes the calls of a finding, each with its stack. */
static void put_body(struct junit *junit, const struct gs_finding *finding)
{
    struct gs_finding_call calls[GS_FINDING_CALLS];
    unsigned count = gs_finding_calls(finding, calls);

    if (finding->group) {
        gs_finding_excuse(junit->export, finding, &junit->text);
        gs_text_add(&junit->text, "\n");
        put_beyond(junit, finding->group->beyond_rule);
    }
    for (unsigned i = 0; i < count; i++) {
        gs_text_add(&junit->text, "  %s\n", calls[i].what);
        gs_finding_stack(junit->export, calls[i].stack, &junit->text);
    }
    put_escaped(&junit->out, take_text(junit), true);
}

/* The most findings of one name that a message has. */
#define MESSAGE_MAX 8u

/* Adds the numbers of the findings of a test case, and why they are no faults. */
static void add_message(struct junit *junit, const struct cases *cases, size_t first)
{
    size_t count = 0;

    for (size_t i = first; i != NONE; i = cases->next[i]) {
        const struct gs_finding *finding = &cases->findings->items[i];
        if (finding->verdict != cases->findings->items[first].verdict ||
            ++count > MESSAGE_MAX) {
            continue;
        }
        gs_text_add(&junit->text, "%s", count > 1 ? "; " : "");
        gs_finding_title(junit->export, finding, &junit->text);
        if (finding->verdict == GS_FINDING_FAULT) {
            gs_finding_where(junit->export, finding, &junit->text);
        } else {
            gs_text_add(&junit->text, ": ");
            gs_finding_excuse(junit->export, finding, &junit->text);
        }
    }
    if (count > MESSAGE_MAX) {
        gs_text_add(&junit->text, "; and %zu more", count - MESSAGE_MAX);
    }
}

/* Writes the test case of a finding and those of the same name. */
static void put_case(struct junit *junit, const struct cases *cases, size_t first)
{
    const struct gs_finding *finding = &cases->findings->items[first];
    bool fault = finding->verdict == GS_FINDING_FAULT;

    gs_finding_name(junit->export, finding, &junit->text);
    open_case(junit, gs_finding_owner(junit->export, finding), take_text(junit));
    gs_out_text(&junit->out, fault ? ">\n      <failure" : ">\n      <skipped");
    if (fault) {
        put_attribute(junit, "type", gs_finding_rules[finding->rule].id);
    }
    add_message(junit, cases, first);
    put_attribute(junit, "message", take_text(junit));
    if (fault) {
        gs_out_char(&junit->out, '>');
        for (size_t i = first; i != NONE; i = cases->next[i]) {
            put_body(junit, &cases->findings->items[i]);
        }
        gs_out_text(&junit->out, "</failure>\n");
    } else {
        gs_out_text(&junit->out, "/>\n");
    }
    gs_out_text(&junit->out, "    </testcase>\n");
}

/* Writes what was looked for and not found. */
static void put_nothing(struct junit *junit, const char *name)
{
    open_case(junit, "gpushim", name);
    if (!junit->export->summary->no_start) {
        gs_out_text(&junit->out, "/>\n");
        return;
    }
    gs_text_add(&junit->text, "nothing recorded: CUDA did not start: ");
    gs_text_add_foreign(&junit->text, junit->export->config->no_start);
    gs_out_text(&junit->out, ">\n      <skipped");
    put_attribute(junit, "message", take_text(junit));
    gs_out_text(&junit->out, "/>\n    </testcase>\n");
}

/* Writes the next rule that judged nothing, as skipped. Returns false if there is none.
 */
static bool put_rule_note(struct junit *junit, uint32_t *at)
{
    const struct gs_export *export = junit->export;
    struct gs_rule_note note;
    char text[512];

    if (!gs_report_next_rule_note(export->tracker, export->config, export->data, false,
                                  at, &note)) {
        return false;
    }
    open_case(junit, "gpushim", gs_report_rule_text(note.rule, text, sizeof(text)));
    gs_text_add(&junit->text, "%s: %s", note.name, note.why);
    gs_out_text(&junit->out, ">\n      <skipped");
    put_attribute(junit, "message", take_text(junit));
    gs_out_text(&junit->out, "/>\n    </testcase>\n");
    return true;
}

static unsigned count_rule_notes(const struct gs_export *export)
{
    struct gs_rule_note note;
    unsigned count = 0;

    for (uint32_t at = 0; gs_report_next_rule_note(export->tracker, export->config,
                                                   export->data, false, &at, &note);) {
        count++;
    }
    return count;
}

/* Returns whether no finding is a fault, or may become one; `leaks`: else errors. */
static bool has_none(const struct gs_findings *findings, bool leaks)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct gs_finding *finding = &findings->items[i];
        if (finding->verdict != GS_FINDING_EXCUSED &&
            (finding->rule == GS_FINDING_LEAK) == leaks) {
            return false;
        }
    }
    return true;
}

struct name {
    uint64_t key;
    size_t index;
};

static int compare_names(const void *left, const void *right)
{
    const struct name *a = left, *b = right;

    return GS_RISING(a->key, b->key) ?: GS_RISING(a->index, b->index);
}

static void free_cases(struct cases *cases)
{
    free(cases->next);
    free(cases->later);
}

/* Finds the findings of each name, in their order: faults are first. free_cases must
 * follow. Errors: GS_ERR_HOST_NOMEM, with nothing allocated. */
static enum gs_status find_cases(struct junit *junit, const struct gs_findings *findings,
                                 struct cases *out)
{
    size_t count = findings->count;
    struct name *names = calloc(count + 1, sizeof(*names));
    struct cases cases = {.findings = findings,
                          .next = calloc(count + 1, sizeof(*cases.next)),
                          .later = calloc(count + 1, sizeof(*cases.later))};

    if (!names || !cases.next || !cases.later) {
        free(names);
        free_cases(&cases);
        return GS_ERR_HOST_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        gs_text_add(&junit->text, "%s\n",
                    gs_finding_owner(junit->export, &findings->items[i]));
        gs_finding_name(junit->export, &findings->items[i], &junit->text);
        size_t length = junit->text.length;
        names[i] = (struct name){gs_fnv1a(take_text(junit), length), i};
    }
    qsort(names, count, sizeof(*names), compare_names);
    for (size_t i = 0; i < count; i++) {
        bool same = i + 1 < count && names[i].key == names[i + 1].key;
        cases.next[names[i].index] = same ? names[i + 1].index : NONE;
        cases.later[names[i].index] = i > 0 && names[i].key == names[i - 1].key;
    }
    free(names);
    *out = cases;
    return GS_OK;
}

static void put_cases(struct junit *junit, const struct cases *cases)
{
    const struct gs_findings *findings = cases->findings;
    bool no_leaks = has_none(findings, true), no_errors = has_none(findings, false);
    unsigned nothing = (unsigned)no_leaks + (unsigned)no_errors;
    unsigned notes = count_rule_notes(junit->export);
    struct tally tally = {.tests = nothing + notes,
                          .skipped =
                              notes + (junit->export->summary->no_start ? nothing : 0)};

    for (size_t i = 0; i < findings->count; i++) {
        bool fault = findings->items[i].verdict == GS_FINDING_FAULT;
        tally.tests += !cases->later[i];
        tally.failures += !cases->later[i] && fault;
        tally.skipped += !cases->later[i] && !fault;
    }
    put_suite(junit, &tally);
    put_properties(junit);
    for (size_t i = 0; i < findings->count; i++) {
        if (!cases->later[i]) {
            put_case(junit, cases, i);
        }
    }
    for (uint32_t at = 0; put_rule_note(junit, &at);) {
    }
    if (no_errors) {
        put_nothing(junit, "no errors");
    }
    if (no_leaks) {
        put_nothing(junit, "no leaks");
    }
    gs_out_text(&junit->out, "    <system-out/>\n    <system-err/>\n  </testsuite>\n");
}

enum gs_status gs_export_write_junit(const struct gs_export *export,
                                     const struct gs_export_sink *sink)
{
    struct junit junit = {.export = export};
    struct gs_findings findings;
    struct cases cases;
    enum gs_status status = gs_findings_gather(export, &findings);

    if (status != GS_OK) {
        return status;
    }
    status = find_cases(&junit, &findings, &cases);
    if (status != GS_OK) {
        gs_findings_free(&findings);
        gs_text_free(&junit.text);
        return status;
    }
    gs_out_begin(&junit.out, sink);
    gs_out_text(&junit.out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                            "<testsuites name=\"gpushim\">\n");
    put_cases(&junit, &cases);
    gs_out_text(&junit.out, "</testsuites>\n");
    status = gs_out_end(&junit.out);
    free_cases(&cases);
    gs_findings_free(&findings);
    gs_text_free(&junit.text);
    return junit.failed ? GS_ERR_HOST_NOMEM : status;
}
