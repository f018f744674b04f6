/*
 * record.h - reports allocations and frees of the wrappers to the tracker.
 *
 * Order: end a record before the real free, record after a real allocation. In the
 * opposite order another thread could get the address in between, and its record would
 * be removed instead.
 */
#ifndef GS_RECORD_H
#define GS_RECORD_H

#include "shim/state/state.h"
#include "shim/trace/trace.h"

/* An allocation, as its wrapper describes it: gs_call_in, then what differs. */
struct gs_call {
    const struct gs_context *context; /* of the call; NULL: none */
    CUcontext owner;                  /* the memory ends with it; NULL: outlives all */
    CUstream stream;                  /* NULL for calls without one */
    int device;                       /* of the memory; -1: not known, or the host */
    enum gs_memory_kind kind;
    enum gs_api api; /* the driver call; replaced by a runtime call in progress */
    bool per_thread; /* stream NULL is the per-thread default stream */
    bool charged;    /* the limits have its charge already (mem_limits.h) */
    bool handed_out; /* the driver gave it to the library, for the simulator */
    bool by_id;      /* the caller keeps the record's id, and ends the record by it */
};

/* Memory that is on the device of the context, and ends with it. */
static inline struct gs_call gs_call_in(const struct gs_context *context,
                                        enum gs_memory_kind kind, enum gs_api api)
{
    return (struct gs_call){.context = context,
                            .owner = context ? context->owner : NULL,
                            .device = context ? context->device : -1,
                            .kind = kind,
                            .api = api};
}

/* The device of the memory in records; 0 if it has none. */
static inline int gs_call_device(const struct gs_call *call)
{
    return call->device < 0 ? 0 : call->device;
}

/* Host memory: a full GPU does not explain a failed allocation. */
static inline bool gs_call_is_on_host(const struct gs_call *call)
{
    return call->kind == GS_MEMORY_PINNED || call->kind == GS_MEMORY_REGISTERED ||
           call->kind == GS_MEMORY_PHYSICAL_HOST;
}

/* True if allocations and frees need more than a record with a stack: a trace, sums,
 * sampling, or scopes. Changes with gs_record_trace_changed alone. Atomic. */
extern bool gs_record_detailed __attribute__((visibility("hidden")));

/* Called at the end of start: reads the options. `tallied`: the outputs need sums of all
 * allocations. */
void gs_record_configure(const struct gs_options *options, bool tallied);
/* In a forked child. */
void gs_record_reset(void);
/* The lifetimes by call site; NULL: they are not recorded (GPUSHIM_CHECK=churn). */
struct gs_churn *gs_record_churn(void);
/* At start, with GPUSHIM_CHECK=transfers: pinned memory that is freed is reported to this
 * function, which takes its address and size in bytes. */
typedef void (*gs_record_freed)(uint64_t addr, uint64_t bytes);
void gs_record_watch_pinned(gs_record_freed freed);
/* The uses of pinned memory; NULL: they are not recorded (GPUSHIM_CHECK=transfers). */
struct gs_pinned_uses *gs_record_pinned(void);
/* Called when a trace has begun or ended while the program runs. */
void gs_record_trace_changed(void);
/* Called when the thread has begun a scope: counts it. */
void gs_record_scope_begun(void);
/* The stack of a part that an allocator above hands out, or where only those of some
 * allocations are recorded, what stands for its scope; 0: none. */
uint32_t gs_record_part_stack(struct gs_state *state);
/* The options for recorded stacks; logs a setting that is not possible. */
struct gs_sampling gs_record_sampling(const struct gs_options *options);
/* Called when one of these options has changed; one change at a time. */
void gs_record_sampling_changed(struct gs_state *state);

static inline bool gs_record_is_detailed(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_record_detailed, __ATOMIC_RELAXED));
}

/* A row of events.def. Returns the record's id; 0: not recorded. */
uint32_t gs_record_alloc(struct gs_state *state, const struct gs_call *call, uint64_t key,
                         size_t bytes, struct gs_block *block);
/* Likewise: the driver has refused the allocation. There is a tracker. */
void gs_record_refused(struct gs_state *state, const struct gs_call *call);
/* The record of an allocation, with a stack, for a caller that records it later. */
struct gs_allocation gs_record_describe(struct gs_state *state,
                                        const struct gs_call *call, uint64_t key,
                                        size_t bytes);

/* gs_enter, but NULL if there is no tracker: for calls that are only recorded. */
static inline struct gs_state *gs_enter_tracking(void)
{
    struct gs_state *state = gs_enter();
    if (state && !state->tracker) {
        gs_leave();
        return NULL;
    }
    return state;
}

/* Returns true if the driver's answer means that there is no such allocation. */
bool gs_record_unknown(CUresult result);

/* Returns true if pooled allocations are recorded at all. */
static inline bool gs_recording(const struct gs_state *state)
{
    return state->tracker || gs_tracing();
}
/* Logs once that there was no memory for a record. */
void gs_record_missed(void) __attribute__((cold, noinline));
/* The call as the program made it: the runtime call in progress, if any. */
static inline uint16_t gs_record_api(enum gs_api api)
{
    return gs_thread.api != GS_API_UNKNOWN ? gs_thread.api : (uint16_t)api;
}

