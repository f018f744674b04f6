/*
 * pool_property_random.c - proves, over long random sequences, that the pool keeps the
 * rules of a plain list (pool_property_model.h): what it hands out is aligned, ready and
 * nobody else's; its counters are the list's; what it gives back holds nothing; and it
 * refuses nothing that the driver would serve.
 *
 * A sequence has several devices and heaps, some of which die; requests of every size, of
 * nothing and of everything; frees that are ready at once, after a fence or after a
 * synchronize, by any of four threads; fences that are done in any order, or break;
 * limits, trims, maintenance, exported segments, failures of the driver and addresses
 * that cannot be pooled; in every second one pages move. It is a life of 20,000 steps,
 * then another one begins.
 *
 * GPUSHIM_TEST_STEPS=n runs n steps; GPUSHIM_TEST_SEED=n begins with that life.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool_property_model.h"

#define NORMAL_STEPS 400000ul
#define LIFE_STEPS   20000ul
#define CHECK_EVERY  499ul /* steps from one gs_pool_check to the next */
#define THREADS      4
#define TOKENS       4

static struct model model;

static struct life {
    uint64_t random;
    unsigned long step, steps;
    size_t target; /* live blocks it tends to */
    unsigned turn; /* whose steps they are; lock */
    pthread_mutex_t lock;
    pthread_cond_t turned;
    struct {
        struct model_heap *heap;
        uint64_t token;
    } tokens[TOKENS]; /* synchronizes that were entered */
} life;

/* What all lives did together: nothing here may stay untested. */
static struct {
    unsigned long served, refused, failed, forwarded, parked, fenced, unsynced, retired;
    unsigned long broken, killed, displaced, retained, trimmed, kept, strangers, lost;
    unsigned long unsuitable, limited, moved;
} did;

static uint64_t draw(uint64_t limit)
{
    return bed_random(&life.random) % limit;
}

static bool one_in(uint64_t n)
{
    return draw(n) == 0;
}

/* ---- allocate ---------------------------------------------------------------------- */

static size_t draw_size(void)
{
    static const size_t odd[] = {0,
                                 1,
                                 511,
                                 512,
                                 513,
                                 64 * GS_KIB - 512,
                                 64 * GS_KIB - 511,
                                 64 * GS_KIB,
                                 GS_LARGE_BYTES - 1,
                                 GS_LARGE_BYTES,
                                 GS_LARGE_BYTES + 1,
                                 GS_GIB,
                                 (size_t)1 << 40,
                                 ((size_t)1 << 40) + 1,
                                 SIZE_MAX,
                                 SIZE_MAX - 511,
                                 SIZE_MAX / 2};
    uint64_t kind = draw(64);

    if (kind == 0)
        return odd[draw(GS_ARRAY_LEN(odd))];
    if (kind == 1)
        return 1 + draw(12 * GS_MIB);
    if (kind == 2)
        return GS_LARGE_BYTES * (1 + draw(4));
    if (kind < 6)
        return 1 + draw(GS_LARGE_BYTES);
    if (kind < 20)
        return 1 + draw(160 * GS_KIB);
    return kind < 44 ? (size_t)256 << draw(8) : 1 + draw(8 * GS_KIB);
}

static struct model_heap *any_heap(void)
{
    struct model_heap *heap = NULL;

    for (int i = 0; i < 8; i++) {
        heap = &model.heaps[draw(model.heap_count)];
        if (!heap->dead)
            return heap;
    }
    return heap;
}

static uint64_t pending_of(int device)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < model.sorted_count; i++)
        if (model.sorted[i]->state == MODEL_PENDING &&
            model.sorted[i]->heap->device->ordinal == device)
            bytes += model.sorted[i]->block_bytes;
    return bytes;
}

static size_t room_of(const struct model_device *device)
{
    return device->fake.capacity - device->fake.mapped_bytes;
}

/* Out of memory is an answer only where nothing at all is left that could have served. */
static void judge_out_of_memory(const struct model_heap *heap, size_t bytes)
{
    const struct model_device *device = heap->device;
    struct gs_pool_stats stats;

    model_must(model.refused || model.injected, "out of memory, and the driver was not");
    if (model.injected)
        return;
    model_must(room_of(device) < gs_round_up(bytes, device->fake.granularity),
               "out of memory, and the driver has the exact size");
    model_must(model_idle_bytes(&model, device->ordinal) == 0,
               "out of memory, and yet there is idle memory");
    gs_pool_stats(model.pool, device->ordinal, &stats);
    model_must(stats.thread_bytes + stats.stream_bytes + stats.global_bytes == 0,
               "out of memory, and yet there are cached blocks");
    model_must(stats.pending_bytes == pending_of(device->ordinal),
               "out of memory, and yet there are blocks whose fence is done");
    model_must(bytes >= GS_LARGE_BYTES || !model_has_hole(&model, heap, bytes),
               "out of memory, and yet there is a hole for it");
}

