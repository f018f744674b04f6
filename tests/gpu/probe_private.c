/*
 * probe_private.c - does work reach the GPU by a way that no public call shows?
 *
 * The same work is counted twice: by libgpu_count.so, which stands where libgpushim.so
 * would, and by CUPTI, which reports what the GPU ran. More on the GPU than at the calls
 * is work submitted through private tables (or split by the driver: a copy may be
 * several). CUPTI, the runtime and cuBLAS are opened if they are there; nothing is
 * linked. Owns: the counts of activities.   Lock: atomic; CUPTI has a thread of its own.
 */
#include "probe_count.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels_ptx.h"

#define TIMES        10
#define BUFFER_BYTES ((size_t)1 << 20)
#define BYTES        ((size_t)65536)

/* ---- CUPTI, as far as it is needed; values and signatures of cupti_activity.h
 * ---------------- */

enum {
    ACTIVITY_COPY = 1,
    ACTIVITY_SET = 2,
    ACTIVITY_KERNEL = 3,
    ACTIVITY_CONCURRENT_KERNEL = 10,
    ACTIVITY_PEER_COPY = 22
};

typedef void request_fn(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void complete_fn(CUcontext context, uint32_t stream, uint8_t *buffer,
                         size_t bytes, size_t valid_bytes);

static struct {
    int (*enable)(int kind);
    int (*callbacks)(request_fn *request, complete_fn *complete);
    int (*next)(uint8_t *buffer, size_t valid_bytes, void **record);
    int (*flush)(uint32_t flag);
} cupti; /* immutable after cupti_start */

static atomic_ullong kernels, copies, sets;

static void request(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    *bytes = *buffer ? BUFFER_BYTES : 0;
    *most_records = 0;
}

/* Every record begins with its kind. */
static void complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                     size_t valid_bytes)
{
    void *record = NULL;

    (void)context;
    (void)stream;
    (void)bytes;
    while (valid_bytes > 0 && cupti.next(buffer, valid_bytes, &record) == 0) {
        uint32_t kind = *(const uint32_t *)record;

        if (kind == ACTIVITY_KERNEL || kind == ACTIVITY_CONCURRENT_KERNEL)
            atomic_fetch_add(&kernels, 1);
        else if (kind == ACTIVITY_COPY || kind == ACTIVITY_PEER_COPY)
            atomic_fetch_add(&copies, 1);
        else if (kind == ACTIVITY_SET)
            atomic_fetch_add(&sets, 1);
    }
    free(buffer);
}

/* A library by its newest name that is there. */
static void *open_any(const char *const *names, size_t count)
{
    void *library = NULL;

    for (size_t i = 0; i < count && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

static void enable(int kind, const char *what)
{
    int code = cupti.enable(kind);

    if (code != 0)
        probe_not_supported("CUPTI does not report %s: code %d", what, code);
}

static void cupti_start(void)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12",
                                        "libcupti.so"};
    void *library = open_any(names, GS_ARRAY_LEN(names));
    int code;

    if (!library)
        probe_not_supported("libcupti.so is not found");
    *(void **)&cupti.enable = dlsym(library, "cuptiActivityEnable");
    *(void **)&cupti.callbacks = dlsym(library, "cuptiActivityRegisterCallbacks");
    *(void **)&cupti.next = dlsym(library, "cuptiActivityGetNextRecord");
    *(void **)&cupti.flush = dlsym(library, "cuptiActivityFlushAll");
    if (!cupti.enable || !cupti.callbacks || !cupti.next || !cupti.flush)
        probe_not_supported("libcupti.so lacks the activity calls");
    code = cupti.callbacks(request, complete);
    if (code != 0)
        probe_not_supported("CUPTI takes no callbacks: code %d", code);
    enable(ACTIVITY_CONCURRENT_KERNEL, "kernels");
    enable(ACTIVITY_COPY, "copies");
    enable(ACTIVITY_SET, "sets");
}

/* ---- counting one stretch of work
 * ------------------------------------------------------------ */

static struct probe_counts before, after; /* the thread that asks */

