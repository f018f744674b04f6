/*
 * peers.c - a thread for each device, each with a context of its own and access to all
 * the others' memory.
 *
 * Proves that blocks come from the device of the thread's own context, and that a block
 * is read by a neighbour and freed by it, with another context current. Prints a checksum
 * of what each thread has read.
 */
#include "app.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

#include <pthread.h>

#define PARTS  4
#define ROUNDS 20

static const size_t sizes[] = {300, 5000, 70000, 600000, 3 << 20};

struct part {
    pthread_t thread;
    int index, device;
    CUcontext context;
    CUdeviceptr block;
    uint64_t sum;
};

static struct part parts[PARTS];
static pthread_barrier_t together;

static void meet(void)
{
    (void)pthread_barrier_wait(&together);
}

static struct part *beside(const struct part *part, int steps)
{
    return &parts[(part->index + steps) % PARTS];
}

static void open_to_others(const struct part *part)
{
    for (int i = 1; i < PARTS; i++) {
        const struct part *other = beside(part, i);
        if (other->device != part->device)
            APP_OK(cuCtxEnablePeerAccess(other->context, 0));
    }
}

/* What lies at `from` on another device, by a block of this thread's. */
static void read_block(struct part *part, const struct part *from, size_t bytes,
                       bool by_stream, CUstream stream, unsigned char *to)
{
    CUdeviceptr copy;

    APP_OK(cuMemAlloc_v2(&copy, bytes));
    if (by_stream) {
        APP_OK(cuMemcpyPeerAsync(copy, part->context, from->block, from->context, bytes,
                                 stream));
        APP_OK(cuMemcpyDtoHAsync_v2(to, copy, bytes, stream));
        APP_OK(cuStreamSynchronize(stream));
    } else {
        APP_OK(cuMemcpyDtoD_v2(copy, from->block, bytes));
        APP_OK(cuMemcpyDtoH_v2(to, copy, bytes));
    }
    APP_OK(cuMemFree_v2(copy));
}

static void round_of(struct part *part, int round, CUstream stream, unsigned char *data)
{
    size_t bytes = sizes[round % (int)APP_COUNT(sizes)];
    struct part *next = beside(part, 1 + round % (PARTS - 1));
    int device = -1;

    APP_OK(cuMemAlloc_v2(&part->block, bytes));
    APP_OK(
        cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, part->block));
    app_expect(device == part->device, "a block lies on its context's device");
    APP_OK(cuMemsetD8_v2(part->block, (unsigned char)(16 * part->index + round % 16),
                         bytes));
    APP_OK(cuCtxSynchronize());
    meet();
    read_block(part, next, bytes, round % 2, stream, data);
    for (size_t i = 0; i < bytes; i++)
        app_expect(data[i] == (unsigned char)(16 * next->index + round % 16),
                   "a neighbour's block has its bytes");
    part->sum = app_checksum(part->sum, data, bytes);
    meet();
    APP_OK(cuMemFree_v2(next->block)); /* by its reader */
    meet();
}

static void *run(void *closure)
{
    struct part *part = closure;
    unsigned char *data;
    CUstream stream;

    APP_OK(cuCtxCreate_v2(&part->context, 0, part->device));
    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    data = malloc(sizes[APP_COUNT(sizes) - 1]);
    if (!data)
        app_fail("malloc", "host memory");
    meet();
    open_to_others(part);
    meet();
    part->sum = APP_CHECKSUM;
    for (int round = 0; round < ROUNDS; round++)
        round_of(part, round, stream, data);
    APP_OK(cuStreamDestroy_v2(stream));
    free(data);
    meet();
    APP_OK(cuCtxDestroy_v2(part->context));
    return NULL;
}

int main(void)
{
    int devices = 0;

    APP_OK(cuInit(0));
    APP_OK(cuDeviceGetCount(&devices));
    app_expect(devices > 0 && pthread_barrier_init(&together, NULL, PARTS) == 0,
               "devices and a barrier");
    for (int i = 0; i < PARTS; i++) {
        parts[i].index = i;
        parts[i].device = i % devices;
        app_expect(pthread_create(&parts[i].thread, NULL, run, &parts[i]) == 0,
                   "a thread");
    }
    for (int i = 0; i < PARTS; i++)
        (void)pthread_join(parts[i].thread, NULL);
    for (int i = 0; i < PARTS; i++)
        printf("peers: %d %016llx\n", i, (unsigned long long)parts[i].sum);
    return 0;
}
