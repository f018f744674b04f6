/*
 * case_order_copy.c - which copies and sets the host waits for. A blocking stream is
 * held, so that the default stream, which the synchronous forms use, is held as well: a
 * call that waits for its work does not come back before it is let go.
 */
#include <stdlib.h>
#include <string.h>

#include "work.h"

#define SYNC "API synchronization behavior"

/* Copies of 64 KiB or less from host to device may return at once, says the Programming
 * Guide ("Asynchronous Concurrent Execution"). */
#define LARGE       ((size_t)1 << 20)
#define LARGE_WORDS (LARGE / sizeof(uint32_t))

struct copy_call {
    CUresult (*function)(struct copy_call *);
    CUdeviceptr device, other;
    void *host;
    CUstream stream;
    CUresult res;
};

static void make_call(void *argument)
{
    struct copy_call *call = argument;

    call->res = call->function(call);
}

static CUresult to_host(struct copy_call *call)
{
    return cuMemcpyDtoH(call->host, call->device, 4);
}

static CUresult to_device(struct copy_call *call)
{
    return cuMemcpyHtoD(call->device, call->host, LARGE);
}

static CUresult within_device(struct copy_call *call)
{
    return cuMemcpyDtoD(call->device, call->other, 4);
}

static CUresult set(struct copy_call *call)
{
    return cuMemsetD32(call->device, 9, 1);
}

static CUresult to_host_async(struct copy_call *call)
{
    return cuMemcpyDtoHAsync(call->host, call->device, 4, call->stream);
}

static CUresult to_device_async(struct copy_call *call)
{
    return cuMemcpyHtoDAsync(call->device, call->host, 4, call->stream);
}

static CUresult within_device_async(struct copy_call *call)
{
    return cuMemcpyDtoDAsync(call->device, call->other, 4, call->stream);
}

static CUresult set_async(struct copy_call *call)
{
    return cuMemsetD32Async(call->device, 9, 1, call->stream);
}

/* Make the call while call->stream is held, which an asynchronous one is made on. Does it
 * come back only when the stream is let go? */
static void check_beside(struct copy_call *call, bool waits)
{
    struct blocker blocker;

    if (block_stream(&blocker, call->stream)) {
        struct pending_call *pending = start_call(make_call, call);
        if (waits)
            CHECK(!came_back(pending, BLOCKS_MS));
        else
            CHECK(came_back(pending, RETURNS_MS));
        CHECK_CODE(cuStreamQuery(call->stream), CUDA_ERROR_NOT_READY);
        unblock(&blocker);
        join_call(pending);
        CHECK_OK(call->res);
        end_block(&blocker);
    }
    CHECK_OK(cuCtxSynchronize());
}

/* The same with a stream with these flags. */
static void check_call(struct copy_call *call, unsigned flags, bool waits)
{
    call->stream = new_stream(flags);
    check_beside(call, waits);
    end_stream(call->stream);
}

CASE(copy, device_to_pageable_waits, DRIVER_API, SYNC,
     "For transfers from device to pageable host memory, the function returns only once "
     "the copy has completed")
{
    uint32_t word = 5;
    struct copy_call call = {.function = to_host, .device = new_words(1), .host = &word};

    check_call(&call, CU_STREAM_DEFAULT, true);
    CHECK_EQUAL(word, 0);
    end_words(call.device);
}

CASE(copy, device_to_pinned_waits, DRIVER_API, SYNC,
     "For transfers from device to pinned host memory, the function returns only once "
     "the copy has completed")
{
    PINNED *pinned = new_pinned(1);
    struct copy_call call = {.function = to_host, .device = new_words(1), .host = pinned};

    put_word(call.device, 6);
    check_call(&call, CU_STREAM_DEFAULT, true);
    CHECK_EQUAL(pinned[0], 6);
    end_words(call.device);
}

CASE(copy, pinned_to_device_waits, DRIVER_API, SYNC,
     "For transfers from pinned host memory to device memory, the function is "
     "synchronous with respect to the host")
{
    PINNED *pinned = new_pinned(LARGE_WORDS);
    struct copy_call call = {
        .function = to_device, .device = new_words(LARGE_WORDS), .host = pinned};

    pinned[LARGE_WORDS - 1] = 6;
    check_call(&call, CU_STREAM_DEFAULT, true);
    CHECK_EQUAL(word_at(call.device, LARGE_WORDS - 1), 6);
    end_words(call.device);
}

