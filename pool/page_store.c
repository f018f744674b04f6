/*
 * page_store.c - keeps pieces of physical memory and ranges of addresses, and moves the
 * one within the other. See page_store.h. A tree has the pieces; page_addresses.c has the
 * addresses.
 *
 * A range belongs to the calling thread, and with it the pieces in it. So the lock guards
 * the records only, and is released around each operation of the driver.
 *
 * Owns: the pieces' records.   Lock: store->lock (GS_RANK_PAGE_STORE)
 */
#include "pool/page_store.h"

#include "gs_uncancelled.h"
#include "pool/list.h"
#include "pool/lock.h"
#include "pool/meta.h"
#include "pool/page_addresses.h"
#include "pool/pool.h"
#include "pool/sorted_records.h"

struct piece {
    uint64_t addr;
    size_t bytes;
    uint64_t handle;
    bool mapped;
};

/* A piece in the tree, or spare. */
struct piece_record {
    struct gs_sorted_node node;
    struct piece piece;
};

struct gs_page_store {
    const struct gs_page_ops *ops; /* immutable, as `self` */
    void *self;
    _Atomic bool broken; /* an operation failed that cannot fail on a working device */
    struct gs_lock lock; /* guards the rest */
    struct gs_sorted pieces; /* by address */
    struct gs_sorted_records records;
    struct gs_page_addresses addresses;
    size_t bytes;
};

/* ---- pieces -------------------------------------------------------------------------
 */

static struct piece *of_node(struct gs_sorted_node *node)
{
    return node ? &GS_LINK_OWNER(node, struct piece_record, node)->piece : NULL;
}

static struct gs_sorted_key key_of_piece(const struct gs_sorted_node *node)
{
    return (struct gs_sorted_key){
        GS_LINK_OWNER((uintptr_t)node, struct piece_record, node)->piece.addr, 0};
}

/* The first piece at `addr` or above, or NULL. The lock is held. */
static struct piece *piece_from(struct gs_page_store *store, uint64_t addr)
{
    return of_node(gs_sorted_from(&store->pieces, (struct gs_sorted_key){addr, 0}));
}

/* The first piece that begins in the range. Returns whether there is one. */
static bool first_piece(struct gs_page_store *store, uint64_t addr, size_t bytes,
                        struct piece *out)
{
    const struct piece *piece;
    bool found;

    gs_lock_take(&store->lock);
    piece = piece_from(store, addr);
    found = piece && piece->addr - addr < bytes;
    if (found) {
        *out = *piece;
    }
    gs_lock_drop(&store->lock);
    return found;
}

/* The piece that the address `end` divides. Returns whether there is one. */
static bool piece_around(struct gs_page_store *store, uint64_t end, struct piece *out)
{
    const struct piece *piece;
    bool found = false;

    gs_lock_take(&store->lock);
    piece = of_node(gs_sorted_below(&store->pieces, (struct gs_sorted_key){end, 0}));
    if (piece) {
        found = end - piece->addr < piece->bytes;
        *out = *piece;
    }
    gs_lock_drop(&store->lock);
    return found;
}

static bool put_piece(struct gs_page_store *store, const struct piece *piece)
{
    struct gs_sorted_node *node;

    gs_lock_take(&store->lock);
    node = gs_sorted_records_take(&store->records, sizeof(struct piece_record));
    if (node) {
        *of_node(node) = *piece;
        gs_sorted_insert(&store->pieces, node);
        store->bytes += piece->bytes;
    }
    gs_lock_drop(&store->lock);
    return node != NULL;
}

static void drop_piece(struct gs_page_store *store, const struct piece *piece)
{
    struct gs_sorted_node *node;

    gs_lock_take(&store->lock);
    node = gs_sorted_from(&store->pieces, (struct gs_sorted_key){piece->addr, 0});
    gs_sorted_remove(&store->pieces, node);
    gs_sorted_records_give(&store->records, node);
    store->bytes -= piece->bytes;
    gs_lock_drop(&store->lock);
}

static void set_mapped(struct gs_page_store *store, uint64_t addr, bool mapped)
{
    gs_lock_take(&store->lock);
    piece_from(store, addr)->mapped = mapped;
    gs_lock_drop(&store->lock);
}

/* ---- operations ---------------------------------------------------------------------
 */

/* Marks the store broken after an operation that cannot fail on a working device has
 * failed. Always returns false. */
static bool mark_broken(struct gs_page_store *store)
{
    atomic_store(&store->broken, true);
    return false;
}

