/*
 * statistics.c - collects the pool's statistics, and saves them in the state file.
 *
 * The file has two sets and a number that names the complete one: a process that ends
 * while it writes one set leaves the other.
 *
 * Owns:  the saved sets.   Lock: `busy` while a set is written; the rest is atomic.
 * Design: docs/state.md
 */
#include "shim/report/statistics.h"

#include <stdio.h>
#include <string.h>

#include "gs_clock.h"
#include "shim/checks/redzones.h"
#include "shim/heaps/pressure.h"
#include "shim/heaps/retry.h"
#include "shim/host/host_pools.h"
#include "shim/host/managed.h"
#include "shim/limits/spilled.h"
#include "shim/link/known_functions.h"
#include "shim/order/single_order.h"
#include "shim/settings/checkers.h"
#include "shim/state/cuda_start.h"
#include "shim/statefile/state_file.h"

/* The time between two copies: 1/SHARE of the process's running time, within these
 * bounds. */
#define SHARE    16u
#define LEAST_NS 1000000u
#define MOST_NS  100000000u

bool gs_statistics_kept; /* atomic: there is a state file */

static struct {
    struct gs_statistics_file *kept; /* in the file; set before gs_statistics_kept */
    uint64_t due_ns;                 /* atomic */
    bool busy;                       /* atomic */
    bool lazy;                       /* set before gs_statistics_kept */
} keeping;

/* ---- collecting ----------------------------------------------------------------- */

static bool is_lazy(const struct gs_state *state)
{
    return state->options.free_sync == GS_FREE_SYNC_LAZY;
}

void gs_statistics_take(struct gs_state *state, struct gs_statistics *out, size_t count)
{
    bool lazy_saves_waits = !gs_redzones_on && !is_lazy(state);
    for (size_t i = 0; i < count; i++) {
        const struct gs_spilled spilled = gs_spilled_of((int)i);
        out[i] = (struct gs_statistics){.at_ns = gs_tracker_latest(state->tracker) + 1,
                                        .spilled = spilled.count,
                                        .spilled_peak_bytes = spilled.most_bytes};
        if (state->pool) {
            gs_pool_stats(state->pool, (int)i, &out[i].pool);
            gs_free_stats((unsigned)i, &out[i].frees);
            out[i].retried = gs_retry_count((unsigned)i);
            out[i].lazy_saves_waits = lazy_saves_waits;
            gpushim_pressure highest;
            if (gs_pressure_history((unsigned)i, &highest, &out[i].pressure_changes)) {
                out[i].pressure = (uint64_t)highest + 1;
            }
        }
    }
}

void gs_statistics_by_size(struct gs_state *state, int device,
                           struct gs_report_class classes[GS_POOL_CLASSES],
                           struct gs_report_device *out)
{
    static struct gs_pool_class_stats stats; /* one report is made at a time */
    gs_pool_class_stats(state->pool, device, &stats);
    for (size_t i = 0; i < GS_POOL_CLASSES; i++) {
#define GS_REPORT_CLASS(name, unit, doc) classes[i].name = stats.classes[i].name;
#include "tracker/report/classes.def"
#undef GS_REPORT_CLASS
    }
#define GS_REPORT_HOLE(name, unit, doc) out->holes.name = stats.holes.name;
#include "tracker/report/classes.def"
#undef GS_REPORT_HOLE
    out->classes = classes;
    out->class_count = GS_POOL_CLASSES;
}

/* ---- the state file ------------------------------------------------------------- */

void gs_statistics_frees(const struct gs_state *state, struct gs_report_config *out)
{
    out->uncounted = gs_known_ended_by();
    out->order_ended = is_lazy(state) ? gs_single_order_ended_by() : "";
    out->no_start = gs_cuda_start_failure();
    out->order_used = gs_single_order_was_used();
    out->host_pooled = gs_host_has_served() || gs_managed_has_served();
}

static bool make_room(const struct gs_state *state)
{
    struct gs_statistics_file *made =
        state->tracker ? gs_state_file_annex(sizeof(*made)) : NULL;
    keeping.lazy = is_lazy(state);
    __atomic_store_n(&keeping.kept, made, __ATOMIC_RELEASE);
    return made != NULL;
}

void gs_statistics_start(const struct gs_state *state)
{
    if (!gs_state_file_is_private() && make_room(state)) {
        __atomic_store_n(&gs_statistics_kept, true, __ATOMIC_RELEASE);
        __atomic_store_n(&gs_safe_points_wanted, true, __ATOMIC_RELAXED);
    }
}

void gs_statistics_reset(void)
{
    __atomic_store_n(&gs_statistics_kept, false, __ATOMIC_RELAXED);
    memset(&keeping, 0, sizeof(keeping));
}

/* The set that may be written; NULL: none, or another thread writes. */
static struct gs_statistics *begin(void)
{
    if (!__atomic_load_n(&keeping.kept, __ATOMIC_ACQUIRE) ||
        __atomic_exchange_n(&keeping.busy, true, __ATOMIC_ACQ_REL)) {
        return NULL;
    }
    return keeping.kept->sets[keeping.kept->current == 1 ? 1 : 0];
}

/* Marks the set as complete. */
static void end(void)
{
    struct gs_statistics_file *kept = keeping.kept;
    uint64_t current = kept->current;
    gs_checkers_ignore_begin(); /* `busy` orders the writers */
    if (!kept->uncounted[0]) {
        (void)snprintf(kept->uncounted, GS_KNOWN_NAME_BYTES, "%s", gs_known_ended_by());
    }
    if (keeping.lazy && !kept->order_ended[0]) {
        (void)snprintf(kept->order_ended, GS_KNOWN_NAME_BYTES, "%s",
                       gs_single_order_ended_by());
    }
    (void)snprintf(kept->no_start, GS_KNOWN_NAME_BYTES, "%s", gs_cuda_start_failure());
    kept->order_used = gs_single_order_was_used();
    kept->host_pooled = gs_host_has_served() || gs_managed_has_served();
    gs_checkers_ignore_end();
    __atomic_store_n(&keeping.kept->current, current == 1 ? 2 : 1, __ATOMIC_RELEASE);
    __atomic_store_n(&keeping.busy, false, __ATOMIC_RELEASE);
}

void gs_statistics_keep(const struct gs_statistics *statistics, size_t count)
{
    struct gs_statistics *set = begin();
    if (set) {
        memcpy(set, statistics, count * sizeof(*statistics));
        end();
    }
}

void gs_statistics_keep_now(struct gs_state *state)
{
    struct gs_statistics *set;
    if ((keeping.kept || make_room(state)) && (set = begin())) {
        gs_statistics_take(
            state, set, (size_t)__atomic_load_n(&state->device_count, __ATOMIC_ACQUIRE));
        end();
    }
}

/* The time from one copy to the next. */
static uint64_t pause_ns(const struct gs_state *state)
{
    uint64_t pause = gs_tracker_now(state->tracker) / SHARE;
    return pause < LEAST_NS ? LEAST_NS : pause < MOST_NS ? pause : MOST_NS;
}

void gs_statistics_keep_late(struct gs_state *state)
{
    uint64_t now = gs_now_ns();
    struct gs_statistics *set;
    if (now < __atomic_load_n(&keeping.due_ns, __ATOMIC_RELAXED) || !(set = begin())) {
        return;
    }
    gs_statistics_take(state, set,
                       (size_t)__atomic_load_n(&state->device_count, __ATOMIC_ACQUIRE));
    __atomic_store_n(&keeping.due_ns, now + pause_ns(state), __ATOMIC_RELAXED);
    end();
}
