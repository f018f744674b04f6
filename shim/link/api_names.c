/*
 * api_names.c - the display name of each wrapper, from hooks.def.
 * Owns:  the table that gs_api_names fills.   Lock: none; each call stores the same
 * names.
 */
#include "shim/link/real.h"

/* Names are texts and offsets instead of pointers, so that a program that never calls
 * CUDA does not pay for relocating them. */
static const struct api_text {
#define GS_HOOK(symbol, name, since, stream, treatment, doc) char symbol[sizeof(name)];
#define GS_RUNTIME(symbol, doc)                              char symbol[sizeof(#symbol)];
#include "shim/entries/hooks.def"
#undef GS_RUNTIME
#undef GS_HOOK
} text = {
#define GS_HOOK(symbol, name, since, stream, treatment, doc) name,
#define GS_RUNTIME(symbol, doc)                              #symbol,
#include "shim/entries/hooks.def"
#undef GS_RUNTIME
#undef GS_HOOK
};

static const uint16_t offsets[GS_API_COUNT] = {
#define OFFSET(symbol)                                       [GS_API_##symbol] = offsetof(struct api_text, symbol),
#define GS_HOOK(symbol, name, since, stream, treatment, doc) OFFSET(symbol)
#define GS_RUNTIME(symbol, doc)                              OFFSET(symbol)
#include "shim/entries/hooks.def"
#undef GS_RUNTIME
#undef GS_HOOK
};
static_assert(sizeof(struct api_text) <= UINT16_MAX, "offsets fit");

const char *gs_api_name(unsigned api)
{
    return api == GS_API_UNKNOWN || api >= GS_API_COUNT
               ? "unknown"
               : (const char *)&text + offsets[api];
}

/* As a constant, each name would cost every start a relocation. Threads that fill the
 * table at once write the same addresses. */
const char *const *gs_api_names(void)
{
    static const char *names[GS_API_COUNT];
    for (unsigned api = 0; api < GS_API_COUNT; api++) {
        __atomic_store_n(&names[api], gs_api_name(api), __ATOMIC_RELAXED);
    }
    return names;
}
