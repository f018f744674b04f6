/*
 * report.c - the whole text report: header, sections in their order, SUMMARY.
 * Owns: nothing beyond one call.   Lock: none; parts of the tracker are read under
 * theirs. Design: docs/tracker.md
 */
#include "tracker/host_memory.h"
#include "tracker/report/export_internal.h"

#include <stdio.h>
#include <stdlib.h>

static enum gs_status live_module(void *self, uint32_t stack, uintptr_t frame,
                                  struct gs_module *out)
{
    return gs_stacks_module(((struct gs_live_source *)self)->stacks, stack, frame, out);
}

static void live_resolve(void *self, struct gs_symbol_request *requests, size_t count)
{
    gs_symbolizer_resolve(((struct gs_live_source *)self)->symbolizer, requests, count);
}

static void live_find_lines(void *self, struct gs_symbol_request *requests, size_t count)
{
    gs_symbolizer_find_lines(((struct gs_live_source *)self)->symbolizer, requests,
                             count);
}

static const char *live_linkage(void *self, uintptr_t frame,
                                const struct gs_module *module)
{
    return gs_symbolizer_linkage(((struct gs_live_source *)self)->symbolizer, frame,
                                 module);
}

static const char *live_note(void *self)
{
    return gs_symbolizer_note(((struct gs_live_source *)self)->symbolizer);
}

struct gs_report_source gs_report_live(const struct gs_tracker *tracker,
                                       const struct gs_report_config *config,
                                       struct gs_live_source *live)
{
    struct gs_report_source source = {
        .is_live = true, .self = live, .module = live_module};

    *live = (struct gs_live_source){.stacks = tracker->config.stacks,
                                    .symbolizer = config->symbolizer};
    if (config->symbolizer) {
        source.resolve = live_resolve;
        source.note = live_note;
        if (gs_symbolizer_finds_lines(config->symbolizer)) {
            source.find_lines = live_find_lines;
            source.linkage = live_linkage;
        }
    }
    return source;
}

static void set_time(const struct gs_tracker *tracker, struct gs_report_source *source)
{
    if (source->is_live) {
        source->now_ns = gs_tracker_now(tracker);
    }
}

/* Names the stacks of the groups from `begin` to `end`. If `begin` is 0, also those of
 * the errors, of registered memory, of the peaks, of slow copies, of lifetimes and of
 * hints, and the stack of the call that caused the report. */
static void fill_frames(struct gs_frame_table *table,
                        const struct gs_report_writer *writer,
                        const struct gs_report_data *data, size_t begin, size_t end)
{
    struct gs_stack_ids ids = {0};

    gs_stack_ids_add_groups(&ids, &data->groups, begin, end);
    if (begin == 0) {
        gs_stack_ids_add(&ids, writer->config->stack);
        gs_stack_ids_add_groups(&ids, &data->registered, 0, data->registered_shown);
        gs_stack_ids_add_errors(&ids, data);
        gs_stack_ids_add_slow(&ids, data, data->slow_shown);
        gs_stack_ids_add_lifetimes(&ids, data, data->lifetimes_shown);
        gs_stack_ids_add_hints(&ids, data);
        gs_report_peak_stacks(writer->config, data, &ids);
    }
    gs_frame_table_take(table, writer->config, writer->tracker->config.stacks,
                        writer->source, &ids);
}

static void write_header(const struct gs_report_writer *writer)
{
    const struct gs_report_config *config = writer->config;
    char clean[512], duration[24];

    gs_text_add(writer->text, "%sgpushim %s: %s", writer->prefix,
                config->version ? config->version : "",
                gs_report_clean(config->command, clean, sizeof(clean)));
    if (config->hostname && config->hostname[0]) {
        gs_text_add(writer->text, "   host %s",
                    gs_report_clean(config->hostname, clean, sizeof(clean)));
    }
    if (config->rank >= 0) {
        gs_text_add(writer->text, "  rank %d", config->rank);
    }
    gs_text_add(writer->text, "  %s", gs_text_duration(writer->source->now_ns, duration));
    if (config->ending && config->ending[0]) {
        gs_text_add(writer->text, "  %s",
                    gs_report_clean(config->ending, clean, sizeof(clean)));
    }
    gs_text_add(writer->text, "\n");
}