CASE(copy, pageable_to_device_waits_for_the_stream, DRIVER_API, SYNC,
     "For transfers from pageable host memory to device memory, a stream sync is "
     "performed before the copy is initiated")
{
    uint32_t *words = calloc(LARGE_WORDS, sizeof(uint32_t));
    struct copy_call call = {.function = to_device,
                             .device = new_words(LARGE_WORDS),
                             .host = words,
                             .stream = CU_STREAM_LEGACY};

    if (words) {
        words[LARGE_WORDS - 1] = 6;
        check_beside(&call, true);
        CHECK_EQUAL(word_at(call.device, LARGE_WORDS - 1), 6);
    }
    end_words(call.device);
    free(words);
}

CASE(copy, pageable_source_may_be_changed, DRIVER_API, SYNC,
     "From pageable memory the function will return once the buffer has been copied to "
     "the staging memory: what is written to it afterwards is not copied")
{
    DEVICE_WORDS words = new_words(1024);
    uint32_t source[1024], result[1024];

    for (uint32_t i = 0; i < 1024; i++)
        source[i] = i;
    CHECK_OK(cuMemcpyHtoD(words, source, sizeof(source)));
    memset(source, 0xff, sizeof(source));
    CHECK_OK(cuMemcpyDtoH(result, words, sizeof(result)));
    for (uint32_t i = 0; i < 1024; i += 31)
        CHECK_EQUAL(result[i], i);
}

CASE(copy, within_device_does_not_wait, DRIVER_API, SYNC,
     "For transfers from device memory to device memory, no host-side synchronization "
     "is performed")
{
    DEVICE_WORDS words = new_words(2);
    struct copy_call call = {
        .function = within_device, .device = words + 4, .other = words};

    put_word(words, 6);
    check_call(&call, CU_STREAM_DEFAULT, false);
    CHECK_EQUAL(word_at(words, 1), 6);
}

CASE(copy, set_of_device_memory_does_not_wait, DRIVER_API, SYNC,
     "The synchronous memset functions are asynchronous with respect to the host except "
     "when the target is pinned host memory or a Unified Memory region")
{
    struct copy_call call = {.function = set, .device = new_words(1)};

    check_call(&call, CU_STREAM_DEFAULT, false);
    CHECK_EQUAL(word_at(call.device, 0), 9);
    end_words(call.device);
}

CASE(copy, set_of_pinned_memory_waits, DRIVER_API, SYNC,
     "When the target is pinned host memory the memset functions are fully synchronous")
{
    PINNED *pinned = new_pinned(1);
    struct copy_call call = {.function = set, .device = seen(pinned)};

    check_call(&call, CU_STREAM_DEFAULT, true);
    CHECK_EQUAL(pinned[0], 9);
}

CASE(copy, set_of_managed_memory_waits, DRIVER_API, SYNC,
     "When the target is a Unified Memory region the memset functions are fully "
     "synchronous")
{
    struct copy_call call = {.function = set};

    if (!device_has(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                    "the device has no concurrent managed access"))
        return;
    if (!CHECK_OK(cuMemAllocManaged(&call.device, 4096, CU_MEM_ATTACH_GLOBAL)))
        return;
    check_call(&call, CU_STREAM_DEFAULT, true);
    CHECK_EQUAL(*(uint32_t *)(uintptr_t)call.device, 9);
    CHECK_OK(cuMemFree(call.device));
}

CASE(copy, async_to_pinned_does_not_wait, DRIVER_API, SYNC,
     "Asynchronous transfers between device memory and pinned memory are asynchronous "
     "with respect to the host")
{
    PINNED *pinned = new_pinned(1);
    struct copy_call call = {
        .function = to_host_async, .device = new_words(1), .host = pinned};

    pinned[0] = 5;
    check_call(&call, CU_STREAM_NON_BLOCKING, false);
    CHECK_EQUAL(pinned[0], 0);
    end_words(call.device);
}

