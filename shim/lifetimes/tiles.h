/*
 * tiles.h - physical memory that is mapped into parts of arrays.
 *
 * A sparse array, and an array whose memory is mapped later, owns no memory. Memory
 * mapped into it is held like memory mapped at an address (physical.h), until the part is
 * unmapped or mapped again, or the array ends.
 */
#ifndef GS_TILES_H
#define GS_TILES_H

#include "physical.h"

/* Called after cuMemMapArrayAsync has accepted the list; its arrays belong to the
 * context. */
void gs_tiles_mapped(struct gs_state *state, const CUarrayMapInfo *list, unsigned count,
                     CUcontext context);
/* Called after the array was destroyed; `key`: gs_key of its handle. */
void gs_tiles_array_ended(struct gs_state *state, uint64_t key, enum gs_api api);
void gs_tiles_context_lost(struct gs_state *state, CUcontext context);

void gs_tiles_reset(void); /* in a forked child */

#endif
