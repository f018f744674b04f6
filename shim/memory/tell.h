/*
 * tell.h - reports the events of a piece of memory to its listeners: parts such as the
 * simulator, the trace, the record and the limits.
 *
 * A wrapper reports each event once. events.def has the listeners of each event, in the
 * order in which they run. Only tell.c includes them all. The names that a row may use
 * are the parameters of the event's function, and those named below.
 *
 * Locks: none is held.
 */
#ifndef GS_TELL_H
#define GS_TELL_H

#include "shim/limits/mem_limits.h"
#include "shim/link/notify.h"
#include "shim/memory/free_phases.h"
#include "shim/record.h"

#define GS_RUN_ROW(listener, when, statement)                                            \
    if (when) {                                                                          \
        statement;                                                                       \
    }

/* ALLOCATED: the program gets memory past the pool. In: key  gs_key of its address or
 * handle. Returns the record's id; 0: not recorded. Further name: id, to be set. */
uint32_t gs_tell_allocated(struct gs_state *state, const struct gs_call *call,
                           uint64_t key, size_t bytes);

/* REFUSED: the program gets `result`. Further names: device, of the memory, and full,
 * true if that device is out of memory. */
void gs_tell_refused(struct gs_state *state, const struct gs_call *call, size_t bytes,
                     CUresult result);

/* FREEING, before the driver's free of memory past the pool, and FREED, with its answer.
 * Further name of FREED: refused, true if nothing was freed. */
void gs_tell_freeing(struct gs_state *state, struct gs_freeing *freeing);
void gs_tell_freed(struct gs_state *state, const struct gs_freeing *freeing,
                   CUresult result);

/* Reports FREEING, evaluates `call`, the driver's free, and reports FREED with its
 * result. */
#define GS_TOLD_FREE(state, freeing, call)                                               \
    ({                                                                                   \
        gs_tell_freeing(state, freeing);                                                 \
        CUresult freed = (call);                                                         \
        gs_tell_freed(state, freeing, freed);                                            \
        freed;                                                                           \
    })

/* BLOCK_ALLOCATED: the program gets a block of the pool, which keeps the record's id. */
static inline void gs_tell_block_allocated(struct gs_state *state,
                                           const struct gs_call *call, uint64_t addr,
                                           size_t bytes, struct gs_block *block)
{
#define GS_BLOCK_ALLOCATED GS_RUN_ROW
#include "shim/memory/events.def"
}

/*
 * BLOCK_FREED: the free of a block of the pool, other than in stream order, has finished
 * its wait, and the block is not reused yet. The simulator may switch to another thread.
 * In:  id   of the block's record; 0: none
 *      how  as in gs_trace_free
 */
static inline void gs_tell_block_freed_by(struct gs_state *state, uint32_t id,
                                          enum gs_api api, uint64_t addr,
                                          enum gs_trace_how how)
{
#define GS_BLOCK_FREED GS_RUN_ROW
#include "shim/memory/events.def"
}

static inline void gs_tell_block_freed(struct gs_state *state,
                                       const struct gs_block *block, enum gs_api api,
                                       uint64_t addr, enum gs_trace_how how)
{
    gs_tell_block_freed_by(state, gs_record_id(state, block), api, addr, how);
}

/* BLOCK_ORDERED: a block of the pool is freed in the order of a stream, and not reused
 * yet. The simulator may switch to another thread. */
void gs_tell_block_ordered(struct gs_state *state, const struct gs_block *block,
                           enum gs_api api, uint64_t addr, CUstream stream,
                           enum gs_trace_order order);

/* Memory of the driver in a pool. */
struct gs_driver_range {
    enum gs_memory_kind kind;
    bool uncharged; /* its charge belongs to something else, as do its pages when it
                     * leaves: the driver frees nothing, and RANGE_GONE does not follow */
    int device;
    const struct gs_context *context; /* it ends with; NULL: outlives all */
    uint64_t addr;
    size_t bytes; /* 0: not known, and not traced */
};

static inline struct gs_driver_range gs_range_in(const struct gs_context *context,
                                                 enum gs_memory_kind kind, uint64_t addr,
                                                 size_t bytes)
{
    return (struct gs_driver_range){.kind = kind,
                                    .device = context->device,
                                    .context = context,
                                    .addr = addr,
                                    .bytes = bytes};
}

/* True once a part above this folder listens to ranges; set for good. Atomic. */
extern bool gs_ranges_watched __attribute__((visibility("hidden")));

static inline bool gs_ranges_heard(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_ranges_watched, __ATOMIC_RELAXED)) ||
           GS_UNLIKELY(gs_limits_charging) || gs_tracing();
}

/* Their slow paths. By value, so that a range that nobody hears of stays in registers. */
void gs_tell_range_of(struct gs_driver_range heard, bool added);
void gs_tell_range_answer(struct gs_driver_range heard, bool freed);

/* RANGE_ADDED, after the driver's answer; RANGE_LEAVING, before the driver's free, and
 * RANGE_GONE, after it. Between the two the thread returns no other range. */
static inline void gs_tell_range_added(const struct gs_driver_range *range)
{
    if (gs_ranges_heard()) {
        gs_tell_range_of(*range, true);
    }
}

static inline void gs_tell_range_leaving(const struct gs_driver_range *range)
{
    if (!range->uncharged) {
        gs_free_begins(GS_LEAVING_TO_GONE, range->addr);
    }
    if (gs_ranges_heard()) {
        gs_tell_range_of(*range, false);
    }
}

static inline void gs_tell_range_gone(const struct gs_driver_range *range, bool freed)
{
    gs_free_ends(GS_LEAVING_TO_GONE, range->addr);
    if (gs_ranges_heard()) {
        gs_tell_range_answer(*range, freed);
    }
}

#endif
