/*
 * remap.h - a large request is served from the pages of idle segments.
 */
#ifndef GS_POOL_REMAP_H
#define GS_POOL_REMAP_H

#include "pool/heap.h"

/*
 * Serves a request of a heap whose backend has make_pages from idle segments whose pages
 * can move, and from new memory where these do not suffice.
 * Out:    *asked  the driver was called, or new memory was needed; on GS_OK only
 * Errors: GS_ERR_NOT_FOUND: ask for a new segment
 * Locks:  none may be held
 */
enum gs_status gs_heap_remap(struct gs_heap *heap, const struct gs_request *request,
                             struct gs_block **out, bool *asked) GS_MUST_USE;

#endif
