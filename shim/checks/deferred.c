/*
 * deferred.c - blocks that wait for a late fill.
 * Owns:  the list.   Lock: its mutex.
 */
#include "shim/checks/deferred.h"

#include <stdlib.h>

#include "gs_locks.h"
#include "gs_wait.h"
#include "shim/checks/fill_stream.h"
#include "shim/order/captures.h"

/* The sleep between two polls. */
#define NAP_NS 1000000

struct deferred {
    struct deferred *next;
    struct gs_block *block;
    const struct gs_context *context;
};

static struct gs_mutex lock = GS_MUTEX(GS_RANK_DEFERRED);
static struct deferred *deferred_blocks; /* written under lock, read atomically */

void gs_deferred_reset(void)
{
    gs_mutex_init(&lock, GS_RANK_DEFERRED);
    deferred_blocks = NULL;
}

/* Without host memory for a list entry, the block is never handed out again. */
void gs_deferred_put(const struct gs_context *context, struct gs_block *block)
{
    struct deferred *entry = malloc(sizeof(*entry));
    if (!entry) {
        return;
    }
    *entry = (struct deferred){.block = block, .context = context};
    gs_mutex_lock(&lock);
    entry->next = deferred_blocks;
    __atomic_store_n(&deferred_blocks, entry, __ATOMIC_RELAXED);
    gs_mutex_unlock(&lock);
}

/* Takes the context's blocks off the list, as a list of their own. */
static struct deferred *take(const struct gs_context *context)
{
    struct deferred *list = NULL;
    gs_mutex_lock(&lock);
    for (struct deferred **link = &deferred_blocks; *link;) {
        struct deferred *entry = *link;
        if (entry->context != context) {
            link = &entry->next;
            continue;
        }
        __atomic_store_n(link, entry->next, __ATOMIC_RELAXED);
        entry->next = list;
        list = entry;
    }
    gs_mutex_unlock(&lock);
    return list;
}

static void give_back(struct deferred *list)
{
    struct deferred *last = list;
    while (last->next) {
        last = last->next;
    }
    gs_mutex_lock(&lock);
    last->next = deferred_blocks;
    __atomic_store_n(&deferred_blocks, list, __ATOMIC_RELAXED);
    gs_mutex_unlock(&lock);
}

static void free_held(struct deferred *list)
{
    while (list) {
        struct deferred *next = list->next;
        gs_block_free(list->block);
        free(list);
        list = next;
    }
}

/* Takes the blocks before it queries the driver: blocks deferred during the query have a
 * fill of their own. Returns GS_FILL_SETTLED only if there was a block. */
static enum gs_fill_state free_if_filled(const struct gs_context *context)
{
    enum gs_fill_state state = GS_FILL_BUSY;
    struct deferred *list = take(context);
    if (list) {
        state = gs_fill_stream_settled(context);
        if (state == GS_FILL_SETTLED) {
            free_held(list);
        } else {
            give_back(list);
        }
    }
    return state;
}

static bool has_deferred(void)
{
    return __atomic_load_n(&deferred_blocks, __ATOMIC_RELAXED) != NULL;
}

bool gs_deferred_settle(const struct gs_context *context)
{
    return GS_UNLIKELY(has_deferred()) && free_if_filled(context) == GS_FILL_SETTLED;
}

bool gs_deferred_await(const struct gs_state *state, const struct gs_context *context)
{
    struct gs_wait wait = {.nap_ns = NAP_NS,
                           .until_ns = gs_now_ns() +
                                       (uint64_t)state->options.pool_wait_ms * 1000000u};
    while (has_deferred()) {
        enum gs_fill_state now = free_if_filled(context);
        if (now != GS_FILL_BUSY) {
            return now == GS_FILL_SETTLED;
        }
        if (gs_captures_active() || !gs_wait_step(&wait)) {
            break;
        }
    }
    return false;
}

void gs_deferred_context_ended(const struct gs_context *context)
{
    free_held(take(context));
}