static void write_note(const struct gs_report_writer *writer)
{
    const char *note =
        writer->source->note ? writer->source->note(writer->source->self) : NULL;
    char clean[512];

    if (note && writer->frames->stack_count > 0) {
        gs_text_add(writer->text, "%sNote: %s\n", writer->prefix,
                    gs_report_clean(note, clean, sizeof(clean)));
    }
}

/* Runs after the body: the stacks of the text are named first, while there is time
 * left. */
static void write_files(const struct gs_report_writer *writer,
                        const struct gs_report_summary *summary)
{
    struct gs_text names = {0};

    gs_export_run(writer, summary, &names);
    char *clean = names.data ? malloc(names.length + 1) : NULL;
    if (clean) {
        gs_text_add(writer->text, "%sfiles written: %s\n", writer->prefix,
                    gs_report_clean(names.data, clean, names.length + 1));
    }
    free(clean);
    gs_text_free(&names);
}

/* Returns whether CUDA did not start in the process, which then has nothing to report. */
static bool has_no_start(struct gs_tracker *tracker,
                         const struct gs_report_config *config)
{
    struct gs_tracker_totals sum;

    if (!config->no_start || !config->no_start[0] || config->running) {
        return false;
    }
    gs_tracker_sum_totals(tracker, &sum);
    return sum.allocs == 0;
}

void gs_report_add_summary(const struct gs_report_config *config,
                           const struct gs_report_summary *summary, struct gs_text *text)
{
    const bool running = config->running;
    char errors[32], bytes[24], count[32], places[32], fate[64] = "leaked";
    const char *end = "";

    if (running) {
        strcpy(fate, "live");
        end = config->is_copy ? "; still running then" : "; still running";
    } else if (config->killed_by) {
        gs_report_killed_fate(config, fate);
    } else if (gs_report_is_live(config)) {
        strcpy(fate, "live");
        end = "; ended without a report";
    }
    if (summary->no_start && summary->errors == 0) {
        gs_text_add(text, "nothing recorded: CUDA did not start");
        return;
    }
    gs_text_add(text, "%s error%s%s, %s %s in %s allocation%s, %s call site%s%s",
                gs_text_count(summary->errors, errors), gs_report_plural(summary->errors),
                running ? " so far" : "", gs_text_bytes(summary->leaked_bytes, bytes),
                fate, gs_text_count(summary->leaked_count, count),
                gs_report_plural(summary->leaked_count),
                gs_text_count(summary->leak_groups, places),
                gs_report_plural(summary->leak_groups), end);
}

static void write_summary(const struct gs_report_writer *writer,
                          const struct gs_report_summary *summary)
{
    gs_text_add(writer->text, "%s%s ", writer->prefix,
                writer->config->running ? "gpushim:" : "SUMMARY: gpushim:");
    gs_report_add_summary(writer->config, summary, writer->text);
    gs_text_add(writer->text, "\n");
}

/* Returns whether another printed leak begins with the same frame, and has other
 * callers: a function through which the program allocates, which alone says little. */
static bool is_wrapper(const struct gs_report_writer *writer,
                       const struct gs_shown_stack *stack)
{
    for (size_t i = 1; stack->count != 0 && i < writer->data->shown; i++) {
        struct gs_shown_stack other = gs_frame_table_show(
            writer->frames, writer->config, writer->data->groups.items[i].stack);
        if (other.count != 0 &&
            gs_report_compare_frames(&stack->frames[0], &other.frames[0]) == 0 &&
            gs_report_compare_stacks(stack, &other) != 0) {
            return true;
        }
    }
    return false;
}

