/*
 * own_handles.c - the tables of own_handles.h.
 *
 * Owns:  the own events by handle, and the handles of streams that the program had.
 * Lock:  events_lock, stale_lock; the filter is atomic.
 */
#include "shim/order/own_handles.h"

#include <stdlib.h>
#include <string.h>

#include "gs_locks.h"
#include "shim/state/state.h"

struct own {
    CUevent event;
    struct own *next;
};

unsigned gs_own_filter[1 << GS_OWN_FILTER_BITS];

static struct gs_mutex events_lock = GS_MUTEX(GS_RANK_OWN_EVENTS);
static struct own *events[1 << GS_OWN_FILTER_BITS]; /* under events_lock */

/* ---- events ------------------------------------------------------------------------ */

/* The link to the event's entry, or the end of its list. events_lock is held. */
static struct own **link_of(CUevent event)
{
    struct own **link = &events[gs_own_event_slot(event)];
    while (*link && (*link)->event != event) {
        link = &(*link)->next;
    }
    return link;
}

void gs_own_event_add(CUevent event)
{
    struct own *made = calloc(1, sizeof(*made));
    if (!made) {
        return; /* a stale handle then meets the event, as without the table */
    }
    made->event = event;
    gs_mutex_lock(&events_lock);
    struct own **link = link_of(event);
    bool known = *link != NULL;
    if (!known) {
        *link = made;
        __atomic_add_fetch(&gs_own_filter[gs_own_event_slot(event)], 1, __ATOMIC_RELAXED);
    }
    gs_mutex_unlock(&events_lock);
    if (known) {
        free(made);
    }
}

void gs_own_event_remove(CUevent event)
{
    if (!__atomic_load_n(&gs_own_filter[gs_own_event_slot(event)], __ATOMIC_RELAXED)) {
        return;
    }
    gs_mutex_lock(&events_lock);
    struct own **link = link_of(event), *found = *link;
    if (found) {
        *link = found->next;
        __atomic_sub_fetch(&gs_own_filter[gs_own_event_slot(event)], 1, __ATOMIC_RELAXED);
    }
    gs_mutex_unlock(&events_lock);
    free(found);
}

bool gs_own_event_find(CUevent event)
{
    gs_mutex_lock(&events_lock);
    bool found = *link_of(event) != NULL;
    gs_mutex_unlock(&events_lock);
    return found;
}

CUresult gs_own_event_refuse(CUevent event, const char *call)
{
    if (!gs_own_event(event)) {
        return CUDA_SUCCESS;
    }
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_thread.depth > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    }
    const struct gs_bad_use bad = {
        .kind = GS_ERROR_STALE_HANDLE,
        .addr = (uint64_t)(uintptr_t)event,
        .call = call,
        .device = gs_thread.context ? gs_thread.context->device : 0,
        .thread = gs_thread_id(),
        .stack = state->stacks ? gs_stacks_capture(state->stacks) : 0};
    gs_tracker_error_use(state->tracker, &bad);
    gs_leave();
    return CUDA_ERROR_INVALID_HANDLE;
}

/* ---- streams ----------------------------------------------------------------------- */

/* Handles of ended streams, by open addressing; the driver reuses handles, so there are
 * about as many as the program had streams at a time. */
#define STALE_FIRST 256u
#define STALE_MOST  (1u << 20)
#define TRIES_MOST  4096u

static struct gs_mutex stale_lock = GS_MUTEX(GS_RANK_STALE_STREAMS);
static CUstream *stale; /* under stale_lock; NULL: none */
static unsigned stale_count,
    stale_room; /* under stale_lock; room: a power of two, or 0 */

/* The handle's place, or the empty one for it. */
static CUstream *place_in(CUstream *table, unsigned room, CUstream stream)
{
    unsigned at = (unsigned)(((uint64_t)(uintptr_t)stream * 0x9e3779b97f4a7c15ull) >> 32);
    while (table[at & (room - 1)] && table[at & (room - 1)] != stream) {
        at++;
    }
    return &table[at & (room - 1)];
}

/* Makes space for one more. stale_lock is held. */
static bool make_room(void)
{
    if (stale_count < stale_room / 2) {
        return true;
    }
    unsigned room = stale_room ? 2 * stale_room : STALE_FIRST;
    CUstream *grown = room <= STALE_MOST ? calloc(room, sizeof(CUstream)) : NULL;
    if (!grown) {
        return false;
    }
    for (unsigned i = 0; i < stale_room; i++) {
        if (stale[i]) {
            *place_in(grown, room, stale[i]) = stale[i];
        }
    }
    free(stale);
    stale = grown;
    stale_room = room;
    return true;
}

void gs_own_stream_stale(CUstream stream)
{
    gs_mutex_lock(&stale_lock);
    if (make_room()) {
        CUstream *place = place_in(stale, stale_room, stream);
        stale_count += *place == NULL;
        *place = stream;
    }
    gs_mutex_unlock(&stale_lock);
}

static bool is_stale(CUstream stream)
{
    gs_mutex_lock(&stale_lock);
    bool found = stale_room && *place_in(stale, stale_room, stream) == stream;
    gs_mutex_unlock(&stale_lock);
    return found;
}

/* Streams with a handle that may be stale exist until there is one with another. */
CUresult gs_own_stream_create(CUstream *out, unsigned flags)
{
    const struct gs_real *real = gs_real();
    CUstream *aside = NULL;
    unsigned count = 0;
    CUresult result = real->cuStreamCreate(out, flags);
    while (result == CUDA_SUCCESS && is_stale(*out) && count < TRIES_MOST) {
        CUstream *grown = reallocarray(aside, count + 1, sizeof(*aside));
        if (!grown) {
            break;
        }
        aside = grown;
        aside[count] = *out;
        if (real->cuStreamCreate(out, flags) != CUDA_SUCCESS) {
            *out = aside[count];
            break;
        }
        count++;
    }
    while (count > 0) {
        (void)real->cuStreamDestroy_v2(aside[--count]);
    }
    free(aside);
    return result;
}

/* ---- fork -------------------------------------------------------------------------- */

void gs_own_handles_reset(void)
{
    gs_mutex_init(&events_lock, GS_RANK_OWN_EVENTS);
    gs_mutex_init(&stale_lock, GS_RANK_STALE_STREAMS);
    memset(events, 0, sizeof(events));
    memset(gs_own_filter, 0, sizeof(gs_own_filter));
    stale = NULL;
    stale_count = stale_room = 0;
}
