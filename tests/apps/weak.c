/*
 * weak.c - a program that uses CUDA only where it is already there, by weak references.
 *
 * Proves that a call through a weak reference, which a preloaded library satisfies
 * although no CUDA library is loaded, answers an error and does not crash.
 */
#include <stdio.h>

int cudaMalloc(void **out, unsigned long bytes) __attribute__((weak));
int cuMemAlloc_v2(unsigned long long *out, unsigned long bytes) __attribute__((weak));

int main(void)
{
    unsigned long long address = 0;
    void *pointer = NULL;

    printf("weak: cudaMalloc %s\n", !cudaMalloc                     ? "absent"
                                    : cudaMalloc(&pointer, 64) != 0 ? "refuses"
                                                                    : "answers");
    printf("weak: cuMemAlloc %s\n", !cuMemAlloc_v2                     ? "absent"
                                    : cuMemAlloc_v2(&address, 64) != 0 ? "refuses"
                                                                       : "answers");
    return 0;
}
