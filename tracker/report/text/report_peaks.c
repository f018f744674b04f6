/*
 * report_peaks.c - prints the owners of the memory at the peak.
 * Owns: nothing beyond the report's data.   Lock: none.   Design: docs/tracker.md
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>

/* A peak is printed if at least this part of it was freed since, not counting caches. For
 * other peaks the leaks, or the live memory, show the same. */
#define FREED_PART 10u
/* Number of call sites to name, so that those that read the same are found: more than are
 * printed. */
#define SITES_NAMED(shown) (4 * (size_t)(shown) + 16)

static uint64_t used_bytes(const struct gs_peak *peak)
{
    uint64_t cached = 0;

    for (size_t i = 0; i < peak->count; i++) {
        cached += peak->places[i].held.cached_by ? peak->places[i].held.bytes : 0;
    }
    return cached < peak->bytes ? peak->bytes - cached : 0;
}

static bool is_printed(const struct gs_report_config *config, const struct gs_peak *peak,
                       unsigned row)
{
    return peak->known && config->peak_max != 0 && config->show_leaks &&
           peak->freed_bytes != 0 && peak->freed_bytes >= used_bytes(peak) / FREED_PART &&
           (row < GS_ROW_PINNED || config->show_devices);
}

/* Whether the text may have peaks. A clean run has none, unless it prints devices. */
static bool prints_peaks(const struct gs_report_config *config,
                         const struct gs_report_data *data)
{
    return config->peak_max != 0 && config->show_leaks &&
           (config->show_devices || config->running ||
            data->error_count != data->suppressed_errors || data->leaked_count != 0 ||
            data->registered.count != 0);
}

void gs_report_gather_peaks(struct gs_tracker *tracker,
                            const struct gs_report_config *config, const uint16_t *apis,
                            size_t api_count, struct gs_report_data *data)
{
    bool text = prints_peaks(config, data);
    bool all = (config->job && config->job->stacks) || gs_report_has_budgets(config);

    if (!text && !all) {
        return;
    }
    gs_peaks_gather(tracker, all ? 0 : FREED_PART, data->peaks);
    for (unsigned row = 0; row < GS_PEAK_ROWS; row++) {
        struct gs_peak *peak = &data->peaks[row];

        for (size_t i = 0; i < peak->count; i++) {
            if (peak->places[i].held.api < api_count) {
                peak->places[i].held.api = apis[peak->places[i].held.api];
            }
        }
    }
}

void gs_report_choose_peaks(const struct gs_report_config *config,
                            struct gs_report_data *data)
{
    for (unsigned row = 0; row < GS_PEAK_ROWS; row++) {
        data->peaks_printed =
            data->peaks_printed || is_printed(config, &data->peaks[row], row);
    }
    data->peaks_printed = data->peaks_printed && prints_peaks(config, data);
}

/* Counts, among the first `most` call sites, those with a stack. */
static size_t count_with_stack(const struct gs_peak *peak, size_t most)
{
    size_t count = 0;

    while (count < peak->count && count < most &&
           gs_peak_is_placed(&peak->places[count].held)) {
        count++;
    }
    return count;
}

void gs_report_peak_stacks(const struct gs_report_config *config,
                           const struct gs_report_data *data, struct gs_stack_ids *ids)
{
    for (unsigned row = 0; data->peaks_printed && row < GS_PEAK_ROWS; row++) {
        const struct gs_peak *peak = &data->peaks[row];
        size_t named = is_printed(config, peak, row)
                           ? count_with_stack(peak, SITES_NAMED(config->peak_max))
                           : 0;

        for (size_t i = 0; i < named; i++) {
            gs_stack_ids_add(ids, peak->places[i].held.stack);
        }
    }
}

static bool read_the_same(const struct gs_report_config *config,
                          const struct gs_frame_table *frames, const struct gs_group *a,
                          const struct gs_group *b)
{
    if (a->api != b->api || a->device != b->device || a->kind != b->kind ||
        a->lost != b->lost || gs_group_is_parts(a) != gs_group_is_parts(b)) {
        return false;
    }
    struct gs_shown_stack one = gs_frame_table_show(frames, config, a->stack);
    struct gs_shown_stack other = gs_frame_table_show(frames, config, b->stack);
    return a->stack == b->stack ||
           (one.count != 0 && gs_report_compare_stacks(&one, &other) == 0);
}

static void join(struct gs_peak_site *place, const struct gs_peak_site *part)
{
    gs_group_sum(&place->held, &part->held);
    place->live_bytes += part->live_bytes;
    place->live_count += part->live_count;
    place->likely_live_bytes += part->likely_live_bytes;
}

