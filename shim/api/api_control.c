/*
 * api_control.c - what gpushim.h changes: idle memory, who is called under pressure,
 * options, recording, scopes.
 * Owns:  nothing.   Lock: options_lock, while an option changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "gs_locks.h"
#include "shim/api/api.h"
#include "shim/api/trace_switch.h"
#include "shim/heaps/pressure.h"
#include "shim/heaps/releasable.h"
#include "shim/heaps/warmup.h"
#include "shim/host/host_pools.h"
#include "shim/limits/cache_sizes.h"
#include "shim/limits/mem_limits.h"
#include "shim/record.h"
#include "shim/report/interim.h"
#include "shim/report/leak_rules.h"
#include "shim/report/write_rules.h"
#include "shim/report/outputs.h"
#include "shim/report/report_settings.h"
#include "shim/settings/environment.h"
#include "shim/settings/log.h"
#include "shim/settings/options_lists.h"
#include "shim/settings/options_table.h"
#include "shim/settings/output_ours.h"
#include "shim/state/context_switch.h"
#include "shim/state/state.h"
#include "tracker/stacks/scopes.h"

#define NOTHING ((void)0)

static struct gs_mutex options_lock = GS_MUTEX(GS_RANK_API);

/* gs_enter, but NULL before the program's first CUDA call. */
static struct gs_state *enter(void)
{
    return gs_state_peek() ? gs_enter() : NULL;
}

gpushim_result gs_api_trim(int device, uint64_t bytes, uint64_t *given)
{
    struct gs_state *state;
    uint64_t back = 0;
    if ((device < 0 && device != GPUSHIM_ALL_DEVICES) || device >= GS_MAX_DEVICES) {
        return GPUSHIM_INVALID;
    }
    if (!(state = enter())) {
        return GPUSHIM_INACTIVE;
    }
    bool pooled = state->pool != NULL;
    if (pooled) {
        back = gs_pool_trim(state->pool, device == GPUSHIM_ALL_DEVICES ? -1 : device,
                            bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX);
        gs_pressure_safe_point(state);
    }
    gs_leave();
    if (given) {
        *given = back;
    }
    return pooled ? GPUSHIM_OK : GPUSHIM_OFF;
}

/* ---- blocks ahead of need ---------------------------------------------------------- */

static void count_problem(void *self, const char *item, size_t length,
                          const char *problem)
{
    (void)item, (void)length, (void)problem;
    ++*(unsigned *)self;
}

/* The context of the device is current. */
static gpushim_result warm_up(const struct gs_warmup_list *list)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return GPUSHIM_INACTIVE;
    }
    const struct gs_context *context =
        gs_context_serving(state, gs_context_current(state));
    gpushim_result result = GPUSHIM_OFF;
    if (context && context->heap) {
        result = gs_warmup_allocate(context, list, "gpushim_warm_up") ? GPUSHIM_OK
                                                                      : GPUSHIM_NO_MEMORY;
        gs_pressure_safe_point(state);
    }
    gs_leave();
    return result;
}

gpushim_result gs_api_warm_up(int device, const char *blocks)
{
    struct gs_warmup_list list;
    unsigned problems = 0;
    bool pushed;
    if (!blocks || device < 0) {
        return GPUSHIM_INVALID;
    }
    if (!gs_api_is_active()) {
        return GPUSHIM_INACTIVE;
    }
    gs_warmup_parse(blocks, &list, count_problem, &problems);
    if (problems > 0) {
        return GPUSHIM_INVALID;
    }
    if (gs_api_enter_device(device, true, &pushed) != CUDA_SUCCESS) {
        return GPUSHIM_CUDA;
    }
    gpushim_result result = warm_up(&list);
    gs_context_pop(pushed);
    return result;
}

/* ---- memory pressure --------------------------------------------------------------- */

