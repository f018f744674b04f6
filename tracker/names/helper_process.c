/*
 * helper_process.c - starts a child from inside a process that belongs to the program.
 *
 * Owns:  nothing: the child and its two descriptors are the caller's.   Lock: none.
 * Design: docs/stacks.md
 *
 * The process has threads, handlers and habits of its own:
 *   - posix_spawn, never fork: no handler of pthread_atfork runs, nothing is copied;
 *   - the child's environment is a copy of the process's without LD_PRELOAD and GPUSHIM_*
 *     (it must not track itself) and without DEBUGINFOD_URLS (a report queries no
 *     server). No other code of tracker/ reads the environment;
 *   - the child gets its own process group, default signal actions, no blocked signals;
 *   - its standard input is a socket, not a pipe: MSG_NOSIGNAL keeps a child that ends
 *     early from sending the program SIGPIPE;
 *   - if a thread waits for any child to end, no child is started (child_waits.h);
 *   - waitpid for this child only; if the program ignores SIGCHLD or reaps everything,
 *     ECHILD means that the child is gone. It is killed only while it is certainly ours.
 */
#include "gs_string.h"
#include "gs_wait.h"
#include "tracker/names/child_waits.h"
#include "tracker/names/helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_BYTES    ((size_t)16 << 10)     /* unless the job says otherwise */
#define REAP_STEP_NS  1000000u               /* between two checks of an ending child */
#define KILL_PATIENCE ((uint64_t)1000000000) /* ns for a killed child to end */
#define END_PATIENCE  ((uint64_t)200000000)  /* ns for a child without output to end */
#define FIRST_FREE_FD 3

/* Output collected so far that has no newline yet. */
struct line_buffer {
    char data[4096]; /* the last read */
    size_t used;
    bool cutting; /* the rest of a long line is dropped */
    size_t bytes; /* of text */
    char text[];
};

char *const *(*gs_helper_variables)(void);

/* The strings are the program's own; only the array is new. NULL: no memory. */
static char **clean_environment(void)
{
    char *const *all = gs_helper_variables != NULL ? gs_helper_variables() : environ;
    size_t count = 0, kept = 0;
    char **clean;

    while (all != NULL && all[count] != NULL) {
        count++;
    }
    clean = malloc((count + 1) * sizeof(*clean));
    if (clean == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (!gs_starts_with(all[i], "LD_PRELOAD=") &&
            !gs_starts_with(all[i], "GPUSHIM_") &&
            !gs_starts_with(all[i], "DEBUGINFOD_URLS=")) {
            clean[kept++] = all[i];
        }
    }
    clean[kept] = NULL;
    return clean;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* Moves a descriptor above the standard ones. A program that closed its standard streams
 * gets their numbers for new descriptors, and the child's redirections would then
 * overwrite each other. */
static bool move_up(int *fd)
{
    int moved;

    if (*fd >= FIRST_FREE_FD) {
        return true;
    }
    moved = fcntl(*fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    if (moved < 0) {
        return false;
    }
    close(*fd);
    *fd = moved;
    return true;
}

static bool set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    return posix_spawnattr_setsigmask(attributes, &none) == 0 &&
           posix_spawnattr_setsigdefault(attributes, &all) == 0 &&
           posix_spawnattr_setpgroup(attributes, 0) == 0 &&
           posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF |
                                                    POSIX_SPAWN_SETPGROUP) == 0;
}

/* The program's path, by PATH of these variables: posix_spawnp would read `environ`. The
 * caller frees it. NULL: there is none, or no memory. */
static char *find_program(const char *name, char *const *variables)
{
    const char *folders = "/usr/bin:/bin";

    for (; *variables != NULL; variables++) {
        if (gs_starts_with(*variables, "PATH=")) {
            folders = *variables + strlen("PATH=");
            break;
        }
    }
    if (strchr(name, '/') != NULL) {
        folders = "";
    }
    char *path = malloc(strlen(folders) + strlen(name) + 2);
    while (path != NULL) {
        size_t length = strcspn(folders, ":");
        memcpy(path, folders, length);
        path[length] = '/';
        strcpy(path + (length > 0 ? length + 1 : 0), name);
        if (faccessat(AT_FDCWD, path, X_OK, 0) == 0) {
            return path;
        }
        if (folders[length] == '\0') {
            free(path);
            return NULL;
        }
        folders += length + 1;
    }
    return NULL;
}

/* Returns posix_spawn's result: 0 or an errno. */
static int spawn(const char *const *argv, char **environment, int in, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = ENOMEM;
    char *path = find_program(argv[0], environment);

    if (path == NULL) {
        return ENOENT;
    }
    if (posix_spawn_file_actions_init(&actions) != 0) {
        goto out_path;
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        goto out_actions;
    }
    if (posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO) != 0 ||
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY,
                                         0) != 0 ||
        !set_attributes(&attributes)) {
        goto out_attributes;
    }
    error =
        posix_spawn(pid, path, &actions, &attributes, (char *const *)argv, environment);
out_attributes:
    posix_spawnattr_destroy(&attributes);
out_actions:
    posix_spawn_file_actions_destroy(&actions);
out_path:
    free(path);
    return error;
}

static bool set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

