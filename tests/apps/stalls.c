/*
 * stalls.c - calls made while the device waits for the host: do they come back?
 *
 * For each step a kernel runs that ends when a word of page-locked memory is set. The
 * step's calls are made, and the word is set after them; if they are not back after
 * LIMIT_MS, another thread sets it. One line a step, "at once" or "waits". Natively some
 * of these calls wait; a call that comes back natively and waits with a library preloaded
 * is a program that hangs for ever.
 *
 * Owns: hold.   Lock: hold.lock, of the deadline and of what came of it.
 */
#include <pthread.h>
#include <time.h>

#include "launch.h"

#define LIMIT_MS 500
#define START_MS 5 /* a kernel that was launched runs after this time */
#define SMALL    ((size_t)8192)
#define LARGE    (4 * APP_MIB)
#define PAIRS    100

enum { OUT_OF_MEMORY = 2 };

static struct {
    uint32_t *flag; /* page-locked: 0 keeps the kernel */
    pthread_mutex_t lock;
    long deadline_ms; /* 0: nobody is watched */
    bool late, over;
} hold = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct app_kernels kernels;
static gpu_stream held, other;
static gpu_ptr small, large, kept[12];
static unsigned kept_count;

static long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void nap(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

static void let_go(void)
{
    __atomic_store_n(hold.flag, 1, __ATOMIC_RELEASE);
}

/* Lets the kernel go when the step's time is over. */
static void *watch(void *unused)
{
    bool over;

    (void)unused;
    do {
        nap(1);
        pthread_mutex_lock(&hold.lock);
        if (hold.deadline_ms && now_ms() >= hold.deadline_ms) {
            hold.late = true;
            hold.deadline_ms = 0;
            let_go();
        }
        over = hold.over;
        pthread_mutex_unlock(&hold.lock);
    } while (!over);
    return NULL;
}

/* From now on the kernel may run for so long; 0 ends the watch. Returns whether the last
 * one's time was over. */
static bool watch_for(long limit_ms)
{
    bool late;

    pthread_mutex_lock(&hold.lock);
    late = hold.late;
    hold.late = false;
    hold.deadline_ms = limit_ms ? now_ms() + limit_ms : 0;
    pthread_mutex_unlock(&hold.lock);
    return late;
}

static void end_watch(pthread_t watcher)
{
    pthread_mutex_lock(&hold.lock);
    hold.over = true;
    pthread_mutex_unlock(&hold.lock);
    pthread_join(watcher, NULL);
}

static void keep(size_t bytes)
{
    app_expect(kept_count < APP_COUNT(kept), "room for a block");
    APP_OK(gpu_malloc(&kept[kept_count++], bytes));
}

static void free_kept(void)
{
    while (kept_count > 0)
        APP_OK(gpu_free(kept[--kept_count]));
}

/* ---- steps ---------------------------------------------------------------------------
 */

static void leave_idle(void)
{
    keep(SMALL);
    keep(LARGE);
    free_kept();
}

static void make_two(void)
{
    APP_OK(gpu_malloc(&small, SMALL));
    APP_OK(gpu_malloc(&large, LARGE));
}

static void allocate_idle(void)
{
    keep(SMALL);
    keep(LARGE);
}

static void allocate_fresh(void)
{
    for (unsigned i = 0; i < 5; i++) {
        keep(3 * SMALL << i);
        keep(3 * LARGE + (LARGE << i));
    }
}

static void ask_memory(void)
{
    size_t free_bytes, total;

    APP_OK(gpu_mem_info(&free_bytes, &total));
}

/* More than any device has; and more than the pool takes on at all. */
static void ask_too_much(void)
{
    static const size_t sizes[] = {(size_t)512 << 30, (size_t)2 << 40};
    gpu_ptr block;

    for (size_t i = 0; i < APP_COUNT(sizes); i++) {
        int code = (int)gpu_malloc(&block, sizes[i]);

#if APP_RUNTIME
        (void)cudaGetLastError();
#endif
        app_expect(code == OUT_OF_MEMORY, "512 GiB and 2 TiB are out of memory");
    }
}

static void allocate_pinned(void)
{
    void *block;

    APP_OK(gpu_malloc_host(&block, LARGE));
    let_go(); /* natively its free waits */
    APP_OK(gpu_free_host(block));
}

static void free_two(void)
{
    APP_OK(gpu_free(small));
    APP_OK(gpu_free(large));
}

static void free_pairs(void)
{
    gpu_ptr block;

    for (unsigned i = 0; i < PAIRS; i++) {
        APP_OK(gpu_malloc(&block, i % 20 ? SMALL : LARGE));
        APP_OK(gpu_free(block));
    }
}

/* As in a collective: the second kernel ends the first one's wait. */
static void launch_second(void)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)hold.flag;

    keep(SMALL);
    keep(LARGE);
    app_fill(&kernels, gpu_from_address(address), 1, 1, other);
    APP_OK(gpu_stream_sync(held));
}

static void *free_there(void *unused)
{
    (void)unused;
    app_gpu_thread();
    free_two();
    return NULL;
}

/* Another thread is in a free that may wait; this one allocates, and ends the wait. */
static void allocate_beside_a_free(void)
{
    pthread_t thread;

    app_expect(!pthread_create(&thread, NULL, free_there, NULL), "a thread");
    nap(START_MS);
    keep(SMALL);
    keep(LARGE);
    let_go();
    pthread_join(thread, NULL);
}

static const struct step {
    const char *name;
    void (*prepare)(void);
    void (*run)(void);
} steps[] = {
    {"allocate idle memory", leave_idle, allocate_idle},
    {"allocate fresh memory", NULL, allocate_fresh},
    {"ask how much memory is free", NULL, ask_memory},
    {"ask for too much", leave_idle, ask_too_much},
    {"allocate page-locked memory", NULL, allocate_pinned},
    {"allocate, launch what ends it", leave_idle, launch_second},
    {"allocate beside a free", make_two, allocate_beside_a_free},
    {"free", make_two, free_two},
    {"free and allocate, again and again", leave_idle, free_pairs},
};

/* On a legacy stream, or one that does not block. */
static void run_step(const struct step *step, gpu_stream stream, const char *where)
{
    bool late;

    if (step->prepare)
        step->prepare();
    held = stream;
    APP_OK(gpu_sync());
    __atomic_store_n(hold.flag, 0, __ATOMIC_RELEASE);
    app_hold(&kernels, hold.flag, stream);
    nap(START_MS);
    watch_for(LIMIT_MS);
    step->run();
    late = watch_for(0);
    let_go();
    APP_OK(gpu_sync());
    free_kept();
    printf("stalls: %s, %s: %s\n", step->name, where, late ? "waits" : "at once");
    fflush(stdout);
}

int main(void)
{
    pthread_t watcher;
    gpu_stream stream;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_stream_create(&other));
    APP_OK(gpu_malloc_host((void **)&hold.flag, 4));
    /* A kernel's first launch may wait for others by itself. */
    let_go();
    app_hold(&kernels, hold.flag, stream);
    app_fill(&kernels, gpu_from_address((uintptr_t)hold.flag), 1, 1, other);
    APP_OK(gpu_sync());
    app_expect(!pthread_create(&watcher, NULL, watch, NULL), "a thread");
    for (unsigned i = 0; i < APP_COUNT(steps); i++) {
        run_step(&steps[i], stream, "a stream");
        run_step(&steps[i], NULL, "the legacy stream");
    }
    end_watch(watcher);
    APP_OK(gpu_free_host(hold.flag));
    APP_OK(gpu_stream_destroy(other));
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    return 0;
}
