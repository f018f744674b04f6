/*
 * log.c - the output of all text of the shim: stderr, or the file that the user named.
 *
 * Role:  formats lines, and writes whole lines without ever harming the host: log.h has
 *        the guarantees. log_pattern.c resolves file names.
 * Owns:  the main log's file and the verbosity.
 * Lock:  none. The settings from the start are published by one release store; the rest
 *        is atomic.
 *
 * vsnprintf is not on POSIX's list of async-signal-safe functions; glibc's neither
 * allocates nor locks for the plain conversions used here (no positional arguments, no
 * floating point, no wide characters).
 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/major.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "gs_printable.h"
#include "gs_room.h"
#include "gs_wait.h"
#include "link_open.h"
#include "log_pattern.h"
#include "progress.h"
#include "shield.h"

#define NS_PER_MS 1000000ull

/* The longest wait for a full, non-blocking descriptor; */
#define WRITE_PATIENCE_MS 1000
/* and for the reader of a full pipe, socket or terminal that would block, before the
 * remaining text is dropped. */
#define READER_PATIENCE_MS GS_LOG_PATIENCE_MS

static const char line_prefix[] = "gpushim: ";

/* Each field documents its own access. */
static struct gs_log_file main_file;
/* The state of descriptor 2 when the library was loaded. Atomic, `known` last. */
enum { STDERR_UNASKED, STDERR_KNOWN, STDERR_CLOSED };
static struct {
    int known;
    uint64_t device, inode;
} first_stderr;
/* Atomic. */
static unsigned verbosity = GS_LOG_WARN;

/* Atomic: a wait for a reader has timed out, and later texts do not wait for it again. */
static bool reader_is_late;

/* ---- Protecting the host --------------------------------------------------------- */

/* Whether a write may wait for a reader, which in turn may wait for the end of this
 * process. A report must not delay anyone. The reader of a terminal is usually a
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

    if (length <= PIPE_BUF)
        return length;
    end = memrchr(data, '\n', PIPE_BUF);
    return end ? (size_t)(end - data) + 1 : PIPE_BUF;
}

/* Whether opening the name again opens another file: /dev/ptmx creates a terminal for
 * each open, and /dev/tty is the terminal of the process that opens it. */
static bool is_another_when_opened(const struct stat *file)
{
    return S_ISCHR(file->st_mode) && major(file->st_rdev) == TTYAUX_MAJOR;
}

/* A write(2) that does not block, whatever the descriptor's flags: a pipe or a terminal
 * is opened again for this, since the program and other processes share the flag. Blocks
 * if it cannot be opened again. */
static ssize_t write_now(int fd, const char *data, size_t length)
{
    struct stat what;
    char path[40];
    ssize_t n;
    int own = -1, error;
    bool known = fstat(fd, &what) == 0;

    if (known && S_ISSOCK(what.st_mode))
        return send(fd, data, length, MSG_DONTWAIT);
    if (known && !is_another_when_opened(&what)) {
        snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
        own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    }
    n = write(own >= 0 ? own : fd, data, length);
    error = errno;
    if (own >= 0)
        close(own);
    errno = error;
    return n;
}

/* Like write(2), once the reader has made space; EAGAIN: the reader does not. Sleeps
 * between attempts if other writers took the space first, or if it is too small. */
static ssize_t write_to_reader(int fd, const char *data, size_t length)
{
    bool late = __atomic_load_n(&reader_is_late, __ATOMIC_RELAXED);
    struct gs_wait wait = {.nap_ns = NS_PER_MS,
                           .until_ns =
                               gs_now_ns() + (late ? 0 : READER_PATIENCE_MS * NS_PER_MS)};
    ssize_t n = -1;
    int error = EAGAIN;

    do {
        if (!gs_room_until(fd, wait.until_ns))
            break;
        n = write_now(fd, data, in_one_piece(data, length));
        error = n < 0 ? errno : 0;
    } while (error == EAGAIN && gs_wait_step(&wait));
    __atomic_store_n(&reader_is_late, error == EAGAIN, __ATOMIC_RELAXED);
    errno = error;
    return n;
}

/*
 * Writes all of the data.
 * Out:    *done  bytes written, also on failure
 * Returns 0 or the errno of the failure.
 */
static int write_fully(struct gs_shield *shield, int fd, const char *data, size_t length,
                       size_t *done)
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
            if (read || !gs_room_until(fd, gs_now_ns() + WRITE_PATIENCE_MS * NS_PER_MS))
                return EAGAIN;
        } else if (errno != EINTR) {
            if (errno == EPIPE || errno == EFBIG)
                shield->signal_raised = true;
            return errno;
        }
    }
    return 0;
}

/* ---- Files ------------------------------------------------------------------------ */

enum { NAME_UNRESOLVED, NAME_IN_WORK, NAME_RESOLVED };

/* strerror may load a locale; this table has the errors of opening and appending. */
const char *gs_log_error_text(int error)
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
    case EOPNOTSUPP:
        return "not possible on its file system";
    case ELOOP:
        return "a symbolic link is in the way";
    case ENXIO:
    case EPIPE:
        return "nobody reads it";
    case EAGAIN:
        return "its reader is too slow";
    case ETXTBSY:
        return "is a running program";
    default:
        return "input/output error";
    }
}

