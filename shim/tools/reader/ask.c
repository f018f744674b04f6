/*
 * ask.c - see ask.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/reader/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_read_text.h"
#include "gs_wait.h"
#include "shim/statefile/control_peer.h"
#include "shim/settings/process_start.h"

#define MS_NS 1000000ull
/* Between two looks at whether the process is stopped. */
#define SLICE_MS 100
#define NAP_NS   (5 * MS_NS)

const char gs_ask_stopped[] = "it is stopped, by a signal or a debugger";
const char gs_ask_gone[] = "it has ended";
const char gs_ask_foreign[] = "it is another user's process";

static const char no_answer[] = "no answer in time (--wait)";
static const char cut_short[] = "its answer is cut short";
static const char not_its[] = "another process has taken the name of its socket";

/* ---- names ------------------------------------------------------------------------- */

bool gs_ask_read_name(const char *text, struct gs_ask_name *out)
{
    static const char prefix[] = "@" GS_CONTROL_PREFIX;
    size_t length = strcspn(text, "\n");
    const char *at = text + sizeof(prefix) - 1;
    unsigned long pid = 0;
    if (strncmp(text, prefix, sizeof(prefix) - 1) != 0 || length > sizeof(out->text)) {
        return false;
    }
    for (; *at >= '0' && *at <= '9' && pid < INT32_MAX / 10; at++) {
        pid = 10 * pid + (unsigned long)(*at - '0');
    }
    if (pid == 0 || *at != '/' || (size_t)(text + length - at) != GS_CONTROL_SECRET + 1 ||
        strspn(at + 1, "0123456789abcdef") != GS_CONTROL_SECRET) {
        return false;
    }
    memcpy(out->text, text + 1, length - 1);
    out->text[length - 1] = '\0';
    out->pid = (pid_t)pid;
    return true;
}

/* Adds the name of a line, if it is one of a listening socket. */
static void add_name(const char *line, struct gs_ask_name **names, size_t *count,
                     size_t *room)
{
    const char *at = strchr(line, '@');
    struct gs_ask_name name;
    if (!at || !gs_ask_read_name(at, &name)) {
        return;
    }
    for (size_t i = 0; i < *count; i++) { /* a served client has the name, too */
        if (strcmp((*names)[i].text, name.text) == 0) {
            return;
        }
    }
    if (*count == *room) {
        size_t more = *room ? 2 * *room : 16;
        struct gs_ask_name *grown = realloc(*names, more * sizeof(**names));
        if (!grown) {
            return;
        }
        *names = grown;
        *room = more;
    }
    (*names)[(*count)++] = name;
}

struct gs_ask_name *gs_ask_list(pid_t pid, size_t *count)
{
    char path[64], *line = NULL;
    struct gs_ask_name *names = NULL;
    size_t room = 0, line_room = 0;
    *count = 0;
    if (pid == 0) {
        (void)strcpy(path, "/proc/self/net/unix");
    } else {
        (void)snprintf(path, sizeof(path), "/proc/%ld/net/unix", (long)pid);
    }
    FILE *list = fopen(path, "re");
    while (list && getline(&line, &line_room, list) > 0) {
        add_name(line, &names, count, &room);
    }
    if (list) {
        (void)fclose(list);
    }
    free(line);
    return names;
}

/* ---- one socket -------------------------------------------------------------------- */

static int connect_to(const struct gs_ask_name *name, uint64_t until_ns,
                      const char **problem)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t length = strlen(name->text);
    struct gs_wait wait = {.nap_ns = NAP_NS, .until_ns = until_ns};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(to.sun_path + 1, name->text, length);
    length += offsetof(struct sockaddr_un, sun_path) + 1;
    while (fd >= 0 && connect(fd, (const struct sockaddr *)&to, (socklen_t)length) != 0) {
        if (errno == EINTR || (errno == EAGAIN && gs_wait_step(&wait))) {
            continue; /* more clients than it lets wait */
        }
        *problem = errno == EAGAIN ? no_answer : gs_ask_gone;
        (void)close(fd);
        return -1;
    }
    if (fd < 0) {
        *problem = "no socket";
    }
    return fd;
}

