/*
 * page_addresses.c - the addresses of a page store. See page_addresses.h
 *
 * Two sorted arrays: the arenas (addresses that were reserved at once), and the spans of
 * the arenas that hold no piece. An arena's last 2 MiB are never used, so no range
 * reaches from one arena into another.
 *
 * Owns: the arrays.   Lock: the store's (GS_RANK_PAGE_STORE), released around each
 * operation of the driver.
 */
#include "pool/page_addresses.h"

#include "pool/meta.h"
#include "pool/pool.h"

struct span {
    uint64_t addr;
    size_t bytes;
};

/* ---- sorted arrays; the lock is held ------------------------------------------------
 */

/* The address of an item: each item begins with it. */
static uint64_t addr_of(const struct gs_page_array *array, size_t item_bytes,
                        size_t index)
{
    return *(const uint64_t *)(const void *)((const char *)array->items +
                                             index * item_bytes);
}

/* The index of the first item at `addr` or above. */
static size_t find(const struct gs_page_array *array, size_t item_bytes, uint64_t addr)
{
    size_t low = 0, high = array->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (addr_of(array, item_bytes, middle) < addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Inserts the item by its address. False: no memory. */
static bool put(struct gs_page_array *array, size_t item_bytes, const void *item)
{
    size_t at = find(array, item_bytes, *(const uint64_t *)item);
    char *items = array->items;

    if (array->count == array->room) {
        size_t room = array->room ? 2 * array->room : GS_META_PAGE_BYTES / item_bytes;

        items = gs_meta_map(room * item_bytes);
        if (!items) {
            return false;
        }
        if (array->items && array->count) {
            __builtin_memcpy(items, array->items, array->count * item_bytes);
        }
        if (array->room) {
            gs_meta_unmap(array->items, array->room * item_bytes);
        }
        array->items = items;
        array->room = room;
    }
    if (!items) {
        return false;
    }
    __builtin_memmove(items + (at + 1) * item_bytes, items + at * item_bytes,
                      (array->count - at) * item_bytes);
    __builtin_memcpy(items + at * item_bytes, item, item_bytes);
    array->count++;
    return true;
}

static void drop(struct gs_page_array *array, size_t item_bytes, size_t at)
{
    char *items = array->items;

    array->count--;
    __builtin_memmove(items + at * item_bytes, items + (at + 1) * item_bytes,
                      (array->count - at) * item_bytes);
}

static void free_array(struct gs_page_array *array, size_t item_bytes)
{
    if (array->room) {
        gs_meta_unmap(array->items, array->room * item_bytes);
    }
}

static struct span *span_in(struct gs_page_array *array, size_t index)
{
    return (struct span *)array->items + index;
}

/* ---- addresses ----------------------------------------------------------------------
 */

/* Adds a span, merged with its neighbours. The lock is held. */
static void put_span(struct gs_page_addresses *addresses, struct span span)
{
    struct gs_page_array *spans = &addresses->spans;
    size_t at = find(spans, sizeof(span), span.addr);
    struct span *below = at > 0 ? span_in(spans, at - 1) : NULL;

    if (at < spans->count && span_in(spans, at)->addr == span.addr + span.bytes) {
        span.bytes += span_in(spans, at)->bytes;
        drop(spans, sizeof(span), at);
    }
    if (below && below->addr + below->bytes == span.addr) {
        below->bytes += span.bytes;
    } else {
        (void)put(spans, sizeof(span), &span); /* else lost: addresses are plenty */
    }
}

/* Takes the first part of the span. The lock is held. */
static void cut_span(struct gs_page_addresses *addresses, size_t at, size_t bytes)
{
    struct span *span = span_in(&addresses->spans, at);

    span->addr += bytes;
    span->bytes -= bytes;
    if (!span->bytes) {
        drop(&addresses->spans, sizeof(*span), at);
    }
}

/* Returns true if the addresses from `addr` on hold no memory. The lock is held. */
static bool is_free(const struct gs_page_addresses *addresses, uint64_t addr,
                    size_t bytes)
{
    const struct gs_page_array *spans = &addresses->spans;
    size_t at = find(spans, sizeof(struct span), addr);
    const struct span *span = (const struct span *)spans->items + at;

    return at < spans->count && span->addr == addr && span->bytes >= bytes;
}

unsigned gs_page_addresses_extend(struct gs_page_addresses *addresses,
                                  const struct gs_pages_from *from, unsigned count,
                                  size_t bytes)
{
    unsigned best = count;

    gs_lock_take(addresses->lock);
    for (unsigned i = 0; i < count; i++) {
        if (from[i].taken == from[i].bytes &&
            (best == count || from[i].bytes > from[best].bytes) &&
            is_free(addresses, from[i].addr + from[i].bytes, bytes - from[i].bytes)) {
            best = i;
        }
    }
    if (best < count) {
        cut_span(addresses,
                 find(&addresses->spans, sizeof(struct span),
                      from[best].addr + from[best].bytes),
                 bytes - from[best].bytes);
    }
    gs_lock_drop(addresses->lock);
    return best;
}

/* Takes the lowest addresses that suffice. */
static bool take_span(struct gs_page_addresses *addresses, size_t bytes, uint64_t *addr)
{
    bool found = false;

    gs_lock_take(addresses->lock);
    for (size_t at = 0; at < addresses->spans.count && !found; at++) {
        if (span_in(&addresses->spans, at)->bytes < bytes) {
            continue;
        }
        *addr = span_in(&addresses->spans, at)->addr;
        cut_span(addresses, at, bytes);
        found = true;
    }
    gs_lock_drop(addresses->lock);
    return found;
}

static bool add_arena(struct gs_page_addresses *addresses, size_t bytes)
{
    struct span arena = {.bytes = bytes};
    bool done;

    if (!addresses->ops->reserve(addresses->self, bytes, &arena.addr)) {
        return false;
    }
    gs_lock_take(addresses->lock);
    done = put(&addresses->arenas, sizeof(arena), &arena);
    arena.bytes -= GS_LARGE_BYTES;
    if (done) {
        put_span(addresses, arena);
    }
    gs_lock_drop(addresses->lock);
    if (!done) {
        addresses->ops->unreserve(addresses->self, arena.addr, bytes);
    }
    return done;
}

bool gs_page_addresses_take(struct gs_page_addresses *addresses, size_t bytes,
                            uint64_t *addr)
{
    size_t least = bytes + GS_LARGE_BYTES;

    if (take_span(addresses, bytes, addr)) {
        return true;
    }
    if (!(addresses->arena_bytes > least &&
          add_arena(addresses, addresses->arena_bytes)) &&
        !add_arena(addresses, least)) {
        return false;
    }
    return take_span(addresses, bytes, addr);
}

/* The arena whose addresses the span covers but for the last 2 MiB, unless it is the only
 * one. The lock is held. */
static bool empty_arena(struct gs_page_addresses *addresses, size_t at, struct span *out)
{
    const struct span *span = span_in(&addresses->spans, at);
    size_t number = find(&addresses->arenas, sizeof(*out), span->addr);

    if (addresses->arenas.count < 2 || number == addresses->arenas.count) {
        return false;
    }
    *out = *span_in(&addresses->arenas, number);
    return out->addr == span->addr && out->bytes == span->bytes + GS_LARGE_BYTES;
}

void gs_page_addresses_return(struct gs_page_addresses *addresses, uint64_t addr,
                              size_t bytes)
{
    struct span arena;
    bool empty;
    size_t at;

    if (!bytes) {
        return;
    }
    gs_lock_take(addresses->lock);
    put_span(addresses, (struct span){addr, bytes});
    at = find(&addresses->spans, sizeof(arena), addr);
    at -= at == addresses->spans.count || span_in(&addresses->spans, at)->addr > addr;
    empty = at < addresses->spans.count && empty_arena(addresses, at, &arena);
    if (empty) {
        drop(&addresses->spans, sizeof(arena), at);
        drop(&addresses->arenas, sizeof(arena),
             find(&addresses->arenas, sizeof(arena), arena.addr));
    }
    gs_lock_drop(addresses->lock);
    if (empty) {
        addresses->ops->unreserve(addresses->self, arena.addr, arena.bytes);
    }
}

void gs_page_addresses_unreserve_all(struct gs_page_addresses *addresses)
{
    struct span arena = {0};
    bool any = true;

    while (any) {
        gs_lock_take(addresses->lock);
        any = addresses->arenas.count > 0;
        if (any) {
            arena = *span_in(&addresses->arenas, addresses->arenas.count - 1);
            addresses->arenas.count--;
        }
        addresses->spans.count = 0;
        gs_lock_drop(addresses->lock);
        if (any) {
            addresses->ops->unreserve(addresses->self, arena.addr, arena.bytes);
        }
    }
}

bool gs_page_addresses_own(struct gs_page_addresses *addresses, uint64_t addr)
{
    bool owns = false;
    size_t at;

    gs_lock_take(addresses->lock);
    at = find(&addresses->arenas, sizeof(struct span), addr + 1);
    if (at > 0) {
        owns = addr - span_in(&addresses->arenas, at - 1)->addr <
               span_in(&addresses->arenas, at - 1)->bytes;
    }
    gs_lock_drop(addresses->lock);
    return owns;
}

void gs_page_addresses_destroy(struct gs_page_addresses *addresses)
{
    free_array(&addresses->arenas, sizeof(struct span));
    free_array(&addresses->spans, sizeof(struct span));
}
