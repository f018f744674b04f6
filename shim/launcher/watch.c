/*
 * watch.c - see watch.h.
 *
 * The watcher is in a session of its own, with no descriptor but standard error, and
 * blocks every signal: what is sent to the command's group, or comes from its terminal,
 * does not reach the watcher. It ends when the command and all processes that the command
 * has started have ended. While the command's standard error is a pipe, the watcher keeps
 * it open no longer than a process of the command does: a reader sees its end as
 * natively.
 *
 * Owns:  the processes and their states.   Lock: none; one thread.
 */
#include "watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher.h"
#include "process_start.h"
#include "process_table.h"
#include "watch_message.h"

#define NAME "gpushim-watch"
/* Reports written at once. */
#define REPORTERS_MOST 4
/* Lists of /proc, one after the other, without a process that is watched. */
#define LISTS 3
/* How often a pipe's other owners are looked for: soon after an end, then less and less.
 * And processes without pidfd. */
#define PIPE_FIRST_MS 5
#define PIPE_MS       1000
#define NO_FD_MS      50
#define MESSAGES      1000 /* read at once, so that the rest of the loop has its turn */
#define FAILED_MAX    3    /* lines about reports that failed */

enum stage { KEPT, DUE, WRITING, DONE };

struct state_row {
    struct gs_watch_state state;
    struct state_row *next; /* the process's next */
    enum stage stage;
    pid_t reporter;
    bool bad;
};

struct process {
    pid_t pid;
    int pidfd;           /* -1: none */
    uint64_t start;      /* for a process without pidfd */
    bool is_main, ended; /* the command's own */
    struct gs_watch_end end;
    struct state_row *states;
};

static struct {
    struct gs_watch config;
    struct process *processes; /* the first one is the command */
    size_t count, room;
    int children; /* a signalfd */
    unsigned reporters;
    bool pipe, terminal, answered; /* the kinds of standard error */
    int pipe_ms;
} watcher = {.pipe_ms = PIPE_MS};

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
    (void)snprintf(secret, sizeof(secret), "%016llx", (unsigned long long)random[1]);
    (void)snprintf(name + length, sizeof(name) - (size_t)length, "-%s", secret);
    (void)setenv(GS_WATCH_VARIABLE, name, 1);
    return true;
}

/* ---- processes --------------------------------------------------------------------- */

static struct process *process_of(pid_t pid)
{
    for (size_t i = watcher.count; i-- > 0;) {
        if (watcher.processes[i].pid == pid && !watcher.processes[i].ended) {
            return &watcher.processes[i];
        }
    }
    return NULL;
}

/* pidfd: -1: opened here. NULL: no memory. */
static struct process *add_process(pid_t pid, int pidfd)
{
    if (watcher.count == watcher.room) {
        size_t room = watcher.room ? 2 * watcher.room : 16;
        struct process *more =
            reallocarray(watcher.processes, room, sizeof(*watcher.processes));
        if (!more) {
            return NULL;
        }
        watcher.processes = more;
        watcher.room = room;
    }
    struct process *process = &watcher.processes[watcher.count++];
    *process = (struct process){
        .pid = pid, .pidfd = pidfd >= 0 ? pidfd : (int)syscall(SYS_pidfd_open, pid, 0)};
    if (gs_process_start(pid, &process->start) != GS_OK) {
        process->start = 0; /* it has ended */
    }
    return process;
}

static void found_process(void *unused, pid_t pid)
{
    (void)unused;
    if (!process_of(pid)) {
        (void)add_process(pid, -1);
    }
}

static size_t live_count(void)
{
    size_t live = 0;
    for (size_t i = 0; i < watcher.count; i++) {
        live += !watcher.processes[i].ended;
    }
    return live;
}

static void forget_state(struct state_row *row)
{
    for (size_t i = 0; i < row->state.count; i++) {
        close(row->state.pieces[i].fd);
    }
    free(row->state.pieces);
    free(row->state.text);
    row->state.pieces = NULL;
    row->state.text = NULL;
    row->state.count = 0;
}

/* ---- messages ---------------------------------------------------------------------- */

