/*
 * case_copy_peer.c - copies between contexts: cuMemcpyPeer, cuMemcpyPeerAsync. Both
 * contexts are of one device, so that a machine with one will do.
 */
#include "case_memory_help.h"

#include "work.h"

#define BYTES 50000

CASE(copy, peer, DRIVER_API, "cuMemcpyPeer",
     "Copies from device memory in one context to device memory in another context")
{
    CUcontext other = enter_context();
    CUdeviceptr theirs = other ? device_get(BYTES) : 0, ours;

    if (!theirs)
        return;
    CHECK(device_fill(theirs, BYTES, 1));
    regain_context();
    ours = device_get(BYTES);
    CHECK_OK(cuMemcpyPeer(ours, the_context(), theirs, other, BYTES));
    CHECK_OK(cuCtxSynchronize());
    CHECK(device_holds(ours, BYTES, 1));
    CHECK(device_fill(ours, BYTES, 2));
    CHECK_OK(cuMemcpyPeer(theirs + 1, other, ours, the_context(), BYTES - 2));
    CHECK_OK(cuCtxSynchronize());
    CHECK(device_holds(theirs, 1, 1));
    CHECK(device_holds(theirs + 1, BYTES - 2, 2));
    device_put(ours);
    leave_context(other);
}

CASE(copy, peer_async, DRIVER_API, "cuMemcpyPeerAsync",
     "Copies from device memory in one context to device memory in another context; "
     "hStream is the stream identifier")
{
    CUcontext other = enter_context();
    CUdeviceptr theirs = other ? device_get(BYTES) : 0, ours;
    CUstream stream;

    if (!theirs)
        return;
    regain_context();
    ours = device_get(BYTES);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK(device_fill(ours, BYTES, 3));
    CHECK_OK(cuMemcpyPeerAsync(theirs, other, ours, the_context(), BYTES, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(device_holds(theirs, BYTES, 3));
    end_stream(stream);
    device_put(ours);
    leave_context(other);
}

CASE(copy, peer_in_stream_order, DRIVER_API, "cuMemcpyPeerAsync",
     "Copies between two contexts asynchronously in hStream: behind what the stream "
     "was given before")
{
    CUcontext other = enter_context();
    CUdeviceptr theirs = other ? device_get(BYTES) : 0, ours;
    CUstream stream;

    if (!theirs)
        return;
    CHECK_OK(cuMemsetD8(theirs, 0, BYTES));
    CHECK_OK(cuCtxSynchronize());
    regain_context();
    ours = device_get(BYTES);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK_OK(cuMemsetD8Async(ours, 7, BYTES, stream));
    CHECK_OK(cuMemcpyPeerAsync(theirs, other, ours, the_context(), BYTES, stream));
    CHECK_OK(cuMemsetD8Async(ours, 8, BYTES, stream));
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK(device_is(theirs, BYTES, 7));
    end_stream(stream);
    device_put(ours);
    leave_context(other);
}