/* Unmaps a range whose pieces are released next. */
static void unmap_last(struct gs_page_store *store, uint64_t addr, size_t bytes)
{
    if (!store->ops->unmap(store->self, addr, bytes)) {
        (void)mark_broken(store);
    }
}

/* Creates a piece and maps it. Errors: as gs_page_ops.create. */
static enum gs_status create_at(struct gs_page_store *store, uint64_t addr, size_t bytes,
                                int *native)
{
    struct piece piece = {addr, bytes, 0, true};
    enum gs_status status = store->ops->create(store->self, bytes, &piece.handle, native);

    if (status != GS_OK) {
        return status;
    }
    if (store->ops->map(store->self, addr, bytes, piece.handle)) {
        if (put_piece(store, &piece)) {
            return GS_OK;
        }
        unmap_last(store, addr, bytes);
    } else {
        (void)mark_broken(store);
    }
    store->ops->release(store->self, piece.handle, bytes);
    return GS_ERR_BACKEND;
}

static void release_piece(struct gs_page_store *store, const struct piece *piece)
{
    drop_piece(store, piece);
    store->ops->release(store->self, piece->handle, piece->bytes);
}

/* Unmaps the pieces of a range, which are adjacent. */
static bool unmap_range(struct gs_page_store *store, uint64_t addr, size_t bytes)
{
    struct piece piece;

    if (!store->ops->unmap(store->self, addr, bytes)) {
        return mark_broken(store);
    }
    for (size_t done = 0;
         done < bytes && first_piece(store, addr + done, bytes - done, &piece);
         done = piece.addr - addr + piece.bytes) {
        set_mapped(store, piece.addr, false);
    }
    return true;
}

/* Releases the pieces of a range, mapped or not. The addresses stay taken. */
static void release_range(struct gs_page_store *store, uint64_t addr, size_t bytes)
{
    struct piece piece;

    while (first_piece(store, addr, bytes, &piece)) {
        if (piece.mapped) {
            unmap_last(store, piece.addr, piece.bytes);
        }
        release_piece(store, &piece);
    }
}

/*
 * Divides a piece that is not mapped: the part before `cut` is mapped at `to`, the rest
 * where it was. Both must then be allowed.
 */
static bool divide(struct gs_page_store *store, const struct piece *piece, uint64_t cut,
                   uint64_t to)
{
    size_t first = cut - piece->addr;
    int native;

    release_piece(store, piece);
    return create_at(store, to, first, &native) == GS_OK &&
           create_at(store, cut, piece->bytes - first, &native) == GS_OK;
}

/* Makes `cut` the end of a piece, all in place. */
static bool divide_here(struct gs_page_store *store, const struct piece *piece,
                        uint64_t cut)
{
    return unmap_range(store, piece->addr, piece->bytes) &&
           divide(store, piece, cut, piece->addr) &&
           (store->ops->allow(store->self, piece->addr, piece->bytes) ||
            mark_broken(store));
}

/* Maps a piece that is not mapped at another address. */
static bool move_piece(struct gs_page_store *store, struct piece piece, uint64_t to)
{
    drop_piece(store, &piece);
    piece.addr = to;
    piece.mapped = store->ops->map(store->self, to, piece.bytes, piece.handle);
    if (!put_piece(store, &piece)) {
        if (piece.mapped) {
            unmap_last(store, to, piece.bytes);
        }
        store->ops->release(store->self, piece.handle, piece.bytes);
        return false;
    }
    return piece.mapped || mark_broken(store);
}

/* Moves the first `taken` bytes of a range to another address. The addresses that they
 * leave stay taken. */
static bool move_pages(struct gs_page_store *store, const struct gs_pages_from *from,
                       uint64_t to)
{
    uint64_t end = from->addr + from->taken;
    struct piece last, piece;
    bool divided = piece_around(store, end, &last) && last.addr >= from->addr;
    size_t bytes = divided ? last.addr + last.bytes - from->addr : from->taken;

    if (!unmap_range(store, from->addr, bytes)) {
        return false;
    }
    if (divided && !(divide(store, &last, end, to + (last.addr - from->addr)) &&
                     (store->ops->allow(store->self, end, last.addr + last.bytes - end) ||
                      mark_broken(store)))) {
        return false;
    }
    while (first_piece(store, from->addr, from->taken, &piece)) {
        if (!move_piece(store, piece, to + (piece.addr - from->addr))) {
            return false;
        }
    }
    return true;
}

/* ---- the public part ----------------------------------------------------------------
 */

