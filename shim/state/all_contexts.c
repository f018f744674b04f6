/*
 * all_contexts.c - the registry of contexts.
 * Owns:  the registry (`roll`).   Lock: roll.lock; never held across a driver call.
 * Source: all_contexts.h
 */
#include "all_contexts.h"

#include <stdlib.h>

#include "free_scope.h"
#include "gs_locks.h"
#include "state.h"

unsigned gs_all_contexts_count; /* written under roll.lock */

struct row {
    CUcontext handle;
    int primary_of; /* device; -1: not known as a primary context */
    unsigned uses;  /* of a primary one: counted uses that are not released */
};

static struct {
    struct gs_mutex lock;
    struct row *rows; /* under lock */
    unsigned count, room;
    bool incomplete; /* a registration failed: never complete again */
} roll = {.lock = GS_MUTEX(GS_RANK_ALL_CONTEXTS)};

/* roll.lock is held. Returns roll.count if the context is not registered. */
static unsigned place_of(CUcontext handle)
{
    unsigned i = 0;
    while (i < roll.count && roll.rows[i].handle != handle) {
        i++;
    }
    return i;
}

/* roll.lock is held. */
static void publish(void)
{
    __atomic_store_n(&gs_all_contexts_count, roll.count + (roll.incomplete ? 2 : 0),
                     __ATOMIC_RELEASE);
}

/* Makes room for one more row; roll.lock is held. */
static bool grow(void)
{
    if (roll.count < roll.room) {
        return true;
    }
    unsigned room = roll.room ? 2 * roll.room : 8;
    struct row *grown = reallocarray(roll.rows, room, sizeof(*grown));
    if (!grown) {
        return false;
    }
    roll.rows = grown;
    roll.room = room;
    return true;
}

static void add(struct row row)
{
    if (!row.handle) {
        return;
    }
    gs_mutex_lock(&roll.lock);
    unsigned i = place_of(row.handle);
    if (i == roll.count) {
        if (grow()) {
            roll.rows[roll.count++] = row;
        } else {
            roll.incomplete = true;
        }
        publish();
    } else if (row.primary_of >= 0) {
        roll.rows[i].primary_of = row.primary_of;
    }
    gs_mutex_unlock(&roll.lock);
}

bool gs_all_contexts_at(unsigned i, CUcontext *handle)
{
    bool found;
    gs_mutex_lock(&roll.lock);
    found = i < roll.count;
    if (found) {
        *handle = roll.rows[i].handle;
    }
    gs_mutex_unlock(&roll.lock);
    return found;
}

/* Makes a context idle only when all others are, if frees also wait for other
 * contexts. */
static void tie_together(void)
{
    struct gs_state *state = gs_state_peek();
    CUcontext handle;
    if (!state || gs_all_contexts_are_one() || !gs_free_scopes_reach_others()) {
        return;
    }
    for (unsigned i = 0; gs_all_contexts_at(i, &handle); i++) {
        gs_context_share(state, NULL, handle);
    }
}

void gs_all_contexts_add(CUcontext handle)
{
    add((struct row){.handle = handle, .primary_of = -1});
    tie_together();
}

void gs_all_contexts_add_primary(CUcontext handle, int device)
{
    add((struct row){.handle = handle, .primary_of = device});
    tie_together();
}

/* roll.lock is held. NULL: not registered. */
static struct row *primary_row(int device)
{
    struct row *found = NULL;
    for (unsigned i = 0; i < roll.count && device >= 0; i++) {
        if (roll.rows[i].primary_of == device) {
            found = &roll.rows[i];
        }
    }
    return found;
}

CUcontext gs_all_contexts_primary(int device)
{
    gs_mutex_lock(&roll.lock);
    const struct row *row = primary_row(device);
    CUcontext found = row ? row->handle : NULL;
    gs_mutex_unlock(&roll.lock);
    return found;
}

/* Returns the new number of uses; never below 0. */
static unsigned change_uses(int device, int by)
{
    gs_mutex_lock(&roll.lock);
    struct row *row = primary_row(device);
    if (row && (by > 0 || row->uses > 0)) {
        row->uses += (unsigned)by;
    }
    unsigned uses = row ? row->uses : 0;
    gs_mutex_unlock(&roll.lock);
    return uses;
}

void gs_all_contexts_use_more(int device)
{
    (void)change_uses(device, 1);
}

unsigned gs_all_contexts_use_less(int device)
{
    return change_uses(device, -1);
}

unsigned gs_all_contexts_uses(int device)
{
    return change_uses(device, 0);
}

void gs_all_contexts_remove(CUcontext handle)
{
    gs_mutex_lock(&roll.lock);
    unsigned i = place_of(handle);
    if (i < roll.count) {
        roll.rows[i] = roll.rows[--roll.count];
        publish();
    }
    gs_mutex_unlock(&roll.lock);
}

bool gs_all_contexts_incomplete(void)
{
    return roll.incomplete;
}

void gs_all_contexts_reset(void)
{
    gs_mutex_init(&roll.lock, GS_RANK_ALL_CONTEXTS);
    roll.rows = NULL; /* another thread may have been changing the rows */
    roll.count = roll.room = 0;
    roll.incomplete = false;
    __atomic_store_n(&gs_all_contexts_count, 0, __ATOMIC_RELEASE);
}
