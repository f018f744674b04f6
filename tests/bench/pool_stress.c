/*
 * pool_stress.c - the pool under threads that allocate, free what others allocated, free
 * twice at the same instant, and empty the caches of one another; a plain program, so
 * that it runs under a sanitizer as it is.
 *
 *   pool_stress [OPERATIONS] [THREADS] [SEED] [CACHE_BYTES]
 *
 * What must hold is kept outside the pool: every 512 bytes of the device have a word that
 * says who holds them. A block is written in when it is handed out and must find nobody;
 * it is wiped when it was claimed, and must find itself; what the device takes back must
 * be nobody's. In a race for one address exactly one thread may win, and at the end the
 * pool's counters must be those of the threads. Prints one line; ends with 1 at the first
 * thing that is wrong.
 *
 * Owns: everything here.   Lock: device.lock for its pages; the words are atomic
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/pool.h"

#define BASE        ((uint64_t)0x7f0000000000)
#define PAGES       44u /* of 2 MiB: now and then the device is full */
#define UNITS       (PAGES * (GS_LARGE_BYTES / GS_BLOCK_BYTES))
#define FREE_LIST   512 /* addresses that threads hand to one another */
#define OWN         64
#define RACE        256 /* addresses all threads race for at once */
#define DEATH       100 /* disturbances until a heap dies under its threads */
#define MAX_THREADS 64

static struct {
    pthread_mutex_t lock;
    const void *taken[PAGES]; /* by which heap's backend; lock */
} device = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic uint32_t holders[UNITS]; /* 0: nobody */

/* An allocation: its address's number in units, above it its size in units. */
static _Atomic uint64_t free_list[FREE_LIST];

static struct gs_pool *pool;
static struct gs_heap *heap, *doomed;
static _Atomic uint64_t allocs, refusals;
static _Atomic bool over;
static uint64_t race_addrs[RACE];
static _Atomic unsigned race_wins[RACE];
static pthread_barrier_t barrier;

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "pool_stress: %s\n", what);
    _Exit(1);
}

static enum gs_status device_map(void *self, size_t bytes, uint64_t *addr, int *native)
{
    size_t pages = (bytes + GS_LARGE_BYTES - 1) / GS_LARGE_BYTES, run = 0;
    enum gs_status status = GS_ERR_NOMEM;

    *native = 2;
    pthread_mutex_lock(&device.lock);
    for (size_t i = 0; i < PAGES && status != GS_OK; i++) {
        run = device.taken[i] ? 0 : run + 1;
        if (run < pages)
            continue;
        for (size_t n = 0; n < pages; n++)
            device.taken[i - n] = self;
        *addr = BASE + (i + 1 - pages) * GS_LARGE_BYTES;
        status = GS_OK;
    }
    pthread_mutex_unlock(&device.lock);
    return status;
}

static void device_unmap(void *self, uint64_t addr, size_t bytes)
{
    size_t page = (addr - BASE) / GS_LARGE_BYTES;
    size_t unit = (addr - BASE) / GS_BLOCK_BYTES;

    for (size_t i = 0; i < bytes / GS_BLOCK_BYTES; i++)
        require(!holders[unit + i], "memory in use was given back");
    pthread_mutex_lock(&device.lock);
    for (size_t i = 0; i < (bytes + GS_LARGE_BYTES - 1) / GS_LARGE_BYTES; i++) {
        require(device.taken[page + i] == self, "something was given back twice");
        device.taken[page + i] = NULL;
    }
    pthread_mutex_unlock(&device.lock);
}

static enum gs_status device_query(void *self, gs_fence fence)
{
    (void)self;
    return fence % 3 ? GS_OK : GS_ERR_TIMEOUT;
}

static void device_release(void *self, gs_fence fence)
{
    (void)self;
    (void)fence;
}

static const struct gs_backend backend = {.map = device_map,
                                          .unmap = device_unmap,
                                          .fence_query = device_query,
                                          .fence_release = device_release};

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1dull;
}

/* Few sizes most of the time, as programs have them; any, now and then. */
static size_t draw_bytes(uint64_t *state)
{
    uint64_t r = draw(state);

    if (r % 64 == 0)
        return 1 + draw(state) % (5 * GS_MIB);
    if (r % 8 == 0)
        return 1 + draw(state) % (96 * GS_KIB);
    return (size_t)512 << (r >> 8) % 8;
}

/* Write `to` over `from` in every unit of a block. */
static void hold(uint64_t addr, size_t bytes, uint32_t from, uint32_t to,
                 const char *what)
{
    size_t unit = (addr - BASE) / GS_BLOCK_BYTES;

    for (size_t i = 0; i * GS_BLOCK_BYTES < bytes; i++) {
        uint32_t found = from;

        require(atomic_compare_exchange_strong(&holders[unit + i], &found, to), what);
    }
}

