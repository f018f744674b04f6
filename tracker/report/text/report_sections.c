/*
 * report_sections.c - prints errors and leaks, with their stacks.
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>

void gs_report_about(const struct gs_report_writer *writer)
{
    const struct gs_report_config *config = writer->config;
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, config, config->stack);
    char clean[256];

    if (config->note) {
        gs_text_add(writer->text, "%s%s\n", writer->prefix,
                    gs_report_clean(config->note, clean, sizeof(clean)));
    }
    if (config->killed) {
        gs_text_add(writer->text, "%sNote: %s. This is its memory at that moment.\n",
                    writer->prefix,
                    config->killed_by ? "The process was killed"
                                      : "The process ended without a report");
    }
    if (config->stack != 0 && stack.count != 0) {
        gs_report_stack(writer, &stack);
    }
    if (config->note || config->stack != 0) {
        gs_report_blank(writer);
    }
}

/* ---- names ------------------------------------------------------------------------ */

/* The location of each kind of memory. */
static const struct place {
    const char *text;
    bool on_device; /* the device is appended */
} kind_places[GS_MEMORY_KINDS] = {
#define GPU(name)                                   .text = name, .on_device = true
#define HOST(name)                                  .text = name
#define GS_MEMORY_KIND(name, word, row, place, doc) {place},
#include "tracker/kinds.def"
#undef GS_MEMORY_KIND
#undef HOST
#undef GPU
};

/* Returns the location of memory: "GPU 0", "managed memory, GPU 0", "pinned host
 * memory". */
const char *gs_report_memory_name(unsigned kind, int device, char out[64])
{
    const struct place *place = &kind_places[kind < GS_MEMORY_KINDS ? kind : 0];

    if (place->on_device) {
        snprintf(out, 64, "%sGPU %d", place->text, device);
    } else {
        snprintf(out, 64, "%s", place->text);
    }
    return out;
}

const char *gs_report_error_name(enum gs_error_kind kind)
{
    static const char *const names[GS_ERROR_KINDS] = {
        [GS_ERROR_DOUBLE_FREE] = "double free",
        [GS_ERROR_INVALID_FREE] = "invalid free",
        [GS_ERROR_MISMATCHED_FREE] = "mismatched free",
        [GS_ERROR_DAMAGE_BEHIND] = "overrun",
        [GS_ERROR_WRITE_AFTER_FREE] = "write after free",
        [GS_ERROR_USE_AFTER_FREE] = "use after free",
        [GS_ERROR_OVERRUN] = "overrun",
        [GS_ERROR_UNDERRUN] = "underrun",
        [GS_ERROR_STRAY_USE] = "use of memory that is nobody's",
        [GS_ERROR_NOT_IDLE] = "idle check failed",
        [GS_ERROR_STALE_HANDLE] = "use of a destroyed event",
        [GS_ERROR_RELEASED_USE] = "use of released memory",
        [GS_ERROR_OVER_BUDGET] = "budget exceeded",
        [GS_ERROR_DENIED_CALL] = "denied call",
    };

    return names[kind];
}

/* ---- errors ----------------------------------------------------------------------- */

static void write_error_title(const struct gs_report_writer *writer, size_t number,
                              const struct gs_error *error, const char *call)
{
    char bytes[24], place[64];

    gs_text_add(writer->text, "%sERROR %zu: %s of %s0x%llx (", writer->prefix, number,
                gs_report_error_name(error->kind),
                gs_key_is_handle(error->addr) ? "handle " : "",
                (unsigned long long)gs_key_value(error->addr));
    if (error->has_allocation && error->offset == 0) {
        gs_text_add(writer->text, "%s, %s, ",
                    gs_text_bytes(error->allocation.bytes, bytes),
                    gs_report_memory_name(error->allocation.kind,
                                          error->allocation.device, place));
    } else if (error->device >= 0) {
        gs_text_add(writer->text, "GPU %d, ", error->device);
    }
    gs_text_add(writer->text, "%s)\n", call);
}

void gs_report_site(const struct gs_report_writer *writer, const char *what,
                    const struct gs_free_site *site, const char *thread_name)
{
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, site->stack);
    char duration[24], clean[32];

    gs_text_add(writer->text, "%s  %s at %s", writer->prefix, what,
                gs_text_duration(site->time_ns, duration));
    if (site->thread != 0) {
        gs_text_add(writer->text, " by thread %u", site->thread);
    }
    if (thread_name && thread_name[0]) {
        gs_text_add(writer->text, " \"%s\"",
                    gs_report_clean(thread_name, clean, sizeof(clean)));
    }
    if (site->api != 0 && site->api == writer->config->launch_api) {
        gs_text_add(writer->text, ", by the launch of a graph");
    }
    if (stack.count == 0) {
        gs_text_add(writer->text, " (no call stack recorded%s)",
                    thread_name ? "" : ": GPUSHIM_STACK=free");
    }
    gs_text_add(writer->text, "\n");
    if (stack.count != 0) {
        gs_report_stack(writer, &stack);
    }
}