static void begin_count(void)
{
    PROBE_OK(driver.cuCtxSynchronize());
    cupti.flush(1);
    atomic_store(&kernels, 0);
    atomic_store(&copies, 0);
    atomic_store(&sets, 0);
    probe_counts_take(&before);
}

static void cell_pair(const char *name, uint64_t calls, uint64_t activities)
{
    char quiet[48];

    probe_cell_text(name, "%llu/%llu", (unsigned long long)calls,
                    (unsigned long long)activities);
    probe_name_suffix(quiet, sizeof(quiet), name, "_calls");
    probe_cell_quiet_number(quiet, (double)calls);
    probe_name_suffix(quiet, sizeof(quiet), name, "_on_gpu");
    probe_cell_quiet_number(quiet, (double)activities);
}

static void end_count(const char *row)
{
    PROBE_OK(driver.cuCtxSynchronize());
    probe_counts_take(&after);
    cupti.flush(1);
    probe_row_begin(row, "count");
    cell_pair("launches", probe_counts_of(&before, &after, GPU_COUNT_LAUNCH),
              atomic_load(&kernels));
    cell_pair("copies", probe_counts_of(&before, &after, GPU_COUNT_COPY),
              atomic_load(&copies));
    cell_pair("sets", probe_counts_of(&before, &after, GPU_COUNT_SET),
              atomic_load(&sets));
    probe_cell_number("memory",
                      (double)probe_counts_of(&before, &after, GPU_COUNT_MEMORY));
    probe_row_note("calls that could be hooked / activities that CUPTI reports");
    probe_row_end();
}

/* ---- work
 * ------------------------------------------------------------------------------------ */

static void driver_work(void)
{
    struct probe_place place;
    CUdeviceptr block;
    uint32_t word;

    probe_place_open(&place, PROBE_NONBLOCKING);
    PROBE_OK(driver.cuMemAlloc_v2(&block, BYTES));
    begin_count();
    for (int i = 0; i < TIMES; i++) {
        PROBE_OK(probe_launch_empty(&place));
        PROBE_OK(driver.cuMemsetD32_v2(block, 1, BYTES / 4));
        PROBE_OK(driver.cuMemcpyDtoH_v2(&word, block, sizeof(word)));
    }
    end_count("driver");
    PROBE_OK(driver.cuMemFree_v2(block));
}

#if CUDART_VERSION >= 13000
static struct {
    __typeof__(cudaMalloc) *malloc;
    __typeof__(cudaFree) *free;
    __typeof__(cudaMemset) *set;
    __typeof__(cudaMemcpy) *copy;
    __typeof__(cudaMemcpyAsync) *copy_async;
    __typeof__(cudaLibraryLoadData) *load;
    __typeof__(cudaLibraryGetKernel) *get_kernel;
    __typeof__(cudaLaunchKernel) *launch;
} runtime; /* immutable after open_runtime */

static bool open_runtime(void)
{
    static const char *const names[] = {"libcudart.so.13"};
    void *library = open_any(names, GS_ARRAY_LEN(names));

    if (!library)
        return false;
    *(void **)&runtime.malloc = dlsym(library, "cudaMalloc");
    *(void **)&runtime.free = dlsym(library, "cudaFree");
    *(void **)&runtime.set = dlsym(library, "cudaMemset");
    *(void **)&runtime.copy = dlsym(library, "cudaMemcpy");
    *(void **)&runtime.copy_async = dlsym(library, "cudaMemcpyAsync");
    *(void **)&runtime.load = dlsym(library, "cudaLibraryLoadData");
    *(void **)&runtime.get_kernel = dlsym(library, "cudaLibraryGetKernel");
    *(void **)&runtime.launch = dlsym(library, "cudaLaunchKernel");
    return runtime.malloc && runtime.free && runtime.set && runtime.copy &&
           runtime.copy_async && runtime.load && runtime.get_kernel && runtime.launch;
}

static void runtime_check(cudaError_t code, const char *call)
{
    if (code != cudaSuccess)
        probe_failed("%s answers %d", call, (int)code);
}

