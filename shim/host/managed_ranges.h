/*
 * managed_ranges.h - the ranges of managed memory that were seen made: which are in use,
 * and which are freed and kept for the next request.
 *
 * A range is never split: to attach it takes the whole of it, and advice holds for pages.
 * Pure: no CUDA, no environment, no printing.
 * Lock: all functions may be called from any thread; locking is internal.
 */
#ifndef GS_MANAGED_RANGES_H
#define GS_MANAGED_RANGES_H

#include "gs_base.h"

struct gs_ranges;

/* A range, as its caller gets it or gives it. */
struct gs_managed_range {
    uint64_t addr;
    size_t bytes;           /* as the driver made it */
    size_t requested_bytes; /* in use: what the program asked for */
    uint64_t owner;         /* whatever memory is keyed by: a context */
    unsigned flags;         /* of its allocation */
    bool spoiled;           /* has properties that the next owner must not find */
    uint64_t point; /* kept: 0, or what `ready` is asked before it is handed out */
};

/* Whether a range that was kept with this point, or an earlier one, may be handed out
 * now. Called with no lock held. */
typedef bool gs_ranges_ready(void *self, uint64_t point);

/* Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_ranges_create(struct gs_ranges **out) GS_MUST_USE;
/* No other call may be in progress. */
void gs_ranges_destroy(struct gs_ranges *ranges);

/* A range is in use: the driver has just made it. Whatever was known to overlap it is
 * gone unseen, and forgotten. Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_ranges_add(struct gs_ranges *ranges,
                             const struct gs_managed_range *range) GS_MUST_USE;

/*
 * A kept range of the owner and flags wished for: the smallest that has `bytes`, if it is
 * less than an eighth larger and ready; it is in use from now on, with the wish's
 * requested_bytes.
 * Out:    *out
 * Errors: GS_ERR_NOT_FOUND
 */
enum gs_status gs_ranges_take(struct gs_ranges *ranges,
                              const struct gs_managed_range *wish, gs_ranges_ready *ready,
                              void *self, struct gs_managed_range *out) GS_MUST_USE;

/*
 * The range in use around an address, left as it is.
 * Out:    *out
 * Errors: GS_ERR_NOT_OURS, GS_ERR_NOT_FOUND (it is kept, or was when its owner failed)
 */
enum gs_status gs_ranges_find(struct gs_ranges *ranges, uint64_t addr,
                              struct gs_managed_range *out) GS_MUST_USE;

/*
 * The range in use that starts at `addr` is about to be freed: it is nobody's until
 * gs_ranges_keep, gs_ranges_add (it is still in use after all) or for ever.
 * Out:    *out
 * Errors: GS_ERR_NOT_OURS   no range holds the address
 *         GS_ERR_BAD_FREE   one does, but is not in use, or starts elsewhere
 */
enum gs_status gs_ranges_claim(struct gs_ranges *ranges, uint64_t addr,
                               struct gs_managed_range *out) GS_MUST_USE;
/* Keep a claimed range for reuse from this time on (any clock, in any unit, that does not
 * fall). Errors: GS_ERR_HOST_NOMEM: the caller frees it. */
enum gs_status gs_ranges_keep(struct gs_ranges *ranges,
                              const struct gs_managed_range *range,
                              uint64_t now) GS_MUST_USE;

/* What overlaps [addr, addr + bytes) is not to be kept any more; 0 bytes are one. */
void gs_ranges_spoil(struct gs_ranges *ranges, uint64_t addr, size_t bytes);

/*
 * Take the range that was kept longest out, to be given to the driver: if it was kept
 * before `since`, or more than `limit` bytes are kept by all. Of this owner; 0: of any.
 * Errors: GS_ERR_NOT_FOUND
 */
enum gs_status gs_ranges_evict(struct gs_ranges *ranges, uint64_t owner, size_t limit,
                               uint64_t since, struct gs_managed_range *out) GS_MUST_USE;

/* Is anything of the owner's kept since before that time? */
bool gs_ranges_has_older(struct gs_ranges *ranges, uint64_t owner, uint64_t since);

/* An owner has failed: what is kept of its is never handed out or given to the driver,
 * what is in use is not to be kept. */
void gs_ranges_fail(struct gs_ranges *ranges, uint64_t owner);
/* An owner and all its memory are gone. */
void gs_ranges_forget(struct gs_ranges *ranges, uint64_t owner);

/* Bytes kept now. Takes no lock. */
size_t gs_ranges_kept_bytes(const struct gs_ranges *ranges);

#endif
