/*
 * ipc_remote.h - a second process that does as it is told: both ends of a socket.
 *
 * What memory and events mean between processes takes two that have each initialized CUDA
 * on their own. One of them serves: it is given a call at a time and answers with its
 * code and what it gave. Used by the conformance cases and by the unit tests of the
 * simulated device, hence a header alone.
 *
 * Owns: what the server makes for itself: a stream, a flag in pinned memory.   Lock:
 * none.
 */
#ifndef GS_IPC_REMOTE_H
#define GS_IPC_REMOTE_H

#include <cuda.h>
#include <dlfcn.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "../kernels/kernels_ptx.h"
#include "gs_base.h"

#define REMOTE_MS     60000
#define REMOTE_LOST   (-1) /* in place of a code: no answer came */
#define REMOTE_HANDLE 64   /* bytes of every handle of the API */

enum remote_what {
    REMOTE_OPEN,       /* blob: handle; a: flags; b: 1 for the ABI of 4.1 -> x: address */
    REMOTE_CLOSE,      /* a: address */
    REMOTE_READ,       /* a: address -> x: the word there */
    REMOTE_FILL,       /* a: address, b: word, c: count; complete when answered */
    REMOTE_QUEUE,      /* the same, enqueued on the server's stream */
    REMOTE_ALLOC,      /* a: bytes -> x: address */
    REMOTE_FREE,       /* a: address */
    REMOTE_EXPORT,     /* a: address -> blob: handle */
    REMOTE_RANGE,      /* a: address -> x: base, y: bytes */
    REMOTE_ATTRIBUTE,  /* a: address, b: attribute -> x: value */
    REMOTE_FREE_BYTES, /* -> x: as cuMemGetInfo says */

    REMOTE_EVENT_NEW,     /* a: flags -> x: event */
    REMOTE_EVENT_EXPORT,  /* a: event -> blob: handle */
    REMOTE_EVENT_OPEN,    /* blob: handle -> x: event */
    REMOTE_EVENT_DESTROY, /* a: event; as are the next four, on the server's stream */
    REMOTE_EVENT_RECORD,
    REMOTE_EVENT_QUERY,
    REMOTE_EVENT_SYNC,
    REMOTE_EVENT_WAIT,

    REMOTE_BLOCK,   /* a kernel on the server's stream that runs until */
    REMOTE_UNBLOCK, /* this */
    REMOTE_STREAM_QUERY,
    REMOTE_STREAM_SYNC,
    REMOTE_CONTEXT_NEW, /* made current -> x: context */
    REMOTE_CONTEXT_END, /* a: context; the primary one is current again */

    REMOTE_POOL_NEW,            /* a: handle types -> x: pool */
    REMOTE_POOL_END,            /* a: pool */
    REMOTE_POOL_EXPORT,         /* a: pool -> file */
    REMOTE_POOL_IMPORT,         /* file -> x: pool */
    REMOTE_POOL_ALLOC,          /* a: pool, b: bytes -> x: address, allocated */
    REMOTE_POOL_EXPORT_POINTER, /* a: address -> blob: export data */
    REMOTE_POOL_IMPORT_POINTER, /* a: pool; blob: export data -> x: address */
    REMOTE_POOL_FREE,           /* a: address, cuMemFreeAsync on the server's stream */
    REMOTE_POOL_USE,            /* a: pool: it becomes the device's current one */

    REMOTE_LEAVE, /* end the process at once, CUDA left as it is; no answer */
};

struct remote_call {
    uint32_t what;
    uint32_t unused;
    uint64_t a, b, c;
    unsigned char blob[REMOTE_HANDLE];
};

struct remote_answer {
    int32_t code;
    uint32_t unused;
    uint64_t x, y;
    unsigned char blob[REMOTE_HANDLE];
};

/* ---- messages, with a file or without (fd -1) -----------------------------------------
 */

static inline bool remote_send(int socket, const void *data, size_t bytes, int fd)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.room;
        message.msg_controllen = sizeof(control.room);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static inline bool remote_receive(int socket, void *data, size_t bytes, int *fd)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {data, bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};

    *fd = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != (ssize_t)bytes)
        return false;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(header), sizeof(*fd));
    return true;
}

