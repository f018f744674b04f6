/*
 * buffer_id.h - CU_POINTER_ATTRIBUTE_BUFFER_ID of the pool's blocks.
 */
#ifndef GS_BUFFER_ID_H
#define GS_BUFFER_ID_H

#include "gs_base.h"

/*
 * BUFFER_ID of a block, from that of its segment and the block's place in there: an id of
 * its own as each allocation has, so that nobody takes two blocks for one. It is the same
 * again for a later block in the same place: what was registered for the first is right
 * for the second. The driver's ids are small numbers, as far as is known (unconfirmed on
 * hardware), and no id of a block is one of them. Of an id that is not, the block's is
 * mixed: two blocks have the same one with a probability of 2^-62.
 * In:  place  units of GS_BLOCK_BYTES from the segment's start, < 2^24
 */
static inline uint64_t gs_buffer_id(uint64_t segment_id, uint64_t place)
{
    const uint64_t of_blocks = (uint64_t)1 << 63, mixed = (uint64_t)1 << 62;
    if (GS_LIKELY(segment_id < (uint64_t)1 << 38)) {
        return of_blocks | segment_id << 24 | place;
    }
    uint64_t id = segment_id + place * 0x9e3779b97f4a7c15u;
    id = (id ^ id >> 30) * 0xbf58476d1ce4e5b9u;
    id = (id ^ id >> 27) * 0x94d049bb133111ebu;
    return of_blocks | mixed | id >> 2;
}

#endif
