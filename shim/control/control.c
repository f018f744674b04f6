/*
 * control.c - the thread that the command gpushim asks.
 *
 * The thread has a table of descriptors of its own, so the program never finds its
 * socket: not under a number that should be free, not in a loop that closes every
 * descriptor, not in a forked child. Where the kernel gives a thread no such table
 * (before Linux 5.9 with a filter against unshare, as containers have), there is no
 * socket. The driver's descriptors are not in this table either: the thread never calls
 * the driver, and starts no thread, which would share the table.
 *
 * One client is answered at a time, and has little time to take its answer. The thread
 * starts with the process's first context, as the driver's own threads do. A process
 * whose main thread has ended lives as long as its last thread: then this one ends once
 * no context is left, up to CHECK_MS late. If it is the last one, glibc's exit() runs
 * here, without the program's descriptors: for this reason GPUSHIM_CONTROL is off by
 * default.
 *
 * Owns:  the socket.   Lock: none; `life` is atomic.
 */
#include "shim/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_read_text.h"
#include "gs_uncancelled.h"
#include "gs_wait.h"
#include "shim/control/answers.h"
#include "shim/statefile/control_message.h"
#include "shim/statefile/control_peer.h"
#include "shim/settings/log.h"
#include "shim/settings/own_thread.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define UNSHARE 2u /* CLOSE_RANGE_UNSHARE */

#define MS_NS      1000000ull
#define REQUEST_NS (3000 * MS_NS)
#define ANSWER_NS  (5000 * MS_NS)
#define CHECK_MS   1000 /* between two looks at whether the process has ended */
#define REFUSED_NS (20 * MS_NS)
#define CLIENTS    8  /* that have not sent their request yet */
#define WAITING    16 /* behind them; more must try again */

/* GIVEN_UP: there is no socket in this process. */
enum { IDLE, RUNS, GIVEN_UP };
static int life; /* atomic */

static struct gs_answer answer; /* the thread's; too large for its stack */

/* ---- descriptors of the thread's own ----------------------------------------------- */

/* The record format of getdents64. */
struct entry {
    uint64_t inode, next;
    unsigned short size;
    unsigned char type;
    char name[];
};

/* Closes every descriptor, for kernels without close_range. */
static bool close_all(void)
{
    union {
        struct entry first;
        char bytes[1024];
    } buffer;
    long got = -1;
    int list = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/fd",
                            O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (list >= 0 &&
           (got = syscall(SYS_getdents64, list, &buffer, sizeof(buffer))) > 0) {
        for (long at = 0; at < got;) {
            const struct entry *entry = (const void *)(buffer.bytes + at);
            int fd = (int)strtol(entry->name, NULL,
                                 10); /* "." and "..": 0, which is closed, too */
            if (fd != list) {
                (void)close(fd);
            }
            at += entry->size;
        }
    }
    if (list >= 0) {
        (void)close(list);
    }
    return got == 0;
}

static bool own_descriptors(void)
{
    return syscall(SYS_close_range, 0u, ~0u, UNSHARE) == 0 ||
           (syscall(SYS_unshare, CLONE_FILES) == 0 && close_all());
}

/* ---- the socket -------------------------------------------------------------------- */

static void write_name(char *out, size_t size, pid_t pid)
{
    uint64_t secret;
    if (syscall(SYS_getrandom, &secret, sizeof(secret), 1u) != (long)sizeof(secret)) {
        secret = gs_now_ns() ^ (uintptr_t)out;
    }
    (void)snprintf(out, size, GS_CONTROL_PREFIX "%ld/%016llx", (long)pid,
                   (unsigned long long)secret);
}

