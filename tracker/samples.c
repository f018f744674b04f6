/*
 * samples.c - an open-addressed table of sums, in pages of its own.
 * Owns: the slots of one table.   Lock: the table's owner has one.
 */
#include "tracker/samples.h"

#include "tracker/host_memory.h"

#include <errno.h>
#include <string.h>

#define FIRST_CAPACITY 64

uint64_t gs_sample_hash(const struct gs_sample *key)
{
    uint64_t hash = (uint64_t)key->stack << 32 | (uint64_t)key->api << 16 | key->kind;

    hash ^= (key->stream ^ (uint64_t)(uint16_t)key->device << 48) * 0xe7037ed1a0b428dbu;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static bool same_key(const struct gs_sample *a, const struct gs_sample *b)
{
    return a->stack == b->stack && a->stream == b->stream && a->api == b->api &&
           a->device == b->device && a->kind == b->kind && a->phase == b->phase;
}

/* Returns the slot of the key, or the empty slot where the key belongs. */
static struct gs_sample *find_slot(struct gs_sample *slots, size_t capacity,
                                   const struct gs_sample *key)
{
    size_t i = gs_sample_hash(key) & (capacity - 1);

    while (slots[i].used && !same_key(&slots[i], key)) {
        i = (i + 1) & (capacity - 1);
    }
    return &slots[i];
}

/* Doubles the capacity. Without memory the table stays as it is. */
static enum gs_status grow(struct gs_samples *samples)
{
    size_t capacity = samples->capacity ? samples->capacity * 2 : FIRST_CAPACITY;
    int saved = errno;
    struct gs_sample *slots = gs_host_map(capacity * sizeof(*slots));

    errno = saved;
    if (!slots) {
        return GS_ERR_HOST_NOMEM;
    }
    for (size_t i = 0; i < samples->capacity; i++) {
        if (samples->slots[i].used) {
            *find_slot(slots, capacity, &samples->slots[i]) = samples->slots[i];
        }
    }
    gs_host_unmap(samples->slots, samples->capacity * sizeof(*slots));
    samples->slots = slots;
    samples->capacity = capacity;
    return GS_OK;
}

/* The sample of `key`, created with all sums 0 if it is new. The next call may move it.
 * NULL: no memory. */
static struct gs_sample *sample_at(struct gs_samples *samples,
                                   const struct gs_sample *key)
{
    if (samples->count * 2 >= samples->capacity && grow(samples) != GS_OK) {
        return NULL;
    }
    struct gs_sample *slot = find_slot(samples->slots, samples->capacity, key);
    if (!slot->used) {
        *slot = (struct gs_sample){.stream = key->stream,
                                   .stack = key->stack,
                                   .api = key->api,
                                   .device = key->device,
                                   .kind = key->kind,
                                   .phase = key->phase,
                                   .used = true};
        samples->count++;
    }
    return slot;
}

enum gs_status gs_samples_add(struct gs_samples *samples, const struct gs_sample *part)
{
    struct gs_sample *sample = sample_at(samples, part);

    if (!sample) {
        return GS_ERR_HOST_NOMEM;
    }
    sample->alloc_count += part->alloc_count;
    sample->alloc_bytes += part->alloc_bytes;
    sample->live_count += part->live_count;
    sample->live_bytes += part->live_bytes;
    sample->likely_allocs += part->likely_allocs;
    sample->likely_alloc_bytes += part->likely_alloc_bytes;
    sample->likely_live += part->likely_live;
    sample->likely_live_bytes += part->likely_live_bytes;
    return GS_OK;
}

void gs_samples_free(struct gs_samples *samples)
{
    gs_host_unmap(samples->slots, samples->capacity * sizeof(*samples->slots));
    memset(samples, 0, sizeof(*samples));
}
