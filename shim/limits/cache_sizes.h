/*
 * cache_sizes.h - GPUSHIM_POOL_CACHE: how many freed small blocks the cache tiers above
 * the segments keep.
 */
#ifndef GS_CACHE_SIZES_H
#define GS_CACHE_SIZES_H

#include "pool/pool.h"

struct gs_cache_sizes {
    size_t bytes; /* of all cache tiers together; 0: no caching */
    uint32_t stream_blocks, global_blocks; /* as in struct gs_pool_config */
};

/*
 * Parses "32M", "stream:100,global:500", or both.
 * Out:     *out  the defaults for values that the text does not give, or if it has an
 *                error
 * Returns: NULL, or a description of the error. Has no other effect.
 */
const char *gs_cache_sizes_parse(const char *text, struct gs_cache_sizes *out);

/* Like gs_cache_sizes_parse, at start: logs an error in one line. */
void gs_cache_sizes_read(const char *text, struct gs_cache_sizes *out);

#endif