/* ---- the end that asks ----------------------------------------------------------------
 */

struct remote {
    int socket; /* SOCK_SEQPACKET */
    pid_t pid;
};

/* Ask and go on; the answer is fetched by remote_hear. */
static inline bool remote_tell(struct remote *remote, const struct remote_call *call,
                               int fd)
{
    return remote_send(remote->socket, call, sizeof(*call), fd);
}

/* True if an answer has come within `ms`. Its file, if *fd is wanted, is the caller's. */
static inline bool remote_hear(struct remote *remote, struct remote_answer *answer,
                               int *fd, int ms)
{
    struct pollfd ready = {.fd = remote->socket, .events = POLLIN};
    int file = -1;

    memset(answer, 0, sizeof(*answer));
    answer->code = REMOTE_LOST;
    if (poll(&ready, 1, ms) != 1)
        return false;
    bool heard = remote_receive(remote->socket, answer, sizeof(*answer), &file);
    if (!heard)
        answer->code = REMOTE_LOST;
    if (fd)
        *fd = file;
    else if (file >= 0)
        close(file);
    return heard;
}

static inline struct remote_answer remote_ask_full(struct remote *remote,
                                                   const struct remote_call *call,
                                                   int fd_in, int *fd_out)
{
    struct remote_answer answer;

    if (remote_tell(remote, call, fd_in) &&
        remote_hear(remote, &answer, fd_out, REMOTE_MS))
        return answer;
    answer = (struct remote_answer){.code = REMOTE_LOST};
    return answer;
}

/* Most calls take numbers alone, or a handle. */
static inline struct remote_answer remote_ask(struct remote *remote,
                                              enum remote_what what, uint64_t a,
                                              uint64_t b, uint64_t c)
{
    const struct remote_call call = {.what = what, .a = a, .b = b, .c = c};

    return remote_ask_full(remote, &call, -1, NULL);
}

static inline struct remote_answer
remote_give(struct remote *remote, enum remote_what what, uint64_t a, const void *handle)
{
    struct remote_call call = {.what = what, .a = a};

    memcpy(call.blob, handle, sizeof(call.blob));
    return remote_ask_full(remote, &call, -1, NULL);
}

/* cuIpcOpenMemHandle there, with the flag that is asked for. */
static inline struct remote_answer remote_open(struct remote *remote,
                                               const CUipcMemHandle *handle)
{
    return remote_give(remote, REMOTE_OPEN, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, handle);
}

/* ---- the end that serves --------------------------------------------------------------
 */

struct remote_server {
    int socket;
    CUcontext primary;
    CUstream stream;
    CUfunction wait;
    uint32_t *flag;
    CUdeviceptr flag_seen;
};

static inline CUresult remote_prepare(struct remote_server *server)
{
    CUmodule module;
    void *page = NULL;
    CUresult res = cuCtxGetCurrent(&server->primary);

    if (res == CUDA_SUCCESS)
        res = cuStreamCreate(&server->stream, CU_STREAM_NON_BLOCKING);
    if (res == CUDA_SUCCESS)
        res = cuMemHostAlloc(&page, 64, CU_MEMHOSTALLOC_DEVICEMAP);
    server->flag = page;
    if (res == CUDA_SUCCESS)
        res = cuMemHostGetDevicePointer(&server->flag_seen, page, 0);
    if (res == CUDA_SUCCESS)
        res = cuModuleLoadData(&module, gs_kernels_ptx);
    if (res == CUDA_SUCCESS)
        res = cuModuleGetFunction(&server->wait, module, "gs_wait");
    return res;
}

static inline CUresult remote_run_memory(const struct remote_call *call,
                                         struct remote_answer *answer)
{
    CUresult (*open_41)(CUdeviceptr *, CUipcMemHandle, unsigned) = NULL;
    CUdeviceptr address = 0;
    CUipcMemHandle handle;
    size_t bytes = 0, total = 0;
    uint32_t word = 0;
    CUresult res;

