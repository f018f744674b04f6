/*
 * address_table.c - from an address to a record, for allocations freed by address only.
 *
 * Chained hashing in stripes. The links are in a table of their own. So an entry costs 4
 * bytes and its share of the bucket array, 4 to 8 bytes, and a removal leaves nothing
 * behind.
 *
 * Owns:  stripes[]; the links of live GS_SLOT_ADDRESS records.
 * Locks: the stripe's lock.   Design: docs/tracker.md
 */
#include "tracker/tracker_internal.h"

#define FIRST_BUCKETS 1024u /* one page */

static uint64_t hash_addr(uint64_t addr)
{
    return addr * UINT64_C(0x9e3779b97f4a7c15);
}

static struct gs_stripe *stripe_of(struct gs_tracker *tracker, uint64_t addr)
{
    return &tracker->stripes[hash_addr(addr) >> 58];
}
static_assert(GS_STRIPES == 64, "six bits choose the stripe");

/* The bucket uses other bits of the hash than the stripe. */
static uint32_t *bucket_of(const struct gs_stripe *stripe, uint64_t addr)
{
    return &stripe->buckets[(hash_addr(addr) >> 26) & (stripe->bucket_count - 1)];
}

static uint64_t record_addr(const struct gs_record *record)
{
    return __atomic_load_n(&record->addr, __ATOMIC_ACQUIRE);
}

/*
 * Doubles the buckets. Without memory the chains get longer. The stripe's lock is held.
 */
static void grow(struct gs_tracker *tracker, struct gs_stripe *stripe)
{
    struct gs_stripe bigger = {.bucket_count = stripe->bucket_count * 2};

    if (bigger.bucket_count == 0) {
        return;
    }
    bigger.buckets = gs_pages_map(NULL, bigger.bucket_count * sizeof(uint32_t));
    if (!bigger.buckets) {
        return;
    }
    for (uint32_t i = 0; i < stripe->bucket_count; i++) {
        uint32_t id = stripe->buckets[i];
        while (id != 0) {
            struct gs_record *record = gs_record_of(tracker, id);
            uint32_t *link = gs_record_link(tracker, id), next = *link;
            uint32_t *bucket = bucket_of(&bigger, record_addr(record));
            *link = *bucket;
            *bucket = id;
            id = next;
        }
    }
    gs_host_unmap(stripe->buckets, stripe->bucket_count * sizeof(uint32_t));
    stripe->buckets = bigger.buckets;
    stripe->bucket_count = bigger.bucket_count;
}

/* Returns the link to the address's record; it holds 0 if there is none. */
static uint32_t *find_link(struct gs_tracker *tracker, struct gs_stripe *stripe,
                           uint64_t addr)
{
    uint32_t *link = bucket_of(stripe, addr);

    while (*link != 0 && record_addr(gs_record_of(tracker, *link)) != addr) {
        link = gs_record_link(tracker, *link);
    }
    return link;
}

static uint32_t unlink_at(struct gs_tracker *tracker, struct gs_stripe *stripe,
                          uint32_t *link)
{
    uint32_t id = *link;

    *link = *gs_record_link(tracker, id);
    stripe->count--;
    return id;
}

enum gs_status gs_lookup_prepare(struct gs_tracker *tracker, uint64_t addr)
{
    struct gs_stripe *stripe = stripe_of(tracker, addr);
    enum gs_status status = GS_OK;

    gs_tracker_lock_take(&stripe->lock, GS_RANK_STRIPE);
    if (stripe->bucket_count == 0) {
        stripe->buckets = gs_pages_map(NULL, FIRST_BUCKETS * sizeof(uint32_t));
        if (stripe->buckets) {
            stripe->bucket_count = FIRST_BUCKETS;
        } else {
            status = GS_ERR_HOST_NOMEM;
        }
    }
    gs_tracker_lock_give(&stripe->lock, GS_RANK_STRIPE);
    return status;
}

uint32_t gs_lookup_link(struct gs_tracker *tracker, uint64_t addr, uint32_t id)
{
    struct gs_stripe *stripe = stripe_of(tracker, addr);
    uint32_t former = 0;

    gs_tracker_lock_take(&stripe->lock, GS_RANK_STRIPE);
    uint32_t *link = find_link(tracker, stripe, addr);
    if (*link != 0) {
        former = unlink_at(tracker, stripe, link);
    } else if (stripe->count >= stripe->bucket_count) {
        grow(tracker, stripe);
    }
    link = bucket_of(stripe, addr);
    *gs_record_link(tracker, id) = *link;
    *link = id;
    stripe->count++;
    gs_tracker_lock_give(&stripe->lock, GS_RANK_STRIPE);
    return former;
}

uint32_t gs_lookup_unlink(struct gs_tracker *tracker, uint64_t addr)
{
    struct gs_stripe *stripe = stripe_of(tracker, addr);
    uint32_t id = 0;

    gs_tracker_lock_take(&stripe->lock, GS_RANK_STRIPE);
    if (stripe->bucket_count != 0) {
        uint32_t *link = find_link(tracker, stripe, addr);
        if (*link != 0) {
            id = unlink_at(tracker, stripe, link);
        }
    }
    gs_tracker_lock_give(&stripe->lock, GS_RANK_STRIPE);
    return id;
}

bool gs_lookup_unlink_id(struct gs_tracker *tracker, uint64_t addr, uint32_t id)
{
    struct gs_stripe *stripe = stripe_of(tracker, addr);
    bool found = false;

    gs_tracker_lock_take(&stripe->lock, GS_RANK_STRIPE);
    if (stripe->bucket_count != 0) {
        uint32_t *link = find_link(tracker, stripe, addr);
        found = *link == id;
        if (found) {
            unlink_at(tracker, stripe, link);
        }
    }
    gs_tracker_lock_give(&stripe->lock, GS_RANK_STRIPE);
    return found;
}

bool gs_lookup_copy(struct gs_tracker *tracker, uint64_t addr, struct gs_allocation *out)
{
    struct gs_stripe *stripe = stripe_of(tracker, addr);
    bool found = false;

    gs_tracker_lock_take(&stripe->lock, GS_RANK_STRIPE);
    if (stripe->bucket_count != 0) {
        uint32_t *link = find_link(tracker, stripe, addr);
        found = *link != 0;
        if (found) {
            struct gs_record words = gs_record_read(gs_record_of(tracker, *link));
            *out = gs_record_unpack(tracker, *link, &words);
            out->stack = gs_stack_plain(out->stack);
        }
    }
    gs_tracker_lock_give(&stripe->lock, GS_RANK_STRIPE);
    return found;
}

void gs_lookup_free(struct gs_tracker *tracker)
{
    for (unsigned i = 0; i < GS_STRIPES; i++) {
        gs_host_unmap(tracker->stripes[i].buckets,
                      tracker->stripes[i].bucket_count * sizeof(uint32_t));
    }
}
