/*
 * report_hints.c - what a run had too much of, and what to do about it, a line each.
 *
 * A small or healthy program gets none: a ratio counts only where there was enough of it
 * to matter.
 *
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "Hints"
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>

/* More allocations than this at the exit are hardly kept on purpose. */
#define NOT_FREED_MOST 1000u

/* Too few requests were hits below this part, among as many requests as this, if their
 * sum is this many times the peak: else there was no freed memory to hit. */
#define HITS_PART     2u
#define REQUESTS_MANY 1000u
#define REUSED_OFTEN  4u

/* Fragmentation, in percent: of the free memory outside the largest piece, and of the
 * pool's memory in segments with live blocks. */
#define FRAGMENTED_PERCENT 30u
#define FRAGMENTED_BYTES   (64 * GS_MIB)

static bool is_part(uint64_t part, uint64_t whole, unsigned percent)
{
    return part > whole / 100 * percent;
}

static bool find_not_freed(const struct gs_report_config *config,
                           const struct gs_report_data *data, struct gs_report_hint *out)
{
    char count[32];

    if (config->running || config->killed || !config->show_leaks || config->growth ||
        data->leaked_count <= NOT_FREED_MOST) {
        return false;
    }
    out->name = "not freed";
    snprintf(out->text, sizeof(out->text),
             "%s allocations were not freed: GPUSHIM_INTERVAL=stats:1m lists the call "
             "sites that grow",
             gs_text_count(data->leaked_count, count));
    return true;
}

static bool find_hits(const struct gs_report_data *data,
                      const struct gs_report_device *device, unsigned ordinal,
                      struct gs_report_hint *out)
{
    char driver[32], all[32];

    if (device->pool_allocs < REQUESTS_MANY ||
        device->pool_hits >= device->pool_allocs / HITS_PART ||
        device->requested_bytes / REUSED_OFTEN < data->totals[ordinal].peak_bytes) {
        return false;
    }
    out->name = "few hits";
    snprintf(out->text, sizeof(out->text),
             "GPU %u: the driver served %s of %s requests: gpushim advise finds settings "
             "with fewer driver calls from a trace of the run (GPUSHIM_TRACE_FILE)",
             ordinal, gs_text_count(device->pool_allocs - device->pool_hits, driver),
             gs_text_count(device->pool_allocs, all));
    return true;
}

bool gs_report_may_be_fragmented(const struct gs_report_device *device)
{
    return device->idle_bytes >= FRAGMENTED_BYTES &&
           is_part(device->idle_bytes, device->reserved_bytes, FRAGMENTED_PERCENT);
}

static bool find_fragments(const struct gs_report_device *device, unsigned ordinal,
                           struct gs_report_hint *out)
{
    const struct gs_report_holes *holes = &device->holes;
    char stranded[24], reserved[24], count[32];

    if (!device->classes || holes->stranded_bytes < FRAGMENTED_BYTES ||
        !is_part(holes->stranded_bytes, device->reserved_bytes, FRAGMENTED_PERCENT) ||
        !is_part(holes->bytes - holes->largest_bytes, holes->bytes, FRAGMENTED_PERCENT)) {
        return false;
    }
    out->name = "fragmented";
    snprintf(
        out->text, sizeof(out->text),
        "GPU %u: %s of the pool's %s are free but fragmented, in %s blocks: allocate "
        "long-lived buffers first and together",
        ordinal, gs_text_bytes(holes->stranded_bytes, stranded),
        gs_text_bytes(device->reserved_bytes, reserved),
        gs_text_count(holes->count, count));
    return true;
}

/* ---- call sites ------------------------------------------------------------------- */

/* "cudaMalloc at step loop.c:41" */
static void put_place(const struct gs_hint_source *source, uint32_t stack, uint16_t api,
                      char *out, size_t size)
{
    struct gs_hint_place place = source->find(source->self, stack);
    struct gs_text where = {0};

    if (place.frame) {
        gs_report_put_where(place.frame, NULL, &where);
    }
    snprintf(out, size, "%s%s%s", gs_report_call_name(source->tracker, place.call, api),
             where.data ? " " : "", where.data ? where.data : "");
    gs_text_free(&where);
}

