/*
 * export_pprof.c - a profile for pprof: github.com/google/pprof, proto/profile.proto.
 *
 * One sample for each call site and stream: the memory allocated in all, and in use; one
 * for each call site that had memory at its device's peak. A sample's stack is the
 * printed one, so a profile and a report name the same call sites. Not compressed:
 * readers accept both forms, and compression needs a library.
 *
 * Owns: the message while it is built.   Lock: none.   Design: docs/outputs.md
 */
#include "tracker/report/export_internal.h"
#include "tracker/report/files/export_proto.h"

#include <stdio.h>
#include <stdlib.h>

/* Field numbers of profile.proto. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING_TABLE = 6,
    PROFILE_TIME_NANOS = 9,
    PROFILE_DURATION_NANOS = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_SAMPLE_TYPE = 14,

    VALUE_TYPE_TYPE = 1,
    VALUE_TYPE_UNIT = 2,

    SAMPLE_LOCATION_ID = 1,
    SAMPLE_VALUE = 2,
    SAMPLE_LABEL = 3,

    LABEL_KEY = 1,
    LABEL_STR = 2,

    MAPPING_ID = 1,
    MAPPING_MEMORY_START = 2,
    MAPPING_MEMORY_LIMIT = 3,
    MAPPING_FILENAME = 5,
    MAPPING_BUILD_ID = 6,
    MAPPING_HAS_FUNCTIONS = 7,
    MAPPING_HAS_FILENAMES = 8,
    MAPPING_HAS_LINE_NUMBERS = 9,

    LOCATION_ID = 1,
    LOCATION_MAPPING_ID = 2,
    LOCATION_ADDRESS = 3,
    LOCATION_LINE = 4,

    LINE_FUNCTION_ID = 1,
    LINE_LINE = 2,

    FUNCTION_ID = 1,
    FUNCTION_NAME = 2,
    FUNCTION_SYSTEM_NAME = 3,
    FUNCTION_FILENAME = 4,
};

/* Locations without code, for stacks that are missing or truncated. Their ids follow
 * those of the snapshot's locations. */
enum {
    PSEUDO_NO_STACK,
    PSEUDO_MORE_FRAMES,
    PSEUDO_TOO_SMALL,
    PSEUDO_CACHED,
    PSEUDO_COUNT
};

struct profile {
    const struct gs_export *export;
    struct gs_export_out out;
    struct gs_proto_strings strings;
    struct gs_proto_strings functions;      /* "name\nfile": its number + 1 is the id */
    struct gs_proto message, inner, packed; /* for one message at a time */
    const char *cached_by; /* the framework of PSEUDO_CACHED; NULL: none */
    bool failed;
};

/* Writes the message as a field of the profile, and clears it. */
static void put_message(struct profile *profile, unsigned field)
{
    struct gs_proto *head = &profile->packed;

    gs_proto_clear(head);
    gs_proto_varint(head, (uint64_t)field << 3 | 2);
    gs_proto_varint(head, profile->message.length);
    profile->failed = profile->failed || profile->message.failed || head->failed;
    gs_out_bytes(&profile->out, head->data, head->length);
    gs_out_bytes(&profile->out, profile->message.data, profile->message.length);
    gs_proto_clear(&profile->message);
}

static uint64_t add_string(struct profile *profile, const char *text)
{
    return gs_proto_string(&profile->strings, text);
}

static void put_value_type(struct profile *profile, unsigned field, const char *type,
                           const char *unit)
{
    gs_proto_number(&profile->message, VALUE_TYPE_TYPE, add_string(profile, type));
    gs_proto_number(&profile->message, VALUE_TYPE_UNIT, add_string(profile, unit));
    put_message(profile, field);
}

/* Writes a number as a field of the profile. */
static void put_number(struct profile *profile, unsigned field, uint64_t value)
{
    struct gs_proto *head = &profile->packed;

    gs_proto_clear(head);
    gs_proto_number(head, field, value);
    profile->failed = profile->failed || head->failed;
    gs_out_bytes(&profile->out, head->data, head->length);
}

