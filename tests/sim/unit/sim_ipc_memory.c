/*
 * sim_ipc_memory.c - proves of memory between processes what is the simulated device's
 * own affair: what an exporter's end, a free, a wrong handle or a full range lead to.
 * What is documented stands in tests/sim/conformance/case_ipc_memory.c.
 */
#include <errno.h>
#include <string.h>

#include "sim_ipc_helpers.h"

#define WORD 0x12345678u

Test(sim_ipc_memory, outlives_the_exporter)
{
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr pointer, again;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    sim_remote_export(&remote, 5 * GS_MIB, WORD, &handle);
    ok(sim_open_here(&pointer, &handle));
    sim_remote_kill(&remote, false);
    cr_assert_eq(sim_test_word(pointer + 5 * GS_MIB - 4), WORD);
    ok(cuMemsetD32(pointer, 1, 1));
    cr_assert_eq(sim_test_word(pointer), 1);
    fails(sim_open_here(&again, &handle), CUDA_ERROR_MAP_FAILED);
    ok(cuIpcCloseMemHandle(pointer));
    fails(cuIpcCloseMemHandle(pointer), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_ipc_memory, each_is_its_own_place)
{
    struct remote remote;
    CUipcMemHandle handles[6];
    CUdeviceptr pointers[6];

    sim_remote_start(&remote, "1", "64M");
    sim_test_start("1", "64M");
    for (uint32_t i = 0; i < 6; i++)
        sim_remote_export(&remote, i % 2 ? 1000 : 3 * GS_MIB, WORD + i, &handles[i]);
    for (uint32_t i = 0; i < 6; i++)
        ok(sim_open_here(&pointers[i], &handles[i]));
    for (uint32_t i = 0; i < 6; i++) {
        cr_assert_eq(sim_test_word(pointers[i]), WORD + i);
        cr_assert_eq(sim_test_word(pointers[i] + (i % 2 ? 996 : 3 * GS_MIB - 4)),
                     WORD + i);
    }
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, a_handle_is_void_when_its_process_is_gone)
{
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr pointer;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    sim_remote_export(&remote, 1000, WORD, &handle);
    sim_remote_kill(&remote, true);
    fails(sim_open_here(&pointer, &handle), CUDA_ERROR_MAP_FAILED);
}

Test(sim_ipc_memory, a_handle_is_void_when_its_memory_is_freed)
{
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr pointer;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    CUdeviceptr theirs = sim_remote_export(&remote, 1000, WORD, &handle);
    sim_remote_do(&remote, REMOTE_FREE, theirs, 0, 0);
    fails(sim_open_here(&pointer, &handle), CUDA_ERROR_INVALID_VALUE);
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, a_free_while_it_is_open_harms_nobody)
{
    struct remote remote;
    CUipcMemHandle before, after;
    CUdeviceptr old, new;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    CUdeviceptr first = sim_remote_export(&remote, 4 * GS_MIB, WORD, &before);
    ok(sim_open_here(&old, &before));
    sim_remote_do(&remote, REMOTE_FREE, first, 0, 0);
    ok(cuMemsetD32(old, 1, 1000));
    ok(cuCtxSynchronize());
    CUdeviceptr second = sim_remote_export(&remote, 4 * GS_MIB, WORD, &after);
    cr_assert_eq(first, second);
    fails(sim_open_here(&new, &after), CUDA_ERROR_ALREADY_MAPPED);
    ok(cuIpcCloseMemHandle(old));
    ok(sim_open_here(&new, &after));
    cr_assert_eq(sim_test_word(new), WORD);
    ok(cuIpcCloseMemHandle(new));
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, the_first_abi_opens_once)
{
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr pointer;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    ok(cuMemAlloc(&pointer, 1000));
    ok(cuIpcGetMemHandle(&handle, pointer));
    struct remote_call call = {
        .what = REMOTE_OPEN, .a = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, .b = 1};
    memcpy(call.blob, &handle, sizeof(handle));
    struct remote_answer opened = remote_ask_full(&remote, &call, -1, NULL);
    ok(opened.code);
    fails(remote_ask_full(&remote, &call, -1, NULL).code, CUDA_ERROR_ALREADY_MAPPED);
    sim_remote_do(&remote, REMOTE_CLOSE, opened.x, 0, 0);
    ok(remote_ask_full(&remote, &call, -1, NULL).code);
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, an_opened_pointer_is_no_allocation)
{
    struct remote remote;
    CUipcMemHandle handle, again;
    CUdeviceptr pointer;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    sim_remote_export(&remote, 1000, WORD, &handle);
    ok(sim_open_here(&pointer, &handle));
    fails(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFreeAsync(pointer, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuIpcGetMemHandle(&again, pointer), CUDA_ERROR_INVALID_VALUE);
    fails(cuIpcCloseMemHandle(pointer + 512), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_test_word(pointer), WORD);
    ok(cuIpcCloseMemHandle(pointer));
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, the_cpu_cannot_touch_it)
{
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr pointer;
    int ends[2];

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    sim_remote_export(&remote, 1000, WORD, &handle);
    ok(sim_open_here(&pointer, &handle));
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], (void *)(uintptr_t)pointer, 1), -1);
    cr_assert_eq(errno, EFAULT);
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, an_access_beyond_it_is_refused)
{
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr pointer;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    sim_remote_export(&remote, 1000, WORD, &handle);
    ok(sim_open_here(&pointer, &handle));
    ok(cuMemsetD8(pointer, 0, 1000));
    fails(cuMemsetD8(pointer, 0, 1001), CUDA_ERROR_INVALID_VALUE);
    sim_remote_end(&remote);
}

