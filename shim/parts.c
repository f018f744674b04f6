/*
 * parts.c - runs the rows of parts.def for each event, and those of reclaim.def when
 * memory is short.
 * Owns:  nothing.   Lock: none of its own; parts.h documents the locks held.
 */
#include "shim/parts.h"

#include "pool/backend.h"
#include "shim/api/api.h"
#include "shim/api/torch_end.h"
#include "shim/async/async_heaps.h"
#include "shim/async/async_policy.h"
#include "shim/checks/args.h"
#include "shim/checks/deferred.h"
#include "shim/checks/driver_bounds.h"
#include "shim/checks/quarantine.h"
#include "shim/checks/redzones.h"
#include "shim/checks/transfer_calls.h"
#include "shim/control/control.h"
#include "shim/heaps/ipc_mode.h"
#include "shim/heaps/moving_pages.h"
#include "shim/heaps/pressure.h"
#include "shim/heaps/releasable.h"
#include "shim/heaps/retry.h"
#include "shim/heaps/spill.h"
#include "shim/heaps/warmup.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"
#include "shim/ipc/ipc_imports.h"
#include "shim/life/fork.h"
#include "shim/life/start.h"
#include "shim/life/trim_thread.h"
#include "shim/lifetimes/graph_memory.h"
#include "shim/lifetimes/memory_pools.h"
#include "shim/lifetimes/physical.h"
#include "shim/limits/mem_limits.h"
#include "shim/limits/spilled.h"
#include "shim/link/caller_runtime.h"
#include "shim/link/recent_lookups.h"
#include "shim/order/other_threads.h"
#include "shim/order/capture_check.h"
#include "shim/order/capture_gate.h"
#include "shim/order/captures.h"
#include "shim/order/context_errors.h"
#include "shim/order/context_events.h"
#include "shim/order/fences.h"
#include "shim/order/free_lazy.h"
#include "shim/order/free_wait.h"
#include "shim/order/full_wait.h"
#include "shim/order/own_handles.h"
#include "shim/order/single_order.h"
#include "shim/order/streams.h"
#include "shim/order/verify.h"
#include "shim/pooled_memory.h"
#include "shim/record.h"
#include "shim/report/interim.h"
#include "shim/report/intervals.h"
#include "shim/report/leak_rules.h"
#include "shim/report/nvml.h"
#include "shim/report/outputs.h"
#include "shim/report/refusals.h"
#include "shim/report/report_settings.h"
#include "shim/report/statistics.h"
#include "shim/settings/own_thread.h"
#include "shim/state/all_contexts.h"
#include "shim/state/cuda_start.h"
#include "shim/state/trim_hold.h"
#include "shim/statefile/state_file.h"
#include "shim/trace/trace.h"

bool gs_safe_points_wanted;

struct gs_state *gs_parts_make_state(void)
{
    return gs_start();
}

/* Each function below runs the rows of parts.def for its event. */

void gs_parts_start(struct gs_state *state)
{
    const struct gs_options *options = &state->options;
#define GS_AT_START(statement) statement;
#include "shim/parts.def"
}

void gs_parts_fork_in_child(void)
{
    __atomic_store_n(&gs_safe_points_wanted, false, __ATOMIC_RELAXED);
#define GS_IN_CHILD(statement) statement;
#include "shim/parts.def"
}

void gs_parts_context_found(struct gs_state *state, const struct gs_context *context)
{
#define GS_CONTEXT_FOUND(statement) statement;
#include "shim/parts.def"
}

void gs_parts_context_added(struct gs_state *state)
{
#define GS_CONTEXT_ADDED(statement) statement;
#include "shim/parts.def"
}

void gs_parts_context_lost(struct gs_state *state, CUcontext handle)
{
#define GS_CONTEXT_LOST(statement) statement;
#include "shim/parts.def"
}

void gs_parts_heap_ended(struct gs_context *context)
{
#define GS_HEAP_ENDED(statement) statement;
#include "shim/parts.def"
}

void gs_parts_context_ended(const struct gs_context *context)
{
#define GS_CONTEXT_ENDED(statement) statement;
#include "shim/parts.def"
}

void gs_parts_context_failed(const struct gs_context *context)
{
#define GS_CONTEXT_FAILED(statement) statement;
#include "shim/parts.def"
}

void gs_parts_maintain(struct gs_state *state, const struct gs_context *context)
{
#define GS_MAINTAIN(statement) statement;
#include "shim/parts.def"
}

void gs_parts_safe_point(struct gs_state *state)
{
#define GS_SAFE_POINT(statement) statement;
#include "shim/parts.def"
}

bool gs_parts_reclaim(const struct gs_shortage *shortage)
{
    enum {
        CALL = GS_SHORTAGE_CALL,
        SEGMENT = GS_SHORTAGE_SEGMENT,
        LIMIT = GS_SHORTAGE_LIMIT
    };
    enum { ALL = GS_SHORTAGE_ALL };
    enum { NEVER, DURING };
    if (gs_retry_is_in_vain(shortage)) {
        return false;
    }
#define GS_RECLAIM(name, asked, captures, progress)                                      \
    if (((asked)&shortage->asks) && ((captures) == DURING || !gs_captures_active()) &&   \
        (progress)) {                                                                    \
        return true;                                                                     \
    }
#include "shim/reclaim.def"
    return false;
}

/* ---- events of one part --------------------------------------------------------- */

void gs_parts_first_thread_ends(void)
{
    gs_control_first_thread_ends();
}

void gs_parts_child_found(void)
{
    gs_fork_reset();
}

void gs_parts_device_named(int ordinal, const char *name, const char *bus,
                           const char *uuid)
{
    gs_state_file_device(ordinal, name, bus, uuid);
}

void gs_parts_freeze(CUcontext handle)
{
    gs_async_heaps_freeze(handle);
}

void gs_parts_thaw(CUcontext handle, bool destroyed)
{
    gs_async_heaps_thaw(handle, destroyed);
}

void gs_parts_looked_up(void)
{
    gs_single_order_look_up();
}

bool gs_parts_pools_have(uint64_t address)
{
    struct gs_state *state = gs_state_peek();
    struct gs_extent extent;
    return state && gs_pooled_extent(state, address, &extent) != GS_ERR_NOT_OURS;
}

void gs_parts_submits_elsewhere(uintptr_t tagged_stream)
{
    gs_single_order_submits(tagged_stream);
    gs_streams_submits(tagged_stream);
}

void gs_parts_start_trim_thread(void)
{
    gs_trim_thread_start();
}

uint64_t gs_parts_statistics_form(void)
{
    return gs_statistics_form();
}
