/*
 * pool_pager.h - virtual memory management over the counting device, for the tests of
 * pool/.
 *
 * It counts a page store's memory on the device, and watches the store: addresses are
 * mapped once and only where they are reserved, an unmapped range holds whole pieces,
 * memory is released once and not while it is mapped, and no pool lock is held during a
 * call. What it finds wrong stands in the device's `broken`.
 *
 * Owns: reservations and mappings.   Lock: the device's.
 */
#ifndef POOL_PAGER_H
#define POOL_PAGER_H

#include "pool/page_store.h"
#include "pool_fake.h"

#define PAGER_PIECES 8192

struct pager_piece {
    uint64_t addr; /* 0: not mapped */
    size_t bytes;  /* 0: not in use; its number is the handle */
    bool allowed;
};

struct pager {
    struct fake *fake;
    uint64_t base; /* reservations begin here ... */
    uint64_t end;  /* ... and end here; 0: anywhere */
    struct pager_piece pieces[PAGER_PIECES];
    size_t top; /* pieces from here on were never in use */
    struct pager_range {
        uint64_t addr;
        size_t bytes;
    } reserved[256];
    size_t reserved_count;
    unsigned creates, releases, maps, unmaps, allows; /* calls that succeeded */
    unsigned calls;                                   /* of any operation but quiet */
    unsigned fail_at; /* this call fails, if it can; 0: none */
    struct gs_page_store *store;
};

extern const struct gs_page_ops pager_ops;

/* In: base  a multiple of 2 MiB.   Makes the store, too. */
void pager_init(struct pager *pager, struct fake *fake, uint64_t base,
                size_t arena_bytes);
void pager_fini(struct pager *pager);
/* Ends a bed whose pages the pager makes, which must all have been given back. */
void pager_end(struct pager *pager, struct bed *bed);

/* Is each page of the range mapped, and may the device access it? */
bool pager_is_mapped(struct pager *pager, uint64_t addr, size_t bytes);
/* Pieces in use. */
size_t pager_count(const struct pager *pager);

#endif
