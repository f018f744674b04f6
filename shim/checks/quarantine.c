/*
 * quarantine.c - the quarantined blocks, in the order of their frees.
 * Owns:  the list.   Lock: its mutex.
 */
#include "shim/checks/quarantine.h"

#include <stdlib.h>

#include "gs_locks.h"

struct held {
    struct held *next;
    struct gs_block *block;
    const struct gs_context *context;
    size_t bytes;
};

static struct {
    struct gs_mutex lock;
    struct held *first, **end; /* under lock; `end` NULL: not initialized */
    size_t bytes;              /* under lock */
    size_t limit;              /* immutable after start; 0: off */
    bool large_alone;          /* immutable after start */
} all = {.lock = GS_MUTEX(GS_RANK_QUARANTINE)};

void gs_quarantine_start(uint64_t limit_bytes, bool large_alone)
{
    all.limit = limit_bytes;
    all.large_alone = large_alone;
}

void gs_quarantine_reset(void)
{
    gs_mutex_init(&all.lock, GS_RANK_QUARANTINE);
    all.first = NULL;
    all.end = NULL;
    all.bytes = all.limit = 0;
}

/* all.lock is held. */
static void append(struct held *held)
{
    if (!all.first) {
        all.end = &all.first;
    }
    *all.end = held;
    all.end = &held->next;
    all.bytes += held->bytes;
}

/* Takes the oldest blocks off the list until at most `limit` bytes remain. Returns them
 * as a list. all.lock is held. */
static struct held *take_oldest(size_t limit)
{
    struct held *list = all.first, **end = &list;
    while (all.first && all.bytes > limit) {
        all.bytes -= all.first->bytes;
        end = &all.first->next;
        all.first = all.first->next;
    }
    *end = NULL;
    return list;
}

/* Takes the blocks of a device (-1: any) and a context (NULL: any) off the list. all.lock
 * is held. */
static struct held *take_of(int device, const struct gs_context *context)
{
    struct held *list = NULL, **end = &list, **link = &all.first;
    while (*link) {
        struct held *held = *link;
        if ((device >= 0 && held->context->device != device) ||
            (context && held->context != context)) {
            link = &held->next;
            continue;
        }
        *link = held->next;
        all.bytes -= held->bytes;
        *end = held;
        end = &held->next;
    }
    *end = NULL;
    all.end = link;
    return list;
}

/* Frees the blocks of a list. No lock is held. Returns the bytes. */
static size_t free_held(struct held *list)
{
    size_t bytes = 0;
    while (list) {
        struct held *next = list->next;
        bytes += list->bytes;
        gs_block_free(list->block);
        free(list);
        list = next;
    }
    return bytes;
}

bool gs_quarantine_put(const struct gs_context *context, struct gs_block *block)
{
    size_t bytes = gs_block_whole_bytes(block);
    struct held *held = bytes <= all.limit ? malloc(sizeof(*held)) : NULL;
    if (!held) {
        return false;
    }
    *held = (struct held){.block = block, .context = context, .bytes = bytes};
    gs_mutex_lock(&all.lock);
    append(held);
    struct held *list = take_oldest(all.limit);
    gs_mutex_unlock(&all.lock);
    (void)free_held(list);
    return true;
}

bool gs_quarantine_holds(uint64_t addr)
{
    bool found = false;
    if (all.limit == 0) {
        return false;
    }
    gs_mutex_lock(&all.lock);
    for (const struct held *held = all.first; held && !found; held = held->next) {
        found = gs_block_addr(held->block) == addr;
    }
    gs_mutex_unlock(&all.lock);
    return found;
}

static size_t empty(int device, const struct gs_context *context)
{
    if (all.limit == 0) {
        return 0;
    }
    gs_mutex_lock(&all.lock);
    struct held *list = take_of(device, context);
    gs_mutex_unlock(&all.lock);
    return free_held(list);
}

size_t gs_quarantine_empty(int device)
{
    return empty(device, NULL);
}

void gs_quarantine_context_ended(const struct gs_context *context)
{
    (void)empty(-1, context);
}

size_t gs_quarantine_idle(int device)
{
    size_t bytes = 0;
    if (all.limit == 0 || !all.large_alone) {
        return 0;
    }
    gs_mutex_lock(&all.lock);
    for (const struct held *held = all.first; held; held = held->next) {
        if (held->context->device == device && held->bytes >= GS_LARGE_BYTES) {
            bytes += held->bytes;
        }
    }
    gs_mutex_unlock(&all.lock);
    return bytes;
}
