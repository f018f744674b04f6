/*
 * report_peaks.c - who held the memory when there was most of it.
 * Owns: nothing beyond the report's data.   Lock: none.   Design: docs/tracker.md
 */
#include "report_internal.h"

#include <stdio.h>

/* A peak is told of if at least this part of it has been freed since. */
#define FREED_PART 10u

/* Those without a stack on purpose are no places: they come last, and are not shown. */
static void order(struct gs_groups *places)
{
    struct gs_group *items = places->items;
    size_t kept = 0;

    gs_report_sort(items, places->count);
    for (size_t i = 0; i < places->count; i++) {
        struct gs_group group = items[i];

        if (gs_stack_left_out(group.stack))
            continue;
        memmove(&items[kept + 1], &items[kept], (i - kept) * sizeof *items);
        items[kept++] = group;
    }
}

static size_t count_shown(const struct gs_groups *places, unsigned most)
{
    size_t shown = 0;

    while (shown < places->count && shown < most &&
           !gs_stack_left_out(places->items[shown].stack))
        shown++;
    return shown;
}

void gs_report_gather_peaks(struct gs_tracker *tracker,
                            const struct gs_report_config *config,
                            struct gs_report_data *data)
{
    for (unsigned row = 0;
         (config->peak_max != 0 || config->job) && row < GS_ARRAY_LEN(data->peaks);
         row++) {
        struct gs_report_peak *found = &data->peaks[data->peak_count];

        if (gs_peak_gather(tracker, row, config->job ? 0 : FREED_PART, &found->peak) !=
            GS_OK)
            continue;
        found->told = found->peak.freed_bytes >= found->peak.bytes / FREED_PART &&
                      (row < GS_ROW_PINNED || config->show_devices);
        order(&found->peak.places);
        found->row = row;
        found->shown =
            found->told ? count_shown(&found->peak.places, config->peak_max) : 0;
        data->peak_count++;
    }
}

size_t gs_report_peak_stacks(const struct gs_report_data *data, uint32_t *ids)
{
    size_t count = 0;

    for (size_t i = 0; i < data->peak_count; i++) {
        const struct gs_report_peak *peak = &data->peaks[i];

        for (size_t k = 0; k < peak->shown; k++, count++) {
            if (ids)
                ids[count] = peak->peak.places.items[k].stack;
        }
    }
    return count;
}

/* "all freed since", "1.00 GiB of it still live", "all still live" */
static const char *fate_of(const struct gs_report_peak *peak,
                           const struct gs_group *place, char out[64])
{
    const struct gs_group *live = gs_groups_find(&peak->peak.live, place);
    char bytes[24];

    if (!live)
        return "all freed since";
    if (live->count >= place->count)
        return "all still live";
    snprintf(out, 64, "%s of it still live",
             gs_text_bytes(gs_likely(live->likely_bytes), bytes));
    return out;
}

static void write_place(const struct gs_report_writer *writer,
                        const struct gs_report_peak *peak, size_t number)
{
    const struct gs_group *place = &peak->peak.places.items[number];
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, place->stack);
    const bool estimate = gs_group_is_estimate(place);
    uint64_t bytes = estimate ? gs_likely(place->likely_bytes) : place->bytes;
    uint64_t count = estimate ? gs_group_likely_count(place) : place->count;
    uint64_t part = bytes < peak->peak.bytes ? bytes : peak->peak.bytes;
    char text[24], number_text[32], percent[16], where[64], fate[64];

    gs_text_add(writer->text, "%sPEAK %zu: %s%s in %s allocation%s (%s %% of the peak)\n",
                writer->prefix, number + 1, estimate ? "about " : "",
                gs_text_bytes(bytes, text), gs_text_count(count, number_text),
                gs_report_plural(count),
                gs_report_percent(part, peak->peak.bytes, percent));
    gs_text_add(writer->text, "%s  %s, %s, %s\n", writer->prefix,
                gs_report_call(writer, &stack, place->api),
                gs_report_place_name(place->kind, place->device, where),
                fate_of(peak, place, fate));
    gs_report_stack(writer, &stack);
    gs_report_blank(writer);
}

/* Places that are not written out. */
static void write_more(const struct gs_report_writer *writer,
                       const struct gs_report_peak *peak)
{
    size_t more = peak->peak.places.count - peak->shown;
    double likely = 0;
    char places[32], bytes[24];

    for (size_t i = peak->shown; i < peak->peak.places.count; i++)
        likely += peak->peak.places.items[i].likely_bytes;
    if (more == 0)
        return;
    gs_text_add(writer->text, "%s%s more place%s of this peak: %s (GPUSHIM_PEAK_MAX)\n",
                writer->prefix, gs_text_count(more, places), gs_report_plural(more),
                gs_text_bytes(gs_likely(likely), bytes));
    gs_report_blank(writer);
}

static void write_peak(const struct gs_report_writer *writer,
                       const struct gs_report_peak *peak)
{
    char name[64] = "pinned host memory", bytes[24], time[24], freed[24];

    if (peak->row < GS_ROW_PINNED)
        snprintf(name, sizeof name, "GPU %u", peak->row);
    gs_text_add(writer->text, "%sPeak of %s: %s at %s, %s of it freed since%s\n",
                writer->prefix, name, gs_text_bytes(peak->peak.bytes, bytes),
                gs_text_duration(peak->peak.time_ns, time),
                gs_text_bytes(peak->peak.freed_bytes, freed),
                peak->peak.about ? " (who held it: about)" : "");
    for (size_t i = 0; i < peak->shown; i++)
        write_place(writer, peak, i);
    write_more(writer, peak);
}

void gs_report_peaks(const struct gs_report_writer *writer)
{
    for (size_t i = 0; i < writer->data->peak_count; i++) {
        if (writer->data->peaks[i].told)
            write_peak(writer, &writer->data->peaks[i]);
    }
}
