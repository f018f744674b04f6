/*
 * transfers.h - copies between host and device summed by call site, and which of the call
 * sites copy in a way that costs time.
 *
 * Locks: any thread may call any function; locking is internal.
 */
#ifndef GS_TRANSFERS_H
#define GS_TRANSFERS_H

#include "gs_base.h"

/* The call sites that are distinguished; copies of further ones are only counted. */
#define GS_TRANSFER_SITES 4096u
/* The largest small copy. The driver copies it from pageable memory at once. */
#define GS_TRANSFER_SMALL_BYTES (64 * GS_KIB)
/* The smallest copy whose rate is measured. */
#define GS_TRANSFER_TIMED_BYTES GS_MIB
/* The alignment of the lines that a bus or a cache moves at once, in bytes. */
#define GS_TRANSFER_ALIGNMENT 64u

/* A copy. */
struct gs_transfer {
    const char *call; /* the driver's name; static */
    uint32_t stack;   /* 0: none; then the copies of a call are one call site */
    bool to_host;     /* else to the device */
    bool asynchronous;
    bool pageable;  /* not small, and its host memory is pageable */
    bool in_a_row;  /* directly after another of its thread, in the same direction, both
                     * small or both not */
    bool unaligned; /* one end is off GS_TRANSFER_ALIGNMENT; the driver copies pageable
                     * memory to a buffer of its own first, so that does not count */
    bool returns; /* to the device, with the bytes that a copy to the host had brought */
    uint64_t bytes;
    uint64_t took_ns; /* time of a copy that began on an idle device; 0: not measured */
};

struct gs_transfer_site {
    /* The key. */
    const char *call;
    uint32_t stack;
    bool to_host;
    /* The sums. */
    uint64_t count, bytes;
    uint64_t least_bytes, most_bytes; /* of a copy */
    uint64_t weight; /* like `bytes`, but a small copy counts as the largest small one */
    uint64_t pageable_count, pageable_bytes;
    uint64_t small_count, in_a_row_count; /* the second: of the small ones */
    uint64_t waited_count; /* in a row, each directly followed by a synchronize */
    uint64_t timed_count, fastest_rate; /* of the measured ones; bytes a second */
    uint64_t unaligned_count;           /* of the measured ones */
    uint64_t returned_count, returned_bytes;
};

/* The sums of the copies of a program that are made alike. */
enum gs_transfer_memory {
    GS_TRANSFER_FROM_PAGEABLE,
    GS_TRANSFER_FROM_PINNED, /* or what the device reads as fast as pinned memory */
    GS_TRANSFER_OF_FEW,      /* at most GS_TRANSFER_SMALL_BYTES, of any memory */
    GS_TRANSFER_MEMORIES
};
struct gs_transfer_way {
    bool to_host, asynchronous;
    enum gs_transfer_memory memory;
    uint64_t count, bytes;
    uint64_t fastest_rate; /* of the measured ones; bytes a second; 0: none */
};
#define GS_TRANSFER_WAYS (2u * 2u * GS_TRANSFER_MEMORIES)

/* The problems of a call site's copies; bits. */
enum gs_transfer_hint {
    GS_TRANSFER_PAGEABLE = 1, /* repeatedly from or to pageable memory */
    GS_TRANSFER_SMALL = 2,    /* many small ones, most of them in a row */
    GS_TRANSFER_WAITED = 4,   /* nearly each is followed by a synchronize */
    GS_TRANSFER_SLOW = 8,     /* even the fastest is slow */
    GS_TRANSFER_RETURNED = 16 /* repeatedly what had just come from the device */
};
unsigned gs_transfer_hints(const struct gs_transfer_site *site);

struct gs_transfers;

/* NULL: no memory. Lives as long as the process. */
struct gs_transfers *gs_transfers_create(void);

/* Adds a copy. Returns the number of its call site; 0: the copy is only counted. */
uint32_t gs_transfers_add(struct gs_transfers *transfers, const struct gs_transfer *copy);
/* Adds that a copy in a row was directly followed by a synchronize. */
void gs_transfers_add_wait(struct gs_transfers *transfers, uint32_t site);

/* The call sites with hints, those that cost most first; the copies without a call site;
 * and all copies by the way in which they are made, those of most bytes first. The caller
 * frees `sites`; without memory there are none. */
struct gs_transfer_list {
    struct gs_transfer_site *sites;
    size_t count;
    uint64_t rest_count, rest_bytes;
    struct gs_transfer_way ways[GS_TRANSFER_WAYS];
    unsigned way_count;
};
struct gs_transfer_list gs_transfers_slow(struct gs_transfers *transfers);

#endif