/* ---- samples ---------------------------------------------------------------------- */

static void put_label(struct profile *profile, const char *key, const char *value)
{
    gs_proto_clear(&profile->inner);
    gs_proto_number(&profile->inner, LABEL_KEY, add_string(profile, key));
    gs_proto_number(&profile->inner, LABEL_STR, add_string(profile, value));
    gs_proto_message(&profile->message, SAMPLE_LABEL, &profile->inner);
}

static void put_labels(struct profile *profile, const struct gs_export_stack *stack,
                       int device, uint16_t api, unsigned kind)
{
    char text[32];

    if (!gs_export_on_host(kind, device)) {
        snprintf(text, sizeof(text), "%d", device);
        put_label(profile, "device", text);
    }
    put_label(profile, "api", gs_export_call(profile->export, stack, api));
    put_label(profile, "kind", gs_export_kind(kind));
}

static void put_stream(struct profile *profile, const struct gs_sample *sample)
{
    char text[32];

    if (sample->stream != 0) {
        snprintf(text, sizeof(text), "0x%llx", (unsigned long long)sample->stream);
        put_label(profile, "stream", text);
    } else if (sample->kind == GS_MEMORY_ASYNC) {
        put_label(profile, "stream", "default");
    }
}

/* Returns its stack, which may be NULL. The caller adds values and labels. In: `missing`
 * is the pseudo location of a stack that is not known. */
static const struct gs_export_stack *put_places(struct profile *profile, uint32_t id,
                                                unsigned missing)
{
    const struct gs_export *export = profile->export;
    const struct gs_export_stack *stack = gs_export_stack(export, id);
    uint64_t pseudo = export->location_count + 1;
    struct gs_proto *packed = &profile->packed;

    gs_proto_clear(packed);
    if (!stack || stack->begin == stack->end) {
        gs_proto_varint(packed,
                        pseudo + (id == GS_STACK_TOO_SMALL ? PSEUDO_TOO_SMALL : missing));
    }
    for (uint32_t i = stack ? stack->begin : 0; stack && i < stack->end; i++) {
        uint32_t frame = export->frames[stack->first + i];
        /* The location of the function that contains it has a line for it. */
        if (export->locations[frame].inlined && i + 1 < stack->end) {
            continue;
        }
        while (export->locations[frame].inlined) {
            frame++;
        }
        gs_proto_varint(packed, (uint64_t)frame + 1);
    }
    if (stack && stack->cut) {
        gs_proto_varint(packed, pseudo + PSEUDO_MORE_FRAMES);
    }
    gs_proto_message(&profile->message, SAMPLE_LOCATION_ID, packed);
    return stack;
}

/* The values of a sample, in the order of put_head. */
#define VALUES 6

static void put_values(struct profile *profile, const double values[VALUES])
{
    gs_proto_clear(&profile->packed);
    for (unsigned i = 0; i < VALUES; i++) {
        gs_proto_varint(&profile->packed, gs_likely(values[i]));
    }
    gs_proto_message(&profile->message, SAMPLE_VALUE, &profile->packed);
}

static void put_sample(struct profile *profile, const struct gs_sample *sample)
{
    const double values[VALUES] = {
        sample->likely_allocs, sample->likely_alloc_bytes, 0, 0,
        sample->likely_live,   sample->likely_live_bytes};

    /* pprof does not scale values: samples with a stack represent those without. */
    if (sample->stack == GS_STACK_NOT_SAMPLED) {
        return;
    }
    const struct gs_export_stack *stack =
        put_places(profile, sample->stack, PSEUDO_NO_STACK);
    put_values(profile, values);
    put_labels(profile, stack, sample->device, sample->api, sample->kind);
    put_stream(profile, sample);
    put_message(profile, PROFILE_SAMPLE);
}

