/*
 * export_sarif.c - the report as SARIF 2.1.0, for annotations of source lines: a run of a
 * process, and in it a result of each call site that leaks and of each error.
 *
 * Call stacks are code flows, since GitHub shows no others: from the outermost frame to
 * the call. Each result begins a line of the file.
 *
 * Owns: nothing.   Lock: none.   Source: SARIF 2.1.0 (OASIS)   Design: docs/outputs.md
 */
#include "tracker/report/files/export_json_values.h"
#include "tracker/report/files/findings.h"

#include <stdio.h>

#define ROOT "%SRCROOT%" /* to which relative paths belong */

struct sarif {
    const struct gs_export *export;
    struct gs_json json;
    struct gs_text text; /* of a member, before it is written */
    bool failed;         /* out of memory */
};

/* Writes the text that was gathered, which ends. */
static void put_text(struct sarif *sarif, const char *key)
{
    gs_json_member_text(&sarif->json, key,
                        sarif->text.length > 0 ? sarif->text.data : "");
    sarif->failed = sarif->failed || sarif->text.truncated;
    sarif->text.length = 0;
}

static void put_message(struct gs_json *json, const char *key, const char *text)
{
    gs_json_member_open(json, key, '{');
    gs_json_member_text(json, "text", text);
    gs_json_close(json, '}');
}

/* ---- the tool and its run --------------------------------------------------------- */

