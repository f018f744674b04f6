/*
 * report_file.c - reads a report, see report_file.h. Version 1 of the JSON
 * (docs/schema/report-1.json) only gains members: unknown ones are skipped, missing ones
 * stay empty.
 *
 * Owns: nothing.   Lock: none; one thread.   Design: docs/outputs.md
 */
#include "shim/tools/reader/report_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gs_grow.h"
#include "shim/settings/read_file.h"
#include "shim/tools/reader/json_read.h"
#include "tracker/names/frame_kinds.h"
#include "tracker/report/report.h"
#include "tracker/report/text/text.h"

/* ---- the text ---------------------------------------------------------------------- */

#define SPACE " \t\r\n"

static const char neither[] = "neither a report in JSON nor a state file";
static const char no_report[] = "JSON, but not a gpushim report";
static const char json_cut[] = "its JSON is truncated";
const char gs_report_file_is_text[] = "a report as text, not JSON or a state file";

bool gs_report_file_is_cut(const char *problem)
{
    return problem == gs_state_cut_short || problem == json_cut;
}

/* A line of a report, "==4711== ", or a message, "gpushim: ". */
static bool is_text(const char *head)
{
    size_t digits = strncmp(head, "==", 2) == 0 ? strspn(head + 2, "0123456789") : 0;
    return strncmp(head, "gpushim: ", 9) == 0 ||
           (digits > 0 && strncmp(head + 2 + digits, "== ", 3) == 0);
}

static bool write_stream(void *stream, const void *data, size_t length)
{
    return fwrite(data, 1, length, stream) == length;
}

static char *make_json(const char *path, bool lines, size_t *length, const char **problem)
{
    char *text = NULL;
    FILE *stream = open_memstream(&text, length);
    const struct gs_export_sink sink = {write_stream, stream};
    *problem = gs_status_text(GS_ERR_HOST_NOMEM);
    bool made = stream && gs_state_json(path, lines, &sink, problem);
    if (stream && fclose(stream) == 0 && made) {
        return text;
    }
    free(text);
    return NULL;
}

/* Returns the text after a string's closing quote, or at the NUL if there is none. */
static const char *skip_string(const char *at)
{
    for (at++; *at && *at != '"'; at++) {
        at += *at == '\\' && at[1];
    }
    return at + (*at == '"');
}

bool gs_is_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

/* Returns whether a member of this name and value begins at `at`, both as in the text. */
static bool is_member(const char *at, const char *name, const char *value)
{
    if (strncmp(at, name, strlen(name)) != 0) {
        return false;
    }
    at += strlen(name);
    at += strspn(at, SPACE);
    at += *at == ':' ? 1 + strspn(at + 1, SPACE) : 0;
    return strncmp(at, value, strlen(value)) == 0 &&
           strchr(SPACE ",}", at[strlen(value)]);
}

/* Why a text, which a NUL follows, is no whole JSON report, as the end of a sentence;
 * NULL: it is one. What is wrong within, its readers find. */
static const char *problem_of(const char *text, size_t length)
{
    bool is_report = false, is_version = false;
    const char *at = text + strspn(text, SPACE);
    size_t depth = 0;
    if (*at != '{') {
        return neither;
    }
    do {
        if (depth == 1) {
            is_report |= is_member(at, "\"schema\"", "\"gpushim-report\"");
            is_version |= is_member(at, "\"version\"", "1");
        }
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        at = *at == '"' ? skip_string(at) : at + 1;
    } while (depth > 0 && *at);
    at += strspn(at, SPACE);
    if (at != text + length) {
        return "not JSON";
    }
    if (depth > 0) {
        return json_cut;
    }
    if (!is_report) {
        return no_report;
    }
    return is_version ? NULL : "a report of a version that this gpushim cannot read";
}

/* Of a larger file, the beginning must name the report: gpushim writes it first. */
#define ANYWHERE_BYTES (64u << 20)

