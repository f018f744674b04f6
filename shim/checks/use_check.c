/*
 * use_check.c - decides whether a use of memory is wrong, and how.
 *
 * Only uses that cannot be right are reported. Memory is looked up in this order:
 *
 *   the pools      an address in a segment belongs to a live block, or has no owner
 *   managed ranges likewise
 *   the last byte  of a use that begins in nobody's memory, in front of an allocation
 *   records        an allocation of the driver that begins at the address, or at the
 *                  start that the driver reports for the allocation around it
 *   the history    memory that was freed before, that the driver does not know, and that
 *                  the processor cannot read
 *
 * All other memory is unknown and its use is right. A block freed in stream order becomes
 * free when the device reaches the free, and the arguments of a call do not show when:
 * its use counts as wrong once the pool has found the free complete.
 *
 * Owns: nothing.   Lock: none; the driver is called without any. Design:
 * docs/checks-args.md
 */
#include "shim/checks/use_check.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pool/pages.h"
#include "shim/async/async_heaps.h"
#include "shim/checks/driver_bounds.h"
#include "shim/checks/quarantine.h"
#include "shim/heaps/releasable.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"
#include "shim/order/captures.h"
#include "shim/pooled_memory.h"
#include "shim/record.h"

/* ---- reporting -------------------------------------------------------------------- */

static struct gs_bad_use bad_use(const struct gs_use *use, enum gs_error_kind kind)
{
    return (struct gs_bad_use){.kind = kind,
                               .addr = use->span.addr,
                               .bytes = use->span.bytes,
                               .writes = use->writes,
                               .call = use->call};
}

static void report_bad_use(struct gs_state *state, struct gs_bad_use *bad)
{
    if (!state->tracker) {
        return;
    }
    bad->thread = gs_thread_id();
    bad->device = gs_thread.context ? gs_thread.context->device : 0;
    if (state->stacks) {
        bad->stack = gs_stacks_capture(state->stacks);
    }
    gs_tracker_error_use(state->tracker, bad);
}

static void report_extent(struct gs_state *state, const struct gs_use *use,
                          enum gs_error_kind kind, const struct gs_span *extent)
{
    struct gs_bad_use bad = bad_use(use, kind);
    bad.extent_addr = extent->addr;
    bad.extent_bytes = extent->bytes;
    report_bad_use(state, &bad);
}

static void report_former(struct gs_state *state, const struct gs_use *use,
                          const struct gs_former *former)
{
    struct gs_bad_use bad = bad_use(use, GS_ERROR_USE_AFTER_FREE);
    bad.former = *former;
    report_bad_use(state, &bad);
}

/* ---- queries of the driver and the system --------------------------------------- */

enum answer { ANSWER_KNOWN, ANSWER_UNKNOWN, ANSWER_NONE };

/* Queries the driver for the allocation around an address. */
static enum answer query_driver(uint64_t addr, struct gs_span *out)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    if (gs_captures_active()) {
        return ANSWER_NONE;
    }
    CUresult result = gs_real()->cuMemGetAddressRange_v2(&base, &bytes, addr);
    if (result == CUDA_SUCCESS) {
        *out = (struct gs_span){base, bytes};
        return ANSWER_KNOWN;
    }
    return result == CUDA_ERROR_NOT_FOUND || result == CUDA_ERROR_INVALID_VALUE
               ? ANSWER_UNKNOWN
               : ANSWER_NONE;
}

/* Returns true if the processor cannot read the address: then it is not host memory. */
static bool is_unreadable(uint64_t addr)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)addr, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0 && errno == EFAULT;
}

/* Returns true if the call frees in stream order. */
static bool frees_in_order(uint16_t api)
{
    return api < GS_API_COUNT && strstr(gs_api_name(api), "FreeAsync");
}

/* ---- the pools ------------------------------------------------------------------ */

/* Returns true if the driver still has the pool's segment there. A context may have ended
 * without a notice, and its addresses may have a new owner. */
static bool driver_has_segment(const struct gs_use *use, const struct gs_range *range)
{
    struct gs_span span;
    enum answer answer = query_driver(use->span.addr, &span);
    return gs_captures_active() ||
           (answer == ANSWER_KNOWN && span.addr == range->segment_addr);
}