/* Joins those of the first `named` call sites of a peak that read the same. */
static void join_sites(const struct gs_report_config *config,
                       const struct gs_frame_table *frames, struct gs_peak *peak,
                       size_t named)
{
    size_t kept = 0;

    for (size_t i = 0; i < peak->count; i++) {
        size_t same = 0;

        while (same < kept &&
               (i >= named || !read_the_same(config, frames, &peak->places[same].held,
                                             &peak->places[i].held))) {
            same++;
        }
        if (same < kept) {
            join(&peak->places[same], &peak->places[i]);
        } else {
            peak->places[kept++] = peak->places[i];
        }
    }
    peak->count = kept;
    gs_peak_sort(peak);
}

void gs_report_join_peaks(const struct gs_report_config *config,
                          const struct gs_frame_table *frames,
                          struct gs_report_data *data)
{
    for (unsigned row = 0; data->peaks_printed && row < GS_PEAK_ROWS; row++) {
        struct gs_peak *peak = &data->peaks[row];

        if (is_printed(config, peak, row)) {
            join_sites(config, frames, peak,
                       count_with_stack(peak, SITES_NAMED(config->peak_max)));
        }
    }
}

/* "all freed since", "1.00 GiB of it still live", "all still live", "live at reset" */
static const char *fate_of(const struct gs_peak_site *place, char out[64])
{
    char bytes[24];

    if (place->held.lost) {
        return "live at reset";
    }
    if (place->live_count == 0) {
        return "all freed since";
    }
    if (place->live_count >= place->held.count) {
        return "all still live";
    }
    snprintf(out, 64, "%s of it still live",
             gs_text_bytes(gs_likely(place->likely_live_bytes), bytes));
    return out;
}

/* Returns the number of the printed leak that has the call site; 0: none. */
static size_t leak_of(const struct gs_report_writer *writer, const struct gs_group *held)
{
    const struct gs_report_data *data = writer->data;

    for (size_t i = 0; i < data->shown; i++) {
        if (read_the_same(writer->config, writer->frames, held, &data->groups.items[i])) {
            return i + 1;
        }
    }
    return 0;
}

/* Prints a call site with its stack, unless a leak has shown it. Returns whether it
 * did. */
static bool write_site(const struct gs_report_writer *writer, const struct gs_peak *peak,
                       size_t number)
{
    const struct gs_group *held = &peak->places[number].held;
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, held->stack);
    const bool estimate = gs_group_is_estimate(held);
    uint64_t bytes = gs_group_shown_bytes(held), count = gs_group_shown_count(held);
    uint64_t part = bytes < peak->bytes ? bytes : peak->bytes;
    size_t leak = leak_of(writer, held);
    char text[24], number_text[32], percent[16], where[64], fate[64];

    gs_text_add(writer->text, "%sPEAK %zu", writer->prefix, number + 1);
    if (leak != 0) {
        gs_text_add(writer->text, " = %s %zu",
                    gs_report_is_live(writer->config) ? "LIVE" : "LEAK", leak);
    }
    gs_text_add(writer->text, ": %s%s in %s allocation%s (%s %% of the peak)",
                estimate ? "about " : "", gs_text_bytes(bytes, text),
                gs_text_count(count, number_text), gs_report_plural(count),
                gs_report_percent(part, peak->bytes, percent));
    if (leak != 0) {
        gs_text_add(writer->text, ", %s\n", fate_of(&peak->places[number], fate));
        return false;
    }
    gs_text_add(writer->text, "\n");
    gs_text_add(writer->text, "%s  %s, %s, %s\n", writer->prefix,
                gs_group_is_parts(held) ? GS_REPORT_PART
                                        : gs_report_call(writer, &stack, held->api),
                gs_report_memory_name(held->kind, held->device, where),
                fate_of(&peak->places[number], fate));
    gs_report_stack(writer, &stack);
    gs_report_blank(writer);
    return true;
}

/* Writes the sum of the call sites that are not printed, and the memory without a call
 * site. */
