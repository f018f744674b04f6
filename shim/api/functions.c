/*
 * functions.c - the table through which gpushim.h calls the library.
 *
 * A signal handler may interrupt any of the functions, within a lock or malloc; then its
 * own calls of them return GPUSHIM_INACTIVE, as they do where it has interrupted a
 * wrapper.
 *
 * Owns:  the table.   Lock: none, immutable.
 */
#include <stdlib.h>
#include <sys/auxv.h>

#include "gs_base.h"
#include "shim/api/api.h"
#include "shim/settings/environment.h"
#include "shim/settings/options.h"
#include "shim/state/state.h"

/* All but scopes, which begin by themselves: name, parameters, arguments. */
/* clang-format off */
#define FUNCTIONS(row)                                                                   \
    row(statistics, (int device, struct gpushim_statistics *out), (device, out))         \
    row(classes,                                                                         \
        (int device, struct gpushim_class *out, size_t class_bytes, size_t capacity),    \
        (device, out, class_bytes, capacity))                                            \
    row(trim, (int device, uint64_t bytes, uint64_t *given), (device, bytes, given))     \
    row(get_option, (const char *name, char *value, size_t capacity),                    \
        (name, value, capacity))                                                         \
    row(set_option,                                                                      \
        (const char *name, const char *value, char *problem, size_t capacity),           \
        (name, value, problem, capacity))                                                \
    row(report, (void), ())                                                              \
    row(record, (int on), (on))                                                          \
    row(stream_alloc, (void **out, size_t bytes, int device, void *stream),              \
        (out, bytes, device, stream))                                                    \
    row(stream_free, (void *memory, int device, void *stream), (memory, device, stream)) \
    row(stream_uses, (void *memory, void *stream), (memory, stream))                     \
    row(warm_up, (int device, const char *blocks), (device, blocks))                     \
    row(get_pressure, (int device, gpushim_pressure *level, double *share),              \
        (device, level, share))                                                          \
    row(on_pressure,                                                                     \
        (gpushim_pressure from, gpushim_pressure_call call, void *self),                 \
        (from, call, self))                                                              \
    row(off_pressure, (gpushim_pressure_call call, void *self), (call, self))            \
    row(release, (const char *scope, gpushim_keep keep, struct gpushim_released *out),   \
        (scope, keep, out))                                                              \
    row(resume, (const char *scope, struct gpushim_released *out), (scope, out))         \
    row(stretch_begin, (int device, struct gpushim_stretch **out), (device, out))        \
    row(stretch_get, (struct gpushim_stretch *stretch, struct gpushim_statistics *out),  \
        (stretch, out))                                                                  \
    row(stretch_end, (struct gpushim_stretch *stretch), (stretch))                       \
    row(find_allocation, (const void *address, struct gpushim_allocation *out),          \
        (address, out))                                                                  \
    row(visit_allocations, (int device, gpushim_visit_call call, void *self),            \
        (device, call, self))                                                            \
    row(get_stack, (uint32_t stack, char *out, size_t capacity, size_t *length),         \
        (stack, out, capacity, length))                                                  \
    row(snapshot_take, (int device, struct gpushim_snapshot **out), (device, out))       \
    row(snapshot_difference,                                                             \
        (const struct gpushim_snapshot *before, const struct gpushim_snapshot *after,    \
         gpushim_change_call call, void *self),                                          \
        (before, after, call, self))                                                     \
    row(snapshot_free, (struct gpushim_snapshot *snapshot), (snapshot))                  \
    row(scope_statistics,                                                                \
        (const char *path, int device, struct gpushim_scope_totals *out),                \
        (path, device, out))                                                             \
    row(scope_path, (char *out, size_t capacity), (out, capacity))

#define ROW(name, parameters, arguments)                                                 \
    static gpushim_result call_##name parameters                                         \
    {                                                                                    \
        return gs_api_begin() ? gs_api_end(gs_api_##name arguments) : GPUSHIM_INACTIVE;  \
    }
FUNCTIONS(ROW)
#undef ROW

const struct gpushim_functions gs_api_table = {
    .size = sizeof(gs_api_table),
    .version = GPUSHIM_VERSION,
    .scope_begin = gs_api_scope_begin,
    .scope_end = gs_api_scope_end,
#define ROW(name, parameters, arguments) .name = call_##name,
    FUNCTIONS(ROW)
#undef ROW
};
/* clang-format on */

/* Whether the environment has GPUSHIM_ENABLE=off. The program may not have made its first
 * CUDA call yet. */
static bool is_switched_off(void)
{
    struct room {
        struct gs_options options;
        struct gs_options_messages notes;
    } * room;
    if (gs_state_peek() || getauxval(AT_SECURE) || !(room = malloc(sizeof(*room)))) {
        return false;
    }
    gs_options_load(&room->options, gs_environment(), false, &room->notes);
    bool off = !room->options.enable;
    free(room);
    return off;
}

/* NULL: the library is switched off. */
const struct gpushim_functions *gpushim_functions(void)
{
    return is_switched_off() ? NULL : &gs_api_table;
}
