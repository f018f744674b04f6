/*
 * releasable_items.h - the table of releasable allocations, for releasable.c and
 * release.c.
 */
#ifndef GS_RELEASABLE_ITEMS_H
#define GS_RELEASABLE_ITEMS_H

#include "gs_hash.h"
#include "shim/heaps/releasable.h"

enum gs_releasable_state {
    GS_RELEASABLE_PRESENT,
    GS_RELEASABLE_MOVING, /* its block is claimed by the thread that moves it */
    GS_RELEASABLE_AWAY    /* its block is claimed */
};

struct gs_releasable {
    UT_hash_handle hh;
    uint64_t addr; /* the key */
    size_t bytes;  /* pages */
    size_t requested;
    struct gs_context *context;
    struct gs_block *block;
    uint32_t names; /* bits: the scopes that it is in */
    enum gs_releasable_state state;
    void *copy; /* on the host; NULL: none */
    bool pinned;
};

/* Adds a new allocation, in place of one at its address. False: no memory. */
bool gs_releasable_add(struct gs_releasable *item) GS_MUST_USE;
/* The bit of a name; 0: it is none. */
uint32_t gs_releasable_name(const char *name);
/*
 * Takes the allocations of these names in the state `from`, to be moved by this thread
 * alone. Of those that are present only whose block can be claimed, and that nobody else
 * has been given; the rest of them is counted.
 * Errors: GS_ERR_HOST_NOMEM
 */
enum gs_status gs_releasable_take(struct gs_state *state, uint32_t names,
                                  enum gs_releasable_state from,
                                  struct gs_releasable ***items, size_t *count,
                                  struct gs_release_sum *sum) GS_MUST_USE;
/* The move has ended: *count items are in this state. Their blocks are live if the pages
 * are present. Frees the list. */
void gs_releasable_settle(struct gs_releasable **items, size_t count,
                          enum gs_releasable_state state);
/* Frees the copy. */
void gs_releasable_drop_copy(struct gs_releasable *item);
/* Pages of these names that are away. */
uint64_t gs_releasable_away_of(uint32_t names);
/* Bytes of the copies of these names. */
uint64_t gs_releasable_copied(uint32_t names);

#endif