static void put_tool(struct sarif *sarif)
{
    struct gs_json *json = &sarif->json;

    gs_json_member_open(json, "tool", '{');
    gs_json_member_open(json, "driver", '{');
    gs_json_member_text(json, "name", "gpushim");
    gs_json_member_text(json, "version", sarif->export->config->version);
    gs_json_member_open(json, "rules", '[');
    for (size_t i = 0; i < GS_FINDING_RULES; i++) {
        gs_json_open(json, '{');
        gs_json_member_text(json, "id", gs_finding_rules[i].id);
        put_message(json, "shortDescription", gs_finding_rules[i].text);
        gs_json_member_open(json, "defaultConfiguration", '{');
        gs_json_member_text(json, "level", gs_finding_rules[i].level);
        gs_json_close(json, '}');
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
    gs_json_close(json, '}');
    gs_json_close(json, '}');
}

static void put_time(struct gs_json *json, const char *key, uint64_t unix_ms)
{
    char time[32], text[40];

    snprintf(text, sizeof(text), "%s.%03uZ", gs_out_time(unix_ms, time),
             (unsigned)(unix_ms % 1000));
    gs_json_member_text(json, key, text);
}

/* Writes a notification of the text that was gathered. */
static void put_notification(struct sarif *sarif, const char *level)
{
    struct gs_json *json = &sarif->json;

    gs_json_open(json, '{');
    gs_json_member_text(json, "level", level);
    gs_json_member_open(json, "message", '{');
    put_text(sarif, "text");
    gs_json_close(json, '}');
    gs_json_close(json, '}');
}

/* Writes why there are no results although nothing was checked; and rules that judged
 * nothing. */
static void put_notifications(struct sarif *sarif)
{
    const struct gs_export *export = sarif->export;
    struct gs_rule_note note;
    uint32_t at = 0;
    char text[512];

    gs_json_member_open(&sarif->json, "toolExecutionNotifications", '[');
    if (export->summary->no_start) {
        gs_text_add(&sarif->text, "Nothing recorded: CUDA did not start: ");
        gs_text_add_foreign(&sarif->text, export->config->no_start);
        put_notification(sarif, "error");
    }
    while (gs_report_next_rule_note(export->tracker, export->config, export->data, false,
                                    &at, &note)) {
        gs_text_add(&sarif->text, "%s: %s: %s",
                    gs_report_rule_text(note.rule, text, sizeof(text)), note.name,
                    note.why);
        put_notification(sarif, "warning");
    }
    gs_json_close(&sarif->json, ']');
}

static void put_invocation(struct sarif *sarif)
{
    const struct gs_report_config *config = sarif->export->config;
    uint64_t ms = sarif->export->source->now_ns / 1000000, status;
    uint64_t end_ms = sarif->export->job->end_unix_ms;
    bool no_start = sarif->export->summary->no_start;
    struct gs_json *json = &sarif->json;

    gs_json_member_open(json, "invocations", '[');
    gs_json_open(json, '{');
    gs_json_member_text(json, "commandLine", config->command ? config->command : "");
    gs_json_member_bool(json, "executionSuccessful", !no_start && !config->killed);
    if (gs_export_exit_status(sarif->export, &status)) {
        gs_json_member(json, "exitCode", status);
    }
    if (config->killed_by) {
        gs_json_member_text(json, "exitSignalName", config->killed_by);
    }
    if (config->ending && config->ending[0]) {
        gs_json_member_text(json, "exitCodeDescription", config->ending);
    }
    put_time(json, "startTimeUtc", end_ms > ms ? end_ms - ms : 0);
    put_time(json, "endTimeUtc", end_ms);
    gs_json_member(json, "processId", (uint64_t)config->pid);
    if (config->hostname && config->hostname[0]) {
        gs_json_member_text(json, "machine", config->hostname);
    }
    put_notifications(sarif);
    gs_json_close(json, '}');
    gs_json_close(json, ']');
}

/* Tells the runs of several programs and ranks in one upload apart. */
static void put_identity(struct sarif *sarif)
{
    const struct gs_report_config *config = sarif->export->config;
    struct gs_json *json = &sarif->json;

    gs_text_add(&sarif->text, "gpushim/");
    gs_text_add_foreign(&sarif->text, gs_module_base_name(sarif->export->job->program));
    gs_text_add(&sarif->text, "/");
    if (config->rank >= 0) {
        gs_text_add(&sarif->text, "rank %d/", config->rank);
    }
    gs_json_member_open(json, "automationDetails", '{');
    put_text(sarif, "id");
    gs_json_close(json, '}');
}

/* Declares the folder of relative paths, which the reader knows. */
static void put_root(struct gs_json *json)
{
    gs_json_member_open(json, "originalUriBaseIds", '{');
    gs_json_member_open(json, ROOT, '{');
    put_message(json, "description", "The folder in which the program was compiled.");
    gs_json_close(json, '}');
    gs_json_close(json, '}');
}

static void put_totals(struct sarif *sarif)
{
    const struct gs_report_summary *summary = sarif->export->summary;
    struct gs_json *json = &sarif->json;
    struct gs_tracker_totals sum;

    gs_tracker_sum_totals(sarif->export->tracker, &sum);
    gs_json_member_open(json, "properties", '{');
    gs_json_member_bool(json, "running", sarif->export->config->running);
    gs_json_member(json, "errors", summary->errors);
    gs_json_member(json, "leakedBytes", summary->leaked_bytes);
    gs_json_member(json, "leakedCount", summary->leaked_count);
    gs_json_member(json, "callSites", summary->leak_groups);
    gs_json_member(json, "peakBytes", sum.peak_bytes);
    gs_json_member(json, "allocs", sum.allocs);
    gs_json_close(json, '}');
}

/* ---- locations -------------------------------------------------------------------- */

/* Writes a path as a URI by RFC 3986; bytes that are no UTF-8 too. */
static void put_artifact(struct sarif *sarif, const char *path)
{
    static const char digits[] = "0123456789ABCDEF";
    struct gs_json *json = &sarif->json;
    bool relative = path[0] != '/';

    gs_text_add(&sarif->text, "%s", relative ? "" : "file://");
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;
        const char code[] = {'%', digits[c >> 4], digits[c & 15]};
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9') || strchr("-._~/", c);
        gs_text_add_bytes(&sarif->text, plain ? path : code, plain ? 1 : sizeof(code));
    }
    gs_json_member_open(json, "artifactLocation", '{');
    put_text(sarif, "uri");
    if (relative) {
        gs_json_member_text(json, "uriBaseId", ROOT);
    }
    gs_json_close(json, '}');
}

/* Writes where a frame is: the line of a file, or else its module. */
static void put_physical(struct sarif *sarif, const char *path, unsigned line)
{
    struct gs_json *json = &sarif->json;

    if (!path || !path[0]) {
        return;
    }
    gs_json_member_open(json, "physicalLocation", '{');
    put_artifact(sarif, path);
    if (line != 0) {
        gs_json_member_open(json, "region", '{');
        gs_json_member(json, "startLine", line);
        gs_json_close(json, '}');
    }
    gs_json_close(json, '}');
}

