/*
 * round_trips.h - copies to the device that return what a copy to the host has brought.
 *
 * The bytes of a larger copy to the host are summed when it has ended, and again when a
 * copy to the device begins at the same address with the same size: equal sums are the
 * same bytes. Bytes that repeat, as of cleared memory, do not count: the host may have
 * made them. Of an asynchronous copy the sum is known only if its thread waits for the
 * stream before it submits anything but copies: after another wait, as for an event, the
 * program may have changed the bytes.
 *
 * Lock: the table's own, never held across a driver call. All functions may be called
 * from any thread.
 */
#ifndef GS_ROUND_TRIPS_H
#define GS_ROUND_TRIPS_H

#include "gs_base.h"

/* The copies to the host that are remembered, the latest. */
#define GS_ROUND_TRIPS 64u

/* Called at start, if copies are recorded. Without memory there are no round trips. */
void gs_round_trips_start(void);
/* In a forked child. */
void gs_round_trips_reset(void);

/* A copy has brought these bytes to the host. */
void gs_round_trips_came(const void *host, size_t bytes);
/* A copy will have brought them once the calling thread has waited for the stream.
 * stream: gs_submissions_stream_of */
void gs_round_trips_comes(const void *host, size_t bytes, uintptr_t stream);
/* The thread has waited for a stream; 0: for all of a context. */
void gs_round_trips_waited(uintptr_t stream);
/* The thread has submitted something else: forgets its copies that were not waited for.
 */
void gs_round_trips_forget(void);
/* Pinned memory is freed: new memory there has other bytes. */
void gs_round_trips_freed(uint64_t addr, uint64_t bytes);
/* Returns true if these bytes, on their way to the device, came from one, unchanged. */
bool gs_round_trips_return(const void *host, size_t bytes);

#endif
