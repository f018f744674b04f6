/*
 * releasable.c - the table of releasable allocations, and where their pages are.
 * Owns, Lock: see releasable.h.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gs_locks.h"
#include "gs_wait.h"
#include "shim/heaps/releasable_items.h"
#include "shim/memory/tell.h"
#include "shim/order/captures.h"
#include "shim/order/context_errors.h"
#include "shim/order/free_wait.h"
#include "shim/order/visit.h"

#define NAP_NS 100000ull

bool gs_alloc_detours;

static struct gs_mutex table_lock = GS_MUTEX(GS_RANK_PHYSICAL);
static struct gs_releasable *table; /* under table_lock */

void gs_releasable_reset(void)
{
    gs_mutex_init(&table_lock, GS_RANK_PHYSICAL);
    table = NULL;
}

/* ---- the table --------------------------------------------------------------------- */

void gs_releasable_drop_copy(struct gs_releasable *item)
{
    struct gs_visit visit;
    if (!item->copy) {
        return;
    }
    if (item->pinned) {
        if (gs_visit_begin(&visit, "gpushim_resume", item->context->handle, true) ==
            CUDA_SUCCESS) {
            (void)gs_real()->cuMemHostUnregister(item->copy);
        }
        gs_visit_end(&visit);
    }
    (void)munmap(item->copy, item->bytes);
    item->copy = NULL;
}

static struct gs_releasable *find(uint64_t addr)
{
    return table ? GS_HASH_FIND(table, &addr) : NULL;
}

/* Takes an allocation that nobody moves out of the table; NULL: none. */
static struct gs_releasable *take_out(uint64_t addr)
{
    struct gs_releasable *item;
    gs_mutex_lock(&table_lock);
    item = find(addr);
    if (item) {
        HASH_DEL(table, item);
    }
    gs_mutex_unlock(&table_lock);
    return item;
}

static void drop(struct gs_releasable *item)
{
    if (item) {
        gs_releasable_drop_copy(item);
        free(item);
    }
}

void gs_releasable_forget(uint64_t addr)
{
    drop(take_out(addr));
}

bool gs_releasable_add(struct gs_releasable *item)
{
    gs_releasable_forget(item->addr); /* of a context that ended without a notice */
    gs_mutex_lock(&table_lock);
    bool added = GS_HASH_ADD(table, addr, item);
    gs_mutex_unlock(&table_lock);
    return added;
}

bool gs_releasable_has(uint64_t addr)
{
    gs_mutex_lock(&table_lock);
    bool has = find(addr) != NULL;
    gs_mutex_unlock(&table_lock);
    return has;
}

bool gs_releasable_lacks(uint64_t addr)
{
    gs_mutex_lock(&table_lock);
    const struct gs_releasable *item = find(addr);
    bool lacks = item && item->state != GS_RELEASABLE_PRESENT;
    gs_mutex_unlock(&table_lock);
    return lacks;
}

void gs_releasable_away(int device, uint64_t *bytes, uint64_t *pages)
{
    *bytes = *pages = 0;
    gs_mutex_lock(&table_lock);
    for (const struct gs_releasable *item = table; item; item = item->hh.next) {
        if (item->state == GS_RELEASABLE_AWAY && item->context->device == device) {
            *bytes += item->requested;
            *pages += item->bytes;
        }
    }
    gs_mutex_unlock(&table_lock);
}

uint64_t gs_releasable_away_of(uint32_t bits)
{
    uint64_t pages = 0;
    gs_mutex_lock(&table_lock);
    for (const struct gs_releasable *item = table; item; item = item->hh.next) {
        pages +=
            item->names & bits && item->state == GS_RELEASABLE_AWAY ? item->bytes : 0;
    }
    gs_mutex_unlock(&table_lock);
    return pages;
}

uint64_t gs_releasable_copied(uint32_t bits)
{
    uint64_t bytes = 0;
    gs_mutex_lock(&table_lock);
    for (const struct gs_releasable *item = table; item; item = item->hh.next) {
        bytes += item->names & bits && item->copy ? item->bytes : 0;
    }
    gs_mutex_unlock(&table_lock);
    return bytes;
}

/* ---- moves ------------------------------------------------------------------------- */

/* Whether the program has given the memory to others, or has set attributes of it. */
static bool is_held(struct gs_state *state, uint64_t addr)
{
    struct gs_range range;
    return gs_pool_find(state->pool, addr, &range) == GS_OK && range.retained;
}

