/*
 * ready.h - blocks whose wait is over go to the caches.
 */
#ifndef GS_POOL_READY_H
#define GS_POOL_READY_H

#include "pool/heap.h"

/* Moves blocks in the state READY into the thread cache of the calling thread, or to
 * their segments where they may not be cached. Their frees are counted already. The
 * function may reorder the list. No lock is held. */
void gs_blocks_set_ready(struct gs_heap *heap, struct gs_block **blocks, unsigned count);

#endif