static void write_more(const struct gs_report_writer *writer, const struct gs_peak *peak,
                       size_t shown)
{
    size_t placed = count_with_stack(peak, peak->count);
    double likely = 0;
    uint64_t unplaced = 0;
    char count[32], bytes[24];

    for (size_t i = shown; i < placed; i++) {
        likely += peak->places[i].held.likely_bytes;
    }
    for (size_t i = placed; i < peak->count; i++) {
        const struct gs_group *held = &peak->places[i].held;
        if (gs_report_cached_by(held)) {
            gs_text_add(writer->text, "%s%s of this peak were cached by %s\n",
                        writer->prefix, gs_text_bytes(held->bytes, bytes),
                        gs_report_cached_by(held));
        } else {
            unplaced += held->bytes;
        }
    }
    if (shown < placed) {
        gs_text_add(
            writer->text,
            "%s%s more call site%s of this peak: %s (GPUSHIM_PEAK_MAX=N lists more)\n",
            writer->prefix, gs_text_count(placed - shown, count),
            gs_report_plural(placed - shown), gs_text_bytes(gs_likely(likely), bytes));
    }
    /* If stacks are sampled, the sampled call sites represent this memory. */
    if (unplaced != 0 && !gs_tracker_is_sampled(writer->tracker)) {
        gs_text_add(writer->text, "%s%s of this peak without a call stack\n",
                    writer->prefix, gs_text_bytes(unplaced, bytes));
    }
}

/* "Peak of GPU 0: 54.0 MiB at 4.00 ms, 50.0 MiB of it freed since"; no newline. */
static void write_title(const struct gs_report_writer *writer, const struct gs_peak *peak,
                        unsigned row)
{
    char name[64] = "pinned host memory", bytes[24], time[24], freed[24], known[24];
    uint64_t placed = 0;

    if (row < GS_ROW_PINNED) {
        snprintf(name, sizeof(name), "GPU %u", row);
    }
    for (size_t i = 0; i < peak->count; i++) {
        placed += peak->places[i].held.bytes;
    }
    gs_text_add(writer->text, "%sPeak of %s: %s at %s, %s of it freed since",
                writer->prefix, name, gs_text_bytes(peak->bytes, bytes),
                gs_text_duration(peak->time_ns, time),
                gs_text_bytes(peak->freed_bytes, freed));
    if (peak->about) {
        gs_text_add(writer->text, "; about %s of it by call site",
                    gs_text_bytes(placed, known));
    }
}

/* Writes a peak with its call sites, the largest last. */
static void write_peak(const struct gs_report_writer *writer, const struct gs_peak *peak,
                       unsigned row)
{
    size_t shown = count_with_stack(peak, writer->config->peak_max);
    bool ended = false; /* by a blank line */

    write_title(writer, peak, row);
    gs_text_add(writer->text, "\n");
    write_more(writer, peak, shown);
    for (size_t i = shown; i > 0; i--) {
        ended = write_site(writer, peak, i - 1);
    }
    if (!ended) {
        gs_report_blank(writer);
    }
}

/* Writes a peak in one line, with its largest call site. */
static void write_line(const struct gs_report_writer *writer, const struct gs_peak *peak,
                       unsigned row)
{
    char bytes[24];

    write_title(writer, peak, row);
    if (count_with_stack(peak, 1) != 0) {
        const struct gs_group *largest = &peak->places[0].held;
        struct gs_shown_stack stack =
            gs_frame_table_show(writer->frames, writer->config, largest->stack);
        gs_text_add(writer->text, "; %s%s ",
                    gs_group_is_estimate(largest) ? "about " : "",
                    gs_text_bytes(gs_group_shown_bytes(largest), bytes));
        gs_report_where(writer, &stack);
        gs_text_add(writer->text, " (GPUSHIM_PEAK_MAX=N lists more)");
    }
    gs_text_add(writer->text, "\n");
}

/* Whether peaks get their stacks: leaks or errors, if there are any, are more important
 * to the reader. */
static bool has_stacks(const struct gs_report_writer *writer)
{
    const struct gs_report_config *config = writer->config;
    const struct gs_report_data *data = writer->data;

    return config->peaks_asked || config->show_pool || gs_report_is_live(config) ||
           (data->leaked_count == 0 && data->error_count == data->suppressed_errors);
}

static void write_all(const struct gs_report_writer *writer,
                      void (*write)(const struct gs_report_writer *,
                                    const struct gs_peak *, unsigned))
{
    for (unsigned row = 0; writer->data->peaks_printed && row < GS_PEAK_ROWS; row++) {
        if (is_printed(writer->config, &writer->data->peaks[row], row)) {
            write(writer, &writer->data->peaks[row], row);
        }
    }
}

void gs_report_peaks(const struct gs_report_writer *writer)
{
    if (has_stacks(writer)) {
        write_all(writer, write_peak);
    }
}

void gs_report_peak_lines(const struct gs_report_writer *writer)
{
    if (!has_stacks(writer)) {
        write_all(writer, write_line);
    }
}
