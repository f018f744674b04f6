/*
 * gpushim_memory.h - owned memory and its movement over plain CUDA.
 *
 * Buffers that know their size and place, batches, groups, caches, sets of named buffers,
 * read-back through reused pinned memory, pitched and batched copies, rings between host
 * and device, sets of streams, files streamed through the device. Works with and without
 * libgpushim.so, with the same results.
 *
 * C99 or C++11. There is nothing to link with (before glibc 2.34: -ldl -lpthread), and
 * cuda.h is not needed. The functions look for CUDA's driver API in the process, then for
 * libcuda.so.1. Memory comes from the calling thread's current context. If there is none,
 * the primary context of device 0 is made current, as the runtime does. gpushim.hpp has
 * classes.
 *
 * Of every function, unless its comment says otherwise:
 *   units    Sizes and offsets are in bytes.
 *   streams  `stream` is a CUstream or cudaStream_t of the current context: the work is
 *            queued there. NULL is the legacy default stream, in any build. GPUSHIM_SYNC:
 *            the work is queued in the legacy default stream, and complete on return.
 *   errors   INVALID    an argument is wrong: NULL, zero, a range beyond the buffer, a
 *                       freed buffer. Nothing was changed.
 *            NO_MEMORY  of the device or the host, or a limit of the object is reached
 *            CUDA       a call of the driver failed, now or in earlier work
 *            INACTIVE   there is no CUDA in this process, or no device
 *            A failed function frees what it has allocated and changes nothing else,
 *            but the bytes that a failed copy or fill was to write are undefined.
 *   threads  Any thread may call any function, but no signal handler may, as with CUDA.
 *            One object is for one thread at a time, but for caches (any), buffers as the
 *            operands of copies and fills (any), and rings (one producer and one
 *            consumer).
 *
 * Here: buffers, copies, batches. The other parts are in gpushim_memory/, and are
 * included at the end. Manual: docs/api.md
 */
#ifndef GPUSHIM_MEMORY_H
#define GPUSHIM_MEMORY_H

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* one source for C and C++ */
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "gpushim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- CUDA's driver: internal to this header --------------------------------------- */

/* CUDA_MEMCPY2D of cuda.h. */
struct gpushim_rows_ {
    size_t src_x, src_y;
    unsigned src_type;
    const void *src_host;
    unsigned long long src_device;
    void *src_array;
    size_t src_pitch, dst_x, dst_y;
    unsigned dst_type;
    void *dst_host;
    unsigned long long dst_device;
    void *dst_array;
    size_t dst_pitch, width, rows;
};

/* Each function: its name here, its symbol, its parameters. The result is a CUresult. */
/* clang-format off */
#define GPUSHIM_DRIVER_(row)                                                                 \
    row(init, "cuInit", (unsigned))                                                          \
    row(device_count, "cuDeviceGetCount", (int *))                                           \
    row(device_attribute, "cuDeviceGetAttribute", (int *, int, int))                         \
    row(can_access_peer, "cuDeviceCanAccessPeer", (int *, int, int))                         \
    row(primary_state, "cuDevicePrimaryCtxGetState", (int, unsigned *, int *))               \
    row(primary_retain, "cuDevicePrimaryCtxRetain", (void **, int))                          \
    row(primary_release, "cuDevicePrimaryCtxRelease_v2", (int))                              \
    row(context_get, "cuCtxGetCurrent", (void **))                                           \
    row(context_set, "cuCtxSetCurrent", (void *))                                            \
    row(context_device, "cuCtxGetDevice", (int *))                                           \
    row(context_sync, "cuCtxSynchronize", (void))                                            \
    row(memory_info, "cuMemGetInfo_v2", (size_t *, size_t *))                                \
    row(enable_peer, "cuCtxEnablePeerAccess", (void *, unsigned))                            \
    row(alloc, "cuMemAlloc_v2", (unsigned long long *, size_t))                              \
    row(release, "cuMemFree_v2", (unsigned long long))                                       \
    row(alloc_managed, "cuMemAllocManaged", (unsigned long long *, size_t, unsigned))        \
    row(alloc_host, "cuMemHostAlloc", (void **, size_t, unsigned))                           \
    row(release_host, "cuMemFreeHost", (void *))                                             \
    row(host_view, "cuMemHostGetDevicePointer_v2", (unsigned long long *, void *, unsigned)) \
    row(copy, "cuMemcpyAsync", (unsigned long long, unsigned long long, size_t, void *))     \
    row(copy_rows, "cuMemcpy2DAsync_v2", (const struct gpushim_rows_ *, void *))             \
    row(set, "cuMemsetD8Async", (unsigned long long, unsigned char, size_t, void *))         \
    row(prefetch, "cuMemPrefetchAsync", (unsigned long long, size_t, int, void *))           \
    row(advise, "cuMemAdvise", (unsigned long long, size_t, int, int))                       \
    row(stream_create, "cuStreamCreate", (void **, unsigned))                                \
    row(stream_destroy, "cuStreamDestroy_v2", (void *))                                      \
    row(stream_sync, "cuStreamSynchronize", (void *))                                        \
    row(stream_wait, "cuStreamWaitEvent", (void *, void *, unsigned))                        \
    row(event_create, "cuEventCreate", (void **, unsigned))                                  \
    row(event_destroy, "cuEventDestroy_v2", (void *))                                        \
    row(event_record, "cuEventRecord", (void *, void *))                                     \
    row(event_query, "cuEventQuery", (void *))                                               \
    row(event_sync, "cuEventSynchronize", (void *))                                          \
    row(host_func, "cuLaunchHostFunc", (void *, void (*)(void *), void *))
/* clang-format on */

struct gpushim_calls_ {
#define GPUSHIM_ROW_(name, symbol, parameters) int(*name) parameters;
    GPUSHIM_DRIVER_(GPUSHIM_ROW_)
#undef GPUSHIM_ROW_
};

/* CUresult, flags and kinds that this header needs. */
enum {
    GPUSHIM_CU_OUT_OF_MEMORY_ = 2,
    GPUSHIM_CU_DEINITIALIZED_ = 4,
    GPUSHIM_CU_INVALID_CONTEXT_ = 201,
    GPUSHIM_CU_NOT_READY_ = 600,
    GPUSHIM_CU_PEERS_ALREADY_ = 704,
    GPUSHIM_CU_DESTROYED_ = 709,
    GPUSHIM_CU_PORTABLE_MAPPED_ = 3,
    GPUSHIM_CU_ATTACH_GLOBAL_ = 1,
    GPUSHIM_CU_NON_BLOCKING_ = 1,
    GPUSHIM_CU_NO_TIMING_ = 2,
    GPUSHIM_CU_UNIFIED_ = 4,
    GPUSHIM_CU_HAS_MANAGED_ = 83, /* CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY */
    GPUSHIM_CU_HAS_VMM_ = 102,    /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_... */
    GPUSHIM_CU_HAS_CONCURRENT_ = 89 /* CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS */
};

/* The driver's functions; NULL: one is missing. Looked for once. */
/* Fills a table of functions. Returns 0 if one is missing. */
static inline int gpushim_find_(const char *const *names, size_t count, void *table)
{
    void *library = NULL, *symbol;
    size_t i;

    for (i = 0; i < count; i++) {
        symbol = dlsym((void *)0 /* RTLD_DEFAULT */, names[i]);
        if (!symbol && !library) {
            library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
        }
        if (!symbol && library) {
            symbol = dlsym(library, names[i]);
        }
        if (!symbol) {
            return 0;
        }
        memcpy((char *)table + i * sizeof(symbol), &symbol, sizeof(symbol));
    }
    return 1;
}

