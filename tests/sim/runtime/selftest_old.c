/*
 * selftest_old.c - shows that libcudart.so.11.0 and .12 have the ABI of 11 and 12 where
 * later versions changed it, and that the runtime of 12 works over a driver of 12.
 * Compiled once for each, with SELFTEST_MAJOR.
 *
 *   selftest11, selftest12     the calls that differ, and a round trip of data
 *   selftest12 insufficient    the driver is older than 12
 *
 * Compiled with the headers of 13: what differs is declared here, by the headers of 11.8
 * and 12.8. Ends with 0 if all is right, with 1 after a line that says what is not.
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

/* sizeof(struct cudaDeviceProp), the function that fills it, and two of its members. */
#if SELFTEST_MAJOR == 11
#define VERSION          11080
#define PROPERTIES_BYTES 728
#define PROPERTIES_NAME  "cudaGetDeviceProperties"
#else
#define VERSION          12080
#define PROPERTIES_BYTES 1032
#define PROPERTIES_NAME  "cudaGetDeviceProperties_v2"
#endif
#define TOTAL_MEM_OFFSET  288
#define CLOCK_RATE_OFFSET 348

cudaError_t old_properties(void *prop, int device) __asm__(PROPERTIES_NAME);

/* A caller has room for no more than its version wrote. */
static int properties_end_where_the_version_ends(void)
{
    struct {
        char properties[PROPERTIES_BYTES];
        char canary[64];
    } device;
    size_t total = 0, free_bytes = 0, known = 0;
    int clock_rate = 0, asked = 0;

    memset(&device, 0x5a, sizeof(device));
    CHECK_IS(old_properties(&device, 0), cudaSuccess);
    for (size_t i = 0; i < sizeof(device.canary); i++)
        CHECK_IS(device.canary[i], 0x5a);
    memcpy(&total, device.properties + TOTAL_MEM_OFFSET, sizeof(total));
    CHECK_IS(cudaMemGetInfo(&free_bytes, &known), cudaSuccess);
    CHECK_IS(total, known);
    memcpy(&clock_rate, device.properties + CLOCK_RATE_OFFSET, sizeof(clock_rate));
    CHECK_IS(cudaDeviceGetAttribute(&asked, cudaDevAttrClockRate, 0), cudaSuccess);
    CHECK_IS(clock_rate, asked);
    CHECK_IS(old_properties(NULL, 0), cudaErrorInvalidValue);
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

#if SELFTEST_MAJOR == 11

cudaError_t instantiate_11(cudaGraphExec_t *exec, cudaGraph_t graph,
                           cudaGraphNode_t *error_node, char *log,
                           size_t room) __asm__("cudaGraphInstantiate");
cudaError_t
update_11(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error_node,
          enum cudaGraphExecUpdateResult *result) __asm__("cudaGraphExecUpdate");
cudaError_t entry_point_11(const char *symbol, void **out,
                           unsigned long long flags) __asm__("cudaGetDriverEntryPoint");

static int takes_the_parameters_of_11(void)
{
    enum cudaGraphExecUpdateResult result = cudaGraphExecUpdateError;
    unsigned char back[64] = {0};
    cudaGraphNode_t node = (cudaGraphNode_t)back;
    cudaGraphExec_t exec;
    cudaStream_t stream;
    cudaGraph_t graph;
    void *memory;
    char log[8] = "before";

    CHECK_IS(cudaMalloc(&memory, sizeof(back)), cudaSuccess);
    CHECK_IS(cudaStreamCreate(&stream), cudaSuccess);
    CHECK_IS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    CHECK_IS(cudaMemsetAsync(memory, 9, sizeof(back), stream), cudaSuccess);
    CHECK_IS(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    CHECK_IS(instantiate_11(&exec, graph, &node, log, sizeof(log)), cudaSuccess);
    CHECK_IS(node == NULL && log[0] == '\0', 1);
    node = (cudaGraphNode_t)back;
    CHECK_IS(update_11(exec, graph, &node, &result), cudaSuccess);
    CHECK_IS(result, cudaGraphExecUpdateSuccess);
    CHECK_IS(cudaGraphLaunch(exec, stream), cudaSuccess);
    CHECK_IS(cudaStreamSynchronize(stream), cudaSuccess);
    CHECK_IS(cudaMemcpy(back, memory, sizeof(back), cudaMemcpyDeviceToHost), cudaSuccess);
    CHECK_IS(back[63], 9);
    return 0;
}

static int differs(void)
{
    void *function = NULL;

    CHECK_IS(takes_the_parameters_of_11(), 0);
    CHECK_IS(entry_point_11("cuMemAlloc", &function, cudaEnableDefault), cudaSuccess);
    CHECK_IS(function != NULL, 1);
    return 0;
}

#else

cudaError_t cudaThreadSynchronize(void);
cudaError_t old_mem_advise(const void *ptr, size_t count, enum cudaMemoryAdvise advice,
                           int device) __asm__("cudaMemAdvise");

static int pointer_attributes_end_where_12_ends(void)
{
    union {
        struct cudaPointerAttributes of_13;
        char bytes[sizeof(struct cudaPointerAttributes)];
    } pointer;
    void *memory = NULL;

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

static int differs(void)
{
    return pointer_attributes_end_where_12_ends() || takes_the_parameters_of_12();
}

#endif

int main(int argc, char **argv)
{
    int version = 0;
    void *memory = NULL;

    CHECK_IS(cudaRuntimeGetVersion(&version), cudaSuccess);
    CHECK_IS(version, VERSION);
    if (argc > 1 && strcmp(argv[1], "insufficient") == 0) {
        CHECK_IS(cudaMalloc(&memory, 1), cudaErrorInsufficientDriver);
        return 0;
    }
    return carries_data() || properties_end_where_the_version_ends() || differs();
}
