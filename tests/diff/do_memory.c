/*
 * do_memory.c - device, pitched, managed, pinned and registered memory: made and freed,
 * rightly and wrongly.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "do.h"

/* What an out-parameter holds before the call, to see if it was written. */
#define UNTOUCHED 0x5a5a5a5a5a5a5a5aull

static void made(struct diff_call *call, struct diff_memory *memory, char kind,
                 CUresult code, uint64_t at, uint64_t bytes)
{
    if (diff_code(call, "code", code) == CUDA_SUCCESS && at) /* of 0 bytes: none */
        diff_memory_made(call, memory, kind, at, bytes);
    else
        diff_say(call, " out=%s", at == UNTOUCHED ? "kept" : at == 0 ? "0" : "set");
    diff_say_full(call, code, bytes);
}

void diff_do_alloc(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    size_t bytes = diff_size(call->op->args[1]);
    CUdeviceptr at = UNTOUCHED;
    CUresult code;

    if (!memory)
        return;
    code = CU(cuMemAlloc)(&at, bytes);
    made(call, memory, 'd', code, at, bytes);
}

void diff_do_alloc_nowhere(struct diff_call *call)
{
    diff_code(call, "code", CU(cuMemAlloc)(NULL, diff_size(call->op->args[0])));
}

static bool unused_anywhere(struct diff_call *call, const struct diff_memory *memory)
{
    bool waits = memory->kind == 'd' || memory->kind == 'p' || memory->kind == 'h' ||
                 memory->kind == 'g' || memory->kind == 'r';

    if (waits ? diff_ordered_but(call->world, memory, memory->ctx)
              : diff_ordered(call->world, memory, -1))
        return true;
    diff_skip(call, "race");
    return false;
}

/* Without a context of its own a thread frees by free_other alone: what is behind it is
 * not compared. */
bool diff_unused(struct diff_call *call, const struct diff_memory *memory)
{
    if (call->ctx < 0 && call->op->kind != DIFF_free_other) {
        diff_skip(call, "context");
        return false;
    }
    return unused_anywhere(call, memory);
}

void diff_freed(struct diff_call *call, struct diff_memory *memory, CUresult code,
                bool host)
{
    diff_say(call, " kind=%c own=%d%s", memory->kind, memory->ctx == call->ctx,
             memory->told ? " told=1" : "");
    memory->told |= code == CUDA_ERROR_ILLEGAL_ADDRESS && (memory->kind == 'h') == host;
    if (diff_code(call, "code", code) != CUDA_SUCCESS)
        return;
    memory->state = DIFF_GONE;
    if (call->world->lean && memory->kind != 'a' && memory->kind != 'n')
        diff_host_waited_context(call->world, memory->ctx);
}

void diff_do_free(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);

    if (memory && diff_unused(call, memory)) {
        diff_freed(call, memory, CU(cuMemFree)(memory->at), false);
    }
}

void diff_do_free_other(struct diff_call *call)
{
    diff_do_free(call);
}

void diff_do_free_elsewhere(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_slot *ctx = memory ? diff_slot_of(call, DIFF_CTX, 1) : NULL;
    CUcontext was;

    if (!ctx || !diff_unused(call, memory) ||
        diff_code(call, "push", CU(cuCtxPushCurrent)((CUcontext)(uintptr_t)ctx->value)))
        return;
    diff_freed(call, memory, CU(cuMemFree)(memory->at), false);
    diff_code(call, "pop", CU(cuCtxPopCurrent)(&was));
}

/* Some way into an allocation. */
static uint64_t inside(const struct diff_memory *memory, int64_t which)
{
    const uint64_t steps[] = {1, 8, 256, 512, memory->bytes / 2, memory->bytes - 1};

    return memory->at + steps[which % 6] % (memory->bytes ? memory->bytes : 1);
}

void diff_do_free_inside(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    uint64_t at;

    if (!memory)
        return;
    at = inside(memory, call->op->args[1]);
    if (at == memory->at)
        diff_skip(call, "start");
    else
        diff_code(call, "code", CU(cuMemFree)(at));
}

void diff_do_free_again(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_gone(call, 0);

    if (memory)
        diff_code(call, "code", CU(cuMemFree)(memory->at));
}

static uint64_t odd_address(int64_t which)
{
    static unsigned char own[64];
    const uint64_t odd[] = {0, 16, (uint64_t)(uintptr_t)own, UINT64_MAX, 1ull << 46};

    return odd[which % 5];
}

void diff_do_free_odd(struct diff_call *call)
{
    diff_code(call, "code", CU(cuMemFree)(odd_address(call->op->args[0])));
}

/* Memory whose free told that its context has failed; at most a unit each for its ends.
 */
static uint64_t bytes_of_failed_frees(const struct diff_world *world)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < DIFF_SLOTS; i++)
        if (world->memory[i].state == DIFF_LIVE && world->memory[i].told)
            bytes += world->memory[i].bytes + (2u << 20);
    return bytes;
}

/* Behind running work the library counts no idle memory: in the hostile schedule work
 * runs as late as it may. */
