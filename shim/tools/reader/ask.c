/*
 * ask.c - see ask.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/reader/ask.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_read_text.h"
#include "gs_wait.h"
#include "shim/settings/process_start.h"
#include "shim/tools/reader/ask_why.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#define PIDFD_THREAD 0200u /* Linux 6.9 */

#define MS_NS 1000000ull
/* Between two looks at whether the process is stopped. */
#define SLICE_MS 100
#define NAP_NS   (5 * MS_NS)

const char gs_ask_stopped[] = "it is stopped, by a signal or a debugger";
const char gs_ask_gone[] = "it has ended";
const char gs_ask_foreign[] = "it is another user's process";

static const char no_answer[] = "no answer in time (--wait)";

/* ---- threads ----------------------------------------------------------------------- */

/* Reads a number and moves behind it. 0: there is none. */
static pid_t read_number(const char **at)
{
    long number = 0;
    for (; **at >= '0' && **at <= '9' && number < INT32_MAX / 10; ++*at) {
        number = 10 * number + (**at - '0');
    }
    return (pid_t)number;
}

bool gs_ask_read_name(const char *text, struct gs_ask_thread *out)
{
    const char *at = text + 1;
    if (text[0] != '@' || (out->pid = read_number(&at)) == 0 || *at++ != '/' ||
        (out->tid = read_number(&at)) == 0 || *at != '\0') {
        return false;
    }
    (void)snprintf(out->name, sizeof(out->name), "@%ld/%ld", (long)out->pid,
                   (long)out->tid);
    return true;
}

/* Returns whether a thread answers. In: name  room for its name */
static bool answers(pid_t pid, pid_t tid, char name[GS_CONTROL_NAME_BYTES + 1])
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%ld/task/%ld/comm", (long)pid, (long)tid);
    (void)gs_read_text(path, name, GS_CONTROL_NAME_BYTES + 1);
    name[strcspn(name, "\n")] = '\0';
    /* The first thread is never the library's: in a forked child it has inherited the
     * name. */
    return pid != tid && strncmp(name, GS_CONTROL_THREAD, strlen(GS_CONTROL_THREAD)) == 0;
}

static pid_t numeric(const struct dirent *entry)
{
    const char *at = entry->d_name;
    pid_t number = read_number(&at);
    return *at == '\0' ? number : 0;
}

/* Finds the thread of a process that answers. */
static bool find_thread(pid_t pid, struct gs_ask_thread *out)
{
    char path[64], name[GS_CONTROL_NAME_BYTES + 1];
    bool found = false;
    (void)snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    DIR *tasks = opendir(path);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of this function's own */
    for (struct dirent *entry; tasks && !found && (entry = readdir(tasks));) {
        pid_t tid = numeric(entry);
        found = tid != 0 && answers(pid, tid, name);
        if (found) {
            *out = (struct gs_ask_thread){.pid = pid, .tid = tid};
            (void)snprintf(out->name, sizeof(out->name), "@%ld/%ld", (long)pid,
                           (long)tid);
        }
    }
    if (tasks) {
        (void)closedir(tasks);
    }
    return found;
}

/* Returns whether a process may have such a thread, and is this user's. */
static bool may_answer(pid_t pid)
{
    char path[64];
    struct stat info;
    (void)snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    /* Two links, and one for each thread. */
    return stat(path, &info) == 0 && info.st_nlink > 3 &&
           (geteuid() == 0 || info.st_uid == geteuid());
}

struct gs_ask_thread *gs_ask_list(size_t *count)
{
    struct gs_ask_thread *threads = NULL, thread;
    size_t room = 0;
    DIR *processes = opendir("/proc");
    *count = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of this function's own */
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        pid_t pid = numeric(entry);
        if (pid == 0 || !may_answer(pid) || !find_thread(pid, &thread)) {
            continue;
        }
        if (*count == room) {
            size_t more = room ? 2 * room : 16;
            struct gs_ask_thread *grown = reallocarray(threads, more, sizeof(*threads));
            if (!grown) {
                break;
            }
            threads = grown;
            room = more;
        }
        threads[(*count)++] = thread;
    }
    if (processes) {
        (void)closedir(processes);
    }
    return threads;
}

/* ---- the segment ------------------------------------------------------------------- */

/* Enters the IPC namespace of a thread. Returns a descriptor of the own one; -1: it is
 * the same, or not known; -2: not allowed. */
static int enter_ipc(const struct gs_ask_thread *thread)
{
    char path[64];
    struct stat own, its;
    (void)snprintf(path, sizeof(path), "/proc/%ld/task/%ld/ns/ipc", (long)thread->pid,
                   (long)thread->tid);
    if (stat("/proc/self/ns/ipc", &own) != 0 || stat(path, &its) != 0 ||
        (own.st_ino == its.st_ino && own.st_dev == its.st_dev)) {
        return -1;
    }
    int back = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC);
    int there = open(path, O_RDONLY | O_CLOEXEC);
    bool entered = back >= 0 && there >= 0 && setns(there, CLONE_NEWIPC) == 0;
    if (there >= 0) {
        (void)close(there);
    }
    if (!entered && back >= 0) {
        (void)close(back);
    }
    return entered ? back : -2;
}

