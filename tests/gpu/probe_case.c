/*
 * probe_case.c - one driver call, made while a kernel runs: does it wait for the kernel?
 * Owns: nothing.   Lock: none.
 */
#include "probe.h"

/* A kernel that was launched runs after this time on any machine that is not overloaded.
 */
#define START_NS (3 * PROBE_MS)

static void prepare(struct probe_case *item)
{
    if (item->prepare)
        item->prepare(item);
    PROBE_OK(driver.cuCtxSynchronize());
}

static void finish(struct probe_case *item)
{
    if (item->clean)
        item->clean(item);
    item->block = item->neighbour = 0;
    item->host = NULL;
    item->stream = NULL;
    item->event = NULL;
    item->module = NULL;
}

void probe_case_held(struct probe_case *item, const struct probe_place *place,
                     uint64_t limit_ns, struct probe_outcome *out)
{
    uint64_t start;

    prepare(item);
    probe_hold_begin(place, limit_ns);
    probe_sleep_ns(START_NS);
    start = probe_now_ns();
    out->code = item->call(item);
    out->ns = probe_now_ns() - start;
    out->waited = probe_hold_expired();
    probe_hold_end();
    finish(item);
}

static CUresult query(const struct probe_place *place)
{
    CUcontext old;
    CUresult code;

    PROBE_OK(driver.cuCtxPushCurrent_v2(place->context));
    code = driver.cuStreamQuery(place->stream);
    PROBE_OK(driver.cuCtxPopCurrent_v2(&old));
    return code;
}

void probe_case_spun(struct probe_case *item, const struct probe_place *place,
                     uint64_t spin_ns, struct probe_outcome *out)
{
    CUcontext old;
    uint64_t start;

    prepare(item);
    probe_spin(place, spin_ns);
    start = probe_now_ns();
    out->code = item->call(item);
    out->ns = probe_now_ns() - start;
    out->waited = query(place) == CUDA_SUCCESS;
    PROBE_OK(driver.cuCtxPushCurrent_v2(place->context));
    PROBE_OK(driver.cuCtxSynchronize());
    PROBE_OK(driver.cuCtxPopCurrent_v2(&old));
    finish(item);
}
