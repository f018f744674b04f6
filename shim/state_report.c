/*
 * state_report.c - gpushim report FILE: what a process had that is no more, or is
 * another.
 *
 * Owns:  nothing.   Lock: none; one thread reads and writes.   Design: docs/state.md
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "finish.h"
#include "leak_rules.h"
#include "log.h"
#include "outputs.h"
#include "record.h"
#include "report.h"
#include "state_file.h"
#include "state_read.h"
#include "text.h"

/* The whole file, from malloc; it may be growing. NULL: *problem says why. */
static char *read_file(const char *path, size_t *length, const char **problem)
{
    struct stat info = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *problem = NULL;
    if (fd < 0 || fstat(fd, &info) != 0) {
        *problem = errno == ENOENT ? "no such file" : gs_log_error_text(errno);
    } else if (!S_ISREG(info.st_mode)) {
        *problem = "not a regular file";
    }
    size_t size = *problem ? 0 : (size_t)info.st_size;
    /* Laid out as it was: what is in it has an alignment. */
    char *bytes =
        *problem ? NULL : aligned_alloc(4096, gs_round_up(size + 1, (size_t)4096));
    if (!*problem && !bytes) {
        *problem = gs_status_text(GS_ERR_HOST_NOMEM);
    }
    *length = 0;
    while (bytes && *length < size) {
        ssize_t got = read(fd, bytes + *length, size - *length);
        if (got == 0) {
            break;
        }
        if (got < 0 && errno != EINTR) {
            *problem = gs_log_error_text(errno);
            break;
        }
        *length += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (*problem) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

/* Whether it is there yet, and not another one of its number. */
static bool runs(const struct gs_state_process *process)
{
    char boot[sizeof(process->boot)];
    uint64_t start;
    gs_boot_id(boot, sizeof(boot));
    return process->ending[0] == '\0' && strcmp(boot, process->boot) == 0 &&
           process->pid > 0 && gs_process_start(process->pid, &start) == GS_OK &&
           start == process->pid_start;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What a reader should know of the file. */
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
    int length = snprintf(out, size, "from %.300s%s%s", path, started,
                          running || header->process.ending[0]
                              ? ""
                              : "; its time is that of the last allocation or free");
    if (length > 0 && (size_t)length < size && header->not_there) {
        length += snprintf(out + length, size - (size_t)length,
                           "; it could not grow, and is not complete");
    }
    if (length > 0 && (size_t)length < size && found->left_out) {
        char count[32];
        (void)snprintf(out + length, size - (size_t)length,
                       "; %s allocations could not be read",
                       gs_text_count(found->left_out, count));
    }
}

/* Returns the status to end with. */
static int write_found(const struct gs_state_found *found, bool running, const char *path,
                       const struct gs_options *options)
{
    const struct gs_state_header *header = found->header;
    const struct gs_state_process *process = &header->process;
    struct gs_report_device devices[GS_MAX_DEVICES];
    struct gs_report_summary summary;
    struct gs_symbolizer *symbolizer = NULL;
    struct gs_symbolizer_config symbols = {.lines = options->symbolize,
                                           .timeout_ms = options->symbolize_timeout_ms};
    struct gs_outputs outputs;
    struct gs_text text = {0};
    char note[512];

    for (uint32_t i = 0; i < header->device_count; i++) {
        devices[i] = (struct gs_report_device){.name = header->devices[i]};
    }
    make_note(found, running, path, note, sizeof(note));
    if (gs_symbolizer_create(&symbols, &symbolizer) != GS_OK) {
        symbolizer = NULL;
    }
    struct gs_report_config config = {
        .version = header->version,
        .command = process->command,
        .host = process->host,
        .rank = process->rank,
        .pid = (long)process->pid,
        .ending = process->ending[0] ? process->ending
                  : running          ? "runs"
                                     : "ended without a report",
        .running = running,
        .note = note,
        .devices = devices,
        .device_count = header->device_count,
        .stack_depth = process->stack_depth,
        .max_groups = options->leak_max,
        .min_leak_bytes = options->leak_min_bytes,
        .show_leaks = options->leak_report != GS_LEAK_REPORT_OFF,
        .show_devices = true,
        .runtime_names = gs_runtime_names,
        .runtime_name_count = gs_runtime_name_count,
        .symbolizer = symbolizer,
        .suppressions = gs_rules(),
    };
    bool files = gs_outputs_begin(options, NULL, devices, header->device_count, &outputs);
    config.job = files ? &outputs.job : NULL;
    gs_report_write(found->tracker, &config, &text, &summary);
    if (files) {
        gs_outputs_end(&outputs);
    }
    bool written = text.data &&
                   fwrite(text.data, 1, text.length, stdout) == text.length &&
                   fflush(stdout) == 0;
    gs_text_free(&text);
    gs_symbolizer_destroy(symbolizer);
    if (!written) {
        gs_log_line(GS_LOG_ERROR, "the report cannot be written: %s",
                    gs_log_error_text(errno));
        return 1;
    }
    return summary.errors > 0 || summary.leaked_count > 0 ? (int)options->error_exitcode
                                                          : 0;
}

int gs_state_report(const char *state_file)
{
    static struct gs_options options;
    static struct gs_options_notes notes;
    struct gs_state_header header;
    struct gs_state_found found;
    const char *problem;
    size_t length = 0;
    int status = 1;
    struct gs_state_read_config config = {
        .version = GPUSHIM_VERSION,
        .layout = gs_state_layout(GPUSHIM_VERSION, gs_api_names(), GS_API_COUNT),
        .api_names = gs_api_names(),
        .api_count = GS_API_COUNT};

    gs_options_load(&options, environ, false, &notes);
    gs_log_open(options.log_file, options.verbose);
    gs_log_text(notes.text, notes.length);
    gs_outputs_open(&options);
    gs_rules_start(&options);
    char *bytes = read_file(state_file, &length, &problem);
    if (bytes &&
        gs_state_read_header(bytes, length, &config, &header, &problem) == GS_OK) {
        bool running = runs(&header.process);
        config.now_ns = running ? now_ns() : 0;
        if (gs_state_read(bytes, length, &config, &found, &problem) == GS_OK) {
            status = write_found(&found, running, state_file, &options);
            gs_state_found_free(&found);
            problem = NULL;
        }
    }
    if (problem) {
        gs_log_line(GS_LOG_ERROR, "%.600s: %s; no report", state_file, problem);
    }
    free(bytes);
    return status;
}
