/*
 * registry.c - what code compiled by nvcc registers before main(): fat binaries, and in
 * each the kernels and variables by the address of their host stub. A fat binary is
 * handed to cuLibraryLoadData at the first use of something in it; which of its kernels
 * really run is for the driver to decide.
 *
 * Owns:  the registered fat binaries, their entries, and the kernel handles handed out.
 * Lock:  registry_lock, a leaf but for the driver's calls that load a library.
 */
#include "rt.h"

#include <fatbinary_section.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>

struct fat_binary {
    const void *image; /* as nvcc wrote it; lives as long as the program or plugin */
    CUlibrary library; /* NULL until something in it is used */
    CUresult load_result;
    bool load_tried;
};

/* A kernel or variable, by the host address that stands for it. */
struct registered {
    const void *key;
    struct fat_binary *owner; /* NULL for a handle that was noted */
    const char *name;
    void **managed;  /* the host's variable to fill, NULL unless managed */
    CUkernel kernel; /* NULL until looked up */
    bool is_variable;
    struct registered *next;
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by registry_lock. */
static void *by_key; /* tree of tsearch(3) */
static struct registered *entries;

static int compare_keys(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t)((const struct registered *)left)->key;
    uintptr_t b = (uintptr_t)((const struct registered *)right)->key;

    return (a > b) - (a < b);
}

/* A child only ever unregisters, at its exit; it must not wait for a thread it lacks. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&registry_lock, NULL);
}

/* At the program's start: a handler that is registered while another thread forks does
 * not run in that child. */
__attribute__((constructor)) static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

static void lock(void)
{
    pthread_mutex_lock(&registry_lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&registry_lock);
}

static struct registered *find(const void *key)
{
    struct registered wanted = {.key = key};
    struct registered **found = tfind(&wanted, &by_key, compare_keys);

    return found ? *found : NULL;
}

/* Add or replace the entry of key: a plugin may be loaded where another one was. */
static struct registered *add(const void *key)
{
    struct registered *entry = find(key);

    if (entry) {
        entry->owner = NULL;
        entry->name = NULL;
        entry->managed = NULL;
        entry->kernel = NULL;
        entry->is_variable = false;
        return entry;
    }
    entry = calloc(1, sizeof(*entry));
    if (!entry)
        return NULL;
    entry->key = key;
    if (!tsearch(entry, &by_key, compare_keys)) { /* out of memory */
        free(entry);
        return NULL;
    }
    entry->next = entries;
    entries = entry;
    return entry;
}

/* ---- registration ---------------------------------------------------------------- */

void **__cudaRegisterFatBinary(void *fat_binary)
{
    const __fatBinC_Wrapper_t *wrapper = fat_binary;
    struct fat_binary *binary = calloc(1, sizeof(*binary));

    if (!binary)
        return NULL;
    if (wrapper && wrapper->magic == FATBINC_MAGIC)
        binary->image = wrapper->data;
    return (void **)binary;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    struct fat_binary *binary = (struct fat_binary *)handle;
    struct registered *entry, **link;

    if (!binary)
        return;
    lock();
    for (link = &entries; (entry = *link);) {
        if (entry->owner == binary) {
            *link = entry->next;
            tdelete(entry, &by_key, compare_keys);
            free(entry);
        } else {
            link = &entry->next;
        }
    }
    unlock();
    if (binary->library && gs_rt_start() == cudaSuccess)
        gs_rt_cu.cuLibraryUnload_v12000(binary->library);
    free(binary);
}

static void add_to(void **handle, const void *key, const char *name, bool is_variable,
                   void **managed)
{
    struct registered *entry;

    if (!handle || !key || !name)
        return;
    lock();
    entry = add(key);
    if (entry) {
        entry->owner = (struct fat_binary *)handle;
        entry->name = name;
        entry->is_variable = is_variable;
        entry->managed = managed;
    }
    unlock();
}

void __cudaRegisterFunction(void **handle, const char *host_fun, char *device_fun,
                            const char *device_name, int thread_limit, uint3 *tid,
                            uint3 *bid, dim3 *block_dim, dim3 *grid_dim, int *warp_size)
{
    (void)device_fun;
    (void)thread_limit;
    (void)tid;
    (void)bid;
    (void)block_dim;
    (void)grid_dim;
    (void)warp_size;
    add_to(handle, host_fun, device_name, false, NULL);
}

void __cudaRegisterVar(void **handle, char *host_var, char *device_address,
                       const char *device_name, int ext, size_t size, int constant,
                       int global)
{
    (void)device_address;
    (void)ext;
    (void)size;
    (void)constant;
    (void)global;
    add_to(handle, host_var, device_name, true, NULL);
}

