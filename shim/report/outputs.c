/*
 * outputs.c - the files, and the sockets of services, to which the report is written.
 *
 * Owns:  the settings; which report is being written.
 * Lock:  none; settings are immutable once `newest`, which is atomic, points to them.
 *        Those that were replaced stay, for a report that is being written. One thread
 *        writes a report.
 */
#include "shim/report/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_printable.h"
#include "shim/settings/datagram.h"
#include "shim/settings/log.h"
#include "shim/settings/log_pattern.h"
#include "shim/settings/options_table.h"
#include "shim/settings/output.h"
#include "shim/settings/output_ours.h"
#include "tracker/report/text/text.h"

/* The default of GPUSHIM_OUTPUT_FILE; the extension follows. */
#define DEFAULT_PATTERN "gpushim.%p"

/* Bytes for the names of all formats in one line. */
#define FORMAT_LIST_BYTES 256

struct settings {
    bool chosen[GS_EXPORT_FORMATS];
    unsigned count;         /* the number of formats */
    unsigned files;         /* of these, formats that are files */
    bool extended;          /* each name gets an extension: no pattern was given */
    char pattern[PATH_MAX]; /* absolute where possible */
    char log[PATH_MAX];     /* likewise, for GPUSHIM_LOG_FILE; "": stderr */
    char metrics[PATH_MAX]; /* likewise, for GPUSHIM_METRICS_FILE; "": none */
};

static struct settings first, *newest = &first;
static const struct settings *in_use = &first; /* of the report being written */
static struct gs_log_limit metrics_failed, interval_failed, interval_kept;
static bool tallied; /* constant after start */

/* The report being written, and how many the program or a signal has requested so far. */
static enum gs_outputs_when current;
static unsigned requested;

/* ---- start-up --------------------------------------------------------------------- */

/* "json, pprof, collapsed" */
static const char *known_formats(char out[FORMAT_LIST_BYTES])
{
    size_t used = 0;
    for (size_t i = 0; i < GS_EXPORT_FORMATS && used < FORMAT_LIST_BYTES; i++) {
        used += (size_t)snprintf(out + used, FORMAT_LIST_BYTES - used, "%s%s",
                                 i ? ", " : "", gs_export_formats[i].name);
    }
    return out;
}

size_t gs_outputs_format(const char *word, size_t length)
{
    size_t i = 0;
    while (i < GS_EXPORT_FORMATS &&
           (strlen(gs_export_formats[i].name) != length ||
            strncasecmp(gs_export_formats[i].name, word, length) != 0)) {
        i++;
    }
    return i;
}

/* The next word of a list; NULL: its end. */
static const char *next_word(const char **list, size_t *length)
{
    const char *word = *list + strspn(*list, ", ");
    *length = strcspn(word, ", ");
    *list = word + *length;
    return *length > 0 ? word : NULL;
}

static const char *wrong_format(const char *word, size_t length,
                                char out[GS_OUTPUTS_WRONG_BYTES])
{
    char known[FORMAT_LIST_BYTES], shown[64];
    const char *quoted = gs_option_quote(word, length, shown, sizeof(shown));
    size_t begin = strcspn(word, ":=");
    if (begin < length && gs_outputs_format(word, begin) != GS_EXPORT_FORMATS) {
        (void)snprintf(out, GS_OUTPUTS_WRONG_BYTES,
                       "\"%s\": a format alone; GPUSHIM_OUTPUT_FILE names the file",
                       quoted);
        return out;
    }
    (void)snprintf(out, GS_OUTPUTS_WRONG_BYTES, "\"%s\" is not a format (%s)", quoted,
                   known_formats(known));
    return out;
}

/* Returns whether a list that is set names nothing. */
static bool is_without_words(const char *list)
{
    return list[0] && !list[strspn(list, ", ")];
}