static inline const struct gpushim_calls_ *gpushim_driver_(void)
{
    static const char *const names[] = {
#define GPUSHIM_ROW_(name, symbol, parameters) symbol,
        GPUSHIM_DRIVER_(GPUSHIM_ROW_)
#undef GPUSHIM_ROW_
    };
    static struct gpushim_calls_ none, *found;
    struct gpushim_calls_ *table = __atomic_load_n(&found, __ATOMIC_ACQUIRE),
                          *other = NULL;

    if (!table) {
        table = (struct gpushim_calls_ *)malloc(sizeof(*table));
        if (!table) {
            return NULL;
        }
        if (!gpushim_find_(names, sizeof(names) / sizeof(names[0]), table)) {
            free(table);
            table = &none;
        }
        if (!__atomic_compare_exchange_n(&found, &other, table, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            if (table != &none) {
                free(table);
            }
            table = other;
        }
    }
    return table == &none ? NULL : table;
}

static inline gpushim_result gpushim_from_cuda_(int code)
{
#ifdef GPUSHIM_ON_CUDA_FAILURE_ /* of a file that reports the driver's codes */
    if (code) {
        GPUSHIM_ON_CUDA_FAILURE_(code);
    }
#endif
    return code == 0                           ? GPUSHIM_OK
           : code == GPUSHIM_CU_OUT_OF_MEMORY_ ? GPUSHIM_NO_MEMORY
                                               : GPUSHIM_CUDA;
}

/* Is a device's primary context active? */
static inline int gpushim_is_active_(const struct gpushim_calls_ *cuda, int device)
{
    unsigned flags;
    int active = 0;

    return cuda->primary_state(device, &flags, &active) == 0 && active;
}

/* The driver, with a context that is current. */
static inline gpushim_result gpushim_cuda_(const struct gpushim_calls_ **out)
{
    static int kept; /* one use of the context: atomic */
    const struct gpushim_calls_ *cuda = gpushim_driver_();
    void *context = NULL;
    int code, active;

    *out = cuda;
    if (!cuda) {
        return GPUSHIM_INACTIVE;
    }
    if (cuda->context_get(&context) == 0 && context) {
        return GPUSHIM_OK;
    }
    if (cuda->init(0) != 0) {
        return GPUSHIM_INACTIVE;
    }
    active = gpushim_is_active_(cuda, 0);
    code = cuda->primary_retain(&context, 0);
    if (!code) {
        code = cuda->context_set(context);
        if (code || (__atomic_exchange_n(&kept, 1, __ATOMIC_RELAXED) && active)) {
            (void)cuda->primary_release(0);
        }
    }
    return gpushim_from_cuda_(code);
}

static inline unsigned long long gpushim_address_(const void *memory)
{
    return (unsigned long long)(uintptr_t)memory;
}

/* ---- buffers --------------------------------------------------------------------- */

static inline void *gpushim_sync_(void)
{
    return (void *)UINTPTR_MAX;
}
/* Instead of a stream: the work is complete on return. */
#define GPUSHIM_SYNC gpushim_sync_()

typedef enum gpushim_place {
    GPUSHIM_DEVICE = 0,      /* of the current context's device */
    GPUSHIM_HOST = 1,        /* malloc; needs no CUDA */
    GPUSHIM_PINNED_HOST = 2, /* page-locked, seen by every context */
    GPUSHIM_MANAGED = 3      /* seen by host and devices */
} gpushim_place;

/* Flags of a buffer. */
enum {
    GPUSHIM_ZEROED = 1,  /* zero at the start, and so is what a resize adds */
    GPUSHIM_VIEW = 2,    /* set by the functions: the buffer does not own its memory */
    GPUSHIM_IN_PLACE = 4 /* of device memory: grows at its address, without a copy */
};

/*
 * Memory with its size. This struct owns it: pass its address, do not copy it.
 * Begin with GPUSHIM_BUFFER_INIT or gpushim_buffer_create. A program may read all fields,
 * and set `growth` and `limit`.
 */
struct gpushim_buffer {
    void *data; /* NULL: freed */
    size_t bytes, capacity;
    gpushim_place place;
    int device; /* ordinal; -1: plain host memory */
    unsigned flags;
    double growth; /* a resize beyond `capacity` multiplies it by this, 1 to 16 */
    size_t limit;  /* maximum of `capacity`; 0: no limit */
    /* Internal. */
    size_t alignment, charged;
    void *base, *context;
    const void *cache; /* the struct gpushim_cache that it was taken from */
    uint64_t used_at;
    struct gpushim_pages_ *pages; /* of GPUSHIM_IN_PLACE; else NULL */
};

#ifdef __cplusplus
#define GPUSHIM_BUFFER_INIT                                                              \
    {                                                                                    \
    }
#else
#define GPUSHIM_BUFFER_INIT                                                              \
    {                                                                                    \
        .data = NULL                                                                     \
    }
#endif

/* Elements of a type that a buffer holds. */
#define GPUSHIM_LENGTH(buffer, type) ((buffer)->bytes / sizeof(type))

/* Seconds; a jump of the clock makes a shrink come early or late, no more. */
static inline uint64_t gpushim_now_(void)
{
    return (uint64_t)time(NULL);
}

static inline void gpushim_used_(struct gpushim_buffer *buffer)
{
    __atomic_store_n(&buffer->used_at, gpushim_now_(), __ATOMIC_RELAXED);
}

/* Not used since `seconds`. */
static inline int gpushim_is_old_(struct gpushim_buffer *buffer, uint64_t seconds)
{
    uint64_t now = gpushim_now_(),
             used_at = __atomic_load_n(&buffer->used_at, __ATOMIC_RELAXED);
    return now >= used_at && now - used_at >= seconds;
}

/* Is [offset, offset + bytes) in the buffer, and not empty? */
static inline int gpushim_has_(const struct gpushim_buffer *buffer, size_t offset,
                               size_t bytes)
{
    return buffer && buffer->data && bytes && offset <= buffer->bytes &&
           bytes <= buffer->bytes - offset;
}

static inline char *gpushim_at_(const struct gpushim_buffer *buffer, size_t offset)
{
    return (char *)buffer->data + offset;
}

/* Makes a buffer's context current; *before is for gpushim_leave_. */
static inline int gpushim_enter_(const struct gpushim_calls_ *cuda, void *context,
                                 void **before)
{
    int code = cuda->context_get(before);
    return code || *before == context ? code : cuda->context_set(context);
}

static inline void gpushim_leave_(const struct gpushim_calls_ *cuda, void *context,
                                  void *before)
{
    if (before != context) {
        (void)cuda->context_set(before);
    }
}

/* ---- pages of buffers that grow in place: internal ---- */

/* CUmemAllocationProp, CUmemAccessDesc. */
struct gpushim_page_kind_ {
    int type, handles, location, device;
    void *unused;
    unsigned char flags[8];
};
struct gpushim_page_access_ {
    int location, device, flags;
};

/* clang-format off */
#define GPUSHIM_VMM_(row)                                                                    \
    row(granularity, "cuMemGetAllocationGranularity",                                        \
        (size_t *, const struct gpushim_page_kind_ *, int))                                  \
    row(reserve, "cuMemAddressReserve",                                                      \
        (unsigned long long *, size_t, size_t, unsigned long long, unsigned long long))      \
    row(unreserve, "cuMemAddressFree", (unsigned long long, size_t))                         \
    row(create, "cuMemCreate",                                                               \
        (unsigned long long *, size_t, const struct gpushim_page_kind_ *, unsigned long long))\
    row(release, "cuMemRelease", (unsigned long long))                                       \
    row(map, "cuMemMap",                                                                     \
        (unsigned long long, size_t, size_t, unsigned long long, unsigned long long))        \
    row(unmap, "cuMemUnmap", (unsigned long long, size_t))                                   \
    row(access, "cuMemSetAccess",                                                            \
        (unsigned long long, size_t, const struct gpushim_page_access_ *, size_t))
/* clang-format on */

struct gpushim_vmm_ {
#define GPUSHIM_ROW_(name, symbol, parameters) int(*name) parameters;
    GPUSHIM_VMM_(GPUSHIM_ROW_)
#undef GPUSHIM_ROW_
};

/* False: the driver has no such functions. */
static inline int gpushim_find_vmm_(struct gpushim_vmm_ *out)
{
    static const char *const names[] = {
#define GPUSHIM_ROW_(name, symbol, parameters) symbol,
        GPUSHIM_VMM_(GPUSHIM_ROW_)
#undef GPUSHIM_ROW_
    };
    return gpushim_find_(names, sizeof(names) / sizeof(names[0]), out);
}

/* The mappings of a buffer: each begins where the last one ends. */
struct gpushim_pages_ {
    struct gpushim_vmm_ vmm;
    size_t reserved, page, count, room;
    size_t *ends;
};

static inline size_t gpushim_mapped_(const struct gpushim_pages_ *pages)
{
    return pages->count ? pages->ends[pages->count - 1] : 0;
}

/* Maps memory up to `to` bytes: whole pages. */
static inline gpushim_result gpushim_pages_grow_(struct gpushim_buffer *buffer, size_t to)
{
    struct gpushim_pages_ *pages = buffer->pages;
    const struct gpushim_vmm_ *vmm = &pages->vmm;
    const struct gpushim_page_kind_ kind = {1, 0, 1, buffer->device, NULL, {0}};
    const struct gpushim_page_access_ access = {1, buffer->device, 3};
    size_t from = gpushim_mapped_(pages), room = 2 * pages->room + 8, *ends;
    unsigned long long at = gpushim_address_(buffer->base) + from, handle;
    int code;

    if (to > pages->reserved) {
        return GPUSHIM_NO_MEMORY;
    }
    to = (to + pages->page - 1) / pages->page * pages->page;
    if (to <= from) {
        return GPUSHIM_OK;
    }
    if (pages->count == pages->room) {
        ends = (size_t *)realloc(pages->ends, room * sizeof(*ends));
        if (!ends) {
            return GPUSHIM_NO_MEMORY;
        }
        pages->ends = ends;
        pages->room = room;
    }
    code = vmm->create(&handle, to - from, &kind, 0);
    if (!code) {
        code = vmm->map(at, to - from, 0, handle, 0);
        if (!code && (code = vmm->access(at, to - from, &access, 1)) != 0) {
            (void)vmm->unmap(at, to - from);
        }
        (void)vmm->release(handle); /* the mapping keeps it */
    }
    if (!code) {
        pages->ends[pages->count++] = to;
    }
    return gpushim_from_cuda_(code);
}

/* Waits for the context's work, unless it is gone, and unmaps what is beyond `keep`. */
static inline gpushim_result gpushim_pages_drop_(const struct gpushim_buffer *buffer,
                                                 size_t keep)
{
    struct gpushim_pages_ *pages = buffer->pages;
    const struct gpushim_calls_ *cuda;
    void *before = NULL;
    gpushim_result result = gpushim_cuda_(&cuda);
    int code;

    if (result != GPUSHIM_OK) {
        return result;
    }
    code = gpushim_enter_(cuda, buffer->context, &before);
    if (!code) {
        code = cuda->context_sync();
        gpushim_leave_(cuda, buffer->context, before);
    }
    if (code == GPUSHIM_CU_DEINITIALIZED_) {
        return GPUSHIM_INACTIVE;
    }
    if (code == GPUSHIM_CU_INVALID_CONTEXT_ || code == GPUSHIM_CU_DESTROYED_) {
        code = 0;
    }
    while (!code && pages->count) {
        size_t begin = pages->count > 1 ? pages->ends[pages->count - 2] : 0;
        if (begin < keep) {
            break;
        }
        code = pages->vmm.unmap(gpushim_address_(buffer->base) + begin,
                                pages->ends[pages->count - 1] - begin);
        pages->count -= !code;
    }
    return gpushim_from_cuda_(code);
}

/* Ends a buffer's pages and addresses. */
static inline gpushim_result gpushim_pages_end_(const struct gpushim_buffer *buffer)
{
    struct gpushim_pages_ *pages = buffer->pages;
    gpushim_result result = gpushim_pages_drop_(buffer, 0);

    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(
            pages->vmm.unreserve(gpushim_address_(buffer->base), pages->reserved));
    }
    if (result == GPUSHIM_OK || result == GPUSHIM_INACTIVE) {
        free(pages->ends);
        free(pages);
        result = GPUSHIM_OK;
    }
    return result;
}

