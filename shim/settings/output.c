/*
 * output.c - see output.h.
 * Owns:  whether a reader is late.   Lock: none, atomic.
 */
#include "shim/settings/output.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/major.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "gs_wait.h"
#include "shim/settings/link_open.h"
#include "shim/settings/output_ours.h"
#include "shim/settings/progress.h"

#define NS_PER_MS 1000000ull

/* The longest wait for a full, non-blocking descriptor. */
#define WRITE_PATIENCE_MS 1000
/* Names tried for a new file. */
#define NAME_TRIES 1000

/* Atomic: a wait for a reader has timed out, and later texts do not wait for it again. */
static bool reader_is_late;

/* strerror may load a locale; this table has the errors of opening and appending. */
const char *gs_output_error_text(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return "permission denied";
    case ENOENT:
        return "no such file or directory";
    case ENOTDIR:
        return "not a directory";
    case EISDIR:
        return "is a directory";
    case EROFS:
        return "read-only file system";
    case ENOSPC:
    case EDQUOT:
        return "no space left";
    case EFBIG:
        return "file too large";
    case EMFILE:
    case ENFILE:
        return "too many open files";
    case ENAMETOOLONG:
        return "name too long";
    case EEXIST:
        return "exists";
    case ENOSYS:
    case EAFNOSUPPORT:
        return "the system does not allow the call";
    case EOPNOTSUPP:
        return "not possible on its file system";
    case ELOOP:
        return "a symbolic link is in the way";
    case ENXIO:
    case EPIPE:
    case ECONNREFUSED:
        return "no process reads it";
    case EAGAIN:
        return "its reader is too slow";
    case EPROTOTYPE:
        return "not a datagram socket";
    case ETXTBSY:
        return "is a running program";
    case ENOTUNIQ:
        return "not written by gpushim (--force replaces it)";
    case ENODATA:
        return "its data is missing: copy NAME.data with it";
    default:
        return "input/output error";
    }
}

/* ---- the shield ----------------------------------------------------------------- */

void gs_output_shield_raise(struct gs_output_shield *shield)
{
    sigset_t held;

    shield->saved_errno = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &shield->cancel_state);
    sigemptyset(&held);
    sigaddset(&held, SIGPIPE);
    sigaddset(&held, SIGXFSZ);
    sigaddset(&held, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &held, &shield->mask);
    sigpending(&shield->pending);
}

void gs_output_shield_lower(struct gs_output_shield *shield, int error)
{
    const int raised = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;

    if (raised && !sigismember(&shield->pending, raised)) {
        const struct timespec no_wait = {0, 0};
        sigset_t ours;

        sigemptyset(&ours);
        sigaddset(&ours, raised);
        while (sigtimedwait(&ours, NULL, &no_wait) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &shield->mask, NULL);
    pthread_setcancelstate(shield->cancel_state, &shield->cancel_state);
    errno = shield->saved_errno;
}

/* ---- writing -------------------------------------------------------------------- */

/* Returns true if the descriptor accepts a write before the deadline. Signals do not end
 * the wait. If poll(2) fails, the write will report the error. */
static bool has_space_until(int fd, uint64_t until_ns)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int found;

    do {
        uint64_t now = gs_now_ns();

        found =
            poll(&ready, 1, now < until_ns ? (int)((until_ns - now) / NS_PER_MS) + 1 : 0);
    } while (found < 0 && errno == EINTR);
    return found != 0;
}

/* Returns true if a write may wait for a reader, which in turn may wait for the end of
 * this process. A report must not delay anyone. The reader of a terminal is usually a
 * program. */
static bool has_reader(int fd)
{
    struct stat what;
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && !(flags & O_NONBLOCK) && fstat(fd, &what) == 0 &&
           (S_ISFIFO(what.st_mode) || S_ISSOCK(what.st_mode) ||
            (S_ISCHR(what.st_mode) && isatty(fd)));
}

