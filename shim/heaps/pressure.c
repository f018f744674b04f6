/*
 * pressure.c - finds the level of memory pressure of each device, and acts on it.
 *
 * Out of memory begins with a refusal, whatever the share in use: the request may have
 * been large. It ends once the share is GS_PRESSURE_SLACK away from that at the refusal:
 * below, memory was returned; above, the device has served more.
 *
 * Owns:  levels, the program's functions.   Lock: pressure_lock, except where stated.
 */
#include "shim/heaps/pressure.h"

#include <string.h>

#include "gs_float_mode.h"
#include "gs_locks.h"
#include "shim/limits/mem_limits.h"
#include "shim/memory/tell.h"
#include "shim/order/captures.h"
#include "shim/parts.h"
#include "shim/settings/log.h"
#include "shim/settings/options_table.h"
#include "tracker/report/text/text.h"

/* Lines about changes in a process. */
#define LINES 100u

bool gs_pressure_watched;

static struct gs_mutex pressure_lock = GS_MUTEX(GS_RANK_PRESSURE);

static struct gs_pressure_levels levels;
static bool given; /* GPUSHIM_PRESSURE is set; read without the lock, too */

static struct device {
    gpushim_pressure level, highest;
    double refused_at; /* the share in use at the last refusal */
    uint64_t changes;
} devices[GS_MAX_DEVICES];

/* The program's functions. */
static struct call {
    gpushim_pressure_call call; /* NULL: an empty place */
    void *self;
    gpushim_pressure from;
    uint8_t told[GS_MAX_DEVICES]; /* the level that the function knows of */
} calls[GS_PRESSURE_CALLS];

static unsigned row_of(int ordinal)
{
    return ordinal < GS_MAX_DEVICES ? (unsigned)ordinal : GS_MAX_DEVICES - 1;
}

static void start_watching(void)
{
    __atomic_store_n(&gs_pressure_watched, true, __ATOMIC_RELAXED);
    __atomic_store_n(&gs_safe_points_wanted, true, __ATOMIC_RELAXED);
    __atomic_store_n(&gs_ranges_watched, true, __ATOMIC_RELAXED);
}

void gs_pressure_start(const char *text)
{
    const char *wrong = gs_pressure_parse(text, &levels);
    char shown[200];
    given = *text && !wrong;
    if (wrong) {
        gs_log_line(GS_LOG_WARN, "GPUSHIM_PRESSURE=%s: %s; memory pressure is ignored",
                    gs_option_quote(text, strlen(text), shown, sizeof(shown)), wrong);
    }
    if (given) {
        start_watching();
    }
}

const char *gs_pressure_change(const struct gs_state *state, const char *text)
{
    struct gs_pressure_levels changed;
    const char *wrong = gs_pressure_parse(text, &changed);
    if (wrong || !state->pool) {
        return wrong ? wrong : "the pool is off";
    }
    gs_mutex_lock(&pressure_lock);
    levels = changed;
    gs_mutex_unlock(&pressure_lock);
    __atomic_store_n(&given, *text != '\0', __ATOMIC_RELAXED);
    if (*text) {
        start_watching();
    }
    return NULL;
}

void gs_pressure_reset(void)
{
    gs_mutex_init(&pressure_lock, GS_RANK_PRESSURE);
    memset(devices, 0, sizeof(devices));
    memset(calls, 0, sizeof(calls));
    given = false;
    __atomic_store_n(&gs_pressure_watched, false, __ATOMIC_RELAXED);
}

/* ---- the level --------------------------------------------------------------------- */

/* The memory in use of a device. */
struct use {
    struct gs_limit_use limits[GS_LIMITS];
    const struct gs_limit_use *fullest;
    double share; /* of the fullest */
};

static bool find_use(struct gs_state *state, int ordinal, struct use *out)
{
    if (!gs_limits_in_use(state, ordinal, out->limits)) {
        return false;
    }
    struct gs_float_mode mode = gs_float_mode_begin();
    out->fullest = out->limits;
    out->share = 0;
    for (size_t i = 0; i < GS_LIMITS; i++) {
        const struct gs_limit_use *limit = &out->limits[i];
        double share =
            limit->in_bytes ? (double)limit->used_bytes / (double)limit->in_bytes : 0;
        if (share > out->share) {
            out->fullest = limit;
            out->share = share < 1 ? share : 1;
        }
    }
    gs_float_mode_end(mode);
    return true;
}