/* Frees what gpushim_obtain_ returned. Memory of a context that is gone is gone, too. */
static inline gpushim_result gpushim_release_(const struct gpushim_buffer *buffer)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;
    void *before = NULL;
    int code;

    if (buffer->place == GPUSHIM_HOST) {
        free(buffer->base);
        return GPUSHIM_OK;
    }
    if (buffer->pages) {
        return gpushim_pages_end_(buffer);
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result == GPUSHIM_INACTIVE ? GPUSHIM_OK : result;
    }
    code = gpushim_enter_(cuda, buffer->context, &before);
    if (!code) {
        code = buffer->place == GPUSHIM_PINNED_HOST
                   ? cuda->release_host(buffer->base)
                   : cuda->release(gpushim_address_(buffer->base));
        gpushim_leave_(cuda, buffer->context, before);
    }
    return code == GPUSHIM_CU_DEINITIALIZED_ || code == GPUSHIM_CU_INVALID_CONTEXT_ ||
                   code == GPUSHIM_CU_DESTROYED_
               ? GPUSHIM_OK
               : gpushim_from_cuda_(code);
}

/* Bytes [from, to) of a buffer become `value`. */
static inline gpushim_result gpushim_set_(struct gpushim_buffer *buffer, size_t from,
                                          size_t to, unsigned char value, void *stream)
{
    const struct gpushim_calls_ *cuda;
    void *queue = stream == GPUSHIM_SYNC ? NULL : stream;
    gpushim_result result;
    int code;

    if (from == to) {
        return GPUSHIM_OK;
    }
    if (buffer->place == GPUSHIM_HOST && stream == GPUSHIM_SYNC) {
        memset(gpushim_at_(buffer, from), value, to - from);
        return GPUSHIM_OK;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    if (buffer->place == GPUSHIM_HOST) {
        code = cuda->stream_sync(queue);
        if (!code) {
            memset(gpushim_at_(buffer, from), value, to - from);
        }
        return gpushim_from_cuda_(code);
    }
    code =
        cuda->set(gpushim_address_(gpushim_at_(buffer, from)), value, to - from, queue);
    if (!code && stream == GPUSHIM_SYNC) {
        code = cuda->stream_sync(queue);
    }
    return gpushim_from_cuda_(code);
}

/* Fills in `base`, `data` and `capacity` by place, alignment and flags, in the current
 * context; nothing on failure. */
static inline gpushim_result gpushim_obtain_(struct gpushim_buffer *buffer,
                                             size_t capacity)
{
    const struct gpushim_calls_ *cuda = NULL;
    /* What malloc and CUDA align to anyway. */
    size_t natural = buffer->place == GPUSHIM_HOST ? 16 : 256;
    size_t slack = buffer->alignment > natural ? buffer->alignment - 1 : 0;
    unsigned long long address = 0;
    void *memory = NULL;
    gpushim_result result;
    struct gpushim_buffer got = *buffer;

    if (capacity > SIZE_MAX - slack) {
        return GPUSHIM_NO_MEMORY;
    }
    if (buffer->place == GPUSHIM_HOST) {
        memory = malloc(capacity + slack);
        result = memory ? GPUSHIM_OK : GPUSHIM_NO_MEMORY;
    } else {
        result = gpushim_cuda_(&cuda);
        if (result == GPUSHIM_OK) {
            result = gpushim_from_cuda_(cuda->context_get(&got.context));
        }
        if (result == GPUSHIM_OK) {
            result = gpushim_from_cuda_(cuda->context_device(&got.device));
        }
        if (result != GPUSHIM_OK) {
            return result;
        }
        if (buffer->place == GPUSHIM_DEVICE) {
            result = gpushim_from_cuda_(cuda->alloc(&address, capacity + slack));
        } else if (buffer->place == GPUSHIM_MANAGED) {
            result = gpushim_from_cuda_(cuda->alloc_managed(&address, capacity + slack,
                                                            GPUSHIM_CU_ATTACH_GLOBAL_));
        } else {
            result = gpushim_from_cuda_(
                cuda->alloc_host(&memory, capacity + slack, GPUSHIM_CU_PORTABLE_MAPPED_));
        }
    }
    if (result != GPUSHIM_OK) {
        return result;
    }
    got.base = memory ? memory : (void *)(uintptr_t)address;
    got.data = (void *)(((uintptr_t)got.base + slack) & ~(uintptr_t)slack);
    got.capacity = capacity;
    if (got.flags & GPUSHIM_ZEROED) {
        result = gpushim_set_(&got, 0, capacity, 0, GPUSHIM_SYNC);
        if (result != GPUSHIM_OK) {
            (void)gpushim_release_(&got);
            return result;
        }
    }
    *buffer = got;
    return GPUSHIM_OK;
}

/* Reserves addresses for all that a device has, and maps `bytes`. NOT_FOUND: the device,
 * or the limit of the process's addresses, allows no such buffer. */
static inline gpushim_result gpushim_obtain_pages_(struct gpushim_buffer *buffer,
                                                   size_t bytes)
{
    const struct gpushim_calls_ *cuda;
    struct gpushim_page_kind_ kind = {1, 0, 1, 0, NULL, {0}};
    struct gpushim_pages_ *pages;
    unsigned long long address = 0;
    size_t spare, total = 0, page = 0;
    int has = 0;
    gpushim_result result = gpushim_cuda_(&cuda);

    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(cuda->context_get(&buffer->context));
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(cuda->context_device(&buffer->device));
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(cuda->memory_info(&spare, &total));
    }
    if (result != GPUSHIM_OK) {
        return result;
    }
    if (bytes > total) {
        return GPUSHIM_NO_MEMORY;
    }
    pages = (struct gpushim_pages_ *)calloc(1, sizeof(*pages));
    if (!pages) {
        return GPUSHIM_NO_MEMORY;
    }
    kind.device = buffer->device;
    if (cuda->device_attribute(&has, GPUSHIM_CU_HAS_VMM_, buffer->device) || !has ||
        !gpushim_find_vmm_(&pages->vmm) || pages->vmm.granularity(&page, &kind, 0) ||
        !page) {
        free(pages);
        return GPUSHIM_NOT_FOUND;
    }
    pages->page = page;
    pages->reserved = (total + page - 1) / page * page;
    if (pages->vmm.reserve(&address, pages->reserved,
                           buffer->alignment > page ? buffer->alignment : 0, 0, 0)) {
        free(pages);
        return GPUSHIM_NOT_FOUND;
    }
    buffer->base = buffer->data = (void *)(uintptr_t)address;
    buffer->pages = pages;
    result = gpushim_pages_grow_(buffer, bytes);
    if (result == GPUSHIM_OK) {
        buffer->capacity = gpushim_mapped_(pages);
        result = buffer->flags & GPUSHIM_ZEROED
                     ? gpushim_set_(buffer, 0, bytes, 0, GPUSHIM_SYNC)
                     : GPUSHIM_OK;
    }
    if (result != GPUSHIM_OK) {
        (void)gpushim_pages_end_(buffer);
    }
    return result;
}