/* Makes the segment, with the request, as the process's user. Returns NULL if there is
 * none. */
static struct gs_control_box *make_box(uid_t user, const char *request, int *segment)
{
    uid_t own = geteuid();
    if (user != own && syscall(SYS_setresuid, -1, user, -1) != 0) {
        return NULL;
    }
    *segment = shmget(IPC_PRIVATE, sizeof(struct gs_control_box),
                      IPC_CREAT | 0600 | SHM_NORESERVE);
    struct gs_control_box *box = *segment < 0 ? (void *)-1 : shmat(*segment, NULL, 0);
    if (*segment >= 0) {
        (void)shmctl(*segment, IPC_RMID, NULL); /* with its last user it ends */
    }
    if (user != own) {
        (void)syscall(SYS_setresuid, -1, own, -1);
    }
    if (box == (void *)-1) {
        return NULL;
    }
    box->magic = GS_CONTROL_MAGIC;
    box->bytes = sizeof(*box);
    (void)strncpy(box->request, request, sizeof(box->request) - 1);
    __atomic_store_n(&box->turn, GS_CONTROL_ASKED, __ATOMIC_RELEASE);
    return box;
}

/* ---- the signal -------------------------------------------------------------------- */

/* Returns NULL if the thread may be woken, or why not. Out: its user */
static const char *check(const struct gs_ask_thread *thread, uid_t *user)
{
    if (gs_process_self() != getpid()) { /* its numbers are other processes here */
        return "/proc is that of another PID namespace";
    }
    static char status[8192]; /* one thread asks */
    char path[64], name[GS_CONTROL_NAME_BYTES + 1];
    (void)snprintf(path, sizeof(path), "/proc/%ld/task/%ld/status", (long)thread->pid,
                   (long)thread->tid);
    (void)gs_read_text(path, status, sizeof(status));
    const char *users = strstr(status, "\nUid:"), *blocked = strstr(status, "\nSigBlk:");
    if (!users || !blocked || !answers(thread->pid, thread->tid, name)) {
        return gs_ask_gone;
    }
    char *at;
    (void)strtoul(users + strlen("\nUid:"), &at, 10);
    *user = (uid_t)strtoul(at, NULL, 10);
    if (geteuid() != 0 && *user != geteuid()) {
        return gs_ask_foreign;
    }
    /* Who gives a thread this name, but not its signals, would be ended by the signal. */
    uint64_t most = ~(GS_CONTROL_MASK | 1ull << (SIGSYS - 1) | 1ull << (SIGKILL - 1) |
                      1ull << (SIGSTOP - 1) | 1ull << GS_CONTROL_SIGNAL);
    if ((strtoull(blocked + strlen("\nSigBlk:"), NULL, 16) & most) != most) {
        return gs_ask_gone;
    }
    const char *filters = name + strlen(GS_CONTROL_THREAD);
    return strcmp(filters, GS_CONTROL_ANY) == 0 ||
                   gs_control_filters(status) <= strtoul(filters, NULL, 10)
               ? NULL
               : gs_ask_filtered;
}

/* Returns 0 or an errno. In: fd  of the thread; -1: there is none */
static int send_signal(const struct gs_ask_thread *thread, int fd, int segment)
{
    siginfo_t info = {.si_signo = GS_CONTROL_SIGNAL, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = geteuid();
    info.si_value.sival_int = segment;
    long sent = fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, GS_CONTROL_SIGNAL, &info, 0)
                        : syscall(SYS_rt_tgsigqueueinfo, thread->pid, thread->tid,
                                  GS_CONTROL_SIGNAL, &info);
    return sent == 0 ? 0 : errno;
}

/* Wakes the thread, if it still may be. Returns NULL, or why not. In: fd  as above */
static const char *wake(const struct gs_ask_thread *thread, int fd, int segment,
                        uint64_t until_ns)
{
    struct gs_wait wait = {.nap_ns = NAP_NS, .until_ns = until_ns};
    const char *problem;
    uid_t user;
    for (;;) {
        /* Each time: it may have ended, or installed a filter. */
        if ((problem = check(thread, &user))) {
            return problem;
        }
        switch (send_signal(thread, fd, segment)) {
        case 0:
            return NULL;
        case EAGAIN: /* as many signals wait as may */
            if (gs_wait_step(&wait)) {
                continue;
            }
            return no_answer;
        case EPERM:
            return gs_ask_foreign;
        case ESRCH:
            return gs_ask_gone;
        default:
            return "signals to it are not possible";
        }
    }
}