/* The live block of the same segment in which the use ends. */
static bool reaches_block(struct gs_pool *pool, const struct gs_use *use,
                          const struct gs_range *from, struct gs_span *out)
{
    uint64_t last = use->span.addr + use->span.bytes - 1;
    struct gs_range range;
    if (gs_pool_find(pool, last, &range) != GS_OK || !range.live ||
        range.segment_addr != from->segment_addr || range.block_addr <= use->span.addr) {
        return false;
    }
    *out = (struct gs_span){range.block_addr, range.requested_bytes};
    return true;
}

/* Finds the freed allocation there, if its use is certainly wrong. */
static bool find_former(struct gs_state *state, const struct gs_use *use,
                        const struct gs_range *range, struct gs_former *out)
{
    if (!state->tracker ||
        gs_tracker_former(state->tracker, use->span.addr, out) != GS_OK ||
        out->allocation.kind == GS_MEMORY_GRAPH) {
        return false;
    }
    return !range->pending ||
           (out->allocation.addr == range->block_addr && !frees_in_order(out->site.api));
}

/* Checks a use that is in a segment, but in no live block. Returns true if it is
 * certainly wrong: no driver accepts memory without an owner. */
static bool check_freed(struct gs_state *state, struct gs_pool *pool,
                        const struct gs_use *use, const struct gs_range *range)
{
    struct gs_former former;
    struct gs_span next;
    bool found = find_former(state, use, range, &former);
    if (!found && range->pending) {
        return false;
    }
    bool within =
        found && gs_span_fit(&use->span, &(struct gs_span){former.allocation.addr,
                                                           former.allocation.bytes}) ==
                     GS_SPAN_INSIDE;
    if (!within && reaches_block(pool, use, range, &next)) {
        report_extent(state, use, GS_ERROR_UNDERRUN, &next);
    } else if (found) {
        report_former(state, use, &former);
    } else {
        struct gs_bad_use bad = bad_use(use, GS_ERROR_STRAY_USE);
        report_bad_use(state, &bad);
    }
    return true;
}

/* Returns true if the driver refuses a use that begins in the live allocation, and leaves
 * it. Pinned memory ends with a page of the system's. */
static bool is_refused(const struct gs_use *use, const struct gs_span *extent, bool host)
{
    uint64_t unit = 1;
    switch (gs_driver_bounds()) {
    case GS_BOUNDS_BYTES:
        break;
    case GS_BOUNDS_BLOCKS:
        unit = host ? (uint64_t)getpagesize() : GS_BLOCK_BYTES;
        break;
    default:
        unit = host ? (uint64_t)getpagesize() : GS_LARGE_BYTES;
        break;
    }
    const struct gs_span whole = {extent->addr, gs_round_up(extent->bytes, unit)};
    return gs_span_fit(&use->span, &whole) != GS_SPAN_INSIDE;
}

/* The stream's heap of the block; NULL: the block is a context's. */
static struct gs_async_heap *ordered_heap(const struct gs_state *state,
                                          const struct gs_pool *pool,
                                          const struct gs_range *range)
{
    return pool == state->pool ? gs_async_of(gs_heap_self(range->heap)) : NULL;
}

/* gs_pool_find, after the pool has asked which of the freed blocks that wait for work
 * have none left, if the address is in one. */
static bool find_range(struct gs_pool *pool, uint64_t addr, struct gs_range *range)
{
    if (gs_pool_find(pool, addr, range) != GS_OK) {
        return false;
    }
    return !range->pending || gs_heap_collect_ready(range->heap) == 0 ||
           gs_pool_find(pool, addr, range) == GS_OK;
}

/*
 * Checks a use in memory of a pool.
 * Out: *refused  the driver would refuse the use
 * Returns whether the pool has the address.
 */
