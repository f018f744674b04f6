/*
 * contexts.h - the contexts of the process, each with its heap.
 *
 * Handles are recycled: an entry ends with its context, and a new context with the same
 * handle gets a new entry. Entries are never freed, so pointers to them stay valid.
 */
#ifndef GS_CONTEXTS_H
#define GS_CONTEXTS_H

#include "gs_locks.h"
#include "pool/pool.h"
#include "shim/link/known_functions.h"
#include "shim/link/real.h"
#include "shim/state/epochs.h"
#include "shim/state/submissions.h"
#include "shim/state/sync_proof.h"

struct gs_state;
struct gs_host_heap;
struct gs_page_store;
struct gs_fill_stream;

/* The number of pinned heaps that a context may have: host_pools.h. */
#define GS_HOST_HEAPS 18

/* The trim thread's record of a context's work. */
struct gs_trim_check {
    uint64_t idle_at;          /* as gs_context.device_idle_at, proven by an event */
    uint64_t event;            /* the event that is polled; 0: none */
    struct gs_snapshot before; /* the snapshot taken before that event, */
    struct gs_sync_proof_before streams; /* with the calls of each stream */
    bool broken;                         /* no event can cover the context's work */
};

struct gs_context {
    CUcontext handle;        /* immutable */
    CUcontext owner;         /* immutable: its memory ends with this context */
    int device;              /* immutable: ordinal */
    bool primary;            /* immutable: the device's primary context */
    unsigned long long id;   /* immutable: the driver's own id of the context, 0: none */
    struct gs_heap *heap;    /* immutable; NULL: not pooled */
    struct gs_epochs epochs; /* locks itself: frees that did not wait */
    size_t events;           /* atomic: blocks that wait for an event of their own */
    struct gs_patience patience; /* limits queries of these events */
    bool ordered;  /* immutable: not a context, but a stream's heap (async_heaps.h) */
    bool unfenced; /* atomic: blocks were freed during a capture, without a fence */
    uint64_t captured_at; /* atomic: calls begun, and one, at the last lazy free during a
                           * capture; 0: none */
    bool warmed;          /* atomic: GPUSHIM_WARMUP has run or is running */
    uint64_t idle_at;     /* atomic: submissions.h; calls known to be complete */
    uint64_t device_idle_at; /* atomic: the same for the device's calls */
    uint64_t complete_at;    /* atomic: calls proven complete by a full wait; 0: never */
    struct gs_sync_proof seen; /* locks itself: proofs by synchronizes of its streams */
    /* Atomic: order/full_wait.c; the event whose wait timed out, and the one that was
     * incomplete when cuMemGetInfo looked; 0: none. */
    uint64_t timed_out, looked_at;
    /* Atomic: when looked_at was recorded, and when one of these events was last seen
     * complete; by gs_now_ns, 0: never. */
    uint64_t looked_at_ns, work_ended_ns;
    struct gs_trim_check trim_check;     /* trim_thread.c: used by that thread alone */
    struct gs_fill_stream *fill_streams; /* atomic: fill_stream.c; only ever grows */
    struct gs_host_heap *host[GS_HOST_HEAPS]; /* atomic: host_pools.h; NULL: none yet */
    struct gs_page_store *pages;              /* atomic: moving_pages.h; NULL: none yet */
    /* Under gs_contexts.lock: the next of all, what points to this entry there, and the
     * next whose handle has the same hash. */
    struct gs_context *next, **link, *same_hash;
};

/* A few pairs of contexts. */
struct gs_context_set {
    struct gs_context_pair {
        CUcontext owner, other;
    } * items;    /* under gs_contexts.lock */
    size_t count; /* atomic, written under gs_contexts.lock */
};

struct gs_contexts {
    struct gs_mutex ending; /* taken before `lock`: no entry is added while one ends */
    struct gs_mutex lock;
    const struct gs_backend *backend; /* these two: immutable */
    const struct gs_event_ops *event_ops;
    /* These under lock. A process has few contexts, seldom thousands. */
    struct gs_context *entries;
    struct gs_context **buckets; /* by the hash of the handle; NULL: none yet */
    unsigned bucket_bits;
    size_t entry_count;
    size_t view_count;     /* entries of views of green contexts */
    struct gs_context *at; /* of gs_context_nth: the entry `at_index`; NULL: none */
    size_t at_index;
    struct gs_context_set views;  /* owner: view of a green context, other: that one */
    struct gs_context_set shared; /* other has access to the memory of owner */
    uint64_t generation;          /* atomic: counts ends of contexts; starts at 1 */
    unsigned entered;             /* atomic, written under lock: entries ever added */
};

/* `backend` serves each context's heap (its `self` is a struct gs_context), `event_ops`
 * its epochs. */
void gs_contexts_init(struct gs_contexts *contexts, const struct gs_backend *backend,
                      const struct gs_event_ops *event_ops);

/* The entry of the calling thread's current context, added to the map if new; NULL if
 * there is no current context, or no memory for the entry. */
const struct gs_context *gs_context_current(struct gs_state *state);

/* Like gs_context_current, but NULL if the context has no entry yet. */
const struct gs_context *gs_context_current_known(struct gs_state *state);

