/*
 * pool_reference.h - the pool's policy once more, by exhaustive search over plain arrays.
 *
 * Written from docs/pool.md, sharing no code with pool/: the property test runs both over
 * equal devices and compares every address. With `native` set it models the driver
 * instead: small requests packed first fit into chunks of 2 MiB, large ones rounded to
 * 2 MiB, nothing cached.
 *
 * Owns: its segments.   Lock: none, one thread.
 */
#ifndef POOL_REFERENCE_H
#define POOL_REFERENCE_H

#include "pool_fake.h"

enum ref_state { REF_FREE, REF_LIVE, REF_PENDING };

struct ref_block {
    size_t offset, bytes;
    enum ref_state state;
    uint64_t parked; /* when, while pending */
};

struct ref_segment {
    uint64_t addr;
    size_t bytes;
    bool shared, single;
    uint64_t idle_since; /* 0: in use */
    struct ref_block *blocks;
    size_t count, room;
    size_t tolerance; /* beyond what the allocation needs */
};

struct reference {
    struct fake device;
    size_t segment_bytes;
    bool native;
    bool large;    /* the request that is being served */
    bool anywhere; /* it need not start at a page */
    uint64_t clock;
    uint64_t idle_turns; /* segments that became idle so far */
    struct ref_segment *segments;
    size_t count, room;
    size_t known, refused; /* bytes the device had room for, and had none for; 0: never */
    unsigned spared;       /* calls since that refusal */
    size_t peak;           /* bytes needed at once so far */
    size_t calm;           /* segments that got an allocation since that rose */
};

void ref_init(struct reference *ref, size_t capacity, size_t segment_bytes, bool native);
void ref_fini(struct reference *ref);

/* The address, 0 if the device is full. */
uint64_t ref_alloc(struct reference *ref, size_t bytes);
void ref_free(struct reference *ref, uint64_t addr);
/* Free, but not to be reused before ref_retire. */
void ref_free_later(struct reference *ref, uint64_t addr);
void ref_retire(struct reference *ref);
size_t ref_trim(struct reference *ref, size_t bytes);

/* Bytes of the large segments in use, and of the shared ones with a block in use. */
void ref_held(const struct reference *ref, size_t *large, size_t *shared);

#endif
