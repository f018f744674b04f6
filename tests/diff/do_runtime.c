/*
 * do_runtime.c - the runtime API beside the driver's: memory that one makes and the other
 * frees, and whatever the runtime makes of the current context.
 *
 * Owns: the runtime's functions (immutable once loaded).   Lock: none; they are the same
 * for every thread that loads them.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <string.h>

#include "do.h"

/* STREAM: with a variant for the per-thread default stream; PLAIN: without. */
#define RUNTIME_CALLS                                                                    \
    PLAIN(cudaMalloc)                                                                    \
    PLAIN(cudaMallocPitch)                                                               \
    PLAIN(cudaFree)                                                                      \
    PLAIN(cudaHostAlloc)                                                                 \
    PLAIN(cudaFreeHost)                                                                  \
    PLAIN(cudaHostGetFlags)                                                              \
    PLAIN(cudaMallocManaged)                                                             \
    PLAIN(cudaMemGetInfo)                                                                \
    PLAIN(cudaPointerGetAttributes)                                                      \
    PLAIN(cudaDeviceSynchronize)                                                         \
    PLAIN(cudaSetDevice)                                                                 \
    PLAIN(cudaGetDevice)                                                                 \
    PLAIN(cudaGetLastError)                                                              \
    PLAIN(cudaPeekAtLastError)                                                           \
    STREAM(cudaMallocAsync, "_ptsz")                                                     \
    STREAM(cudaFreeAsync, "_ptsz")                                                       \
    STREAM(cudaMemcpy, "_ptds")                                                          \
    STREAM(cudaMemset, "_ptds")

static struct {
#define PLAIN(name)          __typeof__(name) *name;
#define STREAM(name, suffix) __typeof__(name) *name;
    RUNTIME_CALLS
#undef PLAIN
#undef STREAM
    bool whole;
} runtime;

#define UNTOUCHED 0x5a5a5a5a5a5a5a5aull

static void *find(void *library, const char *name, const char *suffix)
{
    char symbol[64];
    void *found;

    snprintf(symbol, sizeof(symbol), "%s%s", name, suffix);
    found = dlsym(library, symbol);
    runtime.whole = runtime.whole && found;
    return found;
}

