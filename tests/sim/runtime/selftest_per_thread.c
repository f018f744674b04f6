/*
 * selftest_per_thread.c - checks: code compiled for the per-thread default stream, whose
 * calls end in the _ptds and _ptsz functions.
 *
 * Owns:  the flag below.   Lock: atomic.
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include "selftest.h"

#include <pthread.h>

#include "kernels.h"

#define WORDS 3000

/* Pinned; what keeps the first thread's stream busy. Atomic. */
static uint32_t *flag;

static void copy_and_check(uint32_t seed)
{
    static _Thread_local uint32_t host[WORDS];
    uint32_t *a = NULL, *b = NULL;
    uint64_t count = WORDS;
    void *args[] = {&b, &count, &seed};
    dim3 grid = {4, 1, 1}, block = {64, 1, 1};

    for (uint32_t i = 0; i < WORDS; i++)
        host[i] = gs_pattern(seed, i);
    CHECK_OK(cudaMallocAsync((void **)&a, sizeof(host), NULL));
    CHECK_OK(cudaMallocAsync((void **)&b, sizeof(host), NULL));
    CHECK_OK(cudaMemcpy(a, host, sizeof(host), cudaMemcpyHostToDevice));
    CHECK_OK(cudaMemsetAsync(b, 0, sizeof(host), NULL));
    CHECK_OK(cudaMemcpyAsync(b, a, sizeof(host), cudaMemcpyDeviceToDevice, NULL));
    CHECK_OK(cudaStreamSynchronize(NULL));
    CHECK_OK(cudaMemcpy(host, b, sizeof(host), cudaMemcpyDeviceToHost));
    CHECK(is_pattern(host, WORDS, seed));
    seed++;
    CHECK_OK(cudaLaunchKernel(kernel_named("gs_fill"), grid, block, args, 0, NULL));
    CHECK_OK(cudaMemcpy2D(host, 100, b, 100, 100, 4, cudaMemcpyDeviceToHost));
    CHECK(is_pattern(host, 100, seed));
    CHECK_OK(cudaFreeAsync(a, NULL));
    CHECK_OK(cudaFreeAsync(b, NULL));
    CHECK_OK(cudaStreamSynchronize(NULL));
}

static void *other_thread(void *unused)
{
    (void)unused;
    /* Were this the legacy stream, it would wait for the first thread's kernel for ever.
     */
    CHECK_OK(cudaStreamQuery(NULL));
    copy_and_check(77);
    return NULL;
}

static void default_stream_of_each_thread(void)
{
    dim3 one = {1, 1, 1};
    pthread_t thread;

    CHECK_OK(cudaMallocHost((void **)&flag, sizeof(*flag)));
    __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
    void *args[] = {&flag};
    kernel_named("gs_fill");
    CHECK_OK(cudaLaunchKernel(kernel_named("gs_wait"), one, one, args, 0, NULL));
    CHECK_IS(cudaStreamQuery(NULL), cudaErrorNotReady);
    CHECK_IS(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
    CHECK_IS(pthread_create(&thread, NULL, other_thread, NULL), 0);
    CHECK_IS(pthread_join(thread, NULL), 0);
    CHECK_IS(cudaStreamQuery(NULL), cudaErrorNotReady);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    CHECK_OK(cudaStreamSynchronize(NULL));
    copy_and_check(78);
    CHECK_OK(cudaFreeHost(flag));
}

const struct selftest per_thread_tests[] = {
    {"default_stream_of_each_thread", default_stream_of_each_thread},
    {NULL, NULL},
};
