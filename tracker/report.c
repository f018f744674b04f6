/*
 * report.c - the text report as a whole: header, sections in their order, SUMMARY.
 * Owns: nothing beyond one call.   Lock: none; parts of the tracker are read under
 * theirs. Design: docs/tracker.md
 */
#include "report_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* What the real gs_report_source stands on. */
struct live_source {
    const struct gs_stacks *stacks;
    struct gs_symbolizer *symbolizer;
};

static enum gs_status live_module(void *self, uint32_t stack, uintptr_t frame,
                                  struct gs_module *out)
{
    return gs_stacks_module(((struct live_source *)self)->stacks, stack, frame, out);
}

static void live_resolve(void *self, struct gs_symbol_request *requests, size_t count)
{
    gs_symbolizer_resolve(((struct live_source *)self)->symbolizer, requests, count);
}

static const char *live_note(void *self)
{
    return gs_symbolizer_note(((struct live_source *)self)->symbolizer);
}

/* Stacks of everything that is written out. Empty where there is no memory. */
static void fill_frames(struct gs_frame_table *table, const struct gs_tracker *tracker,
                        const struct gs_report_source *source,
                        const struct gs_report_data *data)
{
    size_t count = 0;
    uint32_t *ids = malloc(
        (data->shown + data->registered_shown + 3 * data->errors_kept + 1) * sizeof *ids);

    memset(table, 0, sizeof *table);
    if (!ids)
        return;
    for (size_t i = 0; i < data->shown; i++)
        ids[count++] = data->groups.items[i].stack;
    for (size_t i = 0; i < data->registered_shown; i++)
        ids[count++] = data->registered.items[i].stack;
    for (size_t i = 0; i < data->errors_kept; i++) {
        const struct gs_error *error = &data->errors[i];
        ids[count++] = error->freed.stack;
        ids[count++] = error->first_freed.stack;
        ids[count++] = error->allocation.stack;
    }
    gs_frame_table_fill(table, tracker->config.stacks, source, ids, count);
    free(ids);
}

static void write_header(const struct gs_report_writer *writer)
{
    const struct gs_report_config *config = writer->config;
    char clean[512], duration[24];

    gs_text_add(writer->text, "%sgpushim %s: %s", writer->prefix,
                config->version ? config->version : "",
                gs_report_clean(config->command, clean, sizeof clean));
    if (config->host && config->host[0])
        gs_text_add(writer->text, "   host %s",
                    gs_report_clean(config->host, clean, sizeof clean));
    if (config->rank >= 0)
        gs_text_add(writer->text, "  rank %d", config->rank);
    gs_text_add(writer->text, "  %s", gs_text_duration(writer->source->now_ns, duration));
    if (config->ending && config->ending[0])
        gs_text_add(writer->text, "  %s",
                    gs_report_clean(config->ending, clean, sizeof clean));
    gs_text_add(writer->text, "\n");
}

static void write_note(const struct gs_report_writer *writer)
{
    const char *note =
        writer->source->note ? writer->source->note(writer->source->self) : NULL;
    char clean[512];

    if (note && writer->frames->stack_count > 0)
        gs_text_add(writer->text, "%sNote: %s\n", writer->prefix,
                    gs_report_clean(note, clean, sizeof clean));
}

static void write_summary(const struct gs_report_writer *writer,
                          const struct gs_report_summary *summary)
{
    char errors[32], bytes[24], count[32], places[32];

    gs_text_add(writer->text,
                "%sSUMMARY: gpushim: %s error%s, %s leaked in %s allocation%s, "
                "%s place%s\n",
                writer->prefix, gs_text_count(summary->errors, errors),
                gs_report_plural(summary->errors),
                gs_text_bytes(summary->leaked_bytes, bytes),
                gs_text_count(summary->leaked_count, count),
                gs_report_plural(summary->leaked_count),
                gs_text_count(summary->leak_groups, places),
                gs_report_plural(summary->leak_groups));
}

static void write_body(struct gs_report_writer *writer)
{
    struct gs_frame_table frames;

    fill_frames(&frames, writer->tracker, writer->source, writer->data);
    writer->frames = &frames;
    gs_report_devices(writer);
    gs_report_blank(writer);
    gs_report_errors(writer);
    if (writer->config->show_leaks) {
        gs_report_leaks(writer);
        gs_report_owners(writer);
    }
    write_note(writer);
    writer->frames = NULL;
    gs_frame_table_free(&frames);
}

void gs_report_write_from(struct gs_tracker *tracker,
                          const struct gs_report_config *config,
                          const struct gs_report_source *source, struct gs_text *text,
                          struct gs_report_summary *summary)
{
    struct gs_report_summary figures;
    struct gs_report_data data;
    struct gs_report_writer writer = {.tracker = tracker,
                                      .config = config,
                                      .source = source,
                                      .data = &data,
                                      .text = text};

    gs_report_gather(tracker, config, &data);
    figures.errors = data.error_count;
    figures.leaked_bytes = data.leaked_bytes;
    figures.leaked_count = data.leaked_count;
    figures.leak_groups = data.groups.count;
    if (text) {
        snprintf(writer.prefix, sizeof writer.prefix, "==%ld== ", config->pid);
        write_header(&writer);
        if (figures.errors != 0 || figures.leaked_count != 0 ||
            data.registered.count != 0)
            write_body(&writer);
        else if (config->show_devices)
            gs_report_devices(&writer);
        write_summary(&writer, &figures);
    }
    gs_report_data_free(&data);
    if (summary)
        *summary = figures;
}

void gs_report_write(struct gs_tracker *tracker, const struct gs_report_config *config,
                     struct gs_text *text, struct gs_report_summary *summary)
{
    if (!tracker || !config) {
        if (summary)
            *summary = (struct gs_report_summary){0};
        return;
    }
    struct live_source live = {.stacks = tracker->config.stacks,
                               .symbolizer = config->symbolizer};
    struct gs_report_source source = {
        .now_ns = gs_tracker_now(tracker), .self = &live, .module = live_module};
    if (config->symbolizer) {
        source.resolve = live_resolve;
        source.note = live_note;
    }
    gs_report_write_from(tracker, config, &source, text, summary);
}
