/*
 * entry_info.c - how much memory a device has and how much of it is free: cuMemGetInfo,
 * and NVML's answers where GPUSHIM_MEM_LIMIT makes the device smaller.
 *
 * NVML knows a device by a handle of its own and lists all devices of the machine. The
 * UUID identifies the CUDA device, whatever CUDA_VISIBLE_DEVICES is. A program may ask
 * NVML before its first CUDA call, or never make one. So NVML's functions start nothing.
 *
 * Owns:  nothing.   Lock: none.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "shim/checks/quarantine.h"
#include "shim/cuda/nvml_names.h"
#include "shim/host/managed.h"
#include "shim/limits/mem_limits.h"
#include "shim/link/elf_module.h"
#include "shim/link/library_hooks.h"
#include "shim/order/full_wait.h"
#include "shim/settings/environment.h"
#include "shim/state/state.h"

/* ---- CUDA ------------------------------------------------------------------------ */

/*
 * The bytes that the driver does not have and an allocation can get now. While work runs
 * the driver gets no memory back: an allocation of another size would wait for the work,
 * which may never end. A hole of a carved segment serves small requests only, and does
 * not count.
 */
static size_t idle_for_info(struct gs_state *state, const struct gs_context *context)
{
    if (!state->pool) {
        return 0;
    }
    size_t idle = gs_pool_idle_bytes(state->pool, context->device) +
                  gs_pool_pending_bytes(state->pool, context->device) +
                  gs_quarantine_idle(context->device);
    return idle && gs_full_wait_is_busy(state, context) ? 0 : idle;
}

GS_EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    struct gs_state *state = gs_enter();
    if (!state) {
        return gs_real()->cuMemGetInfo_v2(free, total);
    }
    const struct gs_context *context =
        gs_context_serving(state, gs_context_current(state));
    size_t real_free = 0, real_total = 0;
    gs_managed_trim_if_idle(state); /* its share on the device is unknown */
    /* Each result needs both numbers; a NULL is passed on for the driver to check. */
    CUresult result =
        gs_real()->cuMemGetInfo_v2(free ? &real_free : NULL, total ? &real_total : NULL);
    if (result == CUDA_SUCCESS && (!free || !total)) {
        result = gs_real()->cuMemGetInfo_v2(&real_free, &real_total);
    }
    if (result == CUDA_SUCCESS) {
        if (context) {
            gs_limits_info(context->device, idle_for_info(state, context), &real_free,
                           &real_total);
        }
        if (free) {
            *free = real_free;
        }
        if (total) {
            *total = real_total;
        }
    }
    gs_leave();
    return result;
}

/* ---- NVML ------------------------------------------------------------------------ */

typedef int uuid_fn(void *device, char *text, unsigned room);

static int hex_digit(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                        : -1;
}

/* Reads "GPU-" or "MIG-" and 16 bytes in hexadecimal digits. Returns whether that is the
 * form of the text. */
static bool read_uuid(const char *text, unsigned char out[16])
{
    if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0) {
        return false;
    }
    text += 4;
    for (int i = 0; i < 16; i++) {
        text += *text == '-';
        int high = hex_digit(text[0]), low = high < 0 ? -1 : hex_digit(text[1]);
        if (low < 0) {
            return false;
        }
        out[i] = (unsigned char)(high << 4 | low);
        text += 2;
    }
    return *text == '\0';
}

/* The CUDA device of an NVML handle among those that the process has used; -1: none. */
static int find_device(const struct gs_state *state, const void *function, void *handle)
{
    const struct gs_real *real = gs_real();
    __typeof__(cuDeviceGetUuid) *ask =
        real->cuDeviceGetUuid_v2 ? real->cuDeviceGetUuid_v2 : real->cuDeviceGetUuid;
    struct gs_module_ref library;
    char text[GS_NVML_UUID_BYTES] = "";
    unsigned char wanted[16];
    CUuuid uuid;
    uuid_fn *name = gs_elf_module_of(function, &library) == GS_OK
                        ? (uuid_fn *)gs_elf_callable(&library, "nvmlDeviceGetUUID")
                        : NULL;
    if (!ask || !name || name(handle, text, sizeof(text)) != GS_NVML_SUCCESS ||
        !read_uuid(text, wanted)) {
        return -1;
    }
    int count = __atomic_load_n(&state->device_count, __ATOMIC_ACQUIRE);
    for (int i = 0; i < count; i++) {
        if (gs_limits_most(i) != SIZE_MAX && ask(&uuid, i) == CUDA_SUCCESS &&
            memcmp(uuid.bytes, wanted, 16) == 0) {
            return i;
        }
    }
    return -1;
}

