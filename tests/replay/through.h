/*
 * through.h - the allocators a trace is replayed through, and what is measured.
 * Owns: nothing.   Lock: see each.
 */
#ifndef REPLAY_THROUGH_H
#define REPLAY_THROUGH_H

#include "run.h"

/* A device that no trace fills. */
#define AMPLE_BYTES ((size_t)1 << 46)
#define MAX_DEVICES 16

struct outcome {
    struct run_result run;
    uint64_t reserved_peak; /* bytes taken from the driver at most */
    uint64_t calls;         /* of the driver: allocations and frees, failed ones too */
    uint64_t remaps;        /* of the driver: addresses and mappings */
    uint64_t driver_ns;     /* all calls, as an H200 took for them */
    uint64_t forwarded;     /* requests that were not the pool's */
    uint64_t waits;         /* waits for frees to become ready, on a full device */
};

/*
 * Through the pool over the modelled driver, also with pages that move, or through that
 * driver alone, which has nothing to wait for. `capacity` is each device's.
 */
void through_pool(const struct trace *trace, size_t capacity, const struct ready *ready,
                  const struct run_config *config, struct outcome *out);
void through_pages(const struct trace *trace, size_t capacity, const struct ready *ready,
                   const struct run_config *config, struct outcome *out);
void through_model(const struct trace *trace, size_t capacity,
                   const struct run_config *config, struct outcome *out);
/*
 * Through the CUDA driver of this machine, or what is put in its place.
 * In:     touch  set the first bytes of each allocation on its stream
 * Returns false if there is none; *why says so.
 */
bool through_device(const struct trace *trace, bool touch,
                    const struct run_config *config, struct outcome *out,
                    const char **why);

/* Through a cache of whole blocks over the modelled driver: neither split nor merged. */
void through_blocks(const struct trace *trace, size_t capacity,
                    const struct run_config *config, struct outcome *out);

typedef void through_function(const struct trace *trace, size_t capacity,
                              const struct ready *ready, const struct run_config *config,
                              struct outcome *out);

/* The smallest device, to 2 MiB, that the trace fits on; found by halving, so that where
 * fitting is not monotone it is one of the sizes at which that changes. */
uint64_t smallest_device(const struct trace *trace, through_function *through,
                         const struct ready *ready);

/* Host memory that the pool takes for each live allocation, where most are live. */
double metadata_bytes(const struct trace *trace, const struct ready *ready);

#endif
