/*
 * managed_ranges.c - ranges of managed memory, by address and by size.
 *
 * Two of the C library's trees: one of all ranges by address, in which overlapping ranges
 * count as equal, so that any address finds the range around it; and one of the cached
 * ranges, by owner, flags and size. The cached ranges also form a list, by the time they
 * were cached.
 *
 * Owns:  struct gs_ranges.   Lock: ranges->lock.   Design: docs/host-memory.md
 */
#include "shim/host/managed_ranges.h"

#include <search.h>
#include <stdlib.h>

#include "gs_locks.h"

/* Rows of the counts by owner. */
#define OWNER_ROWS 64u

/* How much larger than the request a range may be: an eighth of it. */
#define TOLERANCE_SHARE 8u

struct node {
    struct gs_managed_range range;
    bool kept;
    bool dead; /* freed before its owner failed: never reused */
    uint64_t kept_since;
    struct node *older, *younger; /* cached */
    struct node *next;            /* while several are taken out */
};

struct gs_ranges {
    struct gs_mutex lock;
    void *by_address, *by_size;
    struct node *oldest, *youngest; /* cached */
    size_t kept_bytes;              /* atomic, written under lock */
    size_t counts[OWNER_ROWS];      /* ranges of the owners of each row */
};

/* ---- the order of the trees -------------------------------------------------------- */

static int by_address(const void *left, const void *right)
{
    const struct node *a = left, *b = right;
    if (a->range.addr + (a->range.bytes - 1) < b->range.addr) {
        return -1;
    }
    return a->range.addr > b->range.addr + (b->range.bytes - 1);
}

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_size(const void *left, const void *right)
{
    const struct gs_managed_range *a = &((const struct node *)left)->range;
    const struct gs_managed_range *b = &((const struct node *)right)->range;
    int found = order(a->owner, b->owner);
    found = found ? found : order(a->flags, b->flags);
    found = found ? found : order(a->bytes, b->bytes);
    return found ? found : order(a->addr, b->addr);
}

/* The key of a search in the tree of sizes, and the best fit so far. */
struct search {
    struct node wanted; /* first member: the tree's order sees a node */
    struct node *best;
};

/* Compares for a search of the smallest range that fits. Never returns "equal", so the
 * search passes that range, keeps it in `best`, and ends at a leaf. */
static int descend(const void *key, const void *node)
{
    struct search *search = (struct search *)(uintptr_t)key;
    if (by_size(&search->wanted, node) > 0) {
        return 1;
    }
    search->best = (struct node *)(uintptr_t)node;
    return -1;
}

/* ---- one range; lock is held ------------------------------------------------------- */

static struct node *find_overlap(struct gs_ranges *ranges, uint64_t addr, size_t bytes)
{
    struct node key = {.range = {.addr = addr, .bytes = bytes ? bytes : 1}};
    if (key.range.bytes - 1 > UINT64_MAX - addr) {
        key.range.bytes = (size_t)(UINT64_MAX - addr) + 1; /* to the end of memory */
        key.range.bytes = key.range.bytes ? key.range.bytes : SIZE_MAX;
    }
    struct node *const *found = tfind(&key, &ranges->by_address, by_address);
    return found ? *found : NULL;
}

static void set_kept_bytes(struct gs_ranges *ranges, size_t bytes)
{
    __atomic_store_n(&ranges->kept_bytes, bytes, __ATOMIC_RELAXED);
}

static bool put_among_kept(struct gs_ranges *ranges, struct node *node, uint64_t now)
{
    if (!tsearch(node, &ranges->by_size, by_size)) {
        return false;
    }
    node->kept = true;
    node->kept_since = now;
    node->older = ranges->youngest;
    node->younger = NULL;
    *(node->older ? &node->older->younger : &ranges->oldest) = node;
    ranges->youngest = node;
    set_kept_bytes(ranges, ranges->kept_bytes + node->range.bytes);
    return true;
}

static void take_from_kept(struct gs_ranges *ranges, struct node *node)
{
    (void)tdelete(node, &ranges->by_size, by_size);
    *(node->older ? &node->older->younger : &ranges->oldest) = node->younger;
    *(node->younger ? &node->younger->older : &ranges->youngest) = node->older;
    node->kept = false;
    set_kept_bytes(ranges, ranges->kept_bytes - node->range.bytes);
}

/* An owner's row among the counts. Few owners share one. */
static size_t *count_of(struct gs_ranges *ranges, uint64_t owner)
{
    return &ranges->counts[owner * 0x9e3779b97f4a7c15u >> 58];
}

