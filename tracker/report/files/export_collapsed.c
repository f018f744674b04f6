/*
 * export_collapsed.c - collapsed stacks: "GPU 0;main;load;alloc 4096", the outermost
 * frame first: what a call site did not free, what it had at its device's peak, or all
 * that it allocated.
 *
 * The first frame is the kind of memory, so device and host memory are not one sum.
 * Readers: flamegraph.pl, inferno, speedscope. They sum lines of equal text.
 *
 * Owns: nothing.   Lock: none.   Design: docs/outputs.md
 */
#include "tracker/report/export_internal.h"

#include <stdio.h>

/* Writes a frame's name. A semicolon would end the frame, a newline the line: both are
 * replaced. */
static void put_name(struct gs_export_out *out, const char *name)
{
    while (*name) {
        struct gs_utf8 c = gs_utf8_take(&name);

        if (gs_is_control(c.bytes, c.length)) {
            gs_out_char(out, '?');
        } else if (*c.bytes == ';') {
            gs_out_char(out, ':');
        } else {
            gs_out_bytes(out, c.bytes, c.length);
        }
    }
}

void gs_export_put_frame(struct gs_export_out *out, const struct gs_symbol_request *frame)
{
    const char *module = gs_report_frame_module(frame);

    if (frame->result.function) {
        put_name(out, frame->result.function);
    } else if (module[0] != '\0') {
        put_name(out, module);
        gs_out_char(out, '+');
        gs_out_hex(out, gs_export_offset(frame));
    } else {
        gs_out_hex(out, frame->frame);
    }
}

void gs_export_put_frames(const struct gs_export *export, struct gs_export_out *out,
                          uint32_t id)
{
    const struct gs_export_stack *stack = gs_export_stack(export, id);

    if (!stack || stack->count == 0) {
        gs_out_char(out, ';');
        gs_out_text(out, gs_report_no_stack(id).frame);
    } else if (stack->cut) {
        gs_out_text(out, ";[more frames]");
    }
    for (uint32_t i = stack ? stack->end : 0; stack && i-- > stack->begin;) {
        const struct gs_symbol_request *frame =
            &export->locations[export->frames[stack->first + i]];
        if (i != stack->begin && gs_report_frame_is_carrier(frame)) {
            continue;
        }
        gs_out_char(out, ';');
        gs_export_put_frame(out, frame);
    }
}

/* Leaves out unsampled groups: the sampled ones have the estimated sizes. */
static void put_group(const struct gs_export *export, struct gs_export_out *out,
                      const struct gs_group *group)
{
    char place[64];

    if (gs_group_weight(group) == 0 || group->likely_bytes <= 0) {
        return;
    }
    put_name(out, gs_report_memory_name(group->kind, group->device, place));
    if (gs_report_cached_by(group)) {
        gs_out_text(out, ";cached by ");
        put_name(out, gs_report_cached_by(group));
    }
    if (group->stack != 0 || !gs_report_cached_by(group)) {
        gs_export_put_frames(export, out, group->stack);
    }
    gs_out_char(out, ' ');
    gs_out_number(out, gs_likely(group->likely_bytes));
    gs_out_char(out, '\n');
}

static void put_groups(const struct gs_export *export, struct gs_export_out *out,
                       const struct gs_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        put_group(export, out, &groups->items[i]);
    }
}

enum gs_status gs_export_write_collapsed(const struct gs_export *export,
                                         const struct gs_export_sink *sink)
{
    struct gs_export_out out;

    gs_out_begin(&out, sink);
    put_groups(export, &out, &export->data->groups);
    put_groups(export, &out, &export->data->unplaced);
    return gs_out_end(&out);
}

enum gs_status gs_export_write_collapsed_peak(const struct gs_export *export,
                                              const struct gs_export_sink *sink)
{
    struct gs_export_out out;

    gs_out_begin(&out, sink);
    for (unsigned row = 0; row < GS_PEAK_ROWS; row++) {
        const struct gs_peak *peak = &export->data->peaks[row];

        for (size_t i = 0; peak->known && i < peak->count; i++) {
            put_group(export, &out, &peak->places[i].held);
        }
    }
    return gs_out_end(&out);
}

enum gs_status gs_export_write_collapsed_total(const struct gs_export *export,
                                               const struct gs_export_sink *sink)
{
    struct gs_export_out out;

    gs_out_begin(&out, sink);
    for (size_t i = 0; export->tracker->tally && i < export->sample_count; i++) {
        const struct gs_sample *sample = &export->samples[i];
        const struct gs_group group = {.stack = sample->stack,
                                       .device = sample->device,
                                       .kind = sample->kind,
                                       .bytes = sample->alloc_bytes,
                                       .likely_bytes = sample->likely_alloc_bytes};

        put_group(export, &out, &group);
    }
    return gs_out_end(&out);
}
