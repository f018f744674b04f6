/*
 * reuse.c - memory that gets a new owner while work of the last one still runs.
 *
 *   reuse [PROGRAM...]     writes reads many graphs ordered threads captures pinned (all)
 *
 * Every block is filled with a pattern of its owner's by a kernel, behind another one
 * that takes its time, and is freed without any wait of the program's own. Whoever gets
 * memory next fills it at once, on another stream, and looks at it again when all work of
 * the last owner is over. Proves that no write of a last owner reaches the next one, that
 * no read of a last owner sees what the next one wrote, and that this holds for graphs,
 * page-locked and stream-ordered memory, with many threads, and beside captures.
 *
 * Owns: kernels, immutable once main has loaded them; wrong_total, captures_over.
 * Lock: none; the latter are atomic, and threads share nothing else but mailboxes.
 */
#include <pthread.h>

#include "launch.h"

#define SPIN_NS       400000u
#define ROUNDS        12
#define THREADS       8
#define THREAD_ROUNDS 60
#define SLOTS         6
#define CAPTURES      12
#define LAUNCHES      3

#define GPU_CAPTURE_THREAD_LOCAL 1 /* the same in both APIs */

enum { NOT_SUPPORTED = 801 };

static const size_t sizes[] = {4096, 200000, APP_MIB, 3 * APP_MIB};

static struct app_kernels kernels;
static unsigned wrong_total;

/* Two streams, and a word of device memory that counts wrong words. */
struct lane {
    gpu_stream first, second;
    gpu_ptr counter;
};

static void add_wrong(unsigned count)
{
    __atomic_fetch_add(&wrong_total, count, __ATOMIC_RELAXED);
}

static void lane_open(struct lane *out)
{
    APP_OK(gpu_stream_create(&out->first));
    APP_OK(gpu_stream_create(&out->second));
    APP_OK(gpu_malloc(&out->counter, 4));
    APP_OK(gpu_set(out->counter, 0, 4));
    APP_OK(gpu_stream_sync(NULL));
}

/* Waits for both streams, and adds what was counted to the total. */
static void lane_close(struct lane *lane)
{
    uint32_t wrong = 0;

    APP_OK(gpu_stream_sync(lane->first));
    APP_OK(gpu_stream_sync(lane->second));
    APP_OK(gpu_get(&wrong, lane->counter, sizeof(wrong)));
    add_wrong(wrong);
    APP_OK(gpu_free(lane->counter));
    APP_OK(gpu_stream_destroy(lane->first));
    APP_OK(gpu_stream_destroy(lane->second));
}

/* The next owner: fills its block on `on`, waits for the last owner's stream, looks. */
static void own_next(struct lane *lane, size_t bytes, uint32_t seed, gpu_stream last,
                     gpu_stream on)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, bytes));
    app_fill(&kernels, block, bytes / 4, seed, on);
    app_count_wrong(&kernels, block, bytes / 4, seed, lane->counter, on);
    APP_OK(gpu_stream_sync(last));
    app_count_wrong(&kernels, block, bytes / 4, seed, lane->counter, on);
    APP_OK(gpu_stream_sync(on));
    APP_OK(gpu_free(block));
}

static void write_late(struct lane *lane, size_t bytes, uint32_t seed, gpu_stream last,
                       gpu_stream next)
{
    gpu_ptr block;

    APP_OK(gpu_malloc(&block, bytes));
    app_spin(&kernels, SPIN_NS, last);
    app_fill(&kernels, block, bytes / 4, seed, last);
    APP_OK(gpu_free(block));
    own_next(lane, bytes, seed + 1, last, next);
}

/* The legacy stream takes part: it orders nothing with streams that do not block. */
static void run_writes(void)
{
    struct lane lane;

    lane_open(&lane);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < APP_COUNT(sizes); i++) {
            uint32_t seed = 1000 + 10 * round + 2 * i;

            write_late(&lane, sizes[i], seed, lane.first, lane.second);
            write_late(&lane, sizes[i], seed + 500, NULL, lane.second);
            write_late(&lane, sizes[i], seed + 900, lane.first, NULL);
        }
    }
    lane_close(&lane);
}

static void run_reads(void)
{
    struct lane lane;
    gpu_ptr kept;

    lane_open(&lane);
    APP_OK(gpu_malloc(&kept, 3 * APP_MIB));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < APP_COUNT(sizes); i++) {
            uint32_t seed = 3000 + 10 * round + 2 * i;
            gpu_ptr block;

            APP_OK(gpu_malloc(&block, sizes[i]));
            app_fill(&kernels, block, sizes[i] / 4, seed, lane.first);
            app_spin(&kernels, SPIN_NS, lane.first);
            app_copy(&kernels, kept, block, sizes[i] / 4, lane.first);
            APP_OK(gpu_free(block));
            own_next(&lane, sizes[i], seed + 1, lane.first, lane.second);
            app_count_wrong(&kernels, kept, sizes[i] / 4, seed, lane.counter, lane.first);
            APP_OK(gpu_stream_sync(lane.first));
        }
    }
    APP_OK(gpu_free(kept));
    lane_close(&lane);
}