gpushim_result gs_api_get_pressure(int device, gpushim_pressure *level, double *share)
{
    struct gs_state *state;
    gpushim_pressure now = GPUSHIM_NORMAL;
    gpushim_result result = GPUSHIM_OFF;
    double used = 0;
    if (device < 0 || device >= GS_MAX_DEVICES) {
        return GPUSHIM_INVALID;
    }
    if (!(state = enter())) {
        return GPUSHIM_INACTIVE;
    }
    if (state->pool) {
        result = gs_pressure_query(state, device, &now, &used) ? GPUSHIM_OK
                                                               : GPUSHIM_NOT_FOUND;
    }
    gs_leave();
    if (level) {
        *level = now;
    }
    if (share) {
        *share = used;
    }
    return result;
}

gpushim_result gs_api_on_pressure(gpushim_pressure from, gpushim_pressure_call call,
                                  void *self)
{
    struct gs_state *state;
    gpushim_result result = GPUSHIM_OFF;
    if (!call || from < GPUSHIM_ELEVATED || from > GPUSHIM_OUT_OF_MEMORY) {
        return GPUSHIM_INVALID;
    }
    if (!(state = enter())) {
        return GPUSHIM_INACTIVE;
    }
    if (state->pool) {
        result = gs_pressure_add(from, call, self) ? GPUSHIM_OK : GPUSHIM_NO_MEMORY;
    }
    gs_leave();
    return result;
}

gpushim_result gs_api_off_pressure(gpushim_pressure_call call, void *self)
{
    if (!enter()) {
        return GPUSHIM_INACTIVE;
    }
    bool found = call && gs_pressure_remove(call, self);
    gs_leave();
    return found ? GPUSHIM_OK : GPUSHIM_NOT_FOUND;
}

/* Changes the cache tiers of the pool, and of that of pinned memory. Returns NULL, or why
 * it cannot. */
static const char *change_cache(const struct gs_state *state, const char *text)
{
    struct gs_cache_sizes cache;
    const char *wrong = gs_cache_sizes_parse(text, &cache);
    if (wrong || !state->pool) {
        return wrong ? wrong : "the pool is off";
    }
    if (!gs_pool_set_cache(state->pool, cache.bytes, cache.stream_blocks,
                           cache.global_blocks)) {
        return "the program started without a cache (GPUSHIM_POOL_CACHE=0)";
    }
    gs_host_set_cache(state, cache.bytes);
    return NULL;
}

/* ---- options ----------------------------------------------------------------------- */

static gpushim_result refuse(const struct gs_options *options, unsigned row,
                             const char *problem, struct gs_options_messages *notes)
{
    const struct gs_option *option = &gs_options_table[row];
    char text[GS_OPTION_SIZE_BYTES];
    (void)snprintf(notes->text, sizeof(notes->text), "gpushim: %s=%.200s: %s",
                   option->name, gs_option_value_text(option, options, false, text),
                   problem);
    return GPUSHIM_INVALID;
}

/* What settable.def says of the row. */
static gpushim_result apply(struct gs_state *state, const struct gs_options *options,
                            unsigned row, struct gs_options_messages *notes)
{
    const char *problem;
    switch (row) {
#define GS_SETTABLE(field, statement)                                                    \
    case GS_OPTION_ROW_##field:                                                          \
        __atomic_store_n(&state->options.field, options->field, __ATOMIC_RELAXED);       \
        statement;                                                                       \
        return GPUSHIM_OK;
#define GS_SETTABLE_TEXT(field, expression)                                              \
    case GS_OPTION_ROW_##field:                                                          \
        problem = expression;                                                            \
        if (problem) {                                                                   \
            return refuse(options, row, problem, notes);                                 \
        }                                                                                \
        memcpy(state->options.field, options->field, sizeof(options->field));            \
        return GPUSHIM_OK;
#include "shim/api/settable.def"
    default:
        return GPUSHIM_AT_START;
    }
}

