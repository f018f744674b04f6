/*
 * tiles.h - physical memory that is mapped into parts of arrays.
 *
 * A sparse array, and one whose memory is mapped later, owns nothing; what is mapped into
 * it holds physical memory as a mapping at an address does (physical.h), until that part
 * is unmapped or mapped anew, or the array goes.
 */
#ifndef GS_TILES_H
#define GS_TILES_H

#include "physical.h"

/* cuMemMapArrayAsync has taken the list; its arrays are of that context. */
void gs_tiles_mapped(struct gs_state *state, const CUarrayMapInfo *list, unsigned count,
                     CUcontext context);
/* The array was destroyed; `key`: gs_key of its handle. */
void gs_tiles_array_ended(struct gs_state *state, uint64_t key, enum gs_api api);
void gs_tiles_context_lost(struct gs_state *state, CUcontext context);

void gs_tiles_reset(void); /* in a forked child */

#endif
