/*
 * generate_presets.h - the makers of presets.def, one each.
 */
#ifndef REPLAY_GENERATE_PRESETS_H
#define REPLAY_GENERATE_PRESETS_H

struct builder;

#define PRESET(name, allocations, threads, streams, doc)                                 \
    void make_##name(struct builder *builder);
#include "presets.def"
#undef PRESET

#endif
