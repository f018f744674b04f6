/*
 * bench_soak.c - operations a second of many threads on a device that is nearly full.
 *
 *   bench_soak SECONDS [THREADS]     32 threads; 1 to 3600 seconds
 *   the line:  soak operations seconds refused
 *
 * All threads share one table of slots. An operation takes a random slot: a slot that is
 * empty gets a block of a random kind and size, a slot that holds a block loses it, so
 * that nine of ten blocks are freed by another thread than their allocator. Device blocks
 * of 512 B to 64 MiB, log-uniform, fill the device; one block in eight is pinned, one in
 * eight is managed, both of 64 KiB at most. Each thread sets part of every second device
 * block in a non-blocking stream of its own, and waits for that stream every 16
 * operations.
 *
 * An allocation that the device has no memory for counts as refused, not as an operation,
 * and the thread frees the next block that it comes across instead.
 *
 * The program reads nothing back: tests/order and tests/e2e judge the data.
 *
 * Ends with 1 if a call fails, with 2 for bad usage.
 * Owns: the slots.   Lock: none; a slot is an atomic word.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#include "bench_time.h"
#include "gs_base.h"

#define SLOTS        2048
#define MOST_THREADS 256
#define LEAST_SHIFT  9  /* 512 B */
#define SHIFTS       17 /* up to 64 MiB */
#define HOST_BYTES   (64 * GS_KIB)
#define SET_BYTES    (64 * GS_KIB)
#define WAIT_EVERY   16

enum kind { DEVICE, PINNED, MANAGED };

/* What a slot holds: the address and, in its low bits, the kind. All addresses are
 * multiples of 256. 0: nothing. */
static uintptr_t slots[SLOTS];
static CUcontext context; /* immutable after start */
static double end_ns;     /* immutable after start */

struct soaker {
    pthread_t thread;
    uint64_t random;
    CUstream stream;
    uint64_t operations, refused;
};

static void need(CUresult res, const char *what)
{
    if (res == CUDA_SUCCESS)
        return;
    fprintf(stderr, "bench_soak: %s: error %d\n", what, (int)res);
    exit(1);
}

/* xorshift64* */
static uint64_t draw(struct soaker *self)
{
    self->random ^= self->random >> 12;
    self->random ^= self->random << 25;
    self->random ^= self->random >> 27;
    return self->random * 2685821657736338717u;
}

static CUresult get(struct soaker *self, enum kind kind, size_t bytes, uintptr_t *addr)
{
    CUdeviceptr device = 0;
    void *pinned = NULL;
    CUresult res;

    switch (kind) {
    case PINNED:
        res = cuMemHostAlloc(&pinned, bytes, 0);
        *addr = (uintptr_t)pinned;
        return res;
    case MANAGED:
        res = cuMemAllocManaged(&device, bytes, CU_MEM_ATTACH_GLOBAL);
        break;
    default:
        res = cuMemAlloc(&device, bytes);
        break;
    }
    *addr = (uintptr_t)device;
    if (res == CUDA_SUCCESS && kind == DEVICE && self->operations % 2 == 0)
        need(cuMemsetD8Async(device, 0x5a, bytes < SET_BYTES ? bytes : SET_BYTES,
                             self->stream),
             "cuMemsetD8Async");
    return res;
}

static void give_back(uintptr_t held)
{
    uintptr_t addr = held & ~(uintptr_t)3;

    if ((held & 3) == PINNED)
        need(cuMemFreeHost((void *)addr), "cuMemFreeHost"); // NOLINT
    else
        need(cuMemFree(addr), "cuMemFree");
}

/* Fill the slot if it is still empty; what came between goes back at once. */
static bool fill(struct soaker *self, uintptr_t *slot)
{
    uint64_t dice = draw(self);
    enum kind kind = dice % 8 == 0 ? PINNED : dice % 8 == 1 ? MANAGED : DEVICE;
    size_t least = (size_t)1 << (LEAST_SHIFT + (dice >> 8) % SHIFTS);
    size_t bytes = least + (dice >> 16) % (least + 1);
    uintptr_t addr, empty = 0;

    if (kind != DEVICE && bytes > HOST_BYTES)
        bytes = HOST_BYTES;
    CUresult res = get(self, kind, bytes, &addr);
    if (res == CUDA_ERROR_OUT_OF_MEMORY) {
        self->refused++;
        return false;
    }
    need(res, "an allocation");
    if (!__atomic_compare_exchange_n(slot, &empty, addr | kind, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)) {
        give_back(addr | kind);
        self->operations++;
    }
    return true;
}

static void *soak(void *argument)
{
    struct soaker *self = argument;
    bool full = false; /* the device refused: free before anything else is allocated */

    need(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    need(cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    while (bench_now_ns() < end_ns) {
        uintptr_t *slot = &slots[draw(self) % SLOTS];
        uintptr_t held = __atomic_exchange_n(slot, 0, __ATOMIC_ACQ_REL);

        if (held) {
            give_back(held);
            full = false;
        } else if (full || !fill(self, slot)) {
            full = true;
            continue;
        }
        if (++self->operations % WAIT_EVERY == 0)
            need(cuStreamSynchronize(self->stream), "cuStreamSynchronize");
    }
    return NULL;
}

static unsigned long parse(const char *text, unsigned long most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    return *text < '0' || *text > '9' || *end || value > most ? 0 : value;
}

int main(int argc, char **argv)
{
    static struct soaker soakers[MOST_THREADS]; /* large */
    unsigned long seconds = argc > 1 ? parse(argv[1], 3600) : 0;
    unsigned long threads = argc > 2 ? parse(argv[2], MOST_THREADS) : 32;
    uint64_t operations = 0, refused = 0;
    double began;

    if (argc < 2 || argc > 3 || !seconds || !threads) {
        fprintf(stderr, "usage: bench_soak SECONDS [THREADS (1 to %d)]\n", MOST_THREADS);
        return 2;
    }
    need(cuInit(0), "cuInit");
    need(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    began = bench_now_ns();
    end_ns = began + (double)seconds * 1e9;
    for (unsigned long i = 0; i < threads; i++) {
        soakers[i].random = 0x9e3779b97f4a7c15u * (i + 1);
        if (pthread_create(&soakers[i].thread, NULL, soak, &soakers[i])) {
            fprintf(stderr, "bench_soak: no thread\n");
            return 1;
        }
    }
    for (unsigned long i = 0; i < threads; i++) {
        pthread_join(soakers[i].thread, NULL);
        operations += soakers[i].operations;
        refused += soakers[i].refused;
    }
    printf("soak %llu %.3f %llu\n", (unsigned long long)operations,
           (bench_now_ns() - began) / 1e9, (unsigned long long)refused);
    need(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    for (size_t i = 0; i < SLOTS; i++) {
        if (slots[i])
            give_back(slots[i]);
    }
    return 0;
}