/* What a call site had at the peak, of all streams. */
static void put_peak_site(struct profile *profile, const struct gs_group *held)
{
    const double values[VALUES] = {0, 0, held->likely_count, held->likely_bytes, 0, 0};

    if (held->stack == GS_STACK_NOT_SAMPLED) {
        return;
    }
    const char *cached_by = gs_report_cached_by(held);
    profile->cached_by = cached_by ? cached_by : profile->cached_by;
    const struct gs_export_stack *stack =
        put_places(profile, held->stack, cached_by ? PSEUDO_CACHED : PSEUDO_NO_STACK);
    put_values(profile, values);
    put_labels(profile, stack, held->device, held->api, held->kind);
    put_message(profile, PROFILE_SAMPLE);
}

static void put_peaks(struct profile *profile)
{
    for (unsigned row = 0; row < GS_PEAK_ROWS; row++) {
        const struct gs_peak *peak = &profile->export->data->peaks[row];

        for (size_t i = 0; peak->known && i < peak->count; i++) {
            put_peak_site(profile, &peak->places[i].held);
        }
    }
}

/* ---- code ------------------------------------------------------------------------- */

/* The known parts of a module's frames: pprof does not look them up again. */
struct known {
    bool functions, files, lines;
};

static void note_known(const struct gs_export *export, struct known *known)
{
    for (size_t i = 0; i < export->location_count; i++) {
        const struct gs_symbol *symbol = &export->locations[i].result;
        if (export->location_modules[i] == GS_EXPORT_NONE) {
            continue;
        }
        struct known *of = &known[export->location_modules[i]];
        of->functions = of->functions || symbol->function;
        of->files = of->files || symbol->file;
        of->lines = of->lines || symbol->line != 0;
    }
}

static void put_mapping(struct profile *profile, size_t number,
                        const struct gs_module *module, const struct known *known)
{
    struct gs_proto *message = &profile->message;
    char id[GS_BUILD_ID_TEXT];

    gs_proto_number(message, MAPPING_ID, number + 1);
    gs_proto_number(message, MAPPING_MEMORY_START, module->begin);
    gs_proto_number(message, MAPPING_MEMORY_LIMIT, module->end);
    gs_proto_number(message, MAPPING_FILENAME, add_string(profile, module->path));
    gs_proto_number(message, MAPPING_BUILD_ID,
                    add_string(profile, gs_export_build_id(module, id)));
    gs_proto_number(message, MAPPING_HAS_FUNCTIONS, known->functions);
    gs_proto_number(message, MAPPING_HAS_FILENAMES, known->files);
    gs_proto_number(message, MAPPING_HAS_LINE_NUMBERS, known->lines);
    put_message(profile, PROFILE_MAPPING);
}

/* Writes the program's mapping if no frame is in the program: readers take the first
 * mapping for the program, and frames of Python are in none. */
static void put_program(struct profile *profile)
{
    const struct gs_export *export = profile->export;
    const struct known known = {true, true, true}; /* nothing to look up */
    const char *program = export->job->program;

    if (!program ||
        (export->module_count != 0 && strcmp(export->modules[0].path, program) == 0)) {
        return;
    }
    put_mapping(profile, export->module_count, &(struct gs_module){.path = program},
                &known);
}

static void put_mappings(struct profile *profile)
{
    size_t count = profile->export->module_count;
    struct known *known = calloc(count ? count : 1, sizeof(*known));

    if (!known) {
        profile->failed = true;
        return;
    }
    note_known(profile->export, known);
    put_program(profile);
    for (size_t i = 0; i < count; i++) {
        put_mapping(profile, i, &profile->export->modules[i], &known[i]);
    }
    free(known);
}

