/*
 * all_contexts.c - the registry of contexts.
 * Owns:  the registry.   Lock: registry.lock; never held across a driver call.
 * Source: all_contexts.h
 */
#include "shim/state/all_contexts.h"

#include <stdlib.h>

#include "gs_hash.h"
#include "gs_locks.h"
#include "shim/state/state.h"

unsigned gs_all_contexts_count; /* written under registry.lock */

struct row {
    CUcontext handle;
    int primary_of; /* device; -1: not known as a primary context */
    unsigned uses;  /* of a primary one: counted uses that are not released */
    unsigned index; /* of it in `rows` */
    UT_hash_handle hh;
};

static struct {
    struct gs_mutex lock;
    struct row *by_handle; /* under lock, as all below */
    struct row **rows;
    unsigned count, room;
    bool incomplete; /* a registration failed: never complete again */
} registry = {.lock = GS_MUTEX(GS_RANK_ALL_CONTEXTS)};

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
    struct row **grown = reallocarray(registry.rows, room, sizeof(struct row *));
    if (!grown) {
        return false;
    }
    registry.rows = grown;
    registry.room = room;
    return true;
}

/* A new row, which is in the hash and in the list; NULL: no memory. registry.lock is
 * held. */
static struct row *make_row(CUcontext handle)
{
    struct row *row = grow() ? calloc(1, sizeof(*row)) : NULL;
    if (!row) {
        return NULL;
    }
    row->handle = handle;
    row->primary_of = -1;
    row->index = registry.count;
    if (!GS_HASH_ADD(registry.by_handle, handle, row)) {
        free(row);
        return NULL;
    }
    registry.rows[registry.count++] = row;
    return row;
}

static void add(CUcontext handle, int primary_of)
{
    if (!handle) {
        return;
    }
    gs_mutex_lock(&registry.lock);
    struct row *row = GS_HASH_FIND(registry.by_handle, &handle);
    if (!row) {
        row = make_row(handle);
        registry.incomplete |= !row;
        publish();
    }
    if (row && primary_of >= 0) {
        row->primary_of = primary_of;
    }
    gs_mutex_unlock(&registry.lock);
}

bool gs_all_contexts_at(unsigned i, CUcontext *handle)
{
    bool found;
    gs_mutex_lock(&registry.lock);
    found = i < registry.count;
    if (found) {
        *handle = registry.rows[i]->handle;
    }
    gs_mutex_unlock(&registry.lock);
    return found;
}

void gs_all_contexts_add(CUcontext handle)
{
    add(handle, -1);
}

void gs_all_contexts_add_primary(CUcontext handle, int device)
{
    add(handle, device);
}

/* registry.lock is held. NULL: not registered. */
static struct row *primary_row(int device)
{
    struct row *found = NULL;
    for (unsigned i = 0; i < registry.count && device >= 0; i++) {
        if (registry.rows[i]->primary_of == device) {
            found = registry.rows[i];
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
    struct row *row = GS_HASH_FIND(registry.by_handle, &handle);
    if (row) {
        HASH_DEL(registry.by_handle, row);
        registry.rows[row->index] = registry.rows[--registry.count];
        registry.rows[row->index]->index = row->index;
        free(row);
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
    registry.by_handle = NULL; /* another thread may have been changing them */
    registry.rows = NULL;
    registry.count = registry.room = 0;
    registry.incomplete = false;
    __atomic_store_n(&gs_all_contexts_count, 0, __ATOMIC_RELEASE);
}
