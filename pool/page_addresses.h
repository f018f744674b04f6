/*
 * page_addresses.h - the addresses of a page store (page_store.h): reserved from the
 * driver in arenas, and handed out in ranges.
 *
 * Locks: each function takes the store's lock, and calls the driver without it.
 */
#ifndef GS_POOL_PAGE_ADDRESSES_H
#define GS_POOL_PAGE_ADDRESSES_H

#include "pool/lock.h"
#include "pool/page_store.h"
#include "pool/sorted_records.h"

struct gs_page_addresses {
    const struct gs_page_ops *ops; /* these four: immutable */
    void *self;
    size_t arena_bytes;
    struct gs_lock *lock;        /* guards the rest */
    struct gs_page_span *arenas; /* a sorted array: they are few */
    size_t arena_count, arena_room;
    /* Spans of the arenas that hold no piece, by address and by size. */
    struct gs_sorted by_addr, by_size;
    struct gs_sorted_records records; /* of spans */
};

void gs_page_addresses_init(struct gs_page_addresses *addresses,
                            const struct gs_page_ops *ops, void *self, size_t arena_bytes,
                            struct gs_lock *lock);
/* Takes the first part of the smallest span that suffices, of several the lowest;
 * reserves more if none does. */
bool gs_page_addresses_take(struct gs_page_addresses *addresses, size_t bytes,
                            uint64_t *addr) GS_MUST_USE;
/* Takes the addresses after the largest range that is taken whole, and has enough of them
 * for `bytes` in all. Returns its index; `count`: none has. */
unsigned gs_page_addresses_extend(struct gs_page_addresses *addresses,
                                  const struct gs_pages_from *from, unsigned count,
                                  size_t bytes) GS_MUST_USE;
/* Returns addresses without memory, and to the driver an arena that is empty now. */
void gs_page_addresses_return(struct gs_page_addresses *addresses, uint64_t addr,
                              size_t bytes);
/* Returns all arenas to the driver. */
void gs_page_addresses_unreserve_all(struct gs_page_addresses *addresses);
/* Returns true if the address is in an arena. */
bool gs_page_addresses_own(struct gs_page_addresses *addresses, uint64_t addr);
/* Frees the records. The addresses stay reserved. */
void gs_page_addresses_destroy(struct gs_page_addresses *addresses);

#endif
