/*
 * report_paths.c - the files that a report's text names, before it is written: so each is
 * shown by what tells it from the others (shown_path.h).
 * Owns: nothing.   Lock: none.
 */
#include "tracker/report/report_internal.h"

#include <stdlib.h>

/* The stacks that are printed. */
static void list_stacks(const struct gs_report_writer *writer, struct gs_stack_ids *ids)
{
    const struct gs_report_data *data = writer->data;

    gs_stack_ids_add(ids, writer->config->stack);
    gs_stack_ids_add_groups(ids, &data->groups, 0, data->shown);
    gs_stack_ids_add_groups(ids, &data->registered, 0, data->registered_shown);
    gs_stack_ids_add_errors(ids, data);
    gs_stack_ids_add_slow(ids, data, data->slow_shown);
    gs_stack_ids_add_lifetimes(ids, data, data->lifetimes_shown);
    for (unsigned row = 0; data->peaks_printed && row < GS_PEAK_ROWS; row++) {
        const struct gs_peak *peak = &data->peaks[row];
        for (size_t i = 0; i < peak->count && i < writer->config->peak_max; i++) {
            gs_stack_ids_add(ids, peak->places[i].held.stack);
        }
    }
}

void gs_report_find_paths(const struct gs_report_writer *writer)
{
    struct gs_stack_ids ids = {0};

    list_stacks(writer, &ids);
    size_t count = gs_stack_ids_unique(ids.items, ids.count);
    for (size_t i = 0; i < count; i++) {
        struct gs_shown_stack stack =
            gs_frame_table_show(writer->frames, writer->config, ids.items[i]);
        gs_report_stack_paths(writer->config, &stack, writer->paths);
    }
    free(ids.items);
    gs_report_growth_paths(writer);
    for (size_t i = 0; writer->owners && i < writer->owners->count; i++) {
        gs_shown_paths_add(writer->paths, writer->owners->items[i].path);
    }
}