/* Whether apply takes the option. */
static bool is_settable(unsigned row)
{
    switch (row) {
#define GS_SETTABLE(field, statement)      case GS_OPTION_ROW_##field:
#define GS_SETTABLE_TEXT(field, statement) case GS_OPTION_ROW_##field:
#include "shim/api/settable.def"
        return true;
    default:
        return false;
    }
}

/* Whether the option would change. */
static bool is_other(const struct gs_state *state, const struct gs_options *read,
                     unsigned row)
{
    const struct gs_option *option = &gs_options_table[row];
    char before[GS_OPTION_SIZE_BYTES], after[GS_OPTION_SIZE_BYTES];
    return strcmp(gs_option_value_text(option, &state->options, true, before),
                  gs_option_value_text(option, read, true, after)) != 0;
}

/* Sets all items of a list that would change, or none. */
static gpushim_result apply_list(struct gs_state *state, const struct gs_options *read,
                                 unsigned list, struct gs_options_messages *notes)
{
    for (size_t i = 0; i < gs_items_count; i++) {
        const struct gs_item *item = &gs_items[i];
        char text[GS_OPTION_SIZE_BYTES], part[GS_ITEM_BYTES];
        if (item->list == list && is_other(state, read, item->row) &&
            !is_settable(item->row)) {
            const struct gs_option *option = &gs_options_table[item->row];
            const char *value = gs_option_value_text(option, read, false, text);
            (void)snprintf(notes->text, sizeof(notes->text),
                           "gpushim: %s: %s is read only at the start of a program",
                           gs_lists[list].name,
                           value[0] ? gs_item_write(item, value, part) : "the signal");
            return GPUSHIM_AT_START;
        }
    }
    for (size_t i = 0; i < gs_items_count; i++) {
        if (gs_items[i].list == list && is_other(state, read, gs_items[i].row)) {
            (void)apply(state, read, gs_items[i].row, notes);
        }
    }
    return GPUSHIM_OK;
}

/* The list whose other items a plain value unsets, as at the start; GS_LISTS: none of them
 * can be set. */
static unsigned list_with_items(const char *name)
{
    const unsigned list = gs_list_of(name);
    for (size_t i = 0; i < gs_items_count; i++) {
        if (gs_items[i].list == list && is_settable(gs_items[i].row)) {
            return list;
        }
    }
    return GS_LISTS;
}

/* Copies the line of a bad value, up to what was done instead, and without a newline. */
static void copy_problem(const char *line, char *out, size_t capacity)
{
    size_t length = strcspn(line, "\n");
    for (size_t i = length; i-- > 0;) {
        if (line[i] == ';') {
            length = i;
            break;
        }
    }
    if (capacity) {
        length = length < capacity ? length : capacity - 1;
        memcpy(out, line, length);
        out[length] = '\0';
    }
}

/* In:  read, notes  room for a set of options, and for notes */
static gpushim_result set_option(struct gs_state *state, const char *name,
                                 const char *value, struct gs_options *read,
                                 struct gs_options_messages *notes)
{
    unsigned row, list;
    switch (gs_options_read_one(name, value, read, &row, &list, notes)) {
    case GS_OK:
        if (list == GS_LISTS && (is_settable(row) || !is_other(state, read, row))) {
            list = list_with_items(name);
        }
        if (list < GS_LISTS) {
            return apply_list(state, read, list, notes);
        }
        if (row == GS_OPTION_ROW_mem_limit && !gs_limits_charging) {
            (void)snprintf(notes->text, sizeof(notes->text),
                           "gpushim: GPUSHIM_MEM_LIMIT: the program started without a "
                           "limit, so its memory was never counted");
            return GPUSHIM_AT_START;
        }
        return apply(state, read, row, notes);
    case GS_ERR_NOT_FOUND:
        return GPUSHIM_NOT_FOUND;
    default:
        return GPUSHIM_INVALID;
    }
}

