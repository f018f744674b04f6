/*
 * generate.c - what all presets are made with: a builder, random numbers, the table.
 * Owns: nothing.   Lock: none.
 */
#include "generate.h"

#include <stdlib.h>
#include <string.h>

#include "generate_presets.h"

const struct preset presets[] = {
#define PRESET(name, allocations, threads, streams, doc)                                 \
    {#name, doc, allocations, threads, streams, make_##name},
#include "presets.def"
#undef PRESET
};
const size_t preset_count = GS_ARRAY_LEN(presets);

const struct preset *preset_find(const char *name)
{
    for (size_t i = 0; i < preset_count; i++)
        if (!strcmp(presets[i].name, name))
            return &presets[i];
    return NULL;
}

/* xorshift64* */
uint64_t builder_draw(struct builder *builder, uint64_t limit)
{
    uint64_t x = builder->random;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    builder->random = x;
    return (x * 0x2545f4914f6cdd1dull >> 11) % limit;
}

double builder_draw_size(struct builder *builder, double low, double high)
{
    double part = (double)builder_draw(builder, 1 << 20) / (1 << 20);

    /* Exact on every machine: octaves by halving, and a straight line within one. */
    double octaves = part;
    double top = high;
    unsigned count = 0;

    while (top > low) {
        top /= 2;
        count++;
    }
    octaves *= count;
    for (top = low; octaves >= 1; octaves -= 1)
        top *= 2;
    top += top * octaves;
    return top < high ? top : high;
}

void builder_pause(struct builder *builder, uint64_t ns)
{
    builder->now_ns += ns;
}

static struct gs_replay_op operation(struct builder *builder, unsigned op)
{
    builder->now_ns += 1000 + builder_draw(builder, 9000);
    return (struct gs_replay_op){.time_ns = builder->now_ns,
                                 .thread = builder->thread,
                                 .stream = (uint16_t)builder->stream,
                                 .op = (uint8_t)op};
}

uint32_t builder_alloc(struct builder *builder, double bytes)
{
    struct gs_replay_op op = operation(builder, GS_TRACE_ALLOC);
    double scaled = bytes * builder->scale;

    if (builder->made_count == builder->made_room) {
        uint32_t room = builder->made_room ? 2 * builder->made_room : 1024;
        struct gs_replay_op *made = gs_replay_alloc(room, sizeof(*made));

        if (builder->made_count)
            memcpy(made, builder->made, builder->made_count * sizeof(*made));
        free(builder->made);
        builder->made = made;
        builder->made_room = room;
    }
    op.bytes = scaled >= 1 ? (uint64_t)scaled : 1;
    op.id = builder->made_count;
    op.kind = GS_TRACE_KIND_DEVICE;
    builder->made[builder->made_count++] = op;
    gs_replay_add(builder->trace, &op);
    return op.id;
}

void builder_free(struct builder *builder, uint32_t id)
{
    struct gs_replay_op op = operation(builder, GS_TRACE_FREE);

    op.id = id;
    op.bytes = builder->made[id].bytes;
    op.kind = builder->made[id].kind;
    gs_replay_add(builder->trace, &op);
}

void builder_sync(struct builder *builder)
{
    struct gs_replay_op op = operation(builder, GS_TRACE_SYNC);

    op.how = GS_TRACE_SYNC_CONTEXT;
    gs_replay_add(builder->trace, &op);
}

void generate(const struct preset *preset, const struct generate_settings *settings,
              struct gs_replay_trace *out)
{
    uint64_t seed = settings->seed * 0x9e3779b97f4a7c15ull + 0x1234567;
    struct builder builder = {
        .trace = out,
        .random = seed ? seed : 1,
        .scale = settings->scale > 0 ? settings->scale : 1,
        .goal = settings->allocations ? settings->allocations : preset->allocations,
        .threads = settings->threads ? settings->threads : preset->threads,
        .streams = settings->streams ? settings->streams : preset->streams};

    *out = (struct gs_replay_trace){0};
    preset->make(&builder);
    free(builder.made);
}
