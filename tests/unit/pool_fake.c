/*
 * pool_fake.c - the counting device of the pool's tests. See pool_fake.h.
 */
#include "pool_fake.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "pool/lock.h"

static void note(struct fake *fake, const char *what)
{
    if (!fake->broken)
        fake->broken = what;
}

/* Every entry: no lock of the pool may be held. In a single-threaded test asking the pool
 * anything takes all its locks, and would hang if one was. */
static void probe(struct fake *fake)
{
    if (!gs_lock_none_held())
        note(fake, "a pool lock was held during a call of the backend");
    if (fake->pool) {
        struct gs_pool_stats stats;

        (void)gs_pool_idle_bytes(fake->pool, -1);
        gs_pool_stats(fake->pool, -1, &stats);
    }
}

/* Lowest gap for `bytes`; the index at which the region has to be inserted. */
static size_t find_gap(const struct fake *fake, size_t bytes, uint64_t *addr)
{
    uint64_t next = FAKE_BASE;
    size_t i;

    for (i = 0; i < fake->region_count; i++) {
        const struct fake_region *region = &fake->regions[i];

        if (region->addr >= next && region->addr - next >= bytes)
            break;
        next = gs_round_up(region->addr + region->bytes, GS_LARGE_BYTES);
    }
    *addr = next;
    return i;
}

static void insert(struct fake *fake, size_t at, uint64_t addr, size_t bytes,
                   size_t charged)
{
    if (fake->region_count == fake->region_room) {
        fake->region_room = fake->region_room ? 2 * fake->region_room : 64;
        fake->regions =
            realloc(fake->regions, fake->region_room * sizeof(*fake->regions));
        if (!fake->regions)
            abort();
    }
    memmove(&fake->regions[at + 1], &fake->regions[at],
            (fake->region_count - at) * sizeof(*fake->regions));
    fake->regions[at] = (struct fake_region){addr, bytes, charged};
    fake->region_count++;
}

enum gs_status fake_map(void *self, size_t bytes, uint64_t *addr, int *native)
{
    struct fake *fake = self;
    size_t charged = gs_round_up(bytes, fake->granularity);
    enum gs_status status = GS_OK;
    unsigned call;

