/*
 * samples.h - allocations, freed or not, summed by call site and stream.
 *
 * A finer sum than a group (groups.h), as profile formats need. Kept outside the
 * program's heap, because it grows in the middle of an allocation.
 *
 * Locks: none; the owner of the table has one.
 */
#ifndef GS_SAMPLES_H
#define GS_SAMPLES_H

#include "gs_base.h"

struct gs_sample {
    /* The key. */
    uint64_t stream; /* handle; 0: the default stream, or none */
    uint32_t stack;
    uint16_t api;
    int16_t device;
    uint8_t kind;
    uint8_t phase; /* the conditions of deny: rules that held: phases.h */
    bool used;     /* in a table: false marks an empty slot */
    /* The sums. */
    uint64_t alloc_count, alloc_bytes; /* all allocations */
    uint64_t live_count, live_bytes;
    /* Estimates of the same sums from samples, in the same order: sampling.h. */
    double likely_allocs, likely_alloc_bytes, likely_live, likely_live_bytes;
};

/* All zero is an empty table. */
struct gs_samples {
    struct gs_sample *slots; /* open-addressed; mapped */
    size_t count, capacity;  /* capacity: a power of two, or 0 */
};

uint64_t gs_sample_hash(const struct gs_sample *key);

/* Adds the sums of `part` to the sample of its key. Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_samples_add(struct gs_samples *samples,
                              const struct gs_sample *part) GS_MUST_USE;

void gs_samples_free(struct gs_samples *samples);

#endif
