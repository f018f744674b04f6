/*
 * answers.c - reads a request, and answers those that change something or write a report.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/control/answers.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shim/api/api.h"
#include "shim/life/attach.h"
#include "shim/life/trim_thread.h"
#include "shim/limits/mem_limits.h"
#include "shim/report/finish.h"
#include "shim/report/outputs.h"
#include "shim/report/statistics.h"
#include "shim/settings/options_lists.h"
#include "shim/statefile/control_message.h"
#include "shim/statefile/state_file.h"
#include "shim/trace/trace.h"
#include "shim/trace/trace_file.h"
#include "tracker/names/child_waits.h"
#include "tracker/statefile/state_memory.h"

/* How long the trim thread may look for a time at which the device is idle. */
#define TRIM_NS 2000000000ull

static void answer_detach(struct gs_state *state, char *text, struct gs_answer *out);

static const struct {
    const char *word, *argument;
    void (*answer)(struct gs_state *state, char *text, struct gs_answer *out);
} requests[] = {
    {"detach", "", answer_detach}, /* gpushim detach does more than to ask */
#define GS_REQUEST(word, verb, processes, argument) {#word, argument, gs_answer_##word},
#include "shim/control/requests.def"
};

static void add(struct gs_answer *out, const char *format, va_list arguments)
{
    size_t room = sizeof(out->text) - out->length;
    int length =
        out->cut ? 0 : vsnprintf(out->text + out->length, room, format, arguments);
    if (length < 0 || (size_t)length >= room) {
        out->cut = true;
        out->text[out->length] = '\0';
        return;
    }
    out->length += (size_t)length;
}

void gs_answer_add(struct gs_answer *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(out, format, arguments);
    va_end(arguments);
}

void gs_answer_refuse(struct gs_answer *out, const char *format, ...)
{
    va_list arguments;
    out->refused = true;
    out->cut = false;
    out->text[0] = '\0';
    out->length = 0;
    va_start(arguments, format);
    add(out, format, arguments);
    va_end(arguments);
}

void gs_answer(struct gs_state *state, char *line, struct gs_answer *out)
{
    size_t length = strcspn(line, " ");
    char *argument = line[length] ? line + length + 1 : line + length;
    for (size_t i = 0; i < GS_ARRAY_LEN(requests); i++) {
        if (strlen(requests[i].word) != length ||
            memcmp(requests[i].word, line, length) != 0) {
            continue;
        }
        bool optional = requests[i].argument[0] && requests[i].argument[1] == '[';
        if (!optional && (argument[0] != '\0') != (requests[i].argument[0] != '\0')) {
            gs_answer_refuse(out, "%s takes %s", requests[i].word,
                             requests[i].argument[0] ? requests[i].argument + 1
                                                     : "no argument");
            return;
        }
        if (gs_attach_has_ended()) {
            gs_answer_refuse(out, "nothing is recorded since gpushim detach");
        } else {
            requests[i].answer(state, argument, out);
        }
        return;
    }
    gs_answer_refuse(out, "unknown request; this process has gpushim " GPUSHIM_VERSION);
}

/* ---- settings ---------------------------------------------------------------------- */

/* Sets an option as a thread that calls gpushim.h does. *problem: what was said, in
 * `line`; "": nothing. */
static gpushim_result set_option(const char *name, const char *value, char line[512],
                                 const char **problem)
{
    static const char prefix[] = "gpushim: "; /* of lines for the log */
    line[0] = '\0';
    gs_thread.depth = 0;
    gpushim_result result = gs_api_change_option(name, value, line, 512);
    gs_thread.depth = 1;
    *problem = strncmp(line, prefix, strlen(prefix)) == 0 ? line + strlen(prefix) : line;
    return result;
}

static void add_option(void *self, const char *name, const char *value)
{
    struct gs_answer *out = self;
    gs_answer_add(out, "%s%s=%s", out->length > 0 ? "\n" : "", name, value);
}

/* Adds the value of an option, or of all that can be set. */
static void add_options(const char *name, struct gs_answer *out)
{
    static char value[GS_LIST_BYTES]; /* one thread answers */
    gs_thread.depth = 0;
    gpushim_result result = name[0] ? gs_api_get_option(name, value, sizeof(value))
                                    : gs_api_settable(add_option, out);
    gs_thread.depth = 1;
    if (result == GPUSHIM_NOT_FOUND) {
        gs_answer_refuse(out, "no option %s", name);
    } else if (result != GPUSHIM_OK) {
        gs_answer_refuse(out, "%s: not possible now", name[0] ? name : "set");
    } else if (name[0]) {
        add_option(out, name, value);
    }
}

void gs_answer_set(struct gs_state *state, char *text, struct gs_answer *out)
{
    char line[512];
    const char *problem;
    char *value = strchr(text, '=');
    uint64_t given;
    if (!value) {
        add_options(text, out);
        return;
    }
    if (value == text) {
        gs_answer_refuse(out, "set takes NAME=VALUE");
        return;
    }
    *value++ = '\0';
    switch (set_option(text, value, line, &problem)) {
    case GPUSHIM_OK:
        if (gs_limits_exceeded(state)) {
            (void)gs_trim_thread_ask(false, TRIM_NS, &given);
        }
        add_options(text, out);
        break;
    case GPUSHIM_AT_START:
        gs_answer_refuse(out, "%s%s; unchanged", problem[0] ? problem : text,
                         problem[0] ? "" : " is read only at the start of a program");
        break;
    case GPUSHIM_NOT_FOUND:
        gs_answer_refuse(out, "no option %s", text);
        break;
    case GPUSHIM_INVALID:
        gs_answer_refuse(out, "%s; unchanged", problem);
        break;
    default:
        gs_answer_refuse(out, "%s: not possible now; unchanged", text);
        break;
    }
}

