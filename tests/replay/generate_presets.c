/*
 * generate_presets.c - the presets of presets.def.
 *
 * A maker goes on until the allocations wanted are made, and leaves some memory live at
 * the end, as programs do.
 *
 * Owns: nothing.   Lock: none.
 */
#include "generate_presets.h"

#include <stdlib.h>

#include "generate.h"

#define KIB 1024.0
#define MIB (1024.0 * 1024.0)

/* ---- training -----------------------------------------------------------------------
 */

#define LAYERS 24

/* One layer forward: what the backward pass needs stays, workspace goes at once. */
static void layer_forward(struct builder *builder, unsigned layer, double batch,
                          uint32_t kept[2])
{
    double width = 256 * KIB * (1 + layer % 5);
    uint32_t workspace;

    kept[0] = builder_alloc(builder, width * batch);
    workspace = builder_alloc(builder, 4 * MIB + 512 * KIB * (layer % 3));
    kept[1] = builder_alloc(builder, 16 * KIB * (1 + layer % 7));
    builder->stream = builder->streams > 1 ? 2 : 1;
    (void)builder_alloc(builder, 512); /* a scalar that the next step's end frees */
    builder->stream = 1;
    builder_free(builder, workspace);
}

static void layer_backward(struct builder *builder, double batch, unsigned layer,
                           const uint32_t kept[2])
{
    double width = 256 * KIB * (1 + layer % 5);
    uint32_t gradient = builder_alloc(builder, width * batch);
    uint32_t workspace = builder_alloc(builder, 6 * MIB);

    builder_free(builder, workspace);
    builder_free(builder, kept[0]);
    builder_free(builder, kept[1]);
    builder_free(builder, gradient);
}

void make_train(struct builder *builder)
{
    uint32_t kept[LAYERS][2];
    double batch = 16;

    builder->stream = 1;
    for (unsigned layer = 0; layer < LAYERS; layer++) {
        (void)builder_alloc(builder, MIB * (1 + layer % 4 * 3)); /* weights */
        (void)builder_alloc(builder, 4 * KIB);
        (void)builder_alloc(builder, 2 * MIB * (1 + layer % 4 * 3)); /* optimizer */
    }
    for (unsigned step = 0; !builder_done(builder); step++) {
        uint32_t first_scalar = builder->made_count;

        if (step % 10 == 9) /* the data's size drifts */
            batch = 12 + (double)builder_draw(builder, 64) / 8;
        for (unsigned layer = 0; layer < LAYERS; layer++)
            layer_forward(builder, layer, batch, kept[layer]);
        for (unsigned layer = LAYERS; layer-- > 0;)
            layer_backward(builder, batch, layer, kept[layer]);
        builder_sync(builder);
        for (uint32_t id = first_scalar; id < builder->made_count; id++)
            if (builder->made[id].bytes == (uint64_t)(512 * builder->scale))
                builder_free(builder, id);
        builder_pause(builder, 1000000);
    }
}

/* ---- inference ----------------------------------------------------------------------
 */

#define CACHE_BLOCKS 64
#define REQUESTS     32

struct request {
    uint32_t cache[CACHE_BLOCKS];
    unsigned blocks;
    unsigned steps; /* still to come; 0: no request */
    double tokens;
    uint32_t thread;
};

static void request_begin(struct builder *builder, struct request *request,
                          uint32_t number)
{
    request->tokens = builder_draw_size(builder, 16, 4096);
    request->steps = 1 + (unsigned)builder_draw(builder, 40);
    request->blocks = 0;
    request->thread = number % builder->threads;
}

