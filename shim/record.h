/*
 * record.h - reports allocations and frees of the wrappers to the tracker.
 *
 * Order: unrecord before a real free, record after a real allocation. In the opposite
 * order another thread could get the address in between, and its record would be removed
 * instead.
 */
#ifndef GS_RECORD_H
#define GS_RECORD_H

#include "state.h"
#include "trace.h"

/* The facts that an allocating wrapper knows. */
struct gs_call {
    const struct gs_context *context; /* may be NULL */
    CUstream stream;                  /* NULL for calls without one */
    bool per_thread;                  /* stream NULL is the per-thread default stream */
    enum gs_memory_kind kind;
    enum gs_api api; /* the driver call; replaced by a runtime call in progress */
    bool charged;    /* the limits have its charge already (mem_limits.h) */
};

/* Whether allocations and frees need more than a record with a stack: a trace, sums,
 * sampling, or stacks of frees. Set at start, then constant. Atomic. */
extern bool gs_record_watched __attribute__((visibility("hidden")));

/* Called at the end of start: reads the options. `tallied`: the outputs need sums of all
 * allocations. */
void gs_record_watch(const struct gs_options *options, bool tallied);
/* The options for recorded stacks; logs a setting that is not possible. */
struct gs_sampling gs_record_sampling(const struct gs_options *options);

static inline bool gs_watched(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_record_watched, __ATOMIC_RELAXED));
}

/* Records an allocation; `block` is the pool's, or NULL for the driver's own memory. */
void gs_record_alloc(struct gs_state *state, const struct gs_call *request, uint64_t addr,
                     size_t bytes, struct gs_block *block);

/*
 * A record other than pooled memory and the driver's allocations: physical memory,
 * arrays, registered host memory, imported memory. Such records are not traced
 * (docs/traces.md).
 */
struct gs_note {
    enum gs_memory_kind kind;
    enum gs_api api;
    int device;
    CUcontext context; /* it ends with this context; NULL: it outlives all */
    uint64_t key;      /* gs_key of its address or handle */
    uint64_t bytes;
};

/* gs_enter, but NULL if there is no tracker: such records need one. */
static inline struct gs_state *gs_enter_tracking(void)
{
    struct gs_state *state = gs_enter();
    if (state && !state->tracker) {
        gs_leave();
        return NULL;
    }
    return state;
}

/* Records an allocation. Returns the record's id for gs_record_note_ended if `indexed`;
 * else 0, for gs_record_note_leaves. Also 0 if nothing was recorded. */
uint32_t gs_record_noted(struct gs_state *state, const struct gs_note *note,
                         bool indexed);
/* Records that the driver refused the allocation. */
void gs_record_note_refused(struct gs_state *state, const struct gs_note *note,
                            CUresult result);
/* Removes the record with this id; 0: none. */
void gs_record_note_ended(struct gs_state *state, uint32_t record, enum gs_api api);
/* Called before the allocation with this key is released, and with the driver's answer:
 * like gs_record_undone and gs_record_free_result. */
void gs_record_note_leaves(struct gs_state *state, uint64_t key, enum gs_api api,
                           struct gs_allocation *was);
void gs_record_note_left(struct gs_state *state, uint64_t key, enum gs_api api,
                         const struct gs_allocation *was, CUresult result);
/* Whether the driver's answer means that there is no such allocation. */
bool gs_record_unknown(CUresult result);

/* Whether pooled allocations are recorded at all. */
static inline bool gs_recording(const struct gs_state *state)
{
    return state->tracker || gs_tracing();
}
/* The stack of an allocation of `bytes`, or its substitute. */
uint32_t gs_record_stack(struct gs_state *state, enum gs_memory_kind kind,
                         uint64_t bytes);
/* The driver has served `bytes` of the device past the pool: an earlier refusal of a
 * request up to this size is over. */
