/*
 * pool_property_threads.c - proves, with four threads that race, that what the pool hands
 * out is nobody else's and ready: every 512 bytes of the device have a word in a shadow
 * map that says who holds them, or what they wait for.
 *
 * A thread that is handed a block exchanges its words for its own tag, and must find each
 * free, or waiting for what is over by then: a fence that was seen to be set done, or a
 * synchronize that was told as complete. It writes what a block waits for before it frees
 * it. Blocks go from thread to thread; in between heaps die, idle memory is given back,
 * limits change, the device fails and its fences end in any order.
 *
 * GPUSHIM_TEST_STEPS=n runs n steps, of all threads together; GPUSHIM_TEST_SEED=n sets
 * what the threads draw (their races are their own).
 *
 * Lock: shadow words are atomic; a heap is killed under its context's lock, which all who
 * allocate from it or free to it hold shared, for a program does not do these at once.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool_property_model.h"

#define THREADS   4
#define CONTEXTS  3
#define CAPACITY  (96 * GS_MIB)
#define SPAN      (4 * CAPACITY) /* of addresses: lowest free ones first */
#define UNITS     ((1 + CONTEXTS) * SPAN / GS_BLOCK_BYTES) /* and of each one's pages */
#define FENCES    (1u << 20)
#define FREE_LIST 512
#define OWN       48

/* A shadow word: 0, nobody; the tag of a live block; or what is waited for: the context
 * and the newest token of it that was known before, and perhaps a fence. */
#define WHAT        ((uint64_t)3 << 62)
#define HELD        ((uint64_t)1 << 62)
#define WAITS       ((uint64_t)2 << 62)
#define CONTEXT_BIT 58
#define FENCE_BIT   36
#define TOKEN_MASK  (((uint64_t)1 << FENCE_BIT) - 1)

struct context {
    pthread_rwlock_t lock; /* written by who kills the heap */
    struct gs_backend backend;
    struct gs_heap *heap;                    /* lock */
    uint64_t regions[SPAN / GS_LARGE_BYTES]; /* bytes mapped, by page; device lock */
    struct pager pager;
    _Atomic uint64_t known; /* newest token handed out, as far as was seen */
    _Atomic uint64_t over;  /* newest token whose synchronize is over */
};

static struct fake device;
static struct context contexts[CONTEXTS];
static struct gs_pool *pool;
static _Atomic uint64_t shadow[UNITS];
static _Atomic uint8_t fence_done[FENCES];
static _Atomic uint32_t fence_left[FENCES]; /* blocks that wait for it, in the pool */
static _Atomic uint64_t fences, tags, failing;
static _Atomic unsigned long steps_done;
static unsigned long steps;
static _Atomic uint64_t
    free_list[FREE_LIST]; /* addresses of live blocks, for whoever comes */
static uint64_t base_seed;
static _Atomic unsigned long served, refused, killed, taken_over;

static size_t unit_of(uint64_t addr)
{
    model_must(addr >= FAKE_BASE && addr - FAKE_BASE < (1 + CONTEXTS) * SPAN,
               "an address of no device");
    return (size_t)((addr - FAKE_BASE) / GS_BLOCK_BYTES);
}

/* ---- the backend; self: the context -------------------------------------------------
 */

static enum gs_status map(void *self, size_t bytes, uint64_t *addr, int *native)
{
    struct context *context = self;
    uint64_t left = atomic_load(&failing);
    enum gs_status status;

    if (left && atomic_compare_exchange_strong(&failing, &left, left - 1)) {
        *native = FAKE_NATIVE;
        return GS_ERR_NOMEM;
    }
    status = fake_map(&device, bytes, addr, native);
    if (status == GS_OK)
        __atomic_store_n(&context->regions[(*addr - FAKE_BASE) / GS_LARGE_BYTES], bytes,
                         __ATOMIC_RELEASE);
    return status;
}

