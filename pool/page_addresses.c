/*
 * page_addresses.c - the addresses of a page store. See page_addresses.h
 *
 * The arenas (addresses that were reserved at once), and the spans of the arenas that
 * hold no piece. An arena's last 2 MiB are never used, so no range reaches from one arena
 * into another.
 *
 * Owns: the array of arenas, the records of spans.   Lock: the store's
 * (GS_RANK_PAGE_STORE), released around each operation of the driver.
 */
#include "pool/page_addresses.h"

#include <string.h>

#include "pool/list.h"
#include "pool/meta.h"
#include "pool/pool.h"

struct gs_page_span {
    uint64_t addr;
    size_t bytes;
};

/* A span in both trees, or spare. */
struct span {
    struct gs_sorted_node of_addr, of_size;
    uint64_t addr;
    size_t bytes;
};

static struct span *of_addr(struct gs_sorted_node *node)
{
    return node ? GS_LINK_OWNER(node, struct span, of_addr) : NULL;
}

static struct span *of_size(struct gs_sorted_node *node)
{
    return node ? GS_LINK_OWNER(node, struct span, of_size) : NULL;
}

static struct gs_sorted_key key_of_addr(const struct gs_sorted_node *node)
{
    return (struct gs_sorted_key){
        GS_LINK_OWNER((uintptr_t)node, struct span, of_addr)->addr, 0};
}

static struct gs_sorted_key key_of_size(const struct gs_sorted_node *node)
{
    const struct span *span = GS_LINK_OWNER((uintptr_t)node, struct span, of_size);

    return (struct gs_sorted_key){span->bytes, span->addr};
}

void gs_page_addresses_init(struct gs_page_addresses *addresses,
                            const struct gs_page_ops *ops, void *self, size_t arena_bytes,
                            struct gs_lock *lock)
{
    *addresses = (struct gs_page_addresses){
        .ops = ops,
        .self = self,
        .arena_bytes = arena_bytes,
        .lock = lock,
        .by_addr = {.key_of = key_of_addr},
        .by_size = {.key_of = key_of_size},
    };
}

/* ---- spans; the lock is held --------------------------------------------------------
 */

/* The first span at `addr` or above; the last below; NULL: none. */
static struct span *span_from(const struct gs_page_addresses *addresses, uint64_t addr)
{
    return of_addr(gs_sorted_from(&addresses->by_addr, (struct gs_sorted_key){addr, 0}));
}

static struct span *span_below(const struct gs_page_addresses *addresses, uint64_t addr)
{
    return of_addr(gs_sorted_below(&addresses->by_addr, (struct gs_sorted_key){addr, 0}));
}

static void insert(struct gs_page_addresses *addresses, struct span *span)
{
    gs_sorted_insert(&addresses->by_addr, &span->of_addr);
    gs_sorted_insert(&addresses->by_size, &span->of_size);
}

static void withdraw(struct gs_page_addresses *addresses, struct span *span)
{
    gs_sorted_remove(&addresses->by_addr, &span->of_addr);
    gs_sorted_remove(&addresses->by_size, &span->of_size);
}

static void drop(struct gs_page_addresses *addresses, struct span *span)
{
    withdraw(addresses, span);
    gs_sorted_records_give(&addresses->records, &span->of_addr);
}

/* Adds a span, merged with its neighbours. */
static void put_span(struct gs_page_addresses *addresses, uint64_t addr, size_t bytes)
{
    struct span *above = span_from(addresses, addr);
    struct span *below = span_below(addresses, addr), *span;

    if (above && above->addr == addr + bytes) {
        bytes += above->bytes;
        drop(addresses, above);
    }
    if (below && below->addr + below->bytes == addr) { /* its address stays */
        gs_sorted_remove(&addresses->by_size, &below->of_size);
        below->bytes += bytes;
        gs_sorted_insert(&addresses->by_size, &below->of_size);
        return;
    }
    span = of_addr(gs_sorted_records_take(&addresses->records, sizeof(*span)));
    if (span) { /* else lost: addresses are plenty */
        span->addr = addr;
        span->bytes = bytes;
        insert(addresses, span);
    }
}

/* Takes the first part of the span. */
static void cut_span(struct gs_page_addresses *addresses, struct span *span, size_t bytes)
{
    if (span->bytes == bytes) {
        drop(addresses, span);
        return;
    }
    withdraw(addresses, span);
    span->addr += bytes;
    span->bytes -= bytes;
    insert(addresses, span);
}

/* The span that begins at `addr` and has `bytes` or more; NULL: there is none. */
static struct span *span_at(const struct gs_page_addresses *addresses, uint64_t addr,
                            size_t bytes)
{
    struct span *span = span_from(addresses, addr);

    return span && span->addr == addr && span->bytes >= bytes ? span : NULL;
}

/* ---- addresses ----------------------------------------------------------------------
 */

unsigned gs_page_addresses_extend(struct gs_page_addresses *addresses,
                                  const struct gs_pages_from *from, unsigned count,
                                  size_t bytes)
{
    struct span *behind = NULL;
    unsigned best = count;

    gs_lock_take(addresses->lock);
    for (unsigned i = 0; i < count; i++) {
        struct span *span = NULL;

        if (from[i].taken == from[i].bytes &&
            (best == count || from[i].bytes > from[best].bytes)) {
            span =
                span_at(addresses, from[i].addr + from[i].bytes, bytes - from[i].bytes);
        }
        if (span) {
            best = i;
            behind = span;
        }
    }
    if (behind) {
        cut_span(addresses, behind, bytes - from[best].bytes);
    }
    gs_lock_drop(addresses->lock);
    return best;
}