static bool work_is_late(void)
{
    const char *schedule = getenv("CUDASIM_SCHEDULE"); /* NOLINT(concurrency-mt-unsafe) */

    return schedule && strcmp(schedule, "hostile") == 0;
}

void diff_do_info(struct diff_call *call)
{
    size_t available = 1, total = 1;
    int64_t which = call->op->args[0];
    CUresult code =
        CU(cuMemGetInfo)(which == 1 ? NULL : &available, which == 2 ? NULL : &total);

    if (diff_code(call, "code", code) != CUDA_SUCCESS)
        return;
    diff_say(call, " total=%zu", total);
    if (!call->world->pools && !work_is_late()) /* what those keep is a matter of time */
        diff_say(call, " free=%zu", available);
    if (bytes_of_failed_frees(call->world))
        diff_say(call, " failed=%llu",
                 (unsigned long long)bytes_of_failed_frees(call->world));
}

/* ---- pitched and managed ------------------------------------------------------------
 */

void diff_do_pitch_alloc(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    const unsigned elements[] = {4, 8, 16, 3};
    size_t width = diff_size(call->op->args[1]), height = (size_t)call->op->args[2];
    CUdeviceptr at = UNTOUCHED;
    size_t pitch = 0;
    CUresult code;

    if (!memory)
        return;
    if (width > 70000)
        width %= 70000;
    code =
        CU(cuMemAllocPitch)(&at, &pitch, width, height, elements[call->op->args[3] % 4]);
    made(call, memory, 'p', code, at, pitch * height);
    if (code == CUDA_SUCCESS) {
        memory->pitch = pitch;
        memory->width = width;
        memory->height = height;
        diff_say(call, " pitch=%zu", pitch);
    }
}

void diff_do_managed_alloc(struct diff_call *call)
{
    static const unsigned flags[] = {CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST, 0, 8};
    struct diff_memory *memory = diff_memory_free(call, 0);
    size_t bytes = diff_size(call->op->args[1]);
    CUdeviceptr at = UNTOUCHED;
    CUresult code;

    /* It is the machine's memory: no device refuses too much of it. */
    if (bytes > (64u << 20))
        bytes &= 0xffffff;
    if (!memory)
        return;
    code = CU(cuMemAllocManaged)(&at, bytes, flags[call->op->args[2] % 4]);
    made(call, memory, 'g', code, at, bytes);
}

void diff_do_advise(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};

    if (call->op->args[2] == 1)
        location.type = CU_MEM_LOCATION_TYPE_HOST;
    else if (call->op->args[2] == 2)
        location.id = 1;
    if (memory)
        diff_code(call, "code",
                  CU(cuMemAdvise)(memory->at, memory->bytes,
                                  (CUmem_advise)(call->op->args[1] + 1), location));
}

void diff_do_prefetch(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    struct diff_use use;

    if (call->op->args[1] == 1)
        location.type = CU_MEM_LOCATION_TYPE_HOST;
    if (memory && diff_use_stream(call, 2, memory, NULL, &use))
        diff_used(call, &use,
                  diff_code(call, "code",
                            CU(cuMemPrefetchAsync)(memory->at, memory->bytes, location, 0,
                                                   use.stream)),
                  memory, NULL);
}

/* Of a part of it. */
void diff_do_advise_part(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    struct diff_part part;

    if (!memory)
        return;
    part = diff_part_of(memory, call->op->args[2]);
    diff_code(call, "code",
              CU(cuMemAdvise)(memory->at + part.at, part.bytes,
                              (CUmem_advise)(call->op->args[1] + 1), location));
}

void diff_do_attach(struct diff_call *call)
{
    static const unsigned flags[] = {CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST,
                                     CU_MEM_ATTACH_SINGLE, 7};
    struct diff_memory *memory = diff_memory_of(call, 0);
    const uint64_t lengths[] = {0, memory ? memory->bytes : 0,
                                memory ? memory->bytes / 2 : 0};
    struct diff_use use;

    if (memory && diff_use_stream(call, 2, memory, NULL, &use))
        diff_used(call, &use,
                  diff_code(call, "code",
                            CU(cuStreamAttachMemAsync)(use.stream, memory->at,
                                                       lengths[call->op->args[1] / 4 % 3],
                                                       flags[call->op->args[1] % 4])),
                  memory, NULL);
}

void diff_do_range_attribute(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    int value = 77;

    if (memory && diff_code(call, "code",
                            CU(cuMemRangeGetAttribute)(
                                &value, sizeof(value),
                                (CUmem_range_attribute)(call->op->args[1] + 1),
                                memory->at, memory->bytes)) == CUDA_SUCCESS)
        diff_say(call, " value=%d", value);
}

/* ---- pinned and registered ----------------------------------------------------------
 */

static size_t host_size(int64_t argument)
{
    size_t bytes = diff_size(argument);

    return bytes > (64u << 20) ? bytes & 0xffffff : bytes;
}

