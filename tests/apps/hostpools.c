/*
 * hostpools.c - pinned and managed memory allocated and freed over and over.
 *                                                          hostpools MODE [ROUNDS]
 *
 *   pinned    a block of each kind and size, used by a copy, a round
 *   managed   a range of each size, used by a kernel and the CPU, a round
 *   fresh     managed ranges of each size, read before they are written; prints how many
 *             bytes were not zero
 *   threads   four threads that each check their own pinned blocks, and free another's
 *   bad       frees of pinned and managed memory that are wrong; prints the codes
 *   fork      a child forked while pinned memory is live and cached
 *   pages     blocks whose pages were protected, kept from children and dumps, locked or
 *             bound to a node when they were freed; prints what the next owner finds
 *   spliced   blocks that a pipe still has when they are freed
 *   kept      pinned memory is freed, then nothing but a synchronize
 *   full      pinned memory requested while other pinned memory is idle (CUDASIM_FAIL)
 *
 * Proves that what a block holds is its owner's, and that the program sees what it would
 * see without the library. Between the lines `rounds` and `end of rounds` on standard
 * error the driver's calls are counted by the tests.
 */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpushim.h"
#include "kernels.h"
#include "launch.h"

#define THREADS 4

static struct app_kernels kernels;
static gpu_stream stream;
static long rounds = 10;

static const size_t sizes[] = {1, 100, 512, 4000, 4096, 5000, 65536, 300000, 5 * APP_MIB};
static const unsigned flags[] = {0, GPU_HOST_PORTABLE, GPU_HOST_MAPPED,
                                 GPU_HOST_PORTABLE | GPU_HOST_MAPPED, GPU_HOST_COMBINED};

static void begin_rounds(void)
{
    APP_OK(gpu_sync());
    fprintf(stderr, "rounds\n");
}

static void end_rounds(void)
{
    fprintf(stderr, "end of rounds\n");
}

/* ---- pinned -------------------------------------------------------------------------
 */

static void check_pinned(void *memory, size_t bytes, uint32_t seed)
{
    size_t copied = bytes < 5000 ? bytes : 5000;
    unsigned char back[5000];
    gpu_ptr device;

    /* A driver's own need not: one on an H200 (580.159.04) starts it within a page. */
    if (bytes >= 4096 && gpushim_library())
        app_expect((uintptr_t)memory % 4096 == 0, "a page and more starts on a page");
    app_bytes_fill(memory, bytes, seed);
    APP_OK(gpu_malloc(&device, copied));
    APP_OK(gpu_put_async(device, memory, copied, stream));
    APP_OK(gpu_stream_sync(stream));
    APP_OK(gpu_get(back, device, copied));
    app_expect(app_bytes_match(back, copied, seed), "what was copied from pinned memory");
    APP_OK(gpu_free(device));
}

static void one_of_each(void **blocks, uint32_t seed)
{
    for (size_t i = 0; i < APP_COUNT(sizes); i++) {
        APP_OK(gpu_host_alloc(&blocks[i], sizes[i], flags[i % APP_COUNT(flags)]));
        check_pinned(blocks[i], sizes[i], seed + (uint32_t)i);
    }
    for (size_t i = 0; i < APP_COUNT(sizes); i++)
        app_expect(app_bytes_match(blocks[i], sizes[i], seed + (uint32_t)i),
                   "a block is its owner's alone");
    for (size_t i = 0; i < APP_COUNT(sizes); i++)
        APP_OK(gpu_free_host(blocks[i]));
}

static void pinned(void)
{
    void *blocks[APP_COUNT(sizes)];

    one_of_each(blocks, 1);
    begin_rounds();
    for (long i = 0; i < rounds; i++)
        one_of_each(blocks, (uint32_t)i * 20);
    end_rounds();
}

static void kept(void)
{
    void *blocks[APP_COUNT(sizes)];

    begin_rounds();
    one_of_each(blocks, 1);
    for (long i = 0; i < rounds; i++) {
        usleep(100000);
        for (int k = 0; k < 70; k++) /* the clock is looked at once in 64 calls */
            APP_OK(gpu_sync());
    }
    end_rounds();
}

