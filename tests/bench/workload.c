/*
 * workload.c - the scenarios, as lists of allocations and frees.
 *
 * The lists are made before anything is timed and are the same for every allocator and on
 * every run: the generator's seed is fixed.
 *
 * Owns: nothing.   Lock: none; one thread builds.
 */
#include "bench.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "gs_base.h"

#define HOLES          65536
#define REPLACEMENTS   8192 /* in a cycle */
#define PAIRS          256  /* in a cycle of pairs of one size */
#define PRESSURE_SLOTS 64
#define PRESSURE_STEPS 2048
#define PRESSURE_BYTES (716 * GS_MIB) /* 70 % of 1 GiB */
#define LAYERS         12
#define SEQUENCE       512
#define HIDDEN         768
#define HEADS          12
#define BATCH_SIZE     4
#define ELEMENT_BYTES  2 /* half precision */

static void add(struct bench_ops *ops, uint32_t slot, size_t bytes)
{
    if (ops->count == ops->room) {
        ops->room = ops->room ? 2 * ops->room : 1024;
        ops->list = realloc(ops->list, ops->room * sizeof(*ops->list));
        if (!ops->list) {
            fprintf(stderr, "bench: no memory for the list of operations\n");
            exit(1);
        }
    }
    ops->list[ops->count++] = (struct bench_op){slot, bytes};
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

/* At least 2^low and below 2^high: each octave as likely as any other. */
static size_t random_size(uint64_t *state, unsigned low, unsigned high)
{
    size_t octave = (size_t)1 << (low + next_random(state) % (high - low));

    return octave + next_random(state) % octave;
}

static void build_pairs(struct bench_workload *workload, size_t bytes)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        add(&workload->cycle, 0, bytes);
        add(&workload->cycle, 0, 0);
    }
}

/* `live` blocks; a random one is replaced by one of a random size. */
static void build_replace(struct bench_workload *workload, uint32_t live, unsigned low,
                          unsigned high)
{
    uint64_t state = 88172645463325252u;

    for (uint32_t i = 0; i < live; i++)
        add(&workload->setup, i, random_size(&state, low, high));
    for (unsigned i = 0; i < REPLACEMENTS; i++) {
        uint32_t slot = (uint32_t)(next_random(&state) % live);

        add(&workload->cycle, slot, 0);
        add(&workload->cycle, slot, random_size(&state, low, high));
    }
}

static void hitpair(struct bench_workload *workload)
{
    build_pairs(workload, GS_KIB);
}

static void pair_4k(struct bench_workload *workload)
{
    build_pairs(workload, 4 * GS_KIB);
}

static void pair_64k(struct bench_workload *workload)
{
    build_pairs(workload, 64 * GS_KIB);
}

static void sizes(struct bench_workload *workload)
{
    build_replace(workload, 256, 9, 23);
}

/* Blocks of 1 KiB, every second of them freed again where `open`. */
static void build_holes(struct bench_workload *workload, bool open)
{
    const uint32_t blocks = open ? 2 * HOLES : HOLES;

    for (uint32_t i = 0; i < blocks; i++)
        add(&workload->setup, i, GS_KIB);
    for (uint32_t i = 0; open && i < blocks; i += 2)
        add(&workload->setup, i, 0);
    for (unsigned i = 0; i < PAIRS; i++) {
        add(&workload->cycle, blocks, GS_KIB);
        add(&workload->cycle, blocks, 0);
    }
}

static void holes(struct bench_workload *workload)
{
    build_holes(workload, true);
}

static void no_holes(struct bench_workload *workload)
{
    build_holes(workload, false);
}

static void dotcompute_1mb(struct bench_workload *workload)
{
    build_pairs(workload, GS_MIB);
}

static void dotcompute_10mb(struct bench_workload *workload)
{
    build_pairs(workload, 10 * GS_MIB);
}

static void dotcompute_100mb(struct bench_workload *workload)
{
    build_pairs(workload, 100 * GS_MIB);
}

static void dotcompute_100(struct bench_workload *workload)
{
    for (uint32_t i = 0; i < 100; i++)
        add(&workload->cycle, i, GS_MIB);
    for (uint32_t i = 0; i < 100; i++)
        add(&workload->cycle, i, 0);
}

/* One size, 64 live, the oldest replaced. */
static void genesis_same(struct bench_workload *workload)
{
    for (uint32_t i = 0; i < 64; i++)
        add(&workload->setup, i, 256 * GS_KIB);
    for (uint32_t i = 0; i < 64; i++) {
        add(&workload->cycle, i, 0);
        add(&workload->cycle, i, 256 * GS_KIB);
    }
}

static void genesis_variable(struct bench_workload *workload)
{
    build_replace(workload, 64, 9, 20);
}

static void genesis_large(struct bench_workload *workload)
{
    build_replace(workload, 16, 20, 26);
}

