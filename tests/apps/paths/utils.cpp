/* utils.cpp - copied into two folders: a function of one name and line in two files. */
#include <cuda_runtime_api.h>

static __attribute__((noinline)) void *make(size_t bytes)
{
    void *out = nullptr;
    cudaMalloc(&out, bytes);
    return out;
}

extern "C" __attribute__((noinline)) void *get(size_t bytes)
{
    void *out = make(bytes);
    __asm__ volatile("" : "+r"(out));
    return out;
}