/* Repeats the largest leak in one line, for those who see only the end of a log. */
static void write_largest(const struct gs_report_writer *writer)
{
    const struct gs_report_data *data = writer->data;
    const struct gs_group *largest = data->shown > 0 ? &data->groups.items[0] : NULL;
    char bytes[24];

    if (!largest || writer->config->running || gs_group_weight(largest) == 0) {
        return;
    }
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, largest->stack);
    gs_text_add(writer->text, "%slargest: %s%s %s ", writer->prefix,
                gs_group_is_estimate(largest) ? "about " : "",
                gs_text_bytes(gs_group_shown_bytes(largest), bytes),
                gs_report_is_live(writer->config) ? "live" : "leaked");
    gs_report_where(writer, &stack);
    if (is_wrapper(writer, &stack)) {
        gs_report_caller(writer, &stack);
    }
    gs_text_add(writer->text, "\n");
}

/* What ends the report is what a terminal still shows: first the figures, then the lists
 * of call sites, and of the leaks the largest last. */
static void write_body(struct gs_report_writer *writer)
{
    gs_report_about(writer);
    gs_report_refusal(writer);
    gs_report_devices(writer);
    gs_report_peak_lines(writer);
    gs_report_pools(writer);
    if (writer->config->show_leaks) {
        gs_report_owners(writer);
    }
    if (writer->config->show_leaks && !writer->config->owners_alone) {
        gs_report_scopes(writer);
    }
    gs_report_blank(writer);
    if (writer->config->owners_alone) {
        return;
    }
    gs_report_transfers(writer);
    gs_report_lifetimes(writer);
    gs_report_peaks(writer);
    gs_report_growth(writer);
    if (!writer->config->running) {
        gs_report_errors(writer);
    }
    if (writer->config->show_leaks) {
        gs_report_leaks(writer);
    }
}

/* Writes a run without errors and leaks; its devices and its NVTX ranges if wanted. */
static void write_clean(const struct gs_report_writer *writer)
{
    const bool devices = writer->config->show_devices;

    if (devices) {
        gs_report_about(writer);
        gs_report_devices(writer);
        gs_report_pools(writer);
    }
    if (devices || writer->config->ranges_asked) {
        gs_report_scopes(writer);
    }
    if (writer->data->peaks_printed || writer->data->slow.count != 0 ||
        writer->data->lifetimes_shown != 0) {
        gs_report_blank(writer);
    }
    gs_report_transfers(writer);
    gs_report_lifetimes(writer);
    gs_report_peaks(writer);
}

/* Names of stacks: the first ones; the others; those that are chosen only after the rules
 * were applied; those that are shown only after merging; those that budgets need. */
#define FRAME_TABLES 5

static void add_unnamed(const struct gs_report_writer *writer, struct gs_stack_ids *ids,
                        uint32_t stack)
{
    if (gs_frame_table_show(writer->frames, writer->config, stack).count == 0) {
        gs_stack_ids_add(ids, stack);
    }
}

/* Names the stacks of peaks and registered memory, which the rules do not need. */
static void fill_chosen(const struct gs_report_writer *writer,
                        const struct gs_report_data *data, struct gs_frame_table *table)
{
    struct gs_stack_ids all = {0}, ids = {0};

    gs_stack_ids_add_groups(&all, &data->registered, 0, data->registered_shown);
    gs_report_peak_stacks(writer->config, data, &all);
    for (size_t i = 0; i < all.count; i++) {
        add_unnamed(writer, &ids, all.items[i]);
    }
    free(all.items);
    gs_frame_table_take(table, writer->config, writer->tracker->config.stacks,
                        writer->source, &ids);
}

/* Names the stacks of leaks that are printed only because other leaks were joined. */
static void fill_shown(struct gs_report_writer *writer, const struct gs_report_data *data,
                       struct gs_frame_table *table)
{
    struct gs_stack_ids ids = {0};

