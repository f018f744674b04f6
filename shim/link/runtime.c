/*
 * runtime.c - the exported runtime functions: they name the call, then forward.
 *
 * The memory is handled at the driver level, where each of these calls ends. What matters
 * here is to forward to the caller's own runtime: there may be several, loaded RTLD_LOCAL
 * or linked into a library, and the next definition in the global scope may be another's
 * or none at all.
 *
 * Owns:  the cache of each caller's functions.
 * Lock:  callers_lock, a leaf.
 */
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "elf_module.h"
#include "linker.h"
#include "log.h"
#include "real.h"
#include "runtime.h"
#include "thread.h"

enum runtime_call {
#define GS_HOOK(symbol, name, since, stream, treatment, doc)
#define GS_RUNTIME(symbol, doc) CALL_##symbol,
#include "hooks.def"
#undef GS_RUNTIME
#undef GS_HOOK
    CALL_COUNT
};

static const char *const call_names[CALL_COUNT] = {
#define GS_HOOK(symbol, name, since, stream, treatment, doc)
#define GS_RUNTIME(symbol, doc) #symbol,
#include "hooks.def"
#undef GS_RUNTIME
#undef GS_HOOK
};

/* ---- finding the caller's runtime ------------------------------------------------ */

/* A runtime has calls that nobody replaces; a tool that replaces some has not. */
static bool is_runtime(const struct gs_module_ref *module)
{
    return gs_elf_symbol(module, "cudaGetDeviceCount") != NULL;
}

/* A library behind the shim that replaces this call too, and is no runtime itself. */
static void *other_tool(const char *name)
{
    struct gs_module_ref module;
    void *next = gs_linker_next(name);
    if (!next || gs_elf_module_of(next, &module) != GS_OK || is_runtime(&module)) {
        return NULL;
    }
    return next;
}

/* The runtime the calling module was linked with: inside it, or named in its DT_NEEDED.
 */
static void *own_runtime(const struct gs_module_ref *caller, const char *name)
{
    struct gs_module_ref runtime;
    if (is_runtime(caller)) {
        return gs_elf_symbol(caller, name);
    }
    const char *soname = gs_elf_needed(caller, "libcudart.so");
    if (soname && gs_elf_module_named(soname, false, &runtime) == GS_OK) {
        return gs_elf_symbol(&runtime, name);
    }
    return NULL;
}

/* Search from the surest to the vaguest. */
static void *find_call(const struct gs_module_ref *caller, const char *name)
{
    struct gs_module_ref runtime;
    void *found = other_tool(name);
    if (!found) {
        found = own_runtime(caller, name);
    }
    if (!found) {
        found = gs_linker_next(name);
    }
    if (!found && gs_elf_module_named("libcudart.so", true, &runtime) == GS_OK) {
        found = gs_elf_symbol(&runtime, name);
    }
    return found;
}

/* What one calling module's calls resolve to. */
struct caller_entry {
    uintptr_t begin, end;
    void *calls[CALL_COUNT];
};

#define MAX_CALLERS 128

static pthread_mutex_t callers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct caller_entry callers[MAX_CALLERS]; /* under callers_lock */
static size_t caller_count;                      /* under callers_lock */
static uint64_t callers_unloads; /* under callers_lock: gs_elf_unload_count of then */

/* The entry of a module's code, or NULL. What is left from before a module was unloaded
 * is forgotten first: another one may have come to its place. callers_lock is held. */
static struct caller_entry *caller_at(uintptr_t address, uint64_t unloads)
{
    if (callers_unloads != unloads) {
        callers_unloads = unloads;
        caller_count = 0;
    }
    for (size_t i = 0; i < caller_count; i++) {
        if (address >= callers[i].begin && address < callers[i].end) {
            return &callers[i];
        }
    }
    return NULL;
}

/* Where the table is full, or modules have gone meanwhile, every call searches anew. */
static void remember(const struct gs_module_ref *module, enum runtime_call call,
                     void *found, uint64_t unloads)
{
    pthread_mutex_lock(&callers_lock);
    struct caller_entry *entry = caller_at(module->begin, unloads);
    if (!entry && caller_count < MAX_CALLERS) {
        entry = &callers[caller_count++];
        *entry = (struct caller_entry){.begin = module->begin, .end = module->end};
    }
    if (entry) {
        entry->calls[call] = found;
    }
    pthread_mutex_unlock(&callers_lock);
}

