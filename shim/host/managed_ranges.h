/*
 * managed_ranges.h - the known ranges of managed memory: which are in use, and which are
 * freed and cached for the next request.
 *
 * A range is never split: a stream is attached to a whole range, and advice applies to
 * pages.
 * Pure: no CUDA, no environment, no printing.
 * Lock: all functions may be called from any thread; locking is internal.
 */
#ifndef GS_MANAGED_RANGES_H
#define GS_MANAGED_RANGES_H

#include "gs_base.h"

struct gs_ranges;

/* A range, as the functions below take and return it. */
struct gs_managed_range {
    uint64_t addr;
    size_t bytes;           /* as the driver allocated it */
    size_t requested_bytes; /* in use: as the program requested */
    uint64_t owner;         /* the caller's key: a context */
    unsigned flags;         /* of its allocation */
    bool spoiled;           /* has properties that the next owner must not find */
    uint64_t point;         /* cached: argument of `ready` before reuse, or 0 */
};

/* Whether a range that was kept with this point, or an earlier one, may be handed out
 * now. Called with no lock held. */
typedef bool gs_ranges_ready(void *self, uint64_t point);

/* Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_ranges_create(struct gs_ranges **out) GS_MUST_USE;

/* Adds a range in use that the driver has just allocated. Drops the records of ranges
 * that overlap it: they ended unnoticed. Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_ranges_add(struct gs_ranges *ranges,
                             const struct gs_managed_range *range) GS_MUST_USE;

/*
 * Takes a cached range with the wish's owner and flags: the smallest that has `bytes`, if
 * it is less than an eighth larger and ready. The range is then in use, with the wish's
 * requested_bytes.
 * Out:    *out
 * Errors: GS_ERR_NOT_FOUND
 */
enum gs_status gs_ranges_take(struct gs_ranges *ranges,
                              const struct gs_managed_range *wish, gs_ranges_ready *ready,
                              void *self, struct gs_managed_range *out) GS_MUST_USE;

/*
 * The range in use around an address, unchanged.
 * Out:    *out
 * Errors: GS_ERR_NOT_OURS, GS_ERR_NOT_FOUND (it is cached, or was when its owner failed)
 */
enum gs_status gs_ranges_find(struct gs_ranges *ranges, uint64_t addr,
                              struct gs_managed_range *out) GS_MUST_USE;

/*
 * Claims the range in use that starts at `addr`, before it is freed. The range has no
 * owner until gs_ranges_keep, until gs_ranges_add (it is still in use after all), or for
 * ever.
 * Out:    *out
 * Errors: GS_ERR_NOT_OURS   no range contains the address
 *         GS_ERR_BAD_FREE   one does, but is not in use, or starts elsewhere
 */
enum gs_status gs_ranges_claim(struct gs_ranges *ranges, uint64_t addr,
                               struct gs_managed_range *out) GS_MUST_USE;
/* Caches a claimed range from the time `now` on (any monotonic clock, in any unit).
 * Errors: GS_ERR_HOST_NOMEM: the caller frees the range. */
enum gs_status gs_ranges_keep(struct gs_ranges *ranges,
                              const struct gs_managed_range *range,
                              uint64_t now) GS_MUST_USE;

/* Ranges that overlap [addr, addr + bytes) must not be cached any more; 0 bytes count as
 * one. */
void gs_ranges_spoil(struct gs_ranges *ranges, uint64_t addr, size_t bytes);

/*
 * Takes the longest cached range of the owner (0: of any) out, to be returned to the
 * driver: if it was cached before `since`, or if all cached ranges exceed `limit` bytes.
 * Errors: GS_ERR_NOT_FOUND
 */
enum gs_status gs_ranges_evict(struct gs_ranges *ranges, uint64_t owner, size_t limit,
                               uint64_t since, struct gs_managed_range *out) GS_MUST_USE;

/* Whether a range of the owner has been cached since before `since`. */
bool gs_ranges_has_older(struct gs_ranges *ranges, uint64_t owner, uint64_t since);

/* Called when an owner has failed: its cached ranges are neither reused nor returned to
 * the driver, and those in use will not be cached. */
void gs_ranges_fail(struct gs_ranges *ranges, uint64_t owner);
/* Called when an owner and all its memory have ended. */
void gs_ranges_forget(struct gs_ranges *ranges, uint64_t owner);

/* Bytes cached now. Takes no lock. */
size_t gs_ranges_kept_bytes(const struct gs_ranges *ranges);

#endif