/* Many blocks are freed, so that some are asked for again while work on them is queued.
 */
static void run_many(void)
{
    enum { BLOCKS = 400 };
    static gpu_ptr blocks[BLOCKS];
    struct lane lane;

    lane_open(&lane);
    for (uint32_t round = 0; round < 4; round++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            APP_OK(gpu_malloc(&blocks[i], sizes[i % 2]));
        app_spin(&kernels, 20 * SPIN_NS, lane.first);
        for (unsigned i = 0; i < BLOCKS; i++)
            app_fill(&kernels, blocks[i], sizes[i % 2] / 4, i, lane.first);
        for (unsigned i = 0; i < BLOCKS; i++)
            APP_OK(gpu_free(blocks[i]));
        for (unsigned i = 0; i < BLOCKS; i++) {
            APP_OK(gpu_malloc(&blocks[i], sizes[i % 2]));
            app_fill(&kernels, blocks[i], sizes[i % 2] / 4, BLOCKS + i, lane.second);
        }
        APP_OK(gpu_stream_sync(lane.first));
        for (unsigned i = 0; i < BLOCKS; i++) {
            app_count_wrong(&kernels, blocks[i], sizes[i % 2] / 4, BLOCKS + i,
                            lane.counter, lane.second);
            APP_OK(gpu_free(blocks[i]));
        }
    }
    lane_close(&lane);
}

/* The last owner's work is a graph that was launched before the free. */
static void run_graphs(void)
{
    struct lane lane;

    lane_open(&lane);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        size_t bytes = sizes[round % APP_COUNT(sizes)];
        gpu_graph graph;
        gpu_exec exec;
        gpu_ptr block;

        APP_OK(gpu_malloc(&block, bytes));
        APP_OK(gpu_begin_capture(lane.first, GPU_CAPTURE_RELAXED));
        app_spin(&kernels, SPIN_NS, lane.first);
        app_fill(&kernels, block, bytes / 4, 5000 + round, lane.first);
        APP_OK(gpu_end_capture(lane.first, &graph));
        APP_OK(gpu_instantiate(&exec, graph));
        APP_OK(gpu_graph_launch(exec, lane.first));
        APP_OK(gpu_free(block));
        own_next(&lane, bytes, 6000 + round, lane.first, lane.second);
        APP_OK(gpu_exec_destroy(exec));
        APP_OK(gpu_graph_destroy(graph));
    }
    lane_close(&lane);
}

/* The device still writes to page-locked memory when it is freed. */
static void run_pinned(void)
{
    const size_t bytes = 64 * APP_KIB;
    struct lane lane;
    gpu_ptr source;

    lane_open(&lane);
    APP_OK(gpu_malloc(&source, bytes));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        void *old, *next;

        APP_OK(gpu_malloc_host(&old, bytes));
        app_fill(&kernels, source, bytes / 4, 7000 + round, lane.first);
        app_spin(&kernels, SPIN_NS, lane.first);
        APP_OK(gpu_get_async(old, source, bytes, lane.first));
        APP_OK(gpu_free_host(old));
        APP_OK(gpu_malloc_host(&next, bytes));
        app_bytes_fill(next, bytes, round);
        APP_OK(gpu_stream_sync(lane.first));
        add_wrong(!app_bytes_match(next, bytes, round));
        APP_OK(gpu_free_host(next));
    }
    APP_OK(gpu_free(source));
    lane_close(&lane);
}

/* Stream-ordered memory goes to another stream, with an event between them or without. */
static void ordered_round(struct lane *lane, size_t bytes, uint32_t seed, gpu_event event)
{
    gpu_ptr block, next;

    APP_OK(gpu_malloc_async(&block, bytes, lane->first));
    app_spin(&kernels, SPIN_NS, lane->first);
    app_fill(&kernels, block, bytes / 4, seed, lane->first);
    app_count_wrong(&kernels, block, bytes / 4, seed, lane->counter, lane->first);
    APP_OK(gpu_free_async(block, lane->first));
    if (seed % 2) {
        APP_OK(gpu_event_record(event, lane->first));
        APP_OK(gpu_stream_wait(lane->second, event));
    }
    APP_OK(gpu_malloc_async(&next, bytes, lane->second));
    app_fill(&kernels, next, bytes / 4, ~seed, lane->second);
    APP_OK(gpu_stream_sync(lane->first));
    app_count_wrong(&kernels, next, bytes / 4, ~seed, lane->counter, lane->second);
    APP_OK(gpu_free_async(next, lane->second));
}