/* Writes a function, or a place in a module: "app+0x310". */
static void put_logical(struct sarif *sarif, const struct gs_symbol_request *frame)
{
    struct gs_json *json = &sarif->json;

    if (frame->result.function) {
        gs_text_add_bytes(&sarif->text, frame->result.function,
                          strlen(frame->result.function));
    } else if (frame->module) {
        gs_text_add_foreign(&sarif->text, gs_report_frame_module(frame));
        gs_text_add(&sarif->text, "+0x%llx", (unsigned long long)gs_export_offset(frame));
    } else {
        gs_text_add(&sarif->text, "0x%llx", (unsigned long long)frame->frame);
    }
    gs_json_member_open(json, "logicalLocations", '[');
    gs_json_open(json, '{');
    put_text(sarif, "fullyQualifiedName");
    gs_json_member_text(json, "kind", frame->result.function ? "function" : "module");
    gs_json_close(json, '}');
    gs_json_close(json, ']');
}

/* Writes the members of a location. */
static void put_frame(struct sarif *sarif, const struct gs_symbol_request *frame)
{
    const char *path = gs_report_frame_path(frame);

    put_physical(sarif, path, path == frame->result.file ? frame->result.line : 0);
    put_logical(sarif, frame);
}

/* ---- results ---------------------------------------------------------------------- */

/* Writes a stack as a flow, the outermost frame first, without those of frameworks
 * between the program's. */
