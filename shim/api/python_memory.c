/*
 * python_memory.c - the functions of gpushim_memory.h for gpushim.memory of the Python
 * module, and what Python needs besides them: events, contexts, the driver's codes.
 *
 * In libgpushim-python.so alone: the memory is the program's, not the library's, and its
 * call stacks and hooks are those of any caller of CUDA.
 *
 * Owns:  the thread's last code of the driver.   Lock: none; it is thread-local.
 */
static _Thread_local int last_code;
/* gpushim_memory.h calls it for each code of the driver that is a failure. */
#define GPUSHIM_ON_CUDA_FAILURE_(code) (last_code = (code))

#include "shim/api/python_memory.h"

/* clang-format off */
#define FUNCTIONS(row)                                                                   \
    row(buffer_create) row(buffer_free) row(buffer_view) row(buffer_around)              \
    row(buffer_device_address) row(copy_batch) row(buffer_copy) row(buffer_put)          \
    row(buffer_get) row(buffer_get_slot) row(buffer_copy_rows) row(buffer_fill)          \
    row(buffer_zero) row(buffer_prefetch) row(buffer_advise) row(buffer_resize)          \
    row(buffer_shrink) row(defragment) row(batch_create)                                 \
    row(buffers_create) row(buffers_resize) row(buffers_find) row(buffers_drop)          \
    row(buffers_clean) row(buffers_get_statistics) row(buffers_free)                     \
    row(cache_create) row(cache_take) row(cache_give) row(cache_trim) row(cache_free)    \
    row(cache_hit_rate) row(readback_start) row(readback_poll) row(readback_wait)        \
    row(readback_range) row(readback_end) row(read_back)                                 \
    row(streams_create) row(streams_free) row(stream_after) row(stream_wait)             \
    row(ring_create) row(ring_free) row(ring_device_address) row(ring_space)             \
    row(ring_next) row(ring_push) row(ring_pop) row(read_file)                           \
    row(get_visibility) row(get_memory) row(enable_peers)                                \
    row(warming_start) row(warming_poll) row(warming_wait)

#define STRUCTURES(row)                                                                  \
    row(buffer) row(copy) row(buffer_type) row(buffers) row(buffers_statistics)          \
    row(cache) row(readback) row(streams) row(ring) row(ring_counts) row(warming)        \
    row(defragmented)
/* clang-format on */

void *gpushim_python_memory_function(const char *name)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } rows[] = {
#define ROW(name) {#name, (void (*)(void))gpushim_##name},
        FUNCTIONS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return (void *)(uintptr_t)rows[i].function;
        }
    }
    return NULL;
}

size_t gpushim_python_memory_bytes(const char *name)
{
    static const struct {
        const char *name;
        size_t bytes;
    } rows[] = {
#define ROW(name) {#name, sizeof(struct gpushim_##name)},
        STRUCTURES(ROW)
#undef ROW
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i].bytes;
        }
    }
    return 0;
}

int gpushim_python_memory_code(void)
{
    int code = last_code;
    last_code = 0;
    return code;
}

/* ---- contexts and pointers --------------------------------------------------------- */

void *gpushim_python_memory_context(void)
{
    const struct gpushim_calls_ *cuda = gpushim_driver_();
    void *context = NULL;
    return cuda && cuda->context_get(&context) == 0 ? context : NULL;
}

gpushim_result gpushim_python_memory_create(struct gpushim_buffer *out, void *context,
                                            gpushim_place place, size_t bytes,
                                            size_t alignment, unsigned flags)
{
    const struct gpushim_calls_ *cuda = context ? gpushim_driver_() : NULL;
    void *before = NULL;
    if (cuda) {
        gpushim_result entered =
            gpushim_from_cuda_(gpushim_enter_(cuda, context, &before));
        if (entered != GPUSHIM_OK) {
            return entered;
        }
    }
    gpushim_result result = gpushim_buffer_create(out, place, bytes, alignment, flags);
    if (cuda) {
        gpushim_leave_(cuda, context, before);
    }
    return result;
}

/* CU_MEMORYTYPE_..., CU_POINTER_ATTRIBUTE_... of cuda.h. */
enum {
    MEMORYTYPE_HOST = 1,
    MEMORYTYPE_DEVICE = 2,
    ATTRIBUTE_MEMORY_TYPE = 2,
    ATTRIBUTE_IS_MANAGED = 8,
    ATTRIBUTE_RANGE_START = 11,
    ATTRIBUTE_RANGE_BYTES = 12
};