static void full(void)
{
    void *blocks[APP_COUNT(sizes)], *more;
    gpu_ptr range;

    one_of_each(blocks, 1);
    APP_OK(gpu_malloc_managed(&range, 4000));
    APP_OK(gpu_free(range));
    begin_rounds();
    APP_OK(gpu_host_alloc(&more, 9 * APP_MIB, 0));
    APP_OK(gpu_free_host(more));
    end_rounds();
}

/* ---- managed ------------------------------------------------------------------------
 */

static void one_range(size_t words, uint32_t seed)
{
    gpu_ptr range;
    uint32_t *host;

    APP_OK(gpu_malloc_managed(&range, words * 4));
    host = gpu_on_host(range);
    app_fill(&kernels, range, words, seed, stream);
    APP_OK(gpu_stream_sync(stream));
    for (size_t i = 0; i < words; i += 97)
        app_expect(host[i] == gs_pattern(seed, i), "what the kernel wrote");
    host[words - 1] = seed;
    APP_OK(gpu_free(range));
}

static void managed(void)
{
    static const size_t words[] = {1, 300, 5000, 70000, 700000};

    for (size_t i = 0; i < APP_COUNT(words); i++)
        one_range(words[i], 3);
    begin_rounds();
    for (long i = 0; i < rounds; i++)
        for (size_t k = 0; k < APP_COUNT(words); k++)
            one_range(words[k], (uint32_t)(i * 10) + (uint32_t)k);
    end_rounds();
}

/* The ranges that the library keeps are zero. A driver's own of less than 2 MiB come back
 * with their old bytes (H200, 580.159.04): nothing is asked of them. */
static void fresh(void)
{
    const size_t kept = gpushim_library() ? 4096 : 0;
    size_t dirty = 0;

    begin_rounds();
    for (long i = 0; i < rounds; i++) {
        for (size_t k = 0; k < APP_COUNT(sizes); k++) {
            gpu_ptr range;
            unsigned char *host;

            APP_OK(gpu_malloc_managed(&range, sizes[k]));
            host = gpu_on_host(range);
            for (size_t byte = 0; byte < sizes[k]; byte++)
                dirty += sizes[k] <= kept && host[byte] != 0;
            memset(host, 0xa5, sizes[k]);
            APP_OK(gpu_free(range));
        }
    }
    end_rounds();
    printf("hostpools: %zu bytes of managed memory not zero\n", dirty);
}

/* ---- threads ------------------------------------------------------------------------
 */

static struct {
    pthread_mutex_t lock;
    void *block; /* left by another thread, for whoever comes */
    size_t bytes;
    uint32_t seed;
} left = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void swap_with_left(void **block, size_t *bytes, uint32_t *seed)
{
    void *old_block = left.block;
    size_t old_bytes = left.bytes;
    uint32_t old_seed = left.seed;

    left.block = *block, left.bytes = *bytes, left.seed = *seed;
    *block = old_block, *bytes = old_bytes, *seed = old_seed;
}

static void *thread(void *argument)
{
    uint32_t number = (uint32_t)(uintptr_t)argument;

    app_gpu_thread();
    for (uint32_t i = 0; i < (uint32_t)rounds; i++) {
        size_t bytes = sizes[(i + number) % (APP_COUNT(sizes) - 1)];
        uint32_t seed = number * 100000 + i;
        void *block;

        APP_OK(gpu_host_alloc(&block, bytes, flags[i % APP_COUNT(flags)]));
        app_bytes_fill(block, bytes, seed);
        pthread_mutex_lock(&left.lock);
        swap_with_left(&block, &bytes, &seed);
        pthread_mutex_unlock(&left.lock);
        if (!block)
            continue;
        app_expect(app_bytes_match(block, bytes, seed), "what another thread wrote");
        APP_OK(gpu_free_host(block));
    }
    return NULL;
}