const char *gs_outputs_wrong(const char *list, char out[GS_OUTPUTS_WRONG_BYTES])
{
    size_t length;
    if (is_without_words(list)) {
        return wrong_format(list, strlen(list), out);
    }
    for (const char *word; (word = next_word(&list, &length));) {
        if (gs_outputs_format(word, length) == GS_EXPORT_FORMATS) {
            return wrong_format(word, length, out);
        }
    }
    return NULL;
}

/* Returns false if the format is a message to a service's socket. */
static bool is_file(const struct gs_export_format *format)
{
    return format->socket[0] == '\0';
}

static void choose(struct settings *into, const char *word, size_t length)
{
    char wrong[GS_OUTPUTS_WRONG_BYTES];
    size_t i = gs_outputs_format(word, length);
    if (i == GS_EXPORT_FORMATS) {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_OUTPUT: %s; left out",
                    wrong_format(word, length, wrong));
        return;
    }
    into->count += !into->chosen[i];
    into->files += !into->chosen[i] && is_file(&gs_export_formats[i]);
    into->chosen[i] = true;
}

/* Reads the formats and the name of their files. */
static void read_formats(struct settings *into, const char *list, const char *file)
{
    size_t length;
    into->count = into->files = 0;
    memset(into->chosen, 0, sizeof(into->chosen));
    if (is_without_words(list)) {
        choose(into, list, strlen(list));
    }
    for (const char *word; (word = next_word(&list, &length));) {
        choose(into, word, length);
    }
    into->extended = file[0] == '\0';
    if (into->count > 0) {
        gs_log_pattern_keep(into->pattern, into->extended ? DEFAULT_PATTERN : file);
    }
}

static bool needs_tally(const struct settings *of)
{
    for (size_t i = 0; i < GS_EXPORT_FORMATS; i++) {
        if (of->chosen[i] && gs_export_formats[i].tallied) {
            return true;
        }
    }
    return false;
}

static const struct settings *latest(void)
{
    return __atomic_load_n(&newest, __ATOMIC_ACQUIRE);
}

/* ---- names ------------------------------------------------------------------------
 *
 * Made at start, and by the one report that is written at a time, perhaps with little
 * stack: so they are static.
 */

static bool ends_in(const char *name, const char *extension)
{
    size_t length = strlen(name), tail = strlen(extension);
    return length > tail + 1 && name[length - tail - 1] == '.' &&
           strcmp(name + length - tail, extension) == 0;
}

/* The folder of a path; *name is the part after it. */
static bool folder_of(const char *path, struct stat *out, const char **name)
{
    static char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (slash) {
        memcpy(folder, path, (size_t)(slash + 1 - path));
        folder[slash + 1 - path] = '\0';
    } else {
        strcpy(folder, ".");
    }
    *name = slash ? slash + 1 : path;
    return stat(folder, out) == 0;
}

/* Returns whether two paths name one file, which may not exist yet. */
static bool is_same_file(const char *path, const char *other)
{
    struct stat folder, others;
    const char *name, *others_name;
    return folder_of(path, &folder, &name) && folder_of(other, &others, &others_name) &&
           folder.st_dev == others.st_dev && folder.st_ino == others.st_ino &&
           strcmp(name, others_name) == 0;
}

/* Returns true if a file name is the report's own file. False without one. */
static bool is_log(const char *path)
{
    static char log[PATH_MAX];
    return in_use->log[0] && gs_log_pattern_expand(in_use->log, log, PATH_MAX) == GS_OK &&
           is_same_file(path, log);
}

static enum gs_status extend(char path[PATH_MAX], const char *extension)
{
    size_t length = strlen(path);
    if (length + 1 + strlen(extension) >= PATH_MAX) {
        return GS_ERR_INVALID;
    }
    path[length] = '.';
    strcpy(path + length + 1, extension);
    return GS_OK;
}

/* Names the file of a format. Several formats cannot have one name, so each name gets its
 * extension, unless it has it. No format can have the log's name, since the log is
 * appended to and the output replaced. *renamed: the name was changed for the log. */