void diff_runtime_load(enum diff_way way)
{
    bool per_thread = way == DIFF_WAY_PER_THREAD;
    void *library = dlopen("libcudart.so.13", RTLD_NOW);

    if (!library)
        return;
    runtime.whole = true;
#define PLAIN(name) runtime.name = (__typeof__(name) *)find(library, #name, "");
#define STREAM(name, suffix)                                                             \
    runtime.name = (__typeof__(name) *)find(library, #name, per_thread ? suffix : "");
    RUNTIME_CALLS
#undef PLAIN
#undef STREAM
}

/* False, with the reason said: there is no runtime. */
static bool there_is(struct diff_call *call)
{
    if (!runtime.whole)
        diff_skip(call, "runtime");
    return runtime.whole;
}

static cudaError_t say(struct diff_call *call, cudaError_t error)
{
    diff_say(call, " code=%d", (int)error);
    /* It makes a context current where there is none. */
    diff_find_context(call);
    return error;
}

static void made(struct diff_call *call, struct diff_memory *memory, char kind,
                 cudaError_t error, const void *at, uint64_t bytes)
{
    if (say(call, error) == cudaSuccess)
        diff_memory_made(call, memory, kind, (uintptr_t)at, bytes);
    else
        diff_say(call, " out=%s",
                 (uintptr_t)at == UNTOUCHED ? "kept"
                 : !at                      ? "0"
                                            : "set");
    diff_say_full(call, (CUresult)error, bytes);
}

/* ---- memory -------------------------------------------------------------------------
 */

void diff_do_rt_alloc(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    size_t bytes = diff_size(call->op->args[1]);
    void *at = (void *)(uintptr_t)UNTOUCHED;
    cudaError_t error;

    if (!memory || !there_is(call))
        return;
    error = runtime.cudaMalloc(&at, bytes);
    if (error == cudaSuccess && bytes == 0) /* nothing was made */
        say(call, error);
    else
        made(call, memory, 'd', error, at, bytes);
}

void diff_do_rt_pitch_alloc(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    size_t width = diff_size(call->op->args[1]) % 70000;
    size_t height = (size_t)call->op->args[2] + 1;
    void *at = (void *)(uintptr_t)UNTOUCHED;
    cudaError_t error;
    size_t pitch = 0;

    if (!memory || width == 0 || !there_is(call))
        return;
    error = runtime.cudaMallocPitch(&at, &pitch, width, height);
    made(call, memory, 'p', error, at, pitch * height);
    if (error != cudaSuccess)
        return;
    memory->pitch = pitch;
    memory->width = width;
    memory->height = height;
    diff_say(call, " pitch=%zu", pitch);
}

static size_t machine_size(int64_t argument)
{
    size_t bytes = diff_size(argument);

    return bytes > (64u << 20) ? bytes & 0xffffff : bytes;
}

void diff_do_rt_host_alloc(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    size_t bytes = machine_size(call->op->args[1]);
    void *at = (void *)(uintptr_t)UNTOUCHED;
    cudaError_t error;

    if (!memory || bytes == 0 || !there_is(call))
        return;
    error = runtime.cudaHostAlloc(&at, bytes, (unsigned)call->op->args[2]);
    made(call, memory, 'h', error, at, bytes);
}

void diff_do_rt_managed_alloc(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    size_t bytes = machine_size(call->op->args[1]);
    void *at = (void *)(uintptr_t)UNTOUCHED;
    cudaError_t error;

    if (!memory || bytes == 0 || !there_is(call))
        return;
    error = runtime.cudaMallocManaged(&at, bytes, (unsigned)call->op->args[2]);
    made(call, memory, 'g', error, at, bytes);
}

/* What the thread was told of a free is told here, and not again by rt_error: the two
 * sides may have refused it for different reasons. */
static void forget_error(struct diff_call *call)
{
    diff_code(call, "last", (CUresult)runtime.cudaGetLastError());
}

void diff_do_rt_free(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);

    if (!memory || memory->kind == 'n' || !diff_unused(call, memory) || !there_is(call))
        return;
    diff_freed(call, memory, (CUresult)runtime.cudaFree((void *)(uintptr_t)memory->at),
               false);
    forget_error(call);
}

void diff_do_rt_free_again(struct diff_call *call)
{
    struct diff_memory *memory;

    if (!there_is(call))
        return;
    forget_error(call); /* of before, as this free may be left out on one side */
    memory = diff_memory_gone(call, 0);
    if (memory)
        say(call, runtime.cudaFree((void *)(uintptr_t)memory->at));
    else /* left out on one side, it makes a context current there all the same */
        (void)runtime.cudaFree(NULL);
    (void)runtime.cudaGetLastError();
}

void diff_do_rt_host_free(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);

    if (!memory || !diff_unused(call, memory) || !there_is(call))
        return;
    diff_freed(call, memory,
               (CUresult)runtime.cudaFreeHost((void *)(uintptr_t)memory->at), true);
    forget_error(call);
}

void diff_do_rt_async_alloc(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    size_t bytes = diff_size(call->op->args[1]);
    struct diff_use use;
    void *at = NULL;
    CUresult code;

    if (!memory || bytes == 0 || !there_is(call) ||
        !diff_use_stream(call, 2, NULL, NULL, &use))
        return;
    code = (CUresult)runtime.cudaMallocAsync(&at, bytes, use.stream);
    diff_async_made(call, memory, &use, code, (uintptr_t)at, bytes);
}

void diff_do_rt_async_free(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_use use;
    CUresult code;

    if (!memory || memory->kind == 'n' || !there_is(call) ||
        !diff_use_stream(call, 1, memory, NULL, &use))
        return;
    diff_say(call, " kind=%c captured=%d%s", memory->kind, use.captured,
             memory->told ? " told=1" : "");
    code = (CUresult)runtime.cudaFreeAsync((void *)(uintptr_t)memory->at, use.stream);
    diff_used(call, &use, diff_code(call, "code", code), memory, NULL);
    if (code == CUDA_SUCCESS) {
        memory->state = DIFF_GONE;
        memory->in_order = true;
    }
    forget_error(call);
}

