/*
 * page_store.h - device memory as pages: ranges of addresses, and pages that move between
 * them.
 *
 * What a backend needs for `make_pages` (backend.h), over a few primitive operations of
 * the driver's virtual memory management. A *piece* is physical memory with one handle,
 * mapped as a whole; the store has each at an address. The driver cannot divide a piece.
 * A cut inside one releases it, and creates two smaller ones: so pieces begin as large as
 * the requests, and take the sizes that the program's ranges need. A piece is never
 * joined with another, hence a store makes at most one cut for each of its pages.
 *
 * Locks: any thread may call any function; no lock is held while the operations run. Two
 * threads never pass the same range.   Design: docs/pool.md, "Pages that move"
 */
#ifndef GS_POOL_PAGE_STORE_H
#define GS_POOL_PAGE_STORE_H

#include "pool/backend.h"

/* The driver's virtual memory management. `bytes` and addresses are multiples of 2 MiB.
 * The implementation logs failures. */
struct gs_page_ops {
    /* Errors: GS_ERR_NOMEM, GS_ERR_BACKEND, as backend.h's `map`. */
    enum gs_status (*create)(void *self, size_t bytes, uint64_t *handle,
                             int *native) GS_MUST_USE;
    void (*release)(void *self, uint64_t handle, size_t bytes);
    /* A range of addresses without memory. */
    bool (*reserve)(void *self, size_t bytes, uint64_t *addr) GS_MUST_USE;
    void (*unreserve)(void *self, uint64_t addr, size_t bytes);
    bool (*map)(void *self, uint64_t addr, size_t bytes, uint64_t handle) GS_MUST_USE;
    /* The range may hold several pieces, each whole. */
    bool (*unmap)(void *self, uint64_t addr, size_t bytes) GS_MUST_USE;
    /* Lets the device access a range that was mapped. */
    bool (*allow)(void *self, uint64_t addr, size_t bytes) GS_MUST_USE;
    /* Returns true if `unmap` of memory that no work uses returns without a wait for
     * other work. */
    bool (*quiet)(void *self) GS_MUST_USE;
};

struct gs_page_store;

/* In: arena_bytes  addresses to reserve at once.   Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_page_store_create(const struct gs_page_ops *ops, void *self,
                                    size_t arena_bytes,
                                    struct gs_page_store **out) GS_MUST_USE;
/* Frees the records. The memory and the addresses stay as they are. */
void gs_page_store_destroy(struct gs_page_store *store);

/* backend.h, `make_pages`. GS_ERR_UNPOOLABLE: the store is broken, or there are no
 * addresses left. */
enum gs_status gs_page_store_make(struct gs_page_store *store, size_t bytes,
                                  const struct gs_pages_from *from, unsigned count,
                                  uint64_t *addr, int *native) GS_MUST_USE;
/* Releases the memory of a range that `make` returned or left. */
void gs_page_store_give(struct gs_page_store *store, uint64_t addr, size_t bytes);
/*
 * `empty` releases the memory of a range that `make` returned; its addresses stay taken.
 * `fill` gives it new memory at these addresses. `give` takes the range in either state.
 * Errors: as gs_page_ops.create: it stays without memory
 */
void gs_page_store_empty(struct gs_page_store *store, uint64_t addr, size_t bytes);
enum gs_status gs_page_store_fill(struct gs_page_store *store, uint64_t addr,
                                  size_t bytes, int *native) GS_MUST_USE;
/* Returns true if the range that begins at the address has memory. */
bool gs_page_store_is_filled(struct gs_page_store *store, uint64_t addr);
/* Releases all memory and all addresses: the context has ended. */
void gs_page_store_give_all(struct gs_page_store *store);
/* Returns true if the address is in a range of addresses of the store. */
bool gs_page_store_owns(struct gs_page_store *store, uint64_t addr);
/* Bytes of memory that the store has, mapped or on their way. */
size_t gs_page_store_bytes(struct gs_page_store *store);

#endif