static void put_flow(struct sarif *sarif, const struct gs_finding_call *call)
{
    const struct gs_export *export = sarif->export;
    const struct gs_export_stack *stack = gs_export_stack(export, call->stack);
    struct gs_json *json = &sarif->json;

    if (!stack || stack->begin == stack->end) {
        return;
    }
    gs_json_open(json, '{');
    put_message(json, "message", call->what);
    gs_json_member_open(json, "locations", '[');
    for (uint32_t i = stack->end; i-- > stack->begin;) {
        const struct gs_symbol_request *frame =
            &export->locations[export->frames[stack->first + i]];
        if (i != stack->begin && gs_report_frame_is_carrier(frame)) {
            continue;
        }
        gs_json_open(json, '{');
        gs_json_member_open(json, "location", '{');
        put_frame(sarif, frame);
        put_message(json, "message",
                    frame->result.function ? frame->result.function : call->what);
        gs_json_close(json, '}');
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
    gs_json_close(json, '}');
}

static bool has_frames(const struct gs_export *export, uint32_t stack)
{
    return gs_export_frame(export, gs_export_stack(export, stack), 0) != NULL;
}

static void put_flows(struct sarif *sarif, const struct gs_finding_call *calls,
                      unsigned count)
{
    struct gs_json *json = &sarif->json;
    bool any = false;

    for (unsigned i = 0; i < count; i++) {
        any = any || has_frames(sarif->export, calls[i].stack);
    }
    if (!any) {
        return;
    }
    gs_json_member_open(json, "codeFlows", '[');
    gs_json_open(json, '{');
    gs_json_member_open(json, "threadFlows", '[');
    for (unsigned i = count; i-- > 0;) { /* in the order of time */
        put_flow(sarif, &calls[i]);
    }
    gs_json_close(json, ']');
    gs_json_close(json, '}');
    gs_json_close(json, ']');
}

/* Writes the program's own line; without one the program's file. */
static void put_locations(struct sarif *sarif, const struct gs_finding *finding)
{
    const struct gs_export *export = sarif->export;
    const struct gs_symbol_request *frame =
        gs_export_frame(export, gs_export_stack(export, finding->stack), 0);
    struct gs_json *json = &sarif->json;

    bool placed = frame && gs_report_frame_path(frame) && gs_report_frame_path(frame)[0];

    if (!frame && !export->job->program) {
        return;
    }
    gs_json_member_open(json, "locations", '[');
    gs_json_open(json, '{');
    if (!placed) {
        put_physical(sarif, export->job->program, 0);
    }
    if (frame) {
        put_frame(sarif, frame);
    }
    gs_json_close(json, '}');
    gs_json_close(json, ']');
}

/* Writes where the other calls of an error were: its memory's allocation and free. */
static void put_related(struct sarif *sarif, const struct gs_finding *finding,
                        const struct gs_finding_call *calls, unsigned count)
{
    const struct gs_export *export = sarif->export;
    struct gs_json *json = &sarif->json;

    if (!finding->error) {
        return;
    }
    gs_json_member_open(json, "relatedLocations", '[');
    for (unsigned i = 0; i < count; i++) {
        const struct gs_symbol_request *frame =
            gs_export_frame(export, gs_export_stack(export, calls[i].stack), 0);
        if (!frame || calls[i].stack == finding->stack) {
            continue;
        }
        gs_json_open(json, '{');
        put_frame(sarif, frame);
        put_message(json, "message", calls[i].what);
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
}

/* If one result of a run has the member, each needs it. */
static void put_suppressions(struct sarif *sarif, const struct gs_finding *finding)
{
    struct gs_json *json = &sarif->json;

    gs_json_member_open(json, "suppressions", '[');
    if (finding->verdict == GS_FINDING_EXCUSED) {
        gs_json_open(json, '{');
        gs_json_member_text(json, "kind", "external");
        gs_finding_excuse(sarif->export, finding, &sarif->text);
        put_text(sarif, "justification");
        gs_json_close(json, '}');
    }
    gs_json_close(json, ']');
}

static void put_result(struct sarif *sarif, const struct gs_finding *finding)
{
    const struct gs_finding_rule_text *rule = &gs_finding_rules[finding->rule];
    struct gs_finding_call calls[GS_FINDING_CALLS];
    unsigned count = gs_finding_calls(finding, calls);
    struct gs_json *json = &sarif->json;
    char key[48];

    gs_json_open(json, '{');
    gs_json_member_text(json, "ruleId", rule->id);
    gs_json_member(json, "ruleIndex", finding->rule);
    gs_json_member_text(json, "level",
                        finding->verdict == GS_FINDING_LIVE ? "note" : rule->level);
    gs_json_member_open(json, "message", '{');
    gs_finding_title(sarif->export, finding, &sarif->text);
    gs_finding_where(sarif->export, finding, &sarif->text);
    if (finding->group) {
        gs_text_add(&sarif->text, ": ");
        gs_finding_excuse(sarif->export, finding, &sarif->text);
    }
    put_text(sarif, "text");
    gs_json_close(json, '}');
    put_locations(sarif, finding);
    put_flows(sarif, calls, count);
    put_related(sarif, finding, calls, count);
    snprintf(key, sizeof(key), "%016llx:%u", (unsigned long long)finding->key,
             finding->ordinal);
    gs_json_member_open(json, "partialFingerprints", '{');
    gs_json_member_text(json, "callStack/v1", key);
    gs_json_close(json, '}');
    put_suppressions(sarif, finding);
    gs_json_close(json, '}');
}

static void put_run(struct sarif *sarif, const struct gs_findings *findings)
{
    struct gs_json *json = &sarif->json;

    gs_json_open(json, '{');
    put_tool(sarif);
    put_invocation(sarif);
    put_identity(sarif);
    put_root(json);
    gs_json_member_open(json, "results", '[');
    for (size_t i = 0; i < findings->count; i++) {
        put_result(sarif, &findings->items[i]);
    }
    gs_json_close(json, ']');
    put_totals(sarif);
    gs_json_close(json, '}');
}

enum gs_status gs_export_write_sarif(const struct gs_export *export,
                                     const struct gs_export_sink *sink)
{
    struct sarif sarif = {.export = export, .json = {.lines = 4}};
    struct gs_json *json = &sarif.json;
    struct gs_findings findings;
    enum gs_status status = gs_findings_gather(export, &findings);

    if (status != GS_OK) {
        return status;
    }
    gs_out_begin(&json->out, sink);
    gs_json_open(json, '{');
    gs_json_member_text(json, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    gs_json_member_text(json, "version", "2.1.0");
    gs_json_member_open(json, "runs", '[');
    put_run(&sarif, &findings);
    gs_json_close(json, ']');
    gs_json_close(json, '}');
    gs_out_char(&json->out, '\n');
    status = gs_out_end(&json->out);
    gs_findings_free(&findings);
    gs_text_free(&sarif.text);
    return sarif.failed ? GS_ERR_HOST_NOMEM : status;
}
