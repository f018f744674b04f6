/*
 * resample.c - changes which allocations get a call stack, while the program runs.
 *
 * A stack stands for as many allocations as when it was taken, so the settings before are
 * kept with the time of their end, and a record's time finds its own. The clock is coarse,
 * so a change advances the times of later records (peaks.h).
 *
 * Owns: config.sampling after the start, resampled.   Lock: none, atomics; the caller
 * makes one change at a time.   Design: docs/tracker.md, "Sampling"
 */
#include "tracker/tracker_internal.h"

static void store(struct gs_sampling *at, const struct gs_sampling *sampling)
{
    __atomic_store_n(&at->distance_bytes, sampling->distance_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&at->always_bytes, sampling->always_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&at->min_bytes, sampling->min_bytes, __ATOMIC_RELAXED);
}

static struct gs_sampling load(const struct gs_sampling *at)
{
    return (struct gs_sampling){
        .distance_bytes = __atomic_load_n(&at->distance_bytes, __ATOMIC_RELAXED),
        .always_bytes = __atomic_load_n(&at->always_bytes, __ATOMIC_RELAXED),
        .min_bytes = __atomic_load_n(&at->min_bytes, __ATOMIC_RELAXED)};
}

struct gs_sampling gs_tracker_sampling(const struct gs_tracker *tracker)
{
    return load(&tracker->config.sampling);
}

void gs_sampling_change(struct gs_tracker *tracker, const struct gs_sampling *sampling,
                        uint64_t from_ns)
{
    const struct gs_sampling was = gs_tracker_sampling(tracker);
    const uint32_t number = tracker->resampled.count;
    struct gs_past_sampling *past = &tracker->resampled.past[number % GS_SAMPLINGS_KEPT];

    store(&past->sampling, &was);
    __atomic_store_n(&past->until_ns, from_ns, __ATOMIC_RELAXED);
    if (sampling->distance_bytes != 0) {
        __atomic_store_n(&tracker->resampled.any, 1, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&tracker->resampled.count, number + 1, __ATOMIC_RELEASE);
    store(&tracker->config.sampling, sampling);
}

/* Of more changes than are kept, the oldest that is known counts for all before. */
struct gs_sampling gs_tracker_sampling_at(const struct gs_tracker *tracker,
                                          uint64_t time_ns)
{
    const uint32_t count = __atomic_load_n(&tracker->resampled.count, __ATOMIC_ACQUIRE);
    uint32_t number = count > GS_SAMPLINGS_KEPT ? count - GS_SAMPLINGS_KEPT : 0;

    for (; number < count; number++) {
        const struct gs_past_sampling *past =
            &tracker->resampled.past[number % GS_SAMPLINGS_KEPT];
        if (time_ns < __atomic_load_n(&past->until_ns, __ATOMIC_RELAXED)) {
            return load(&past->sampling);
        }
    }
    return gs_tracker_sampling(tracker);
}

uint32_t gs_tracker_resampled(const struct gs_tracker *tracker, uint64_t *last_ns)
{
    const uint32_t count = __atomic_load_n(&tracker->resampled.count, __ATOMIC_ACQUIRE);

    if (count != 0) {
        *last_ns = __atomic_load_n(
            &tracker->resampled.past[(count - 1) % GS_SAMPLINGS_KEPT].until_ns,
            __ATOMIC_RELAXED);
    }
    return count;
}
