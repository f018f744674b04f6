/*
 * case_memory_help.c - what the cases about memory share.
 * Owns:  nothing.   Lock: none; cases run on one thread.
 */
#include "case_memory_help.h"

#include <stdlib.h>
#include <string.h>

#define PERIOD 251

static unsigned char byte_at(size_t index, unsigned seed)
{
    return (unsigned char)(index % PERIOD + seed * 7 + 1);
}

void bytes_fill(void *to, size_t bytes, unsigned seed)
{
    unsigned char *at = to;

    for (size_t i = 0; i < bytes; i++)
        at[i] = byte_at(i, seed);
}

bool bytes_hold(const void *from, size_t bytes, unsigned seed)
{
    const unsigned char *at = from;
    size_t i = 0;

    while (i < bytes && at[i] == byte_at(i, seed))
        i++;
    return i == bytes;
}

CUdeviceptr device_get(size_t bytes)
{
    CUdeviceptr pointer = 0;

    return CHECK_OK(cuMemAlloc(&pointer, bytes)) ? pointer : 0;
}

void device_put(CUdeviceptr pointer)
{
    if (pointer)
        CHECK_OK(cuMemFree(pointer));
}

/* Pageable memory; a case cannot go on without it. */
static void *scratch(size_t bytes)
{
    void *memory = malloc(bytes);

    if (!memory)
        abort();
    return memory;
}

bool device_fill(CUdeviceptr to, size_t bytes, unsigned seed)
{
    void *memory = scratch(bytes);

    bytes_fill(memory, bytes, seed);
    /* From pageable memory "the DMA to final destination may not have completed". */
    bool copied =
        CHECK_OK(cuMemcpyHtoD(to, memory, bytes)) && CHECK_OK(cuStreamSynchronize(NULL));
    free(memory);
    return copied;
}

bool device_holds(CUdeviceptr from, size_t bytes, unsigned seed)
{
    void *memory = scratch(bytes);

    memset(memory, 0, bytes);
    bool same =
        CHECK_OK(cuMemcpyDtoH(memory, from, bytes)) && bytes_hold(memory, bytes, seed);
    free(memory);
    return same;
}

bool device_is(CUdeviceptr from, size_t bytes, unsigned char value)
{
    unsigned char *memory = scratch(bytes);
    size_t i = 0;

    memset(memory, value ^ 0xff, bytes);
    bool copied = CHECK_OK(cuMemcpyDtoH(memory, from, bytes));
    while (copied && i < bytes && memory[i] == value)
        i++;
    free(memory);
    return i == bytes;
}

CUcontext enter_context(void)
{
    /* By name: what the header calls cuCtxCreate is newer than what is linked against. */
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) =
        (__typeof__(create))driver_function("cuCtxCreate_v2");
    CUcontext other = NULL;

    if (!CHECK(create != NULL) || !CHECK_OK(create(&other, 0, the_device())))
        return NULL;
    return other;
}

void leave_context(CUcontext other)
{
    if (!other)
        return;
    CHECK_OK(cuCtxSetCurrent(other)); /* its end takes it off the thread's stack */
    CHECK_OK(cuCtxDestroy(other));
}

void drop_context(void)
{
    CUcontext now = NULL;

    while (cuCtxGetCurrent(&now) == CUDA_SUCCESS && now) {
        if (!CHECK_OK(cuCtxPopCurrent(&now)))
            return;
    }
}

void regain_context(void)
{
    CHECK_OK(cuCtxSetCurrent(the_context()));
}

CUresult pointer_code(CUdeviceptr pointer, CUpointer_attribute attribute)
{
    unsigned char value[64] = {0};

    return cuPointerGetAttribute(value, attribute, pointer);
}