/* The pressure_lock is held. */
static gpushim_pressure level_at(const struct device *device, double share)
{
    struct gs_float_mode mode = gs_float_mode_begin();
    double moved = share - device->refused_at;
    bool refused = device->level == GPUSHIM_OUT_OF_MEMORY && moved < GS_PRESSURE_SLACK &&
                   moved > -GS_PRESSURE_SLACK;
    gpushim_pressure level = refused ? GPUSHIM_OUT_OF_MEMORY
                                     : gs_pressure_level(&levels, device->level, share);
    gs_float_mode_end(mode);
    return level;
}

static bool would_change(int ordinal, double share)
{
    const struct device *device = &devices[row_of(ordinal)];
    gs_mutex_lock(&pressure_lock);
    bool changes = level_at(device, share) != device->level;
    gs_mutex_unlock(&pressure_lock);
    return changes;
}

static void log_change(int ordinal, gpushim_pressure was, gpushim_pressure now,
                       const struct gs_limit_use *fullest)
{
    static struct gs_log_limit limit;
    char used[24], all[24];
    if (__atomic_load_n(&given, __ATOMIC_RELAXED) && now != was) {
        gs_log_limited(&limit, LINES,
                       now > was && now >= GPUSHIM_WARNING ? GS_LOG_WARN : GS_LOG_INFO,
                       "memory pressure on GPU %d %s from %s to %s: %s of %s in use, of "
                       "%s",
                       ordinal, now > was ? "rises" : "falls", gpushim_pressure_text(was),
                       gpushim_pressure_text(now),
                       gs_text_bytes(fullest->used_bytes, used),
                       gs_text_bytes(fullest->in_bytes, all), fullest->name);
    }
}

/* Sets the level of a device, and logs a change. `refused`: to out of memory. */
static gpushim_pressure set_level(int ordinal, const struct use *use, bool refused)
{
    unsigned row = row_of(ordinal);
    struct device *device = &devices[row];
    gs_mutex_lock(&pressure_lock);
    gpushim_pressure was = device->level;
    gpushim_pressure now = refused ? GPUSHIM_OUT_OF_MEMORY : level_at(device, use->share);
    device->level = now;
    device->changes += now != was;
    device->highest = now > device->highest ? now : device->highest;
    device->refused_at = refused ? use->share : device->refused_at;
    for (size_t i = 0; now < was && i < GS_PRESSURE_CALLS; i++) {
        calls[i].told[row] = now < calls[i].told[row] ? (uint8_t)now : calls[i].told[row];
    }
    gs_mutex_unlock(&pressure_lock);
    if (now > was) { /* even where the program cannot be called, as on the trim thread */
        gs_pressure_moved(ordinal);
    }
    log_change(ordinal, was, now, use->fullest);
    return now;
}

void gs_pressure_refused(struct gs_state *state, int ordinal, size_t bytes)
{
    struct use use;
    if (!__atomic_load_n(&gs_pressure_watched, __ATOMIC_RELAXED) || ordinal < 0 ||
        bytes > gs_limits_most(ordinal) || !find_use(state, ordinal, &use)) {
        return;
    }
    (void)set_level(ordinal, &use, true);
}

bool gs_pressure_query(struct gs_state *state, int ordinal, gpushim_pressure *level,
                       double *share)
{
    const struct gs_context *context = gs_context_current_known(state);
    struct use use;
    for (size_t i = 0; !context || context->device != ordinal; i++) {
        if (!(context = gs_context_nth(state, i))) {
            return false;
        }
    }
    (void)gs_limits_missing(state, context, true);
    if (!find_use(state, ordinal, &use)) {
        return false;
    }
    *level = set_level(ordinal, &use, false);
    *share = use.share;
    return true;
}

bool gs_pressure_history(unsigned ordinal, gpushim_pressure *highest, uint64_t *changes)
{
    gs_mutex_lock(&pressure_lock);
    *highest = devices[ordinal].highest;
    *changes = devices[ordinal].changes;
    gs_mutex_unlock(&pressure_lock);
    return __atomic_load_n(&given, __ATOMIC_RELAXED);
}

/* The bytes to return so that no more than the level's target is in use. */
static size_t excess_at(gpushim_pressure level, const struct use *use)
{
    gs_mutex_lock(&pressure_lock);
    double target = levels.target[level], most = 0;
    gs_mutex_unlock(&pressure_lock);
    struct gs_float_mode mode = gs_float_mode_begin();
    for (size_t i = 0; i < GS_LIMITS && target > 0; i++) {
        const struct gs_limit_use *limit = &use->limits[i];
        double excess = limit->in_bytes
                            ? (double)limit->used_bytes - target * (double)limit->in_bytes
                            : 0;
        most = excess > most ? excess : most;
    }
    size_t bytes = (size_t)most;
    gs_float_mode_end(mode);
    return bytes;
}

