/*
 * redzones.c - patterns after live blocks and in freed ones: written, checked, reported.
 *
 * A thread that checks memory it does not own reports damage only if the zone is still
 * the same afterwards: a zone leaves the map before its memory may change legally.
 *
 * Owns:  the map.   Lock: its mutex.
 */
#include "shim/checks/redzones.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_locks.h"
#include "shim/checks/deferred.h"
#include "shim/checks/fill_stream.h"
#include "shim/checks/quarantine.h"
#include "shim/checks/redzone_map.h"
#include "shim/link/known_functions.h"
#include "shim/memory/tell.h"
#include "shim/settings/log.h"

#define BYTE_ZONE   0xfa
#define BYTE_FREED  0xfd
#define BYTE_POISON 0xff
/* The time limit of a check of all zones of a context, or of the process. */
#define SWEEP_NS 5000000000ull
/* The shortest interval between two such checks for uses of a primary context that is
 * still in use. */
#define PAUSE_NS 1000000000ull
/* The number of errors that a report lists. */
#define ERRORS_NAMED 32u

bool gs_redzones_on;

static struct {
    struct gs_mutex lock;
    struct gs_redzone_map map; /* under lock */
    uint64_t serials;          /* under lock */
    size_t behind;             /* immutable after start */
    enum gs_check_fill fill;   /* likewise */
    bool swept;                /* atomic: at_exit has run */
    bool handler_set;          /* atomic: the handler of exit is registered */
    uint64_t counted_for_exec; /* atomic: counted for an exec, which may fail */
    /* Atomic: time of the device's last check for a released use, or 0. */
    uint64_t used_less_ns[GS_MAX_DEVICES];
} zones = {.lock = GS_MUTEX(GS_RANK_REDZONES)};

/* ---- start ----------------------------------------------------------------------- */

static bool any_check_on(const struct gs_options *options)
{
    return options->check_redzone_bytes > 0 || options->check_quarantine_bytes > 0 ||
           options->check_fill != GS_CHECK_FILL_OFF;
}

void gs_redzones_adjust(struct gs_options *options)
{
    if (!options->enable || !any_check_on(options)) {
        return;
    }
    if (!options->pool || !options->track) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_CHECK: redzone, fill and quarantine need the pool and the "
                    "tracker: with %s=off they are off, too",
                    options->pool ? "GPUSHIM_TRACK" : "GPUSHIM_POOL");
        options->check_redzone_bytes = options->check_quarantine_bytes = 0;
        options->check_fill = GS_CHECK_FILL_OFF;
        return;
    }
    if (options->free_sync == GS_FREE_SYNC_VERIFY) {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_FREE_SYNC=verify: with redzone, fill or "
                                 "quarantine of GPUSHIM_CHECK, each "
                                 "free waits, so there is nothing to verify");
    }
    if (options->free_sync == GS_FREE_SYNC_LAZY) {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_FREE_SYNC=lazy: with redzone, fill or "
                                 "quarantine of GPUSHIM_CHECK, frees "
                                 "wait as they do natively");
    }
    /* Each free waits, as the driver's own does, before the memory is checked. No block
     * is held back where it would be reused without a check. */
    options->free_sync = GS_FREE_SYNC_WAIT;
    options->pool_vmm = GS_VMM_OFF; /* red zones belong to segments */
    strcpy(options->pool_cache, "0");
}

void gs_redzones_start(const struct gs_options *options)
{
    zones.behind = options->check_redzone_bytes;
    zones.fill = (enum gs_check_fill)options->check_fill;
    gs_quarantine_start(options->check_quarantine_bytes,
                        options->pool_carve != GS_CARVE_MODE_ON);
    gs_redzones_on = any_check_on(options);
    if (gs_redzones_on) {
        __atomic_store_n(&gs_alloc_detours, true, __ATOMIC_RELAXED);
        __atomic_store_n(&gs_ranges_watched, true, __ATOMIC_RELAXED);
    }
}

void gs_redzones_reset(void)
{
    gs_mutex_init(&zones.lock, GS_RANK_REDZONES);
    zones.map = (struct gs_redzone_map){0};
    gs_redzones_on = zones.swept = false;
    zones.counted_for_exec = 0;
}

