/*
 * memory.h - memory of every kind and the map from addresses to allocations.
 *
 * Device memory: a device has a reserved range of addresses the CPU cannot touch and a
 * private alias of the same pages through which the device itself reads and writes. The
 * range is handed out in 2 MiB units; small requests share a unit (struct sim_chunk).
 * Host kinds (pinned, registered, managed) are ordinary memory with an entry in a map;
 * pools of the host and of managed memory have a range like a device's, but for the host
 * to touch.
 *
 * Owns: allocations (reference counted: an operation under way keeps its memory's record,
 * and a host kind's pages, alive).
 * Lock: a device's space->lock for device memory, host_lock for host kinds; both inside
 * only.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "frees.h"
#include "sim.h"

#define SIM_UNIT_BYTES  (2 * GS_MIB)
#define SIM_ALIGN_BYTES ((size_t)512) /* documented 256; drivers give 512 */
#define SIM_NO_DEVICE   (-1)          /* the host's */

enum sim_memory_kind {
    SIM_MEMORY_DEVICE,       /* cuMemAlloc */
    SIM_MEMORY_POOL,         /* cuMemAllocAsync */
    SIM_MEMORY_HOST_POOL,    /* the same, from a pool of the host */
    SIM_MEMORY_MANAGED_POOL, /* the same, from a pool of managed memory */
    SIM_MEMORY_PINNED,       /* cuMemHostAlloc */
    SIM_MEMORY_REGISTERED,   /* cuMemHostRegister */
    SIM_MEMORY_MANAGED,      /* cuMemAllocManaged */
    SIM_MEMORY_IPC,          /* cuIpcOpenMemHandle: another process's */
    SIM_MEMORY_ARRAY,        /* a CUDA array's, in units of the device */
    SIM_MEMORY_RESERVED,     /* cuMemAddressReserve, and what is mapped there */
    SIM_MEMORY_EXTERNAL,     /* mapped onto a file of somebody else's */
};

/* Life of an allocation. FREEING: cuMemFreeAsync was called, the free has not run yet.
 * The block of a dead one may be freed: kept for those who are behind its free. */
enum sim_memory_state { SIM_MEMORY_LIVE, SIM_MEMORY_FREEING, SIM_MEMORY_DEAD };

struct sim_advised;
struct sim_graph_memory;
struct sim_space;
struct sim_heap;
struct sim_chunk;
struct sim_pool;
struct sim_op;
struct sim_range;

/* Whose an allocation is. */
struct sim_allocation {
    enum sim_memory_kind kind;
    struct sim_context *context;
    uint64_t context_id;
};

struct sim_alloc {
    atomic_uint refs;
    atomic_int state; /* enum sim_memory_state */
    enum sim_memory_kind kind;
    uintptr_t base;
    size_t bytes;       /* as requested */
    size_t block_bytes; /* as accounted: multiple of 512 or of 2 MiB */
    uint64_t id;        /* never reused in a process */
    unsigned flags;     /* of the creating call */
    int device;         /* the host's: against which it was allocated */
    struct sim_context
        *context;            /* identity only; compared, and followed while it lives */
    uint64_t context_id;     /* the context's life in which it was made */
    struct sim_heap *heap;   /* device kinds */
    struct sim_chunk *chunk; /* device kinds below 2 MiB */
    struct sim_pool *pool;   /* the pool kinds: the pool, with a reference */
    struct sim_alloc *next, *prev;  /* space lock: the heap's list that it is in */
    struct sim_advised *advised;    /* managed: advice.h; or NULL */
    bool of_module;                 /* a variable of a module: no program frees it */
    atomic_bool sync_memops;        /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    bool handed_over;               /* space lock: a successor has the block */
    struct sim_free_point freed_at; /* space lock: its stream-ordered free */
    struct sim_op *free_op;         /* space lock: the queued free, with a reference */
    struct sim_graph_memory *graph; /* a graph's; immutable, freed with this; or NULL */
    struct sim_import *import; /* another process's (ipc.h); immutable, freed with this */
    atomic_uint share;         /* its entry in the ledger (ipc.h); 0: not shared */
    struct sim_range *range;   /* the last two kinds (vmm_range.h); freed with this */
    struct oracle_allocation
        *allocation;             /* the oracle's, with a reference; NULL without it */
    atomic_bool allocation_over; /* the oracle knows of its end */
};