/* ---- contents -----------------------------------------------------------------------
 */

void diff_do_rt_set(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_part part;
    struct diff_use use;
    cudaError_t error;

    if (!memory || !there_is(call) || !diff_use_default(call, memory, NULL, &use))
        return;
    part = diff_part_of(memory, call->op->args[1]);
    use.empty = part.bytes == 0;
    error = runtime.cudaMemset((void *)(uintptr_t)(memory->at + part.at),
                               (int)call->op->args[2], part.bytes);
    if (diff_used(call, &use, (CUresult)say(call, error), memory, NULL))
        diff_define(diff_contents(call->world, memory), part);
}

void diff_do_rt_copy_out(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    unsigned char *bytes = diff_bytes(0, 0);
    struct diff_part part;
    struct diff_use use;
    cudaError_t error;

    if (!memory || !there_is(call) || !diff_use_default(call, memory, NULL, &use))
        return;
    part = diff_part_of(memory, call->op->args[1]);
    use.empty = part.bytes == 0;
    error = runtime.cudaMemcpy(bytes, (void *)(uintptr_t)(memory->at + part.at),
                               part.bytes, cudaMemcpyDefault);
    if (!diff_used(call, &use, (CUresult)say(call, error), memory, NULL))
        return;
    diff_host_waited(call->world, use.line);
    diff_say(
        call, " hash=%llx",
        (unsigned long long)diff_hash(diff_contents(call->world, memory), part, bytes));
}

/* ---- questions ----------------------------------------------------------------------
 */

void diff_do_rt_info(struct diff_call *call)
{
    size_t available = 1, total = 1;

    if (!there_is(call) ||
        say(call, runtime.cudaMemGetInfo(&available, &total)) != cudaSuccess)
        return;
    diff_say(call, " total=%zu", total);
    if (!call->world->pools)
        diff_say(call, " free=%zu", available);
}

void diff_do_rt_pointer(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct cudaPointerAttributes told = {.type = cudaMemoryTypeUnregistered};
    uint64_t inside;

    if (!memory || memory->bytes == 0 || !there_is(call))
        return;
    inside = (uint64_t)call->op->args[1] * 37 % memory->bytes;
    diff_say_memory(call, memory);
    if (say(call, runtime.cudaPointerGetAttributes(
                      &told, (void *)(uintptr_t)(memory->at + inside))) != cudaSuccess)
        return;
    diff_say(call, " type=%d device=%d", (int)told.type, told.device);
    diff_say_where(call, "at", (uintptr_t)told.devicePointer);
    diff_say_where(call, "host", (uintptr_t)told.hostPointer);
}

void diff_do_rt_host_flags(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    unsigned flags = 77;

    if (!memory || !there_is(call))
        return;
    diff_say_memory(call, memory);
    say(call, runtime.cudaHostGetFlags(&flags, (void *)(uintptr_t)memory->at));
    diff_say(call, " flags=%u", flags);
}

void diff_do_rt_wait(struct diff_call *call)
{
    if (there_is(call) && say(call, runtime.cudaDeviceSynchronize()) == cudaSuccess &&
        call->ctx >= 0)
        diff_host_waited_context(call->world, (unsigned)call->ctx);
}

void diff_do_rt_device(struct diff_call *call)
{
    int device = 77;

    if (!there_is(call))
        return;
    say(call, runtime.cudaSetDevice((int)call->op->args[0]));
    diff_code(call, "again", (CUresult)runtime.cudaGetDevice(&device));
    diff_say(call, " device=%d context=%d", device, call->ctx);
}

void diff_do_rt_error(struct diff_call *call)
{
    if (!there_is(call))
        return;
    diff_code(call, "peek", (CUresult)runtime.cudaPeekAtLastError());
    diff_code(call, "last", (CUresult)runtime.cudaGetLastError());
    diff_code(call, "again", (CUresult)runtime.cudaGetLastError());
}
