/*
 * pages.h - the page map: from any 64-bit address to the segment that holds it.
 *
 * A two-level table over 48-bit addresses with one slot for each 2 MiB page: 8,192 roots
 * of 16,384 slots. Readers take no lock. A slot is set before its segment joins its heap,
 * and cleared just before the backend unmaps it. So the driver cannot hand out an address
 * again while its slot is set; if a slot is still set, the heap that set it is stale.
 *
 * A segment need not be a multiple of the page. The driver's granularity keeps other
 * segments out of its last page, and readers compare with the segment's end.
 *
 * Owns: root and leaves, which live until gs_pages_fini.   Lock: pages->lock for writers.
 */
#ifndef GS_POOL_PAGES_H
#define GS_POOL_PAGES_H

#include <stdatomic.h>

#include "gs_base.h"
#include "pool/lock.h"

struct gs_segment;
struct gs_heap;

#define GS_PAGE_SHIFT      21
#define GS_PAGE_LEAF_BITS  14
#define GS_PAGE_ROOT_BITS  13
#define GS_PAGE_LEAF_SLOTS ((size_t)1 << GS_PAGE_LEAF_BITS)
#define GS_PAGE_ROOT_SLOTS ((size_t)1 << GS_PAGE_ROOT_BITS)
#define GS_ADDRESS_BITS    48

static_assert(GS_PAGE_SHIFT + GS_PAGE_LEAF_BITS + GS_PAGE_ROOT_BITS == GS_ADDRESS_BITS,
              "the two levels must cover every address");

typedef _Atomic(struct gs_segment *) gs_page_slot;
typedef _Atomic(gs_page_slot *) gs_page_leaf;

struct gs_pages {
    gs_page_leaf *root;
    struct gs_lock lock;
    size_t leaves; /* lock */
    size_t used;   /* slots that are set; lock */
};

/* Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_pages_init(struct gs_pages *pages) GS_MUST_USE;
void gs_pages_fini(struct gs_pages *pages);

/* Segment whose page holds `addr`, or NULL. Any address is safe. Locks: none. */
static inline struct gs_segment *gs_pages_find(const struct gs_pages *pages,
                                               uint64_t addr)
{
    gs_page_slot *leaf;

    if (GS_UNLIKELY(addr >> GS_ADDRESS_BITS)) {
        return NULL;
    }
    leaf = atomic_load_explicit(&pages->root[addr >> (GS_PAGE_SHIFT + GS_PAGE_LEAF_BITS)],
                                memory_order_acquire);
    if (GS_UNLIKELY(!leaf)) {
        return NULL;
    }
    return atomic_load_explicit(&leaf[(addr >> GS_PAGE_SHIFT) & (GS_PAGE_LEAF_SLOTS - 1)],
                                memory_order_acquire);
}

/*
 * Sets every slot of the segment, or none.
 * In:     segment  address 2 MiB aligned and below 2^48; heap, addr and bytes are final
 * Out:    *owner   on GS_ERR_INVALID, the heap whose segment occupies the slot
 * Errors: GS_ERR_INVALID     a slot is taken
 *         GS_ERR_HOST_NOMEM
 * Locks:  takes pages->lock
 */
enum gs_status gs_pages_insert(struct gs_pages *pages, struct gs_segment *segment,
                               struct gs_heap **owner) GS_MUST_USE;
/* Clears the slots of a segment that was inserted. Takes pages->lock. */
void gs_pages_remove(struct gs_pages *pages, struct gs_segment *segment);

/* Slots set now; host memory in use, in bytes. Each takes pages->lock. */
size_t gs_pages_used(struct gs_pages *pages);
size_t gs_pages_bytes(struct gs_pages *pages);

#endif