/* ---- idle memory ------------------------------------------------------------------- */

void gs_answer_trim(struct gs_state *state, char *text, struct gs_answer *out)
{
    uint64_t given = 0;
    struct gs_pool_stats now = {0};
    char given_text[24], idle_text[24];
    (void)text;
    if (!state->pool) {
        gs_answer_refuse(out, "the pool is off: there is no idle memory");
        return;
    }
    if (!gs_trim_thread_ask(true, TRIM_NS, &given)) {
        gs_answer_refuse(out, "nothing is returned: GPUSHIM_POOL_TRIM=thread:off, and no "
                              "other thread may call the driver");
        return;
    }
    gs_pool_stats(state->pool, -1, &now);
    uint64_t busy = now.used_bytes + now.pending_bytes;
    uint64_t idle = now.reserved_bytes > busy ? now.reserved_bytes - busy : 0;
    gs_answer_add(out, "%s of idle GPU memory returned to the driver",
                  gs_text_bytes(given, given_text));
    if (idle > 0) {
        gs_answer_add(out, "; %s remain: next to live blocks, or still in use by the GPU",
                      gs_text_bytes(idle, idle_text));
    }
}

/* ---- a trace ----------------------------------------------------------------------- */

void gs_answer_trace(struct gs_state *state, char *text, struct gs_answer *out)
{
    static const char start[] = "start ";
    const char *problem;
    char line[512];
    bool starts = strncmp(text, start, strlen(start)) == 0 && text[strlen(start)];
    (void)state;
    if (!starts && strcmp(text, "stop") != 0) {
        gs_answer_refuse(out, "trace takes start FILE, or stop");
        return;
    }
    if (!starts && !gs_trace_file_path()[0]) {
        gs_answer_refuse(out, "no trace is recorded");
        return;
    }
    if (set_option("GPUSHIM_TRACE_FILE", starts ? text + strlen(start) : "", line,
                   &problem) != GPUSHIM_OK) {
        gs_answer_refuse(out, "%s", problem[0] ? problem : "not possible now");
    } else {
        gs_answer_add(out, "%s", gs_trace_file_path());
    }
}

/* ---- reports ----------------------------------------------------------------------- */

static void answer_report(struct gs_state *state, struct gs_interim what,
                          struct gs_answer *out)
{
    if (!state->tracker) {
        gs_answer_refuse(out, "nothing is recorded: GPUSHIM_TRACK=off");
        return;
    }
    what.text = &out->report;
    /* The program did not ask for it, and must not notice a child that finds lines. */
    what.lines = gs_report_lines_unheard(!out->lines && gs_child_is_heard_anywhere());
    what.lines.server = out->lines;
    gs_finish_interim(&what);
    if (what.format && out->report.truncated) {
        gs_answer_refuse(out, "%s", gs_status_text(GS_ERR_HOST_NOMEM));
    } else if (out->report.length == 0) {
        gs_answer_refuse(out, "the program is ending, and writes its last report");
    }
}

void gs_answer_dump(struct gs_state *state, char *text, struct gs_answer *out)
{
    (void)text;
    answer_report(state, (struct gs_interim){.ending = "on gpushim dump"}, out);
}

static void answer_detach(struct gs_state *state, char *text, struct gs_answer *out)
{
    (void)text;
    answer_report(state, (struct gs_interim){.ending = GS_STATE_DETACHED}, out);
}

void gs_answer_owners(struct gs_state *state, char *text, struct gs_answer *out)
{
    (void)text;
    answer_report(
        state, (struct gs_interim){.ending = "on gpushim owners", .owners_alone = true},
        out);
}

/* The tracker's data, as a state file has it: it changes while it is sent. */
static void export_state(struct gs_state *state, struct gs_answer *out)
{
    if (!state->tracker) {
        gs_answer_refuse(out, "nothing is recorded: GPUSHIM_TRACK=off");
        return;
    }
    gs_statistics_keep_now(state);
    out->memory = gs_state_file_copy(&out->head, &out->memory_bytes);
    if (!out->memory) {
        gs_answer_refuse(out, "its data is not in one place: the address space of the "
                              "process is limited (ulimit -v)");
    }
}

void gs_answer_export(struct gs_state *state, char *text, struct gs_answer *out)
{
    if (strcmp(text, GS_CONTROL_STATE) == 0) {
        export_state(state, out);
        return;
    }
    char wrong[GS_OUTPUTS_WRONG_BYTES];
    enum gs_export_row row = (enum gs_export_row)gs_outputs_format(text, strlen(text));
    if (row == GS_EXPORT_FORMATS) {
        const char *why = gs_outputs_wrong(text, wrong);
        gs_answer_refuse(out, "%s", why ? why : "export takes one FORMAT");
    } else if (row == GS_EXPORT_collapsed_total && !gs_outputs_tallied()) {
        gs_answer_refuse(out, "it has not counted all allocations: start it with "
                              "GPUSHIM_OUTPUT=collapsed-total");
    } else {
        answer_report(state,
                      (struct gs_interim){.ending = "on gpushim export", .format = &row},
                      out);
    }
}
