/*
 * model.h - a driver of which only the memory is modelled.
 *
 * Requests of 2 MiB and more are rounded up to 2 MiB; smaller ones are rounded up to 512
 * B and packed first fit into chunks of 2 MiB, a chunk going back with its last
 * allocation. What is charged never exceeds the capacity. Nothing is cached: this is what
 * a pool must not need more than.
 *
 * Owns: its chunks and its books.   Lock: model->lock, inside every function.
 */
#ifndef REPLAY_MODEL_H
#define REPLAY_MODEL_H

#include <pthread.h>

#include "map.h"

#define MODEL_PAGE    ((size_t)2 << 20)
#define MODEL_GRANULE ((size_t)512)

struct model_chunk;

struct model {
    pthread_mutex_t lock;
    size_t capacity;
    size_t charged, peak;   /* multiples of MODEL_PAGE */
    uint64_t calls, failed; /* allocations and frees asked for; of these refused */
    uint64_t remaps;        /* other calls: of addresses and mappings */
    uint64_t ns;            /* all calls, as an H200 took for them (docs/results) */
    uint64_t next_addr;     /* never used from here on */
    struct model_chunk *chunks;
    size_t chunk_count, chunk_room;
    struct map pages;  /* address / MODEL_PAGE: what begins there */
    struct map spares; /* pages of a freed range: the first such, by number + 1 */
    struct model_range *ranges;
    size_t range_count, range_room, range_free;
};

void model_init(struct model *model, size_t capacity);
void model_free_all(struct model *model);

/* The address, 0 if the device is full. */
uint64_t model_take(struct model *model, size_t bytes);
/* Give an address of model_take back; anything else ends the program. */
void model_give(struct model *model, uint64_t addr, size_t bytes);

/* Virtual memory management: memory of whole pages without an address. False: full. */
bool model_create(struct model *model, size_t bytes);
void model_release(struct model *model, size_t bytes);
/* Addresses without memory. */
uint64_t model_reserve(struct model *model, size_t bytes);
/* Counts a call that changes addresses or mappings, of so many nanoseconds. */
void model_remap(struct model *model, uint64_t ns);

#endif
