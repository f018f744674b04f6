/*
 * api.h - the functions behind gpushim.h, by file. gpushim.h documents each of them; the
 * arguments are the program's own and are checked here. They are called through the table
 * of functions.c, which keeps a signal handler out that has interrupted one of them.
 */
#ifndef GS_API_FUNCTIONS_H
#define GS_API_FUNCTIONS_H

#include "gpushim.h"
#include "gs_base.h"
#include "shim/cuda/cuda_names.h"
#include "shim/settings/thread.h"
#include "shim/state/state.h"

/* ---- functions.c ---- */

/* NULL: the library is switched off. */
GS_EXPORT const struct gpushim_functions *gpushim_functions(void);
extern const struct gpushim_functions gs_api_table __attribute__((visibility("hidden")));

/* The calling thread begins a function of the table; false: it is inside the library, and
 * gets GPUSHIM_INACTIVE. */
static inline bool gs_api_begin(void)
{
    if (GS_UNLIKELY(gs_thread.depth > 0 || gs_thread.in_api)) {
        return false;
    }
    gs_thread.in_api = true;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return true;
}

/* Follows gs_api_begin. Returns the result. */
static inline gpushim_result gs_api_end(gpushim_result result)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    gs_thread.in_api = false;
    return result;
}

/* ---- api_statistics.c ---- */

gpushim_result gs_api_statistics(int device, struct gpushim_statistics *out);
gpushim_result gs_api_classes(int device, struct gpushim_class *out, size_t class_bytes,
                              size_t capacity);

gpushim_result gs_api_scope_statistics(const char *path, int device,
                                       struct gpushim_scope_totals *out);
gpushim_result gs_api_scope_path(char *out, size_t capacity);

/* ---- api_control.c ---- */

gpushim_result gs_api_trim(int device, uint64_t bytes, uint64_t *given);
gpushim_result gs_api_get_option(const char *name, char *value, size_t capacity);
/* Visits the options that can be set now, each with its value; lists whole. Errors:
 * INACTIVE. */
gpushim_result gs_api_settable(void (*visit)(void *self, const char *name,
                                             const char *value),
                               void *self);
gpushim_result gs_api_set_option(const char *name, const char *value, char *problem,
                                 size_t capacity);
/* The same without a call of the driver: idle memory beyond a lower limit stays. */
gpushim_result gs_api_change_option(const char *name, const char *value, char *problem,
                                    size_t capacity);
gpushim_result gs_api_report(void);
gpushim_result gs_api_record(int on);
gpushim_result gs_api_scope_begin(const char *name);
gpushim_result gs_api_scope_end(void);

gpushim_result gs_api_warm_up(int device, const char *blocks);
gpushim_result gs_api_get_pressure(int device, gpushim_pressure *level, double *share);
gpushim_result gs_api_on_pressure(gpushim_pressure from, gpushim_pressure_call call,
                                  void *self);
gpushim_result gs_api_off_pressure(gpushim_pressure_call call, void *self);

/* ---- api_stretch.c ---- */

gpushim_result gs_api_stretch_begin(int device, struct gpushim_stretch **out);
gpushim_result gs_api_stretch_get(struct gpushim_stretch *stretch,
                                  struct gpushim_statistics *out);
gpushim_result gs_api_stretch_end(struct gpushim_stretch *stretch);

/* ---- api_allocations.c ---- */

gpushim_result gs_api_find_allocation(const void *address,
                                      struct gpushim_allocation *out);
gpushim_result gs_api_visit_allocations(int device, gpushim_visit_call call, void *self);
gpushim_result gs_api_get_stack(uint32_t stack, char *out, size_t capacity,
                                size_t *length);

/* The state of a process that records allocations; then gs_leave follows. NULL: *result
 * says why; after gpushim detach frees are not recorded, and it is INACTIVE. */
struct gs_state *gs_api_enter_tracked(gpushim_result *result);
/* Returns true if a caller may name these rows of the totals. */
bool gs_api_is_place(int device);
/* The program's name for a row of the totals: views have none of their own. */
int gs_api_place_of(int row);
/* Returns true if the rows of `device` have an allocation that is counted in `row`. */
bool gs_api_is_within(int device, int row);
/* Fills in a `scope` of the two structs. */
void gs_api_put_scope(const struct gs_tracker *tracker, uint32_t stack,
                      char out[GPUSHIM_SCOPE_BYTES]);

/* ---- api_snapshot.c ---- */

gpushim_result gs_api_snapshot_take(int device, struct gpushim_snapshot **out);
gpushim_result gs_api_snapshot_difference(const struct gpushim_snapshot *before,
                                          const struct gpushim_snapshot *after,
                                          gpushim_change_call call, void *self);
gpushim_result gs_api_snapshot_free(struct gpushim_snapshot *snapshot);

/* ---- api_release.c ---- */

gpushim_result gs_api_release(const char *scope, gpushim_keep keep,
                              struct gpushim_released *out);
gpushim_result gs_api_resume(const char *scope, struct gpushim_released *out);

/* ---- api_stream.c ---- */

/* Starts the library if need be. Returns whether it serves this thread now. */
bool gs_api_is_active(void);
/* Makes a context of the device current, its primary one if there is a choice; a CUdevice
 * is the ordinal. *pushed goes to gs_context_pop. `activate`: a primary context that is
 * not active is retained, and stays. Returns the driver's code. */
CUresult gs_api_enter_device(int device, bool activate, bool *pushed);

gpushim_result gs_api_stream_alloc(void **out, size_t bytes, int device, void *stream);
gpushim_result gs_api_stream_free(void *memory, int device, void *stream);
gpushim_result gs_api_stream_uses(void *memory, void *stream);
/* In a forked child: drops what is known of memory and streams. */
void gs_api_stream_reset(void);

/* In a forked child: the lock of the options is free. */
void gs_api_control_reset(void);

#endif