/* "one buffer serves them all, allocated before the loop": memory that could be kept. */
static void put_reuse(const struct gs_churn_site *site, char *out, size_t size)
{
    char bytes[24], most[32];

    gs_text_bytes(site->most_bytes, bytes);
    if (site->most_live == 1) {
        snprintf(out, size,
                 "never two at once: one buffer of %s, allocated before the loop, serves "
                 "them all",
                 bytes);
    } else {
        snprintf(out, size,
                 "at most %s at once: keep as many buffers, of up to %s, and reuse them",
                 gs_text_count(site->most_live, most), bytes);
    }
}

/* The clock is coarse, and its steps add up to the mean of many lifetimes. */
static const char *put_mean(const struct gs_churn_site *site, char out[24])
{
    uint64_t mean_ns = site->short_ns / site->short_count;

    return mean_ns < 1000 ? "less than 1 us" : gs_text_duration(mean_ns, out);
}

static bool find_churn(const struct gs_hint_source *source, size_t number,
                       struct gs_report_hint *out)
{
    const struct gs_churn_list *churn = &source->data->churn;
    const struct gs_churn_site *site = &churn->sites[number];
    char count[32], bytes[24], share[16], life[24], memory[64], place[256], reuse[128];

    put_place(source, site->stack, site->api, place, sizeof(place));
    put_reuse(site, reuse, sizeof(reuse));
    out->name = site->most_live == 1 ? "loop" : "churn";
    out->device =
        gs_totals_row(site->device, site->kind) < GS_MAX_DEVICES ? site->device : -1;
    out->stack = site->stack;
    snprintf(
        out->text, sizeof(out->text),
        "%s: %s allocations by %s, %s in all, %s %% of the run's, freed within 10 ms "
        "(%s on average), %s",
        gs_report_memory_name(site->kind, site->device, memory),
        gs_text_count(site->count, count), place, gs_text_bytes(site->bytes, bytes),
        gs_report_percent(site->count, churn->allocs, share), put_mean(site, life),
        reuse);
    return true;
}

static bool find_pinned(const struct gs_hint_source *source, size_t number,
                        struct gs_report_hint *out)
{
    const struct gs_pinned_list *pinned = &source->data->pinned;
    const struct gs_pinned_site *site = &pinned->sites[number];
    char count[32], bytes[24], share[16], place[256];

    put_place(source, site->stack, site->api, place, sizeof(place));
    out->name = "unused pinned";
    out->device = -1;
    out->stack = site->stack;
    snprintf(
        out->text, sizeof(out->text),
        "pinned host memory: %s allocation%s by %s, %s in all, %s %% of the run's, in "
        "no copy and no kernel's parameters: pageable memory costs less",
        gs_text_count(site->count, count), gs_report_plural(site->count), place,
        gs_text_bytes(site->bytes, bytes),
        gs_report_percent(site->bytes, pinned->bytes, share));
    return true;
}

static bool is_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Whether frames are in one function. The code of a module is as long as its file, so
 * there the line counts of what allocates. */
static bool is_same_function(const struct gs_symbol *a, const struct gs_symbol *b,
                             bool allocates)
{
    return is_equal(a->function, b->function) && is_equal(a->file, b->file) &&
           (!allocates || (a->function &&
                           (strcmp(a->function, "<module>") != 0 || a->line == b->line)));
}

/* Whether stacks have the same functions: all of them, as the first one may be one
 * through which the whole program allocates. */
static bool are_same_functions(const struct gs_hint_source *source, uint32_t a,
                               uint32_t b)
{
    unsigned number = 0;

    for (;; number++) {
        const struct gs_symbol_request *left = source->frame(source->self, a, number);
        const struct gs_symbol_request *right = source->frame(source->self, b, number);
        if (!left || !right) {
            return number > 0 && left == right;
        }
        if (!is_same_function(&left->result, &right->result, number == 0)) {
            return false;
        }
    }
}

