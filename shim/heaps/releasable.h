/*
 * releasable.h - GPUSHIM_RELEASABLE: device memory of some scopes is on pages of its
 * own, which go to the device and come back while the program keeps the addresses.
 *
 * A releasable allocation is a block of the pool with a segment of its own
 * (gs_heap_alloc_apart). While its pages are with the device the block is claimed, as in
 * a free: so the fast paths of frees and of copies find no live block there, and the slow
 * ones ask here. Without the option nothing here is called.
 *
 * Owns:  the names, and the table of these allocations.
 * Lock:  a mutex inside, never held across a call of the driver or the pool's backend.
 * Design: docs/tuning.md, "Releasing a scope"
 */
#ifndef GS_RELEASABLE_H
#define GS_RELEASABLE_H

#include "shim/record.h"

/* Atomic: requests for device memory leave the shortest path: a check is on
 * (redzones.h), or the option names scopes. */
extern bool gs_alloc_detours __attribute__((visibility("hidden")));

/* Called at start, and when the option has changed: from now on allocations within these
 * scopes are releasable. Names beyond the first 32 are rejected with a line. */
void gs_releasable_start(const struct gs_state *state);
const char *gs_releasable_change(const struct gs_state *state, const char *names);
void gs_releasable_reset(void); /* in a forked child, as the next */
void gs_releasable_names_reset(void);

/* Returns true if the calling thread is in such a scope, and the request is large enough
 * for pages of its own. */
bool gs_releasable_here(size_t bytes);
/* Serves a request of such a scope. False: the pool serves it as any other. */
bool gs_releasable_alloc(struct gs_state *state, const struct gs_context *context,
                         size_t bytes, struct gs_block **out);

/*
 * Frees the allocation at an address whose block could not be claimed.
 * In:  waits  as cuMemFree does, for the work of the context
 * Out: *block   not NULL: it was being resumed and is claimed now, for an ordinary free
 *      *result  else: the free's answer
 * Returns false if the address is none: a bad free.
 */
bool gs_releasable_free(struct gs_state *state, enum gs_api api, bool waits,
                        uint64_t addr, struct gs_block **block, CUresult *result);
/* Returns true if an allocation begins at the address whose pages are away. */
bool gs_releasable_lacks(uint64_t addr);
/* Returns true if a releasable allocation begins there, released or not. */
bool gs_releasable_has(uint64_t addr);

/* The allocations of a device whose pages are away: as requested, and their pages. */
void gs_releasable_away(int device, uint64_t *bytes, uint64_t *pages);

/* The nth name of the option, and the pages of its allocations that are away; NULL: there
 * are fewer names. */
const char *gs_releasable_away_nth(unsigned n, uint64_t *pages);

/* Called before a segment goes back to the driver: it is no allocation any more. */
void gs_releasable_forget(uint64_t addr);
/* Called when the context's heap has ended, with all its memory. */
void gs_releasable_context_ended(const struct gs_context *context);

/* ---- release and resume (release.c) -------------------------------------------------
 */

/* What becomes of the contents. */
enum gs_keep { GS_KEEP_PINNED, GS_KEEP_PLAIN, GS_KEEP_NOTHING, GS_KEEP_WAYS };

struct gs_release_sum {
    uint64_t count, bytes;           /* allocations, as requested */
    uint64_t device_bytes;           /* pages */
    uint64_t host_bytes;             /* copies that are on the host now */
    uint64_t held_count, held_bytes; /* not released: they have another owner, too */
};

/*
 * Gives the pages of the scope's allocations to the device, after the work of their
 * contexts has completed; all of them, or on any error none.
 * Errors: GS_ERR_NOT_FOUND   the option never had this name
 *         GS_ERR_TIMEOUT     not now: a stream captures, or another thread is here
 *         GS_ERR_HOST_NOMEM  for the copies
 *         GS_ERR_BACKEND     the work or a copy has failed
 */
enum gs_status gs_release(struct gs_state *state, const char *name, enum gs_keep keep,
                          struct gs_release_sum *out) GS_MUST_USE;
/* Brings them back, with their contents. Errors: as above; GS_ERR_NOMEM: of the device,
 * and all stays released. */
enum gs_status gs_resume(struct gs_state *state, const char *name,
                         struct gs_release_sum *out) GS_MUST_USE;

#endif