static struct state_row *state_of(struct process *process, uint64_t key)
{
    struct state_row *row = process->states;
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
static struct state_row *add_state(struct process *process,
                                   const struct gs_watch_head *head,
                                   const struct ucred *from, const char *text)
{
    struct state_row **end = &process->states, *row = calloc(1, sizeof(*row));
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
    while (*end) {
        end = &(*end)->next;
    }
    *end = row;
    return row;
}

/* Takes a piece. False: the descriptor is not kept. */
static bool take(const struct gs_watch_head *head, size_t length,
                 const struct ucred *from, const char *text, int fd)
{
    if (length < sizeof(*head) ||
        memcmp(head->magic, GS_WATCH_MAGIC, sizeof(head->magic)) != 0 ||
        memcmp(head->secret, secret, sizeof(head->secret)) != 0 ||
        head->text_bytes > length - sizeof(*head) || from->pid <= 0 ||
        (from->uid != geteuid() && geteuid() != 0)) {
        return false;
    }
    struct process *process = process_of(from->pid);
    if (!process) {
        process = add_process(from->pid, -1);
    }
    struct state_row *row = process ? state_of(process, head->key) : NULL;
    if (process && !row && head->offset == 0) {
        row = add_state(process, head, from, text);
    }
    return row && add_piece(&row->state, fd, head->offset);
}

static bool receive(void)
{
    static struct {
        struct gs_watch_head head;
        char text[GS_WATCH_TEXT_BYTES];
    } data;
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 4) + CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {&data, sizeof(data)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct ucred from = {0, (uid_t)-1, (gid_t)-1};
    int fds[4];
    size_t count = 0;
    ssize_t length =
        recvmsg(watcher.config.socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
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
        } else if (one->cmsg_type == SCM_RIGHTS) {
            size_t bytes = one->cmsg_len - CMSG_LEN(0);
            bytes = bytes < sizeof(fds) ? bytes : sizeof(fds);
            memcpy(fds, CMSG_DATA(one), bytes);
            count = bytes / sizeof(int);
        }
    }
    bool kept = count == 1 && take(&data.head, (size_t)length, &from, data.text, fds[0]);
    for (size_t i = 0; i < count && !kept; i++) {
        close(fds[i]);
    }
    return true;
}

/* What was sent until now: the kernel's queue is shorter, and who goes on sending does
 * not keep the watcher from its other work. */
static void receive_queue(void)
{
    for (unsigned i = 0; i < MESSAGES && receive(); i++) {
    }
}

/* ---- ends -------------------------------------------------------------------------- */

static bool has_ended(const struct process *process)
{
    struct pollfd one = {process->pidfd, POLLIN, 0};
    if (process->pidfd >= 0) {
        return poll(&one, 1, 0) == 1;
    }
    uint64_t start; /* what cannot be seen has ended, where /proc can be read at all */
    return gs_process_start(process->pid, &start) == GS_OK ? start != process->start
                                                           : gs_process_self() > 0;
}

/* A state with the ending of a report is not needed any more, but for the summary. */
static void end_states(struct process *process)
{
    struct gs_state_process is;
    for (struct state_row *row = process->states; row; row = row->next) {
        bool read = row->stage == KEPT && gs_watch_process_of(&row->state, &is);
        if (row->stage != KEPT) {
            continue;
        }
        row->stage = read && !is.ending[0] ? DUE : DONE;
        row->bad = read && is.ending[0] && is.bad;
        if (row->stage == DONE && !watcher.config.summary) {
            forget_state(row);
        }
    }
}

static void end_process(struct process *process)
{
    if (!process->end.known) {
        gs_watch_find_end(process->pid, process->pidfd, &process->end);
    }
    process->ended = true;
    if (process->pidfd >= 0) {
        close(process->pidfd);
    }
    process->pidfd = -1;
    watcher.pipe_ms = PIPE_FIRST_MS;
    end_states(process);
}

static void find_ended(void)
{
    for (size_t i = 0; i < watcher.count; i++) {
        struct process *process = &watcher.processes[i];
        /* The launcher's word comes before the pidfd, with the status. */
        bool told = process->is_main && watcher.config.parent >= 0;
        if (!process->ended && !told && has_ended(process)) {
            receive_queue();
            end_process(&watcher.processes[i]);
        }
    }
}

/* ---- reports ----------------------------------------------------------------------- */

static void start_reporter(const struct process *process, struct state_row *row)
{
    row->reporter = fork();
    if (row->reporter == 0) {
        (void)setpgid(0, 0);
        _exit(gs_watch_report(&row->state, &process->end));
    }
    row->stage = row->reporter < 0 ? DONE : WRITING;
    watcher.reporters += row->reporter > 0;
}

static void start_reporters(void)
{
    for (size_t i = 0; i < watcher.count; i++) {
        for (struct state_row *row = watcher.processes[i].states; row; row = row->next) {
            if (row->stage == DUE && watcher.reporters < REPORTERS_MOST) {
                start_reporter(&watcher.processes[i], row);
            }
        }
    }
}

