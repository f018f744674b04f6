/*
 * history.c - addresses that were just freed, so that a second free can be explained.
 *
 * A direct-mapped table: a freed address replaces what its slot held, a new allocation at
 * the address empties it (an error must never blame a former tenant). One entry is 96
 * bytes; the table is mapped at the first free and its pages are touched as they are
 * used.
 *
 * Owns:  history.   Locks: each entry's own; a writer that finds it taken drops what it
 *        has instead of waiting.   Design: docs/tracker.md
 */
#include "tracker_internal.h"

struct gs_history_entry *gs_history_map(struct gs_tracker *tracker)
{
    struct gs_history_entry *table = NULL;
    size_t bytes = tracker->config.free_history * sizeof *table;

    if (bytes == 0)
        return NULL;
    struct gs_history_entry *mapped = gs_pages_map(bytes);
    if (!mapped)
        return NULL;
    if (__atomic_compare_exchange_n(&tracker->history, &table, mapped, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return mapped;
    gs_host_unmap(mapped, bytes); /* another thread was first */
    return table;
}

bool gs_history_get(struct gs_tracker *tracker, uint64_t addr, struct gs_former *out)
{
    struct gs_history_entry *table = __atomic_load_n(&tracker->history, __ATOMIC_ACQUIRE);

    if (!table || addr == 0)
        return false;
    struct gs_history_entry *entry = &table[gs_history_slot(tracker, addr)];
    gs_tracker_lock_take(&entry->lock, GS_RANK_HISTORY);
    bool found = __atomic_load_n(&entry->addr, __ATOMIC_RELAXED) == addr;
    if (found) {
        out->allocation = gs_words_unpack(&entry->words);
        out->site = entry->site;
        out->lost = entry->lost != 0;
    }
    gs_tracker_lock_give(&entry->lock, GS_RANK_HISTORY);
    return found;
}

void gs_history_free(struct gs_tracker *tracker)
{
    gs_host_unmap(tracker->history,
                  tracker->config.free_history * sizeof *tracker->history);
}