/* gs_read_file_judge. Reads no state file; self: whether it is one. */
static const char *judge(void *self, const char *head, size_t length, uint64_t file_bytes)
{
    bool *is_state = self;
    const char *at = head + strspn(head, SPACE);
    if (length >= strlen(GS_STATE_MAGIC) &&
        memcmp(head, GS_STATE_MAGIC, strlen(GS_STATE_MAGIC)) == 0) {
        *is_state = true;
        return "a state file";
    }
    if (*at != '{') {
        return is_text(at) ? gs_report_file_is_text : neither;
    }
    return file_bytes > ANYWHERE_BYTES && !strstr(at, "\"gpushim-report\"") ? no_report
                                                                            : NULL;
}

char *gs_report_file_json(const char *path, bool lines, size_t *length,
                          const char **problem)
{
    bool is_state = false;
    char *text = gs_read_file_judged(path, judge, &is_state, length, problem);
    if (is_state) {
        text = make_json(path, lines, length, problem);
    }
    if (!text) {
        return NULL;
    }
    text[*length] = '\0';
    *problem = problem_of(text, *length);
    if (*problem) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- its members ------------------------------------------------------------------- */

/* Returns the zeroed next item of an array, NULL without memory, which `problem` tells.
 */
static void *next_item(struct gs_json_read *json, void *array, size_t *count,
                       size_t *room, size_t size)
{
    void **items = array;
    if (!gs_grow(array, *count, room, size)) {
        json->problem = gs_status_text(GS_ERR_HOST_NOMEM);
        json->at += strlen(json->at);
        return NULL;
    }
    void *item = (char *)*items + (*count)++ * size;
    memset(item, 0, size);
    return item;
}

#define NEXT_ITEM(json, file, name)                                                      \
    ((__typeof__((file)->name##s))next_item(json, &(file)->name##s,                      \
                                            &(file)->name##_count, &(file)->name##_room, \
                                            sizeof(*(file)->name##s)))

#define FIELD(owner, member, kind)                                                       \
    {                                                                                    \
#member, offsetof(struct owner, member), GS_JSON_##kind, NULL                    \
    }
#define CALL(name, function)                                                             \
    {                                                                                    \
        name, 0, GS_JSON_CALL, function                                                  \
    }
#define FIELDS(json, fields, self)                                                       \
    gs_json_read_fields(json, fields, GS_ARRAY_LEN(fields), self)

static void read_process(struct gs_json_read *json, void *self)
{
    static const struct gs_json_field fields[] = {
        FIELD(gs_report_file, pid, NUMBER),
        FIELD(gs_report_file, rank, NUMBER),
        FIELD(gs_report_file, command, TEXT),
        FIELD(gs_report_file, program, TEXT),
        {"host", offsetof(struct gs_report_file, hostname), GS_JSON_TEXT, NULL},
        FIELD(gs_report_file, ending, TEXT),
        FIELD(gs_report_file, running, BOOL),
        FIELD(gs_report_file, no_start, TEXT),
        FIELD(gs_report_file, killed, BOOL)};
    FIELDS(json, fields, self);
}

static void read_time(struct gs_json_read *json, void *self)
{
    static const struct gs_json_field fields[] = {
        FIELD(gs_report_file, start_unix_ms, NUMBER),
        FIELD(gs_report_file, end_unix_ms, NUMBER),
        FIELD(gs_report_file, killed_unix_ms, NUMBER)};
    FIELDS(json, fields, self);
}

static void read_summary(struct gs_json_read *json, void *self)
{
    static const struct gs_json_field fields[] = {
        FIELD(gs_report_file, errors, NUMBER), FIELD(gs_report_file, allocs, NUMBER),
        FIELD(gs_report_file, leaked_bytes, NUMBER),
        FIELD(gs_report_file, leaked_count, NUMBER),
        FIELD(gs_report_file, peak_bytes, NUMBER)};
    FIELDS(json, fields, self);
}

static void read_totals(struct gs_json_read *json, void *self)
{
    static const struct gs_json_field fields[] = {
        FIELD(gs_file_device, live_bytes, NUMBER),
        FIELD(gs_file_device, peak_bytes, NUMBER)};
    FIELDS(json, fields, self);
}

static void read_devices(struct gs_json_read *json, void *self)
{
    static const struct gs_json_field fields[] = {
        {"device", offsetof(struct gs_file_device, ordinal), GS_JSON_NUMBER, NULL},
        {"pci_bus_id", offsetof(struct gs_file_device, bus), GS_JSON_TEXT, NULL},
        FIELD(gs_file_device, name, TEXT),
        CALL("totals", read_totals)};
    struct gs_report_file *file = self;
    struct gs_file_device *device;
    if (gs_json_read_open(json, '[')) {
        while (gs_json_read_more(json) && (device = NEXT_ITEM(json, file, device))) {
            FIELDS(json, fields, device);
        }
    }
}

static void read_scopes(struct gs_json_read *json, void *self)
{
    static const struct gs_json_field fields[] = {
#define GS_FILE_SCOPE(name) FIELD(gs_file_scope, name, NUMBER),
#include "shim/tools/reader/file_scopes.def"
        FIELD(gs_file_scope, path, TEXT)};
    struct gs_report_file *file = self;
    struct gs_file_scope *scope;
    if (gs_json_read_open(json, '[')) {
        while (gs_json_read_more(json) && (scope = NEXT_ITEM(json, file, scope))) {
            FIELDS(json, fields, scope);
        }
    }
}

/* A place while it is read. */
struct reading {
    struct gs_file_place place;
    struct gs_report_file *file;
};

static void read_stack(struct gs_json_read *json, void *self)
{
    struct reading *reading = self;
    struct gs_report_file *file = reading->file;
    uint64_t *frame;
    reading->place.first = file->stack_count;
    if (gs_json_read_open(json, '[')) {
        while (gs_json_read_more(json) && (frame = NEXT_ITEM(json, file, stack))) {
            *frame = UINT64_MAX;
            (void)gs_json_read_number(json, frame);
        }
    }
    reading->place.depth = file->stack_count - reading->place.first;
}

/* Reads the members of a place. */
static void read_place(struct gs_json_read *json, struct reading *reading)
{
    static const struct gs_json_field fields[] = {
        FIELD(gs_file_place, bytes, NUMBER),
        FIELD(gs_file_place, count, NUMBER),
        FIELD(gs_file_place, call, TEXT),
        FIELD(gs_file_place, kind, TEXT),
        FIELD(gs_file_place, device, NUMBER),
        FIELD(gs_file_place, no_stack, TEXT),
        {"truncated", offsetof(struct gs_file_place, cut), GS_JSON_BOOL, NULL},
        FIELD(gs_file_place, inner, TEXT),
        CALL("stack", read_stack)};
    static_assert(offsetof(struct reading, place) == 0, "fields are of the place");
    FIELDS(json, fields, reading);
}

static void read_suppressed(struct gs_json_read *json, void *self)
{
    struct gs_report_file *file = self;
    struct gs_file_place *place;
    if (file->of != GS_REPORT_OF_LEAKS) {
        gs_json_read_skip(json);
        return;
    }
    if (!gs_json_read_open(json, '[')) {
        return;
    }
    while (gs_json_read_more(json)) {
        struct reading reading = {.place = {.device = UINT64_MAX}, .file = file};
        read_place(json, &reading);
        if (!(place = NEXT_ITEM(json, file, suppressed_place))) {
            return;
        }
        *place = reading.place;
    }
}

static void read_places(struct gs_json_read *json, void *self)
{
    struct gs_report_file *file = self;
    struct gs_file_place *place;
    if (!gs_json_read_open(json, '[')) {
        return;
    }
    while (gs_json_read_more(json)) {
        struct reading reading = {.place = {.device = UINT64_MAX}, .file = file};
        read_place(json, &reading);
        if (!(place = NEXT_ITEM(json, file, place))) {
            return;
        }
        *place = reading.place;
    }
}

static void read_leaks(struct gs_json_read *json, void *self)
{
    struct gs_report_file *file = self;
    if (file->of == GS_REPORT_OF_LEAKS) {
        read_places(json, self);
    } else {
        gs_json_read_skip(json);
    }
}

static void read_peaks(struct gs_json_read *json, void *self)
{
    static const struct gs_json_field fields[] = {CALL("places", read_places)};
    struct gs_report_file *file = self;
    if (file->of != GS_REPORT_OF_PEAK) {
        gs_json_read_skip(json);
    } else if (gs_json_read_open(json, '[')) {
        while (gs_json_read_more(json)) {
            file->has_peaks = true;
            FIELDS(json, fields, file);
        }
    }
}

static void read_rest(struct gs_json_read *json, void *self)
{
    static const struct gs_json_field fields[] = {
        {"bytes", offsetof(struct gs_report_file, rest_bytes), GS_JSON_NUMBER, NULL},
        {"count", offsetof(struct gs_report_file, rest_count), GS_JSON_NUMBER, NULL}};
    FIELDS(json, fields, self);
}

static void read_frames(struct gs_json_read *json, void *self)
{
    static const struct gs_json_field fields[] = {
        FIELD(gs_file_frame, address, HEX),   FIELD(gs_file_frame, module, NUMBER),
        FIELD(gs_file_frame, offset, HEX),    FIELD(gs_file_frame, line, NUMBER),
        FIELD(gs_file_frame, function, TEXT), FIELD(gs_file_frame, linkage, TEXT),
        FIELD(gs_file_frame, file, TEXT),     FIELD(gs_file_frame, inlined, BOOL),
        FIELD(gs_file_frame, family, TEXT)};
    struct gs_report_file *file = self;
    struct gs_file_frame *frame;
    if (gs_json_read_open(json, '[')) {
        while (gs_json_read_more(json) && (frame = NEXT_ITEM(json, file, frame))) {
            frame->address = GS_PYTHON_FRAME_BASE; /* null: a frame of Python's */
            frame->module = UINT64_MAX;
            FIELDS(json, fields, frame);
        }
    }
}

static void read_modules(struct gs_json_read *json, void *self)
{
    static const struct gs_json_field fields[] = {FIELD(gs_file_module, path, TEXT),
                                                  FIELD(gs_file_module, build_id, TEXT)};
    struct gs_report_file *file = self;
    struct gs_file_module *module;
    if (gs_json_read_open(json, '[')) {
        while (gs_json_read_more(json) && (module = NEXT_ITEM(json, file, module))) {
            FIELDS(json, fields, module);
        }
    }
}

/* ---- the whole file ---------------------------------------------------------------- */

static void set_missing(const char **text)
{
    if (!*text) {
        *text = "";
    }
}

/* Reads a whole report, which `out` has from then on. */
static bool read_members(char *text, enum gs_report_of of, struct gs_report_file *out,
                         const char **problem)
{
    static const struct gs_json_field members[] = {
        CALL("process", read_process), CALL("summary", read_summary),
        CALL("devices", read_devices), CALL("frames", read_frames),
        CALL("modules", read_modules), CALL("leaks", read_leaks),
        CALL("unplaced", read_leaks),  CALL("not_grouped", read_rest),
        CALL("peaks", read_peaks),     CALL("time", read_time),
        CALL("scopes", read_scopes),   CALL("suppressed", read_suppressed)};
    *out = (struct gs_report_file){.of = of, .rank = UINT64_MAX, .text = text};
    struct gs_json_read json = {.at = out->text};
    FIELDS(&json, members, out);
    if (of == GS_REPORT_OF_PEAK && !out->has_peaks && out->peak_bytes > 0) {
        json.problem = "it does not say who had the memory at the peaks";
    }
    if (json.problem) {
        *problem = json.problem;
        gs_report_file_free(out);
        return false;
    }
    set_missing(&out->command);
    set_missing(&out->program);
    set_missing(&out->hostname);
    set_missing(&out->ending);
    out->is_copy = out->running && strncmp(out->ending, "as of ", 6) == 0;
    out->killed |= strcmp(out->ending, "ended without a report") == 0; /* older files */
    return true;
}

bool gs_report_file_read(const char *path, enum gs_report_of of, bool lines,
                         struct gs_report_file *out, const char **problem)
{
    size_t length;
    char *text = gs_report_file_json(path, lines, &length, problem);
    *out = (struct gs_report_file){.text = NULL};
    return text && read_members(text, of, out, problem);
}

bool gs_report_file_take(char *json, size_t length, enum gs_report_of of,
                         struct gs_report_file *out, const char **problem)
{
    *out = (struct gs_report_file){.text = NULL};
    *problem = problem_of(json, length);
    if (*problem) {
        free(json);
        return false;
    }
    return read_members(json, of, out, problem);
}

void gs_report_file_free(struct gs_report_file *file)
{
    free(file->text);
    free(file->devices);
    free(file->scopes);
    free(file->places);
    free(file->suppressed_places);
    free(file->stacks);
    free(file->frames);
    free(file->modules);
    *file = (struct gs_report_file){.text = NULL};
}

const struct gs_file_frame *gs_report_file_frame(const struct gs_report_file *file,
                                                 const struct gs_file_place *place,
                                                 size_t i)
{
    uint64_t number = file->stacks[place->first + i];
    return number < file->frame_count ? &file->frames[number] : NULL;
}

const struct gs_file_module *gs_report_file_module(const struct gs_report_file *file,
                                                   const struct gs_file_frame *frame)
{
    return frame->module < file->module_count ? &file->modules[frame->module] : NULL;
}

/* More frames than any stack of a report: what else a file claims is left out. */
#define FRAMES_MOST 4096

/* The frames of a place's stack as those of a report, until the next call. Returns how
 * many. */
static unsigned take_stack(const struct gs_report_file *file,
                           const struct gs_file_place *place,
                           const struct gs_symbol_request **out)
{
    static struct gs_symbol_request requests[FRAMES_MOST]; /* one thread */
    unsigned count = 0;
    for (size_t i = 0; i < place->depth && count < FRAMES_MOST; i++) {
        const struct gs_file_frame *frame = gs_report_file_frame(file, place, i);
        const struct gs_file_module *module =
            frame ? gs_report_file_module(file, frame) : NULL;
        if (!frame) {
            continue;
        }
        requests[count++] =
            (struct gs_symbol_request){.frame = frame->address,
                                       .inlined = frame->inlined,
                                       .class = gs_frame_class_of_family(frame->family),
                                       .result = {.function = frame->function,
                                                  .linkage = frame->linkage,
                                                  .file = frame->file,
                                                  .line = (unsigned)frame->line,
                                                  .module = module ? module->path : NULL,
                                                  .offset = frame->offset}};
    }
    *out = requests;
    return count;
}

void gs_report_file_stack(const struct gs_report_file *file,
                          const struct gs_file_place *place, struct gs_shown_paths *paths,
                          struct gs_text *text)
{
    const struct gs_symbol_request *requests;
    unsigned count = take_stack(file, place, &requests);
    if (count == 0) {
        gs_text_add(text, "    no call stack%s%s\n", place->no_stack ? ": " : "",
                    place->no_stack ? place->no_stack : "");
        return;
    }
    gs_report_write_stack(requests, count, place->inner, place->cut, paths, text);
}

void gs_report_file_paths(const struct gs_report_file *file,
                          const struct gs_file_place *place, struct gs_shown_paths *paths)
{
    const struct gs_symbol_request *requests;
    unsigned count = take_stack(file, place, &requests);
    gs_report_add_paths(requests, count, paths);
}

const char *gs_report_file_who(const struct gs_report_file *file, char out[32])
{
    bool ranked = file->rank != UINT64_MAX;
    snprintf(out, 32, "%s %llu", ranked ? "rank" : "process",
             (unsigned long long)(ranked ? file->rank : file->pid));
    return out;
}
