/*
 * datagram.c - see datagram.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/settings/datagram.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim/settings/output.h"

/* Returns 0 or an errno. */
static int send_message(int from, struct msghdr *message)
{
    long sent;

    do {
        sent = syscall(SYS_sendmsg, from, message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

/* Fills a file in memory that nobody can change. Returns 0 or an errno. */
static int fill_sealed(int fd, const void *data, size_t length)
{
    size_t done;
    int error = gs_output_write(fd, data, length, &done);

    if (!error && fcntl(fd, F_ADD_SEALS,
                        F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
        error = errno;
    }
    return error;
}

/* Sends the data in a file. `to` has the address. Returns 0 or an errno. */
static int send_file(int from, const struct msghdr *to, const void *data, size_t length)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {{0}};
    struct msghdr message = {.msg_name = to->msg_name,
                             .msg_namelen = to->msg_namelen,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *carried = CMSG_FIRSTHDR(&message);
    int fd = (int)syscall(SYS_memfd_create, "gpushim", 3u /* CLOEXEC, ALLOW_SEALING */);

    if (fd < 0) {
        return errno;
    }
    int error = fill_sealed(fd, data, length);
    if (!error) {
        carried->cmsg_level = SOL_SOCKET;
        carried->cmsg_type = SCM_RIGHTS;
        carried->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(carried), &fd, sizeof(int));
        error = send_message(from, &message);
    }
    close(fd);
    return error;
}

int gs_datagram_send(const char *path, const void *data, size_t length)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = length};
    struct msghdr message = {
        .msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &part, .msg_iovlen = 1};
    struct gs_output_shield shield;
    int error = ENAMETOOLONG;

    _Static_assert(sizeof(to.sun_path) == GS_DATAGRAM_PATH_BYTES, "unix(7)");
    if (strlen(path) >= sizeof(to.sun_path)) {
        return error;
    }
    strcpy(to.sun_path, path);
    gs_output_shield_raise(&shield);
    int from = (int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    error = from < 0 ? errno : send_message(from, &message);
    if (error == EMSGSIZE || error == ENOBUFS) {
        error = send_file(from, &message, data, length);
    }
    if (from >= 0) {
        close(from);
    }
    gs_output_shield_lower(&shield, error);
    return error;
}
