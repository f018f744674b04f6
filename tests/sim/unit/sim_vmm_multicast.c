/*
 * sim_vmm_multicast.c - proves multicast objects: teams, bindings, and that what is
 * written through the one address reaches the memory of every device.
 */
#include "sim_vmm_help.h"

#include <stdatomic.h>

#include "../kernels/kernels.h"

#if CUDA_VERSION >= 12010

static CUmemGenericAllocationHandle team(unsigned devices, size_t bytes)
{
    const CUmulticastObjectProp prop = {.numDevices = devices, .size = bytes};
    CUmemGenericAllocationHandle handle;

    ok(cuMulticastCreate(&handle, &prop));
    for (unsigned i = 0; i < devices; i++)
        ok(cuMulticastAddDevice(handle, (CUdevice)i));
    return handle;
}

Test(sim_vmm_multicast, is_not_there_on_one_device)
{
    const CUmulticastObjectProp prop = {.numDevices = 1, .size = UNIT};
    CUmemGenericAllocationHandle handle;
    int supported = -1;
    size_t bytes;

    sim_test_start("1", "16M");
    ok(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
    cr_assert_eq(supported, 0);
    fails(cuMulticastCreate(&handle, &prop), CUDA_ERROR_NOT_SUPPORTED);
    fails(cuMulticastGetGranularity(&bytes, &prop, CU_MULTICAST_GRANULARITY_MINIMUM),
          CUDA_ERROR_NOT_SUPPORTED);
}

Test(sim_vmm_multicast, checks_its_team)
{
    CUmulticastObjectProp prop = {.numDevices = 2, .size = UNIT};
    CUmemGenericAllocationHandle handle;
    int supported = -1;
    size_t bytes = 0;

    sim_test_start("2", "16M");
    ok(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 1));
    cr_assert_eq(supported, 1);
    ok(cuMulticastGetGranularity(&bytes, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
    cr_assert_eq(bytes, UNIT);
    fails(cuMulticastCreate(NULL, &prop), CUDA_ERROR_INVALID_VALUE);
    fails(cuMulticastCreate(&handle, NULL), CUDA_ERROR_INVALID_VALUE);
    prop.size = UNIT / 2;
    fails(cuMulticastCreate(&handle, &prop), CUDA_ERROR_INVALID_VALUE);
    prop.size = UNIT;
    prop.numDevices = 3;
    fails(cuMulticastCreate(&handle, &prop), CUDA_ERROR_INVALID_VALUE);
    prop.numDevices = 2;
    prop.flags = 1;
    fails(cuMulticastCreate(&handle, &prop), CUDA_ERROR_INVALID_VALUE);
    prop.flags = 0;
    ok(cuMulticastCreate(&handle, &prop));
    fails(cuMulticastAddDevice(handle, 2), CUDA_ERROR_INVALID_DEVICE);
    ok(cuMulticastAddDevice(handle, 1));
    fails(cuMulticastAddDevice(handle, 1), CUDA_ERROR_INVALID_VALUE);
    ok(cuMulticastAddDevice(handle, 0));
    fails(cuMulticastAddDevice(handle, 0), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB, "it has no memory of its own");
    ok(cuMemRelease(handle));
    fails(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_vmm_multicast, a_write_reaches_every_memory)
{
    CUmemGenericAllocationHandle memory[2], object;
    CUdeviceptr seen[2], p;

    sim_test_start("2", "16M");
    object = team(2, 2 * UNIT);
    for (int i = 0; i < 2; i++) {
        memory[i] = sim_vmm_memory(i, 2 * UNIT);
        seen[i] = sim_vmm_map(memory[i], 2 * UNIT);
        ok(cuMulticastBindMem(object, 0, memory[i], 0, 2 * UNIT, 0));
    }
    p = sim_vmm_map(object, 2 * UNIT);
    ok(cuMemsetD32(p + UNIT - 4, 31, 2)); /* over the units' border */
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(sim_test_word(seen[i] + UNIT - 8), 0);
        cr_assert_eq(sim_test_word(seen[i] + UNIT - 4), 31);
        cr_assert_eq(sim_test_word(seen[i] + UNIT), 31);
    }
    uint64_t count = 64;
    uint32_t seed = 5;
    void *params[] = {&p, &count, &seed};
    ok(sim_test_launch(sim_test_kernel("gs_fill"), NULL, params));
    cr_assert_eq(sim_test_word(seen[0] + 40), gs_pattern(5, 10));
    cr_assert_eq(sim_test_word(seen[1] + 40), gs_pattern(5, 10));
    ok(cuMemsetD2D8(p + 4096, 512, 0x11, 4, 3));
    cr_assert_eq(sim_test_word(seen[1] + 4096 + 1024), 0x11111111);
    cr_assert_eq(sim_test_word(seen[1] + 4096 + 1028), 0, "between the rows nothing");
}

Test(sim_vmm_multicast, reaches_what_is_bound_and_nothing_else)
{
    CUmemGenericAllocationHandle memory[2], object;
    CUdeviceptr seen[2], p;

    sim_test_start("2", "16M");
    object = team(2, 2 * UNIT);
    p = sim_vmm_map(object, 2 * UNIT); /* mapped before anything is bound */
    fails(cuMemsetD32(p, 1, 1), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 2; i++) {
        memory[i] = sim_vmm_memory(i, UNIT);
        seen[i] = sim_vmm_map(memory[i], UNIT);
        ok(cuMulticastBindMem(object, UNIT, memory[i], 0, UNIT, 0));
    }
    ok(cuMemsetD32(p + UNIT, 32, 1));
    cr_assert_eq(sim_test_word(seen[0]), 32);
    cr_assert_eq(sim_test_word(seen[1]), 32);
    fails(cuMulticastUnbind(object, 0, 0, UNIT), CUDA_ERROR_INVALID_VALUE);
    ok(cuMulticastUnbind(object, 0, UNIT, UNIT));
    ok(cuMemsetD32(p + UNIT, 33, 1));
    cr_assert_eq(sim_test_word(seen[0]), 32);
    cr_assert_eq(sim_test_word(seen[1]), 33);
    ok(cuMulticastUnbind(object, 1, UNIT, UNIT));
    fails(cuMemsetD32(p + UNIT, 34, 1), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_test_word(seen[1]), 33);
}

Test(sim_vmm_multicast, binds_by_address_and_keeps_memory_alive)
{
    CUmemGenericAllocationHandle object, memory;
    CUdeviceptr p, q, pooled;

    sim_test_start("2", "16M");
    object = team(2, UNIT);
    memory = sim_vmm_memory(0, 2 * UNIT);
    p = sim_vmm_map(memory, 2 * UNIT);
    ok(cuMulticastBindAddr(object, 0, p + UNIT, UNIT, 0));
    q = sim_vmm_map(object, UNIT);
    ok(cuMemsetD32(q, 35, 1));
    cr_assert_eq(sim_test_word(p + UNIT), 35);
    ok(cuMemUnmap(p, 2 * UNIT));
    ok(cuMemRelease(memory));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - 2 * UNIT, "bound memory lives");
    ok(cuMulticastUnbind(object, 0, 0, UNIT));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
    ok(cuMemAllocAsync(&pooled, UNIT, NULL));
    ok(cuMulticastBindAddr(object, 0, pooled, UNIT, 0));
    ok(cuMemsetD32(q, 36, 1));
    cr_assert_eq(sim_test_word(pooled), 36);
    ok(cuMemUnmap(q, UNIT));
    ok(cuMemRelease(object)); /* and its binding with it */
    ok(cuMemFreeAsync(pooled, NULL));
    ok(cuCtxSynchronize());
}

Test(sim_vmm_multicast, refuses_bad_bindings)
{
    CUmemGenericAllocationHandle object, memory, other;

    sim_test_start("3", "16M");
    object = team(2, 2 * UNIT);
    memory = sim_vmm_memory(0, UNIT);
    other = sim_vmm_memory(2, UNIT);
    fails(cuMulticastBindMem(object, 0, other, 0, UNIT, 0), CUDA_ERROR_INVALID_DEVICE);
    fails(cuMulticastBindMem(object, 0, memory, 0, 2 * UNIT, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMulticastBindMem(object, 2 * UNIT, memory, 0, UNIT, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMulticastBindMem(object, 0, memory, 0, UNIT / 2, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMulticastBindMem(object, 0, memory, 0, UNIT, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuMulticastBindMem(memory, 0, memory, 0, UNIT, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMulticastBindMem(object, 0, object, 0, UNIT, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMulticastBindAddr(object, 0, 1 << 21, UNIT, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuMulticastBindMem(object, 0, memory, 0, UNIT, 0));
    fails(cuMulticastBindMem(object, 0, memory, 0, UNIT, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuMulticastBindMem(object, UNIT, memory, 0, UNIT, 0));
}

struct late {
    CUmemGenericAllocationHandle object;
    atomic_bool added;
};

static void *add_later(void *argument)
{
    struct late *late = argument;

    sim_test_sleep_ms(50);
    late->added = true;
    ok(cuMulticastAddDevice(late->object, 1));
    return NULL;
}

Test(sim_vmm_multicast, binding_waits_for_the_team)
{
    const CUmulticastObjectProp prop = {.numDevices = 2, .size = UNIT};
    struct late late = {0};
    pthread_t thread;

    sim_test_start("2", "16M");
    ok(cuMulticastCreate(&late.object, &prop));
    ok(cuMulticastAddDevice(late.object, 0));
    CUmemGenericAllocationHandle memory = sim_vmm_memory(0, UNIT);
    cr_assert_eq(pthread_create(&thread, NULL, add_later, &late), 0);
    ok(cuMulticastBindMem(late.object, 0, memory, 0, UNIT, 0));
    cr_assert(late.added);
    pthread_join(thread, NULL);
}

#endif
