/*
 * report_gather.c - gathers the contents of the report: leaks in groups, errors.
 * Owns: a struct gs_report_data while it is filled.   Lock: none of its own.
 */
#include "gs_compare.h"
#include "tracker/likely.h"
#include "tracker/report/report_internal.h"

#include <stdlib.h>

/* The most call sites with a hint of one kind. */
#define HINTS_MOST 5u
/* Rows of the table of lifetimes; a file has them all. */
#define LIFETIMES_MOST 12u

struct gather {
    struct gs_report_data *data;
    const struct gs_tracker *tracker;
    const uint16_t *canonical; /* api -> first api of the same name; NULL: as it is */
    size_t canonical_count;
};

/* Adds an allocation, or a part of one, to the leaks, to registered memory, or to memory
 * without a stack. */
static void add_part(void *self, struct gs_group *part)
{
    struct gather *gather = self;
    struct gs_report_data *data = gather->data;

    if (part->api < gather->canonical_count) {
        part->api = gather->canonical[part->api];
    }
    if (gs_totals_row(part->device, part->kind) == GS_ROW_REGISTERED) {
        /* Without memory for a group only the totals count it. */
        enum gs_status status = gs_groups_add(&data->registered, part);
        (void)status;
        return;
    }
    data->leaked_bytes += gs_group_weight(part);
    data->leaked_count += part->count;
    if (gs_stack_left_out(part->stack) && gs_groups_add(&data->unplaced, part) == GS_OK) {
        data->unplaced_bytes += gs_group_weight(part);
        data->unplaced_count += part->count;
        return;
    }
    if (gs_groups_add(&data->groups, part) != GS_OK) {
        return; /* counted above; the report prints the missing amount */
    }
    data->grouped_bytes += gs_group_weight(part);
    data->grouped_count += part->count;
}

static enum gs_group_holds holds_of(const struct gs_part_list *parts,
                                    const struct gs_allocation *allocation)
{
    if (gs_key_is_handle(allocation->addr)) {
        return GS_HOLDS_UNKNOWN;
    }
    size_t first;
    return gs_part_list_within(parts, allocation->addr, allocation->bytes, &first)
               ? GS_HOLDS_PARTS
               : GS_HOLDS_NOTHING;
}

static bool visit_live(void *arg, const struct gs_allocation *allocation)
{
    struct gather *gather = arg;
    struct gs_group part = gs_group_of(gather->tracker, allocation);
    unsigned row = gs_totals_row(allocation->device, allocation->kind);

    gather->data->totals[row].live_bytes += allocation->bytes;
    gather->data->totals[row].live_count++;
    part.found[gs_scan_result(&gather->data->scan, allocation->addr)] = 1;
    if (gather->data->parts.known) {
        part.holds = (uint8_t)holds_of(&gather->data->parts, allocation);
    }
    if (part.holds == GS_HOLDS_PARTS) {
        const struct gs_part_list *parts = &gather->data->parts;
        if (gs_part_list_split(parts, allocation->addr, &part, add_part, gather)) {
            return true;
        }
        if (gs_part_list_all_kept(parts, allocation->addr, allocation->bytes)) {
            part.holds = GS_HOLDS_NOTHING; /* without their stacks, as cached */
        }
    }
    add_part(gather, &part);
    return true;
}

/* Adds lost groups, and the lost memory that only the totals know. Registered memory ends
 * with its context, and is not lost. */
