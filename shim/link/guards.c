/*
 * guards.c - the targets of the guards' entries, which are in jump.S.
 * Owns:  the targets.   Lock: none; an entry is taken once, for the life of the process.
 */
#include "shim/link/guards.h"

#include "shim/parts.h"
#include "shim/settings/thread.h"

struct guard {
    bool taken;   /* atomic */
    void *pooled; /* atomic; written before `found` */
    void *found;  /* atomic; NULL: not in use */
};

static struct guard guards[GS_GUARDS];

#define ENTRY_BYTES 16
extern char gs_guard_entries[GS_GUARDS * ENTRY_BYTES]
    __attribute__((visibility("hidden")));

void *gs_guard(void *found, void *pooled)
{
    for (size_t i = 0; i < GS_GUARDS; i++) {
        struct guard *guard = &guards[i];
        if (!__atomic_exchange_n(&guard->taken, true, __ATOMIC_ACQ_REL)) {
            __atomic_store_n(&guard->pooled, pooled, __ATOMIC_RELEASE);
            __atomic_store_n(&guard->found, found, __ATOMIC_RELEASE);
        }
        if (__atomic_load_n(&guard->found, __ATOMIC_ACQUIRE) == found &&
            __atomic_load_n(&guard->pooled, __ATOMIC_ACQUIRE) == pooled) {
            return gs_guard_entries + i * ENTRY_BYTES;
        }
    }
    return NULL;
}

/* Called by jump.S. The library's own calls, which free segments, go on. */
void *gs_guard_target(unsigned number, uint64_t address);
void *gs_guard_target(unsigned number, uint64_t address)
{
    const struct guard *guard = &guards[number % GS_GUARDS];
    bool pooled = gs_thread.depth == 0 && gs_parts_pools_have(address);
    return pooled ? guard->pooled : guard->found;
}
