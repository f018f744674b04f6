/*
 * notify.c - sends notifications to a simulated driver.
 * Owns:  gs_notify_to.   Lock: none; written once before the driver's table is published.
 */
#include "shim/link/notify.h"

#include "shim/link/real.h"

cudasim_notify_function *gs_notify_to;

void gs_notify_find(void *function)
{
    const struct cudasim_note question = {.size = sizeof(question),
                                          .kind = CUDASIM_LISTENS};
    cudasim_notify_function *notify = (cudasim_notify_function *)function;
    if (notify && notify(&question) == 0) {
        gs_notify_to = notify;
    }
}

static void send(struct cudasim_note note)
{
    note.size = sizeof(note);
    gs_notify_to(&note);
}

void gs_notify_enter(const char *call, bool native_waits)
{
    send((struct cudasim_note){
        .kind = CUDASIM_ENTER, .call = call, .native_waits = native_waits});
}

void gs_notify_enter_free(const char *call, uint64_t addr, size_t bytes)
{
    send((struct cudasim_note){.kind = CUDASIM_ENTER,
                               .call = call,
                               .address = addr,
                               .bytes = bytes,
                               .native_waits = true});
}

void gs_notify_plain(enum cudasim_note_kind kind)
{
    send((struct cudasim_note){.kind = kind});
}

void gs_notify_hand_out(enum gs_api api, uint64_t addr, size_t bytes, CUstream stream,
                        bool ordered)
{
    send((struct cudasim_note){.kind = CUDASIM_HAND_OUT,
                               .call = gs_api_name(api),
                               .address = addr,
                               .bytes = bytes,
                               .stream = ordered ? stream : NULL,
                               .stream_ordered = ordered});
}

void gs_notify_take_back(enum gs_api api, uint64_t addr)
{
    send((struct cudasim_note){
        .kind = CUDASIM_TAKE_BACK, .call = gs_api_name(api), .address = addr});
    gs_notify_plain(CUDASIM_YIELD);
}

void gs_notify_take_back_in(enum gs_api api, uint64_t addr, CUstream stream,
                            bool per_thread)
{
    send((struct cudasim_note){.kind = CUDASIM_TAKE_BACK,
                               .call = gs_api_name(api),
                               .address = addr,
                               .stream = stream,
                               .stream_ordered = true,
                               .per_thread = per_thread});
    gs_notify_plain(CUDASIM_YIELD);
}

void gs_notify_proof(uint64_t addr, CUevent event)
{
    send((struct cudasim_note){.kind = CUDASIM_RETIRE, .address = addr, .event = event});
}

void gs_notify_proof_of(uint64_t addr, CUevent event, unsigned more)
{
    send((struct cudasim_note){
        .kind = CUDASIM_RETIRE, .address = addr, .bytes = more, .event = event});
}