/* ---- the map --------------------------------------------------------------------- */

static void add_zone(struct gs_redzone *zone)
{
    gs_mutex_lock(&zones.lock);
    zone->serial = ++zones.serials;
    gs_redzone_map_put(&zones.map, zone);
    gs_mutex_unlock(&zones.lock);
}

static struct gs_redzone *cut_zones(uint64_t begin, uint64_t end)
{
    gs_mutex_lock(&zones.lock);
    struct gs_redzone *list = gs_redzone_map_cut(&zones.map, begin, end);
    gs_mutex_unlock(&zones.lock);
    return list;
}

/* Copies the first zone at or after `addr` that belongs to the context (NULL: any). */
static bool next_zone(uint64_t addr, CUcontext handle, struct gs_redzone *out)
{
    gs_mutex_lock(&zones.lock);
    struct gs_redzone *zone = gs_redzone_map_from(&zones.map, addr);
    while (zone && handle && zone->context->handle != handle) {
        zone = gs_redzone_map_from(&zones.map, zone->begin + 1);
    }
    if (zone) {
        *out = *zone;
    }
    gs_mutex_unlock(&zones.lock);
    return zone != NULL;
}

/* Records the check of the zone of which `copy` is a copy; a damaged zone leaves the map.
 * Returns whether the zone is still the same. */
static bool record_check(const struct gs_redzone *copy, bool damaged)
{
    struct gs_redzone *gone = NULL;
    gs_mutex_lock(&zones.lock);
    struct gs_redzone *zone = gs_redzone_map_from(&zones.map, copy->begin);
    bool same = zone && zone->serial == copy->serial && zone->begin == copy->begin &&
                zone->end == copy->end;
    if (same) {
        zone->seen = true;
    }
    if (same && damaged) {
        gone = gs_redzone_map_cut(&zones.map, copy->begin, copy->end);
    }
    gs_mutex_unlock(&zones.lock);
    free(gone);
    return same;
}

/* ---- errors ---------------------------------------------------------------------- */

static struct gs_free_site site_of(const struct gs_state *state, uint16_t api)
{
    struct gs_free_site site = {.thread = gs_thread_id(), .api = api};
    if (state->stacks && api != GS_API_UNKNOWN) {
        site.stack = gs_stacks_capture(state->stacks);
    }
    return site;
}

/* Reports damage. `was`: the allocation of the zone, if the zone does not know it. */
static void report_damage(struct gs_state *state, const struct gs_redzone *zone,
                          const struct gs_allocation *was,
                          const struct gs_changed *changed, uint16_t api)
{
    struct gs_damage damage = {.kind = zone->live ? GS_ERROR_DAMAGE_BEHIND
                                                  : GS_ERROR_WRITE_AFTER_FREE,
                               .allocation = was ? *was : zone->was,
                               .freed = zone->freed,
                               .changed_bytes = changed->bytes};
    struct gs_free_site site = site_of(state, api);
    bool known = damage.allocation.addr != 0;
    /* Searches all records only for an error that the report will list. */
    if (!known && gs_tracker_error_count(state->tracker) < ERRORS_NAMED) {
        known = gs_tracker_find(state->tracker, zone->begin, &damage.allocation) == GS_OK;
    }
    if (!known) {
        damage.allocation = (struct gs_allocation){
            .addr = zone->begin,
            .bytes = zone->live ? zone->from - zone->begin : zone->end - zone->begin,
            .device = (int16_t)zone->context->device,
            .kind = GS_MEMORY_DEVICE};
    }
    damage.first = zone->from + changed->first - damage.allocation.addr;
    gs_tracker_error_damage(state->tracker, &damage, &site);
}

static void count_outcome(const struct gs_state *state, enum gs_check_outcome which)
{
    gs_tracker_count_check(state->tracker, which, 1);
}

/* Checks a zone that is in no map and whose memory the caller owns. */
static void check_unmapped(struct gs_state *state, const struct gs_redzone *zone,
                           const struct gs_allocation *was, uint16_t api)
{
    struct gs_changed changed;
    enum gs_check_outcome answer = gs_fill_stream_compare(
        zone->context, zone->from, zone->to - zone->from, zone->value, &changed);
    count_outcome(state, answer);
    if (answer == GS_CHECK_DONE && changed.bytes > 0) {
        report_damage(state, zone, was, &changed, api);
    }
}

