/*
 * do_context.c - contexts, primary and created; peers.
 */
#include "do.h"

static CUcontext handle(const struct diff_slot *slot)
{
    return (CUcontext)(uintptr_t)slot->value;
}

void diff_do_context_new(struct diff_call *call)
{
    unsigned number =
        DIFF_PRIMARIES + (unsigned)call->op->args[0] % (DIFF_CONTEXTS - DIFF_PRIMARIES);
    struct diff_slot *slot = &call->world->slots[DIFF_CTX][number];
    CUcontext context = NULL;

    if (slot->state == DIFF_LIVE) {
        diff_skip(call, "taken");
        return;
    }
    if (diff_code(call, "code",
                  CU(cuCtxCreate)(&context, NULL, (unsigned)call->op->args[2],
                                  (CUdevice)call->op->args[1])))
        return;
    diff_slot_made(call, slot, (uint64_t)(uintptr_t)context);
    slot->device = (uint8_t)call->op->args[1];
}

void diff_do_context_end(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_of(call, DIFF_CTX, 0);
    unsigned number = (unsigned)((uint64_t)call->op->args[0] % DIFF_SLOTS);

    if (!slot)
        return;
    if (!diff_context_free_to_end(call->world, number)) {
        diff_skip(call, "race");
        return;
    }
    if (diff_code(call, "code", CU(cuCtxDestroy)(handle(slot))))
        return;
    slot->state = DIFF_GONE;
    diff_context_gone(call->world, number);
}

void diff_do_context_push(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_of(call, DIFF_CTX, 0);

    if (slot)
        diff_code(call, "code", CU(cuCtxPushCurrent)(handle(slot)));
}

void diff_do_context_pop(struct diff_call *call)
{
    CUcontext context = NULL;

    if (diff_code(call, "code", CU(cuCtxPopCurrent)(&context)) == CUDA_SUCCESS)
        diff_say(call, " context=%d", call->ctx);
}

void diff_do_context_set(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_of(call, DIFF_CTX, 0);

    if (slot)
        diff_code(call, "code", CU(cuCtxSetCurrent)(handle(slot)));
}

void diff_do_context_ask(struct diff_call *call)
{
    CUcontext context = NULL;
    CUdevice device = 77;
    unsigned flags = 77;

    diff_code(call, "code", CU(cuCtxGetCurrent)(&context));
    diff_code(call, "device", CU(cuCtxGetDevice)(&device));
    diff_code(call, "flags", CU(cuCtxGetFlags)(&flags));
    diff_say(call, " context=%d device=%d flags=%u", call->ctx, (int)device, flags);
}

/* ---- primary contexts: slots 0 and 1 of a process; bytes: how often retained ---------
 */

static unsigned primary(const struct diff_call *call)
{
    return call->op->process * 2u + (unsigned)call->op->args[0] % 2;
}

void diff_do_primary_retain(struct diff_call *call)
{
    struct diff_slot *slot = &call->world->slots[DIFF_CTX][primary(call)];
    CUcontext context = NULL;

    if (diff_code(call, "code",
                  CU(cuDevicePrimaryCtxRetain)(&context, (CUdevice)call->op->args[0])))
        return;
    if (slot->state != DIFF_LIVE) {
        diff_slot_made(call, slot, (uint64_t)(uintptr_t)context);
        slot->device = (uint8_t)call->op->args[0];
    }
    slot->bytes++;
    diff_say(call, " same=%d", slot->value == (uint64_t)(uintptr_t)context);
}

void diff_do_primary_release(struct diff_call *call)
{
    unsigned number = primary(call);
    struct diff_slot *slot = &call->world->slots[DIFF_CTX][number];

    if (!diff_context_free_to_end(call->world, number)) {
        diff_skip(call, "race");
        return;
    }
    if (diff_code(call, "code",
                  CU(cuDevicePrimaryCtxRelease)((CUdevice)call->op->args[0])) ||
        slot->bytes == 0 || --slot->bytes > 0)
        return;
    slot->state = DIFF_GONE;
    diff_context_gone(call->world, number);
}

void diff_do_primary_reset(struct diff_call *call)
{
    unsigned number = primary(call);

    if (!diff_context_free_to_end(call->world, number)) {
        diff_skip(call, "race");
        return;
    }
    if (diff_code(call, "code",
                  CU(cuDevicePrimaryCtxReset)((CUdevice)call->op->args[0])) ==
        CUDA_SUCCESS)
        diff_context_gone(call->world, number);
}

void diff_do_primary_state(struct diff_call *call)
{
    unsigned flags = 77;
    int active = 77;

    diff_code(
        call, "code",
        CU(cuDevicePrimaryCtxGetState)((CUdevice)call->op->args[0], &flags, &active));
    diff_say(call, " flags=%u active=%d", flags, active);
}

void diff_do_peer_on(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_of(call, DIFF_CTX, 0);

    if (slot)
        diff_code(call, "code",
                  CU(cuCtxEnablePeerAccess)(handle(slot), (unsigned)call->op->args[1]));
}

void diff_do_peer_off(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_of(call, DIFF_CTX, 0);

    if (slot)
        diff_code(call, "code", CU(cuCtxDisablePeerAccess)(handle(slot)));
}