/* The same with many blocks: their next owner asks before the last one's work has begun.
 */
static void order_many(struct lane *lane)
{
    enum { BLOCKS = 200 };
    static gpu_ptr blocks[BLOCKS];
    const size_t words = sizes[1] / 4;

    for (unsigned i = 0; i < BLOCKS; i++)
        APP_OK(gpu_malloc_async(&blocks[i], words * 4, lane->first));
    app_spin(&kernels, 20 * SPIN_NS, lane->first);
    for (unsigned i = 0; i < BLOCKS; i++)
        app_fill(&kernels, blocks[i], words, i, lane->first);
    for (unsigned i = 0; i < BLOCKS; i++)
        APP_OK(gpu_free_async(blocks[i], lane->first));
    for (unsigned i = 0; i < BLOCKS; i++) {
        APP_OK(gpu_malloc_async(&blocks[i], words * 4, lane->second));
        app_fill(&kernels, blocks[i], words, BLOCKS + i, lane->second);
    }
    APP_OK(gpu_stream_sync(lane->first));
    for (unsigned i = 0; i < BLOCKS; i++) {
        app_count_wrong(&kernels, blocks[i], words, BLOCKS + i, lane->counter,
                        lane->second);
        APP_OK(gpu_free_async(blocks[i], lane->second));
    }
}

static bool has_ordered_memory(void)
{
    gpu_ptr block;
    int code = (int)gpu_malloc_async(&block, 4096, NULL);

    if (code == NOT_SUPPORTED) {
#if APP_RUNTIME
        (void)cudaGetLastError();
#endif
        return false;
    }
    app_check(code, "the first stream-ordered allocation", __FILE__, __LINE__);
    APP_OK(gpu_free_async(block, NULL));
    return true;
}

static void run_ordered(void)
{
    struct lane lane;
    gpu_event event;

    if (!has_ordered_memory()) {
        printf("reuse: no stream-ordered memory here\n");
        return;
    }
    lane_open(&lane);
    APP_OK(gpu_event_create(&event));
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < APP_COUNT(sizes); i++)
            ordered_round(&lane, sizes[i], 8000 + 5 * round + i, event);
    APP_OK(gpu_event_destroy(event));
    order_many(&lane);
    order_many(&lane);
    lane_close(&lane);
}

/* ---- threads -------------------------------------------------------------------------
 */

struct block {
    gpu_ptr address;
    size_t bytes;
    uint32_t seed; /* of what is in it */
};

/* Blocks on their way to the thread that frees them, in flight or not. */
static struct mailbox {
    pthread_mutex_t lock;
    struct block blocks[SLOTS];
    unsigned count;
} mailboxes[THREADS];

/* False if the box is full. */
static bool send_block(struct mailbox *box, struct block block)
{
    bool sent;

    pthread_mutex_lock(&box->lock);
    sent = box->count < SLOTS;
    if (sent)
        box->blocks[box->count++] = block;
    pthread_mutex_unlock(&box->lock);
    return sent;
}

static void free_received(struct mailbox *box)
{
    struct block block = {0};
    bool found;

    do {
        pthread_mutex_lock(&box->lock);
        found = box->count > 0;
        if (found)
            block = box->blocks[--box->count];
        pthread_mutex_unlock(&box->lock);
        if (found)
            APP_OK(gpu_free(block.address));
    } while (found);
}

/* A block of a random size, filled on one of the fill stream's streams and looked at on
 * it. */
static struct block make_block(struct lane *lane, uint64_t *state, uint32_t seed)
{
    size_t words = 1 + app_random(state) % (app_random(state) % 8 ? 8192 : 150000);
    struct block block = {.bytes = words * 4, .seed = seed};
    gpu_stream stream = seed % 2 ? lane->first : lane->second;

    APP_OK(gpu_malloc(&block.address, block.bytes));
    if (seed % 5 == 0)
        app_spin(&kernels, SPIN_NS / 4, stream);
    app_fill(&kernels, block.address, words, seed, stream);
    app_count_wrong(&kernels, block.address, words, seed, lane->counter, stream);
    return block;
}

