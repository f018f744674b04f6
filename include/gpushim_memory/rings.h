/*
 * rings.h - part of gpushim_memory.h: rings between host and device.
 */
#ifndef GPUSHIM_MEMORY_RINGS_H
#define GPUSHIM_MEMORY_RINGS_H

#ifndef GPUSHIM_MEMORY_H
#error "include gpushim_memory.h"
#endif

/* The counts, at the start of a ring's memory, each in cache lines of its own. A kernel
 * that produces or consumes reads the other side's count, and adds to its own after
 * __threadfence_system(). The slots follow: see gpushim_ring_device_address. */
struct gpushim_ring_counts {
    uint64_t pushed; /* slots handed over by the producer, ever */
    char gap_[120];
    uint64_t popped; /* slots returned by the consumer, ever */
    char gap2_[120];
};
typedef char gpushim_ring_counts_are_two_lines_[sizeof(struct gpushim_ring_counts) == 256
                                                    ? 1
                                                    : -1];

/* A ring of slots in pinned memory. Either side is a host thread, work of a stream, or a
 * kernel. The fields may be read. */
struct gpushim_ring {
    struct gpushim_buffer memory;
    struct gpushim_ring_counts *counts;
    size_t slots, slot_bytes;
    size_t stride;    /* from slot to slot, a multiple of 64 */
    uint64_t filling; /* internal: pushes called */
    uint64_t reading; /* internal: pops called */
};

/* Frees the ring; work that uses it must be complete. Idempotent. */
static inline gpushim_result gpushim_ring_free(struct gpushim_ring *ring)
{
    gpushim_result result = ring ? gpushim_buffer_free(&ring->memory) : GPUSHIM_INVALID;

    if (result == GPUSHIM_OK) {
        memset(ring, 0, sizeof(*ring));
    }
    return result;
}

/* Creates an empty ring. Errors: as of gpushim_buffer_create; on a failure *out is
 * unchanged. */
static inline gpushim_result gpushim_ring_create(struct gpushim_ring *out, size_t slots,
                                                 size_t slot_bytes)
{
    struct gpushim_ring ring;
    gpushim_result result;

    if (!out || !slots || !slot_bytes || slot_bytes > SIZE_MAX - 63) {
        return GPUSHIM_INVALID;
    }
    memset(&ring, 0, sizeof(ring));
    ring.slots = slots;
    ring.slot_bytes = slot_bytes;
    ring.stride = (slot_bytes + 63) / 64 * 64;
    if (slots > (SIZE_MAX - sizeof(*ring.counts)) / ring.stride) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_buffer_create(&ring.memory, GPUSHIM_PINNED_HOST,
                                   sizeof(*ring.counts) + slots * ring.stride, 256,
                                   GPUSHIM_ZEROED);
    if (result == GPUSHIM_OK) {
        ring.counts = (struct gpushim_ring_counts *)ring.memory.data;
        *out = ring;
    }
    return result;
}

/* Where a kernel finds the counts; slot number n of all ever pushed is at
 * 256 + (n % slots) * stride bytes. */
static inline gpushim_result gpushim_ring_device_address(const struct gpushim_ring *ring,
                                                         void **out)
{
    return ring ? gpushim_buffer_device_address(&ring->memory, out) : GPUSHIM_INVALID;
}

static inline gpushim_result
gpushim_ring_slot_(struct gpushim_ring *ring, uint64_t number, struct gpushim_buffer *out)
{
    return gpushim_buffer_view(out, &ring->memory,
                               sizeof(*ring->counts) +
                                   (size_t)(number % ring->slots) * ring->stride,
                               ring->slot_bytes);
}

static inline void gpushim_ring_pushed_(void *counts)
{
    (void)__atomic_add_fetch(&((struct gpushim_ring_counts *)counts)->pushed, 1,
                             __ATOMIC_ACQ_REL);
}

static inline void gpushim_ring_popped_(void *counts)
{
    (void)__atomic_add_fetch(&((struct gpushim_ring_counts *)counts)->popped, 1,
                             __ATOMIC_ACQ_REL);
}

/* Counts a slot now, or after the stream's work. */
static inline gpushim_result gpushim_ring_count_(struct gpushim_ring *ring,
                                                 const uint64_t *counted, uint64_t called,
                                                 void (*count)(void *), void *stream)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;

    if (stream == GPUSHIM_SYNC) {
        if (__atomic_load_n(counted, __ATOMIC_ACQUIRE) != called) {
            return GPUSHIM_INVALID; /* it would overtake one in a stream */
        }
        count(ring->counts);
        return GPUSHIM_OK;
    }
    result = gpushim_cuda_(&cuda);
    return result == GPUSHIM_OK
               ? gpushim_from_cuda_(cuda->host_func(stream, count, ring->counts))
               : result;
}

/* The producer's next slot, to be filled. Does not wait. Errors: INVALID; NOT_FOUND: the
 * ring is full. */
static inline gpushim_result gpushim_ring_space(struct gpushim_ring *ring,
                                                struct gpushim_buffer *slot)
{
    if (!ring || !ring->counts || !slot) {
        return GPUSHIM_INVALID;
    }
    if (ring->filling - __atomic_load_n(&ring->counts->popped, __ATOMIC_ACQUIRE) >=
        ring->slots) {
        return GPUSHIM_NOT_FOUND;
    }
    return gpushim_ring_slot_(ring, ring->filling, slot);
}

/* The consumer's next slot. Does not wait. Errors: INVALID; NOT_FOUND: the ring is
 * empty. */
static inline gpushim_result gpushim_ring_next(struct gpushim_ring *ring,
                                               struct gpushim_buffer *slot)
{
    if (!ring || !ring->counts || !slot) {
        return GPUSHIM_INVALID;
    }
    if (__atomic_load_n(&ring->counts->pushed, __ATOMIC_ACQUIRE) <= ring->reading) {
        return GPUSHIM_NOT_FOUND;
    }
    return gpushim_ring_slot_(ring, ring->reading, slot);
}

/*
 * Hands the slot of gpushim_ring_space to the consumer.
 * In:     stream  the slot is handed over when the stream's work so far is complete;
 *                 GPUSHIM_SYNC: now. All pushes of a ring use one stream, or none.
 * Errors: CUDA, INACTIVE; NOT_FOUND: the ring is full; INVALID: also GPUSHIM_SYNC while a
 *         push in a stream is not complete. The slot was not handed over.
 */
static inline gpushim_result gpushim_ring_push(struct gpushim_ring *ring, void *stream)
{
    struct gpushim_buffer slot;
    gpushim_result result = gpushim_ring_space(ring, &slot);

    if (result == GPUSHIM_OK) {
        result = gpushim_ring_count_(ring, &ring->counts->pushed, ring->filling,
                                     gpushim_ring_pushed_, stream);
    }
    if (result == GPUSHIM_OK) {
        ring->filling++;
    }
    return result;
}

/* Returns the slot of gpushim_ring_next to the producer. `stream`, errors: as of
 * gpushim_ring_push; NOT_FOUND: the ring is empty. */
static inline gpushim_result gpushim_ring_pop(struct gpushim_ring *ring, void *stream)
{
    struct gpushim_buffer slot;
    gpushim_result result = gpushim_ring_next(ring, &slot);

    if (result == GPUSHIM_OK) {
        result = gpushim_ring_count_(ring, &ring->counts->popped, ring->reading,
                                     gpushim_ring_popped_, stream);
    }
    if (result == GPUSHIM_OK) {
        ring->reading++;
    }
    return result;
}

#endif