static uint64_t reserved_of(int device)
{
    struct gs_pool_stats stats;

    gs_pool_stats(model.pool, device, &stats);
    return stats.reserved_bytes;
}

/* Is the device's limit in the way, and could idle memory not have made room? */
static bool is_over_limit(const struct model_heap *heap, size_t bytes)
{
    const struct model_device *device = heap->device;
    uint64_t least = gs_round_up(bytes, GS_LARGE_BYTES);
    uint64_t reserved = reserved_of(device->ordinal);

    if (reserved + least <= device->limits.reserved_bytes)
        return false;
    return device->fake.busy ||
           reserved + least - model_idle_bytes(&model, device->ordinal) >
               device->limits.reserved_bytes;
}

static void judge_forwarding(struct model_heap *heap, size_t bytes)
{
    did.forwarded++;
    if (heap->dead || heap->poisoned || bytes - 1 >= (size_t)1 << 40)
        return;
    if (heap->may_be_poisoned) {
        heap->poisoned = true;
        return;
    }
    if (model.unsuitable || heap->unsuitable_run >= 4) {
        did.unsuitable++;
        return;
    }
    did.limited++;
    model_must(is_over_limit(heap, bytes), "a request is forwarded without a reason");
}

/* What was not to be pooled is the driver's, which the caller asks with idle memory back.
 */
static void forward(struct model_device *device, size_t bytes)
{
    uint64_t addr;
    int native;

    if (bytes == 0 || bytes > GS_GIB || model.live_count > life.target + 64)
        return;
    if (fake_map(&device->fake, bytes, &addr, &native) != GS_OK) {
        (void)gs_pool_trim(model.pool, device->ordinal, SIZE_MAX);
        model_must(model_idle_bytes(&model, device->ordinal) == 0,
                   "idle memory is left after a trim of everything");
        if (fake_map(&device->fake, bytes, &addr, &native) != GS_OK)
            return;
    }
    model_foreign(&model, device, addr, bytes);
}

/* A small request that would fail opens the segments that were to take no allocation. */
static void reopen(const struct model_heap *heap)
{
    for (size_t i = 0; i < model.region_count; i++)
        if (model.regions[i]->heap == heap && model.regions[i]->shared)
            model.regions[i]->retained = false;
}

static void accept(struct model_heap *heap, size_t bytes, struct gs_block *block,
                   uint64_t reserved_before)
{
    const struct model_region *region = model_region_of(&model, gs_block_addr(block));
    uint64_t reserved = reserved_of(heap->device->ordinal);

    did.served++;
    if (region && region->retained && region->shared && (model.refused || model.injected))
        reopen(heap);
    model_must(bytes - 1 < (size_t)1 << 40, "what no device has was handed out");
    model_handed_out(&model, heap, bytes, block);
    model_must(reserved <= reserved_before ||
                   reserved <= heap->device->limits.reserved_bytes,
               "the pool grew beyond its limit");
}

static void allocate(struct model_heap *heap, size_t bytes)
{
    uint64_t reserved = reserved_of(heap->device->ordinal);
    struct gs_pool_stats before, after;
    struct gs_block *block = NULL;
    enum gs_status status;
    int native = 0;

    model.refused = model.injected = model.unsuitable = false;
    model.allocating = true;
    gs_pool_stats(model.pool, -1, &before);
    status = gs_heap_alloc(heap->heap, bytes, &block, &native);
    gs_pool_stats(model.pool, -1, &after);
    model.allocating = false;
    model_must(
        after.hits + after.misses - before.hits - before.misses ==
                (status == GS_OK || status == GS_ERR_NOMEM || status == GS_ERR_BACKEND) ||
            status == GS_ERR_UNPOOLABLE,
        "a request is neither a hit nor a miss, or both");
    switch (status) {
    case GS_OK:
        accept(heap, bytes, block, reserved);
        return;
    case GS_ERR_NOMEM:
        did.refused++;
        model.failed++;
        judge_out_of_memory(heap, bytes);
        model_must(native == model.native, "the error is not the driver's own");
        if (bytes < GS_LARGE_BYTES)
            reopen(heap);
        return;
    case GS_ERR_BACKEND:
        did.failed++;
        model.failed++;
        model_must(model.injected && native == model.native,
                   "an error that is not the driver's");
        return;
    default:
        model_must(status == GS_ERR_UNPOOLABLE, "an answer that is not documented");
        judge_forwarding(heap, bytes);
        if (one_in(2))
            forward(heap->device, bytes);
    }
}

