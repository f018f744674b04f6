/*
 * capture.c - stream capture, and allocation while a stream captures.
 *
 * Proves that a captured graph computes the same, that an allocation is served during a
 * relaxed capture, and that one during a global capture is refused as natively, however
 * many cached blocks would fit.
 */
#include "launch.h"

#define COUNT ((size_t)20000)

enum { NOT_SUPPORTED = 801 };

static struct app_kernels kernels;
static gpu_stream stream;

static void forget_error(void)
{
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
}

static bool supported(void)
{
    gpu_graph graph;
    int code = (int)gpu_begin_capture(stream, GPU_CAPTURE_RELAXED);

    forget_error();
    if (code == NOT_SUPPORTED)
        return false;
    app_check(code, "begin capture", __FILE__, __LINE__);
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_graph_destroy(graph));
    return true;
}

/* Two buffers live outside; a third is allocated and freed while the stream captures. */
static uint64_t relaxed(uint64_t sum, uint32_t *host)
{
    gpu_ptr left, right, other;
    gpu_graph graph;
    gpu_exec exec;

    APP_OK(gpu_malloc(&left, COUNT * 4));
    APP_OK(gpu_malloc(&right, COUNT * 4));
    APP_OK(gpu_sync());
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_RELAXED));
    app_fill(&kernels, left, COUNT, 77, stream);
    APP_OK(gpu_malloc(&other, COUNT * 4));
    app_copy(&kernels, right, left, COUNT, stream);
    app_add(&kernels, right, left, COUNT, stream);
    APP_OK(gpu_get_async(host, right, COUNT * 4, stream));
    APP_OK(gpu_end_capture(stream, &graph));
    APP_OK(gpu_instantiate(&exec, graph));
    for (int launch = 0; launch < 3; launch++) {
        memset(host, 0, COUNT * 4);
        APP_OK(gpu_graph_launch(exec, stream));
        APP_OK(gpu_stream_sync(stream));
        sum = app_checksum(sum, host, COUNT * 4);
    }
    APP_OK(gpu_free(other));
    APP_OK(gpu_exec_destroy(exec));
    APP_OK(gpu_graph_destroy(graph));
    APP_OK(gpu_free(right));
    APP_OK(gpu_free(left));
    return sum;
}

static void global(void)
{
    gpu_ptr cached, refused = 0;
    gpu_graph graph = NULL;
    int code;

    APP_OK(gpu_malloc(&cached, COUNT * 4));
    APP_OK(gpu_free(cached));
    APP_OK(gpu_begin_capture(stream, GPU_CAPTURE_GLOBAL));
    code = (int)gpu_malloc(&refused, COUNT * 4);
    printf("capture: malloc in a global capture answers %d\n", code);
    printf("capture: its end answers %d\n", (int)gpu_end_capture(stream, &graph));
    forget_error();
    if (code == 0)
        APP_OK(gpu_free(refused));
    if (graph)
        APP_OK(gpu_graph_destroy(graph));
}

int main(void)
{
    uint64_t sum = APP_CHECKSUM;
    uint32_t *host;

    app_gpu_start();
    app_kernels_load(&kernels);
    APP_OK(gpu_stream_create(&stream));
    if (!supported()) {
        printf("capture: not supported\n");
        return 0;
    }
    APP_OK(gpu_malloc_host((void **)&host, COUNT * 4));
    sum = relaxed(sum, host);
    global();
    sum = relaxed(sum, host);
    APP_OK(gpu_free_host(host));
    APP_OK(gpu_stream_destroy(stream));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    printf("capture: checksum %016llx\n", (unsigned long long)sum);
    return 0;
}