/* Takes a node out of both trees and the list; the caller frees it. */
static void take_out(struct gs_ranges *ranges, struct node *node)
{
    if (node->kept) {
        take_from_kept(ranges, node);
    }
    (void)tdelete(node, &ranges->by_address, by_address);
    --*count_of(ranges, node->range.owner);
}

/* Adds a range in use; NULL for lack of memory. */
static struct node *put_in(struct gs_ranges *ranges, const struct gs_managed_range *range)
{
    struct node *node, *old;
    while ((old = find_overlap(ranges, range->addr, range->bytes)) != NULL) {
        take_out(ranges, old);
        free(old);
    }
    node = calloc(1, sizeof(*node));
    if (!node) {
        return NULL;
    }
    node->range = *range;
    if (!tsearch(node, &ranges->by_address, by_address)) {
        free(node);
        return NULL;
    }
    ++*count_of(ranges, range->owner);
    return node;
}

/* ---- the functions of the header --------------------------------------------------- */

enum gs_status gs_ranges_create(struct gs_ranges **out)
{
    struct gs_ranges *ranges = calloc(1, sizeof(*ranges));
    if (!ranges) {
        return GS_ERR_HOST_NOMEM;
    }
    gs_mutex_init(&ranges->lock, GS_RANK_MANAGED);
    *out = ranges;
    return GS_OK;
}

enum gs_status gs_ranges_add(struct gs_ranges *ranges,
                             const struct gs_managed_range *range)
{
    gs_mutex_lock(&ranges->lock);
    struct node *node = put_in(ranges, range);
    gs_mutex_unlock(&ranges->lock);
    return node ? GS_OK : GS_ERR_HOST_NOMEM;
}

/* The smallest kept range that fits, or NULL. lock is held. */
static struct node *best_of(struct gs_ranges *ranges, const struct gs_managed_range *wish)
{
    struct search search = {.wanted = {.range = *wish}};
    search.wanted.range.addr = 0; /* before any other of its size */
    (void)tfind(&search, &ranges->by_size, descend);
    struct node *best = search.best;
    return best && best->range.owner == wish->owner && best->range.flags == wish->flags &&
                   best->range.bytes - wish->bytes <= wish->bytes / TOLERANCE_SHARE
               ? best
               : NULL;
}

enum gs_status gs_ranges_take(struct gs_ranges *ranges,
                              const struct gs_managed_range *wish, gs_ranges_ready *ready,
                              void *self, struct gs_managed_range *out)
{
    uint64_t point = 0; /* known to be ready, and with it all earlier ones */
    gs_mutex_lock(&ranges->lock);
    struct node *best;
    while ((best = best_of(ranges, wish)) != NULL && best->range.point > point) {
        point = best->range.point;
        /* Without the lock: the driver may be called. Another may be the best then. */
        gs_mutex_unlock(&ranges->lock);
        if (!ready(self, point)) {
            return GS_ERR_NOT_FOUND;
        }
        gs_mutex_lock(&ranges->lock);
    }
    if (best) {
        take_from_kept(ranges, best);
        best->range.point = 0;
        best->range.requested_bytes = wish->requested_bytes;
        *out = best->range;
    }
    gs_mutex_unlock(&ranges->lock);
    return best ? GS_OK : GS_ERR_NOT_FOUND;
}

enum gs_status gs_ranges_find(struct gs_ranges *ranges, uint64_t addr,
                              struct gs_managed_range *out)
{
    enum gs_status status = GS_ERR_NOT_OURS;
    gs_mutex_lock(&ranges->lock);
    const struct node *found = find_overlap(ranges, addr, 1);
    if (found) {
        status = found->kept || found->dead ? GS_ERR_NOT_FOUND : GS_OK;
        *out = found->range;
    }
    gs_mutex_unlock(&ranges->lock);
    return status;
}

enum gs_status gs_ranges_claim(struct gs_ranges *ranges, uint64_t addr,
                               struct gs_managed_range *out)
{
    enum gs_status status = GS_ERR_NOT_OURS;
    gs_mutex_lock(&ranges->lock);
    struct node *found = find_overlap(ranges, addr, 1);
    if (found) {
        status = GS_ERR_BAD_FREE;
    }
    if (found && !found->kept && !found->dead && found->range.addr == addr) {
        *out = found->range;
        take_out(ranges, found);
        free(found);
        status = GS_OK;
    }
    gs_mutex_unlock(&ranges->lock);
    return status;
}

enum gs_status gs_ranges_keep(struct gs_ranges *ranges,
                              const struct gs_managed_range *range, uint64_t now)
{
    enum gs_status status = GS_ERR_HOST_NOMEM;
    gs_mutex_lock(&ranges->lock);
    struct node *node = put_in(ranges, range);
    if (node && put_among_kept(ranges, node, now)) {
        status = GS_OK;
    } else if (node) {
        take_out(ranges, node);
        free(node);
    }
    gs_mutex_unlock(&ranges->lock);
    return status;
}

