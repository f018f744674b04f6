/*
 * pages.c - writers of the page map.
 * Owns: root and leaves.   Lock: pages->lock.   See pages.h
 */
#include "pool/pages.h"

#include "pool/heap.h"
#include "pool/meta.h"

enum gs_status gs_pages_init(struct gs_pages *pages)
{
    gs_lock_init(&pages->lock, GS_RANK_PAGES);
    pages->root = gs_meta_map(GS_PAGE_ROOT_SLOTS * sizeof(*pages->root));
    if (!pages->root) {
        return GS_ERR_HOST_NOMEM;
    }
    pages->leaves = pages->used = 0;
    return GS_OK;
}

void gs_pages_fini(struct gs_pages *pages)
{
    for (size_t i = 0; pages->leaves && i < GS_PAGE_ROOT_SLOTS; i++) {
        gs_page_slot *leaf = atomic_load_explicit(&pages->root[i], memory_order_relaxed);

        if (!leaf) {
            continue;
        }
        gs_meta_unmap(leaf, GS_PAGE_LEAF_SLOTS * sizeof(*leaf));
        pages->leaves--;
    }
    gs_meta_unmap(pages->root, GS_PAGE_ROOT_SLOTS * sizeof(*pages->root));
}

static uint64_t first_page(const struct gs_segment *segment)
{
    return segment->addr >> GS_PAGE_SHIFT;
}

static uint64_t last_page(const struct gs_segment *segment)
{
    return (segment->addr + segment->bytes - 1) >> GS_PAGE_SHIFT;
}

/* The slot of a page whose leaf exists. */
static gs_page_slot *slot_of(struct gs_pages *pages, uint64_t page)
{
    gs_page_slot *leaf = atomic_load_explicit(&pages->root[page >> GS_PAGE_LEAF_BITS],
                                              memory_order_relaxed);

    return &leaf[page & (GS_PAGE_LEAF_SLOTS - 1)];
}

/* Makes sure that every page of the segment has a leaf. The lock is held. */
static enum gs_status grow(struct gs_pages *pages, const struct gs_segment *segment)
{
    uint64_t last = last_page(segment) >> GS_PAGE_LEAF_BITS;

    for (uint64_t i = first_page(segment) >> GS_PAGE_LEAF_BITS; i <= last; i++) {
        gs_page_slot *leaf = atomic_load_explicit(&pages->root[i], memory_order_relaxed);

        if (leaf) {
            continue;
        }
        leaf = gs_meta_map(GS_PAGE_LEAF_SLOTS * sizeof(*leaf));
        if (!leaf) {
            return GS_ERR_HOST_NOMEM;
        }
        atomic_store_explicit(&pages->root[i], leaf, memory_order_release);
        pages->leaves++;
    }
    return GS_OK;
}

enum gs_status gs_pages_insert(struct gs_pages *pages, struct gs_segment *segment,
                               struct gs_heap **owner)
{
    uint64_t last = last_page(segment);
    enum gs_status status;

    gs_lock_take(&pages->lock);
    status = grow(pages, segment);
    if (status != GS_OK) {
        goto out;
    }
    for (uint64_t page = first_page(segment); page <= last; page++) {
        struct gs_segment *other =
            atomic_load_explicit(slot_of(pages, page), memory_order_relaxed);

        if (!other) {
            continue;
        }
        *owner = atomic_load_explicit(&other->heap, memory_order_relaxed);
        status = GS_ERR_INVALID;
        goto out;
    }
    for (uint64_t page = first_page(segment); page <= last; page++) {
        atomic_store_explicit(slot_of(pages, page), segment, memory_order_release);
    }
    pages->used += last - first_page(segment) + 1;
out:
    gs_lock_drop(&pages->lock);
    return status;
}

void gs_pages_remove(struct gs_pages *pages, struct gs_segment *segment)
{
    uint64_t last = last_page(segment);

    gs_lock_take(&pages->lock);
    for (uint64_t page = first_page(segment); page <= last; page++) {
        atomic_store_explicit(slot_of(pages, page), NULL, memory_order_release);
    }
    pages->used -= last - first_page(segment) + 1;
    gs_lock_drop(&pages->lock);
}

size_t gs_pages_used(struct gs_pages *pages)
{
    size_t used;

    gs_lock_take(&pages->lock);
    used = pages->used;
    gs_lock_drop(&pages->lock);
    return used;
}

size_t gs_pages_bytes(struct gs_pages *pages)
{
    size_t leaves;

    gs_lock_take(&pages->lock);
    leaves = pages->leaves;
    gs_lock_drop(&pages->lock);
    return GS_PAGE_ROOT_SLOTS * sizeof(*pages->root) +
           leaves * GS_PAGE_LEAF_SLOTS * sizeof(gs_page_slot);
}