/* ---- free -------------------------------------------------------------------------- */

/* Whatever the address is: the claim answers as the list says. */
static struct model_range *claim(uint64_t addr)
{
    const struct model_region *region = model_region_of(&model, addr);
    struct model_range *range = model_find(&model, addr);
    bool live = range && range->addr == addr && range->state == MODEL_LIVE;
    bool ours = region && region->heap;
    struct gs_block *block = NULL;
    enum gs_status status = gs_pool_claim(model.pool, addr, &block);

    model_must(status == (live   ? GS_OK
                          : ours ? GS_ERR_BAD_FREE
                                 : GS_ERR_NOT_OURS),
               "a claim answers wrongly");
    model_must(gs_pool_owns(model.pool, addr) == ours, "an owner is told wrongly");
    if (!live) {
        did.strangers++;
        return NULL;
    }
    model_claimed(&model, range, block);
    return range;
}

static gs_fence draw_fence(void)
{
    gs_fence last = model.fence_count;

    if (last && one_in(3) && model.fences[last].state == MODEL_FENCE_BUSY)
        return last;
    return model_new_fence(&model);
}

static void park(struct model_range *range)
{
    struct gs_block *block = range->block;
    uint64_t kind = draw(16);
    gs_fence fence;

    if (kind == 0) {
        model_released(&model, range);
        gs_block_release_claim(block);
    } else if (kind < 5) {
        did.fenced++;
        fence = draw_fence();
        model_freed(&model, range, false, fence);
        gs_block_free_fenced(block, fence);
    } else if (kind < 7) {
        did.unsynced++;
        model_freed(&model, range, false, 0);
        gs_block_free_fenced(block, 0);
    } else {
        did.parked++;
        model_freed(&model, range, true, 0);
        gs_block_free(block);
    }
}

static void free_one(void)
{
    struct model_range *range;
    uint64_t addr;

    if (!model.live_count)
        return;
    range = model.live[draw(model.live_count)];
    if (range->state == MODEL_FOREIGN) {
        (void)claim(range->addr);
        model_foreign_gone(&model, range);
        return;
    }
    addr = range->addr;
    range = claim(addr);
    if (one_in(32) && model.claimed_count < GS_ARRAY_LEN(model.claimed) - 1)
        return; /* it is freed later, if need be after its heap's death */
    park(range);
    if (one_in(8) &&
        !(model_find(&model, addr) && model_find(&model, addr)->state == MODEL_LIVE))
        (void)claim(addr);
}

static void free_wrongly(void)
{
    uint64_t addr = bed_random(&life.random) >> draw(64);

    if (model.region_count && one_in(2)) {
        const struct model_region *region = model.regions[draw(model.region_count)];

        addr = region->addr + draw(gs_round_up(region->bytes, GS_LARGE_BYTES));
    }
    if (model.sorted_count && one_in(2)) {
        const struct model_range *range = model.sorted[draw(model.sorted_count)];

        addr = range->addr + (range->state == MODEL_LIVE ? 1 + draw(1024) : 0);
    }
    if (claim(addr)) /* it is a start after all */
        park(model.claimed[model.claimed_count - 1]);
}

/* ---- ready ------------------------------------------------------------------------- */

static void finish_fence(void)
{
    gs_fence fence;

    if (!model.fence_count)
        return;
    fence = model.fence_count - draw(model.fence_count < 64 ? model.fence_count : 64);
    if (model.fences[fence].state != MODEL_FENCE_BUSY)
        return;
    if (one_in(1000)) {
        did.broken++;
        model.fences[fence].state = MODEL_FENCE_BROKEN;
    } else {
        model_fence_done(&model, fence);
    }
}

