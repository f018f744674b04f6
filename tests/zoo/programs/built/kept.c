/* kept.c - a program of the runtime's: data to the device and back, and one allocation
 * that is lost. */
#include <cuda_runtime_api.h>
#include <stdio.h>

static void *keep(void)
{
    void *memory = NULL;

    return cudaMalloc(&memory, 5 << 20) == cudaSuccess ? memory
                                                       : NULL; /* LEAK: keep 5242880 1 */
}

int main(void)
{
    unsigned words[1024], sum = 0;
    void *there = NULL, *kept = keep();

    for (unsigned i = 0; i < 1024; i++)
        words[i] = i * i;
    if (!kept || cudaMalloc(&there, sizeof(words)) != cudaSuccess)
        return 2;
    cudaMemcpy(there, words, sizeof(words), cudaMemcpyHostToDevice);
    cudaMemcpy(words, there, sizeof(words), cudaMemcpyDeviceToHost);
    for (unsigned i = 0; i < 1024; i++)
        sum += words[i];
    cudaFree(there);
    printf("sum %u\n", sum);
    return 0;
}
