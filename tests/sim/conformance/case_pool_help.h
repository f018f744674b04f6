/*
 * case_pool_help.h - what the cases about stream-ordered memory share.
 *
 * Every function checks its own calls, so that a case need not.
 */
#ifndef GS_CONFORMANCE_POOL_HELP_H
#define GS_CONFORMANCE_POOL_HELP_H

#include "case_memory_help.h"
#include "work.h"

/* Does the device have pools? If not, the case is skipped. */
bool pools_supported(void);
#define POOL_CASE(label, ...) CASE_WHERE(pools_supported, pool, label, __VA_ARGS__)

/* A pool of the device's memory that nobody else uses; NULL and a failed case if there is
 * none. `max_bytes` 0: no limit of its own. */
CUmemoryPool pool_new(size_t max_bytes);

/* Destroy it; NULL is nothing to destroy. A POOL is destroyed with the block. */
void pool_end(CUmemoryPool pool);
static inline void own_pool(CUmemoryPool *pool)
{
    pool_end(*pool);
}
#define POOL OWN(own_pool) CUmemoryPool

CUmemoryPool pool_default(void);
CUmemoryPool pool_current(void);

/* Attributes of a pool: those that are a size, and those that are a flag. */
cuuint64_t pool_size(CUmemoryPool pool, CUmemPool_attribute attribute);
int pool_flag(CUmemoryPool pool, CUmemPool_attribute attribute);
CUresult pool_set_size(CUmemoryPool pool, CUmemPool_attribute attribute,
                       cuuint64_t value);

/* Memory from a pool, or from the current one if it is NULL; 0 and a failed case if there
 * is none. */
CUdeviceptr pool_get(CUmemoryPool pool, size_t bytes, CUstream stream);

#endif
