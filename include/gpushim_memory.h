/*
 * gpushim_memory.h - owned memory and its movement over plain CUDA.
 *
 * Buffers that know their size and place, batches, groups, caches of buffers, read-back
 * through reused pinned memory, pitched and batched copies, rings between host and
 * device, sets of streams, files streamed through the device. Works with and without
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
 * Manual: docs/api.md
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

/* ---- CUDA's driver: internal to this file ---------------------------------------- */

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

/* CUresult, flags and kinds that this file needs. */
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
    GPUSHIM_CU_HAS_MANAGED_ = 83,   /* CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY */
    GPUSHIM_CU_HAS_CONCURRENT_ = 89 /* CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS */
};

/* The driver's functions; NULL: one is missing. Looked for once. */
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
    void *library = NULL, *symbol;
    size_t i, count = sizeof(names) / sizeof(names[0]);

    if (!table) {
        table = (struct gpushim_calls_ *)malloc(sizeof(*table));
        if (!table) {
            return NULL;
        }
        for (i = 0; i < count; i++) {
            symbol = dlsym((void *)0 /* RTLD_DEFAULT */, names[i]);
            if (!symbol && !library) {
                library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
            }
            if (!symbol && library) {
                symbol = dlsym(library, names[i]);
            }
            if (!symbol) {
                break;
            }
            memcpy((char *)table + i * sizeof(symbol), &symbol, sizeof(symbol));
        }
        if (i < count) {
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
    GPUSHIM_ZEROED = 1, /* zero at the start, and so is what a resize adds */
    GPUSHIM_VIEW = 2    /* set by the functions: the buffer does not own its memory */
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

static inline int gpushim_is_place_(gpushim_place place, size_t alignment, unsigned flags)
{
    return (unsigned)place <= (unsigned)GPUSHIM_MANAGED &&
           !(alignment & (alignment - 1)) && !(flags & ~(unsigned)GPUSHIM_ZEROED);
}

/*
 * Allocates.
 * In:     alignment  of `data`: a power of two; 0: 256, or 16 of plain host memory
 *         flags      0 or GPUSHIM_ZEROED
 * Out:    *out  overwritten without a free: a live buffer in it would leak
 * Errors: as above; on a failure other than INVALID *out is a freed buffer
 */
static inline gpushim_result gpushim_buffer_create(struct gpushim_buffer *out,
                                                   gpushim_place place, size_t bytes,
                                                   size_t alignment, unsigned flags)
{
    gpushim_result result;

    if (!out || !bytes || !gpushim_is_place_(place, alignment, flags)) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    out->place = place;
    out->device = -1;
    out->flags = flags;
    out->growth = 1.5;
    out->alignment = alignment;
    result = gpushim_obtain_(out, bytes);
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

/* Moves a buffer's data to new memory of `capacity`, and frees the old. */
static inline gpushim_result gpushim_replace_(struct gpushim_buffer *buffer,
                                              size_t capacity, void *stream)
{
    const struct gpushim_calls_ *cuda = NULL;
    struct gpushim_buffer moved = *buffer;
    size_t bytes = buffer->bytes < capacity ? buffer->bytes : capacity;
    void *before = NULL;
    gpushim_result result = GPUSHIM_OK;

    if (buffer->place != GPUSHIM_HOST) {
        result = gpushim_cuda_(&cuda);
        if (result == GPUSHIM_OK) {
            result = gpushim_from_cuda_(gpushim_enter_(cuda, buffer->context, &before));
        }
        if (result != GPUSHIM_OK) {
            return result;
        }
    }
    result = gpushim_obtain_(&moved, capacity);
    if (cuda) {
        gpushim_leave_(cuda, buffer->context, before);
    }
    if (result != GPUSHIM_OK) {
        return result;
    }
    result = gpushim_move_(moved.data, buffer->data, bytes, stream, !cuda);
    if (cuda && result == GPUSHIM_OK && stream != GPUSHIM_SYNC) {
        result = gpushim_from_cuda_(cuda->stream_sync(stream));
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_release_(buffer);
    }
    if (result != GPUSHIM_OK) {
        (void)gpushim_release_(&moved);
        return result;
    }
    moved.bytes = bytes;
    *buffer = moved;
    return GPUSHIM_OK;
}

/*
 * Changes a buffer's length and keeps the data that fits. Beyond `capacity` the data
 * moves to new memory of capacity * growth (`limit` at most; `bytes` at least, and where
 * there is no memory for more): `data` changes, and views of it end.
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
        result = gpushim_replace_(buffer, capacity, stream);
        if (result == GPUSHIM_NO_MEMORY && capacity > bytes) {
            result = gpushim_replace_(buffer, bytes, stream);
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
 * seen: a resize to its own length marks a buffer as used. `data` may change.
 * Errors: as of gpushim_buffer_resize. INVALID also of a view.
 */
static inline gpushim_result gpushim_buffer_shrink(struct gpushim_buffer *buffer,
                                                   uint64_t seconds, void *stream)
{
    if (!buffer || !buffer->data || (buffer->flags & GPUSHIM_VIEW)) {
        return GPUSHIM_INVALID;
    }
    return buffer->capacity == buffer->bytes || !gpushim_is_old_(buffer, seconds)
               ? GPUSHIM_OK
               : gpushim_replace_(buffer, buffer->bytes, stream);
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

/* ---- groups of buffers ----------------------------------------------------------- */

/* A buffer of a group: internal. */
struct gpushim_member_ {
    struct gpushim_buffer buffer;
    int handed_out; /* 0: preallocated */
};

/*
 * Buffers of one piece of work, allocated one by one and freed together. Begin with
 * gpushim_group_create; do not move the struct. Any thread may allocate and preallocate
 * while no other ends or clears the group. gpushim_group_get reads the counters.
 */
struct gpushim_group {
    char name[128];
    gpushim_place place;
    size_t current_bytes, peak_bytes; /* held, with what is preallocated */
    uint64_t count, typed_count;      /* allocations so far; those with a type */
    uint64_t reused_count;            /* that preallocated memory served */
    size_t live_count;                /* handed out, and not freed */
    /* Internal. */
    struct gpushim_member_ *members;
    size_t member_count, capacity;
    unsigned char lock, begun;
};

/*
 * Begins a group.
 * In:     name      of a scope of its allocations in reports (gpushim_scope_begin); NULL:
 *                   none
 *         expected  allocations for which no host memory is needed later; 0: not known
 * Errors: INVALID (a name "", or beyond 127 bytes, too), NO_MEMORY (host)
 */
static inline gpushim_result gpushim_group_create(struct gpushim_group *out,
                                                  const char *name, gpushim_place place,
                                                  size_t expected)
{
    struct gpushim_member_ *members = NULL;

    if (!out || !gpushim_is_place_(place, 0, 0) ||
        (name && (!name[0] || strlen(name) >= sizeof(out->name))) ||
        expected > SIZE_MAX / sizeof(*members)) {
        return GPUSHIM_INVALID;
    }
    if (expected) {
        members = (struct gpushim_member_ *)malloc(expected * sizeof(*members));
        if (!members) {
            return GPUSHIM_NO_MEMORY;
        }
    }
    memset(out, 0, sizeof(*out));
    if (name) {
        memcpy(out->name, name, strlen(name) + 1);
    }
    out->place = place;
    out->members = members;
    out->capacity = expected;
    out->begun = 1;
    return GPUSHIM_OK;
}

/* Adds a member; 0: no memory. The lock is held. */
static inline int gpushim_group_add_(struct gpushim_group *group,
                                     const struct gpushim_buffer *made, int handed_out)
{
    size_t capacity = group->capacity ? 2 * group->capacity : 16;
    struct gpushim_member_ *members = group->members;

    if (group->member_count == group->capacity) {
        members = (struct gpushim_member_ *)realloc(members, capacity * sizeof(*members));
        if (!members) {
            return 0;
        }
        group->members = members;
        group->capacity = capacity;
    }
    members[group->member_count].buffer = *made;
    members[group->member_count++].handed_out = handed_out;
    group->current_bytes += made->bytes;
    if (group->current_bytes > group->peak_bytes) {
        group->peak_bytes = group->current_bytes;
    }
    return 1;
}

/* Allocates a member, within the group's scope. */
static inline gpushim_result gpushim_group_grow_(struct gpushim_group *group,
                                                 size_t bytes, unsigned flags,
                                                 int handed_out,
                                                 struct gpushim_buffer *made)
{
    gpushim_result begun =
        group->name[0] ? gpushim_scope_begin(group->name) : GPUSHIM_INACTIVE;
    gpushim_result result = gpushim_buffer_create(made, group->place, bytes, 0, flags);
    int added;

    if (begun == GPUSHIM_OK || begun == GPUSHIM_INVALID) {
        (void)gpushim_scope_end();
    }
    if (result != GPUSHIM_OK) {
        return result;
    }
    gpushim_lock_(&group->lock);
    added = gpushim_group_add_(group, made, handed_out);
    gpushim_unlock_(&group->lock);
    if (!added) {
        (void)gpushim_buffer_free(made);
        return GPUSHIM_NO_MEMORY;
    }
    return GPUSHIM_OK;
}

/* Allocates memory ahead: the next gpushim_group_alloc of as many bytes takes it. Errors:
 * as of gpushim_buffer_create. */
static inline gpushim_result gpushim_group_preallocate(struct gpushim_group *group,
                                                       size_t bytes)
{
    struct gpushim_buffer made;

    if (!group || !group->begun) {
        return GPUSHIM_INVALID;
    }
    return gpushim_group_grow_(group, bytes, 0, 0, &made);
}

/* Takes preallocated memory of the size; 0: there is none. */
static inline int gpushim_group_take_(struct gpushim_group *group, size_t bytes,
                                      struct gpushim_buffer *taken)
{
    size_t i = 0;

    gpushim_lock_(&group->lock);
    while (i < group->member_count &&
           (group->members[i].handed_out || group->members[i].buffer.bytes != bytes)) {
        i++;
    }
    if (i == group->member_count) {
        gpushim_unlock_(&group->lock);
        return 0;
    }
    group->members[i].handed_out = 1;
    *taken = group->members[i].buffer;
    gpushim_unlock_(&group->lock);
    return 1;
}

static inline gpushim_result gpushim_group_alloc_(struct gpushim_group *group,
                                                  size_t bytes, unsigned flags, int typed,
                                                  struct gpushim_buffer *out)
{
    struct gpushim_buffer made;
    gpushim_result result = GPUSHIM_OK;
    int reused;

    if (!group || !group->begun || !out || !bytes ||
        !gpushim_is_place_(group->place, 0, flags)) {
        return GPUSHIM_INVALID;
    }
    reused = gpushim_group_take_(group, bytes, &made);
    if (!reused) {
        result = gpushim_group_grow_(group, bytes, flags, 1, &made);
    } else if (flags & GPUSHIM_ZEROED) {
        result = gpushim_buffer_zero(&made, GPUSHIM_SYNC);
    }
    if (result != GPUSHIM_OK) {
        return result; /* the group keeps what was preallocated, until its end */
    }
    gpushim_lock_(&group->lock);
    group->count++;
    group->live_count++;
    group->typed_count += typed != 0;
    group->reused_count += reused != 0;
    gpushim_unlock_(&group->lock);
    return gpushim_buffer_view(out, &made, 0, bytes);
}

/*
 * Allocates a buffer of the group.
 * In:     flags  0 or GPUSHIM_ZEROED
 * Out:    *out   a view: the group owns the memory
 * Errors: as of gpushim_buffer_create
 */
static inline gpushim_result gpushim_group_alloc(struct gpushim_group *group,
                                                 size_t bytes, unsigned flags,
                                                 struct gpushim_buffer *out)
{
    return gpushim_group_alloc_(group, bytes, flags, 0, out);
}

/* The same for `count` elements, such as gpushim_group_alloc_typed(&group, nodes,
 * sizeof(float), 0, &ranks). Errors: INVALID also of more bytes than a size_t holds. */
static inline gpushim_result gpushim_group_alloc_typed(struct gpushim_group *group,
                                                       size_t count, size_t element_bytes,
                                                       unsigned flags,
                                                       struct gpushim_buffer *out)
{
    if (!element_bytes || count > SIZE_MAX / element_bytes) {
        return GPUSHIM_INVALID;
    }
    return gpushim_group_alloc_(group, count * element_bytes, flags, 1, out);
}

/* A copy of the counters and of the name. All 0 after an error, but of a copy onto
 * itself. Errors: INVALID. */
static inline gpushim_result gpushim_group_get(struct gpushim_group *group,
                                               struct gpushim_group *out)
{
    if (!out || out == group) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    if (!group || !group->begun) {
        return GPUSHIM_INVALID;
    }
    gpushim_lock_(&group->lock);
    memcpy(out, group, sizeof(*out));
    gpushim_unlock_(&group->lock);
    out->members = NULL;
    out->member_count = out->capacity = 0;
    out->begun = out->lock = 0;
    return GPUSHIM_OK;
}

/*
 * Frees all memory of a group, what is preallocated too; the group goes on, with its
 * counters and its peak. Its views end. Waits for running work as cudaFree does.
 * Errors: INVALID; CUDA  what could not be freed stays in the group
 */
static inline gpushim_result gpushim_group_clear(struct gpushim_group *group)
{
    gpushim_result result = GPUSHIM_OK, freed;
    size_t i, left = 0, bytes;

    if (!group || !group->begun) {
        return GPUSHIM_INVALID;
    }
    for (i = 0; i < group->member_count; i++) {
        bytes = group->members[i].buffer.bytes;
        freed = gpushim_buffer_free(&group->members[i].buffer);
        if (freed != GPUSHIM_OK) {
            result = freed;
            group->members[left++] = group->members[i];
            continue;
        }
        group->current_bytes -= bytes;
        group->live_count -= group->members[i].handed_out != 0;
    }
    group->member_count = left;
    return result;
}

/* Frees a group and its memory. No effect on a freed one and NULL: OK. Errors: CUDA; the
 * group goes on, with what could not be freed. */
static inline gpushim_result gpushim_group_free(struct gpushim_group *group)
{
    gpushim_result result;

    if (!group || !group->begun) {
        return GPUSHIM_OK;
    }
    result = gpushim_group_clear(group);
    if (result == GPUSHIM_OK) {
        free(group->members);
        memset(group, 0, sizeof(*group));
    }
    return result;
}

/* ---- caches of buffers ----------------------------------------------------------- */

/* An idle buffer: internal. */
struct gpushim_idle_ {
    struct gpushim_idle_ *next;
    struct gpushim_buffer buffer;
    size_t key_bytes;
    /* The key's bytes follow. */
};

/*
 * Buffers for reuse, by key: bytes that say what a buffer is for, such as type, slots and
 * operation of a reduction. Begin with gpushim_cache_create; do not move the struct. A
 * program may read the counters.
 */
struct gpushim_cache {
    gpushim_place place;
    size_t most;  /* idle buffers a key */
    size_t limit; /* bytes, taken and idle; 0: none */
    uint64_t hits, misses;
    size_t held_bytes, idle_count;
    /* Internal. */
    struct gpushim_idle_ *idle; /* the last given first */
    unsigned char lock;
};

/*
 * Begins a cache.
 * In:     most   idle buffers a key that it keeps, from 1
 *         limit  the most bytes of all its buffers, taken or idle; 0: no limit
 */
static inline gpushim_result gpushim_cache_create(struct gpushim_cache *out,
                                                  gpushim_place place, size_t most,
                                                  size_t limit)
{
    if (!out || !most || !gpushim_is_place_(place, 0, 0)) {
        return GPUSHIM_INVALID;
    }
    memset(out, 0, sizeof(*out));
    out->place = place;
    out->most = most;
    out->limit = limit;
    return GPUSHIM_OK;
}

/* Is it of this key, and memory of the context? */
static inline int gpushim_is_of_(const struct gpushim_idle_ *idle, const void *key,
                                 size_t key_bytes, const void *context)
{
    return idle->key_bytes == key_bytes && memcmp(idle + 1, key, key_bytes) == 0 &&
           (!context || idle->buffer.context == context);
}

/* Frees idle buffers not used for `seconds`, the oldest first, until `enough` bytes went.
 */
static inline gpushim_result gpushim_cache_drop_(struct gpushim_cache *cache,
                                                 uint64_t seconds, size_t enough,
                                                 size_t *freed)
{
    struct gpushim_idle_ **link, **oldest, *idle;
    gpushim_result result = GPUSHIM_OK;
    size_t gone = 0;

    while (gone < enough && result == GPUSHIM_OK) {
        gpushim_lock_(&cache->lock);
        oldest = NULL;
        for (link = &cache->idle; *link; link = &(*link)->next) {
            oldest = gpushim_is_old_(&(*link)->buffer, seconds) ? link : oldest;
        }
        idle = oldest ? *oldest : NULL;
        if (oldest) {
            *oldest = idle->next;
            cache->idle_count--;
        }
        gpushim_unlock_(&cache->lock);
        if (!idle) {
            break;
        }
        result = gpushim_release_(&idle->buffer);
        gpushim_lock_(&cache->lock);
        if (result == GPUSHIM_OK) {
            gone += idle->buffer.charged;
            cache->held_bytes -= idle->buffer.charged;
        } else {
            idle->next = cache->idle;
            cache->idle = idle;
            cache->idle_count++;
            idle = NULL;
        }
        gpushim_unlock_(&cache->lock);
        free(idle);
    }
    if (freed) {
        *freed = gone;
    }
    return result;
}

/*
 * Takes a buffer of `bytes`: an idle one of the key that is large enough (a hit), or a
 * new one. Its contents are undefined. Each buffer taken must be returned with
 * gpushim_cache_give.
 * Errors: as of gpushim_buffer_create. NO_MEMORY also at the cache's limit; idle buffers
 *         are freed first.
 */
static inline gpushim_result gpushim_cache_take(struct gpushim_cache *cache,
                                                const void *key, size_t key_bytes,
                                                size_t bytes, struct gpushim_buffer *out)
{
    const struct gpushim_calls_ *cuda;
    struct gpushim_idle_ **link, *idle;
    void *context = NULL;
    size_t beyond;
    gpushim_result result;

    if (!cache || !cache->most || !key || !key_bytes || !bytes || !out) {
        return GPUSHIM_INVALID;
    }
    if (cache->place == GPUSHIM_DEVICE || cache->place == GPUSHIM_MANAGED) {
        result = gpushim_cuda_(&cuda);
        if (result == GPUSHIM_OK) {
            result = gpushim_from_cuda_(cuda->context_get(&context));
        }
        if (result != GPUSHIM_OK) {
            return result;
        }
    }
    if (bytes > SIZE_MAX / 2 || (cache->limit && bytes > cache->limit)) {
        return GPUSHIM_NO_MEMORY;
    }
    gpushim_lock_(&cache->lock);
    for (link = &cache->idle; *link; link = &(*link)->next) {
        if (gpushim_is_of_(*link, key, key_bytes, context) &&
            (*link)->buffer.capacity >= bytes) {
            break;
        }
    }
    idle = *link;
    if (idle) {
        *link = idle->next;
        cache->idle_count--;
        (void)__atomic_add_fetch(&cache->hits, 1,
                                 __ATOMIC_RELAXED); /* read without the lock */
        gpushim_unlock_(&cache->lock);
        *out = idle->buffer;
        out->bytes = bytes;
        gpushim_used_(out);
        free(idle);
        return GPUSHIM_OK;
    }
    (void)__atomic_add_fetch(&cache->misses, 1, __ATOMIC_RELAXED);
    cache->held_bytes += bytes; /* also keeps other threads below the limit */
    beyond = cache->limit && cache->held_bytes > cache->limit
                 ? cache->held_bytes - cache->limit
                 : 0;
    gpushim_unlock_(&cache->lock);
    result = GPUSHIM_OK;
    if (beyond) {
        size_t freed;
        result = gpushim_cache_drop_(cache, 0, beyond, &freed);
        if (result == GPUSHIM_OK && freed < beyond) {
            result = GPUSHIM_NO_MEMORY;
        }
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_buffer_create(out, cache->place, bytes, 0, 0);
        if (result == GPUSHIM_NO_MEMORY) {
            (void)gpushim_cache_drop_(cache, 0, SIZE_MAX, NULL);
            result = gpushim_buffer_create(out, cache->place, bytes, 0, 0);
        }
    }
    if (result == GPUSHIM_OK) {
        out->charged = bytes;
        out->cache = cache;
    } else {
        gpushim_lock_(&cache->lock);
        cache->held_bytes -= bytes;
        gpushim_unlock_(&cache->lock);
    }
    return result;
}

/*
 * Returns a buffer to the cache it came from, under any key. The cache keeps it for the
 * next take, or frees it if the key has its maximum. *buffer becomes a freed buffer. Work
 * that uses the memory must be complete, or ordered before the work of the next take.
 * Errors: as above. INVALID also of a buffer that did not come from this cache. CUDA: the
 *         buffer is still the caller's.
 */
static inline gpushim_result gpushim_cache_give(struct gpushim_cache *cache,
                                                const void *key, size_t key_bytes,
                                                struct gpushim_buffer *buffer)
{
    struct gpushim_idle_ *idle, *other;
    size_t same = 0, charged;
    gpushim_result result = GPUSHIM_OK;

    if (!cache || !key || !key_bytes || !buffer || !buffer->data ||
        buffer->cache != cache || (buffer->flags & GPUSHIM_VIEW) ||
        key_bytes > SIZE_MAX - sizeof(*idle)) {
        return GPUSHIM_INVALID;
    }
    idle = (struct gpushim_idle_ *)malloc(sizeof(*idle) + key_bytes);
    if (idle) {
        idle->buffer = *buffer;
        idle->key_bytes = key_bytes;
        gpushim_used_(&idle->buffer);
        memcpy(idle + 1, key, key_bytes);
    }
    gpushim_lock_(&cache->lock);
    for (other = cache->idle; other; other = other->next) {
        same += (size_t)gpushim_is_of_(other, key, key_bytes, NULL);
    }
    if (idle && same < cache->most) {
        idle->next = cache->idle;
        cache->idle = idle;
        cache->idle_count++;
        idle = NULL;
        memset(buffer, 0, sizeof(*buffer));
    }
    gpushim_unlock_(&cache->lock);
    if (buffer->data) {
        charged = buffer->charged;
        result = gpushim_buffer_free(buffer);
        if (result == GPUSHIM_OK) {
            gpushim_lock_(&cache->lock);
            cache->held_bytes -= charged;
            gpushim_unlock_(&cache->lock);
        }
        free(idle);
    }
    return result;
}

/* Frees the buffers that have been idle for `seconds`. Out: *freed, their bytes; may be
 * NULL. */
static inline gpushim_result gpushim_cache_trim(struct gpushim_cache *cache,
                                                uint64_t seconds, size_t *freed)
{
    return cache ? gpushim_cache_drop_(cache, seconds, SIZE_MAX, freed) : GPUSHIM_INVALID;
}

/* Destroys the cache and its idle buffers. gpushim_cache_take then returns INVALID, and
 * gpushim_cache_give frees. Idempotent. */
static inline gpushim_result gpushim_cache_free(struct gpushim_cache *cache)
{
    if (!cache) {
        return GPUSHIM_INVALID;
    }
    gpushim_lock_(&cache->lock);
    cache->most = 0;
    gpushim_unlock_(&cache->lock);
    return gpushim_cache_drop_(cache, 0, SIZE_MAX, NULL);
}

/* The share of takes that reused a buffer, 0 to 1; 1 without any take, or cache (NULL).
 */
static inline double gpushim_cache_hit_rate(const struct gpushim_cache *cache)
{
    uint64_t hits = cache ? __atomic_load_n(&cache->hits, __ATOMIC_RELAXED) : 0;
    uint64_t takes = cache ? hits + __atomic_load_n(&cache->misses, __ATOMIC_RELAXED) : 0;
    return takes ? (double)hits / (double)takes : 1.0;
}

/* ---- read-back through reused pinned memory -------------------------------------- */

/* A read-back under way. Begin with gpushim_readback_start. */
struct gpushim_readback {
    struct gpushim_buffer data; /* pinned; internal until the read-back is complete */
    struct gpushim_cache *cache;
    void *event;
    size_t class_bytes;
    int complete;
};

/* Waits, and returns the pinned buffer to the cache. Idempotent. After CUDA the read-back
 * has ended, too: its buffer is freed, since its copy may still run. */
static inline gpushim_result gpushim_readback_end(struct gpushim_readback *readback)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;

    if (!readback) {
        return GPUSHIM_INVALID;
    }
    if (!readback->event) {
        return GPUSHIM_OK;
    }
    result = gpushim_cuda_(&cuda);
    if (result == GPUSHIM_OK) {
        if (!readback->complete) {
            result = gpushim_from_cuda_(cuda->event_sync(readback->event));
        }
        (void)cuda->event_destroy(readback->event);
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_cache_give(readback->cache, &readback->class_bytes,
                                    sizeof(readback->class_bytes), &readback->data);
    } else {
        size_t charged = readback->data.charged;
        (void)gpushim_buffer_free(&readback->data);
        gpushim_lock_(&readback->cache->lock);
        readback->cache->held_bytes -= charged;
        gpushim_unlock_(&readback->cache->lock);
    }
    memset(readback, 0, sizeof(*readback));
    return result;
}

/*
 * Starts to read a part of a buffer, after the stream's work. The thread does not wait.
 * In:     cache  of GPUSHIM_PINNED_HOST; its limit caps the pinned memory, and its hit
 *                rate is the reuse rate
 * Out:    *out  end it with gpushim_readback_end, before the cache ends
 * Errors: as of gpushim_cache_take; nothing is under way then
 */
static inline gpushim_result gpushim_readback_start(struct gpushim_readback *out,
                                                    struct gpushim_cache *cache,
                                                    struct gpushim_buffer *src,
                                                    size_t offset, size_t bytes,
                                                    void *stream)
{
    const struct gpushim_calls_ *cuda;
    struct gpushim_readback readback;
    void *queue = stream == GPUSHIM_SYNC ? NULL : stream;
    gpushim_result result;
    int code;

    if (!out || !cache || cache->place != GPUSHIM_PINNED_HOST || !cache->most ||
        !gpushim_has_(src, offset, bytes) || bytes > SIZE_MAX / 2) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    memset(&readback, 0, sizeof(readback));
    readback.cache = cache;
    /* Powers of two, so that reads of similar sizes reuse each other's buffers. */
    for (readback.class_bytes = 4096; readback.class_bytes < bytes;) {
        readback.class_bytes *= 2;
    }
    code = cuda->event_create(&readback.event, GPUSHIM_CU_NO_TIMING_);
    if (code) {
        return gpushim_from_cuda_(code);
    }
    result =
        gpushim_cache_take(cache, &readback.class_bytes, sizeof(readback.class_bytes),
                           readback.class_bytes, &readback.data);
    if (result != GPUSHIM_OK) {
        (void)cuda->event_destroy(readback.event);
        return result;
    }
    readback.data.bytes = bytes;
    result = gpushim_buffer_copy(&readback.data, 0, src, offset, bytes, queue);
    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(cuda->event_record(readback.event, queue));
        if (result == GPUSHIM_OK && stream == GPUSHIM_SYNC) {
            result = gpushim_from_cuda_(cuda->event_sync(readback.event));
            readback.complete = result == GPUSHIM_OK;
        }
        if (result != GPUSHIM_OK) {
            (void)cuda->stream_sync(queue); /* the copy uses the buffer */
        }
    }
    if (result != GPUSHIM_OK) {
        readback.complete = 1;
        (void)gpushim_readback_end(&readback);
        return result;
    }
    *out = readback;
    return GPUSHIM_OK;
}

/* Is it complete? Does not wait. Out: *ready, 0 or 1. */
static inline gpushim_result gpushim_readback_poll(struct gpushim_readback *readback,
                                                   int *ready)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;
    int code = 0;

    if (!readback || !readback->event || !ready) {
        return GPUSHIM_INVALID;
    }
    if (!readback->complete) {
        result = gpushim_cuda_(&cuda);
        if (result != GPUSHIM_OK) {
            return result;
        }
        code = cuda->event_query(readback->event);
        readback->complete = code == 0;
    }
    *ready = readback->complete;
    return code == GPUSHIM_CU_NOT_READY_ ? GPUSHIM_OK : gpushim_from_cuda_(code);
}

/* Waits until it is complete. */
static inline gpushim_result gpushim_readback_wait(struct gpushim_readback *readback)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;

    if (!readback || !readback->event) {
        return GPUSHIM_INVALID;
    }
    result = readback->complete ? GPUSHIM_OK : gpushim_cuda_(&cuda);
    if (result == GPUSHIM_OK && !readback->complete) {
        result = gpushim_from_cuda_(cuda->event_sync(readback->event));
        readback->complete = result == GPUSHIM_OK;
    }
    return result;
}