/* What is new of the segment, and where its parts go. */
struct plan {
    size_t bytes, fresh;
    uint64_t addr;
    const struct gs_pages_from *from;
    unsigned count;
    unsigned base; /* this range stays in place, and the others follow it; or `count` */
};

/* Chooses the segment's addresses: after the largest range that is taken whole, or a new
 * range. */
static bool choose_addresses(struct gs_page_store *store, struct plan *plan)
{
    plan->base =
        gs_page_addresses_extend(&store->addresses, plan->from, plan->count, plan->bytes);
    if (plan->base < plan->count) {
        plan->addr = plan->from[plan->base].addr;
        return true;
    }
    return gs_page_addresses_take(&store->addresses, plan->bytes, &plan->addr);
}

/* Moves the ranges to the segment. Out: *at  the end of what was moved. */
static bool gather(struct gs_page_store *store, const struct plan *plan, uint64_t *at)
{
    bool base = plan->base < plan->count;

    *at = plan->addr + (base ? plan->from[plan->base].bytes : 0);
    for (unsigned i = 0; i < plan->count; i++) {
        if (i == plan->base) {
            continue;
        }
        if (!move_pages(store, &plan->from[i], *at)) {
            return false;
        }
        *at += plan->from[i].taken;
    }
    return true;
}

/* Reclaims everything after a failure in the midst. */
static void release_all(struct gs_page_store *store, const struct plan *plan)
{
    size_t kept = plan->base < plan->count ? plan->from[plan->base].bytes : 0;

    release_range(store, plan->addr, plan->bytes);
    gs_page_addresses_return(&store->addresses, plan->addr + kept, plan->bytes - kept);
    for (unsigned i = 0; i < plan->count; i++) {
        release_range(store, plan->from[i].addr, plan->from[i].bytes);
        gs_page_addresses_return(&store->addresses, plan->from[i].addr,
                                 plan->from[i].bytes);
    }
}

/* The first part of one range, where it is. */
static enum gs_status cut_in_place(struct gs_page_store *store,
                                   const struct gs_pages_from *from, uint64_t *addr)
{
    uint64_t end = from->addr + from->taken;
    struct piece piece;

    if (from->taken < from->bytes && piece_around(store, end, &piece)) {
        if (!store->ops->quiet(store->self)) {
            return GS_ERR_TIMEOUT;
        }
        if (!divide_here(store, &piece, end)) {
            release_range(store, from->addr, from->bytes);
            gs_page_addresses_return(&store->addresses, from->addr, from->bytes);
            return GS_ERR_BACKEND;
        }
    }
    *addr = from->addr;
    return GS_OK;
}

/* Creates the new part of the segment, which is its last. Errors: as create_at. */
static enum gs_status create_fresh(struct gs_page_store *store, const struct plan *plan,
                                   int *native)
{
    uint64_t addr = plan->addr + plan->bytes - plan->fresh;

    return plan->fresh ? create_at(store, addr, plan->fresh, native) : GS_OK;
}

/* Moves the ranges in front of what is new, and lets the device access all that was
 * mapped. */
static bool fill(struct gs_page_store *store, const struct plan *plan)
{
    size_t kept = plan->base < plan->count ? plan->from[plan->base].bytes : 0;
    uint64_t end;

    if (!gather(store, plan, &end)) {
        return false;
    }
    return store->ops->allow(store->self, plan->addr + kept, plan->bytes - kept) ||
           mark_broken(store);
}

/* Builds the planned segment: chooses the addresses, creates new pages, and moves the
 * taken ranges to them. */
static enum gs_status make(struct gs_page_store *store, struct plan *plan, uint64_t *addr,
                           int *native)
{
    enum gs_status status;
    size_t kept;

    if (plan->count && !store->ops->quiet(store->self)) {
        return GS_ERR_TIMEOUT;
    }
    if (!choose_addresses(store, plan)) {
        return GS_ERR_UNPOOLABLE;
    }
    kept = plan->base < plan->count ? plan->from[plan->base].bytes : 0;
    status = create_fresh(store, plan, native);
    if (status != GS_OK) {
        gs_page_addresses_return(&store->addresses, plan->addr + kept,
                                 plan->bytes - kept);
        return status == GS_ERR_NOMEM ? GS_ERR_NOMEM : GS_ERR_UNPOOLABLE;
    }
    if (!fill(store, plan)) {
        release_all(store, plan);
        /* Where nothing was lost, the driver's plain calls may do. */
        return plan->count ? GS_ERR_BACKEND : GS_ERR_UNPOOLABLE;
    }
    for (unsigned i = 0; i < plan->count; i++) {
        if (i != plan->base) {
            gs_page_addresses_return(&store->addresses, plan->from[i].addr,
                                     plan->from[i].taken);
        }
    }
    *addr = plan->addr;
    return GS_OK;
}