/* Whether the report has a leak of the same functions as a stack. */
static bool leaks_too(const struct gs_hint_source *source, uint32_t stack)
{
    for (size_t i = 0; i < source->leaks; i++) {
        if (are_same_functions(source, stack, source->data->groups.items[i].stack)) {
            return true;
        }
    }
    return false;
}

/* The sum of call sites, with the one that has the most bytes, without those of functions
 * that leak. */
static struct gs_grown_site sum_grown(const struct gs_hint_source *source,
                                      const struct gs_grown_site *sites, size_t count)
{
    struct gs_grown_site sum = {0};
    uint64_t most_bytes = 0;

    for (size_t i = 0; i < count; i++) {
        const struct gs_grown_site *site = &sites[i];
        if (leaks_too(source, site->stack)) {
            continue;
        }
        sum.count += site->count;
        sum.bytes += site->bytes;
        if (site->stack != 0 && site->bytes > most_bytes) {
            most_bytes = site->bytes;
            sum.stack = site->stack;
            sum.device = site->device;
        }
    }
    return sum;
}

/* what: the plural of what grew. */
static bool find_grown(const struct gs_hint_source *source,
                       const struct gs_grown_site *sites, size_t sites_count,
                       const char *what, struct gs_report_hint *out)
{
    const struct gs_grown_site grown = sum_grown(source, sites, sites_count);
    struct gs_hint_place place = source->find(source->self, grown.stack);
    struct gs_text where = {0};
    char count[32], bytes[24];

    if (grown.count == 0) {
        return false;
    }
    if (place.frame) {
        gs_report_put_where(place.frame, NULL, &where);
    }
    out->name = "grew";
    out->device = grown.device;
    out->stack = grown.stack;
    snprintf(out->text, sizeof(out->text),
             "%s %s, %s%s%s, accumulated until Python ended: call gpushim.report() "
             "at the end of the script to list them",
             gs_text_count(grown.count, count), what, gs_text_bytes(grown.bytes, bytes),
             where.data ? ", most " : "", where.data ? where.data : "");
    gs_text_free(&where);
    return true;
}

/* The hints in their order: these for the process, two for each device, then those of
 * call sites. */
enum { HINT_NOT_FREED, HINT_GREW_PARTS, HINT_GREW, HINTS_OF_PROCESS };

static bool find_for_process(const struct gs_hint_source *source, unsigned number,
                             struct gs_report_hint *out)
{
    const struct gs_report_data *data = source->data;

    switch (number) {
    case HINT_NOT_FREED:
        return find_not_freed(source->config, data, out);
    case HINT_GREW_PARTS:
        return find_grown(source, data->grown_part, data->grown_parts,
                          "tensors of PyTorch", out);
    default:
        return find_grown(source, data->grown, data->grown_count, "allocations", out);
    }
}

bool gs_report_next_hint(const struct gs_hint_source *source, unsigned *at,
                         struct gs_report_hint *out)
{
    const struct gs_report_config *config = source->config;
    const struct gs_report_data *data = source->data;
    const size_t devices = HINTS_OF_PROCESS + 2 * config->device_count;
    const size_t churn = devices + data->churn_shown;

    while (*at < churn + data->pinned_shown) {
        unsigned number = (*at)++, ordinal = (number - HINTS_OF_PROCESS) / 2;
        bool found;

        out->stack = 0;
        if (number >= churn) {
            return find_pinned(source, number - churn, out);
        }
        if (number >= devices) {
            return find_churn(source, number - devices, out);
        }
        out->device = number < HINTS_OF_PROCESS ? -1 : (int)ordinal;
        if (number < HINTS_OF_PROCESS) {
            found = find_for_process(source, number, out);
        } else if (!gs_report_pool_used(&config->devices[ordinal])) {
            found = false;
        } else if ((number - HINTS_OF_PROCESS) % 2 == 0) {
            found = find_hits(data, &config->devices[ordinal], ordinal, out);
        } else {
            found = find_fragments(&config->devices[ordinal], ordinal, out);
        }
        if (found) {
            return true;
        }
    }
    return false;
}
