/*
 * runtime.c - the exported runtime functions: they name the call, then forward.
 *
 * The memory is handled at the driver level, where each of these calls ends. What matters
 * here is to forward to the caller's own runtime: there may be several, loaded RTLD_LOCAL
 * or linked into a library, and the next definition in the global scope may be another's
 * or none at all.
 *
 * Owns:  the cache of each caller's functions.
 * Lock:  none; cache entries are claimed with a compare-and-swap and published once.
 */
#include <cuda_runtime_api.h>

#include "elf_module.h"
#include "linker.h"
#include "log.h"
#include "real.h"
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
    uintptr_t begin, end; /* published last: end */
    const void *dynamic;
    void *calls[CALL_COUNT]; /* atomic, each written with one value */
    int claimed;             /* atomic */
};

#define MAX_CALLERS 128

static struct caller_entry callers[MAX_CALLERS];

static struct caller_entry *cached_caller(uintptr_t address)
{
    for (size_t i = 0; i < MAX_CALLERS; i++) {
        uintptr_t end = __atomic_load_n(&callers[i].end, __ATOMIC_ACQUIRE);
        if (end == 0 && !__atomic_load_n(&callers[i].claimed, __ATOMIC_RELAXED)) {
            return NULL;
        }
        if (address >= callers[i].begin && address < end) {
            return &callers[i];
        }
    }
    return NULL;
}

/* Remember a module; NULL where the table is full (then every call searches anew). */
static struct caller_entry *add_caller(const struct gs_module_ref *module)
{
    for (size_t i = 0; i < MAX_CALLERS; i++) {
        int free_slot = 0;
        if (__atomic_compare_exchange_n(&callers[i].claimed, &free_slot, 1, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            callers[i].begin = module->begin;
            callers[i].dynamic = module->dynamic;
            __atomic_store_n(&callers[i].end, module->end, __ATOMIC_RELEASE);
            return &callers[i];
        }
    }
    return NULL;
}

/*
 * The real function behind `call` for code at `caller`.
 * A module that was unloaded may leave its entry to another one mapped at its place; both
 * were linked with some runtime, and an entry whose function is no longer mapped is not
 * used.
 */
static void *real_call(enum runtime_call call, const void *caller)
{
    struct gs_module_ref module;
    struct caller_entry *entry = cached_caller((uintptr_t)caller);
    void *found = entry ? __atomic_load_n(&entry->calls[call], __ATOMIC_ACQUIRE) : NULL;
    if (GS_LIKELY(found != NULL)) {
        return found;
    }
    if (gs_elf_module_of(caller, &module) != GS_OK) {
        return gs_linker_next(call_names[call]);
    }
    found = find_call(&module, call_names[call]);
    if (!entry) {
        entry = add_caller(&module);
    }
    if (entry && found) {
        __atomic_store_n(&entry->calls[call], found, __ATOMIC_RELEASE);
    }
    return found;
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
    GS_EXPORT cudaError_t symbol params;                                                 \
    cudaError_t symbol params                                                            \
    {                                                                                    \
        cudaError_t(*real) params = (cudaError_t(*) params)real_call(                    \
            CALL_##symbol, __builtin_return_address(0));                                 \
        uint16_t outer = name_call(GS_API_##symbol);                                     \
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
RUNTIME_WRAPPER(cudaMallocAsync_ptsz, (void **devPtr, size_t size, cudaStream_t hStream),
                (devPtr, size, hStream))
RUNTIME_WRAPPER(cudaFreeAsync, (void *devPtr, cudaStream_t hStream), (devPtr, hStream))
RUNTIME_WRAPPER(cudaFreeAsync_ptsz, (void *devPtr, cudaStream_t hStream),
                (devPtr, hStream))