/*
 * Memory pressure, for a device of 1 GiB: up to 64 live of 1 MiB to 64 MiB, random ones
 * freed until the next fits into 70 % of it, and all of them at the end. What was freed
 * and kept has to be given back, or put together, again and again.
 */
static void genesis_pressure(struct bench_workload *workload)
{
    size_t held[PRESSURE_SLOTS] = {0}, live = 0;
    uint64_t state = 88172645463325252u;

    for (unsigned i = 0; i < PRESSURE_STEPS; i++) {
        size_t bytes = random_size(&state, 20, 26);
        uint32_t slot = (uint32_t)(next_random(&state) % PRESSURE_SLOTS);

        while (held[slot] || live + bytes > PRESSURE_BYTES) {
            if (held[slot]) {
                live -= held[slot];
                held[slot] = 0;
                add(&workload->cycle, slot, 0);
            }
            if (live + bytes > PRESSURE_BYTES)
                slot = (uint32_t)(next_random(&state) % PRESSURE_SLOTS);
        }
        add(&workload->cycle, slot, bytes);
        held[slot] = bytes;
        live += bytes;
    }
    for (uint32_t slot = 0; slot < PRESSURE_SLOTS; slot++) {
        if (held[slot])
            add(&workload->cycle, slot, 0);
    }
}

/* What a layer leaves for the backward pass, and what it needs meanwhile only. */
struct tensor {
    size_t bytes;
    bool kept;
};

static void genesis_transformer(struct bench_workload *workload)
{
    const size_t state = (size_t)BATCH_SIZE * SEQUENCE * HIDDEN * ELEMENT_BYTES;
    const size_t scores = (size_t)BATCH_SIZE * HEADS * SEQUENCE * SEQUENCE;
    const size_t row_sums = (size_t)BATCH_SIZE * SEQUENCE * sizeof(float);
    const struct tensor layer[] = {
        {2 * row_sums, true},            /* layer norm: mean and deviation */
        {state, true},                   /* its result */
        {3 * state, true},               /* query, key, value */
        {scores * ELEMENT_BYTES, false}, /* scores before the softmax */
        {scores * ELEMENT_BYTES, true},  /* after it */
        {scores / 8, true},              /* dropout mask, a bit an element */
        {state, true},                   /* context */
        {state, false},                  /* projection, added to the input */
        {2 * row_sums, true},            /* the second layer norm */
        {state, true},                   /* its result */
        {4 * state, true},               /* feed-forward, inner */
        {4 * state, false},              /* before its activation function */
        {state, true},                   /* the layer's result */
    };
    const uint32_t tensors = GS_ARRAY_LEN(layer);
    const uint32_t gradient = LAYERS * tensors;
    struct bench_ops *ops = &workload->cycle;

    for (uint32_t i = 0; i < LAYERS; i++) {
        for (uint32_t t = 0; t < tensors; t++)
            add(ops, i * tensors + t, layer[t].bytes);
        for (uint32_t t = 0; t < tensors; t++) {
            if (!layer[t].kept)
                add(ops, i * tensors + t, 0);
        }
    }
    for (uint32_t i = LAYERS; i-- > 0;) {
        for (uint32_t t = tensors; t-- > 0;) {
            if (!layer[t].kept)
                continue;
            add(ops, gradient, layer[t].bytes);
            add(ops, i * tensors + t, 0);
            add(ops, gradient, 0);
        }
    }
}

/* What each is: scripts/bench --list. */
const struct bench_scenario bench_scenarios[] = {
    {"hitpair", hitpair},
    {"pair4k", pair_4k},
    {"pair64k", pair_64k},
    {"sizes", sizes},
    {"holes", holes},
    {"noholes", no_holes},
    {"dotcompute-1mb", dotcompute_1mb},
    {"dotcompute-10mb", dotcompute_10mb},
    {"dotcompute-100mb", dotcompute_100mb},
    {"dotcompute-100", dotcompute_100},
    {"genesis-same", genesis_same},
    {"genesis-variable", genesis_variable},
    {"genesis-large", genesis_large},
    {"genesis-pressure", genesis_pressure},
    {"genesis-transformer", genesis_transformer},
    {NULL, NULL},
};

void bench_workload_build(const struct bench_scenario *scenario,
                          struct bench_workload *workload)
{
    scenario->build(workload);
    for (size_t i = 0; i < workload->setup.count; i++) {
        if (workload->setup.list[i].slot >= workload->slots)
            workload->slots = workload->setup.list[i].slot + 1;
    }
    for (size_t i = 0; i < workload->cycle.count; i++) {
        if (workload->cycle.list[i].slot >= workload->slots)
            workload->slots = workload->cycle.list[i].slot + 1;
        workload->pairs += workload->cycle.list[i].bytes != 0;
    }
}

void bench_workload_free(struct bench_workload *workload)
{
    free(workload->setup.list);
    free(workload->cycle.list);
    *workload = (struct bench_workload){0};
}