/* Whether the process that listens is the one that is meant, and may be believed. */
static bool is_right(int fd, pid_t wanted, struct gs_ask_answer *out)
{
    struct ucred peer;
    char map[256];
    uid_t own = geteuid();
    (void)gs_read_text("/proc/self/uid_map", map, sizeof(map));
    if (!gs_peer_of(fd, &peer)) {
        out->problem = not_its;
        return false;
    }
    out->pid = peer.pid;
    if (own != 0 && !gs_peer_is_allowed(peer.uid, own, map)) {
        out->problem = gs_ask_foreign;
    } else if (peer.pid == 0) {
        out->problem = "it is outside this process namespace";
    } else if (wanted != 0 && peer.pid != wanted) {
        out->problem = not_its;
    } else {
        return true;
    }
    return false;
}

/* Waits for bytes, or the end. False: *problem says why not. */
static bool await_bytes(int fd, pid_t pid, uint64_t until_ns, const char **problem)
{
    struct pollfd socket = {.fd = fd, .events = POLLIN};
    while (poll(&socket, 1, SLICE_MS) <= 0) {
        if (gs_process_is_stopped(pid)) {
            *problem = gs_ask_stopped;
            return false;
        }
        if (gs_now_ns() >= until_ns) {
            *problem = no_answer;
            return false;
        }
    }
    return true;
}

/* Reads until `length` bytes are there, or a newline if `line`. Returns how many. */
static size_t read_bytes(int fd, char *out, size_t length, bool line, uint64_t until_ns,
                         struct gs_ask_answer *answer)
{
    size_t done = 0;
    while (done < length && !(line && done > 0 && out[done - 1] == '\n')) {
        if (gs_now_ns() >= until_ns) {
            answer->problem = no_answer; /* also of one that goes on sending */
            break;
        }
        ssize_t got = recv(fd, out + done, line ? 1 : length - done, MSG_DONTWAIT);
        if (got > 0) {
            done += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            answer->problem = done == 0 && line ? gs_ask_gone : cut_short;
            break;
        } else if (!await_bytes(fd, answer->pid, until_ns, &answer->problem)) {
            break;
        }
    }
    return done;
}

/* Another user's process may say anything: its text does nothing in a terminal. */
static void remove_controls(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool in_utf8 = byte == 0xc2 && (unsigned char)text[i + 1] < 0xa0;
        if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f || in_utf8) {
            text[i] = '?';
            i += in_utf8;
            text[i] = '?';
        }
    }
}

/* "gpushim ok BYTES\n", or "no" for "ok". Returns false if it is another line. */
static bool read_head(const char *head, bool *refused, size_t *length)
{
    static const char ok[] = "gpushim ok ", no[] = "gpushim no ";
    const char *digits = head + sizeof(ok) - 1;
    char *end;
    *refused = strncmp(head, no, sizeof(no) - 1) == 0;
    if ((!*refused && strncmp(head, ok, sizeof(ok) - 1) != 0) || *digits < '0' ||
        *digits > '9') {
        return false;
    }
    *length = strtoul(digits, &end, 10);
    return *end == '\n' && *length <= GS_CONTROL_ANSWER_BYTES;
}

/* Reads the head and the text. */
static bool read_answer(int fd, uint64_t until_ns, struct gs_ask_answer *out)
{
    char head[GS_CONTROL_HEAD_BYTES + 1] = "";
    size_t length;
    size_t got = read_bytes(fd, head, sizeof(head) - 1, true, until_ns, out);
    if (out->problem) {
        return false;
    }
    if (got == 0 || !read_head(head, &out->refused, &length)) {
        out->problem = "its answer is of another version of gpushim";
        return false;
    }
    out->text = malloc(length + 1);
    if (!out->text) {
        out->problem = "no memory for its answer";
        return false;
    }
    out->length = read_bytes(fd, out->text, length, false, until_ns, out);
    out->text[out->length] = '\0';
    remove_controls(out->text, out->length);
    return out->length == length;
}

static bool send_line(int fd, const char *request)
{
    static char line[GS_CONTROL_REQUEST_BYTES]; /* one thread asks */
    int length = snprintf(line, sizeof(line), "%s\n", request);
    return length > 0 && (size_t)length < sizeof(line) &&
           send(fd, line, (size_t)length, MSG_NOSIGNAL) == (ssize_t)length;
}

