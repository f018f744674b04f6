/*
 * ask.c - see ask.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/reader/ask.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_grow.h"
#include "gs_read_text.h"
#include "gs_string.h"
#include "gs_wait.h"
#include "shim/settings/process_start.h"
#include "shim/tools/reader/ask_why.h"
#include "shim/tools/reader/living_thread.h"
#include "tracker/names/line_message.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#define PIDFD_THREAD 0200u /* Linux 6.9 */

#define MS_NS 1000000ull
/* Between two looks at whether the process is stopped. */
#define LOOK_NS  (100 * MS_NS)
#define SLICE_NS LOOK_NS
#define NAP_NS   (5 * MS_NS)

const char gs_ask_stopped[] = "it is stopped, by a signal or a debugger";
const char gs_ask_gone[] = "it has ended";
const char gs_ask_foreign[] = "it is another user's process";
const char gs_ask_late[] = "no answer in time (--wait)";

/* ---- threads ----------------------------------------------------------------------- */

/* Reads a number and moves after it. 0: there is none. */
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
        if (!gs_grow(&threads, *count, &room, sizeof(*threads))) {
            break;
        }
        threads[(*count)++] = thread;
    }
    if (processes) {
        (void)closedir(processes);
    }
    return threads;
}

bool gs_ask_is_named(pid_t pid, const char *name)
{
    static char words[4096]; /* one thread asks */
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%ld/cmdline", (long)gs_living_thread(pid));
    size_t length = gs_read_text(path, words, sizeof(words));
    const char *at = words;
    for (unsigned i = 0; i < 2 && at < words + length; i++, at += strlen(at) + 1) {
        if (strcmp(gs_file_name(at), name) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- the segment ------------------------------------------------------------------- */

/* What root lacks, in a container say. */
static const char no_look[] = "its namespaces cannot be seen without CAP_SYS_PTRACE";
static const char no_entry[] =
    "it is in another IPC namespace, which cannot be entered without CAP_SYS_ADMIN";
static const char no_user[] =
    "it is another user's, which cannot be asked without CAP_SETUID";
static const char no_signal[] =
    "it is another user's, which cannot be woken without CAP_KILL";

/* Enters the IPC namespace of a thread. Returns NULL, or why it cannot.
 * Out: *back  a descriptor of the own one; -1: it is the same, or not known */
static const char *enter_ipc(const struct gs_ask_thread *thread, int *back)
{
    char path[64];
    struct stat own, its;
    *back = -1;
    (void)snprintf(path, sizeof(path), "/proc/%ld/task/%ld/ns/ipc", (long)thread->pid,
                   (long)thread->tid);
    if (stat("/proc/self/ns/ipc", &own) != 0 || stat(path, &its) != 0) {
        return geteuid() == 0 && errno == EACCES ? no_look : NULL;
    }
    if (own.st_ino == its.st_ino && own.st_dev == its.st_dev) {
        return NULL;
    }
    *back = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC);
    int there = open(path, O_RDONLY | O_CLOEXEC);
    bool entered = *back >= 0 && there >= 0 && setns(there, CLONE_NEWIPC) == 0;
    if (there >= 0) {
        (void)close(there);
    }
    if (!entered && *back >= 0) {
        (void)close(*back);
        *back = -1;
    }
    return entered          ? NULL
           : geteuid() == 0 ? no_entry
                            : "it is in another IPC namespace, such as a container's: "
                              "ask it there, or as root";
}

/* Makes the segment, with the request, as the process's user. Returns NULL, and why there
 * is none. */
static struct gs_control_box *make_box(uid_t user, const char *request, int *segment,
                                       const char **problem)
{
    uid_t own = geteuid();
    if (user != own && syscall(SYS_setresuid, -1, user, -1) != 0) {
        *problem = no_user;
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
        *problem = "no shared memory can be made to ask it";
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
    if (gs_process_self() != getpid()) {
        return gs_ask_other_proc;
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

/* Wakes the thread, if it still may be, or leaves that for later. Returns NULL, or why it
 * never will. */
static const char *wake(struct gs_ask_call *call)
{
    uid_t user;
    /* Each time: it may have ended, or installed a filter. */
    const char *problem = check(&call->thread, &user);
    if (problem) {
        return problem;
    }
    switch (send_signal(&call->thread, call->fd, call->segment)) {
    case 0:
        call->woken = true;
        return NULL;
    case EAGAIN: /* as many signals wait as may */
        return gs_now_ns() < call->until_ns ? NULL : gs_ask_late;
    case EPERM:
        return geteuid() == 0 ? no_signal : gs_ask_foreign;
    case ESRCH:
        return gs_ask_gone;
    default:
        return "signals to it are not possible";
    }
}

/* ---- the answer -------------------------------------------------------------------- */

/* Returns NULL if the next piece may still come, or why it will not. In: now  the turn */
static const char *look(struct gs_ask_call *call, uint32_t now)
{
    uint64_t now_ns = gs_now_ns();
    bool same = now == call->turn;
    call->turn = now;
    if (now == GS_CONTROL_OTHER) {
        return "it has another version of gpushim";
    }
    if (same && now_ns >= call->look_ns) {
        call->look_ns = now_ns + LOOK_NS;
        if (gs_process_is_stopped(call->thread.pid)) {
            return gs_ask_stopped;
        }
        if (syscall(SYS_tgkill, call->thread.pid, call->thread.tid, 0) != 0) {
            return gs_ask_gone;
        }
        if (now == GS_CONTROL_ASKED &&
            gs_ask_lacks_addresses(call->thread.pid, sizeof(*call->box))) {
            return "its address space is used up (RLIMIT_AS)";
        }
    }
    return now_ns >= call->until_ns ? gs_ask_late : NULL;
}

/* Takes a piece. Returns NULL, or why the answer cannot be whole. */
static const char *take_piece(struct gs_ask_call *call)
{
    struct gs_control_box *box = call->box;
    struct gs_ask_answer *out = &call->answer;
    uint32_t length = __atomic_load_n(&box->length, __ATOMIC_RELAXED);
    if (!out->text) {
        call->total = __atomic_load_n(&box->total, __ATOMIC_RELAXED);
        out->refused = box->refused != 0;
        if (call->total > call->most_bytes) {
            return "its answer is too long";
        }
        if (!(out->text = malloc(call->total + 1))) {
            return "no memory for its answer";
        }
    }
    if (length > sizeof(box->piece) || length > call->total - out->length ||
        (length == 0 && call->total > 0)) {
        return "its answer cannot be read";
    }
    memcpy(out->text + out->length, box->piece, length);
    out->length += length;
    out->text[out->length] = '\0';
    call->turn = GS_CONTROL_NEXT;
    (void)gs_control_hand_over(box, GS_CONTROL_PIECE, call->turn);
    return NULL;
}

/* ---- lines ------------------------------------------------------------------------- */

#define LINES_MS 5000u

/* The same file for this process: of the other's root. Returns false if it is none to be
 * read. */
static bool find_file(pid_t pid, const char *path, char *out, size_t room)
{
    static const char self[] = "/proc/self/";
    struct stat info;
    const long process = gs_living_thread(pid);
    int length = strncmp(path, self, strlen(self)) == 0
                     ? snprintf(out, room, "/proc/%ld/%s", process, path + strlen(self))
                     : snprintf(out, room, "/proc/%ld/root%s", process, path);
    return path[0] == '/' && path[strcspn(path, "\"\r")] == '\0' && length > 0 &&
           (size_t)length < room && stat(out, &info) == 0 && S_ISREG(info.st_mode);
}

/* Answers the process's queries, in their place. */
static void answer_lines(struct gs_ask_call *call)
{
    static char text[GS_CONTROL_PIECE_BYTES]; /* what is read does not change */
    static char paths[GS_LINE_MESSAGE_QUERIES][PATH_MAX];
    static struct gs_line_query all[GS_LINE_MESSAGE_QUERIES],
        wanted[GS_LINE_MESSAGE_QUERIES];
    size_t places[GS_LINE_MESSAGE_QUERIES], found = 0;
    const pid_t pid = call->thread.pid;
    memcpy(text, call->box->lines, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    size_t count = gs_line_message_read(text, all);
    for (size_t i = 0; i < count; i++) {
        if (find_file(pid, all[i].path, paths[found], sizeof(paths[found]))) {
            wanted[found] = all[i];
            wanted[found].path = paths[found];
            places[found++] = i;
        }
    }
    (void)gs_line_helper_resolve(call->lines, LINES_MS, wanted, found);
    for (size_t i = 0; i < found; i++) {
        all[places[i]].places = wanted[i].places;
        all[places[i]].count = wanted[i].count;
    }
    gs_line_message_answer(all, count, call->box->lines, sizeof(call->box->lines));
    for (size_t i = 0; i < count; i++) {
        gs_line_query_free(&all[i]);
    }
    call->turn = GS_CONTROL_TAKEN;
    (void)gs_control_hand_over(call->box, GS_CONTROL_LINES, call->turn);
}

void gs_ask_make_printable(struct gs_ask_answer *answer)
{
    char *text = answer->text;
    size_t length = answer->length;
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

static void leave(struct gs_control_box *box)
{
    __atomic_store_n(&box->turn, GS_CONTROL_LEFT, __ATOMIC_RELEASE);
    (void)gs_control_hand_over(box, GS_CONTROL_LEFT, GS_CONTROL_LEFT);
    (void)shmdt(box);
}

/* ---- calls ------------------------------------------------------------------------- */

void gs_ask_begin(const struct gs_ask_thread *thread, const char *request,
                  unsigned wait_ms, size_t most_bytes, struct gs_ask_call *out)
{
    uint64_t now_ns = gs_now_ns();
    uid_t user;
    *out = (struct gs_ask_call){.thread = *thread,
                                .until_ns = now_ns + wait_ms * MS_NS,
                                .look_ns = now_ns + LOOK_NS,
                                .most_bytes = most_bytes,
                                .fd = -1,
                                .turn = GS_CONTROL_ASKED,
                                .answer = {.pid = thread->pid}};
    if ((out->answer.problem = check(thread, &user))) {
        return;
    }
    /* Before the look at the thread, so that it is no later one of the same number. */
    out->fd = (int)syscall(SYS_pidfd_open, thread->tid, PIDFD_THREAD);
    int back;
    out->answer.problem = enter_ipc(thread, &back);
    if (!out->answer.problem) {
        out->box = make_box(user, request, &out->segment, &out->answer.problem);
    }
    if (back >= 0) {
        (void)setns(back, CLONE_NEWIPC);
        (void)close(back);
    }
}

/* Returns NULL, or why there will be no answer. Out: *whole  it is there */
static const char *go_on(struct gs_ask_call *call, uint64_t wait_ns, bool *whole)
{
    const char *problem = call->woken ? NULL : wake(call);
    if (problem) {
        return problem;
    }
    if (!call->woken) {
        gs_nap(wait_ns < NAP_NS ? wait_ns : NAP_NS);
        return NULL;
    }
    uint32_t now = wait_ns > 0 ? gs_control_await(call->box, call->turn, wait_ns)
                               : __atomic_load_n(&call->box->turn, __ATOMIC_ACQUIRE);
    if (now == GS_CONTROL_LINES && call->lines) {
        answer_lines(call);
        return NULL;
    }
    if (now != GS_CONTROL_PIECE) {
        return look(call, now);
    }
    problem = take_piece(call);
    *whole = !problem && call->answer.length == call->total;
    return problem;
}

bool gs_ask_step(struct gs_ask_call *call, uint64_t wait_ns)
{
    bool whole = false;
    if (!call->answer.problem) {
        call->answer.problem = go_on(call, wait_ns, &whole);
    }
    if (call->answer.problem) {
        free(call->answer.text);
        call->answer.text = NULL;
        call->answer.length = 0;
    }
    return whole || call->answer.problem;
}

void gs_ask_end(struct gs_ask_call *call)
{
    if (call->box) {
        leave(call->box);
        call->box = NULL;
    }
    if (call->fd >= 0) {
        (void)close(call->fd);
        call->fd = -1;
    }
}

bool gs_ask_bytes(const struct gs_ask_thread *thread, const char *request,
                  unsigned wait_ms, struct gs_ask_answer *out)
{
    struct gs_line_helper helper = {0};
    struct gs_ask_call call;
    uid_t user = 0;
    gs_ask_begin(thread, request, wait_ms, GS_CONTROL_ANSWER_BYTES, &call);
    /* What another user's process names is not read with this one's rights. */
    if (call.box && !check(thread, &user) && user == geteuid()) {
        call.lines = &helper;
        call.box->finds_lines = 1;
    }
    while (!gs_ask_step(&call, SLICE_NS)) {
    }
    gs_ask_end(&call);
    gs_line_helper_end(&helper);
    *out = call.answer;
    return !out->problem;
}

bool gs_ask(const struct gs_ask_thread *thread, const char *request, unsigned wait_ms,
            struct gs_ask_answer *out)
{
    bool answered = gs_ask_bytes(thread, request, wait_ms, out);
    if (answered) {
        gs_ask_make_printable(out);
    }
    return answered;
}

const char *gs_ask_find(pid_t pid, struct gs_ask_thread *out)
{
    return find_thread(pid, out) ? NULL : gs_ask_why_none(pid);
}
