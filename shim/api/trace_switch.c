/*
 * trace_switch.c - a trace that begins and ends while the program runs.
 *
 * Recording starts first; then what is live is added: what is older than the start as of
 * the first moment, so that it begins before it ends, and the rest at its own time,
 * though most of that has recorded itself: a call that began before the start has not.
 * Left is a free that looked for a recording before the start, and is not over yet when
 * what is live is listed: that allocation stays until its address is another's.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/api/trace_switch.h"

#include "shim/record.h"
#include "shim/report/trace_stacks.h"
#include "shim/settings/log.h"
#include "shim/statefile/state_file.h"
#include "shim/trace/trace.h"
#include "tracker/host_memory.h"

/* Room for segments that are added between counting and copying. */
#define MORE_SEGMENTS 64

/* One moment, after recording has started, by two clocks. */
struct moment {
    uint64_t tracker_ns, trace_ns;
};

/* gs_tracker_visit. In: arg  a moment. */
static void add_allocation(void *arg, const struct gs_allocation *allocation)
{
    const struct moment *start = arg;
    uint64_t since_ns = allocation->time_ns - start->tracker_ns;
    if (!allocation->lost) {
        gs_trace_write_live(allocation, allocation->time_ns < start->tracker_ns
                                            ? 0
                                            : start->trace_ns + since_ns);
    }
}

/* Returns true if the heap is one of the context's. */
static bool has_heap(const struct gs_context *context, const struct gs_heap *heap,
                     bool on_host)
{
    const void *self = gs_heap_self(heap);
    bool found = context->heap == heap;
    for (size_t i = 0; on_host && !found && i < GS_HOST_HEAPS; i++) {
        found = __atomic_load_n(&context->host[i], __ATOMIC_ACQUIRE) == self;
    }
    return found;
}

/* The context of which the heap is; NULL: none, it is a stream's. */
static const struct gs_context *context_of(struct gs_state *state,
                                           const struct gs_heap *heap, bool on_host)
{
    const struct gs_context *context;
    size_t i = 0;
    while ((context = gs_context_nth(state, i++)) != NULL &&
           !has_heap(context, heap, on_host)) {
    }
    return context;
}

static void add_segment(const struct gs_pool_segment *segment,
                        const struct gs_context *context, bool on_host)
{
    enum gs_memory_kind kind = on_host   ? GS_MEMORY_PINNED
                               : context ? GS_MEMORY_DEVICE
                                         : GS_MEMORY_ASYNC;
    gs_trace_write_mapped(kind, segment->addr, segment->bytes,
                          context ? context->handle : NULL, segment->device);
}

/* Returns false if there is no memory for a list of the segments. */
static bool add_segments(struct gs_state *state, struct gs_pool *pool, bool on_host)
{
    size_t room = 0, count = pool ? gs_pool_segments(pool, NULL, 0) : 0;
    struct gs_pool_segment *all = NULL;
    while (count > room) {
        gs_host_unmap(all, room * sizeof(*all));
        room = count + MORE_SEGMENTS;
        all = gs_host_map(room * sizeof(*all));
        if (!all) {
            return false;
        }
        count = gs_pool_segments(pool, all, room);
    }
    const struct gs_context *context = NULL;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || all[i].heap != all[i - 1].heap) {
            context = context_of(state, all[i].heap, on_host);
        }
        add_segment(&all[i], context, on_host);
    }
    gs_host_unmap(all, room * sizeof(*all));
    return true;
}

/* Returns NULL, or why nothing is recorded. */
static const char *start(struct gs_state *state, const char *pattern)
{
    const char *problem = gs_trace_begin(pattern, state->options.trace_limit_bytes,
                                         gs_state_file_pid_start());
    if (problem) {
        return problem;
    }
    gs_record_trace_changed();
    if (state->tracker) {
        struct moment start = {gs_tracker_now(state->tracker), gs_trace_now()};
        gs_tracker_visit(state->tracker, add_allocation, &start);
    }
    if (!add_segments(state, state->pool, false) ||
        !add_segments(state, state->host_pool, true)) {
        gs_trace_end();
        gs_record_trace_changed();
        return gs_status_text(GS_ERR_HOST_NOMEM);
    }
    return NULL;
}

const char *gs_trace_switch(struct gs_state *state, const char *pattern)
{
    const char *problem = pattern[0] ? gs_log_pattern_problem(pattern) : NULL;
    if (problem) {
        return problem;
    }
    if (pattern[0] && gs_trace_records()) {
        return "a trace is being recorded: end it first (GPUSHIM_TRACE_FILE=, "
               "gpushim set PID trace-file=)";
    }
    gs_trace_end(); /* it may have ended by itself */
    gs_record_trace_changed();
    gs_trace_stacks_write();
    return pattern[0] ? start(state, pattern) : NULL;
}
