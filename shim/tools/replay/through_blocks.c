/*
 * through_blocks.c - a trace through the simplest cache there is: whole blocks.
 *
 * A freed block is kept as it is. A request takes the smallest kept block that is large
 * enough and at most an eighth larger; where there is none the driver is asked. If that
 * is full, kept blocks go back, those kept longest first, one by one until it is not.
 * Nothing is split and nothing is merged: what a pool that does both has to beat.
 *
 * Owns: its devices and what is kept, for one run.
 * Lock: blocks->lock, inside every function.
 */
#include <stdlib.h>
#include <string.h>

#include "shim/tools/replay/driver_model.h"
#include "shim/tools/replay/through.h"

struct kept {
    uint64_t addr;
    size_t bytes; /* as asked of the driver */
    uint64_t stamp;
};

struct blocks {
    struct gs_mutex lock;
    struct gs_driver_model model;
    struct kept *kept; /* by size, then the longest kept first */
    size_t count, room;
    struct gs_replay_map sizes; /* by address: as asked of the driver */
    uint64_t clock;
};

static size_t rounded(size_t bytes)
{
    return gs_round_up(bytes ? bytes : 1,
                       bytes < GS_MODEL_PAGE ? GS_MODEL_GRANULE : GS_MODEL_PAGE);
}

/* The first kept block of at least that size. */
static size_t find(const struct blocks *blocks, size_t bytes)
{
    size_t low = 0, high = blocks->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (blocks->kept[middle].bytes < bytes) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct kept take_out(struct blocks *blocks, size_t at)
{
    struct kept found = blocks->kept[at];

    memmove(&blocks->kept[at], &blocks->kept[at + 1],
            (--blocks->count - at) * sizeof(*blocks->kept));
    return found;
}

/* Returns the block that was kept longest to the device; false if there is none. */
static bool give_oldest_back(struct blocks *blocks)
{
    size_t oldest = 0;
    struct kept gone;

    if (!blocks->count) {
        return false;
    }
    for (size_t i = 1; i < blocks->count; i++) {
        if (blocks->kept[i].stamp < blocks->kept[oldest].stamp) {
            oldest = i;
        }
    }
    gone = take_out(blocks, oldest);
    gs_driver_model_give(&blocks->model, gone.addr, gone.bytes);
    return true;
}

static uint64_t take(struct blocks *blocks, size_t bytes)
{
    size_t at = find(blocks, bytes);
    uint64_t addr;

    if (at < blocks->count && blocks->kept[at].bytes <= bytes + bytes / 8) {
        return take_out(blocks, at).addr;
    }
    while (!(addr = gs_driver_model_take(&blocks->model, bytes)) &&
           give_oldest_back(blocks)) {
    }
    if (addr) {
        *gs_replay_map_put(&blocks->sizes, addr, bytes) = bytes;
    }
    return addr;
}

static void keep(struct blocks *blocks, uint64_t addr)
{
    size_t bytes = *gs_replay_map_find(&blocks->sizes, addr);
    size_t at = find(blocks, bytes + 1);

    blocks->kept =
        gs_replay_grow(blocks->kept, blocks->count, &blocks->room, sizeof(*blocks->kept));
    memmove(&blocks->kept[at + 1], &blocks->kept[at],
            (blocks->count++ - at) * sizeof(*blocks->kept));
    blocks->kept[at] = (struct kept){addr, bytes, blocks->clock++};
}

static uint64_t allocate(void *self, const struct gs_replay_op *op)
{
    struct blocks *blocks = &((struct blocks *)self)[op->device % GS_REPLAY_DEVICES];
    uint64_t addr;

    gs_mutex_lock(&blocks->lock);
    addr = take(blocks, rounded(op->bytes));
    gs_mutex_unlock(&blocks->lock);
    return addr;
}

static void release(void *self, const struct gs_replay_op *op, uint64_t handle)
{
    struct blocks *blocks = &((struct blocks *)self)[op->device % GS_REPLAY_DEVICES];

    gs_mutex_lock(&blocks->lock);
    keep(blocks, handle);
    gs_mutex_unlock(&blocks->lock);
}

void gs_replay_through_blocks(const struct gs_replay_trace *trace, size_t capacity,
                              const struct gs_replay_config *config,
                              struct gs_replay_outcome *out)
{
    struct blocks *devices = gs_replay_alloc(GS_REPLAY_DEVICES, sizeof(*devices));
    struct gs_replay_target target = {
        .self = devices, .allocate = allocate, .release = release};

    *out = (struct gs_replay_outcome){0};
    for (unsigned i = 0; i < GS_REPLAY_DEVICES; i++) {
        gs_mutex_init(&devices[i].lock, GS_RANK_REPLAY_BLOCKS);
        gs_driver_model_init(&devices[i].model, capacity);
    }
    gs_replay_run(trace, &target, config, &out->run);
    for (unsigned i = 0; i < GS_REPLAY_DEVICES; i++) {
        out->reserved_peak += devices[i].model.peak;
        out->calls += devices[i].model.calls;
        gs_driver_model_free_all(&devices[i].model);
        gs_replay_map_free(&devices[i].sizes);
        gs_mutex_destroy(&devices[i].lock);
        free(devices[i].kept);
    }
    free(devices);
}
