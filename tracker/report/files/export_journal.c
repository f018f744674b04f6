/*
 * export_journal.c - the report as records for systemd-journald: one of the summary; and,
 * once the program has ended, one of each error and of each leak that the text report
 * shows.
 *
 * A record is a list of fields, NAME=VALUE and a line feed; a value with a line feed is
 * written after its length. An empty line is between two records. journald takes several
 * of them in one message; the same bytes are its export format.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 * Source: https://systemd.io/JOURNAL_NATIVE_PROTOCOL/,
 *         https://systemd.io/JOURNAL_EXPORT_FORMATS/, systemd.journal-fields(7)
 */
#include "tracker/names/runtime_modules.h"
#include "tracker/report/files/findings.h"

#include <string.h>

/* MESSAGE_ID of the kinds of records; they never change. */
#define SUMMARY_ID "1419cc9e7f1f4687b91d9e591c92394f"
#define FINDING_ID "c68d1a170ef94b63bf9a1c1a7f62e4bf"

/* PRIORITY, as in syslog(3). */
enum priority { PRIORITY_ERROR = 3, PRIORITY_WARNING = 4, PRIORITY_INFO = 6 };

struct journal {
    const struct gs_export *export;
    struct gs_export_out out;
    struct gs_text text; /* of a field */
    bool failed;         /* out of memory */
};

/* ---- fields ----------------------------------------------------------------------- */

static void put_bytes(struct journal *journal, const char *name, const char *value,
                      size_t length)
{
    struct gs_export_out *out = &journal->out;

    gs_out_text(out, name);
    if (memchr(value, '\n', length)) {
        gs_out_char(out, '\n');
        for (unsigned shift = 0; shift < 64; shift += 8) { /* little endian */
            gs_out_char(out, (char)((uint64_t)length >> shift));
        }
    } else {
        gs_out_char(out, '=');
    }
    gs_out_bytes(out, value, length);
    gs_out_char(out, '\n');
}

/* A text that is not known, or empty, has no field. */
static void put_text(struct journal *journal, const char *name, const char *value)
{
    if (value && value[0]) {
        put_bytes(journal, name, value, strlen(value));
    }
}

static void put_number(struct journal *journal, const char *name, uint64_t value)
{
    gs_out_text(&journal->out, name);
    gs_out_char(&journal->out, '=');
    gs_out_number(&journal->out, value);
    gs_out_char(&journal->out, '\n');
}

/* Writes the text that was gathered, and empties it. */
static void put_gathered(struct journal *journal, const char *name)
{
    if (journal->text.length > 0) {
        put_bytes(journal, name, journal->text.data, journal->text.length);
    }
    journal->failed = journal->failed || journal->text.truncated;
    journal->text.length = 0;
}

/* Begins MESSAGE, which must be readable without the other fields. */
static void begin_message(struct journal *journal)
{
    const char *program = journal->export->job->program;

    if (program && program[0]) {
        gs_text_add_foreign(&journal->text, gs_module_base_name(program));
        gs_text_add(&journal->text, ": ");
    }
}

/* Writes the fields that each record has; the text gathered is MESSAGE. */
static void put_head(struct journal *journal, const char *id, enum priority priority)
{
    const struct gs_report_config *config = journal->export->config;

    put_gathered(journal, "MESSAGE");
    put_number(journal, "PRIORITY", priority);
    put_text(journal, "SYSLOG_IDENTIFIER", "gpushim");
    put_text(journal, "MESSAGE_ID", id);
    put_number(journal, "GPUSHIM_PID", (uint64_t)config->pid);
    put_text(journal, "GPUSHIM_COMMAND", config->command);
    put_text(journal, "GPUSHIM_PROGRAM", journal->export->job->program);
    put_text(journal, "GPUSHIM_HOST", config->hostname);
    if (config->rank >= 0) {
        put_number(journal, "GPUSHIM_RANK", (uint64_t)config->rank);
    }
}

/* ---- records ---------------------------------------------------------------------- */

/* Live memory is no leak. */
static enum priority summary_priority(const struct gs_export *export)
{
    if (export->summary->errors != 0) {
        return PRIORITY_ERROR;
    }
    return export->summary->leaked_count != 0 && !gs_report_is_live(export->config)
               ? PRIORITY_WARNING
               : PRIORITY_INFO;
}