/* ---- the answer -------------------------------------------------------------------- */

/* Waits for the next piece. Returns NULL, or why there is none. */
static const char *await_piece(struct gs_control_box *box, uint32_t turn,
                               const struct gs_ask_thread *thread, uint64_t until_ns)
{
    for (;;) {
        uint32_t now = gs_control_await(box, turn, SLICE_MS * MS_NS);
        if (now == GS_CONTROL_PIECE) {
            return NULL;
        }
        if (now == GS_CONTROL_OTHER) {
            return "it has another version of gpushim";
        }
        if (now == turn && gs_process_is_stopped(thread->pid)) {
            return gs_ask_stopped;
        }
        if (now == turn && syscall(SYS_tgkill, thread->pid, thread->tid, 0) != 0) {
            return gs_ask_gone;
        }
        if (gs_now_ns() >= until_ns) {
            return no_answer;
        }
        turn = now;
    }
}

/* Another user's process may say anything: its text does nothing in a terminal. */
static void remove_controls(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        unsigned char next = i + 1 < length ? (unsigned char)text[i + 1] : 0;
        bool in_utf8 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
        if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f || in_utf8) {
            text[i] = '?';
            i += in_utf8;
            text[i] = '?';
        }
    }
}

/* Takes the pieces. Returns NULL, or why the answer is not whole. */
static const char *read_answer(struct gs_control_box *box,
                               const struct gs_ask_thread *thread, uint64_t until_ns,
                               struct gs_ask_answer *out)
{
    uint32_t turn = GS_CONTROL_ASKED;
    uint64_t total = 0;
    do {
        const char *problem = await_piece(box, turn, thread, until_ns);
        uint32_t length = problem ? 0 : __atomic_load_n(&box->length, __ATOMIC_RELAXED);
        if (!problem && !out->text) {
            total = __atomic_load_n(&box->total, __ATOMIC_RELAXED);
            out->refused = box->refused != 0;
            out->text = total <= GS_CONTROL_ANSWER_BYTES ? malloc(total + 1) : NULL;
            problem = out->text ? NULL : "no memory for its answer";
        }
        if (!problem && (length > sizeof(box->piece) || length > total - out->length ||
                         (length == 0 && total > 0))) {
            problem = "its answer cannot be read";
        }
        if (problem) {
            return problem;
        }
        memcpy(out->text + out->length, box->piece, length);
        out->length += length;
        turn = GS_CONTROL_NEXT;
        (void)gs_control_hand_over(box, GS_CONTROL_PIECE, turn);
    } while (out->length < total);
    out->text[total] = '\0';
    remove_controls(out->text, total);
    return NULL;
}

static void leave(struct gs_control_box *box)
{
    __atomic_store_n(&box->turn, GS_CONTROL_LEFT, __ATOMIC_RELEASE);
    (void)gs_control_hand_over(box, GS_CONTROL_LEFT, GS_CONTROL_LEFT);
    (void)shmdt(box);
}

bool gs_ask(const struct gs_ask_thread *thread, const char *request, unsigned wait_ms,
            struct gs_ask_answer *out)
{
    uint64_t until_ns = gs_now_ns() + wait_ms * MS_NS;
    uid_t user;
    int segment;
    *out = (struct gs_ask_answer){.pid = thread->pid};
    if ((out->problem = check(thread, &user))) {
        return false;
    }
    /* Before the look at the thread, so that it is no later one of the same number. */
    int fd = (int)syscall(SYS_pidfd_open, thread->tid, PIDFD_THREAD);
    int back = enter_ipc(thread);
    struct gs_control_box *box = back != -2 ? make_box(user, request, &segment) : NULL;
    if (!box) {
        out->problem = back == -2
                           ? "it is in another IPC namespace, such as a container's: "
                             "ask it there, or as root"
                           : "no shared memory can be made to ask it";
    } else {
        if (!(out->problem = wake(thread, fd, segment, until_ns))) {
            out->problem = read_answer(box, thread, until_ns, out);
        }
        leave(box);
    }
    if (back >= 0) {
        (void)setns(back, CLONE_NEWIPC);
        (void)close(back);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (out->problem) {
        free(out->text);
        out->text = NULL;
    }
    return !out->problem;
}

bool gs_ask_process(pid_t pid, const char *request, unsigned wait_ms,
                    struct gs_ask_answer *out)
{
    struct gs_ask_thread thread;
    *out = (struct gs_ask_answer){.pid = pid};
    bool answered = find_thread(pid, &thread) && gs_ask(&thread, request, wait_ms, out);
    if (!answered && (!out->problem || out->problem == gs_ask_gone)) {
        out->problem = gs_ask_why_none(pid);
    }
    return answered;
}
