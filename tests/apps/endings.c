/*
 * endings.c - contexts that end in ways that are easily missed.   endings CORNER
 *
 * Each corner prints the driver's answers, which must be the same with the library as
 * without it. Between the lines `rounds` and `end of rounds` on stderr stand the calls
 * that a driver which logs them is asked for (CUDASIM_LOG=2).
 */
#include "app.h"
#include "kernels_ptx.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef cuGetProcAddress_v2

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((size_t)1000)

static void say(const char *what, CUresult code)
{
    printf("endings: %-48s %d\n", what, (int)code);
}

static CUcontext retain(int device)
{
    CUcontext context;

    APP_OK(cuDevicePrimaryCtxRetain(&context, device));
    APP_OK(cuCtxSetCurrent(context));
    return context;
}

static CUcontext own_context(int device)
{
    CUcontext context;

    APP_OK(cuCtxCreate_v2(&context, 0, device));
    return context;
}

/* Memory comes, is written, and goes. */
static void use(const char *what)
{
    CUdeviceptr block = 0;
    CUresult code = cuMemAlloc_v2(&block, BYTES);

    if (code == CUDA_SUCCESS)
        code = cuMemsetD8_v2(block, 1, BYTES);
    if (code == CUDA_SUCCESS)
        code = cuMemFree_v2(block);
    say(what, code);
}

static void rounds(void)
{
    CUdeviceptr block;

    fprintf(stderr, "rounds\n");
    for (int i = 0; i < 50; i++) {
        APP_OK(cuMemAlloc_v2(&block, BYTES));
        APP_OK(cuMemsetD8_v2(block, 1, BYTES));
        APP_OK(cuMemFree_v2(block));
    }
    fprintf(stderr, "end of rounds\n");
}

/* ---- green contexts ---------------------------------------------------------------- */

#if CUDA_VERSION >= 12040
static CUgreenCtx new_green(int device)
{
    CUdevResource resource;
    CUdevResourceDesc desc;
    CUgreenCtx green;

    APP_OK(cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM));
    APP_OK(cuDevResourceGenerateDesc(&desc, &resource, 1));
    APP_OK(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
    return green;
}

/* The last use of the primary context is a green one, which then ends. */
static void green_last(void)
{
    CUgreenCtx green;
    CUdeviceptr kept;

    retain(0);
    green = new_green(0);
    APP_OK(cuMemAlloc_v2(&kept, BYTES));
    use("with both");
    say("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2(0));
    use("with the green context alone");
    say("cuGreenCtxDestroy", cuGreenCtxDestroy(green));
    use("with none");
    say("cuMemFree of what has ended", cuMemFree_v2(kept));
    retain(0);
    use("with a new one");
    say("cuGreenCtxDestroy again", cuGreenCtxDestroy(green));
    use("after it");
}

/* A green context goes, the primary one and its memory stay. */
static void green_first(void)
{
    CUcontext primary = retain(0), view;
    CUgreenCtx green = new_green(0);
    CUdeviceptr block, other;

    APP_OK(cuMemAlloc_v2(&block, BYTES));
    APP_OK(cuCtxFromGreenCtx(&view, green));
    APP_OK(cuCtxSetCurrent(view));
    APP_OK(cuMemAlloc_v2(&other, BYTES));
    APP_OK(cuCtxSetCurrent(primary));
    say("cuGreenCtxDestroy", cuGreenCtxDestroy(green));
    say("cuMemsetD8", cuMemsetD8_v2(block, 1, BYTES));
    say("cuMemsetD8 of what the green context made", cuMemsetD8_v2(other, 1, BYTES));
    say("cuMemFree", cuMemFree_v2(block));
    say("cuMemFree of what the green context made", cuMemFree_v2(other));
    rounds();
}

/* Device, pinned and managed memory of a green context is the primary one's: the pool
   serves it, for one after the other, also when the device is full, and after the green
   context has gone. */
static void green_memory(void)
{
    enum { FULL = 40 << 20 };
    CUcontext primary = retain(0), view, told = NULL;
    CUgreenCtx green = new_green(0);
    CUdeviceptr block, kept, managed;
    void *host;

    APP_OK(cuMemAlloc_v2(&block, FULL));
    APP_OK(cuMemFree_v2(block));
    APP_OK(cuCtxFromGreenCtx(&view, green));
    APP_OK(cuCtxSetCurrent(view));
    say("cuMemAlloc of what is idle", cuMemAlloc_v2(&block, FULL));
    say("cuMemAlloc of too much", cuMemAlloc_v2(&kept, FULL));
    say("cuMemAlloc of nothing", cuMemAlloc_v2(&kept, 0));
    say("cuMemAlloc to nowhere", cuMemAlloc_v2(NULL, BYTES));
    say("cuMemFree", cuMemFree_v2(block));
    APP_OK(cuMemAlloc_v2(&kept, BYTES));
    APP_OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_CONTEXT, kept));
    say("cuPointerGetAttribute tells the primary context", told != primary);
    for (int i = 0; i < 20; i++) {
        if (i == 1)
            fprintf(stderr, "rounds\n");
        APP_OK(cuMemHostAlloc(&host, BYTES, 0));
        APP_OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
        APP_OK(cuMemAlloc_v2(&block, BYTES));
        APP_OK(cuMemcpyHtoD_v2(block, host, BYTES));
        APP_OK(cuMemFree_v2(block));
        APP_OK(cuMemFree_v2(managed));
        APP_OK(cuMemFreeHost(host));
    }
    fprintf(stderr, "end of rounds\n");
    APP_OK(cuGreenCtxDestroy(green));
    say("cuMemAlloc with a context that is gone", cuMemAlloc_v2(&block, BYTES));
    say("cuMemHostAlloc", cuMemHostAlloc(&host, BYTES, 0));
    APP_OK(cuCtxSetCurrent(primary));
    say("cuMemsetD8", cuMemsetD8_v2(kept, 1, BYTES));
    say("cuMemFree", cuMemFree_v2(kept));
}