static void *remembered(enum runtime_call call, const void *caller, uint64_t unloads)
{
    pthread_mutex_lock(&callers_lock);
    struct caller_entry *entry = caller_at((uintptr_t)caller, unloads);
    void *found = entry ? entry->calls[call] : NULL;
    pthread_mutex_unlock(&callers_lock);
    return found;
}

/* The real function behind `call` for code at `caller`, searched for. */
static void *search_call(enum runtime_call call, const void *caller, uint64_t unloads)
{
    struct gs_module_ref module;
    if (gs_elf_module_of(caller, &module) != GS_OK) {
        return gs_linker_next(call_names[call]);
    }
    void *found = find_call(&module, call_names[call]);
    if (found) {
        remember(&module, call, found, unloads);
    }
    return found;
}

/* The real function behind `call` for code at `caller`. */
static void *real_call(enum runtime_call call, const void *caller)
{
    /* A signal handler that interrupted this very function must not wait for its lock. */
    if (GS_UNLIKELY(gs_thread.finding_runtime)) {
        struct gs_module_ref module;
        return gs_elf_module_of(caller, &module) == GS_OK
                   ? find_call(&module, call_names[call])
                   : gs_linker_next(call_names[call]);
    }
    uint64_t unloads = gs_elf_unload_count();
    gs_thread.finding_runtime = true;
    void *found = remembered(call, caller, unloads);
    if (GS_UNLIKELY(!found)) {
        found = search_call(call, caller, unloads);
    }
    gs_thread.finding_runtime = false;
    return found;
}

void gs_runtime_after_fork(void)
{
    pthread_mutex_init(&callers_lock, NULL);
}

/* ---- the wrappers ---------------------------------------------------------------- */

/* The outermost runtime call of this thread is the one the program made. */
static uint16_t name_call(enum gs_api api)
{
    uint16_t outer = gs_thread.api;
    if (outer == GS_API_UNKNOWN) {
        gs_thread.api = (uint16_t)api;
    }
    return outer;
}

static cudaError_t no_runtime(const char *name)
{
    static struct gs_log_limit limit;
    gs_log_once(&limit, GS_LOG_WARN, "%s: no CUDA runtime is loaded; the call fails",
                name);
    return cudaErrorSharedObjectSymbolNotFound;
}

/* One wrapper: find, name, forward. `params` and `args` are parenthesised lists. */
#define RUNTIME_WRAPPER(symbol, params, args)                                            \
    RUNTIME_WRAPPER_AS(symbol, symbol, params, args)