bool gs_ask(const struct gs_ask_name *name, pid_t pid, const char *request,
            unsigned wait_ms, struct gs_ask_answer *out)
{
    uint64_t until_ns = gs_now_ns() + wait_ms * MS_NS;
    *out = (struct gs_ask_answer){.pid = pid};
    int fd = connect_to(name, until_ns, &out->problem);
    bool answered = false;
    if (fd >= 0 && is_right(fd, pid, out)) {
        /* It may have refused, and closed, before it has read. */
        (void)send_line(fd, request);
        answered = read_answer(fd, until_ns, out);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (!answered) {
        free(out->text);
        out->text = NULL;
    }
    return answered;
}

/* ---- one process ------------------------------------------------------------------- */

/* Why a process has no socket. */
static const char *why_none(pid_t pid)
{
    char path[64], *line = NULL;
    size_t room = 0;
    uint64_t unused;
    bool preloaded = false;
    if (gs_process_start(pid, &unused) != GS_OK) {
        return "no such process";
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld/maps", (long)pid);
    FILE *maps = fopen(path, "re");
    bool readable = maps && getline(&line, &room, maps) > 0;
    while (readable && !preloaded && getline(&line, &room, maps) > 0) {
        preloaded = strstr(line, "/libgpushim.so") != NULL;
    }
    if (maps) {
        (void)fclose(maps);
    }
    free(line);
    return !readable && geteuid() != 0 ? gs_ask_foreign
           : !preloaded                ? "it runs without libgpushim.so"
                        : "it cannot be asked: it has no CUDA context yet, or "
                          "was started without GPUSHIM_CONTROL=on (gpushim "
                          "--control)";
}

/* Whether `named` is one of the numbers that the process has in its namespaces. */
static bool is_number_of(pid_t pid, pid_t named)
{
    static char text[4096]; /* one thread asks */
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    (void)gs_read_text(path, text, sizeof(text));
    const char *at = strstr(text, "\nNSpid:");
    if (!at) {
        return pid == named;
    }
    at += strlen("\nNSpid:");
    while (*at == '\t' || *at == ' ') {
        char *end;
        if (strtol(at, &end, 10) == named) {
            return true;
        }
        at = end;
    }
    return false;
}

/* Enters the network namespace of a process, where its socket has its name. Returns a
 * descriptor of the own one; -1: it is the same; -2: not allowed. */
static int enter_network(pid_t pid)
{
    char path[64];
    struct stat own, its;
    (void)snprintf(path, sizeof(path), "/proc/%ld/ns/net", (long)pid);
    if (stat("/proc/self/ns/net", &own) != 0 || stat(path, &its) != 0 ||
        (own.st_ino == its.st_ino && own.st_dev == its.st_dev)) {
        return -1;
    }
    int back = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int there = open(path, O_RDONLY | O_CLOEXEC);
    bool entered = back >= 0 && there >= 0 && setns(there, CLONE_NEWNET) == 0;
    if (there >= 0) {
        (void)close(there);
    }
    if (!entered && back >= 0) {
        (void)close(back);
    }
    return entered ? back : -2;
}

static void leave_network(int back)
{
    if (back >= 0) {
        (void)setns(back, CLONE_NEWNET);
        (void)close(back);
    }
}

bool gs_ask_process(pid_t pid, const char *request, unsigned wait_ms,
                    struct gs_ask_answer *out)
{
    size_t count;
    struct gs_ask_name *names = gs_ask_list(pid, &count);
    bool answered = false;
    *out = (struct gs_ask_answer){.pid = pid};
    for (size_t i = 0; i < count && !answered; i++) {
        if (!is_number_of(pid, names[i].pid)) {
            continue;
        }
        int back = enter_network(pid);
        if (back == -2) {
            out->problem = "it is in another network namespace, such as a container's: "
                           "ask it there, or as root";
            break;
        }
        answered = gs_ask(&names[i], pid, request, wait_ms, out);
        leave_network(back);
        if (out->problem == gs_ask_stopped || out->problem == no_answer) {
            break; /* it is the right one */
        }
    }
    free(names);
    /* Names that others have taken say nothing about the process. */
    if (!answered &&
        (!out->problem || out->problem == not_its || out->problem == gs_ask_gone)) {
        const char *why = why_none(pid);
        out->problem = out->problem == not_its && why == gs_ask_foreign ? not_its : why;
    }
    return answered;
}