enum gs_status gs_page_store_make(struct gs_page_store *store, size_t bytes,
                                  const struct gs_pages_from *from, unsigned count,
                                  uint64_t *addr, int *native)
{
    struct plan plan = {.bytes = bytes, .fresh = bytes, .from = from, .count = count};
    enum gs_status status;
    int before;

    if (atomic_load(&store->broken)) {
        return GS_ERR_UNPOOLABLE;
    }
    for (unsigned i = 0; i < count; i++) {
        plan.fresh -= from[i].taken;
    }
    before = gs_uncancelled_begin(); /* a range half moved would be lost */
    status = count == 1 && !plan.fresh ? cut_in_place(store, from, addr)
                                       : make(store, &plan, addr, native);
    gs_uncancelled_end(before);
    return status;
}

void gs_page_store_empty(struct gs_page_store *store, uint64_t addr, size_t bytes)
{
    int before = gs_uncancelled_begin();
    struct piece piece;

    /* One call for all pieces, or the rest piece by piece. */
    if (!atomic_load(&store->broken) && first_piece(store, addr, bytes, &piece)) {
        (void)unmap_range(store, addr, bytes);
    }
    release_range(store, addr, bytes);
    gs_uncancelled_end(before);
}

enum gs_status gs_page_store_fill(struct gs_page_store *store, uint64_t addr,
                                  size_t bytes, int *native)
{
    struct piece piece = {addr, bytes, 0, true};
    int before = gs_uncancelled_begin();
    enum gs_status status = store->ops->create(store->self, bytes, &piece.handle, native);

    /* No failure breaks the store: the range is as before, and may be filled later. */
    if (status == GS_OK && !store->ops->map(store->self, addr, bytes, piece.handle)) {
        store->ops->release(store->self, piece.handle, bytes);
        status = GS_ERR_BACKEND;
    } else if (status == GS_OK && !put_piece(store, &piece)) {
        unmap_last(store, addr, bytes);
        store->ops->release(store->self, piece.handle, bytes);
        status = GS_ERR_BACKEND;
    } else if (status == GS_OK && !store->ops->allow(store->self, addr, bytes)) {
        release_range(store, addr, bytes);
        status = GS_ERR_BACKEND;
    }
    gs_uncancelled_end(before);
    return status;
}

bool gs_page_store_is_filled(struct gs_page_store *store, uint64_t addr)
{
    struct piece piece;

    return first_piece(store, addr, GS_LARGE_BYTES, &piece);
}

void gs_page_store_give(struct gs_page_store *store, uint64_t addr, size_t bytes)
{
    int before = gs_uncancelled_begin();

    gs_page_store_empty(store, addr, bytes);
    gs_page_addresses_return(&store->addresses, addr, bytes);
    gs_uncancelled_end(before);
}

void gs_page_store_give_all(struct gs_page_store *store)
{
    release_range(store, 0, SIZE_MAX);
    gs_page_addresses_unreserve_all(&store->addresses);
}

bool gs_page_store_owns(struct gs_page_store *store, uint64_t addr)
{
    return gs_page_addresses_own(&store->addresses, addr);
}

size_t gs_page_store_bytes(struct gs_page_store *store)
{
    size_t bytes;

    gs_lock_take(&store->lock);
    bytes = store->bytes;
    gs_lock_drop(&store->lock);
    return bytes;
}

enum gs_status gs_page_store_create(const struct gs_page_ops *ops, void *self,
                                    size_t arena_bytes, struct gs_page_store **out)
{
    struct gs_page_store *store = gs_meta_map(sizeof(*store));

    if (!store) {
        return GS_ERR_HOST_NOMEM;
    }
    store->ops = ops;
    store->self = self;
    gs_page_addresses_init(&store->addresses, ops, self, arena_bytes, &store->lock);
    store->pieces.key_of = key_of_piece;
    gs_lock_init(&store->lock, GS_RANK_PAGE_STORE);
    *out = store;
    return GS_OK;
}

void gs_page_store_destroy(struct gs_page_store *store)
{
    gs_sorted_records_free(&store->records);
    gs_page_addresses_destroy(&store->addresses);
    gs_meta_unmap(store, sizeof(*store));
}
