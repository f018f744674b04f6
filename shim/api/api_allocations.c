/*
 * api_allocations.c - the live allocations of gpushim.h: by address, all, and their call
 * stacks.
 * Owns:  nothing.   Lock: none; none is held while the program's function runs.
 */
#include <string.h>
#include <unistd.h>

#include "shim/api/api.h"
#include "shim/report/interim.h"
#include "tracker/report/call_site.h"

struct gs_state *gs_api_enter_tracked(gpushim_result *result)
{
    struct gs_state *state = gs_state_peek() ? gs_enter() : NULL;
    bool stale = state && __atomic_load_n(&state->detached, __ATOMIC_ACQUIRE);
    *result = state && !stale ? GPUSHIM_OFF : GPUSHIM_INACTIVE;
    if (state && (stale || !state->tracker)) {
        gs_leave();
        return NULL;
    }
    return state;
}

bool gs_api_is_place(int device)
{
    return device == GPUSHIM_EVERYWHERE || device == GPUSHIM_ALL_DEVICES ||
           (device >= GPUSHIM_IMPORTED && device < GS_MAX_DEVICES);
}

int gs_api_place_of(int row)
{
    return row == GS_TOTALS_VIEWS ? GPUSHIM_IMPORTED : row;
}

bool gs_api_is_within(int device, int row)
{
    return device == GPUSHIM_EVERYWHERE || device == gs_api_place_of(row) ||
           (device == GPUSHIM_ALL_DEVICES && row >= 0);
}

void gs_api_put_scope(const struct gs_tracker *tracker, uint32_t stack,
                      char out[GPUSHIM_SCOPE_BYTES])
{
    const char *path;
    size_t length = gs_tracker_scope_of(tracker, stack, &path);
    length = length < GPUSHIM_SCOPE_BYTES ? length : GPUSHIM_SCOPE_BYTES - 1;
    memcpy(out, path, length);
    out[length] = '\0';
}

/* Owners that were found in this visit, by their stacks. */
#define OWNERS 64u
struct owners {
    uint32_t stacks[OWNERS];
    const char *paths[OWNERS];
};

static const char *owner_of(struct owners *owners, const struct gs_tracker *tracker,
                            uint32_t stack)
{
    uint32_t slot = stack % OWNERS;
    if (owners->stacks[slot] != stack || !owners->paths[slot]) {
        owners->stacks[slot] = stack;
        owners->paths[slot] = gs_call_site_owner(tracker, stack);
    }
    return owners->paths[slot];
}

static void describe(struct gs_tracker *tracker, struct owners *owners, uint64_t number,
                     const struct gs_allocation *from, struct gpushim_allocation *out)
{
    struct gs_call_site site;
    uint64_t now_ns = gs_tracker_now(tracker);
    gs_call_site_describe(tracker, from, &site);
    out->size = sizeof(*out);
    out->number = number;
    out->address = gs_key_value(from->addr);
    out->bytes = from->bytes;
    out->age_ns = now_ns > from->time_ns ? now_ns - from->time_ns : 0;
    out->stream = from->stream;
    out->thread = from->thread;
    out->stack = site.no_stack[0] ? 0 : from->stack;
    out->device = gs_api_place_of(gs_call_site_row(from));
    out->has_address = !gs_key_is_handle(from->addr);
    out->kind = site.kind;
    out->call = site.call;
    out->owner = owner_of(owners, tracker, out->stack);
    out->no_stack = site.no_stack;
    gs_api_put_scope(tracker, out->stack, out->scope);
}

gpushim_result gs_api_find_allocation(const void *address, struct gpushim_allocation *out)
{
    struct gpushim_allocation found;
    struct gs_allocation allocation;
    struct owners owners = {0};
    gpushim_result result;
    uint64_t number;
    if (!address || !out || out->size < sizeof(out->size)) {
        return GPUSHIM_INVALID;
    }
    struct gs_state *state = gs_api_enter_tracked(&result);
    if (!state) {
        return result;
    }
    result = GPUSHIM_NOT_FOUND;
    if (gs_tracker_around(state->tracker, (uintptr_t)address, &allocation, &number) ==
        GS_OK) {
        describe(state->tracker, &owners, number, &allocation, &found);
        found.size = out->size < sizeof(found) ? out->size : sizeof(found);
        memcpy(out, &found, found.size);
        result = GPUSHIM_OK;
    }
    gs_leave();
    return result;
}

/* ---- visits ----------------------------------------------------------------------- */

struct visit {
    struct gs_tracker *tracker;
    int device;
    gpushim_visit_call call;
    void *self;
    pid_t process;
    bool forked; /* the program's function did: in the child the records are gone */
    struct owners owners;
    struct gpushim_allocation now;
};

/* The thread is outside the library while the program's function runs. */
static bool visit_one(void *self, uint64_t number, const struct gs_allocation *allocation)
{
    struct visit *visit = self;
    int row = gs_call_site_row(allocation);
    if (!gs_api_is_within(visit->device, row)) {
        return true;
    }
    describe(visit->tracker, &visit->owners, number, allocation, &visit->now);
    (void)gs_api_end(GPUSHIM_OK);
    bool goes_on = visit->call(visit->self, &visit->now) == 0;
    (void)gs_api_begin();
    visit->forked = getpid() != visit->process;
    return goes_on && !visit->forked;
}

gpushim_result gs_api_visit_allocations(int device, gpushim_visit_call call, void *self)
{
    struct visit visit = {
        .device = device, .call = call, .self = self, .process = getpid()};
    gpushim_result result;
    if (!call || !gs_api_is_place(device)) {
        return GPUSHIM_INVALID;
    }
    struct gs_state *state = gs_api_enter_tracked(&result);
    if (!state) {
        return result;
    }
    visit.tracker = state->tracker;
    gs_leave();
    gs_tracker_visit_numbered(visit.tracker, visit_one, &visit);
    return visit.forked ? GPUSHIM_INACTIVE : GPUSHIM_OK;
}

/* ---- call stacks ------------------------------------------------------------------ */

gpushim_result gs_api_get_stack(uint32_t stack, char *out, size_t capacity,
                                size_t *length)
{
    struct gs_text text = {0};
    gpushim_result result;
    if (!stack || !out || !capacity) {
        return GPUSHIM_INVALID;
    }
    struct gs_state *state = gs_api_enter_tracked(&result);
    if (!state) {
        return result;
    }
    enum gs_status status = gs_interim_stack(stack, &text);
    gs_leave();
    if (status == GS_OK) {
        size_t fits = text.length < capacity ? text.length : capacity - 1;
        memcpy(out, text.data, fits);
        out[fits] = '\0';
        if (length) {
            *length = text.length;
        }
    }
    gs_text_free(&text);
    return status == GS_OK              ? GPUSHIM_OK
           : status == GS_ERR_NOT_FOUND ? GPUSHIM_NOT_FOUND
           : status == GS_ERR_BUSY      ? GPUSHIM_BUSY
                                        : GPUSHIM_NO_MEMORY;
}
