/*
 * peer.c - two processes and a socket.   See peer.h.
 * Owns: nothing.   Lock: none.
 */
#include "peer.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEER_WORD   "--peer"
#define PEER_SOCKET 3

bool app_peer_is(int argc, char **argv, struct app_peer *out)
{
    if (argc < 2 || strcmp(argv[1], PEER_WORD) != 0)
        return false;
    out->socket = PEER_SOCKET;
    out->pid = 0;
    return true;
}

static void become_peer(char **argv, int socket)
{
    const char *preload = getenv("APP_PEER_PRELOAD");
    char *setting = getenv("APP_PEER_SETTING");
    char *arguments[8] = {argv[0], PEER_WORD};

    for (size_t i = 1; argv[i] && i + 2 < APP_COUNT(arguments); i++)
        arguments[i + 1] = argv[i];
    if (preload && *preload)
        setenv("LD_PRELOAD", preload, 1);
    else if (preload)
        unsetenv("LD_PRELOAD");
    if (setting)
        putenv(setting);
    if (dup2(socket, PEER_SOCKET) == PEER_SOCKET)
        execv("/proc/self/exe", arguments);
    _exit(127);
}

void app_peer_start(char **argv, struct app_peer *out)
{
    int ends[2];

    app_check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "socketpair",
              __FILE__, __LINE__);
    fflush(NULL);
    out->socket = ends[0];
    out->pid = fork();
    if (out->pid == 0)
        become_peer(argv, ends[1]);
    if (out->pid < 0)
        app_fail("fork", "no process");
    close(ends[1]);
}

bool app_peer_end(struct app_peer *peer)
{
    int status = 1;

    close(peer->socket);
    return waitpid(peer->pid, &status, 0) == peer->pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* Room for one descriptor beside a message. */
union ancillary {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

void app_peer_send(const struct app_peer *peer, const void *data, size_t bytes, int file)
{
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union ancillary beside;

    if (file >= 0) {
        memset(&beside, 0, sizeof(beside));
        message.msg_control = beside.room;
        message.msg_controllen = sizeof(beside.room);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(file));
        memcpy(CMSG_DATA(head), &file, sizeof(file));
    }
    if (sendmsg(peer->socket, &message, MSG_NOSIGNAL) != (ssize_t)bytes)
        app_fail("sendmsg", "the other process is gone");
}

int app_peer_receive(const struct app_peer *peer, void *data, size_t bytes)
{
    union ancillary beside;
    struct iovec part = {data, bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = beside.room,
                             .msg_controllen = sizeof(beside.room)};
    int file = -1;

    if (recvmsg(peer->socket, &message, 0) != (ssize_t)bytes)
        app_fail("recvmsg", "the other process is gone");
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        memcpy(&file, CMSG_DATA(head), sizeof(file));
    return file;
}
