/*
 * state_open.c - reads a state file whole, and checks whether its process still runs.
 * Owns:  the reader's settings and symbolizers.   Lock: none; one thread reads.
 */
#include "shim/tools/reader/state_open.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "gs_clock.h"
#include "shim/record.h"
#include "shim/report/leak_rules.h"
#include "shim/report/outputs.h"
#include "shim/report/report_settings.h"
#include "shim/report/statistics.h"
#include "shim/settings/log.h"
#include "shim/settings/read_file.h"
#include "shim/statefile/state_file.h"

bool gs_state_exists(const struct gs_state_process *process)
{
    static char boot[sizeof(process->boot)]; /* one thread reads */
    uint64_t start;
    if (!boot[0]) {
        gs_boot_id(boot, sizeof(boot));
    }
    return process->ending[0] == '\0' && strcmp(boot, process->boot) == 0 &&
           process->pid > 0 && gs_process_start(process->pid, &start) == GS_OK &&
           start == process->pid_start;
}

bool gs_state_is_copy(const struct gs_state_process *process)
{
    return process->copied_ns != 0 && process->ending[0] == '\0';
}

bool gs_state_runs(const struct gs_state_process *process)
{
    return !gs_state_is_copy(process) && gs_state_exists(process);
}

const char *gs_state_ending(const struct gs_state_process *process)
{
    return process->ending[0]        ? process->ending
           : process->seen_ending[0] ? process->seen_ending
           : process->copied_ns != 0 ? "a copy, still running then"
                                     : "ended without a report";
}

static bool notes_written; /* by the process that the report is of */

void gs_state_settings_were_read(void)
{
    notes_written = true;
}

const struct gs_options *gs_state_settings(void)
{
    static struct gs_options options;
    static struct gs_options_messages notes;
    static bool loaded;
    if (!loaded) {
        gs_options_load(&options, environ, getauxval(AT_SECURE) != 0, &notes);
        options.metrics_file[0] = '\0'; /* a running program's */
        gs_log_open(options.log_file, options.verbose);
        if (!notes_written) {
            gs_log_text(notes.text, notes.length);
        }
        gs_outputs_open(&options);
        gs_rules_start(&options);
        loaded = true;
    }
    return &options;
}

struct gs_report_config gs_state_report_settings(bool lines)
{
    static struct gs_symbolizer *symbolizers[2];
    struct gs_symbolizer **shared = &symbolizers[lines];
    struct gs_report_config config = gs_report_settings(
        gs_state_settings(), (struct gs_report_lines){.wanted = lines});
    if (*shared) {
        gs_symbolizer_destroy(config.symbolizer);
    } else {
        *shared = config.symbolizer;
    }
    config.symbolizer = *shared;
    return config;
}

static struct gs_state_read_config read_config(const struct gs_state_stacks *stacks)
{
    struct gs_state_read_config config = {
        .version = GPUSHIM_VERSION,
        .layout = gs_state_file_layout(gs_statistics_form()),
        .api_names = gs_api_names(),
        .api_count = GS_API_COUNT,
        .annex_bytes = sizeof(struct gs_statistics_file)};
    if (stacks) {
        config.stacks = *stacks;
    }
    return config;
}

bool gs_state_open_bytes(char *bytes, size_t length, const struct gs_state_stacks *stacks,
                         struct gs_state_open *out, const char **problem)
{
    struct gs_state_read_config config = read_config(stacks);
    out->bytes = bytes;
    if (bytes && gs_state_read_header(out->bytes, length, &config, &out->header,
                                      problem) == GS_OK) {
        out->running = gs_state_runs(&out->header.process);
        config.now_ns = out->running ? gs_now_coarse_ns() : 0;
        if (gs_state_read(out->bytes, length, &config, &out->found, problem) == GS_OK) {
            return true;
        }
    }
    free(out->bytes);
    return false;
}

/* What the beginning of a file is read by, and into. */
struct judged {
    const struct gs_state_read_config *config;
    struct gs_state_header *header;
};

/* gs_read_file_judge: whether a file begins as a state file, and has the bytes that it
 * counts, so that no other is read. */
static const char *judge(void *self, const char *head, size_t length, uint64_t file_bytes)
{
    const struct judged *judged = self;
    const char *problem;
    static_assert(sizeof(*judged->header) <= GS_READ_FILE_HEAD, "the head has all of it");
    if (gs_state_read_header(head, length, judged->config, judged->header, &problem) !=
        GS_OK) {
        return problem;
    }
    return gs_state_is_cut(judged->header, file_bytes) ? gs_state_cut_short : NULL;
}

bool gs_state_open(const char *path, const struct gs_state_stacks *stacks,
                   struct gs_state_open *out, const char **problem)
{
    struct gs_state_read_config config = read_config(stacks);
    struct judged judged = {&config, &out->header};
    size_t length = 0;
    char *bytes = gs_read_file_judged(path, judge, &judged, &length, problem);
    return gs_state_open_bytes(bytes, length, stacks, out, problem);
}

void gs_state_close(struct gs_state_open *state)
{
    gs_state_found_free(&state->found);
    free(state->bytes);
}

const struct gs_statistics *gs_statistics_of(const struct gs_statistics_file *file,
                                             size_t device)
{
    if (!file || file->current < 1 || file->current > GS_ARRAY_LEN(file->sets) ||
        device >= GS_MAX_DEVICES) {
        return NULL;
    }
    const struct gs_statistics *statistics = &file->sets[file->current - 1][device];
    return statistics->at_ns != 0 ? statistics : NULL;
}

static const char *name_of(const char name[GS_KNOWN_NAME_BYTES])
{
    return name[0] && !name[GS_KNOWN_NAME_BYTES - 1] ? name : NULL;
}

void gs_statistics_report_frees(const struct gs_statistics_file *file,
                                struct gs_report_config *out)
{
    if (file) {
        out->uncounted = name_of(file->uncounted);
        out->order_ended = name_of(file->order_ended);
        out->no_start = name_of(file->no_start);
        out->order_used = file->order_used != 0;
        out->host_pooled = file->host_pooled != 0;
    }
}