/* One step: scratch of the present length, now and then one more cache block. */
static void request_step(struct builder *builder, struct request *request)
{
    double tokens = request->tokens;
    uint32_t hidden = builder_alloc(builder, tokens * 2 * 1024);
    uint32_t scores = builder_alloc(
        builder, tokens * tokens * 2 < 64 * MIB ? tokens * tokens * 2 : 64 * MIB);
    uint32_t logits = builder_alloc(builder, 64 * KIB);

    if (request->blocks < CACHE_BLOCKS &&
        (request->blocks == 0 || builder_draw(builder, 3) == 0))
        request->cache[request->blocks++] = builder_alloc(builder, tokens * 512);
    builder_free(builder, scores);
    builder_free(builder, hidden);
    builder_free(builder, logits);
    request->tokens += 1;
    if (--request->steps == 0)
        while (request->blocks > 0)
            builder_free(builder, request->cache[--request->blocks]);
}

void make_infer(struct builder *builder)
{
    struct request requests[REQUESTS] = {0};
    uint32_t number = 0;

    builder->stream = 1;
    for (unsigned i = 0; i < 64; i++) /* the model */
        (void)builder_alloc(builder, i % 4 ? 3 * MIB : 24 * MIB);
    while (!builder_done(builder)) {
        struct request *request = &requests[builder_draw(builder, REQUESTS)];

        if (request->steps == 0)
            request_begin(builder, request, number++);
        builder->thread = request->thread;
        builder->stream = 1 + request->thread % builder->streams;
        request_step(builder, request);
    }
}

/* ---- random lifetimes -----------------------------------------------------------------
 */

#define SLOTS 2048

/* Replace what is in a random one of `slots` by something of a size that `draw` says. */
static void replace_random(struct builder *builder, unsigned slots,
                           double (*draw)(struct builder *builder))
{
    uint32_t live[SLOTS]; /* id + 1 */

    for (unsigned i = 0; i < slots; i++)
        live[i] = 0;
    while (!builder_done(builder)) {
        unsigned slot = (unsigned)builder_draw(builder, slots);

        builder->thread = (uint32_t)builder_draw(builder, builder->threads);
        builder->stream = 1 + (uint32_t)builder_draw(builder, builder->streams);
        if (live[slot]) {
            builder_free(builder, live[slot] - 1);
            live[slot] = 0;
        }
        if (builder_draw(builder, 8) != 0)
            live[slot] = builder_alloc(builder, draw(builder)) + 1;
        if (builder_draw(builder, 1000) == 0)
            builder_sync(builder);
    }
}

static double draw_pow2(struct builder *builder)
{
    return 512.0 * (double)((uint64_t)1 << builder_draw(builder, 18));
}

void make_pow2(struct builder *builder)
{
    replace_random(builder, 256, draw_pow2);
}

static double draw_mixed(struct builder *builder)
{
    if (builder_draw(builder, 50) == 0)
        return builder_draw_size(builder, 2 * MIB, 128 * MIB);
    return builder_draw_size(builder, 64, 256 * KIB);
}

void make_mixed(struct builder *builder)
{
    replace_random(builder, SLOTS, draw_mixed);
}

static double draw_narrow(struct builder *builder)
{
    return builder_draw_size(builder, 64 * KIB, 160 * KIB);
}

void make_narrow(struct builder *builder)
{
    replace_random(builder, SLOTS, draw_narrow);
}

/* ---- adversaries ----------------------------------------------------------------------
 */

#define TEETH 256

void make_comb(struct builder *builder)
{
    uint32_t teeth[TEETH], odd[TEETH / 2], wide[TEETH / 2];
    double bytes = 4 * KIB;
    unsigned kept = 0;

    builder->stream = 1;
    while (!builder_done(builder)) {
        for (unsigned i = 0; i < TEETH; i++)
            teeth[i] = builder_alloc(builder, bytes);
        for (unsigned i = 0; i < TEETH; i += 2)
            builder_free(builder, teeth[i]);
        for (unsigned i = 0; i < kept; i++) { /* the last row's, before the holes fill */
            builder_free(builder, odd[i]);
            builder_free(builder, wide[i]);
        }
        for (kept = 0; kept < TEETH / 2; kept++) {
            odd[kept] = teeth[2 * kept + 1];
            wide[kept] = builder_alloc(builder, bytes * 1.125);
        }
        bytes = bytes < 6 * MIB ? bytes * 1.25 : 4 * KIB;
    }
}

