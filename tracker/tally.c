/*
 * tally.c - sums of all allocations ever made, by call site.
 * Owns: struct gs_tally.   Lock: one for each stripe, the last in the tracker's order.
 */
#include "tracker/tally.h"

#include "tracker/host_memory.h"
#include "tracker/tracker_lock.h"

#include <errno.h>

#define STRIPE_BITS 4
#define STRIPES     (1u << STRIPE_BITS)

struct stripe {
    struct gs_tracker_lock lock;
    struct gs_samples samples;
} __attribute__((aligned(64)));

struct gs_tally {
    struct stripe stripes[STRIPES];
};

struct gs_tally *gs_tally_create(void)
{
    int saved = errno;
    struct gs_tally *tally = gs_host_map(sizeof(*tally));

    errno = saved;
    return tally;
}

void gs_tally_destroy(struct gs_tally *tally)
{
    if (!tally) {
        return;
    }
    for (unsigned i = 0; i < STRIPES; i++) {
        gs_samples_free(&tally->stripes[i].samples);
    }
    gs_host_unmap(tally, sizeof(*tally));
}

void gs_tally_clear(struct gs_tally *tally)
{
    for (unsigned i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &tally->stripes[i];
        gs_tracker_lock_take(&stripe->lock, GS_RANK_TALLY);
        gs_samples_free(&stripe->samples);
        gs_tracker_lock_give(&stripe->lock, GS_RANK_TALLY);
    }
}

void gs_tally_add(struct gs_tally *tally, const struct gs_allocation *allocation,
                  uint8_t phase, double weight)
{
    struct gs_sample part = {.stream = allocation->stream,
                             .stack = allocation->stack,
                             .api = allocation->api,
                             .device = allocation->device,
                             .kind = allocation->kind,
                             .phase = phase,
                             .alloc_count = 1,
                             .alloc_bytes = allocation->bytes,
                             .likely_allocs = weight,
                             .likely_alloc_bytes = weight * (double)allocation->bytes};
    /* The high bits choose the stripe; the low bits choose the slot in its table. */
    struct stripe *stripe = &tally->stripes[gs_sample_hash(&part) >> (64 - STRIPE_BITS)];

    gs_tracker_lock_take(&stripe->lock, GS_RANK_TALLY);
    (void)!gs_samples_add(&stripe->samples, &part);
    gs_tracker_lock_give(&stripe->lock, GS_RANK_TALLY);
}

enum gs_status gs_tally_copy(struct gs_tally *tally, bool phases, struct gs_samples *out)
{
    enum gs_status status = GS_OK;

    for (unsigned i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &tally->stripes[i];
        gs_tracker_lock_take(&stripe->lock, GS_RANK_TALLY);
        for (size_t k = 0; k < stripe->samples.capacity && status == GS_OK; k++) {
            struct gs_sample sample = stripe->samples.slots[k];
            sample.phase = phases ? sample.phase : 0;
            if (sample.used) {
                status = gs_samples_add(out, &sample);
            }
        }
        gs_tracker_lock_give(&stripe->lock, GS_RANK_TALLY);
    }
    return status;
}
