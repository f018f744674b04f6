/*
 * backend.h - what the pool asks of whoever owns the real memory.
 *
 * shim/ implements this over the real driver, the unit tests over a plain counter.
 * The pool calls every function with no lock of its own held, but for the two that say
 * so; an implementation may block, take its own locks and call the driver. Functions may
 * be called by several threads at once.
 */
#ifndef GS_POOL_BACKEND_H
#define GS_POOL_BACKEND_H

#include "gs_base.h"

/* A point in the device's work, opaque to the pool. 0 means "none". Several blocks may be
 * freed with the same one. */
typedef uint64_t gs_fence;

/*
 * How the work that a context has been given is marked, so that it can be asked later
 * whether all of it has completed. The ways that shim/order/marks.c knows (an event of
 * the context, an event behind one of each stream, none: wait instead) stand behind this;
 * an epoch of frees (shim/state/epochs.h) uses it and does not know which it is. Called
 * with no lock held. Neither function may block.
 */
struct gs_marker {
    /*
     * Out:    *mark  covers all that was submitted before the call; on GS_OK only
     * Errors: GS_ERR_TIMEOUT  not now (a stream captures): try again later
     *         GS_ERR_BACKEND  the context is broken: what it still does is not known
     */
    enum gs_status (*record)(void *self, uint64_t *mark) GS_MUST_USE;
    /* Errors: as fence_query below. */
    enum gs_status (*query)(void *self, uint64_t mark) GS_MUST_USE;
    void (*release)(void *self, uint64_t mark);
    /*
     * Is all that memory freed before an epoch's mark may be used for from now on behind
     * that mark, by the order in which the device does its work? Then the memory is ready
     * at once. Asked where the mark was recorded within the last free of its epoch; may
     * be NULL: never. If it is, the implementation holds a reference to `epoch`, which
     * the caller has taken for it, until it releases that.
     */
    bool (*orders)(void *self, gs_fence epoch) GS_MUST_USE;
};

struct gs_backend {
    /*
     * Get device memory for a segment.
     * In:     bytes   > 0
     * Out:    *addr   device address, on GS_OK only
     *         *native the implementation's own error code, on failure only
     * Errors: GS_ERR_NOMEM    out of device memory: giving something back may help
     *         GS_ERR_BACKEND  anything else: trying again will not help
     */
    enum gs_status (*map)(void *self, size_t bytes, uint64_t *addr,
                          int *native) GS_MUST_USE;

    /* Give a segment back. Failure is the implementation's to log; the pool forgets it.
     */
    void (*unmap)(void *self, uint64_t addr, size_t bytes);

    /*
     * What `map` has given cannot live in the pool, but is as large as the request that
     * asked: may its caller have it from the implementation, instead of asking the driver
     * again? Returns false to have it unmapped. May be NULL: never.
     */
    bool (*keep)(void *self, uint64_t addr, size_t bytes) GS_MUST_USE;

    /*
     * Would `unmap` return without waiting for running work? Never blocks. May be NULL:
     * it always would. Asked before memory is given back that nothing runs out for.
     */
    bool (*quiet)(void *self) GS_MUST_USE;

    /*
     * Memory runs out and idle memory would help: wait until `unmap` would return soon,
     * but no longer than an allocation may be kept waiting. Returns false if it would not
     * by then: what runs may be waiting for the calling thread. May be NULL: it always
     * would.
     */
    bool (*await_idle)(void *self) GS_MUST_USE;

    /*
     * The device's free memory now, in bytes. May be NULL: nobody knows.
     * Errors: GS_ERR_NOT_FOUND  not known
     */
    enum gs_status (*free_bytes)(void *self, size_t *bytes) GS_MUST_USE;

    /*
     * A request found nothing: is it worth to ask after fences, rather than to take new
     * memory? May be NULL: it is. Not asked where memory runs out.
     */
    bool (*worth_asking)(void *self) GS_MUST_USE;

    /*
     * Has the work before `fence` completed? Never blocks.
     * Errors: GS_ERR_TIMEOUT  not yet
     *         GS_ERR_BACKEND  it can never be known: the heap is poisoned
     */
    enum gs_status (*fence_query)(void *self, gs_fence fence) GS_MUST_USE;

    /* A block needs `fence` no more. Called once for each block that was freed with it.
     */
    void (*fence_release)(void *self, gs_fence fence);

    /* As `blocks` calls of fence_release. May be NULL: then those are made. */
    void (*fence_release_many)(void *self, gs_fence fence, unsigned blocks);

    /*
     * Is the work before `fence` over with the wait whose end gs_heap_retire tells? Else
     * the block waits for the fence itself. May be NULL: it is. Called with the heap's
     * lock held: it must neither block nor call the driver.
     */
    bool (*fence_waited)(void *self, gs_fence fence) GS_MUST_USE;

    /*
     * A freed block may be reused from now on: because `fence` was seen complete, or, if
     * that is 0, because of a wait whose end gs_heap_retire told. May be NULL. Called
     * with the heap's lock held: it must neither block nor call the driver.
     */
    void (*retired)(void *self, uint64_t addr, gs_fence fence);
};

#endif
