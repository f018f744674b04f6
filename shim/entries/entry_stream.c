/*
 * entry_stream.c - the creation of streams.
 *
 * Lazy frees need the table of streams (streams.h). In the other modes these calls are
 * only forwarded, and repeated after idle memory was reclaimed.
 *
 * Owns:  nothing.   Lock: none.
 */
#include "shim/async/async_policy.h"
#include "shim/order/context_events.h"
#include "shim/order/single_order.h"
#include "shim/order/streams.h"

/* Streams are recorded from the first call on: a process that has not started the library
 * yet does not know its mode. */
static void stream_created(CUresult result, const CUstream *stream, unsigned flags)
{
    if (result == CUDA_SUCCESS && stream) {
        gs_streams_add(*stream, !(flags & CU_STREAM_NON_BLOCKING));
    }
}

/* The work of a green context's stream belongs to the device's primary context, which is
 * not current here. */
static void green_stream_created(CUresult result, const CUstream *stream)
{
    if (result == CUDA_SUCCESS && stream) {
        gs_submissions_add_stream((uintptr_t)*stream, -1);
        GS_WITHIN(gs_enter(), gs_async_note_green(state));
    }
}

#define GS_FILE_stream ,
#include "shim/entries/forward.h"