static bool check_pooled(struct gs_state *state, struct gs_pool *pool,
                         const struct gs_use *use, bool *refused)
{
    struct gs_range range;
    if (!pool || !gs_pool_owns(pool, use->span.addr) ||
        !find_range(pool, use->span.addr, &range)) {
        return false;
    }
    struct gs_span block = {range.block_addr, range.requested_bytes};
    if (GS_LIKELY(range.live) &&
        GS_LIKELY(gs_span_fit(&use->span, &block) == GS_SPAN_INSIDE)) {
        return true;
    }
    /* After the error of a context the driver may still have what a free of the program
     * has named: that free has reported the error. */
    if (range.poisoned) {
        return true;
    }
    if (range.claimed && pool == state->pool && gs_releasable_lacks(range.block_addr)) {
        struct gs_bad_use bad = bad_use(use, GS_ERROR_RELEASED_USE);
        report_bad_use(state, &bad);
        *refused = true;
        return true;
    }
    /* A claimed block is being freed by another thread, or is freed and held back; only a
     * quarantined one is certainly freed. */
    if (range.claimed && !gs_quarantine_holds(range.block_addr)) {
        return true;
    }
    if (pool == state->pool && !range.paged && !driver_has_segment(use, &range)) {
        return true;
    }
    struct gs_async_heap *ordered = ordered_heap(state, pool, &range);
    if (range.live) {
        report_extent(state, use, GS_ERROR_OVERRUN, &block);
        *refused = is_refused(use, &block, pool != state->pool);
    } else if (!ordered || gs_async_is_idle(ordered)) {
        *refused = check_freed(state, pool, use, &range);
    }
    return true;
}

/* ---- managed memory ------------------------------------------------------------- */

/* Checks a use of managed memory, as check_pooled does. The driver compares a use that
 * leaves a live range itself, unless its range is larger than the request. */
static bool check_managed(struct gs_state *state, const struct gs_use *use, bool *refused)
{
    struct gs_extent extent;
    struct gs_former former;
    enum gs_status status = gs_managed_extent(use->span.addr, &extent);
    if (status == GS_OK) {
        struct gs_span span = {extent.base, extent.bytes};
        if (gs_span_fit(&use->span, &span) == GS_SPAN_LEAVES) {
            report_extent(state, use, GS_ERROR_OVERRUN, &span);
            *refused = is_refused(use, &span, true);
        }
        return true;
    }
    if (status != GS_ERR_NOT_FOUND) {
        return false;
    }
    if (state->tracker &&
        gs_tracker_former(state->tracker, use->span.addr, &former) == GS_OK &&
        former.allocation.kind == GS_MEMORY_MANAGED && !frees_in_order(former.site.api) &&
        !gs_tracker_holds(state->tracker, use->span.addr)) {
        report_former(state, use, &former);
        *refused = true;
    }
    return true;
}

/* ---- the driver's own ----------------------------------------------------------- */

/* Returns true if the record covers all memory that the program may use there. Registered
 * memory is a part of the program's own memory, imported memory a part of another
 * process's, and a mapping a part of the memory that it maps. */
static bool is_bounded(const struct gs_allocation *allocation)
{
    return allocation->kind == GS_MEMORY_DEVICE || allocation->kind == GS_MEMORY_ASYNC ||
           allocation->kind == GS_MEMORY_GRAPH || allocation->kind == GS_MEMORY_MANAGED ||
           allocation->kind == GS_MEMORY_PINNED;
}

/* Pinned memory of a page and more extends to whole pages. */
static struct gs_span extent_of(const struct gs_allocation *allocation)
{
    const uint64_t page = (uint64_t)getpagesize();
    struct gs_span extent = {allocation->addr, allocation->bytes};
    if (allocation->kind == GS_MEMORY_PINNED && extent.bytes >= page) {
        extent.bytes = gs_round_up(extent.bytes, page);
    }
    return extent;
}

/* `known`: the driver's allocation there; NULL: not queried. */
static void check_recorded(struct gs_state *state, const struct gs_use *use,
                           const struct gs_allocation *allocation,
                           const struct gs_span *known)
{
    struct gs_span extent = extent_of(allocation);
    bool stale = known && known->addr == extent.addr && known->bytes < allocation->bytes;
    if (is_bounded(allocation) && !stale &&
        gs_span_fit(&use->span, &extent) == GS_SPAN_LEAVES) {
        report_extent(state, use, GS_ERROR_OVERRUN, &extent);
    }
}

/* Checks a use at whose address no known allocation begins. */
static void check_around(struct gs_state *state, const struct gs_use *use)
{
    struct gs_allocation allocation;
    struct gs_former former;
    struct gs_span known;
    enum answer answer = query_driver(use->span.addr, &known);
    if (answer == ANSWER_KNOWN) {
        if (gs_tracker_look_up(state->tracker, known.addr, &allocation) == GS_OK) {
            check_recorded(state, use, &allocation, &known);
        }
        return;
    }
    if (answer == ANSWER_UNKNOWN && is_unreadable(use->span.addr) &&
        gs_tracker_former(state->tracker, use->span.addr, &former) == GS_OK &&
        (former.allocation.kind == GS_MEMORY_DEVICE ||
         former.allocation.kind == GS_MEMORY_MANAGED) &&
        (former.lost || !frees_in_order(former.site.api)) &&
        !gs_tracker_holds(state->tracker, use->span.addr)) {
        report_former(state, use, &former);
    }
}

