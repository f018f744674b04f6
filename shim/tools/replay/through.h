/*
 * through.h - the allocators a trace is replayed through, and what is measured.
 * Owns: nothing.   Lock: see each.
 */
#ifndef GS_REPLAY_THROUGH_H
#define GS_REPLAY_THROUGH_H

#include "pool/pool.h"
#include "shim/limits/size_classes.h"
#include "shim/limits/warmup_list.h"
#include "shim/tools/replay/replay_run.h"

/* A device that no trace fills. */
#define GS_REPLAY_AMPLE   ((size_t)1 << 46)
#define GS_REPLAY_DEVICES 16

/* The settings of a pool that a replay can represent (replay_settings.c). */
struct gs_replay_pool {
    struct gs_pool_config config; /* its classes are those below */
    struct gs_size_classes classes;
    bool pages;           /* GPUSHIM_POOL_VMM */
    uint64_t limit, idle; /* shares of the device: GPUSHIM_POOL_LIMIT, _RELEASE */
    struct gs_warmup_list warmup;
};

/* What a pool asked of the driver, in this order. */
struct gs_replay_segments {
    struct gs_replay_segment {
        uint64_t addr;
        size_t bytes;   /* of the segment */
        size_t request; /* for which it was asked; 0: it was returned */
    } * items;
    size_t count, room;
};

struct gs_replay_outcome {
    struct gs_replay_result run;
    uint64_t reserved_peak; /* bytes taken from the driver at most */
    uint64_t calls;         /* of the driver: allocations and frees, failed ones too */
    uint64_t remaps;        /* of the driver: addresses and mappings */
    uint64_t driver_ns;     /* all calls, as an H200 took for them */
    uint64_t warm_calls;    /* of these, for GPUSHIM_WARMUP, before the first operation */
    uint64_t forwarded;     /* requests that were not the pool's */
    uint64_t waits;         /* waits for frees to become ready, on a full device */
};

/*
 * Through the pool over the modelled driver, or through that driver alone, which has
 * nothing to wait for. `capacity` is each device's.
 */
void gs_replay_through_pool(const struct gs_replay_trace *trace, size_t capacity,
                            const struct gs_replay_ready *ready,
                            const struct gs_replay_config *config,
                            struct gs_replay_outcome *out);
void gs_replay_through_model(const struct gs_replay_trace *trace, size_t capacity,
                             const struct gs_replay_config *config,
                             struct gs_replay_outcome *out);
/* Through a cache of whole blocks over the modelled driver: neither split nor merged. */
void gs_replay_through_blocks(const struct gs_replay_trace *trace, size_t capacity,
                              const struct gs_replay_config *config,
                              struct gs_replay_outcome *out);

typedef void gs_replay_through(const struct gs_replay_trace *trace, size_t capacity,
                               const struct gs_replay_ready *ready,
                               const struct gs_replay_config *config,
                               struct gs_replay_outcome *out);

/* The smallest device, to 2 MiB, that the trace fits on; found by halving, so that where
 * fitting is not monotone it is one of the sizes at which that changes. Of the
 * configuration only `pool` counts. */
uint64_t gs_replay_smallest(const struct gs_replay_trace *trace,
                            gs_replay_through *through,
                            const struct gs_replay_ready *ready,
                            const struct gs_replay_config *config);

/* Host memory that the pool takes for each live allocation, where most are live;
 * negative: not known. */
double gs_replay_metadata(const struct gs_replay_trace *trace,
                          const struct gs_replay_ready *ready,
                          const struct gs_replay_pool *pool);

#endif
