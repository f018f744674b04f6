/*
 * unpooled.c - the unpooled allocation of each thread.
 * Owns, Lock: see unpooled.h.
 */
#include "shim/heaps/unpooled.h"

#include "shim/heaps/context_backend.h"
#include "shim/memory/tell.h"

static _Thread_local struct {
    const struct gs_context *context; /* NULL: none */
    uint64_t addr;
    size_t bytes;
} kept __attribute__((tls_model("initial-exec")));

bool gs_unpooled_put(const struct gs_context *context, uint64_t addr, size_t bytes)
{
    if (kept.context) {
        return false;
    }
    kept.context = context;
    kept.addr = addr;
    kept.bytes = bytes;
    return true;
}

bool gs_unpooled_hand_out(struct gs_state *state, const struct gs_call *request,
                          CUdeviceptr *out, size_t bytes)
{
    struct gs_call call = *request;
    if (!out || !request->context || kept.context != request->context ||
        kept.bytes != bytes) {
        return false;
    }
    *out = kept.addr;
    kept.context = NULL;
    call.charged = call.handed_out = true;
    gs_tell_allocated(state, &call, *out, bytes);
    return true;
}

void gs_unpooled_drop(void)
{
    struct gs_context *context = (struct gs_context *)(uintptr_t)kept.context;
    kept.context = NULL;
    if (context) {
        gs_context_backend.unmap(context, kept.addr, kept.bytes);
    }
}
