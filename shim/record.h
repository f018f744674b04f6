/*
 * record.h - between the wrappers and the tracker: who allocates, from where.
 *
 * Unrecord before a real free, record after a real allocation: the other way round
 * another thread could be given the address in between, and its record would be taken
 * instead.
 */
#ifndef GS_RECORD_H
#define GS_RECORD_H

#include "state.h"
#include "trace.h"

/* What an allocating wrapper knows. */
struct gs_call {
    const struct gs_context *context; /* may be NULL */
    CUstream stream;                  /* NULL for calls without one */
    bool per_thread;                  /* stream NULL is the thread's own */
    enum gs_memory_kind kind;
    enum gs_api api; /* the driver call; a runtime call in progress takes its place */
    bool charged;    /* known by its address to the limits already (mem_limits.h) */
};

/* Whether something else is to be done with an allocation or a free than to record it
 * with its stack: it is traced, or tallied, or may be left out, or its free has a stack.
 * Set by start-up; then it stays. Atomic. */
extern bool gs_record_watched __attribute__((visibility("hidden")));

/* Start-up is through: what the options want. `tallied`: and what the outputs want, sums
 * of all that is allocated. */
void gs_record_watch(const struct gs_options *options, bool tallied);
/* Of the options, which stacks are recorded; says what in them cannot be. */
struct gs_sampling gs_record_sampling(const struct gs_options *options);

static inline bool gs_watched(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_record_watched, __ATOMIC_RELAXED));
}

/* An allocation was made; `block` is the pool's, or NULL for memory of the driver's own.
 */
void gs_record_alloc(struct gs_state *state, const struct gs_call *request, uint64_t addr,
                     size_t bytes, struct gs_block *block);

/*
 * What is told beside the pool's memory and the driver's own: physical memory, arrays,
 * registered host memory, memory of others. It is not traced (docs/traces.md).
 */
struct gs_note {
    enum gs_memory_kind kind;
    enum gs_api api;
    int device;
    CUcontext context; /* with which it ends; NULL: it outlives all */
    uint64_t key;      /* gs_key of its address or handle */
    uint64_t bytes;
};

/* As gs_enter, where there is a tracker: nothing is told without one. */
static inline struct gs_state *gs_enter_tracking(void)
{
    struct gs_state *state = gs_enter();
    if (state && !state->tracker) {
        gs_leave();
        return NULL;
    }
    return state;
}

/* It was made. Returns the record's id where it is `indexed`, to be given up by
 * gs_record_note_ended, else 0: by gs_record_note_leaves. 0 also where none was made. */
uint32_t gs_record_noted(struct gs_state *state, const struct gs_note *note,
                         bool indexed);
/* The driver refused to make it. */
void gs_record_note_refused(struct gs_state *state, const struct gs_note *note,
                            CUresult result);
/* What has that record is gone; 0: none. */
void gs_record_note_ended(struct gs_state *state, uint32_t record, enum gs_api api);
/* What has that key is about to be given up, and what the driver answered: as
 * gs_record_undone and gs_record_free_result. */
void gs_record_note_leaves(struct gs_state *state, uint64_t key, enum gs_api api,
                           struct gs_allocation *was);
void gs_record_note_left(struct gs_state *state, uint64_t key, enum gs_api api,
                         const struct gs_allocation *was, CUresult result);
/* Whether such an answer says that there is no such thing. */
bool gs_record_unknown(CUresult result);

/* Whether an allocation that the pool served leaves any trace. */
static inline bool gs_recording(const struct gs_state *state)
{
    return state->tracker || gs_tracing();
}
/* The stack of an allocation of so many bytes, or what stands in its place. */
uint32_t gs_record_stack(struct gs_state *state, enum gs_memory_kind kind,
                         uint64_t bytes);
/* The driver has given the program `bytes` of the device past the pool: where a request
 * of no more was refused before, that refusal is over. */
static inline void gs_record_served(struct gs_state *state, int device, size_t bytes)
{
    if (state->pool) {
        gs_pool_served(state->pool, device, bytes);
    }
}
/* There was no memory for a record: said once. */
void gs_record_missed(void) __attribute__((cold, noinline));
/* The driver refused one of so many bytes, with that code. */
void gs_record_refused(struct gs_state *state, const struct gs_call *request,
                       size_t bytes, CUresult result);

/* The call as the program made it: the runtime's, if one is in progress. */
static inline uint16_t gs_record_api(enum gs_api api)
{
    return gs_thread.api != GS_API_UNKNOWN ? gs_thread.api : (uint16_t)api;
}

/* Either of the two below, where somebody watches. The tag that the block is to have; and
 * what one had that is freed. `how`: as gs_trace_free has it, which address 0 leaves out.
 */
uint32_t gs_record_watched_block(struct gs_state *state, const struct gs_call *request,
                                 uint64_t addr, size_t bytes, struct gs_block *block);
void gs_record_watched_end(struct gs_state *state, uint32_t id, enum gs_api api,
                           uint64_t addr, enum gs_trace_how how);

/* A block of the pool is about to be freed, in no stream's order. */
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

/* As gs_record_alloc, with a tracker, for a block and an allocation without a stream.
 * Returns the tag that the block is to have: gs_block_set_tag. */
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
 * Memory of the driver's own is about to be freed.
 * Out: *was  what was recorded, addr 0 if nothing
 */
void gs_record_undone(struct gs_state *state, uint64_t addr, enum gs_api api,
                      struct gs_allocation *was);
/* The driver has answered that free: an allocation it would not free goes back, a pointer
 * it did not know is an error of the program's. */
void gs_record_free_result(struct gs_state *state, uint64_t addr, enum gs_api api,
                           const struct gs_allocation *was, CUresult result);

/* As gs_refused, of an error. */
bool gs_error_refuses(CUresult error);

/* Whether the driver's answer to a free says that nothing was freed: the caller may try
 * again (CUDA driver API, error codes of each call). */
static inline bool gs_refused(CUresult result)
{
    return GS_UNLIKELY(result != CUDA_SUCCESS) && gs_error_refuses(result);
}

/* Whether it was refused because a stream captures. */
static inline bool gs_refused_for_capture(CUresult result)
{
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/* A free of something that is no live allocation. */
void gs_record_bad_free(struct gs_state *state, uint64_t addr, enum gs_api api);

/* A free relied on the context being idle, and it was not; as
 * gs_tracker_error_not_idle. */
void gs_record_not_idle(struct gs_state *state, const struct gs_context *context,
                        CUstream stream, uint64_t waited_ns, enum gs_api api);

/* A context's memory is gone. */
void gs_record_context_lost(struct gs_state *state, CUcontext handle);

#endif