static void *run_thread(void *argument)
{
    unsigned index = (unsigned)(uintptr_t)argument;
    uint64_t state = 77 + index;
    struct block slots[SLOTS] = {{0}};
    struct lane lane;

    app_gpu_thread();
    lane_open(&lane);
    for (uint32_t round = 0; round < THREAD_ROUNDS; round++) {
        struct block *slot = &slots[app_random(&state) % SLOTS];

        if (slot->bytes) {
            gpu_stream stream = slot->seed % 2 ? lane.first : lane.second;

            app_count_wrong(&kernels, slot->address, slot->bytes / 4, slot->seed,
                            lane.counter, stream);
            if (round % 3 || !send_block(&mailboxes[(index + 1) % THREADS], *slot))
                APP_OK(gpu_free(slot->address));
        }
        *slot = make_block(&lane, &state, index * 1000000 + round);
        free_received(&mailboxes[index]);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (slots[i].bytes)
            APP_OK(gpu_free(slots[i].address));
    lane_close(&lane);
    return NULL;
}

static void start_threads(pthread_t *threads, unsigned count, void *(*run)(void *))
{
    for (unsigned i = 0; i < count; i++)
        app_expect(!pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i),
                   "a thread");
}

static void run_threads(void)
{
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        pthread_mutex_init(&mailboxes[i].lock, NULL);
    start_threads(threads, THREADS, run_thread);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        free_received(&mailboxes[i]);
}

/* ---- captures ------------------------------------------------------------------------
 */

static bool captures_over;

/* Memory comes and goes with work in flight until the captures are over. */
static void *free_beside(void *argument)
{
    uint32_t seed = 1 + (uint32_t)(uintptr_t)argument * 100000;
    struct lane lane;

    app_gpu_thread();
    lane_open(&lane);
    do {
        write_late(&lane, sizes[seed % 2], seed, lane.first, lane.second);
        seed += 2;
    } while (!__atomic_load_n(&captures_over, __ATOMIC_ACQUIRE));
    lane_close(&lane);
    return NULL;
}

static void capture_once(struct lane *lane, uint32_t round)
{
    const size_t words = sizes[round % APP_COUNT(sizes)] / 4;
    gpu_ptr left, right;
    gpu_graph graph;
    gpu_exec exec;

    APP_OK(gpu_malloc(&left, words * 4));
    APP_OK(gpu_malloc(&right, words * 4));
    APP_OK(gpu_begin_capture(lane->first,
                             round % 2 ? GPU_CAPTURE_RELAXED : GPU_CAPTURE_THREAD_LOCAL));
    app_fill(&kernels, left, words, 9000 + round, lane->first);
    app_copy(&kernels, right, left, words, lane->first);
    app_count_wrong(&kernels, right, words, 9000 + round, lane->counter, lane->first);
    APP_OK(gpu_end_capture(lane->first, &graph));
    APP_OK(gpu_instantiate(&exec, graph));
    for (int launch = 0; launch < LAUNCHES; launch++)
        APP_OK(gpu_graph_launch(exec, lane->first));
    APP_OK(gpu_free(left));
    APP_OK(gpu_free(right));
    APP_OK(gpu_stream_sync(lane->first));
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
}

static void run_captures(void)
{
    enum { OTHERS = 3 };
    pthread_t threads[OTHERS];
    struct lane lane;

    lane_open(&lane);
    start_threads(threads, OTHERS, free_beside);
    for (uint32_t round = 0; round < CAPTURES; round++)
        capture_once(&lane, round);
    __atomic_store_n(&captures_over, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < OTHERS; i++)
        pthread_join(threads[i], NULL);
    lane_close(&lane);
}

/* ---- main ----------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {
    {"writes", run_writes},     {"reads", run_reads},     {"many", run_many},
    {"graphs", run_graphs},     {"ordered", run_ordered}, {"threads", run_threads},
    {"captures", run_captures}, {"pinned", run_pinned},
};

/* Whether no memory had two owners. */
static bool run_program(unsigned index)
{
    wrong_total = 0;
    programs[index].run();
    printf("reuse: %s: %u words are wrong\n", programs[index].name, wrong_total);
    fflush(stdout);
    return wrong_total == 0;
}

static unsigned find_program(const char *name)
{
    for (unsigned i = 0; i < APP_COUNT(programs); i++)
        if (strcmp(name, programs[i].name) == 0)
            return i;
    app_fail("no such program", name);
}

int main(int argc, char **argv)
{
    bool right = true;

    app_gpu_start();
    app_kernels_load(&kernels);
    for (int i = 1; i < argc; i++)
        right &= run_program(find_program(argv[i]));
    for (unsigned i = 0; argc == 1 && i < APP_COUNT(programs); i++)
        right &= run_program(i);
    app_kernels_unload(&kernels);
    app_gpu_stop();
    app_expect(right, "memory had two owners at a time");
    return 0;
}
