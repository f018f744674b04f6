/* plugin.c - leaks in an exported function, and in a hidden one that it calls. */
#include <cuda_runtime_api.h>

void plugin_allocate(void);

__attribute__((noinline)) static void plugin_hidden(void)
{
    void *p;

    cudaMalloc(&p, 3 << 20);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void plugin_allocate(void)
{
    plugin_hidden();
    __asm__ volatile("" ::: "memory");
}