/* Returns the listening socket, or -1. */
static int open_socket(pid_t pid)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    write_name(name.sun_path + 1, sizeof(name.sun_path) - 1, pid);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                                   strlen(name.sun_path + 1));
    int fd =
        (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (syscall(SYS_bind, fd, &name, length) != 0 ||
                    syscall(SYS_listen, fd, WAITING) != 0)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* Returns whether one is ready, an error included, in time. */
static bool poll_for(struct pollfd *fds, unsigned count, uint64_t wait_ns)
{
    const struct timespec time = {.tv_sec = (time_t)(wait_ns / 1000000000u),
                                  .tv_nsec = (long)(wait_ns % 1000000000u)};
    return syscall(SYS_ppoll, fds, count, &time, NULL, 0) > 0;
}

static uint64_t left_until(uint64_t until_ns)
{
    uint64_t now_ns = gs_now_ns();
    return now_ns < until_ns ? until_ns - now_ns : 0;
}

/* ---- one client -------------------------------------------------------------------- */

/* A client whose request is not whole yet. */
static struct client {
    int fd; /* -1: none */
    uint64_t until_ns;
    size_t length;
    char line[GS_CONTROL_REQUEST_BYTES];
} clients[CLIENTS]; /* the thread's */

/* Reads the bytes that have arrived. Returns GS_OK if the line is complete (a NUL
 * replaces its newline), GS_ERR_TIMEOUT if more may come, GS_ERR_INVALID if not. */
static enum gs_status read_line(struct client *client)
{
    while (client->length < sizeof(client->line)) {
        char *to = client->line + client->length;
        long got =
            syscall(SYS_recvfrom, client->fd, to, sizeof(client->line) - client->length,
                    MSG_DONTWAIT, NULL, NULL);
        if (got < 0 && errno == EAGAIN) {
            return GS_ERR_TIMEOUT;
        }
        if (got <= 0) {
            return GS_ERR_INVALID;
        }
        char *newline = memchr(to, '\n', (size_t)got);
        if (newline) {
            *newline = '\0';
            return GS_OK;
        }
        client->length += (size_t)got;
    }
    return GS_ERR_INVALID;
}

/* False: the client is gone, or does not read. */
static bool write_all(int client, const char *bytes, size_t length, uint64_t until_ns)
{
    while (length > 0) {
        long sent = syscall(SYS_sendto, client, bytes, length,
                            MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
        if (sent < 0 && errno == EAGAIN && left_until(until_ns) > 0) {
            struct pollfd full = {.fd = client, .events = POLLOUT};
            (void)poll_for(&full, 1, left_until(until_ns));
            continue;
        }
        if (sent < 0) {
            return false;
        }
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

static void write_answer(int client, const struct gs_answer *from)
{
    uint64_t until_ns = gs_now_ns() + ANSWER_NS;
    bool is_report = !from->refused && from->report.length > 0;
    const char *text = is_report ? from->report.data : from->text;
    size_t length = is_report ? from->report.length : from->length;
    char head[GS_CONTROL_HEAD_BYTES];
    int head_length = snprintf(head, sizeof(head), "gpushim %s %zu\n",
                               from->refused ? "no" : "ok", length);
    if (write_all(client, head, (size_t)head_length, until_ns)) {
        (void)write_all(client, text, length, until_ns);
    }
}

static bool may_ask(int client)
{
    struct ucred peer;
    char map[256];
    (void)gs_read_text("/proc/self/uid_map", map, sizeof(map));
    return gs_peer_of(client, &peer) &&
           gs_peer_is_allowed(peer.uid, (uid_t)syscall(SYS_geteuid), map);
}

static void begin_answer(void)
{
    answer.refused = answer.cut = false;
    answer.length = 0;
    answer.text[0] = '\0';
}

/* Answers the client's request, or says that it has none, and lets it go. */
static void serve(struct client *client, bool is_whole)
{
    struct gs_state *state = gs_state_peek();
    begin_answer();
    if (!is_whole) {
        gs_answer_refuse(&answer, "no request of one line, of %u bytes at most",
                         GS_CONTROL_REQUEST_BYTES);
    } else if (state) {
        gs_answer(state, client->line, &answer);
    } else {
        gs_answer_refuse(&answer, "the library is not active");
    }
    write_answer(client->fd, &answer);
    gs_text_free(&answer.report);
    answer.report = (struct gs_text){0};
    (void)close(client->fd);
    client->fd = -1;
}

static void refuse_user(int fd)
{
    begin_answer();
    gs_answer_refuse(&answer, "it is another user's process");
    write_answer(fd, &answer);
    (void)close(fd);
    gs_nap(REFUSED_NS); /* bounds what a flood of requests costs the process */
}

/* Takes the next client, if there is one and a place for it. */
static void let_in(int socket)
{
    size_t i = 0;
    while (i < CLIENTS && clients[i].fd >= 0) {
        i++;
    }
    if (i == CLIENTS) {
        return;
    }
    int fd = (int)syscall(SYS_accept4, socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0 && !may_ask(fd)) {
        refuse_user(fd);
    } else if (fd >= 0) {
        clients[i].fd = fd;
        clients[i].length = 0;
        clients[i].until_ns = gs_now_ns() + REQUEST_NS;
    } else if (errno != EAGAIN) {
        gs_nap(CHECK_MS * MS_NS); /* no descriptor, no memory */
    }
}

static void serve_all(void)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        if (clients[i].fd < 0) {
            continue;
        }
        enum gs_status status = read_line(&clients[i]);
        if (status != GS_ERR_TIMEOUT || left_until(clients[i].until_ns) == 0) {
            serve(&clients[i], status == GS_OK);
        }
    }
}

/* Waits for a client, or for a request of one. False: there is none for a while. */
static bool await_any(int socket)
{
    struct pollfd fds[CLIENTS + 1];
    unsigned count = 0;
    uint64_t wait_ns = CHECK_MS * MS_NS;
    for (size_t i = 0; i < CLIENTS; i++) {
        if (clients[i].fd >= 0) {
            uint64_t left_ns = left_until(clients[i].until_ns);
            wait_ns = left_ns < wait_ns ? left_ns : wait_ns;
            fds[count++] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
        }
    }
    bool any = count > 0;
    if (count < CLIENTS) {
        fds[count++] = (struct pollfd){.fd = socket, .events = POLLIN};
    }
    return poll_for(fds, count, wait_ns) || any;
}

/* ---- the thread -------------------------------------------------------------------- */

/* Returns whether only this thread and others of the library may still run: the process
 * ends with them. */
static bool is_left_alone(void)
{
    char text[512];
    struct gs_state *state = gs_state_peek();
    if (state && gs_context_nth(state, 0)) {
        return false;
    }
    (void)gs_read_text("/proc/self/stat", text, sizeof(text));
    const char *end_of_name = strrchr(text, ')');
    return end_of_name && strncmp(end_of_name, ") Z", 3) == 0;
}

/* After a checkpoint the number may be another file's. */
static bool is_same(int fd, const struct stat *before)
{
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_ino == before->st_ino &&
           now.st_dev == before->st_dev;
}

static void say_unavailable(const char *why)
{
    gs_log_line(GS_LOG_WARN,
                "GPUSHIM_CONTROL=on: %s; the command gpushim cannot ask this process",
                why);
}

static void *run(void *unused)
{
    struct stat socket;
    gs_thread.depth = 1;
    bool apart = own_descriptors();
    if (!apart) {
        say_unavailable("the kernel gives no thread descriptors of its own");
    }
    int fd = apart ? open_socket((pid_t)syscall(SYS_getpid)) : -1;
    if (fd < 0 || fstat(fd, &socket) != 0) {
        __atomic_store_n(&life, GIVEN_UP, __ATOMIC_RELEASE);
        return unused;
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i].fd = -1;
    }
    while (await_any(fd) || !is_left_alone()) {
        if (!is_same(fd, &socket)) {
            __atomic_store_n(&life, GIVEN_UP, __ATOMIC_RELEASE);
            return unused;
        }
        let_in(fd);
        serve_all();
    }
    (void)close(fd);
    __atomic_store_n(&life, IDLE, __ATOMIC_RELEASE);
    return unused;
}

void gs_control_start(const struct gs_state *state)
{
    int idle = IDLE;
    if (!state->options.control || getauxval(AT_SECURE) ||
        !__atomic_compare_exchange_n(&life, &idle, RUNS, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)) {
        return;
    }
    int before = gs_uncancelled_begin();
    if (!gs_own_thread("gpushim-control", run)) {
        __atomic_store_n(&life, GIVEN_UP, __ATOMIC_RELEASE);
        say_unavailable("no thread can be started");
    }
    gs_uncancelled_end(before);
}

void gs_control_reset(void)
{
    life = IDLE;
    answer.report = (struct gs_text){0};
}