    memcpy(&handle, call->blob, sizeof(handle));
    switch (call->what) {
    case REMOTE_OPEN:
        *(void **)&open_41 = dlsym(RTLD_DEFAULT, "cuIpcOpenMemHandle");
        res = call->b ? open_41(&address, handle, (unsigned)call->a)
                      : cuIpcOpenMemHandle(&address, handle, (unsigned)call->a);
        break;
    case REMOTE_CLOSE:
        return cuIpcCloseMemHandle(call->a);
    case REMOTE_READ:
        res = cuMemcpyDtoH(&word, call->a, sizeof(word));
        address = word;
        break;
    case REMOTE_FILL:
        res = cuMemsetD32(call->a, (unsigned)call->b, call->c);
        return res == CUDA_SUCCESS ? cuCtxSynchronize() : res;
    case REMOTE_ALLOC:
        res = cuMemAlloc(&address, call->a);
        break;
    case REMOTE_FREE:
        return cuMemFree(call->a);
    case REMOTE_EXPORT:
        res = cuIpcGetMemHandle(&handle, call->a);
        memcpy(answer->blob, &handle, sizeof(handle));
        return res;
    case REMOTE_RANGE:
        res = cuMemGetAddressRange(&address, &bytes, call->a);
        break;
    case REMOTE_FREE_BYTES:
        res = cuMemGetInfo(&bytes, &total);
        address = bytes;
        break;
    default: /* REMOTE_ATTRIBUTE */
        answer->x = 0;
        return cuPointerGetAttribute(&answer->x, (CUpointer_attribute)call->b, call->a);
    }
    answer->x = address;
    answer->y = bytes;
    return res;
}

static inline CUresult remote_run_event(struct remote_server *server,
                                        const struct remote_call *call,
                                        struct remote_answer *answer)
{
    CUevent event = (CUevent)(uintptr_t)call->a;
    CUipcEventHandle handle;
    CUresult res;

    memcpy(&handle, call->blob, sizeof(handle));
    switch (call->what) {
    case REMOTE_EVENT_NEW:
        res = cuEventCreate(&event, (unsigned)call->a);
        break;
    case REMOTE_EVENT_EXPORT:
        res = cuIpcGetEventHandle(&handle, event);
        memcpy(answer->blob, &handle, sizeof(handle));
        return res;
    case REMOTE_EVENT_OPEN:
        res = cuIpcOpenEventHandle(&event, handle);
        break;
    case REMOTE_EVENT_DESTROY:
        return cuEventDestroy(event);
    case REMOTE_EVENT_RECORD:
        return cuEventRecord(event, server->stream);
    case REMOTE_EVENT_QUERY:
        return cuEventQuery(event);
    case REMOTE_EVENT_SYNC:
        return cuEventSynchronize(event);
    default: /* REMOTE_EVENT_WAIT */
        return cuStreamWaitEvent(server->stream, event, 0);
    }
    answer->x = (uintptr_t)event;
    return res;
}

static inline CUresult remote_block(struct remote_server *server)
{
    void *params[] = {&server->flag_seen};

    __atomic_store_n(server->flag, 0, __ATOMIC_RELEASE);
    return cuLaunchKernel(server->wait, 1, 1, 1, 1, 1, 1, 0, server->stream, params,
                          NULL);
}

static inline CUresult remote_run_work(struct remote_server *server,
                                       const struct remote_call *call,
                                       struct remote_answer *answer)
{
    CUresult (*create)(CUcontext *, unsigned, CUdevice) = NULL;
    CUcontext context = NULL;
    CUresult res;

    switch (call->what) {
    case REMOTE_QUEUE:
        return cuMemsetD32Async(call->a, (unsigned)call->b, call->c, server->stream);
    case REMOTE_BLOCK:
        return remote_block(server);
    case REMOTE_UNBLOCK:
        __atomic_store_n(server->flag, 1, __ATOMIC_RELEASE);
        return CUDA_SUCCESS;
    case REMOTE_STREAM_QUERY:
        return cuStreamQuery(server->stream);
    case REMOTE_STREAM_SYNC:
        return cuStreamSynchronize(server->stream);
    case REMOTE_CONTEXT_NEW:
        *(void **)&create = dlsym(RTLD_DEFAULT, "cuCtxCreate_v2");
        res = create(&context, 0, 0);
        answer->x = (uintptr_t)context;
        return res;
    default: /* REMOTE_CONTEXT_END */
        res = cuCtxDestroy((CUcontext)(uintptr_t)call->a);
        return res == CUDA_SUCCESS ? cuCtxSetCurrent(server->primary) : res;
    }
}

