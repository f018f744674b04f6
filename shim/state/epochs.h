/*
 * epochs.h - frees that wait for nothing, put together until one mark covers them all.
 *
 *   open     frees join it; nothing is recorded yet
 *   closed   one mark (backend.h) behind all work that was submitted before it closed
 *   ordered  closed, and its blocks are ready: whatever uses them comes behind the mark
 * by the device's own order (single_order.h) done     the mark was seen complete: its
 * blocks are ready broken   that can never be known
 *
 * An epoch is a fence for the pool: each block freed with it holds one reference. It is
 * closed once it has enough frees, or bytes enough to matter on this device, inside the
 * free that fills it; or when somebody asks after it, for want of memory.
 *
 * The mark is recorded after the last free of its epoch, so it covers what the freed
 * blocks were used for. It may cover more: a kernel submitted since that waits for this
 * very thread. So nobody ever waits for a mark; and where memory is scarce an epoch is
 * closed inside the free, while nothing has come after it.
 *
 * Lock: one in each; never held across the marker's functions.
 * Source: reuse safety, rules L1, L3 and L6 (docs/free.md, "Lazy")
 */
#ifndef GS_EPOCHS_H
#define GS_EPOCHS_H

#include "backend.h"
#include "lock.h"
#include "patience.h"

/* Frees for each call of the driver, while memory is plentiful. */
#define GS_EPOCH_CALL_FREES 64u
/* Frees of an epoch. Two calls of the driver for each: its mark, and asking after it. One
 * that follows an ordered epoch is half as long: nobody had to ask after that. */
#define GS_EPOCH_FREES (2 * GS_EPOCH_CALL_FREES)
/* Calls that may be made before the frees they are for. */
#define GS_EPOCH_AHEAD 4u
/* An epoch closes when it holds more than such a share of the free device memory. */
#define GS_EPOCH_SHARE 8u

struct gs_epoch;

struct gs_epochs {
    struct gs_lock lock; /* rank: last, as it is taken inside a heap's (retired) */
    const struct gs_marker *marker; /* these two: immutable */
    void *self;
    struct gs_epoch *open; /* under lock; NULL: no free since the last one closed */
    size_t room; /* atomic: bytes of the device that were free when last asked */
    bool broken; /* atomic: a mark could not be known; stays so */
    /* under lock, all of them */
    bool ordered;          /* the epoch that was closed last is */
    uint64_t frees, calls; /* frees there were, and calls of the driver for them */
    size_t held;           /* bytes of epochs that are not known to be ready */
    uint64_t opened, done, in_order; /* numbers of epochs: the last one, the last one that
                                        is done, and that is ordered */
    struct gs_epoch *seen; /* a reference to the last one that is done; NULL: none yet */
    uint64_t busy;         /* the one that was asked after last, and not done; 0: none */
    struct gs_patience patience; /* of requests that found nothing */
};

/* What it keeps of its own is let go of. Epochs that blocks refer to live on. */
void gs_epochs_end(struct gs_epochs *epochs);

/* `marker` must outlive it; `self` is passed to each of its functions. */
void gs_epochs_init(struct gs_epochs *epochs, const struct gs_marker *marker, void *self);

/*
 * A free of a block of `bytes` joins the open epoch.
 * Out:     *fence  to free the block with: one reference
 *          *full   gs_epochs_close is due, once the block is freed
 * Errors:  GS_ERR_BACKEND    broken: wait instead
 *          GS_ERR_HOST_NOMEM
 */
enum gs_status gs_epochs_join(struct gs_epochs *epochs, size_t bytes, gs_fence *fence,
                              bool *full) GS_MUST_USE;

/*
 * Close the open epoch, if there is one and it can be marked now: within a free, before
 * the calling thread has submitted anything since. Never blocks.
 */
void gs_epochs_close(struct gs_epochs *epochs);

/*
 * The same as a capture ends, during which nothing could be marked: before the calling
 * thread goes on, so that what it submits then is not waited for.
 */
void gs_epochs_capture_ends(struct gs_epochs *epochs);

/* So many bytes of the device are free now; 0: it refuses requests. */
void gs_epochs_room(struct gs_epochs *epochs, size_t bytes);

/* An epoch was closed: should the pool look for what is ready? If that is known without a
 * call of the driver; if frees enough have come for one more; or if what epochs hold is
 * no small share of the free memory. No lock is held. */
bool gs_epochs_worth_looking(struct gs_epochs *epochs);

/*
 * A request found nothing: should it ask after epochs, before it takes new memory? If a
 * call is earned; else less and less often, for as long as those who ask are told "not
 * yet". No lock is held.
 */
bool gs_epochs_worth_asking(struct gs_epochs *epochs);

/* Whether a fence of the pool is an epoch; others are events (fences.h). */
bool gs_epoch_is(gs_fence fence);
/* As gs_backend.fence_query, .fence_release and .fence_release_many. Asking after an open
 * one closes it, if what epochs hold is no small share of the free memory. */
enum gs_status gs_epoch_query(gs_fence fence) GS_MUST_USE;
void gs_epoch_release(gs_fence fence);
void gs_epoch_release_many(gs_fence fence, unsigned blocks);
/* For those who hold a reference: the mark by which it was seen done, its own or a later
 * one's; 0: it is not. */
uint64_t gs_epoch_mark(gs_fence fence);
/* The mark, done or not; 0: there is none yet. */
uint64_t gs_epoch_marked(gs_fence fence);

#endif
