/*
 * refusals.c - chooses the refusals to report, and gathers the figures of each: the
 * driver's in the refused thread, whose context is current, the pool's and NVML's in the
 * thread that writes the report.
 *
 * Owns:  `reported`, `most`, `kept`.
 * Lock:  none; the first two are atomic, `kept` belongs to the one thread that writes a
 *        report.
 * Design: docs/tracker.md, "Out of memory"
 */
#include "shim/report/refusals.h"

#include <stdio.h>
#include <string.h>

#include "gs_clock.h"
#include "shim/heaps/releasable.h"
#include "shim/limits/mem_limits.h"
#include "shim/order/captures.h"
#include "shim/report/nvml.h"
#include "shim/settings/options_table.h"
#include "tracker/report/text/text.h"

#define CLASS_BITS 4u /* a factor of 16 */
#define CLASSES    (64u / CLASS_BITS)

static uint32_t reported; /* atomic: a bit for each class */

/* Atomic: bytes of each device's memory, once the driver has said so. A request beyond
 * them is never reported. */
static uint64_t most[GS_MAX_DEVICES];

static struct {
    struct gs_report_refusal refusals[CLASSES];
    size_t count;
} kept;

static uint32_t class_bit(uint64_t bytes)
{
    return 1u << (bytes ? (63u - (unsigned)__builtin_clzll(bytes)) / CLASS_BITS : 0);
}

static uint64_t *most_of(int device)
{
    return &most[device >= 0 && device < GS_MAX_DEVICES ? device : GS_MAX_DEVICES - 1];
}

bool gs_refusals_wanted(int device, uint64_t bytes)
{
    uint64_t known = __atomic_load_n(most_of(device), __ATOMIC_RELAXED);
    return (__atomic_load_n(&reported, __ATOMIC_RELAXED) & class_bit(bytes)) == 0 &&
           (known == 0 || bytes <= known);
}

/* ---- in the refused thread -------------------------------------------------------- */

/* The driver answers for the current context's device. */
static void query_driver(struct gs_state *state, struct gs_report_refusal *figures)
{
    const struct gs_context *context = gs_context_current(state);
    size_t available = 0, total = 0;
    if (context && context->device == figures->device && gs_real()->cuMemGetInfo_v2 &&
        gs_real()->cuMemGetInfo_v2(&available, &total) == CUDA_SUCCESS) {
        figures->free_bytes = available;
        figures->device_bytes = total;
        __atomic_store_n(most_of(figures->device), total, __ATOMIC_RELAXED);
    }
}

/* Describes the limit if it has refused the request. Without the driver's figures, a
 * request that exceeds the limit's headroom counts as refused by the limit. */
static void query_limit(const struct gs_options *options,
                        struct gs_report_refusal *figures)
{
    char text[GS_OPTION_SIZE_BYTES], others[24];
    bool known = figures->device_bytes != 0;
    size_t left, limit;
    if (gs_limits_refused(figures->device, known ? figures->free_bytes : SIZE_MAX, &left,
                          &limit) &&
        (known || left < figures->bytes)) {
        int length =
            snprintf(figures->limit, sizeof(figures->limit), "GPUSHIM_MEM_LIMIT=%s",
                     gs_option_size_text(options->mem_limit, text));
        if (gs_limits_group(figures->device, &figures->others_bytes)) {
            snprintf(figures->limit + length, sizeof(figures->limit) - (size_t)length,
                     " (%s used by other processes in the group)",
                     gs_text_bytes(figures->others_bytes, others));
        }
        figures->limit_free_bytes = left;
        figures->limit_bytes = limit;
    }
}

/* "cudaMalloc of 2.00 GiB on GPU 0 failed, 1.20 GiB of 139 GiB free", or "... failed
 * at GPUSHIM_MEM_LIMIT=8G, 16.0 MiB of 8.00 GiB free". */
static void write_note(struct gs_refusal *refusal)
{
    const struct gs_report_refusal *figures = &refusal->figures;
    bool limited = figures->limit[0] != '\0';
    uint64_t all = limited ? figures->limit_bytes : figures->device_bytes;
    char size[24] = "memory", left[24], total[24];
    if (figures->bytes) {
        (void)gs_text_bytes(figures->bytes, size);
    }
    int length = snprintf(refusal->note, sizeof(refusal->note),
                          "%s of %s on GPU %d failed%s%s", gs_api_name(figures->api),
                          size, figures->device, limited ? " at " : "", figures->limit);
    if (all && length > 0 && (size_t)length < sizeof(refusal->note)) {
        snprintf(refusal->note + length, sizeof(refusal->note) - (size_t)length,
                 ", %s of %s free",
                 gs_text_bytes(limited ? figures->limit_free_bytes : figures->free_bytes,
                               left),
                 gs_text_bytes(all, total));
    }
}

