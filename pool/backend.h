/*
 * backend.h - the functions that the pool needs of the owner of the real memory.
 *
 * shim/ implements them over the real driver, the unit tests over a counter. The pool
 * calls every function with no lock of its own held, except the two that state otherwise.
 * An implementation may block, take its own locks and call the driver. Several threads
 * may call a function at once.
 */
#ifndef GS_POOL_BACKEND_H
#define GS_POOL_BACKEND_H

#include "gs_base.h"

/* An event in the device's work, opaque to the pool. 0 means "none". Several blocks may
 * be freed with the same fence. */
typedef uint64_t gs_fence;

/*
 * Marks the submitted work of a context, so that a later query can report whether all of
 * it has completed. shim/order/context_events.c knows several kinds (an event of the
 * context, an event after one of each stream, none: wait instead). An epoch of frees
 * (shim/state/epochs.h) uses this interface for any of them. Called with no lock held.
 * Neither `record` nor `query` may block.
 */
struct gs_event_ops {
    /*
     * Out:    *event  covers all that was submitted before the call; on GS_OK only
     * Errors: GS_ERR_TIMEOUT  not now (a stream captures): try again later
     *         GS_ERR_BACKEND  the context is broken: the state of its work is unknown
     */
    enum gs_status (*record)(void *self, uint64_t *event) GS_MUST_USE;
    /* Errors: as fence_query below. */
    enum gs_status (*query)(void *self, uint64_t event) GS_MUST_USE;
    void (*release)(void *self, uint64_t event);
    /*
     * Returns true if the order of the device's work guarantees that work submitted from
     * now on runs after the epoch's event, for all memory freed before that event. Then
     * the memory is ready at once. Called where the event was recorded within the last
     * free of its epoch. May be NULL: never. On true the implementation keeps the
     * reference to `epoch` that the caller has taken for it, until it releases that
     * reference.
     */
    bool (*orders)(void *self, gs_fence epoch) GS_MUST_USE;
};

/* What the pool asks for more memory for (gs_backend.reclaim). */
enum gs_shortage_kind {
    GS_SHORTAGE_SEGMENT = 1, /* `map` was out of memory; the heaps may have idle memory */
    GS_SHORTAGE_LIMIT = 2,   /* a limit forbids the heap to grow */
    GS_SHORTAGE_ALL = 4      /* the heaps of the device have no idle memory left */
};

/* A range of idle pages, of which a new segment takes the first. */
struct gs_pages_from {
    uint64_t addr;
    size_t bytes;
    size_t taken; /* > 0; the rest stays where it is */
};

struct gs_backend {
    /*
     * Gets device memory for a segment.
     * In:     bytes   > 0
     * Out:    *addr   device address, on GS_OK only
     *         *native the implementation's own error code, on failure only
     * Errors: GS_ERR_NOMEM    out of device memory: reclaiming memory may help
     *         GS_ERR_BACKEND  anything else: trying again will not help
     */
    enum gs_status (*map)(void *self, size_t bytes, uint64_t *addr,
                          int *native) GS_MUST_USE;

    /* Returns a segment to the device. The implementation logs a failure; the pool
     * forgets the segment. */
    void (*unmap)(void *self, uint64_t addr, size_t bytes);

    /*
     * Gets memory for a large segment, whose pages can move to another segment later. It
     * is made of the pages taken from the ranges, in any order, and of new memory for the
     * rest. A single range that suffices is cut in place.
     * In:     bytes        a multiple of GS_LARGE_BYTES
     *         from, count  idle memory that this function returned or left, without
     *                      parts of what is in use
     * Out:    *addr        on GS_OK only
     *         *native      as `map`, on GS_ERR_NOMEM only
     * Errors: GS_ERR_TIMEOUT     not without a wait for running work
     *         GS_ERR_UNPOOLABLE  there are no such pages (any more): call `map`
     *         GS_ERR_NOMEM       no memory for what is new
     *         GS_ERR_BACKEND     failed in the midst: the ranges have been returned, with
     *                            what was to stay. After the other errors all is as it
     *                            was
     * May be NULL: GS_ERR_UNPOOLABLE. `unmap` returns these segments, too.
     */
    enum gs_status (*make_pages)(void *self, size_t bytes,
                                 const struct gs_pages_from *from, unsigned count,
                                 uint64_t *addr, int *native) GS_MUST_USE;

    /*
     * The pool cannot use the memory that `map` returned, but the memory is as large as
     * the request. Returns true if the implementation serves the request with it, instead
     * of asking the driver again; false: the pool unmaps it. May be NULL: never.
     */
    bool (*keep)(void *self, uint64_t addr, size_t bytes) GS_MUST_USE;

    /*
     * Returns true if `unmap` would return without waiting for running work. Never
     * blocks. May be NULL: always. Called before memory is returned for which no request
     * waits.
     */
    bool (*quiet)(void *self) GS_MUST_USE;

    /*
     * Called for a request that found no memory, if idle memory would help. Waits until
     * `unmap` would return soon, but no longer than an allocation may wait. Returns false
     * if `unmap` would still wait: the running work may itself wait for the calling
     * thread. May be NULL: `unmap` never waits.
     */
    bool (*await_idle)(void *self) GS_MUST_USE;

    /*
     * Reclaims memory outside the pool, or frees blocks of the pool, for a request of
     * `bytes`. Returns whether the request may find memory now; the pool then tries
     * again. May be NULL: there is no such memory.
     */
    bool (*reclaim)(void *self, size_t bytes, enum gs_shortage_kind kind) GS_MUST_USE;

    /*
     * The device's free memory now, in bytes. May be NULL: not known.
     * Errors: GS_ERR_NOT_FOUND  not known
     */
    enum gs_status (*free_bytes)(void *self, size_t *bytes) GS_MUST_USE;

    /*
     * Called for a request that found no memory in the heap: returns true if the pool
     * should query fences before it maps new memory. May be NULL: always. Not called
     * where the device is full.
     */
    bool (*worth_asking)(void *self) GS_MUST_USE;

    /*
     * Returns GS_OK if the work before `fence` has completed. Never blocks.
     * Errors: GS_ERR_TIMEOUT  not yet
     *         GS_ERR_BACKEND  the answer will never be known: the heap is poisoned
     */
    enum gs_status (*fence_query)(void *self, gs_fence fence) GS_MUST_USE;

    /* A block no longer needs `fence`. Called once for each block that was freed with
     * it. */
    void (*fence_release)(void *self, gs_fence fence);

    /* As `blocks` calls of fence_release. May be NULL: the pool makes these calls. */
    void (*fence_release_many)(void *self, gs_fence fence, unsigned blocks);

    /*
     * Returns true if the wait that gs_heap_retire reports covers the work before
     * `fence`. Else the block waits for the fence itself. May be NULL: always. Called
     * with the heap's lock held: it must neither block nor call the driver.
     */
    bool (*fence_waited)(void *self, gs_fence fence) GS_MUST_USE;

    /*
     * A freed block may be reused from now on: `fence` was seen complete, or, if `fence`
     * is 0, gs_heap_retire reported the end of a wait. May be NULL. Called with the
     * heap's lock held: it must neither block nor call the driver.
     */
    void (*retired)(void *self, uint64_t addr, gs_fence fence);
};

#endif
