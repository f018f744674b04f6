/*
 * report_oom_advice.c - what to try after an allocation was refused, from the figures of
 * the refusal: the first ones of a list that apply.
 *
 * Owns: nothing.   Lock: none.   Design: docs/tracker.md, "Out of memory"
 */
#include "tracker/report/report_internal.h"

#include <stdio.h>

#define TEXT_BYTES sizeof(((struct gs_report_oom_advice *)0)->text)

/* Whether the part is at least half of the whole. */
static bool is_most(uint64_t part, uint64_t whole)
{
    return whole != 0 && part >= whole - whole / 2;
}

/* The memory that the request could have had. */
static uint64_t free_bytes(const struct gs_report_refusal *refusal)
{
    return refusal->limit[0] ? refusal->limit_free_bytes : refusal->free_bytes;
}

/* Returns whether the request is larger than all the memory that the program may have. */
static bool exceeds_all(const struct gs_report_refusal *refusal)
{
    uint64_t all = refusal->limit[0] ? refusal->limit_bytes : refusal->device_bytes;

    return all != 0 && refusal->bytes > all;
}

/* The functions below write one piece of advice each, and return true, if it applies. */
static bool try_limit(const struct gs_report_refusal *refusal, char *text)
{
    bool known = refusal->device_bytes != 0;
    char size[24], free[64] = "";

    if (!refusal->limit[0] || (known && refusal->free_bytes < refusal->bytes)) {
        return false;
    }
    if (known) {
        snprintf(free, sizeof(free), ", but GPU %d has %s free", refusal->device,
                 gs_text_bytes(refusal->free_bytes, size));
    }
    snprintf(text, TEXT_BYTES, "%.*s is reached%s: raise the limit",
             (int)strcspn(refusal->limit, " "), refusal->limit, free);
    return true;
}

static bool try_waiting(const struct gs_report_refusal *refusal, char *text)
{
    char size[24];

    if (refusal->pending_bytes == 0 ||
        free_bytes(refusal) + refusal->pending_bytes < refusal->bytes) {
        return false;
    }
    snprintf(text, TEXT_BYTES, "%s are freed, but running work may still use them: %s",
             gs_text_bytes(refusal->pending_bytes, size),
             refusal->capturing ? "end the capture first, or free before it begins"
             : refusal->lazy    ? "synchronize before this call, or "
                                  "GPUSHIM_FREE_SYNC=native, whose frees wait"
                                : "synchronize before this call, or free earlier");
    return true;
}

static bool try_packing(const struct gs_report_refusal *refusal, char *text)
{
    char size[24];

    if (refusal->idle_bytes == 0 ||
        free_bytes(refusal) + refusal->idle_bytes < refusal->bytes) {
        return false;
    }
    snprintf(text, TEXT_BYTES,
             "%s are free but fragmented: allocate long-lived buffers first and "
             "together%s",
             gs_text_bytes(refusal->idle_bytes, size),
             refusal->carves     ? "; or GPUSHIM_POOL_CARVE=auto"
             : refusal->may_move ? "; or GPUSHIM_POOL_VMM=on"
                                 : "");
    return true;
}

static bool try_elsewhere(const struct gs_report_refusal *refusal, char *text)
{
    char size[24];

    if (!refusal->elsewhere_known ||
        !is_most(refusal->elsewhere_bytes, refusal->device_bytes - refusal->free_bytes)) {
        return false;
    }
    if (refusal->own_known && is_most(refusal->own_bytes, refusal->elsewhere_bytes)) {
        snprintf(text, TEXT_BYTES,
                 "contexts and modules of this process use %s of GPU %d: create fewer "
                 "contexts, or smaller stacks and heaps for kernels (cudaDeviceSetLimit)",
                 gs_text_bytes(refusal->own_bytes, size), refusal->device);
    } else {
        snprintf(text, TEXT_BYTES,
                 "other processes use %s of GPU %d: nvidia-smi lists them%s",
                 gs_text_bytes(refusal->elsewhere_bytes, size), refusal->device,
                 refusal->own_known ? "" : ", GPUSHIM_NVML=on shows this process's part");
    }
    return true;
}

/* "hoard_one", or "": the innermost function that is shown. */
static const char *function_of(const struct gs_report_writer *writer, uint32_t stack)
{
    struct gs_shown_stack shown =
        gs_frame_table_show(writer->frames, writer->config, stack);
    const char *name = shown.count ? shown.frames[0].result.function : NULL;

    return name ? name : "";
}

static bool try_largest(const struct gs_report_writer *writer,
                        const struct gs_report_refusal *refusal, char *text)
{
    const struct gs_report_data *data = writer->data;
    size_t at = 0;
    char size[24], live[24], name[64];

    if (exceeds_all(refusal)) {
        return false; /* no free would help */
    }
    while (at < data->shown &&
           gs_totals_row(data->groups.items[at].device, data->groups.items[at].kind) !=
               (unsigned)refusal->device) {
        at++;
    }
    if (at == data->shown || refusal->others_bytes > refusal->live_bytes ||
        !is_most(gs_group_shown_bytes(&data->groups.items[at]), refusal->live_bytes)) {
        return false;
    }
    gs_report_clean(function_of(writer, data->groups.items[at].stack), name,
                    sizeof(name));
    snprintf(text, TEXT_BYTES,
             "LIVE %zu%s%s%s holds %s of %s live: allocate less there, or free earlier",
             at + 1, name[0] ? " (" : "", name, name[0] ? ")" : "",
             gs_text_bytes(gs_group_shown_bytes(&data->groups.items[at]), size),
             gs_text_bytes(refusal->live_bytes, live));
    return true;
}

/* The last one, without another. */
static bool try_less(const struct gs_report_refusal *refusal, char *text)
{
    uint64_t room = free_bytes(refusal);
    char size[24];

    if (refusal->try_count != 0) {
        return false;
    }
    if (refusal->bytes > room && refusal->device_bytes != 0) {
        snprintf(text, TEXT_BYTES, "%s are missing: free memory earlier, or request less",
                 gs_text_bytes(refusal->bytes - room, size));
    } else {
        snprintf(text, TEXT_BYTES, "free memory earlier, or request less");
    }
    return true;
}

/* Their names in JSON, by number. */
static const char names[][sizeof(((struct gs_report_oom_advice *)0)->name)] = {
    "limit", "waiting", "fragmented", "elsewhere", "largest", "less"};

static bool try_number(size_t number, const struct gs_report_writer *writer,
                       const struct gs_report_refusal *refusal, char *text)
{
    switch (number) {
    case 0:
        return try_limit(refusal, text);
    case 1:
        return try_waiting(refusal, text);
    case 2:
        return try_packing(refusal, text);
    case 3:
        return try_elsewhere(refusal, text);
    case 4:
        return try_largest(writer, refusal, text);
    default:
        return try_less(refusal, text);
    }
}

void gs_report_find_oom_advice(const struct gs_report_writer *writer)
{
    struct gs_report_refusal *refusal = writer->config->refusal;

    if (!refusal) {
        return;
    }
    refusal->try_count = 0;
    for (size_t i = 0;
         i < GS_ARRAY_LEN(names) && refusal->try_count < GS_REPORT_OOM_ADVICE; i++) {
        struct gs_report_oom_advice *next = &refusal->advice[refusal->try_count];

        if (try_number(i, writer, refusal, next->text)) {
            strcpy(next->name, names[i]);
            refusal->try_count++;
        }
    }
}