/* Fields are the members of process and summary of docs/schema/report-1.json. */
static void put_summary(struct journal *journal)
{
    const struct gs_export *export = journal->export;
    const struct gs_report_config *config = export->config;
    const struct gs_report_summary *summary = export->summary;
    struct gs_tracker_totals sum;
    uint64_t status;

    gs_totals_sum(export->data->totals, &sum);
    begin_message(journal);
    gs_report_add_summary(config, summary, &journal->text);
    put_head(journal, SUMMARY_ID, summary_priority(export));
    put_text(journal, "GPUSHIM_VERSION", config->version);
    put_text(journal, "GPUSHIM_ENDING", config->ending);
    put_text(journal, "GPUSHIM_RUNNING", config->running ? "true" : "false");
    put_text(journal, "GPUSHIM_KILLED_BY", config->killed_by);
    if (gs_export_exit_status(export, &status)) {
        put_number(journal, "GPUSHIM_EXIT_STATUS", status);
    }
    put_text(journal, "GPUSHIM_NO_START", summary->no_start ? config->no_start : NULL);
    put_number(journal, "GPUSHIM_ERRORS", summary->errors);
    put_number(journal, "GPUSHIM_LEAKED_BYTES", summary->leaked_bytes);
    put_number(journal, "GPUSHIM_LEAKED_COUNT", summary->leaked_count);
    put_number(journal, "GPUSHIM_PLACES", summary->leak_groups);
    put_number(journal, "GPUSHIM_PEAK_BYTES", sum.peak_bytes);
    put_number(journal, "GPUSHIM_ALLOCS", sum.allocs);
}

/* Writes the frame that names the call site as the fields that journald has for code. */
static void put_code(struct journal *journal, const struct gs_finding *finding)
{
    const struct gs_symbol_request *frame = gs_export_frame(
        journal->export, gs_export_stack(journal->export, finding->stack), 0);

    if (!frame) {
        return;
    }
    put_text(journal, "CODE_FUNC", frame->result.function);
    put_text(journal, "CODE_FILE", frame->result.file);
    if (frame->result.file && frame->result.line != 0) {
        put_number(journal, "CODE_LINE", frame->result.line);
    }
}

static void put_finding(struct journal *journal, const struct gs_finding *finding)
{
    const struct gs_export *export = journal->export;
    const struct gs_finding_rule_text *rule = &gs_finding_rules[finding->rule];
    struct gs_finding_call calls[GS_FINDING_CALLS];
    unsigned count = gs_finding_calls(finding, calls);

    begin_message(journal);
    gs_text_add(&journal->text, "%s", finding->rule == GS_FINDING_LEAK ? "leak: " : "");
    gs_finding_title(export, finding, &journal->text);
    gs_finding_where(export, finding, &journal->text);
    put_head(journal, FINDING_ID,
             strcmp(rule->level, "error") == 0 ? PRIORITY_ERROR : PRIORITY_WARNING);
    put_text(journal, "GPUSHIM_RULE", rule->id);
    if (finding->rule == GS_FINDING_LEAK) {
        put_number(journal, "GPUSHIM_BYTES", finding->bytes);
    }
    put_number(journal, "GPUSHIM_COUNT", finding->count);
    put_code(journal, finding);
    for (unsigned i = 0; i < count; i++) {
        gs_text_add(&journal->text, "%s\n", calls[i].what);
        gs_finding_stack(export, calls[i].stack, &journal->text);
    }
    put_gathered(journal, "GPUSHIM_STACK");
}

/* Each report of a running program would repeat its errors. */
static enum gs_status put_findings(struct journal *journal)
{
    const struct gs_report_config *config = journal->export->config;
    struct gs_findings findings = {0};
    unsigned leaks = 0;

    if (config->running) {
        return GS_OK;
    }
    enum gs_status status = gs_findings_gather(journal->export, &findings);
    for (size_t i = 0; i < findings.count; i++) {
        const struct gs_finding *finding = &findings.items[i];
        leaks += finding->rule == GS_FINDING_LEAK;
        if (finding->verdict == GS_FINDING_FAULT && leaks <= config->max_groups) {
            gs_out_char(&journal->out, '\n');
            put_finding(journal, finding);
        }
    }
    gs_findings_free(&findings);
    return status;
}

enum gs_status gs_export_write_journal(const struct gs_export *export,
                                       const struct gs_export_sink *sink)
{
    struct journal journal = {.export = export};

    gs_out_begin(&journal.out, sink);
    put_summary(&journal);
    enum gs_status status = put_findings(&journal);
    gs_text_free(&journal.text);
    enum gs_status written = gs_out_end(&journal.out);
    return journal.failed ? GS_ERR_HOST_NOMEM : status != GS_OK ? status : written;
}
