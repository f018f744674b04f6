/*
 * charge_table.h - charges by the address or handle of what they are for.
 *
 * A charge ends when its memory has been freed, or with its context.
 *
 * Locks: each table's own, a leaf; never held across a driver call.
 */
#ifndef GS_CHARGE_TABLE_H
#define GS_CHARGE_TABLE_H

#include "gs_locks.h"
#include "shim/state/state.h"

struct gs_charge;

struct gs_charge_table {
    struct gs_mutex lock;
    struct gs_charge *charges; /* under lock */
    void (*end)(int device, size_t bytes);
};

#define GS_CHARGE_TABLE(its_end)                                                         \
    {                                                                                    \
        .lock = GS_MUTEX(GS_RANK_LIMITS), .end = (its_end)                               \
    }

void gs_charges_reset(struct gs_charge_table *table); /* in a forked child */

/* In: context  NULL: the charge outlives all. A charge that cannot be recorded ends at
 * once, as does an old one of this key. */
void gs_charges_record(struct gs_charge_table *table, uint64_t key, size_t bytes,
                       int device, CUcontext context);
bool gs_charges_have(struct gs_charge_table *table, uint64_t key);

/* Called before memory with this key is freed: takes its charge out, before another
 * thread can get the same key. NULL: there is none. */
struct gs_charge *gs_charges_leave(struct gs_charge_table *table, uint64_t key);
/* Called after that free, with what gs_charges_leave returned. */
void gs_charges_left(struct gs_charge_table *table, struct gs_charge *charge, bool freed);
/* Ends the charges of a context that has ended. */
void gs_charges_context_lost(struct gs_charge_table *table, CUcontext context);

#endif
