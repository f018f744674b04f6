/*
 * case_ipc_open.c - opening handles of device memory and closing what was opened.
 */
#include "case_ipc_help.h"
#include "case_memory_help.h"

CASE(
    ipc, open_again_counts, DRIVER_API, "cuIpcOpenMemHandle",
    "If the memory handle has already been opened by the current context, the reference "
    "count on the handle is incremented by 1 and the existing device pointer is returned")
{
    struct ipc_pair pair;

    if (!begin_pair(&pair, BYTES))
        return;
    CHECK_EQUAL(open_there(&pair.remote, &pair.handle), pair.there);
    CHECK_EQUAL(open_there(&pair.remote, &pair.handle), pair.there);
    close_there(&pair.remote, pair.there);
    CHECK_EQUAL(word_there(&pair.remote, pair.there), HERE);
    close_there(&pair.remote, pair.there);
    CHECK_EQUAL(word_there(&pair.remote, pair.there), HERE);
    end_pair(&pair);
}

CASE(ipc, close_unmaps, DRIVER_API, "cuIpcCloseMemHandle",
     "When the reference count reaches 0, this API unmaps the memory")
{
    struct ipc_pair pair;

    if (!begin_pair(&pair, BYTES))
        return;
    close_there(&pair.remote, pair.there);
    struct remote_answer type = remote_ask(&pair.remote, REMOTE_ATTRIBUTE, pair.there,
                                           CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0);
    CHECK_REFUSED(type.code);
    CHECK(remote_ask(&pair.remote, REMOTE_CLOSE, pair.there, 0, 0).code != CUDA_SUCCESS);
    pair.there = open_there(&pair.remote, &pair.handle); /* and it opens again */
    CHECK_EQUAL(word_there(&pair.remote, pair.there), HERE);
    end_pair(&pair);
}

CASE(ipc, close_leaves_the_owner, DRIVER_API, "cuIpcCloseMemHandle",
     "The original allocation in the exporting process will be unaffected")
{
    struct ipc_pair pair;

    if (!begin_pair(&pair, 3 * GS_MIB))
        return;
    close_there(&pair.remote, pair.there);
    CHECK_EQUAL(word_here(pair.here), HERE);
    CHECK_EQUAL(word_here(pair.here + 3 * GS_MIB - 4), HERE);
    end_remote(&pair.remote);
    CHECK_EQUAL(word_here(pair.here), HERE);
    device_put(pair.here);
}

CASE(ipc, close_leaves_third_parties, DRIVER_API, "cuIpcCloseMemHandle",
     "Imported mappings in other processes will be unaffected")
{
    struct remote other;
    struct ipc_pair pair;

    if (!begin_pair(&pair, BYTES))
        return;
    if (start_remote(&other)) {
        CUdeviceptr third = open_there(&other, &pair.handle);
        CHECK_ASKED(remote_ask(&other, REMOTE_FILL, third, THERE, 1), CUDA_SUCCESS);
        CHECK_EQUAL(word_there(&pair.remote, pair.there), THERE);
        close_there(&other, third);
        end_remote(&other);
        CHECK_EQUAL(word_there(&pair.remote, pair.there), THERE);
    }
    end_pair(&pair);
}

CASE(ipc, open_needs_its_flag, DRIVER_API, "cuIpcOpenMemHandle",
     "Flags must be specified as CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS")
{
    struct ipc_pair pair;

    if (!begin_pair(&pair, BYTES))
        return;
    CHECK_ASKED(remote_give(&pair.remote, REMOTE_OPEN, 0, &pair.handle),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_ASKED(remote_give(&pair.remote, REMOTE_OPEN, 2, &pair.handle),
                CUDA_ERROR_INVALID_VALUE);
    end_pair(&pair);
}

CASE(ipc, open_in_a_second_context, DRIVER_API, "cuIpcOpenMemHandle",
     "Handles from each device in a given process may only be opened by one context per "
     "device per other process")
{
    struct ipc_pair pair;

    if (!begin_pair(&pair, BYTES))
        return;
    struct remote_answer context = remote_ask(&pair.remote, REMOTE_CONTEXT_NEW, 0, 0, 0);
    CHECK_ASKED(context, CUDA_SUCCESS);
    CHECK(remote_open(&pair.remote, &pair.handle).code != CUDA_SUCCESS);
    CHECK_ASKED(remote_ask(&pair.remote, REMOTE_CONTEXT_END, context.x, 0, 0),
                CUDA_SUCCESS);
    CHECK_EQUAL(word_there(&pair.remote, pair.there), HERE);
    end_pair(&pair);
}

CASE(ipc, open_at_home, DRIVER_API, "cuIpcOpenMemHandle",
     "Opens a handle exported from another process: not one of the process itself")
{
    CUipcMemHandle handle;
    MEMORY pointer = get_exported(BYTES, HERE, &handle);
    CUdeviceptr mapped = 0;

    CHECK(cuIpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
          CUDA_SUCCESS);
    CHECK_EQUAL(word_here(pointer), HERE);
}

CASE(ipc, close_at_home, DRIVER_API, "cuIpcCloseMemHandle",
     "Closes memory mapped with cuIpcOpenMemHandle: not what cuMemAlloc gave")
{
    CUipcMemHandle handle;
    MEMORY pointer = get_exported(BYTES, HERE, &handle);

    CHECK_INVALID(cuIpcCloseMemHandle(pointer));
    CHECK_EQUAL(word_here(pointer), HERE);
}

CASE(ipc, free_is_not_close, DRIVER_API, "cuIpcOpenMemHandle",
     "Memory returned from cuIpcOpenMemHandle must be freed with cuIpcCloseMemHandle")
{
    struct ipc_pair pair;

    if (!begin_pair(&pair, BYTES))
        return;
    CHECK(remote_ask(&pair.remote, REMOTE_FREE, pair.there, 0, 0).code != CUDA_SUCCESS);
    CHECK_EQUAL(word_there(&pair.remote, pair.there), HERE);
    end_pair(&pair);
}

CASE(ipc, handle_of_nonsense, DRIVER_API, "cuIpcOpenMemHandle",
     "Opens a handle from cuIpcGetMemHandle: bytes that are none are refused")
{
    CUipcMemHandle nonsense;
    CUdeviceptr pointer = 0;

    memset(&nonsense, 0, sizeof(nonsense));
    CHECK(cuIpcOpenMemHandle(&pointer, nonsense, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
          CUDA_SUCCESS);
}