static bool take_span(struct gs_page_addresses *addresses, size_t bytes, uint64_t *addr)
{
    struct span *span;

    gs_lock_take(addresses->lock);
    span = of_size(gs_sorted_from(&addresses->by_size, (struct gs_sorted_key){bytes, 0}));
    if (span) {
        *addr = span->addr;
        cut_span(addresses, span, bytes);
    }
    gs_lock_drop(addresses->lock);
    return span != NULL;
}

/* The index of the first arena at `addr` or above. The lock is held. */
static size_t find_arena(const struct gs_page_addresses *addresses, uint64_t addr)
{
    size_t low = 0, high = addresses->arena_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (addresses->arenas[middle].addr < addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Makes room for one more. Returns false without memory. The lock is held. */
static bool grow_arenas(struct gs_page_addresses *addresses)
{
    size_t old = addresses->arena_room;
    size_t room = old ? 2 * old : GS_META_PAGE_BYTES / sizeof(struct gs_page_span);
    struct gs_page_span *arenas;

    if (addresses->arena_count < old) {
        return true;
    }
    arenas = gs_meta_map(room * sizeof(*arenas));
    if (!arenas) {
        return false;
    }
    if (old) {
        memcpy(arenas, addresses->arenas, old * sizeof(*arenas));
        gs_meta_unmap(addresses->arenas, old * sizeof(*arenas));
    }
    addresses->arenas = arenas;
    addresses->arena_room = room;
    return true;
}

static bool put_arena(struct gs_page_addresses *addresses, struct gs_page_span arena)
{
    size_t at = find_arena(addresses, arena.addr);

    if (!grow_arenas(addresses)) {
        return false;
    }
    memmove(addresses->arenas + at + 1, addresses->arenas + at,
            (addresses->arena_count++ - at) * sizeof(arena));
    addresses->arenas[at] = arena;
    return true;
}

static void drop_arena(struct gs_page_addresses *addresses, size_t at)
{
    memmove(addresses->arenas + at, addresses->arenas + at + 1,
            (--addresses->arena_count - at) * sizeof(*addresses->arenas));
}

static bool add_arena(struct gs_page_addresses *addresses, size_t bytes)
{
    struct gs_page_span arena = {.bytes = bytes};
    bool done;

    if (!addresses->ops->reserve(addresses->self, bytes, &arena.addr)) {
        return false;
    }
    gs_lock_take(addresses->lock);
    done = put_arena(addresses, arena);
    if (done) {
        put_span(addresses, arena.addr, bytes - GS_LARGE_BYTES);
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

/* Takes out the arena whose addresses the span covers but for the last 2 MiB, unless it
 * is the only one. The lock is held. */
static bool take_empty(struct gs_page_addresses *addresses, struct span *span,
                       struct gs_page_span *out)
{
    size_t at = find_arena(addresses, span->addr);

    if (addresses->arena_count < 2 || at == addresses->arena_count) {
        return false;
    }
    *out = addresses->arenas[at];
    if (out->addr != span->addr || out->bytes != span->bytes + GS_LARGE_BYTES) {
        return false;
    }
    drop_arena(addresses, at);
    drop(addresses, span);
    return true;
}

void gs_page_addresses_return(struct gs_page_addresses *addresses, uint64_t addr,
                              size_t bytes)
{
    struct gs_page_span arena;
    struct span *span;
    bool empty;

    if (!bytes) {
        return;
    }
    gs_lock_take(addresses->lock);
    put_span(addresses, addr, bytes);
    span = span_below(addresses, addr + 1); /* it holds the address, if it is not lost */
    empty = span && take_empty(addresses, span, &arena);
    gs_lock_drop(addresses->lock);
    if (empty) {
        addresses->ops->unreserve(addresses->self, arena.addr, arena.bytes);
    }
}

void gs_page_addresses_unreserve_all(struct gs_page_addresses *addresses)
{
    struct gs_page_span arena = {0};
    bool any = true;

    while (any) {
        gs_lock_take(addresses->lock);
        any = addresses->arena_count > 0;
        if (any) {
            arena = addresses->arenas[--addresses->arena_count];
        }
        addresses->by_addr.root = addresses->by_size.root = NULL;
        gs_sorted_records_free(&addresses->records);
        gs_lock_drop(addresses->lock);
        if (any) {
            addresses->ops->unreserve(addresses->self, arena.addr, arena.bytes);
        }
    }
}

bool gs_page_addresses_own(struct gs_page_addresses *addresses, uint64_t addr)
{
    bool owns;
    size_t at;

    gs_lock_take(addresses->lock);
    at = find_arena(addresses, addr + 1);
    owns =
        at > 0 && addr - addresses->arenas[at - 1].addr < addresses->arenas[at - 1].bytes;
    gs_lock_drop(addresses->lock);
    return owns;
}

void gs_page_addresses_destroy(struct gs_page_addresses *addresses)
{
    if (addresses->arena_room) {
        gs_meta_unmap(addresses->arenas,
                      addresses->arena_room * sizeof(*addresses->arenas));
    }
    gs_sorted_records_free(&addresses->records);
}
