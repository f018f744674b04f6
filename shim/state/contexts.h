/*
 * contexts.h - the contexts of the process, each with its heap.
 *
 * Handles are recycled: an entry ends with its context, and a new context of the same
 * handle gets a new entry. Entries are never freed, so pointers to them stay valid.
 */
#ifndef GS_CONTEXTS_H
#define GS_CONTEXTS_H

#include "epochs.h"
#include "gs_free_waits.h"
#include "gs_locks.h"
#include "known.h"
#include "pool.h"
#include "real.h"
#include "streams_seen.h"
#include "submissions.h"

struct gs_state;
struct gs_host_heap;
struct gs_fill_stream;

/* Heaps of pinned memory that a context may have: host_pools.h. */
#define GS_HOST_HEAPS 18

/* What the trim thread knows of a context's work. */
struct gs_trim_look {
    uint64_t last;             /* what had been submitted at its last look */
    uint64_t idle_at;          /* as gs_context.device_idle_at, by a mark seen complete */
    uint64_t mark;             /* 0, or one that is asked after ... */
    struct gs_snapshot before; /* ... and what had been submitted before it */
    bool broken;               /* the context's work cannot be marked any more */
};

struct gs_context {
    CUcontext handle;      /* immutable */
    CUcontext owner;       /* immutable: with which its memory ends: itself, or of a green
                              context's view its device's primary context */
    int device;            /* immutable: ordinal */
    bool primary;          /* immutable: the device's primary context */
    unsigned long long id; /* immutable: the driver's own number of it, 0 if none */
    struct gs_heap *heap;  /* immutable; NULL: not pooled */
    struct gs_epochs epochs;     /* locks itself: frees that waited for nothing */
    size_t events;               /* atomic: blocks that wait for an event of their own */
    struct gs_patience patience; /* of requests that could ask after those */
    bool ordered;  /* immutable: no context, but the heap of a stream (async_heaps.h) */
    bool unfenced; /* atomic: blocks were freed during a capture, without a fence */
    bool warmed;   /* atomic: GPUSHIM_WARMUP was done, or is being done */
    uint64_t idle_at; /* atomic: submissions.h; how many calls are known to be complete */
    uint64_t device_idle_at; /* atomic: the same of its device's calls */
    uint64_t complete_at; /* atomic: what had been submitted when it was seen complete by
                             a wait for the whole context, 0: never */
    struct gs_streams_seen seen; /* locks itself: what its streams' synchronizes prove */
    uint64_t in_vain; /* atomic: order/full_wait.c; a mark that was waited for, 0: none */
    struct gs_trim_look trim_look;            /* trim_thread.c: that thread's alone */
    struct gs_fill_stream *lanes;             /* atomic: fill_stream.c; only ever grows */
    struct gs_host_heap *host[GS_HOST_HEAPS]; /* atomic: host_pools.h; NULL: none yet */
    struct gs_context *next;                  /* under gs_contexts.lock */
};

/* A few pairs of handles. */
struct gs_context_set {
    struct gs_context_pair {
        CUcontext owner, other;
    } * items;    /* under gs_contexts.lock */
    size_t count; /* atomic, written under gs_contexts.lock */
};

struct gs_contexts {
    struct gs_mutex ending; /* taken before `lock`: no entry comes while one ends */
    struct gs_mutex lock;
    const struct gs_backend *backend; /* these two: immutable */
    const struct gs_marker *marker;
    struct gs_context *entries;   /* under lock: a list, for a process has few */
    struct gs_context_set views;  /* owner: the view of a green context, other: itself */
    struct gs_context_set shared; /* other may access the memory of owner */
    uint64_t generation;          /* atomic: counts ends of contexts; starts at 1 */
    unsigned entered; /* atomic, written under lock: entries there ever were */
};

/* `backend` of each context's heap (its `self` is a struct gs_context), and `marker` of
 * its epochs. */