/* A range of the data, until gpushim_readback_end. INVALID also until a poll or a
 * wait has found the read-back complete. */
static inline gpushim_result
gpushim_readback_range(const struct gpushim_readback *readback, size_t offset,
                       size_t bytes, const void **out)
{
    if (!readback || !readback->complete || !out ||
        !gpushim_has_(&readback->data, offset, bytes)) {
        return GPUSHIM_INVALID;
    }
    *out = gpushim_at_(&readback->data, offset);
    return GPUSHIM_OK;
}

/*
 * Called for each chunk, in order, on the thread that began. `chunk` is valid until the
 * callback returns, or, of gpushim_read_file, for the work that it queues in `stream`.
 * In:     offset  of the chunk in the source
 * Returns: GPUSHIM_OK to go on; anything else ends the transfer, and is its result
 */
typedef gpushim_result (*gpushim_each_chunk)(void *user, struct gpushim_buffer *chunk,
                                             uint64_t offset, void *stream);

/*
 * Reads a part of a buffer in chunks: while the callback has one in pinned memory, the
 * next is copied. Use a stream of its own, ordered after the work that writes the buffer.
 * In:     cache  as of gpushim_readback_start; it must have room for two chunks, rounded
 *                up to powers of 2
 * Errors: as of gpushim_readback_start, and what the callback returned
 */