static inline CUresult remote_run_pool(struct remote_server *server,
                                       const struct remote_call *call, int fd_in,
                                       struct remote_answer *answer, int *fd_out)
{
    CUmemoryPool pool = (CUmemoryPool)(uintptr_t)call->a;
    CUmemPoolProps props;
    CUmemPoolPtrExportData data;
    CUdeviceptr address = 0;
    CUresult res;

    memcpy(&data, call->blob, sizeof(data));
    switch (call->what) {
    case REMOTE_POOL_NEW:
        memset(&props, 0, sizeof(props));
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.handleTypes = (CUmemAllocationHandleType)call->a;
        props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        res = cuMemPoolCreate(&pool, &props);
        answer->x = (uintptr_t)pool;
        return res;
    case REMOTE_POOL_END:
        return cuMemPoolDestroy(pool);
    case REMOTE_POOL_EXPORT:
        return cuMemPoolExportToShareableHandle(
            fd_out, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    case REMOTE_POOL_IMPORT:
        res = cuMemPoolImportFromShareableHandle(
            &pool, (void *)(uintptr_t)fd_in, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        answer->x = (uintptr_t)pool;
        return res;
    case REMOTE_POOL_ALLOC:
        res = cuMemAllocFromPoolAsync(&address, call->b, pool, server->stream);
        if (res == CUDA_SUCCESS)
            res = cuStreamSynchronize(server->stream);
        break;
    case REMOTE_POOL_EXPORT_POINTER:
        res = cuMemPoolExportPointer(&data, call->a);
        memcpy(answer->blob, &data, sizeof(data));
        return res;
    case REMOTE_POOL_IMPORT_POINTER:
        res = cuMemPoolImportPointer(&address, pool, &data);
        break;
    case REMOTE_POOL_USE:
        return cuDeviceSetMemPool(0, pool);
    default: /* REMOTE_POOL_FREE */
        res = cuMemFreeAsync(call->a, server->stream);
        return res == CUDA_SUCCESS ? cuStreamSynchronize(server->stream) : res;
    }
    answer->x = address;
    return res;
}

static inline CUresult remote_run(struct remote_server *server,
                                  const struct remote_call *call, int fd_in,
                                  struct remote_answer *answer, int *fd_out)
{
    if (call->what <= REMOTE_FREE_BYTES && call->what != REMOTE_QUEUE)
        return remote_run_memory(call, answer);
    if (call->what >= REMOTE_EVENT_NEW && call->what <= REMOTE_EVENT_WAIT)
        return remote_run_event(server, call, answer);
    if (call->what >= REMOTE_POOL_NEW)
        return remote_run_pool(server, call, fd_in, answer, fd_out);
    return remote_run_work(server, call, answer);
}

/*
 * Serve until the other end closes the socket. A context is current and working.
 *
 * Returns:  an exit status, 0 if all went well
 */
static inline int remote_serve(int socket)
{
    struct remote_server server = {.socket = socket};
    struct remote_call call;
    int fd_in;

    if (remote_prepare(&server) != CUDA_SUCCESS)
        return 3;
    while (remote_receive(socket, &call, sizeof(call), &fd_in)) {
        struct remote_answer answer = {.code = 0};
        int fd_out = -1;

        if (call.what == REMOTE_LEAVE)
            _exit(0);
        answer.code = (int32_t)remote_run(&server, &call, fd_in, &answer, &fd_out);
        if (!remote_send(socket, &answer, sizeof(answer), fd_out))
            return 1;
        if (fd_in >= 0)
            close(fd_in);
        if (fd_out >= 0)
            close(fd_out);
    }
    return 0;
}

#endif