static void gather_lost(struct gs_tracker *tracker, struct gather *gather)
{
    struct gs_report_data *data = gather->data;
    uint64_t bytes = 0, count = 0;

    gs_tracker_lock_take(&tracker->lost_lock, GS_RANK_LOST);
    for (size_t i = 0; i < tracker->lost.count; i++) {
        struct gs_group part = tracker->lost.items[i];
        if (gs_totals_row(part.device, part.kind) == GS_ROW_REGISTERED) {
            continue;
        }
        bytes += gs_group_weight(&part);
        count += part.count;
        add_part(gather, &part);
    }
    gs_tracker_lock_give(&tracker->lost_lock, GS_RANK_LOST);
    for (unsigned row = 0; row < GS_ROWS; row++) {
        struct gs_shared_row *shared = &tracker->shared[row];
        if (row == GS_ROW_REGISTERED) {
            continue;
        }
        if (row != GS_ROW_VIEWS) {
            data->leaked_bytes += __atomic_load_n(&shared->lost_bytes, __ATOMIC_RELAXED);
        }
        data->leaked_count += __atomic_load_n(&shared->lost_count, __ATOMIC_RELAXED);
    }
    data->leaked_bytes -= bytes;
    data->leaked_count -= count;
}

/* Maps calls of one name to one number, whatever version of the symbol was called. */
static uint16_t *canonical_apis(const struct gs_tracker_config *config)
{
    size_t count = config->api_count < UINT16_MAX ? config->api_count : UINT16_MAX;
    uint16_t *canonical = calloc(count ? count : 1, sizeof(*canonical));

    for (size_t i = 0; canonical && i < count; i++) {
        const char *name = config->api_names[i];
        size_t same = 0;
        while (same < i && (!name || !config->api_names[same] ||
                            strcmp(name, config->api_names[same]) != 0)) {
            same++;
        }
        canonical[i] = (uint16_t)same;
    }
    return canonical;
}

/* The largest first; the other keys only make the order reproducible. */
static int compare_groups(const void *left, const void *right)
{
    const struct gs_group *a = left, *b = right;

    return GS_FALLING(a->likely_bytes, b->likely_bytes) ?:
        GS_FALLING(a->bytes, b->bytes) ?: GS_FALLING(a->count, b->count) ?:
        GS_RISING(a->oldest_ns, b->oldest_ns) ?: GS_RISING(a->stack, b->stack) ?:
        GS_RISING(a->api, b->api);
}

void gs_report_sort(struct gs_group *groups, size_t count)
{
    if (count > 0) {
        qsort(groups, count, sizeof(*groups), compare_groups);
    }
}

static void sort(struct gs_groups *groups)
{
    gs_report_sort(groups->items, groups->count);
}

/*
 * Takes the totals that go with the groups and the peaks. While threads allocate, totals
 * read later have a peak of their own, and other live memory.
 */
static void take_totals(struct gs_tracker *tracker, const struct gs_report_config *config,
                        struct gs_report_data *data)
{
    for (unsigned row = 0; row < GS_ROWS; row++) {
        const struct gs_tracker_totals visited = data->totals[row];
        struct gs_tracker_totals *out = &data->totals[row];

        gs_tracker_get_totals(tracker, gs_totals_device(row), out);
        if (row < GS_PEAK_ROWS && data->peaks[row].bytes != 0) {
            out->peak_bytes = data->peaks[row].bytes;
            out->peak_time_ns = data->peaks[row].time_ns;
        }
        if (config->running) {
            out->live_bytes = visited.live_bytes;
            out->live_count = visited.live_count;
        }
        if (out->live_bytes > out->peak_bytes) {
            out->live_bytes = out->peak_bytes;
        }
    }
}

/* Scales the estimates of sampled call sites to the memory without a stack. */
static void scale_estimates(struct gs_report_data *data)
{
    struct gs_groups *all[] = {&data->groups, &data->registered, &data->unplaced};
    struct gs_likely_sums *sums = gs_likely_sums_create();

    for (size_t i = 0; sums && i < GS_ARRAY_LEN(all); i++) {
        for (size_t k = 0; k < all[i]->count; k++) {
            gs_likely_sums_add(sums, &all[i]->items[k]);
        }
    }
    for (size_t i = 0; sums && i < GS_ARRAY_LEN(all); i++) {
        for (size_t k = 0; k < all[i]->count; k++) {
            gs_likely_scale(sums, &all[i]->items[k]);
        }
    }
    gs_likely_sums_destroy(sums);
}

