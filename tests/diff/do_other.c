/*
 * do_other.c - virtual memory management, arrays, memory of another process, children.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "do.h"

#define UNIT ((size_t)2 << 20)

/* ---- virtual memory management ------------------------------------------------------
 */

void diff_do_physical_new(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_free(call, DIFF_PHYSICAL, 0);
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                     .id = (int)(call->op->args[2] % call->list->devices)}};
    CUmemGenericAllocationHandle handle = 0;
    size_t bytes = diff_size(call->op->args[1]);
    CUresult code;

    if (!slot)
        return;
    if (bytes % 3 && bytes < SIZE_MAX - UNIT) /* one in three is refused for its size */
        bytes = (bytes + UNIT - 1) / UNIT * UNIT;
    code = diff_code(call, "code", CU(cuMemCreate)(&handle, bytes, &properties, 0));
    diff_say_full(call, code, bytes);
    if (code != CUDA_SUCCESS)
        return;
    diff_slot_made(call, slot, handle);
    slot->bytes = bytes;
}

void diff_do_physical_end(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_of(call, DIFF_PHYSICAL, 0);

    if (slot && diff_code(call, "code", CU(cuMemRelease)(slot->value)) == CUDA_SUCCESS)
        slot->state = DIFF_GONE;
}

/* Memory at two addresses has contents that neither of them tells. */
static bool mapped(const struct diff_world *world, unsigned physical)
{
    for (unsigned i = 0; i < DIFF_SLOTS; i++)
        if (world->memory[i].state == DIFF_LIVE && world->memory[i].kind == 'v' &&
            world->memory[i].physical == physical)
            return true;
    return false;
}

void diff_do_map(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    struct diff_slot *physical = memory ? diff_slot_of(call, DIFF_PHYSICAL, 1) : NULL;
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                           .id = (int)call->op->args[2] % 2},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    unsigned number = (unsigned)((uint64_t)call->op->args[1] % DIFF_SLOTS);
    CUdeviceptr at = 0;

    if (!physical)
        return;
    if (mapped(call->world, number)) {
        diff_skip(call, "mapped");
        return;
    }
    if (diff_code(call, "reserve",
                  CU(cuMemAddressReserve)(&at, physical->bytes, 0, 0, 0)))
        return;
    if (diff_code(call, "code", CU(cuMemMap)(at, physical->bytes, 0, physical->value, 0)))
        return;
    if (call->op->args[2] < 2)
        diff_code(call, "access", CU(cuMemSetAccess)(at, physical->bytes, &access, 1));
    diff_memory_made(call, memory, 'v', at, physical->bytes);
    memory->physical = number;
    memory->handle = physical->value;
}

void diff_do_unmap(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);

    if (!memory)
        return;
    if (!diff_ordered(call->world, memory, -1)) {
        diff_skip(call, "race");
        return;
    }
    if (diff_code(call, "code", CU(cuMemUnmap)(memory->at, memory->bytes)))
        return;
    diff_code(call, "unreserve", CU(cuMemAddressFree)(memory->at, memory->bytes));
    memory->state = DIFF_GONE;
}

/* ---- arrays -------------------------------------------------------------------------
 */

void diff_do_array_new(struct diff_call *call)
{
    static const CUarray_format formats[] = {CU_AD_FORMAT_UNSIGNED_INT8,
                                             CU_AD_FORMAT_FLOAT, (CUarray_format)0x99};
    struct diff_slot *slot = diff_slot_free(call, DIFF_ARRAY, 0);
    CUDA_ARRAY_DESCRIPTOR description = {.Width = (size_t)call->op->args[1] * 4,
                                         .Height = (size_t)call->op->args[2],
                                         .Format = formats[call->op->args[3] % 3],
                                         .NumChannels = 1};
    CUarray array = NULL;
    CUresult code;

    if (!slot)
        return;
    code = diff_code(call, "code", CU(cuArrayCreate)(&array, &description));
    diff_say_full(call, code, 16384);
    if (code != CUDA_SUCCESS)
        return;
    diff_slot_made(call, slot, (uint64_t)(uintptr_t)array);
    slot->bytes = description.Width * (description.Format == CU_AD_FORMAT_FLOAT ? 4 : 1);
}

void diff_do_array_end(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_of(call, DIFF_ARRAY, 0);

    if (slot &&
        diff_code(call, "code", CU(cuArrayDestroy)((CUarray)(uintptr_t)slot->value)) ==
            CUDA_SUCCESS)
        slot->state = DIFF_GONE;
}

void diff_do_array_copy(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_of(call, DIFF_ARRAY, 0);
    struct diff_memory row = {.spans = 1};
    unsigned char back[4096];
    CUarray array;

    if (!slot)
        return;
    array = (CUarray)(uintptr_t)slot->value;
    row.to[0] = slot->bytes < sizeof(back) ? slot->bytes : sizeof(back);
    memset(back, 0, sizeof(back));
    diff_code(
        call, "code",
        CU(cuMemcpyHtoA)(array, 0, diff_bytes(row.to[0], call->op->args[1]), row.to[0]));
    diff_code(call, "again", CU(cuMemcpyAtoH)(back, array, 0, row.to[0]));
    diff_say(call, " hash=%llx",
             (unsigned long long)diff_hash(&row, (struct diff_part){0, row.to[0]}, back));
}