/* The bytes to write at once to a descriptor with space: whole lines, if they fit. */
static size_t in_one_piece(const char *data, size_t length)
{
    const char *end;

    if (length <= PIPE_BUF) {
        return length;
    }
    end = memrchr(data, '\n', PIPE_BUF);
    return end ? (size_t)(end - data) + 1 : PIPE_BUF;
}

/* Returns true if opening the name again opens another file: /dev/ptmx creates a terminal
 * for each open, and /dev/tty is the terminal of the process that opens it. */
static bool is_another_when_opened(const struct stat *file)
{
    return S_ISCHR(file->st_mode) && major(file->st_rdev) == TTYAUX_MAJOR;
}

/* Writes without blocking, whatever the descriptor's flags. A pipe or a terminal is
 * opened again, since other processes share its flags; if that fails, the write may
 * block. */
static ssize_t write_now(int fd, const char *data, size_t length)
{
    struct stat what;
    char path[40];
    ssize_t n;
    int own = -1, error;
    bool known = fstat(fd, &what) == 0;

    if (known && S_ISSOCK(what.st_mode)) {
        return send(fd, data, length, MSG_DONTWAIT);
    }
    if (known && !is_another_when_opened(&what)) {
        snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
        own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    }
    n = write(own >= 0 ? own : fd, data, length);
    error = errno;
    if (own >= 0) {
        close(own);
    }
    errno = error;
    return n;
}

/* Like write(2), once the reader has made space; EAGAIN: the reader does not. Sleeps
 * between attempts if other writers took the space first, or if it is too small. */
static ssize_t write_to_reader(int fd, const char *data, size_t length)
{
    bool late = __atomic_load_n(&reader_is_late, __ATOMIC_RELAXED);
    struct gs_wait wait = {.nap_ns = NS_PER_MS,
                           .until_ns = gs_now_ns() +
                                       (late ? 0 : GS_OUTPUT_PATIENCE_MS * NS_PER_MS)};
    ssize_t n = -1;
    int error = EAGAIN;

    do {
        if (!has_space_until(fd, wait.until_ns)) {
            break;
        }
        n = write_now(fd, data, in_one_piece(data, length));
        error = n < 0 ? errno : 0;
    } while (error == EAGAIN && gs_wait_step(&wait));
    __atomic_store_n(&reader_is_late, error == EAGAIN, __ATOMIC_RELAXED);
    errno = error;
    return n;
}