static inline gpushim_result gpushim_read_back(struct gpushim_cache *cache,
                                               struct gpushim_buffer *src, size_t offset,
                                               size_t bytes, size_t chunk_bytes,
                                               void *stream, gpushim_each_chunk each,
                                               void *user)
{
    struct gpushim_readback turns[2];
    void *queue = stream == GPUSHIM_SYNC ? NULL : stream;
    size_t started = 0, given = 0, now, i;
    gpushim_result result = GPUSHIM_OK;

    if (!cache || !each || !chunk_bytes || !gpushim_has_(src, offset, bytes)) {
        return GPUSHIM_INVALID;
    }
    memset(turns, 0, sizeof(turns));
    for (i = 0; given < bytes && result == GPUSHIM_OK; i++) {
        while (started < bytes && result == GPUSHIM_OK &&
               !turns[started / chunk_bytes % 2].event) {
            now = bytes - started < chunk_bytes ? bytes - started : chunk_bytes;
            result = gpushim_readback_start(&turns[started / chunk_bytes % 2], cache, src,
                                            offset + started, now, queue);
            started += result == GPUSHIM_OK ? now : 0;
        }
        if (result == GPUSHIM_OK) {
            result = gpushim_readback_wait(&turns[i % 2]);
        }
        if (result == GPUSHIM_OK) {
            now = turns[i % 2].data.bytes;
            result = each(user, &turns[i % 2].data, offset + given, queue);
            given += now;
        }
        if (result == GPUSHIM_OK) {
            result = gpushim_readback_end(&turns[i % 2]);
        }
    }
    for (i = 0; i < 2; i++) {
        gpushim_result ended = gpushim_readback_end(&turns[i]);
        result = result == GPUSHIM_OK ? ended : result;
    }
    return result;
}