void gs_contexts_init(struct gs_contexts *contexts, const struct gs_backend *backend,
                      const struct gs_marker *marker);

/* The calling thread's current context, entered in the map at first sight; NULL where
 * there is none, or no memory for it. */
const struct gs_context *gs_context_current(struct gs_state *state);

/* As above, but a context that has no entry yet gets none: NULL. */
const struct gs_context *gs_context_current_known(struct gs_state *state);

/* Whether the process has used one context only, as far as was seen. */
bool gs_contexts_are_one(const struct gs_state *state);

/* The entry of a handle, or NULL. */
const struct gs_context *gs_context_find(struct gs_state *state, CUcontext handle);
/* The `index`th entry, or NULL: there are no more. */
const struct gs_context *gs_context_nth(struct gs_state *state, size_t index);
/* The entry of a device's primary context, or NULL. */
const struct gs_context *gs_context_primary(struct gs_state *state, int device);
/* The context with which the memory of this one ends: its `owner`. */
CUcontext gs_context_owner(struct gs_state *state, CUcontext handle);
/* Whether that of any known one ends with `owner`. */
bool gs_context_owns(struct gs_state *state, CUcontext owner);

/*
 * The context was destroyed: its heap ends, its entry goes.
 * In:      was     its entry, or NULL: it has none
 *          forget  is called first, with contexts.ending: for what is known by the handle
 *                  alone, which the next context may have. Calls no driver
 * Returns false, with nothing done, if the handle's entry is another one by now.
 */
bool gs_context_end(struct gs_state *state, CUcontext handle,
                    const struct gs_context *was,
                    void (*forget)(struct gs_state *, CUcontext));

/* Whether the entry's context still lives, where the driver can tell; and whether a
 * context other than its (NULL: any) has the handle. Both ask the driver. */
bool gs_context_is_alive(const struct gs_context *context);
bool gs_context_is_another(const struct gs_context *was, CUcontext handle);

/* A context stands for a green one (cuCtxFromGreenCtx): its memory is not to be pooled.
 */
void gs_context_view(struct gs_state *state, CUcontext view, CUgreenCtx green);
/* That view, or NULL. */
CUcontext gs_context_find_view(struct gs_state *state, CUgreenCtx green);
/* Of a view, its green context; else NULL. */
CUgreenCtx gs_context_green(struct gs_state *state, CUcontext view);

/* `other` was given access to the memory of `owner` (NULL: of every other context): what
 * is freed of that is held back until both are complete. */
void gs_context_share(struct gs_state *state, CUcontext owner, CUcontext other);

/* A call that may end contexts is about to be made, or was: what threads remember of
 * contexts is looked up anew. */
void gs_contexts_changed(struct gs_state *state);

/*
 * Wait as a native free of the context's memory does. From GS_FREE_CONTEXT on the context
 * is known to be idle afterwards.
 * In:   scope    what that waits for
 * Out:  *in_use  work that was not waited for may still use what was freed before the
 *                call. Else all blocks freed before the call are ready
 * Returns the driver's code.
 */
CUresult gs_context_wait(struct gs_state *state, const struct gs_context *context,
                         enum gs_free_scope scope, bool *in_use);

/* The `index`th context that may access the memory of `owner`, or NULL. */
CUcontext gs_context_search_accessor(struct gs_contexts *contexts, CUcontext owner,
                                     size_t index);

static inline CUcontext gs_context_accessor(struct gs_contexts *contexts, CUcontext owner,
                                            size_t index)
{
    bool any = __atomic_load_n(&contexts->shared.count, __ATOMIC_ACQUIRE) > 0;
    return GS_UNLIKELY(any) ? gs_context_search_accessor(contexts, owner, index) : NULL;
}

/* Before a wait for the whole context: the snapshot that a mark of it rests on. */
static inline struct gs_snapshot gs_context_snapshot(const struct gs_context *context,
                                                     unsigned own_calls,
                                                     struct gs_seen_before *before)
{
    return gs_seen_begin(&((struct gs_context *)(uintptr_t)context)->seen, 0, own_calls,
                         before);
}