bool gs_refusals_begin(struct gs_state *state, const struct gs_call *call, int device,
                       uint64_t bytes, struct gs_refusal *out)
{
    struct gs_report_refusal *figures = &out->figures;
    memset(out, 0, sizeof(*out));
    figures->device = device;
    figures->bytes = bytes;
    query_driver(state, figures);
    if ((figures->device_bytes != 0 && bytes > figures->device_bytes) ||
        (__atomic_fetch_or(&reported, class_bit(bytes), __ATOMIC_RELAXED) &
         class_bit(bytes)) != 0) {
        return false;
    }
    query_limit(&state->options, figures);
    figures->time_ns = gs_tracker_now(state->tracker);
    figures->api = gs_record_api(call->api);
    figures->thread = gs_thread_id();
    figures->lazy = state->options.free_sync == GS_FREE_SYNC_LAZY;
    figures->capturing = gs_captures_active();
    figures->stack = state->stacks ? gs_stacks_capture(state->stacks) : 0;
    out->heap = call->context ? call->context->heap : NULL;
    out->from_pool = call->kind == GS_MEMORY_DEVICE || call->kind == GS_MEMORY_ASYNC;
    write_note(out);
    return true;
}

/* ---- in the thread that writes the report ----------------------------------------- */

static const char *bar_text(enum gs_piece_bar bar, bool from_pool)
{
    static const char texts[GS_PIECE_BARS][48] = {
        [GS_PIECE_SMALL] = "too small",
        [GS_PIECE_ROUNDED] = "too small for the request as aligned",
        [GS_PIECE_PENDING] = "possibly in use by running work",
        [GS_PIECE_ELSEWHERE] = "of another context or stream",
        [GS_PIECE_RETAINED] = "in a segment that is exported or has attributes",
        [GS_PIECE_UNSHARED] = "in a segment for requests below 2 MiB",
        [GS_PIECE_FREED] = "freed only after the failure",
    };
    return bar == GS_PIECE_SMALL || from_pool ? texts[bar]
                                              : "not for this kind of memory";
}

static void find_piece(struct gs_state *state, const struct gs_refusal *refusal,
                       struct gs_report_refusal *out)
{
    enum gs_piece_bar bar = GS_PIECE_SMALL;
    out->piece_bytes =
        gs_pool_largest_piece(state->pool, out->device, refusal->heap, out->bytes, &bar);
    out->piece_bar =
        out->piece_bytes && out->bytes ? bar_text(bar, refusal->from_pool) : NULL;
}

/* What the driver calls used, and no recorded allocation and no pool has. Not known while
 * recording is, or was, off. `known`: the bytes that are accounted for. */
static void find_elsewhere(const struct gs_tracker *tracker, uint64_t known,
                           struct gs_report_refusal *out)
{
    struct gs_tracker_windows windows;
    uint64_t used = out->device_bytes - out->free_bytes;
    gs_tracker_get_windows(tracker, &windows);
    out->elsewhere_known = out->device_bytes != 0 && used >= known && !windows.switched;
    out->elsewhere_bytes = out->elsewhere_known ? used - known : 0;
    out->own_known = out->elsewhere_known && gs_nvml_rest(out->device, &out->own_bytes);
}

static void add_figures(struct gs_state *state, const struct gs_refusal *refusal,
                        struct gs_report_refusal *out)
{
    struct gs_tracker_totals totals;
    struct gs_pool_stats stats = {0};
    gs_tracker_get_totals(state->tracker, out->device, &totals);
    out->live_bytes = totals.live_bytes;
    if (state->pool) {
        uint64_t pages;
        gs_pool_stats(state->pool, out->device, &stats);
        find_piece(state, refusal, out);
        gs_releasable_away(out->device, &out->released_bytes, &pages);
        out->live_bytes -= out->released_bytes;
        stats.live_bytes -= out->released_bytes;
        stats.used_bytes -= pages;
    }
    uint64_t busy = stats.used_bytes + stats.pending_bytes;
    out->rounding_bytes = stats.used_bytes - stats.live_bytes;
    out->pending_bytes = stats.pending_bytes;
    out->idle_bytes = stats.reserved_bytes > busy ? stats.reserved_bytes - busy : 0;
    out->returned_bytes = stats.maintenance_bytes - stats.aged_bytes + stats.trim_bytes;
    out->pooled = stats.reserved_bytes != 0 || out->returned_bytes != 0;
    out->carves = state->options.pool_carve == GS_CARVE_MODE_ON;
    out->may_move = !state->options.pool_vmm && out->bytes >= GS_LARGE_BYTES;
    find_elsewhere(state->tracker,
                   out->live_bytes + out->rounding_bytes + out->pending_bytes +
                       out->idle_bytes,
                   out);
}

struct gs_report_refusal *gs_refusals_keep(struct gs_state *state,
                                           struct gs_refusal *refusal)
{
    struct gs_report_refusal *out = &refusal->figures;
    if (kept.count < CLASSES) {
        out = &kept.refusals[kept.count++];
        *out = refusal->figures;
    }
    add_figures(state, refusal, out);
    return out;
}

const struct gs_report_refusal *gs_refusals_kept(size_t *count)
{
    *count = kept.count;
    return kept.refusals;
}

void gs_refusals_reset(void)
{
    reported = 0;
    memset(most, 0, sizeof(most));
    kept.count = 0;
}