/* ---- Standard error ---------------------------------------------------------------- */

void gs_log_know_stderr(void)
{
    struct stat now;
    int saved_errno = errno;
    bool there = fstat(STDERR_FILENO, &now) == 0;

    __atomic_store_n(&first_stderr.device, there ? (uint64_t)now.st_dev : 0,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&first_stderr.inode, there ? (uint64_t)now.st_ino : 0,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&first_stderr.known, there ? STDERR_KNOWN : STDERR_CLOSED,
                     __ATOMIC_RELEASE);
    errno = saved_errno;
}

static bool is_file(int fd, const struct stat *file)
{
    struct stat other;

    return fstat(fd, &other) == 0 && other.st_dev == file->st_dev &&
           other.st_ino == file->st_ino;
}

static bool is_write_only(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_ACCMODE) == O_WRONLY;
}

static bool is_appended_to(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_APPEND) != 0;
}

/* Whether the descriptor is the other end of a pipe that pipe(2) created on two closed
 * standard descriptors. */
static bool is_read_from(int fd, const struct stat *pipe)
{
    return is_file(fd, pipe) && !is_write_only(fd);
}

/* Whether the program can only have meant this file as its stderr. See log.h. */
static bool is_redirection(const struct stat *now)
{
    struct statfs system;

    if (!is_write_only(STDERR_FILENO))
        return false;
    if (S_ISREG(now->st_mode))
        return is_file(STDOUT_FILENO, now) || is_appended_to(STDERR_FILENO);
    /* Not a named FIFO, which open may have returned. */
    return S_ISFIFO(now->st_mode) && fstatfs(STDERR_FILENO, &system) == 0 &&
           system.f_type == PIPEFS_MAGIC && !is_read_from(STDIN_FILENO, now) &&
           !is_read_from(STDOUT_FILENO, now);
}

/* Whether descriptor 2 still is the file where a user reads this program's messages. */
static bool is_stderr(void)
{
    struct stat now;
    int known = __atomic_load_n(&first_stderr.known, __ATOMIC_ACQUIRE);

    if (known == STDERR_UNASKED) { /* another library's constructor calls CUDA */
        gs_log_know_stderr();
        known = __atomic_load_n(&first_stderr.known, __ATOMIC_ACQUIRE);
    }
    if (fstat(STDERR_FILENO, &now) != 0)
        return false;
    return (known == STDERR_KNOWN &&
            __atomic_load_n(&first_stderr.device, __ATOMIC_RELAXED) ==
                (uint64_t)now.st_dev &&
            __atomic_load_n(&first_stderr.inode, __ATOMIC_RELAXED) ==
                (uint64_t)now.st_ino) ||
           is_redirection(&now);
}

/* A failure to write to stderr is not reported anywhere. */
static void write_stderr(struct gs_shield *shield, const char *data, size_t length)
{
    size_t done;

    if (!is_stderr())
        return;
    (void)write_fully(shield, STDERR_FILENO, data, length, &done);
}

/* Reports the first failure on stderr; all later text of this file goes there, too. */
static void file_failed(struct gs_shield *shield, struct gs_log_file *file,
                        const char *path, int error)
{
    char line[GS_LOG_LINE_BYTES];

    if (__atomic_exchange_n(&file->broken, 1, __ATOMIC_RELAXED))
        return;
    snprintf(line, sizeof(line) - 1, "%s%s: cannot write %.800s: %s; writing to stderr",
             line_prefix, file->variable, path, gs_log_error_text(error));
    gs_make_printable(line, false);
    strcat(line, "\n");
    write_stderr(shield, line, strlen(line));
}

/*
 * The current name of the file. The first thread resolves the fixed parts once. Another
 * thread that comes meanwhile, or a signal handler, resolves them for itself.
 */
static enum gs_status file_path(struct gs_log_file *file, struct gs_log_names *names)
{
    int state = NAME_UNRESOLVED;
    enum gs_status status;