static enum gs_status name_file(const struct gs_export_format *format,
                                char path[PATH_MAX], bool *renamed)
{
    enum gs_status status = gs_log_pattern_expand(in_use->pattern, path, PATH_MAX);
    *renamed = false;
    if (status == GS_OK &&
        (in_use->extended || (in_use->files > 1 && !ends_in(path, format->extension)))) {
        status = extend(path, format->extension);
    }
    if (status == GS_OK && is_log(path)) {
        *renamed = true;
        status = extend(path, format->extension);
    }
    return status;
}

/* Whether a file may be created next to this one: the path is free, or a regular
 * file's. */
static bool is_plain(const char *path)
{
    struct stat info;
    return lstat(path, &info) != 0 || S_ISREG(info.st_mode);
}

/* Whether there is no regular file, or one of gpushim. */
static bool may_replace(const char *path)
{
    struct stat info;
    return lstat(path, &info) != 0 || !S_ISREG(info.st_mode) || gs_output_is_ours(path);
}

/* Inserts ".oom", or the number of the request, before the extension, or appends it. */
static enum gs_status insert_mark(char path[PATH_MAX], const char *extension)
{
    bool extended = ends_in(path, extension);
    char number[16];
    if (extended) {
        path[strlen(path) - strlen(extension) - 1] = '\0';
    }
    (void)snprintf(number, sizeof(number), "%u", requested);
    enum gs_status status =
        extend(path, current == GS_OUTPUTS_OUT_OF_MEMORY ? "oom" : number);
    return status == GS_OK && extended ? extend(path, extension) : status;
}

/* Called at start, since the report may come much later. */
static void log_deferred(void)
{
    static char path[PATH_MAX];
    bool renamed;
    for (size_t i = 0; i < GS_EXPORT_FORMATS; i++) {
        if (in_use->chosen[i] && is_file(&gs_export_formats[i]) &&
            name_file(&gs_export_formats[i], path, &renamed) == GS_OK && renamed) {
            gs_log_line(GS_LOG_WARN,
                        "GPUSHIM_OUTPUT=%s: its file would be GPUSHIM_LOG_FILE; writing "
                        "%.600s",
                        gs_export_formats[i].name, path);
        }
    }
}

void gs_outputs_open(const struct gs_options *options)
{
    memset(&first, 0, sizeof(first));
    metrics_failed = interval_failed = interval_kept = (struct gs_log_limit){0};
    in_use = newest = &first;
    gs_output_ours_force(options->force);
    read_formats(&first, options->output, options->output_file);
    tallied = needs_tally(&first);
    if (options->log_file[0]) {
        gs_log_pattern_keep(first.log, options->log_file);
    }
    if (options->metrics_file[0] && options->track) {
        gs_log_pattern_keep(first.metrics, options->metrics_file);
    }
    if (first.count == 0) {
        return;
    }
    log_deferred();
    if (first.files == 0 && !first.extended) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_OUTPUT_FILE=%.600s: no format of GPUSHIM_OUTPUT is a file; "
                    "not written",
                    options->output_file);
    }
    if (!options->track) {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_OUTPUT: nothing is written: tracking is off");
    }
}

const char *gs_outputs_change(const char *list, const char *file, bool tracks)
{
    static char wrong[GS_OUTPUTS_WRONG_BYTES]; /* under the lock of the options */
    if (gs_outputs_wrong(list, wrong)) {
        return wrong;
    }
    if (!tracks) {
        return "nothing is written: tracking is off";
    }
    struct settings *made = malloc(sizeof(*made));
    if (!made) {
        return gs_status_text(GS_ERR_HOST_NOMEM);
    }
    *made = *latest();
    read_formats(made, list, file);
    if (made->chosen[GS_EXPORT_collapsed_total] && !tallied) {
        free(made);
        return "collapsed-total needs the sums of all allocations: start with it";
    }
    __atomic_store_n(&newest, made, __ATOMIC_RELEASE);
    return NULL;
}

bool gs_outputs_wanted(void)
{
    return latest()->count != 0;
}

bool gs_outputs_metrics_wanted(void)
{
    return latest()->metrics[0] != '\0';
}

bool gs_outputs_tallied(void)
{
    return tallied;
}

