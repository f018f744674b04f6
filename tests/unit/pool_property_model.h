/*
 * pool_property_model.h - the plain reference that random sequences are judged by.
 *
 * It knows nothing of segments, holes or cache tiers: it is a list, sorted by address, of
 * the ranges that are somebody's, with their owner, and whether they are live, claimed or
 * not yet ready for another; beside it the list of what the backend has mapped. A range
 * that has become ready, because its fence is done or a synchronize was entered after it
 * was freed, is simply not on the list any more. What the pool does is right if it never
 * touches a range on the list, and gives back nothing that holds one.
 *
 * The backend is the counting device of pool_fake.h, one a device, with an owner for
 * each region, fences that several blocks may share, and failures on order.
 *
 * Owns: all of struct model.   Lock: none; one thread at a time.
 */
#ifndef POOL_PROPERTY_MODEL_H
#define POOL_PROPERTY_MODEL_H

#include "pool_pager.h"

#define MODEL_DEVICES 3
#define MODEL_HEAPS   64   /* over the life of one model, dead ones included */
#define MODEL_RANGES  2048 /* on the list at once */
#define MODEL_REGIONS 2048
#define MODEL_FENCES  32768

enum model_state { MODEL_LIVE, MODEL_CLAIMED, MODEL_PENDING, MODEL_FOREIGN };

struct model;
struct model_heap;

/* What the backend has mapped, or the program itself (no heap). */
struct model_region {
    uint64_t addr, device_addr; /* as the pool sees it, as the fake does */
    size_t bytes;
    struct model_heap *heap;
    unsigned allocations; /* ranges on the list that lie in it */
    bool shared;          /* as gs_pool_find said of a block in it */
    bool retained;        /* may take no new allocation */
    bool paged; /* made of pages: the pool may divide it, and join it with the next */
};

struct model_range {
    uint64_t addr;
    size_t bytes, block_bytes; /* as asked for; as gs_pool_find said */
    enum model_state state;
    struct model_heap *heap; /* NULL: MODEL_FOREIGN */
    struct model_region *region;
    uint32_t tag;           /* its contents, as it were */
    struct gs_block *block; /* MODEL_CLAIMED */
    gs_fence fence;         /* MODEL_PENDING; 0: waits for a synchronize */
    uint64_t stamp;         /* tokens handed out when it was freed */
    size_t at;              /* its place in model->live */
};

enum model_fence_state { MODEL_FENCE_BUSY, MODEL_FENCE_DONE, MODEL_FENCE_BROKEN };

struct model_fence {
    enum model_fence_state state;
    unsigned given, released; /* blocks freed with it; releases by the pool */
};

struct model_device {
    struct fake fake;
    int ordinal;
    unsigned fail_count; /* so many map calls fail ... */
    enum gs_status fail_status;
    int fail_native;
    unsigned unsuitable_count; /* ... and so many answer what cannot be pooled */
    struct gs_pool_limits limits;
};

struct model_heap {
    struct gs_backend backend;
    struct model *model;
    struct model_device *device;
    struct gs_heap *heap;
    bool dead, poisoned, may_be_poisoned;
    bool unseen; /* dead, and the pool has not been told: it is asked, and does nothing */
    unsigned unsuitable_run; /* addresses in a row that could not be pooled */
    uint64_t tokens;         /* handed out by gs_heap_retire_begin, but for 0 */
    struct pager *pager;     /* NULL: it has no pages that move */
};

struct model {
    struct gs_pool *pool;
    bool pages; /* heaps have pages that move */
    struct model_device devices[MODEL_DEVICES];
    unsigned device_count;
    struct model_heap heaps[MODEL_HEAPS];
    unsigned heap_count;
    struct model_range *sorted[MODEL_RANGES]; /* by address */
    struct model_range *live[MODEL_RANGES];   /* those MODEL_LIVE, in any order */
    size_t sorted_count, live_count;
    struct model_range *claimed[64]; /* those MODEL_CLAIMED, of dead heaps too */
    size_t claimed_count;
    struct model_region *regions[MODEL_REGIONS];
    size_t region_count;
    struct model_fence fences[MODEL_FENCES];
    gs_fence fence_count; /* fences are 1 .. fence_count */

    /* What the pool's counters must say. */
    uint64_t allocs, frees, failed, live_bytes, used_bytes, requested_bytes, given_bytes;
    uint64_t pending_bytes, reserved_bytes;

    /* Of the operation in progress. */
    bool allocating, refused, injected, unsuitable;
    int native; /* the code of the last failure */
    uint64_t unmapped_bytes;
    unsigned moved; /* segments made of idle pages, over the life */
};

/* Ends the process with `what`, and by model_where() where, unless it holds. */
void model_must(bool holds, const char *what);
/* Told with a failure, of whatever kind: how to see it again. */
void model_where(const char *test, uint64_t seed, const unsigned long *step);

void model_begin(struct model *model, const struct gs_pool_config *config,
                 unsigned devices, size_t capacity, size_t granularity, bool pages);
void model_end(struct model *model);
struct model_heap *model_add_heap(struct model *model, unsigned device);

/* Is no block of the heap pending? */
bool model_nothing_pending(const struct model *model, const struct model_heap *heap);

/* A block was handed out; every rule about it is checked. Returns the range. */
struct model_range *model_handed_out(struct model *model, struct model_heap *heap,
                                     size_t bytes, struct gs_block *block);
/* The driver itself served the program. */
void model_foreign(struct model *model, struct model_device *device, uint64_t device_addr,
                   size_t bytes);
/* It takes that back. */
void model_foreign_gone(struct model *model, struct model_range *range);
/* A live range was claimed. */
void model_claimed(struct model *model, struct model_range *range,
                   struct gs_block *block);
/* A claimed one is live again; one of a dead heap is forgotten. */
void model_released(struct model *model, struct model_range *range);
/* A claimed range is about to be freed; `fence` is counted as given. To be told before
 * the pool is. */
void model_freed(struct model *model, struct model_range *range, bool ready,
                 gs_fence fence);
gs_fence model_new_fence(struct model *model);
/* What waits for the fence alone is ready from now on. */
void model_fence_done(struct model *model, gs_fence fence);
/* What was freed before `token` was handed out is. */
void model_retired(struct model *model, struct model_heap *heap, uint64_t token);
/* The heap's context is gone, and with it all it had of the device. */
void model_heap_gone(struct model *model, struct model_heap *heap);

/* How far the pool's addresses of a device are from the fake's. */
uint64_t model_apart(const struct model_device *device);
/* Memory without a range, of a device or (-1) all. */
uint64_t model_idle_bytes(const struct model *model, int device);
/* Could a hole of the heap's shared regions hold the request? */
bool model_has_hole(const struct model *model, const struct model_heap *heap,
                    size_t bytes);
/* The range that holds the address, or NULL. */
struct model_range *model_find(const struct model *model, uint64_t addr);
/* The region that holds it, or NULL. */
struct model_region *model_region_of(const struct model *model, uint64_t addr);

/* The pool's counters, and each device's, are the model's. */
void model_check_counters(const struct model *model);

#endif
