/*
 * state_read_past.c - reads the past events of a file: totals, errors, lost memory, what
 * a framework's allocator had handed out, the last snapshot of growth, the windows of
 * recording.
 * Owns: nothing.   Lock: none; one thread reads.   Design: docs/state.md
 */
#include "tracker/growth_copy.h"
#include "tracker/host_memory.h"
#include "tracker/statefile/state_read_internal.h"

/*
 * Reads how much was allocated and freed, and the peaks. The counters of threads in the
 * middle of a call may be one ahead of the records, so live memory is the sum of the
 * records read.
 */
static void read_totals(const struct gs_image *image)
{
    struct gs_tracker *tracker = image->out->tracker;
    struct gs_shard *shard = gs_shard_enter(tracker);

    for (unsigned i = 0; i < GS_ROWS; i++) {
        const struct gs_shared_row *was = &image->tracker->shared[i];
        struct gs_shared_row *shared = &tracker->shared[i];
        struct gs_row *row = &shard->rows[i];
        uint64_t live = row->allocs;

        row->allocs = row->failed = 0;
        for (unsigned k = 0; k < GS_SHARDS; k++) {
            row->allocs += image->tracker->shards[k].rows[i].allocs;
            row->failed += image->tracker->shards[k].rows[i].failed;
            gs_image_record_time(image, image->tracker->shards[k].rows[i].tick);
        }
        shared->unrecorded = was->unrecorded;
        shared->lost_bytes = was->lost_bytes;
        shared->lost_count = was->lost_count;
        if (row->allocs < live + was->lost_count) {
            row->allocs = live + was->lost_count;
        }
        row->frees = row->allocs - live - was->lost_count;
        if (was->peak >= shared->peak) {
            shared->peak = shared->mark = was->peak;
            shared->peak_time = was->peak_time;
        }
    }
    gs_shard_leave();
}

static void read_site(const struct gs_image *image, struct gs_free_site *site)
{
    site->stack = gs_image_stack(image, site->stack);
    if (site->api >= image->api_count) {
        site->api = 0;
    }
    gs_image_record_time(image, site->time_ns);
}

static void read_errors(const struct gs_image *image)
{
    struct gs_tracker *tracker = image->out->tracker;
    uint64_t count = image->tracker->error_count;
    uint64_t kept = count < GS_ERRORS_KEPT ? count : GS_ERRORS_KEPT;
    uint64_t read = 0;

    for (uint64_t i = 0; i < kept; i++) {
        struct gs_error error = image->tracker->errors[i];

        gs_image_end_text(error.thread_name, sizeof(error.thread_name));
        gs_image_end_text(error.call, sizeof(error.call));
        gs_image_flag(&error.has_allocation);
        gs_image_flag(&error.has_first_free);
        gs_image_flag(&error.context_lost);
        gs_image_flag(&error.writes);
        error.suppressed_by = error.beyond_rule = 0;
        if ((unsigned)error.kind >= GS_ERROR_KINDS) {
            continue;
        }
        read_site(image, &error.freed);
        read_site(image, &error.first_freed);
        if (error.has_allocation && !gs_image_allocation(image, &error.allocation)) {
            error.has_allocation = error.has_first_free = false;
        }
        tracker->errors[read++] = error;
    }
    tracker->error_count = kept < count ? count : read;
    for (unsigned i = 0; i < GS_CHECK_COUNTS; i++) {
        tracker->checks[i] = image->tracker->checks[i];
    }
}

/* Converts a group of the file to this process; false: the group is not plausible. */
static bool read_group(const struct gs_image *image, struct gs_group *group)
{
    if (group->kind >= GS_MEMORY_KINDS || group->device < 0) {
        return false;
    }
    if (group->api >= image->api_count) {
        group->api = 0;
    }
    group->stack = gs_image_stack(image, group->stack);
    group->suppressed_by = group->beyond_rule = 0;
    group->cached_by = 0;
    if (group->holds > GS_HOLDS_OWNER) {
        group->holds = GS_HOLDS_NOTHING;
    }
    memset(group->found, 0, sizeof(group->found));
    if (!(group->likely_bytes >= 0) || !(group->likely_count >= 0)) {
        group->likely_bytes = (double)group->bytes;
        group->likely_count = (double)group->count;
    }
    return true;
}

