/*
 * hold.cpp - leaks of a static function, of an inlined one, of a template's and of a
 * lambda: what a report names when the debug information is packed, split or elsewhere.
 */
#include <cuda_runtime_api.h>

static void *keep[8];
static int kept;

__attribute__((noinline)) static void hold_static(size_t bytes)
{
    cudaMalloc(&keep[kept++], bytes);
    asm volatile("" ::: "memory");
}

__attribute__((always_inline)) static inline void hold_inlined(size_t bytes)
{
    cudaMalloc(&keep[kept++], bytes);
    asm volatile("" ::: "memory");
}

template <typename T> struct Store {
    __attribute__((noinline)) void put(size_t n)
    {
        cudaMalloc(&keep[kept++], n * sizeof(T));
        asm volatile("" ::: "memory");
    }
};

__attribute__((noinline)) static void outer()
{
    hold_inlined(3 << 20);
    asm volatile("" ::: "memory");
}

int main()
{
    hold_static(5 << 20);
    outer();
    Store<int> store;
    store.put(1 << 20);
    return 0;
}