static void write_allocated(const struct gs_report_writer *writer,
                            const struct gs_allocation *allocation)
{
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, allocation->stack);
    char duration[24];

    gs_text_add(writer->text, "%s  allocated at %s", writer->prefix,
                gs_text_duration(allocation->time_ns, duration));
    if (allocation->thread != 0) {
        gs_text_add(writer->text, " by thread %u", allocation->thread);
    }
    gs_text_add(writer->text, " with %s\n",
                gs_report_call(writer, &stack, allocation->api));
    gs_report_stack(writer, &stack);
}

/* Prints damaged memory. */
static void write_damage(const struct gs_report_writer *writer, size_t number,
                         const struct gs_error *error)
{
    const bool behind = error->kind == GS_ERROR_DAMAGE_BEHIND;
    const struct gs_allocation *was = &error->allocation;
    struct gs_shown_stack made =
        gs_frame_table_show(writer->frames, writer->config, was->stack);
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, error->freed.stack);
    char bytes[24], place[64], changed[32], first[32], found[96];

    gs_text_add(writer->text,
                "%sERROR %zu: %s %s 0x%llx (%s, %s, %s): %s byte%s changed%s, first at "
                "+%s\n",
                writer->prefix, number, gs_report_error_name(error->kind),
                behind ? "of" : "to", (unsigned long long)error->addr,
                gs_text_bytes(was->bytes, bytes),
                gs_report_memory_name(was->kind, was->device, place),
                gs_report_call(writer, &made, was->api),
                gs_text_count(error->changed_bytes, changed),
                gs_report_plural(error->changed_bytes), behind ? " past its end" : "",
                gs_text_count(error->first_changed, first));
    if (error->freed.api != 0) {
        snprintf(found, sizeof(found), "found by %.80s",
                 gs_report_call(writer, &stack, error->freed.api));
        gs_report_site(writer, found, &error->freed, error->thread_name);
    } else {
        gs_text_add(writer->text, "%s  found at the last check, at %s\n", writer->prefix,
                    gs_text_duration(error->freed.time_ns, changed));
    }
    if (error->has_first_free) {
        gs_report_site(writer, "freed", &error->first_freed, NULL);
    }
    write_allocated(writer, was);
    gs_report_beyond(writer, error->beyond_rule);
    gs_report_blank(writer);
}

void gs_report_end_of(const struct gs_report_writer *writer, const struct gs_error *error)
{
    char duration[24];

    if (error->context_lost) {
        gs_text_add(writer->text, "%s  its context was destroyed or reset at %s\n",
                    writer->prefix,
                    gs_text_duration(error->first_freed.time_ns, duration));
    } else if (error->has_first_free) {
        gs_report_site(writer, gs_error_is_use(error) ? "freed" : "first freed",
                       &error->first_freed, NULL);
    }
    if (error->has_allocation) {
        write_allocated(writer, &error->allocation);
    }
    gs_report_beyond(writer, error->beyond_rule);
}

void gs_report_repeats(const struct gs_report_writer *writer,
                       const struct gs_error *error)
{
    char count[32];

    if (error->repeats != 0) {
        gs_text_add(writer->text, "%s  and %s more time%s from there\n", writer->prefix,
                    gs_text_count(error->repeats, count),
                    gs_report_plural(error->repeats));
    }
}

static void write_error(const struct gs_report_writer *writer, size_t number,
                        const struct gs_error *error)
{
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, error->freed.stack);
    static const char *const host[] = {
        [GS_HOST_UNKNOWN] = "",
        [GS_HOST_STACK] = "; it is in the stack of a thread",
        [GS_HOST_HEAP] = "; it is in the heap",
        [GS_HOST_DATA] = "; it is in the data of the program or a library",
    };
    char offset[32], bytes[24];

    write_error_title(writer, number, error,
                      gs_report_call(writer, &stack, error->freed.api));
    if (error->offset != 0) {
        gs_text_add(writer->text,
                    "%s  %s byte%s into a live allocation of %s at 0x%llx\n",
                    writer->prefix, gs_text_count(error->offset, offset),
                    gs_report_plural(error->offset),
                    gs_text_bytes(error->allocation.bytes, bytes),
                    (unsigned long long)error->allocation.addr);
    } else if (!error->has_allocation) {
        gs_text_add(writer->text, "%s  not a live or recently freed %s%s\n",
                    writer->prefix,
                    gs_key_is_handle(error->addr) ? "handle" : "allocation",
                    host[error->host < GS_HOST_REGIONS ? error->host : 0]);
    }
    gs_report_site(writer, error->kind == GS_ERROR_DOUBLE_FREE ? "freed again" : "freed",
                   &error->freed, error->thread_name);
    gs_report_repeats(writer, error);
    gs_report_end_of(writer, error);
    gs_report_blank(writer);
}

