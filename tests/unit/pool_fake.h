/*
 * pool_fake.h - a device that is a plain counter, for the tests of pool/.
 *
 * It has a capacity and a granularity, hands out the lowest free 2 MiB aligned addresses,
 * can be told to fail, and watches the pool: what is unmapped must be exactly what was
 * mapped, a fence is asked after only until it is released, and released once, and no
 * pool lock is held during any call. What it finds wrong stands in `broken`.
 *
 * Owns: its regions and fences.   Lock: fake->lock, never held while it calls the pool.
 */
#ifndef POOL_FAKE_H
#define POOL_FAKE_H

#include <pthread.h>

#include "pool/pool.h"

#define FAKE_BASE   ((uint64_t)0x7f0000000000)
#define FAKE_NATIVE 2 /* native code of an ordinary out of memory */
#define FAKE_FENCES 4096

enum fake_fence {
    FAKE_FENCE_UNUSED,
    FAKE_FENCE_BUSY,
    FAKE_FENCE_DONE,
    FAKE_FENCE_BROKEN
};

struct fake_region {
    uint64_t addr;
    size_t bytes;   /* as asked */
    size_t charged; /* as the device counts them */
};

struct fake {
    struct gs_backend backend; /* pass &fake->backend, and fake itself as `self` */
    pthread_mutex_t lock;
    size_t capacity, granularity;
    size_t mapped_bytes, mapped_peak; /* charged */
    struct fake_region *regions;      /* by address */
    size_t region_count, region_room;
    unsigned map_calls, maps, unmaps, queries;
    size_t sizes[64]; /* bytes of the last map calls, by map_calls % 64 */

    unsigned fail_from, fail_count; /* map calls fail_from .. + fail_count - 1 fail ... */
    enum gs_status fail_status;     /* ... like this ... */
    int fail_native;                /* ... with this code */
    bool busy;                      /* unmap would wait for running work ... */
    bool in_vain;                   /* ... for longer than one may wait */
    unsigned awaited;               /* times that was asked */
    bool tells_free;                /* how many bytes are free */
    unsigned long told;             /* and how often it did */
    bool keeps;                     /* what cannot be pooled; kept_addr is the last one */
    uint64_t kept_addr;
    uint64_t skew;      /* added to addresses handed out */
    uint64_t next_addr; /* if not 0: the next address, whatever it hits */

    unsigned fence_state[FAKE_FENCES];
    unsigned fence_released[FAKE_FENCES];
    gs_fence elsewhere; /* no wait covers fences from that one on; 0: all are covered */

    struct gs_pool
        *pool; /* if set, probed during each call: single-threaded tests only */
    void (*during_map)(struct fake *fake, size_t bytes);
    void (*during_unmap)(struct fake *fake, uint64_t addr);
    void (*during_query)(struct fake *fake, gs_fence fence);
    void *extra; /* for the test's hooks */
    const char *broken;
};

void fake_init(struct fake *fake, size_t capacity);
void fake_fini(struct fake *fake);

/* Straight to the device, as a forwarded call would go. */
enum gs_status fake_map(void *self, size_t bytes, uint64_t *addr, int *native);
void fake_unmap(void *self, uint64_t addr, size_t bytes);

void fake_fence_set(struct fake *fake, gs_fence fence, enum fake_fence state);
bool fake_is_mapped(struct fake *fake, uint64_t addr);

/* A pool of one heap over a fake; most tests start with one. */
struct bed {
    struct fake fake;
    struct gs_pool *pool;
    struct gs_heap *heap;
};

/* segment_bytes 0: 20 MiB. Ends the test if it cannot be set up. */
void bed_init(struct bed *bed, size_t capacity, size_t segment_bytes);
/* With cache tiers above the segments; the device does not probe the pool, as its
 * questions would empty them. */
void bed_init_cached(struct bed *bed, size_t capacity, size_t segment_bytes,
                     size_t cache_bytes);
/* The same with an age at which idle memory goes back. */
void bed_init_aged(struct bed *bed, size_t capacity, size_t segment_bytes,
                   size_t cache_bytes, unsigned age_ms);
/* With a pool of one's own making. */
void bed_init_with(struct bed *bed, size_t capacity, const struct gs_pool_config *config);
/* Checks the pool's invariants and that the fake saw nothing wrong, then destroys both.
 */
void bed_fini(struct bed *bed);
/* The same checks, at any time. */
void bed_check(struct bed *bed);

/* Allocate; the address, 0 on failure. */
uint64_t bed_alloc(struct bed *bed, size_t bytes);
/* Claim and free; must succeed. */
void bed_free(struct bed *bed, uint64_t addr);
void bed_free_fenced(struct bed *bed, uint64_t addr, gs_fence fence);
/* Claim; must succeed. */
struct gs_block *bed_claim(struct bed *bed, uint64_t addr);
/* The range of the pool that an address is in; there must be one. */
struct gs_range bed_range(struct bed *bed, uint64_t addr);
struct gs_pool_stats bed_stats(struct bed *bed);

/* A number from the environment; `normal` if it is not set. */
unsigned long bed_number(const char *variable, unsigned long normal);
/* xorshift64*; the state must not be 0. */
uint64_t bed_random(uint64_t *state);

#endif
