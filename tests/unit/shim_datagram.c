/*
 * shim_datagram.c - proves that a message to a service's socket arrives whole or not at
 * all, that the caller never waits, and that nothing is left open.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "folder.h"
#include "shim/settings/datagram.h"
#include "shim/settings/output.h"

static char path[80];

static void name_socket(void)
{
    make_folder();
    snprintf(path, sizeof(path), "%s/socket", folder);
}

static void remove_socket(void)
{
    (void)unlink(path);
    cr_assert_eq(rmdir(folder), 0, "something is left");
}

TestSuite(datagram, .init = name_socket, .fini = remove_socket);

/* A service's socket at `path`. */
static int listen_there(int type)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    strcpy(at.sun_path, path);
    cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

/* The lowest free descriptor: it changes with one that is left open. */
static int lowest_free(void)
{
    int fd = dup(0);

    close(fd);
    return fd;
}

/* Sends, with errno and descriptors as they were before. */
static int sent(const void *data, size_t length)
{
    int before = lowest_free();

    errno = EDOM;
    int error = gs_datagram_send(path, data, length);
    cr_expect_eq(errno, EDOM);
    cr_expect_eq(lowest_free(), before, "a descriptor is left");
    return error;
}

static void expect_text(int error, const char *text)
{
    cr_expect_str_eq(gs_output_error_text(error), text);
}

Test(datagram, arrives_as_one)
{
    static const char text[] = "MESSAGE=a\n\nMESSAGE=b\n";
    char got[64] = "";
    int fd = listen_there(SOCK_DGRAM);

    cr_assert_eq(sent(text, strlen(text)), 0);
    cr_assert_eq(recv(fd, got, sizeof(got), MSG_DONTWAIT), (ssize_t)strlen(text));
    cr_expect_str_eq(got, text);
    cr_expect_lt(recv(fd, got, sizeof(got), MSG_DONTWAIT), 0);
    close(fd);
}

/* What is longer than any datagram is in a file, which journald takes if it is sealed. */
Test(datagram, a_long_message_is_a_sealed_file)
{
    const size_t length = 24u << 20;
    char *data = malloc(length), *got = malloc(length), byte;
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    int fd = listen_there(SOCK_DGRAM), file;

    for (size_t i = 0; i < length; i++)
        data[i] = (char)(i * 31 >> 3);
    cr_assert_eq(sent(data, length), 0);
    cr_assert_eq(recvmsg(fd, &message, MSG_DONTWAIT), 0, "no data of its own");
    struct cmsghdr *carried = CMSG_FIRSTHDR(&message);
    cr_assert_not_null(carried);
    cr_assert_eq(carried->cmsg_type, SCM_RIGHTS);
    memcpy(&file, CMSG_DATA(carried), sizeof(file));
    cr_expect_eq(fcntl(file, F_GET_SEALS),
                 F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    cr_assert_eq(pread(file, got, length, 0), (ssize_t)length);
    cr_expect_eq(memcmp(data, got, length), 0);
    cr_expect_eq(pread(file, got, 1, (off_t)length), 0, "it is longer");
    close(file);
    close(fd);
    free(data);
    free(got);
}

/* A service that hangs must not hang the program. */
Test(datagram, a_full_queue_is_not_waited_for, .timeout = 30)
{
    int fd = listen_there(SOCK_DGRAM), error = 0;
    unsigned count = 0;

    while (!error && count++ < 100000)
        error = sent("x", 1);
    cr_expect_eq(error, EAGAIN);
    expect_text(error, "its reader is too slow");
    close(fd);
}

Test(datagram, without_a_socket_there_is_an_error)
{
    expect_text(sent("x", 1), "no such file or directory");
    int fd = listen_there(SOCK_DGRAM);
    close(fd); /* the service ended, and left its socket */
    expect_text(sent("x", 1), "no process reads it");
    unlink(path);
    fd = listen_there(SOCK_STREAM);
    cr_assert_eq(listen(fd, 1), 0);
    expect_text(sent("x", 1), "not a datagram socket");
    close(fd);
    unlink(path);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    close(fd);
    expect_text(sent("x", 1), "no process reads it");
    struct stat info;
    cr_assert_eq(stat(path, &info), 0);
    cr_expect_eq(info.st_size, 0, "written to");
}

Test(datagram, a_name_that_no_socket_can_have)
{
    char name[GS_DATAGRAM_PATH_BYTES + 1];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    errno = EDOM;
    expect_text(gs_datagram_send(name, "x", 1), "name too long");
    cr_expect_eq(errno, EDOM);
}

/* A service with RestrictAddressFamilies= and no AF_UNIX. */
Test(datagram, a_sandbox_without_sockets)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {.len = 4, .filter = filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        cr_skip_test("seccomp filters");
    expect_text(sent("x", 1), "the system does not allow the call");
}
