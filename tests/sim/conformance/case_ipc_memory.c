/*
 * case_ipc_memory.c - device memory that two processes see: what is seen and written
 * through it from either side.
 */
#include "../kernels/kernels.h"
#include "case_ipc_help.h"
#include "case_memory_help.h"

#define BEFORE 0x33333333u

CASE(ipc, memory_is_seen_there, DRIVER_API, "cuIpcOpenMemHandle",
     "Maps memory exported from another process with cuIpcGetMemHandle into the current "
     "device address space")
{
    struct ipc_pair pair;

    if (!begin_pair(&pair, BYTES))
        return;
    CHECK_EQUAL(word_there(&pair.remote, pair.there), HERE);
    CHECK_EQUAL(word_there(&pair.remote, pair.there + BYTES - 4), HERE);
    end_pair(&pair);
}

CASE(ipc, memory_is_written_here, DRIVER_API, "cuIpcOpenMemHandle",
     "Maps memory: what is written here after the open is seen there")
{
    struct ipc_pair pair;

    if (!begin_pair(&pair, BYTES))
        return;
    CHECK_OK(cuMemsetD32(pair.here + 400, BEFORE, 1));
    CHECK_OK(cuCtxSynchronize());
    CHECK_EQUAL(word_there(&pair.remote, pair.there + 400), BEFORE);
    CHECK_EQUAL(word_there(&pair.remote, pair.there + 404), HERE);
    end_pair(&pair);
}

CASE(ipc, memory_is_written_there, DRIVER_API, "cuIpcOpenMemHandle",
     "Maps memory: what is written there is seen here")
{
    struct ipc_pair pair;

    if (!begin_pair(&pair, BYTES))
        return;
    CHECK_ASKED(remote_ask(&pair.remote, REMOTE_FILL, pair.there + 400, THERE, 10),
                CUDA_SUCCESS);
    CHECK_EQUAL(word_here(pair.here + 396), HERE);
    CHECK_EQUAL(word_here(pair.here + 400), THERE);
    CHECK_EQUAL(word_here(pair.here + 440), HERE);
    end_pair(&pair);
}

CASE(ipc, memory_of_many_units, DRIVER_API, "cuIpcGetMemHandle",
     "Takes a pointer to the base of an existing device memory allocation and exports "
     "it: the whole of it")
{
    const size_t bytes = 9 * GS_MIB + 4;
    struct ipc_pair pair;

    if (!begin_pair(&pair, bytes))
        return;
    CHECK_EQUAL(word_there(&pair.remote, pair.there + bytes - 4), HERE);
    CHECK_ASKED(remote_ask(&pair.remote, REMOTE_FILL, pair.there + bytes - 4, THERE, 1),
                CUDA_SUCCESS);
    CHECK_EQUAL(word_here(pair.here + bytes - 4), THERE);
    end_pair(&pair);
}

CASE(ipc, memory_from_there, DRIVER_API, "cuIpcOpenMemHandle",
     "Maps memory exported from another process: copies between it and one's own")
{
    struct remote remote;
    CUdeviceptr mapped = 0, own = device_get(BYTES);
    CUipcMemHandle handle;

    if (!start_remote(&remote)) {
        device_put(own);
        return;
    }
    struct remote_answer theirs = remote_ask(&remote, REMOTE_ALLOC, BYTES, 0, 0);
    CHECK_ASKED(theirs, CUDA_SUCCESS);
    CHECK_ASKED(remote_ask(&remote, REMOTE_FILL, theirs.x, THERE, WORDS), CUDA_SUCCESS);
    struct remote_answer exported = remote_ask(&remote, REMOTE_EXPORT, theirs.x, 0, 0);
    CHECK_ASKED(exported, CUDA_SUCCESS);
    memcpy(&handle, exported.blob, sizeof(handle));
    if (CHECK_OK(
            cuIpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))) {
        CHECK_OK(cuMemcpyDtoD(own, mapped, BYTES));
        CHECK_EQUAL(word_here(own + BYTES - 4), THERE);
        CHECK_OK(cuMemsetD32(own, HERE, WORDS));
        CHECK_OK(cuMemcpyDtoD(mapped, own, BYTES));
        CHECK_OK(cuCtxSynchronize());
        CHECK_EQUAL(word_there(&remote, theirs.x), HERE);
        CHECK_OK(cuIpcCloseMemHandle(mapped));
    }
    CHECK_ASKED(remote_ask(&remote, REMOTE_FREE, theirs.x, 0, 0), CUDA_SUCCESS);
    end_remote(&remote);
    device_put(own);
}

CASE(ipc, memory_of_a_kernel, DRIVER_API, "cuIpcOpenMemHandle",
     "Returns a device pointer usable in the local process: also by its kernels")
{
    struct remote remote;
    CUdeviceptr mapped = 0;
    CUipcMemHandle handle;
    uint64_t count = WORDS;
    uint32_t seed = 5;

    if (!start_remote(&remote))
        return;
    struct remote_answer theirs = remote_ask(&remote, REMOTE_ALLOC, BYTES, 0, 0);
    struct remote_answer exported = remote_ask(&remote, REMOTE_EXPORT, theirs.x, 0, 0);
    memcpy(&handle, exported.blob, sizeof(handle));
    if (CHECK_OK(
            cuIpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))) {
        void *params[] = {&mapped, &count, &seed};
        CHECK_OK(launch(kernel("gs_fill"), NULL, params));
        CHECK_OK(cuCtxSynchronize());
        CHECK_EQUAL(word_there(&remote, theirs.x + 4 * 77), gs_pattern(seed, 77));
        CHECK_OK(cuIpcCloseMemHandle(mapped));
    }
    end_remote(&remote);
}