/*
 * Blocks freed in stream order. An allocation asks whether there are some that another
 * stream freed; mostly there is one stream, so one stream's blocks are counted.
 */
struct sim_freed {
    struct sim_alloc *first; /* newest first */
    size_t count;
    uint64_t stream;  /* some stream; another one is chosen once it has no block here */
    size_t of_stream; /* how many of the blocks it freed */
};

/*
 * A user of a device's memory: a context, or a memory pool. Small requests are packed per
 * heap, as a driver packs them per context.
 */
struct sim_heap {
    struct sim_space *space;
    bool keeps_idle;          /* a pool keeps freed units until it is trimmed */
    struct sim_chunk *chunks; /* space lock */
    struct sim_alloc *allocs; /* space lock: live ones; their free is not queued */
    struct sim_freed freeing; /* space lock: those whose free is queued */
    struct sim_alloc *handed; /* space lock: the same, but a successor has the block */
    struct sim_freed parked;  /* space lock: those whose free has run, kept apart */
    struct sim_extent *idle;  /* space lock: units kept for reuse */
    size_t units;             /* space lock: units held, idle ones included */
    size_t idle_units;        /* space lock: of these, idle extents and empty chunks */
    size_t units_high;        /* space lock */
    size_t used_bytes;        /* space lock: bytes of live and freeing blocks */
    size_t used_high;         /* space lock */
};

/*
 * Set up a device's memory; nothing is reserved before the first allocation.
 *
 * Errors:  GS_ERR_NOMEM
 */
enum gs_status sim_space_create(int device, size_t bytes,
                                struct sim_space **out) GS_MUST_USE;

/* Set up the host's, for memory pools that are not a device's. Errors: GS_ERR_NOMEM */
enum gs_status sim_space_create_host(void) GS_MUST_USE;
struct sim_space *sim_host_space(void);

/* Bytes not in any heap's units, and all bytes. Takes the space lock. */
void sim_space_info(struct sim_space *space, size_t *free_bytes, size_t *total_bytes);

void sim_heap_init(struct sim_heap *heap, struct sim_space *space, bool keeps_idle);

/*
 * Allocate device memory. The allocation starts live and in the map; the caller gets a
 * reference beside the heap's.
 *
 * In:      bytes     > 0
 *          may_grow  take units from the device, not only those the heap holds
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY  the units do not suffice
 */
CUresult sim_heap_alloc(struct sim_heap *heap, size_t bytes, bool may_grow,
                        const struct sim_allocation *allocation,
                        struct sim_alloc **out) GS_MUST_USE;

/* Which blocks freed in stream order an allocation may have. */
struct sim_reuse {
    uint64_t stream;                /* those freed in that stream, */
    const struct sim_frees *behind; /* those by one of these frees; NULL: none, */
    bool any;                       /* or all */
};

/*
 * Move a block whose stream-ordered free is still queued, or that is freed, to a new
 * allocation. A queued free then ends the old allocation without giving the block back.
 *
 * Out:     *out     with a reference; NULL if no such block fits
 *          *behind  the queued free, with a reference, NULL if it has run; valid if *out
 *          is
 */
void sim_heap_take_over(struct sim_heap *heap, size_t bytes,
                        const struct sim_allocation *allocation,
                        const struct sim_reuse *reuse, struct sim_alloc **out,
                        struct sim_op **behind);

/* Are there blocks that another stream freed, by frees that are queued or freed? */
bool sim_heap_has_freed(struct sim_heap *heap, uint64_t but_of_stream) GS_MUST_USE;

/* Give freed blocks to everybody. True if there were some. */
bool sim_heap_unpark(struct sim_heap *heap, const struct sim_reuse *which);

/* LIVE -> FREEING. False if it was not live. Nobody gets its block yet. */
bool sim_memory_begin_free(struct sim_alloc *alloc) GS_MUST_USE;

/*
 * The free that ends it has its place in its stream, and has not run: from now on others
 * may take the block over. Takes the space lock; needs that of the operation's context.
 */
void sim_memory_queue_free(struct sim_op *op);

/* FREEING -> LIVE: the operation got no place. */
void sim_memory_cancel_free(struct sim_alloc *alloc);