/* ---- streams --------------------------------------------------------------------- */

/* Three non-blocking streams; a program may use the fields, but must not change them.
 */
struct gpushim_streams {
    void *compute, *upload, *download;
};

/* Destroys them; queued work still runs. Idempotent. After CUDA the streams not destroyed
 * remain. */
static inline gpushim_result gpushim_streams_free(struct gpushim_streams *streams)
{
    const struct gpushim_calls_ *cuda;
    void **each[3];
    gpushim_result result;
    int i, code;

    if (!streams) {
        return GPUSHIM_INVALID;
    }
    if (!streams->compute && !streams->upload && !streams->download) {
        return GPUSHIM_OK;
    }
    each[0] = &streams->compute;
    each[1] = &streams->upload;
    each[2] = &streams->download;
    result = gpushim_cuda_(&cuda);
    for (i = 0; i < 3 && result == GPUSHIM_OK; i++) {
        code = *each[i] ? cuda->stream_destroy(*each[i]) : 0;
        result = gpushim_from_cuda_(code);
        *each[i] = code ? *each[i] : NULL;
    }
    return result;
}

/* Creates them, all or none, in the current context. */
static inline gpushim_result gpushim_streams_create(struct gpushim_streams *out)
{
    const struct gpushim_calls_ *cuda;
    struct gpushim_streams made = {NULL, NULL, NULL};
    gpushim_result result;
    int code;

    if (!out) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    code = cuda->stream_create(&made.compute, GPUSHIM_CU_NON_BLOCKING_);
    code = code ? code : cuda->stream_create(&made.upload, GPUSHIM_CU_NON_BLOCKING_);
    code = code ? code : cuda->stream_create(&made.download, GPUSHIM_CU_NON_BLOCKING_);
    if (code) {
        (void)gpushim_streams_free(&made);
        return gpushim_from_cuda_(code);
    }
    *out = made;
    return GPUSHIM_OK;
}