    for (size_t i = 0; i < data->shown; i++) {
        add_unnamed(writer, &ids, data->groups.items[i].stack);
    }
    gs_frame_table_take(table, writer->config, writer->tracker->config.stacks,
                        writer->source, &ids);
}

/* Joins leaks that read the same, which lets further leaks be printed. */
static void merge_leaks(struct gs_report_writer *writer, struct gs_report_data *data,
                        struct gs_frame_table frames[FRAME_TABLES], bool all_named)
{
    struct gs_frame_table *more = all_named ? &frames[3] : &frames[1];

    frames[0].rest = &frames[1];
    if (all_named) {
        frames[2].rest = &frames[3];
    }
    if (!gs_report_merge(writer->tracker, writer->config, writer->source, &frames[0],
                         more, data)) {
        return;
    }
    gs_report_choose(writer->config, data);
    if (all_named) {
        return;
    }
    fill_shown(writer, data, &frames[2]);
    frames[1].rest = &frames[2];
}

/* Finds the peak: and deny: rules that were broken. They are rules of files, so the other
 * stacks have names. */
static void judge_budgets(const struct gs_report_writer *writer,
                          struct gs_report_data *data,
                          struct gs_frame_table frames[FRAME_TABLES])
{
    struct gs_stack_ids all = {0}, ids = {0};

    frames[1].rest = &frames[4];
    gs_report_budget_stacks(writer->config, data, &all);
    for (size_t i = 0; i < all.count; i++) {
        add_unnamed(writer, &ids, all.items[i]);
    }
    free(all.items);
    gs_frame_table_take(&frames[4], writer->config, writer->tracker->config.stacks,
                        writer->source, &ids);
    gs_report_judge_budgets(writer->tracker, writer->config, &frames[0], data);
}

/* Marks the leaks and errors that the rules suppress. Rules of files are compared with
 * functions and files, so all stacks need names: first those that are likely printed,
 * then the others in the remaining time. */
static void apply_rules(struct gs_report_writer *writer, struct gs_report_data *data,
                        struct gs_frame_table frames[FRAME_TABLES])
{
    const struct gs_report_config *config = writer->config;
    size_t count = data->groups.count;
    size_t first = count < config->max_groups ? count : config->max_groups;
    bool names = config->rules || gs_suppressions_need_names(config->suppressions);

    memset(frames, 0, FRAME_TABLES * sizeof(*frames));
    if (names) {
        fill_frames(&frames[0], writer, data, 0, first);
        if (first < count) {
            fill_frames(&frames[1], writer, data, first, count);
        }
        frames[0].rest = &frames[1];
    }
    gs_report_suppress(writer->tracker, config, writer->source, names ? &frames[0] : NULL,
                       data);
    gs_report_split_peaks(writer->tracker, writer->source, data);
    if (names) {
        judge_budgets(writer, data, frames);
    }
    gs_report_choose_peaks(config, data);
    gs_report_choose(config, data);
    if (!names && (data->shown > 0 || data->registered_shown > 0 ||
                   data->error_count > 0 || data->peaks_printed || data->slow_shown > 0 ||
                   gs_report_has_hint_sites(data) || config->stack != 0)) {
        fill_frames(&frames[0], writer, data, 0, data->shown);
    }
    if (names) {
        fill_chosen(writer, data, &frames[2]);
        frames[4].rest = &frames[2];
    }
    gs_report_join_peaks(config, &frames[0], data);
    if (writer->text) {
        merge_leaks(writer, data, frames, names);
    }
}

/* Prints why frees take longer than they could, or why freed memory is reused later. Only
 * if the pool has served memory of the kind. */