/* The memory is about to be reused, or returned to the driver: takes its zones out of the
 * map, and checks those of freed memory. */
static void clear_zones(struct gs_state *state, uint64_t addr, size_t bytes, uint16_t api)
{
    struct gs_redzone *next;
    for (struct gs_redzone *zone = cut_zones(addr, addr + bytes); zone; zone = next) {
        next = zone->right;
        if (!zone->live) { /* a live zone is of an ended context */
            check_unmapped(state, zone, NULL, api);
        }
        free(zone);
    }
}

/* ---- allocations ----------------------------------------------------------------- */

/* The size of the red zone after the program's bytes, in a block of `room` bytes. */
static size_t zone_bytes(size_t bytes, size_t room)
{
    if (zones.behind == 0) {
        return 0;
    }
    size_t end = (bytes + zones.behind + GS_BLOCK_BYTES - 1) & ~(GS_BLOCK_BYTES - 1);
    return (room < end ? room : end) - bytes;
}

/* Adds the red zone of a live block: `behind` bytes after the program's `bytes`, in a
 * block of `room` bytes. */
static void add_red_zone(const struct gs_context *context, uint64_t addr, size_t bytes,
                         size_t behind, size_t room)
{
    struct gs_redzone *zone = calloc(1, sizeof(*zone));
    if (!zone) {
        return; /* the block gets no red zone */
    }
    zone->value = BYTE_ZONE;
    zone->live = true;
    zone->begin = addr;
    zone->end = addr + room;
    zone->from = addr + bytes;
    zone->to = zone->from + behind;
    zone->context = context;
    add_zone(zone);
}

/* Fills a new block. Returns false if the block may still be written later and must not
 * be handed out. A late red zone counts too: a free in stream order, or during a capture,
 * does not wait for it, and the red zone may then be inside another owner's block. */
static bool fill_new_block(const struct gs_state *state, const struct gs_context *context,
                           const struct gs_block *block, size_t bytes)
{
    uint64_t addr = gs_block_addr(block);
    size_t room = gs_block_whole_bytes(block), behind = zone_bytes(bytes, room),
           fill_count = 0;
    struct gs_fill fills[2];
    if (zones.fill != GS_CHECK_FILL_OFF) {
        unsigned char value = zones.fill == GS_CHECK_FILL_ZERO ? 0 : BYTE_POISON;
        fills[fill_count++] = (struct gs_fill){addr, bytes, value};
    }
    if (behind > 0) {
        fills[fill_count++] = (struct gs_fill){addr + bytes, behind, BYTE_ZONE};
    } else if (zones.behind > 0) {
        count_outcome(state, GS_CHECK_ROOM);
    }
    if (fill_count == 0) {
        return true;
    }
    bool pending;
    enum gs_check_outcome answer =
        gs_fill_stream_fill(context, fills, fill_count, &pending);
    if (answer == GS_CHECK_DONE && behind > 0) {
        add_red_zone(context, addr, bytes, behind, room);
    } else if (answer != GS_CHECK_DONE) {
        count_outcome(state, answer);
    }
    return !pending;
}

static void at_exit(void);

/* Registers the exit handler: once a process, after the driver's first call, so that the
 * driver's own handlers run later. */
static void register_handler(void)
{
    if (!__atomic_exchange_n(&zones.handler_set, true, __ATOMIC_RELAXED)) {
        (void)atexit(at_exit);
    }
}

enum gs_status gs_redzones_alloc_checked(struct gs_state *state,
                                         const struct gs_context *context, size_t bytes,
                                         struct gs_block **out, int *native)
{
    uint16_t api = gs_record_api(GS_API_cuMemAlloc_v2);
    struct gs_block *block, *claimed;
    register_handler();
    (void)gs_deferred_settle(context);
    enum gs_status status =
        gs_heap_alloc_behind(context->heap, bytes, zones.behind, &block, native);
    if (status != GS_OK) {
        return status;
    }
    clear_zones(state, gs_block_addr(block), gs_block_whole_bytes(block), api);
    if (!fill_new_block(state, context, block, bytes) &&
        gs_pool_claim(state->pool, gs_block_addr(block), &claimed) == GS_OK) {
        gs_deferred_put(context, claimed);
        status = gs_heap_alloc_behind(context->heap, bytes, zones.behind, &block, native);
        if (status != GS_OK) {
            return status;
        }
        clear_zones(state, gs_block_addr(block), gs_block_whole_bytes(block), api);
    }
    *out = block;
    return GS_OK;
}