/* `named`: as the program's source has it, where the symbol is another. */
#define RUNTIME_WRAPPER_AS(symbol, named, params, args)                                  \
    GS_EXPORT cudaError_t symbol params;                                                 \
    cudaError_t symbol params                                                            \
    {                                                                                    \
        cudaError_t(*real) params = (cudaError_t(*) params)real_call(                    \
            CALL_##symbol, __builtin_return_address(0));                                 \
        uint16_t outer = name_call(GS_API_##named);                                      \
        cudaError_t result = real ? real args : no_runtime(#symbol);                     \
        gs_thread.api = outer;                                                           \
        return result;                                                                   \
    }

RUNTIME_WRAPPER(cudaMalloc, (void **devPtr, size_t size), (devPtr, size))
RUNTIME_WRAPPER(cudaFree, (void *devPtr), (devPtr))
RUNTIME_WRAPPER(cudaMallocHost, (void **ptr, size_t size), (ptr, size))
RUNTIME_WRAPPER(cudaHostAlloc, (void **pHost, size_t size, unsigned int flags),
                (pHost, size, flags))
RUNTIME_WRAPPER(cudaFreeHost, (void *ptr), (ptr))
RUNTIME_WRAPPER(cudaMallocManaged, (void **devPtr, size_t size, unsigned int flags),
                (devPtr, size, flags))
RUNTIME_WRAPPER(cudaMallocAsync, (void **devPtr, size_t size, cudaStream_t hStream),
                (devPtr, size, hStream))
RUNTIME_WRAPPER_AS(cudaMallocAsync_ptsz, cudaMallocAsync,
                   (void **devPtr, size_t size, cudaStream_t hStream),
                   (devPtr, size, hStream))
RUNTIME_WRAPPER(cudaFreeAsync, (void *devPtr, cudaStream_t hStream), (devPtr, hStream))
RUNTIME_WRAPPER_AS(cudaFreeAsync_ptsz, cudaFreeAsync,
                   (void *devPtr, cudaStream_t hStream), (devPtr, hStream))

/* Memory that the driver keeps itself: the same. */
RUNTIME_WRAPPER(cudaMallocPitch,
                (void **devPtr, size_t *pitch, size_t width, size_t height),
                (devPtr, pitch, width, height))
RUNTIME_WRAPPER(cudaMalloc3D,
                (struct cudaPitchedPtr * pitchedDevPtr, struct cudaExtent extent),
                (pitchedDevPtr, extent))
RUNTIME_WRAPPER(cudaMallocArray,
                (cudaArray_t * array, const struct cudaChannelFormatDesc *desc,
                 size_t width, size_t height, unsigned int flags),
                (array, desc, width, height, flags))
RUNTIME_WRAPPER(cudaMalloc3DArray,
                (cudaArray_t * array, const struct cudaChannelFormatDesc *desc,
                 struct cudaExtent extent, unsigned int flags),
                (array, desc, extent, flags))
RUNTIME_WRAPPER(cudaMallocMipmappedArray,
                (cudaMipmappedArray_t * mipmappedArray,
                 const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                 unsigned int numLevels, unsigned int flags),
                (mipmappedArray, desc, extent, numLevels, flags))
RUNTIME_WRAPPER(cudaFreeArray, (cudaArray_t array), (array))
RUNTIME_WRAPPER(cudaFreeMipmappedArray, (cudaMipmappedArray_t mipmappedArray),
                (mipmappedArray))
RUNTIME_WRAPPER(cudaMallocFromPoolAsync,
                (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
                (ptr, size, memPool, stream))
RUNTIME_WRAPPER_AS(cudaMallocFromPoolAsync_ptsz, cudaMallocFromPoolAsync,
                   (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
                   (ptr, size, memPool, stream))
RUNTIME_WRAPPER(cudaHostRegister, (void *ptr, size_t size, unsigned int flags),
                (ptr, size, flags))
RUNTIME_WRAPPER(cudaHostUnregister, (void *ptr), (ptr))
RUNTIME_WRAPPER(cudaIpcOpenMemHandle,
                (void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags),
                (devPtr, handle, flags))
RUNTIME_WRAPPER(cudaIpcCloseMemHandle, (void *devPtr), (devPtr))
RUNTIME_WRAPPER(cudaMemPoolImportPointer,
                (void **ptr, cudaMemPool_t memPool,
                 struct cudaMemPoolPtrExportData *exportData),
                (ptr, memPool, exportData))
RUNTIME_WRAPPER(cudaImportExternalMemory,
                (cudaExternalMemory_t * extMem_out,
                 const struct cudaExternalMemoryHandleDesc *memHandleDesc),
                (extMem_out, memHandleDesc))
RUNTIME_WRAPPER(cudaDestroyExternalMemory, (cudaExternalMemory_t extMem), (extMem))
RUNTIME_WRAPPER(cudaExternalMemoryGetMappedBuffer,
                (void **devPtr, cudaExternalMemory_t extMem,
                 const struct cudaExternalMemoryBufferDesc *bufferDesc),
                (devPtr, extMem, bufferDesc))
RUNTIME_WRAPPER(cudaExternalMemoryGetMappedMipmappedArray,
                (cudaMipmappedArray_t * mipmap, cudaExternalMemory_t extMem,
                 const struct cudaExternalMemoryMipmappedArrayDesc *mipmapDesc),
                (mipmap, extMem, mipmapDesc))
RUNTIME_WRAPPER(cudaGraphAddMemAllocNode,
                (cudaGraphNode_t * pGraphNode, cudaGraph_t graph,
                 const cudaGraphNode_t *pDependencies, size_t numDependencies,
                 struct cudaMemAllocNodeParams *nodeParams),
                (pGraphNode, graph, pDependencies, numDependencies, nodeParams))
RUNTIME_WRAPPER(cudaGraphAddMemFreeNode,
                (cudaGraphNode_t * pGraphNode, cudaGraph_t graph,
                 const cudaGraphNode_t *pDependencies, size_t numDependencies,
                 void *dptr),
                (pGraphNode, graph, pDependencies, numDependencies, dptr))
