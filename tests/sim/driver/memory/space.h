/*
 * space.h - an address range in 2 MiB units, a device's or the host's; private to space.c
 * and heap.c.
 * Owns: the reservation, its alias, the map from units to allocations.
 * Lock: space->lock guards every field not said to be immutable.
 */
#ifndef SIM_SPACE_H
#define SIM_SPACE_H

#include "memory.h"

#define SIM_CHUNK_SLOTS (SIM_UNIT_BYTES / SIM_ALIGN_BYTES)
#define SIM_WORD_BITS   64

/* A 2 MiB unit shared by small allocations, in slots of 512 bytes. */
struct sim_chunk {
    struct sim_heap *heap;
    struct sim_chunk *next, *prev;
    size_t unit;
    size_t used_slots;
    size_t too_long; /* no free run of this many slots since the last free; 0: unknown */
    uint64_t bits[SIM_CHUNK_SLOTS / SIM_WORD_BITS];
    struct sim_alloc *owners[SIM_CHUNK_SLOTS];
};

/* What a unit belongs to: a whole allocation, a chunk, or neither. */
struct sim_unit {
    struct sim_alloc *alloc;
    struct sim_chunk *chunk;
};

/* A run of units. */
struct sim_extent {
    struct sim_extent *next;
    size_t first;
    size_t count;
};

struct sim_space {
    pthread_mutex_t lock;
    int device;            /* immutable; SIM_NO_DEVICE: the host's */
    size_t capacity_units; /* immutable: CUDASIM_MEMORY; the host's own memory */
    size_t range_units;    /* immutable: the reservation; a device's, four times that */
    atomic_bool reserved;  /* published once va and alias stand */
    uintptr_t va;          /* immutable once reserved: what programs see */
    unsigned char *alias;  /* immutable once reserved: what the device uses */
    int fd;                /* immutable once reserved */
    size_t used_units;
    size_t hint;    /* no free unit lies below */
    uint64_t *bits; /* a bit per unit, set while it is held */
    struct sim_unit *units;
};

/* First run of `count` clear bits in [start, limit), or limit. */
size_t sim_bits_find_clear(const uint64_t *bits, size_t start, size_t limit,
                           size_t count);
void sim_bits_set(uint64_t *bits, size_t first, size_t count);
void sim_bits_clear(uint64_t *bits, size_t first, size_t count);

/* Take a run of units; false if memory or addresses do not suffice. Needs space->lock. */
bool sim_space_take(struct sim_space *space, size_t count, size_t *first) GS_MUST_USE;

/*
 * Give runs back and free the list: pages are punched out first, so the lock is not held
 * meanwhile. Takes space->lock.
 */
void sim_space_release(struct sim_space *space, struct sim_extent *extents);

static inline uintptr_t sim_space_address(const struct sim_space *space, size_t unit)
{
    return space->va + unit * SIM_UNIT_BYTES;
}

/*
 * Addresses alone, for memory that comes from elsewhere: a free run near the end of the
 * range, which costs the device no memory. False if there is none. Needs space->lock.
 */
bool sim_space_take_addresses(struct sim_space *space, size_t count,
                              size_t *first) GS_MUST_USE;

/* Give such a run back. Its alias must show the device's own pages again. Takes
 * space->lock. */
void sim_space_give_addresses(struct sim_space *space, size_t first, size_t count);

/*
 * Put pages of another file behind a run's alias: the device then works on those.
 *
 * In:  fd      the file, or -1: the device's own pages again
 *      offset  bytes, a multiple of 2 MiB
 */
bool sim_space_show(struct sim_space *space, size_t first, size_t count, int fd,
                    size_t offset) GS_MUST_USE;

/* A block placed by somebody else joins the heap as a live allocation. Needs space->lock,
 * and its units point at it. */
void sim_heap_adopt(struct sim_heap *heap, struct sim_alloc *alloc);

/* The space an address belongs to, or NULL. Takes no lock. */
struct sim_space *sim_space_of(uintptr_t address);

#endif