static void threads(void)
{
    pthread_t ids[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        app_check(pthread_create(&ids[i], NULL, thread, (void *)i), "pthread_create",
                  __FILE__, __LINE__);
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    if (left.block)
        APP_OK(gpu_free_host(left.block));
}

/* ---- wrong frees --------------------------------------------------------------------
 */

static void say(const char *what, int code)
{
    printf("hostpools: %-28s %d\n", what, code);
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

static void bad(void)
{
    static char plain[64];
    void *block = NULL, *large;
    gpu_ptr range, device;

    APP_OK(gpu_host_alloc(&block, 5000, 0));
    say("inside a pinned block", (int)gpu_free_host((char *)block + 64));
    say("pinned, as device memory", (int)gpu_free(gpu_from_address(block)));
    APP_OK(gpu_free_host(block));
    say("pinned, twice", (int)gpu_free_host(block));
    APP_OK(gpu_host_alloc(&large, 3 * APP_MIB, 0));
    say("inside a large one", (int)gpu_free_host((char *)large + 4096));
    APP_OK(gpu_free_host(large));
    say("large, twice", (int)gpu_free_host(large));
    say("plain memory", (int)gpu_free_host(plain));
    APP_OK(gpu_malloc(&device, 5000));
    say("device memory", (int)gpu_free_host(gpu_on_host(device)));
    APP_OK(gpu_free(device));
    say("no bytes", (int)gpu_host_alloc(&block, 0, 0));
    say("flags there are not", (int)gpu_host_alloc(&block, 64, 0x80));
    APP_OK(gpu_malloc_managed(&range, 5000));
    say("managed, as pinned", (int)gpu_free_host(gpu_on_host(range)));
    say("inside a managed range",
        (int)gpu_free(gpu_from_address((char *)gpu_on_host(range) + 64)));
    APP_OK(gpu_free(range));
    say("managed, twice", (int)gpu_free(range));
    say("managed, no bytes", (int)gpu_malloc_managed(&range, 0));
}

/* ---- fork ---------------------------------------------------------------------------
 */

static void forked(void)
{
    void *block, *idle;
    int status = 0;
    pid_t child;

    APP_OK(gpu_malloc_host(&block, 5000));
    APP_OK(gpu_malloc_host(&idle, 5000));
    APP_OK(gpu_free_host(idle));
    app_bytes_fill(block, 5000, 9);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        void *other;

        /* Whatever it answers, it answers, and harms nobody. */
        _exit(gpu_malloc_host(&other, 5000) != 0 && gpu_free_host(block) != 0 ? 0 : 9);
    }
    app_expect(child > 0 && waitpid(child, &status, 0) == child, "the child ends");
    printf("hostpools: the child ended with %d\n", status);
    app_expect(app_bytes_match(block, 5000, 9), "the parent's memory");
    APP_OK(gpu_free_host(block));
    pinned();
}

/* ---- pages --------------------------------------------------------------------------
 */

#define PAGED_BYTES (3 * APP_MIB)

static void no_access(void *memory, size_t bytes)
{
    app_expect(mprotect(memory, bytes, PROT_NONE) == 0, "mprotect");
}

static void read_only(void *memory, size_t bytes)
{
    app_expect(mprotect(memory, bytes, PROT_READ) == 0, "mprotect");
}

static void not_forked(void *memory, size_t bytes)
{
    app_expect(madvise(memory, bytes, MADV_DONTFORK) == 0, "MADV_DONTFORK");
}

static void wiped(void *memory, size_t bytes)
{
    (void)madvise(memory, bytes, MADV_WIPEONFORK); /* of private memory only */
}

static void not_dumped(void *memory, size_t bytes)
{
    app_expect(madvise(memory, bytes, MADV_DONTDUMP) == 0, "MADV_DONTDUMP");
}

static void locked(void *memory, size_t bytes)
{
    (void)mlock(memory, bytes); /* RLIMIT_MEMLOCK may forbid it */
}

static void bound(void *memory, size_t bytes)
{
    unsigned long node = 1;

    (void)syscall(SYS_mbind, memory, bytes, 2 /* MPOL_BIND */, &node, 8ul, 0u);
}

/* Prints the flags of a mapping that a program can have changed. */
static void print_flags(const void *memory)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    unsigned long from, to;
    char line[512];
    bool inside = false;

    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%lx-%lx", &from, &to) == 2)
            inside = (uintptr_t)memory >= from && (uintptr_t)memory < to;
        if (inside && strncmp(line, "VmFlags", 7) == 0)
            printf(" %s%s%s%s", strstr(line, " dc") ? "dc" : "",
                   strstr(line, " wf") ? "wf" : "", strstr(line, " dd") ? "dd" : "",
                   strstr(line, " lo") ? "lo" : "");
    }
    if (file)
        fclose(file);
}