    probe(fake);
    if (fake->during_map)
        fake->during_map(fake, bytes);
    pthread_mutex_lock(&fake->lock);
    call = ++fake->map_calls;
    fake->sizes[call % 64] = bytes;
    if (fake->fail_from && call >= fake->fail_from &&
        call - fake->fail_from < fake->fail_count) {
        *native = fake->fail_native;
        status = fake->fail_status;
    } else if (charged > fake->capacity - fake->mapped_bytes) {
        *native = FAKE_NATIVE;
        status = GS_ERR_NOMEM;
    } else {
        size_t at = find_gap(fake, gs_round_up(bytes, GS_LARGE_BYTES), addr);

        if (fake->next_addr) {
            *addr = fake->next_addr;
            fake->next_addr = 0;
            for (at = 0; at < fake->region_count && fake->regions[at].addr < *addr;)
                at++;
        }
        *addr += fake->skew;
        insert(fake, at, *addr, bytes, charged);
        fake->maps++;
        fake->mapped_bytes += charged;
        if (fake->mapped_bytes > fake->mapped_peak)
            fake->mapped_peak = fake->mapped_bytes;
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

void fake_unmap(void *self, uint64_t addr, size_t bytes)
{
    struct fake *fake = self;
    size_t i;

    probe(fake);
    if (fake->during_unmap)
        fake->during_unmap(fake, addr);
    pthread_mutex_lock(&fake->lock);
    fake->unmaps++;
    for (i = 0; i < fake->region_count; i++)
        if (fake->regions[i].addr == addr && fake->regions[i].bytes == bytes)
            break;
    if (i == fake->region_count) {
        note(fake, "something was unmapped that was not mapped so");
    } else {
        fake->mapped_bytes -= fake->regions[i].charged;
        fake->region_count--;
        memmove(&fake->regions[i], &fake->regions[i + 1],
                (fake->region_count - i) * sizeof(*fake->regions));
    }
    pthread_mutex_unlock(&fake->lock);
}

static enum gs_status fake_query(void *self, gs_fence fence)
{
    struct fake *fake = self;
    enum gs_status status = GS_ERR_BACKEND;

    probe(fake);
    if (fake->during_query)
        fake->during_query(fake, fence);
    pthread_mutex_lock(&fake->lock);
    fake->queries++;
    if (fence >= FAKE_FENCES || fake->fence_released[fence])
        note(fake, "a fence was asked after that is not there any more");
    else if (fake->fence_state[fence] == FAKE_FENCE_DONE)
        status = GS_OK;
    else if (fake->fence_state[fence] == FAKE_FENCE_BUSY)
        status = GS_ERR_TIMEOUT;
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static void fake_release(void *self, gs_fence fence)
{
    struct fake *fake = self;

    probe(fake);
    pthread_mutex_lock(&fake->lock);
    if (fence >= FAKE_FENCES || fake->fence_state[fence] == FAKE_FENCE_UNUSED)
        note(fake, "a fence was released that was never given");
    else if (++fake->fence_released[fence] > 1)
        note(fake, "a fence was released twice");
    pthread_mutex_unlock(&fake->lock);
}

static bool fake_keep(void *self, uint64_t addr, size_t bytes)
{
    struct fake *fake = self;

    (void)bytes;
    probe(fake);
    if (fake->keeps)
        fake->kept_addr = addr;
    return fake->keeps;
}

static bool fake_idle(void *self)
{
    struct fake *fake = self;

    probe(fake);
    return !fake->busy;
}

static bool fake_await_idle(void *self)
{
    struct fake *fake = self;

    probe(fake);
    fake->awaited++;
    return !fake->in_vain;
}

static enum gs_status fake_free_bytes(void *self, size_t *bytes)
{
    struct fake *fake = self;

    probe(fake);
    pthread_mutex_lock(&fake->lock);
    *bytes = fake->capacity - fake->mapped_bytes;
    fake->told++;
    pthread_mutex_unlock(&fake->lock);
    return fake->tells_free ? GS_OK : GS_ERR_NOT_FOUND;
}

/* The one with the heap's lock held. */
static bool fake_waited(void *self, gs_fence fence)
{
    const struct fake *fake = self;

    return !fake->elsewhere || fence < fake->elsewhere;
}

void fake_init(struct fake *fake, size_t capacity)
{
    memset(fake, 0, sizeof(*fake));
    fake->backend = (struct gs_backend){.map = fake_map,
                                        .unmap = fake_unmap,
                                        .keep = fake_keep,
                                        .quiet = fake_idle,
                                        .await_idle = fake_await_idle,
                                        .free_bytes = fake_free_bytes,
                                        .fence_query = fake_query,
                                        .fence_waited = fake_waited,
                                        .fence_release = fake_release};
    pthread_mutex_init(&fake->lock, NULL);
    fake->capacity = capacity;
    fake->granularity = GS_LARGE_BYTES;
    fake->fail_status = GS_ERR_NOMEM;
    fake->fail_native = FAKE_NATIVE;
}

void fake_fini(struct fake *fake)
{
    free(fake->regions);
    pthread_mutex_destroy(&fake->lock);
}

void fake_fence_set(struct fake *fake, gs_fence fence, enum fake_fence state)
{
    pthread_mutex_lock(&fake->lock);
    fake->fence_state[fence] = state;
    pthread_mutex_unlock(&fake->lock);
}

bool fake_is_mapped(struct fake *fake, uint64_t addr)
{
    bool found = false;

    pthread_mutex_lock(&fake->lock);
    for (size_t i = 0; i < fake->region_count; i++)
        found |= fake->regions[i].addr <= addr &&
                 addr - fake->regions[i].addr < fake->regions[i].bytes;
    pthread_mutex_unlock(&fake->lock);
    return found;
}

void bed_init_cached(struct bed *bed, size_t capacity, size_t segment_bytes,
                     size_t cache_bytes)
{
    bed_init_aged(bed, capacity, segment_bytes, cache_bytes, 0);
}

void bed_init_aged(struct bed *bed, size_t capacity, size_t segment_bytes,
                   size_t cache_bytes, unsigned age_ms)
{
    struct gs_pool_config config = {.segment_bytes =
                                        segment_bytes ? segment_bytes : 20 * GS_MIB,
                                    .cache_bytes = cache_bytes,
                                    .age_ms = age_ms};

    bed_init_with(bed, capacity, &config);
}

void bed_init_with(struct bed *bed, size_t capacity, const struct gs_pool_config *config)
{
    fake_init(&bed->fake, capacity);
    cr_assert_eq(gs_pool_create(config, &bed->pool), GS_OK);
    cr_assert_eq(gs_heap_create(bed->pool, &bed->fake.backend, &bed->fake, 0, &bed->heap),
                 GS_OK);
}

void bed_init(struct bed *bed, size_t capacity, size_t segment_bytes)
{
    bed_init_cached(bed, capacity, segment_bytes, 0);
    bed->fake.pool = bed->pool;
}

void bed_check(struct bed *bed)
{
    const char *why = "nothing";

    cr_assert(gs_pool_check(bed->pool, &why), "%s", why);
    cr_assert_null(bed->fake.broken, "%s", bed->fake.broken);
}

void bed_fini(struct bed *bed)
{
    bed_check(bed);
    gs_pool_destroy(bed->pool);
    fake_fini(&bed->fake);
}

uint64_t bed_alloc(struct bed *bed, size_t bytes)
{
    struct gs_block *block = NULL;

    if (gs_heap_alloc(bed->heap, bytes, &block, NULL) != GS_OK)
        return 0;
    return gs_block_addr(block);
}

struct gs_block *bed_claim(struct bed *bed, uint64_t addr)
{
    struct gs_block *block = NULL;

    cr_assert_eq(gs_pool_claim(bed->pool, addr, &block), GS_OK);
    cr_assert_eq(gs_block_addr(block), addr);
    return block;
}

void bed_free(struct bed *bed, uint64_t addr)
{
    gs_block_free(bed_claim(bed, addr));
}

void bed_free_fenced(struct bed *bed, uint64_t addr, gs_fence fence)
{
    gs_block_free_fenced(bed_claim(bed, addr), fence);
}

struct gs_range bed_range(struct bed *bed, uint64_t addr)
{
    struct gs_range range;

    cr_assert_eq(gs_pool_find(bed->pool, addr, &range), GS_OK);
    return range;
}

struct gs_pool_stats bed_stats(struct bed *bed)
{
    struct gs_pool_stats stats;

    gs_pool_stats(bed->pool, -1, &stats);
    return stats;
}

unsigned long bed_number(const char *variable, unsigned long normal)
{
    const char *text = getenv(variable);
    unsigned long number = text ? strtoul(text, NULL, 10) : 0;

    return number ? number : normal;
}

uint64_t bed_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1dull;
}