static void read_lost(const struct gs_image *image)
{
    size_t count = image->tracker->lost_copied;
    const struct gs_group *groups =
        count < image->bytes ? AT(image, image->tracker->lost_copy, count) : NULL;

    for (size_t i = 0; groups && i < count; i++) {
        struct gs_group group = groups[i];

        if (read_group(image, &group) &&
            gs_groups_add(&image->out->tracker->lost, &group) != GS_OK) {
            return;
        }
    }
}

/* Reads what a framework's allocator had handed out of its memory. A table outside the
 * file, which had no space for it, is unknown. */
static void read_parts(const struct gs_image *image)
{
    const struct gs_cached_parts *was = AT(image, image->tracker->parts, 1);
    const struct gs_part_table *table = was ? AT(image, was->table, 1) : NULL;
    const struct gs_part *slots = NULL;
    struct gs_cached_parts *parts;

    if (table && table->room < image->bytes) {
        slots = gs_image_at(image, (uintptr_t)was->table + sizeof(*table),
                            table->room * sizeof(*slots), __alignof__(*slots));
    }
    if (!slots || was->lost || !(parts = gs_cached_parts_create(NULL))) {
        return;
    }
    for (uint64_t i = 0; i < table->room; i++) {
        struct gs_part part = slots[i];

        if (part.addr == 0) {
            continue;
        }
        if (part.time_ns > GS_TIME_MAX * GS_TIME_UNIT_NS) {
            part.time_ns = GS_TIME_MAX * GS_TIME_UNIT_NS;
        }
        part.stack = gs_image_stack(image, part.stack);
        gs_image_record_time(image, part.time_ns);
        gs_cached_parts_add(parts, &part); /* once, if it was being moved */
    }
    parts->handed_out = was->handed_out;
    for (size_t i = 0; i < GS_ARRAY_LEN(parts->grown); i++) {
        parts->grown[i] = was->grown[i];
        parts->grown[i].stack = gs_image_stack(image, parts->grown[i].stack);
    }
    image->out->tracker->parts = parts;
}

static void read_grown(const struct gs_image *image)
{
    for (size_t i = 0; i < GS_GROWN_SITES; i++) {
        struct gs_grown_site *site = &image->out->tracker->grown[i];
        *site = image->tracker->grown[i];
        site->stack = gs_image_stack(image, site->stack);
    }
}

/* Returns true if the trend is plausible for that snapshot. */
static bool is_trend(const struct gs_growing *growing, const struct gs_growth_sums *sums)
{
    const struct gs_trend *trend = &growing->trend;

    return trend->base_bytes <= growing->group.bytes &&
           trend->since_snapshot < sums->snapshots &&
           trend->grown < sums->snapshots - trend->since_snapshot;
}

static void read_growth(const struct gs_image *image)
{
    const struct gs_growth_copy *copy = AT(image, image->tracker->growth_copy, 1);
    const size_t bytes = GS_GROWING_COPIED * sizeof(struct gs_growing);
    struct gs_growing *growing;
    size_t count = 0;

    if (!copy || copy->current < 1 || copy->current > GS_ARRAY_LEN(copy->copies)) {
        return;
    }
    growing = gs_host_map(bytes); /* too large for a small stack */
    if (!growing) {
        return;
    }
    const struct gs_growth_saved *last = &copy->copies[copy->current - 1];
    for (size_t i = 0; i < last->count && i < GS_GROWING_COPIED; i++) {
        growing[count] = last->growing[i];
        if (is_trend(&growing[count], &last->sums) &&
            read_group(image, &growing[count].group)) {
            count++;
        }
    }
    gs_image_record_time(image, last->sums.time_ns);
    image->out->growth = gs_growth_of(&last->sums, growing, count);
    gs_host_unmap(growing, bytes);
}

static void read_windows(const struct gs_image *image)
{
    const struct gs_tracker *was = image->tracker;
    struct gs_tracker *tracker = image->out->tracker;

    tracker->switches = was->switches;
    tracker->first_switch_ns = was->first_switch_ns;
    memcpy(tracker->switch_ns, was->switch_ns, sizeof(tracker->switch_ns));
    gs_image_record_time(image, tracker->switch_ns[tracker->switches % GS_SWITCHES_KEPT]);
    memcpy(&tracker->resampled, &was->resampled, sizeof(tracker->resampled));
    if (image->stacks) {
        atomic_store(&image->out->stacks->refused, atomic_load(&image->stacks->refused));
    }
}

void gs_image_past(const struct gs_image *image)
{
    read_totals(image);
    read_errors(image);
    read_lost(image);
    read_parts(image);
    read_grown(image);
    read_growth(image);
    read_windows(image);
    gs_image_scopes(image);
}
