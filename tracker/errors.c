/*
 * errors.c - wrong frees and uses: classifies them, and gathers the report's data.
 *
 * The first GS_ERRORS_KEPT errors are kept in full, the rest are counted. Frees from one
 * call site are one error, and so are uses. The search for the allocation around an
 * address scans all records. It is made only for errors that are kept in full: a program
 * that frees wrongly in a loop costs a counter.
 *
 * Owns:  errors[], error_count.   Lock: errors_lock.   Design: docs/tracker.md
 */
#include "tracker/tracker_internal.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Wrong frees examined per call site; later ones count as repeats of the first. */
#define FREES_EXAMINED 64u

struct containing {
    uint64_t addr;
    struct gs_allocation allocation;
    bool found;
};

/* Finds the live allocation that contains the address. A handle has no interior, so only
 * an equal handle matches. */
static bool visit_containing(void *arg, const struct gs_allocation *allocation)
{
    struct containing *search = arg;

    search->found = (!gs_key_is_handle(search->addr) &&
                     search->addr - allocation->addr < allocation->bytes) ||
                    search->addr == allocation->addr;
    if (search->found) {
        search->allocation = *allocation;
    }
    return !search->found;
}

/* Sets the kind of a bad free by the address's history, and by live allocations around
 * it. */
static void classify(struct gs_tracker *tracker, struct gs_error *error)
{
    struct gs_former former;
    struct containing search = {.addr = error->addr};

    if (gs_history_get(tracker, error->addr, &former)) {
        error->kind = former.lost ? GS_ERROR_INVALID_FREE : GS_ERROR_DOUBLE_FREE;
        error->context_lost = former.lost;
        error->has_first_free = true;
        error->first_freed = former.site;
        error->has_allocation = true;
        error->allocation = former.allocation;
        return;
    }
    gs_records_visit(tracker, visit_containing, &search);
    error->kind = GS_ERROR_INVALID_FREE;
    if (!search.found) {
        error->host = gs_host_region(error->addr);
        return;
    }
    error->has_allocation = true;
    error->allocation = search.allocation;
    error->offset = error->addr - search.allocation.addr;
    /* Only one function frees a handle, so the call is no mismatch: the handle was
     * released before, and another object still holds its memory. */
    if (error->offset == 0) {
        error->kind = gs_key_is_handle(error->addr) ? GS_ERROR_DOUBLE_FREE
                                                    : GS_ERROR_MISMATCHED_FREE;
    }
}

/* Returns true if the next error would be stored. */
static bool has_room(const struct gs_tracker *tracker)
{
    return __atomic_load_n(&tracker->error_count, __ATOMIC_RELAXED) < GS_ERRORS_KEPT;
}

/* Fills in the calling thread and the time. */
static void fill_site(struct gs_tracker *tracker, struct gs_error *error)
{
    if (error->freed.time_ns == 0) {
        error->freed.time_ns = gs_tracker_now(tracker);
    }
    if (error->freed.thread == (uint32_t)syscall(SYS_gettid)) {
        prctl(PR_GET_NAME, error->thread_name);
    }
}

/* Appends an error, or only counts it if the array is full. errors_lock is held. */
static void append(struct gs_tracker *tracker, const struct gs_error *error)
{
    if (tracker->error_count < GS_ERRORS_KEPT) {
        tracker->errors[tracker->error_count] = *error;
    }
    __atomic_store_n(&tracker->error_count, tracker->error_count + 1, __ATOMIC_RELAXED);
}

void gs_errors_keep(struct gs_tracker *tracker, struct gs_error *error)
{
    if (has_room(tracker)) {
        fill_site(tracker, error);
    }
    gs_tracker_lock_take(&tracker->errors_lock, GS_RANK_ERRORS);
    append(tracker, error);
    gs_tracker_lock_give(&tracker->errors_lock, GS_RANK_ERRORS);
}

/* ---- call sites -------------------------------------------------------------------- */

/* Returns true if both errors come from one call site; without stacks, from one address.
 * A use is compared before its allocation is known, so the allocation does not count. */
static bool is_same_site(const struct gs_error *a, const struct gs_error *b)
{
    return a->kind == b->kind && a->writes == b->writes &&
           a->freed.stack == b->freed.stack && a->freed.api == b->freed.api &&
           (a->freed.stack != 0 || a->addr == b->addr) && strcmp(a->call, b->call) == 0 &&
           (gs_error_is_use(a) ||
            (a->device == b->device && a->allocation.stack == b->allocation.stack));
}

/* Returns true if both are frees from one call site, whatever they freed. */
static bool is_free_at_site(const struct gs_error *known, const struct gs_error *error)
{
    return gs_error_is_free(known) && known->freed.stack == error->freed.stack &&
           error->freed.stack != 0 && known->freed.api == error->freed.api;
}

/* Returns true if the error is a free from the same call site as `known`, of which enough
 * frees were examined. */
static bool is_examined_site(const struct gs_error *known, const struct gs_error *error)
{
    return known->repeats >= FREES_EXAMINED && is_free_at_site(known, error);
}

/* Counts the error with a kept one that `matches` accepts. Returns false if there is
 * none. errors_lock is held. */
