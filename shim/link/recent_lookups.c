/*
 * recent_lookups.c - a ring buffer of names.
 * Owns:  the ring.   Lock: none; characters are atomic, and a reader accepts any mixture.
 */
#include "shim/link/recent_lookups.h"

#include "shim/link/known_functions.h"

static char ring[GS_RECENT_LOOKUPS][GS_RECENT_LOOKUP_BYTES]; /* atomic, each character */
static unsigned added;                                       /* atomic */

static char *ring_row(unsigned number)
{
    return ring[number % GS_RECENT_LOOKUPS];
}

/* Returns true if the row has the name. Does not call strcmp, which a sanitizer may have
 * replaced. */
static bool has(const char *kept, const char *name)
{
    for (size_t i = 0; i + 1 < GS_RECENT_LOOKUP_BYTES; i++) {
        char c = __atomic_load_n(&kept[i], __ATOMIC_RELAXED);
        if (c != name[i]) {
            return false;
        }
        if (!c) {
            break;
        }
    }
    return true;
}

static void add(const char *name)
{
    unsigned last = __atomic_load_n(&added, __ATOMIC_RELAXED);
    if (last > 0 && has(ring_row(last - 1), name)) {
        return; /* a runtime looks up some names twice, by two interfaces */
    }
    char *kept = ring_row(__atomic_fetch_add(&added, 1, __ATOMIC_ACQ_REL));
    for (size_t i = 0; i + 1 < GS_RECENT_LOOKUP_BYTES; i++) {
        __atomic_store_n(&kept[i], name[i], __ATOMIC_RELAXED);
        if (!name[i]) {
            break;
        }
    }
}

void gs_recent_lookups_add(const char *name)
{
    if (gs_known_is_driver_name(name)) {
        add(name);
    }
}

void gs_recent_lookups_add_table(const char *guid)
{
    char name[GS_RECENT_LOOKUP_BYTES] = "table ";
    for (size_t i = 0; guid[i] && sizeof("table ") + i < sizeof(name); i++) {
        name[sizeof("table ") - 1 + i] = guid[i];
    }
    add(name);
}

size_t gs_recent_lookups_copy(char out[GS_RECENT_LOOKUPS][GS_RECENT_LOOKUP_BYTES])
{
    unsigned end = __atomic_load_n(&added, __ATOMIC_ACQUIRE);
    size_t count = end < GS_RECENT_LOOKUPS ? end : GS_RECENT_LOOKUPS;
    for (size_t i = 0; i < count; i++) {
        const char *kept = ring_row(end - 1 - (unsigned)i);
        for (size_t at = 0; at < GS_RECENT_LOOKUP_BYTES; at++) {
            out[i][at] = __atomic_load_n(&kept[at], __ATOMIC_RELAXED);
        }
        out[i][GS_RECENT_LOOKUP_BYTES - 1] = '\0';
    }
    return count;
}

void gs_recent_lookups_reset(void)
{
    __atomic_store_n(&added, 0, __ATOMIC_RELAXED);
}
