/*
 * group.c - a program that takes what it can get: one of a group that shares
 * GPUSHIM_MEM_LIMIT, or one whose full device spills.
 *
 *   group_WAY                 takes a little, gives it back
 *   group_WAY take            takes blocks until it is refused
 *   group_WAY again           the same twice
 *   group_WAY reset           the same twice, with a reset of the device between
 *   group_WAY ordered         the same twice, given back in the order of a stream
 *   group_WAY stream          the same twice, taken in the order of a stream, too
 *   group_WAY rows            the same twice, in rows of 1,000 bytes
 *   group_WAY hold MIB FILE   takes MIB, waits until FILE is there, gives nothing back
 *   group_WAY idle MIB FILE   takes MIB, gives it back, waits until FILE is there
 *   group_WAY drain MIB FILE  the same, a block every 0.2 s
 *   group_WAY leave MIB FILE  takes all of the device but MIB, waits until FILE is there
 *   group_WAY exec MIB        takes MIB, and becomes `take`
 *   group_WAY become MIB WORD...   takes MIB, and becomes the program of these words;
 *                             takes more where it cannot
 *   group_WAY large MIB N     takes MIB in one block, in N attempts, while it has idle
 *                             memory and has not waited for its work
 *   group_WAY captured MIB    takes 40 MiB, and captures an allocation of MIB
 *   group_WAY fork MIB        a child, then its parent take MIB each
 *   group_WAY turns MIB N     eight times takes MIB in one block and gives it back: 1 and
 *                             2 in turns
 *   group_WAY storm SEED      takes and gives back for ever
 *
 * Says what it got, and what the device has free before and after. MIB: in blocks of 2.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"

#define BLOCK ((size_t)2 << 20)

static gpu_ptr blocks[4096];
static bool in_order, in_rows; /* the order is that of the default stream */

static size_t device_total(void)
{
#if APP_RUNTIME
    struct cudaDeviceProp properties;

    APP_OK(cudaGetDeviceProperties(&properties, 0));
    return properties.totalGlobalMem;
#else
    size_t bytes;

    APP_OK(CU(cuDeviceTotalMem)(&bytes, 0));
    return bytes;
#endif
}

static void tell_free(const char *when)
{
    size_t free_bytes, total;

    APP_OK(gpu_mem_info(&free_bytes, &total));
    app_expect(device_total() == total, "the device's total is that of its free memory");
    printf("%s: %zu of %zu MiB free\n", when, free_bytes >> 20, total >> 20);
}

static bool take_one(gpu_ptr *block)
{
    size_t pitch;

    if (!in_rows)
        return (in_order ? gpu_malloc_async(block, BLOCK, NULL)
                         : gpu_malloc(block, BLOCK)) == 0;
    if (gpu_malloc_pitch(block, &pitch, 1000, BLOCK / 1024) != 0)
        return false;
    app_expect(pitch >= 1000 && pitch % 4 == 0, "the pitch");
    APP_OK(gpu_set_rows(*block, pitch, 7, 1000, BLOCK / 1024));
    return true;
}

/* Returns how many blocks there were, `most` at most. */
static unsigned take(unsigned most)
{
    unsigned count = 0;

    while (count < most && take_one(&blocks[count])) {
        if (in_order)
            APP_OK(gpu_set(blocks[count], (int)count & 127, BLOCK));
        count++;
    }
    printf("took %u MiB\n", 2 * count);
    fflush(stdout);
    return count;
}

/* Takes what the device has free but `kept`. Returns how many blocks that took. */
static unsigned take_all_but(size_t kept)
{
    unsigned count = 0;
    size_t free_bytes, total, bytes, most = (size_t)1 << 30;

    while (most >= BLOCK && count < sizeof(blocks) / sizeof(*blocks)) {
        APP_OK(gpu_mem_info(&free_bytes, &total));
        bytes = free_bytes > kept ? (free_bytes - kept) / BLOCK * BLOCK : 0;
        if (bytes > most)
            bytes = most;
        if (bytes == 0)
            break;
        if (gpu_malloc(&blocks[count], bytes) == 0)
            count++;
        else
            most /= 2; /* what is free may be in pieces */
    }
    APP_OK(gpu_mem_info(&free_bytes, &total));
    printf("left %zu MiB\n", free_bytes >> 20);
    fflush(stdout);
    return count;
}

static void give_back(unsigned count)
{
    while (count > 0)
        APP_OK(gpu_free(blocks[--count]));
}

/* Fails if a block has been another's, too. */
static void check_ordered(unsigned count)
{
    unsigned char byte;

    for (unsigned i = 0; i < count; i++) {
        APP_OK(gpu_get(&byte, blocks[i], 1));
        app_expect(byte == (i & 127), "what was written to a block");
    }
}

/* Takes `mib` in one block, with idle memory of its own and work that nobody waits for.
 */
