/*
 * selftest11.c - shows that libcudart.so.11.0 has the ABI of 11 where 12 changed it: the
 * properties of a device end where 11's end, graphs and driver entry points have 11's
 * parameters.
 *
 * Compiled with the headers of 13: what differs is declared here, by the headers of 11.8.
 * Ends with 0 if all is right, with 1 after a line that says what is not.
 * Owns:  nothing.   Lock: none.
 */
#include <cuda_runtime_api.h>
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

/* sizeof(struct cudaDeviceProp) and one of its members in 11.8. */
#define PROPERTIES_BYTES_11 728
#define TOTAL_MEM_OFFSET_11 288

cudaError_t properties_11(void *prop, int device) __asm__("cudaGetDeviceProperties");
cudaError_t instantiate_11(cudaGraphExec_t *exec, cudaGraph_t graph,
                           cudaGraphNode_t *error_node, char *log,
                           size_t room) __asm__("cudaGraphInstantiate");
cudaError_t
update_11(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error_node,
          enum cudaGraphExecUpdateResult *result) __asm__("cudaGraphExecUpdate");
cudaError_t entry_point_11(const char *symbol, void **out,
                           unsigned long long flags) __asm__("cudaGetDriverEntryPoint");

static int properties_end_where_11_ends(void)
{
    struct {
        char properties[PROPERTIES_BYTES_11];
        char canary[64];
    } device;
    size_t total = 0, known = 0, free_bytes = 0;

    memset(&device, 0x5a, sizeof(device));
    CHECK_IS(properties_11(&device, 0), cudaSuccess);
    for (size_t i = 0; i < sizeof(device.canary); i++)
        CHECK_IS(device.canary[i], 0x5a);
    memcpy(&total, device.properties + TOTAL_MEM_OFFSET_11, sizeof(total));
    CHECK_IS(cudaMemGetInfo(&free_bytes, &known), cudaSuccess);
    CHECK_IS(total, known);
    CHECK_IS(properties_11(NULL, 0), cudaErrorInvalidValue);
    return 0;
}

static int graphs_have_the_parameters_of_11(void)
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

int main(void)
{
    void *function = NULL;
    int version = 0;

    CHECK_IS(cudaRuntimeGetVersion(&version), cudaSuccess);
    CHECK_IS(version, 11080);
    CHECK_IS(properties_end_where_11_ends(), 0);
    CHECK_IS(graphs_have_the_parameters_of_11(), 0);
    CHECK_IS(entry_point_11("cuMemAlloc", &function, cudaEnableDefault), cudaSuccess);
    CHECK_IS(function != NULL, 1);
    return 0;
}
