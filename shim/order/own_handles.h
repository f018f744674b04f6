/*
 * own_handles.h - events and streams of the library's own, kept apart from the program's.
 *
 * The driver gives a new object the handle of a destroyed one. So a handle that the
 * program has destroyed, and uses again, may by then name an object of the library's
 * own; natively the driver refuses it.
 *
 * Events: a table. Every function that takes an event looks it up first, and refuses with
 * CUDA_ERROR_INVALID_HANDLE. While the library has no event, this is one comparison.
 *
 * Streams: the library takes no stream whose handle the program had before, so that a
 * stale handle never names one. Kernel launches compare nothing.
 *
 * Lock: mutexes inside, never held across a driver call.
 */
#ifndef GS_OWN_HANDLES_H
#define GS_OWN_HANDLES_H

#include "shim/link/real.h"

/* An event of the library's own: from its creation until the driver may give the handle
 * to another event, which is before its destruction and before its context ends. Both are
 * idempotent. */
void gs_own_event_add(CUevent event);
void gs_own_event_remove(CUevent event);

/* Called with an event that the driver has created for the program: an own event of this
 * handle has ended unnoticed, with its context. */
static inline void gs_own_event_displace(CUevent event)
{
    gs_own_event_remove(event);
}

#define GS_OWN_FILTER_BITS 10

/* Atomic: the own events by a hash of the handle. */
extern unsigned gs_own_filter[1 << GS_OWN_FILTER_BITS]
    __attribute__((visibility("hidden")));

static inline unsigned gs_own_event_slot(CUevent event)
{
    return (unsigned)(((uint64_t)(uintptr_t)event * 0x9e3779b97f4a7c15ull) >>
                      (64 - GS_OWN_FILTER_BITS));
}

/* The slow path of the next function. */
bool gs_own_event_find(CUevent event);

/* Returns true if the handle names an event of the library's own. */
static inline bool gs_own_event(CUevent event)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_own_filter[gs_own_event_slot(event)],
                                       __ATOMIC_RELAXED) != 0) &&
           gs_own_event_find(event);
}

/*
 * Refuses a call of the program with an event of the library's own, and reports the
 * error.
 * In:      call  the driver's name of the function
 * Returns: CUDA_ERROR_INVALID_HANDLE; CUDA_SUCCESS if the event is another
 */
CUresult gs_own_event_refuse(CUevent event, const char *call);

/*
 * Creates a stream of the library's own in the current context, with a handle that the
 * program never had.
 * Returns the driver's code.
 */
CUresult gs_own_stream_create(CUstream *out, unsigned flags);

/* A stream of the program has ended: the handle may be stale from now on. */
void gs_own_stream_stale(CUstream stream);

/* In a forked child: drops everything. */
void gs_own_handles_reset(void);

#endif