/* Marks the ranges from `addr` to `last`. The tree finds the highest node of the interval
 * first, and the other nodes are in its subtrees: the recursion is as deep as the tree.
 * lock is held. */
static void mark_spoiled(struct gs_ranges *ranges, uint64_t addr, uint64_t last)
{
    size_t span = last - addr < SIZE_MAX ? (size_t)(last - addr) + 1 : SIZE_MAX;
    struct node *found = find_overlap(ranges, addr, span);
    if (!found) {
        return;
    }
    uint64_t end = found->range.addr + (found->range.bytes - 1);
    found->range.spoiled = true;
    if (found->range.addr > addr) {
        mark_spoiled(ranges, addr, found->range.addr - 1);
    }
    if (end < last) {
        mark_spoiled(ranges, end + 1, last);
    }
}

void gs_ranges_spoil(struct gs_ranges *ranges, uint64_t addr, size_t bytes)
{
    uint64_t more = bytes > 0 ? bytes - 1 : 0;
    gs_mutex_lock(&ranges->lock);
    mark_spoiled(ranges, addr, more > UINT64_MAX - addr ? UINT64_MAX : addr + more);
    gs_mutex_unlock(&ranges->lock);
}

/* The longest cached range of the owner (0: of any), or NULL. lock is held. */
static struct node *oldest_of(const struct gs_ranges *ranges, uint64_t owner)
{
    struct node *oldest = ranges->oldest;
    while (oldest && owner && oldest->range.owner != owner) {
        oldest = oldest->younger;
    }
    return oldest;
}

bool gs_ranges_has_older(struct gs_ranges *ranges, uint64_t owner, uint64_t since)
{
    gs_mutex_lock(&ranges->lock);
    const struct node *oldest = oldest_of(ranges, owner);
    bool older = oldest && oldest->kept_since < since;
    gs_mutex_unlock(&ranges->lock);
    return older;
}

enum gs_status gs_ranges_evict(struct gs_ranges *ranges, uint64_t owner, size_t limit,
                               uint64_t since, struct gs_managed_range *out)
{
    enum gs_status status = GS_ERR_NOT_FOUND;
    gs_mutex_lock(&ranges->lock);
    struct node *oldest = oldest_of(ranges, owner);
    if (oldest && (oldest->kept_since < since || ranges->kept_bytes > limit)) {
        *out = oldest->range;
        take_out(ranges, oldest);
        free(oldest);
        status = GS_OK;
    }
    gs_mutex_unlock(&ranges->lock);
    return status;
}

/* The nodes of an owner. */
struct walk {
    uint64_t owner;
    struct node *found;
};

/* twalk_r would pass it on, but needs glibc 2.30. */
static __thread struct walk walk;

static void visit(const void *at, VISIT when, int depth)
{
    (void)depth;
    struct node *node = *(struct node *const *)at;
    if ((when == preorder || when == leaf) && node->range.owner == walk.owner) {
        node->next = walk.found;
        walk.found = node;
    }
}

/* All ranges of an owner, as a list; lock is held. Contexts that end without managed
 * memory, as most do, make no other thread wait for a walk over all ranges. */
static struct node *all_of(struct gs_ranges *ranges, uint64_t owner)
{
    walk = (struct walk){.owner = owner};
    if (*count_of(ranges, owner) > 0) {
        twalk(ranges->by_address, visit);
    }
    return walk.found;
}

void gs_ranges_fail(struct gs_ranges *ranges, uint64_t owner)
{
    struct node *node, *next;
    gs_mutex_lock(&ranges->lock);
    for (node = all_of(ranges, owner); node; node = next) {
        next = node->next;
        if (node->kept) {
            take_from_kept(ranges, node);
            node->dead = true;
        } else {
            node->range.spoiled = true;
        }
    }
    gs_mutex_unlock(&ranges->lock);
}

void gs_ranges_forget(struct gs_ranges *ranges, uint64_t owner)
{
    struct node *node, *next;
    gs_mutex_lock(&ranges->lock);
    for (node = all_of(ranges, owner); node; node = next) {
        next = node->next;
        take_out(ranges, node);
        free(node);
    }
    gs_mutex_unlock(&ranges->lock);
}

size_t gs_ranges_kept_bytes(const struct gs_ranges *ranges)
{
    return __atomic_load_n(&ranges->kept_bytes, __ATOMIC_RELAXED);
}