/* A live allocation as a number, 0 if the device is full. */
static uint64_t take(uint32_t me, size_t bytes)
{
    struct gs_block *block;
    enum gs_status status = gs_heap_alloc(heap, bytes, &block, NULL);
    uint64_t addr;

    if (status == GS_ERR_NOMEM || status == GS_ERR_UNPOOLABLE) {
        refusals++;
        return 0;
    }
    require(status == GS_OK, "an allocation failed");
    addr = gs_block_addr(block);
    require(gs_block_requested(block) == bytes, "a block is not of the size asked for");
    require(addr % (bytes < 64 * GS_KIB ? GS_BLOCK_BYTES : 64 * GS_KIB) == 0,
            "a block is not aligned");
    hold(addr, bytes, 0, me, "a block was handed out twice");
    gs_block_set_tag(block, me);
    allocs++;
    return (addr - BASE) / GS_BLOCK_BYTES << 32 | bytes;
}

static void give(uint64_t number, uint64_t *state)
{
    uint64_t addr = BASE + (number >> 32) * GS_BLOCK_BYTES;
    size_t bytes = (uint32_t)number;
    struct gs_block *block, *again;

    require(gs_pool_claim(pool, addr, &block) == GS_OK, "a live block is not to be had");
    require(gs_pool_claim(pool, addr, &again) == GS_ERR_BAD_FREE, "it was had twice");
    require(gs_block_addr(block) == addr && gs_block_requested(block) == bytes,
            "another block was claimed");
    hold(addr, bytes, gs_block_tag(block), 0, "a block lost its holder");
    switch (draw(state) % 16) {
    case 0:
        gs_block_free_fenced(block, 1 + draw(state) % 64);
        break;
    case 1:
        gs_block_release_claim(block);
        require(gs_pool_claim(pool, addr, &block) == GS_OK, "it is not live again");
        gs_block_free(block);
        break;
    default:
        gs_block_free(block);
    }
}

/* What others do to the heap while its threads are at work. */
static void disturb(uint64_t *state)
{
    struct gs_pool_stats stats;
    struct gs_range range;
    const char *why = "";

    switch (draw(state) % 8) {
    case 0:
        gs_pool_trim(pool, -1, draw(state) % (16 * GS_MIB));
        break;
    case 1:
        (void)gs_pool_idle_bytes(pool, 0);
        break;
    case 2:
        gs_pool_stats(pool, -1, &stats);
        require(stats.frees <= stats.allocs && stats.live_bytes <= stats.used_bytes,
                "the counters contradict one another");
        break;
    case 3:
        require(gs_pool_check(pool, &why), why);
        break;
    case 4:
        gs_heap_retire(heap, gs_heap_retire_begin(heap));
        break;
    case 5:
        (void)!gs_pool_retain(pool, BASE + draw(state) % UNITS * GS_BLOCK_BYTES);
        break;
    default:
        if (gs_pool_find(pool, BASE + draw(state) % UNITS * GS_BLOCK_BYTES, &range) ==
            GS_OK)
            require(range.block_addr >= range.segment_addr, "a range is none");
    }
}

/* All claim the same addresses; who wins parks them when all are through. */
static void race(void)
{
    struct gs_block *won[RACE];
    size_t count = 0;

    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < RACE; i++) {
        enum gs_status status = gs_pool_claim(pool, race_addrs[i], &won[count]);

        if (status == GS_OK) {
            race_wins[i]++;
            count++;
        } else {
            require(status == GS_ERR_BAD_FREE, "a loser was told something else");
        }
        require(gs_pool_claim(pool, race_addrs[i] + 256, &won[RACE - 1]) != GS_OK,
                "the inside of a block was claimed");
    }
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < count; i++)
        gs_block_free(won[i]);
    pthread_barrier_wait(&barrier);
}

struct worker {
    pthread_t thread;
    uint32_t number; /* from 1 */
    unsigned long operations;
    uint64_t seed;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint64_t own[OWN] = {0}, state = worker->seed;
    struct gs_block *block;