/* Sets an option of a process that has not started the library: any, for the start. An
 * item of a list that the environment has is part of that list alone. */
static gpushim_result keep_option(const char *name, const char *value,
                                  struct gs_options *read,
                                  struct gs_options_messages *notes)
{
    unsigned row, list;
    switch (gs_options_read_one(name, value, read, &row, &list, notes)) {
    case GS_OK:
        break;
    case GS_ERR_NOT_FOUND:
        return GPUSHIM_NOT_FOUND;
    default:
        return GPUSHIM_INVALID;
    }
    const struct gs_item *item = list == GS_LISTS ? gs_item_of(row) : NULL;
    const char *variable =
        list < GS_LISTS ? gs_lists[list].name : gs_options_table[row].name;
    if (item && strcmp(gs_lists[item->list].name, variable) != 0 &&
        gs_options_given(gs_environment(), gs_lists[item->list].name)) {
        (void)snprintf(notes->text, sizeof(notes->text),
                       "gpushim: %s: %s is set, which replaces it", variable,
                       gs_lists[item->list].name);
        return GPUSHIM_AT_START;
    }
    return gs_environment_set(variable, value) ? GPUSHIM_OK : GPUSHIM_NO_MEMORY;
}

/* NULL: the library has not started. */
static gpushim_result change_option(struct gs_state *state, const char *name,
                                    const char *value, char *problem, size_t capacity)
{
    struct room {
        struct gs_options options;
        struct gs_options_messages notes;
    } *room = calloc(1, sizeof(*room));
    gpushim_result result = GPUSHIM_NO_MEMORY;
    if (room) {
        gs_mutex_lock(&options_lock);
        result = state ? set_option(state, name, value, &room->options, &room->notes)
                       : keep_option(name, value, &room->options, &room->notes);
        gs_mutex_unlock(&options_lock);
        copy_problem(room->notes.text, problem, capacity);
    }
    free(room);
    return result;
}

gpushim_result gs_api_change_option(const char *name, const char *value, char *problem,
                                    size_t capacity)
{
    struct gs_state *state;
    if (!name || !value) {
        return GPUSHIM_INVALID;
    }
    if (!(state = enter())) {
        return GPUSHIM_INACTIVE;
    }
    gpushim_result result = change_option(state, name, value, problem, capacity);
    gs_leave();
    return result;
}

gpushim_result gs_api_set_option(const char *name, const char *value, char *problem,
                                 size_t capacity)
{
    struct gs_state *state;
    if (name && value && !gs_state_peek() && !getauxval(AT_SECURE)) {
        gpushim_result kept = change_option(NULL, name, value, problem, capacity);
        if (!gs_state_peek()) {
            return kept; /* else another thread has started the library meanwhile */
        }
    }
    gpushim_result result = gs_api_change_option(name, value, problem, capacity);
    if (result == GPUSHIM_OK && (state = enter())) {
        gs_limits_enforce(state);
        gs_leave();
    }
    return result;
}

gpushim_result gs_api_get_option(const char *name, char *value, size_t capacity)
{
    static char list_text[GS_LIST_BYTES]; /* under options_lock */
    char text[GS_OPTION_SIZE_BYTES];
    struct gs_state *state;
    if (!name || !value || !capacity) {
        return GPUSHIM_INVALID;
    }
    if (!(state = enter())) {
        return GPUSHIM_INACTIVE;
    }
    const struct gs_options *options = &state->options;
    unsigned row = gs_option_row_of(name), list = gs_list_of(name);
    bool known = list < GS_LISTS || row < GS_OPTIONS_COUNT;
    if (known) {
        gs_mutex_lock(&options_lock);
        (void)snprintf(value, capacity, "%s",
                       list < GS_LISTS ? gs_list_text(list, options, list_text)
                                       : gs_option_value_text(&gs_options_table[row],
                                                              options, false, text));
        gs_mutex_unlock(&options_lock);
    }
    gs_leave();
    return known ? GPUSHIM_OK : GPUSHIM_NOT_FOUND;
}