/* A synchronize ends every wait that was there before it, one for a fence, too. */
static bool is_over(uint64_t word)
{
    uint64_t fence = word >> FENCE_BIT & (FENCES - 1);

    if ((word & WHAT) != WAITS)
        return word == 0;
    if (fence && atomic_load(&fence_done[fence]))
        return true;
    return (word & TOKEN_MASK) < atomic_load(&contexts[word >> CONTEXT_BIT & 3].over);
}

/* Memory that goes back, or is taken for other segments, is nobody's and waits for
 * nothing. */
static void must_be_over(uint64_t addr, size_t bytes)
{
    size_t first = unit_of(addr);

    for (size_t i = 0; i * GS_BLOCK_BYTES < bytes; i++)
        model_must(is_over(atomic_exchange(&shadow[first + i], 0)),
                   "memory was given back that is not ready for it");
}

static enum gs_status make_pages(void *self, size_t bytes,
                                 const struct gs_pages_from *from, unsigned count,
                                 uint64_t *addr, int *native)
{
    struct context *context = self;
    enum gs_status status;

    for (unsigned i = 0; i < count; i++)
        must_be_over(from[i].addr, from[i].bytes);
    status = gs_page_store_make(context->pager.store, bytes, from, count, addr, native);
    model_must(status != GS_OK || pager_is_mapped(&context->pager, *addr, bytes),
               "a segment of pages is not mapped");
    return status;
}

static void unmap(void *self, uint64_t addr, size_t bytes)
{
    struct context *context = self;

    must_be_over(addr, bytes);
    if (context->pager.store && gs_page_store_owns(context->pager.store, addr)) {
        gs_page_store_give(context->pager.store, addr, bytes);
        return;
    }
    __atomic_store_n(&context->regions[(addr - FAKE_BASE) / GS_LARGE_BYTES], 0,
                     __ATOMIC_RELEASE);
    fake_unmap(&device, addr, bytes);
}

static enum gs_status query(void *self, gs_fence fence)
{
    (void)self;
    model_must(atomic_load(&fence_left[fence]) > 0, "a fence was asked after once gone");
    return atomic_load(&fence_done[fence]) ? GS_OK : GS_ERR_TIMEOUT;
}

static void release(void *self, gs_fence fence)
{
    (void)self;
    model_must(atomic_fetch_sub(&fence_left[fence], 1) > 0,
               "a fence was released too often");
}

static void release_many(void *self, gs_fence fence, unsigned blocks)
{
    (void)self;
    model_must(atomic_fetch_sub(&fence_left[fence], blocks) >= blocks,
               "a fence was released too often");
}

static void begin_heap(struct context *context)
{
    atomic_store(&context->known, 0);
    atomic_store(&context->over, 0);
    model_must(gs_heap_create(pool, &context->backend, context, 0, &context->heap) ==
                   GS_OK,
               "no heap");
}

/* ---- what a thread does ---------------------------------------------------------------
 */

struct worker {
    uint64_t random;
    uint64_t own[OWN];
    unsigned number;
};

static uint64_t draw(struct worker *worker, uint64_t limit)
{
    return bed_random(&worker->random) % limit;
}

static size_t draw_size(struct worker *worker)
{
    uint64_t kind = draw(worker, 32);

    if (kind == 0)
        return 1 + draw(worker, 5 * GS_MIB);
    if (kind < 4)
        return 1 + draw(worker, 200 * GS_KIB);
    return kind < 20 ? (size_t)512 << draw(worker, 6) : 1 + draw(worker, 6000);
}

static void hold(uint64_t addr, size_t bytes, uint64_t tag)
{
    size_t first = unit_of(addr);

    for (size_t i = 0; i * GS_BLOCK_BYTES < bytes; i++) {
        uint64_t was = atomic_exchange(&shadow[first + i], HELD | tag);

        model_must((was & WHAT) != HELD, "a block is two threads'");
        model_must(is_over(was), "a block was handed out before it was ready");
        if (was && i == 0)
            atomic_fetch_add(&taken_over, 1);
    }
}

