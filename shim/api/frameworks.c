/*
 * frameworks.c - allocation functions with the signatures that PyTorch's pluggable
 * allocator has (torch.cuda.memory.CUDAPluggableAllocator), over api_stream.c.
 *
 * PyTorch takes NULL for memory. So where there is none, the function throws PyTorch's
 * own error, which its library c10 does for it; an exception passes through this file.
 *
 * Owns:  nothing.   Lock: none.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "api.h"
#include "gs_base.h"
#include "log.h"
#include "text.h"

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
        gs_log_line(GS_LOG_ERROR, "%s; this PyTorch cannot be told", message);
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
