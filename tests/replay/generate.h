/*
 * generate.h - allocation traces made from a seed.
 *
 * A preset is a kind of program; the same preset, seed and settings give the same trace
 * on every machine. What each preset does is said once, in presets.def.
 *
 * Owns: nothing.   Lock: none.   Design: docs/traces.md
 */
#ifndef REPLAY_GENERATE_H
#define REPLAY_GENERATE_H

#include "shim/tools/replay/replay_trace.h"

struct builder;

struct generate_settings {
    uint64_t seed;
    uint32_t allocations; /* about so many; 0: the preset's own */
    uint32_t threads;     /* likewise */
    uint32_t streams;     /* likewise; without the default stream */
    double scale;         /* sizes are multiplied by this */
};

struct preset {
    const char *name, *doc;
    uint32_t allocations, threads, streams;
    void (*make)(struct builder *builder);
};

extern const struct preset presets[];
extern const size_t preset_count;

/* The preset of that name, or NULL. */
const struct preset *preset_find(const char *name);
/* Out: *out  to be freed with gs_replay_free */
void generate(const struct preset *preset, const struct generate_settings *settings,
              struct gs_replay_trace *out);

/* ---- for the presets --------------------------------------------------------------- */

struct builder {
    struct gs_replay_trace *trace;
    uint64_t random; /* never 0 */
    uint64_t now_ns;
    double scale;
    uint32_t goal; /* allocations wanted */
    uint32_t threads, streams;
    uint32_t thread, stream;   /* of the operations that follow */
    struct gs_replay_op *made; /* allocations by id */
    uint32_t made_count, made_room;
};

static inline bool builder_done(const struct builder *builder)
{
    return builder->made_count >= builder->goal;
}

/* The id of a new allocation. */
uint32_t builder_alloc(struct builder *builder, double bytes);
/* On the builder's present thread and stream; `how` says nothing of the memory's maker.
 */
void builder_free(struct builder *builder, uint32_t id);
/* A wait for everything. */
void builder_sync(struct builder *builder);
/* Time passes. */
void builder_pause(struct builder *builder, uint64_t ns);

/* Below `limit`, which is not 0. */
uint64_t builder_draw(struct builder *builder, uint64_t limit);
/* From `low` to `high`, each octave as likely as any other. */
double builder_draw_size(struct builder *builder, double low, double high);

#endif