/*
 * End an allocation of a heap: out of the map, block back to the heap or the device. The
 * heap's reference is dropped. Returns false if it had ended already.
 */
bool sim_heap_free(struct sim_alloc *alloc) GS_MUST_USE;

/* The same, but the block is freed: for those alone that are behind that free. */
bool sim_heap_park(struct sim_alloc *alloc, struct sim_free_point free) GS_MUST_USE;

/* A heap's figures, in bytes. */
struct sim_heap_info {
    size_t reserved, reserved_high;
    size_t used, used_high;
};

void sim_heap_read(struct sim_heap *heap, struct sim_heap_info *out);

/* Start the high water marks over at the present values. */
void sim_heap_reset_high(struct sim_heap *heap, bool reserved, bool used);

/* Give idle units back to the device until at most keep_bytes are held or none is idle.
 */
void sim_heap_trim(struct sim_heap *heap, size_t keep_bytes);

/* End every allocation and give everything back. */
void sim_heap_clear(struct sim_heap *heap);

/*
 * Find the live allocation containing an address.
 *
 * Out:     the allocation with a reference for the caller, or NULL
 */
struct sim_alloc *sim_memory_find(uintptr_t address) GS_MUST_USE;

/* True if the address lies in some device's reserved range, allocated or not. */
bool sim_memory_is_device_address(uintptr_t address);

/* True if the address lies in the range of the host's pools, allocated or not. */
bool sim_memory_is_host_pool_address(uintptr_t address);

/* Where the device itself sees an address of this allocation. Valid while it is
 * referenced. */
void *sim_memory_alias(const struct sim_alloc *alloc, uintptr_t address);

/* The 2 MiB unit or whole block a device allocation lies in: what was mapped at once. */
void sim_memory_mapping(const struct sim_alloc *alloc, uintptr_t *base, size_t *bytes);

void sim_memory_ref(struct sim_alloc *alloc);
void sim_memory_unref(struct sim_alloc *alloc);

static inline enum sim_memory_state sim_memory_state(const struct sim_alloc *alloc)
{
    return (enum sim_memory_state)atomic_load_explicit(&alloc->state,
                                                       memory_order_acquire);
}

static inline bool sim_memory_is_device_kind(const struct sim_alloc *alloc)
{
    return alloc->kind == SIM_MEMORY_DEVICE || alloc->kind == SIM_MEMORY_POOL ||
           alloc->kind == SIM_MEMORY_IPC;
}

/* Stream-ordered memory, wherever it is. */
static inline bool sim_memory_is_of_pool(const struct sim_alloc *alloc)
{
    return alloc->kind == SIM_MEMORY_POOL || alloc->kind == SIM_MEMORY_HOST_POOL ||
           alloc->kind == SIM_MEMORY_MANAGED_POOL;
}

static inline bool sim_memory_is_managed(const struct sim_alloc *alloc)
{
    return alloc->kind == SIM_MEMORY_MANAGED || alloc->kind == SIM_MEMORY_MANAGED_POOL;
}

/* Is it memory of a device, as against the host's, that lies at an address? */
bool sim_memory_on_device(const struct sim_alloc *alloc, uintptr_t address);

/* True for what has no address that a program was told: arrays, semaphores. */
bool sim_memory_is_hidden(const struct sim_alloc *alloc);

/* A process-wide number for a new allocation. */
uint64_t sim_memory_next_id(void);

/*
 * Host kinds: map fresh pages (pinned, managed) or enter the caller's own (registered).
 *
 * In:      pages  where registered memory starts; NULL for the others
 * Errors:  CUDA_ERROR_OUT_OF_MEMORY
 *          CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED  it overlaps an entry of the map
 */
CUresult sim_host_create(enum sim_memory_kind kind, void *pages, size_t bytes,
                         unsigned flags, int device, struct sim_context *context,
                         uint64_t context_id, struct sim_alloc **out) GS_MUST_USE;

/* Take it out of the map; its pages go with the last reference. False if it was out. */
bool sim_host_remove(struct sim_alloc *alloc) GS_MUST_USE;

/* Remove everything that life of that context made. */
void sim_host_remove_context(const struct sim_context *context, uint64_t context_id);

/* As sim_memory_find, host kinds only. */
struct sim_alloc *sim_host_find(uintptr_t address) GS_MUST_USE;

#endif