static inline int gpushim_is_place_(gpushim_place place, size_t alignment, unsigned flags)
{
    return (unsigned)place <= (unsigned)GPUSHIM_MANAGED &&
           !(alignment & (alignment - 1)) && !(flags & ~(unsigned)GPUSHIM_ZEROED);
}

/*
 * Allocates.
 * In:     alignment  of `data`: a power of two; 0: 256, or 16 of plain host memory
 *         flags      0, GPUSHIM_ZEROED, and of device memory GPUSHIM_IN_PLACE: addresses
 *                    for as much as the device has are reserved, and whole pages, 2 MiB
 *                    as a rule, are mapped as the buffer grows. No other device sees
 *                    them; a free and a shrink synchronize the context, in which no
 *                    stream may capture then. Where pages cannot be had the flag is
 *                    dropped.
 * Out:    *out  overwritten without a free: a live buffer in it would leak
 * Errors: as above; on a failure other than INVALID *out is a freed buffer
 */
static inline gpushim_result gpushim_buffer_create(struct gpushim_buffer *out,
                                                   gpushim_place place, size_t bytes,
                                                   size_t alignment, unsigned flags)
{
    gpushim_result result;

    if (!out || !bytes ||
        !gpushim_is_place_(place, alignment, flags & ~(unsigned)GPUSHIM_IN_PLACE) ||
        ((flags & GPUSHIM_IN_PLACE) && place != GPUSHIM_DEVICE)) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    out->place = place;
    out->device = -1;
    out->flags = flags;
    out->growth = 1.5;
    out->alignment = alignment;
    result =
        flags & GPUSHIM_IN_PLACE ? gpushim_obtain_pages_(out, bytes) : GPUSHIM_NOT_FOUND;
    if (result == GPUSHIM_NOT_FOUND) {
        out->flags &= ~(unsigned)GPUSHIM_IN_PLACE;
        result = gpushim_obtain_(out, bytes);
    }
    if (result == GPUSHIM_OK) {
        out->bytes = bytes;
        gpushim_used_(out);
    } else {
        memset(out, 0, sizeof(*out));
    }
    return result;
}

/*
 * Frees a buffer. No effect on a freed one, GPUSHIM_BUFFER_INIT and NULL: OK. Waits for
 * running work as cudaFree does. If the memory's context is gone, the memory is, too: OK.
 * Errors: CUDA; the buffer stays as it was
 */
static inline gpushim_result gpushim_buffer_free(struct gpushim_buffer *buffer)
{
    gpushim_result result = GPUSHIM_OK;

    if (buffer && buffer->data && !(buffer->flags & GPUSHIM_VIEW)) {
        result = gpushim_release_(buffer);
    }
    if (buffer && result == GPUSHIM_OK) {
        memset(buffer, 0, sizeof(*buffer));
    }
    return result;
}

static inline void gpushim_buffer_end_(struct gpushim_buffer *buffer)
{
    (void)gpushim_buffer_free(buffer);
}
/* GPUSHIM_SCOPED struct gpushim_buffer name = GPUSHIM_BUFFER_INIT; is freed at the end of
 * its block. */
