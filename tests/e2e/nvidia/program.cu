/*
 * program.cu - a small CUDA program as people write them: a kernel launched by <<<...>>>,
 * device, pinned, managed and stream-ordered memory. Built by nvcc in two ways (see run).
 *
 *   program    says how every call ended, one line "name number" each
 *
 * Ends with 0 if all calls succeeded and the data copied back are right, with 1 if not,
 * and with 3 if the very first call failed: over the simulated driver, NVIDIA's own runtime
 * gets no further than its look-ups, because its private tables are not simulated.
 *
 * The kernel is called gs_add and does what tests/sim/kernels/kernels.h says: the simulated
 * device runs the kernels that it knows by name, and computes the same as a GPU.
 * Owns: nothing.   Lock: none.
 */
#include <stdio.h>
#include <stdint.h>
#include <cuda_runtime.h>

#define COUNT 4096

extern "C" __global__ void gs_add(uint32_t *dst, const uint32_t *src, uint64_t count)
{
    uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;

    for (uint64_t i = first; i < count; i += stride)
        dst[i] += src[i];
}

static int failures;

static void say(const char *name, cudaError_t error)
{
    printf("%s %d\n", name, (int)error);
    failures += error != cudaSuccess;
}

/* Stream-ordered, pinned and managed memory: allocated and freed, nothing more. */
static void other_memory(cudaStream_t stream)
{
    void *ordered = NULL, *pinned = NULL, *managed = NULL;

    say("cudaMallocAsync", cudaMallocAsync(&ordered, 1 << 16, stream));
    say("cudaFreeAsync", cudaFreeAsync(ordered, stream));
    say("cudaMallocHost", cudaMallocHost(&pinned, 1 << 16));
    say("cudaFreeHost", cudaFreeHost(pinned));
    say("cudaMallocManaged", cudaMallocManaged(&managed, 1 << 16));
    say("cudaFree(managed)", cudaFree(managed));
}

static int wrong_sums(const uint32_t *sums)
{
    int wrong = 0;

    for (uint32_t i = 0; i < COUNT; i++)
        wrong += sums[i] != 3 * i + 7;
    return wrong;
}

int main(void)
{
    static uint32_t left[COUNT], right[COUNT];
    uint32_t *dst = NULL, *src = NULL;
    cudaStream_t stream = NULL;
    cudaError_t error = cudaMalloc((void **)&dst, sizeof(left));

    say("cudaMalloc", error);
    if (error != cudaSuccess)
        return 3;
    for (uint32_t i = 0; i < COUNT; i++) {
        left[i] = 2 * i;
        right[i] = i + 7;
    }
    say("cudaMalloc", cudaMalloc((void **)&src, sizeof(right)));
    say("cudaStreamCreate", cudaStreamCreate(&stream));
    say("cudaMemcpy", cudaMemcpy(dst, left, sizeof(left), cudaMemcpyHostToDevice));
    say("cudaMemcpyAsync",
        cudaMemcpyAsync(src, right, sizeof(right), cudaMemcpyHostToDevice, stream));
    gs_add<<<8, 128, 0, stream>>>(dst, src, COUNT);
    say("launch", cudaGetLastError());
    say("cudaStreamSynchronize", cudaStreamSynchronize(stream));
    say("cudaMemcpy", cudaMemcpy(left, dst, sizeof(left), cudaMemcpyDeviceToHost));
    other_memory(stream);
    say("cudaStreamDestroy", cudaStreamDestroy(stream));
    say("cudaFree", cudaFree(dst));
    say("cudaFree", cudaFree(src));
    printf("wrong %d\n", wrong_sums(left));
    return failures || wrong_sums(left) ? 1 : 0;
}
