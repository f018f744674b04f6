/*
 * do_question.c - what the driver says about an address. The answer tells kind and size
 * of the memory too, for the relation (relation.def).
 */
#include <string.h>

#include "do.h"

static uint64_t inside(const struct diff_memory *memory, int64_t which)
{
    const uint64_t steps[] = {0, 1, 8, 511, memory->bytes / 2, memory->bytes - 1};

    return memory->at + steps[which % 6] % (memory->bytes ? memory->bytes : 1);
}

void diff_say_memory(struct diff_call *call, const struct diff_memory *memory)
{
    diff_say(call, " kind=%c bytes=%llu%s%s", memory->kind,
             (unsigned long long)memory->bytes, memory->told ? " told=1" : "",
             memory->in_order ? " freed=ordered" : "");
}

/* How far in front of the memory an address is. */
static void say_before(struct diff_call *call, const char *name,
                       const struct diff_memory *memory, uint64_t address)
{
    diff_say(call, " %s=%lld", name, (long long)(memory->at - address));
}

void diff_do_range(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    CUdeviceptr base = 1;
    size_t bytes = 1;

    if (!memory)
        return;
    diff_say_memory(call, memory);
    if (diff_code(
            call, "code",
            CU(cuMemGetAddressRange)(&base, &bytes, inside(memory, call->op->args[1]))))
        return;
    say_before(call, "before", memory, base);
    diff_say(call, " size=%zu", bytes);
}

void diff_do_range_again(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_gone(call, 0);
    CUdeviceptr base;
    size_t bytes;

    if (!memory)
        return;
    diff_say_memory(call, memory);
    diff_code(call, "code", CU(cuMemGetAddressRange)(&base, &bytes, memory->at));
}

/* Has the memory the id it had before, and has it that alone? */
static void say_id(struct diff_call *call, struct diff_memory *memory, uint64_t id)
{
    if (memory->id)
        diff_say(call, " again=%d", memory->id == id);
    memory->id = id;
    for (unsigned i = 0; i < DIFF_SLOTS; i++) {
        const struct diff_memory *other = &call->world->memory[i];

        if (other != memory && other->state == DIFF_LIVE && other->id == id &&
            other->process == memory->process)
            diff_say(call, " shared=m%u", i);
    }
}

/* The handle of a pool that was destroyed comes again, so pools are not told apart. */
static void say_pool(struct diff_call *call, CUmemoryPool pool)
{
    CUmemoryPool known = NULL;

    diff_say(call, " pool=%s",
             !pool                                                       ? "0"
             : CU(cuDeviceGetDefaultMemPool)(&known, 0) || known != pool ? "other"
                                                                         : "default");
}

/* Where a pool places memory depends on what has come back to it by then. */
static bool of_its_place(CUpointer_attribute attribute)
{
    return attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
           attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID ||
           attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE;
}

static void say_attribute(struct diff_call *call, struct diff_memory *memory,
                          CUpointer_attribute attribute, uint64_t value)
{
    if (attribute == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR ||
        (memory->kind == 'a' && of_its_place(attribute)))
        return;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        diff_say(call, " context=%d",
                 diff_context_slot(call->world, call->op->process,
                                   (CUcontext)(uintptr_t)value));
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        diff_say_where(call, "at", value);
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        say_id(call, memory, value);
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        say_before(call, "before", memory, value);
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        diff_say(call, " size=%llu", (unsigned long long)value);
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        say_pool(call, (CUmemoryPool)(uintptr_t)value);
        break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        break;
    default: /* a number of four bytes or one */
        diff_say(call, " value=%llu", (unsigned long long)value);
    }
}

void diff_do_attribute(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    CUpointer_attribute attribute = (CUpointer_attribute)(call->op->args[1] + 1);
    uint64_t value[2] = {0, 0};

    if (!memory)
        return;
    diff_say_memory(call, memory);
    if (diff_code(call, "code",
                  CU(cuPointerGetAttribute)(value, attribute,
                                            inside(memory, call->op->args[2]))) ==
        CUDA_SUCCESS)
        say_attribute(call, memory, attribute, value[0]);
}

void diff_do_attribute_again(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_gone(call, 0);
    uint64_t value[2] = {0, 0};

    if (!memory)
        return;
    diff_say_memory(call, memory);
    diff_code(call, "code",
              CU(cuPointerGetAttribute)(
                  value, (CUpointer_attribute)(call->op->args[1] + 1), memory->at));
}

void diff_do_attributes(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    uint64_t values[4] = {0, 0, 0, 0};
    void *data[] = {&values[0], &values[1], &values[2], &values[3]};

    if (!memory)
        return;
    diff_say_memory(call, memory);
    if (diff_code(call, "code",
                  CU(cuPointerGetAttributes)(4, attributes, data,
                                             inside(memory, call->op->args[1]))))
        return;
    for (unsigned i = 0; i < 4; i++)
        say_attribute(call, memory, attributes[i], values[i]);
}

void diff_do_mark_inside(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    unsigned value = (unsigned)call->op->args[1];

    if (!memory)
        return;
    diff_say_memory(call, memory);
    diff_code(call, "code",
              CU(cuPointerSetAttribute)(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                        inside(memory, call->op->args[2])));
}

void diff_do_mark(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    unsigned value = (unsigned)call->op->args[1];

    if (!memory)
        return;
    diff_say_memory(call, memory);
    diff_code(
        call, "code",
        CU(cuPointerSetAttribute)(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory->at));
}
