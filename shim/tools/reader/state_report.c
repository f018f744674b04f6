/*
 * state_report.c - reports the memory of another process, or of one that has ended: as
 * text for gpushim report, as JSON for gpushim html.
 *
 * Owns:  nothing.   Lock: none; one thread reads and writes.   Design: docs/state.md
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/report/leak_rules.h"
#include "shim/report/outputs.h"
#include "shim/report/report_settings.h"
#include "shim/report/statistics.h"
#include "shim/settings/log.h"
#include "shim/settings/output.h"
#include "shim/tools/reader/state_open.h"
#include "tracker/report/text/text.h"

/* The note about the file's state for its reader. path NULL: there is no file. */
static void make_note(const struct gs_state_found *found, bool running, const char *path,
                      char *out, size_t size)
{
    const struct gs_state_header *header = found->header;
    char started[32] = "";
    time_t start_time = (time_t)header->process.start_time;
    struct tm parts;
    if (localtime_r(&start_time, &parts)) {
        (void)strftime(started, sizeof(started), ", started %Y-%m-%d %H:%M:%S", &parts);
    }
    int length = snprintf(
        out, size, "%s%.300s%s%s", path ? "from " : "written by gpushim",
        path ? path : "", started,
        running || header->process.ending[0] || header->process.copied_ns != 0 ? ""
        : found->growth ? "; run time until the last allocation, free or sample"
                        : "; run time until the last allocation or free");
    if (length > 0 && (size_t)length < size && header->not_there) {
        length += snprintf(out + length, size - (size_t)length,
                           "; it could not grow and is incomplete");
    }
    if (length > 0 && (size_t)length < size && found->left_out) {
        char count[32];
        (void)snprintf(
            out + length, size - (size_t)length, "; %s allocation%s could not be read",
            gs_text_count(found->left_out, count), found->left_out == 1 ? "" : "s");
    }
}

/* Growing call sites listed. */
#define GROWING 3

/* The file's statistics of a device; reported as of an earlier time, unless nothing is
 * known to have happened since. */
static void find_device(const struct gs_state_found *found, size_t i,
                        struct gs_statistics *statistics, struct gs_report_device *device)
{
    const struct gs_statistics *kept = gs_statistics_of(found->annex, i);
    *statistics = kept ? *kept : (struct gs_statistics){.at_ns = 0};
    const char *bus = found->header->buses[i], *uuid = found->header->uuids[i];
    *device = (struct gs_report_device){.name = found->header->devices[i],
                                        .bus = bus[0] ? bus : NULL,
                                        .uuid = uuid[0] ? uuid : NULL};
    gs_statistics_report(statistics, device);
    /* Both clocks are coarse: of two equal times neither counts as later. */
    bool over = found->header->process.ending[0] || found->header->process.copied_ns != 0;
    if (statistics->at_ns < found->last_ns + (over ? 0 : 2)) {
        device->as_of_ns =
            statistics->at_ns > 1 ? statistics->at_ns - 1 : statistics->at_ns;
    }
}

/* Output files have the times of the process, not of the report. */
static void describe_process(const struct gs_state_found *found, bool running,
                             struct gs_export_job *job)
{
    const struct gs_state_process *process = &found->header->process;
    job->program = process->program[0] ? process->program : NULL;
    if (!running) {
        job->end_unix_ms =
            (uint64_t)process->start_time * 1000 + found->last_ns / 1000000;
    }
}

static void write_visit(void *self, const struct gs_export *export, struct gs_text *names)
{
    const struct gs_state_visit *visit = self;
    (void)names;
    visit->write(visit->self, export);
}

static struct gs_report_device devices[GS_MAX_DEVICES]; /* one thread reads */
static struct gs_statistics statistics[GS_MAX_DEVICES];

/* How the process was when the data was its own. */
static const char *ending_of(const struct gs_state_found *found, bool running)
{
    static char text[64]; /* one thread reads */
    char time[24];
    if (running) {
        return "runs";
    }
    if (!gs_state_is_copy(&found->header->process)) {
        return gs_state_ending(&found->header->process);
    }
    (void)snprintf(text, sizeof(text), "as of %s, still running then",
                   gs_text_duration(found->last_ns, time));
    return text;
}

