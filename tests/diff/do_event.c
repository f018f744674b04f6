/*
 * do_event.c - events that processes share. Who of them recorded last is not followed, so
 * such an event puts nothing in order here.
 */
#include <string.h>

#include "do.h"

void diff_do_event_shared(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_free(call, DIFF_EVENT, 0);
    unsigned flags = CU_EVENT_INTERPROCESS;
    CUevent event = NULL;

    if (call->op->args[1]) /* without it the flag is refused */
        flags |= CU_EVENT_DISABLE_TIMING;
    if (!slot || diff_code(call, "code", CU(cuEventCreate)(&event, flags)))
        return;
    diff_slot_made(call, slot, (uint64_t)(uintptr_t)event);
    slot->shared = true;
}

void diff_do_event_give(struct diff_call *call)
{
    struct diff_slot *event = diff_slot_of(call, DIFF_EVENT, 0);
    struct diff_slot *slot = event ? diff_slot_free(call, DIFF_HANDLE, 1) : NULL;
    CUipcEventHandle handle;

    if (!slot ||
        diff_code(call, "code",
                  CU(cuIpcGetEventHandle)(&handle, (CUevent)(uintptr_t)event->value)))
        return;
    diff_slot_made(call, slot, 0);
    slot->shared = true;
    memcpy(slot->handle, &handle, sizeof(handle));
}

void diff_do_event_take(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_free(call, DIFF_EVENT, 0);
    const struct diff_slot *given =
        &call->world->slots[DIFF_HANDLE][(uint64_t)call->op->args[1] % DIFF_SLOTS];
    CUipcEventHandle handle;
    CUevent event = NULL;

    if (!slot)
        return;
    if (given->state != DIFF_LIVE) {
        diff_skip(call, "none");
        return;
    }
    diff_say(call, " own=%d event=%d", given->process == call->op->process,
             given->shared);
    memcpy(&handle, given->handle, sizeof(handle));
    if (diff_code(call, "code", CU(cuIpcOpenEventHandle)(&event, handle)))
        return;
    diff_slot_made(call, slot, (uint64_t)(uintptr_t)event);
    slot->shared = true;
}