/* Makes later work of `stream` wait for the work queued so far in `other`. The thread
 * does not wait. GPUSHIM_SYNC for either: INVALID. */
static inline gpushim_result gpushim_stream_after(void *stream, void *other)
{
    const struct gpushim_calls_ *cuda;
    void *event;
    gpushim_result result;
    int code;

    if (stream == GPUSHIM_SYNC || other == GPUSHIM_SYNC) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    code = cuda->event_create(&event, GPUSHIM_CU_NO_TIMING_);
    if (!code) {
        code = cuda->event_record(event, other);
        code = code ? code : cuda->stream_wait(stream, event, 0);
        (void)cuda->event_destroy(event); /* takes effect once the event is over */
    }
    return gpushim_from_cuda_(code);
}

/* Waits for the work of one stream. */
static inline gpushim_result gpushim_stream_wait(void *stream)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result =
        stream == GPUSHIM_SYNC ? GPUSHIM_INVALID : gpushim_cuda_(&cuda);

    return result == GPUSHIM_OK ? gpushim_from_cuda_(cuda->stream_sync(stream)) : result;
}

/* ---- rings between host and device ----------------------------------------------- */

/* The counts, at the start of a ring's memory, each in cache lines of its own. A kernel
 * that produces or consumes reads the other side's count, and adds to its own after
 * __threadfence_system(). The slots follow: see gpushim_ring_device_address. */
struct gpushim_ring_counts {
    uint64_t pushed; /* slots handed over by the producer, ever */
    char gap_[120];
    uint64_t popped; /* slots returned by the consumer, ever */
    char gap2_[120];
};
typedef char gpushim_ring_counts_are_two_lines_[sizeof(struct gpushim_ring_counts) == 256
                                                    ? 1
                                                    : -1];

/* A ring of slots in pinned memory. Either side is a host thread, work of a stream, or a
 * kernel. The fields may be read. */