size_t gs_pressure_excess(struct gs_state *state, int ordinal)
{
    struct use use;
    if (!__atomic_load_n(&gs_pressure_watched, __ATOMIC_RELAXED) ||
        !find_use(state, ordinal, &use)) {
        return 0;
    }
    return excess_at(set_level(ordinal, &use, false), &use);
}

/* ---- calling the program ----------------------------------------------------------- */

/* Copies the functions that do not know of the device's level. Returns how many there
 * are. */
static unsigned take_calls(int ordinal, struct call due[GS_PRESSURE_CALLS],
                           gpushim_pressure *level)
{
    unsigned row = row_of(ordinal), count = 0;
    gs_mutex_lock(&pressure_lock);
    *level = devices[row].level;
    for (size_t i = 0; i < GS_PRESSURE_CALLS; i++) {
        struct call *call = &calls[i];
        if (call->call && call->from <= *level && call->told[row] < (int)*level) {
            due[count++] = *call;
            call->told[row] = (uint8_t)*level;
        }
    }
    gs_mutex_unlock(&pressure_lock);
    return count;
}

/* Calls them outside of the library, where the thread's calls are the program's own. */
static void call_program(int ordinal)
{
    struct call due[GS_PRESSURE_CALLS];
    const struct gs_thread inside = gs_thread;
    gpushim_pressure level;
    unsigned count = take_calls(ordinal, due, &level);
    if (count == 0) {
        return;
    }
    gs_thread.in_callback = true;
    gs_thread.api = GS_API_UNKNOWN;
    gs_thread.in_stream = false;
    gs_thread.in_api = false;
    gs_leave();
    for (unsigned i = 0; i < count; i++) {
        due[i].call(due[i].self, ordinal, level);
    }
    (void)gs_enter();
    gs_thread.in_callback = false;
    gs_thread.api = inside.api;
    gs_thread.in_stream = inside.in_stream;
    gs_thread.in_api = inside.in_api;
    gs_thread.saved_errno = inside.saved_errno;
}

void gs_pressure_check(struct gs_state *state)
{
    int ordinal = gs_thread.pressed - 1;
    const struct gs_context *context = gs_context_current_known(state);
    size_t missing = 0, excess;
    struct use use;
    if (gs_captures_active()) {
        return; /* a later safe point checks */
    }
    context = context && context->device == ordinal ? context : NULL;
    if (context) {
        missing = gs_limits_missing_now(state, context, false);
    }
    if (context && find_use(state, ordinal, &use) && would_change(ordinal, use.share)) {
        missing = gs_limits_missing_now(state, context, true);
    }
    excess = gs_pressure_excess(state, ordinal);
    missing = missing > excess ? missing : excess;
    /* Memory that waits for running work is returned by the maintenance. */
    if (missing > 0 && gs_pool_trim_unwaited(state->pool, ordinal, missing) > 0) {
        (void)gs_pressure_excess(state, ordinal);
    }
    gs_thread.pressed = 0;
    if (!gs_thread.in_callback) {
        call_program(ordinal);
    }
}

bool gs_pressure_add(gpushim_pressure from, gpushim_pressure_call call, void *self)
{
    struct call *place = NULL;
    gs_mutex_lock(&pressure_lock);
    for (size_t i = GS_PRESSURE_CALLS; i-- > 0;) {
        bool same = calls[i].call == call && calls[i].self == self;
        if (same || !calls[i].call) {
            place = &calls[i];
        }
        if (same) {
            break;
        }
    }
    if (place) {
        *place = (struct call){.call = call, .self = self, .from = from};
    }
    gs_mutex_unlock(&pressure_lock);
    start_watching();
    return place != NULL;
}

bool gs_pressure_remove(gpushim_pressure_call call, void *self)
{
    bool found = false;
    gs_mutex_lock(&pressure_lock);
    for (size_t i = 0; i < GS_PRESSURE_CALLS && !found; i++) {
        found = calls[i].call == call && calls[i].self == self;
        if (found) {
            calls[i].call = NULL;
        }
    }
    gs_mutex_unlock(&pressure_lock);
    return found;
}