/* The wait has succeeded: all that was submitted before the snapshot is complete.
 * `before`: what came with the snapshot; NULL: it is another context's. */
void gs_context_mark_idle(const struct gs_context *context,
                          const struct gs_snapshot *snapshot,
                          const struct gs_seen_before *before);

/* A wait of the program's for one stream has succeeded; `snapshot` and `before` are
 * gs_seen_begin's. */
void gs_context_mark_stream(const struct gs_context *context,
                            const struct gs_snapshot *snapshot,
                            const struct gs_seen_before *before);

/* The context has failed: each free asks the driver, until a wait of one succeeds. */
void gs_context_never_idle(const struct gs_context *context);

/* Out of line part of gs_context_counts_idle: there are other devices, or contexts with
 * access to each other's memory. */
bool gs_context_counts_idle_among_others(struct gs_contexts *contexts,
                                         const struct gs_context *context)
    __attribute__((cold));

/*
 * Whether the counts say that such a wait would find nothing: nothing was submitted to
 * the device since the context was last seen complete, the same holds of each context
 * that may access its memory, and no block waits for a synchronize. For a caller that
 * asks when to call the driver, whose free waits by itself; whoever hands memory on
 * because of the answer asks gs_context_is_idle.
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

/* What the counts say, and with GPUSHIM_FREE_SYNC=verify the device as well, which may
 * take a wait (verify.h). `api`: the call that relies on it. */
bool gs_verify_idle(struct gs_contexts *contexts, const struct gs_context *context,
                    enum gs_api api) __attribute__((cold));

/* With GPUSHIM_FREE_SYNC=verify, where pinned or managed memory is handed on because the
 * context has been complete since the point (all_contexts.h): the device is asked, if
 * nothing was submitted since. May it wait? Only a free does: an allocation asks whether
 * a stream has work. */
void gs_verify_complete(struct gs_contexts *contexts, const struct gs_context *context,
                        uint64_t point, bool may_wait) __attribute__((cold));

/* Whether memory of the context may be handed on without a wait, for that call. */
static inline bool gs_context_is_idle_for(struct gs_contexts *contexts,
                                          const struct gs_context *context,
                                          enum gs_api api)
{
    if (gs_known_proof_is_trusted()) {
        return gs_context_counts_idle(contexts, context);
    }
    return gs_known_proof_is_verified() && gs_verify_idle(contexts, context, api);
}

static inline bool gs_context_is_idle(struct gs_contexts *contexts,
                                      const struct gs_context *context)
{
    return gs_context_is_idle_for(contexts, context, GS_API_cuMemFree_v2);
}

/* The same where the process has used one device, no context has access to another's
 * memory, and the proof is not verified; false elsewhere. */
static inline bool gs_context_is_idle_alone(const struct gs_contexts *contexts,
                                            const struct gs_context *context)
{
    return gs_known_proof_is_trusted() && gs_submissions_idle(&context->idle_at) &&
           GS_LIKELY(!__atomic_load_n(&context->unfenced, __ATOMIC_ACQUIRE)) &&
           GS_LIKELY(__atomic_load_n(&contexts->shared.count, __ATOMIC_ACQUIRE) == 0);
}

/* The entry of the context whose work a stream's is, entered at first sight; `current`,
 * the entry of the current one, where there is no other or the driver does not say. */
const struct gs_context *gs_context_of_stream(struct gs_state *state,
                                              const struct gs_context *current,
                                              CUstream stream);

/* Whether blocks were freed without a fence since this was last asked. */
bool gs_context_take_unfenced(const struct gs_context *context);

/* The claimed block is free once the event, recorded for it alone, is done. The block has
 * the fence from now on. */
void gs_context_free_behind(struct gs_block *block, gs_fence event);

/* The backend over the real driver; its `self` is a struct gs_context. */
extern const struct gs_backend gs_context_backend;

#endif
