/*
 * lookup.c - every way of asking for a driver function, and what each answers.
 *
 * Proves that look-ups answer as natively: what exists is found, what does not is missing
 * with the same error text, look-ups of other libraries are untouched, and functions
 * found by different ways work on each other's memory.
 */
#include <dlfcn.h>

#include <cuda.h>

#include "app.h"

typedef CUresult alloc_fn(CUdeviceptr *out, size_t bytes);
typedef CUresult free_fn(CUdeviceptr ptr);
typedef CUresult copy_in_fn(CUdeviceptr dst, const void *src, size_t bytes);
typedef CUresult copy_out_fn(void *dst, CUdeviceptr src, size_t bytes);
typedef CUresult proc_fn(const char *symbol, void **out, int version, cuuint64_t flags,
                         CUdriverProcAddressQueryResult *status);
typedef CUresult old_proc_fn(const char *symbol, void **out, int version,
                             cuuint64_t flags);

static void *library;

static void *need(const char *symbol)
{
    void *address = dlsym(library, symbol);

    if (!address)
        app_fail(symbol, dlerror());
    return address;
}

static void print_symbol(const char *symbol)
{
    const char *error;
    void *address;

    dlerror();
    address = dlsym(library, symbol);
    error = dlerror();
    printf("lookup: %-22s %s%s%s\n", symbol, address ? "found" : "missing",
           error ? ", " : "", error ? strrchr(error, '/') : "");
}

/* An error that is waiting to be read is replaced by a look-up that works, or kept. */
static void print_pending_error(const char *symbol)
{
    const char *error;

    dlerror();
    dlsym(library, "cuNoSuchCall");
    dlsym(library, symbol);
    error = dlerror();
    printf("lookup: error left after %s: %s\n", symbol,
           error ? strrchr(error, '/') : "none");
}

static void print_versioned(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    const char *error;

    app_expect(libc != NULL, "libc.so.6");
    printf("lookup: dlvsym in libc %s\n",
           dlvsym(libc, "printf", "NO_SUCH_1.0") ? "found" : "missing");
    dlerror();
    printf("lookup: dlvsym of a call %s\n",
           dlvsym(library, "cuMemAlloc_v2", "NO_SUCH_1.0") ? "found" : "missing");
    error = dlerror();
    printf("lookup: its error is %s\n", error ? "set" : "not set");
    printf("lookup: next puts %s\n",
           dlsym(RTLD_NEXT, "puts") == dlsym(libc, "puts") ? "is libc's" : "is another");
    printf("lookup: default malloc %s\n",
           dlsym(RTLD_DEFAULT, "calloc") == (void *)calloc ? "is ours" : "is another");
    dlclose(libc);
}

static void print_proc(proc_fn *get, const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)-1;
    void *address = NULL;
    int code = (int)get(name, &address, version, flags, &status);

    printf("lookup: proc %-18s %5d/%d: code %d, %s, status %d\n", name, version,
           (int)flags, code, address ? "found" : "missing", (int)status);
}

/* Memory made by one way of look-up, freed by another. */
static void cross_use(void *alloc, void *release, uint32_t seed)
{
    copy_in_fn *copy_in = (copy_in_fn *)need("cuMemcpyHtoD_v2");
    copy_out_fn *copy_out = (copy_out_fn *)need("cuMemcpyDtoH_v2");
    unsigned char in[5000], out[5000];
    CUdeviceptr block;

    app_bytes_fill(in, sizeof(in), seed);
    APP_OK(((alloc_fn *)alloc)(&block, sizeof(in)));
    APP_OK(copy_in(block, in, sizeof(in)));
    APP_OK(copy_out(out, block, sizeof(out)));
    APP_OK(((free_fn *)release)(block));
    printf("lookup: checksum %016llx\n",
           (unsigned long long)app_checksum(APP_CHECKSUM, out, sizeof(out)));
}

static void *ask(proc_fn *get, const char *name)
{
    void *address = NULL;

    APP_OK(get(name, &address, 3020, 0, NULL));
    app_expect(address != NULL, name);
    return address;
}

static void start(void)
{
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))need("cuInit");
    CUresult (*retain)(CUcontext *, CUdevice) =
        (CUresult(*)(CUcontext *, CUdevice))need("cuDevicePrimaryCtxRetain");
    CUresult (*set)(CUcontext) = (CUresult(*)(CUcontext))need("cuCtxSetCurrent");
    CUcontext context;

    APP_OK(init(0));
    APP_OK(retain(&context, 0));
    APP_OK(set(context));
}

int main(void)
{
    static const char *const symbols[] = {
        "cuMemAlloc_v2",       "cuMemAlloc",       "cuMemFree_v2",    "cuMemAlloc_v9",
        "cuGetProcAddress_v2", "cuGetProcAddress", "cuMemAllocAsync", "cuNoSuchCall",
        "cudaMalloc",          "cudnnCreate"};
    void *proc = NULL;
    old_proc_fn *old_get;
    proc_fn *get;

    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        app_fail("dlopen", dlerror());
    for (size_t i = 0; i < APP_COUNT(symbols); i++)
        print_symbol(symbols[i]);
    print_pending_error("cuInit");
    print_pending_error("cuMemAlloc_v2");
    print_versioned();
    get = (proc_fn *)need("cuGetProcAddress_v2");
    print_proc(get, "cuMemAlloc", 3020, 0);
    print_proc(get, "cuMemAllocAsync", 11020, 0);
    print_proc(get, "cuMemAllocAsync", 11020,
               CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    print_proc(get, "cuMemAllocAsync", 3020, 0);
    print_proc(get, "cuNoSuchCall", 12000, 0);
    start();
    cross_use(need("cuMemAlloc_v2"), ask(get, "cuMemFree"), 1);
    cross_use(ask(get, "cuMemAlloc"), need("cuMemFree_v2"), 2);
    old_get = (old_proc_fn *)need("cuGetProcAddress");
    APP_OK(old_get("cuMemAlloc", &proc, 3020, 0));
    cross_use(proc, need("cuMemFree_v2"), 3);
    APP_OK(get("cuGetProcAddress", &proc, 12000, 0, NULL));
    cross_use(ask((proc_fn *)proc, "cuMemAlloc"), ask(get, "cuMemFree"), 4);
    return 0;
}