/* Enter a synchronize, or leave one that was entered earlier. */
static void synchronize(void)
{
    unsigned i = (unsigned)draw(TOKENS);
    struct model_heap *heap = life.tokens[i].heap;

    if (!heap) {
        heap = any_heap();
        life.tokens[i].heap = heap;
        life.tokens[i].token = gs_heap_retire_begin(heap->heap);
        if (life.tokens[i].token)
            model_must(life.tokens[i].token == ++heap->tokens,
                       "a token is not the next one");
        else
            model_must(model_nothing_pending(&model, heap),
                       "there is no token, and blocks are pending");
        return;
    }
    did.retired++;
    if (one_in(16))
        life.tokens[i].token = one_in(2) ? UINT64_MAX : 0;
    model_retired(&model, heap, life.tokens[i].token);
    gs_heap_retire(heap->heap, life.tokens[i].token);
    life.tokens[i].heap = NULL;
}

/* ---- what else happens ------------------------------------------------------------- */

static void give_back(void)
{
    int device = (int)draw(model.device_count + 1) - 1;
    size_t bytes = one_in(2) ? SIZE_MAX : (size_t)draw(32 * GS_MIB), given;

    did.trimmed++;
    model.unmapped_bytes = 0;
    given = gs_pool_trim(model.pool, device, bytes);
    model_must(given <= model.unmapped_bytes, "a trim says more than it gave back");
    model_must(given >= bytes || model_idle_bytes(&model, device) == 0,
               "a trim gave back too little");
}

static void ask_idle(void)
{
    int device = (int)draw(model.device_count + 1) - 1;

    model_must(gs_pool_idle_bytes(model.pool, device) == model_idle_bytes(&model, device),
               "idle memory is not what nobody has");
}

static void keep_up(void)
{
    struct model_heap *heap = any_heap();
    size_t bytes = one_in(2) ? 0 : (size_t)draw(16 * GS_MIB), given;

    if (!gs_heap_wants_maintenance(heap->heap) && one_in(2))
        return;
    did.kept++;
    model.unmapped_bytes = 0;
    given = gs_heap_maintain(heap->heap, bytes);
    model_must(given <= model.unmapped_bytes,
               "an maintenance says more than it gave back");
}

static void change_limits(void)
{
    struct model_device *device = &model.devices[draw(model.device_count)];
    size_t capacity = device->fake.capacity < GS_GIB ? device->fake.capacity : GS_GIB;

    device->limits.reserved_bytes =
        one_in(2) ? SIZE_MAX : (size_t)draw(capacity + capacity / 4);
    device->limits.idle_bytes = one_in(2) ? SIZE_MAX : (size_t)draw(capacity);
    device->limits.device_bytes = one_in(2) ? device->fake.capacity : 0;
    gs_pool_set_limits(model.pool, device->ordinal, &device->limits);
}

static void trouble(void)
{
    struct model_device *device = &model.devices[draw(model.device_count)];

    if (one_in(8)) {
        device->unsuitable_count = 1 + (unsigned)draw(5);
        return;
    }
    device->fail_count = 1 + (unsigned)draw(one_in(4) ? 12 : 2);
    device->fail_status = one_in(3) ? GS_ERR_BACKEND : GS_ERR_NOMEM;
    device->fail_native = device->fail_status == GS_ERR_NOMEM ? 2 : 700 + (int)draw(20);
}

static void retain(void)
{
    struct model_region *region;
    enum gs_status status;
    uint64_t addr;

    if (!model.region_count)
        return;
    region = model.regions[draw(model.region_count)];
    if (!region->heap) {
        model_must(gs_pool_retain(model.pool, region->addr) == GS_ERR_NOT_OURS,
                   "what is not the pool's was retained");
        return;
    }
    did.retained++;
    addr = region->addr;
    if (region->allocations) {
        region->retained = true;
        model_must(gs_pool_retain(model.pool, addr + draw(region->bytes)) == GS_OK,
                   "a segment cannot be retained");
        return;
    }
    /* Nobody's: once no level holds it any more it goes back at once. */
    (void)gs_pool_idle_bytes(model.pool, region->heap->device->ordinal);
    status = gs_pool_retain(model.pool, addr);
    model_must(status == GS_OK || status == GS_ERR_NOT_OURS, "an undocumented answer");
    model_must(!model_region_of(&model, addr), "an idle retained segment is kept");
}

