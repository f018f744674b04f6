/*
 * report_growth.c - prints a snapshot of live memory: sums and growing call sites.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "Does it grow"
 */
#include "tracker/report/report_internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND_NS UINT64_C(1000000000)
/* Samples at shorter intervals have milliseconds. */
#define SHORT_NS (10 * SECOND_NS)
/* Call sites whose stacks are kept. Others have no lines, so that no child is started for
 * them again and again. */
#define NAMES_MAX 256u
/* Snapshots in which the look-up may fail before stacks are kept without lines. */
#define TRIES 3u

/* ---- names ------------------------------------------------------------------------ */

/* A call site as printed before. */
struct gs_growth_name {
    struct gs_growth_name *next;
    uint32_t stack;
    const char *call; /* as in gs_shown_stack */
    size_t length;
    char text[]; /* the lines of the stack */
};

static const struct gs_growth_name *find_name(const struct gs_growth_names *names,
                                              uint32_t stack)
{
    const struct gs_growth_name *name = names->first;

    while (name && name->stack != stack) {
        name = name->next;
    }
    return name;
}

static void keep_name(struct gs_growth_names *names, const struct gs_shown_stack *stack,
                      const struct gs_text *lines)
{
    struct gs_growth_name *name =
        lines->data && !lines->truncated && names->keep && names->count < NAMES_MAX
            ? malloc(sizeof(*name) + lines->length)
            : NULL;

    if (!name) {
        return;
    }
    *name = (struct gs_growth_name){
        .next = names->first, .stack = stack->id, .call = stack->call};
    name->length = lines->length;
    memcpy(name->text, lines->data, lines->length);
    names->first = name;
    names->count++;
}

static void forget(struct gs_growth_names *names)
{
    while (names->first) {
        struct gs_growth_name *name = names->first;

        names->first = name->next;
        free(name);
    }
    names->count = 0;
}

void gs_growth_names_free(struct gs_growth_names *names)
{
    forget(names);
    gs_shown_paths_free_copies(&names->paths);
    *names = (struct gs_growth_names){0};
}

/* Adds copies of paths. Returns whether one of them may be shown as another was. */
static bool add_paths(struct gs_growth_names *names, const struct gs_shown_paths *more)
{
    bool clash = false;

    for (size_t i = 0; i < more->count && !names->paths.whole; i++) {
        const char *path = more->items[i];
        if (gs_shown_paths_have(&names->paths, path)) {
            continue;
        }
        clash = clash || strchr(gs_shown_path(&names->paths, path), '/');
        gs_shown_paths_add_copy(&names->paths, path);
    }
    return clash;
}

/* Prints the line of the call and the stack, and keeps them for the next time. */
static void write_named(const struct gs_report_writer *writer,
                        const struct gs_group *group, struct gs_growth_names *names)
{
    const struct gs_growth_name *name = find_name(names, group->stack);
    const char *cached_by = gs_report_cached_by(group);
    struct gs_text lines = {0};
    struct gs_report_writer apart = *writer;
    char fate[64];

    snprintf(fate, sizeof(fate), "growing%s%s", cached_by ? ", cached by " : "",
             cached_by ? cached_by : "");
    if (name) {
        gs_report_call_line(writer, group, name->call, fate);
        gs_text_add_bytes(writer->text, name->text, name->length);
        return;
    }
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, group->stack);
    apart.text = &lines;
    gs_report_stack(&apart, &stack);
    gs_report_call_line(writer, group, stack.call, fate);
    gs_text_add_bytes(writer->text, lines.data ? lines.data : "", lines.length);
    stack.id = group->stack;
    keep_name(names, &stack, &lines);
    gs_text_free(&lines);
}

/* ---- a snapshot ------------------------------------------------------------------- */

/* "14:03:11 UTC (5m00s)"; "5m00s" if the date is not known. Local time would take the
 * lock of the time zone data. */
