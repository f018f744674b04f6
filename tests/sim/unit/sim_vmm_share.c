/*
 * sim_vmm_share.c - proves that memory can be shared between processes by a file
 * descriptor, and what is refused.
 */
#include "sim_vmm_help.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define POSIX CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUmemGenericAllocationHandle shareable(size_t bytes)
{
    CUmemAllocationProp prop = sim_vmm_prop(0);
    CUmemGenericAllocationHandle handle;

    prop.requestedHandleTypes = POSIX;
    ok(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static void send_fd(int socket, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char byte = 1;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};

    memset(&control, 0, sizeof(control));
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    cr_assert_eq(sendmsg(socket, &message, 0), 1);
}

static int receive_fd(int socket)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    int fd = -1;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};

    if (recvmsg(socket, &message, 0) == 1)
        memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
    return fd;
}

/* The other process: imports, checks a word, writes the next one. Its exit status. */
static int other_process(int socket)
{
    CUmemGenericAllocationHandle handle;
    int fd = receive_fd(socket);

    sim_test_start("1", "16M");
    if (cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, POSIX) !=
        CUDA_SUCCESS)
        return 2;
    close(fd);
    if (sim_test_free_bytes() != 16 * GS_MIB)
        return 3; /* it counts where it was made */
    CUdeviceptr p = sim_vmm_map(handle, 2 * UNIT);
    if (sim_test_word(p + UNIT) != 21)
        return 4;
    ok(cuMemsetD32(p + UNIT + 4, 22, 1));
    ok(cuCtxSynchronize());
    return 0;
}

Test(sim_vmm_share, reaches_another_process)
{
    int sockets[2], fd = -1, status;

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid_t child = fork(); /* before CUDA is initialized here */
    if (child == 0)
        _exit(other_process(sockets[1]));
    sim_test_start("1", "16M");
    CUmemGenericAllocationHandle handle = shareable(2 * UNIT);
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - 2 * UNIT);
    CUdeviceptr p = sim_vmm_map(handle, 2 * UNIT);
    ok(cuMemsetD32(p + UNIT, 21, 1));
    ok(cuCtxSynchronize());
    ok(cuMemExportToShareableHandle(&fd, handle, POSIX, 0));
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    send_fd(sockets[0], fd);
    close(fd);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    cr_assert_eq(sim_test_word(p + UNIT + 4), 22);
}

Test(sim_vmm_share, comes_back_as_the_same_memory)
{
    CUmemGenericAllocationHandle handle, again;
    int fd = -1;

    sim_test_start("1", "16M");
    handle = shareable(UNIT);
    CUdeviceptr p = sim_vmm_map(handle, UNIT);
    ok(cuMemExportToShareableHandle(&fd, handle, POSIX, 0));
    ok(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, POSIX));
    cr_assert_eq(close(fd), 0);
    CUdeviceptr q = sim_vmm_map(again, UNIT);
    ok(cuMemsetD32(q, 23, 1));
    cr_assert_eq(sim_test_word(p), 23);
    ok(cuMemUnmap(p, UNIT));
    ok(cuMemUnmap(q, UNIT));
    ok(cuMemRelease(handle));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB - UNIT,
                 "each import needs a release");
    ok(cuMemRelease(again));
    cr_assert_eq(sim_test_free_bytes(), 16 * GS_MIB);
}

Test(sim_vmm_share, refuses_what_was_not_made_for_it)
{
    CUmemGenericAllocationHandle handle = 77, plain;
    CUmemAllocationProp back;
    int fd = -7, pipes[2];

    sim_test_start("1", "16M");
    plain = sim_vmm_memory(0, UNIT);
    fails(cuMemExportToShareableHandle(&fd, plain, POSIX, 0), CUDA_ERROR_INVALID_VALUE);
    handle = shareable(UNIT);
    fails(cuMemExportToShareableHandle(NULL, handle, POSIX, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemExportToShareableHandle(&fd, handle, POSIX, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_WIN32, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemExportToShareableHandle(&fd, 12345, POSIX, 0), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(fd, -7, "an output was written on failure");
    cr_assert_eq(pipe(pipes), 0);
    fails(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)pipes[0], POSIX),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)-1, POSIX),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemImportFromShareableHandle(&handle, NULL, CU_MEM_HANDLE_TYPE_NONE),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuMemGetAllocationPropertiesFromHandle(&back, handle));
}