void gs_report_errors(const struct gs_report_writer *writer)
{
    const struct gs_report_data *data = writer->data;
    uint64_t more = data->errors_more;
    char count[32];

    for (size_t i = 0, number = 0; i < data->errors_kept; i++) {
        const struct gs_error *error = &data->errors[i];

        if (error->suppressed_by != 0) {
            continue;
        }
        if (gs_error_is_use(error)) {
            gs_report_use(writer, ++number, error);
        } else if (gs_error_is_damage(error)) {
            write_damage(writer, ++number, error);
        } else if (error->kind == GS_ERROR_NOT_IDLE) {
            gs_report_not_idle(writer, ++number, error);
        } else if (gs_error_is_broken_rule(error)) {
            gs_report_broken(writer, ++number, error);
        } else {
            write_error(writer, ++number, error);
        }
    }
    if (more != 0) {
        gs_text_add(writer->text, "%s%s more error%s, only counted\n", writer->prefix,
                    gs_text_count(more, count), gs_report_plural(more));
        gs_report_blank(writer);
    }
}

/* Prints the omitted checks. */
void gs_report_checks(const struct gs_report_writer *writer)
{
    static const char *const why[] = {
#define GS_CHECK(name, key, text) text,
#include "tracker/checks.def"
    };
    const uint64_t *checks = writer->tracker->checks;
    uint64_t counts[GS_CHECK_COUNTS], missed = 0;
    char count[32], all[32];

    for (size_t i = 0; i < GS_CHECK_COUNTS; i++) {
        counts[i] = __atomic_load_n(&checks[i], __ATOMIC_RELAXED);
        missed += i == GS_CHECK_DONE ? 0 : counts[i];
    }
    if (missed == 0) {
        return;
    }
    gs_text_add(writer->text, "%sNot checked: %s of %s (", writer->prefix,
                gs_text_count(missed, count),
                gs_text_count(missed + counts[GS_CHECK_DONE], all));
    const char *comma = "";
    for (size_t i = 0; i < GS_ARRAY_LEN(why); i++) {
        if (counts[i] == 0) {
            continue;
        }
        gs_text_add(writer->text, "%s%s %s", comma, gs_text_count(counts[i], count),
                    why[i]);
        comma = ", ";
    }
    gs_text_add(writer->text, "): docs/checks.md\n");
}

/* ---- leaks ------------------------------------------------------------------------ */

static uint64_t age(const struct gs_report_writer *writer, uint64_t time_ns)
{
    uint64_t now = writer->source->now_ns;

    return now > time_ns ? now - time_ns : 0;
}

/* Ages that differ by less are one, and a smaller age is not worth a word. */
#define AGE_STEP_NS 1000000u

/* "oldest 3.20 s, newest 12.1 ms, ", or "age 3.20 s, " for one age; "" for none. Returns
 * `out`. */
static const char *write_ages(const struct gs_report_writer *writer,
                              const struct gs_group *group, char out[80])
{
    uint64_t oldest_ns = age(writer, group->oldest_ns),
             newest_ns = age(writer, group->newest_ns);
    char oldest[24], newest[24];

    gs_text_duration(oldest_ns, oldest);
    gs_text_duration(newest_ns, newest);
    if (oldest_ns >= newest_ns + AGE_STEP_NS && strcmp(oldest, newest) != 0) {
        snprintf(out, 80, "oldest %s, newest %s, ", oldest, newest);
    } else if (oldest_ns >= AGE_STEP_NS) {
        snprintf(out, 80, "age %s, ", oldest);
    } else {
        out[0] = '\0';
    }
    return out;
}

void gs_report_call_line(const struct gs_report_writer *writer,
                         const struct gs_group *group, const char *call, const char *fate)
{
    char place[64], ages[80];

    gs_text_add(writer->text, "%s  %s, %s, %s%s\n", writer->prefix,
                gs_group_is_parts(group)
                    ? GS_REPORT_PART
                    : gs_report_call_name(writer->tracker, call, group->api),
                gs_report_memory_name(group->kind, group->device, place),
                write_ages(writer, group, ages), fate);
}

/* Writes the call line of a call site, and its stack. */
static void write_call_site(const struct gs_report_writer *writer,
                            const struct gs_group *group, const char *fate)
{
    struct gs_shown_stack stack =
        gs_frame_table_show(writer->frames, writer->config, group->stack);

    gs_report_call_line(writer, group, stack.call, fate);
    gs_report_beyond(writer, group->beyond_rule);
    gs_report_stack(writer, &stack);
    gs_report_blank(writer);
}