static void end_reporter(pid_t pid, int status)
{
    static unsigned failed;
    for (size_t i = 0; i < watcher.count; i++) {
        for (struct state_row *row = watcher.processes[i].states; row; row = row->next) {
            if (row->stage != WRITING || row->reporter != pid) {
                continue;
            }
            row->stage = DONE;
            row->bad = WIFEXITED(status) && WEXITSTATUS(status) == GS_WATCH_BAD;
            if (WIFSIGNALED(status) && failed++ < FAILED_MAX) {
                gs_launcher_warn("no report of process %ld: writing it failed (%s)",
                                 (long)row->state.pid, strsignal(WTERMSIG(status)));
            }
            if (!watcher.config.summary) {
                forget_state(row);
            }
            watcher.reporters--;
            return;
        }
    }
}

static void wait_for_reporters(void)
{
    struct signalfd_siginfo unused;
    int status;
    pid_t pid;
    while (read(watcher.children, &unused, sizeof(unused)) > 0) {
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        end_reporter(pid, status);
    }
}

static bool reports_are_over(void)
{
    for (size_t i = 0; i < watcher.count; i++) {
        for (struct state_row *row = watcher.processes[i].states; row; row = row->next) {
            if (row->stage == DUE || row->stage == WRITING) {
                return false;
            }
        }
    }
    return true;
}

/* ---- the command's end ------------------------------------------------------------- */

/* The states as files: pieces are copied to a new one. */
static int file_of(const struct gs_watch_state *state)
{
    if (state->whole) {
        return state->pieces[0].fd;
    }
    size_t length, done = 0;
    char *bytes = gs_watch_gather(state, &length);
    int fd = bytes ? (int)syscall(SYS_memfd_create, "gpushim", 0) : -1;
    while (fd >= 0 && done < length) {
        ssize_t put = write(fd, bytes + done, length - done);
        if (put <= 0) {
            break;
        }
        done += (size_t)put;
    }
    free(bytes);
    return fd;
}

/* In a process of its own. */
static int write_summary(void)
{
    const struct process *command = &watcher.processes[0];
    struct gs_state_ended ended = {command->pid, 0};
    size_t count = 0;
    if (command->end.known && WIFSIGNALED(command->end.status)) {
        ended.signal = WTERMSIG(command->end.status);
    }
    char **paths = calloc(1, sizeof(*paths));
    for (size_t i = 0; i < watcher.count; i++) {
        for (struct state_row *row = watcher.processes[i].states; row; row = row->next) {
            int fd = row->state.count ? file_of(&row->state) : -1;
            char **more = fd < 0 ? NULL : reallocarray(paths, count + 2, sizeof(*paths));
            if (more && asprintf(&more[count], "/proc/self/fd/%d", fd) >= 0) {
                more[++count] = NULL;
            }
            paths = more ? more : paths;
        }
    }
    if (count == 0) {
        gs_launcher_warn("no process made a CUDA call");
        return 0;
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    return gs_summary_write(paths, ended.signal ? &ended : NULL);
}

/* All that has ended with the command is reported. */
static void end_command(void)
{
    struct gs_watch_answer answer = {.bad = false};
    if (watcher.config.summary) {
        pid_t child = fork();
        if (child == 0) {
            exit(write_summary());
        }
        while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
        watcher.config.summary = false;
    }
    for (struct state_row *row = watcher.processes[0].states; row; row = row->next) {
        answer.bad |= row->bad;
    }
    if (watcher.config.parent >= 0) {
        (void)send(watcher.config.parent, &answer, sizeof(answer), MSG_NOSIGNAL);
        close(watcher.config.parent);
        watcher.config.parent = -1;
    }
    watcher.answered = true;
}

/* The launcher says how the command ended; or is no more, and the command soon. */
static void hear_parent(void)
{
    struct process *command = &watcher.processes[0];
    int status;
    if (watcher.config.parent < 0 || command->ended) {
        return;
    }
    ssize_t got = recv(watcher.config.parent, &status, sizeof(status), MSG_DONTWAIT);
    if (got == (ssize_t)sizeof(status)) {
        receive_queue();
        command = &watcher.processes[0]; /* they may have moved */
        command->end = (struct gs_watch_end){true, status};
        end_process(command);
    } else if (got == 0) {
        close(watcher.config.parent);
        watcher.config.parent = -1;
    }
}

/* A pipe that nobody else has open any more is let go. */
static void release_pipe(void)
{
    struct process *command = &watcher.processes[0];
    if (!watcher.pipe || !reports_are_over() || (!command->ended && command->pidfd < 0)) {
        return;
    }
    for (size_t i = 0; i < watcher.count; i++) {
        if (!watcher.processes[i].ended &&
            gs_watch_shares_stderr(watcher.processes[i].pid)) {
            return;
        }
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, STDERR_FILENO);
        close(null);
    }
    watcher.pipe = false;
}

/* ---- the loop ---------------------------------------------------------------------- */