/* ---- writing ---------------------------------------------------------------------- */

/* Logs a file that could not be written; of files written at intervals, only the first
 * failure. */
static void log_failed(const struct gs_export_format *format, const char *path,
                       const char *why)
{
    struct gs_log_limit unlimited = {0};
    gs_log_once(current == GS_OUTPUTS_INTERVAL ? &interval_failed : &unlimited,
                GS_LOG_ERROR, "GPUSHIM_OUTPUT=%s: cannot write %.800s: %s; left out",
                format->name, path, why);
}

/* Returns why there is no file now; NULL: there is one. */
static const char *write_file(const struct gs_export *export, enum gs_export_row row,
                              const char *path, mode_t mode)
{
    static struct gs_output_file file; /* one report is written at a time */
    struct gs_export_sink sink = {.write = gs_output_file_write, .self = &file};
    enum gs_status status = GS_ERR_IO;
    gs_output_file_open(&file, path);
    if (!file.error) {
        if (mode && !file.direct) {
            /* No import of its own, which each start of a program would pay for. */
            (void)syscall(SYS_fchmod, file.fd, mode);
        }
        status = gs_export_write(export, row, &sink);
    }
    int error = gs_output_file_close(&file, status == GS_OK);
    return error             ? gs_output_error_text(error)
           : status != GS_OK ? gs_status_text(status)
                             : NULL;
}

/* Sends the format to its socket. */
static void send_format(const struct gs_export *export, enum gs_export_row row)
{
    const struct gs_export_format *format = &gs_export_formats[row];
    struct gs_text message = {0};
    const struct gs_export_sink sink = gs_export_text_sink(&message);
    enum gs_status status =
        export ? gs_export_write(export, row, &sink) : GS_ERR_HOST_NOMEM;
    if (message.truncated) {
        status = GS_ERR_HOST_NOMEM;
    }
    int error = status == GS_OK
                    ? gs_datagram_send(format->socket, message.data, message.length)
                    : 0;
    gs_text_free(&message);
    if (error || status != GS_OK) {
        log_failed(format, format->socket,
                   error ? gs_output_error_text(error) : gs_status_text(status));
    }
}

/* Adds a name to the list of the files written. */
static void add_name(struct gs_text *names, const char *path)
{
    gs_text_add(names, "%s%s", names->length ? ", " : "", path);
}

/* The metrics' collector runs as another user; they have no addresses. */
#define METRICS_MODE 0644

/* Returns whether a file of a format has this name. */
static bool is_output(const char *path)
{
    static char other[PATH_MAX]; /* one report is written at a time */
    for (size_t i = 0; i < GS_EXPORT_FORMATS; i++) {
        bool renamed = false;
        if (in_use->chosen[i] && is_file(&gs_export_formats[i]) &&
            name_file(&gs_export_formats[i], other, &renamed) == GS_OK &&
            is_same_file(path, other)) {
            return true;
        }
    }
    return false;
}

/* Logs the first failure alone: the file is written again and again. */
static void write_metrics(void *self, const struct gs_export *export,
                          struct gs_text *names)
{
    static char path[PATH_MAX]; /* one report is written at a time */
    const char *problem = NULL;
    (void)self;
    if (gs_log_pattern_expand(in_use->metrics, path, PATH_MAX) != GS_OK) {
        strcpy(path, in_use->metrics);
        problem = "name too long";
    } else if (is_log(path)) {
        problem = "it is GPUSHIM_LOG_FILE";
    } else if (is_output(path)) {
        problem = "it is a file of GPUSHIM_OUTPUT";
    } else {
        problem = export ? write_file(export, GS_EXPORT_prometheus, path, METRICS_MODE)
                         : gs_status_text(GS_ERR_HOST_NOMEM);
    }
    if (problem) {
        gs_log_once(&metrics_failed, GS_LOG_ERROR,
                    "GPUSHIM_METRICS_FILE: cannot write %.800s: %s; left out", path,
                    problem);
    } else {
        add_name(names, path);
    }
}