    gs_pool_thread_stream(worker->number % 3);
    for (unsigned long i = 0; i < worker->operations; i++) {
        uint64_t r = draw(&state);
        uint64_t *mine = &own[r % OWN], other;

        if (*mine && r >> 8 & 1) {
            give(*mine, &state);
            *mine = 0;
        } else if (*mine) { /* to whoever comes */
            other = atomic_exchange(&free_list[(r >> 16) % FREE_LIST], *mine);
            *mine = 0;
            if (other)
                give(other, &state);
        } else {
            *mine = take(worker->number, draw_bytes(&state));
        }
        if (r >> 32 & 7)
            continue;
        if (gs_heap_alloc(doomed, 4096, &block, NULL) == GS_OK)
            gs_block_free(block);
        if ((r >> 40) % 256 == 0)
            disturb(&state);
    }
    for (size_t i = 0; i < OWN; i++)
        if (own[i])
            give(own[i], &state);
    race();
    return NULL;
}

/* Its memory goes with its context. */
static void kill_doomed(void)
{
    gs_heap_kill(doomed);
    pthread_mutex_lock(&device.lock);
    for (size_t i = 0; i < PAGES; i++)
        if (device.taken[i] == &doomed)
            device.taken[i] = NULL;
    pthread_mutex_unlock(&device.lock);
}

static void *empty_caches(void *argument)
{
    uint64_t state = *(uint64_t *)argument;

    for (unsigned i = 0; !over; i++) {
        disturb(&state);
        if (i == DEATH)
            kill_doomed();
    }
    return NULL;
}

static void prepare_race(uint64_t *state)
{
    for (size_t i = 0; i < RACE; i++) {
        struct gs_block *block;
        enum gs_status status = gs_heap_alloc(heap, 512, &block, NULL);

        require(status == GS_OK, "there is no memory for the race");
        race_addrs[i] = gs_block_addr(block);
        allocs++;
        if (draw(state) % 2) /* from any of the cache tiers, next time */
            continue;
        gs_block_free(block);
        i--;
    }
}

static void finish(void)
{
    struct gs_pool_stats stats;
    uint64_t state = 1;
    const char *why = "";

    for (size_t i = 0; i < FREE_LIST; i++)
        if (free_list[i])
            give(free_list[i], &state);
    for (size_t i = 0; i < RACE; i++)
        require(race_wins[i] == 1, "not exactly one thread won");
    gs_heap_retire(heap, gs_heap_retire_begin(heap));
    require(gs_pool_check(pool, &why), why);
    gs_pool_stats(pool, -1, &stats);
    /* Of the heap that died in use, what its threads held was given up with it. */
    require(stats.allocs - stats.frees <= MAX_THREADS && stats.live_bytes == 0 &&
                stats.used_bytes == 0,
            "something is still live");
    gs_pool_trim(pool, -1, SIZE_MAX);
    kill_doomed();
    for (size_t i = 0; i < UNITS; i++)
        require(!holders[i], "something is still held");
    gs_pool_stats(pool, -1, &stats);
    require(stats.reserved_bytes == 0, "something was not given back");
    printf("ok %llu allocations, %llu refused; hits of fronts %llu, streams %llu, all "
           "%llu of %llu\n",
           (unsigned long long)allocs, (unsigned long long)refusals,
           (unsigned long long)stats.thread_hits, (unsigned long long)stats.stream_hits,
           (unsigned long long)stats.global_hits, (unsigned long long)stats.hits);
}

int main(int argc, char **argv)
{
    unsigned long operations = argc > 1 ? strtoul(argv[1], NULL, 0) : 200000;
    unsigned threads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 4;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
    struct gs_pool_config config = {.segment_bytes = 4 * GS_MIB,
                                    .cache_bytes = argc > 4 ? strtoull(argv[4], NULL, 0)
                                                            : 8 * GS_MIB};
    struct worker workers[MAX_THREADS];
    pthread_t emptier;

    if (!operations || !threads || threads > MAX_THREADS) {
        fprintf(stderr,
                "usage: pool_stress [OPERATIONS] [THREADS] [SEED] [CACHE_BYTES]\n");
        return 2;
    }
    seed = seed * 0x9e3779b97f4a7c15ull | 1;
    require(gs_pool_create(&config, &pool) == GS_OK &&
                gs_heap_create(pool, &backend, &heap, 0, &heap) == GS_OK &&
                gs_heap_create(pool, &backend, &doomed, 0, &doomed) == GS_OK,
            "there is no pool");
    pthread_barrier_init(&barrier, NULL, threads);
    prepare_race(&seed);
    require(pthread_create(&emptier, NULL, empty_caches, &seed) == 0, "no thread");
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){
            .number = i + 1, .operations = operations, .seed = seed + 2 * i + 2};
        require(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0,
                "no thread");
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    over = true;
    pthread_join(emptier, NULL);
    finish();
    gs_pool_destroy(pool);
    pthread_barrier_destroy(&barrier);
    return 0;
}