static void *driver_symbol(const char *name)
{
    void *symbol = dlsym(NULL /* RTLD_DEFAULT */, name);
    void *library = symbol ? NULL : dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return library ? dlsym(library, name) : symbol;
}

gpushim_result gpushim_python_memory_known(const void *address, size_t bytes,
                                           gpushim_place place)
{
    const struct gpushim_calls_ *cuda;
    unsigned long long at = gpushim_address_(address), start = 0;
    size_t size = 0;
    unsigned type = 0, managed = 0;
    void *symbol = driver_symbol("cuPointerGetAttribute");
    int (*ask)(void *, int, unsigned long long);
    gpushim_result result = gpushim_cuda_(&cuda);

    if (result != GPUSHIM_OK || !symbol) {
        return result != GPUSHIM_OK ? result : GPUSHIM_INACTIVE;
    }
    memcpy(&ask, &symbol, sizeof(ask));
    if (ask(&type, ATTRIBUTE_MEMORY_TYPE, at) != 0 ||
        ask(&managed, ATTRIBUTE_IS_MANAGED, at) != 0 ||
        ask(&start, ATTRIBUTE_RANGE_START, at) != 0 ||
        ask(&size, ATTRIBUTE_RANGE_BYTES, at) != 0) {
        return GPUSHIM_INVALID;
    }
    gpushim_place found = managed                     ? GPUSHIM_MANAGED
                          : type == MEMORYTYPE_HOST   ? GPUSHIM_PINNED_HOST
                          : type == MEMORYTYPE_DEVICE ? GPUSHIM_DEVICE
                                                      : GPUSHIM_HOST;
    return found == place && at >= start && at - start <= size &&
                   bytes <= size - (size_t)(at - start)
               ? GPUSHIM_OK
               : GPUSHIM_INVALID;
}

/* ---- events ------------------------------------------------------------------------ */

gpushim_result gpushim_python_memory_mark(void **event, void *stream)
{
    const struct gpushim_calls_ *cuda;
    void *used = *event;
    gpushim_result result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    int code = used ? 0 : cuda->event_create(&used, GPUSHIM_CU_NO_TIMING_);
    if (code) {
        return gpushim_from_cuda_(code);
    }
    code = cuda->event_record(used, stream);
    if (code && !*event) {
        (void)cuda->event_destroy(used);
    } else {
        *event = used;
    }
    return gpushim_from_cuda_(code);
}

gpushim_result gpushim_python_memory_passed(void *event, int *ready)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result = gpushim_cuda_(&cuda);
    if (result != GPUSHIM_OK) {
        return result;
    }
    int code = cuda->event_query(event);
    *ready = code == 0;
    return code == GPUSHIM_CU_NOT_READY_ ? GPUSHIM_OK : gpushim_from_cuda_(code);
}

gpushim_result gpushim_python_memory_reach(void *event)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result = gpushim_cuda_(&cuda);
    return result == GPUSHIM_OK ? gpushim_from_cuda_(cuda->event_sync(event)) : result;
}

gpushim_result gpushim_python_memory_unmark(void *event)
{
    const struct gpushim_calls_ *cuda;
    gpushim_result result = gpushim_cuda_(&cuda);
    return result == GPUSHIM_OK ? gpushim_from_cuda_(cuda->event_destroy(event)) : result;
}

/* ---- exports by DLPack ------------------------------------------------------------- */

struct owned {
    struct gpushim_buffer buffer;
    int primary; /* releases this device's primary context; -1: none */
};

void *gpushim_python_memory_own(const struct gpushim_buffer *buffer, int primary)
{
    struct owned *owned = malloc(sizeof(*owned));
    if (owned) {
        *owned = (struct owned){*buffer, primary};
    }
    return owned;
}

int gpushim_python_memory_end(void *object)
{
    struct owned *owned = object;
    const struct gpushim_calls_ *cuda = owned->primary >= 0 ? gpushim_driver_() : NULL;
    gpushim_result result = gpushim_buffer_free(&owned->buffer);
    if (cuda) {
        (void)cuda->primary_release(owned->primary);
    }
    free(owned);
    return (int)result;
}