/* Somebody else's file stays: PATH.PID is written. False: the name is too long. Logged
 * once if the files are written at intervals. */
static bool choose_other_name(const struct gs_export_format *format, char path[PATH_MAX])
{
    static char kept[PATH_MAX]; /* one report is written at a time */
    struct gs_log_limit unlimited = {0};
    char number[24];
    (void)snprintf(number, sizeof(number), "%ld", (long)syscall(SYS_getpid));
    strcpy(kept, path);
    if (extend(path, number) != GS_OK) {
        return false;
    }
    gs_log_once(current == GS_OUTPUTS_INTERVAL ? &interval_kept : &unlimited, GS_LOG_WARN,
                "GPUSHIM_OUTPUT=%s: %.400s: %s; writing %.400s", format->name, kept,
                gs_output_error_text(ENOTUNIQ), path);
    return true;
}

/* Writes the format to its file. */
static void write_format(const struct gs_export *export, enum gs_export_row row,
                         struct gs_text *names)
{
    static char path[PATH_MAX]; /* one report is written at a time */
    const struct gs_export_format *format = &gs_export_formats[row];
    bool renamed;
    enum gs_status named = name_file(format, path, &renamed);
    if (named == GS_OK && current != GS_OUTPUTS_END && !is_plain(path)) {
        return;
    }
    if (named == GS_OK &&
        (current == GS_OUTPUTS_OUT_OF_MEMORY || current == GS_OUTPUTS_REQUESTED)) {
        named = insert_mark(path, format->extension);
    }
    if (named != GS_OK) {
        log_failed(format, in_use->pattern, "name too long");
    } else if (!export) {
        log_failed(format, path, gs_status_text(GS_ERR_HOST_NOMEM));
    } else if (!may_replace(path) && !choose_other_name(format, path)) {
        log_failed(format, path, gs_output_error_text(ENOTUNIQ));
    } else {
        const char *problem = write_file(export, row, path, 0);
        if (problem) {
            log_failed(format, path, problem);
        } else if (is_plain(path)) { /* not a pipe or device */
            add_name(names, path);
        }
    }
}

static void write_all(void *self, const struct gs_export *export, struct gs_text *names)
{
    for (unsigned row = 0; row < GS_EXPORT_FORMATS; row++) {
        if (!in_use->chosen[row]) {
            continue;
        }
        if (is_file(&gs_export_formats[row])) {
            write_format(export, row, names);
        } else {
            send_format(export, row);
        }
    }
    /* While the program runs they follow the report (gs_finish_interim). */
    if (in_use->metrics[0] && current == GS_OUTPUTS_END) {
        write_metrics(self, export, names);
    }
    if (names->data) {
        gs_make_printable(names->data, false); /* part of a line of the report */
    }
}

bool gs_outputs_begin(const struct gs_options *options,
                      const struct gs_statistics *statistics,
                      const struct gs_report_device *devices, size_t device_count,
                      enum gs_outputs_when when, struct gs_output_contents *out)
{
    const struct settings *now = latest();
    if (now->count == 0 && !now->metrics[0]) {
        return false;
    }
    in_use = now;
    gs_output_contents_make(options, statistics, devices, device_count, out);
    requested += when == GS_OUTPUTS_REQUESTED;
    current = when;
    out->job.write = write_all;
    out->job.samples = needs_tally(now);
    out->job.stacks = false;
    for (size_t i = 0; i < GS_EXPORT_FORMATS; i++) {
        out->job.stacks |= now->chosen[i] && gs_export_formats[i].stacks;
    }
    return true;
}

bool gs_outputs_begin_metrics(const struct gs_options *options,
                              const struct gs_statistics *statistics,
                              const struct gs_report_device *devices, size_t device_count,
                              struct gs_output_contents *out)
{
    const struct settings *now = latest();
    if (!now->metrics[0]) {
        return false;
    }
    in_use = now;
    gs_output_contents_make(options, statistics, devices, device_count, out);
    out->job.write = write_metrics;
    out->job.stacks = false;
    return true;
}