struct gpushim_ring {
    struct gpushim_buffer memory;
    struct gpushim_ring_counts *counts;
    size_t slots, slot_bytes;
    size_t stride;    /* from slot to slot, a multiple of 64 */
    uint64_t filling; /* internal: pushes called */
    uint64_t reading; /* internal: pops called */
};

/* Frees the ring; work that uses it must be complete. Idempotent. */
static inline gpushim_result gpushim_ring_free(struct gpushim_ring *ring)
{
    gpushim_result result = ring ? gpushim_buffer_free(&ring->memory) : GPUSHIM_INVALID;

    if (result == GPUSHIM_OK) {
        memset(ring, 0, sizeof(*ring));
    }
    return result;
}

/* Creates an empty ring. Errors: as of gpushim_buffer_create; on a failure *out is
 * unchanged. */
static inline gpushim_result gpushim_ring_create(struct gpushim_ring *out, size_t slots,
                                                 size_t slot_bytes)
{
    struct gpushim_ring ring;
    gpushim_result result;

    if (!out || !slots || !slot_bytes || slot_bytes > SIZE_MAX - 63) {
        return GPUSHIM_INVALID;
    }
    memset(&ring, 0, sizeof(ring));
    ring.slots = slots;
    ring.slot_bytes = slot_bytes;
    ring.stride = (slot_bytes + 63) / 64 * 64;
    if (slots > (SIZE_MAX - sizeof(*ring.counts)) / ring.stride) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_buffer_create(&ring.memory, GPUSHIM_PINNED_HOST,
                                   sizeof(*ring.counts) + slots * ring.stride, 256,
                                   GPUSHIM_ZEROED);
    if (result == GPUSHIM_OK) {
        ring.counts = (struct gpushim_ring_counts *)ring.memory.data;
        *out = ring;
    }
    return result;
}

/* Where a kernel finds the counts; slot number n of all ever pushed is at
 * 256 + (n % slots) * stride bytes. */
static inline gpushim_result gpushim_ring_device_address(const struct gpushim_ring *ring,
                                                         void **out)
{
    return ring ? gpushim_buffer_device_address(&ring->memory, out) : GPUSHIM_INVALID;
}

static inline gpushim_result
gpushim_ring_slot_(struct gpushim_ring *ring, uint64_t number, struct gpushim_buffer *out)
{
    return gpushim_buffer_view(out, &ring->memory,
                               sizeof(*ring->counts) +
                                   (size_t)(number % ring->slots) * ring->stride,
                               ring->slot_bytes);
}

static inline void gpushim_ring_pushed_(void *counts)
{
    (void)__atomic_add_fetch(&((struct gpushim_ring_counts *)counts)->pushed, 1,
                             __ATOMIC_ACQ_REL);
}

static inline void gpushim_ring_popped_(void *counts)
{
    (void)__atomic_add_fetch(&((struct gpushim_ring_counts *)counts)->popped, 1,
                             __ATOMIC_ACQ_REL);
}

/* Counts a slot now, or after the stream's work. */
static inline gpushim_result gpushim_ring_count_(struct gpushim_ring *ring,
                                                 const uint64_t *counted, uint64_t called,
                                                 void (*count)(void *), void *stream)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;

    if (stream == GPUSHIM_SYNC) {
        if (__atomic_load_n(counted, __ATOMIC_ACQUIRE) != called) {
            return GPUSHIM_INVALID; /* it would overtake one in a stream */
        }
        count(ring->counts);
        return GPUSHIM_OK;
    }
    result = gpushim_cuda_(&cuda);
    return result == GPUSHIM_OK
               ? gpushim_from_cuda_(cuda->host_func(stream, count, ring->counts))
               : result;
}

/* The producer's next slot, to be filled. Does not wait. Errors: INVALID; NOT_FOUND: the
 * ring is full. */
static inline gpushim_result gpushim_ring_space(struct gpushim_ring *ring,
                                                struct gpushim_buffer *slot)
{
    if (!ring || !ring->counts || !slot) {
        return GPUSHIM_INVALID;
    }
    if (ring->filling - __atomic_load_n(&ring->counts->popped, __ATOMIC_ACQUIRE) >=
        ring->slots) {
        return GPUSHIM_NOT_FOUND;
    }
    return gpushim_ring_slot_(ring, ring->filling, slot);
}

/* The consumer's next slot. Does not wait. Errors: INVALID; NOT_FOUND: the ring is
 * empty. */
static inline gpushim_result gpushim_ring_next(struct gpushim_ring *ring,
                                               struct gpushim_buffer *slot)
{
    if (!ring || !ring->counts || !slot) {
        return GPUSHIM_INVALID;
    }
    if (__atomic_load_n(&ring->counts->pushed, __ATOMIC_ACQUIRE) <= ring->reading) {
        return GPUSHIM_NOT_FOUND;
    }
    return gpushim_ring_slot_(ring, ring->reading, slot);
}

/*
 * Hands the slot of gpushim_ring_space to the consumer.
 * In:     stream  the slot is handed over when the stream's work so far is complete;
 *                 GPUSHIM_SYNC: now. All pushes of a ring use one stream, or none.
 * Errors: CUDA, INACTIVE; NOT_FOUND: the ring is full; INVALID: also GPUSHIM_SYNC while a
 *         push in a stream is not complete. The slot was not handed over.
 */
static inline gpushim_result gpushim_ring_push(struct gpushim_ring *ring, void *stream)
{
    struct gpushim_buffer slot;
    gpushim_result result = gpushim_ring_space(ring, &slot);

    if (result == GPUSHIM_OK) {
        result = gpushim_ring_count_(ring, &ring->counts->pushed, ring->filling,
                                     gpushim_ring_pushed_, stream);
    }
    if (result == GPUSHIM_OK) {
        ring->filling++;
    }
    return result;
}

/* Returns the slot of gpushim_ring_next to the producer. `stream`, errors: as of
 * gpushim_ring_push; NOT_FOUND: the ring is empty. */
static inline gpushim_result gpushim_ring_pop(struct gpushim_ring *ring, void *stream)
{
    struct gpushim_buffer slot;
    gpushim_result result = gpushim_ring_next(ring, &slot);

    if (result == GPUSHIM_OK) {
        result = gpushim_ring_count_(ring, &ring->counts->popped, ring->reading,
                                     gpushim_ring_popped_, stream);
    }
    if (result == GPUSHIM_OK) {
        ring->reading++;
    }
    return result;
}

/* ---- files ----------------------------------------------------------------------- */

#ifdef O_CLOEXEC
#define GPUSHIM_CLOEXEC_ O_CLOEXEC
#elif defined(__O_CLOEXEC) /* strict C99 hides the names */
#define GPUSHIM_CLOEXEC_ __O_CLOEXEC
#else
#define GPUSHIM_CLOEXEC_ 0
#endif
#ifdef O_DIRECT
#define GPUSHIM_DIRECT_ O_DIRECT
#elif defined(__O_DIRECT)
#define GPUSHIM_DIRECT_ __O_DIRECT
#else
#define GPUSHIM_DIRECT_ 0
#endif

/* Alignment that O_DIRECT may need of addresses, offsets and lengths. */
enum { GPUSHIM_DISK_BLOCK_ = 4096 };

/* Reads until `bytes` are there, or the file ends. Goes on through the page cache where
 * the file system refuses O_DIRECT. Negative: failed, see errno. */