/* What a new owner finds: it writes all bytes, and a child of it reads them. */
static void print_new_owner(unsigned char *block)
{
    int policy = 0, status = 0;
    pid_t child;

    memset(block, 2, PAGED_BYTES);
    (void)syscall(SYS_get_mempolicy, &policy, NULL, 0ul, block, 2ul /* MPOL_F_ADDR */);
    print_flags(block);
    fflush(stdout);
    child = fork();
    if (child == 0)
        _exit(block[0] == 2 && block[PAGED_BYTES - 1] == 2 ? 0 : 1);
    app_expect(waitpid(child, &status, 0) == child, "the child ends");
    printf(" policy %d, child %d;", policy, status);
}

static void pages(void)
{
    static const struct {
        const char *name;
        void (*change)(void *memory, size_t bytes);
    } changes[] = {
        {"no access", no_access}, {"read-only", read_only},   {"not forked", not_forked},
        {"wiped", wiped},         {"not dumped", not_dumped}, {"locked", locked},
        {"bound", bound}};

    for (size_t i = 0; i < APP_COUNT(changes); i++) {
        for (size_t part = 0; part < 2; part++) { /* the whole block, its middle */
            size_t at = part ? APP_MIB : 0, bytes = part ? APP_MIB : PAGED_BYTES;
            void *block;

            APP_OK(gpu_malloc_host(&block, PAGED_BYTES));
            memset(block, 1, PAGED_BYTES);
            changes[i].change((char *)block + at, bytes);
            printf("hostpools: %s, %s: freed with %d, then", changes[i].name,
                   part ? "a part" : "all", (int)gpu_free_host(block));
            APP_OK(gpu_malloc_host(&block, PAGED_BYTES));
            print_new_owner(block);
            APP_OK(gpu_free_host(block));
            printf("\n");
        }
    }
}

/* The kernel still reads the pages that a pipe has when their owner frees them. */
static void spliced(void)
{
    unsigned char text[4096];
    void *block, *next;
    int ends[2];

    for (int i = 0; i < 3; i++) {
        struct iovec part;
        bool same = true;

        APP_OK(gpu_malloc_host(&block, PAGED_BYTES));
        memset(block, 'a' + i, PAGED_BYTES);
        app_expect(pipe(ends) == 0, "pipe");
        part = (struct iovec){(char *)block + APP_MIB, sizeof(text)};
        app_expect(vmsplice(ends[1], &part, 1, 0) == sizeof(text), "vmsplice");
        APP_OK(gpu_free_host(block));
        APP_OK(gpu_malloc_host(&next, PAGED_BYTES));
        memset(next, 'z', PAGED_BYTES);
        app_expect(read(ends[0], text, sizeof(text)) == sizeof(text), "read");
        for (size_t j = 0; j < sizeof(text); j++)
            same = same && text[j] == 'a' + i;
        printf("hostpools: the pipe has %s bytes\n", same ? "its own" : "another's");
        APP_OK(gpu_free_host(next));
        close(ends[0]);
        close(ends[1]);
    }
}

static const struct mode {
    const char *name;
    void (*run)(void);
} modes[] = {{"pinned", pinned},  {"managed", managed}, {"threads", threads},
             {"bad", bad},        {"fork", forked},     {"kept", kept},
             {"full", full},      {"fresh", fresh},     {"pages", pages},
             {"spliced", spliced}};

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "pinned";
    const struct mode *mode = NULL;

    rounds = argc > 2 ? atol(argv[2]) : 10;
    for (size_t i = 0; i < APP_COUNT(modes); i++)
        if (strcmp(modes[i].name, wanted) == 0)
            mode = &modes[i];
    if (!mode)
        return 2;
    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    mode->run();
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("hostpools: %s, %ld rounds\n", wanted, rounds);
    return 0;
}