static void let_go(uint64_t addr, size_t bytes, uint64_t tag, uint64_t word)
{
    size_t first = unit_of(addr);

    for (size_t i = 0; i * GS_BLOCK_BYTES < bytes; i++)
        model_must(atomic_exchange(&shadow[first + i], word) == (HELD | tag),
                   "somebody has touched a live block");
}

/* The context's lock is held shared. 0: refused. */
static uint64_t allocate(struct worker *worker, struct context *context)
{
    size_t bytes = draw_size(worker);
    struct gs_block *block;
    uint64_t tag;

    if (gs_heap_alloc(context->heap, bytes, &block, NULL) != GS_OK) {
        atomic_fetch_add(&refused, 1);
        return 0;
    }
    tag = (atomic_fetch_add(&tags, 1) + 1) & 0xffffffff;
    gs_block_set_tag(block, (uint32_t)tag);
    model_must(gs_block_requested(block) == bytes, "a block does not know its size");
    hold(gs_block_addr(block), bytes, tag);
    atomic_fetch_add(&served, 1);
    return gs_block_addr(block);
}

static gs_fence draw_fence(struct worker *worker)
{
    gs_fence last = atomic_load(&fences);

    if (last && draw(worker, 2) && !atomic_load(&fence_done[last]))
        return last;
    if (last + 1 >= FENCES)
        return 0;
    return atomic_fetch_add(&fences, 1) + 1;
}

static void free_block(struct worker *worker, struct context *context, uint64_t addr)
{
    uint64_t kind = draw(worker, 8), word;
    struct gs_block *block;
    gs_fence fence = 0;
    size_t bytes;
    uint32_t tag;

    model_must(gs_pool_claim(pool, addr, &block) == GS_OK, "a live block is not known");
    bytes = gs_block_requested(block);
    tag = gs_block_tag(block);
    if (kind == 0)
        fence = draw_fence(worker);
    if (kind > 1) {
        let_go(addr, bytes, tag, 0);
        gs_block_free(block);
        return;
    }
    if (fence)
        atomic_fetch_add(&fence_left[fence], 1);
    word = WAITS | (uint64_t)(context - contexts) << CONTEXT_BIT | fence << FENCE_BIT |
           atomic_load(&context->known);
    let_go(addr, bytes, tag, word);
    gs_block_free_fenced(block, fence);
}

static struct context *context_of(uint64_t entry)
{
    return &contexts[entry >> 56];
}

/* An address may be one of a heap that has died since: that one is told by its number. */
static _Atomic uint64_t lives[CONTEXTS];

static uint64_t entry_of(const struct context *context, uint64_t addr)
{
    size_t i = (size_t)(context - contexts);

    return (uint64_t)i << 56 | (atomic_load(&lives[i]) & 0xff) << 48 | addr;
}

/* Free what the entry names, unless its heap is dead and it with it. */
static void give_up(struct worker *worker, uint64_t entry)
{
    struct context *context = context_of(entry);
    uint64_t addr = entry & 0xffffffffffff;

    pthread_rwlock_rdlock(&context->lock);
    if (entry && entry == entry_of(context, addr))
        free_block(worker, context, addr);
    pthread_rwlock_unlock(&context->lock);
}

static void exchange(struct worker *worker)
{
    uint64_t *own = &worker->own[draw(worker, OWN)];
    struct context *context;
    uint64_t addr;

    if (draw(worker, 4) == 0)
        *own = atomic_exchange(&free_list[draw(worker, FREE_LIST)], *own);
    if (*own) {
        give_up(worker, *own);
        *own = 0;
        return;
    }
    context = &contexts[draw(worker, CONTEXTS)];
    pthread_rwlock_rdlock(&context->lock);
    addr = allocate(worker, context);
    *own = addr ? entry_of(context, addr) : 0;
    pthread_rwlock_unlock(&context->lock);
}

static void synchronize(struct context *context)
{
    uint64_t token, seen, over;

    pthread_rwlock_rdlock(&context->lock);
    token = gs_heap_retire_begin(context->heap);
    seen = atomic_load(&context->known);
    while (seen < token && !atomic_compare_exchange_weak(&context->known, &seen, token))
        ;
    over = atomic_load(&context->over);
    while (over < token && !atomic_compare_exchange_weak(&context->over, &over, token))
        ;
    gs_heap_retire(context->heap, token);
    pthread_rwlock_unlock(&context->lock);
}

