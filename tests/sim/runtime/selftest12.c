/*
 * selftest12.c - shows that libcudart.so.12 has the ABI of 12 where 13 changed it, and
 * that it works over a driver of 12.
 *
 *   selftest12                 the calls that differ, and a round trip of data
 *   selftest12 insufficient    the driver is older than 12
 *
 * Compiled with the headers of 13: what differs is declared here, by the headers of 12.8.
 * Ends with 0 if all is right, with 1 after a line that says what is not.
 * Owns:  nothing.   Lock: none.
 */
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define CHECK_IS(call, wanted)                                                           \
    do {                                                                                 \
        long found_ = (long)(call);                                                      \
        if (found_ != (long)(wanted)) {                                                  \
            printf("line %d: %s is %ld, not %ld\n", __LINE__, #call, found_,             \
                   (long)(wanted));                                                      \
            return 1;                                                                    \
        }                                                                                \
    } while (0)

/* sizeof(struct cudaDeviceProp) and two of its members in 12.8. */
#define PROPERTIES_BYTES_12  1032
#define TOTAL_MEM_OFFSET_12  288
#define CLOCK_RATE_OFFSET_12 348

cudaError_t cudaGetDeviceProperties_v2(void *prop, int device);
cudaError_t cudaThreadSynchronize(void);
cudaError_t old_mem_advise(const void *ptr, size_t count, enum cudaMemoryAdvise advice,
                           int device) __asm__("cudaMemAdvise");

/* A caller of 12 has room for no more than 12 wrote. */
static int stays_within_the_structures_of_12(void)
{
    struct {
        char properties[PROPERTIES_BYTES_12];
        char canary[64];
    } device;
    union {
        struct cudaPointerAttributes of_13;
        char bytes[sizeof(struct cudaPointerAttributes)];
    } pointer;
    size_t total = 0, free_bytes = 0, known = 0;
    void *memory = NULL;
    int clock_rate = 0, asked = 0;

    memset(&device, 0x5a, sizeof(device));
    CHECK_IS(cudaGetDeviceProperties_v2(&device, 0), cudaSuccess);
    for (size_t i = 0; i < sizeof(device.canary); i++)
        CHECK_IS(device.canary[i], 0x5a);
    memcpy(&known, device.properties + TOTAL_MEM_OFFSET_12, sizeof(known));
    CHECK_IS(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
    CHECK_IS(known, total);
    memcpy(&clock_rate, device.properties + CLOCK_RATE_OFFSET_12, sizeof(clock_rate));
    CHECK_IS(cudaDeviceGetAttribute(&asked, cudaDevAttrClockRate, 0), cudaSuccess);
    CHECK_IS(clock_rate, asked);

    memset(&pointer, 0x5a, sizeof(pointer));
    CHECK_IS(cudaMalloc(&memory, 1000), cudaSuccess);
    CHECK_IS(cudaPointerGetAttributes(&pointer.of_13, memory), cudaSuccess);
    CHECK_IS(pointer.of_13.type, cudaMemoryTypeDevice);
    for (size_t i = offsetof(struct cudaPointerAttributes, reserved);
         i < sizeof(pointer.bytes); i++)
        CHECK_IS(pointer.bytes[i], 0x5a);
    CHECK_IS(cudaFree(memory), cudaSuccess);
    return 0;
}

static int takes_the_parameters_of_12(void)
{
    cudaEvent_t start = NULL, end = NULL;
    void *managed = NULL;
    float ms = -1;

    CHECK_IS(cudaMallocManaged(&managed, 1 << 16, cudaMemAttachGlobal), cudaSuccess);
    CHECK_IS(old_mem_advise(managed, 1 << 16, cudaMemAdviseSetPreferredLocation, 0),
             cudaSuccess);
    CHECK_IS(old_mem_advise(managed, 1 << 16, cudaMemAdviseSetPreferredLocation,
                            cudaCpuDeviceId),
             cudaSuccess);
    CHECK_IS(old_mem_advise(managed, 1 << 16, cudaMemAdviseSetPreferredLocation, 99),
             cudaErrorInvalidDevice);
    CHECK_IS(cudaFree(managed), cudaSuccess);
    CHECK_IS(cudaEventCreate(&start), cudaSuccess);
    CHECK_IS(cudaEventCreate(&end), cudaSuccess);
    CHECK_IS(cudaEventRecord(start, NULL), cudaSuccess);
    CHECK_IS(cudaEventRecord(end, NULL), cudaSuccess);
    CHECK_IS(cudaThreadSynchronize(), cudaSuccess);
    CHECK_IS(cudaEventElapsedTime(&ms, start, end), cudaSuccess);
    CHECK_IS(ms >= 0, 1);
    CHECK_IS(cudaEventDestroy(start), cudaSuccess);
    CHECK_IS(cudaEventDestroy(end), cudaSuccess);
    return 0;
}

static int carries_data(void)
{
    char from[300], to[300];
    void *memory = NULL;

    memset(from, 7, sizeof(from));
    memset(to, 0, sizeof(to));
    CHECK_IS(cudaMalloc(&memory, sizeof(from)), cudaSuccess);
    CHECK_IS(cudaMemcpy(memory, from, sizeof(from), cudaMemcpyHostToDevice), cudaSuccess);
    CHECK_IS(cudaMemcpy(to, memory, sizeof(to), cudaMemcpyDeviceToHost), cudaSuccess);
    CHECK_IS(memcmp(from, to, sizeof(to)), 0);
    CHECK_IS(cudaFree(memory), cudaSuccess);
    return 0;
}

int main(int argc, char **argv)
{
    int version = 0;
    void *memory = NULL;

    CHECK_IS(cudaRuntimeGetVersion(&version), cudaSuccess);
    CHECK_IS(version, 12080);
    if (argc > 1 && strcmp(argv[1], "insufficient") == 0) {
        CHECK_IS(cudaMalloc(&memory, 1), cudaErrorInsufficientDriver);
        return 0;
    }
    return carries_data() || stays_within_the_structures_of_12() ||
           takes_the_parameters_of_12();
}