static bool count_repeat(struct gs_tracker *tracker, const struct gs_error *error,
                         bool (*matches)(const struct gs_error *,
                                         const struct gs_error *))
{
    for (unsigned i = 0; i < tracker->error_count && i < GS_ERRORS_KEPT; i++) {
        if (matches(&tracker->errors[i], error)) {
            tracker->errors[i].repeats++;
            if (error->waited_ns > tracker->errors[i].waited_ns) {
                tracker->errors[i].waited_ns = error->waited_ns;
            }
            return true;
        }
    }
    return false;
}

static bool count_repeat_locked(struct gs_tracker *tracker, const struct gs_error *error,
                                bool (*matches)(const struct gs_error *,
                                                const struct gs_error *))
{
    gs_tracker_lock_take(&tracker->errors_lock, GS_RANK_ERRORS);
    bool known = count_repeat(tracker, error, matches);
    gs_tracker_lock_give(&tracker->errors_lock, GS_RANK_ERRORS);
    return known;
}

/* Appends the error, unless another thread has just recorded one from its call site. */
static void count_or_append(struct gs_tracker *tracker, const struct gs_error *error)
{
    gs_tracker_lock_take(&tracker->errors_lock, GS_RANK_ERRORS);
    if (!count_repeat(tracker, error, is_same_site)) {
        append(tracker, error);
    }
    gs_tracker_lock_give(&tracker->errors_lock, GS_RANK_ERRORS);
}

/* ---- frees ------------------------------------------------------------------------ */

void gs_tracker_error_free(struct gs_tracker *tracker, uint64_t addr, int device,
                           const struct gs_free_site *site)
{
    struct gs_error error = {.addr = addr, .device = device};

    if (!tracker) {
        return;
    }
    if (site) {
        error.freed = *site;
    }
    bool room = has_room(tracker);
    if (count_repeat_locked(tracker, &error, room ? is_examined_site : is_free_at_site)) {
        return;
    }
    if (room) {
        classify(tracker, &error);
        fill_site(tracker, &error);
    }
    count_or_append(tracker, &error);
}

/* ---- a device that was not idle --------------------------------------------------- */

void gs_tracker_error_not_idle(struct gs_tracker *tracker, int device, uint64_t stream,
                               uint64_t waited_ns, const struct gs_free_site *site)
{
    struct gs_error error = {.kind = GS_ERROR_NOT_IDLE,
                             .addr = stream,
                             .device = device,
                             .freed = *site,
                             .waited_ns = waited_ns};

    if (!tracker) {
        return;
    }
    fill_site(tracker, &error);
    count_or_append(tracker, &error);
}

/* ---- uses ------------------------------------------------------------------------- */

/* Returns true if the use is a live allocation's. */
static bool has_extent(enum gs_error_kind kind)
{
    return kind == GS_ERROR_OVERRUN || kind == GS_ERROR_UNDERRUN;
}

/* Fills in the allocation that the use was meant for. Of a live allocation, a scan finds
 * the allocating call. */
static void fill_allocation(struct gs_tracker *tracker, const struct gs_bad_use *use,
                            struct gs_error *error)
{
    if (use->kind == GS_ERROR_USE_AFTER_FREE) {
        error->has_allocation = error->has_first_free = true;
        error->allocation = use->former.allocation;
        error->first_freed = use->former.site;
        error->context_lost = use->former.lost;
    } else if (has_extent(use->kind)) {
        error->has_allocation =
            gs_tracker_find(tracker, use->extent_addr, &error->allocation) == GS_OK;
        error->allocation.addr = use->extent_addr;
        error->allocation.bytes = use->extent_bytes;
    }
    if (use->kind == GS_ERROR_UNDERRUN) {
        error->offset = error->allocation.addr - error->addr;
    } else if (use->kind == GS_ERROR_USE_AFTER_FREE || has_extent(use->kind)) {
        error->offset = error->addr - error->allocation.addr;
    }
}

void gs_tracker_error_use(struct gs_tracker *tracker, const struct gs_bad_use *use)
{
    struct gs_error error = {
        .kind = use->kind,
        .addr = use->addr,
        .device = use->device,
        .freed = {.time_ns = use->time_ns, .thread = use->thread, .stack = use->stack},
        .writes = use->writes,
        .bytes = use->bytes};

    if (!tracker) {
        return;
    }
    strncpy(error.call, use->call, sizeof(error.call) - 1);
    if (count_repeat_locked(tracker, &error, is_same_site)) {
        return;
    }
    if (has_room(tracker)) {
        fill_site(tracker, &error);
        fill_allocation(tracker, use, &error);
    }
    count_or_append(tracker, &error);
}

bool gs_tracker_holds(struct gs_tracker *tracker, uint64_t addr)
{
    struct containing search = {.addr = addr};

    gs_records_visit(tracker, visit_containing, &search);
    return search.found;
}

uint64_t gs_tracker_error_count(struct gs_tracker *tracker)
{
    return tracker ? __atomic_load_n(&tracker->error_count, __ATOMIC_RELAXED) : 0;
}

size_t gs_errors_copy(struct gs_tracker *tracker, struct gs_error *out)
{
    gs_tracker_lock_take(&tracker->errors_lock, GS_RANK_ERRORS);
    size_t count = tracker->error_count < GS_ERRORS_KEPT ? (size_t)tracker->error_count
                                                         : GS_ERRORS_KEPT;
    memcpy(out, tracker->errors, count * sizeof(*out));
    gs_tracker_lock_give(&tracker->errors_lock, GS_RANK_ERRORS);
    return count;
}
