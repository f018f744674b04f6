/*
 * all_contexts.c - the registry of contexts.
 * Owns:  the registry.   Lock: registry.lock; never held across a driver call.
 * Source: all_contexts.h
 */
#include "shim/state/all_contexts.h"

#include <stdlib.h>

#include "gs_locks.h"
#include "shim/state/state.h"

unsigned gs_all_contexts_count; /* written under registry.lock */

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
} registry = {.lock = GS_MUTEX(GS_RANK_ALL_CONTEXTS)};

/* registry.lock is held. Returns registry.count if the context is not registered. */
static unsigned index_of(CUcontext handle)
{
    unsigned i = 0;
    while (i < registry.count && registry.rows[i].handle != handle) {
        i++;
    }
    return i;
}

/* registry.lock is held. */
static void publish(void)
{
    __atomic_store_n(&gs_all_contexts_count,
                     registry.count + (registry.incomplete ? 2 : 0), __ATOMIC_RELEASE);
}

/* Makes room for one more row; registry.lock is held. */
static bool grow(void)
{
    if (registry.count < registry.room) {
        return true;
    }
    unsigned room = registry.room ? 2 * registry.room : 8;
    struct row *grown = reallocarray(registry.rows, room, sizeof(*grown));
    if (!grown) {
        return false;
    }
    registry.rows = grown;
    registry.room = room;
    return true;
}

static void add(struct row row)
{
    if (!row.handle) {
        return;
    }
    gs_mutex_lock(&registry.lock);
    unsigned i = index_of(row.handle);
    if (i == registry.count) {
        if (grow()) {
            registry.rows[registry.count++] = row;
        } else {
            registry.incomplete = true;
        }
        publish();
    } else if (row.primary_of >= 0) {
        registry.rows[i].primary_of = row.primary_of;
    }
    gs_mutex_unlock(&registry.lock);
}

bool gs_all_contexts_at(unsigned i, CUcontext *handle)
{
    bool found;
    gs_mutex_lock(&registry.lock);
    found = i < registry.count;
    if (found) {
        *handle = registry.rows[i].handle;
    }
    gs_mutex_unlock(&registry.lock);
    return found;
}

void gs_all_contexts_add(CUcontext handle)
{
    add((struct row){.handle = handle, .primary_of = -1});
}

void gs_all_contexts_add_primary(CUcontext handle, int device)
{
    add((struct row){.handle = handle, .primary_of = device});
}

/* registry.lock is held. NULL: not registered. */
static struct row *primary_row(int device)
{
    struct row *found = NULL;
    for (unsigned i = 0; i < registry.count && device >= 0; i++) {
        if (registry.rows[i].primary_of == device) {
            found = &registry.rows[i];
        }
    }
    return found;
}

CUcontext gs_all_contexts_primary(int device)
{
    gs_mutex_lock(&registry.lock);
    const struct row *row = primary_row(device);
    CUcontext found = row ? row->handle : NULL;
    gs_mutex_unlock(&registry.lock);
    return found;
}

/* Returns the new number of uses; never below 0. */
static unsigned change_uses(int device, int by)
{
    gs_mutex_lock(&registry.lock);
    struct row *row = primary_row(device);
    if (row && (by > 0 || row->uses > 0)) {
        row->uses += (unsigned)by;
    }
    unsigned uses = row ? row->uses : 0;
    gs_mutex_unlock(&registry.lock);
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
    gs_mutex_lock(&registry.lock);
    unsigned i = index_of(handle);
    if (i < registry.count) {
        registry.rows[i] = registry.rows[--registry.count];
        publish();
    }
    gs_mutex_unlock(&registry.lock);
}

bool gs_all_contexts_incomplete(void)
{
    return registry.incomplete;
}

void gs_all_contexts_reset(void)
{
    gs_mutex_init(&registry.lock, GS_RANK_ALL_CONTEXTS);
    registry.rows = NULL; /* another thread may have been changing the rows */
    registry.count = registry.room = 0;
    registry.incomplete = false;
    __atomic_store_n(&gs_all_contexts_count, 0, __ATOMIC_RELEASE);
}