static const char *write_time(const struct gs_report_writer *writer,
                              const struct gs_growth_sums *sums, char out[64])
{
    uint64_t at_ns = writer->config->start_unix_ns + sums->time_ns;
    unsigned day_s = (unsigned)(at_ns / SECOND_NS % 86400);
    char elapsed[24], ms[8] = "";

    gs_text_duration(sums->time_ns, elapsed);
    if (sums->interval_ns < SHORT_NS) {
        snprintf(ms, sizeof(ms), ".%03u", (unsigned)(at_ns / 1000000 % 1000));
    }
    if (writer->config->start_unix_ns == 0) {
        snprintf(out, 64, "%s", elapsed);
    } else {
        snprintf(out, 64, "%02u:%02u:%02u%s UTC (%s)", day_s / 3600, day_s / 60 % 60,
                 day_s % 60, ms, elapsed);
    }
    return out;
}

/* "at 14:03:11 UTC (5m00s): 2.31 GiB live in 57 allocations, +12.0 MiB in the last 30.0 s
 * (410 KiB/s), full in 2h03m at this rate" */
static void write_sums(const struct gs_report_writer *writer,
                       const struct gs_growth_sums *sums)
{
    char time[64], bytes[24], count[32], change[96];

    gs_text_add(writer->text, "at %s: %s live in %s allocation%s",
                write_time(writer, sums, time), gs_text_bytes(sums->bytes, bytes),
                gs_text_count(sums->count, count), gs_report_plural(sums->count));
    if (sums->snapshots > 1) {
        gs_text_add(writer->text, ", %s",
                    gs_text_growth(sums->change, sums->interval_ns, change));
    }
    if (writer->config->full_in_ns != 0) {
        gs_text_add(writer->text, ", full in %s at this rate",
                    gs_text_duration(writer->config->full_in_ns, time));
    }
    gs_text_add(writer->text, "\n");
}

static void write_growing(const struct gs_report_writer *writer, size_t number,
                          const struct gs_growing *one, const struct gs_growth_sums *sums,
                          struct gs_growth_names *names)
{
    const struct gs_trend *trend = &one->trend;
    uint64_t live = gs_group_likely_count(&one->group);
    char more[96], count[32], bytes[24];

    gs_text_add(writer->text, "%sGROWING %zu: %s, in %llu of %llu samples; now ",
                writer->prefix, number,
                gs_text_growth((int64_t)(one->group.bytes - trend->base_bytes),
                               sums->time_ns - trend->since_ns, more),
                (unsigned long long)trend->grown,
                (unsigned long long)(sums->snapshots - 1 - trend->since_snapshot));
    gs_text_add(writer->text, "%s%s in %s allocation%s\n",
                gs_group_is_estimate(&one->group) ? "about " : "",
                gs_text_bytes(one->group.bytes, bytes), gs_text_count(live, count),
                gs_report_plural(live));
    write_named(writer, &one->group, names);
    gs_report_blank(writer);
}

/* Why names of new call sites are missing; NULL: they are not. */
static const char *note_of(const struct gs_report_writer *writer)
{
    const struct gs_report_source *source = writer->source;

    return source->note && writer->frames->stack_count > 0 ? source->note(source->self)
                                                           : NULL;
}

/* The last snapshot with at most as many call sites; `growing` is to be freed. */
static struct gs_growth_snapshot last_of(const struct gs_report_writer *writer,
                                         struct gs_growth *growth, unsigned most)
{
    struct gs_growth_snapshot last = gs_growth_last(growth, most > 0 ? UINT_MAX : 0);

    gs_report_sort_growing(writer->tracker, writer->config, writer->source, last.growing,
                           last.count);
    last.count = last.count < most ? last.count : most;
    return last;
}

/* Looks up the names of call sites that were not written before, and their files. */
static void find_names(const struct gs_report_writer *writer,
                       const struct gs_growth_snapshot *last,
                       const struct gs_growth_names *names, struct gs_frame_table *frames,
                       struct gs_shown_paths *paths)
{
    struct gs_report_source source = *writer->source;
    struct gs_stack_ids ids = {0};

