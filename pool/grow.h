/*
 * grow.h - serves a request that the heap has no memory for.
 */
#ifndef GS_POOL_GROW_H
#define GS_POOL_GROW_H

#include "pool/heap.h"

/* Serves a request that the heap has no memory for. Errors: as gs_heap_alloc. No lock is
 * held. */
enum gs_status gs_heap_grow(struct gs_heap *heap, const struct gs_request *request,
                            struct gs_block **out, int *native) GS_MUST_USE;

#endif
