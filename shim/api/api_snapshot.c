/*
 * api_snapshot.c - snapshots of live allocations, and the difference of two by call site.
 * Owns:  nothing; a snapshot is its caller's.   Lock: none.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gs_compare.h"
#include "gs_grow.h"
#include "shim/api/api.h"
#include "tracker/report/call_site.h"

/* An allocation of a snapshot; `number` rises from one to the next. */
struct kept {
    uint64_t number, bytes;
    uint32_t stack;
    int16_t device;
    uint16_t api;
    uint8_t kind;
};

struct gpushim_snapshot {
    pid_t process;
    int device;
    struct gs_tracker *tracker;
    struct kept *items;
    size_t count, capacity;
    bool failed; /* no memory */
};

static struct gs_allocation allocation_of(const struct kept *kept)
{
    return (struct gs_allocation){.bytes = kept->bytes,
                                  .stack = kept->stack,
                                  .device = kept->device,
                                  .api = kept->api,
                                  .kind = kept->kind};
}

static bool keep(void *self, uint64_t number, const struct gs_allocation *allocation)
{
    struct gpushim_snapshot *snapshot = self;
    if (!gs_api_is_within(snapshot->device, gs_call_site_row(allocation))) {
        return true;
    }
    if (!gs_grow(&snapshot->items, snapshot->count, &snapshot->capacity,
                 sizeof(*snapshot->items))) {
        snapshot->failed = true;
        return false;
    }
    snapshot->items[snapshot->count++] = (struct kept){.number = number,
                                                       .bytes = allocation->bytes,
                                                       .stack = allocation->stack,
                                                       .device = allocation->device,
                                                       .api = allocation->api,
                                                       .kind = allocation->kind};
    return true;
}

static void drop(struct gpushim_snapshot *snapshot)
{
    free(snapshot->items);
    free(snapshot);
}

gpushim_result gs_api_snapshot_take(int device, struct gpushim_snapshot **out)
{
    gpushim_result result;
    if (!out || !gs_api_is_place(device)) {
        return GPUSHIM_INVALID;
    }
    *out = NULL;
    struct gs_state *state = gs_api_enter_tracked(&result);
    if (!state) {
        return result;
    }
    struct gpushim_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (snapshot) {
        snapshot->process = getpid();
        snapshot->device = device;
        snapshot->tracker = state->tracker;
        gs_tracker_visit_numbered(state->tracker, keep, snapshot);
    }
    gs_leave();
    if (!snapshot || snapshot->failed) {
        if (snapshot) {
            drop(snapshot);
        }
        return GPUSHIM_NO_MEMORY;
    }
    *out = snapshot;
    return GPUSHIM_OK;
}

gpushim_result gs_api_snapshot_free(struct gpushim_snapshot *snapshot)
{
    if (!snapshot) {
        return GPUSHIM_INVALID;
    }
    drop(snapshot);
    return GPUSHIM_OK;
}

/* ---- differences ------------------------------------------------------------------- */

/* What one allocation adds to its call site, then the sum of a call site. */
struct part {
    struct kept site; /* without number and bytes */
    uint64_t new_count, new_bytes, freed_count, freed_bytes;
};

struct parts {
    struct part *items;
    size_t count;
};

static void add_part(struct parts *parts, const struct kept *kept, bool is_new)
{
    struct part *part = &parts->items[parts->count++];
    *part = (struct part){.site = *kept};
    part->site.number = part->site.bytes = 0;
    *(is_new ? &part->new_count : &part->freed_count) = 1;
    *(is_new ? &part->new_bytes : &part->freed_bytes) = kept->bytes;
}

/* Adds what is in one of the two snapshots only. There is room. */
static void compare_snapshots(const struct gpushim_snapshot *before,
                              const struct gpushim_snapshot *after, struct parts *parts)
{
    size_t i = 0, k = 0, earlier = before ? before->count : 0;
    while (i < earlier || k < after->count) {
        if (k == after->count ||
            (i < earlier && before->items[i].number < after->items[k].number)) {
            add_part(parts, &before->items[i++], false);
        } else if (i == earlier || after->items[k].number < before->items[i].number) {
            add_part(parts, &after->items[k++], true);
        } else {
            i++;
            k++;
        }
    }
}

