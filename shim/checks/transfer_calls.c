/*
 * transfer_calls.c - what a copy between host and device did that costs time.
 *
 * Owns:  the table, and each thread's last copy.   Lock: the table locks itself.
 * Source: CUDA Driver API, API synchronization behavior
 */
#include "shim/checks/transfer_calls.h"

#include <string.h>

#include "gs_clock.h"
#include "shim/checks/round_trips.h"
#include "shim/host/host_pools.h"
#include "shim/order/captures.h"
#include "shim/record.h"
#include "shim/state/state.h"
#include "shim/trace/trace.h"
#include "tracker/transfers.h"

static struct gs_transfers *table; /* atomic */

/* The thread's last recorded copy. The thread's count of submitting calls, this copy
 * included, shows whether it has submitted anything since. */
static _Thread_local struct last_copy {
    uint64_t calls;   /* after it; 0: there was none */
    uintptr_t stream; /* gs_submissions_stream_of */
    uint32_t site; /* of an asynchronous copy in a row, until it is waited for; else 0 */
    bool small, to_host;
} last __attribute__((tls_model("initial-exec")));

void gs_transfer_start(const struct gs_state *state)
{
    bool wanted = state->options.check_transfers && state->tracker;
    struct gs_transfers *made = wanted ? gs_transfers_create() : NULL;
    if (made) {
        gs_trace_stay_on(); /* synchronizes are reported (entry_sync.c) */
        gs_round_trips_start();
        gs_record_watch_pinned(gs_round_trips_freed);
        gs_submissions_watch(); /* kernels are read (pinned_calls.h) */
    }
    __atomic_store_n(&table, made, __ATOMIC_RELEASE);
}

void gs_transfer_reset(void)
{
    __atomic_store_n(&table, NULL, __ATOMIC_RELAXED);
    gs_round_trips_reset();
    last = (struct last_copy){0};
}

struct gs_transfers *gs_transfer_table(void)
{
    return __atomic_load_n(&table, __ATOMIC_ACQUIRE);
}

/* ---- before the copy --------------------------------------------------------------- */

static bool is_asynchronous(const struct gs_copy_call *call)
{
    return strstr(call->function, "Async") != NULL;
}

/* Returns true if the device is known to be idle, so that the time of a synchronous copy
 * is the copy's alone. A call may return before the data have arrived, but not later. */
static bool finds_idle(void)
{
    struct gs_state *state = gs_enter();
    bool idle = false;
    if (state) {
        const struct gs_context *context = gs_context_current_known(state);
        idle = context && gs_context_counts_idle(&state->contexts, context);
        gs_leave();
    }
    return idle;
}

void gs_transfer_begin(struct gs_copy_call *call, struct gs_copy_end dst,
                       struct gs_copy_end src, uint64_t bytes)
{
    if (gs_captures_active() || (dst.side == src.side && dst.side != GS_SIDE_UNKNOWN)) {
        return;
    }
    call->dst = dst;
    call->src = src;
    call->bytes = bytes;
    call->began_ns = 0;
    if (bytes >= GS_TRANSFER_TIMED_BYTES && !is_asynchronous(call) && finds_idle()) {
        call->began_ns = gs_now_ns();
    }
}

/* ---- the memory at its ends -------------------------------------------------------- */

enum memory {
    MEMORY_OTHER, /* managed, or not known */
    MEMORY_DEVICE,
    MEMORY_HOST, /* not known to be pageable */
    MEMORY_PAGEABLE
};

static enum memory memory_at(const struct gs_state *state, uint64_t addr)
{
    CUmemorytype type = 0;
    unsigned managed = 0;
    if (state->pool && gs_pool_owns(state->pool, addr)) {
        return MEMORY_DEVICE;
    }
    if (gs_host_owns(state, addr)) {
        return MEMORY_HOST;
    }
    const struct gs_real *real = gs_real();
    CUresult result =
        real->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr);
    if (result == CUDA_ERROR_INVALID_VALUE) {
        return MEMORY_PAGEABLE;
    }
    if (result != CUDA_SUCCESS ||
        real->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, addr) !=
            CUDA_SUCCESS ||
        managed) {
        return MEMORY_OTHER;
    }
    return type == CU_MEMORYTYPE_HOST ? MEMORY_HOST : MEMORY_DEVICE;
}

/* The driver is queried only where the answer counts. */
static enum memory memory_of(const struct gs_state *state, const struct gs_copy_end *end,
                             uint64_t bytes)
{
    switch (end->side) {
    case GS_SIDE_DEVICE:
        return MEMORY_DEVICE;
    case GS_SIDE_HOST:
        return bytes > GS_TRANSFER_SMALL_BYTES &&
                       memory_at(state, end->addr) == MEMORY_PAGEABLE
                   ? MEMORY_PAGEABLE
                   : MEMORY_HOST;
    default:
        return memory_at(state, end->addr);
    }
}

