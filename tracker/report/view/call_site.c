/*
 * call_site.c - see call_site.h.
 * Owns: nothing.   Lock: none.
 */
#include "tracker/report/call_site.h"

#include "tracker/report/export_internal.h"
#include "tracker/report/report_internal.h"

int gs_call_site_row(const struct gs_allocation *allocation)
{
    return gs_totals_device(gs_totals_row(allocation->device, allocation->kind));
}

const char *gs_call_site_owner(const struct gs_tracker *tracker, uint32_t stack)
{
    const struct gs_report_config none = {0};
    struct gs_live_source live;
    const struct gs_report_source source = gs_report_live(tracker, &none, &live);
    const char *owner = stack && !gs_stack_left_out(stack)
                            ? gs_report_owner(tracker->config.stacks, &source, stack)
                            : NULL;

    return owner ? owner : "";
}

void gs_call_site_describe(const struct gs_tracker *tracker,
                           const struct gs_allocation *allocation,
                           struct gs_call_site *out)
{
    const bool known = allocation->stack && !gs_stack_left_out(allocation->stack);

    *out = (struct gs_call_site){
        .kind = gs_export_kind(allocation->kind),
        .call = gs_report_call_name(tracker, NULL, allocation->api),
        .no_stack = known ? "" : gs_report_no_stack(allocation->stack).line};
}

bool gs_call_site_write(struct gs_tracker *tracker, const struct gs_report_config *config,
                        uint32_t stack, struct gs_text *text)
{
    struct gs_live_source live;
    const struct gs_report_source source = gs_report_live(tracker, config, &live);
    struct gs_frame_table frames = {0};
    struct gs_shown_paths paths = {.whole = config->full_paths};
    const struct gs_report_writer writer = {.tracker = tracker,
                                            .config = config,
                                            .source = &source,
                                            .frames = &frames,
                                            .paths = &paths,
                                            .text = text};

    gs_frame_table_fill(&frames, config, tracker->config.stacks, &source, &stack, 1);
    const struct gs_shown_stack shown = gs_frame_table_show(&frames, config, stack);
    if (shown.count != 0) {
        gs_report_stack_paths(config, &shown, &paths);
        gs_report_stack(&writer, &shown);
    }
    gs_shown_paths_free(&paths);
    gs_frame_table_free(&frames);
    return shown.count != 0;
}