/* The context goes untold, and another one gets the addresses it had. */
static bool displace(struct model_heap *heap, struct model_heap *other)
{
    struct model_device *device = heap->device;
    uint64_t device_addr = 0;

    /* One with a live block: what is idle may have gone back by then, and then nothing
       tells the pool. */
    for (size_t i = 0; i < model.live_count; i++)
        if (model.live[i]->region->heap == heap && !model.live[i]->region->paged &&
            model.live[i]->region->bytes >= GS_LARGE_BYTES)
            device_addr = model.live[i]->region->device_addr;
    if (!device_addr || device->limits.reserved_bytes != SIZE_MAX)
        return false;
    did.displaced++;
    device->fail_count = device->unsuitable_count = 0;
    model_heap_gone(&model, heap);
    if (model.pages || one_in(2)) { /* something of the program's own lies there now */
        gs_pool_displace(model.pool, device_addr + model_apart(device));
        return true;
    }
    device->fake.next_addr = device_addr;
    heap->unseen = true; /* on a full device its memory may be thought of first */
    allocate(other, GS_LARGE_BYTES);
    heap->unseen = false;
    model_must(device->fake.next_addr == 0, "a new heap did not ask its backend");
    return true;
}

/* Likeliest one that serves nobody any more, so that the others have company. */
static struct model_heap *heap_to_kill(void)
{
    for (unsigned i = 0; i < model.heap_count; i++)
        if (!model.heaps[i].dead &&
            (model.heaps[i].poisoned || model.heaps[i].unsuitable_run >= 4))
            return &model.heaps[i];
    return one_in(4) ? any_heap() : &model.heaps[0];
}

static void kill_heap(void)
{
    struct model_heap *heap = heap_to_kill(), *other;

    if (heap->dead || model.heap_count == MODEL_HEAPS)
        return;
    other = model_add_heap(&model, (unsigned)heap->device->ordinal);
    for (size_t i = 0; i < model.claimed_count; i++)
        did.lost += model.claimed[i]->heap == heap;
    did.killed++;
    if (one_in(2) && displace(heap, other))
        return;
    gs_heap_kill(heap->heap);
    model_heap_gone(&model, heap);
}

static void poison_heap(void)
{
    struct model_heap *heap = any_heap();

    gs_heap_poison(heap->heap);
    heap->poisoned = true;
}

static void stir(void)
{
    switch (draw(24)) {
    case 0:
    case 1:
        give_back();
        break;
    case 2:
    case 3:
        ask_idle();
        break;
    case 4:
        change_limits();
        break;
    case 5:
    case 6:
    case 7:
        trouble();
        break;
    case 8:
        retain();
        break;
    case 9:
        kill_heap();
        break;
    case 10:
        if (one_in(32))
            poison_heap();
        break;
    case 11:
        model.devices[draw(model.device_count)].fake.busy = one_in(2);
        break;
    case 12:
    case 13:
    case 14:
        gs_pool_thread_stream(draw(6));
        break;
    case 15:
    case 16:
        free_wrongly();
        break;
    default:
        keep_up();
    }
}

/* ---- a life ------------------------------------------------------------------------ */

static void check_all(void)
{
    const char *why = "nothing";
    bool right = gs_pool_check(model.pool, &why);

    model_must(right, why);
}

static void step(void)
{
    uint64_t kind = draw(64);
    bool full = model.live_count >= life.target + draw(32);

    if (kind < 2)
        stir();
    else if (kind < 5)
        finish_fence();
    else if (kind == 5)
        synchronize();
    else if (kind < 8 && model.claimed_count)
        park(model.claimed[draw(model.claimed_count)]);
    else if (full || (kind < 34 && model.live_count > life.target / 2))
        free_one();
    else
        allocate(any_heap(), draw_size());
    model_check_counters(&model);
    if (life.step % CHECK_EVERY == 0)
        check_all();
    life.step++;
}

/* A thread of the life: a few steps whenever it is its turn. */
static void *take_turns(void *argument)
{
    unsigned me = (unsigned)(uintptr_t)argument;

    pthread_mutex_lock(&life.lock);
    while (life.step < life.steps) {
        if (life.turn != me) {
            pthread_cond_wait(&life.turned, &life.lock);
            continue;
        }
        for (uint64_t i = 1 + draw(200); i && life.step < life.steps; i--)
            step();
        life.turn = (unsigned)draw(THREADS);
        pthread_cond_broadcast(&life.turned);
    }
    pthread_mutex_unlock(&life.lock);
    return NULL;
}