    if (names->count >= NAMES_MAX) {
        source.find_lines = NULL;
    }
    for (size_t i = 0; i < last->count; i++) {
        if (!find_name(names, last->growing[i].group.stack)) {
            gs_stack_ids_add(&ids, last->growing[i].group.stack);
        }
    }
    gs_frame_table_take(frames, writer->config, writer->tracker->config.stacks, &source,
                        &ids);
    for (size_t i = 0; i < last->count; i++) {
        struct gs_shown_stack stack =
            gs_frame_table_show(frames, writer->config, last->growing[i].group.stack);
        gs_report_stack_paths(writer->config, &stack, paths);
    }
}

/* Writes the call sites. */
static void write_last(const struct gs_report_writer *base,
                       const struct gs_growth_snapshot *last,
                       struct gs_growth_names *names)
{
    struct gs_frame_table frames = {0};
    struct gs_shown_paths paths = {.count = 0};
    struct gs_report_writer writer = *base;

    writer.frames = &frames;
    writer.paths = &names->paths;
    names->paths.whole = base->config->full_paths;
    find_names(&writer, last, names, &frames, &paths);
    if (add_paths(names, &paths) && names->first) { /* they may read alike: name all */
        forget(names);
        gs_frame_table_free(&frames);
        find_names(&writer, last, names, &frames, &paths);
        (void)add_paths(names, &paths);
    }
    gs_shown_paths_free(&paths);
    const char *note = note_of(&writer);
    char clean[512];
    names->missed += note != NULL;
    names->keep = !note || names->missed >= TRIES;
    write_sums(&writer, &last->sums);
    for (size_t i = 0; i < last->count; i++) {
        write_growing(&writer, i + 1, &last->growing[i], &last->sums, names);
    }
    /* A report of a state file has a note of its own. */
    if (note && names->missed == 1 && base->config->growing == 0) {
        gs_text_add(writer.text, "%sNote: %s\n", writer.prefix,
                    gs_report_clean(note, clean, sizeof(clean)));
    }
    gs_frame_table_free(&frames);
}

void gs_growth_write(struct gs_growth *growth, struct gs_tracker *tracker,
                     const struct gs_report_config *config, unsigned most,
                     struct gs_growth_names *names, struct gs_text *text)
{
    struct gs_live_source live;
    const struct gs_report_source source = gs_report_live(tracker, config, &live);
    struct gs_report_writer writer = {
        .tracker = tracker, .config = config, .source = &source, .text = text};
    struct gs_growth_snapshot last = last_of(&writer, growth, most);

    snprintf(writer.prefix, sizeof(writer.prefix), "==%ld== ", config->pid);
    gs_text_add(text, "%s", writer.prefix);
    write_last(&writer, &last, names);
    free(last.growing);
}

void gs_report_growth_paths(const struct gs_report_writer *writer)
{
    const struct gs_report_config *config = writer->config;
    const struct gs_growth_names names = {0};
    struct gs_frame_table frames = {0};

    if (!config->growth || config->growing == 0) {
        return;
    }
    struct gs_growth_snapshot last = last_of(writer, config->growth, config->growing);
    find_names(writer, &last, &names, &frames, writer->paths);
    gs_frame_table_free(&frames);
    free(last.growing);
}

void gs_report_growth(const struct gs_report_writer *writer)
{
    const struct gs_report_config *config = writer->config;
    struct gs_growth_names names = {0};

    if (!config->growth || config->growing == 0) {
        return;
    }
    struct gs_growth_snapshot last = last_of(writer, config->growth, config->growing);
    (void)add_paths(&names, writer->paths);
    gs_text_add(writer->text, "%slast sample ", writer->prefix);
    write_last(writer, &last, &names);
    if (last.count == 0) {
        gs_report_blank(writer);
    }
    gs_growth_names_free(&names);
    free(last.growing);
}