static struct gs_report_config describe(const struct gs_state_found *found, bool running,
                                        bool lines)
{
    const struct gs_state_header *header = found->header;
    const struct gs_state_process *process = &header->process;
    struct gs_report_config config = gs_state_report_settings(lines);
    if (config.symbolizer) {
        gs_symbolizer_set_process(config.symbolizer,
                                  gs_state_exists(process) ? process->pid : 0);
    }
    config.version = header->version;
    config.command = process->command;
    config.hostname = process->hostname;
    config.rank = process->rank;
    config.pid = (long)process->pid;
    config.ending = ending_of(found, running);
    config.is_copy = gs_state_is_copy(process);
    config.running =
        running || config.is_copy || strcmp(process->ending, GS_STATE_DETACHED) == 0;
    config.killed = !config.running && !process->ending[0];
    config.devices = devices;
    config.device_count = header->device_count;
    config.stack_depth = process->stack_depth;
    config.show_devices = true;
    config.show_hints = gs_log_enabled(GS_LOG_WARN);
    config.show_pool = gs_log_enabled(GS_LOG_INFO);
    config.growth = found->growth;
    config.start_unix_ns = (uint64_t)process->start_time * 1000000000u;
    config.growing = GROWING;
    gs_statistics_report_frees(found->annex, &config);
    return config;
}

/* The files of GPUSHIM_OUTPUT, or the visit alone, unless it is NULL. False: none. */
static bool begin_files(const struct gs_options *options, size_t device_count,
                        const struct gs_state_visit *visit,
                        struct gs_output_contents *out)
{
    if (!visit) {
        return gs_outputs_begin(options, statistics, devices, device_count,
                                GS_OUTPUTS_END, out);
    }
    gs_output_contents_make(options, statistics, devices, device_count, out);
    out->job.write = write_visit;
    out->job.self = (void *)(uintptr_t)visit;
    out->job.more_stacks = visit->stacks.ids;
    out->job.more_stack_count = visit->stacks.count;
    return true;
}

/* Where a report goes: to stdout with the file's path in it; to the visit alone; or, of a
 * process that has ended, to its log. */
struct target {
    const char *path;               /* NULL: to the log */
    const struct gs_state_end *end; /* of a process without a report; NULL: not known */
    const struct gs_state_visit *visit; /* NULL: none */
};

/* Returns false if it cannot be written, which is said. */
static bool put_text(const struct gs_options *options, const struct target *target,
                     struct gs_text *text)
{
    if (target->visit) {
        return true;
    }
    if (!target->path) {
        gs_report_log(options, text);
        return text->data != NULL;
    }
    gs_report_color(options, STDOUT_FILENO, text);
    if (text->data && fwrite(text->data, 1, text->length, stdout) == text->length &&
        fflush(stdout) == 0) {
        return true;
    }
    gs_log_line(GS_LOG_ERROR, "the report cannot be written: %s",
                gs_output_error_text(errno));
    return false;
}

/* Writes the text and the files of GPUSHIM_OUTPUT, or calls the visit. *bad: leaks or
 * errors. */
static bool write_found(const struct gs_state_found *found, bool running,
                        const struct gs_options *options, const struct target *target,
                        bool *bad)
{
    const struct gs_state_visit *visit = target->visit;
    const uint32_t device_count = found->header->device_count;
    struct gs_output_contents outputs;
    struct gs_text text = {0};
    char note[512];

    for (uint32_t i = 0; i < device_count; i++) {
        find_device(found, i, &statistics[i], &devices[i]);
    }
    make_note(found, running, target->path, note, sizeof(note));
    struct gs_report_config config = describe(found, running, !visit || visit->lines);
    config.note = note;
    const struct gs_state_end *end = config.killed ? target->end : NULL;
    if (end && end->text) {
        config.ending = end->text;
        config.killed_by = end->signal;
        config.exited = !end->signal;
    }
    bool files = begin_files(options, device_count, visit, &outputs);
    if (files) {
        describe_process(found, running, &outputs.job);
        outputs.job.killed_unix_ms = end ? end->unix_ms : 0;
    }
    *bad = gs_report_compose(found->tracker, config, files ? &outputs : NULL, &text) ||
           gs_rules_ignored();
    bool written = put_text(options, target, &text);
    gs_text_free(&text);
    return written;
}

