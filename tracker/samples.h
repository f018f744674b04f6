/*
 * samples.h - allocations added up by where they came from and by stream, freed or not.
 *
 * A finer sum than a group (groups.h): what profile formats take. Kept outside the
 * program's heap, since it grows in the middle of an allocation.
 *
 * Locks: none; the owner of the table has one.
 */
#ifndef GS_SAMPLES_H
#define GS_SAMPLES_H

#include "gs_base.h"

struct gs_sample {
    /* The key. */
    uint64_t stream; /* handle; 0: the call names none, or the default one */
    uint32_t stack;
    uint16_t api;
    int16_t device;
    uint8_t kind;
    bool used; /* of the table: false in an empty slot */
    /* The sums. */
    uint64_t alloc_count, alloc_bytes; /* all that were made */
    uint64_t live_count, live_bytes;
    /* What these stand for, in the same order: sampling.h. */
    double likely_allocs, likely_alloc_bytes, likely_live, likely_live_bytes;
};

/* All zero is an empty table. */
struct gs_samples {
    struct gs_sample *slots; /* open-addressed; mapped */
    size_t count, capacity;  /* capacity: a power of two, or 0 */
};

uint64_t gs_sample_hash(const struct gs_sample *key);

/* The sample with the key of `key`, made with all sums 0 if it is new. It may move at the
 * next call. NULL: no memory. */
struct gs_sample *gs_samples_at(struct gs_samples *samples, const struct gs_sample *key);

/* Add the sums of `part` to the sample of its key. Errors: GS_ERR_HOST_NOMEM. */
enum gs_status gs_samples_add(struct gs_samples *samples,
                              const struct gs_sample *part) GS_MUST_USE;

void gs_samples_free(struct gs_samples *samples);

#endif
