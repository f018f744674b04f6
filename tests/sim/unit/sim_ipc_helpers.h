/*
 * sim_ipc_helpers.h - a second process for the tests of sharing: forked before this one
 * has called the driver, serving calls as tests/sim/conformance/ipc_remote.h has them.
 */
#ifndef SIM_IPC_HELPERS_H
#define SIM_IPC_HELPERS_H

#include <signal.h>
#include <sys/wait.h>

#include "../conformance/ipc_remote.h"
#include "sim_helpers.h"

/* Start it with so many devices and so much memory. Before sim_test_start. */
static inline void sim_remote_start(struct remote *remote, const char *devices,
                                    const char *memory)
{
    int ends[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    remote->pid = fork();
    if (remote->pid == 0) {
        close(ends[0]);
        alarm(120);
        sim_test_start(devices, memory);
        _exit(remote_serve(ends[1]));
    }
    close(ends[1]);
    remote->socket = ends[0];
}

/* Let it go; it must have gone well. */
static inline void sim_remote_end(struct remote *remote)
{
    int status;

    shutdown(remote->socket, SHUT_RDWR); /* a second one has inherited this end */
    close(remote->socket);
    cr_assert_eq(waitpid(remote->pid, &status, 0), remote->pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

/* End it at once. reap: false leaves a zombie, which has its number still. */
static inline void sim_remote_kill(struct remote *remote, bool reap)
{
    siginfo_t info;

    kill(remote->pid, SIGKILL);
    cr_assert_eq(waitid(P_PID, (id_t)remote->pid, &info, WEXITED | (reap ? 0 : WNOWAIT)),
                 0);
    close(remote->socket);
}

/* Ask for what must go well; the first number of the answer. */
static inline uint64_t sim_remote_do(struct remote *remote, enum remote_what what,
                                     uint64_t a, uint64_t b, uint64_t c)
{
    struct remote_answer answer = remote_ask(remote, what, a, b, c);

    cr_assert_eq(answer.code, CUDA_SUCCESS, "call %d answers %d", (int)what, answer.code);
    return answer.x;
}

/* What its answer says of a call that may fail. */
static inline int sim_remote_code(struct remote *remote, enum remote_what what,
                                  uint64_t a, uint64_t b, uint64_t c)
{
    return remote_ask(remote, what, a, b, c).code;
}

/* Open a handle there. */
static inline CUdeviceptr sim_remote_open(struct remote *remote,
                                          const CUipcMemHandle *handle)
{
    struct remote_answer answer = remote_open(remote, handle);

    cr_assert_eq(answer.code, CUDA_SUCCESS, "it answers %d", answer.code);
    return (CUdeviceptr)answer.x;
}

/* Open one here. */
static inline CUresult sim_open_here(CUdeviceptr *out, const CUipcMemHandle *handle)
{
    return cuIpcOpenMemHandle(out, *handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

/* Memory there, filled with a word, and its handle. */
static inline CUdeviceptr sim_remote_export(struct remote *remote, size_t bytes,
                                            uint32_t word, CUipcMemHandle *handle)
{
    CUdeviceptr theirs = sim_remote_do(remote, REMOTE_ALLOC, bytes, 0, 0);

    sim_remote_do(remote, REMOTE_FILL, theirs, word, bytes / 4);
    struct remote_answer answer = remote_ask(remote, REMOTE_EXPORT, theirs, 0, 0);
    cr_assert_eq(answer.code, CUDA_SUCCESS);
    memcpy(handle, answer.blob, sizeof(*handle));
    return theirs;
}

#endif