void diff_do_host_alloc(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    size_t bytes = host_size(call->op->args[1]);
    void *at = (void *)(uintptr_t)UNTOUCHED;
    CUresult code;

    if (!memory)
        return;
    code = CU(cuMemHostAlloc)(&at, bytes, (unsigned)call->op->args[2]);
    made(call, memory, 'h', code, (uintptr_t)at, bytes);
}

void diff_do_host_plain(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    size_t bytes = host_size(call->op->args[1]);
    void *at = (void *)(uintptr_t)UNTOUCHED;
    CUresult code;

    if (!memory)
        return;
    code = CU(cuMemAllocHost)(&at, bytes);
    made(call, memory, 'h', code, (uintptr_t)at, bytes);
}

void diff_do_host_free(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);

    if (memory && diff_unused(call, memory)) {
        diff_freed(call, memory, CU(cuMemFreeHost)((void *)(uintptr_t)memory->at), true);
    }
}

void diff_do_host_inside(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    uint64_t at;

    if (!memory)
        return;
    at = inside(memory, call->op->args[1]);
    if (at == memory->at)
        diff_skip(call, "start");
    else
        diff_code(call, "code", CU(cuMemFreeHost)((void *)(uintptr_t)at));
}

void diff_do_host_again(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_gone(call, 0);

    if (memory)
        diff_code(call, "code", CU(cuMemFreeHost)((void *)(uintptr_t)memory->at));
}

void diff_do_host_odd(struct diff_call *call)
{
    diff_code(call, "code",
              CU(cuMemFreeHost)((void *)(uintptr_t)odd_address(call->op->args[0])));
}

void diff_do_host_register(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    size_t bytes = host_size(call->op->args[1]);
    void *at;
    CUresult code;

    if (!memory)
        return;
    /* Never unmapped: a stale address is nobody else's then. */
    at = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
              0);
    if (at == MAP_FAILED)
        return;
    code = CU(cuMemHostRegister)(at, bytes, (unsigned)call->op->args[2]);
    made(call, memory, 'r', code, (uintptr_t)at, bytes);
}

/* Pages of which some are pinned already, or registered. */
void diff_do_host_register_inside(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    uint64_t at;

    if (!memory || (memory->kind != 'h' && memory->kind != 'r'))
        return;
    at = inside(memory, call->op->args[1]);
    diff_say_memory(call, memory);
    diff_code(
        call, "code",
        CU(cuMemHostRegister)((void *)(uintptr_t)at, memory->at + memory->bytes - at, 0));
}

void diff_do_host_unregister_inside(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    uint64_t at;

    if (!memory)
        return;
    at = inside(memory, call->op->args[1]);
    if (at == memory->at)
        diff_skip(call, "start");
    else
        diff_code(call, "code", CU(cuMemHostUnregister)((void *)(uintptr_t)at));
}

void diff_do_host_registered(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);

    if (memory)
        diff_code(call, "code",
                  CU(cuMemHostRegister)((void *)(uintptr_t)memory->at, memory->bytes,
                                        (unsigned)call->op->args[1]));
}

void diff_do_host_unregister(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);

    if (memory && diff_unused(call, memory)) {
        diff_freed(call, memory, CU(cuMemHostUnregister)((void *)(uintptr_t)memory->at),
                   false);
    }
}

void diff_do_host_flags(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    unsigned flags = 77;

    if (!memory)
        return;
    diff_say_memory(call, memory);
    if (diff_code(call, "code",
                  CU(cuMemHostGetFlags)(
                      &flags, (void *)(uintptr_t)inside(memory, call->op->args[1]))) ==
        CUDA_SUCCESS)
        diff_say(call, " flags=%u", flags);
}

void diff_do_host_pointer(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    CUdeviceptr at = UNTOUCHED;

    if (!memory)
        return;
    diff_say_memory(call, memory);
    if (diff_code(call, "code",
                  CU(cuMemHostGetDevicePointer)(
                      &at, (void *)(uintptr_t)inside(memory, call->op->args[1]), 0)) ==
        CUDA_SUCCESS)
        diff_say_where(call, "at", at);
}

/* The host may touch what no stream uses. */
static bool hosts_own(struct diff_call *call, const struct diff_memory *memory)
{
    if ((memory->kind == 'h' || memory->kind == 'r' || memory->kind == 'g') &&
        diff_ordered(call->world, memory, -1))
        return true;
    diff_skip(call, "race");
    return false;
}

void diff_do_host_write(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_part part;

    if (!memory || !hosts_own(call, memory))
        return;
    part = diff_part_of(memory, call->op->args[1]);
    memcpy((char *)(uintptr_t)memory->at + part.at,
           diff_bytes(part.bytes, call->op->args[2]), part.bytes);
    diff_define(memory, part);
}

void diff_do_host_read(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_part part;

    if (!memory || !hosts_own(call, memory))
        return;
    part = diff_part_of(memory, call->op->args[1]);
    diff_say(call, " hash=%llx",
             (unsigned long long)diff_hash(
                 memory, part, (unsigned char *)(uintptr_t)memory->at + part.at));
}