/* The entry of the stream's context, added to the map if new. Returns `current`, the
 * entry of the current context, if the process has no other or the driver cannot report
 * the stream's context. */
const struct gs_context *gs_context_of_stream(struct gs_state *state,
                                              const struct gs_context *current,
                                              CUstream stream);

/* For a view of a green context: the entry of the primary context, added to the map if
 * new. Returns `view` if there is none. */
const struct gs_context *gs_context_of_view(struct gs_state *state,
                                            const struct gs_context *view)
    __attribute__((cold));

/*
 * The context that serves requests for memory made in `context` (NULL: none is current).
 * A green context uses the memory of its device's primary context (Driver API, "Green
 * Contexts"). Any other context serves itself.
 */
static inline const struct gs_context *
gs_context_serving(struct gs_state *state, const struct gs_context *context)
{
    return GS_LIKELY(!context || context->owner == context->handle)
               ? context
               : gs_context_of_view(state, context);
}

/* Returns true if the process has used only one context, as far as is known. */
bool gs_contexts_are_one(const struct gs_state *state);

/* The entry of a handle, or NULL. */
const struct gs_context *gs_context_find(struct gs_state *state, CUcontext handle);
/* The `index`th entry, or NULL: there are no more. */
const struct gs_context *gs_context_nth(struct gs_state *state, size_t index);
/* The entry of a device's primary context, or NULL. */
const struct gs_context *gs_context_primary(struct gs_state *state, int device);
/* The `owner` of a context: its memory ends with this one. */
CUcontext gs_context_owner(struct gs_state *state, CUcontext handle);
/* Returns true if the memory of any known context ends with `owner`. */
bool gs_context_owns(struct gs_state *state, CUcontext owner);

/*
 * Called when the context was destroyed: ends its heap and removes its entry.
 * In:      was     its entry; NULL: it has none
 *          forget  called first, with contexts.ending held: drops the facts that are
 *                  known by the handle alone, since the next context may have the same
 *                  handle. Calls no driver
 * Returns false, with nothing done, if the handle has a different entry by now.
 */
bool gs_context_end(struct gs_state *state, CUcontext handle,
                    const struct gs_context *was,
                    void (*forget)(struct gs_state *, CUcontext));

/* The first returns true if the entry's context still lives, as far as the driver
 * reports; the second, if the handle belongs to a context other than the entry's (NULL:
 * any). Both query the driver. */
bool gs_context_is_alive(const struct gs_context *context);
bool gs_context_is_another(const struct gs_context *was, CUcontext handle);

/* Records that a context stands for a green one (cuCtxFromGreenCtx): it has no heap, and
 * gs_context_serving is the primary context. */
void gs_context_view(struct gs_state *state, CUcontext view, CUgreenCtx green);
/* The view of a green context, or NULL. */
CUcontext gs_context_find_view(struct gs_state *state, CUgreenCtx green);
/* The green context of a view; NULL for any other context. */
CUgreenCtx gs_context_green(struct gs_state *state, CUcontext view);

/* Records that `other` was given access to the memory of `owner` (NULL: of every other
 * context): freed memory of the owner is then held back until both are complete. */
void gs_context_share(struct gs_state *state, CUcontext owner, CUcontext other);

/* Called before and after a call that may end contexts: threads then look up the contexts
 * they have cached again. */
void gs_contexts_changed(struct gs_state *state);

/* The `index`th context with access to the memory of `owner`, or NULL. */
CUcontext gs_context_search_accessor(struct gs_contexts *contexts, CUcontext owner,
                                     size_t index);

static inline CUcontext gs_context_accessor(struct gs_contexts *contexts, CUcontext owner,
                                            size_t index)
{
    bool any = __atomic_load_n(&contexts->shared.count, __ATOMIC_ACQUIRE) > 0;
    return GS_UNLIKELY(any) ? gs_context_search_accessor(contexts, owner, index) : NULL;
}

/* The slow path of gs_context_counts_idle: there are other devices, or contexts with
 * access to each other's memory. */
bool gs_context_counts_idle_among_others(struct gs_contexts *contexts,
                                         const struct gs_context *context)
    __attribute__((cold));

/*
 * Returns true if, by the counts, a free has nothing to wait for: no work was submitted
 * to the device since the context was last found complete, the same holds for each
 * context with access to its memory, and no block waits for a synchronize. For callers
 * that only choose the time of a driver call that waits by itself; a caller that reuses
 * memory because of the answer calls gs_context_is_idle.
 */
static inline bool gs_context_counts_idle(struct gs_contexts *contexts,
                                          const struct gs_context *context)
{
    if (GS_UNLIKELY(gs_submissions_devices_used() != GS_DEVICES_ONE ||
                    __atomic_load_n(&contexts->shared.count, __ATOMIC_ACQUIRE) > 0)) {
        return gs_context_counts_idle_among_others(contexts, context);
    }
    return gs_known_proof_holds() && gs_submissions_idle(&context->idle_at) &&
           GS_LIKELY(!__atomic_load_n(&context->unfenced, __ATOMIC_ACQUIRE));
}

#endif
