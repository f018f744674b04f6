/*
 * case_ipc_help.c - the second process of a case.
 * Owns:  nothing.   Lock: none.
 */
#include "case_ipc_help.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "case_memory_help.h"
#include "suite.h"

#define END_MS 60000

/* The child between fork and exec. */
static void become_server(int socket)
{
    if (dup2(socket, STDIN_FILENO) == STDIN_FILENO)
        execl("/proc/self/exe", "conformance", "--serve", (char *)NULL);
    _exit(127);
}

bool start_remote(struct remote *remote)
{
    int ends[2];

    if (!device_has(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, "no unified addressing"))
        return false;
    if (!CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0))
        return false;
    fflush(NULL);
    remote->socket = ends[0];
    remote->pid = fork();
    if (remote->pid == 0)
        become_server(ends[1]);
    close(ends[1]);
    if (CHECK(remote->pid > 0))
        return true;
    close(ends[0]);
    return false;
}

void end_remote(struct remote *remote)
{
    struct timespec pause = {0, 5000000};
    int status = 0;
    unsigned waited = 0;

    shutdown(remote->socket, SHUT_RDWR);
    close(remote->socket);
    while (waitpid(remote->pid, &status, WNOHANG) == 0) {
        if (waited++ == returns_within(END_MS) / 5)
            kill(remote->pid, SIGKILL);
        nanosleep(&pause, NULL);
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int serve_remote(void)
{
    return suite_start() ? remote_serve(STDIN_FILENO) : 3;
}

CUdeviceptr get_exported(size_t bytes, uint32_t word, CUipcMemHandle *handle)
{
    CUdeviceptr pointer = device_get(bytes);

    if (pointer && CHECK_OK(cuMemsetD32(pointer, word, bytes / 4)) &&
        CHECK_OK(cuCtxSynchronize()) && CHECK_OK(cuIpcGetMemHandle(handle, pointer)))
        return pointer;
    device_put(pointer);
    return 0;
}

uint32_t word_here(CUdeviceptr pointer)
{
    uint32_t word = 0;

    CHECK_OK(cuMemcpyDtoH(&word, pointer, sizeof(word)));
    return word;
}

uint32_t word_there(struct remote *remote, CUdeviceptr pointer)
{
    struct remote_answer answer = remote_ask(remote, REMOTE_READ, pointer, 0, 0);

    CHECK_ASKED(answer, CUDA_SUCCESS);
    return (uint32_t)answer.x;
}

CUdeviceptr open_there(struct remote *remote, const CUipcMemHandle *handle)
{
    struct remote_answer answer = remote_open(remote, handle);

    CHECK_ASKED(answer, CUDA_SUCCESS);
    return (CUdeviceptr)answer.x;
}

void close_there(struct remote *remote, CUdeviceptr pointer)
{
    CHECK_ASKED(remote_ask(remote, REMOTE_CLOSE, pointer, 0, 0), CUDA_SUCCESS);
}

bool begin_pair(struct ipc_pair *pair, size_t bytes)
{
    if (!start_remote(&pair->remote))
        return false;
    pair->there = 0;
    pair->here = get_exported(bytes, HERE, &pair->handle);
    if (pair->here)
        pair->there = open_there(&pair->remote, &pair->handle);
    if (pair->there)
        return true;
    device_put(pair->here);
    end_remote(&pair->remote);
    return false;
}

void end_pair(struct ipc_pair *pair)
{
    close_there(&pair->remote, pair->there);
    end_remote(&pair->remote);
    device_put(pair->here);
}