static inline ssize_t gpushim_read_(int file, char *to, size_t bytes)
{
    size_t got = 0;

    while (got < bytes) {
        ssize_t now = read(file, to + got, bytes - got);
        if (now > 0) {
            got += (size_t)now;
        }
        if (now == 0) {
            break;
        }
        if (now < 0 ? errno == EINVAL : got % GPUSHIM_DISK_BLOCK_ != 0) {
            int why = errno, flags = fcntl(file, F_GETFL);
            if (flags >= 0 && (flags & GPUSHIM_DIRECT_) &&
                fcntl(file, F_SETFL, flags & ~GPUSHIM_DIRECT_) == 0) {
                continue;
            }
            errno = why;
        }
        if (now < 0 && errno != EINTR) {
            return -1;
        }
    }
    return (ssize_t)got;
}

/* The loop of gpushim_read_file. */
static inline gpushim_result
gpushim_read_chunks_(const struct gpushim_calls_ *cuda, int file, uint64_t offset,
                     uint64_t bytes, size_t chunk_bytes, void *stream,
                     gpushim_each_chunk each, void *user, struct gpushim_buffer *pinned,
                     struct gpushim_buffer *device, void **copied, uint64_t *done)
{
    gpushim_result result = GPUSHIM_OK;
    struct gpushim_buffer chunk;
    unsigned turn;

    for (turn = 0; *done < bytes && result == GPUSHIM_OK; turn ^= 1) {
        size_t wanted =
            bytes - *done < chunk_bytes ? (size_t)(bytes - *done) : chunk_bytes;
        size_t whole = (wanted + GPUSHIM_DISK_BLOCK_ - 1) / GPUSHIM_DISK_BLOCK_ *
                       GPUSHIM_DISK_BLOCK_;
        ssize_t got;

        /* The copy of the chunk before the last has left this pinned buffer. */
        result = gpushim_from_cuda_(cuda->event_sync(copied[turn]));
        if (result != GPUSHIM_OK) {
            break;
        }
        got = gpushim_read_(file, (char *)pinned[turn].data, whole);
        if (got <= 0) {
            return got < 0 ? GPUSHIM_NOT_FOUND : GPUSHIM_OK;
        }
        wanted = (size_t)got < wanted ? (size_t)got : wanted;
        result = gpushim_buffer_copy(device, 0, &pinned[turn], 0, wanted, stream);
        if (result == GPUSHIM_OK) {
            result = gpushim_from_cuda_(cuda->event_record(copied[turn], stream));
        }
        if (result == GPUSHIM_OK) {
            result = gpushim_buffer_view(&chunk, device, 0, wanted);
        }
        if (result == GPUSHIM_OK) {
            result = each(user, &chunk, offset + *done, stream);
        }
        if (result == GPUSHIM_OK) {
            *done += wanted;
            if ((size_t)got < whole && *done < bytes) {
                break; /* the end of the file */
            }
        }
    }
    return result;
}

/*
 * Streams a part of a file through the device, larger than its memory if need be: while
 * the stream works on one chunk, the next is read from disk, past the page cache
 * (O_DIRECT) where the file system can and `offset` is a multiple of 4096. The callback
 * gets each chunk in device memory and queues work in the stream. Returns when the
 * stream's work is complete. Reads by read(): up to eight reads in flight by io_uring
 * were no faster (fio, 1 and 8 MiB a read), and containers often refuse io_uring.
 * In:     bytes        UINT64_MAX: to the end of the file
 *         chunk_bytes  device memory, and half of the pinned memory, rounded up to 4096
 *         stream       GPUSHIM_SYNC counts as NULL
 * Out:    *done  bytes whose callback returned GPUSHIM_OK; less than `bytes` where the
 *                file is shorter; may be NULL
 * Errors: as of gpushim_buffer_create, and what the callback returned
 *         NOT_FOUND  the file cannot be opened or read: errno says why
 */
static inline gpushim_result gpushim_read_file(const char *path, uint64_t offset,
                                               uint64_t bytes, size_t chunk_bytes,
                                               void *stream, gpushim_each_chunk each,
                                               void *user, uint64_t *done)
{
    const struct gpushim_calls_ *cuda;
    struct gpushim_buffer pinned, halves[2], device = GPUSHIM_BUFFER_INIT;
    void *copied[2] = {NULL, NULL}, *queue = stream == GPUSHIM_SYNC ? NULL : stream;
    gpushim_result result, ended;
    uint64_t so_far = 0;
    size_t sizes[2];
    int file, flags = O_RDONLY | GPUSHIM_CLOEXEC_, why = 0;

    if (!path || !bytes || !chunk_bytes || !each || offset > INT64_MAX ||
        chunk_bytes > SIZE_MAX / 4) {
        return GPUSHIM_INVALID;
    }
    if (done) {
        *done = 0;
    }
    chunk_bytes = (chunk_bytes + GPUSHIM_DISK_BLOCK_ - 1) / GPUSHIM_DISK_BLOCK_ *
                  GPUSHIM_DISK_BLOCK_;
    file = offset % GPUSHIM_DISK_BLOCK_ ? -1 : open(path, flags | GPUSHIM_DIRECT_);
    file = file < 0 ? open(path, flags) : file;
    if (file < 0) {
        return GPUSHIM_NOT_FOUND;
    }
    if (lseek(file, (off_t)offset, SEEK_SET) < 0) {
        why = errno;
        (void)close(file);
        errno = why;
        return GPUSHIM_NOT_FOUND;
    }
    sizes[0] = sizes[1] = chunk_bytes;
    memset(&pinned, 0, sizeof(pinned));
    result = gpushim_cuda_(&cuda);
    if (result == GPUSHIM_OK) {
        result =
            gpushim_from_cuda_(cuda->event_create(&copied[0], GPUSHIM_CU_NO_TIMING_));
    }
    if (result == GPUSHIM_OK) {
        result =
            gpushim_from_cuda_(cuda->event_create(&copied[1], GPUSHIM_CU_NO_TIMING_));
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_batch_create(&pinned, halves, sizes, 2, GPUSHIM_PINNED_HOST,
                                      GPUSHIM_DISK_BLOCK_, 0);
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_buffer_create(&device, GPUSHIM_DEVICE, chunk_bytes, 0, 0);
    }
    if (result == GPUSHIM_OK) {
        errno = 0;
        result = gpushim_read_chunks_(cuda, file, offset, bytes, chunk_bytes, queue, each,
                                      user, halves, &device, copied, &so_far);
        why = errno;
        ended = gpushim_from_cuda_(cuda->stream_sync(queue));
        result = result == GPUSHIM_OK ? ended : result;
    }
    ended = gpushim_buffer_free(&device);
    result = result == GPUSHIM_OK ? ended : result;
    ended = gpushim_buffer_free(&pinned);
    result = result == GPUSHIM_OK ? ended : result;
    if (copied[0]) {
        (void)cuda->event_destroy(copied[0]);
    }
    if (copied[1]) {
        (void)cuda->event_destroy(copied[1]);
    }
    (void)close(file);
    errno = why;
    if (done) {
        *done = so_far;
    }
    return result;
}

#undef GPUSHIM_CLOEXEC_
#undef GPUSHIM_DIRECT_

/* ---- devices --------------------------------------------------------------------- */

