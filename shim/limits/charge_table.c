/*
 * charge_table.c - a map from keys to charges.
 * Owns: the charges.   Lock: the table's.
 */
#include "shim/limits/charge_table.h"

#include <stdlib.h>

#include "gs_hash.h"

struct gs_charge {
    UT_hash_handle hh; /* in the table, by key */
    uint64_t key;      /* gs_key of its address or handle */
    size_t bytes;
    CUcontext context; /* NULL: does not end with a context */
    int device;
};

void gs_charges_reset(struct gs_charge_table *table)
{
    gs_mutex_init(&table->lock, GS_RANK_LIMITS);
    table->charges = NULL; /* another thread may have been changing them */
}

/* Removes a charge; NULL: there is none. The lock is held. */
static struct gs_charge *take(struct gs_charge_table *table, uint64_t key)
{
    struct gs_charge *found = GS_HASH_FIND(table->charges, &key);
    if (found) {
        HASH_DEL(table->charges, found);
    }
    return found;
}

static void end(const struct gs_charge_table *table, struct gs_charge *charge)
{
    if (charge) {
        table->end(charge->device, charge->bytes);
        free(charge);
    }
}

static void put(struct gs_charge_table *table, struct gs_charge *charge)
{
    gs_mutex_lock(&table->lock);
    struct gs_charge *old = take(table, charge->key); /* freed past the hooks */
    bool kept = charge->key && GS_HASH_ADD(table->charges, key, charge);
    gs_mutex_unlock(&table->lock);
    end(table, old);
    end(table, kept ? NULL : charge);
}

void gs_charges_record(struct gs_charge_table *table, uint64_t key, size_t bytes,
                       int device, CUcontext context)
{
    struct gs_charge *charge = calloc(1, sizeof(*charge));
    if (!charge) {
        table->end(device, bytes);
        return;
    }
    charge->key = key;
    charge->bytes = bytes;
    charge->device = device;
    charge->context = context;
    put(table, charge);
}

bool gs_charges_have(struct gs_charge_table *table, uint64_t key)
{
    gs_mutex_lock(&table->lock);
    bool found = GS_HASH_FIND(table->charges, &key) != NULL;
    gs_mutex_unlock(&table->lock);
    return found;
}

struct gs_charge *gs_charges_leave(struct gs_charge_table *table, uint64_t key)
{
    gs_mutex_lock(&table->lock);
    struct gs_charge *charge = take(table, key);
    gs_mutex_unlock(&table->lock);
    return charge;
}

void gs_charges_left(struct gs_charge_table *table, struct gs_charge *charge, bool freed)
{
    if (freed) {
        end(table, charge);
    } else if (charge) {
        put(table, charge);
    }
}

void gs_charges_context_lost(struct gs_charge_table *table, CUcontext context)
{
    struct gs_charge *charge, *next;
    if (!context) {
        return;
    }
    gs_mutex_lock(&table->lock);
    HASH_ITER (hh, table->charges, charge, next) {
        if (charge->context == context) {
            HASH_DEL(table->charges, charge);
            end(table, charge);
        }
    }
    gs_mutex_unlock(&table->lock);
}