#define STAIRS 16

void make_stairs(struct builder *builder)
{
    uint32_t live[STAIRS];
    double bytes[STAIRS];

    builder->stream = 1;
    for (unsigned i = 0; i < STAIRS; i++) {
        bytes[i] = builder_draw_size(builder, 2 * MIB, 8 * MIB);
        live[i] = builder_alloc(builder, bytes[i]);
    }
    while (!builder_done(builder)) {
        unsigned i = (unsigned)builder_draw(builder, STAIRS);
        uint32_t before = live[i];

        bytes[i] *= 1.125 + 0.375 * (double)builder_draw(builder, 1024) / 1024;
        if (bytes[i] > 512 * MIB)
            bytes[i] = builder_draw_size(builder, 2 * MIB, 8 * MIB);
        live[i] = builder_alloc(builder, bytes[i]); /* the old one is copied over */
        builder_free(builder, before);
    }
}

/* ---- threads --------------------------------------------------------------------------
 */

#define BURST 64

void make_bursts(struct builder *builder)
{
    uint32_t *live = gs_replay_alloc((size_t)BURST * builder->threads, sizeof(*live));

    while (!builder_done(builder)) {
        uint32_t count = 0, each = 1 + (uint32_t)builder_draw(builder, BURST);
        uint32_t owner = (uint32_t)builder_draw(builder, builder->threads);

        for (uint32_t i = 0; i < each; i++) { /* they take turns */
            for (uint32_t thread = 0; thread < builder->threads; thread++) {
                builder->thread = thread;
                builder->stream = 1 + thread % builder->streams;
                live[count++] =
                    builder_alloc(builder, builder_draw_size(builder, 512, 4 * MIB));
            }
        }
        builder->thread = owner;
        builder->stream = 1 + owner % builder->streams;
        builder_sync(builder);
        while (count > 0)
            builder_free(builder, live[--count]);
        builder_pause(builder, 5000000);
    }
    free(live);
}

#define QUEUE 128

void make_remote(struct builder *builder)
{
    uint32_t queue[QUEUE], used = 0;

    while (!builder_done(builder)) {
        uint32_t maker = (uint32_t)builder_draw(builder, builder->threads);

        if (used < QUEUE && (used == 0 || builder_draw(builder, 2) == 0)) {
            builder->thread = maker;
            builder->stream = 1 + maker % builder->streams;
            queue[used++] =
                builder_alloc(builder, builder_draw_size(builder, 512, 16 * MIB));
            continue;
        }
        /* The oldest but a few; anybody but its maker, if there is anybody. */
        uint32_t at = (uint32_t)builder_draw(builder, used);
        uint32_t id = queue[at];

        queue[at] = queue[--used];
        if (maker == builder->made[id].thread)
            maker = (maker + 1) % builder->threads;
        builder->thread = maker;
        builder->stream = 1 + maker % builder->streams;
        builder_free(builder, id);
    }
}

/* ---- pressure ------------------------------------------------------------------------
 */

#define PRESSURE_SLOTS 64
#define PRESSURE_BYTES (716 * MIB)

void make_pressure(struct builder *builder)
{
    uint32_t ids[PRESSURE_SLOTS];
    double held[PRESSURE_SLOTS] = {0}, live = 0;

    while (!builder_done(builder)) {
        double bytes = builder_draw_size(builder, MIB, 64 * MIB);
        unsigned slot = (unsigned)builder_draw(builder, PRESSURE_SLOTS);

        while (held[slot] > 0 || live + bytes > PRESSURE_BYTES) {
            if (held[slot] > 0) {
                live -= held[slot];
                held[slot] = 0;
                builder_free(builder, ids[slot]);
            }
            if (live + bytes > PRESSURE_BYTES)
                slot = (unsigned)builder_draw(builder, PRESSURE_SLOTS);
        }
        ids[slot] = builder_alloc(builder, bytes);
        held[slot] = bytes;
        live += bytes;
    }
}