    if (__atomic_load_n(&file->state, __ATOMIC_ACQUIRE) == NAME_RESOLVED)
        return gs_log_pattern_finish(file->resolved, names->second,
                                     sizeof(names->second));
    status = gs_log_pattern_resolve(file->pattern, names->first, sizeof(names->first));
    if (status != GS_OK)
        return status;
    if (__atomic_compare_exchange_n(&file->state, &state, NAME_IN_WORK, false,
                                    __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        strcpy(file->resolved, names->first);
        __atomic_store_n(&file->state, NAME_RESOLVED, __ATOMIC_RELEASE);
    }
    return gs_log_pattern_finish(names->first, names->second, sizeof(names->second));
}

/* Appends to a file by its name; returns the number of bytes not written. */
static size_t path_append(struct gs_shield *shield, struct gs_log_file *file,
                          const char *path, const char *data, size_t length)
{
    size_t done = 0;
    int fd, error;

    fd = gs_link_open(path, O_WRONLY | O_CREAT | O_APPEND, NULL);
    if (fd < 0) {
        file_failed(shield, file, path, errno);
        return length;
    }
    error = write_fully(shield, fd, data, length, &done);
    close(fd);
    if (error)
        file_failed(shield, file, path, error);
    return length - done;
}

/* Appends to the file; returns the number of bytes not written. */
static size_t file_append(struct gs_shield *shield, struct gs_log_file *file,
                          const char *data, size_t length)
{
    struct gs_log_names *names;
    size_t rest = length;

    if (__atomic_load_n(&file->broken, __ATOMIC_RELAXED))
        return length;
    names = gs_log_names_take();
    if (!names)
        return length; /* no memory now; the next text may have some */
    if (file_path(file, names) != GS_OK)
        file_failed(shield, file, file->pattern, ENAMETOOLONG);
    else
        rest = path_append(shield, file, names->second, data, length);
    gs_log_names_give(names);
    return rest;
}

void gs_log_file_open(struct gs_log_file *file, const char *variable, const char *pattern)
{
    int saved_errno = errno;

    gs_log_pattern_start((int64_t)time(NULL));
    if (pattern && *pattern && strlen(pattern) < PATH_MAX &&
        !gs_log_pattern_problem(pattern)) {
        strcpy(file->pattern, pattern);
        gs_log_pattern_make_absolute(file->pattern);
        __atomic_store_n(&file->variable, variable, __ATOMIC_RELEASE);
    }
    errno = saved_errno;
}

bool gs_log_file_used(const struct gs_log_file *file)
{
    return __atomic_load_n(&file->variable, __ATOMIC_ACQUIRE) != NULL;
}

void gs_log_file_write(struct gs_log_file *file, const char *data, size_t length)
{
    struct gs_shield shield;
    size_t rest;

    if (!gs_log_file_used(file) || length == 0)
        return;
    gs_shield_raise(&shield);
    rest = file_append(&shield, file, data, length);
    write_stderr(&shield, data + (length - rest), rest);
    gs_shield_lower(&shield);
}

/* ---- The main log ----------------------------------------------------------------- */

void gs_log_open(const char *pattern, unsigned wanted_verbosity)
{
    __atomic_store_n(&verbosity, wanted_verbosity, __ATOMIC_RELAXED);
    gs_log_file_open(&main_file, "GPUSHIM_LOG_FILE", pattern);
}

bool gs_log_enabled(enum gs_log_level level)
{
    return (unsigned)level <= __atomic_load_n(&verbosity, __ATOMIC_RELAXED);
}

void gs_log_text(const char *data, size_t length)
{
    struct gs_shield shield;

    if (gs_log_file_used(&main_file)) {
        gs_log_file_write(&main_file, data, length);
        return;
    }
    gs_shield_raise(&shield);
    write_stderr(&shield, data, length);
    gs_shield_lower(&shield);
}

/* Writes one line: prefix, text, ending; cuts it if it is too long. */
static void write_line(const char *format, va_list arguments, const char *ending)
{
    char line[GS_LOG_LINE_BYTES + 1];
    int saved_errno = errno;
    char *text = stpcpy(line, line_prefix);
    char *limit = line + GS_LOG_LINE_BYTES - strlen(ending) - 1; /* the newline */
    int wanted = vsnprintf(text, (size_t)(limit - text) + 1, format, arguments);

    if (wanted > limit - text)
        text = stpcpy(limit - 3, "...");
    else if (wanted > 0)
        text += wanted;
    gs_make_printable(line, false);
    text = stpcpy(stpcpy(text, ending), "\n");
    gs_log_text(line, (size_t)(text - line));
    errno = saved_errno;
}

void gs_log_line(enum gs_log_level level, const char *format, ...)
{
    va_list arguments;

    if (!gs_log_enabled(level))
        return;
    va_start(arguments, format);
    write_line(format, arguments, "");
    va_end(arguments);
}

/* The number of this message, from 1 on. 0: over the limit. */
static unsigned limit_take(struct gs_log_limit *limit, unsigned most)
{
    unsigned before;

    /* Read first, so that a counter in a hot loop can never wrap around. */
    if (__atomic_load_n(&limit->count, __ATOMIC_RELAXED) >= most)
        return 0;
    before = __atomic_fetch_add(&limit->count, 1, __ATOMIC_RELAXED);
    return before < most ? before + 1 : 0;
}

void gs_log_once(struct gs_log_limit *limit, enum gs_log_level level, const char *format,
                 ...)
{
    va_list arguments;

    if (!gs_log_enabled(level) || limit_take(limit, 1) == 0)
        return;
    va_start(arguments, format);
    write_line(format, arguments, "");
    va_end(arguments);
}

void gs_log_limited(struct gs_log_limit *limit, unsigned most, enum gs_log_level level,
                    const char *format, ...)
{
    va_list arguments;
    unsigned turn = gs_log_enabled(level) ? limit_take(limit, most) : 0;

    if (turn == 0)
        return;
    va_start(arguments, format);
    write_line(format, arguments,
               turn == most ? " (further lines of this kind are not shown)" : "");
    va_end(arguments);
}