/* The id of a function, 0: without a name; writes the function at its first use. */
static uint64_t function_id(struct profile *profile, const struct gs_symbol *symbol)
{
    const char *file = symbol->file ? symbol->file : "";
    size_t before = HASH_COUNT(profile->functions.items),
           length = symbol->function ? strlen(symbol->function) : 0;
    char *key = symbol->function ? malloc(length + strlen(file) + 2) : NULL;

    if (!symbol->function) {
        return 0;
    }

    if (!key) {
        profile->failed = true;
        return 0;
    }
    memcpy(key, symbol->function, length);
    key[length] = '\n';
    strcpy(key + length + 1, file);
    uint64_t id = gs_proto_string(&profile->functions, key) + 1;
    free(key);
    if (HASH_COUNT(profile->functions.items) == before) {
        return id;
    }
    gs_proto_number(&profile->message, FUNCTION_ID, id);
    gs_proto_number(&profile->message, FUNCTION_NAME,
                    add_string(profile, symbol->function));
    if (symbol->linkage && strcmp(symbol->linkage, symbol->function) != 0) {
        /* Without one, pprof takes the name as it is. It would demangle an equal one, to
         * which Python's <module> is a list of arguments. */
        gs_proto_number(&profile->message, FUNCTION_SYSTEM_NAME,
                        add_string(profile, symbol->linkage));
    }
    gs_proto_number(&profile->message, FUNCTION_FILENAME, add_string(profile, file));
    put_message(profile, PROFILE_FUNCTION);
    return id;
}

static void put_line(struct profile *profile, const struct gs_symbol *symbol)
{
    uint64_t function = function_id(profile, symbol);

    if (function == 0) {
        return;
    }
    gs_proto_clear(&profile->inner);
    gs_proto_number(&profile->inner, LINE_FUNCTION_ID, function);
    gs_proto_number(&profile->inner, LINE_LINE, symbol->line);
    gs_proto_message(&profile->message, LOCATION_LINE, &profile->inner);
}

static void put_location(struct profile *profile, uint64_t id, uint64_t mapping,
                         uint64_t address, const struct gs_symbol *symbol)
{
    /* New functions are messages of their own, in front of the location's. */
    for (unsigned i = 0; i < symbol->inlined_count; i++) {
        (void)function_id(profile, &symbol->inlined[i]);
    }
    (void)function_id(profile, symbol);
    gs_proto_number(&profile->message, LOCATION_ID, id);
    gs_proto_number(&profile->message, LOCATION_MAPPING_ID, mapping);
    gs_proto_number(&profile->message, LOCATION_ADDRESS, address);
    for (unsigned i = 0; i < symbol->inlined_count; i++) { /* the innermost first */
        put_line(profile, &symbol->inlined[i]);
    }
    put_line(profile, symbol);
    put_message(profile, PROFILE_LOCATION);
}

static void put_locations(struct profile *profile)
{
    const struct gs_export *export = profile->export;
    char cached[64] = "[cached]";
    if (profile->cached_by) {
        (void)snprintf(cached, sizeof(cached), "[cached by %s]", profile->cached_by);
    }
    const char *const pseudo_names[PSEUDO_COUNT] = {
        [PSEUDO_NO_STACK] = gs_report_no_stack(0).frame,
        [PSEUDO_MORE_FRAMES] = "[more frames]",
        [PSEUDO_TOO_SMALL] = gs_report_no_stack(GS_STACK_TOO_SMALL).frame,
        [PSEUDO_CACHED] = cached};
    uint64_t id = 0;

    while (id < export->location_count) {
        const struct gs_symbol_request *location = &export->locations[id];
        uint32_t module = export->location_modules[id++];
        uint64_t mapping = module == GS_EXPORT_NONE ? 0 : (uint64_t)module + 1;
        if (location->inlined) {
            continue;
        }
        /* The address of the call, not of its return. */
        put_location(profile, id, mapping, location->frame - 1, &location->result);
    }
    for (unsigned i = 0; i < PSEUDO_COUNT; i++) {
        struct gs_symbol symbol = {.function = pseudo_names[i]};
        put_location(profile, ++id, 0, 0, &symbol);
    }
}