static void wait_for_news(void)
{
    static struct pollfd *fds;
    static size_t room;
    size_t count = 0;
    bool no_fd = false;
    if (room < watcher.count + 3) {
        struct pollfd *more = reallocarray(fds, watcher.count + 64, sizeof(*fds));
        if (!more) {
            return;
        }
        fds = more;
        room = watcher.count + 64;
    }
    fds[count++] = (struct pollfd){watcher.config.socket, POLLIN, 0};
    fds[count++] = (struct pollfd){watcher.children, POLLIN, 0};
    fds[count++] = (struct pollfd){watcher.config.parent, POLLIN, 0}; /* -1: none */
    for (size_t i = 0; i < watcher.count; i++) {
        const struct process *process = &watcher.processes[i];
        if (!process->ended && !(process->is_main && watcher.config.parent >= 0)) {
            fds[count++] = (struct pollfd){process->pidfd, POLLIN, 0};
            no_fd |= process->pidfd < 0;
        }
    }
    int timeout = no_fd ? NO_FD_MS : watcher.pipe ? watcher.pipe_ms : -1;
    (void)poll(fds, (nfds_t)count, timeout);
    watcher.pipe_ms = watcher.pipe_ms < PIPE_MS / 2 ? 2 * watcher.pipe_ms : PIPE_MS;
}

static bool goes_on(void)
{
    if (!watcher.processes[0].ended || !reports_are_over()) {
        return true;
    }
    if (!watcher.answered) {
        end_command();
        watcher.pipe |=
            watcher.terminal; /* nor is a terminal kept longer than by the command */
    }
    /* A list of /proc may be older than a child of a process that has ended since, as of
     * one that becomes a daemon. The next list has the child. */
    for (int lists = 0; lists < LISTS && live_count() == 0; lists++) {
        gs_watch_find_processes(found_process, NULL);
    }
    return live_count() > 0;
}

/* What the launcher inherited is not the watcher's to keep open. */
static void close_others(void)
{
    const int kept[] = {watcher.config.socket, watcher.config.main_fd,
                        watcher.config.parent};
    int last = STDERR_FILENO;
    for (size_t i = 0; i < GS_ARRAY_LEN(kept); i++) {
        last = kept[i] > last ? kept[i] : last;
    }
    for (int fd = STDERR_FILENO + 1; fd <= last; fd++) {
        if (fd != kept[0] && fd != kept[1] && fd != kept[2]) {
            close(fd);
        }
    }
    if (syscall(SYS_close_range, (unsigned)last + 1, ~0u, 0) == 0) {
        return;
    }
    /* A kernel before 5.9, or a container that refuses the call. */
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        long fd = strtol(entry->d_name, NULL, 10);
        if (fd > last && fd != dirfd(folder)) {
            close((int)fd);
        }
    }
    if (folder) {
        closedir(folder);
    }
}

/* pgrep -f finds the command, as natively, and not its watcher. */
static void hide_words(void)
{
    char **word = watcher.config.words, *begin = *word, *end = begin;
    for (; *word && *word == end; word++) {
        end += strlen(end) + 1;
    }
    memset(begin, 0, (size_t)(end - begin));
    (void)snprintf(begin, (size_t)(end - begin), "%s", NAME);
}

/* Where the launcher has no standard descriptors, others got their numbers. */
static void lift(int *fd)
{
    int above = *fd >= 0 && *fd <= STDERR_FILENO
                    ? fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                    : -1;
    if (above >= 0) {
        close(*fd);
        *fd = above;
    }
}

static void settle(void)
{
    sigset_t all;
    struct rlimit files;
    struct stat info;
    lift(&watcher.config.socket);
    lift(&watcher.config.main_fd);
    lift(&watcher.config.parent);
    int null = open("/dev/null", O_RDWR);
    sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)setsid();
    (void)prctl(PR_SET_NAME, NAME);
    hide_words();
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    if (fstat(STDERR_FILENO, &info) != 0) {
        (void)dup2(null, STDERR_FILENO);
    }
    watcher.pipe = fstat(STDERR_FILENO, &info) == 0 &&
                   (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
    watcher.terminal = isatty(STDERR_FILENO);
    close_others();
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (chdir("/") != 0) {
        return; /* the folder stays in use */
    }
}

void gs_watch_run(const struct gs_watch *watch)
{
    sigset_t children;
    watcher.config = *watch;
    settle();
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    watcher.children = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    /* settle() may have given the descriptors other numbers. */
    struct process *command = add_process(watcher.config.main, watcher.config.main_fd);
    if (!command) {
        _exit(1);
    }
    command->is_main = true;
    do {
        wait_for_news();
        receive_queue();
        wait_for_reporters();
        hear_parent();
        find_ended();
        start_reporters();
        release_pipe();
    } while (goes_on());
    _exit(0);
}
