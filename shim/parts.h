/*
 * parts.h - how a lower folder of shim/ calls the ones above it.
 *
 * A folder includes and calls only the folders below it (docs/architecture.md). Calls in
 * the other direction go through this file: a lower part reports an event, and the parts
 * above act that have a row for the event in parts.def. Only parts.c knows all parts.
 */
#ifndef GS_PARTS_H
#define GS_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gs_base.h"
#include "shim/cuda/cuda_names.h"

struct gs_context;
struct gs_state;

/* Creates and starts the state of the process, at the first CUDA call. The start lock is
 * held. */
struct gs_state *gs_parts_make_state(void);
/* The options are read, tracker and pools exist. Names: state, options. */
void gs_parts_start(struct gs_state *state);
/* In a forked child, in its only thread: drops all state of the parent's threads. */
void gs_parts_fork_in_child(void);

/* The first thread of the process ends, and others go on. In that thread. */
void gs_parts_first_thread_ends(void);
/* A forked child whose handlers did not run makes its first call. */
void gs_parts_child_found(void);

/* A context was found for the first time; it is current. Names: state, context. */
void gs_parts_context_found(struct gs_state *state, const struct gs_context *context);
/* The context was added to the map. No lock is held. Name: state. */
void gs_parts_context_added(struct gs_state *state);
/* The driver has reported the name of a device. Under gs_contexts.lock. */
void gs_parts_device_named(int ordinal, const char *name, const char *bus,
                           const char *uuid);
/* The memory of a context has ended, as far as it is known by the context's handle. Under
 * gs_contexts.ending. Names: state, handle. */
void gs_parts_context_lost(struct gs_state *state, CUcontext handle);
/* A context's heap has ended. */
void gs_parts_heap_ended(struct gs_context *context);
/* The context was removed from the map. Name of both: context. */
void gs_parts_context_ended(const struct gs_context *context);
/* The context has failed for good. Name: context. */
void gs_parts_context_failed(const struct gs_context *context);

/* The context is idle, or has just been waited for: memory may be returned to the driver
 * without a wait. Names: state, context. */
void gs_parts_maintain(struct gs_state *state, const struct gs_context *context);
/* A request that found no memory. Calls of the driver are repeated by retry.h. */
struct gs_shortage {
    struct gs_state *state;
    const struct gs_context *context; /* of the request; NULL: none */
    int device;                       /* that is full; -1: any */
    size_t bytes;                     /* of the request; SIZE_MAX: not known */
    unsigned asks; /* a bit of enum gs_shortage_kind (backend.h), or GS_SHORTAGE_CALL */
};

/* A call that the driver serves: a bit that enum gs_shortage_kind does not use. */
#define GS_SHORTAGE_CALL 8u

/* Reclaims memory in the order of reclaim.def. Returns whether the request may succeed if
 * it is repeated. No lock is held. */
bool gs_parts_reclaim(const struct gs_shortage *shortage);

/* Freeze: the context may be about to end, and nothing more is recorded in it. Thaw: the
 * context has ended, or lives on. */
void gs_parts_freeze(CUcontext handle);
void gs_parts_thaw(CUcontext handle, bool destroyed);

/* The program has looked up a symbol while a loaded library affects the order of work. */
void gs_parts_looked_up(void);
/* Returns true if an address is in memory of the pools, handed out or not. */
bool gs_parts_pools_have(uint64_t address);
/* The calling thread is about to submit to a place that it has not used before: a
 * stream's handle and the bits of submissions.h. */
void gs_parts_submits_elsewhere(uintptr_t tagged_stream);
/* Memory that may become idle was freed, and no trim thread runs. */
void gs_parts_start_trim_thread(void);
/* A safe point, at the end of a wrapper: no lock is held, the call has done its work, and
 * takes longer than a copy of the statistics. The program's functions may be called.
 * Name: state. */
void gs_parts_safe_point(struct gs_state *state);
/* Atomic: whether a part wants safe points; set for good by the part. */
extern bool gs_safe_points_wanted __attribute__((visibility("hidden")));

static inline void gs_safe_point(struct gs_state *state)
{
    if (GS_UNLIKELY(__atomic_load_n(&gs_safe_points_wanted, __ATOMIC_RELAXED))) {
        gs_parts_safe_point(state);
    }
}
/* A number that identifies the layout of the statistics in a state file. */
uint64_t gs_parts_statistics_form(void);

#endif