#define GPUSHIM_SCOPED __attribute__((unused, cleanup(gpushim_buffer_end_)))

/*
 * A buffer that is a part of another. It owns nothing: its free has no effect, a resize
 * stays within it, and the memory must outlive it.
 */
static inline gpushim_result gpushim_buffer_view(struct gpushim_buffer *out,
                                                 const struct gpushim_buffer *of,
                                                 size_t offset, size_t bytes)
{
    struct gpushim_buffer view;

    if (!out || !gpushim_has_(of, offset, bytes)) {
        return GPUSHIM_INVALID;
    }
    view = *of;
    view.data = gpushim_at_(of, offset);
    view.bytes = view.capacity = bytes;
    view.flags = GPUSHIM_VIEW;
    view.charged = 0;
    view.cache = NULL;
    gpushim_used_(&view);
    *out = view;
    return GPUSHIM_OK;
}

/*
 * A buffer over memory that the program owns.
 * In:     place  of the memory. GPUSHIM_HOST works for all memory that the host can
 *                address, but page-locked memory is faster as GPUSHIM_PINNED_HOST.
 */
static inline gpushim_result gpushim_buffer_around(struct gpushim_buffer *out,
                                                   void *memory, size_t bytes,
                                                   gpushim_place place)
{
    if (!out || !memory || !bytes || !gpushim_is_place_(place, 0, 0) ||
        bytes > UINTPTR_MAX - (uintptr_t)memory) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    out->data = memory;
    out->bytes = out->capacity = bytes;
    out->place = place;
    out->device = -1;
    out->flags = GPUSHIM_VIEW;
    gpushim_used_(out);
    return GPUSHIM_OK;
}

/* The address by which a kernel reaches the buffer's memory, without a copy. Errors:
 * INVALID also of plain host memory. */
static inline gpushim_result
gpushim_buffer_device_address(const struct gpushim_buffer *buffer, void **out)
{
    const struct gpushim_calls_ *cuda;
    unsigned long long address;
    gpushim_result result;

    if (!buffer || !buffer->data || !out || buffer->place == GPUSHIM_HOST) {
        return GPUSHIM_INVALID;
    }
    if (buffer->place != GPUSHIM_PINNED_HOST) {
        *out = buffer->data;
        return GPUSHIM_OK;
    }
    result = gpushim_cuda_(&cuda);
    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(cuda->host_view(&address, buffer->data, 0));
    }
    if (result == GPUSHIM_OK) {
        *out = (void *)(uintptr_t)address;
    }
    return result;
}

/* ---- copies and fills ------------------------------------------------------------ */