/* Whether the option has something to act on in this process. */
static bool is_in_use(const struct gs_state *state, unsigned row)
{
    switch (row) {
    case GS_OPTION_ROW_mem_limit:
        return gs_limits_charging;
    case GS_OPTION_ROW_pool_limit:
    case GS_OPTION_ROW_pool_release:
    case GS_OPTION_ROW_pool_reserve:
    case GS_OPTION_ROW_pool_wait_ms:
    case GS_OPTION_ROW_pool_cache:
    case GS_OPTION_ROW_pressure:
        return state->pool != NULL;
    default:
        return true;
    }
}

gpushim_result gs_api_settable(void (*visit)(void *self, const char *name,
                                             const char *value),
                               void *self)
{
    static char list_text[GS_LIST_BYTES]; /* under options_lock */
    bool shown[GS_LISTS] = {false};
    char text[GS_OPTION_SIZE_BYTES];
    struct gs_state *state = enter();
    if (!state) {
        return GPUSHIM_INACTIVE;
    }
    gs_mutex_lock(&options_lock);
    for (unsigned row = 0; row < GS_OPTIONS_COUNT; row++) {
        const struct gs_item *item = gs_item_of(row);
        const struct gs_option *option = &gs_options_table[row];
        if (!is_settable(row) || !is_in_use(state, row) || (item && shown[item->list])) {
            continue;
        }
        if (item) {
            shown[item->list] = true;
            visit(self, gs_lists[item->list].name,
                  gs_list_text(item->list, &state->options, list_text));
        } else {
            visit(self, option->name,
                  gs_option_value_text(option, &state->options, false, text));
        }
    }
    gs_mutex_unlock(&options_lock);
    gs_leave();
    return GPUSHIM_OK;
}

/* ---- the tracker ------------------------------------------------------------------- */

gpushim_result gs_api_report(void)
{
    struct gs_state *state = enter();
    if (!state) {
        return GPUSHIM_INACTIVE;
    }
    bool tracked = state->tracker != NULL;
    if (tracked) {
        (void)gs_interim_requested();
    }
    gs_leave();
    return tracked ? GPUSHIM_OK : GPUSHIM_OFF;
}

gpushim_result gs_api_record(int on)
{
    struct gs_state *state = enter();
    if (!state) {
        return GPUSHIM_INACTIVE;
    }
    struct gs_tracker *tracker = state->tracker;
    if (tracker && gs_tracker_records(tracker) != (on != 0)) {
        gs_tracker_switch(tracker);
        gs_interim_log_switches();
    }
    gs_leave();
    return tracker ? GPUSHIM_OK : GPUSHIM_OFF;
}

static gpushim_result result_of(enum gs_status status)
{
    switch (status) {
    case GS_OK:
        return GPUSHIM_OK;
    case GS_ERR_NOT_FOUND:
        return GPUSHIM_NOT_FOUND;
    case GS_ERR_HOST_NOMEM:
        return GPUSHIM_NO_MEMORY;
    default:
        return GPUSHIM_INVALID;
    }
}

/* Scopes begin before the library has started, too: they are the thread's. A program may
 * begin one for each step, so no further function stands in between. */
gpushim_result gs_api_scope_begin(const char *name)
{
    if (!gs_api_begin()) {
        return GPUSHIM_INACTIVE;
    }
    enum gs_status status = gs_scopes_begin(name);
    if (status == GS_OK) {
        gs_record_scope_begun();
    }
    return gs_api_end(result_of(status));
}

gpushim_result gs_api_scope_end(void)
{
    return gs_api_begin() ? gs_api_end(result_of(gs_scopes_end())) : GPUSHIM_INACTIVE;
}

void gs_api_control_reset(void)
{
    gs_mutex_init(&options_lock, GS_RANK_API);
}