void gs_redzones_count_unchecked(const struct gs_state *state)
{
    if (zones.behind > 0 || zones.fill != GS_CHECK_FILL_OFF) {
        count_outcome(state, GS_CHECK_NATIVE);
    }
}

/* ---- frees ----------------------------------------------------------------------- */

void gs_redzones_check_before_free(struct gs_state *state, struct gs_block *block,
                                   enum gs_api api, enum gs_check_outcome answer,
                                   struct gs_allocation *was)
{
    gs_mutex_lock(&zones.lock);
    struct gs_redzone *zone = gs_redzone_map_take(&zones.map, gs_block_addr(block));
    gs_mutex_unlock(&zones.lock);
    if (gs_tracker_get(state->tracker, gs_block_tag(block), was) != GS_OK) {
        was->addr = 0;
    }
    if (zone && answer == GS_CHECK_DONE) {
        check_unmapped(state, zone, was->addr ? was : NULL, gs_record_api(api));
    } else if (zone) {
        count_outcome(state, answer);
    }
    free(zone);
}

static void add_freed_zone(const struct gs_context *context, uint64_t addr, size_t room,
                           const struct gs_allocation *was,
                           const struct gs_free_site *freed)
{
    struct gs_redzone *zone = calloc(1, sizeof(*zone));
    if (!zone) {
        return;
    }
    zone->value = BYTE_FREED;
    zone->begin = zone->from = addr;
    zone->end = zone->to = addr + room;
    zone->context = context;
    zone->was = *was;
    zone->freed = *freed;
    /* Blocks that destructors free after the last check are not counted as unchecked. */
    zone->seen = __atomic_load_n(&zones.swept, __ATOMIC_RELAXED);
    add_zone(zone);
}

/* Fills a freed block. Returns false if the block may still be written later. */
static bool fill_freed(const struct gs_state *state, const struct gs_context *context,
                       const struct gs_block *block, enum gs_api api,
                       const struct gs_allocation *was)
{
    const struct gs_fill fill = {gs_block_addr(block), gs_block_whole_bytes(block),
                                 BYTE_FREED};
    struct gs_free_site freed = site_of(state, gs_record_api(api));
    freed.time_ns = gs_tracker_now(state->tracker);
    bool pending;
    enum gs_check_outcome answer = gs_fill_stream_fill(context, &fill, 1, &pending);
    if (answer == GS_CHECK_DONE) {
        add_freed_zone(context, fill.at, fill.bytes, was, &freed);
    } else {
        count_outcome(state, answer);
    }
    return !pending;
}

/* Returns true if another process may still read the memory, for instance after an
 * export. */
static bool is_marked(const struct gs_state *state, const struct gs_block *block)
{
    struct gs_range range;
    return gs_pool_find(state->pool, gs_block_addr(block), &range) == GS_OK &&
           range.retained;
}

void gs_redzones_free(struct gs_state *state, struct gs_block *block, enum gs_api api,
                      const struct gs_allocation *was)
{
    const struct gs_context *context = gs_heap_self(gs_block_heap(block));
    if (zones.fill != GS_CHECK_FILL_OFF && !is_marked(state, block) &&
        !fill_freed(state, context, block, api, was)) {
        gs_deferred_put(context, block);
    } else if (!gs_quarantine_put(context, block)) {
        gs_block_free(block);
    }
}

void gs_redzones_unmap(const struct gs_context *context, uint64_t addr, size_t bytes)
{
    struct gs_state *state = gs_state_peek();
    if (state && context->heap) {
        clear_zones(state, addr, bytes, GS_API_UNKNOWN);
    }
}

/* ---- ends ------------------------------------------------------------------------ */

/* Checks all zones of the context. Does not wait: later writes of running work are not
 * detected. */