/* Sets the values that cuMemGetInfo would return in a context of the device. */
static void limit_used(struct gs_state *state, int device, size_t *free_bytes,
                       size_t *total_bytes)
{
    const struct gs_context *context, *last = NULL;
    for (size_t i = 0; (context = gs_context_nth(state, i)) != NULL; i++) {
        last = context->device == device ? context : last;
    }
    gs_limits_info(device, last ? idle_for_info(state, last) : 0, free_bytes,
                   total_bytes);
}

/* gs_limits_total in a process that has made no CUDA call, by the environment. */
static size_t unstarted_total(size_t bytes)
{
    static const char *const names[] = {"GPUSHIM_ENABLE", "GPUSHIM_MEM_LIMIT"};
    struct reading {
        struct gs_options options;
        struct gs_options_messages notes; /* the first CUDA call writes them */
    } *reading = NULL;
    uint64_t share = gs_share_percent(100);
    bool enabled = true;
    for (size_t i = 0; enabled && i < GS_ARRAY_LEN(names); i++) {
        const char *text = gs_options_given_text(gs_environment(), names[i]);
        unsigned row, list;
        reading = *text && !reading ? malloc(sizeof(*reading)) : reading;
        if (*text && reading &&
            gs_options_read_one(names[i], text, &reading->options, &row, &list,
                                &reading->notes) == GS_OK) {
            enabled = reading->options.enable;
            share = reading->options.mem_limit;
        }
    }
    free(reading);
    uint64_t limit = enabled ? gs_share_bytes(share, bytes) : bytes;
    return limit < bytes ? (size_t)limit : bytes;
}

/* Bounds what NVML's function has answered for the device of the handle. */
static void limit_nvml_answer(const void *function, void *handle,
                              unsigned long long *free_bytes,
                              unsigned long long *total_bytes)
{
    struct gs_state *state = gs_state_peek();
    size_t left = (size_t)*free_bytes, total = (size_t)*total_bytes;
    if (state && !gs_limits_charging) {
        return;
    }
    int saved_errno = errno;
    unsigned depth = gs_thread.depth++;
    int device = state ? find_device(state, function, handle) : -1;
    if (device >= 0) {
        limit_used(state, device, &left, &total);
    } else {
        total = state ? gs_limits_total(total) : unstarted_total(total);
        left = left < total ? left : total;
    }
    gs_thread.depth = depth;
    errno = saved_errno;
    *free_bytes = left;
    *total_bytes = total;
}

GS_EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct gs_nvml_memory *memory)
{
    __typeof__(nvmlDeviceGetMemoryInfo) *real =
        gs_library_hook_next(GS_LIBRARY_HOOK_nvmlDeviceGetMemoryInfo);
    int result = real ? real(device, memory) : GS_NVML_FUNCTION_NOT_FOUND;
    if (result == GS_NVML_SUCCESS && memory && memory->total_bytes) {
        unsigned long long total = memory->total_bytes, left = memory->free_bytes;
        limit_nvml_answer((void *)real, device, &memory->free_bytes,
                          &memory->total_bytes);
        if (memory->total_bytes != total || memory->free_bytes != left) {
            memory->used_bytes = memory->total_bytes - memory->free_bytes;
        }
    }
    return result;
}

GS_EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, struct gs_nvml_memory_v2 *memory)
{
    __typeof__(nvmlDeviceGetMemoryInfo_v2) *real =
        gs_library_hook_next(GS_LIBRARY_HOOK_nvmlDeviceGetMemoryInfo_v2);
    int result = real ? real(device, memory) : GS_NVML_FUNCTION_NOT_FOUND;
    if (result == GS_NVML_SUCCESS && memory && memory->version == GS_NVML_MEMORY_V2) {
        unsigned long long total = memory->total_bytes, left = memory->free_bytes;
        limit_nvml_answer((void *)real, device, &memory->free_bytes,
                          &memory->total_bytes);
        if (memory->total_bytes < total) {
            memory->reserved_bytes = 0; /* the driver's, which the limit does not count */
        }
        if (memory->total_bytes != total || memory->free_bytes != left) {
            unsigned long long rest = memory->total_bytes - memory->free_bytes;
            memory->used_bytes =
                rest > memory->reserved_bytes ? rest - memory->reserved_bytes : 0;
        }
    }
    return result;
}
