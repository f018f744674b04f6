/*
 * pool.c - the pool as a whole: creation, destruction, sums over its heaps.
 * Owns: struct gs_pool.   Lock: none of its own.   Design: docs/pool.md
 */
#include "pool/heap.h"
#include "pool/pool_limits.h"
#include "pool/reclaim.h"

/* Returns true if the classes rise, and the largest can be rounded. */
static bool are_valid(const size_t *classes, unsigned count)
{
    if (count > GS_SIZE_CLASSES_MAX || (count && !classes)) {
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        if (classes[i] <= (i ? classes[i - 1] : 0) || classes[i] > GS_REQUEST_MAX) {
            return false;
        }
    }
    return true;
}

static bool is_valid(const struct gs_pool_config *config)
{
    return config && are_valid(config->classes, config->class_count) &&
           config->segment_bytes >= GS_LARGE_BYTES &&
           config->segment_bytes % GS_LARGE_BYTES == 0 &&
           config->segment_bytes <= GS_REQUEST_MAX &&
           (config->large_step_bytes & (config->large_step_bytes - 1)) == 0 &&
           (config->large_step_bytes == 0 || config->large_step_bytes >= GS_BLOCK_BYTES);
}

static enum gs_status init_tables(struct gs_pool *pool)
{
    enum gs_status status;

    status = gs_table_init(&pool->blocks, sizeof(struct gs_block),
                           offsetof(struct gs_block, next), &pool->meta);
    if (status == GS_OK) {
        status = gs_table_init(&pool->segments, sizeof(struct gs_segment),
                               offsetof(struct gs_segment, chain), &pool->meta);
    }
    return status;
}

static void fini_tables(struct gs_pool *pool)
{
    gs_table_fini(&pool->segments);
    gs_table_fini(&pool->blocks);
}

enum gs_status gs_pool_create(const struct gs_pool_config *config, struct gs_pool **out)
{
    enum gs_status status = GS_ERR_HOST_NOMEM;
    struct gs_pool *pool;

    if (!is_valid(config) || !out) {
        return GS_ERR_INVALID;
    }
    pool = gs_meta_map(sizeof(*pool));
    if (!pool) {
        return status;
    }
    pool->segment_bytes = config->segment_bytes;
    pool->cache_bytes = config->cache_bytes;
    pool->has_tiers = config->cache_bytes > 0;
    pool->stream_blocks = config->stream_blocks;
    pool->global_blocks = config->global_blocks;
    pool->large_step_bytes =
        config->large_step_bytes ? config->large_step_bytes : GS_LARGE_BYTES;
    pool->strict_idle = config->strict_idle;
    pool->late_pages = config->late_pages;
    atomic_init(&pool->carving, (int)config->carving);
    pool->class_count = config->class_count;
    for (unsigned i = 0; i < config->class_count; i++) {
        pool->classes[i] = config->classes[i];
    }
    gs_limits_init(pool, config->age_ms);
    gs_lock_init(&pool->meta, GS_RANK_META);
    status = gs_reclaim_init(&pool->reclaim);
    if (status != GS_OK) {
        goto no_reclaim;
    }
    status = gs_pages_init(&pool->pages);
    if (status != GS_OK) {
        goto no_pages;
    }
    status = init_tables(pool);
    if (status != GS_OK) {
        goto no_tables;
    }
    *out = pool;
    return GS_OK;

no_tables:
    fini_tables(pool);
    gs_pages_fini(&pool->pages);
no_pages:
    gs_reclaim_fini(&pool->reclaim);
no_reclaim:
    gs_meta_unmap(pool, sizeof(*pool));
    return status;
}

void gs_pool_destroy(struct gs_pool *pool)
{
    struct gs_heap *next;

    if (!pool) {
        return;
    }
    for (struct gs_heap *heap = atomic_load(&pool->heaps); heap; heap = next) {
        next = heap->next;
        gs_tiers_destroy(heap->tiers);
        gs_starts_fini(&heap->starts);
        gs_meta_unmap(heap->bins, sizeof(*heap->bins));
        gs_meta_unmap(heap->large, sizeof(*heap->large));
        gs_meta_unmap(heap, sizeof(*heap));
    }
    fini_tables(pool);
    gs_pages_fini(&pool->pages);
    gs_reclaim_fini(&pool->reclaim);
    gs_meta_unmap(pool, sizeof(*pool));
}

void gs_pool_stats(struct gs_pool *pool, int device, struct gs_pool_stats *out)
{
    struct gs_pool_stats sum = {0};

    for (struct gs_heap *heap = atomic_load(&pool->heaps); heap; heap = heap->next) {
        if (!gs_heap_on(heap, device)) {
            continue;
        }
        gs_tiers_exclude(heap);
        gs_tiers_sum(heap, &sum);
        gs_lock_take(&heap->lock);
#define GS_POOL_STAT(name, unit, doc) sum.name += heap->stats.name;
#include "pool/stats.def"
#undef GS_POOL_STAT
        gs_lock_drop(&heap->lock);
        gs_tiers_admit(heap);
    }
    /* Heaps may peak at different times, so the device row has the common peak. */
    sum.reserved_peak_bytes = gs_reclaim_row(pool, device).peak;
    *out = sum;
}

uint64_t gs_pool_reserved_bytes(struct gs_pool *pool)
{
    return gs_reclaim_row(pool, -1).reserved;
}

uint64_t gs_pool_reserved_on(struct gs_pool *pool, int device)
{
    return gs_reclaim_row(pool, device).reserved;
}

size_t gs_pool_metadata_bytes(struct gs_pool *pool)
{
    size_t bytes;

    gs_lock_take(&pool->meta);
    bytes = sizeof(*pool) + pool->heap_bytes;
    gs_lock_drop(&pool->meta);
    bytes += gs_table_bytes(&pool->blocks) + gs_table_bytes(&pool->segments);
    for (struct gs_heap *heap = atomic_load(&pool->heaps); heap; heap = heap->next) {
        gs_lock_take(&heap->lock);
        bytes += gs_starts_bytes(&heap->starts);
        gs_lock_drop(&heap->lock);
    }
    return bytes + gs_pages_bytes(&pool->pages);
}

bool gs_pool_set_cache(struct gs_pool *pool, size_t bytes, uint32_t stream_blocks,
                       uint32_t global_blocks)
{
    if (!pool->has_tiers) {
        return false;
    }
    atomic_store(&pool->cache_bytes, bytes);
    atomic_store(&pool->stream_blocks, stream_blocks);
    atomic_store(&pool->global_blocks, global_blocks);
    for (struct gs_heap *heap = atomic_load(&pool->heaps); heap; heap = heap->next) {
        gs_tiers_limit(heap);
    }
    return true;
}
