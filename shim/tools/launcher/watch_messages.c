/*
 * watch_messages.c - the socket to which processes send their states, and the messages.
 *
 * Owns: the socket's secret.   Lock: none; one thread.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim/statefile/watch_message.h"
#include "shim/tools/launcher/launcher.h"
#include "shim/tools/launcher/watch_table.h"

/* Linux 6.5: the kernel adds a pidfd of the sender, since 6.17 also of one that was
 * waited for. */
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif
#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif

/* Read at once, so that the rest of the watcher's loop has its turn. */
#define MESSAGES 1000

static char secret[GS_WATCH_SECRET_BYTES + 1]; /* immutable after gs_watch_open */

bool gs_watch_open(struct gs_watch *watch)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    uint64_t random[2] = {0};
    char name[GS_WATCH_NAME_BYTES];
    const int on = 1;
    (void)!getrandom(random, sizeof(random), GRND_NONBLOCK);
    int length = snprintf(name, sizeof(name), "gpushim-%ld-%016llx", (long)getpid(),
                          (unsigned long long)random[0]);
    memcpy(own.sun_path + 1, name, (size_t)length);
    watch->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (watch->socket < 0 ||
        setsockopt(watch->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0 ||
        bind(watch->socket, (struct sockaddr *)&own,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) !=
            0) {
        gs_launcher_warn("no socket for the states of processes: %s; a process that is "
                         "killed has no report",
                         strerror(errno));
        if (watch->socket >= 0) {
            close(watch->socket);
        }
        return false;
    }
    (void)setsockopt(watch->socket, SOL_SOCKET, SO_PASSPIDFD, &on, sizeof(on));
    (void)snprintf(secret, sizeof(secret), "%016llx", (unsigned long long)random[1]);
    (void)snprintf(name + length, sizeof(name) - (size_t)length, "-%s", secret);
    (void)setenv(GS_WATCH_VARIABLE, name, 1);
    return true;
}

/* ---- messages ---------------------------------------------------------------------- */

static struct gs_watch_row *state_of(struct gs_watch_process *process, uint64_t key)
{
    struct gs_watch_row *row = process->rows;
    while (row && row->state.key != key) {
        row = row->next;
    }
    return row;
}

static bool add_piece(struct gs_watch_state *state, int fd, uint64_t offset)
{
    struct gs_watch_piece *more =
        reallocarray(state->pieces, state->count + 1, sizeof(*state->pieces));
    if (!more) {
        return false;
    }
    state->pieces = more;
    state->pieces[state->count++] = (struct gs_watch_piece){fd, offset};
    return true;
}

/* A new state of the process, the last one. */
static struct gs_watch_row *add_state(struct gs_watch_table *table,
                                      struct gs_watch_process *process,
                                      const struct gs_watch_head *head,
                                      const struct ucred *from, const char *text)
{
    struct gs_watch_row **end = &process->rows, *row = calloc(1, sizeof(*row));
    char *copy = row ? malloc(head->text_bytes + 1) : NULL;
    if (!copy) {
        free(row);
        return NULL;
    }
    memcpy(copy, text, head->text_bytes);
    copy[head->text_bytes] = '\0';
    row->state = (struct gs_watch_state){.key = head->key,
                                         .whole = head->whole != 0,
                                         .text = copy,
                                         .text_bytes = head->text_bytes,
                                         .pid = from->pid,
                                         .user = from->uid,
                                         .group = from->gid};
    gs_watch_process_settle(table, process, false); /* those of its images before */
    while (*end) {
        end = &(*end)->next;
    }
    *end = row;
    return row;
}

/* Takes a piece. *pidfd: the sender's, -1 once it is kept. False: the descriptor is not
 * kept. */
static bool take(struct gs_watch_table *table, const struct gs_watch_head *head,
                 size_t length, const struct ucred *from, const char *text, int fd,
                 int *pidfd)
{
    if (length < sizeof(*head) ||
        memcmp(head->magic, GS_WATCH_MAGIC, sizeof(head->magic)) != 0 ||
        memcmp(head->secret, secret, sizeof(head->secret)) != 0 ||
        head->text_bytes > length - sizeof(*head) || from->pid <= 0 ||
        (from->uid != geteuid() && geteuid() != 0)) {
        return false;
    }
    struct gs_watch_process *process = gs_watch_table_find(table, from->pid);
    if (!process) {
        process = gs_watch_table_add(table, from->pid, *pidfd);
        *pidfd = process ? -1 : *pidfd;
    }
    struct gs_watch_row *row = process ? state_of(process, head->key) : NULL;
    if (process && !row && head->offset == 0) {
        row = add_state(table, process, head, from, text);
    }
    table->received = true;
    return row && add_piece(&row->state, fd, head->offset);
}

static bool receive(struct gs_watch_table *table, int socket)
{
    static struct {
        struct gs_watch_head head;
        char text[GS_WATCH_TEXT_BYTES];
    } data;
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 4) + CMSG_SPACE(sizeof(struct ucred)) +
                   CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {&data, sizeof(data)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct ucred from = {0, (uid_t)-1, (gid_t)-1};
    static bool said_cut;
    int fds[4], pidfd = -1;
    size_t count = 0;
    ssize_t length = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0) {
        return errno == EINTR;
    }
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one;
         one = CMSG_NXTHDR(&message, one)) {
        if (one->cmsg_level != SOL_SOCKET) {
            continue;
        }
        if (one->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&from, CMSG_DATA(one), sizeof(from));
        } else if (one->cmsg_type == SCM_PIDFD) {
            memcpy(&pidfd, CMSG_DATA(one), sizeof(pidfd));
        } else if (one->cmsg_type == SCM_RIGHTS) {
            size_t bytes = one->cmsg_len - CMSG_LEN(0);
            bytes = bytes < sizeof(fds) ? bytes : sizeof(fds);
            memcpy(fds, CMSG_DATA(one), bytes);
            count = bytes / sizeof(int);
        }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0 && !said_cut) {
        said_cut = true;
        gs_launcher_warn("a process's state was not received: too many open files "
                         "(ulimit -n); if that process is killed, there is no report");
    }
    bool kept = count == 1 &&
                take(table, &data.head, (size_t)length, &from, data.text, fds[0], &pidfd);
    if (pidfd >= 0) {
        close(pidfd);
    }
    for (size_t i = 0; i < count && !kept; i++) {
        close(fds[i]);
    }
    return true;
}

/* The kernel's queue is shorter, and who goes on sending does not keep the watcher from
 * its other work. */
void gs_watch_receive(struct gs_watch_table *table, int socket)
{
    for (unsigned i = 0; i < MESSAGES && receive(table, socket); i++) {
    }
}