CASE(copy, async_from_pinned_does_not_wait, DRIVER_API, SYNC,
     "Asynchronous transfers between device memory and pinned memory are asynchronous "
     "with respect to the host")
{
    PINNED *pinned = new_pinned(1);
    struct copy_call call = {
        .function = to_device_async, .device = new_words(1), .host = pinned};

    pinned[0] = 5;
    check_call(&call, CU_STREAM_NON_BLOCKING, false);
    CHECK_EQUAL(word_at(call.device, 0), 5);
    end_words(call.device);
}

CASE(copy, async_within_device_does_not_wait, DRIVER_API, SYNC,
     "Asynchronous transfers from device memory to device memory are fully asynchronous")
{
    DEVICE_WORDS words = new_words(2);
    struct copy_call call = {
        .function = within_device_async, .device = words + 4, .other = words};

    put_word(words, 6);
    check_call(&call, CU_STREAM_NON_BLOCKING, false);
    CHECK_EQUAL(word_at(words, 1), 6);
}

CASE(copy, async_set_does_not_wait, DRIVER_API, SYNC,
     "The Async versions of the memset functions are always asynchronous with respect to "
     "the host")
{
    struct copy_call call = {.function = set_async, .device = new_words(1)};

    check_call(&call, CU_STREAM_NON_BLOCKING, false);
    CHECK_EQUAL(word_at(call.device, 0), 9);
    end_words(call.device);
}

CASE(copy, async_set_of_pinned_memory_does_not_wait, DRIVER_API, SYNC,
     "The Async versions of the memset functions are always asynchronous with respect to "
     "the host, whatever the target")
{
    PINNED *pinned = new_pinned(1);
    struct copy_call call = {.function = set_async, .device = seen(pinned)};

    check_call(&call, CU_STREAM_NON_BLOCKING, false);
    CHECK_EQUAL(pinned[0], 9);
}

CASE(copy, async_to_pageable_takes_its_turn, DRIVER_API, SYNC,
     "For transfers between device memory and pageable host memory the function might be "
     "synchronous: it may wait, and the copy comes behind the stream's work either way")
{
    STREAM stream = new_stream(CU_STREAM_NON_BLOCKING);
    uint32_t word = 5;
    struct copy_call call = {.function = to_host_async,
                             .device = new_words(1),
                             .host = &word,
                             .stream = stream};
    struct blocker blocker;

    if (block_stream(&blocker, stream)) {
        CHECK_OK(set_word(stream, call.device, 8));
        struct pending_call *pending = start_call(make_call, &call);
        came_back(pending, BLOCKS_MS);
        unblock(&blocker);
        join_call(pending);
        CHECK_OK(call.res);
        end_block(&blocker);
        CHECK_EQUAL(word, 8);
    }
    end_words(call.device);
}

CASE(copy, synchronous_form_uses_the_default_stream, DRIVER_API, SYNC,
     "The synchronous forms of these APIs issue these copies through the default stream, "
     "which does not wait for non-blocking streams")
{
    uint32_t word = 5;
    struct copy_call call = {.function = to_host, .device = new_words(1), .host = &word};

    check_call(&call, CU_STREAM_NON_BLOCKING, false);
    CHECK_EQUAL(word, 0);
    end_words(call.device);
}

CASE(copy, host_to_host_is_complete, DRIVER_API, SYNC,
     "For transfers from any host memory to any host memory, the function is fully "
     "synchronous with respect to the host")
{
    PINNED *pinned = new_pinned(2);

    pinned[0] = 6;
    CHECK_OK(cuMemcpy(seen(&pinned[1]), seen(&pinned[0]), 4));
    CHECK_EQUAL(pinned[1], 6);
}

CASE(copy, synchronous_forms_are_in_order, DRIVER_API, SYNC,
     "A set and a copy that the host does not wait for are still issued through the "
     "default stream, in order")
{
    STREAM held = new_stream(CU_STREAM_DEFAULT);
    DEVICE_WORDS words = new_words(2);
    struct blocker blocker;

    if (block_stream(&blocker, held)) {
        CHECK_OK(set_word(held, words, 3));
        CHECK_OK(cuMemcpyDtoD(words + 4, words, 4));
        CHECK_OK(cuMemsetD32(words, 4, 1));
        CHECK_CODE(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
        end_block(&blocker);
        CHECK_EQUAL(word_at(words, 1), 3);
        CHECK_EQUAL(word_at(words, 0), 4);
    }
}
