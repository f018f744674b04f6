/*
 * pool.h - stream-ordered memory pools.
 * Owns: pools. A pool lives until its handle is gone and its last allocation has ended.
 * Lock: the pool's heap is under the device's space lock; its attributes are atomic.
 */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "handle.h"
#include "memory.h"

struct sim_frees;
struct sim_stream;

/* The places of CU_MEMPOOL_ATTR_REUSE_* in sim_pool.reuse. */
enum sim_reuse_policy {
    SIM_REUSE_FOLLOW,        /* memory freed in a stream that this one is behind */
    SIM_REUSE_OPPORTUNISTIC, /* memory whose free happens to have run */
    SIM_REUSE_INTERNAL,      /* memory of another stream, by waiting for its free */
    SIM_REUSE_POLICIES
};

/* Where a pool's memory is. */
struct sim_pool_home {
    int type;     /* CUmemLocationType; of managed memory, the preferred location */
    int id;       /* device or NUMA node; 0 where the type has none */
    bool managed; /* CU_MEM_ALLOCATION_TYPE_MANAGED */
};

struct sim_pool {
    struct sim_object object;
    struct sim_pool_home home; /* immutable */
    int device;           /* immutable: whose memory it is; SIM_NO_DEVICE: the host's */
    bool is_default;      /* immutable */
    struct sim_heap heap; /* space lock */
    size_t max_bytes;     /* immutable; 0: no limit of its own */
    atomic_ullong release_threshold;
    atomic_int reuse[SIM_REUSE_POLICIES];
    atomic_uint readable;            /* bit per device with read access */
    atomic_uint writable;            /* bit per device with write access */
    struct sim_pool *next_on_device; /* pools_lock; of those of the same device, or none
                                      */
    unsigned handle_types;           /* immutable: CUmemAllocationHandleType it may be
                                      * shared by */
    atomic_uint share;               /* its entry in the ledger (ipc.h); 0: not shared */
    struct sim_process *owner;       /* immutable, with a reference: of an imported one */
    uint32_t owner_entry, owner_serial; /* immutable: its entry there */
};

/* A pool of a device with the caller's reference and a handle. */
CUresult sim_pool_create(int device, bool is_default, size_t max_bytes,
                         struct sim_pool **out) GS_MUST_USE;

/*
 * The same, at any location. Memory of the host is open to no device, managed memory to
 * all.
 */
CUresult sim_pool_create_at(const struct sim_pool_home *home, bool is_default,
                            size_t max_bytes, struct sim_pool **out) GS_MUST_USE;

struct sim_pool *sim_pool_get(CUmemoryPool handle) GS_MUST_USE;
void sim_pool_put(struct sim_pool *pool);

/* Its handle is closed: no more trimming at synchronizations. */
void sim_pool_forget(struct sim_pool *pool);

/*
 * Allocate in the order of a stream. The address is valid at once for work on that
 * stream.
 *
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_pool_alloc(enum sim_api api, struct sim_pool *pool, size_t bytes,
                        struct sim_stream *stream, struct sim_alloc **out) GS_MUST_USE;

/*
 * Free in the order of a stream; memory of cuMemAlloc is allowed too.
 *
 * Errors:  CUDA_ERROR_INVALID_VALUE  it is not live
 */
CUresult sim_pool_free_async(enum sim_api api, struct sim_alloc *alloc,
                             struct sim_stream *stream) GS_MUST_USE;

/* End a pool's allocation at once. False if it had ended. */
bool sim_pool_free_now(struct sim_alloc *alloc) GS_MUST_USE;

/* Set a policy. */
void sim_pool_set_reuse(struct sim_pool *pool, enum sim_reuse_policy policy, bool on);

/* A host thread has waited for those frees: everybody may have their memory. */
void sim_pool_synchronized(const struct sim_frees *frees);

/* A synchronization of the device's work happened: give back what exceeds the thresholds.
 */
void sim_pool_after_sync(int device);

/* What a pool has to do with other processes ends with it. */
void sim_pool_end_sharing(struct sim_pool *pool);

/* May that device access the pool's memory? */
bool sim_pool_allows(const struct sim_alloc *alloc, int device);
bool sim_pool_allows_writes(const struct sim_alloc *alloc, int device);

/* May some device? */
bool sim_pool_is_open(const struct sim_alloc *alloc, bool to_writes);

/* ---- which pool is current (pool_home.c) --------------------------------------------
 */

/*
 * A location's current or default pool, with a reference. That of a device's own memory
 * is in struct sim_device, others are made when they are first asked for.
 *
 * In:      home  a location that there is
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 */
CUresult sim_pool_find(const struct sim_pool_home *home, bool want_default,
                       struct sim_pool **out) GS_MUST_USE;

/* The current one of a device's own memory, with a reference. */
struct sim_pool *sim_pool_current(int device) GS_MUST_USE;

/* Make it the current one. Errors: CUDA_ERROR_OUT_OF_MEMORY */
CUresult sim_pool_make_current(const struct sim_pool_home *home,
                               struct sim_pool *pool) GS_MUST_USE;

/* Wherever it is the current one, the default one takes its place. */
void sim_pool_unset_current(const struct sim_pool *pool);

static inline bool sim_pool_home_is_same(const struct sim_pool_home *a,
                                         const struct sim_pool_home *b)
{
    return a->type == b->type && a->id == b->id && a->managed == b->managed;
}

#endif