/* Writes all of the data; see gs_output_write. The shield is raised. */
static int write_all(int fd, const char *data, size_t length, size_t *done)
{
    const bool read = has_reader(fd);

    *done = 0;
    while (*done < length) {
        ssize_t n = read ? write_to_reader(fd, data + *done, length - *done)
                         : write(fd, data + *done, length - *done);

        if (n > 0) {
            *done += (size_t)n;
            gs_progress_tick();
        } else if (n == 0) {
            return EIO;
        } else if (errno == EAGAIN) {
            if (read ||
                !has_space_until(fd, gs_now_ns() + WRITE_PATIENCE_MS * NS_PER_MS)) {
                return EAGAIN;
            }
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int gs_output_write(int fd, const char *data, size_t length, size_t *done)
{
    struct gs_output_shield shield;
    int error;

    gs_output_shield_raise(&shield);
    error = write_all(fd, data, length, done);
    gs_output_shield_lower(&shield, error);
    return error;
}

/* Removes a new file that got nothing: on a full disk an empty one would remain. */
static void remove_empty(const char *path, int fd)
{
    struct stat there;

    if (fstat(fd, &there) == 0 && S_ISREG(there.st_mode) && there.st_size == 0) {
        unlink(path);
    }
}

int gs_output_append(const char *path, const char *data, size_t length, size_t *done)
{
    struct gs_output_shield shield;
    int fd, error;
    bool created;

    *done = 0;
    gs_output_shield_raise(&shield);
    fd = gs_link_open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, NULL);
    created = fd >= 0;
    if (!created && errno == EEXIST) {
        fd = gs_link_open(path, O_WRONLY | O_CREAT | O_APPEND, NULL);
    }
    error = fd < 0 ? errno : write_all(fd, data, length, done);
    if (created && error && *done == 0) {
        remove_empty(path, fd);
    }
    if (fd >= 0) {
        close(fd);
    }
    gs_output_shield_lower(&shield, error);
    return error;
}

/* ---- whole files ---------------------------------------------------------------- */
/* Makes a short name in the folder of `path`: renaming will detect a name that is too
 * long. */
static int make_temporary_name(struct gs_output_file *file, unsigned turn)
{
    const char *slash = strrchr(file->path, '/');
    int folder = slash ? (int)(slash + 1 - file->path) : 0;
    int length = snprintf(file->temporary, sizeof(file->temporary), "%.*s.gpushim.%ld.%u",
                          folder, file->path, (long)getpid(), turn);

    return length > 0 && (size_t)length < sizeof(file->temporary) ? 0 : ENAMETOOLONG;
}

static void open_temporary(struct gs_output_file *file)
{
    for (unsigned turn = 0; turn < NAME_TRIES; turn++) {
        file->error = make_temporary_name(file, turn);
        if (file->error) {
            return;
        }
        file->fd = gs_link_open(file->temporary, O_WRONLY | O_CREAT | O_EXCL, NULL);
        file->error = file->fd < 0 ? errno : 0;
        if (file->error != EEXIST) {
            return;
        }
    }
}

/* Opens a device or a pipe, which must not be replaced by a new file. A regular file is
 * accepted only through a link of the kernel's to a file that the program has open, such
 * as /dev/stdout: the output continues at the program's offset. */
static void open_direct(struct gs_output_file *file)
{
    enum gs_link followed;
    struct stat info;

    file->direct = true;
    file->fd = gs_link_open(file->path, O_WRONLY | O_APPEND, &followed);
    file->error = file->fd < 0 ? errno : 0;
    if (file->fd < 0) {
        return;
    }
    if (fstat(file->fd, &info) != 0) {
        file->error = errno;
    } else if (S_ISREG(info.st_mode) && followed != GS_LINK_KERNELS) {
        file->error = ELOOP;
    } else if (S_ISSOCK(info.st_mode)) {
        file->error =
            ENXIO; /* the program's own socket: a write may wait for its reader */
    }
    if (file->error) {
        close(file->fd);
        file->fd = -1;
    }
}

void gs_output_file_open(struct gs_output_file *file, const char *path)
{
    struct stat there;

    file->fd = -1;
    file->error = 0;
    file->direct = false;
    file->path = path;
    file->temporary[0] = '\0';
    gs_output_shield_raise(&file->shield);
    if (lstat(path, &there) == 0 && S_ISREG(there.st_mode) && !gs_output_is_ours(path)) {
        file->error = ENOTUNIQ;
    } else if (lstat(path, &there) != 0 || S_ISREG(there.st_mode)) {
        open_temporary(file); /* open will report the error of lstat, too */
    } else {
        open_direct(file);
    }
}

bool gs_output_file_write(void *self, const void *data, size_t length)
{
    struct gs_output_file *file = self;
    size_t done;

    if (!file->error) {
        file->error = write_all(file->fd, data, length, &done);
    }
    return !file->error;
}

int gs_output_file_close(struct gs_output_file *file, bool keep)
{
    /* A quota, or a network file system, may report a full disk only at close. */
    if (file->fd >= 0 && close(file->fd) != 0 && !file->error && errno != EINTR) {
        file->error = errno;
    }
    if (file->fd >= 0 && !file->direct) {
        if (keep && !file->error && rename(file->temporary, file->path) != 0) {
            file->error = errno;
        }
        if (!keep || file->error) {
            unlink(file->temporary);
        }
    }
    file->fd = -1;
    gs_output_shield_lower(&file->shield, file->error);
    return file->error;
}