/* ---- the whole profile ------------------------------------------------------------ */

/* Writes the recorded windows as a comment: the format has no field for them. */
static void put_windows(struct profile *profile)
{
    struct gs_text text = {0};

    gs_report_windows_text(profile->export->tracker, &text);
    if (text.data) {
        put_number(profile, PROFILE_COMMENT, add_string(profile, text.data));
    }
    gs_text_free(&text);
}

/* Says so where only live allocations were counted. */
static void put_untallied(struct profile *profile)
{
    if (!profile->export->tracker->tally) {
        put_number(profile, PROFILE_COMMENT,
                   add_string(profile, "alloc_ values count live allocations alone: "
                                       "GPUSHIM_OUTPUT=pprof was not set"));
    }
}

static void put_head(struct profile *profile)
{
    const struct gs_export *export = profile->export;
    uint64_t now_ns = export->source->now_ns, end_ns = export->job->end_unix_ms * 1000000;
    uint64_t distance = gs_tracker_sampling(export->tracker).distance_bytes;

    (void)add_string(profile, "");
    put_value_type(profile, PROFILE_SAMPLE_TYPE, "alloc_objects", "count");
    put_value_type(profile, PROFILE_SAMPLE_TYPE, "alloc_space", "bytes");
    put_value_type(profile, PROFILE_SAMPLE_TYPE, "peak_objects", "count");
    put_value_type(profile, PROFILE_SAMPLE_TYPE, "peak_space", "bytes");
    put_value_type(profile, PROFILE_SAMPLE_TYPE, "inuse_objects", "count");
    put_value_type(profile, PROFILE_SAMPLE_TYPE, "inuse_space", "bytes");
    put_value_type(profile, PROFILE_PERIOD_TYPE, "space", "bytes");
    put_number(profile, PROFILE_PERIOD, distance ? distance : 1); /* 1: all of them */
    put_number(profile, PROFILE_DEFAULT_SAMPLE_TYPE, add_string(profile, "inuse_space"));
    put_number(profile, PROFILE_TIME_NANOS, end_ns > now_ns ? end_ns - now_ns : 0);
    put_number(profile, PROFILE_DURATION_NANOS, now_ns);
    put_number(profile, PROFILE_COMMENT, add_string(profile, export->config->command));
    put_windows(profile);
    put_untallied(profile);
}

static void put_strings(struct profile *profile)
{
    for (const struct gs_proto_string *item = profile->strings.items; item;
         item = item->hh.next) {
        gs_proto_clear(&profile->packed);
        gs_proto_bytes(&profile->packed, PROFILE_STRING_TABLE, item->text,
                       item->hh.keylen);
        profile->failed = profile->failed || profile->packed.failed;
        gs_out_bytes(&profile->out, profile->packed.data, profile->packed.length);
    }
}

enum gs_status gs_export_write_pprof(const struct gs_export *export,
                                     const struct gs_export_sink *sink)
{
    struct profile profile = {.export = export};
    enum gs_status status;

    gs_out_begin(&profile.out, sink);
    put_head(&profile);
    for (size_t i = 0; i < export->sample_count; i++) {
        put_sample(&profile, &export->samples[i]);
    }
    put_peaks(&profile);
    put_mappings(&profile);
    put_locations(&profile);
    put_strings(&profile); /* last: all strings are known */
    status = gs_out_end(&profile.out);
    if (profile.failed || profile.strings.failed || profile.functions.failed) {
        status = GS_ERR_HOST_NOMEM;
    }
    gs_proto_free(&profile.message);
    gs_proto_free(&profile.inner);
    gs_proto_free(&profile.packed);
    gs_proto_strings_free(&profile.strings);
    gs_proto_strings_free(&profile.functions);
    return status;
}
