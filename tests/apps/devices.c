/*
 * devices.c - several devices in one program; with a single one, it takes every part.
 *
 * Proves that each device has blocks of its own, that a block is freed where it lives
 * whichever device is current, and that data goes from one device to another.
 */
#include "launch.h"

#define PARTS 8
#define COUNT ((size_t)100000)

/* One device, its kernels and a block. */
struct part {
    int device;
    struct app_kernels kernels;
    gpu_ptr block;
};

static uint64_t take_turn(uint64_t sum, struct part *parts, uint32_t round)
{
    static uint32_t words[COUNT];

    for (uint32_t i = 0; i < PARTS; i++) {
        app_gpu_use(parts[i].device);
        APP_OK(gpu_malloc(&parts[i].block, COUNT * 4));
        app_fill(&parts[i].kernels, parts[i].block, COUNT, round * PARTS + i, NULL);
        APP_OK(gpu_sync());
    }
    /* Unified addresses: the driver finds the devices by itself. */
    for (int i = 1; i < PARTS; i++)
        APP_OK(CU(cuMemcpy)(gpu_address(parts[i].block), gpu_address(parts[i - 1].block),
                            COUNT * 2));
    for (int i = 0; i < PARTS; i++) {
        app_gpu_use(parts[i].device);
        APP_OK(gpu_get(words, parts[i].block, COUNT * 4));
        sum = app_checksum(sum, words, COUNT * 4);
    }
    app_gpu_use(0);
    for (int i = 0; i < PARTS; i++)
        APP_OK(gpu_free(parts[i].block));
    return sum;
}

int main(void)
{
    struct part parts[PARTS];
    uint64_t sum = APP_CHECKSUM;
    int devices;

    app_gpu_start();
    devices = app_gpu_devices();
    for (int i = 0; i < PARTS; i++) {
        parts[i].device = i % devices;
        app_gpu_use(parts[i].device);
        app_kernels_load(&parts[i].kernels);
    }
    for (uint32_t round = 0; round < 6; round++)
        sum = take_turn(sum, parts, round);
    for (int i = 0; i < PARTS; i++) {
        app_gpu_use(parts[i].device);
        app_kernels_unload(&parts[i].kernels);
    }
    app_gpu_stop();
    printf("devices: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
