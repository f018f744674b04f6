/*
 * epochs.h - frees that wait for nothing, put together until one mark covers them all.
 *
 *   open     frees join it; nothing is recorded yet
 *   closed   one mark (backend.h) behind all work that was submitted before it closed
 *   done     the mark was seen complete: its blocks are ready
 *   broken   that can never be known
 *
 * An epoch is a fence for the pool: each block parked with it holds one reference. It is
 * closed once it has enough frees, or bytes enough to matter on this device, inside the
 * free that fills it; or when somebody asks after it, for want of memory.
 *
 * The mark is recorded after the last free of its epoch, so it covers what the freed
 * blocks were used for. It may cover more: a kernel submitted since that waits for this
 * very thread. So nobody ever waits for a mark; and where memory is scarce an epoch is
 * closed inside the free, while nothing has come after it.
 *
 * Lock: a mutex in each; never held across the marker's functions.
 * Source: reuse safety, rules L1, L3 and L6 (docs/free.md, "Lazy")
 */
#ifndef GS_EPOCHS_H
#define GS_EPOCHS_H

#include <pthread.h>

#include "backend.h"

/* Frees of an epoch. Two calls of the driver for each: its mark, and asking after it. */
#define GS_EPOCH_FREES 128u
/* An epoch closes when it holds more than such a share of the free device memory. */
#define GS_EPOCH_SHARE 8u

struct gs_epoch;

struct gs_epochs {
    pthread_mutex_t lock;
    const struct gs_marker *marker; /* these two: immutable */
    void *self;
    struct gs_epoch *open; /* under lock; NULL: no free since the last one closed */
    size_t room; /* atomic: bytes of the device that were free when last asked */
    bool broken; /* atomic: a mark could not be known; stays so */
};

/* `marker` must outlive it; `self` is passed to each of its functions. */
void gs_epochs_init(struct gs_epochs *epochs, const struct gs_marker *marker, void *self);

/*
 * A free of a block of `bytes` joins the open epoch.
 * Out:     *fence  to park the block with: one reference
 *          *full   gs_epochs_close is due, once the block is parked
 * Errors:  GS_ERR_BACKEND    broken: wait instead
 *          GS_ERR_HOST_NOMEM
 */
enum gs_status gs_epochs_join(struct gs_epochs *epochs, size_t bytes, gs_fence *fence,
                              bool *full) GS_MUST_USE;

/* Close the open epoch, if there is one and it can be marked now. Never blocks. */
void gs_epochs_close(struct gs_epochs *epochs);

/* So many bytes of the device are free now; 0: it refuses requests. */
void gs_epochs_room(struct gs_epochs *epochs, size_t bytes);

/* Whether a fence of the pool is an epoch; others are events (fences.h). */
bool gs_epoch_is(gs_fence fence);
/* As gs_backend.fence_query and .fence_release. Asking after an open one closes it. */
enum gs_status gs_epoch_query(gs_fence fence) GS_MUST_USE;
void gs_epoch_release(gs_fence fence);
/* The mark of one that was seen done; 0: it is not. For those who hold a reference. */
uint64_t gs_epoch_mark(gs_fence fence);

#endif