static void begin_life(uint64_t seed, unsigned long steps)
{
    static const size_t capacities[] = {32, 48, 64, 96, 256, 4096};
    static const size_t caches[] = {0, 256 * GS_KIB, 4 * GS_MIB, 32 * GS_MIB};
    static const size_t segments[] = {2 * GS_MIB, 4 * GS_MIB, 20 * GS_MIB};
    static const size_t targets[] = {20, 120, 500};
    static const uint32_t bounds[] = {0, 1, 5, 100, GS_TIER_NO_BLOCKS};
    struct gs_pool_config config = {.segment_bytes = 0};
    unsigned devices;

    memset(&life, 0, sizeof(life));
    life.random = seed * 0x9e3779b97f4a7c15ull + 1;
    life.steps = steps;
    life.target = targets[draw(GS_ARRAY_LEN(targets))];
    pthread_mutex_init(&life.lock, NULL);
    pthread_cond_init(&life.turned, NULL);
    model_where("property_random", seed, &life.step);
    config.segment_bytes = segments[draw(GS_ARRAY_LEN(segments))];
    config.cache_bytes = caches[draw(GS_ARRAY_LEN(caches))];
    if (one_in(3)) {
        config.stream_blocks = bounds[draw(GS_ARRAY_LEN(bounds))];
        config.global_blocks = bounds[draw(GS_ARRAY_LEN(bounds))];
    }
    config.age_ms = one_in(2) ? 0 : 1;
    config.carving = (enum gs_carving)draw(GS_CARVE_ALWAYS + 1);
    config.late_pages = one_in(4);
    devices = 1 + (unsigned)draw(MODEL_DEVICES);
    model_begin(&model, &config, devices,
                capacities[draw(GS_ARRAY_LEN(capacities))] * GS_MIB,
                one_in(3) ? 64 * GS_KIB : GS_LARGE_BYTES, one_in(2));
    for (unsigned i = 0; i < devices; i++)
        for (uint64_t heaps = 1 + draw(2); heaps; heaps--)
            model_add_heap(&model, i);
}

/* Everything goes back, and the books are closed. */
static void end_life(void)
{
    while (model.live_count || model.claimed_count) {
        if (model.claimed_count)
            park(model.claimed[0]);
        else
            free_one();
    }
    for (gs_fence fence = 1; fence <= model.fence_count; fence++)
        if (model.fences[fence].state == MODEL_FENCE_BUSY)
            model_fence_done(&model, fence);
    for (unsigned i = 0; i < model.heap_count; i++) {
        struct model_heap *heap = &model.heaps[i];

        heap->tokens++;
        model_retired(&model, heap, UINT64_MAX);
        gs_heap_retire(heap->heap, gs_heap_retire_begin(heap->heap));
    }
    check_all();
    (void)gs_pool_trim(model.pool, -1, SIZE_MAX);
    model_check_counters(&model);
    model_must(model.reserved_bytes == 0 && model.region_count == 0,
               "something is left behind");
    did.moved += model.moved;
    for (gs_fence fence = 1; fence <= model.fence_count; fence++)
        model_must(model.fences[fence].released == model.fences[fence].given,
                   "a fence was not released");
    check_all();
    model_end(&model);
}

Test(property_random, keeps_every_rule_of_a_plain_list, .timeout = 3600)
{
    unsigned long all = bed_number("GPUSHIM_TEST_STEPS", NORMAL_STEPS), left = all;
    uint64_t seed = bed_number("GPUSHIM_TEST_SEED", 1);

    while (left) {
        unsigned long steps = left < LIFE_STEPS ? left : LIFE_STEPS;
        pthread_t threads[THREADS];

        begin_life(seed++, steps);
        for (uintptr_t i = 0; i < THREADS; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, take_turns, (void *)i), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        end_life();
        left -= steps;
    }
    if (all < NORMAL_STEPS / 2)
        return; /* one life again, say: it need not have seen everything */
#define SEEN(what)                                                                       \
    fprintf(stderr, #what " %lu\n", did.what);                                           \
    cr_expect(did.what > 0, "nothing was " #what)
    SEEN(served);
    SEEN(refused);
    SEEN(failed);
    SEEN(forwarded);
    SEEN(parked);
    SEEN(fenced);
    SEEN(unsynced);
    SEEN(retired);
    SEEN(broken);
    SEEN(killed);
    SEEN(displaced);
    SEEN(retained);
    SEEN(trimmed);
    SEEN(kept);
    SEEN(strangers);
    SEEN(lost);
    SEEN(unsuitable);
    SEEN(limited);
    SEEN(moved);
}