/* Returns true if the device reads pageable memory itself, so that pinned memory may be
 * no faster. */
static bool reads_pageable(struct gs_state *state)
{
    static const CUdevice_attribute kinds[] = {
        CU_DEVICE_ATTRIBUTE_INTEGRATED,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES};
    const struct gs_context *context = gs_context_current_known(state);
    int reads = 0;
    for (size_t i = 0; context && !reads && i < GS_ARRAY_LEN(kinds); i++) {
        (void)gs_real()->cuDeviceGetAttribute(&reads, kinds[i], context->device);
    }
    return reads != 0;
}

/* ---- after the copy ---------------------------------------------------------------- */

/* The submitting calls that the thread has begun. */
static uint64_t calls_begun(void)
{
    const struct gs_submissions *own = gs_thread.submissions;
    uint64_t sum = 0;
    for (unsigned i = 0; own && i < GS_COUNTS; i++) {
        sum += own->counts[i].begun;
    }
    return sum;
}

/* Returns true for rows with gaps between them. */
static bool is_box(const struct gs_copy_call *call)
{
    return strstr(call->function, "2D") || strstr(call->function, "3D");
}

/* Records a copy to the host, or returns true if one to the device returns what had come
 * from there. */
static bool is_return(const struct gs_copy_call *call, uintptr_t tagged_stream,
                      bool to_host)
{
    const void *host =
        (const void *)(uintptr_t)(to_host ? call->dst.addr : call->src.addr);
    if (call->bytes <= GS_TRANSFER_SMALL_BYTES || is_box(call)) {
        return false;
    }
    if (!to_host) {
        return gs_round_trips_return(host, call->bytes);
    }
    if (is_asynchronous(call)) {
        gs_round_trips_comes(host, call->bytes, gs_submissions_stream_of(tagged_stream));
    } else {
        gs_round_trips_came(host, call->bytes);
    }
    return false;
}

/* The host's end does not count if it is pageable. The rows of a box begin anywhere. */
static bool is_unaligned(const struct gs_copy_call *call, bool to_host, enum memory host)
{
    uint64_t device = to_host ? call->src.addr : call->dst.addr;
    uint64_t other = to_host ? call->dst.addr : call->src.addr;
    return !is_box(call) &&
           (device | (host == MEMORY_PAGEABLE ? 0 : other)) % GS_TRANSFER_ALIGNMENT != 0;
}

/* Adds the copy between the device and `host`. */
static void add(struct gs_state *state, const struct gs_copy_call *call,
                uintptr_t tagged_stream, bool to_host, enum memory host, uint64_t took_ns)
{
    const uint64_t calls = calls_begun();
    const bool follows = last.calls != 0 && last.calls + 1 == calls;
    const bool small = call->bytes <= GS_TRANSFER_SMALL_BYTES;
    if (!follows) {
        gs_round_trips_forget();
    }
    const struct gs_transfer copy = {
        .call = call->function,
        .stack = state->stacks ? gs_stacks_capture(state->stacks) : 0,
        .to_host = to_host,
        .asynchronous = is_asynchronous(call),
        .pageable = host == MEMORY_PAGEABLE && !small && !reads_pageable(state),
        .in_a_row = follows && last.small == small && last.to_host == to_host,
        .unaligned = is_unaligned(call, to_host, host),
        .returns = is_return(call, tagged_stream, to_host),
        .bytes = call->bytes,
        .took_ns = took_ns};
    uint32_t site = gs_transfers_add(gs_transfer_table(), &copy);
    last = (struct last_copy){.calls = calls,
                              .stream = gs_submissions_stream_of(tagged_stream),
                              .site = copy.in_a_row && is_asynchronous(call) ? site : 0,
                              .small = small,
                              .to_host = to_host};
}

void gs_transfer_record(const struct gs_copy_call *call, uintptr_t tagged_stream)
{
    uint64_t took_ns = call->began_ns ? gs_now_ns() - call->began_ns : 0;
    struct gs_state *state = gs_enter();
    if (!state) {
        return;
    }
    if (gs_transfer_table() && gs_tracker_records(state->tracker) &&
        !gs_captures_active()) {
        enum memory dst = memory_of(state, &call->dst, call->bytes);
        enum memory src = memory_of(state, &call->src, call->bytes);
        if (src == MEMORY_DEVICE && dst >= MEMORY_HOST) {
            add(state, call, tagged_stream, true, dst, took_ns);
        } else if (dst == MEMORY_DEVICE && src >= MEMORY_HOST) {
            add(state, call, tagged_stream, false, src, took_ns);
        }
    }
    gs_leave();
}

void gs_transfer_waited(uintptr_t stream)
{
    const bool follows = last.calls == calls_begun();
    if (follows && last.calls != 0) {
        gs_round_trips_waited(stream);
    }
    if (follows && last.site != 0 && (stream == 0 || stream == last.stream)) {
        gs_transfers_add_wait(gs_transfer_table(), last.site);
        last.site = 0;
    }
}
