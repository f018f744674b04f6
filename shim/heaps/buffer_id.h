/*
 * buffer_id.h - CU_POINTER_ATTRIBUTE_BUFFER_ID of the pool's blocks.
 */
#ifndef GS_BUFFER_ID_H
#define GS_BUFFER_ID_H

#include "gs_base.h"

/*
 * The BUFFER_ID of a block, computed from the BUFFER_ID of its segment and the block's
 * place in the segment. The result is unique, as the id of each native allocation is. A
 * later block in the same place has the same id, since a registration of the first is
 * valid for the second. The driver's ids are small numbers as far as is known
 * (unconfirmed on hardware), and no block's id equals a small number. If a segment's id
 * is not small, the block's id is a hash: two blocks have the same one with a probability
 * of 2^-62.
 * In:  place  units of GS_BLOCK_BYTES from the segment's start; < 2^24 for a small
 * segment_id
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