/* What the file says of an end without a report. Returns `out`. */
static const struct gs_state_end *end_in_file(const struct gs_state_process *process,
                                              struct gs_state_end *out)
{
    static const char killed[] = "killed by ";
    const char *text = process->seen_ending;
    bool signal = strncmp(text, killed, sizeof(killed) - 1) == 0;
    *out = (struct gs_state_end){.text = text[0] ? text : NULL,
                                 .signal = signal ? text + sizeof(killed) - 1 : NULL,
                                 .unix_ms = process->seen_unix_ms};
    return out;
}

/* Returns the exit status. *problem: why the file cannot be read, NULL if it can. */
static int report_state_file(const char *state_file, const struct gs_state_visit *visit,
                             const char **problem)
{
    const struct gs_options *options = gs_state_settings();
    static struct gs_state_open state;
    int status = 1;
    if (!gs_state_open(state_file, visit ? &visit->stacks : NULL, &state, problem)) {
        return status;
    }
    const struct gs_state_process *process = &state.header.process;
    *problem = visit && visit->pid != 0 &&
                       ((int64_t)visit->pid != process->pid ||
                        visit->pid_start != process->pid_start)
                   ? "of another process"
                   : NULL;
    if (!*problem) {
        struct gs_state_end end;
        const struct target target = {
            .path = state_file, .visit = visit, .end = end_in_file(process, &end)};
        bool bad;
        bool written = write_found(&state.found, state.running, options, &target, &bad);
        status = !written ? 1 : bad ? (int)options->error_exitcode : 0;
    }
    gs_state_close(&state);
    return status;
}

/* Returns whether the name may be meant for a process: a number, and no file. */
static bool is_process(const char *name)
{
    return name[0] && name[strspn(name, "0123456789")] == '\0' && access(name, F_OK) != 0;
}

int gs_state_report(const char *state_file)
{
    const char *problem;
    int status = report_state_file(state_file, NULL, &problem);
    if (problem && is_process(state_file)) {
        gs_log_line(GS_LOG_ERROR,
                    "%.20s: %s; no report (of a running process: gpushim dump %.20s)",
                    state_file, problem, state_file);
    } else if (problem) {
        gs_log_line(GS_LOG_ERROR, "%.600s: %s; no report", state_file, problem);
    }
    return status;
}

bool gs_state_report_ended(char *bytes, size_t length, const struct gs_state_end *end,
                           bool *bad)
{
    static struct gs_state_open state;
    const char *problem = NULL;
    gs_state_settings_were_read();
    const struct gs_options *options = gs_state_settings();
    if (!gs_state_open_bytes(bytes, length, NULL, &state, &problem)) {
        gs_log_line(GS_LOG_ERROR,
                    "no report of a process that has ended: its state is %s", problem);
        return false;
    }
    const struct target target = {.end = end};
    bool written = write_found(&state.found, false, options, &target, bad);
    gs_state_close(&state);
    return written;
}

bool gs_state_visit(const char *state_file, const struct gs_state_visit *visit,
                    const char **problem)
{
    (void)report_state_file(state_file, visit, problem);
    return !*problem;
}

/* The JSON of a report: where it goes, and whether it went. */
struct json {
    const struct gs_export_sink *sink;
    enum gs_status status;
};

static void write_json(void *self, const struct gs_export *export)
{
    struct json *json = self;
    json->status =
        export ? gs_export_write(export, GS_EXPORT_json, json->sink) : GS_ERR_HOST_NOMEM;
}

bool gs_state_json(const char *state_file, bool lines, const struct gs_export_sink *sink,
                   const char **problem)
{
    struct json json = {.sink = sink, .status = GS_ERR_HOST_NOMEM};
    const struct gs_state_visit visit = {
        .lines = lines, .write = write_json, .self = &json};
    if (gs_state_visit(state_file, &visit, problem) && json.status != GS_OK) {
        *problem = gs_status_text(json.status);
    }
    return !*problem;
}