#define KILLS_ONE_IN 16 /* of the times when it could */

static void kill_heap(struct context *context)
{
    pthread_rwlock_wrlock(&context->lock);
    gs_heap_kill(context->heap);
    atomic_fetch_add(&lives[context - contexts], 1);
    for (size_t page = 0; page < GS_ARRAY_LEN(context->regions); page++) {
        uint64_t addr = FAKE_BASE + page * GS_LARGE_BYTES;
        size_t bytes = context->regions[page];

        if (!bytes)
            continue;
        for (size_t i = 0; i * GS_BLOCK_BYTES < bytes; i++)
            atomic_store(&shadow[unit_of(addr) + i], 0);
        context->regions[page] = 0;
        fake_unmap(&device, addr, bytes);
    }
    if (context->pager.store) {
        for (size_t i = 0; i < SPAN / GS_BLOCK_BYTES; i++)
            atomic_store(&shadow[unit_of(context->pager.base) + i], 0);
        gs_page_store_give_all(context->pager.store);
    }
    begin_heap(context);
    atomic_fetch_add(&killed, 1);
    pthread_rwlock_unlock(&context->lock);
}

/* How often a thread disturbs the others, and with which of the things below. */
struct unrest {
    unsigned every, first, kinds;
};

static struct unrest unrest;

static void disturb(struct worker *worker)
{
    struct context *context = &contexts[draw(worker, CONTEXTS)];
    struct gs_pool_limits limits = {.reserved_bytes = SIZE_MAX, .idle_bytes = SIZE_MAX};
    uint64_t last = atomic_load(&fences);
    const char *why = "nothing";
    bool sound;

    switch (unrest.first + draw(worker, unrest.kinds)) {
    case 0:
        (void)gs_pool_trim(pool, 0, draw(worker, 2) ? SIZE_MAX : draw(worker, CAPACITY));
        break;
    case 1:
        if (draw(worker, 2))
            limits.reserved_bytes = draw(worker, CAPACITY);
        if (draw(worker, 2))
            limits.idle_bytes = draw(worker, CAPACITY);
        gs_pool_set_limits(pool, 0, &limits);
        break;
    case 2:
        atomic_store(&failing, 1 + draw(worker, 3));
        break;
    case 3:
        if (draw(worker, KILLS_ONE_IN) == 0)
            kill_heap(context);
        break;
    case 4:
        sound = gs_pool_check(pool, &why);
        model_must(sound, why);
        break;
    case 5:
    case 6:
        synchronize(context);
        break;
    case 7:
        pthread_rwlock_rdlock(&context->lock);
        (void)gs_heap_maintain(context->heap, draw(worker, 4 * GS_MIB));
        (void)gs_heap_collect_ready(context->heap);
        pthread_rwlock_unlock(&context->lock);
        break;
    case 8:
        gs_pool_thread_stream(draw(worker, 5));
        break;
    default:
        if (last)
            atomic_store(&fence_done[last - draw(worker, last < 16 ? last : 16)], 1);
    }
}

static void *work(void *argument)
{
    struct worker worker = {.number = (unsigned)(uintptr_t)argument};

    worker.random = (base_seed + worker.number) * 0x9e3779b97f4a7c15ull + 1;
    while (atomic_fetch_add(&steps_done, 1) < steps) {
        exchange(&worker);
        if (draw(&worker, unrest.every) == 0)
            disturb(&worker);
    }
    for (size_t i = 0; i < OWN; i++) /* the free list's are the test's own */
        give_up(&worker, worker.own[i]);
    return NULL;
}

