/*
 * imports.c - memory of another process, by every way it can be had.
 *
 *   imports          leaves some open: a line that does ends in LEAK (leaky.c)
 *   imports clean    gives all back
 *
 * The child makes it, and says by a socket where it is; it ends when it is told to.
 */
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

enum { FILES = 2 };

/* What the child has exported, beside two files: physical memory, a pool. */
struct offer {
    CUipcMemHandle ipc;
    CUmemPoolPtrExportData pointer;
};

static bool clean;

/* ---- between the processes ---- */

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(FILES * sizeof(int))];
};

static void send_offer(int to, struct offer *offer, const int files[FILES])
{
    struct iovec part = {.iov_base = offer, .iov_len = sizeof(*offer)};
    union control control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};

    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(FILES * sizeof(int)),
                                      .cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), files, FILES * sizeof(int));
    app_expect(sendmsg(to, &message, 0) == sizeof(*offer), "send to the other process");
}

static void receive_offer(int from, struct offer *offer, int files[FILES])
{
    struct iovec part = {.iov_base = offer, .iov_len = sizeof(*offer)};
    union control control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};

    app_expect(recvmsg(from, &message, MSG_WAITALL) == sizeof(*offer),
               "receive from the other process");
    memcpy(files, CMSG_DATA(&control.header), FILES * sizeof(int));
}

/* ---- the child ---- */

static void export_memory(int to)
{
    CUmemPoolProps pool_props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes =
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle physical;
    CUdeviceptr block, pooled;
    struct offer offer;
    CUmemoryPool pool;
    int files[FILES];
    char done;

    memset(&offer, 0, sizeof(offer));
    app_gpu_start();
    APP_OK(CU(cuMemAlloc)(&block, 2097152));
    APP_OK(CU(cuIpcGetMemHandle)(&offer.ipc, block));
    APP_OK(CU(cuMemCreate)(&physical, 4194304, &prop, 0));
    APP_OK(CU(cuMemExportToShareableHandle)(&files[0], physical,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    APP_OK(CU(cuMemPoolCreate)(&pool, &pool_props));
    APP_OK(CU(cuMemAllocFromPoolAsync)(&pooled, 6291456, pool, NULL));
    APP_OK(CU(cuCtxSynchronize)());
    APP_OK(CU(cuMemPoolExportToShareableHandle)(
        &files[1], pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    APP_OK(CU(cuMemPoolExportPointer)(&offer.pointer, pooled));
    send_offer(to, &offer, files);
    app_expect(read(to, &done, 1) == 1, "the end of the other process");
    APP_OK(CU(cuMemFreeAsync)(pooled, NULL));
    APP_OK(CU(cuCtxSynchronize)());
    APP_OK(CU(cuMemPoolDestroy)(pool));
    APP_OK(CU(cuMemRelease)(physical));
    APP_OK(CU(cuMemFree)(block));
    app_gpu_stop();
    exit(0);
}

/* ---- the parent ---- */

/* Opened twice, closed as often: the last time only where all is given back. */
APP_FRAME static void open_block(const CUipcMemHandle *handle)
{
    CUdeviceptr addr, again;

    APP_OK(CU(cuIpcOpenMemHandle)(&addr, *handle, 1)); /* LEAK: open_block 2097152 1 */
    APP_OK(CU(cuIpcOpenMemHandle)(&again, *handle, 1));
    APP_OK(CU(cuIpcCloseMemHandle)(again));
    printf("opened twice at one address: %d\n", addr == again);
    if (clean)
        APP_OK(CU(cuIpcCloseMemHandle)(addr));
}

APP_FRAME static void import_physical(int fd)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr;

    APP_OK(CU(cuMemAddressReserve)(&addr, 4194304, 0, 0, 0));
    APP_OK(CU(cuMemImportFromShareableHandle)(/* LEAK: import_physical 4194304 1 */
                                              &handle, (void *)(intptr_t)fd,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    APP_OK(CU(cuMemMap)(addr, 4194304, 0, handle, 0));
    APP_OK(CU(cuMemUnmap)(addr, 4194304));
    APP_OK(CU(cuMemAddressFree)(addr, 4194304));
    if (clean)
        APP_OK(CU(cuMemRelease)(handle));
}

APP_FRAME static void open_pool(int fd, CUmemPoolPtrExportData *data)
{
    CUmemoryPool pool;
    CUdeviceptr addr;

    APP_OK(CU(cuMemPoolImportFromShareableHandle)(
        &pool, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    APP_OK(CU(cuMemPoolImportPointer)(&addr, pool, data)); /* LEAK: open_pool 6291456 1 */
    if (clean)
        APP_OK(CU(cuMemFreeAsync)(addr, NULL));
    if (clean)
        APP_OK(CU(cuCtxSynchronize)());
    if (clean)
        APP_OK(CU(cuMemPoolDestroy)(pool));
}

int main(int argc, char **argv)
{
    struct offer offer;
    int ends[2], files[FILES], status;
    pid_t child;

    clean = argc > 1 && strcmp(argv[1], "clean") == 0;
    app_check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair", __FILE__,
              __LINE__);
    child = fork();
    if (child == 0)
        export_memory(ends[0]);
    app_expect(child > 0, "fork");
    app_gpu_start();
    receive_offer(ends[1], &offer, files);
    open_block(&offer.ipc);
    import_physical(files[0]);
    open_pool(files[1], &offer.pointer);
    app_expect(write(ends[1], "", 1) == 1, "write to the other process");
    app_expect(waitpid(child, &status, 0) == child && status == 0, "end of the child");
    if (clean)
        app_gpu_stop();
    printf("imports: %s\n", clean ? "clean" : "leaks");
    return 0;
}