/* Claims the block of an allocation that is present. */
static bool claim(struct gs_state *state, const struct gs_releasable *item)
{
    struct gs_block *block;
    if (gs_pool_claim(state->pool, item->addr, &block) != GS_OK) {
        return false; /* it is being freed */
    }
    if (block != item->block) { /* another's, at the address of a lost one */
        gs_block_release_claim(block);
        return false;
    }
    return true;
}

enum gs_status gs_releasable_take(struct gs_state *state, uint32_t bits,
                                  enum gs_releasable_state from,
                                  struct gs_releasable ***items, size_t *count,
                                  struct gs_release_sum *sum)
{
    gs_mutex_lock(&table_lock);
    *count = 0;
    *items = calloc(HASH_COUNT(table) + 1, sizeof(struct gs_releasable *));
    for (struct gs_releasable *item = *items ? table : NULL; item; item = item->hh.next) {
        if (!(item->names & bits) || item->state != from) {
            continue;
        }
        if (from == GS_RELEASABLE_PRESENT && is_held(state, item->addr)) {
            sum->held_count++;
            sum->held_bytes += item->requested;
        } else if (from != GS_RELEASABLE_PRESENT || claim(state, item)) {
            item->state = GS_RELEASABLE_MOVING;
            (*items)[(*count)++] = item;
        }
    }
    gs_mutex_unlock(&table_lock);
    return *items ? GS_OK : GS_ERR_HOST_NOMEM;
}

void gs_releasable_settle(struct gs_releasable **items, size_t count,
                          enum gs_releasable_state state)
{
    gs_mutex_lock(&table_lock);
    for (size_t i = 0; i < count; i++) {
        if (state == GS_RELEASABLE_PRESENT) {
            gs_block_release_claim(items[i]->block);
        }
        items[i]->state = state;
    }
    gs_mutex_unlock(&table_lock);
    free(items);
}

/* Takes an allocation whose pages are away out of the table, once no thread moves it; of
 * one whose pages are present, claims the block instead. No thread moves it then, so
 * a claim fails only for an address that is freed already. */
static struct gs_releasable *take_still(struct gs_state *state, uint64_t addr,
                                        struct gs_block **block)
{
    for (;; gs_nap(NAP_NS)) {
        gs_mutex_lock(&table_lock);
        struct gs_releasable *item = find(addr);
        bool moving = item && item->state == GS_RELEASABLE_MOVING;
        if (item && item->state == GS_RELEASABLE_AWAY) {
            HASH_DEL(table, item);
        } else if (item && !moving) {
            item = NULL;
            if (gs_pool_claim(state->pool, addr, block) != GS_OK) {
                *block = NULL;
            }
        }
        gs_mutex_unlock(&table_lock);
        if (!moving) {
            return item;
        }
    }
}

static void put_back(struct gs_releasable *item)
{
    gs_mutex_lock(&table_lock);
    bool added = GS_HASH_ADD(table, addr, item);
    gs_mutex_unlock(&table_lock);
    if (!added) { /* without memory: the address stays taken for good */
        drop(item);
    }
}

bool gs_releasable_free(struct gs_state *state, enum gs_api api, bool waits,
                        uint64_t addr, struct gs_block **block, CUresult *result)
{
    bool idle, in_use;
    *block = NULL;
    if (!__atomic_load_n(&gs_alloc_detours, __ATOMIC_RELAXED)) {
        return false;
    }
    struct gs_releasable *item = take_still(state, addr, block);
    if (!item) {
        return *block != NULL;
    }
    /* No work uses it, but a program may rely on the wait. */
    *result = waits && !gs_captures_active()
                  ? gs_free_wait(state, item->block, &idle, &in_use)
                  : CUDA_SUCCESS;
    if (*result != CUDA_SUCCESS && gs_error_keeps_memory(*result)) {
        put_back(item);
        return true;
    }
    gs_record_ends(state, gs_record_id(state, item->block), api, addr, GS_TRACE_READY);
    gs_block_free(item->block);
    drop(item);
    return true;
}

void gs_releasable_context_ended(const struct gs_context *context)
{
    struct gs_releasable *item, *next;
    bool moving = true;
    while (moving) {
        moving = false;
        gs_mutex_lock(&table_lock);
        HASH_ITER (hh, table, item, next) {
            if (item->context != context) {
                continue;
            }
            if (item->state == GS_RELEASABLE_MOVING) {
                moving = true;
                continue;
            }
            HASH_DEL(table, item);
            break;
        }
        gs_mutex_unlock(&table_lock);
        if (item) {
            if (item->state == GS_RELEASABLE_AWAY) {
                gs_block_free(item->block); /* its record alone */
            }
            drop(item);
            moving = true; /* there may be more */
        } else if (moving) {
            gs_nap(NAP_NS);
        }
    }
}
