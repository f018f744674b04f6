/*
 * quarantine.h - GPUSHIM_CHECK=quarantine: freed blocks that are not reused for a while.
 *
 * A quarantined block stays claimed: the pool treats it as in use, the program as freed.
 * So a second free of the block is an error and does not free another owner's memory, and
 * a late write does not hit a new allocation.
 *
 * Lock: all functions may be called from any thread; a mutex inside, never held across a
 * call of the pool.
 */
#ifndef GS_QUARANTINE_H
#define GS_QUARANTINE_H

#include "shim/state/contexts.h"

/* At start: the most bytes in quarantine; 0: none. `large_alone`: a block of
 * GS_LARGE_BYTES and more is alone in its segment. */
void gs_quarantine_start(uint64_t limit_bytes, bool large_alone);
void gs_quarantine_reset(void); /* in a forked child */

/*
 * Quarantines a claimed block that is ready for reuse, and frees the oldest blocks beyond
 * the limit. Returns false, with nothing done, if the block is not quarantined: the
 * caller frees it.
 */
bool gs_quarantine_put(const struct gs_context *context, struct gs_block *block);

/* Returns true if the block at the address is in quarantine: freed by the program, but
 * claimed. */
bool gs_quarantine_holds(uint64_t addr);

/* Called when memory is needed: frees the quarantined blocks of a device (-1: of all).
 * Returns the bytes. */
size_t gs_quarantine_empty(int device);
/* The bytes of quarantined blocks that would become idle memory when freed. */
size_t gs_quarantine_idle(int device);
/* Called when the context and its heap have ended: frees its quarantined blocks. */
void gs_quarantine_context_ended(const struct gs_context *context);

#endif