/* Checks memory that the driver serves, or that nobody knows. */
static void check_unpooled(struct gs_state *state, const struct gs_use *use)
{
    struct gs_allocation allocation;
    struct gs_span known;
    if (gs_tracker_look_up(state->tracker, use->span.addr, &allocation) != GS_OK) {
        if (!use->host) {
            check_around(state, use);
        }
    } else if (use->span.bytes > allocation.bytes) {
        bool asked = query_driver(use->span.addr, &known) == ANSWER_KNOWN;
        check_recorded(state, use, &allocation, asked ? &known : NULL);
    }
}

/* ---- memory in front of an allocation ---------------------------------------------- */

/* The allocation in which a use ends. */
struct end {
    struct gs_span extent;
    bool host; /* the processor reaches it: what is in front may be the program's own */
};

static bool ends_in_pool(struct gs_pool *pool, uint64_t last, struct end *out)
{
    struct gs_range range;
    if (!pool || !gs_pool_owns(pool, last) || gs_pool_find(pool, last, &range) != GS_OK ||
        !range.live) {
        return false;
    }
    out->extent = (struct gs_span){range.block_addr, range.requested_bytes};
    return true;
}

static bool ends_in_managed(uint64_t last, struct end *out)
{
    struct gs_extent extent;
    if (gs_managed_extent(last, &extent) != GS_OK) {
        return false;
    }
    *out = (struct end){{extent.base, extent.bytes}, true};
    return true;
}

static bool ends_in_record(struct gs_state *state, uint64_t last, struct end *out)
{
    struct gs_allocation allocation;
    struct gs_span known;
    if (!state->tracker || query_driver(last, &known) != ANSWER_KNOWN ||
        gs_tracker_look_up(state->tracker, known.addr, &allocation) != GS_OK ||
        !is_bounded(&allocation)) {
        return false;
    }
    *out = (struct end){extent_of(&allocation), allocation.kind == GS_MEMORY_PINNED ||
                                                    allocation.kind == GS_MEMORY_MANAGED};
    return true;
}

/* Returns true if the use is in two pages of the pool's map, as one in front of a segment
 * is. */
static bool crosses_pages(const struct gs_use *use)
{
    uint64_t last = use->span.addr + use->span.bytes - 1;
    return (use->span.addr ^ last) >> GS_PAGE_SHIFT != 0;
}

static bool find_end(struct gs_state *state, const struct gs_use *use, bool all,
                     struct end *out)
{
    uint64_t last = use->span.addr + use->span.bytes - 1;
    bool crosses = crosses_pages(use);
    *out = (struct end){.host = false};
    if (crosses && ends_in_pool(state->pool, last, out)) {
        return true;
    }
    out->host = true;
    return (crosses && ends_in_pool(state->host_pool, last, out)) ||
           ends_in_managed(last, out) || (all && ends_in_record(state, last, out));
}

/* Checks a use whose first byte no allocation has, by the last one: no driver accepts a
 * range that begins elsewhere. Returns true if it is wrong. */
static bool check_in_front(struct gs_state *state, const struct gs_use *use, bool all)
{
    struct gs_span known;
    struct end end;
    if (!find_end(state, use, all, &end) || end.extent.addr <= use->span.addr ||
        query_driver(use->span.addr, &known) != ANSWER_UNKNOWN ||
        (end.host && !is_unreadable(use->span.addr))) {
        return false;
    }
    report_extent(state, use, GS_ERROR_UNDERRUN, &end.extent);
    return true;
}

bool gs_check_use(struct gs_state *state, const struct gs_use *use, bool all)
{
    bool refused = false;
    if (use->span.bytes == 0 || use->span.addr == 0 ||
        use->span.addr + use->span.bytes < use->span.addr ||
        check_pooled(state, state->pool, use, &refused) ||
        check_pooled(state, state->host_pool, use, &refused) ||
        check_managed(state, use, &refused)) {
        return refused;
    }
    if (!use->host && check_in_front(state, use, all)) {
        return false; /* the driver refuses it */
    }
    if (all && state->tracker) {
        check_unpooled(state, use);
    }
    return false;
}
