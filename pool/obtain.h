/*
 * obtain.h - a segment from the backend for a request.
 */
#ifndef GS_POOL_OBTAIN_H
#define GS_POOL_OBTAIN_H

#include "pool/heap.h"

enum gs_segment_kind {
    GS_SEGMENT_SHARED, /* bytes: a multiple of GS_LARGE_BYTES */
    GS_SEGMENT_LARGE,  /* likewise; carved if larger than the request */
    GS_SEGMENT_SINGLE, /* bytes: exactly the request */
};

/*
 * Asks the backend for a segment and serves the request from it.
 * Out:    *out on GS_OK; *native on GS_ERR_NOMEM and GS_ERR_BACKEND
 * Errors: GS_ERR_NOMEM, GS_ERR_BACKEND, GS_ERR_UNPOOLABLE, GS_ERR_HOST_NOMEM
 * Locks:  none may be held
 */
enum gs_status gs_segment_obtain(struct gs_heap *heap, const struct gs_request *request,
                                 enum gs_segment_kind kind, size_t bytes,
                                 struct gs_block **out, int *native) GS_MUST_USE;

/* Makes memory of backend.h's make_pages a segment, and serves the request from it. In:
 * single  its pages stay with it. Errors: as above. On any error the memory was
 * returned. */
enum gs_status gs_segment_adopt_pages(struct gs_heap *heap,
                                      const struct gs_request *request, bool single,
                                      uint64_t addr, size_t bytes,
                                      struct gs_block **out) GS_MUST_USE;
/* The same for an idle segment. */
void gs_segment_adopt_idle(struct gs_heap *heap, uint64_t addr, size_t bytes);

#endif
