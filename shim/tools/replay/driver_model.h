/*
 * driver_model.h - a driver of which only the memory is modelled.
 *
 * Requests of 2 MiB and more are rounded up to 2 MiB; smaller ones are rounded up to 512
 * B and packed first fit into chunks of 2 MiB, a chunk going back with its last
 * allocation. What is charged never exceeds the capacity. Nothing is cached: this is what
 * a pool must not need more than.
 *
 * Owns: its chunks and its books.   Lock: model->lock, inside every function.
 */
#ifndef GS_DRIVER_MODEL_H
#define GS_DRIVER_MODEL_H

#include "gs_locks.h"
#include "shim/tools/replay/replay_map.h"

#define GS_MODEL_PAGE    ((size_t)2 << 20)
#define GS_MODEL_GRANULE ((size_t)512)

struct gs_driver_model_chunk;

struct gs_driver_model {
    struct gs_mutex lock;
    size_t capacity;
    size_t charged, peak;   /* multiples of GS_MODEL_PAGE */
    uint64_t calls, failed; /* allocations and frees asked for; of these refused */
    uint64_t remaps;        /* other calls: of addresses and mappings */
    uint64_t ns;            /* all calls, as an H200 took for them (docs/results) */
    uint64_t next_addr;     /* never used from here on */
    struct gs_driver_model_chunk *chunks;
    size_t chunk_count, chunk_room;
    struct gs_replay_map pages; /* address / GS_MODEL_PAGE: what begins there */
    struct gs_replay_map
        spares; /* pages of a freed range: the first such, by number + 1 */
    struct gs_driver_model_range *ranges;
    size_t range_count, range_room, range_free;
};

void gs_driver_model_init(struct gs_driver_model *model, size_t capacity);
void gs_driver_model_free_all(struct gs_driver_model *model);

/* The address, 0 if the device is full. */
uint64_t gs_driver_model_take(struct gs_driver_model *model, size_t bytes);
/* Give an address of gs_driver_model_take back; anything else ends the program. */
void gs_driver_model_give(struct gs_driver_model *model, uint64_t addr, size_t bytes);

/* Virtual memory management: memory of whole pages without an address. False: full. */
bool gs_driver_model_create(struct gs_driver_model *model, size_t bytes);
void gs_driver_model_release(struct gs_driver_model *model, size_t bytes);
/* Addresses without memory. */
uint64_t gs_driver_model_reserve(struct gs_driver_model *model, size_t bytes);
/* Counts a call that changes addresses or mappings, of this many nanoseconds. */
void gs_driver_model_remap(struct gs_driver_model *model, uint64_t ns);

#endif