/* ---- memory of another process ------------------------------------------------------
 */

/* The handle of memory, by an address so far inside. */
static void give(struct diff_call *call, uint64_t inside)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_slot *slot = memory ? diff_slot_free(call, DIFF_HANDLE, 1) : NULL;
    CUipcMemHandle handle;

    if (!slot)
        return;
    if (inside > 0 && inside >= memory->bytes) {
        diff_skip(call, "start");
        return;
    }
    diff_say_memory(call, memory);
    if (diff_code(call, "code", CU(cuIpcGetMemHandle)(&handle, memory->at + inside)))
        return;
    diff_slot_made(call, slot, (uint64_t)(memory - call->world->memory));
    slot->lives[0] = memory->life;
    memcpy(slot->handle, &handle, sizeof(handle));
}

void diff_do_ipc_give(struct diff_call *call)
{
    give(call, 0);
}

void diff_do_ipc_give_inside(struct diff_call *call)
{
    static const uint64_t steps[] = {1, 256, 512, 4096, 65536, 2 << 20};

    give(call, steps[call->op->args[2] % 6]);
}

/* Has the process something open that its owner has freed since? */
static bool has_stale_import(const struct diff_call *call)
{
    for (unsigned i = 0; i < DIFF_SLOTS; i++) {
        const struct diff_memory *memory = &call->world->memory[i];
        const struct diff_memory *source = &call->world->memory[memory->source];

        if (memory->state == DIFF_LIVE && memory->kind == 'i' &&
            memory->process == call->op->process &&
            (source->state != DIFF_LIVE || source->life != memory->source_life))
            return true;
    }
    return false;
}

void diff_do_ipc_take(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_free(call, 0);
    struct diff_slot *slot =
        &call->world->slots[DIFF_HANDLE][(uint64_t)call->op->args[1] % DIFF_SLOTS];
    const struct diff_memory *source = &call->world->memory[slot->value];
    CUipcMemHandle handle;
    CUdeviceptr at = 0;

    if (!memory)
        return;
    if (slot->state != DIFF_LIVE || slot->shared) {
        diff_skip(call, "none");
        return;
    }
    const bool again = source->life != slot->lives[0]; /* the slot has other memory now */

    /* Gone, but in a stream's order: when is a matter of time. */
    if ((source->state == DIFF_GONE && !diff_ordered(call->world, source, -1)) ||
        (again && diff_lost(call->world))) {
        diff_skip(call, "race");
        return;
    }
    diff_say(call, " own=%d stale=%d bytes=%llu%s", slot->process == call->op->process,
             source->state != DIFF_LIVE || again, (unsigned long long)source->bytes,
             has_stale_import(call) ? " beside=stale" : "");
    memcpy(&handle, slot->handle, sizeof(handle));
    if (diff_code(call, "code",
                  CU(cuIpcOpenMemHandle)(&at, handle, (unsigned)call->op->args[2])))
        return;
    diff_memory_made(call, memory, 'i', at, source->bytes);
    memory->source = (uint32_t)slot->value;
    memory->source_life = slot->lives[0];
}

void diff_do_ipc_close(struct diff_call *call)
{
    struct diff_memory *memory =
        &call->world->memory[(uint64_t)call->op->args[0] % DIFF_SLOTS];

    if (memory->state != DIFF_LIVE || memory->process != call->op->process) {
        diff_skip(call, "none");
        return;
    }
    diff_say(call, " kind=%c", memory->kind);
    if (diff_code(call, "code", CU(cuIpcCloseMemHandle)(memory->at)) == CUDA_SUCCESS)
        memory->state = DIFF_GONE;
}

/* ---- children -----------------------------------------------------------------------
 */

void diff_do_child(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    int codes[5] = {0}, ends[2], status = 0;
    CUdeviceptr at = 0;
    size_t available, total;
    void *host = NULL;
    pid_t child;

    if (!memory || pipe(ends) != 0)
        return;
    child = fork();
    if (child == 0) {
        codes[0] = (int)CU(cuMemAlloc)(&at, 4096);
        codes[1] = (int)CU(cuMemFree)(memory->at);
        codes[2] = (int)CU(cuMemHostAlloc)(&host, 4096, 0);
        codes[3] = (int)CU(cuMemGetInfo)(&available, &total);
        codes[4] = (int)CU(cuCtxSynchronize)();
        _exit(write(ends[1], codes, sizeof(codes)) == sizeof(codes) ? 0 : 1);
    }
    close(ends[1]);
    if (child > 0 && read(ends[0], codes, sizeof(codes)) != sizeof(codes))
        diff_say(call, " died");
    close(ends[0]);
    if (child > 0)
        waitpid(child, &status, 0);
    diff_say(call, " code=%d free=%d host=%d info=%d wait=%d status=%d", codes[0],
             codes[1], codes[2], codes[3], codes[4], status);
}
