/*
 * quarantine.h - GPUSHIM_CHECK_QUARANTINE: freed blocks that nobody gets for a while.
 *
 * They stay claimed: to the pool in use, to the program freed. So a second free of one is
 * an error and frees nobody else's memory, and a late write meets no new allocation.
 *
 * Lock: all functions may be called from any thread; a mutex inside, never held over a
 * call of the pool.
 */
#ifndef GS_QUARANTINE_H
#define GS_QUARANTINE_H

#include "contexts.h"

/* At start: how much may be held, in bytes; 0: nothing is. `large_alone`: a block of
 * GS_LARGE_BYTES and more is all that its segment has. */
void gs_quarantine_start(uint64_t limit_bytes, bool large_alone);
void gs_quarantine_reset(void); /* in a forked child */

/*
 * Hold a claimed block that may be handed out again, and free what has been held longest
 * and is too much by now. Returns false, and nothing is done, where it is not to be held:
 * the caller frees it.
 */
bool gs_quarantine_put(const struct gs_context *context, struct gs_block *block);

/* Whether the block at that address is held: freed, though claimed. */
bool gs_quarantine_holds(uint64_t addr);

/* Memory is wanted: free all that is held of a device (-1: of all). Returns the bytes. */
size_t gs_quarantine_empty(int device);
/* Bytes of these that would be idle memory then. */
size_t gs_quarantine_idle(int device);
/* The context is gone, its heap dead: free what is held of it. */
void gs_quarantine_context_ended(const struct gs_context *context);

#endif