void __cudaRegisterManagedVar(void **handle, void **host_var, char *device_address,
                              const char *device_name, int ext, size_t size, int constant,
                              int global)
{
    (void)device_address;
    (void)ext;
    (void)size;
    (void)constant;
    (void)global;
    add_to(handle, host_var, device_name, true, host_var);
}

/* ---- use ------------------------------------------------------------------------- */

static CUresult load(struct fat_binary *binary)
{
    char *ptx;
    CUresult result;

    if (!binary->image)
        return CUDA_ERROR_INVALID_IMAGE;
    ptx = gs_rt_fatbin_ptx(binary->image);
    result = gs_rt_cu.cuLibraryLoadData_v12000(
        &binary->library, ptx ? ptx : binary->image, NULL, NULL, 0, NULL, NULL, 0);
    free(ptx);
    return result;
}

/* The library of a fat binary, loaded at its first use. registry_lock is held. */
static CUresult library_of(struct fat_binary *binary, CUlibrary *library)
{
    if (!binary->load_tried) {
        binary->load_tried = true;
        binary->load_result = load(binary);
    }
    *library = binary->library;
    return binary->load_result;
}

/* registry_lock is held. */
static CUresult look_up_kernel(struct registered *entry)
{
    CUlibrary library;
    CUresult result = library_of(entry->owner, &library);

    if (result != CUDA_SUCCESS)
        return result;
    return gs_rt_cu.cuLibraryGetKernel_v12000(&entry->kernel, library, entry->name);
}

cudaError_t gs_rt_kernel(const void *func, CUkernel *kernel)
{
    CUresult result = CUDA_SUCCESS;
    struct registered *entry;
    cudaError_t error;

    lock();
    entry = find(func);
    if (!entry || entry->is_variable) {
        error = cudaErrorInvalidDeviceFunction;
    } else {
        if (!entry->kernel)
            result = look_up_kernel(entry);
        /* The name was compiled, but not into anything that this device can run. */
        error = result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction
                                               : gs_rt_error_of(result);
        if (error == cudaSuccess)
            *kernel = entry->kernel;
    }
    unlock();
    return error;
}

cudaError_t gs_rt_note_kernel(const void *handle, CUkernel kernel)
{
    struct registered *entry;

    lock();
    entry = add(handle);
    if (entry)
        entry->kernel = kernel;
    unlock();
    return entry ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* registry_lock is held. */
static CUresult look_up_variable(const struct registered *entry, CUdeviceptr *address,
                                 size_t *bytes)
{
    CUlibrary library;
    CUresult result = library_of(entry->owner, &library);

    if (result != CUDA_SUCCESS)
        return result;
    if (entry->managed)
        return gs_rt_cu.cuLibraryGetManaged_v12000(address, bytes, library, entry->name);
    return gs_rt_cu.cuLibraryGetGlobal_v12000(address, bytes, library, entry->name);
}

cudaError_t gs_rt_symbol(const void *symbol, CUdeviceptr *address, size_t *bytes)
{
    CUresult result = CUDA_ERROR_NOT_FOUND;
    struct registered *entry;

    lock();
    entry = find(symbol);
    if (entry && entry->is_variable)
        result = look_up_variable(entry, address, bytes);
    unlock();
    return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol
                                          : gs_rt_error_of(result);
}

/* Generated code calls this before main's first use of a __managed__ variable: fill the
 * host's pointers. True once that is done or cannot be. */
char __cudaInitModule(void **handle)
{
    struct registered *entry;
    CUdeviceptr address;
    size_t bytes;

    if (gs_rt_enter() != cudaSuccess)
        return 0;
    lock();
    for (entry = entries; entry; entry = entry->next) {
        if (entry->owner == (struct fat_binary *)handle && entry->managed &&
            look_up_variable(entry, &address, &bytes) == CUDA_SUCCESS)
            *entry->managed = (void *)(uintptr_t)address;
    }
    unlock();
    return 1;
}

cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
    CUdeviceptr address = 0;
    size_t bytes;

    RT_TRY(gs_rt_enter());
    if (!devPtr)
        return gs_rt_leave(cudaErrorInvalidValue);
    cudaError_t error = gs_rt_symbol(symbol, &address, &bytes);
    if (error == cudaSuccess)
        *devPtr = (void *)(uintptr_t)address;
    return gs_rt_leave(error);
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    CUdeviceptr address;
    size_t bytes = 0;

    RT_TRY(gs_rt_enter());
    if (!size)
        return gs_rt_leave(cudaErrorInvalidValue);
    cudaError_t error = gs_rt_symbol(symbol, &address, &bytes);
    if (error == cudaSuccess)
        *size = bytes;
    return gs_rt_leave(error);
}