static void write_uncounted(const struct gs_report_writer *writer)
{
    const struct gs_report_config *config = writer->config;
    bool on_device = false;
    char clean[160];

    for (size_t i = 0; i < config->device_count; i++) {
        on_device = on_device || gs_report_pool_used(&config->devices[i]);
    }
    if (config->order_ended && config->order_ended[0] && on_device &&
        (config->order_used || config->show_devices)) {
        gs_text_add(writer->text,
                    "%sfreed memory is reused only once the GPU has finished with it: %s "
                    "ended the single order of lazy frees\n",
                    writer->prefix,
                    gs_report_clean(config->order_ended, clean, sizeof(clean)));
    }
    if (config->uncounted && config->uncounted[0] && (on_device || config->host_pooled)) {
        gs_text_add(writer->text,
                    "%sfrees take longer, because none finds the GPU idle: %s may submit "
                    "GPU work that gpushim cannot count\n",
                    writer->prefix,
                    gs_report_clean(config->uncounted, clean, sizeof(clean)));
    }
}

static struct gs_hint_place find_place(const void *self, uint32_t id)
{
    const struct gs_report_writer *writer = self;
    struct gs_shown_stack stack = gs_frame_table_show(writer->frames, writer->config, id);

    return (struct gs_hint_place){.call = stack.call,
                                  .frame = stack.count ? stack.frames : NULL};
}

static const struct gs_symbol_request *find_frame(const void *self, uint32_t id,
                                                  unsigned number)
{
    const struct gs_report_writer *writer = self;
    struct gs_shown_stack stack = gs_frame_table_show(writer->frames, writer->config, id);

    return number < stack.count ? &stack.frames[number] : NULL;
}

/* Writes the hints, except after out of memory, which has advice of its own. */
static void write_hints(const struct gs_report_writer *writer)
{
    const struct gs_hint_source source = {.tracker = writer->tracker,
                                          .config = writer->config,
                                          .data = writer->data,
                                          .leaks = writer->data->shown,
                                          .self = writer,
                                          .find = find_place,
                                          .frame = find_frame};
    struct gs_report_hint hint;
    unsigned at = 0;

    while (writer->config->show_hints && !writer->config->refusal &&
           gs_report_next_hint(&source, &at, &hint)) {
        gs_text_add(writer->text, "%sHint: %s\n", writer->prefix, hint.text);
    }
}

/* Writes the lines between the leaks and the SUMMARY. */
static void write_end(const struct gs_report_writer *writer)
{
    write_hints(writer);
    write_uncounted(writer);
    gs_report_cached(writer);
    gs_report_suppressed(writer);
    gs_report_rule_notes(writer);
    gs_report_checks(writer);
    gs_report_proof(writer);
    if (writer->config->show_leaks && !gs_report_is_live(writer->config)) {
        gs_report_advice(writer);
    }
    gs_scan_note(&writer->data->scan, writer->prefix, writer->config->show_devices,
                 writer->text);
    if (writer->data->leaked_count != 0 || writer->data->registered_shown != 0 ||
        writer->data->slow_shown != 0 || gs_report_has_hint_sites(writer->data) ||
        writer->config->stack != 0 ||
        writer->data->error_count != writer->data->suppressed_errors) {
        write_note(writer);
    }
    gs_report_sampled(writer);
}

/* The data of one report at a time; a second report at the same time maps its own. Too
 * large for a stack, and static because there may be no memory left. `data_taken` is
 * atomic. */
static struct gs_report_data own_data;
static bool data_taken;

/* NULL: no memory. */
static struct gs_report_data *take_data(void)
{
    return __atomic_exchange_n(&data_taken, true, __ATOMIC_ACQUIRE)
               ? gs_host_map(sizeof(struct gs_report_data))
               : &own_data;
}

static void release_data(struct gs_report_data *data)
{
    if (data == &own_data) {
        __atomic_store_n(&data_taken, false, __ATOMIC_RELEASE);
    } else {
        gs_host_unmap(data, sizeof(*data));
    }
}

#define FIRST_TEXT_BYTES ((size_t)64 << 10)