/* The primary context is known by its green one alone. */
static void green_alone(void)
{
    CUgreenCtx green = new_green(0);
    CUcontext view;
    CUdeviceptr lost;

    APP_OK(cuCtxFromGreenCtx(&view, green));
    APP_OK(cuCtxSetCurrent(view));
    APP_OK(cuMemAlloc_v2(&lost, BYTES));
    use("in the green context");
    say("cuGreenCtxDestroy", cuGreenCtxDestroy(green));
    say("cuMemFree of what has ended", cuMemFree_v2(lost));
    retain(0);
    use("in a new one");
    rounds();
}

/* What was made in a green context ends with the primary one. */
static void green_reset(void)
{
    CUcontext view;
    CUgreenCtx green;
    CUdeviceptr lost;
    void *host;

    retain(0);
    green = new_green(0);
    APP_OK(cuCtxFromGreenCtx(&view, green));
    APP_OK(cuCtxSetCurrent(view));
    APP_OK(cuMemAlloc_v2(&lost, BYTES));
    APP_OK(cuMemHostAlloc(&host, BYTES, 0));
    say("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset_v2(0));
    say("cuMemFree of what has ended", cuMemFree_v2(lost));
    say("cuMemFreeHost of what has ended", cuMemFreeHost(host));
    say("cuGreenCtxDestroy", cuGreenCtxDestroy(green));
}

/* The primary context is known by its green one alone, and has memory when it is reset.
 */
static void green_known(void)
{
    CUgreenCtx green = new_green(0);
    CUcontext view;
    CUdeviceptr lost;

    APP_OK(cuCtxFromGreenCtx(&view, green));
    APP_OK(cuCtxSetCurrent(view));
    APP_OK(cuMemAlloc_v2(&lost, BYTES));
    say("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset_v2(0));
    say("cuGreenCtxDestroy", cuGreenCtxDestroy(green));
}

/* One thread's green contexts are now and then the last use of the primary one, which
 * another thread has in use again at once. */
static void *make_greens(void *stop)
{
    while (!__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE))
        APP_OK(cuGreenCtxDestroy(new_green(0)));
    return NULL;
}

static void green_race(void)
{
    bool stop = false;
    pthread_t thread;
    CUdeviceptr block;

    app_expect(pthread_create(&thread, NULL, make_greens, &stop) == 0, "a thread");
    for (int i = 0; i < 4000; i++) {
        retain(0);
        APP_OK(cuMemAlloc_v2(&block, BYTES));
        APP_OK(cuMemsetD8_v2(block, 1, BYTES));
        APP_OK(cuMemFree_v2(block));
        APP_OK(cuDevicePrimaryCtxRelease_v2(0));
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}
#else
static void unsupported(void)
{
    printf("endings: no green contexts\n");
}
#define green_last   unsupported
#define green_first  unsupported
#define green_memory unsupported
#define green_reset  unsupported
#define green_alone  unsupported
#define green_known  unsupported
#define green_race   unsupported
#endif

/* ---- captures ---------------------------------------------------------------------- */

/* Begun in a stream of the current context, and never ended. */
static void begin_capture(void)
{
    CUstream stream;

    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    APP_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static void capture_destroy(void)
{
    CUcontext primary = retain(0), own = own_context(0);

    begin_capture();
    APP_OK(cuCtxSetCurrent(primary));
    use("while the other context captures");
    say("cuCtxDestroy", cuCtxDestroy_v2(own));
    APP_OK(cuCtxSetCurrent(primary));
    use("after it");
    rounds();
}

static void capture_reset(void)
{
    retain(0);
    begin_capture();
    say("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset_v2(0));
    retain(0);
    use("after it");
    rounds();
}

static void capture_release(void)
{
    retain(0);
    begin_capture();
    APP_OK(cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    say("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2(0));
    retain(0);
    use("after it");
    rounds();
}

/* In a stream of a green context, which ends with the primary one. */
static void capture_green(void)
{
#if CUDA_VERSION >= 12050
    CUstream stream;
    CUgreenCtx green;

    retain(0);
    green = new_green(0);
    APP_OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    APP_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    say("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2(0));
    say("cuGreenCtxDestroy", cuGreenCtxDestroy(green));
#endif
    retain(0);
    use("after it");
    rounds();
}

/* The same where the primary context stays, and the stream with it, though every call
 * that names it is refused. */
static void capture_in_green(void)
{
    CUcontext primary = retain(0);
#if CUDA_VERSION >= 12050
    CUgreenCtx green = new_green(0);
    CUcontext view;
    CUstream stream;

    APP_OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    APP_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    APP_OK(cuCtxFromGreenCtx(&view, green));
    APP_OK(cuCtxSetCurrent(view));
    begin_capture();
    APP_OK(cuCtxSetCurrent(primary));
    say("cuGreenCtxDestroy", cuGreenCtxDestroy(green));
    say("cuStreamDestroy", cuStreamDestroy_v2(stream));
#endif
    APP_OK(cuCtxSetCurrent(primary));
    use("after it");
    rounds();
}

/* The end of another context leaves a capture as it is. */
static void capture_stays(void)
{
    CUcontext primary = retain(0), own;
    CUdeviceptr block;
    CUstream stream;
    CUgraph graph = NULL;

    APP_OK(cuMemAlloc_v2(&block, BYTES));
    APP_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    own = own_context(0);
    begin_capture();
    /* With the other context current: it is the stream's that counts. */
    APP_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    say("cuCtxDestroy", cuCtxDestroy_v2(own));
    APP_OK(cuCtxSetCurrent(primary));
    APP_OK(cuMemsetD8Async(block, 1, BYTES, stream));
    say("cuMemFree", cuMemFree_v2(block));
    say("cuStreamEndCapture", cuStreamEndCapture(stream, &graph));
    say("cuGraphDestroy", cuGraphDestroy(graph));
    rounds();
}

/* ---- a device that is used by nobody ----------------------------------------------- */

static void pinned_rounds(void)
{
    void *host;

    fprintf(stderr, "rounds\n");
    for (int i = 0; i < 50; i++) {
        APP_OK(cuMemHostAlloc(&host, (size_t)1 << 20, 0));
        APP_OK(cuMemFreeHost(host));
    }
    fprintf(stderr, "end of rounds\n");
}

/* Pinned memory after a look at the second device; by a reset, too. */
static void looked_at(void)
{
    CUcontext primary = retain(0), other;
    void *host;

    APP_OK(cuMemHostAlloc(&host, (size_t)1 << 20, 0));
    APP_OK(cuMemFreeHost(host));
    APP_OK(cuDevicePrimaryCtxRetain(&other, 1));
    say("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2(1));
    pinned_rounds();
    APP_OK(cuDevicePrimaryCtxRetain(&other, 1));
    say("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset_v2(1));
    pinned_rounds();
    APP_OK(cuCtxSetCurrent(primary));
}

/* ---- a device that is full --------------------------------------------------------- */

static CUexternalMemory import_file(CUresult *code)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = (size_t)2 << 20};
    CUexternalMemory memory = NULL;

    desc.handle.fd = memfd_create("exported", MFD_CLOEXEC);
    app_expect(desc.handle.fd >= 0 && ftruncate(desc.handle.fd, (off_t)desc.size) == 0,
               "a file");
    *code = cuImportExternalMemory(&memory, &desc);
    return memory;
}

/* The library keeps this, for the device has room for more, and gives it back in two
 * steps. */
static void leave_idle(CUcontext context)
{
    CUcontext before;
    CUdeviceptr block;
    void *pinned;

    APP_OK(cuCtxGetCurrent(&before));
    APP_OK(cuCtxSetCurrent(context));
    APP_OK(cuMemAlloc_v2(&block, (size_t)16 << 20));
    APP_OK(cuMemFree_v2(block));
    APP_OK(cuMemAllocHost_v2(&pinned, (size_t)1 << 20));
    APP_OK(cuMemFreeHost(pinned));
    APP_OK(cuCtxSetCurrent(before));
    /* Known to be complete: it cannot be using the pinned memory. */
    APP_OK(cuMemAlloc_v2(&block, 1));
    APP_OK(cuMemFree_v2(block));
    APP_OK(cuCtxSynchronize());
}

/* Contexts are made on a full device, also where the full one is not current. */
static void full_contexts(void)
{
    CUcontext first = own_context(0), second = own_context(1), made;

    leave_idle(first);
    say("cuCtxCreate, first version, on device 0", cuCtxCreate(&made, 0, 0));
    APP_OK(cuCtxDestroy_v2(made));
    APP_OK(cuCtxSetCurrent(second));
    leave_idle(first);
    leave_idle(second);
    say("cuDevicePrimaryCtxRetain of device 0", cuDevicePrimaryCtxRetain(&made, 0));
    APP_OK(cuDevicePrimaryCtxRelease(0));
    APP_OK(cuCtxSetCurrent(second));
    leave_idle(first);
    leave_idle(second);
    say("cuCtxCreate_v2 on device 0", cuCtxCreate_v2(&made, 0, 0));
    APP_OK(cuCtxDestroy_v2(made));
    leave_idle(first);
    APP_OK(cuCtxSetCurrent(NULL));
    say("cuDevicePrimaryCtxRetain without a context", cuDevicePrimaryCtxRetain(&made, 1));
}

/* A green context is made on a full device; the current one has nothing to give back. */
static void full_green(void)
{
    CUcontext first = own_context(0);

    (void)own_context(1);
    leave_idle(first);
#if CUDA_VERSION >= 12040
    CUdevResource resource;
    CUdevResourceDesc desc;
    CUgreenCtx green = NULL;

    APP_OK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    APP_OK(cuDevResourceGenerateDesc(&desc, &resource, 1));
    say("cuGreenCtxCreate",
        cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
#endif
}

/* What needs a little memory for something that is no memory of the program's. */
static void full_small(void)
{
    CUcontext first = own_context(0);
    CUmodule module;
    CUfunction function;
    CUevent event;

    APP_OK(cuModuleLoadData(&module, gs_kernels_ptx));
    APP_OK(cuModuleGetFunction(&function, module, "gs_fill"));
    leave_idle(first);
    say("cuEventCreate", cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    leave_idle(first);
    say("cuFuncSetAttribute",
        cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                           50));
#if CUDA_VERSION >= 12010
    CUmulticastObjectProp many = {.numDevices = 1, .size = (size_t)2 << 20};
    CUmemGenericAllocationHandle memory;
    CUlibrary library;
    CUkernel kernel;

    APP_OK(cuLibraryLoadData(&library, gs_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    APP_OK(cuLibraryGetKernel(&kernel, library, "gs_fill"));
    APP_OK(cuMulticastCreate(&memory, &many));
    (void)own_context(1);
    leave_idle(first);
    say("cuKernelSetAttribute",
        cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50,
                             kernel, 0));
    leave_idle(first);
    say("cuMulticastAddDevice", cuMulticastAddDevice(memory, 0));
    APP_OK(cuMemRelease(memory));
#endif
}

/* A launch that needs a little memory (local variables, code that is loaded late): made
 * once, with what it was given. */
static void full_launches(void)
{
    const unsigned count = 1000;
    uint64_t wide = count;
    CUcontext first = own_context(0);
    CUdeviceptr into, from;
    CUfunction add;
    CUmodule module;
    void *args[] = {&into, &from, &wide};
    unsigned found[1000], sum = 0;

    APP_OK(cuModuleLoadData(&module, gs_kernels_ptx));
    APP_OK(cuModuleGetFunction(&add, module, "gs_add"));
    APP_OK(cuMemAlloc_v2(&into, sizeof(found)));
    APP_OK(cuMemAlloc_v2(&from, sizeof(found)));
    APP_OK(cuMemsetD32_v2(into, 0, count));
    APP_OK(cuMemsetD32_v2(from, 1, count));
    leave_idle(first);
    say("cuLaunchKernel", cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    sum++;
    leave_idle(first);
    say("cuLaunchCooperativeKernel",
        cuLaunchCooperativeKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, args));
    sum++;
#if CUDA_VERSION >= 11060
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1};

    leave_idle(first);
    say("cuLaunchKernelEx", cuLaunchKernelEx(&config, add, args, NULL));
    sum++;
#endif
    APP_OK(cuMemcpyDtoH_v2(found, into, sizeof(found)));
    for (unsigned i = 0; i < count; i++)
        app_expect(found[i] == sum, "each launch was carried out once");
    APP_OK(cuMemFree_v2(into));
    APP_OK(cuMemFree_v2(from));
}

/* Physical memory, its mappings, memory of others. */
static void full_mappings(void)
{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = 4096};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUcontext first = own_context(0), second = own_context(1);
    size_t bytes = (size_t)2 << 20;
    CUmemGenericAllocationHandle memory;
    CUdeviceptr range, view;
    CUexternalMemory external;
    CUresult code;
    void *host = NULL;

    app_expect(posix_memalign(&host, 4096, 4096) == 0, "host memory");
    APP_OK(cuCtxSetCurrent(first));
    leave_idle(first);
    say("cuMemHostRegister", cuMemHostRegister_v2(host, 4096, 0));
    APP_OK(cuMemHostUnregister(host));
    leave_idle(first);
    external = import_file(&code);
    say("cuImportExternalMemory", code);
    leave_idle(first);
    say("cuExternalMemoryGetMappedBuffer",
        cuExternalMemoryGetMappedBuffer(&view, external, &buffer));
    APP_OK(cuMemFree_v2(view));
    APP_OK(cuDestroyExternalMemory(external));
    APP_OK(cuMemAddressReserve(&range, bytes, 0, 0, 0));
    APP_OK(cuCtxSetCurrent(second));
    leave_idle(first);
    leave_idle(second);
    say("cuMemCreate on the other device", cuMemCreate(&memory, bytes, &prop, 0));
    leave_idle(first);
    say("cuMemMap", cuMemMap(range, bytes, 0, memory, 0));
    APP_OK(cuMemUnmap(range, bytes));
    APP_OK(cuMemRelease(memory));
    APP_OK(cuMemAddressFree(range, bytes));
#if CUDA_VERSION >= 12010
    CUmulticastObjectProp many = {.numDevices = 2, .size = bytes};

    leave_idle(first);
    say("cuMulticastCreate", cuMulticastCreate(&memory, &many));
    APP_OK(cuMemRelease(memory));
#endif
    free(host);
}

static const struct {
    const char *name;
    void (*run)(void);
} corners[] = {
    {"green_last", green_last},           {"green_first", green_first},
    {"green_reset", green_reset},         {"green_alone", green_alone},
    {"capture_destroy", capture_destroy}, {"capture_reset", capture_reset},
    {"capture_release", capture_release}, {"capture_green", capture_green},
    {"capture_stays", capture_stays},     {"looked_at", looked_at},
    {"full_contexts", full_contexts},     {"full_mappings", full_mappings},
    {"green_known", green_known},         {"green_race", green_race},
    {"full_green", full_green},           {"full_small", full_small},
    {"full_launches", full_launches},     {"capture_in_green", capture_in_green},
    {"green_memory", green_memory},
};

int main(int argc, char **argv)
{
    const char *corner = argc > 1 ? argv[1] : "";

    APP_OK(cuInit(0));
    for (size_t i = 0; i < APP_COUNT(corners); i++) {
        if (strcmp(corner, corners[i].name) == 0) {
            corners[i].run();
            return 0;
        }
    }
    app_fail("no such corner", corner);
}
