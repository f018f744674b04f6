/*
 * capture_check.c - the capture check: asks the driver by freeing a probe allocation of
 * the library's own.
 *
 * The probe is allocated on demand in the relaxed mode, which does not affect captures.
 * It is freed in the thread's own mode, so the driver applies the same rules as to the
 * program's free.
 *
 * A probe whose free was refused occupies an address that an earlier allocation of the
 * program may have had. The program does not own this address now, so the program's calls
 * with such an address get the driver's answer for unknown memory.
 *
 * Owns:  the list of probes whose free was refused.
 * Lock:  probes_lock; never held across a driver call.
 */
#include "shim/order/capture_check.h"

#include <stdlib.h>

#include "gs_locks.h"
#include "shim/order/visit.h"
#include "shim/record.h"

#define PROBE_BYTES 16

struct probe {
    uint64_t addr;
    const struct gs_context *context;
    enum gs_capture_check kind;
    struct probe *next;
};

static struct gs_mutex probes_lock = GS_MUTEX(GS_RANK_CAPTURE_CHECK);
static struct probe *refused_probes; /* under probes_lock; the head is atomic */

/* ---- the driver's part ------------------------------------------------------------- */

/* Allocates a probe in the context; 0 on failure, *result: the driver's code. */
static uint64_t allocate_probe(const struct gs_context *context,
                               enum gs_capture_check kind, CUresult *result)
{
    CUstreamCaptureMode mode;
    CUdeviceptr device = 0;
    void *pinned = NULL;
    struct gs_visit visit;
    if (!gs_relaxed_try(&mode, result)) {
        return 0; /* a driver older than capture modes, or a host function */
    }
    *result = gs_visit_begin(&visit, "cuMemFree_v2", context->handle, false);
    if (*result == CUDA_SUCCESS) {
        *result = kind == GS_CAPTURE_CHECK_PINNED
                      ? gs_real()->cuMemHostAlloc(&pinned, PROBE_BYTES, 0)
                      : gs_real()->cuMemAlloc_v2(&device, PROBE_BYTES);
    }
    gs_visit_end(&visit);
    gs_relaxed_end(&mode);
    if (*result != CUDA_SUCCESS) {
        return 0;
    }
    return kind == GS_CAPTURE_CHECK_PINNED ? (uint64_t)(uintptr_t)pinned : device;
}

static CUresult free_probe(uint64_t probe, enum gs_capture_check kind)
{
    return kind == GS_CAPTURE_CHECK_PINNED
               ? gs_real()->cuMemFreeHost((void *)(uintptr_t)probe)
               : gs_real()->cuMemFree_v2(probe);
}

/* ---- refused probes ---------------------------------------------------------------- */

/* Takes a probe of the context that was refused earlier off the list; 0: none. */
static uint64_t take_refused(const struct gs_context *context, enum gs_capture_check kind)
{
    uint64_t addr = 0;
    gs_mutex_lock(&probes_lock);
    struct probe **link = &refused_probes;
    while (*link && ((*link)->context != context || (*link)->kind != kind)) {
        link = &(*link)->next;
    }
    struct probe *found = *link;
    if (found) {
        addr = found->addr;
        __atomic_store_n(link, found->next, __ATOMIC_RELAXED);
    }
    gs_mutex_unlock(&probes_lock);
    free(found);
    return addr;
}

/* Keeps a probe that the driver refused to free, for the next capture check. */
static void keep_refused(const struct gs_context *context, enum gs_capture_check kind,
                         uint64_t addr)
{
    struct probe *probe = malloc(sizeof(*probe));
    if (!probe) {
        return; /* the probe is leaked until its context ends */
    }
    gs_mutex_lock(&probes_lock);
    *probe = (struct probe){addr, context, kind, refused_probes};
    __atomic_store_n(&refused_probes, probe, __ATOMIC_RELEASE);
    gs_mutex_unlock(&probes_lock);
}

static bool owns(uint64_t addr)
{
    gs_mutex_lock(&probes_lock);
    const struct probe *probe = refused_probes;
    while (probe && addr - probe->addr >= PROBE_BYTES) {
        probe = probe->next;
    }
    gs_mutex_unlock(&probes_lock);
    return probe != NULL;
}

bool gs_capture_check_owns(uint64_t addr)
{
    return GS_UNLIKELY(__atomic_load_n(&refused_probes, __ATOMIC_ACQUIRE) != NULL) &&
           owns(addr);
}

void gs_capture_check_context_ends(const struct gs_context *context)
{
    uint64_t addr;
    do {
        addr = take_refused(context, GS_CAPTURE_CHECK_DEVICE)
                   ?: take_refused(context, GS_CAPTURE_CHECK_PINNED);
    } while (addr);
}

void gs_capture_check_reset(void)
{
    gs_mutex_init(&probes_lock, GS_RANK_CAPTURE_CHECK);
    __atomic_store_n(&refused_probes, NULL, __ATOMIC_RELAXED);
}

/* ---- the capture check ------------------------------------------------------------- */

/* Returns a probe of *kind, refused earlier or new. If the device is full the probe is of
 * pinned memory, which *kind then says. 0: none, as allocate_probe. */
static uint64_t find_probe(struct gs_context *context, enum gs_capture_check *kind,
                           CUresult *result)
{
    uint64_t probe =
        take_refused(context, *kind) ?: allocate_probe(context, *kind, result);
    if (!probe && *kind == GS_CAPTURE_CHECK_DEVICE) {
        *kind = GS_CAPTURE_CHECK_PINNED;
        probe = take_refused(context, *kind) ?: allocate_probe(context, *kind, result);
    }
    return probe;
}

/* Frees a probe as a program would. Out, returns: as gs_capture_check_free */
static CUresult ask_driver(struct gs_context *context, enum gs_capture_check kind,
                           bool *waited)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t probe = find_probe(context, &kind, &result);
    if (!probe) { /* not permitted: in a host function, which may not free either */
        return result == CUDA_ERROR_NOT_PERMITTED ? result : CUDA_SUCCESS;
    }
    result =
        GS_ON_BEHALF(kind == GS_CAPTURE_CHECK_PINNED ? "cuMemFreeHost" : "cuMemFree_v2",
                     true, free_probe(probe, kind));
    if (!gs_refused_for_capture(result) && result != CUDA_ERROR_NOT_PERMITTED) {
        *waited = result == CUDA_SUCCESS;
        return CUDA_SUCCESS;
    }
    keep_refused(context, kind, probe);
    return result;
}

CUresult gs_capture_check_free(const struct gs_state *state, struct gs_context *context,
                               enum gs_capture_check kind, bool *waited)
{
    *waited = false;
    if (kind == GS_CAPTURE_CHECK_DEVICE &&
        state->options.free_sync == GS_FREE_SYNC_LAZY) {
        return CUDA_SUCCESS;
    }
    return ask_driver(context, kind, waited);
}

bool gs_capture_check_wait(struct gs_context *context)
{
    bool waited = false;
    return ask_driver(context, GS_CAPTURE_CHECK_DEVICE, &waited) == CUDA_SUCCESS &&
           waited;
}