/* Everything goes back; the fences with it. */
static void clear_up(void)
{
    struct worker last = {.random = 1};

    for (size_t i = 0; i < FREE_LIST; i++)
        give_up(&last, atomic_load(&free_list[i]));
    for (uint64_t i = 1; i <= atomic_load(&fences); i++)
        atomic_store(&fence_done[i], 1);
    for (int i = 0; i < CONTEXTS; i++)
        synchronize(&contexts[i]);
    (void)gs_pool_trim(pool, -1, SIZE_MAX);
}

static void race(const struct unrest *how, bool pages)
{
    struct gs_pool_config config = {.segment_bytes = 4 * GS_MIB,
                                    .cache_bytes = 8 * GS_MIB,
                                    .age_ms = 1,
                                    .carving = GS_CARVE_ALWAYS};
    const char *text = getenv("GPUSHIM_TEST_STEPS"), *seed = getenv("GPUSHIM_TEST_SEED");
    struct gs_pool_stats stats;
    pthread_t threads[THREADS];

    steps = text && atol(text) > 0 ? strtoul(text, NULL, 10) : 400000;
    base_seed = seed ? strtoull(seed, NULL, 10) : 1;
    unrest = *how;
    model_where("property_threads", base_seed, NULL);
    fake_init(&device, CAPACITY);
    cr_assert_eq(gs_pool_create(&config, &pool), GS_OK);
    for (int i = 0; i < CONTEXTS; i++) {
        pthread_rwlock_init(&contexts[i].lock, NULL);
        contexts[i].backend =
            (struct gs_backend){.map = map,
                                .unmap = unmap,
                                .fence_query = query,
                                .fence_release = release,
                                .fence_release_many = i % 2 ? release_many : NULL};
        if (pages) {
            contexts[i].backend.make_pages = make_pages;
            pager_init(&contexts[i].pager, &device, FAKE_BASE + (uint64_t)(1 + i) * SPAN,
                       SPAN / 8);
            contexts[i].pager.end = contexts[i].pager.base + SPAN;
        }
        begin_heap(&contexts[i]);
    }
    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    clear_up();
    gs_pool_stats(pool, -1, &stats);
    cr_assert_eq(stats.allocs, served);
    cr_assert_eq(stats.live_bytes, 0);
    cr_assert_eq(stats.pending_bytes, 0);
    cr_assert_eq(device.mapped_bytes, 0, "something is left behind");
    cr_assert_null(device.broken, "%s", device.broken);
    for (uint64_t i = 0; i <= fences; i++)
        cr_assert_eq(fence_left[i], 0, "a fence was not released");
    fprintf(stderr, "served %lu, refused %lu, killed %lu, waited for %lu\n", served,
            refused, killed, taken_over);
    cr_expect(served > steps / 8 && taken_over > 0);
    /* With few steps it is left to chance whether a heap dies, and whether pages, which
     * move to where they are wanted, do not do. */
    cr_expect(refused > 0 || (pages && steps < 100000));
    cr_expect(killed > 0 || steps < 20ul * unrest.every * unrest.kinds * KILLS_ONE_IN);
    gs_pool_destroy(pool);
    for (int i = 0; pages && i < CONTEXTS; i++) {
        gs_page_store_give_all(contexts[i].pager.store);
        cr_assert_eq(pager_count(&contexts[i].pager), 0, "a page is left behind");
        pager_fini(&contexts[i].pager);
    }
    fake_fini(&device);
}

Test(property_threads, hold_what_nobody_else_holds, .timeout = 3600)
{
    race(&(struct unrest){.every = 64, .first = 0, .kinds = 16}, false);
}

/* A heap that dies while its blocks are freed, asked after and counted by others. */
Test(property_threads, outlive_their_heaps, .timeout = 3600)
{
    race(&(struct unrest){.every = 8, .first = 2, .kinds = 4}, false);
}

Test(property_threads, take_only_pages_that_nobody_holds, .timeout = 3600)
{
    race(&(struct unrest){.every = 64, .first = 0, .kinds = 16}, true);
}

Test(property_threads, outlive_their_heaps_and_pages, .timeout = 3600)
{
    race(&(struct unrest){.every = 32, .first = 2, .kinds = 4}, true);
}