/* `plain`: both are plain host memory, which the stream's earlier work may use. */
static inline gpushim_result gpushim_move_(void *dst, const void *src, size_t bytes,
                                           void *stream, int plain)
{
    const struct gpushim_calls_ *cuda;
    void *queue = stream == GPUSHIM_SYNC ? NULL : stream;
    gpushim_result result;
    int code;

    if (plain && stream == GPUSHIM_SYNC) {
        memcpy(dst, src, bytes);
        return GPUSHIM_OK;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    if (plain) {
        code = cuda->stream_sync(queue);
        if (!code) {
            memcpy(dst, src, bytes);
        }
        return gpushim_from_cuda_(code);
    }
    code = cuda->copy(gpushim_address_(dst), gpushim_address_(src), bytes, queue);
    if (!code && stream == GPUSHIM_SYNC) {
        code = cuda->stream_sync(queue);
    }
    return gpushim_from_cuda_(code);
}

static inline int gpushim_overlap_(const char *a, size_t a_bytes, const char *b,
                                   size_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static inline int gpushim_both_plain_(const struct gpushim_buffer *a,
                                      const struct gpushim_buffer *b)
{
    return a->place == GPUSHIM_HOST && b->place == GPUSHIM_HOST;
}

/* One copy of gpushim_copy_batch. */
struct gpushim_copy {
    struct gpushim_buffer *dst;
    size_t dst_offset;
    struct gpushim_buffer *src;
    size_t src_offset;
    size_t bytes;
};

/*
 * Many copies, with one wait at most. All are checked before the first begins.
 * Out:    *done  copies queued (complete with GPUSHIM_SYNC); may be NULL
 * Errors: as above. INVALID also if source and destination overlap. After CUDA the copies
 *         from *done on did not begin; if *done is `count`, the wait failed.
 * With plain host memory a copy may be complete on return, as in CUDA.
 */
static inline gpushim_result gpushim_copy_batch(const struct gpushim_copy *copies,
                                                size_t count, void *stream, size_t *done)
{
    const struct gpushim_calls_ *cuda;
    void *queue = stream == GPUSHIM_SYNC ? NULL : stream;
    gpushim_result result = GPUSHIM_OK;
    size_t i;
    int queued = 0;

    if (!copies || !count) {
        return GPUSHIM_INVALID;
    }
    for (i = 0; i < count; i++) {
        const struct gpushim_copy *copy = &copies[i];
        if (!gpushim_has_(copy->dst, copy->dst_offset, copy->bytes) ||
            !gpushim_has_(copy->src, copy->src_offset, copy->bytes) ||
            gpushim_overlap_(gpushim_at_(copy->dst, copy->dst_offset), copy->bytes,
                             gpushim_at_(copy->src, copy->src_offset), copy->bytes)) {
            return GPUSHIM_INVALID;
        }
    }
    for (i = 0; i < count && result == GPUSHIM_OK; i++) {
        const struct gpushim_copy *copy = &copies[i];
        int plain = gpushim_both_plain_(copy->dst, copy->src);
        /* A plain copy after queued ones waits for them, since it may read their result.
         */
        void *order = plain && !queued && stream == GPUSHIM_SYNC ? stream : queue;
        queued |= !plain;
        result = gpushim_move_(gpushim_at_(copy->dst, copy->dst_offset),
                               gpushim_at_(copy->src, copy->src_offset), copy->bytes,
                               order, plain);
        if (result == GPUSHIM_OK) {
            gpushim_used_(copy->dst);
            gpushim_used_(copy->src);
        } else {
            break;
        }
    }
    if (done) {
        *done = i;
    }
    if (queued && stream == GPUSHIM_SYNC) {
        /* What was queued before a failure is complete on return, too. */
        gpushim_result waited = gpushim_cuda_(&cuda);
        if (waited == GPUSHIM_OK) {
            waited = gpushim_from_cuda_(cuda->stream_sync(NULL));
        }
        result = result == GPUSHIM_OK ? waited : result;
    }
    return result;
}

/* Copies between any two buffers, in any two places. Errors: as of gpushim_copy_batch. */
static inline gpushim_result gpushim_buffer_copy(struct gpushim_buffer *dst,
                                                 size_t dst_offset,
                                                 struct gpushim_buffer *src,
                                                 size_t src_offset, size_t bytes,
                                                 void *stream)
{
    struct gpushim_copy copy;

    copy.dst = dst;
    copy.dst_offset = dst_offset;
    copy.src = src;
    copy.src_offset = src_offset;
    copy.bytes = bytes;
    return gpushim_copy_batch(&copy, 1, stream, NULL);
}

/* Writes plain host memory into a buffer. */
static inline gpushim_result gpushim_buffer_put(struct gpushim_buffer *dst, size_t offset,
                                                const void *from, size_t bytes,
                                                void *stream)
{
    struct gpushim_buffer host;

    return gpushim_buffer_around(&host, (void *)(uintptr_t)from, bytes, GPUSHIM_HOST)
               ? GPUSHIM_INVALID
               : gpushim_buffer_copy(dst, offset, &host, 0, bytes, stream);
}

/* Reads a buffer into plain host memory. */
static inline gpushim_result gpushim_buffer_get(struct gpushim_buffer *src, size_t offset,
                                                void *to, size_t bytes, void *stream)
{
    struct gpushim_buffer host;

    return gpushim_buffer_around(&host, to, bytes, GPUSHIM_HOST)
               ? GPUSHIM_INVALID
               : gpushim_buffer_copy(&host, 0, src, offset, bytes, stream);
}

/* Reads slot number `slot` of `slot_bytes` each. */
static inline gpushim_result gpushim_buffer_get_slot(struct gpushim_buffer *src,
                                                     size_t slot, size_t slot_bytes,
                                                     void *to, void *stream)
{
    return slot_bytes && slot > SIZE_MAX / slot_bytes
               ? GPUSHIM_INVALID
               : gpushim_buffer_get(src, slot * slot_bytes, to, slot_bytes, stream);
}

/* Bytes from the first to the last of `rows` rows; 0: not valid. */
static inline size_t gpushim_extent_(size_t pitch, size_t width, size_t rows)
{
    return !width || !rows || width > pitch || (SIZE_MAX - width) / pitch < rows - 1
               ? 0
               : (rows - 1) * pitch + width;
}

/*
 * Copies `rows` rows of `width` bytes, which begin `pitch` bytes apart.
 * Errors: as above. INVALID also if rows of the source and the destination overlap.
 *         CUDA also for a pitch beyond the device's limit (2 GiB).
 */
static inline gpushim_result
gpushim_buffer_copy_rows(struct gpushim_buffer *dst, size_t dst_offset, size_t dst_pitch,
                         struct gpushim_buffer *src, size_t src_offset, size_t src_pitch,
                         size_t width, size_t rows, void *stream)
{
    const struct gpushim_calls_ *cuda;
    size_t dst_bytes = gpushim_extent_(dst_pitch, width, rows);
    size_t src_bytes = gpushim_extent_(src_pitch, width, rows);
    struct gpushim_rows_ copy;
    gpushim_result result = GPUSHIM_OK;
    char *to;
    const char *from;
    size_t i;
    int code;

    if (!gpushim_has_(dst, dst_offset, dst_bytes) ||
        !gpushim_has_(src, src_offset, src_bytes)) {
        return GPUSHIM_INVALID;
    }
    to = gpushim_at_(dst, dst_offset);
    from = gpushim_at_(src, src_offset);
    if (gpushim_overlap_(to, dst_bytes, from, src_bytes)) {
        /* Columns of one matrix may be next to each other. */
        size_t apart =
            (to > from ? (size_t)(to - from) : (size_t)(from - to)) % dst_pitch;
        if (dst_pitch != src_pitch || apart < width || dst_pitch - apart < width) {
            return GPUSHIM_INVALID;
        }
    }
    gpushim_used_(dst);
    gpushim_used_(src);
    if (gpushim_both_plain_(dst, src)) {
        for (i = 0; i < rows && result == GPUSHIM_OK; i++) {
            /* The first row waits for the stream; the others follow it. */
            result = gpushim_move_(to + i * dst_pitch, from + i * src_pitch, width,
                                   i ? GPUSHIM_SYNC : stream, 1);
        }
        return result;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    memset(&copy, 0, sizeof(copy));
    copy.dst_type = dst->place == GPUSHIM_HOST ? 1 : GPUSHIM_CU_UNIFIED_;
    copy.src_type = src->place == GPUSHIM_HOST ? 1 : GPUSHIM_CU_UNIFIED_;
    copy.dst_host = to;
    copy.src_host = from;
    copy.dst_device = gpushim_address_(to);
    copy.src_device = gpushim_address_(from);
    copy.dst_pitch = dst_pitch;
    copy.src_pitch = src_pitch;
    copy.width = width;
    copy.rows = rows;
    code = cuda->copy_rows(&copy, stream == GPUSHIM_SYNC ? NULL : stream);
    if (!code && stream == GPUSHIM_SYNC) {
        code = cuda->stream_sync(NULL);
    }
    return gpushim_from_cuda_(code);
}

/* Sets bytes of a buffer to `value`. Plain host memory is set on return, after the
 * stream's work. */
static inline gpushim_result gpushim_buffer_fill(struct gpushim_buffer *buffer,
                                                 size_t offset, size_t bytes,
                                                 unsigned char value, void *stream)
{
    if (!gpushim_has_(buffer, offset, bytes)) {
        return GPUSHIM_INVALID;
    }
    gpushim_used_(buffer);
    return gpushim_set_(buffer, offset, offset + bytes, value, stream);
}

/* Sets all bytes of a buffer to zero. */
static inline gpushim_result gpushim_buffer_zero(struct gpushim_buffer *buffer,
                                                 void *stream)
{
    return gpushim_buffer_fill(buffer, 0, buffer ? buffer->bytes : 0, 0, stream);
}

/*
 * Moves pages of managed memory to a device, or to the host.
 * In:     device  an ordinal; -1: the host
 * Errors: INVALID also of other memory; CUDA also where the device has no prefetch
 */
static inline gpushim_result gpushim_buffer_prefetch(struct gpushim_buffer *buffer,
                                                     size_t offset, size_t bytes,
                                                     int device, void *stream)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;
    int code;

    if (!gpushim_has_(buffer, offset, bytes) || buffer->place != GPUSHIM_MANAGED ||
        device < -1) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    gpushim_used_(buffer);
    code = cuda->prefetch(gpushim_address_(gpushim_at_(buffer, offset)), bytes, device,
                          stream == GPUSHIM_SYNC ? NULL : stream);
    if (!code && stream == GPUSHIM_SYNC) {
        code = cuda->stream_sync(NULL);
    }
    return gpushim_from_cuda_(code);
}

/* Advice for managed memory: the values of CUmem_advise. */
typedef enum gpushim_advice {
    GPUSHIM_READ_MOSTLY = 1,
    GPUSHIM_NOT_READ_MOSTLY = 2,
    GPUSHIM_PREFER = 3, /* a device, or the host */
    GPUSHIM_PREFER_NONE = 4,
    GPUSHIM_ACCESSED_BY = 5,
    GPUSHIM_NOT_ACCESSED_BY = 6
} gpushim_advice;

/* Advises the driver on all of a buffer, as cuMemAdvise. `device`, errors: as of
 * gpushim_buffer_prefetch. */
static inline gpushim_result gpushim_buffer_advise(struct gpushim_buffer *buffer,
                                                   gpushim_advice advice, int device)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;

    if (!buffer || !buffer->data || buffer->place != GPUSHIM_MANAGED || device < -1 ||
        (int)advice < GPUSHIM_READ_MOSTLY || (int)advice > GPUSHIM_NOT_ACCESSED_BY) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    return result == GPUSHIM_OK
               ? gpushim_from_cuda_(cuda->advise(gpushim_address_(buffer->data),
                                                 buffer->bytes, (int)advice, device))
               : result;
}

/* ---- growing and shrinking ------------------------------------------------------- */

/* Allocates memory of `capacity` like that of a buffer, in its context. */
static inline gpushim_result gpushim_obtain_like_(const struct gpushim_buffer *buffer,
                                                  size_t capacity,
                                                  struct gpushim_buffer *out)
{
    const struct gpushim_calls_ *cuda = NULL;
    void *before = NULL;
    gpushim_result result = GPUSHIM_OK;

    *out = *buffer;
    if (buffer->place != GPUSHIM_HOST) {
        result = gpushim_cuda_(&cuda);
        if (result == GPUSHIM_OK) {
            result = gpushim_from_cuda_(gpushim_enter_(cuda, buffer->context, &before));
        }
        if (result != GPUSHIM_OK) {
            return result;
        }
    }
    result = gpushim_obtain_(out, capacity);
    if (cuda) {
        gpushim_leave_(cuda, buffer->context, before);
    }
    return result;
}

/* Moves a buffer's data to memory of gpushim_obtain_like_, which is freed on a failure,
 * and frees the old. */
static inline gpushim_result gpushim_move_to_(struct gpushim_buffer *buffer,
                                              struct gpushim_buffer *moved, void *stream)
{
    const struct gpushim_calls_ *cuda = NULL;
    size_t bytes = buffer->bytes < moved->capacity ? buffer->bytes : moved->capacity;
    gpushim_result result =
        buffer->place == GPUSHIM_HOST ? GPUSHIM_OK : gpushim_cuda_(&cuda);

    if (result == GPUSHIM_OK) {
        result = gpushim_move_(moved->data, buffer->data, bytes, stream, !cuda);
    }
    if (cuda && result == GPUSHIM_OK && stream != GPUSHIM_SYNC) {
        result = gpushim_from_cuda_(cuda->stream_sync(stream));
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_release_(buffer);
    }
    if (result != GPUSHIM_OK) {
        (void)gpushim_release_(moved);
        return result;
    }
    moved->bytes = bytes;
    *buffer = *moved;
    return GPUSHIM_OK;
}

/* Moves a buffer's data to new memory of `capacity`, and frees the old. */
static inline gpushim_result gpushim_replace_(struct gpushim_buffer *buffer,
                                              size_t capacity, void *stream)
{
    struct gpushim_buffer moved;
    gpushim_result result = gpushim_obtain_like_(buffer, capacity, &moved);

    return result == GPUSHIM_OK ? gpushim_move_to_(buffer, &moved, stream) : result;
}

/* Sets the capacity of a buffer with pages. A limit below its length, which the program
 * may set at any time, is for later growth. */
static inline void gpushim_count_pages_(struct gpushim_buffer *buffer)
{
    size_t mapped = gpushim_mapped_(buffer->pages), limit = buffer->limit;

    limit = limit && limit < buffer->bytes ? buffer->bytes : limit;
    buffer->capacity = limit && mapped > limit ? limit : mapped;
}

/* Gives a buffer at least `bytes`, and `capacity` if that much memory is free. */
static inline gpushim_result gpushim_grow_(struct gpushim_buffer *buffer, size_t bytes,
                                           size_t capacity, void *stream)
{
    gpushim_result result = buffer->pages ? gpushim_pages_grow_(buffer, capacity)
                                          : gpushim_replace_(buffer, capacity, stream);

    if (result == GPUSHIM_NO_MEMORY && capacity > bytes) {
        result = buffer->pages ? gpushim_pages_grow_(buffer, bytes)
                               : gpushim_replace_(buffer, bytes, stream);
    }
    if (buffer->pages) {
        gpushim_count_pages_(buffer);
    }
    return result;
}

/*
 * Changes a buffer's length and keeps the data that fits. Beyond `capacity` the data
 * moves to new memory of capacity * growth (`limit` at most; `bytes` at least, and where
 * there is no memory for more): `data` changes, and views of it end. A buffer with
 * GPUSHIM_IN_PLACE maps more pages instead: `data` and views stay, and nothing waits.
 * In:     stream  whose work wrote the data; a move waits for it
 * Errors: as above. NO_MEMORY also for bytes > limit. INVALID also for a view that would
 *         grow beyond itself, and for a `growth` outside 1 to 16.
 */
static inline gpushim_result gpushim_buffer_resize(struct gpushim_buffer *buffer,
                                                   size_t bytes, void *stream)
{
    gpushim_result result = GPUSHIM_OK;
    size_t capacity;

    if (!buffer || !buffer->data || !bytes) {
        return GPUSHIM_INVALID;
    }
    if (bytes > buffer->capacity) {
        if ((buffer->flags & GPUSHIM_VIEW) ||
            !(buffer->growth >= 1 && buffer->growth <= 16)) {
            return GPUSHIM_INVALID;
        }
        if (buffer->limit && bytes > buffer->limit) {
            return GPUSHIM_NO_MEMORY;
        }
        capacity = buffer->capacity < SIZE_MAX / 32
                       ? (size_t)((double)buffer->capacity * buffer->growth)
                       : bytes;
        capacity = buffer->limit && capacity > buffer->limit ? buffer->limit : capacity;
        capacity = capacity < bytes ? bytes : capacity;
        result = gpushim_grow_(buffer, bytes, capacity, stream);
        if (buffer->pages && result == GPUSHIM_OK && (buffer->flags & GPUSHIM_ZEROED)) {
            result = gpushim_set_(buffer, buffer->bytes, bytes, 0, stream);
        }
    } else if ((buffer->flags & GPUSHIM_ZEROED) && bytes > buffer->bytes) {
        /* The buffer may have been longer before, with data there. */
        result = gpushim_set_(buffer, buffer->bytes, bytes, 0, stream);
    }
    if (result == GPUSHIM_OK) {
        buffer->bytes = bytes;
        gpushim_used_(buffer);
    }
    return result;
}

/*
 * Frees a buffer's memory beyond its length, if no function of this file has used the
 * buffer for `seconds`. Otherwise nothing happens, and the result is OK. Kernels are not
 * seen: a resize to its own length marks a buffer as used. `data` may change, but not
 * with GPUSHIM_IN_PLACE, of which the last whole steps of growth go.
 * Errors: as of gpushim_buffer_resize. INVALID also of a view.
 */
static inline gpushim_result gpushim_buffer_shrink(struct gpushim_buffer *buffer,
                                                   uint64_t seconds, void *stream)
{
    gpushim_result result;

    if (!buffer || !buffer->data || (buffer->flags & GPUSHIM_VIEW)) {
        return GPUSHIM_INVALID;
    }
    if (buffer->capacity == buffer->bytes || !gpushim_is_old_(buffer, seconds)) {
        return GPUSHIM_OK;
    }
    if (!buffer->pages) {
        return gpushim_replace_(buffer, buffer->bytes, stream);
    }
    result = gpushim_pages_drop_(buffer, buffer->bytes);
    gpushim_count_pages_(buffer);
    return result;
}

/* ---- defragmentation ------------------------------------------------------------- */

/* The answer of gpushim_defragment. Holes are those of gpushim_get_statistics. */
struct gpushim_defragmented {
    uint64_t moved_count, moved_bytes;
    uint64_t returned_bytes; /* to the driver */
    uint64_t holes_before, hole_bytes_before, largest_hole_bytes_before;
    uint64_t holes_after, hole_bytes_after, largest_hole_bytes_after;
    double before, after; /* gpushim_fragmentation */
};

/* The highest address first. */
static inline int gpushim_compare_places_(const void *left, const void *right)
{
    const struct gpushim_buffer *a = *(struct gpushim_buffer *const *)left;
    const struct gpushim_buffer *b = *(struct gpushim_buffer *const *)right;
    return (a->base < b->base) - (a->base > b->base);
}

/* Waits for the work of a buffer's context, so that freed memory is idle, and returns
 * idle memory of the pool, so that its caches serve no allocation. NULL: of all devices.
 */
static inline gpushim_result gpushim_return_idle_(const struct gpushim_buffer *buffer,
                                                  struct gpushim_defragmented *out)
{
    const struct gpushim_calls_ *cuda;
    void *before = NULL;
    uint64_t given = 0;
    gpushim_result result = buffer ? gpushim_cuda_(&cuda) : GPUSHIM_OK;

    if (buffer && result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(gpushim_enter_(cuda, buffer->context, &before));
        if (result == GPUSHIM_OK) {
            result = gpushim_from_cuda_(cuda->context_sync());
            gpushim_leave_(cuda, buffer->context, before);
        }
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_trim(buffer ? buffer->device : GPUSHIM_ALL_DEVICES, UINT64_MAX,
                              &given);
    }
    out->returned_bytes += given;
    return result;
}

/* Moves a buffer down into a hole of the pool, if one is large enough. */
static inline gpushim_result gpushim_move_down_(struct gpushim_buffer *buffer,
                                                void *stream,
                                                struct gpushim_defragmented *out)
{
    struct gpushim_statistics before, after;
    struct gpushim_buffer moved;
    gpushim_result result = gpushim_get_statistics(buffer->device, &before);

    if (result != GPUSHIM_OK || buffer->pages ||
        before.largest_hole_bytes < buffer->capacity + buffer->alignment) {
        return result;
    }
    result = gpushim_obtain_like_(buffer, buffer->capacity, &moved);
    if (result == GPUSHIM_NO_MEMORY) {
        return GPUSHIM_OK;
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_get_statistics(buffer->device, &after);
        if (result == GPUSHIM_OK && moved.base < buffer->base &&
            after.segments_mapped == before.segments_mapped) {
            result = gpushim_move_to_(buffer, &moved, stream);
            out->moved_count += result == GPUSHIM_OK;
            out->moved_bytes += result == GPUSHIM_OK ? buffer->capacity : 0;
        } else {
            (void)gpushim_release_(&moved);
        }
    }
    return result == GPUSHIM_OK ? gpushim_return_idle_(buffer, out) : result;
}

static inline gpushim_result gpushim_defragment_(struct gpushim_buffer **sorted,
                                                 size_t count, int device, void *stream,
                                                 struct gpushim_defragmented *out)
{
    struct gpushim_statistics now;
    gpushim_result result = gpushim_return_idle_(count ? sorted[0] : NULL, out);
    size_t i;

    if (result == GPUSHIM_OK) {
        result = gpushim_get_statistics(device, &now);
    }
    if (result != GPUSHIM_OK) {
        return result;
    }
    out->holes_before = now.holes;
    out->hole_bytes_before = now.hole_bytes;
    out->largest_hole_bytes_before = now.largest_hole_bytes;
    out->before = gpushim_fragmentation(&now);
    for (i = 0; i < count && result == GPUSHIM_OK; i++) {
        result = gpushim_move_down_(sorted[i], stream, out);
    }
    if (gpushim_get_statistics(device, &now) == GPUSHIM_OK) {
        out->holes_after = now.holes;
        out->hole_bytes_after = now.hole_bytes;
        out->largest_hole_bytes_after = now.largest_hole_bytes;
        out->after = gpushim_fragmentation(&now);
    }
    return result;
}

/*
 * Moves buffers into holes of the pool at lower addresses, so that free memory of the
 * device becomes one piece, or whole segments, which return to the driver. A buffer that
 * moves has other `data`, and its views end. Synchronizes the context: for a time without
 * work and captures. Other allocations have no owner that could be told, and stay.
 * In:     buffers  on one device, no views; `count` 0: idle memory returns, no more
 *         stream   whose work uses the data; a move waits for it
 * Out:    *out     may be NULL; all 0 where nothing was done
 * Errors: as above; INACTIVE (also without the library), OFF (GPUSHIM_POOL=off): nothing
 *         was done. CUDA: all buffers are valid, and those that have moved stay so.
 */
static inline gpushim_result gpushim_defragment(struct gpushim_buffer *const *buffers,
                                                size_t count, void *stream,
                                                struct gpushim_defragmented *out)
{
    struct gpushim_defragmented own;
    struct gpushim_buffer **sorted;
    gpushim_result result;
    size_t i;

    out = out ? out : &own;
    memset(out, 0, sizeof(*out));
    if ((!buffers && count) || count > SIZE_MAX / sizeof(*sorted)) {
        return GPUSHIM_INVALID;
    }
    for (i = 0; i < count; i++) {
        if (!buffers[i] || !buffers[i]->data || (buffers[i]->flags & GPUSHIM_VIEW) ||
            buffers[i]->place != GPUSHIM_DEVICE ||
            buffers[i]->device != buffers[0]->device) {
            return GPUSHIM_INVALID;
        }
    }
    if (!gpushim_library()) {
        return GPUSHIM_INACTIVE;
    }
    sorted = (struct gpushim_buffer **)malloc(count ? count * sizeof(*sorted) : 1);
    if (!sorted) {
        return GPUSHIM_NO_MEMORY;
    }
    for (i = 0; i < count; i++) {
        sorted[i] = buffers[i];
    }
    qsort(sorted, count, sizeof(*sorted), gpushim_compare_places_);
    result = gpushim_defragment_(
        sorted, count, count ? buffers[0]->device : GPUSHIM_ALL_DEVICES, stream, out);
    free(sorted);
    return result;
}

/* ---- batches --------------------------------------------------------------------- */

/*
 * Allocates `count` buffers as neighbours in one allocation: all of them, or none.
 * In:     bytes  of each
 *         alignment, flags  of each, as of gpushim_buffer_create
 * Out:    *block  the owner: its free ends all parts, its copy copies all
 *         parts   views, in order
 * Errors: as of gpushim_buffer_create; *block as there, `parts` are set on success only
 */
static inline gpushim_result gpushim_batch_create(struct gpushim_buffer *block,
                                                  struct gpushim_buffer *parts,
                                                  const size_t *bytes, size_t count,
                                                  gpushim_place place, size_t alignment,
                                                  unsigned flags)
{
    size_t step = alignment ? alignment : 256, total = 0, offset = 0, i;
    gpushim_result result;

    if (!block || !parts || !bytes || !count ||
        !gpushim_is_place_(place, alignment, flags)) {
        return GPUSHIM_INVALID;
    }
    for (i = 0; i < count; i++) {
        if (!bytes[i] || total > SIZE_MAX - step || bytes[i] > SIZE_MAX - step - total) {
            return GPUSHIM_INVALID;
        }
        total = (total + step - 1) / step * step + bytes[i];
    }
    result = gpushim_buffer_create(block, place, total, step, flags);
    for (i = 0; i < count && result == GPUSHIM_OK; i++) {
        offset = (offset + step - 1) / step * step;
        result = gpushim_buffer_view(&parts[i], block, offset, bytes[i]);
        offset += bytes[i];
    }
    return result;
}

/* ---- locks ----------------------------------------------------------------------- */

static inline void gpushim_lock_(unsigned char *lock)
{
    while (__atomic_test_and_set(lock, __ATOMIC_ACQUIRE)) {
        (void)sched_yield();
    }
}

static inline void gpushim_unlock_(unsigned char *lock)
{
    __atomic_clear(lock, __ATOMIC_RELEASE);
}

/* ---- the other parts ------------------------------------------------------------- */

/* clang-format off: buffers.h and files.h need caches.h */
#include "gpushim_memory/groups.h"
#include "gpushim_memory/caches.h"
#include "gpushim_memory/buffers.h"
#include "gpushim_memory/streams.h"
#include "gpushim_memory/rings.h"
#include "gpushim_memory/files.h"
#include "gpushim_memory/devices.h"
/* clang-format on */

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