static void take_large(unsigned mib, int tries)
{
    static unsigned char bytes[4096];
    gpu_stream stream;
    gpu_ptr kept, block;
    unsigned count = take(10);

    APP_OK(gpu_malloc(&kept, sizeof(bytes)));
    APP_OK(gpu_stream_create(&stream));
    give_back(count);
    APP_OK(gpu_put_async(kept, bytes, sizeof(bytes), stream));
    for (; tries > 0; tries--) {
        if (gpu_malloc(&block, (size_t)mib << 20) == 0) {
            printf("got %u MiB\n", mib);
            return;
        }
        usleep(500000);
    }
    printf("refused %u MiB\n", mib);
}

/* Its memory is the graph's. */
static void take_captured(unsigned mib)
{
    gpu_stream stream;
    gpu_graph graph;
    gpu_ptr node;

    take(20);
    APP_OK(gpu_stream_create(&stream));
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    bool captured = gpu_malloc_async(&node, (size_t)mib << 20, stream) == 0;
    if (captured)
        APP_OK(gpu_free_async(node, stream));
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_graph_destroy(graph));
    printf("%s %u MiB\n", captured ? "captured" : "refused", mib);
}

/* In the first or the second half of every 1.4 s. */
static void take_turns(unsigned mib, int number)
{
    struct timespec now;
    gpu_ptr block;
    int got = 0;

    for (int turn = 0; turn < 8; turn++) {
        do {
            usleep(10000);
            clock_gettime(CLOCK_MONOTONIC, &now);
        } while ((now.tv_sec * 1000 + now.tv_nsec / 1000000) % 1400 / 700 != number - 1);
        if (gpu_malloc(&block, (size_t)mib << 20) == 0) {
            APP_OK(gpu_free(block));
            got++;
        } else {
            printf("refused in turn %d\n", turn);
        }
        do {
            usleep(10000);
            clock_gettime(CLOCK_MONOTONIC, &now);
        } while (turn < 7 &&
                 (now.tv_sec * 1000 + now.tv_nsec / 1000000) % 1400 / 700 == number - 1);
    }
    printf("%d of 8 turns\n", got);
}

static void drain(unsigned count)
{
    while (count > 0) {
        APP_OK(gpu_free(blocks[--count]));
        usleep(200000);
    }
}

static void storm(uint64_t seed)
{
    for (;;) {
        gpu_ptr *slot = &blocks[app_random(&seed) % 8];

        if (*slot) {
            APP_OK(gpu_free(*slot));
            *slot = 0;
        } else if (gpu_malloc(slot, BLOCK * (1 + app_random(&seed) % 3)) != 0)
            *slot = 0;
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    unsigned mib = argc > 2 ? (unsigned)atoi(argv[2]) : 8192;
    unsigned most = mib / 2, count;

    if (strcmp(what, "fork") == 0) {
        pid_t child = fork();
        if (child > 0)
            waitpid(child, NULL, 0);
    }
    app_gpu_start();
    if (strcmp(what, "storm") == 0)
        storm(argc > 2 ? (uint64_t)atoi(argv[2]) : 1);
    if (strcmp(what, "large") == 0) {
        take_large(mib, argc > 3 ? atoi(argv[3]) : 1);
        return 0;
    }
    if (strcmp(what, "turns") == 0) {
        take_turns(mib, argc > 3 ? atoi(argv[3]) : 1);
        return 0;
    }
    if (strcmp(what, "captured") == 0) {
        take_captured(mib);
        return 0;
    }
    if (strcmp(what, "take") == 0)
        tell_free("before");
    in_order = strcmp(what, "stream") == 0;
    in_rows = strcmp(what, "rows") == 0;
    if (strcmp(what, "leave") == 0)
        count = take_all_but((size_t)mib << 20);
    else
        count = take(what[0] ? most : 4);
    if (strcmp(what, "take") == 0)
        tell_free("after");
    if (strcmp(what, "again") == 0 || in_rows)
        give_back(count);
    if (strcmp(what, "reset") == 0)
        app_gpu_reset();
    if (in_order)
        check_ordered(count);
    if (strcmp(what, "ordered") == 0 || in_order) {
        while (count > 0)
            APP_OK(gpu_free_async(blocks[--count], NULL));
        APP_OK(gpu_sync());
    }
    if (strcmp(what, "again") == 0 || strcmp(what, "reset") == 0 ||
        strcmp(what, "ordered") == 0 || in_order || in_rows)
        count = take(most);
    if (strcmp(what, "exec") == 0) {
        execl("/proc/self/exe", argv[0], "take", (char *)NULL);
        return 1;
    }
    if (strcmp(what, "become") == 0) {
        execv(argv[3], argv + 3);
        take(4096);
        return 0;
    }
    if (strcmp(what, "drain") == 0) {
        drain(count);
        count = 0;
    }
    if (strcmp(what, "idle") == 0) {
        give_back(count);
        count = 0;
        printf("gave back\n");
        fflush(stdout);
    }
    for (int i = 0; argc > 3 && i < 6000 && access(argv[3], F_OK) != 0; i++)
        usleep(10000);
    if (strcmp(what, "hold") != 0)
        give_back(count);
    return 0;
}