static inline void gs_record_served(struct gs_state *state, int device, size_t bytes)
{
    if (state->pool) {
        gs_pool_served(state->pool, device, bytes);
    }
}
/* Logs once that there was no memory for a record. */
void gs_record_missed(void) __attribute__((cold, noinline));
/* Records that the driver refused `bytes`, with its code. */
void gs_record_refused(struct gs_state *state, const struct gs_call *request,
                       size_t bytes, CUresult result);

/* The call as the program made it: the runtime call in progress, if any. */
static inline uint16_t gs_record_api(enum gs_api api)
{
    return gs_thread.api != GS_API_UNKNOWN ? gs_thread.api : (uint16_t)api;
}

/* The slow paths of the two functions below. The first returns the tag for the block; the
 * second takes the tag of a freed block. `how`: as in gs_trace_free, which ignores
 * address 0. */
uint32_t gs_record_watched_block(struct gs_state *state, const struct gs_call *request,
                                 uint64_t addr, size_t bytes, struct gs_block *block);
void gs_record_watched_end(struct gs_state *state, uint32_t id, enum gs_api api,
                           uint64_t addr, enum gs_trace_how how);

/* Called before a block of the pool is freed, other than in stream order. */
static inline void gs_record_block_ends(struct gs_state *state, struct gs_block *block,
                                        enum gs_api api, uint64_t addr,
                                        enum gs_trace_how how)
{
    if (gs_watched()) {
        gs_record_watched_end(state, gs_block_tag(block), api, addr, how);
        return;
    }
    uint32_t id = state->tracker ? gs_block_tag(block) : 0;
    if (id != 0) {
        gs_tracker_remove_block(state->tracker, id, gs_thread_id(), gs_record_api(api));
    }
}

/* Like gs_record_alloc, with a tracker, for a block and an allocation without a stream.
 * Returns the tag for the block: gs_block_set_tag. */
static inline uint32_t gs_record_block_alloc(struct gs_state *state,
                                             const struct gs_context *context,
                                             enum gs_memory_kind kind, enum gs_api api,
                                             uint64_t addr, size_t bytes)
{
    struct gs_tracked_who who = {.thread = gs_thread_id(),
                                 .stack = state->stacks ? gs_stacks_capture(state->stacks)
                                                        : 0};
    struct gs_tracked_how how = {
        .device = (int16_t)context->device, .api = gs_record_api(api), .kind = kind};
    uint32_t tag = gs_tracker_add_block(state->tracker, addr, bytes,
                                        (uint64_t)(uintptr_t)context->handle, who, how);
    if (GS_UNLIKELY(tag == 0)) {
        gs_record_missed();
    }
    return tag;
}

/*
 * Called before the driver's own memory is freed: removes its record.
 * Out: *was  the record, addr 0 if none
 */
void gs_record_undone(struct gs_state *state, uint64_t addr, enum gs_api api,
                      struct gs_allocation *was);
/* Called with the driver's answer to that free: restores the record of an allocation that
 * was not freed, and reports an error of the program for an unknown pointer. */
void gs_record_free_result(struct gs_state *state, uint64_t addr, enum gs_api api,
                           const struct gs_allocation *was, CUresult result);

/* The slow path of gs_refused. */
bool gs_error_refuses(CUresult error);

/* Whether the driver's answer to a free means that nothing was freed, so that the caller
 * may try again (CUDA driver API, error codes of each call). */
static inline bool gs_refused(CUresult result)
{
    return GS_UNLIKELY(result != CUDA_SUCCESS) && gs_error_refuses(result);
}

/* Whether the call was refused because a stream captures. */
static inline bool gs_refused_for_capture(CUresult result)
{
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/* Reports a free of an address that is not a live allocation. */
void gs_record_bad_free(struct gs_state *state, uint64_t addr, enum gs_api api);

/* Reports a free that relied on an idle context which was not idle; see
 * gs_tracker_error_not_idle. */
void gs_record_not_idle(struct gs_state *state, const struct gs_context *context,
                        CUstream stream, uint64_t waited_ns, enum gs_api api);

/* Called when the memory of a context has ended. */
void gs_record_context_lost(struct gs_state *state, CUcontext handle);

#endif