/* When host and device see what the other has written to memory that both can address. */
typedef enum gpushim_visibility {
    GPUSHIM_SYSTEM_SCOPE = 0, /* while a kernel runs, too */
    GPUSHIM_DEVICE_SCOPE = 1, /* after a synchronize: WSL2, Jetson */
    GPUSHIM_COPIES_ONLY = 2   /* the device has no managed memory */
} gpushim_visibility;

/* In: device, an ordinal. Errors: INVALID, INACTIVE, CUDA (no such device). */
static inline gpushim_result gpushim_get_visibility(int device, gpushim_visibility *out)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result;
    int code, managed = 0, concurrent = 0;

    if (device < 0 || !out) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    code = cuda->device_attribute(&managed, GPUSHIM_CU_HAS_MANAGED_, device);
    code = code ? code
                : cuda->device_attribute(&concurrent, GPUSHIM_CU_HAS_CONCURRENT_, device);
    if (!code) {
        *out = !managed      ? GPUSHIM_COPIES_ONLY
               : !concurrent ? GPUSHIM_DEVICE_SCOPE
                             : GPUSHIM_SYSTEM_SCOPE;
    }
    return gpushim_from_cuda_(code);
}

/*
 * The free and total bytes of a device, as in gpushim_statistics. Needs no library.
 * In:     device  an ordinal. One without an active primary context gets one for the
 *                 call, which takes long
 * Out:    *free_bytes, *total_bytes  each may be NULL
 * Errors: INVALID, INACTIVE, CUDA (no such device)
 */
static inline gpushim_result gpushim_get_memory(int device, size_t *free_bytes,
                                                size_t *total_bytes)
{
    const struct gpushim_calls_ *cuda;
    void *before = NULL, *context;
    size_t found[2] = {0, 0};
    gpushim_result result;
    int code, current = -1;

    if (device < 0) {
        return GPUSHIM_INVALID;
    }
    result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    code = cuda->context_get(&before);
    code = code ? code : cuda->context_device(&current);
    if (!code && current == device) {
        code = cuda->memory_info(&found[0], &found[1]);
    } else if (!code) {
        code = cuda->primary_retain(&context, device);
        if (!code) {
            code = cuda->context_set(context);
            code = code ? code : cuda->memory_info(&found[0], &found[1]);
            (void)cuda->context_set(before);
            (void)cuda->primary_release(device);
        }
    }
    if (!code && free_bytes) {
        *free_bytes = found[0];
    }
    if (!code && total_bytes) {
        *total_bytes = found[1];
    }
    return gpushim_from_cuda_(code);
}

/* Lets device `from` read and write the memory of `to`. Keeps a primary context that it
 * makes active, and changes the current one. Returns the driver's code. */
static inline int gpushim_enable_peer_(const struct gpushim_calls_ *cuda, int from,
                                       int to)
{
    int had_own = gpushim_is_active_(cuda, from), had_other, code;
    void *own, *other;

    code = cuda->primary_retain(&own, from);
    if (code) {
        return code;
    }
    had_other = gpushim_is_active_(cuda, to);
    code = cuda->primary_retain(&other, to);
    if (!code) {
        code = cuda->context_set(own);
        code = code ? code : cuda->enable_peer(other, 0);
        code = code == GPUSHIM_CU_PEERS_ALREADY_ ? 0 : code;
        if (code || had_other) {
            (void)cuda->primary_release(to);
        }
    }
    if (code || had_own) {
        (void)cuda->primary_release(from);
    }
    return code;
}

/*
 * Lets every device read and write the memory of every other, where the hardware can. The
 * primary contexts of these devices exist from then on, and take memory.
 * Out:    *pairs  ordered pairs that have access now, those that had it before included;
 *                 may be NULL
 * Errors: CUDA: one pair failed; the others have been tried
 */
static inline gpushim_result gpushim_enable_peers(int *pairs)
{
    const struct gpushim_calls_ *cuda;
    void *before = NULL;
    gpushim_result result = gpushim_cuda_(&cuda);
    int count = 0, from, to, can, code, enabled = 0;

    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(cuda->context_get(&before));
    }
    if (result == GPUSHIM_OK) {
        result = gpushim_from_cuda_(cuda->device_count(&count));
    }
    for (from = 0; from < count; from++) {
        for (to = 0; to < count; to++) {
            if (from == to || cuda->can_access_peer(&can, from, to) || !can) {
                continue;
            }
            code = gpushim_enable_peer_(cuda, from, to);
            enabled += !code;
            result = code && result == GPUSHIM_OK ? gpushim_from_cuda_(code) : result;
        }
    }
    if (count > 0) {
        (void)cuda->context_set(before);
    }
    if (pairs) {
        *pairs = enabled;
    }
    return result;
}

/* ---- blocks ahead of need, by a thread --------------------------------------------- */

/* Begin with gpushim_warming_start; do not move the struct until gpushim_warming_wait. */
struct gpushim_warming {
    pthread_t thread; /* internal, as all of it */
    int device, begun, done;
    char *blocks;
    gpushim_result result;
};

static inline void *gpushim_warm_(void *argument)
{
    struct gpushim_warming *warming = (struct gpushim_warming *)argument;
    int cancelled;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    warming->result = gpushim_warm_up(warming->device, warming->blocks);
    __atomic_store_n(&warming->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/*
 * gpushim_warm_up (gpushim.h) on a thread of its own, in the device's primary context.
 * Errors: INACTIVE (there is no library), INVALID, NO_MEMORY (host); nothing is under way
 */
static inline gpushim_result gpushim_warming_start(struct gpushim_warming *out,
                                                   int device, const char *blocks)
{
    if (!out || device < 0 || !blocks) {
        return GPUSHIM_INVALID;
    }
    if (!gpushim_library()) {
        return GPUSHIM_INACTIVE;
    }
    memset(out, 0, sizeof(*out));
    out->device = device;
    out->blocks = (char *)malloc(strlen(blocks) + 1);
    if (!out->blocks) {
        return GPUSHIM_NO_MEMORY;
    }
    memcpy(out->blocks, blocks, strlen(blocks) + 1);
    out->begun = pthread_create(&out->thread, NULL, gpushim_warm_, out) == 0;
    if (!out->begun) {
        free(out->blocks);
        return GPUSHIM_NO_MEMORY;
    }
    return GPUSHIM_OK;
}

/* Is it done? Does not wait. Out: *ready, 0 or 1. Errors: INVALID. */
static inline gpushim_result gpushim_warming_poll(const struct gpushim_warming *warming,
                                                  int *ready)
{
    if (!warming || !warming->begun || !ready) {
        return GPUSHIM_INVALID;
    }
    *ready = __atomic_load_n(&warming->done, __ATOMIC_ACQUIRE);
    return GPUSHIM_OK;
}

/* Waits until it is done. Errors: as of gpushim_warm_up; INVALID also if none is under
 * way. Once for each start. */
static inline gpushim_result gpushim_warming_wait(struct gpushim_warming *warming)
{
    gpushim_result result;

    if (!warming || !warming->begun) {
        return GPUSHIM_INVALID;
    }
    (void)pthread_join(warming->thread, NULL);
    result = warming->result;
    free(warming->blocks);
    memset(warming, 0, sizeof(*warming));
    return result;
}

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
