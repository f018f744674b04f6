/*
 * cache_sizes.h - GPUSHIM_POOL_CACHE: what is kept of freed small blocks, above segments.
 */
#ifndef GS_CACHE_SIZES_H
#define GS_CACHE_SIZES_H

#include "pool.h"

struct gs_cache_sizes {
    size_t bytes; /* of all cache tiers together; 0: nothing is kept */
    uint32_t stream_blocks, global_blocks; /* as struct gs_pool_config has them */
};

/*
 * Read "32M", "stream:100,global:500", or both.
 * Out:     *out  as shipped where the text does not name it, or is not right
 * Returns: NULL, or what is wrong. Touches nothing else.
 */
const char *gs_cache_sizes_parse(const char *text, struct gs_cache_sizes *out);

/* The same, at start: what is wrong is said in one line of the log. */
void gs_cache_sizes_read(const char *text, struct gs_cache_sizes *out);

#endif