const char *gs_report_fate(const struct gs_report_config *config,
                           const struct gs_group *group, char out[160])
{
    if (!group->lost && config->running) {
        return "live";
    }
    return !group->lost && config->killed ? gs_report_killed_fate(config, out)
                                          : gs_scan_fate(group, out);
}

static void write_leak(const struct gs_report_writer *writer, size_t number,
                       const struct gs_group *group)
{
    char bytes[24], count[32], percent[16], fate[160];
    bool estimate = gs_group_is_estimate(group);
    uint64_t all = gs_group_shown_bytes(group), likely = gs_group_shown_count(group);
    uint64_t part = all < writer->data->leaked_bytes ? all : writer->data->leaked_bytes;

    gs_text_add(writer->text, "%s%s %zu: %s%s in %s allocation%s ", writer->prefix,
                gs_report_is_live(writer->config) ? "LIVE" : "LEAK", number,
                estimate ? "about " : "", gs_text_bytes(all, bytes),
                gs_text_count(likely, count), gs_report_plural(likely));
    if (gs_group_weight(group) == group->bytes) {
        gs_text_add(writer->text, "(%s %% of %s)%s",
                    gs_report_percent(part, writer->data->leaked_bytes, percent),
                    gs_report_is_live(writer->config) ? "live" : "leaked",
                    gs_growth_has(writer->config->growth, group) ? ", still growing"
                                                                 : "");
    } else {
        gs_text_add(writer->text, "(no memory of its own)");
    }
    if (estimate) {
        gs_text_add(writer->text, ", by %s sampled", gs_text_count(group->count, count));
    }
    gs_text_add(writer->text, "\n");
    write_call_site(writer, group, gs_report_fate(writer->config, group, fate));
}

/* Prints memory that the program page-locked and has not unlocked: no leak. */
static void write_registered(const struct gs_report_writer *writer)
{
    const struct gs_report_data *data = writer->data;
    char bytes[24], count[32];

    for (size_t i = data->registered_shown; i > 0; i--) {
        const struct gs_group *group = &data->registered.items[i - 1];

        gs_text_add(writer->text, "%sREGISTERED %zu: %s in %s range%s\n", writer->prefix,
                    i, gs_text_bytes(group->bytes, bytes),
                    gs_text_count(group->count, count), gs_report_plural(group->count));
        write_call_site(writer, group,
                        writer->config->running ? "registered"
                                                : "still registered at exit");
    }
}

/* Prints the sum of the leaks that are not printed. */
static void write_more(const struct gs_report_writer *writer)
{
    const struct gs_report_data *data = writer->data;
    size_t more = data->leak_groups - data->shown;
    double likely_bytes = 0, likely_count = 0;
    uint64_t all = 0;
    char places[32], bytes[24], count[32];

    for (size_t i = data->shown; i < data->leak_groups; i++) {
        const struct gs_group *group = &data->groups.items[i];

        likely_bytes += gs_group_weight(group) != 0 ? group->likely_bytes : 0;
        likely_count += group->likely_count;
    }
    all = gs_likely(likely_count);
    if (more != 0) {
        gs_text_add(writer->text,
                    "%s%s more call site%s: %s%s in %s allocation%s "
                    "(GPUSHIM_LEAK_MAX=N%s more)\n",
                    writer->prefix, gs_text_count(more, places), gs_report_plural(more),
                    gs_tracker_is_sampled(writer->tracker) ? "about " : "",
                    gs_text_bytes(gs_likely(likely_bytes), bytes),
                    gs_text_count(all, count), gs_report_plural(all),
                    writer->config->min_leak_bytes ? ", GPUSHIM_LEAK_MIN_BYTES=0 list"
                                                   : " lists");
    }
}

void gs_report_leaks(const struct gs_report_writer *writer)
{
    const struct gs_report_data *data = writer->data;
    uint64_t lacking = gs_report_not_grouped(data);
    size_t more = data->leak_groups - data->shown;
    char bytes[24], count[32];

    write_registered(writer);
    write_more(writer);
    gs_report_unplaced(writer);
    if (lacking != 0) {
        gs_text_add(
            writer->text, "%s%s in %s allocation%s not grouped: out of memory\n",
            writer->prefix,
            gs_text_bytes(data->leaked_bytes - data->grouped_bytes - data->unplaced_bytes,
                          bytes),
            gs_text_count(lacking, count), gs_report_plural(lacking));
    }
    if (more != 0 || data->unplaced.count != 0 || lacking != 0) {
        gs_report_blank(writer);
    }
    for (size_t i = data->shown; i > 0; i--) { /* the largest ends the report */
        write_leak(writer, i, &data->groups.items[i - 1]);
    }
}