static CUresult open_changed(CUipcMemHandle handle, size_t byte)
{
    CUdeviceptr pointer;

    handle.reserved[byte] ^= 0x10;
    return sim_open_here(&pointer, &handle);
}

Test(sim_ipc_memory, a_changed_handle_is_none)
{
    CUipcMemHandle handle;
    CUdeviceptr pointer, opened;

    sim_test_start("1", "16M");
    ok(cuMemAlloc(&pointer, 1000));
    ok(cuIpcGetMemHandle(&handle, pointer));
    for (size_t i = 0; i < sizeof(handle); i++)
        fails(open_changed(handle, i), CUDA_ERROR_INVALID_VALUE);
    fails(sim_open_here(&opened, &handle), CUDA_ERROR_INVALID_CONTEXT);
    fails(cuIpcOpenMemHandle(NULL, handle, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuIpcGetMemHandle(NULL, pointer), CUDA_ERROR_INVALID_VALUE);
    fails(cuIpcGetMemHandle(&handle, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuIpcCloseMemHandle(pointer), CUDA_ERROR_INVALID_VALUE);
    fails(cuIpcCloseMemHandle(0), CUDA_ERROR_INVALID_VALUE);
}

Test(sim_ipc_memory, a_handle_of_another_kind_is_none)
{
    struct remote remote;
    CUipcMemHandle memory;
    CUipcEventHandle event_handle;
    CUevent event;
    CUdeviceptr pointer;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    ok(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    ok(cuIpcGetEventHandle(&event_handle, event));
    ok(cuMemAlloc(&pointer, 1000));
    ok(cuIpcGetMemHandle(&memory, pointer));
    fails(remote_give(&remote, REMOTE_OPEN, 1, &event_handle).code,
          CUDA_ERROR_INVALID_VALUE);
    fails(remote_give(&remote, REMOTE_EVENT_OPEN, 0, &memory).code,
          CUDA_ERROR_INVALID_VALUE);
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, costs_the_importer_no_memory)
{
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr pointer;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    ok(cuMemAlloc(&pointer, 8 * GS_MIB));
    ok(cuIpcGetMemHandle(&handle, pointer));
    uint64_t before = sim_remote_do(&remote, REMOTE_FREE_BYTES, 0, 0, 0);
    CUdeviceptr there = sim_remote_open(&remote, &handle);
    cr_assert_eq(sim_remote_do(&remote, REMOTE_FREE_BYTES, 0, 0, 0), before);
    sim_remote_do(&remote, REMOTE_ALLOC, 16 * GS_MIB, 0, 0);
    sim_remote_do(&remote, REMOTE_CLOSE, there, 0, 0);
    cr_assert_eq(sim_remote_do(&remote, REMOTE_FREE_BYTES, 0, 0, 0),
                 before - 16 * GS_MIB);
    sim_remote_end(&remote);
}

/* The importer's range has room for four units. */
Test(sim_ipc_memory, runs_out_of_addresses)
{
    struct remote remote;
    CUipcMemHandle handles[5], large;
    CUdeviceptr pointer, there[5];

    sim_remote_start(&remote, "1", "2M");
    sim_test_start("1", "64M");
    for (int i = 0; i < 5; i++) {
        ok(cuMemAlloc(&pointer, 1000));
        ok(cuIpcGetMemHandle(&handles[i], pointer));
    }
    ok(cuMemAlloc(&pointer, 9 * GS_MIB));
    ok(cuIpcGetMemHandle(&large, pointer));
    fails(remote_open(&remote, &large).code, CUDA_ERROR_MAP_FAILED);
    for (int i = 0; i < 4; i++)
        there[i] = sim_remote_open(&remote, &handles[i]);
    fails(remote_open(&remote, &handles[4]).code, CUDA_ERROR_MAP_FAILED);
    sim_remote_do(&remote, REMOTE_CLOSE, there[2], 0, 0);
    there[4] = sim_remote_open(&remote, &handles[4]);
    cr_assert_eq(there[4] / (2 * GS_MIB), there[2] / (2 * GS_MIB));
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, gives_its_addresses_back)
{
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr pointer, own;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "2M");
    sim_remote_export(&remote, 7 * GS_MIB, WORD, &handle);
    for (int i = 0; i < 50; i++) {
        ok(sim_open_here(&pointer, &handle));
        cr_assert_eq(sim_test_word(pointer + GS_MIB), WORD);
        ok(cuIpcCloseMemHandle(pointer));
        ok(cuMemAlloc(&own, 2 * GS_MIB)); /* own pages are behind them again */
        cr_assert_eq(sim_test_word(own), 0);
        ok(cuMemsetD32(own, 1, 100));
        ok(cuMemFree(own));
    }
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, ends_with_the_context_that_opened_it)
{
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr pointer;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    ok(cuMemAlloc(&pointer, 1000));
    ok(cuMemsetD32(pointer, WORD, 250));
    ok(cuCtxSynchronize());
    ok(cuIpcGetMemHandle(&handle, pointer));
    uint64_t context = sim_remote_do(&remote, REMOTE_CONTEXT_NEW, 0, 0, 0);
    CUdeviceptr there = sim_remote_open(&remote, &handle);
    sim_remote_do(&remote, REMOTE_CONTEXT_END, context, 0, 0);
    fails(sim_remote_code(&remote, REMOTE_READ, there, 0, 0), CUDA_ERROR_INVALID_VALUE);
    fails(sim_remote_code(&remote, REMOTE_CLOSE, there, 0, 0), CUDA_ERROR_INVALID_VALUE);
    there = sim_remote_open(&remote, &handle); /* the primary context is free to */
    cr_assert_eq(sim_remote_do(&remote, REMOTE_READ, there, 0, 0), WORD);
    context = sim_remote_do(&remote, REMOTE_CONTEXT_NEW, 0, 0, 0);
    fails(remote_open(&remote, &handle).code, CUDA_ERROR_INVALID_HANDLE);
    uint64_t access = sim_remote_do(&remote, REMOTE_ATTRIBUTE, there,
                                    CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 0);
    cr_assert_eq(access, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    sim_remote_do(&remote, REMOTE_CONTEXT_END, context, 0, 0);
    access = sim_remote_do(&remote, REMOTE_ATTRIBUTE, there,
                           CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 0);
    cr_assert_eq(access, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, the_last_close_waits_for_work)
{
    struct remote_call call = {.what = REMOTE_CLOSE};
    struct remote_answer answer;
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr pointer;
    struct sim_latch latch;
    CUstream stream;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sim_remote_export(&remote, 4 * GS_MIB, WORD, &handle);
    ok(sim_open_here(&pointer, &handle));
    ok(sim_open_here(&pointer, &handle));
    sim_latch_block(&latch, stream);
    ok(cuMemsetD32Async(pointer, 7, 1, stream));
    ok(cuIpcCloseMemHandle(pointer)); /* not the last one */
    cr_assert_not(sim_latch_is_open(&latch));
    sim_latch_open_later(&latch);
    ok(cuIpcCloseMemHandle(pointer));
    cr_assert(sim_latch_is_open(&latch));
    sim_latch_join(&latch);
    call.what = REMOTE_FREE_BYTES;
    cr_assert(remote_tell(&remote, &call, -1));
    cr_assert(remote_hear(&remote, &answer, NULL, REMOTE_MS));
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, the_mapping_is_the_whole_unit)
{
    struct remote remote;
    CUipcMemHandle handle;
    CUdeviceptr first, second, base;
    size_t bytes, size;

    sim_remote_start(&remote, "1", "16M");
    sim_test_start("1", "16M");
    first = sim_remote_do(&remote, REMOTE_ALLOC, 1000, 0, 0);
    second = sim_remote_export(&remote, 3000, WORD, &handle);
    ok(sim_open_here(&base, &handle));
    cr_assert_eq(base % (2 * GS_MIB), second % (2 * GS_MIB));
    cr_assert_neq(first % (2 * GS_MIB), second % (2 * GS_MIB));
    ok(cuMemGetAddressRange(&first, &bytes, base + 2999));
    cr_assert_eq(first, base);
    cr_assert_eq(bytes, 3000);
    ok(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, base));
    cr_assert_eq(first, base & ~(CUdeviceptr)(2 * GS_MIB - 1));
    ok(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, base));
    cr_assert_eq(size, 2 * GS_MIB);
    sim_remote_end(&remote);
}

Test(sim_ipc_memory, more_than_the_ledger_holds)
{
    enum { MOST = 8191 };
    static CUdeviceptr pointers[MOST + 1];
    CUipcMemHandle handle;

    sim_test_start("1", "64M");
    for (int i = 0; i <= MOST; i++)
        ok(cuMemAlloc(&pointers[i], 512));
    for (int i = 0; i < MOST; i++)
        ok(cuIpcGetMemHandle(&handle, pointers[i]));
    fails(cuIpcGetMemHandle(&handle, pointers[MOST]), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuIpcGetMemHandle(&handle, pointers[5])); /* which has its entry */
    ok(cuMemFree(pointers[1000]));
    ok(cuIpcGetMemHandle(&handle, pointers[MOST]));
}

Test(sim_ipc_memory, of_a_device_the_importer_lacks)
{
    struct remote two, one;
    CUipcMemHandle handle;
    CUcontext context;
    CUdeviceptr pointer;

    sim_remote_start(&two, "2", "16M");
    sim_remote_start(&one, "1", "16M");
    sim_test_start("2", "16M");
    ok(cuCtxCreate_v2(&context, 0, 1));
    ok(cuMemAlloc(&pointer, 1000));
    ok(cuMemsetD32(pointer, WORD, 250));
    ok(cuCtxSynchronize());
    ok(cuIpcGetMemHandle(&handle, pointer));
    CUdeviceptr there = sim_remote_open(&two, &handle);
    cr_assert_eq(sim_remote_do(&two, REMOTE_READ, there, 0, 0), WORD);
    cr_assert_eq(sim_remote_do(&two, REMOTE_ATTRIBUTE, there,
                               CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 0),
                 1);
    fails(remote_open(&one, &handle).code, CUDA_ERROR_MAP_FAILED);
    sim_remote_end(&two);
    sim_remote_end(&one);
}

struct opener {
    CUcontext context;
    CUipcMemHandle handle;
    CUdeviceptr pointer;
};

static void *open_and_close(void *argument)
{
    struct opener *opener = argument;
    CUdeviceptr pointer;

    ok(cuCtxSetCurrent(opener->context));
    for (int i = 0; i < 200; i++) {
        ok(sim_open_here(&pointer, &opener->handle));
        cr_assert_eq(pointer, opener->pointer);
        cr_assert_eq(sim_test_word(pointer), WORD);
        ok(cuIpcCloseMemHandle(pointer));
    }
    return NULL;
}

Test(sim_ipc_memory, opened_and_closed_by_many_threads)
{
    struct opener opener;
    struct remote remote;
    pthread_t threads[4];

    sim_remote_start(&remote, "1", "16M");
    opener.context = sim_test_start("1", "16M");
    sim_remote_export(&remote, 3000, WORD, &opener.handle);
    ok(sim_open_here(&opener.pointer, &opener.handle));
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, open_and_close, &opener), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ok(cuIpcCloseMemHandle(opener.pointer));
    fails(cuIpcCloseMemHandle(opener.pointer), CUDA_ERROR_INVALID_VALUE);
    sim_remote_end(&remote);
}

static void *close_one(void *argument)
{
    struct opener *opener = argument;

    ok(cuCtxSetCurrent(opener->context));
    ok(cuIpcCloseMemHandle(opener->pointer));
    return NULL;
}

/* Two threads close what is open twice while work runs on it: whoever is last waits. */
Test(sim_ipc_memory, closed_by_two_threads_while_work_runs)
{
    struct opener opener;
    struct remote remote;
    struct sim_latch latch;
    pthread_t threads[2];
    CUstream stream;

    sim_remote_start(&remote, "1", "16M");
    opener.context = sim_test_start("1", "16M");
    sim_latch_make(&latch);
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sim_remote_export(&remote, 3000, WORD, &opener.handle);
    ok(sim_open_here(&opener.pointer, &opener.handle));
    ok(sim_open_here(&opener.pointer, &opener.handle));
    sim_latch_block(&latch, stream);
    ok(cuMemsetD32Async(opener.pointer, 7, 1, stream));
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, close_one, &opener), 0);
    sim_test_sleep_ms(50);
    unsigned type;
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, opener.pointer));
    sim_latch_open(&latch);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    fails(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, opener.pointer),
          CUDA_ERROR_INVALID_VALUE);
    sim_remote_end(&remote);
}