static void check_all_zones(struct gs_state *state, CUcontext handle)
{
    uint64_t until = gs_now_ns() + SWEEP_NS, at = 0;
    struct gs_redzone zone;
    struct gs_changed changed;
    for (; next_zone(at, handle, &zone); at = zone.begin + 1) {
        if (gs_now_ns() > until) {
            return; /* the remaining zones are counted at the end */
        }
        enum gs_check_outcome answer = gs_fill_stream_compare(
            zone.context, zone.from, zone.to - zone.from, zone.value, &changed);
        bool damaged = answer == GS_CHECK_DONE && changed.bytes > 0;
        if (!record_check(&zone, damaged)) {
            continue; /* freed or reused since, which checks it */
        }
        count_outcome(state, answer);
        if (damaged) {
            report_damage(state, &zone, NULL, &changed, GS_API_UNKNOWN);
        }
    }
}

/* Runs before the driver's own exit handlers, if those were registered before the first
 * allocation. CUDA must not be called later. */
static void at_exit(void)
{
    struct gs_state *state = gs_state_peek();
    if (!gs_redzones_on || !state || state->pid != (pid_t)syscall(SYS_getpid)) {
        return;
    }
    state = gs_enter();
    if (state) {
        check_all_zones(state, NULL);
        __atomic_store_n(&zones.swept, true, __ATOMIC_RELAXED);
        gs_leave();
    }
}

void gs_redzones_context_ends(struct gs_state *state, CUcontext handle)
{
    if (GS_UNLIKELY(gs_redzones_on) && handle) {
        check_all_zones(state, handle);
    }
}

void gs_redzones_use_ends(struct gs_state *state, CUcontext handle, int device, bool last)
{
    if (GS_LIKELY(!gs_redzones_on)) {
        return;
    }
    int row = device >= 0 && device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1;
    uint64_t now = gs_now_ns(), *at = &zones.used_less_ns[row];
    uint64_t before = __atomic_load_n(at, __ATOMIC_RELAXED);
    if (!last && ((before && now - before < PAUSE_NS) ||
                  !__atomic_compare_exchange_n(at, &before, now, false, __ATOMIC_RELAXED,
                                               __ATOMIC_RELAXED))) {
        return;
    }
    gs_redzones_context_ends(state, handle);
}

/* Counts all unchecked zones of the context (NULL: any); with a context, takes all its
 * zones out of the map. */
static void give_up(struct gs_state *state, const struct gs_context *context)
{
    struct gs_redzone zone;
    for (uint64_t at = 0; next_zone(at, NULL, &zone); at = zone.begin + 1) {
        if (context && zone.context != context) {
            continue;
        }
        if (record_check(&zone, context != NULL) && !zone.seen) {
            count_outcome(state, GS_CHECK_END);
        }
    }
}

void gs_redzones_context_ended(const struct gs_context *context)
{
    struct gs_state *state = gs_state_peek();
    if (GS_LIKELY(!gs_redzones_on) || !state) {
        return;
    }
    gs_quarantine_context_ended(context);
    gs_deferred_context_ended(context);
    give_up(state, context);
}

static uint64_t count_unchecked(void)
{
    uint64_t number = 0;
    struct gs_redzone zone;
    for (uint64_t at = 0; next_zone(at, NULL, &zone); at = zone.begin + 1) {
        number += !zone.seen;
    }
    return number;
}

void gs_redzones_resume(struct gs_state *state)
{
    uint64_t counted_for_exec =
        __atomic_exchange_n(&zones.counted_for_exec, 0, __ATOMIC_RELAXED);
    if (GS_UNLIKELY(counted_for_exec > 0)) {
        gs_tracker_count_check(state->tracker, GS_CHECK_END, -counted_for_exec);
    }
}

void gs_redzones_finish(struct gs_state *state, bool again)
{
    if (GS_LIKELY(!gs_redzones_on)) {
        return;
    }
    if (again) {
        uint64_t number = count_unchecked();
        gs_tracker_count_check(state->tracker, GS_CHECK_END, number);
        __atomic_add_fetch(&zones.counted_for_exec, number, __ATOMIC_RELAXED);
    } else {
        give_up(state, NULL);
    }
}
