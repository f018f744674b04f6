/*
 * frameworks.c - what PyTorch calls: allocation functions with the signatures that its
 * pluggable allocator has (torch.cuda.memory.CUDAPluggableAllocator), over api_stream.c;
 * and the function by which its own allocator reports each tensor to its profiler.
 *
 * PyTorch takes NULL for memory. So where there is none, the function throws PyTorch's
 * own error, which its library c10 does for it; an exception passes through this file.
 *
 * Owns:  PyTorch's definition of that function.   Lock: none, atomic.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "gs_base.h"
#include "shim/api/api.h"
#include "shim/api/torch_end.h"
#include "shim/lifetimes/physical.h"
#include "shim/record.h"
#include "shim/settings/log.h"
#include "shim/state/state.h"
#include "tracker/report/text/text.h"
#include "tracker/tracker.h"

/* c10::detail::torchCheckFail(function, file, line, message): throws c10::Error. */
#define TORCH_FAIL "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"

GS_EXPORT void *gpushim_torch_malloc(ssize_t bytes, int device, void *stream);
GS_EXPORT void gpushim_torch_free(void *memory, ssize_t bytes, int device, void *stream);
GS_EXPORT void gpushim_torch_record_stream(void *memory, void *stream);

static void fail(ssize_t bytes, int device, gpushim_result result)
{
    void (*torch_fail)(const char *, const char *, unsigned, const char *);
    void *library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD), *found = NULL;
    char message[160], size[24];
    (void)snprintf(message, sizeof(message),
                   result == GPUSHIM_NO_MEMORY
                       ? "CUDA out of memory. Tried to allocate %s on GPU %d (gpushim)"
                       : "CUDA error: no memory of %s can be allocated on GPU %d "
                         "(gpushim)",
                   gs_text_bytes((uint64_t)bytes, size), device);
    if (library) {
        found = dlsym(library, TORCH_FAIL);
        (void)dlclose(library); /* it stays: PyTorch calls this function */
    }
    if (!found) {
        gs_log_line(GS_LOG_ERROR, "%s; this version of PyTorch does not get the error",
                    message);
        return;
    }
    memcpy(&torch_fail, &found, sizeof(found));
    torch_fail("gpushim_torch_malloc", "gpushim", 0, message);
}

void *gpushim_torch_malloc(ssize_t bytes, int device, void *stream)
{
    void *memory = NULL;
    gpushim_result result;
    if (bytes <= 0) {
        return NULL;
    }
    result = gs_api_table.stream_alloc(&memory, (size_t)bytes, device, stream);
    if (result != GPUSHIM_OK) {
        fail(bytes, device, result);
    }
    return memory;
}

void gpushim_torch_free(void *memory, ssize_t bytes, int device, void *stream)
{
    static struct gs_log_limit once; /* tensors may outlive the driver */
    (void)bytes;
    if (gs_api_table.stream_free(memory, device, stream) != GPUSHIM_OK) {
        gs_log_once(&once, GS_LOG_INFO, "a tensor's memory at %p on GPU %d is not freed",
                    memory, device);
    }
}

void gpushim_torch_record_stream(void *memory, void *stream)
{
    (void)gs_api_table.stream_uses(memory, stream);
}

/* ---- tensors that PyTorch's caching allocator hands out --------------------------- */

/* c10::Device: DeviceType, which is 1 for CUDA, and an index. */
struct c10_device {
    int8_t type, index;
};
#define C10_CUDA 1

/* void c10::reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, c10::Device):
 * the same since PyTorch 1.13. */
#define REPORT_USAGE _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
#define REPORT_NAME  "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
typedef void report_usage(void *memory, int64_t bytes, size_t allocated, size_t reserved,
                          struct c10_device device);
GS_EXPORT report_usage REPORT_USAGE;

/* PyTorch's own definition, as the calling module would have it; NULL: none. */
static report_usage *find_own(void *caller)
{
    report_usage *own = NULL;
    Dl_info info;
    void *library, *found;
    if (!dladdr(caller, &info) || !info.dli_fname ||
        !(library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD))) {
        return NULL;
    }
    found = dlsym(library, REPORT_NAME);
    (void)dlclose(library); /* it stays: it has called this function */
    if (found != (void *)REPORT_USAGE) {
        memcpy(&own, &found, sizeof(own));
    }
    return own;
}

/* Atomic. */
static report_usage *own_report;

static void report_part(struct gs_state *state, const struct gs_part_report *part)
{
    if (part->bytes > 0 && gs_tracker_divide(state->tracker, part)) {
        gs_physical_divide(state, part->addr, (size_t)part->bytes);
    }
    gs_tracker_part(state->tracker, part);
}

void REPORT_USAGE(void *memory, int64_t bytes, size_t allocated, size_t reserved,
                  struct c10_device device)
{
    report_usage *own = __atomic_load_n(&own_report, __ATOMIC_ACQUIRE);
    struct gs_state *state = device.type == C10_CUDA ? gs_state_peek() : NULL;
    if (!own) {
        own = find_own(__builtin_return_address(0));
        __atomic_store_n(&own_report, own, __ATOMIC_RELEASE);
        gs_torch_end_watch();
    }
    if (state && state->tracker) {
        report_part(state, &(struct gs_part_report){
                               .addr = (uintptr_t)memory,
                               .bytes = bytes,
                               .reserved_bytes = reserved,
                               .device = device.index,
                               .ended = bytes < 0 && gs_torch_end_has_come(),
                               .stack = bytes > 0 ? gs_record_part_stack(state) : 0});
    }
    if (own) {
        own(memory, bytes, allocated, reserved, device);
    }
}