static int compare_sites(const void *left, const void *right)
{
    const struct kept *a = &((const struct part *)left)->site,
                      *b = &((const struct part *)right)->site;
    return GS_RISING(a->stack, b->stack) ?: GS_RISING(a->device, b->device) ?:
        GS_RISING(a->api, b->api) ?: GS_RISING(a->kind, b->kind);
}

static int compare_growth(const void *left, const void *right)
{
    const struct part *a = left, *b = right;
    int64_t more = (int64_t)(a->new_bytes - a->freed_bytes),
            other = (int64_t)(b->new_bytes - b->freed_bytes);
    return more != other ? (more > other ? -1 : 1) : compare_sites(left, right);
}

/* Joins the parts of each call site, the one with the most growth first. */
static void join(struct parts *parts)
{
    size_t joined = 0;
    qsort(parts->items, parts->count, sizeof(*parts->items), compare_sites);
    for (size_t i = 0; i < parts->count; i++) {
        const struct part *part = &parts->items[i];
        struct part *site = joined ? &parts->items[joined - 1] : NULL;
        if (!site || compare_sites(site, part) != 0) {
            parts->items[joined++] = *part;
            continue;
        }
        site->new_count += part->new_count;
        site->new_bytes += part->new_bytes;
        site->freed_count += part->freed_count;
        site->freed_bytes += part->freed_bytes;
    }
    parts->count = joined;
    qsort(parts->items, parts->count, sizeof(*parts->items), compare_growth);
}

static void describe(struct gs_tracker *tracker, const struct part *part,
                     struct gpushim_change *out)
{
    const struct gs_allocation allocation = allocation_of(&part->site);
    struct gs_call_site site;
    gs_call_site_describe(tracker, &allocation, &site);
    out->size = sizeof(*out);
    out->stack = site.no_stack[0] ? 0 : part->site.stack;
    out->device = gs_api_place_of(gs_call_site_row(&allocation));
    out->kind = site.kind;
    out->call = site.call;
    out->owner = gs_call_site_owner(tracker, out->stack);
    out->no_stack = site.no_stack;
    out->new_count = part->new_count;
    out->new_bytes = part->new_bytes;
    out->freed_count = part->freed_count;
    out->freed_bytes = part->freed_bytes;
    gs_api_put_scope(tracker, out->stack, out->scope);
}

/* The thread is outside the library while the program's function runs. The function may
 * fork: in the child the names are gone. */
static gpushim_result call_each(const struct gpushim_snapshot *after,
                                const struct parts *parts, gpushim_change_call call,
                                void *self)
{
    struct gs_tracker *tracker = after->tracker;
    const pid_t process = after->process;
    struct gpushim_change change;
    int stops = 0;
    for (size_t i = 0; i < parts->count && !stops; i++) {
        describe(tracker, &parts->items[i], &change);
        (void)gs_api_end(GPUSHIM_OK);
        stops = call(self, &change);
        (void)gs_api_begin();
        if (getpid() != process) {
            return GPUSHIM_INACTIVE;
        }
    }
    return GPUSHIM_OK;
}

gpushim_result gs_api_snapshot_difference(const struct gpushim_snapshot *before,
                                          const struct gpushim_snapshot *after,
                                          gpushim_change_call call, void *self)
{
    if (!after || !call || (before && before->device != after->device)) {
        return GPUSHIM_INVALID;
    }
    if (after->process != getpid() || (before && before->process != after->process)) {
        return GPUSHIM_NOT_FOUND;
    }
    struct parts parts = {0};
    size_t room = after->count + (before ? before->count : 0) + 1;
    parts.items = malloc(room * sizeof(*parts.items));
    if (!parts.items) {
        return GPUSHIM_NO_MEMORY;
    }
    compare_snapshots(before, after, &parts);
    join(&parts);
    gpushim_result result = call_each(after, &parts, call, self);
    free(parts.items);
    return result;
}