static void runtime_work(void)
{
    static char host[BYTES]; /* the thread that asks */
    void *block = NULL, *second = NULL, *nothing = NULL;
    uint64_t count = 0;
    uint32_t seed = 0;
    void *arguments[] = {&nothing, &count, &seed};
    dim3 one = {1, 1, 1};
    cudaLibrary_t library;
    cudaKernel_t kernel;

    if (!open_runtime()) {
        probe_row_status("runtime", "not supported", "no libcudart.so.13 with libraries");
        return;
    }
    runtime_check(runtime.malloc(&block, BYTES), "cudaMalloc");
    runtime_check(runtime.malloc(&second, BYTES), "cudaMalloc");
    runtime_check(runtime.load(&library, gs_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0),
                  "cudaLibraryLoadData");
    runtime_check(runtime.get_kernel(&kernel, library, "gs_fill"),
                  "cudaLibraryGetKernel");
    runtime_check(runtime.launch(kernel, one, one, arguments, 0, NULL),
                  "cudaLaunchKernel");
    begin_count();
    for (int i = 0; i < TIMES; i++) {
        runtime_check(runtime.launch(kernel, one, one, arguments, 0, NULL),
                      "cudaLaunchKernel");
        runtime_check(runtime.set(block, i, BYTES), "cudaMemset");
        runtime_check(runtime.copy(block, host, BYTES, cudaMemcpyHostToDevice),
                      "cudaMemcpy");
        runtime_check(runtime.copy(host, block, BYTES, cudaMemcpyDeviceToHost),
                      "cudaMemcpy");
        runtime_check(
            runtime.copy_async(second, block, BYTES, cudaMemcpyDeviceToDevice, NULL),
            "cudaMemcpyAsync");
    }
    end_count("runtime");
    begin_count();
    runtime_check(runtime.free(second), "cudaFree");
    runtime_check(runtime.free(block), "cudaFree");
    runtime_check(runtime.malloc(&block, BYTES), "cudaMalloc");
    runtime_check(runtime.free(block), "cudaFree");
    end_count("runtime alloc");
}
#else
static void runtime_work(void)
{
    probe_row_status("runtime", "not supported", "built with headers older than 13.0");
}
#endif

/* As cublas_api.h has them; 0 is "not transposed" and success. */
typedef int cublas_create_fn(void **out_handle);
typedef int cublas_sgemm_fn(void *handle, int transpose_a, int transpose_b, int m, int n,
                            int k, const float *alpha, const float *a, int lda,
                            const float *b, int ldb, const float *beta, float *c,
                            int ldc);

static void cublas_work(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12"};
    void *library = open_any(names, GS_ARRAY_LEN(names)), *handle = NULL;
    enum { SIDE = 512 };
    cublas_create_fn *create = NULL;
    cublas_sgemm_fn *sgemm = NULL;
    float one = 1, zero = 0, *matrix;
    CUdeviceptr block;
    int code;

    if (library) {
        create = (cublas_create_fn *)dlsym(library, "cublasCreate_v2");
        sgemm = (cublas_sgemm_fn *)dlsym(library, "cublasSgemm_v2");
    }
    if (!create || !sgemm) {
        probe_row_status("cublas", "not supported", "libcublas.so is not found");
        return;
    }
    PROBE_OK(driver.cuMemAlloc_v2(&block, sizeof(float) * 3 * SIDE * SIDE));
    PROBE_OK(driver.cuMemsetD32_v2(block, 0, (size_t)3 * SIDE * SIDE));
    matrix = (float *)(uintptr_t)block;
    code = create(&handle);
    begin_count();
    for (int i = 0; i < TIMES && code == 0; i++)
        code = sgemm(handle, 0, 0, SIDE, SIDE, SIDE, &one, matrix, SIDE,
                     matrix + SIDE * SIDE, SIDE, &zero, matrix + 2 * SIDE * SIDE, SIDE);
    if (code != 0)
        probe_row_status("cublas", "failed", "code %d", code);
    else
        end_count("cublas sgemm");
    PROBE_OK(driver.cuMemFree_v2(block));
}

void probe_ask_private_work(void)
{
    if (probe_is_simulated())
        probe_not_supported("CUPTI reports what a GPU ran; there is none");
    probe_counted_process("private_work");
    cupti_start();
    probe_context();
    driver_work();
    runtime_work();
    cublas_work();
}