void gs_report_write_from(struct gs_tracker *tracker,
                          const struct gs_report_config *config,
                          const struct gs_report_source *source, struct gs_text *text,
                          struct gs_report_summary *summary)
{
    struct gs_report_summary figures = {0};
    struct gs_report_data *data = take_data();
    struct gs_report_source at = *source;
    char clean[160];
    struct gs_frame_table frames[FRAME_TABLES];
    struct gs_owners owners = {0};
    struct gs_shown_paths paths = {.whole = config->full_paths};
    struct gs_report_writer writer = {.tracker = tracker,
                                      .config = config,
                                      .source = &at,
                                      .data = data,
                                      .frames = &frames[0],
                                      .owners = &owners,
                                      .paths = &paths,
                                      .text = text};

    if (summary) {
        *summary = figures;
    }
    if (!data) {
        return;
    }
    if (text) {
        gs_text_reserve(text, FIRST_TEXT_BYTES);
    }
    gs_report_gather(tracker, config, data);
    set_time(tracker, &at);
    apply_rules(&writer, data, frames);
    gs_report_find_oom_advice(&writer);
    figures.errors = data->error_count - data->suppressed_errors;
    figures.leaked_bytes = data->leaked_bytes;
    figures.leaked_count = data->leaked_count;
    figures.leak_groups = data->leak_groups;
    figures.no_start = has_no_start(tracker, config);
    if (text) {
        snprintf(writer.prefix, sizeof(writer.prefix), "==%ld== ", config->pid);
        write_header(&writer);
        if (figures.no_start) {
            gs_text_add(text, "%sNote: CUDA did not start: %s\n", writer.prefix,
                        gs_report_clean(config->no_start, clean, sizeof(clean)));
        }
        gs_report_windows(&writer);
        bool clean_run = figures.errors == 0 && figures.leaked_count == 0 &&
                         data->registered.count == 0 && !config->running;
        if (!clean_run && config->show_leaks) {
            gs_owners_gather(&owners, tracker->config.stacks, source, data, false);
        }
        gs_report_find_paths(&writer);
        if (clean_run) {
            write_clean(&writer);
        } else {
            write_body(&writer);
        }
        write_end(&writer);
        if (config->job) {
            write_files(&writer, &figures);
        }
        if (config->rules) {
            gs_report_rules(&writer, config->rules);
        }
        write_largest(&writer);
        write_summary(&writer, &figures);
    }
    for (size_t i = 0; i < FRAME_TABLES; i++) {
        gs_frame_table_free(&frames[i]);
    }
    gs_shown_paths_free(&paths);
    gs_owners_free(&owners);
    gs_report_data_free(data);
    release_data(data);
    if (summary) {
        *summary = figures;
    }
}

void gs_report_write(struct gs_tracker *tracker, const struct gs_report_config *config,
                     struct gs_text *text, struct gs_report_summary *summary)
{
    if (!tracker || !config) {
        if (summary) {
            *summary = (struct gs_report_summary){0};
        }
        return;
    }
    struct gs_live_source live;
    struct gs_report_source source = gs_report_live(tracker, config, &live);
    gs_report_write_from(tracker, config, &source, text, summary);
}

void gs_report_figures(struct gs_tracker *tracker, const struct gs_report_config *config)
{
    const struct gs_report_summary summary = {0};
    struct gs_report_data *data = take_data();
    struct gs_live_source live;
    struct gs_text names = {0};

    if (!data) {
        return;
    }
    struct gs_report_source source = gs_report_live(tracker, config, &live);
    const struct gs_report_writer writer = {
        .tracker = tracker, .config = config, .source = &source, .data = data};
    gs_report_gather(tracker, config, data);
    set_time(tracker, &source);
    gs_export_run(&writer, &summary, &names);
    gs_text_free(&names);
    gs_report_data_free(data);
    release_data(data);
}
