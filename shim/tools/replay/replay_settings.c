/*
 * replay_settings.c - what a replay takes from GPUSHIM_* variables.
 *
 * Of the pool's settings these are the ones that need neither time nor other processes.
 *
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/replay/replay.h"

#include "shim/limits/cache_sizes.h"

static void ignore(void *self, const char *item, size_t length, const char *problem)
{
    (void)self;
    gs_replay_warn("GPUSHIM_WARMUP: '%.*s': %s; ignored", (int)length, item, problem);
}

void gs_replay_settings(const struct gs_options *options, struct gs_replay_pool *out)
{
    struct gs_cache_sizes cache;

    *out = (struct gs_replay_pool){.limit = options->pool_limit,
                                   .idle = options->pool_release,
                                   .pages = options->pool_vmm};
    gs_size_classes_read(options->pool_size_classes, &out->classes);
    gs_cache_sizes_read(options->pool_cache, &cache);
    gs_warmup_read(options->warmup, &out->warmup, ignore, NULL);
    out->config = (struct gs_pool_config){
        .segment_bytes = options->pool_segment_bytes,
        .cache_bytes = cache.bytes,
        .stream_blocks = cache.stream_blocks,
        .global_blocks = cache.global_blocks,
        .carving = options->pool_vmm == GS_VMM_ON ? GS_CARVE_NEVER
                                                  : (enum gs_carving)options->pool_carve,
        .late_pages = options->pool_vmm == GS_VMM_AUTO};
}
