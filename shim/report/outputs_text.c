/*
 * outputs_text.c - a report in one format as a text in memory: for the command, or as a
 * message.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/report/outputs.h"
#include "tracker/report/text/text.h"

static void write_text(void *self, const struct gs_export *export, struct gs_text *names)
{
    const struct gs_outputs_text *text = self;
    const struct gs_export_sink sink = gs_export_text_sink(text->into);
    (void)names;
    if (!export || gs_export_write(export, text->row, &sink) != GS_OK) {
        gs_text_free(text->into);
        text->into->truncated = true;
    }
}

void gs_outputs_begin_text(const struct gs_options *options,
                           const struct gs_statistics *statistics,
                           const struct gs_report_device *devices, size_t device_count,
                           struct gs_outputs_text *text, struct gs_output_contents *out)
{
    const struct gs_export_format *format = &gs_export_formats[text->row];
    gs_output_contents_make(options, statistics, devices, device_count, out);
    out->job.write = write_text;
    out->job.self = text;
    out->job.stacks = format->stacks;
    out->job.samples = format->tallied;
}
