/*
 * fit.h - serves requests from the memory that a heap has.
 * heap->lock is held in each function.
 */
#ifndef GS_POOL_FIT_H
#define GS_POOL_FIT_H

#include "pool/heap.h"

/* Serves a request. Errors: GS_ERR_NOT_FOUND (a miss), GS_ERR_UNPOOLABLE,
 * GS_ERR_HOST_NOMEM. */
enum gs_status gs_heap_try(struct gs_heap *heap, const struct gs_request *request,
                           struct gs_block **out) GS_MUST_USE;
/* The same for a small request, whose block need not start at a page, and may be in a
 * carved segment. */
enum gs_status gs_heap_try_anywhere(struct gs_heap *heap,
                                    const struct gs_request *request,
                                    struct gs_block **out) GS_MUST_USE;
/* The same for a large request, which may also get a segment of pages that is an eighth
 * larger. */
enum gs_status gs_heap_try_closely(struct gs_heap *heap, const struct gs_request *request,
                                   struct gs_block **out) GS_MUST_USE;
/* The same, but a large request may also get a cached segment half as large again. */
enum gs_status gs_heap_try_loosely(struct gs_heap *heap, const struct gs_request *request,
                                   struct gs_block **out) GS_MUST_USE;
/* Cuts the request out of the hole; the stocks are filled. */
struct gs_block *gs_heap_carve(struct gs_heap *heap, struct gs_block *hole,
                               const struct gs_request *request);
/* Cuts a block of `units`, to be cached, out of the best hole next to allocations. NULL:
 * there is none, or no memory for its records. */
struct gs_block *gs_heap_cut(struct gs_heap *heap, uint32_t units);
/* Makes the one block of a large segment live. */
void gs_heap_occupy(struct gs_heap *heap, struct gs_block *block,
                    const struct gs_request *request);
/* Makes sure of the records of one carve: two blocks, a start. GS_ERR_HOST_NOMEM. */
enum gs_status gs_heap_stock(struct gs_heap *heap) GS_MUST_USE;

#endif