void gs_report_gather(struct gs_tracker *tracker, const struct gs_report_config *config,
                      struct gs_report_data *data)
{
    memset(data, 0, sizeof(*data));
    uint16_t *canonical = canonical_apis(&tracker->config);
    struct gather gather = {.data = data, .tracker = tracker, .canonical = canonical};

    if (canonical) {
        gather.canonical_count = tracker->config.api_count < UINT16_MAX
                                     ? tracker->config.api_count
                                     : UINT16_MAX;
    }
    if (config->scan) {
        gs_scan_run(tracker, config->scan, &data->scan);
    }
    data->parts =
        gs_cached_parts_copy(__atomic_load_n(&tracker->parts, __ATOMIC_ACQUIRE));
    data->grown_parts = gs_cached_parts_grown(
        __atomic_load_n(&tracker->parts, __ATOMIC_ACQUIRE), data->grown_part);
    gs_part_list_judge_kept(&data->parts,
                            config->running || config->killed || config->caches_leak);
    gs_records_visit(tracker, visit_live, &gather);
    gather_lost(tracker, &gather);
    data->grown_count = gs_grown_freed(tracker, &data->groups, data->grown);
    if (gs_tracker_is_sampled(tracker)) {
        scale_estimates(data);
    }
    sort(&data->groups);
    sort(&data->registered);
    sort(&data->unplaced);
    data->leak_groups = data->groups.count;

    uint64_t recorded = gs_tracker_error_count(tracker);
    data->errors_kept = gs_errors_copy(tracker, data->errors);
    data->errors_more = recorded > data->errors_kept ? recorded - data->errors_kept : 0;
    data->error_count = data->errors_more;
    for (size_t i = 0; i < data->errors_kept; i++) {
        data->error_count += 1 + data->errors[i].repeats;
    }
    gs_report_gather_peaks(tracker, config, canonical, gather.canonical_count, data);
    gs_report_gather_calls(tracker, config, canonical, gather.canonical_count, data);
    gs_report_scopes_gather(tracker, &data->scopes);
    take_totals(tracker, config, data);
    free(canonical);
    if (config->transfers) {
        data->slow = gs_transfers_slow(config->transfers);
    }
    data->slow_shown =
        data->slow.count < config->max_groups ? data->slow.count : config->max_groups;
    if (config->churn) {
        data->churn = gs_churn_copy(config->churn);
    }
    if (config->pinned) {
        data->pinned = gs_pinned_uses_copy(config->pinned);
    }
    data->pinned_shown =
        data->pinned.count < HINTS_MOST ? data->pinned.count : HINTS_MOST;
    data->churn_shown =
        data->churn.much_count < HINTS_MOST ? data->churn.much_count : HINTS_MOST;
    data->lifetimes_shown = !config->show_pool                   ? 0
                            : data->churn.count < LIFETIMES_MOST ? data->churn.count
                                                                 : LIFETIMES_MOST;
}

/* Returns how many of the first `count` groups to print. */
static size_t choose(const struct gs_groups *groups, size_t count,
                     const struct gs_report_config *config)
{
    size_t shown = 0;

    while (config->show_leaks && shown < count && shown < config->max_groups &&
           groups->items[shown].likely_bytes >= (double)config->min_leak_bytes) {
        shown++;
    }
    return shown;
}

void gs_report_choose(const struct gs_report_config *config, struct gs_report_data *data)
{
    data->shown = choose(&data->groups, data->leak_groups, config);
    data->registered_shown = choose(&data->registered, data->registered.count, config);
}

void gs_report_data_free(struct gs_report_data *data)
{
    gs_scan_free(&data->scan);
    gs_part_list_free(&data->parts);
    free(data->uses);
    free(data->slow.sites);
    gs_samples_free(&data->calls);
    free(data->churn.sites);
    free(data->pinned.sites);
    gs_report_scopes_free(&data->scopes);
    gs_groups_free(&data->groups);
    gs_groups_free(&data->registered);
    gs_groups_free(&data->unplaced);
    for (size_t i = 0; i < GS_PEAK_ROWS; i++) {
        gs_peak_free(&data->peaks[i]);
    }
}