/* The slow paths of gs_record_block, which sets the tag, and gs_record_ends. */
void gs_record_detailed_block(struct gs_state *state, const struct gs_call *call,
                              uint64_t addr, size_t bytes, struct gs_block *block);
void gs_record_detailed_end(struct gs_state *state, uint32_t id, enum gs_api api,
                            uint64_t addr, enum gs_trace_how how);

/* `scoped`: it may be in a scope, and the stack is one of gs_tracker_scope_stack. */
static inline uint32_t gs_record_add_block(struct gs_state *state,
                                           const struct gs_call *call, uint64_t addr,
                                           size_t bytes, uint32_t stack, bool scoped)
{
    struct gs_tracked_who who = {.thread = gs_thread_id(), .stack = stack};
    struct gs_tracked_how how = {.device = (int16_t)call->device,
                                 .api = gs_record_api(call->api),
                                 .kind = call->kind};
    uint64_t owner = (uint64_t)(uintptr_t)call->owner;
    uint32_t tag =
        scoped ? gs_tracker_add_scoped_block(state->tracker, addr, bytes, owner, who, how)
               : gs_tracker_add_block(state->tracker, addr, bytes, owner, who, how);
    if (GS_UNLIKELY(tag == 0)) {
        gs_record_missed();
    }
    return tag;
}

/* The hot path of gs_record_alloc: a block, an allocation without a stream, and
 * gs_recording. Out: *tag  for the block: gs_block_set_tag */
static inline void gs_record_block(struct gs_state *state,
                                   const struct gs_context *context,
                                   enum gs_memory_kind kind, enum gs_api api,
                                   uint64_t addr, size_t bytes, struct gs_block *block,
                                   uint32_t *tag)
{
    if (!context) {
        __builtin_unreachable(); /* a block has a context */
    }
    /* Two of them, so that the second stays in registers. */
    if (gs_record_is_detailed()) {
        const struct gs_call call = gs_call_in(context, kind, api);
        gs_record_detailed_block(state, &call, addr, bytes, block);
    } else {
        const struct gs_call call = gs_call_in(context, kind, api);
        *tag = gs_record_add_block(state, &call, addr, bytes,
                                   state->stacks ? gs_stacks_capture(state->stacks) : 0,
                                   false);
    }
}

/*
 * Ends the record with this id (0: none), before its memory is freed other than in stream
 * order; and traces the free. `how`: as in gs_trace_free, which ignores address 0.
 */
static inline void gs_record_ends(struct gs_state *state, uint32_t id, enum gs_api api,
                                  uint64_t addr, enum gs_trace_how how)
{
    if (gs_record_is_detailed()) {
        gs_record_detailed_end(state, id, api, addr, how);
    } else if (state->tracker && id != 0) {
        gs_tracker_remove_block(state->tracker, id, gs_thread_id(), gs_record_api(api));
    }
}

/* The id of the record of a block of the pool. */
static inline uint32_t gs_record_id(const struct gs_state *state,
                                    const struct gs_block *block)
{
    return state->tracker ? gs_block_tag(block) : 0;
}

/* The free of an allocation whose record is found by its key. */
struct gs_freeing {
    uint64_t key;
    enum gs_api api;
    enum gs_trace_how how; /* GS_TRACE_HOW_NONE: such memory is not traced */
    CUstream stream;
    enum gs_trace_order order;
    bool handed_out;          /* as in struct gs_call */
    struct gs_allocation was; /* out: the record; addr 0: there was none */
};

/* Rows of events.def: writes the free that is about to be made to the trace file, to the
 * log and to the lifetimes; removes the record; puts it back after a free that was
 * refused, and reports an error of the program if there is no such allocation. */
void gs_record_trace_free(struct gs_state *state, const struct gs_freeing *freeing)
    __attribute__((cold, noinline));
void gs_record_remove(struct gs_state *state, struct gs_freeing *freeing);
void gs_record_free_refused(struct gs_state *state, const struct gs_freeing *freeing,
                            CUresult result);
/* Puts a removed record back; addr 0: none. */
void gs_record_restore(struct gs_state *state, const struct gs_allocation *was);

/* The freeing thread and call, for the tracker's history; with a stack if the caller
 * requests one, or gs_tracker_free_now takes one. */
static inline struct gs_free_site gs_record_site(struct gs_state *state, enum gs_api api,
                                                 bool with_stack)
{
    struct gs_free_site site = {.thread = gs_thread_id(), .api = gs_record_api(api)};
    if (!with_stack) {
        gs_tracker_free_now(state->tracker, &site);
    } else if (state->stacks) {
        site.stack = gs_stacks_capture(state->stacks);
    }
    return site;
}

/* The slow path of gs_refused. */
bool gs_error_refuses(CUresult error);

/* Returns true if the driver's answer to a free means that nothing was freed, so that the
 * caller may try again (CUDA driver API, error codes of each call). */
static inline bool gs_refused(CUresult result)
{
    return GS_UNLIKELY(result != CUDA_SUCCESS) && gs_error_refuses(result);
}

/* Returns true if the call was refused because a stream captures. */
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
