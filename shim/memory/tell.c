/*
 * tell.c - runs the rows of events.def for each event of a piece of memory.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/memory/tell.h"

#include "shim/checks/redzones.h"
#include "shim/heaps/pressure.h"
#include "shim/heaps/retry.h"
#include "shim/limits/spilled.h"
#include "shim/order/context_errors.h"
#include "shim/report/interim.h"

bool gs_ranges_watched;

#ifndef NDEBUG
__thread struct gs_frees gs_frees;
#endif

/* The driver has allocated this address: the pool's own record of it is stale. */
static void pool_displaced(struct gs_state *state, const struct gs_call *call,
                           uint64_t key)
{
    struct gs_pool *pool = gs_call_is_on_host(call) ? state->host_pool : state->pool;
    if (pool && !gs_key_is_handle(key)) {
        gs_pool_displace(pool, key);
    }
}

/* Whether a success is evidence of free memory on the device. Of other kinds the driver
 * may have had the memory already. */
static bool is_evidence(const struct gs_call *call)
{
    return !gs_call_is_on_host(call) && call->kind != GS_MEMORY_ASYNC &&
           call->kind != GS_MEMORY_MANAGED;
}

/* Whether the limits charge the memory here. */
static bool is_charged(const struct gs_call *call)
{
    return !call->charged && call->device >= 0 &&
           (call->kind == GS_MEMORY_DEVICE || call->kind == GS_MEMORY_ASYNC ||
            call->kind == GS_MEMORY_ARRAY ||
            (call->kind == GS_MEMORY_MANAGED && gs_limits_managed));
}

uint32_t gs_tell_allocated(struct gs_state *state, const struct gs_call *call,
                           uint64_t key, size_t bytes)
{
    uint32_t id;
#define GS_ALLOCATED GS_RUN_ROW
#include "shim/memory/events.def"
    return id;
}

void gs_tell_refused(struct gs_state *state, const struct gs_call *call, size_t bytes,
                     CUresult result)
{
    int device = gs_call_device(call);
    bool full = result == CUDA_ERROR_OUT_OF_MEMORY && !gs_call_is_on_host(call);
#define GS_REFUSED GS_RUN_ROW
#include "shim/memory/events.def"
}

void gs_tell_freeing(struct gs_state *state, struct gs_freeing *freeing)
{
    gs_free_begins(GS_FREEING_TO_FREED, freeing->key);
#define GS_FREEING GS_RUN_ROW
#include "shim/memory/events.def"
}

void gs_tell_freed(struct gs_state *state, const struct gs_freeing *freeing,
                   CUresult result)
{
    bool refused = gs_refused(result) || gs_refused_for_capture(result);
    gs_free_ends(GS_FREEING_TO_FREED, freeing->key);
#define GS_FREED GS_RUN_ROW
#include "shim/memory/events.def"
}

void gs_tell_block_ordered(struct gs_state *state, const struct gs_block *block,
                           enum gs_api api, uint64_t addr, CUstream stream,
                           enum gs_trace_order order)
{
#define GS_BLOCK_ORDERED GS_RUN_ROW
#include "shim/memory/events.def"
}

static void trace_range(bool mapped, const struct gs_driver_range *range)
{
    if (range->bytes) {
        gs_trace_write_range(mapped, range->kind, range->addr, range->bytes,
                             range->context ? range->context->handle : NULL,
                             range->device);
    }
}

static bool is_charged_range(const struct gs_driver_range *range)
{
    return range->kind != GS_MEMORY_PINNED && !range->uncharged;
}

void gs_tell_range_of(struct gs_driver_range heard, bool added)
{
    const struct gs_driver_range *range = &heard;
    if (added) {
#define GS_RANGE_ADDED GS_RUN_ROW
#include "shim/memory/events.def"
    } else {
#define GS_RANGE_LEAVING GS_RUN_ROW
#include "shim/memory/events.def"
    }
}

void gs_tell_range_answer(struct gs_driver_range heard, bool freed)
{
    const struct gs_driver_range *range = &heard;
#define GS_RANGE_GONE GS_RUN_ROW
#include "shim/memory/events.def"
}