static enum gs_status start_child(struct gs_helper *child, const char *const *argv)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, error = EIO;
    char **environment = clean_environment();

    if (environment != NULL &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) == 0 &&
        pipe2(out, O_CLOEXEC) == 0 && move_up(&in[0]) && move_up(&in[1]) &&
        move_up(&out[0]) && move_up(&out[1]) && set_nonblocking(in[1]) &&
        set_nonblocking(out[0])) {
        error = spawn(argv, environment, in[0], out[1], &child->pid);
    }
    free(environment);
    close_fd(&in[0]);
    close_fd(&out[1]);
    if (error != 0) {
        child->pid = 0;
        close_fd(&in[1]);
        close_fd(&out[0]);
        return error == ENOENT || error == EACCES || error == ENOTDIR ? GS_ERR_NOT_FOUND
                                                                      : GS_ERR_IO;
    }
    child->to = in[1];
    child->from = out[0];
    return GS_OK;
}

/* Passes on the lines in `data`. False: the receiver wants no more. */
static bool take_output(const struct gs_helper_job *job, struct line_buffer *lines,
                        const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] == '\n') {
            lines->text[lines->used] = '\0';
            lines->used = 0;
            lines->cutting = false;
            if (!job->take_line(job->context, lines->text)) {
                return false;
            }
        } else if (lines->used == lines->bytes - 1) {
            lines->cutting = true;
        } else if (!lines->cutting && data[i] != '\0') {
            lines->text[lines->used++] = data[i];
        }
    }
    return true;
}

/* Writes as much input as the child takes now. Closes the input when the child reads no
 * more, or when all is written and the child does not stay. */
static void feed(const struct gs_helper_job *job, struct gs_helper *child, size_t *given)
{
    ssize_t sent =
        send(child->to, job->input + *given, job->input_bytes - *given, MSG_NOSIGNAL);

    if (sent > 0) {
        *given += (size_t)sent;
    } else if (errno == EAGAIN || errno == EINTR) {
        return;
    }
    if (sent <= 0 || (*given == job->input_bytes && !job->stays)) {
        close_fd(&child->to);
    }
}

/* Reads output. False: the output has ended, or the receiver wants no more. */
static bool drain(const struct gs_helper_job *job, struct gs_helper *child,
                  struct line_buffer *lines)
{
    ssize_t got = read(child->from, lines->data, sizeof(lines->data));

    if (got > 0) {
        return take_output(job, lines, lines->data, (size_t)got);
    }
    return got < 0 && (errno == EAGAIN || errno == EINTR);
}

static int milliseconds_left(uint64_t deadline_ns)
{
    uint64_t now = gs_now_ns(), left;

    if (now >= deadline_ns) {
        return 0;
    }
    left = (deadline_ns - now + 999999) / 1000000;
    return left > 60000 ? 60000 : (int)left;
}

/* Writes input and reads output until the output ends. GS_ERR_TIMEOUT at the deadline. */
static enum gs_status exchange(const struct gs_helper_job *job, struct gs_helper *child,
                               struct line_buffer *lines)
{
    size_t given = 0;

    if (job->input_bytes == 0) {
        close_fd(&child->to);
    }
    for (;;) {
        struct pollfd fds[2] = {
            {child->from, POLLIN, 0},
            {given < job->input_bytes ? child->to : -1, POLLOUT, 0},
        };
        int left = milliseconds_left(job->deadline_ns);

        if (left == 0) {
            return GS_ERR_TIMEOUT;
        }
        if (poll(fds, 2, left) < 0) {
            if (errno != EINTR) {
                return GS_ERR_IO;
            }
            continue;
        }
        if (fds[1].revents != 0) {
            feed(job, child, &given);
        }
        if (fds[0].revents != 0 && !drain(job, child, lines)) {
            return GS_OK;
        }
    }
}

/* Returns true if the child is gone. Reaps it. */
static bool is_gone(pid_t pid)
{
    pid_t got;

    do {
        got = waitpid(pid, NULL, WNOHANG);
    } while (got < 0 && errno == EINTR);
    return got != 0; /* pid: reaped now; -1, ECHILD: reaped by other code */
}

static bool wait_until(pid_t pid, uint64_t deadline_ns)
{
    struct gs_wait wait = {.nap_ns = REAP_STEP_NS, .until_ns = deadline_ns};

    while (!is_gone(pid)) {
        if (!gs_wait_step(&wait)) {
            return false;
        }
    }
    return true;
}

/* Gives the child a short time to end by itself, within the deadline, then kills its
 * process group. A child that cannot be killed (stuck in the kernel) is left behind. */
void gs_helper_end(struct gs_helper *child, uint64_t deadline_ns)
{
    uint64_t own_end_ns = gs_now_ns() + END_PATIENCE;
    pid_t pid = child->pid;

    if (pid == 0) {
        return;
    }
    child->pid = 0;
    close_fd(&child->to);
    close_fd(&child->from);
    if (wait_until(pid, own_end_ns < deadline_ns ? own_end_ns : deadline_ns)) {
        return;
    }
    kill(-pid, SIGKILL);
    (void)wait_until(pid, gs_now_ns() + KILL_PATIENCE);
}

enum gs_status gs_helper_run(struct gs_helper *child, const struct gs_helper_job *job)
{
    size_t bytes = job->line_bytes != 0 ? job->line_bytes : LINE_BYTES;
    struct line_buffer *lines = calloc(1, sizeof(*lines) + bytes);
    enum gs_status status = GS_OK;

    if (lines == NULL) {
        return GS_ERR_IO;
    }
    lines->bytes = bytes;
    if (child->pid == 0) {
        status = gs_child_waits() ? GS_ERR_BUSY : start_child(child, job->argv);
    }
    if (status == GS_OK) {
        status = exchange(job, child, lines);
    }
    if (status != GS_OK || !job->stays) {
        gs_helper_end(child, job->deadline_ns);
    }
    free(lines);
    return status;
}
