/*
 * epochs.h - groups frees that do not wait into epochs, each covered by one event.
 *
 *   open     frees join the epoch; nothing is recorded yet
 *   closed   one event (backend.h) was recorded after all work submitted before the close
 *   ordered  closed, and its blocks are ready: the device's own order puts each later use
 *            after the event (single_order.h)
 *   done     the event was found complete: its blocks are ready
 *   broken   the driver will never report whether the event is complete
 *
 * To the pool an epoch is a fence: each block freed with it holds one reference. An epoch
 * closes inside the free that fills it, when it has enough frees, or enough bytes to
 * matter on this device. It also closes when a request short of memory queries it.
 *
 * The event is recorded after the last free of its epoch, so it covers all uses of the
 * freed blocks. It may cover more: a kernel submitted since that waits for this very
 * thread. So no thread ever waits for an event. Where memory is scarce an epoch closes
 * inside the free, before later work is submitted.
 *
 * Lock: one in each; never held across the event_ops's functions.
 * Source: rules L1, L3 and L6 (docs/free.md, "Lazy")
 */
#ifndef GS_EPOCHS_H
#define GS_EPOCHS_H

#include "pool/backend.h"
#include "pool/lock.h"
#include "shim/state/patience.h"

/* Frees per driver call, while memory is plentiful. */
#define GS_EPOCH_CALL_FREES 64u
/* Frees of an epoch. An epoch costs two driver calls: its event and its query. An epoch
 * that follows an ordered one is half as long, since the ordered one needed no query. */
#define GS_EPOCH_FREES (2 * GS_EPOCH_CALL_FREES)
/* Driver calls that may be made ahead of the frees that pay for them. */
#define GS_EPOCH_AHEAD 4u
/* An epoch closes when it holds more than 1/GS_EPOCH_SHARE of the free device memory. */
#define GS_EPOCH_SHARE 8u

struct gs_epoch;

struct gs_epochs {
    struct gs_lock lock; /* rank: last, since taken inside a heap's (retired) */
    const struct gs_event_ops *event_ops; /* these two: immutable */
    void *self;
    struct gs_epoch *open; /* under lock; NULL: no free since the last one closed */
    size_t room;           /* atomic: free bytes of the device at the last query */
    bool broken; /* atomic: an event's completion cannot be known; never reset */
    /* under lock, all of them */
    bool ordered;                    /* whether the epoch closed last is ordered */
    uint64_t frees, calls;           /* frees so far, and driver calls made for them */
    size_t held;                     /* bytes of epochs not known to be ready */
    uint64_t opened, done, in_order; /* numbers of the last epoch so */
    uint64_t in_free;      /* the last one closed within a free, before any later work */
    struct gs_epoch *seen; /* a reference to the last one done; NULL: none yet */
    uint64_t busy;         /* the last one queried and not done; 0: none */
    struct gs_patience patience; /* of requests that found nothing ready */
};

/* Drops its own references. Epochs to which blocks refer live on. */
void gs_epochs_end(struct gs_epochs *epochs);

/* `event_ops` must outlive the epochs; `self` is passed to each of its functions. */
void gs_epochs_init(struct gs_epochs *epochs, const struct gs_event_ops *event_ops,
                    void *self);

/*
 * The free of a block of `bytes` joins the open epoch.
 * Out:     *fence  the fence for the free of the block: one reference
 *          *full   gs_epochs_close is due after the block is freed
 * Errors:  GS_ERR_BACKEND    broken: wait instead
 *          GS_ERR_HOST_NOMEM
 */
enum gs_status gs_epochs_join(struct gs_epochs *epochs, size_t bytes, gs_fence *fence,
                              bool *full) GS_MUST_USE;

/*
 * Closes the open epoch, if there is one and its event can be recorded now. Called within
 * a free, before the calling thread has submitted further work. Never blocks.
 */
void gs_epochs_close(struct gs_epochs *epochs);

/*
 * Records the events that could not be recorded during a capture that has ended. Called
 * before the calling thread submits further work, so that the events do not cover it.
 */
void gs_epochs_capture_ends(struct gs_epochs *epochs);

/* Reports the free bytes of the device; 0: the device refuses requests. */
void gs_epochs_headroom(struct gs_epochs *epochs, size_t bytes);

/* Called after an epoch was closed: whether the pool should look for ready blocks. True
 * if no driver call is needed, if enough frees have paid for one, or if epochs hold a
 * large share of the free memory. No lock is held. */
bool gs_epochs_worth_looking(struct gs_epochs *epochs);

/*
 * Called for a request that found no block: whether to query epochs before taking new
 * memory. True if the frees have paid for a driver call; else less and less often while
 * queries find nothing complete. No lock is held.
 */
bool gs_epochs_worth_asking(struct gs_epochs *epochs);

/* Returns true if an event that was recorded within a free is not known to be complete.
 * Natively that free has waited for the same work, so an allocation that would fail may
 * wait for it, too. No list of events is queried. */
bool gs_epochs_owe_wait(struct gs_epochs *epochs);

/* Returns true if a fence of the pool is an epoch; any other is an event (fences.h). */
bool gs_epoch_is(gs_fence fence);
/* Implement gs_backend.fence_query, .fence_release and .fence_release_many. A query of an
 * open epoch closes it, if epochs hold a large share of the free memory. */
enum gs_status gs_epoch_query(gs_fence fence) GS_MUST_USE;
void gs_epoch_release(gs_fence fence);
void gs_epoch_release_many(gs_fence fence, unsigned blocks);
/* For holders of a reference: the event that proved the epoch done, its own or a later
 * one's; 0: not done. */
uint64_t gs_epoch_proof_event(gs_fence fence);
/* The epoch's event, complete or not; 0: none yet. */
uint64_t gs_epoch_event(gs_fence fence);

#endif
